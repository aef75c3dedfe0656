// SPDX-License-Identifier: MIT OR Apache-2.0
// Line buffer: a shift register that holds the last DEPTH words of a padded image, which arrive
// pixel by pixel with all channels of a pixel consecutively. `ready` is 1 while the words hold a
// whole window, until `done`. Padding is inserted here. A dense layer is an image of one pixel.
`default_nettype none

module al_window #(
    parameter WORD = 9,
    parameter CHANNELS = 64,
    parameter ROWS = 1,
    parameter COLUMNS = 1,
    parameter TOP = 0,            // rows of padding
    parameter BOTTOM = 0,
    parameter LEFT = 0,           // columns of padding
    parameter RIGHT = 0,
    parameter REACH_ROWS = 1,     // rows that a window covers
    parameter REACH_COLUMNS = 1,
    parameter STRIDE_ROWS = 1,
    parameter STRIDE_COLUMNS = 1,
    parameter EVERY_CHANNEL = 0,  // 1: a window for each channel of a pixel; 0: one for all channels
    parameter DEPTH = 64,
    parameter [WORD-1:0] PADDING = 0,
    parameter GATED = 0           // 1: a gated clock for the words; 0: enables
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire [      WORD-1:0] in_data,
    input  wire                  in_valid,
    output wire                  in_ready,
    output reg                   ready,
    input  wire                  done,
    output reg  [DEPTH*WORD-1:0] words
);
    localparam integer WIDTH = COLUMNS + LEFT + RIGHT, HEIGHT = ROWS + TOP + BOTTOM;
    localparam integer STEP_X = REACH_COLUMNS > STRIDE_COLUMNS ? REACH_COLUMNS : STRIDE_COLUMNS;
    localparam integer STEP_Y = REACH_ROWS > STRIDE_ROWS ? REACH_ROWS : STRIDE_ROWS;
    localparam C = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
    localparam X = WIDTH > 1 ? $clog2(WIDTH) : 1;
    localparam Y = HEIGHT > 1 ? $clog2(HEIGHT) : 1;
    localparam U = STEP_X > 1 ? $clog2(STEP_X) : 1;
    localparam V = STEP_Y > 1 ? $clog2(STEP_Y) : 1;
    localparam integer LAST_C = CHANNELS - 1, LAST_X = WIDTH - 1, LAST_Y = HEIGHT - 1;
    localparam integer FIRST_U = REACH_COLUMNS - 1, NEXT_U = STRIDE_COLUMNS - 1;
    localparam integer FIRST_V = REACH_ROWS - 1, NEXT_V = STRIDE_ROWS - 1;
    reg [C-1:0] channel;
    reg [X-1:0] column;
    reg [Y-1:0] row;
    reg [U-1:0] until_column;  // columns before the next window ends
    reg [V-1:0] until_row;
    wire in_image;
    generate
        if (TOP + BOTTOM + LEFT + RIGHT == 0) begin : no_padding
            assign in_image = 1'b1;
        end else begin : padded
            wire [31:0] x = {{(32 - X) {1'b0}}, column};
            wire [31:0] y = {{(32 - Y) {1'b0}}, row};
            assign in_image = x + 1 > LEFT && x < LEFT + COLUMNS && y + 1 > TOP && y < TOP + ROWS;
        end
    endgenerate
    wire push = !ready && (in_valid || !in_image);
    wire last_channel = channel == LAST_C[C-1:0];
    wire last_column = column == LAST_X[X-1:0];
    wire last_row = row == LAST_Y[Y-1:0];
    wire [WORD-1:0] pushed = in_image ? in_data : PADDING;
    assign in_ready = !ready && in_image;
    wire clk_words;
    al_clock_gate #(.GATED(GATED)) gate (.clk(clk), .enable(push), .gated(clk_words));
    generate
        if (DEPTH == 1) begin : single
            always @(posedge clk_words) if (GATED != 0 || push) words <= pushed;
        end else begin : line
            always @(posedge clk_words) if (GATED != 0 || push) words <= {words[(DEPTH-1)*WORD-1:0], pushed};
        end
    endgenerate
    always @(posedge clk)
        if (rst) begin
            ready <= 1'b0;
            channel <= {C{1'b0}};
            column <= {X{1'b0}};
            row <= {Y{1'b0}};
            until_column <= FIRST_U[U-1:0];
            until_row <= FIRST_V[V-1:0];
        end else begin
            if (done) ready <= 1'b0;
            if (push) begin
                if (until_column == {U{1'b0}} && until_row == {V{1'b0}} && (EVERY_CHANNEL != 0 || last_channel))
                    ready <= 1'b1;
                channel <= last_channel ? {C{1'b0}} : channel + 1'b1;
                if (last_channel) begin
                    column <= last_column ? {X{1'b0}} : column + 1'b1;
                    until_column <= last_column ? FIRST_U[U-1:0] :
                        until_column == {U{1'b0}} ? NEXT_U[U-1:0] : until_column - 1'b1;
                    if (last_column) begin
                        row <= last_row ? {Y{1'b0}} : row + 1'b1;
                        until_row <= last_row ? FIRST_V[V-1:0] :
                            until_row == {V{1'b0}} ? NEXT_V[V-1:0] : until_row - 1'b1;
                    end
                end
            end
        end
endmodule

`default_nettype wire
