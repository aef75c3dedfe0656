//! Early termination of the head: stopping the streams of the logits when the best token leads by a
//! margin.
//!
//! All other products run to their end, so that the inputs of the head do not change and its counts
//! continue from step to step. The steps and the margins are those of [networks](crate::EarlyStop).

use crate::Result;
use crate::early::{self, Decision};
use aleatron_core::{Polarity, SampleSeed};
use aleatron_engine::StreamProduct;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

/// The savings of early termination of the head by a margin, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadStop {
    /// The decision margin at which a position stops, in standard deviations.
    pub margin: f64,
    /// The mean cycles of the head at a position; the full run takes its length.
    pub mean_cycles: f64,
    /// The share of the bits of the head that are not computed.
    pub saved: f64,
    /// The share of positions that stopped before the end.
    pub stopped: f64,
    /// The share of positions whose most probable token is not that of the full run.
    pub changed: f64,
}

impl HeadStop {
    /// Returns the figures of `positions` with a head of `length` bits.
    pub(super) fn new(margin: f64, counts: HeadCounts, positions: usize, length: usize) -> Self {
        let n = positions.max(1) as f64;
        let mean_cycles = counts.cycles as f64 / n;
        Self {
            margin,
            mean_cycles,
            saved: 1.0 - mean_cycles / length.max(1) as f64,
            stopped: counts.stopped as f64 / n,
            changed: counts.changed as f64 / n,
        }
    }
}

/// The counts of some positions with one margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadCounts {
    /// The cycles of the head.
    pub(super) cycles: u64,
    /// The positions that stopped before the end.
    pub(super) stopped: u64,
    /// The positions whose most probable token is not that of the full run.
    pub(super) changed: u64,
}

impl HeadCounts {
    /// Returns the counts since earlier ones.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            cycles: self.cycles - earlier.cycles,
            stopped: self.stopped - earlier.stopped,
            changed: self.changed - earlier.changed,
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.cycles += more.cycles;
        self.stopped += more.stopped;
        self.changed += more.changed;
    }
}

/// The head with streams of parts of its length.
#[derive(Debug)]
pub(super) struct HeadTermination {
    /// By ascending length, without the full one.
    steps: Vec<StreamProduct>,
    /// In ascending order.
    margins: Vec<f64>,
    counts: Mutex<Vec<HeadCounts>>,
}

impl HeadTermination {
    /// Prepares the parts of the head, each with the width of the full length.
    pub(super) fn new(
        head: &StreamProduct,
        margins: &[f64],
        prepare: impl Fn(usize) -> Result<StreamProduct>,
    ) -> Result<Self> {
        let length = head.layer().spec().length().bits();
        let steps = early::steps(length).filter(|&cycles| cycles < length).map(prepare);
        let margins = early::sorted(margins);
        let counts = Mutex::new(vec![HeadCounts::default(); margins.len()]);
        Ok(Self { steps: steps.collect::<Result<_>>()?, margins, counts })
    }

    /// Compares the outputs of the full length with those of its parts, for consecutive positions.
    pub(super) fn observe(
        &self,
        head: &StreamProduct,
        inputs: &[f32],
        outputs: &[f64],
        seed: SampleSeed,
    ) -> Result<()> {
        let spec = head.layer().spec();
        let (length, m) = (spec.length().bits(), spec.n_neurons());
        let mut decisions: Vec<(usize, Vec<Decision>)> = Vec::new();
        for step in &self.steps {
            let (scores, _) = step.run(inputs, seed)?;
            let noise = noise(step);
            let decide = |scores: &[f64]| early::decide(scores, noise, &self.margins);
            decisions.push((
                step.layer().spec().length().bits(),
                scores.chunks_exact(m).map(decide).collect(),
            ));
        }
        let best: Vec<usize> =
            outputs.chunks_exact(m).map(aleatron_engine::network::top_class).collect();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (rank, counts) in counts.iter_mut().enumerate() {
            for (position, &best) in best.iter().enumerate() {
                let mut steps =
                    decisions.iter().map(|(cycles, decisions)| (*cycles, decisions[position]));
                let stop = steps.find(|(_, decision)| decision.reached > rank);
                let (cycles, token) =
                    stop.map_or((length, best), |(cycles, stop)| (cycles, stop.class));
                counts.add(HeadCounts {
                    cycles: cycles as u64,
                    stopped: u64::from(cycles < length),
                    changed: u64::from(token != best),
                });
            }
        }
        Ok(())
    }

    /// Returns the counts so far, for each margin in ascending order.
    pub(super) fn counts(&self) -> Vec<HeadCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the standard deviation of the difference of two logits, at most.
fn noise(step: &StreamProduct) -> f64 {
    let spec = step.layer().spec();
    let products = early::noise_of_products(Polarity::Signed, spec.n_neurons(), spec.n_inputs());
    products * step.largest_scale() / (spec.length().bits() as f64).sqrt()
}
