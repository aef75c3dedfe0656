//! Samples through a graph with streams of one set of lengths, a piece at a time.

use super::early::{self, Look};
use super::outline::{Purpose, sorted_margins};
use super::part::Piece;
use crate::Result;
use aleatron_core::arithmetic::Accumulator;
use aleatron_core::{Cancel, SampleSeed};
use aleatron_engine::graph::{GraphLayer, GraphNetwork, Mode, ScoreLayer, Statistics, StreamGraph, Watch};
use aleatron_engine::network::{LayerInputs, StreamConfig, top_class};
use aleatron_engine::{Error as EngineError, StreamLayer};
use std::sync::{Arc, OnceLock};

/// A pass over a graph. Its layers are made when the first samples show the sizes of their inputs.
pub(super) struct GraphPass {
    streams: StreamGraph,
    config: StreamConfig,
    purpose: Purpose,
    score: Option<ScoreLayer>,
    certainty: OnceLock<Certainty>,
    noise: f64,
    /// In ascending order.
    margins: Vec<f64>,
}

impl GraphPass {
    pub(super) fn new(
        network: &Arc<GraphNetwork>,
        margins: &[f64],
        config: &StreamConfig,
        purpose: Purpose,
    ) -> Result<Self> {
        let score = network.score_layer();
        let layer = score.and_then(|score| network.layers().get(score.place));
        Ok(Self {
            streams: Arc::clone(network).into_streams(config)?,
            noise: layer.map_or(0.0, |layer| noise(network, layer, config)),
            config: config.clone(),
            purpose,
            score,
            certainty: OnceLock::new(),
            margins: sorted_margins(margins),
        })
    }

    /// Runs the samples of a piece, the first of which is number `first` of all.
    pub(super) fn run(&self, features: &[f64], first: u32, cancel: Cancel<'_>) -> Result<Piece> {
        let network = self.streams.network();
        let n_outputs = network.n_outputs();
        let statistics = match self.purpose {
            Purpose::Cell => Statistics::Found,
            Purpose::Look => Statistics::LeftOut,
        };
        let mut watch = Watch { place: self.score.map(|score| score.place), ..Watch::default() };
        let output = self.streams.run_watched(features, first, statistics, &mut watch, cancel)?;
        // A product that meets several rows of a sample has no scores.
        let has_leads = watch.outputs.len() == output.scores.len();
        let leads: &[f64] = if has_leads { &watch.outputs } else { &output.scores };
        let looks = output.scores.chunks_exact(n_outputs).zip(leads.chunks_exact(n_outputs));
        let looks = looks.map(|(scores, lead)| {
            let reached = if has_leads { early::look(lead, self.noise, &self.margins).reached } else { 0 };
            Look { class: top_class(scores), reached }
        });
        let (classes, reached) = looks.map(|look| (look.class, look.reached)).unzip();
        let certain = match self.score.filter(|score| score.is_direct && has_leads) {
            Some(score) if self.purpose == Purpose::Cell => {
                let certainty = match self.certainty.get() {
                    Some(certainty) => certainty,
                    None => {
                        let made = Certainty::new(&self.streams, score.place)?;
                        self.certainty.get_or_init(|| made)
                    }
                };
                let Some(inputs) = &watch.inputs else { return Err(EngineError::NoLayers.into()) };
                let seed = SampleSeed::new(self.config.seed).starting_at(first);
                Some(certainty.cycles_and_stopped(network, inputs, seed, cancel)?)
            }
            _ => None,
        };
        let layers = match self.purpose {
            Purpose::Cell => output.statistics,
            Purpose::Look => Vec::new(),
        };
        Ok(Piece {
            classes,
            reached,
            certain,
            clipped: layers.first().map_or(0, |first| first.saturated),
            seconds: output.elapsed.as_secs_f64(),
            layers,
        })
    }

