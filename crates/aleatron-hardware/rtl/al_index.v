// SPDX-License-Identifier: MIT OR Apache-2.0
// The index of the next word of a stream, modulo PERIOD.
`default_nettype none

module al_index #(
    parameter PERIOD = 1,
    parameter INDEX = 1
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             step,
    output reg  [INDEX-1:0] index
);
    localparam integer LAST = PERIOD - 1;
    always @(posedge clk)
        if (rst) index <= {INDEX{1'b0}};
        else if (step) index <= index == LAST[INDEX-1:0] ? {INDEX{1'b0}} : index + 1'b1;
endmodule

`default_nettype wire
