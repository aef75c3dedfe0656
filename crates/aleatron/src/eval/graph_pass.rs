//! All samples through a graph with streams of one set of lengths.

use super::assembly::{add_new, merge_all};
use super::early::{self, CertainStop, Look};
use super::outline::PIECE;
use crate::backend::Batch;
use crate::data::Dataset;
use crate::graph::{GraphLayer, GraphNetwork, ScoreLayer, Statistics, StreamGraph, Watch};
use crate::network::{LayerStats, StreamConfig, top_class};
use crate::{Error, Result, SampleSeed, StreamLayer};
use aleatron_core::Cancel;
use std::sync::Arc;

/// A pass to be run.
pub(super) struct GraphPass<'a> {
    pub(super) network: &'a Arc<GraphNetwork>,
    pub(super) score: Option<ScoreLayer>,
    /// In ascending order.
    pub(super) margins: &'a [f64],
}

/// What a pass found.
#[derive(Default)]
pub(super) struct PassFound {
    pub(super) looks: Vec<Look>,
    pub(super) layers: Vec<LayerStats>,
    pub(super) certain: Option<CertainStop>,
    pub(super) seconds: f64,
    pub(super) warnings: Vec<String>,
}

impl GraphPass<'_> {
    /// Runs all samples; with statistics also the errors of layers, and the cycles until the outcome is certain.
    pub(super) fn run(
        &self,
        data: &Dataset,
        config: &StreamConfig,
        statistics: Statistics,
        cancel: Cancel<'_>,
        tick: &mut dyn FnMut(),
    ) -> Result<PassFound> {
        let streams = Arc::clone(self.network).into_streams(config)?;
        let n_outputs = self.network.n_outputs();
        let layer = self.score.and_then(|score| self.network.layers().get(score.place));
        let noise = layer.map_or(0.0, |layer| self.noise(layer, config));
        let mut found = PassFound::default();
        let mut certainty: Option<Certainty<'_>> = None;
        let (mut cycles, mut stopped) = (0_u64, 0_u64);
        for (first, piece) in data.pieces(PIECE) {
            tick();
            let mut watch = Watch { place: self.score.map(|score| score.place), ..Watch::default() };
            // There are at most 2^32 samples.
            let first = first as u32;
            let output = streams.run_watched(&piece?, first, statistics, &mut watch, cancel)?;
            found.seconds += output.elapsed.as_secs_f64();
            merge_all(&mut found.layers, &output.statistics);
            let scores = output.scores.chunks_exact(n_outputs);
            // A product that meets several rows of a sample has no scores.
            let has_leads = watch.outputs.len() == output.scores.len();
            let leads: &[f64] = if has_leads { &watch.outputs } else { &output.scores };
            found.looks.extend(scores.zip(leads.chunks_exact(n_outputs)).map(|(scores, lead)| {
                let reached = if has_leads { early::look(lead, noise, self.margins).reached } else { 0 };
                Look { class: top_class(scores), reached }
            }));
            if let (Statistics::Found, true, Some(score), Some(layer)) =
                (statistics, has_leads, self.score.filter(|score| score.is_direct), layer)
            {
                let certainty = match &mut certainty {
                    Some(certainty) => certainty,
                    none => none.insert(Certainty::new(&streams, score.place, layer)?),
                };
                let [more, ended] =
                    certainty.cycles_and_stopped(&watch.inputs, config.seed, first, cancel)?;
                (cycles, stopped) = (cycles + more, stopped + ended);
            }
        }
        let n = data.len().max(1) as f64;
        found.certain =
            certainty.map(|_| CertainStop { mean_cycles: cycles as f64 / n, stopped: stopped as f64 / n });
        let generator = config.settings.generator;
        let known = streams.warnings();
        add_new(&mut found.warnings, known.iter().map(|warning| format!("{generator}: {warning}")));
        Ok(found)
    }

    /// The standard deviation of the difference of two scores, at most.
    fn noise(&self, layer: &GraphLayer, config: &StreamConfig) -> f64 {
        let streaming =
            self.network.layers().iter().filter(|layer| layer.mode == crate::graph::Mode::Streams);
        let cycles = streaming.map(|layer| config.settings_of(&layer.name).length).max().unwrap_or(1);
        let scale =
            layer.weight_scales.iter().fold(0.0_f64, |all, &scale| all.max(scale)) * layer.input_scale;
        let products =
            early::noise_of_products(layer.polarity, self.network.n_outputs(), layer.product.fan_in());
        products * scale / (cycles as f64).sqrt()
    }
}

/// Finds out when the outcome of the product that makes the scores is certain.
struct Certainty<'a> {
    layer: &'a GraphLayer,
    full: Arc<StreamLayer>,
    /// The same with streams of a part of the length.
    parts: Vec<StreamLayer>,
}

impl<'a> Certainty<'a> {
    fn new(streams: &StreamGraph, place: usize, layer: &'a GraphLayer) -> Result<Self> {
        let full = streams.made_layer(place)?;
        let lengths = early::parts(full.spec().length().bits());
        let parts = lengths.into_iter().map(|length| streams.part(place, length)).collect::<Result<_>>()?;
        Ok(Self { layer, full, parts })
    }

    /// The cycles until the outcome was certain, over all samples, and the samples that stopped before the end.
    fn cycles_and_stopped(
        &self,
        inputs: &[f64],
        seed: u64,
        first_sample: u32,
        cancel: Cancel<'_>,
    ) -> Result<[u64; 2]> {
        let spec = self.full.spec();
        let (length, m) = (spec.length().bits(), spec.n_neurons());
        if !inputs.len().is_multiple_of(spec.n_inputs().max(1)) {
            return Err(Error::RaggedSamples { values: inputs.len(), features: spec.n_inputs() });
        }
        let samples = inputs.chunks_exact(spec.n_inputs());
        let moves: Vec<_> = samples.map(|inputs| early::moves(spec, self.full.weights(), inputs)).collect();
        let mut ends = vec![length; moves.len()];
        let seed = SampleSeed::new(seed).starting_at(first_sample);
        for part in &self.parts {
            let counts = part.count(&Batch::values(inputs, seed), cancel)?;
            for ((end, counts), moves) in ends.iter_mut().zip(counts.chunks_exact(m)).zip(&moves) {
                if *end == length && self.is_certain(part, counts, moves) {
                    *end = part.spec().length().bits();
                }
            }
        }
        let stopped = ends.iter().filter(|&&end| end < length).count();
        Ok([ends.iter().map(|&end| end as u64).sum(), stopped as u64])
    }

    /// Scores are computed from sums as they are at the end of a run. Each step of that is monotone, rounding included: a score lies between
    /// those of the least and the most that its sum can be.
    fn is_certain(&self, part: &StreamLayer, counts: &[u64], moves: &[[f64; 2]]) -> bool {
        let full = self.full.spec();
        let ends = early::ends(part.spec(), full, counts, moves);
        let scores = ends.iter().enumerate().map(|(row, ends)| {
            ends.map(|sum| self.layer.output(row, sum / full.length().bits() as f64)).map(f64::from)
        });
        early::is_decided(&scores.collect::<Vec<_>>())
    }
}
