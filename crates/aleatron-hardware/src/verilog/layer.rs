//! The Verilog of a layer: sequences, weights, accumulators and their connections.

use super::Module;
use super::counter::Counter;
use super::text::{bit_vector, concatenation, range, signed, table, unsigned, unused};
use crate::circuit::{
    FIRST_CHECK, InputInterval, LayerCircuit, Link, Products, SequenceCircuit, SequenceForm, bits,
};
use crate::{ClockGating, Options, Pipeline};
use aleatron_core::Polarity;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A layer with the sizes that follow from its lanes.
pub(crate) struct LayerText<'a> {
    pub(crate) module: String,
    pub(crate) layer: &'a LayerCircuit,
    pub(crate) lanes: usize,
    pub(crate) groups: usize,
    input: &'a Link,
    output: &'a Link,
    pub(super) pipeline: Pipeline,
    gating: ClockGating,
}

impl<'a> LayerText<'a> {
    pub(crate) fn new(
        module: String,
        layer: &'a LayerCircuit,
        input: &'a Link,
        output: &'a Link,
        options: &Options,
    ) -> Self {
        let rows = layer.rows.len();
        let lanes = options.lanes.unwrap_or(rows).min(rows).max(1);
        Self {
            module,
            layer,
            lanes,
            groups: rows.div_ceil(lanes),
            input,
            output,
            pipeline: options.pipeline,
            gating: options.clock_gating,
        }
    }

    pub(crate) fn group_bits(&self) -> u32 {
        bits(self.groups)
    }

    pub(crate) fn neuron_bits(&self) -> u32 {
        bits(self.layer.rows.len())
    }

    pub(crate) fn position_bits(&self) -> u32 {
        bits(self.layer.window.positions)
    }

    /// Returns whether the layer may stop before its streams end.
    fn stops_early(&self) -> bool {
        !self.layer.checks.is_empty()
    }

    /// Returns the bits of the number of a read.
    pub(crate) fn read_bits(&self) -> u32 {
        bits(self.layer.checks.len() + 1)
    }

    pub(super) fn has_signs(&self) -> bool {
        self.layer.inputs == InputInterval::Signed
    }

    /// Returns whether words have a bit that distinguishes pixels from padding.
    fn has_marks(&self) -> bool {
        !self.layer.padding_offsets.is_empty()
    }

    /// Returns the row of weights of a lane in a group of neurons, if there is one.
    pub(crate) fn row(&self, group: usize, lane: usize) -> Option<usize> {
        Some(group * self.lanes + lane).filter(|row| *row < self.layer.rows.len())
    }

    pub(crate) fn modules(&self) -> Vec<Module> {
        match self.layer.products {
            Products::Streams => {
                vec![self.main(), self.sequences(), self.weights(), self.accumulate()]
            }
            Products::Integers => vec![self.main(), self.integer_weights(), self.accumulate()],
        }
    }

    pub(super) fn gated(&self) -> u32 {
        u32::from(self.gating == ClockGating::Cells)
    }

    fn polarity(&self) -> u32 {
        match self.layer.polarity {
            Polarity::Unipolar => 0,
            Polarity::Bipolar => 1,
            Polarity::Signed => 2,
        }
    }

