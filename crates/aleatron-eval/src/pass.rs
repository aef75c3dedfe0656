//! Samples through a network with streams of one set of lengths, a chunk at a time.

use super::early;
use super::schedule::Extent;
use super::subject::{self, Subject};
use super::task::Chunk;
use crate::Result;
use aleatron_core::arithmetic::Accumulator;
use aleatron_core::program::ProgramLayer;
use aleatron_core::{Cancel, Error as CoreError};
use aleatron_data::LabelKind;
use aleatron_engine::StreamLayer;
use aleatron_engine::network::{Layer, Network, ScoreLayer, StreamConfig, top_class};
use aleatron_engine::stream::{Detail, LayerInputs, Measured, StreamNetwork};

/// A pass that is ready to run: a network with encoded weights.
pub(super) struct PreparedPass {
    streams: StreamNetwork,
    extent: Extent,
    labels: LabelKind,
    /// Known problems of the generators.
    warnings: Vec<String>,
    score: Option<ScoreLayer>,
    certainty: Option<Certainty>,
    noise: f64,
    /// In ascending order.
    margins: Vec<f64>,
}

impl PreparedPass {
    pub(super) fn new(
        subject: &Subject,
        labels: LabelKind,
        margins: &[f64],
        config: &StreamConfig,
        extent: Extent,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let streams = subject.to_streams(config, cancel)?;
        let network = streams.network();
        // Targets are not decided.
        let score = network.score_layer().filter(|_| labels == LabelKind::Classes);
        let layer = score.and_then(|score| network.layers().get(score.layer));
        let noise = layer.map_or(0.0, |layer| noise(network, layer, &streams.lengths()));
        let integers = |score: &ScoreLayer| {
            let layer = network.layers().get(score.layer);
            layer.is_some_and(|layer| {
                config.settings_of(&layer.name).generator.integer_bits().is_some()
            })
        };
        let certainty = match score.filter(|score| !integers(score)) {
            // The remaining cycles of faulty streams and counters have no bounds.
            Some(score)
                if score.is_direct && extent == Extent::Whole && config.faults.is_empty() =>
            {
                Certainty::new(&streams, score.layer)?
            }
            _ => None,
        };
        let warnings = match extent {
            Extent::Whole => subject.warnings(config)?,
            Extent::Partial => Vec::new(),
        };
        let margins = early::sorted(margins);
        Ok(Self { streams, extent, labels, warnings, score, certainty, noise, margins })
    }

    /// Runs the samples of a chunk, the first of which has index `first` among all.
    pub(super) fn run(&self, features: &[f64], first: u32, cancel: Cancel<'_>) -> Result<Chunk> {
        let (streams, network) = (&self.streams, self.streams.network());
        let n_samples = features.len() / network.n_features().max(1);
        if streams.backend_for(n_samples).is_none() {
            // The first call of its kind runs several times, to be measured: that is not the time
            // of the streams.
            streams.run(features, first, Detail::default(), cancel)?;
        }
        let measured = |is_enabled| if is_enabled { Measured::Enabled } else { Measured::Disabled };
        let detail = Detail {
            statistics: measured(self.extent == Extent::Whole),
            score_layer: measured(self.score.is_some()),
            ..Detail::default()
        };
        let output = streams.run(features, first, detail, cancel)?;
        let mut chunk = Chunk {
            clipped: output.clipped,
            seconds: output.elapsed.as_secs_f64(),
            layers: output.statistics,
            ..Chunk::default()
        };
        if self.labels == LabelKind::Numbers {
            subject::check_outputs(&output.scores, network.n_outputs())?;
            chunk.outputs = output.scores;
            return Ok(chunk);
        }
        let n_outputs = network.n_outputs().max(1);
        // A layer that takes several rows of a sample has no scores of its own.
        let has_margins = self.score.is_some() && output.score_outputs.len() == output.scores.len();
        chunk.classes = output.scores.chunks_exact(n_outputs).map(top_class).collect();
        chunk.reached = match has_margins {
            true => {
                let scores = output.score_outputs.chunks_exact(n_outputs);
                scores
                    .map(|scores| early::decide(scores, self.noise, &self.margins).reached)
                    .collect()
            }
            false => vec![0; n_samples],
        };
        if let Some(certainty) = self.certainty.as_ref().filter(|_| has_margins) {
            let missing = CoreError::Internal { place: "eval::PreparedPass::run" };
            let inputs = output.score_inputs.as_ref().ok_or(missing)?;
            chunk.certain = Some(certainty.cycles_and_stopped(streams, inputs, first, cancel)?);
        }
        Ok(chunk)
    }

