// SPDX-License-Identifier: MIT OR Apache-2.0
// floor(value * multiplier / 2^SHIFT + 1/2): a multiplier and a right shift that rounds half up.
`default_nettype none

module al_scale #(
    parameter A = 22,      // bits of the value
    parameter M = 16,      // bits of the multiplier, which is not negative
    parameter SHIFT = 8,
    parameter P = 40,      // bits of the product
    parameter R = 32       // bits of the result
) (
    input  wire signed [A-1:0] value,
    input  wire        [M-1:0] multiplier,
    output wire        [R-1:0] result
);
    localparam [P-1:0] HALF = SHIFT == 0 ? {P{1'b0}} : {{(P - 1) {1'b0}}, 1'b1} << (SHIFT == 0 ? 0 : SHIFT - 1);
    wire signed [P-1:0] wide_value = {{(P - A) {value[A-1]}}, value};
    wire signed [P-1:0] wide_multiplier = {{(P - M) {1'b0}}, multiplier};
    wire signed [P-1:0] product = wide_value * wide_multiplier + $signed(HALF);
    /* verilator lint_off UNUSEDSIGNAL */
    wire signed [P-1:0] scaled = product >>> SHIFT;
    /* verilator lint_on UNUSEDSIGNAL */
    assign result = scaled[R-1:0];
endmodule

`default_nettype wire
