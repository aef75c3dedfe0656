// SPDX-License-Identifier: MIT OR Apache-2.0
// Converts a level to the threshold of a comparator of V bits: limits it to 0..2^V, after adding
// MIDDLE. With SIGNED, the result is a sign above the threshold of the magnitude.
`default_nettype none

module al_saturate #(
    parameter L = 16,       // bits of the level
    parameter V = 8,        // bits of the comparator; V + 2 is at most L
    parameter SIGNED = 0,
    parameter MIDDLE = 0,   // 1: adds half of 2^V, the threshold of 0 in bipolar streams
    parameter WORD = 9
) (
    input  wire signed [   L-1:0] level,
    output wire        [WORD-1:0] word
);
    localparam signed [L-1:0] ONE = {{(L - 1) {1'b0}}, 1'b1} << V;
    localparam signed [L-1:0] ADDED = MIDDLE != 0 ? ONE >>> 1 : {L{1'b0}};
    localparam signed [L-1:0] ZERO = {L{1'b0}};
    generate
        if (SIGNED != 0) begin : sign_and_magnitude
            /* verilator lint_off UNUSEDSIGNAL */
            wire signed [L-1:0] size = level < ZERO ? -level : level;
            wire signed [L-1:0] kept = size > ONE ? ONE : size;
            /* verilator lint_on UNUSEDSIGNAL */
            assign word = {level < ZERO, kept[V:0]};
        end else begin : plain
            wire signed [L-1:0] moved = level + ADDED;
            /* verilator lint_off UNUSEDSIGNAL */
            wire signed [L-1:0] kept = moved < ZERO ? ZERO : moved > ONE ? ONE : moved;
            /* verilator lint_on UNUSEDSIGNAL */
            assign word = kept[V:0];
        end
    endgenerate
endmodule

`default_nettype wire
