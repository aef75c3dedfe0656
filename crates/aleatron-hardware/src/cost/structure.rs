//! The structures of a circuit and their activity, counted from its description.

use super::activity::Activity;
use super::lane::LaneActivity;
use super::{AreaTerm, EnergyTerm};
use crate::circuit::{
    Circuit, LayerCircuit, Link, Operation, Products, SCORE_SHIFT, SequenceForm, Source, Stage,
    Window, Word, bits,
};
use crate::verilog::{
    Counter, CounterSize, LayerText, cycles, latency_bound, scale_bits, width_of,
};
use crate::{EarlyTrace, Options, Output, Pipeline, Trace};
use aleatron_core::Polarity;
use std::collections::{BTreeMap, HashSet};

/// The number of structures of each term of the area, and the activity of each term of the energy
/// of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Structure {
    area: [f64; AreaTerm::ALL.len()],
    energy: [f64; EnergyTerm::ALL.len()],
    /// The cycles of a sample.
    pub(super) cycles: f64,
}

/// The duration of the streams of a layer.
#[derive(Debug, Clone, Copy)]
struct Duration {
    /// The mean number of stream cycles of a run.
    cycles: f64,
    /// The share of all cycles.
    share: f64,
    /// The mean number of times that all scores are read.
    reads: f64,
}

impl Duration {
    /// Returns the duration of a layer, with early termination that of the samples of a trace.
    fn new(layer: &LayerCircuit, early: Option<&EarlyTrace>) -> Self {
        let length = layer.length as f64;
        match early {
            Some(early) if !layer.checks.is_empty() => {
                let cycles = early.mean_cycles();
                Self { cycles, share: cycles / length, reads: early.mean_reads() }
            }
            _ => Self { cycles: length, share: 1.0, reads: 1.0 },
        }
    }
}

/// The use of a layer by a sample.
struct Usage {
    runs: f64,
    /// Cycles of streams in all runs.
    steps: f64,
    /// The share of a complete run that each run takes.
    share: f64,
    /// Words that enter.
    pushes: f64,
}

impl Structure {
    /// Counts the structures of a circuit. The activity is that of the samples of a trace or,
    /// without one, that of uniformly distributed inputs.
    #[must_use]
    pub fn new(circuit: &Circuit, options: &Options, trace: Option<&Trace>) -> Self {
        let stages = cycles(circuit, options);
        let interval = stages.iter().map(|stage| stage.cycles).max().unwrap_or(0) as f64;
        // Samples of a trace follow each other; the first one takes its whole latency.
        let cycles = match trace {
            Some(trace) => {
                interval
                    + (latency_bound(&stages) as f64 - interval) / trace.n_samples.max(1) as f64
            }
            None => interval,
        };
        let mut structure =
            Self { area: [0.0; AreaTerm::ALL.len()], energy: [0.0; EnergyTerm::ALL.len()], cycles };
        for (k, stage) in circuit.stages.iter().enumerate() {
            let before = structure.arithmetic();
            let input = circuit.link(stage.inputs.first().copied().unwrap_or(Source::Input));
            match &stage.operation {
                Operation::Layer(layer) if layer.products == Products::Integers => {
                    structure.integer_layer(circuit, k, layer, &stage.output, options, trace);
                }
                Operation::Layer(layer) => {
                    let activity = Activity::new(circuit, k, layer, options, trace);
                    let early = trace.and_then(|trace| trace.early.as_ref());
                    let duration = Duration::new(layer, early);
                    structure.layer(layer, [input, &stage.output], options, &activity, duration);
                }
                operation => {
                    let levels = structure.area(AreaTerm::LevelBit);
                    structure.operation(circuit, stage, operation);
                    let (term, size) = match operation {
                        Operation::Requantize { .. } => (
                            EnergyTerm::RequantizeStep,
                            structure.area(AreaTerm::LevelBit) - levels,
                        ),
                        _ => (EnergyTerm::ArithmeticStep, structure.arithmetic() - before),
                    };
                    structure.use_energy(term, size * input.elements as f64);
                    let register =
                        f64::from(stage.output.word.bits()) * stage.output.elements as f64;
                    structure.use_energy(EnergyTerm::RegisterStep, register);
                }
            }
            structure.add(AreaTerm::Stage, 1.0);
        }
        let scores = circuit.link(circuit.output);
        structure.add(
            AreaTerm::IndexBit,
            f64::from(bits(scores.elements) + bits(circuit.input.elements)),
        );
        if options.output == Output::Class {
            structure.decision(circuit, scores);
        }
        for (term, bits) in [
            (EnergyTerm::BufferIndex, AreaTerm::BufferIndexBit),
            (EnergyTerm::IndexIdle, AreaTerm::IndexBit),
            (EnergyTerm::StageIdle, AreaTerm::Stage),
        ] {
            structure.use_energy(term, structure.area(bits) * structure.cycles);
        }
        structure
    }

