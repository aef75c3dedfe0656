// SPDX-License-Identifier: MIT OR Apache-2.0
// Reduces the N values of a window: their maximum, or with AVERAGE their mean, rounded half up, as if
// the window had DIVISOR values. BIAS times DIVISOR makes sums non-negative.
`default_nettype none

module al_pool #(
    parameter N = 4,
    parameter A = 16,
    parameter AVERAGE = 0,
    parameter S = 24,       // bits of twice the biased sum
    parameter [S-1:0] DIVISOR = 4,
    parameter [S-1:0] BIAS = 0
) (
    input  wire [N*A-1:0] values,
    output wire [  A-1:0] result
);
    generate
        if (AVERAGE != 0) begin : average
            function [A-1:0] mean(input [N*A-1:0] all);
                reg [S-1:0] sum;
                /* verilator lint_off UNUSEDSIGNAL */
                reg [S-1:0] quotient;
                /* verilator lint_on UNUSEDSIGNAL */
                integer i;
                begin
                    sum = BIAS * DIVISOR;
                    for (i = 0; i < N; i = i + 1)
                        sum = sum + {{(S - A) {all[i*A+A-1]}}, all[i*A+:A]};
                    sum = (sum << 1) + DIVISOR;
                    quotient = sum / (DIVISOR << 1) - BIAS;
                    mean = quotient[A-1:0];
                end
            endfunction
            assign result = mean(values);
        end else begin : maximum
            function [A-1:0] greatest(input [N*A-1:0] all);
                integer i;
                begin
                    greatest = all[A-1:0];
                    for (i = 1; i < N; i = i + 1)
                        if ($signed(all[i*A+:A]) > $signed(greatest)) greatest = all[i*A+:A];
                end
            endfunction
            assign result = greatest(values);
        end
    endgenerate
endmodule

`default_nettype wire
