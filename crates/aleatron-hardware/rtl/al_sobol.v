// SPDX-License-Identifier: MIT OR Apache-2.0
// Sobol sequence in Gray-code order: U_0 is 0, and U_(k+1) is U_k XOR the direction number of the
// lowest zero of k. DIRECTIONS holds one direction number of WIDTH bits per bit of k, the first lowest.
`default_nettype none

module al_sobol #(
    parameter WIDTH = 8,
    parameter CYCLE = 8,
    parameter [CYCLE*WIDTH-1:0] DIRECTIONS = 0
) (
    input  wire             clk,
    input  wire             init,
    input  wire             step,
    input  wire [CYCLE-1:0] k,
    output reg  [WIDTH-1:0] u
);
    wire [CYCLE-1:0] lowest = ~k & (k + 1'b1);  // one-hot
    reg  [WIDTH-1:0] flip;
    integer c;
    always @* begin
        flip = {WIDTH{1'b0}};
        for (c = 0; c < CYCLE; c = c + 1)
            flip = flip | ({WIDTH{lowest[c]}} & DIRECTIONS[c*WIDTH+:WIDTH]);
    end
    always @(posedge clk)
        if (init) u <= {WIDTH{1'b0}};
        else if (step) u <= u ^ flip;
endmodule

`default_nettype wire
