//! Calibration of the scales of layers with samples.

use super::Network;
use crate::{Error, Result};
use aleatron_core::arithmetic::{SIGNAL_LIMIT, weight_scale_of_row};
use aleatron_core::{Cancel, Quantity, memory};
use aleatron_graph::{Error as GraphError, Node, Observer};
use aleatron_tensor::{DType, Tensor};

/// The input of a product that becomes 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum InputScale {
    /// The input of largest magnitude: nothing saturates on these samples.
    #[default]
    Maximum,
    /// The magnitude that this fraction of inputs, in (0, 1], does not exceed: the others saturate,
    /// and the rest have finer steps.
    Percentile(f64),
}

/// The divisor of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeightScale {
    /// The largest of all weights.
    Tensor,
    /// The largest weight of each neuron or output channel.
    #[default]
    PerRow,
}

/// How scales are determined.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Calibration {
    /// The scale of inputs, for each product.
    pub inputs: InputScale,
    /// The scale of weights.
    pub weights: WeightScale,
}

/// Returns the scales of a matrix of weights with `fan_in` columns: one for all rows or one for
/// each, by the rule of [`weight_scale_of_row`].
///
/// ```
/// use aleatron_engine::network::{WeightScale, scaled_weights, weight_scales};
/// let weights = [0.5, -0.25, 0.0, 2.0];
/// let scales = weight_scales(&weights, 2, WeightScale::PerRow);
/// assert_eq!(scales, [0.5, 2.0]);
/// assert_eq!(scaled_weights(&weights, 2, &scales), [1.0, -0.5, 0.0, 1.0]);
/// ```
#[must_use]
pub fn weight_scales(weights: &[f32], fan_in: usize, scale: WeightScale) -> Vec<f64> {
    let largest = |weights: &[f32]| {
        f64::from(weights.iter().fold(0.0_f32, |largest, w| largest.max(w.abs())))
    };
    let of_layer = largest(weights);
    match scale {
        WeightScale::Tensor => vec![weight_scale_of_row(of_layer, of_layer)],
        WeightScale::PerRow => {
            let rows = weights.chunks(fan_in.max(1));
            rows.map(|row| weight_scale_of_row(largest(row), of_layer)).collect()
        }
    }
}

/// Returns the weights divided by their scales, one for all rows of `fan_in` weights or one for
/// each.
///
/// # Panics
/// If there are several scales, and fewer than rows.
#[must_use]
pub fn scaled_weights(weights: &[f32], fan_in: usize, scales: &[f64]) -> Vec<f64> {
    let fan_in = fan_in.max(1);
    let scale = |row: usize| match scales {
        [all] => *all,
        each => each[row],
    };
    // Rounding may put the largest just outside.
    let scaled = |(k, &w): (usize, &f32)| (f64::from(w) / scale(k / fan_in)).clamp(-1.0, 1.0);
    weights.iter().enumerate().map(scaled).collect()
}

/// Collects the magnitudes of the inputs of products.
struct Magnitudes<'a> {
    /// The layer of each node.
    layers: Vec<Option<usize>>,
    inputs: InputScale,
    largest: Vec<f64>,
    /// All magnitudes, if a percentile is requested.
    all: Vec<Vec<f32>>,
    cancel: Cancel<'a>,
}

impl Observer for Magnitudes<'_> {
    fn compute(
        &mut self,
        index: usize,
        _: &Node,
        inputs: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        self.cancel.check()?;
        let Some(Some(k)) = self.layers.get(index).copied() else { return Ok(None) };
        if let Some(Some(input)) = inputs.first() {
            let values = input.cast(DType::F32)?.to_vec::<f32>()?;
            // A maximum would skip NaN.
            let largest = |all: f64, v: &f32| {
                if v.is_nan() { f64::INFINITY } else { all.max(f64::from(v.abs())) }
            };
            self.largest[k] = values.iter().fold(self.largest[k], largest);
            if matches!(self.inputs, InputScale::Percentile(_)) {
                self.all[k].extend(values.iter().map(|v| v.abs()));
            }
        }
        Ok(None)
    }
}

