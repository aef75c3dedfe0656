// SPDX-License-Identifier: MIT OR Apache-2.0
// The register of an accumulative parallel counter, whose adders compute `sum`, the ones of a cycle
// plus `addend`. `init` clears it or, if START is 1, sets it to -1 minus LENGTH times the ones of
// that cycle, which are the negative products. It holds its value unless `init` or `run`. With
// GATED, `clk` has edges only in cycles of `init` or `run`.
`default_nettype none

module al_accumulator #(
    parameter COUNT = 13,
    parameter START = 0,
    parameter LENGTH = 64,
    parameter GATED = 0
) (
    input  wire             clk,
    input  wire             init,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire             run,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire [COUNT-1:0] sum,
    output wire [COUNT-1:0] addend,
    output reg  [COUNT-1:0] count
);
    localparam [COUNT-1:0] BITS = LENGTH[COUNT-1:0];
    wire [COUNT-1:0] next;
    generate
        if (START == 1) begin : from_signs
            assign addend = count & {COUNT{!init}};
            assign next = init ? ~(sum * BITS) : sum;
        end else begin : from_zero
            assign addend = count;
            assign next = sum & {COUNT{!init}};
        end
    endgenerate
    always @(posedge clk) if (GATED != 0 || init || run) count <= next;
endmodule

`default_nettype wire
