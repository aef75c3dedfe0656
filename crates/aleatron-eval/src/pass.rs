//! Samples through a network with streams of one set of lengths, a piece at a time.

use super::early;
#[cfg(feature = "graph")]
use super::graph_pass::GraphPass;
use super::outline::{Purpose, sorted_margins};
use super::part::Piece;
use super::plan::Plan;
use super::subject::Subject;
use crate::Result;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::{Cancel, LayerSpec};
use aleatron_engine::network::{Detail, Network, StreamConfig, StreamNetwork, StreamOutput};
use aleatron_engine::{Error as EngineError, StreamLayer};
use std::sync::Arc;

/// A pass that is ready to run.
pub(super) enum Pass {
    Layers(LayerPass),
    #[cfg(feature = "graph")]
    Graph(GraphPass),
}

impl Pass {
    pub(super) fn new(
        subject: &Subject,
        plan: &Plan,
        config: &StreamConfig,
        purpose: Purpose,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        Ok(match subject {
            Subject::Layers(network) => Self::Layers(LayerPass::new(network, plan, config, purpose, cancel)?),
            #[cfg(feature = "graph")]
            Subject::Graph(network) => {
                Self::Graph(GraphPass::new(network, &subject.margins(plan), config, purpose)?)
            }
        })
    }

    /// Runs the samples of a piece, the first of which is number `first` of all.
    pub(super) fn run(&self, features: &[f64], first: u32, cancel: Cancel<'_>) -> Result<Piece> {
        match self {
            Self::Layers(pass) => pass.run(features, first, cancel),
            #[cfg(feature = "graph")]
            Self::Graph(pass) => pass.run(features, first, cancel),
        }
    }

    /// What there is to say of how the layers ran.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Layers(pass) => pass.streams.layers().flat_map(StreamLayer::notes).collect(),
            #[cfg(feature = "graph")]
            Self::Graph(pass) => pass.notes(),
        }
    }
}

/// A pass over a chain of layers, with their weights encoded.
pub(super) struct LayerPass {
    streams: StreamNetwork,
    purpose: Purpose,
    certainty: Option<Certainty>,
    noise: f64,
    /// In ascending order.
    margins: Vec<f64>,
}

impl LayerPass {
    fn new(
        network: &Arc<Network>,
        plan: &Plan,
        config: &StreamConfig,
        purpose: Purpose,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let streams = Arc::clone(network).into_streams(config, cancel)?;
        let cycles = streams.lengths().into_iter().max().unwrap_or(1) as f64;
        let noise = early::noise_of_one_cycle(network) / cycles.sqrt();
        let certainty = match purpose {
            Purpose::Cell if early::can_be_certain(network) => {
                Some(Certainty::new(&streams, plan.arithmetic)?)
            }
            _ => None,
        };
        Ok(Self { streams, purpose, certainty, noise, margins: sorted_margins(&plan.margins) })
    }

    fn run(&self, features: &[f64], first: u32, cancel: Cancel<'_>) -> Result<Piece> {
        let (streams, network) = (&self.streams, self.streams.network());
        let n_samples = features.len() / network.n_features();
        if streams.layers().any(|layer| layer.backend_for(n_samples).is_none()) {
            // The first call of its kind is made several times over, to be measured: that is not the time of the streams.
            streams.run(features, first, Detail::default(), cancel)?;
        }
        let detail = Detail {
            statistics: self.purpose == Purpose::Cell,
            last_inputs: self.certainty.is_some(),
            ..Detail::default()
        };
        let output = streams.run(features, first, detail, cancel)?;
        let scores = output.scores.chunks_exact(network.n_outputs());
        let looks = scores.map(|scores| early::look(scores, self.noise, &self.margins));
        let (classes, reached) = looks.map(|look| (look.class, look.reached)).unzip();
        let certain = self
            .certainty
            .as_ref()
            .map(|certainty| certainty.cycles_and_stopped(streams, &output, first, n_samples, cancel));
        Ok(Piece {
            classes,
            reached,
            certain: certain.transpose()?,
            clipped: output.clipped,
            seconds: output.elapsed.as_secs_f64(),
            layers: output.statistics,
        })
    }
}

/// Finds out when the last layer's outcome is certain.
struct Certainty {
    full: LayerSpec,
    weights: Vec<f64>,
    /// The last layer with streams of a part of the length.
    parts: Vec<StreamLayer>,
    /// The bias of each neuron in units of a product bit.
    bias_units: Vec<f64>,
}

impl Certainty {
    fn new(streams: &StreamNetwork, arithmetic: Arithmetic) -> Result<Self> {
        let Some((last, layer)) = streams.layers().last().zip(streams.network().layers().last()) else {
            return Err(EngineError::NoLayers.into());
        };
        let full = last.spec().clone();
        let lengths = early::parts(full.length().bits());
        let parts =
            lengths.into_iter().map(|length| streams.last_layer_at(length)).collect::<Result<_, _>>()?;
        let stage = layer.stage();
        let unit = full.length().bits() as f64 / stage.scale;
        let bias_units = match (arithmetic, streams.integer_layers().last()) {
            (Arithmetic::Integer, Some(last)) => {
                let per_bit = 2f64.powi(last.accumulator.fraction() as i32);
                last.accumulator.bias().iter().map(|&b| b as f64 / per_bit).collect()
            }
            _ => stage.bias.iter().map(|bias| bias * unit).collect::<Vec<f64>>(),
        };
        let bias_units =
            bias_units.iter().flat_map(|&bias| std::iter::repeat_n(bias, full.neurons_per_row()));
        let bias_units = bias_units.collect();
        Ok(Self { full, weights: last.weights().to_vec(), parts, bias_units })
    }

    /// The cycles until the outcome was certain, over all samples, and the samples that stopped before the end.
    fn cycles_and_stopped(
        &self,
        streams: &StreamNetwork,
        output: &StreamOutput,
        first_sample: u32,
        n_samples: usize,
        cancel: Cancel<'_>,
    ) -> Result<[u64; 2]> {
        let (full, m) = (self.full.length().bits(), self.full.n_neurons());
        let mut ends = vec![full; n_samples];
        let Some(inputs) = &output.last_inputs else { return Err(EngineError::NoLayers.into()) };
        let values = inputs.values(&self.full);
        let samples = values.chunks_exact(self.full.n_inputs());
        let moves: Vec<_> = samples.map(|inputs| early::moves(&self.full, &self.weights, inputs)).collect();
        for part in &self.parts {
            let counts = part.count(&inputs.batch(streams.seed_at(first_sample)), cancel)?;
            for ((end, counts), moves) in ends.iter_mut().zip(counts.chunks_exact(m)).zip(&moves) {
                if *end == full && early::is_certain(part.spec(), &self.full, counts, &self.bias_units, moves)
                {
                    *end = part.spec().length().bits();
                }
            }
        }
        let stopped = ends.iter().filter(|&&end| end < full).count();
        Ok([ends.iter().map(|&end| end as u64).sum(), stopped as u64])
    }
}
