//! Activity of lanes: changes of stream bits, products, adders and counts of some neurons, bit by
//! bit.

use super::adders::Adders;
use crate::circuit::{LayerCircuit, SequenceCircuit};
use crate::verilog::Counter;
use crate::{Options, Pipeline};
use aleatron_core::Polarity;

/// The largest number of simulated cycles of streams.
const CYCLES: usize = 256;
/// The largest number of simulated words that enter before a run.
const LOADS: usize = 64;
/// The least and the largest number of simulated runs of a lane.
const RUNS: [usize; 2] = [2, 12];
/// The approximate number of simulated products of all runs, which determines the number of runs.
const PRODUCTS: usize = 1 << 21;

/// The delay of the comparators of inputs, in delays of an adder.
const COMPARATOR_DELAY: usize = 2;

/// A word that enters a layer: a threshold, below a sign if the layer has signs; `None` for
/// padding.
pub(super) type Arrival = Option<u64>;

/// Means over simulated runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct LaneActivity {
    /// Changes of the stream bit of an input, in a run.
    pub(super) input: f64,
    /// Changes of the stream bit of a weight, in a run.
    pub(super) weight: f64,
    /// Changes of a product from cycle to cycle, in a run.
    pub(super) product: f64,
    /// Changes of a product, in a run, if its weight changes before its input does.
    pub(super) product_gate: f64,
    /// Changes of the outputs of all adders of a lane, in a run.
    pub(super) adders: f64,
    /// Changes of the new count at the outputs of the adders of a lane, in a run.
    pub(super) sums: f64,
    /// Changes of the bits of a count, in a run.
    pub(super) count: f64,
    /// Changes of the outputs of all adders of a lane, with each word that enters.
    pub(super) loaded_adders: f64,
    /// Changes of the sign of an input with each word that enters.
    pub(super) loaded_sign: f64,
}

/// A layer with the words that enter it.
pub(super) struct Lanes<'a> {
    layer: &'a LayerCircuit,
    lanes: usize,
    arrivals: &'a [Arrival],
    /// The first integers of each sequence of inputs, and of weights.
    inputs: Vec<Vec<u32>>,
    weights: Vec<Vec<u32>>,
    cycles: usize,
    pipeline: Pipeline,
}

impl<'a> Lanes<'a> {
    /// Creates a layer with the words that enter it, those of whole samples with padding.
    pub(super) fn new(layer: &'a LayerCircuit, options: &Options, arrivals: &'a [Arrival]) -> Self {
        let cycles = layer.length.min(CYCLES);
        let lanes = options.lanes.unwrap_or(layer.rows.len()).clamp(1, layer.rows.len().max(1));
        let values = |list: &[SequenceCircuit]| -> Vec<Vec<u32>> {
            list.iter().map(|sequence| sequence.values(cycles).collect()).collect()
        };
        let (inputs, weights) = (values(&layer.input_sequences), values(&layer.weight_sequences));
        Self { layer, lanes, arrivals, inputs, weights, cycles, pipeline: options.pipeline }
    }

    /// Returns the index of the last word of each window in the order of arrival.
    fn ends(&self) -> Vec<usize> {
        let window = &self.layer.window;
        let height = window.size[0] + window.padding[0][0] + window.padding[0][1];
        let image = height * window.padded_columns() * window.channels;
        let [rows, columns] = window.reach();
        let of_image = (rows - 1..height).step_by(window.stride[0].max(1)).flat_map(|row| {
            let columns = (columns - 1..window.padded_columns()).step_by(window.stride[1].max(1));
            columns.map(move |column| {
                (row * window.padded_columns() + column + 1) * window.channels - 1
            })
        });
        let of_image: Vec<usize> = of_image.take(window.positions).collect();
        let images = self.arrivals.len() / image.max(1);
        (0..images).flat_map(|k| of_image.iter().map(move |end| k * image + end)).collect()
    }

    /// Simulates some runs.
    pub(super) fn activity(&self) -> LaneActivity {
        let ends = self.ends();
        let n = self.layer.fan_in();
        let wanted = (PRODUCTS / (n * self.cycles).max(1)).clamp(RUNS[0], RUNS[1]);
        let runs = wanted.min(self.layer.rows.len().saturating_mul(ends.len()));
        let mut total = LaneActivity::default();
        for run in 0..runs {
            // Steps that are spread over windows and rows at the same time.
            let window = (2 * run + 1) * ends.len() / (2 * runs);
            let row = (run * 7 + 3) * self.layer.rows.len() / 11 % self.layer.rows.len();
            let Some(&end) = ends.get(window) else { continue };
            let before = if window == 0 { None } else { ends.get(window - 1).copied() };
            let found = self.run(row, end, before);
            let share = 1.0 / runs as f64;
            total.input += share * found.input;
            total.weight += share * found.weight;
            total.product += share * found.product;
            total.product_gate += share * found.product_gate;
            total.adders += share * found.adders;
            total.sums += share * found.sums;
            total.count += share * found.count;
            total.loaded_adders += share * found.loaded_adders;
            total.loaded_sign += share * found.loaded_sign;
        }
        total
    }

