// SPDX-License-Identifier: MIT OR Apache-2.0
// Converts a count to the value of the accumulator: count * 2^SHIFT + offset, limited to LOW..HIGH.
// The offset holds the bias minus the excess of the count over the sum.
`default_nettype none

module al_accumulate #(
    parameter COUNT = 13,
    parameter SIGNED_COUNT = 0,
    parameter SHIFT = 8,
    parameter SUM = 24,
    parameter A = 22,
    parameter signed [SUM-1:0] LOW = 0,
    parameter signed [SUM-1:0] HIGH = 0
) (
    input  wire        [COUNT-1:0] count,
    input  wire signed [  SUM-1:0] offset,
    output wire        [    A-1:0] value
);
    wire sign = SIGNED_COUNT != 0 && count[COUNT-1];
    wire signed [SUM-1:0] wide = {{(SUM - COUNT) {sign}}, count};
    wire signed [SUM-1:0] sum = (wide <<< SHIFT) + offset;
    /* verilator lint_off UNUSEDSIGNAL */
    wire signed [SUM-1:0] limited = sum < LOW ? LOW : sum > HIGH ? HIGH : sum;
    /* verilator lint_on UNUSEDSIGNAL */
    assign value = limited[A-1:0];
endmodule

`default_nettype wire
