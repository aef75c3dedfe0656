//! The test bench of every generated constant: sequences, weights, accumulators and the inter-layer
//! arithmetic.

use super::hex;
use crate::circuit::{Circuit, LayerCircuit, Operation, Products, Source, Stage, Word};
use crate::error::internal;
use crate::verilog::{File, LayerText, StageText, masked, range, top_name};
use crate::{Error, Options, Pipeline, Result};
use aleatron_core::program::{Bounds, Sign, StepKind};
use aleatron_core::{Length, Polarity, reference};
use std::fmt::Write as _;

/// The largest number of checked counts of a layer; larger sets are sampled evenly.
const MOST_COUNTS: usize = 1 << 18;

/// The largest number of checked values of each class of constants.
const MOST_VALUES: usize = 1 << 12;

/// The largest number of integers that weight thresholds are compared with.
const MOST_INTEGERS: u64 = 1 << 10;

/// The parts of the bench.
#[derive(Default)]
struct Units {
    files: Vec<File>,
    declarations: String,
    body: String,
}

pub(super) fn files(circuit: &Circuit, options: &Options) -> Result<Vec<File>> {
    let mut units = Units::default();
    let top = top_name(circuit);
    for stage in &circuit.stages {
        let module = format!("{top}_{}", stage.name);
        let input = circuit.link(stage.inputs.first().copied().unwrap_or(Source::Input));
        match &stage.operation {
            Operation::Layer(layer) => {
                let text = LayerText::new(module, layer, input, &stage.output, options);
                match layer.products {
                    Products::Streams => {
                        units.sequences(&stage.name, layer, &text);
                        units.weights(&stage.name, layer, &text, options);
                    }
                    Products::Integers => units.integers(&stage.name, layer, &text),
                }
                units.accumulate(circuit, stage, layer, &text)?;
            }
            Operation::Pool { .. } | Operation::Reorder { .. } => {}
            operation => {
                let inputs = stage.inputs.iter().map(|&source| circuit.link(source)).collect();
                let text = StageText {
                    module,
                    inputs,
                    output: &stage.output,
                    operation,
                    gating: options.clock_gating,
                };
                units.function(circuit, stage, &text)?;
            }
        }
    }
    let text = format!(
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n// Compares every generated constant with those of the engine.\n`timescale 1ns / \
         1ps\n`default_nettype none\n\nmodule units_tb;\n    integer errors = 0, checks = 0, i, g, u;\n    reg clk = 1'b0;\n    task tick;\n        \
         begin\n            #1 clk = 1'b1;\n            #1 clk = 1'b0;\n        end\n    endtask\n{}    initial begin\n{}        if (errors == 0) \
         $display(\"PASS %0d checks\", checks);\n        else $display(\"FAIL %0d differences\", errors);\n        $finish;\n    end\nendmodule\n\n\
         `default_nettype wire\n",
        units.declarations, units.body
    );
    units.files.push(File { path: "tb/units_tb.v".to_owned(), text });
    Ok(units.files)
}

/// Checks that a case of a bench fits into a word.
fn check_width(stage: &Stage, bits: u32) -> Result<()> {
    match bits < 128 {
        true => Ok(()),
        false => Err(Error::Unsupported {
            part: format!("stage {}", stage.name),
            what: format!("a test bench with cases of {bits} bits"),
            remedy: "use shorter streams or other scales",
        }),
    }
}

impl Units {
    fn memory(&mut self, file: File, name: &str, bits: u32, entries: usize) {
        let path = file.path.trim_start_matches("tb/").to_owned();
        self.files.push(file);
        let _ = writeln!(
            self.declarations,
            "    reg {} {name} [0:{}];",
            range(bits as usize),
            entries.saturating_sub(1)
        );
        let _ = writeln!(self.body, "        $readmemh(\"{path}\", {name});");
    }

