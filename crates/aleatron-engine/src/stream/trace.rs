//! Instrumentation of a run: the details that it can return in addition to the scores.

use super::LayerStats;
use crate::backend::Batch;
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{LayerSpec, Polarity, SampleSeed};
use std::time::Duration;

/// The details of a run that are returned in addition to the scores; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Detail {
    /// The errors of each layer's counts. Measuring them computes exact products as well.
    pub statistics: Measured,
    /// The counts and outputs of each layer.
    pub layers: Measured,
    /// The inputs and outputs of the layer that computes the scores.
    pub score_layer: Measured,
    /// The error of every node against floating point.
    pub nodes: Measured,
}

/// Whether a detail of a run is measured and returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Measured {
    /// The detail is measured.
    Enabled,
    /// The detail is not measured.
    #[default]
    Disabled,
}

impl Measured {
    /// Returns whether it is enabled.
    #[must_use]
    pub const fn is_enabled(self) -> bool {
        matches!(self, Self::Enabled)
    }
}

/// The counts and outputs of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerOutput {
    /// The index of the layer in the network.
    pub layer: usize,
    /// Its counts, row-major of samples by neurons.
    pub counts: Vec<u64>,
    /// The outputs in the network's units, after the activation that is their only user.
    pub outputs: Vec<f64>,
}

/// The inputs of a layer's comparators.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerInputs {
    /// Thresholds, as wide as the generator of the layer's inputs.
    pub thresholds: Vec<u64>,
}

impl LayerInputs {
    /// Returns the values of the streams.
    #[must_use]
    pub fn values(&self, spec: &LayerSpec) -> Vec<f64> {
        let (one, polarity) = (spec.encoding().input_width().one() as f64, spec.polarity());
        let value = |&t: &u64| match polarity {
            Polarity::Unipolar | Polarity::Bipolar => polarity.value_of(t as f64 / one),
            Polarity::Signed if is_negative(t) => -(magnitude(t) as f64 / one),
            Polarity::Signed => t as f64 / one,
        };
        self.thresholds.iter().map(value).collect()
    }

    /// Returns the inputs as a batch of samples from `seed` on.
    #[must_use]
    pub fn batch(&self, seed: SampleSeed) -> Batch<'_> {
        Batch::thresholds(&self.thresholds, seed)
    }
}

/// The error of every node against floating point: sums of squares of differences, and of the
/// values in floating point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeErrors {
    /// By the index of the node; zeros for nodes whose output is not floating-point.
    pub squares: Vec<[f64; 2]>,
}

impl NodeErrors {
    /// Adds the values of a node.
    pub(super) fn add(&mut self, node: usize, values: &[f64], exact: &[f64]) {
        self.squares.resize(self.squares.len().max(node + 1), [0.0; 2]);
        let sums = &mut self.squares[node];
        for (value, exact) in values.iter().zip(exact) {
            sums[0] += (value - exact).powi(2);
            sums[1] += exact.powi(2);
        }
    }
}

/// The result of running samples as streams.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutput {
    /// The scores, samples one after the other.
    pub scores: Vec<f64>,
    /// The errors of the counts of each layer of the network, if requested; without counts for
    /// binary layers.
    pub statistics: Vec<LayerStats>,
    /// Counts and outputs of each layer that runs as streams, if requested.
    pub layers: Vec<LayerOutput>,
    /// The inputs of the layer that computes the scores, if requested and present.
    pub score_inputs: Option<LayerInputs>,
    /// The outputs of the layer that computes the scores, if requested and present.
    pub score_outputs: Vec<f64>,
    /// The errors of nodes, if requested.
    pub nodes: NodeErrors,
    /// For each layer of the network, the number of inputs outside the interval of its streams,
    /// which saturated.
    pub saturated: Vec<u64>,
    /// The number of features among them: inputs of layers that depend on no other layer as
    /// streams.
    pub clipped: u64,
    /// The time that the network took, without instrumentation.
    pub elapsed: Duration,
}

impl StreamOutput {
    pub(super) fn new(n_layers: usize) -> Self {
        Self {
            scores: Vec::new(),
            statistics: Vec::new(),
            layers: Vec::new(),
            score_inputs: None,
            score_outputs: Vec::new(),
            nodes: NodeErrors::default(),
            saturated: vec![0; n_layers],
            clipped: 0,
            elapsed: Duration::ZERO,
        }
    }
}