    fn main(&self) -> Module {
        let Self { module, layer, lanes, .. } = self;
        let (cycle, lane) = (layer.cycle_bits(), bits(*lanes));
        let (group, neuron, position) =
            (self.group_bits(), self.neuron_bits(), self.position_bits());
        let (word, a) = (self.input.word.bits(), self.output.word.bits());
        let pipeline = u32::from(self.pipeline == Pipeline::Registers);
        let mut text = format!(
            "// {} inputs, {} neurons, {} windows, {}, {} cycles, {lanes} neurons at a time.\n`default_nettype none\n\n\
             module {module} (\n    input  wire clk,\n    input  wire rst,\n    input  wire {} in_data,\n    input  wire in_valid,\n    \
             output wire in_ready,\n    output wire {} out_data,\n    output wire out_valid,\n    input  wire out_ready{}\n);\n",
            self.input.elements,
            layer.rows.len(),
            layer.window.positions,
            layer.encoding(),
            layer.cycles(),
            range(word as usize),
            range(a as usize),
            if self.stops_early() {
                let number = range(self.read_bits() as usize);
                format!(
                    ",\n    input  wire verdict,\n    input  wire stop,\n    input  wire {number} read_number"
                )
            } else {
                String::new()
            },
        );
        let (first_check, decision) = match self.stops_early() {
            true => (FIRST_CHECK, ".verdict(verdict), .stop(stop)"),
            false => (0, ".verdict(1'b0), .stop(1'b0)"),
        };
        let _ = write!(
            text,
            "    wire ready, done, init, run, count_init, count_run, advance, read;\n    wire {} k;\n    wire {} neuron;\n    \
             wire {} lane;\n    wire {} group;\n    wire {} position;\n    al_control #(\n        .NEURONS({}), .LANES({lanes}), \
             .LENGTH({}), .POSITIONS({}), .PIPELINE({pipeline}), .FIRST_CHECK({first_check}),\n        .CYCLE({cycle}), .NEURON({neuron}), .LANE({lane}), \
             .GROUP({group}), .POSITION({position})\n    ) control (\n        .clk(clk), .rst(rst), .ready(ready), {decision}, .done(done), \
             .init(init), .run(run), .k(k), .count_init(count_init),\n        .count_run(count_run), .advance(advance), .read(read), \
             .neuron(neuron), .lane(lane), .group(group), .position(position)\n    );\n",
            range(cycle as usize),
            range(neuron as usize),
            range(lane as usize),
            range(group as usize),
            range(position as usize),
            layer.rows.len(),
            layer.cycles(),
            layer.window.positions,
        );
        let stored = layer.word_bits();
        let saturated = self.saturated();
        let data = match layer.products {
            Products::Integers => saturated.as_str(),
            Products::Streams if self.has_marks() => "{1'b1, in_data}",
            Products::Streams => "in_data",
        };
        text.push_str(&super::stage::window(
            &layer.window,
            stored,
            0,
            data,
            &format!("{stored}'d0"),
            self.gating,
        ));
        // Words between the taps of a window, and signals that this configuration does not need.
        text.push_str(&unused(&["group", "position", "lane", "words", "clk_streams"]));
        let _ = writeln!(
            text,
            "    wire clk_streams;\n    al_clock_gate #(.GATED({})) gate_streams (.clk(clk), .enable(init || run), .gated(clk_streams));",
            self.gated()
        );
        match layer.products {
            Products::Streams => {
                self.streams(&mut text, stored, pipeline);
                self.neurons(&mut text);
            }
            Products::Integers => self.integers(&mut text, stored),
        }
        self.read_out(&mut text, lane, a);
        text.push_str("endmodule\n\n`default_nettype wire\n");
        Module { name: module.clone(), text }
    }

    /// Returns the taps whose products a lane counts: streams of zeros are left out.
    fn counted(&self, lane: usize) -> Vec<usize> {
        let n = self.layer.fan_in();
        let rows =
            || (0..self.groups).filter_map(|group| self.layer.rows.get(self.row(group, lane)?));
        let is_counted = |tap: &usize| match self.layer.polarity {
            Polarity::Bipolar => true,
            Polarity::Unipolar | Polarity::Signed => rows().any(|row| row.thresholds[*tap] > 0),
        };
        let taps: Vec<usize> = (0..n).filter(is_counted).collect();
        if taps.is_empty() { vec![0] } else { taps }
    }

