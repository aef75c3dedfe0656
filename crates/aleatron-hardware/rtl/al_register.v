// SPDX-License-Identifier: MIT OR Apache-2.0
// One register of a stream with valid and ready.
`default_nettype none

module al_register #(
    parameter WIDTH = 8
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output reg  [WIDTH-1:0] out_data,
    output reg              out_valid,
    input  wire             out_ready
);
    assign in_ready = !out_valid || out_ready;
    always @(posedge clk) if (in_ready && in_valid) out_data <= in_data;
    always @(posedge clk)
        if (rst) out_valid <= 1'b0;
        else if (in_ready) out_valid <= in_valid;
endmodule

`default_nettype wire