    /// Returns the number of structures of a term.
    #[must_use]
    pub fn area(&self, term: AreaTerm) -> f64 {
        self.area.get(term as usize).copied().unwrap_or(0.0)
    }

    /// Returns the activity of a term in a sample.
    #[must_use]
    pub fn energy(&self, term: EnergyTerm) -> f64 {
        self.energy.get(term as usize).copied().unwrap_or(0.0)
    }

    pub(super) fn add(&mut self, term: AreaTerm, amount: f64) {
        if let Some(slot) = self.area.get_mut(term as usize) {
            *slot += amount;
        }
    }

    pub(super) fn use_energy(&mut self, term: EnergyTerm, amount: f64) {
        if let Some(slot) = self.energy.get_mut(term as usize) {
            *slot += amount;
        }
    }

    /// Returns a measure of the area of arithmetic so far, for its energy.
    fn arithmetic(&self) -> f64 {
        self.area(AreaTerm::SumBit)
            + self.area(AreaTerm::MultiplierBit)
            + self.area(AreaTerm::LevelBit)
            + self.area(AreaTerm::PoolBit)
    }

    fn layer(
        &mut self,
        layer: &LayerCircuit,
        [input, output]: [&Link; 2],
        options: &Options,
        activity: &Activity,
        duration: Duration,
    ) {
        let rows = layer.rows.len();
        let lanes = options.lanes.unwrap_or(rows).clamp(1, rows.max(1));
        let groups = rows.div_ceil(lanes);
        let (n, taps) = (layer.fan_in(), layer.taps.len());
        let runs = (layer.window.positions * groups) as f64;
        let pushes = self.window(&layer.window, layer.word_bits(), activity.word);
        let usage = Usage { runs, steps: runs * duration.cycles, share: duration.share, pushes };
        let products = (lanes * n) as f64;
        self.sequences(layer, &usage);
        let comparator = taps as f64 * f64::from(layer.comparator);
        self.add(AreaTerm::ComparatorBit, comparator);
        self.use_energy(
            EnergyTerm::CompareStep,
            comparator * usage.steps * activity.input_sequence,
        );
        self.use_energy(EnergyTerm::CompareShift, comparator * pushes * activity.word);
        self.weights(layer, [lanes, groups], options.pipeline, &usage, activity);
        let reads = (layer.window.positions * rows) as f64 * duration.reads;
        self.lanes(layer, lanes, options.pipeline, &usage, reads, &activity.lane);
        let product = match layer.polarity {
            Polarity::Unipolar => AreaTerm::UnipolarProduct,
            Polarity::Bipolar => AreaTerm::BipolarProduct,
            Polarity::Signed => AreaTerm::SignedProduct,
        };
        self.add(product, products);
        let text = LayerText::new(String::new(), layer, input, output, options);
        let sizes: Vec<CounterSize> = text.counters().into_iter().map(Counter::size).collect();
        self.add(AreaTerm::FullAdder, sizes.iter().map(|size| size.full as f64).sum());
        self.add(AreaTerm::HalfAdder, sizes.iter().map(|size| size.half as f64).sum());
        self.add(AreaTerm::TopGate, sizes.iter().map(|size| size.xor as f64).sum());
        let count_bits = lanes as f64 * f64::from(layer.count_bits);
        self.add(AreaTerm::CountBit, count_bits);
        self.add(AreaTerm::ReadBit, count_bits - f64::from(layer.count_bits));
        self.add(AreaTerm::MaskedTap, taps as f64);
        if layer.has_signs() {
            self.add(AreaTerm::StartBit, count_bits);
            let adders = count_bits * f64::from(layer.length.count_ones().saturating_sub(1));
            self.add(AreaTerm::StartAdderBit, adders);
            self.add(AreaTerm::SignedLane, products);
        }
        if options.pipeline == Pipeline::Registers {
            self.add(AreaTerm::InputRegister, taps as f64);
        }
        if layer.input_groups.len() > 1 && groups > 1 {
            self.add(AreaTerm::GroupedInput, products * (groups - 1) as f64);
        }
        self.add(
            AreaTerm::OffsetBit,
            rows as f64 * f64::from(layer.sum_bits - layer.count_shift.min(layer.sum_bits)),
        );
        self.add(AreaTerm::SumBit, f64::from(layer.sum_bits));
        self.add(
            AreaTerm::ConstantBit,
            layer.padding_offsets.len() as f64 * f64::from(layer.sum_bits),
        );
        let index = [layer.length, rows, lanes, groups, layer.window.positions]
            .map(|n| if n > 1 { bits(n) } else { 0 });
        self.add(AreaTerm::IndexBit, f64::from(index.iter().sum::<u32>()));
        self.add(AreaTerm::RegisterBit, f64::from(output.word.bits()));
    }