impl Network {
    /// Returns the same network with scales from these samples, which must be training samples, not
    /// test samples.
    ///
    /// # Errors
    /// As for [`Self::forward`], and [`Error::Setting`] for a percentile outside (0, 1].
    pub fn calibrated(&self, features: &[f64], calibration: &Calibration) -> Result<Self> {
        self.calibrated_with(features, calibration, Cancel::NEVER)
    }

    /// Calibrates like [`Self::calibrated`], with cancellation.
    ///
    /// # Errors
    /// As for [`Self::calibrated`], and [`aleatron_core::Error::Cancelled`].
    pub fn calibrated_with(
        &self,
        features: &[f64],
        calibration: &Calibration,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        if let InputScale::Percentile(share) = calibration.inputs
            && !(share > 0.0 && share <= 1.0)
        {
            let reason = "a share of the inputs is more than 0 and at most 1".to_owned();
            return Err(Error::Setting { text: format!("percentile {share}"), reason });
        }
        let largest = vec![0.0; self.layers.len()];
        let mut all = vec![Vec::new(); self.layers.len()];
        if matches!(calibration.inputs, InputScale::Percentile(_)) {
            // All inputs are stored until the end, so their memory is checked before the work.
            let n_runs = features.len() / self.n_features() / self.analysis.n_samples();
            for (all, layer) in all.iter_mut().zip(&self.layers) {
                let id = self.graph.nodes()[layer.node].inputs.first().copied().flatten();
                let shape =
                    id.and_then(|id| self.analysis.shape(id)).map_or(&[][..], |(shape, _)| shape);
                let elements =
                    shape.iter().fold(n_runs as u128, |n, &size| n.saturating_mul(size as u128));
                *all = memory::with_capacity(elements, Quantity::Inputs)?;
            }
        }
        let layers = self.layers_by_node();
        let mut seen = Magnitudes { layers, inputs: calibration.inputs, largest, all, cancel };
        self.run_float(features, &mut seen, |_, _| Ok(()))?;
        let Magnitudes { largest, mut all, .. } = seen;
        let mut network = self.clone();
        for (k, layer) in network.layers.iter_mut().enumerate() {
            if !largest[k].is_finite() {
                let reason = format!("an input of \"{}\" is infinite or NaN", layer.name);
                return Err(GraphError::Model { place: "calibration".to_owned(), reason }.into());
            }
            let scale = match calibration.inputs {
                InputScale::Maximum => largest[k],
                InputScale::Percentile(share) => percentile(&mut all[k], share),
            };
            // Inputs without signal, all zero or those of a dead layer, need no scale: a scale of
            // their size would have no integer multiplier.
            if scale > SIGNAL_LIMIT {
                layer.input_scale = scale;
            }
            layer.weight_scales =
                weight_scales(&layer.product.weights, layer.product.fan_in(), calibration.weights);
        }
        Ok(network)
    }
}

/// Returns the rank, from 0 in ascending order, of the magnitude that a fraction of `len` values
/// does not exceed; `None` without values.
#[must_use]
pub fn percentile_rank(len: usize, share: f64) -> Option<usize> {
    let last = len.checked_sub(1)?;
    Some(((len as f64 * share).ceil() as usize).saturating_sub(1).min(last))
}

/// Returns the magnitude that a fraction of values does not exceed.
fn percentile(values: &mut [f32], share: f64) -> f64 {
    let Some(rank) = percentile_rank(values.len(), share) else { return 0.0 };
    let (_, value, _) = values.select_nth_unstable_by(rank, f32::total_cmp);
    f64::from(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements_of_the_values() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&mut values, 1.0), 4.0);
        assert_eq!(percentile(&mut values, 0.5), 2.0);
        assert_eq!(percentile(&mut values, 0.51), 3.0);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
