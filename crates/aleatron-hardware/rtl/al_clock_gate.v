// SPDX-License-Identifier: MIT OR Apache-2.0
// A clock gate: `gated` has the edges of `clk` in cycles of `enable`. Without GATED it is `clk`, and
// registers have enables. A flow may replace this module by the clock gate of its library.
`default_nettype none

module al_clock_gate #(
    parameter GATED = 0
) (
    input  wire clk,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire enable,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire gated
);
    generate
        if (GATED != 0) begin : gate
            reg open;
            /* verilator lint_off LATCH */
            always @* if (!clk) open = enable;
            /* verilator lint_on LATCH */
            assign gated = clk & open;
        end else begin : none
            assign gated = clk;
        end
    endgenerate
endmodule

`default_nettype wire