    /// Counts a line buffer, and returns the number of words that a sample pushes.
    pub(super) fn window(&mut self, window: &Window, word: u32, activity: f64) -> f64 {
        let buffer = window.depth() as f64 * f64::from(word);
        let height = window.size[0] + window.padding[0][0] + window.padding[0][1];
        let pushes = (height * window.padded_columns() * window.channels) as f64;
        let sizes =
            [window.channels, window.padded_columns(), height, window.stride[0], window.stride[1]];
        self.add(AreaTerm::BufferBit, buffer);
        let index = sizes.map(|n| if n > 1 { bits(n) } else { 0 });
        self.add(AreaTerm::BufferIndexBit, f64::from(index.iter().sum::<u32>() + 1));
        self.use_energy(EnergyTerm::BufferIdle, buffer * self.cycles);
        self.use_energy(EnergyTerm::BufferClock, buffer * pushes);
        self.use_energy(EnergyTerm::BufferToggle, buffer * pushes * activity);
        pushes
    }

    /// Counts the activity of products, counters, accumulators and of their readers.
    fn lanes(
        &mut self,
        layer: &LayerCircuit,
        lanes: usize,
        pipeline: Pipeline,
        &Usage { runs, steps, share, pushes }: &Usage,
        reads: f64,
        activity: &LaneActivity,
    ) {
        let (all, taps) = (lanes as f64, layer.taps.len() as f64);
        let products = (lanes * layer.fan_in()) as f64;
        // One cycle of a run sets the start values.
        let run_cycles = steps + runs;
        // The activity is that of complete runs.
        let runs = runs * share;
        let gate = match (layer.polarity, layer.has_signs()) {
            (Polarity::Bipolar, _) => EnergyTerm::XnorToggle,
            (Polarity::Signed, true) => EnergyTerm::SignedToggle,
            _ => EnergyTerm::AndToggle,
        };
        // Words that enter change the signs of products.
        let loaded = products * pushes * activity.loaded_sign;
        self.use_energy(gate, products * runs * activity.product_gate + loaded);
        self.use_energy(EnergyTerm::AdderInput, products * runs * activity.product + loaded);
        self.use_energy(
            EnergyTerm::AdderPulse,
            products * runs * (activity.product_gate - activity.product),
        );
        let adders = all * (runs * activity.adders + pushes * activity.loaded_adders);
        self.use_energy(EnergyTerm::AdderToggle, adders);
        if pipeline == Pipeline::None {
            self.use_energy(EnergyTerm::DirectAdderToggle, adders);
        }
        let sequences = || layer.input_sequences.iter().chain(&layer.weight_sequences);
        if sequences().any(|sequence| matches!(sequence.form, SequenceForm::Table { .. })) {
            self.use_energy(EnergyTerm::TableAdderToggle, adders);
        }
        let width = f64::from(layer.count_bits);
        self.use_energy(EnergyTerm::CountClock, all * width * run_cycles);
        // Each count has a separate clock gate.
        self.use_energy(EnergyTerm::CountGate, all * run_cycles);
        self.use_energy(EnergyTerm::CountIdle, all * self.cycles);
        self.use_energy(EnergyTerm::CountToggle, all * runs * activity.count);
        if layer.has_signs() {
            let sums = all * runs * activity.sums;
            self.use_energy(EnergyTerm::SignedSum, sums);
            let additions = layer.length.count_ones().saturating_sub(1);
            self.use_energy(EnergyTerm::StartSum, sums * f64::from(additions));
        }
        let sum_bits = f64::from(layer.sum_bits);
        self.use_energy(EnergyTerm::SumRun, sum_bits * runs * activity.count / width.max(1.0));
        self.use_energy(EnergyTerm::SumRead, sum_bits * reads);
        self.use_energy(EnergyTerm::CycleStep, steps);
        self.use_energy(EnergyTerm::PushStep, pushes);
        self.use_energy(EnergyTerm::CompareToggle, taps * runs * activity.input);
        self.use_energy(EnergyTerm::MaskToggle, taps * runs * activity.input);
        if lanes > 1 {
            // Between runs, the multiplexer selects one count after the other; in a run, all counts
            // change before it.
            self.use_energy(EnergyTerm::ReadRun, all * runs * activity.count);
            self.use_energy(EnergyTerm::ReadSelect, reads * width);
            self.use_energy(EnergyTerm::ReadDecode, reads * all);
        }
        if pipeline == Pipeline::Registers {
            self.use_energy(EnergyTerm::InputClock, taps * run_cycles);
        }
    }

