// SPDX-License-Identifier: MIT OR Apache-2.0
// The counter of a neuron. It starts with 0, or, if START is 1, with minus LENGTH times the `ones` of
// the cycle of `init`, which are the negative products. It holds its value unless `init` or `run`.
`default_nettype none

module al_accumulator #(
    parameter ONES = 7,
    parameter COUNT = 13,
    parameter START = 0,
    parameter LENGTH = 64
) (
    input  wire             clk,
    input  wire             init,
    input  wire             run,
    input  wire [ ONES-1:0] ones,
    output reg  [COUNT-1:0] count
);
    localparam [COUNT-1:0] BITS = LENGTH[COUNT-1:0];
    wire [COUNT-1:0] more = {{(COUNT - ONES) {1'b0}}, ones};
    wire [COUNT-1:0] first;
    generate
        if (START == 1) begin : from_signs
            assign first = {COUNT{1'b0}} - more * BITS;
        end else begin : from_zero
            assign first = {COUNT{1'b0}};
        end
    endgenerate
    always @(posedge clk)
        if (init) count <= first;
        else if (run) count <= count + more;
endmodule

`default_nettype wire
