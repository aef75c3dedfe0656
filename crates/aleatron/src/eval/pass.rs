//! All samples through the network once, with streams of one set of lengths.

use super::early::{self, CertainStop, Look};
use super::plan::Plan;
use crate::data::Dataset;
use crate::network::{Detail, LayerStats, Network, StreamConfig, StreamNetwork, StreamOutput};
use crate::{Result, StreamLayer};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::{Cancel, LayerSpec};
use std::sync::Arc;
use std::time::Duration;

/// Samples run at a time.
const PIECE: usize = 256;

/// What a pass found.
pub(super) struct Pass {
    pub(super) looks: Vec<Look>,
    pub(super) layers: Vec<LayerStats>,
    pub(super) certain: Option<CertainStop>,
    pub(super) clipped: u64,
    pub(super) elapsed: Duration,
    /// How the layers ran, where not as asked.
    pub(super) notes: Vec<String>,
}

/// What a pass is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A look on the way to a longer one: classes and leads alone.
    Look,
    /// A cell: everything.
    Cell,
}

/// Runs a pass; `tick` is called before each piece.
pub(super) fn run(
    network: &Arc<Network>,
    data: &Dataset,
    plan: &Plan,
    config: &StreamConfig,
    purpose: Purpose,
    cancel: Cancel<'_>,
    tick: &mut dyn FnMut(),
) -> Result<Pass> {
    let streams = Arc::clone(network).into_streams(config, cancel)?;
    let cycles = streams.lengths().into_iter().max().unwrap_or(1) as f64;
    let noise = early::noise_of_one_cycle(network) / cycles.sqrt();
    let mut certainty = match purpose {
        Purpose::Cell if early::can_be_certain(network) => Some(Certainty::new(&streams, plan.arithmetic)?),
        _ => None,
    };
    let detail = Detail {
        statistics: purpose == Purpose::Cell,
        last_inputs: certainty.is_some(),
        ..Detail::default()
    };
    let mut pass = Pass {
        looks: Vec::with_capacity(data.len()),
        layers: vec![LayerStats::default(); network.layers().len()],
        certain: None,
        clipped: 0,
        elapsed: Duration::ZERO,
        notes: Vec::new(),
    };
    let pieces = data.features().chunks(PIECE * network.n_features());
    for (piece, first) in pieces.zip((0..=u32::MAX).step_by(PIECE)) {
        tick();
        cancel.check()?;
        let n_samples = piece.len() / network.n_features();
        if streams.layers().any(|layer| layer.backend_for(n_samples).is_none()) {
            // The first call of its kind is made several times over, to be measured: that is not the time of the streams.
            streams.run(piece, first, Detail::default(), cancel)?;
        }
        let output = streams.run(piece, first, detail, cancel)?;
        pass.looks
            .extend(output.scores.chunks_exact(network.n_outputs()).map(|scores| early::look(scores, noise)));
        pass.elapsed += output.elapsed;
        pass.clipped += output.clipped;
        for (sum, stats) in pass.layers.iter_mut().zip(&output.statistics) {
            merge(sum, stats);
        }
        if let Some(certainty) = &mut certainty {
            certainty.add(&streams, &output, first, n_samples, cancel)?;
        }
    }
    pass.certain = certainty.map(|certainty| certainty.finish(data.len()));
    pass.notes.extend(streams.layers().flat_map(StreamLayer::notes));
    Ok(pass)
}

/// Finds out when the last layer's outcome is certain.
struct Certainty {
    full: LayerSpec,
    weights: Vec<f64>,
    /// The last layer with streams of a part of the length.
    parts: Vec<StreamLayer>,
    /// The bias of each neuron in units of a product bit.
    bias_units: Vec<f64>,
    cycles: u64,
    stopped: usize,
}

impl Certainty {
    fn new(streams: &StreamNetwork, arithmetic: Arithmetic) -> Result<Self> {
        let Some((last, layer)) = streams.layers().last().zip(streams.network().layers().last()) else {
            return Err(crate::Error::NoLayers);
        };
        let full = last.spec().clone();
        let lengths = early::parts(full.length().bits());
        let parts = lengths.into_iter().map(|length| streams.last_layer_at(length)).collect::<Result<_>>()?;
        let stage = layer.stage();
        let unit = full.length().bits() as f64 / stage.scale;
        let bias_units = match (arithmetic, streams.integer_layers().last()) {
            (Arithmetic::Integer, Some(last)) => last.accumulator.bias().iter().map(|&b| b as f64).collect(),
            _ => stage.bias.iter().map(|bias| bias * unit).collect::<Vec<f64>>(),
        };
        let bias_units =
            bias_units.iter().flat_map(|&bias| std::iter::repeat_n(bias, full.neurons_per_row()));
        let bias_units = bias_units.collect();
        Ok(Self { full, weights: last.weights().to_vec(), parts, bias_units, cycles: 0, stopped: 0 })
    }

    fn add(
        &mut self,
        streams: &StreamNetwork,
        output: &StreamOutput,
        first_sample: u32,
        n_samples: usize,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let Some(inputs) = &output.last_inputs else { return Ok(()) };
        let (full, m) = (self.full.length().bits(), self.full.n_neurons());
        let mut ends = vec![full; n_samples];
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
        self.cycles += ends.iter().map(|&end| end as u64).sum::<u64>();
        self.stopped += ends.iter().filter(|&&end| end < full).count();
        Ok(())
    }

    fn finish(self, n_samples: usize) -> CertainStop {
        let n = n_samples.max(1) as f64;
        CertainStop { mean_cycles: self.cycles as f64 / n, stopped: self.stopped as f64 / n }
    }
}

/// Adds the errors of some samples to those of others.
fn merge(sum: &mut LayerStats, more: &LayerStats) {
    let counts = sum.counts + more.counts;
    let weight = if counts == 0 { 0.0 } else { more.counts as f64 / counts as f64 };
    sum.mean_count += (more.mean_count - sum.mean_count) * weight;
    sum.mean_value += (more.mean_value - sum.mean_value) * weight;
    sum.worst_count = sum.worst_count.max(more.worst_count);
    sum.worst_value = sum.worst_value.max(more.worst_value);
    sum.saturated += more.saturated;
    sum.counts = counts;
}

/// Adds the errors of some samples, layer by layer.
#[cfg(feature = "graph")]
pub(super) fn merge_all(sums: &mut Vec<LayerStats>, more: &[LayerStats]) {
    sums.resize(sums.len().max(more.len()), LayerStats::default());
    for (sum, stats) in sums.iter_mut().zip(more) {
        merge(sum, stats);
    }
}
