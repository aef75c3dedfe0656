//! Finding the scales of a graph's products.

use super::{GraphLayer, GraphNetwork, Product};
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_graph::{Error as GraphError, Node, Observer};
use aleatron_tensor::{DType, Tensor};

/// Which input of a product becomes 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum InputScale {
    /// The one of largest magnitude: nothing saturates on these samples.
    #[default]
    Maximum,
    /// The magnitude that this share of inputs, in (0, 1], does not exceed: the others saturate, and the rest have finer steps.
    Percentile(f64),
}

/// What weights are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeightScale {
    /// The largest of all.
    Tensor,
    /// The largest of each neuron or output channel.
    #[default]
    PerRow,
}

/// How scales are found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Calibration {
    /// Inputs, for each product.
    pub inputs: InputScale,
    /// Weights.
    pub weights: WeightScale,
}

pub(super) fn weight_scales(product: &Product, scale: WeightScale) -> Vec<f64> {
    let largest = |weights: &[f32]| {
        let largest = weights.iter().fold(0.0_f32, |largest, w| largest.max(w.abs()));
        if largest > 0.0 { f64::from(largest) } else { 1.0 }
    };
    match scale {
        WeightScale::Tensor => vec![largest(&product.weights)],
        WeightScale::PerRow => product.weights.chunks(product.fan_in().max(1)).map(largest).collect(),
    }
}

/// Collects the magnitudes of the inputs of products.
struct Magnitudes<'a> {
    layers: &'a [GraphLayer],
    inputs: InputScale,
    largest: Vec<f64>,
    /// All of them, where a percentile is asked for.
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
        let Some(k) = self.layers.iter().position(|layer| layer.node == index) else { return Ok(None) };
        if let Some(Some(input)) = inputs.first() {
            let values = input.cast(DType::F32)?.to_vec::<f32>()?;
            self.largest[k] = values.iter().fold(self.largest[k], |all, v| all.max(f64::from(v.abs())));
            if matches!(self.inputs, InputScale::Percentile(_)) {
                self.all[k].extend(values.iter().map(|v| v.abs()));
            }
        }
        Ok(None)
    }
}

impl GraphNetwork {
    /// The same network with scales from these samples, which must be those of training, not of the test.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`Error::Setting`] for a percentile outside (0, 1].
    pub fn calibrated(&self, features: &[f64], calibration: &Calibration) -> Result<Self> {
        self.calibrated_unless(features, calibration, Cancel::NEVER)
    }

    /// As [`Self::calibrated`], unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::calibrated`], and [`aleatron_core::Error::Cancelled`].
    pub fn calibrated_unless(
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
        let n = self.layers.len();
        let (largest, all) = (vec![0.0; n], vec![Vec::new(); n]);
        let mut seen = Magnitudes { layers: &self.layers, inputs: calibration.inputs, largest, all, cancel };
        let runner = self.runner()?;
        for piece in self.pieces(features, super::PIECE)? {
            runner.run_with(vec![self.tensor(&piece)?], &mut seen).map_err(super::stream::from_graph)?;
        }
        let Magnitudes { largest, mut all, .. } = seen;
        let mut network = self.clone();
        for (k, layer) in network.layers.iter_mut().enumerate() {
            let scale = match calibration.inputs {
                InputScale::Maximum => largest[k],
                InputScale::Percentile(share) => percentile(&mut all[k], share),
            };
            // Inputs that are all zero need no scale.
            if scale > 0.0 {
                if !scale.is_finite() {
                    let reason = format!("an input of \"{}\" is {scale}", layer.name);
                    return Err(GraphError::Model { place: "calibration".to_owned(), reason }.into());
                }
                layer.input_scale = scale;
            }
            layer.weight_scales = weight_scales(&layer.product, calibration.weights);
        }
        Ok(network)
    }
}

/// The magnitude that a share of values does not exceed.
fn percentile(values: &mut [f32], share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let rank = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
    let (_, value, _) = values.select_nth_unstable_by(rank, f32::total_cmp);
    f64::from(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&mut values, 1.0), 4.0);
        assert_eq!(percentile(&mut values, 0.5), 2.0);
        assert_eq!(percentile(&mut values, 0.51), 3.0);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
