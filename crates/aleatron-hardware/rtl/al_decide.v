// SPDX-License-Identifier: MIT OR Apache-2.0
// The decision of early termination. N signed scores arrive each time the last layer is read;
// `read` is the number of that read. One cycle after the last score, `verdict` is set, with `stop`
// if the best score leads the second by at least `margin`; the margin of the last read is 0. Then
// the output is the index of the greatest score, the first of several equal ones. `index` is that
// of the score at the input.
`default_nettype none

module al_decide #(
    parameter WIDTH = 16,
    parameter N = 10,
    parameter INDEX = 4,
    parameter READ = 2    // bits of the number of a read
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in_data,
    input  wire             in_valid,
    output wire             in_ready,
    output reg  [INDEX-1:0] index,
    output reg  [ READ-1:0] read,
    input  wire [  WIDTH:0] margin,
    output reg              verdict,
    output wire             stop,
    output reg  [INDEX-1:0] out_data,
    output reg              out_valid,
    input  wire             out_ready
);
    localparam integer SECOND = 1;
    localparam integer LAST = N - 1;
    reg [WIDTH-1:0] best, second;
    wire take = in_valid && in_ready;
    wire is_first = index == {INDEX{1'b0}};
    wire is_second = index == SECOND[INDEX-1:0];
    wire is_last = index == LAST[INDEX-1:0];
    wire is_best = is_first || $signed(in_data) > $signed(best);
    wire [WIDTH:0] lead = {best[WIDTH-1], best} - {second[WIDTH-1], second};
    assign in_ready = !out_valid && !verdict;
    assign stop = lead >= margin;
    always @(posedge clk)
        if (take) begin
            if (is_best) begin
                best <= in_data;
                out_data <= index;
            end
            if (is_best) second <= best;
            else if (is_second || $signed(in_data) > $signed(second)) second <= in_data;
        end
    always @(posedge clk)
        if (rst) begin
            index <= {INDEX{1'b0}};
            read <= {READ{1'b0}};
            verdict <= 1'b0;
            out_valid <= 1'b0;
        end else begin
            verdict <= take && is_last;
            if (take) index <= is_last ? {INDEX{1'b0}} : index + 1'b1;
            if (verdict) begin
                read <= stop ? {READ{1'b0}} : read + 1'b1;
                out_valid <= stop;
            end else if (out_ready) out_valid <= 1'b0;
        end
endmodule

`default_nettype wire