    fn sequences(&mut self, layer: &LayerCircuit, &Usage { runs, steps, .. }: &Usage) {
        for sequence in layer.input_sequences.iter().chain(&layer.weight_sequences) {
            let width = f64::from(sequence.width);
            match &sequence.form {
                SequenceForm::Lfsr { .. } => {
                    self.add(AreaTerm::LfsrBit, width);
                    self.use_energy(EnergyTerm::LfsrStep, width * (steps + runs));
                    self.use_energy(EnergyTerm::SequenceIdle, self.cycles);
                }
                SequenceForm::Sobol { directions } => {
                    self.add(AreaTerm::SobolBit, width);
                    let ones =
                        directions.iter().map(|direction| direction.count_ones()).sum::<u32>();
                    self.add(AreaTerm::SobolDirection, f64::from(ones));
                    self.use_energy(EnergyTerm::SobolStep, width * (steps + runs));
                    self.use_energy(EnergyTerm::SequenceIdle, self.cycles);
                }
                SequenceForm::Counter | SequenceForm::MirroredCounter => {}
                SequenceForm::Table { values } => {
                    self.add(AreaTerm::SequenceTableBit, values.len() as f64 * width);
                    self.use_energy(EnergyTerm::TableStep, width * steps);
                    self.use_energy(EnergyTerm::TableBit, values.len() as f64 * width * steps);
                }
            }
        }
    }