    /// Adds every integer of every sequence, as computed by the engine.
    fn sequences(&mut self, name: &str, layer: &LayerCircuit, text: &LayerText<'_>) {
        let cycle = layer.cycle_bits();
        for (list, letter, width) in [
            (&layer.input_sequences, "x", layer.comparator),
            (&layer.weight_sequences, "w", layer.weight_comparator),
        ] {
            let values: Vec<Vec<u32>> =
                list.iter().map(|sequence| sequence.values(layer.length).collect()).collect();
            let by_cycle = (0..layer.length)
                .flat_map(|k| values.iter().map(move |values| i128::from(values[k])));
            let file = hex(&format!("tb/{name}_u{letter}.hex"), by_cycle, width);
            self.memory(
                file,
                &format!("{name}_u{letter}_expected"),
                width,
                layer.length * list.len(),
            );
        }
        let (xs, ws) = (layer.input_sequences.len(), layer.weight_sequences.len());
        let (x, w) = (layer.comparator, layer.weight_comparator);
        let _ = write!(
            self.declarations,
            "    reg {name}_init = 1'b0, {name}_step = 1'b0;\n    reg {} {name}_k = 0;\n    wire {} {name}_ux;\n    wire {} {name}_uw;\n    \
             {}_sequences {name}_sequences (.clk(clk), .init({name}_init), .step({name}_step), .k({name}_k), .ux({name}_ux), \
             .uw({name}_uw));\n",
            range(cycle as usize),
            range(xs * x as usize),
            range(ws * w as usize),
            text.module,
        );
        let _ = write!(
            self.body,
            "        {name}_init = 1'b1;\n        tick;\n        {name}_init = 1'b0;\n        {name}_step = 1'b1;\n        for (u = 0; u < {length}; \
             u = u + 1) begin\n            {name}_k = u[{}:0];\n            #1;\n            for (i = 0; i < {xs}; i = i + 1) begin\n                \
             checks = checks + 1;\n                if ({name}_ux[i*{x}+:{x}] !== {name}_ux_expected[u*{xs}+i]) begin\n                    \
             errors = errors + 1;\n                    if (errors < 20) $display(\"FAIL {name}: sequence %0d of inputs, cycle %0d: %0d, \
             expected %0d\", i, u, {name}_ux[i*{x}+:{x}], {name}_ux_expected[u*{xs}+i]);\n                end\n            end\n            for (i = \
             0; i < {ws}; i = i + 1) begin\n                checks = checks + 1;\n                if ({name}_uw[i*{w}+:{w}] !== \
             {name}_uw_expected[u*{ws}+i]) begin\n                    errors = errors + 1;\n                    if (errors < 20) \
             $display(\"FAIL {name}: sequence %0d of weights, cycle %0d: %0d, expected %0d\", i, u, {name}_uw[i*{w}+:{w}], \
             {name}_uw_expected[u*{ws}+i]);\n                end\n            end\n            tick;\n        end\n        {name}_step = 1'b0;\n",
            cycle - 1,
            length = layer.length,
        );
    }

