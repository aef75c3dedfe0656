// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores the N words of a sample and reads them at the given addresses: the M words of the result
// in their order.
`default_nettype none

module al_reorder #(
    parameter WIDTH = 8,
    parameter N = 4,
    parameter M = 4,
    parameter ADDRESS = 2,
    parameter INDEX = 2
) (
    input  wire               clk,
    input  wire               rst,
    input  wire [  WIDTH-1:0] in_data,
    input  wire               in_valid,
    output wire               in_ready,
    output reg  [  INDEX-1:0] index,
    input  wire [ADDRESS-1:0] address,
    output wire [  WIDTH-1:0] out_data,
    output wire               out_valid,
    input  wire               out_ready
);
    localparam integer LAST_IN = N - 1, LAST_OUT = M - 1;
    reg [WIDTH-1:0] memory[0:N-1];
    reg [ADDRESS-1:0] next;
    reg is_full;
    assign in_ready = !is_full;
    assign out_valid = is_full;
    assign out_data = memory[address];
    always @(posedge clk) if (in_valid && in_ready) memory[next] <= in_data;
    always @(posedge clk)
        if (rst) begin
            next <= {ADDRESS{1'b0}};
            index <= {INDEX{1'b0}};
            is_full <= 1'b0;
        end else if (!is_full) begin
            if (in_valid) begin
                next <= next == LAST_IN[ADDRESS-1:0] ? {ADDRESS{1'b0}} : next + 1'b1;
                is_full <= next == LAST_IN[ADDRESS-1:0];
            end
        end else if (out_ready) begin
            index <= index == LAST_OUT[INDEX-1:0] ? {INDEX{1'b0}} : index + 1'b1;
            if (index == LAST_OUT[INDEX-1:0]) is_full <= 1'b0;
        end
endmodule

`default_nettype wire