    fn weights(
        &mut self,
        layer: &LayerCircuit,
        [lanes, groups]: [usize; 2],
        pipeline: Pipeline,
        &Usage { runs, steps, share, .. }: &Usage,
        activity: &Activity,
    ) {
        let mut of_sequence: BTreeMap<u32, HashSet<u64>> = BTreeMap::new();
        for row in &layer.rows {
            for (&sequence, &threshold) in row.sequences.iter().zip(&row.thresholds) {
                of_sequence.entry(sequence).or_default().insert(threshold);
            }
        }
        let width = layer.weight_comparator;
        let gates: usize =
            of_sequence.values().map(|thresholds| constant_gates(thresholds, width)).sum();
        self.add(AreaTerm::ConstantGate, gates as f64);
        let bits = of_sequence.values().map(HashSet::len).sum::<usize>() as f64;
        self.use_energy(EnergyTerm::WeightStep, gates as f64 * steps * activity.weight_sequence);
        self.use_energy(EnergyTerm::WeightToggle, bits * runs * share * activity.lane.weight);
        if groups > 1 {
            let selected = (lanes * layer.fan_in()) as f64;
            self.add(AreaTerm::WeightSelector, selected);
            self.add(AreaTerm::SelectedWeight, selected * (groups - 1) as f64);
            let changes = selected * runs * share * activity.lane.weight;
            self.use_energy(EnergyTerm::SelectedWeight, changes);
            self.use_energy(EnergyTerm::UnselectedWeight, changes * (groups - 1) as f64);
        }
        if pipeline == Pipeline::Registers {
            self.add(AreaTerm::WeightRegister, bits);
            self.use_energy(EnergyTerm::WeightClock, bits * (steps + runs));
        }
    }

    fn operation(&mut self, circuit: &Circuit, stage: &Stage, operation: &Operation) {
        let bits_of =
            |k: usize| stage.inputs.get(k).map_or(1, |&source| circuit.link(source).word.bits());
        let interval = |k: usize| match stage.inputs.get(k).map(|&source| circuit.link(source).word)
        {
            Some(Word::Integer { low, high }) => (i128::from(low), i128::from(high)),
            _ => (0, 0),
        };
        let output = stage.output.word.bits();
        self.add(AreaTerm::RegisterBit, f64::from(output));
        match operation {
            Operation::Layer(_) => {}
            Operation::Requantize { multipliers, shift, classes, comparator, .. } => {
                self.scale(bits_of(0), interval(0), multipliers, *shift, classes.len());
                self.add(AreaTerm::LevelBit, f64::from(*comparator));
                self.index(classes);
            }
            Operation::Offset { classes, .. } | Operation::Clip { classes, .. } => {
                self.add(AreaTerm::SumBit, f64::from(bits_of(0).max(output)));
                self.add(AreaTerm::ConstantBit, constants(classes) * f64::from(output));
                self.index(classes);
            }
            Operation::Add { multipliers, shifts, classes, .. } => {
                for k in [0, 1] {
                    let own: Vec<u128> = multipliers.iter().map(|pair| pair[k]).collect();
                    self.scale(bits_of(k), interval(k), &own, shifts[k], classes.len());
                    self.memory(stage.output.elements, bits_of(k));
                }
                self.add(AreaTerm::SumBit, f64::from(output));
                self.index(classes);
            }
            Operation::Pool { window, divisor } => {
                let a = bits_of(0);
                self.window(window, a, 0.25);
                let n = (window.kernel[0] * window.kernel[1]) as f64;
                self.add(AreaTerm::PoolBit, n * f64::from(a));
                if divisor.is_some_and(|divisor| !divisor.is_power_of_two()) {
                    // A division by a constant is a row of subtractions.
                    self.add(AreaTerm::MultiplierBit, f64::from(a * a));
                }
            }
            Operation::Reorder { addresses } => {
                let n = stage.inputs.first().map_or(1, |&source| circuit.link(source).elements);
                self.memory(n, output);
                self.add(AreaTerm::ConstantBit, addresses.len() as f64 * f64::from(bits(n)));
            }
        }
    }

