// SPDX-License-Identifier: MIT OR Apache-2.0
// Control of a layer. A window is `ready`; then, for each group of LANES neurons: START, one cycle
// with `init`; RUN, LENGTH cycles of stream bits; with PIPELINE, one more cycle; READ, one neuron
// in each cycle with `advance`. `done` releases the window after the last neuron. With FIRST_CHECK,
// a power of two, streams pause after that many cycles and each time the cycles have doubled: the
// neurons are read, and the `verdict` that follows either sets `stop` or lets the streams continue.
`default_nettype none

module al_control #(
    parameter NEURONS = 64,
    parameter LANES = 64,
    parameter LENGTH = 64,
    parameter POSITIONS = 1,
    parameter PIPELINE = 0,
    parameter FIRST_CHECK = 0,
    parameter CYCLE = 6,     // bits of the index of a cycle
    parameter NEURON = 6,    // bits of the index of a neuron
    parameter LANE = 6,      // bits of the index of a lane
    parameter GROUP = 1,     // bits of the index of a group
    parameter POSITION = 1   // bits of the index of a position
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                ready,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire                verdict,
    input  wire                stop,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire                done,
    output wire                init,
    output wire                run,
    output reg  [   CYCLE-1:0] k,
    output wire                count_init,
    output wire                count_run,
    input  wire                advance,
    output wire                read,
    output reg  [  NEURON-1:0] neuron,
    output reg  [    LANE-1:0] lane,
    output reg  [   GROUP-1:0] group,
    output reg  [POSITION-1:0] position
);
    localparam [1:0] START = 2'd0, RUN = 2'd1, DRAIN = 2'd2, READ = 2'd3;
    localparam integer LAST_CYCLE = LENGTH - 1;
    localparam integer LAST_NEURON = NEURONS - 1;
    localparam integer LAST_LANE = LANES - 1;
    localparam integer LAST_POSITION = POSITIONS - 1;
    reg [1:0] state;
    wire is_last = neuron == LAST_NEURON[NEURON-1:0];
    wire is_check, is_waiting, step, resume;
    assign init = state == START && ready;
    assign run = state == RUN;
    assign read = state == READ && !is_waiting;
    assign done = state == READ && step && is_last && !resume;
    generate
        if (FIRST_CHECK != 0) begin : early
            localparam integer FIRST_END = FIRST_CHECK - 1;
            reg waits;
            always @(posedge clk)
                if (rst || verdict) waits <= 1'b0;
                else if (read && advance && is_last) waits <= 1'b1;
            assign is_check = k >= FIRST_END[CYCLE-1:0] && (k & (k + 1'b1)) == {CYCLE{1'b0}};
            assign is_waiting = waits;
            assign step = is_last ? waits && verdict : advance;
            assign resume = !stop;
        end else begin : full
            assign is_check = 1'b0;
            assign is_waiting = 1'b0;
            assign step = advance;
            assign resume = 1'b0;
        end
    endgenerate
    generate
        if (PIPELINE != 0) begin : delayed
            reg init_later, run_later;
            always @(posedge clk)
                if (rst) begin
                    init_later <= 1'b0;
                    run_later  <= 1'b0;
                end else begin
                    init_later <= init;
                    run_later  <= run;
                end
            assign count_init = init_later;
            assign count_run = run_later;
        end else begin : direct
            assign count_init = init;
            assign count_run = run;
        end
    endgenerate
    always @(posedge clk)
        if (rst) begin
            state <= START;
            k <= {CYCLE{1'b0}};
            neuron <= {NEURON{1'b0}};
            lane <= {LANE{1'b0}};
            group <= {GROUP{1'b0}};
            position <= {POSITION{1'b0}};
        end else
            case (state)
                START: begin
                    k <= {CYCLE{1'b0}};
                    if (ready) state <= RUN;
                end
                RUN: begin
                    k <= k + 1'b1;
                    if (is_check || k == LAST_CYCLE[CYCLE-1:0]) state <= PIPELINE != 0 ? DRAIN : READ;
                end
                DRAIN: state <= READ;
                default:
                if (step) begin
                    if (is_last) begin
                        state <= resume ? RUN : START;
                        neuron <= {NEURON{1'b0}};
                        lane <= {LANE{1'b0}};
                        group <= {GROUP{1'b0}};
                        position <= position == LAST_POSITION[POSITION-1:0] ? {POSITION{1'b0}} : position + 1'b1;
                    end else begin
                        neuron <= neuron + 1'b1;
                        if (lane == LAST_LANE[LANE-1:0]) begin
                            state <= START;
                            lane <= {LANE{1'b0}};
                            group <= group + 1'b1;
                        end else lane <= lane + 1'b1;
                    end
                end
            endcase
endmodule

`default_nettype wire