    /// Simulates the run of a row with the window that ends with a word, and the words that have
    /// entered since the previous window.
    fn run(&self, row: usize, end: usize, before: Option<usize>) -> LaneActivity {
        let layer = self.layer;
        let (lane, n) = (row % self.lanes, layer.fan_in());
        let row = &layer.rows[row];
        let rows = || layer.rows.iter().skip(lane).step_by(self.lanes);
        let is_counted = |tap: &usize| {
            layer.polarity == Polarity::Bipolar || rows().any(|row| row.thresholds[*tap] > 0)
        };
        let counted: Vec<usize> = (0..n).filter(is_counted).collect();
        let top = 1_u64 << (layer.comparator + 1);
        // The taps of each group of inputs are consecutive.
        let first_tap = row.group * n;
        let word = |tap: usize, end: usize| -> Arrival {
            let offset = layer.taps.get(first_tap + tap).copied().unwrap_or(0) as usize;
            end.checked_sub(offset).and_then(|index| self.arrivals.get(index)).copied().flatten()
        };
        let words: Vec<Arrival> = (0..n).map(|tap| word(tap, end)).collect();
        let is_negative = |word: Arrival, tap: usize| {
            row.negative.get(tap).copied().unwrap_or(false)
                != (layer.has_signs() && word.is_some_and(|word| word >= top))
        };
        let product = |x: bool, w: bool, word: Arrival, tap: usize| match layer.polarity {
            Polarity::Unipolar => x && w,
            Polarity::Bipolar => x == w && (word.is_some() || !layer.has_marks()),
            Polarity::Signed => (x && w) != is_negative(word, tap),
        };
        let counter = Counter { inputs: counted.len().max(1), count: layer.count_bits };
        let mut adders = Adders::new(counter);
        let mask = if layer.count_bits >= 64 { u64::MAX } else { (1 << layer.count_bits) - 1 };
        let input = |k: usize, tap: usize| {
            let sequence =
                layer.sequence_of_tap.get(first_tap + tap).copied().unwrap_or(0) as usize;
            let u = self.inputs.get(sequence).and_then(|list| list.get(k)).copied().unwrap_or(0);
            words[tap].is_some_and(|word| u64::from(u) < word % top)
        };
        let weight = |k: usize, tap: usize| {
            let sequence = row.sequences.get(tap).copied().unwrap_or(0) as usize;
            let v = self.weights.get(sequence).and_then(|list| list.get(k)).copied().unwrap_or(0);
            u64::from(v) < row.thresholds[tap]
        };
        let mut found = LaneActivity::default();
        let mut x = vec![false; n];
        let mut w: Vec<bool> = (0..n).map(|tap| weight(self.cycles - 1, tap)).collect();
        let mut p: Vec<bool> = (0..n).map(|tap| product(false, w[tap], words[tap], tap)).collect();
        let negative = counted.iter().filter(|&&tap| p[tap]).count() as u64;
        let start = match layer.has_signs() {
            true => !negative.wrapping_mul(layer.length as u64) & mask,
            false => 0,
        };
        let mut count = start;
        for (index, &tap) in counted.iter().enumerate() {
            adders.set_bit(index, p[tap]);
        }
        adders.set_count(count);
        adders.settle();
        adders.reset_toggles();
        for k in 0..=self.cycles {
            let is_run = k < self.cycles;
            adders.set_count(count);
            if self.pipeline == Pipeline::None {
                // The count leaves its register while comparators are still at work.
                adders.advance(COMPARATOR_DELAY);
            }
            for tap in 0..n {
                let (next_x, next_w) =
                    if is_run { (input(k, tap), weight(k, tap)) } else { (false, w[tap]) };
                let next_p = product(next_x, next_w, words[tap], tap);
                // Comparators with constants are faster than those of inputs.
                let early = match self.pipeline {
                    Pipeline::None => product(x[tap], next_w, words[tap], tap),
                    Pipeline::Registers => next_p,
                };
                found.input += f64::from(u8::from(next_x != x[tap]));
                found.weight += f64::from(u8::from(next_w != w[tap]));
                found.product += f64::from(u8::from(next_p != p[tap]));
                found.product_gate +=
                    f64::from(u8::from(early != p[tap]) + u8::from(next_p != early));
                (x[tap], w[tap], p[tap]) = (next_x, next_w, next_p);
            }
            let mut ones = 0;
            for (index, &tap) in counted.iter().enumerate() {
                adders.set_bit(index, p[tap]);
                ones += u64::from(p[tap]);
            }
            adders.settle();
            if is_run {
                let next = count.wrapping_add(ones) & mask;
                found.count += f64::from((next ^ count).count_ones());
                count = next;
            }
        }
        let scale = layer.length as f64 / self.cycles as f64;
        (found.adders, found.sums) =
            (adders.toggles as f64 * scale, adders.sum_toggles as f64 * scale);
        found.count *= scale;
        // The cycle before a run sets the start value; layers with signs count the negative
        // products in it.
        adders.reset_toggles();
        if layer.has_signs() {
            adders.set_count(0);
            adders.settle();
        }
        adders.set_count(start);
        adders.settle();
        found.adders += adders.toggles as f64;
        found.sums += adders.sum_toggles as f64;
        found.count += f64::from((start ^ count).count_ones());
        for share in
            [&mut found.input, &mut found.weight, &mut found.product, &mut found.product_gate]
        {
            *share *= scale / n as f64;
        }
        if layer.has_signs() {
            let first = before.map_or(0, |before| before + 1).max((end + 1).saturating_sub(LOADS));
            adders.set_count(count);
            let mut signs: Vec<bool> = Vec::new();
            for pushed in first..=end {
                let next: Vec<bool> =
                    (0..n).map(|tap| is_negative(word(tap, pushed), tap)).collect();
                counted
                    .iter()
                    .enumerate()
                    .for_each(|(index, &tap)| adders.set_bit(index, next[tap]));
                adders.settle();
                if pushed == first {
                    adders.reset_toggles();
                } else {
                    let changed = next.iter().zip(&signs).filter(|(a, b)| a != b).count();
                    found.loaded_sign += changed as f64 / n as f64;
                }
                signs = next;
            }
            let loads = (end - first).max(1) as f64;
            found.loaded_sign /= loads;
            found.loaded_adders = adders.toggles as f64 / loads;
        }
        found
    }
}