    /// How the layers ran, where not as asked, and what is known to be wrong with their generators.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.streams.notes();
        if self.purpose == Purpose::Cell {
            let generator = self.config.settings.generator;
            let warnings = self.streams.warnings();
            notes.extend(warnings.iter().map(|warning| format!("{generator}: {warning}")));
        }
        notes
    }
}

/// The standard deviation of the difference of two scores, at most.
fn noise(network: &GraphNetwork, layer: &GraphLayer, config: &StreamConfig) -> f64 {
    let streaming = network.layers().iter().filter(|layer| layer.mode == Mode::Streams);
    let cycles = streaming.map(|layer| config.settings_of(&layer.name).length).max().unwrap_or(1);
    let scale = layer.weight_scales.iter().fold(0.0_f64, |all, &scale| all.max(scale)) * layer.input_scale;
    let products = early::noise_of_products(layer.polarity, network.n_outputs(), layer.product.fan_in());
    products * scale / (cycles as f64).sqrt()
}

/// Finds out when the outcome of the product that makes the scores is certain.
struct Certainty {
    /// The place of the product.
    place: usize,
    full: Arc<StreamLayer>,
    /// The same with streams of a part of the length.
    parts: Vec<StreamLayer>,
    /// Where numbers between layers are integers: what adds the bias of each row, and what 1 stands for in it.
    integers: Option<(Accumulator, Vec<f64>)>,
}

impl Certainty {
    fn new(streams: &StreamGraph, place: usize) -> Result<Self> {
        let full = streams.made_layer(place)?;
        let lengths = early::parts(full.spec().length().bits());
        let parts =
            lengths.into_iter().map(|length| streams.part(place, length)).collect::<Result<_, _>>()?;
        Ok(Self { place, full, parts, integers: streams.integers(place)? })
    }

    /// The cycles until the outcome was certain, over all samples, and the samples that stopped before the end.
    fn cycles_and_stopped(
        &self,
        network: &GraphNetwork,
        inputs: &LayerInputs,
        seed: SampleSeed,
        cancel: Cancel<'_>,
    ) -> Result<[u64; 2]> {
        let spec = self.full.spec();
        let (length, m) = (spec.length().bits(), spec.n_neurons());
        let values = inputs.values(spec);
        if !values.len().is_multiple_of(spec.n_inputs().max(1)) {
            let (values, features) = (values.len(), spec.n_inputs());
            return Err(EngineError::RaggedSamples { values, features }.into());
        }
        let Some(layer) = network.layers().get(self.place) else { return Err(EngineError::NoLayers.into()) };
        let samples = values.chunks_exact(spec.n_inputs());
        let moves: Vec<_> = samples.map(|inputs| early::moves(spec, self.full.weights(), inputs)).collect();
        let mut ends = vec![length; moves.len()];
        for part in &self.parts {
            let counts = part.count(&inputs.batch(seed), cancel)?;
            for ((end, counts), moves) in ends.iter_mut().zip(counts.chunks_exact(m)).zip(&moves) {
                if *end == length && self.is_certain(layer, part, counts, moves) {
                    *end = part.spec().length().bits();
                }
            }
        }
        let stopped = ends.iter().filter(|&&end| end < length).count();
        Ok([ends.iter().map(|&end| end as u64).sum(), stopped as u64])
    }

    /// Scores are computed from sums as they are at the end of a run. Each step of that is monotone, rounding included: a score lies between
    /// those of the least and the most that its sum can be.
    fn is_certain(&self, layer: &GraphLayer, part: &StreamLayer, counts: &[u64], moves: &[[f64; 2]]) -> bool {
        let full = self.full.spec();
        let ends = early::ends(part.spec(), full, counts, moves);
        let scores = ends.iter().enumerate().map(|(row, ends)| match &self.integers {
            Some((held, units)) => {
                let one = 2f64.powi(held.fraction() as i32);
                ends.map(|sum| (sum * one + held.bias()[row] as f64) * units[row])
            }
            None => ends.map(|sum| f64::from(layer.output(row, sum / full.length().bits() as f64))),
        });
        early::is_decided(&scores.collect::<Vec<_>>())
    }
}