    /// Returns the counters of all lanes.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let lanes = if self.layer.products == Products::Integers { 0 } else { self.lanes };
        (0..lanes)
            .map(|lane| Counter { inputs: self.counted(lane).len(), count: self.layer.count_bits })
            .collect()
    }

    /// Writes weights, products and accumulative parallel counters of all lanes. Each lane has
    /// separate vectors: simulators wake all readers of a vector if one bit changes.
    fn neurons(&self, text: &mut String) {
        let Self { module, layer, lanes, .. } = self;
        let (n, count, gated) = (layer.fan_in(), layer.count_bits as usize, self.gated());
        let _ = write!(
            text,
            "    wire {all} w, negative;\n    {module}_weights weights (.clk(clk_streams), .step(init || run), .group(group), .u(uw), \
             .bits(w), .negative(negative));\n    wire clk_counts;\n    al_clock_gate #(.GATED({gated})) gate_counts (.clk(clk), \
             .enable(count_init || count_run), .gated(clk_counts));\n",
            all = range(lanes * n),
        );
        for (p, counter) in self.counters().into_iter().enumerate() {
            let of_lane = |name: &str| match layer.input_groups.len() {
                1 => name.to_owned(),
                _ => format!("{name}_of_lanes[{}+:{n}]", p * n),
            };
            let taps = self.counted(p);
            let slice = |run: &[usize]| {
                format!("products{p}[{}+:{}]", run.first().unwrap_or(&0), run.len())
            };
            let runs: Vec<String> = taps.chunk_by(|a, b| a + 1 == *b).map(slice).collect();
            if taps.len() < n {
                text.push_str("    /* verilator lint_off UNUSEDSIGNAL */\n");
            }
            let _ = writeln!(text, "    wire {} products{p};", range(n));
            if taps.len() < n {
                text.push_str("    /* verilator lint_on UNUSEDSIGNAL */\n");
            }
            let _ = write!(
                text,
                "    wire {} count{p}, sum{p}, addend{p};\n    al_products #(.N({n}), .POLARITY({})) gates{p} (\n        .x({}), \
                 .w(w[{first}+:{n}]), .negative(negative[{first}+:{n}]{}), .in_image({}), .products(products{p})\n    );\n    {} counter{p} \
                 (.bits({}), .count(addend{p}), .sum(sum{p}));\n    al_accumulator #(.COUNT({count}), .START({}), .LENGTH({}), \
                 .GATED({gated})) accumulator{p} (\n        .clk(clk_counts), .init(count_init), .run(count_run), .sum(sum{p}), \
                 .addend(addend{p}), .count(count{p})\n    );\n",
                range(count),
                self.polarity(),
                of_lane("x"),
                if self.has_signs() { format!(" ^ {}", of_lane("sx")) } else { String::new() },
                if self.has_marks() { of_lane("marks") } else { format!("{{{n}{{1'b1}}}}") },
                counter.name(),
                concatenation(&runs),
                u32::from(self.has_signs()),
                layer.length,
                first = p * n,
            );
        }
    }

    /// Writes the stream bits of the inputs, one for each tap of a window.
    fn streams(&self, text: &mut String, stored: u32, pipeline: u32) {
        let layer = self.layer;
        let (taps, width) = (layer.taps.len(), layer.comparator);
        let (xs, ws) = (layer.input_sequences.len(), layer.weight_sequences.len());
        let slice = |first: u32, len: u32| {
            let slices = layer.taps.iter().map(|&word| match len {
                1 => format!("words[{}]", word * stored + first),
                _ => format!("words[{}+:{len}]", word * stored + first),
            });
            concatenation(&slices.collect::<Vec<_>>())
        };
        let _ = writeln!(
            text,
            "    wire {} t = {};",
            range(taps * (width as usize + 1)),
            slice(0, width + 1)
        );
        if self.has_signs() {
            let _ = writeln!(text, "    wire {} sx = {};", range(taps), slice(width + 1, 1));
        }
        if self.has_marks() {
            let _ = writeln!(text, "    wire {} marks = {};", range(taps), slice(stored - 1, 1));
        }
        let _ = writeln!(
            text,
            "    wire {} ux;\n    wire {} uw;\n    {}_sequences sequences (.clk(clk_streams), .init(init), .step(run), .k(k), .ux(ux), .uw(uw));",
            range(xs * width as usize),
            range(ws * layer.weight_comparator as usize),
            self.module,
        );
        let u = match xs {
            1 => "ux".to_owned(),
            _ => {
                let slices =
                    layer.sequence_of_tap.iter().map(|q| format!("ux[{}+:{width}]", q * width));
                concatenation(&slices.collect::<Vec<_>>())
            }
        };
        let _ = writeln!(
            text,
            "    wire {} compared;\n    al_compare #(.N({taps}), .WIDTH({width}), .SHARED({})) compare (.u({u}), .t(t), .bits(compared));",
            range(taps),
            u32::from(xs == 1),
        );
        // Between runs, stream bits are 0: a moving word toggles no counter, and signs can be
        // counted.
        let _ = match pipeline {
            0 => writeln!(text, "    wire {} x = compared & {{{taps}{{run}}}};", range(taps)),
            _ => {
                let mask =
                    if self.has_signs() { format!(" & {{{taps}{{run}}}}") } else { String::new() };
                let enable = if self.gated() == 1 { "" } else { "if (init || run) " };
                writeln!(
                    text,
                    "    reg {} x;\n    always @(posedge clk_streams) {enable}x <= compared{mask};",
                    range(taps)
                )
            }
        };
        if layer.input_groups.len() > 1 {
            for (name, is_used) in
                [("x", true), ("sx", self.has_signs()), ("marks", self.has_marks())]
            {
                if is_used {
                    self.lane_inputs(text, name);
                }
            }
        }
    }

    /// Writes the taps of each lane, which depend on the group of its output channel.
    fn lane_inputs(&self, text: &mut String, name: &str) {
        let (n, taps) = (self.layer.fan_in(), self.layer.taps.len());
        let of_group = |group: usize| {
            let lanes = (0..self.lanes).map(|lane| {
                let of_row = self.row(group, lane).map_or(0, |row| self.layer.rows[row].group);
                format!("all[{}+:{n}]", of_row * n)
            });
            concatenation(&lanes.collect::<Vec<_>>())
        };
        let _ = write!(
            text,
            "    function {} {name}_select(input {} at, input {} all);\n        case (at)\n",
            range(self.lanes * n),
            range(self.group_bits() as usize),
            range(taps),
        );
        for group in 0..self.groups {
            let label = if group + 1 == self.groups {
                "default".to_owned()
            } else {
                format!("{}'d{group}", self.group_bits())
            };
            let _ = writeln!(text, "            {label}: {name}_select = {};", of_group(group));
        }
        let _ = writeln!(
            text,
            "        endcase\n    endfunction\n    wire {} {name}_of_lanes = {name}_select(group, {name});",
            range(self.lanes * n)
        );
    }

    /// Writes the multiplexer of counts, the accumulator and the register after it.
    fn read_out(&self, text: &mut String, lane: u32, a: u32) {
        let Self { layer, lanes, module, .. } = self;
        let count = layer.count_bits as usize;
        // A case for each lane: a variable part-select would become a barrel shifter.
        let slices: Vec<String> = (0..*lanes).map(|p| format!("count{p}")).collect();
        match &slices[..] {
            [slice] => {
                let _ = writeln!(text, "    wire {} count = {slice};", range(count));
            }
            slices => {
                let _ = write!(
                    text,
                    "    reg {} count;\n    always @*\n        case (lane)\n",
                    range(count)
                );
                for (p, slice) in slices.iter().enumerate() {
                    let label =
                        if p + 1 == *lanes { "default".to_owned() } else { format!("{lane}'d{p}") };
                    let _ = writeln!(text, "            {label}: count = {slice};");
                }
                text.push_str("        endcase\n");
            }
        }
        let _ = write!(
            text,
            "    wire {range} value;\n    {module}_accumulate accumulate ({read}.neuron(neuron), .position(position), .count(count), \
             .value(value));\n    al_register #(.WIDTH({a})) register (\n        .clk(clk), .rst(rst), .in_data(value), .in_valid(read), \
             .in_ready(advance), .out_data(out_data),\n        .out_valid(out_valid), .out_ready(out_ready)\n    );\n",
            range = range(a as usize),
            read = if self.stops_early() { ".read_number(read_number), " } else { "" },
        );
    }

    fn sequences(&self) -> Module {
        let layer = self.layer;
        let (width, weight_width) = (layer.comparator, layer.weight_comparator);
        let (xs, ws) = (layer.input_sequences.len(), layer.weight_sequences.len());
        let name = format!("{}_sequences", self.module);
        let mut text = format!(
            "// The sequences that inputs and weights are compared with.\n`default_nettype none\n\nmodule {name} (\n    /* verilator lint_off \
             UNUSEDSIGNAL */\n    input  wire clk,\n    input  wire init,\n    input  wire step,\n    input  wire {} k,\n    /* verilator \
             lint_on UNUSEDSIGNAL */\n    output wire {} ux,\n    output wire {} uw\n);\n",
            range(layer.cycle_bits() as usize),
            range(xs * width as usize),
            range(ws * weight_width as usize),
        );
        for (list, letter, width) in
            [(&layer.input_sequences, "x", width), (&layer.weight_sequences, "w", weight_width)]
        {
            for (q, sequence) in list.iter().enumerate() {
                let first = q * width as usize;
                let out = format!("u{letter}[{first}+:{width}]");
                sequence_text(
                    &mut text,
                    sequence,
                    &format!("{letter}{q}"),
                    layer.cycle_bits(),
                    &out,
                );
            }
        }
        text.push_str("endmodule\n\n`default_nettype wire\n");
        Module { name, text }
    }

    /// Writes the weights. The bits of each different pair of a sequence and a threshold are
    /// computed once and distributed to the neurons.
    fn weights(&self) -> Module {
        let Self { layer, lanes, groups, .. } = self;
        let (width, n) = (layer.weight_comparator, layer.fan_in());
        let (mut pairs, mut known) = (Vec::new(), HashMap::new());
        for row in &layer.rows {
            for pair in row.sequences.iter().copied().zip(row.thresholds.iter().copied()) {
                known.entry(pair).or_insert_with(|| {
                    pairs.push(pair);
                    pairs.len() - 1
                });
            }
        }
        let name = format!("{}_weights", self.module);
        let all = range(lanes * n);
        let u = range(layer.weight_sequences.len() * width as usize);
        let mut text = format!(
            "// The stream bits of the weights: each threshold of a sequence once, then those of each neuron.\n`default_nettype none\n\n\
             module {name} (\n    /* verilator lint_off UNUSEDSIGNAL */\n    input  wire clk,\n    input  wire step,\n    input  wire {} group,\n    \
             input  wire {u} u,\n    /* verilator lint_on UNUSEDSIGNAL */\n    output wire {all} bits,\n    output wire {all} negative\n);\n    \
             /* verilator lint_off UNUSEDSIGNAL */\n    function {pairs_range} compared(input {u} v);\n        begin\n",
            range(self.group_bits() as usize),
            pairs_range = range(pairs.len()),
        );
        for (d, &(sequence, threshold)) in pairs.iter().enumerate() {
            let value = match threshold {
                0 => "1'b0".to_owned(),
                t if t == 1 << width => "1'b1".to_owned(),
                t => format!("v[{}+:{width}] < {}", sequence * width, unsigned(t.into(), width)),
            };
            let _ = writeln!(text, "            compared[{d}] = {value};");
        }
        let _ = write!(
            text,
            "        end\n    endfunction\n    /* verilator lint_on UNUSEDSIGNAL */\n    wire {pairs_range} now = compared(u);\n",
            pairs_range = range(pairs.len()),
        );
        let _ = match self.pipeline {
            Pipeline::None => writeln!(text, "    wire {} b = now;", range(pairs.len())),
            Pipeline::Registers => {
                let enable = if self.gated() == 1 { "" } else { "if (step) " };
                writeln!(
                    text,
                    "    reg {} b;\n    always @(posedge clk) {enable}b <= now;",
                    range(pairs.len())
                )
            }
        };
        let _ = write!(
            text,
            "    function {all} selected(input {} at, input {} all);\n        case (at)\n",
            range(self.group_bits() as usize),
            range(pairs.len()),
        );
        let mut signs = Vec::new();
        for group in 0..*groups {
            let mut parts = Vec::with_capacity(lanes * n);
            let mut negative = Vec::with_capacity(lanes * n);
            for lane in 0..*lanes {
                match self.row(group, lane).and_then(|row| layer.rows.get(row)) {
                    Some(row) => {
                        for (pair, is_negative) in row
                            .sequences
                            .iter()
                            .copied()
                            .zip(row.thresholds.iter().copied())
                            .zip(&row.negative)
                        {
                            parts.push(format!("all[{}]", known.get(&pair).copied().unwrap_or(0)));
                            negative.push(*is_negative);
                        }
                    }
                    None => {
                        parts.push(format!("{n}'d0"));
                        negative.extend(std::iter::repeat_n(false, n));
                    }
                }
            }
            signs.push(bit_vector(negative.into_iter()));
            let label = if group + 1 == *groups {
                "default".to_owned()
            } else {
                format!("{}'d{group}", self.group_bits())
            };
            let _ = writeln!(text, "            {label}: selected = {};", concatenation(&parts));
        }
        let _ = write!(
            text,
            "        endcase\n    endfunction\n    assign bits = selected(group, b);\n{}    assign negative = signs(group);\nendmodule\n\n\
             `default_nettype wire\n",
            table("signs", &all, self.group_bits(), &signs),
        );
        Module { name, text }
    }

    fn accumulate(&self) -> Module {
        let layer = self.layer;
        let (count, sum, a) = (layer.count_bits, layer.sum_bits, self.output.word.bits());
        let name = format!("{}_accumulate", self.module);
        let ends = layer.rows.iter().map(|row| i128::from(row.offset));
        let mut offsets = Vec::new();
        for check in &layer.checks {
            offsets.extend((0..layer.rows.len()).map(|row| layer.check_offset(check, row)));
            // Every read has as many entries as the index of a neuron has values.
            offsets.resize(offsets.len().next_multiple_of(1 << self.neuron_bits()), 0);
        }
        offsets.extend(ends);
        let offsets: Vec<String> = offsets.into_iter().map(|offset| signed(offset, sum)).collect();
        let (port, index) = match self.stops_early() {
            true => (
                format!("    input  wire {} read_number,\n", range(self.read_bits() as usize)),
                "{read_number, neuron}",
            ),
            false => (String::new(), "neuron"),
        };
        let index_bits = self.neuron_bits() + if self.stops_early() { self.read_bits() } else { 0 };
        let kind = format!("signed {}", range(sum as usize));
        let mut text = format!(
            "// From the count of a neuron to its value: bias and activation.\n`default_nettype none\n\nmodule {name} (\n    /* verilator \
             lint_off UNUSEDSIGNAL */\n{port}    input  wire {} neuron,\n    input  wire {} position,\n    /* verilator lint_on UNUSEDSIGNAL */\n    \
             input  wire {} count,\n    output wire {} value\n);\n{}",
            range(self.neuron_bits() as usize),
            range(self.position_bits() as usize),
            range(count as usize),
            range(a as usize),
            table("offset_of", &kind, index_bits, &offsets),
        );
        let mut offset = format!("offset_of({index})");
        if self.has_marks() {
            let entries: Vec<String> =
                layer.padding_offsets.iter().map(|&o| signed(o.into(), sum)).collect();
            text.push_str(&table("padding_of", &kind, self.position_bits(), &entries));
            offset.push_str(" + padding_of(position)");
        }
        let [low, high] = layer.bounds.map(|bound| signed(bound.into(), sum));
        let _ = write!(
            text,
            "    wire {kind} offset = {offset};\n    al_accumulate #(\n        .COUNT({count}), .SIGNED_COUNT({}), .SHIFT({}), .SUM({sum}), \
             .A({a}), .LOW({low}), .HIGH({high})\n    ) accumulate (.count(count), .offset(offset), .value(value));\nendmodule\n\n\
             `default_nettype wire\n",
            u32::from(layer.has_signed_counts()),
            layer.count_shift,
        );
        Module { name, text }
    }
}

