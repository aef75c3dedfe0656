// SPDX-License-Identifier: MIT OR Apache-2.0
// A vector of N half adders: two bits of one weight become a sum and a carry.
`default_nettype none

module al_half_adders #(
    parameter N = 1
) (
    input  wire [N-1:0] a,
    input  wire [N-1:0] b,
    output wire [N-1:0] sum,
    output wire [N-1:0] carry
);
    assign sum = a ^ b;
    assign carry = a & b;
endmodule

`default_nettype wire
