// SPDX-License-Identifier: MIT OR Apache-2.0
// Comparators of a stochastic number generator: bit i is 1 if U < T_i. A threshold has one bit more
// than U, so that 2^WIDTH is the stream of ones.
`default_nettype none

module al_compare #(
    parameter N = 64,
    parameter WIDTH = 8,
    parameter SHARED = 1  // 1: one U for all thresholds; 0: one for each
) (
    input  wire [(SHARED != 0 ? 1 : N)*WIDTH-1:0] u,
    input  wire [               N*(WIDTH+1)-1:0] t,
    output reg  [                         N-1:0] bits
);
    // The vector is assigned once: event-driven simulators wake its readers once.
    reg [N-1:0] all;
    integer i;
    always @* begin
        for (i = 0; i < N; i = i + 1)
            all[i] = {1'b0, u[(SHARED != 0 ? 0 : i)*WIDTH+:WIDTH]} < t[i*(WIDTH+1)+:WIDTH+1];
        bits = all;
    end
endmodule

`default_nettype wire