    /// Adds every weight against every integer of its comparator.
    fn weights(
        &mut self,
        name: &str,
        layer: &LayerCircuit,
        text: &LayerText<'_>,
        options: &Options,
    ) {
        let (n, rows, w) = (layer.fan_in(), layer.rows.len(), layer.weight_comparator);
        let words = layer.rows.iter().flat_map(|row| {
            row.thresholds
                .iter()
                .zip(&row.negative)
                .map(|(&t, &negative)| i128::from(t) | i128::from(negative) << (w + 1))
        });
        self.memory(
            hex(&format!("tb/{name}_weights.hex"), words, w + 2),
            &format!("{name}_weight"),
            w + 2,
            rows * n,
        );
        let mut integers: Vec<u64> = if 1 << w <= MOST_INTEGERS {
            (0..1 << w).collect()
        } else {
            // Both sides of thresholds: no other integer distinguishes two thresholds.
            let all = layer
                .rows
                .iter()
                .flat_map(|row| row.thresholds.iter().flat_map(|&t| [t.saturating_sub(1), t]));
            all.filter(|&u| u < 1 << w).collect()
        };
        integers.sort_unstable();
        integers.dedup();
        let step = integers.len().div_ceil(MOST_INTEGERS as usize).max(1);
        let integers: Vec<i128> = integers.into_iter().step_by(step).map(i128::from).collect();
        let n_integers = integers.len();
        self.memory(
            hex(&format!("tb/{name}_integers.hex"), integers.into_iter(), w),
            &format!("{name}_integer"),
            w,
            n_integers,
        );
        let (sequences, lanes, group) =
            (layer.weight_sequences.len(), text.lanes, text.group_bits());
        let all = range(lanes * n);
        let _ = write!(
            self.declarations,
            "    reg {} {name}_group = 0;\n    reg {} {name}_u = 0;\n    wire {all} {name}_bits, {name}_negative;\n    {}_weights {name}_weights \
             (.clk(clk), .step(1'b1), .group({name}_group), .u({{{sequences}{{{name}_u}}}}), .bits({name}_bits), \
             .negative({name}_negative));\n",
            range(group as usize),
            range(w as usize),
            text.module,
        );
        let tick = if options.pipeline == Pipeline::Registers { "tick" } else { "#1" };
        let _ = write!(
            self.body,
            "        for (u = 0; u < {n_integers}; u = u + 1) begin\n            {name}_u = {name}_integer[u];\n            for (g = 0; g < {}; g = \
             g + 1) begin\n                {name}_group = g[{}:0];\n                {tick};\n                for (i = 0; i < {lanes} * {n} && g * \
             {lanes} * {n} + i < {}; i = i + 1) begin\n                    checks = checks + 1;\n                    if ({name}_bits[i] !== \
             ({{2'b00, {name}_u}} < {{1'b0, {name}_weight[g*{lanes}*{n}+i][{w}:0]}}) || {name}_negative[i] !== \
             {name}_weight[g*{lanes}*{n}+i][{}]) begin\n                        errors = errors + 1;\n                        if (errors < \
             20) $display(\"FAIL {name}: weight %0d with %0d: %b %b, threshold %0d\", g * {lanes} * {n} + i, {name}_u, {name}_bits[i], \
             {name}_negative[i], {name}_weight[g*{lanes}*{n}+i]);\n                    end\n                end\n            end\n        end\n",
            text.groups,
            group - 1,
            rows * n,
            w + 1,
        );
    }

    /// Adds every weight of a layer of integers.
    fn integers(&mut self, name: &str, layer: &LayerCircuit, text: &LayerText<'_>) {
        let (n, rows, w) = (layer.fan_in(), layer.rows.len(), layer.weight_comparator);
        let words = layer.rows.iter().flat_map(|row| {
            let weights = row.thresholds.iter().zip(&row.negative);
            weights.map(|(&weight, &negative)| i128::from(weight) | i128::from(negative) << w)
        });
        let file = hex(&format!("tb/{name}_weights.hex"), words, w + 1);
        self.memory(file, &format!("{name}_weight"), w + 1, rows * n);
        let (lanes, group, cycle) = (text.lanes, text.group_bits(), layer.cycle_bits());
        let _ = write!(
            self.declarations,
            "    reg {} {name}_group = 0;\n    reg {} {name}_k = 0;\n    wire {} {name}_words;\n    {}_weights {name}_weights \
             (.group({name}_group), .k({name}_k), .weights({name}_words));\n",
            range(group as usize),
            range(cycle as usize),
            range(lanes * (w as usize + 1)),
            text.module,
        );
        let _ = write!(
            self.body,
            "        for (g = 0; g < {}; g = g + 1)\n            for (u = 0; u < {n}; u = u + 1) begin\n                {name}_group = \
             g[{}:0];\n                {name}_k = u[{}:0];\n                #1;\n                for (i = 0; i < {lanes} && g * {lanes} + i < \
             {rows}; i = i + 1) begin\n                    checks = checks + 1;\n                    if ({name}_words[i*{width}+:{width}] !== \
             {name}_weight[(g*{lanes}+i)*{n}+u]) begin\n                        errors = errors + 1;\n                        if (errors < 20) \
             $display(\"FAIL {name}: weight %0d of neuron %0d: %h, expected %h\", u, g * {lanes} + i, \
             {name}_words[i*{width}+:{width}], {name}_weight[(g*{lanes}+i)*{n}+u]);\n                    end\n                end\n            \
             end\n",
            text.groups,
            group - 1,
            cycle - 1,
            width = w + 1,
        );
    }

