// SPDX-License-Identifier: MIT OR Apache-2.0
// A vector of N full adders: three bits of one weight become a sum and a carry. Counters consist of
// this module and al_half_adders; a flow may replace both by cells of its library.
`default_nettype none

module al_adders #(
    parameter N = 1
) (
    input  wire [N-1:0] a,
    input  wire [N-1:0] b,
    input  wire [N-1:0] c,
    output wire [N-1:0] sum,
    output wire [N-1:0] carry
);
    wire [N-1:0] half = a ^ b;
    assign sum = half ^ c;
    assign carry = (a & b) | (half & c);
endmodule

`default_nettype wire
