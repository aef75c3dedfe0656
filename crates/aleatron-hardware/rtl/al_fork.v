// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies a stream to N receivers, which may take a word in different cycles.
`default_nettype none

module al_fork #(
    parameter N = 2
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         in_valid,
    output wire         in_ready,
    output wire [N-1:0] out_valid,
    input  wire [N-1:0] out_ready
);
    reg [N-1:0] taken;
    wire [N-1:0] now = taken | out_ready;
    assign out_valid = {N{in_valid}} & ~taken;
    assign in_ready = &now;
    always @(posedge clk)
        if (rst) taken <= {N{1'b0}};
        else if (in_valid) taken <= in_ready ? {N{1'b0}} : now;
endmodule

`default_nettype wire
