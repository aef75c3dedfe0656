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
    /// The number of inputs outside the interval of the layer's streams, which saturated.
    pub saturated: u64,
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
        memory::check(16 * n_rows as u128, Quantity::Samples)?;
        let mut rows = vec![[0.0_f64; 2]; n_rows];
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
                            let error = (value - exact * gain).abs();
                            *row = [row[0] + error, row[1].max(error)];
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
        let all = self.layers[index].get_or_insert(Sums { counts: 0, sum: 0.0, worst: 0.0, scale });
        all.counts += counts.len() as u64;
        for [sum, worst] in rows {
            all.sum += sum;
            all.worst = all.worst.max(worst);
        }
        Ok(())
    }

    pub(super) fn finish(self, saturated: &[u64]) -> Vec<LayerStats> {
        let finished =
            self.layers.into_iter().zip(saturated).map(|(sums, &saturated)| match sums {
                None => LayerStats::default(),
                Some(Sums { counts, sum, worst, scale }) => {
                    let mean = if counts == 0 { 0.0 } else { sum / counts as f64 };
                    LayerStats {
                        counts,
                        mean_count: mean * scale,
                        worst_count: worst * scale,
                        mean_value: mean,
                        worst_value: worst,
                        saturated,
                    }
                }
            });
        finished.collect()
    }
}
