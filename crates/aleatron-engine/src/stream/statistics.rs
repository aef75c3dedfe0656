//! The errors of counts against exact products of the same inputs and weights.

use super::products::sums;
use super::trace::LayerInputs;
use crate::Result;
use aleatron_core::program::ProgramLayer;
use aleatron_core::{Error as CoreError, Polarity, Quantity, memory};
use aleatron_cpu::threads;
use std::sync::OnceLock;
use std::time::Duration;

/// The distance of the counts of a layer from those of exact products of the same encoded inputs
/// and weights.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct LayerStats {
    /// The number of compared counts: samples by neurons.
    pub counts: u64,
    /// The mean of |count - exact count|.
    pub mean_count: f64,
    /// The largest |count - exact count|.
    pub worst_count: f64,
    /// The mean error of the decoded sums.
    pub mean_value: f64,
    /// The largest error of the decoded sums.
    pub worst_value: f64,
    /// The mean of |exact sum|, which the mean error is relative to; 0 in results that were saved
    /// without it.
    #[serde(default)]
    pub mean_signal: f64,
    /// The number of inputs outside the interval of the layer's streams, which saturated.
    pub saturated: u64,
}

impl LayerStats {
    /// Returns the mean error relative to the mean size of the exact sums: 1 for a layer whose
    /// streams carry nothing although the exact sums do. `None` if there are errors and the exact
    /// sums are all 0 or unknown.
    #[must_use]
    pub fn relative_error(&self) -> Option<f64> {
        match (self.mean_value == 0.0, self.mean_signal > 0.0) {
            (true, _) => Some(0.0),
            (false, true) => Some(self.mean_value / self.mean_signal),
            (false, false) => None,
        }
    }
}

/// Sums of errors, by layer.
#[derive(Debug)]
pub(super) struct Statistics {
    layers: Vec<Option<Sums>>,
}

#[derive(Debug, Clone, Copy)]
struct Sums {
    counts: u64,
    sum: f64,
    worst: f64,
    /// The sum of |exact sum|.
    signal: f64,
    /// Counts per unit of value.
    scale: f64,
}

impl Statistics {
    pub(super) fn new(n_layers: usize) -> Self {
        Self { layers: vec![None; n_layers] }
    }

    /// Adds the counts of some samples.
    pub(super) fn add(
        &mut self,
        index: usize,
        layer: &ProgramLayer,
        thresholds: &[u64],
        counts: &[u64],
    ) -> Result<()> {
        let spec = &layer.spec;
        let (n, m, bits) = (spec.n_inputs(), spec.n_neurons(), spec.length().bits() as f64);
        let values = LayerInputs { thresholds: thresholds.to_vec() }.values(spec);
        let gain = spec.integer_bits().map_or(1.0, |bits| bits.gain().powi(2));
        let n_rows = counts.len() / m.max(1);
        // The errors of each row, summed in order afterwards, so that threads do not change a bit
        // of the mean.
        memory::check(24 * n_rows as u128, Quantity::Samples)?;
        let mut rows = vec![[0.0_f64; 3]; n_rows];
        let failure = OnceLock::new();
        let cost = Duration::from_nanos((spec.topology().n_products() * n_rows) as u64);
        let items = rows.iter_mut().zip(values.chunks_exact(n)).zip(counts.chunks_exact(m));
        threads::current().map_err(CoreError::from)?.for_each(
            items,
            cost,
            |((row, inputs), counts)| {
                match sums(spec.topology(), layer.weights.values(), inputs) {
                    Ok(exact) => {
                        for (value, exact) in spec.decode_all(counts).iter().zip(exact) {
                            let exact = exact * gain;
                            let error = (value - exact).abs();
                            *row = [row[0] + error, row[1].max(error), row[2] + exact.abs()];
                        }
                    }
                    // Any of several will do.
                    Err(error) => drop(failure.set(error)),
                }
            },
        );
        if let Some(error) = failure.into_inner() {
            return Err(error);
        }
        let scale = if spec.polarity() == Polarity::Bipolar { bits / 2.0 } else { bits };
        let none = Sums { counts: 0, sum: 0.0, worst: 0.0, signal: 0.0, scale };
        let all = self.layers[index].get_or_insert(none);
        all.counts += counts.len() as u64;
        for [sum, worst, signal] in rows {
            all.sum += sum;
            all.worst = all.worst.max(worst);
            all.signal += signal;
        }
        Ok(())
    }

    pub(super) fn finish(self, saturated: &[u64]) -> Vec<LayerStats> {
        let finished =
            self.layers.into_iter().zip(saturated).map(|(sums, &saturated)| match sums {
                None => LayerStats::default(),
                Some(Sums { counts, sum, worst, signal, scale }) => {
                    let [mean, mean_signal] = [sum, signal]
                        .map(|sum| if counts == 0 { 0.0 } else { sum / counts as f64 });
                    LayerStats {
                        counts,
                        mean_count: mean * scale,
                        worst_count: worst * scale,
                        mean_value: mean,
                        worst_value: worst,
                        mean_signal,
                        saturated,
                    }
                }
            });
        finished.collect()
    }
}
