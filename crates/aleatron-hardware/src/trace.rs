//! The integers of samples in every stage of a circuit, as the engine computes them.

use crate::circuit::{Circuit, InputInterval, Link, Operation, Word};
use crate::error::internal;
use crate::{Error, Result};
use aleatron_core::program::{ProgramBatch, SlotData, SlotId, StepKind};
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{Cancel, SampleSeed};
use aleatron_engine::Device;
use aleatron_engine::backend::{self, PrepareOptions};
use serde::Serialize;

/// The integers of some samples in every stage of a circuit. All lists have the elements of one sample after those of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The samples.
    pub n_samples: usize,
    /// The thresholds of the inputs in the order of the program; a negative one has a sign above its threshold.
    pub inputs: Vec<i64>,
    /// The stages.
    pub stages: Vec<StageTrace>,
}

/// The integers of one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageTrace {
    /// The name of the stage.
    pub name: String,
    /// The counts of a layer, as the engine defines them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u64>,
    /// The outputs: accumulator values, thresholds or scores.
    pub values: Vec<i64>,
}

impl Circuit {
    /// Computes thresholds, counts, accumulator values and scores of samples with the engine, on the CPU.
    ///
    /// # Errors
    /// [`Error::Samples`] for values that are not whole samples, [`Error::NegativeInput`] if the circuit takes non-negative inputs only, and
    /// the errors of the engine.
    pub fn trace(&self, features: &[f64]) -> Result<Trace> {
        let width = self.n_features.max(1);
        if features.is_empty() || !features.len().is_multiple_of(width) {
            return Err(Error::Samples { values: features.len(), features: width });
        }
        let n_samples = features.len() / width;
        let counts = self.count_slots()?;
        let mut slots: Vec<SlotId> = vec![self.input.slot];
        slots.extend(self.stages.iter().map(|stage| stage.output.slot));
        slots.extend(counts.iter().flatten());
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for slot in slots {
            places.push(wanted.iter().position(|known| *known == slot).unwrap_or_else(|| {
                wanted.push(slot);
                wanted.len() - 1
            }));
        }
        let inputs = self.program_inputs(features, n_samples)?;
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let seed = SampleSeed::new(SampleSeed::DEFAULT);
        let batch = ProgramBatch { inputs: &inputs, n_samples, seed, group: 1 };
        let backend = backend::open(&Device::Cpu)?;
        let prepared = backend::prepare_program(&*backend, &self.program, &PrepareOptions::default())?;
        let made = prepared.run(&batch, &wanted, Cancel::NEVER)?.slots;
        let slot = |k: usize| {
            places.get(k).and_then(|&place| made.get(place)).ok_or_else(|| internal("hardware::trace"))
        };
        let inputs = words(&self.input, slot(0)?)?;
        if let Word::Threshold { width, sign: InputInterval::NonNegative } = self.input.word
            && let Some(index) = inputs.iter().position(|word| word >> (width + 1) != 0)
        {
            let (sample, input) = (index / self.input.elements, index % self.input.elements);
            return Err(Error::NegativeInput { sample, input });
        }
        let mut stages = Vec::with_capacity(self.stages.len());
        let mut next = 1 + self.stages.len();
        for (k, (stage, counts)) in self.stages.iter().zip(&counts).enumerate() {
            let values = words(&stage.output, slot(1 + k)?)?;
            let counts = match counts {
                Some(_) => {
                    next += 1;
                    match slot(next - 1)? {
                        SlotData::Words(counts) => counts.clone(),
                        _ => return Err(internal("hardware::trace")),
                    }
                }
                None => Vec::new(),
            };
            stages.push(StageTrace { name: stage.name.clone(), counts, values });
        }
        Ok(Trace { n_samples, inputs, stages })
    }

    /// Returns the slot of the counts of each stage that is a layer.
    fn count_slots(&self) -> Result<Vec<Option<SlotId>>> {
        let mut slots = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            slots.push(match &stage.operation {
                Operation::Layer(_) => {
                    let step = self.program.steps().iter().find(|step| step.output() == stage.output.slot);
                    let counts = step.filter(|step| matches!(step.kind(), StepKind::Accumulate { .. }));
                    Some(counts.ok_or_else(|| internal("hardware::count_slots"))?.input())
                }
                _ => None,
            });
        }
        Ok(slots)
    }

    /// Returns the features by input of the program.
    fn program_inputs(&self, features: &[f64], n_samples: usize) -> Result<Vec<Vec<f64>>> {
        let lens: Vec<usize> = self.program.inputs().iter().map(|&id| self.program.slot(id).len).collect();
        if lens.iter().sum::<usize>() * n_samples != features.len() {
            return Err(internal("hardware::program_inputs"));
        }
        let mut first = 0;
        let mut inputs = Vec::with_capacity(lens.len());
        for len in lens {
            let range = first..first + len;
            let samples = features.chunks_exact(self.n_features.max(1));
            inputs.push(samples.flat_map(|sample| sample[range.clone()].iter().copied()).collect());
            first += len;
        }
        Ok(inputs)
    }
}

/// Returns the elements of a slot as words of a link.
fn words(link: &Link, data: &SlotData) -> Result<Vec<i64>> {
    match (link.word, data) {
        (Word::Threshold { width, .. }, SlotData::Words(words)) => {
            let word = |&word: &u64| magnitude(word) as i64 | i64::from(is_negative(word)) << (width + 1);
            Ok(words.iter().map(word).collect())
        }
        (Word::Integer { .. }, SlotData::Integer(values)) => Ok(values.clone()),
        _ => Err(internal("hardware::words")),
    }
}