    /// Adds every count of every neuron.
    fn accumulate(
        &mut self,
        circuit: &Circuit,
        stage: &Stage,
        layer: &LayerCircuit,
        text: &LayerText<'_>,
    ) -> Result<()> {
        let missing = || internal("hardware::bench::accumulate");
        let spec = &circuit.program.layers().get(layer.layer).ok_or_else(missing)?.spec;
        let step = circuit.program.steps().iter().find(|step| step.output() == stage.output.slot);
        let Some(StepKind::Accumulate { accumulator, .. }) =
            step.map(aleatron_core::program::Step::kind)
        else {
            return Err(missing());
        };
        let (per_row, length) = (spec.neurons_per_row(), layer.length as u64);
        let (neuron, position) = (text.neuron_bits(), text.position_bits());
        let a = stage.output.word.bits();
        let mut entries = Vec::new();
        let read_bits = if layer.checks.is_empty() { 0 } else { text.read_bits() };
        let mut push_read =
            |read: usize, row: usize, at: usize, value: i64, counter_value: i128| {
                let parts = [
                    (masked(value.into(), a), a),
                    (masked(counter_value, layer.count_bits), layer.count_bits),
                    (row as u128, neuron),
                    (at as u128, position),
                    (read as u128, read_bits),
                ];
                entries
                    .push(parts.iter().rev().fold(0_u128, |all, (part, bits)| all << bits | part)
                        as i128);
            };
        for (read, check) in layer.checks.iter().enumerate() {
            let part = spec.with_length(Length::new(check.cycles)?)?;
            for row in 0..layer.rows.len() {
                let fan_in = part.fan_in(row);
                let negative = layer.negative(row) as u64;
                let (n, cycles) = (fan_in as u64, check.cycles as u64);
                let most = [0, n * cycles];
                let [least, most] = match layer.polarity {
                    Polarity::Unipolar | Polarity::Bipolar => most,
                    Polarity::Signed => most.map(|count| count + (n - negative.min(n)) * cycles),
                };
                for count in least..=most {
                    let sum = part.polarity().sum(count, fan_in, part.length());
                    let value = check.value(accumulator, row, sum).ok_or_else(missing)?;
                    push_read(read, row, 0, value, layer.counter(row, count, fan_in, check.cycles));
                }
            }
        }
        let mut push = |row: usize, at: usize, count: u64| {
            let fan_in = spec.fan_in(row * per_row + at);
            let value = reference::accumulate(accumulator, spec, row * per_row + at, count);
            let counter_value = layer.counter(row, count, fan_in, layer.length);
            push_read(layer.checks.len(), row, at, value, counter_value);
        };
        for (row, weights) in layer.rows.iter().enumerate() {
            let negative = weights.negative.iter().filter(|negative| **negative).count() as u64;
            // Positions of one row differ only in their products.
            let at = (0..per_row).max_by_key(|&at| spec.fan_in(row * per_row + at)).unwrap_or(0);
            let n = spec.fan_in(row * per_row + at) as u64;
            let counts = match (layer.polarity, layer.inputs) {
                (Polarity::Unipolar | Polarity::Bipolar, _) => [0, n * length],
                (Polarity::Signed, crate::InputInterval::Signed) => [0, 2 * n * length],
                (Polarity::Signed, crate::InputInterval::NonNegative) => {
                    let negative = negative.min(n);
                    [(n - negative) * length, (2 * n - negative) * length]
                }
            };
            let all = (counts[1] - counts[0] + 1) as usize * layer.rows.len();
            let stride = all.div_ceil(MOST_COUNTS).max(1) as u64;
            let mut count = counts[0];
            while count < counts[1] {
                push(row, at, count);
                count += stride;
            }
            push(row, at, counts[1]);
            if !layer.padding_offsets.is_empty() {
                for at in 0..per_row {
                    let most = spec.fan_in(row * per_row + at) as u64 * length;
                    [0, most / 2, most].into_iter().for_each(|count| push(row, at, count));
                }
            }
        }
        let bits = a + layer.count_bits + neuron + position + read_bits;
        check_width(stage, bits)?;
        let (name, n) = (&stage.name, entries.len());
        self.memory(
            hex(&format!("tb/{name}_accumulate.hex"), entries.into_iter(), bits),
            &format!("{name}_case"),
            bits,
            n,
        );
        let c = layer.count_bits;
        let read_number = match read_bits {
            0 => String::new(),
            read => format!(".read_number({name}_now[{}:{}]), ", bits - 1, bits - read),
        };
        let _ = write!(
            self.declarations,
            "    reg {} {name}_now = 0;\n    wire {} {name}_value;\n    {}_accumulate {name}_accumulate ({read_number}.position({name}_now[{}:{}]), \
             .neuron({name}_now[{}:{}]), .count({name}_now[{}:{a}]), .value({name}_value));\n",
            range(bits as usize),
            range(a as usize),
            text.module,
            bits - read_bits - 1,
            a + c + neuron,
            a + c + neuron - 1,
            a + c,
            a + c - 1,
        );
        self.cases(name, n, a, &format!("{name}_value"));
        Ok(())
    }

