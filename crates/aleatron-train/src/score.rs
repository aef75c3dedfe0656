//! The quality of a network on some samples of a data set, and the best scales of inputs for given
//! streams.

use aleatron_core::Cancel;
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::network::{
    Calibration, InputScale, Network, StreamConfig, WeightScale, top_class,
};
use aleatron_engine::stream::Detail;
use aleatron_tensor::{Device, Tensor, autograd};
use serde::{Deserialize, Serialize};

use crate::{Loss, Result};

/// The quality of a network on samples that it was not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The mean loss.
    pub loss: f64,
    /// The share of correct classes; none for targets.
    pub accuracy: Option<f64>,
}

impl Score {
    /// Returns whether this score is better: by accuracy, among equals by loss.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        let accuracy = |score: &Self| score.accuracy.unwrap_or(0.0);
        accuracy(self) > accuracy(other)
            || accuracy(self) == accuracy(other) && self.loss < other.loss
    }
}

/// Some samples of a data set, and the loss of their scores.
pub(crate) struct Samples<'a> {
    pub(crate) data: &'a Dataset,
    pub(crate) indices: &'a [usize],
    pub(crate) loss: Loss,
}

impl Samples<'_> {
    /// Returns the features, sample after sample.
    pub(crate) fn features(&self) -> Result<Vec<f64>> {
        let mut features = Vec::with_capacity(self.indices.len() * self.data.n_features());
        for &sample in self.indices {
            features.extend_from_slice(&self.data.samples(sample..sample + 1)?);
        }
        Ok(features)
    }

    /// Computes the loss of scores.
    pub(crate) fn loss(&self, scores: &Tensor) -> Result<Tensor> {
        match self.data.label_kind() {
            LabelKind::Classes => {
                let labels: Vec<usize> =
                    self.indices.iter().map(|&sample| self.data.labels()[sample]).collect();
                self.loss.of_labels(scores, &labels)
            }
            LabelKind::Numbers => {
                let (all, width) = (self.data.targets(), self.data.n_targets());
                let targets = self
                    .indices
                    .iter()
                    .flat_map(|&sample| &all[sample * width..(sample + 1) * width]);
                let targets: Vec<f32> = targets.map(|&target| target as f32).collect();
                let targets =
                    Tensor::from_slice(&targets, &[self.indices.len(), width], &scores.device())?;
                self.loss.of_targets(scores, &targets)
            }
        }
    }

    /// Evaluates a network over all configurations, or in floating point if there are none.
    pub(crate) fn score(
        &self,
        network: &Network,
        configs: &[StreamConfig],
        cancel: Cancel<'_>,
    ) -> Result<Score> {
        let features = self.features()?;
        let mut runs = Vec::new();
        for config in configs {
            runs.push(
                network.to_streams(config)?.run(&features, 0, Detail::default(), cancel)?.scores,
            );
        }
        if configs.is_empty() {
            runs.push(network.forward_with(&features, cancel)?);
        }
        let (mut loss, mut right) = (0.0, 0);
        let n_outputs = network.n_outputs().max(1);
        for scores in &runs {
            let narrow: Vec<f32> = scores.iter().map(|&score| score as f32).collect();
            let tensor = Tensor::from_vec(narrow, &[self.indices.len(), n_outputs], &Device::Cpu)?;
            loss += crate::loss::finite(&autograd::no_grad(|| self.loss(&tensor))?)?;
            let labels = self.indices.iter().filter_map(|&sample| self.data.labels().get(sample));
            right += scores
                .chunks_exact(n_outputs)
                .zip(labels)
                .filter(|(s, l)| top_class(s) == **l)
                .count();
        }
        let n = (runs.len() * self.indices.len()).max(1) as f64;
        let accuracy = (self.data.label_kind() == LabelKind::Classes).then(|| right as f64 / n);
        Ok(Score { loss: loss / runs.len().max(1) as f64, accuracy })
    }
}

/// The shares of inputs that the scale of a layer covers, of which the best is chosen.
const SHARES: [f64; 6] = [1.0, 0.999, 0.99, 0.97, 0.95, 0.9];

/// Samples that scales are found with.
const SAMPLES: usize = 512;

/// Calibrates a network for given streams: tries several percentiles of the inputs of layers as
/// their scales and returns the network with the best score on the first samples of the data, and
/// the percentile. Short streams need finer steps more than they need the largest inputs.
///
/// # Errors
/// As [`Network::calibrated`] and [`Network::to_streams`].
pub fn calibrate_for(
    network: &Network,
    data: &Dataset,
    configs: &[StreamConfig],
    weights: WeightScale,
    cancel: Cancel<'_>,
) -> Result<(Network, f64)> {
    let n = data.len().min(SAMPLES);
    let n =
        network.batch().map_or(n, |batch| (n / batch).max(1).saturating_mul(batch).min(data.len()));
    let indices: Vec<usize> = (0..n).collect();
    let samples = Samples { data, indices: &indices, loss: Loss::Automatic };
    let features = samples.features()?;
    let mut best: Option<(Network, f64, Score)> = None;
    for share in SHARES {
        let calibration = Calibration { inputs: InputScale::Percentile(share), weights };
        let candidate = network.calibrated_with(&features, &calibration, cancel)?;
        let score = samples.score(&candidate, configs, cancel)?;
        if best.as_ref().is_none_or(|(_, _, known)| score.is_better_than(known)) {
            best = Some((candidate, share, score));
        }
    }
    let (network, share, _) = best.ok_or_else(|| crate::Error::internal("train::calibrate_for"))?;
    Ok((network, share))
}
