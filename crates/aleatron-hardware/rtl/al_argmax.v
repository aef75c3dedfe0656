// SPDX-License-Identifier: MIT OR Apache-2.0
// The index of the greatest of N signed scores, the first of several equal ones. `index` is that of the
// score at the input.
`default_nettype none

module al_argmax #(
    parameter WIDTH = 16,
    parameter N = 10,
    parameter INDEX = 4
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output reg  [INDEX-1:0] index,
    output reg  [INDEX-1:0] out_data,
    output reg              out_valid,
    input  wire             out_ready
);
    localparam integer LAST = N - 1;
    reg [WIDTH-1:0] best;
    wire take = in_valid && in_ready;
    wire is_first = index == {INDEX{1'b0}};
    wire is_last = index == LAST[INDEX-1:0];
    assign in_ready = !out_valid;
    always @(posedge clk)
        if (take && (is_first || $signed(in_data) > $signed(best))) begin
            best <= in_data;
            out_data <= index;
        end
    always @(posedge clk)
        if (rst) begin
            index <= {INDEX{1'b0}};
            out_valid <= 1'b0;
        end else begin
            if (take) begin
                index <= is_last ? {INDEX{1'b0}} : index + 1'b1;
                out_valid <= is_last;
            end else if (out_ready) out_valid <= 1'b0;
        end
endmodule

`default_nettype wire
