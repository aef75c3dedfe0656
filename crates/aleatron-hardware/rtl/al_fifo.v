// SPDX-License-Identifier: MIT OR Apache-2.0
// A first-in first-out memory of DEPTH words.
`default_nettype none

module al_fifo #(
    parameter WIDTH = 8,
    parameter DEPTH = 4
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output wire [WIDTH-1:0] out_data,
    output wire             out_valid,
    input  wire             out_ready
);
    localparam P = DEPTH > 1 ? $clog2(DEPTH) : 1;
    localparam C = $clog2(DEPTH + 1);
    localparam integer LAST = DEPTH - 1;
    reg [WIDTH-1:0] memory[0:DEPTH-1];
    reg [P-1:0] first, next;
    reg [C-1:0] used;
    wire write = in_valid && in_ready;
    wire read = out_valid && out_ready;
    assign in_ready = used != DEPTH[C-1:0];
    assign out_valid = used != {C{1'b0}};
    assign out_data = memory[first];
    always @(posedge clk) if (write) memory[next] <= in_data;
    always @(posedge clk)
        if (rst) begin
            first <= {P{1'b0}};
            next <= {P{1'b0}};
            used <= {C{1'b0}};
        end else begin
            if (write) next <= next == LAST[P-1:0] ? {P{1'b0}} : next + 1'b1;
            if (read) first <= first == LAST[P-1:0] ? {P{1'b0}} : first + 1'b1;
            if (write && !read) used <= used + 1'b1;
            else if (read && !write) used <= used - 1'b1;
        end
endmodule

`default_nettype wire