fn sequence_text(text: &mut String, sequence: &SequenceCircuit, name: &str, cycle: u32, out: &str) {
    let width = sequence.width;
    let _ = match &sequence.form {
        SequenceForm::Lfsr { seed, taps } => {
            let mask = taps.iter().fold(0_u32, |mask, tap| mask | 1 << (tap - 1));
            writeln!(
                text,
                "    al_lfsr #(.WIDTH({width}), .TAPS({}), .SEED({})) {name} (.clk(clk), .init(init), .step(step), .u({out}));",
                unsigned(mask.into(), width),
                unsigned((*seed).into(), width),
            )
        }
        SequenceForm::Sobol { directions } => {
            let bit = |k: usize| directions[k / width as usize] >> (k % width as usize) & 1 == 1;
            let constant = bit_vector(
                (0..directions.len() * width as usize).map(bit).collect::<Vec<_>>().into_iter(),
            );
            writeln!(
                text,
                "    al_sobol #(.WIDTH({width}), .CYCLE({cycle}), .DIRECTIONS({constant})) {name} (\n        .clk(clk), .init(init), \
                 .step(step), .k(k), .u({out})\n    );"
            )
        }
        SequenceForm::Counter => {
            let low = |b: u32| if b < cycle { format!("k[{b}]") } else { "1'b0".to_owned() };
            writeln!(
                text,
                "    assign {out} = {};",
                concatenation(&(0..width).map(low).collect::<Vec<_>>())
            )
        }
        SequenceForm::MirroredCounter => {
            let low = |b: u32| if b < cycle { format!("k[{b}]") } else { "1'b0".to_owned() };
            writeln!(
                text,
                "    assign {out} = {};",
                concatenation(&(0..width).rev().map(low).collect::<Vec<_>>())
            )
        }
        SequenceForm::Table { values } => {
            let entries: Vec<String> =
                values.iter().map(|&value| unsigned(value.into(), width)).collect();
            let function = table(&format!("value_{name}"), &range(width as usize), cycle, &entries);
            writeln!(text, "{function}    assign {out} = value_{name}(k);")
        }
    };
}