    /// Returns known problems of the generators, and how the layers ran if not as configured.
    pub(super) fn notes(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.streams.notes()).collect()
    }
}

/// Returns the standard deviation of the difference of two scores, at most.
fn noise(network: &Network, layer: &Layer, lengths: &[usize]) -> f64 {
    let cycles = lengths.iter().copied().max().unwrap_or(1);
    let scale =
        layer.weight_scales.iter().fold(0.0_f64, |all, &scale| all.max(scale)) * layer.input_scale;
    let products =
        early::noise_of_products(layer.polarity, network.n_outputs(), layer.product.fan_in());
    products * scale / (cycles as f64).sqrt()
}

/// Finds the cycle from which on the outcome of the layer that computes the scores is certain.
struct Certainty {
    full: ProgramLayer,
    /// The same layer with streams of a fraction of the length.
    fractions: Vec<StreamLayer>,
    scores: Scores,
}

/// The way from the sum of a neuron, in product bits of the full length, to its score. Every step
/// of it is monotone, rounding included.
enum Scores {
    /// In floating point: the scale and the bias of each row.
    Float { scales: Vec<f64>, bias: Vec<f64> },
    /// In integers, with the unit of each row.
    Integer { accumulator: Accumulator, units: Vec<f64> },
}

impl Certainty {
    /// Prepares the fractions of a layer; `None` if one sample sends several rows through it.
    fn new(streams: &StreamNetwork, layer: usize) -> Result<Option<Self>> {
        let missing = || CoreError::Internal { place: "eval::Certainty::new" };
        let (_, full) =
            streams.layers()?.into_iter().find(|(index, _)| *index == layer).ok_or_else(missing)?;
        if full.rows != 1 {
            return Ok(None);
        }
        let own = streams.network().layers().get(layer).ok_or_else(missing)?;
        let lengths = early::fractions(full.spec.length().bits());
        let fractions = lengths
            .into_iter()
            .map(|length| streams.layer_at(layer, length))
            .collect::<Result<_, _>>()?;
        let integers = streams.integer_layers()?.into_iter().find(|known| known.layer == layer);
        let scores = match integers {
            Some(integers) => {
                Scores::Integer { accumulator: integers.accumulator, units: integers.units }
            }
            None => {
                let n_rows = own.product.n_rows();
                let scales =
                    (0..n_rows).map(|row| own.input_scale * own.weight_scale(row)).collect();
                Scores::Float { scales, bias: own.biases() }
            }
        };
        Ok(Some(Self { full, fractions, scores }))
    }

    /// Returns the cycles until the outcome was certain, over all samples, and the samples that
    /// stopped before the end.
    fn cycles_and_stopped(
        &self,
        streams: &StreamNetwork,
        inputs: &LayerInputs,
        first: u32,
        cancel: Cancel<'_>,
    ) -> Result<[u64; 2]> {
        let spec = &self.full.spec;
        let (length, m) = (spec.length().bits(), spec.n_neurons());
        let values = inputs.values(spec);
        let samples = values.chunks_exact(spec.n_inputs().max(1));
        let weights = self.full.weights.values();
        let moves: Vec<_> = samples.map(|inputs| early::moves(spec, weights, inputs)).collect();
        let mut ends = vec![length; moves.len()];
        for fraction in &self.fractions {
            let counts = fraction.count(&inputs.batch(streams.seed_at(first)), cancel)?;
            for ((end, counts), moves) in ends.iter_mut().zip(counts.chunks_exact(m)).zip(&moves) {
                if *end == length && self.is_certain(fraction, counts, moves) {
                    *end = fraction.spec().length().bits();
                }
            }
        }
        let stopped = ends.iter().filter(|&&end| end < length).count();
        Ok([ends.iter().map(|&end| end as u64).sum(), stopped as u64])
    }

    /// Returns whether the best score is certain: a score lies between those of the least and the
    /// greatest value that its sum can have.
    fn is_certain(&self, fraction: &StreamLayer, counts: &[u64], moves: &[[f64; 2]]) -> bool {
        let full = &self.full.spec;
        let bits = full.length().bits() as f64;
        let ends = early::ends(fraction.spec(), full, counts, moves);
        let scores = ends.iter().enumerate().map(|(neuron, ends)| {
            let row = neuron / full.neurons_per_row();
            match &self.scores {
                Scores::Float { scales, bias } => {
                    ends.map(|sum| sum / bits * scales[row] + bias[row])
                }
                Scores::Integer { accumulator, units } => {
                    let one = 2f64.powi(accumulator.fraction() as i32);
                    ends.map(|sum| (sum * one + accumulator.bias()[row] as f64) * units[row])
                }
            }
        });
        early::is_decided(&scores.collect::<Vec<_>>())
    }
}
