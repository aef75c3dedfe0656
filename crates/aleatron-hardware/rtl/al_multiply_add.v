// SPDX-License-Identifier: MIT OR Apache-2.0
// A multiplier of magnitudes with an accumulator: adds x * w, or subtracts it if `negative`. `init`
// clears the accumulator. It holds its value unless `init` or `run`. With GATED, `clk` has edges
// only in cycles of `init` or `run`. COUNT is greater than 2 * WIDTH.
`default_nettype none

module al_multiply_add #(
    parameter WIDTH = 7,
    parameter COUNT = 21,
    parameter GATED = 0
) (
    input  wire             clk,
    input  wire             init,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire             run,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire [WIDTH-1:0] x,
    input  wire [WIDTH-1:0] w,
    input  wire             negative,
    output reg  [COUNT-1:0] count
);
    wire [2*WIDTH-1:0] product = x * w;
    wire [COUNT-1:0] term = {{(COUNT - 2 * WIDTH) {1'b0}}, product} ^ {COUNT{negative}};
    wire [COUNT-1:0] next = count + term + {{(COUNT - 1) {1'b0}}, negative};
    always @(posedge clk) if (GATED != 0 || init || run) count <= next & {COUNT{!init}};
endmodule

`default_nettype wire
