// SPDX-License-Identifier: MIT OR Apache-2.0
// Linear-feedback shift register in Fibonacci form, shifting left; tap t is bit t - 1 of TAPS.
// `init` loads U_0, which is SEED; `step` moves on to the next number.
`default_nettype none

module al_lfsr #(
    parameter WIDTH = 8,
    parameter [WIDTH-1:0] TAPS = 1,
    parameter [WIDTH-1:0] SEED = 1
) (
    input  wire             clk,
    input  wire             init,
    input  wire             step,
    output reg  [WIDTH-1:0] u
);
    always @(posedge clk)
        if (init) u <= SEED;
        else if (step) u <= {u[WIDTH-2:0], ^(u & TAPS)};
endmodule

`default_nettype wire