    /// Compares a combinational module with all its cases, whose lowest bits are the result.
    fn cases(&mut self, name: &str, n: usize, bits: u32, result: &str) {
        let _ = write!(
            self.body,
            "        for (u = 0; u < {n}; u = u + 1) begin\n            {name}_now = {name}_case[u];\n            #1;\n            checks = checks + \
             1;\n            if ({result} !== {name}_now[{}:0]) begin\n                errors = errors + 1;\n                if (errors < 20) \
             $display(\"FAIL {name}: case %0d: %h, expected %h\", u, {result}, {name}_now[{}:0]);\n            end\n        end\n",
            bits - 1,
            bits - 1,
        );
    }

    /// Adds the arithmetic of elements with every constant, on both sides of every step if there
    /// are not too many.
    fn function(&mut self, circuit: &Circuit, stage: &Stage, text: &StageText<'_>) -> Result<()> {
        let missing = || internal("hardware::bench::function");
        let step = circuit
            .program
            .steps()
            .iter()
            .find(|step| step.output() == stage.output.slot)
            .ok_or_else(missing)?;
        let len = stage.output.elements;
        let widths: Vec<u32> = text.inputs.iter().map(|link| link.word.bits()).collect();
        let intervals: Vec<[i64; 2]> = text
            .inputs
            .iter()
            .filter_map(|link| match link.word {
                Word::Integer { low, high } => Some([low, high]),
                Word::Threshold { .. } => None,
            })
            .collect();
        let (result, index) = (stage.output.word.bits(), text.index_bits());
        let mut entries = Vec::new();
        let mut seen =
            vec![false; text.classes().iter().max().map_or(1, |&most| most as usize + 1)];
        for (k, &class) in text.classes().iter().enumerate() {
            let element = *stage.output.order.get(k).ok_or_else(missing)? as usize % len;
            let is_first = !std::mem::replace(&mut seen[class as usize], true);
            let most = if is_first { MOST_VALUES } else { 8 };
            for values in samples(&intervals, most) {
                let expected =
                    expected(step.kind(), element, &values, stage).ok_or_else(missing)?;
                let mut word = k as u128;
                for (value, bits) in values.iter().zip(&widths).rev() {
                    word = word << bits | masked((*value).into(), *bits);
                }
                entries.push((word << result | masked(expected, result)) as i128);
            }
        }
        let bits = index + widths.iter().sum::<u32>() + result;
        check_width(stage, bits)?;
        let (name, n) = (&stage.name, entries.len());
        self.memory(
            hex(&format!("tb/{name}_cases.hex"), entries.into_iter(), bits),
            &format!("{name}_case"),
            bits,
            n,
        );
        let mut connections = String::new();
        let mut low = result;
        let ports = if widths.len() == 2 { &["a", "b"][..] } else { &["value"] };
        for (port, width) in ports.iter().zip(&widths) {
            let _ = write!(connections, ".{port}({name}_now[{}:{low}]), ", low + width - 1);
            low += width;
        }
        let _ = write!(
            self.declarations,
            "    reg {} {name}_now = 0;\n    wire {} {name}_result;\n    {}_function {name}_function (.index({name}_now[{}:{low}]), \
             {connections}.result({name}_result));\n",
            range(bits as usize),
            range(result as usize),
            text.module,
            bits - 1,
        );
        self.cases(name, n, result, &format!("{name}_result"));
        Ok(())
    }
}