    /// Counts the comparison of scores and, with early termination, of the second one.
    fn decision(&mut self, circuit: &Circuit, scores: &Link) {
        let width = scores.word.bits();
        self.add(AreaTerm::RegisterBit, f64::from(2 * width + 2 * bits(scores.elements)));
        if let Some((_, layer)) = circuit.checked_layer() {
            let reads = layer.checks.len() + 1;
            self.add(AreaTerm::RegisterBit, f64::from(width + bits(reads)));
            self.add(AreaTerm::LevelBit, f64::from(2 * width));
            self.add(
                AreaTerm::ConstantBit,
                (layer.checks.len() * scores.elements) as f64 * f64::from(layer.sum_bits),
            );
        }
        if let (Word::Integer { low, high }, false) =
            (scores.word, circuit.score_multipliers.is_empty())
        {
            let factors: Vec<u128> =
                circuit.score_multipliers.iter().map(|&factor| factor.into()).collect();
            self.scale(width, (low.into(), high.into()), &factors, SCORE_SHIFT, factors.len());
        }
    }

    fn index(&mut self, classes: &[u32]) {
        let index = if classes.len() > 1 { bits(classes.len()) } else { 0 };
        self.add(AreaTerm::IndexBit, f64::from(index));
    }

    fn memory(&mut self, words: usize, width: u32) {
        self.add(AreaTerm::MemoryBit, words as f64 * f64::from(width));
        self.add(AreaTerm::BufferIndexBit, f64::from(3 * bits(words)));
        // One word of the memory is written or read at a time.
        self.use_energy(EnergyTerm::BufferClock, 2.0 * words as f64 * f64::from(width));
    }

    fn scale(
        &mut self,
        a: u32,
        (low, high): (i128, i128),
        multipliers: &[u128],
        shift: u32,
        period: usize,
    ) {
        let m = width_of(multipliers.iter().copied());
        let (product, level) = scale_bits(low, high, multipliers, shift, a, m);
        self.add(AreaTerm::MultiplierBit, f64::from(a) * f64::from(m));
        self.add(AreaTerm::LevelBit, f64::from(product.max(level)));
        if period > 1 {
            self.add(AreaTerm::ConstantBit, period as f64 * f64::from(m));
        }
    }
}

/// Returns the number of different constants that a table holds, 0 if it needs none.
fn constants(classes: &[u32]) -> f64 {
    if classes.len() > 1 { classes.len() as f64 } else { 0.0 }
}

/// Returns the number of gates of comparisons of one number with constants: one for each bit of a
/// constant above its lowest one. Comparisons with constants whose low bits are equal share the
/// gates of these bits.
fn constant_gates(thresholds: &HashSet<u64>, width: u32) -> usize {
    let mut gates = HashSet::new();
    for &threshold in thresholds.iter().filter(|&&threshold| threshold < 1 << width) {
        let lowest = threshold.checked_ilog2().map_or(width, |_| threshold.trailing_zeros());
        gates.extend((lowest + 1..width).map(|bit| (bit, threshold & ((2 << bit) - 1))));
    }
    gates.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_comparators_share_gates_of_equal_low_bits() {
        // U < 100: the inverse of bit 2. U < 110 and U < 010 share bit 1 and differ in bit 2.
        assert_eq!(constant_gates(&HashSet::from([0b100]), 3), 0);
        assert_eq!(constant_gates(&HashSet::from([0b110]), 3), 1);
        assert_eq!(constant_gates(&HashSet::from([0b101]), 3), 2);
        assert_eq!(constant_gates(&HashSet::from([0b101, 0b001]), 3), 3);
        // 0 and 2^width are constants.
        assert_eq!(constant_gates(&HashSet::from([0, 0b1000]), 3), 0);
    }
}
