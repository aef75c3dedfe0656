//! The structures and the activity of layers that multiply integers.

use super::activity::{Activity, words};
use super::structure::Structure;
use super::{AreaTerm, EnergyTerm};
use crate::circuit::{Circuit, LayerCircuit, Link, bits};
use crate::{Options, Pipeline, Trace};

/// The largest number of windows and rows of weights whose operands are followed.
const WINDOWS: usize = 16;
const ROWS: usize = 32;

/// Means over the cycles of some runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct OperandActivity {
    /// Bits of the input that change in a cycle.
    input: f64,
    /// Bits of the weight that change in a cycle.
    weight: f64,
    /// Pairs of bits of the two whose AND changes in a cycle.
    pairs: f64,
}

impl OperandActivity {
    /// Follows the operands of a lane through windows of consecutive words.
    fn new(layer: &LayerCircuit, words: &[u64]) -> Self {
        let n = layer.fan_in().max(1);
        let magnitude =
            |word: u64| (word & ((2 << layer.comparator) - 1)).min((1 << layer.comparator) - 1);
        let (mut sums, mut cycles) = (Self::default(), 0_u64);
        for window in words.chunks_exact(n).take(WINDOWS) {
            for row in layer.rows.iter().take(ROWS) {
                // Operands are 0 between runs.
                let (mut x, mut w) = (0, 0);
                for (&word, &weight) in window.iter().zip(&row.thresholds) {
                    let next = magnitude(word);
                    sums.input += f64::from((x ^ next).count_ones());
                    sums.weight += f64::from((w ^ weight).count_ones());
                    sums.pairs += f64::from(
                        (x ^ next).count_ones() * w.count_ones()
                            + (w ^ weight).count_ones() * next.count_ones(),
                    );
                    (x, w) = (next, weight);
                    cycles += 1;
                }
            }
        }
        let mean = |sum: f64| sum / cycles.max(1) as f64;
        Self { input: mean(sums.input), weight: mean(sums.weight), pairs: mean(sums.pairs) }
    }
}

impl Structure {
    /// Counts a layer of integers.
    pub(super) fn integer_layer(
        &mut self,
        circuit: &Circuit,
        stage: usize,
        layer: &LayerCircuit,
        output: &Link,
        options: &Options,
        trace: Option<&Trace>,
    ) {
        let rows = layer.rows.len();
        let lanes = options.lanes.unwrap_or(rows).clamp(1, rows.max(1));
        let groups = rows.div_ceil(lanes);
        let (n, word) = (layer.fan_in(), f64::from(layer.word_bits()));
        let (all, width) = (lanes as f64, f64::from(layer.comparator));
        let weight = f64::from(layer.weight_comparator) + 1.0;
        let runs = (layer.window.positions * groups) as f64;
        let steps = runs * n as f64;
        let arrivals = words(circuit, stage, layer, trace);
        let activity = OperandActivity::new(layer, &arrivals);
        let pushes = self.window(
            &layer.window,
            layer.word_bits(),
            Activity::words(circuit, stage, layer, trace),
        );
        let selectors = if layer.input_groups.len() == 1 { 1.0 } else { all };
        self.add(AreaTerm::OperandBit, selectors * n.saturating_sub(1) as f64 * word);
        self.add(AreaTerm::WeightTableBit, (rows * n) as f64 * weight);
        self.add(AreaTerm::MultiplierCell, all * width * f64::from(layer.weight_comparator));
        let count = f64::from(layer.count_bits);
        self.add(AreaTerm::MultiplyAddBit, all * count);
        self.add(AreaTerm::ReadBit, (all - 1.0) * count);
        self.add(AreaTerm::MaskedTap, selectors * word + all * weight);
        self.add(AreaTerm::OffsetBit, rows as f64 * f64::from(layer.sum_bits));
        self.add(AreaTerm::SumBit, f64::from(layer.sum_bits));
        let index = [n, rows, lanes, groups, layer.window.positions]
            .map(|n| if n > 1 { bits(n) } else { 0 });
        self.add(AreaTerm::IndexBit, f64::from(index.iter().sum::<u32>()));
        self.add(AreaTerm::RegisterBit, f64::from(output.word.bits()));
        if options.pipeline == Pipeline::Registers {
            self.add(AreaTerm::InputRegister, selectors * word + all * weight);
            self.use_energy(
                EnergyTerm::InputClock,
                (selectors * word + all * weight) * (steps + runs),
            );
        }
        self.use_energy(
            EnergyTerm::OperandToggle,
            selectors * steps * activity.input * (n as f64).log2(),
        );
        self.use_energy(
            EnergyTerm::WeightTableToggle,
            all * steps * activity.weight * (n as f64).log2(),
        );
        self.use_energy(EnergyTerm::MultiplierToggle, all * steps * activity.pairs);
        self.use_energy(EnergyTerm::MultiplyAddStep, all * steps * count);
        let reads = (layer.window.positions * rows) as f64;
        self.use_energy(EnergyTerm::SumRead, f64::from(layer.sum_bits) * reads);
        self.use_energy(EnergyTerm::CycleStep, steps);
        self.use_energy(EnergyTerm::PushStep, pushes);
        if lanes > 1 {
            self.use_energy(EnergyTerm::ReadSelect, reads * count);
            self.use_energy(EnergyTerm::ReadDecode, reads * all);
        }
    }
}
