//! Cases of compiled networks: every kind of step, on a backend and by the reference.

use super::Reference;
use super::case::{Case, LayerCase};
use crate::backend::{Backend, Batch, CountMethod, PrepareOptions};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::layer::SampleSeed;
use crate::program::{Program, ProgramBatch, ProgramOutput, SlotId, plain};
use std::sync::Arc;

/// A program and a batch. The answer is every requested slot as words, and the number of saturated
/// inputs of each layer.
#[derive(Debug, Clone)]
pub struct ProgramCase {
    /// The program.
    pub program: Arc<Program>,
    /// The elements of each input of the program, samples by elements.
    pub inputs: Vec<Vec<f64>>,
    /// The seed of Bernoulli inputs, and the first sample.
    pub seed: SampleSeed,
    /// The slots of the answer.
    pub slots: Vec<SlotId>,
}

impl ProgramCase {
    fn inputs(&self) -> Vec<&[f64]> {
        self.inputs.iter().map(Vec::as_slice).collect()
    }

    /// Answers the case with a backend.
    pub(super) fn run(&self, backend: &dyn Backend) -> Result<Vec<u64>> {
        answer(backend, &self.program, &self.inputs(), self.seed, &self.slots)
    }

    /// Answers the case with the reference.
    pub(super) fn answer(&self) -> Vec<u64> {
        // A valid case has no errors; an empty answer equals no other.
        plain_answer(&self.program, &self.inputs(), self.seed, &self.slots).unwrap_or_default()
    }
}

fn batch<'a>(program: &Program, inputs: &'a [&'a [f64]], seed: SampleSeed) -> ProgramBatch<'a> {
    let first = program.inputs().first().map_or(1, |&id| program.slot(id).len.max(1));
    let n_samples = inputs.first().map_or(0, |input| input.len() / first);
    ProgramBatch { inputs, n_samples, seed, group: 1 }
}

fn words(output: &ProgramOutput) -> Vec<u64> {
    output.slots.iter().flat_map(|slot| slot.to_words()).collect()
}

/// Answers with a backend: with its own program, if supported, and with its layers and the
/// reference's steps between them.
pub(super) fn answer(
    backend: &dyn Backend,
    program: &Arc<Program>,
    inputs: &[&[f64]],
    seed: SampleSeed,
    slots: &[SlotId],
) -> Result<Vec<u64>> {
    let (batch, options) = (batch(program, inputs, seed), PrepareOptions::default());
    let Some(prepared) = backend.prepare_program(program, &options)? else {
        let layers = program.layers().iter();
        let layers = layers.map(|layer| backend.prepare(&layer.spec, &layer.weights, &options));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let counts_of = |layer: usize, thresholds: &[u64], seed: SampleSeed| {
            layers[layer].counts(&Batch::thresholds(thresholds, seed), Cancel::NEVER)
        };
        return Ok(words(&plain::run(program, &batch, slots, counts_of)?));
    };
    let all = prepared.run(&batch, slots, Cancel::NEVER)?;
    // The outputs alone take the shortest path, which must give the same numbers. Both answers
    // concatenated equal no right one.
    let outputs = prepared.run(&batch, program.outputs(), Cancel::NEVER)?;
    let known = program.outputs().iter().zip(&outputs.slots);
    let mut known =
        known.filter_map(|(id, data)| Some((slots.iter().position(|slot| slot == id)?, data)));
    let is_equal =
        known.all(|(k, data)| all.slots[k] == *data) && outputs.saturated == all.saturated;
    Ok(if is_equal { words(&all) } else { [words(&all), words(&outputs)].concat() })
}

/// Answers with the reference.
pub(super) fn plain_answer(
    program: &Program,
    inputs: &[&[f64]],
    seed: SampleSeed,
    slots: &[SlotId],
) -> Result<Vec<u64>> {
    let counts_of = |layer: usize, thresholds: &[u64], seed: SampleSeed| {
        let layer = &program.layers()[layer];
        let (spec, method) = (layer.spec.clone(), CountMethod::Best);
        let (weights, inputs) = (spec.weight_thresholds(&layer.weights)?, thresholds.to_vec());
        Ok(Reference.answer(&Case::Layer(LayerCase { spec, weights, inputs, seed, method })))
    };
    Ok(words(&plain::run(program, &batch(program, inputs, seed), slots, counts_of)?))
}