/// Returns values of one or two intervals: all of a small one, otherwise both ends, zeros and some
/// in between.
fn samples(intervals: &[[i64; 2]], most: usize) -> Vec<Vec<i64>> {
    let spread = |[low, high]: [i64; 2], most: usize| -> Vec<i64> {
        let span = (i128::from(high) - i128::from(low)) as u128;
        let steps = (most as u128).min(span + 1).max(2);
        let value = |k: u128| (i128::from(low) + (span * k / (steps - 1)) as i128) as i64;
        let mut values: Vec<i64> = (0..steps).map(value).collect();
        values.extend([0, -1, 1].into_iter().filter(|value| (low..=high).contains(value)));
        values
    };
    match intervals {
        [one] => spread(*one, most).into_iter().map(|value| vec![value]).collect(),
        [first, second] => {
            let side = (most as f64).sqrt() as usize + 2;
            let seconds = spread(*second, side);
            spread(*first, side)
                .into_iter()
                .flat_map(|a| seconds.iter().map(move |&b| vec![a, b]))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the result of the engine's reference for an element.
fn expected(step: &StepKind, element: usize, values: &[i64], stage: &Stage) -> Option<i128> {
    let value = *values.first()?;
    let signed = |sign: &Sign, value: i64| if *sign == Sign::Minus { -value } else { value };
    Some(match step {
        StepKind::Requantize { requantizers, .. } => {
            let threshold = reference::requantize(requantizers.get(element), value);
            let Word::Threshold { width, .. } = stage.output.word else { return None };
            let sign = i128::from(aleatron_core::threshold::is_negative(threshold)) << (width + 1);
            i128::from(aleatron_core::threshold::magnitude(threshold)) | sign
        }
        StepKind::Offset { sign, terms } => {
            i128::from(signed(sign, value)) + i128::from(*terms.get(element))
        }
        StepKind::Clip(Bounds::Integer(bounds)) => {
            let [low, high] = *bounds.get(element);
            value.max(low).min(high).into()
        }
        StepKind::Combine { sign, rescale } => {
            let rescalers = rescale.as_ref().map_or([None; 2], |rescale| *rescale.get(element));
            let scaled = |k: usize| {
                let value = *values.get(k)?;
                Some(rescalers[k].map_or(value, |rescaler| reference::rescale(&rescaler, value)))
            };
            i128::from(scaled(0)?) + i128::from(signed(sign, scaled(1)?))
        }
        _ => return None,
    })
}
