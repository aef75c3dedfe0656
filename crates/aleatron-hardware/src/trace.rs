//! The integers of samples in every stage of a circuit, as the engine computes them.

use crate::circuit::{Circuit, InputInterval, LayerCircuit, Link, Operation, Source, Stage, Word};
use crate::error::internal;
use crate::{Error, Result};
use aleatron_core::program::{ProgramBatch, SlotData, SlotId, Step, StepKind};
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{Cancel, Length, SampleSeed, reference};
use aleatron_engine::Device;
use aleatron_engine::backend::{self, PrepareOptions};
use serde::Serialize;

/// The integers of some samples in every stage of a circuit. All lists are sample after sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The number of samples.
    pub n_samples: usize,
    /// The thresholds of the inputs in the order of the program; a negative one has a sign above
    /// its threshold.
    pub inputs: Vec<i64>,
    /// The stages, with all cycles of every layer.
    pub stages: Vec<StageTrace>,
    /// Early termination in the last layer, if the circuit has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early: Option<EarlyTrace>,
}

/// The integers that the last layer reads with early termination, once for each check and at the
/// end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EarlyTrace {
    /// The number of reads of the scores of each sample.
    pub reads: Vec<usize>,
    /// The number of stream cycles of each sample in the last layer.
    pub cycles: Vec<usize>,
    /// The class of each sample.
    pub classes: Vec<usize>,
    /// The counts, one list after the other for each read, as defined by the engine.
    pub counts: Vec<u64>,
    /// The scores in the same order.
    pub values: Vec<i64>,
}

impl EarlyTrace {
    /// Returns the mean number of stream cycles of a sample in the last layer.
    #[must_use]
    pub fn mean_cycles(&self) -> f64 {
        mean(&self.cycles)
    }

    /// Returns the mean number of reads of the scores of a sample.
    #[must_use]
    pub fn mean_reads(&self) -> f64 {
        mean(&self.reads)
    }
}

fn mean(values: &[usize]) -> f64 {
    values.iter().sum::<usize>() as f64 / values.len().max(1) as f64
}

/// The integers of one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageTrace {
    /// The name of the stage.
    pub name: String,
    /// The counts of a layer, as defined by the engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u64>,
    /// The outputs: accumulator values, thresholds or scores.
    pub values: Vec<i64>,
}

impl Circuit {
    /// Computes thresholds, counts, accumulator values and scores of samples with the engine, on
    /// the CPU.
    ///
    /// # Errors
    /// Returns [`Error::Samples`] for values that are not whole samples, [`Error::NegativeInput`]
    /// if the circuit takes non-negative inputs only, and the errors of the engine.
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
        let checked = self.checked_layer();
        let thresholds =
            checked.map(|(stage, _)| self.thresholds_of(counts.get(stage))).transpose()?;
        slots.extend(thresholds);
        let (mut wanted, mut indices) = (Vec::new(), Vec::new());
        for slot in slots {
            indices.push(wanted.iter().position(|known| *known == slot).unwrap_or_else(|| {
                wanted.push(slot);
                wanted.len() - 1
            }));
        }
        let inputs = self.program_inputs(features, n_samples)?;
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let seed = SampleSeed::new(SampleSeed::DEFAULT);
        let batch = ProgramBatch { inputs: &inputs, n_samples, seed, group: 1 };
        let backend = backend::open(&Device::Cpu)?;
        let prepared =
            backend::prepare_program(&*backend, &self.program, &PrepareOptions::default())?;
        let computed = prepared.run(&batch, &wanted, Cancel::NEVER)?.slots;
        let slot = |k: usize| {
            indices
                .get(k)
                .and_then(|&index| computed.get(index))
                .ok_or_else(|| internal("hardware::trace"))
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
        let early = match checked {
            Some((stage, layer)) => {
                let SlotData::Words(thresholds) = slot(next)? else {
                    return Err(internal("hardware::trace"));
                };
                let full = stages.get(stage).ok_or_else(|| internal("hardware::trace"))?;
                Some(self.early_trace(&self.stages[stage], layer, thresholds, full)?)
            }
            None => None,
        };
        Ok(Trace { n_samples, inputs, stages, early })
    }

    /// Returns the layer that stops early, with the index of its stage.
    pub(crate) fn checked_layer(&self) -> Option<(usize, &LayerCircuit)> {
        self.layers().find(|(_, layer)| !layer.checks.is_empty())
    }

    /// Returns the slot of the thresholds of the counts of a layer.
    fn thresholds_of(&self, counts: Option<&Option<SlotId>>) -> Result<SlotId> {
        let counts = counts.copied().flatten();
        let step = self.program.steps().iter().find(|step| Some(step.output()) == counts);
        step.map(Step::input).ok_or_else(|| internal("hardware::thresholds_of"))
    }

    /// Reads the scores at each check and at the end, until the best one leads by the margin.
    fn early_trace(
        &self,
        stage: &Stage,
        layer: &LayerCircuit,
        thresholds: &[u64],
        full: &StageTrace,
    ) -> Result<EarlyTrace> {
        let missing = || internal("hardware::early_trace");
        let found = self.program.layers().get(layer.layer).ok_or_else(missing)?;
        let step = self.program.steps().iter().find(|step| step.output() == stage.output.slot);
        let Some(StepKind::Accumulate { accumulator, .. }) = step.map(Step::kind) else {
            return Err(missing());
        };
        let n = stage.output.elements;
        let weights = found.spec.weight_thresholds(&found.weights)?;
        let negative: Vec<bool> = weights.iter().map(|&weight| is_negative(weight)).collect();
        let mut specs = Vec::with_capacity(layer.checks.len());
        for check in &layer.checks {
            let spec = found.spec.with_length(Length::new(check.cycles)?)?;
            let streams = reference::weight_streams(&spec, &weights);
            specs.push((check, spec, streams));
        }
        let mut early = EarlyTrace {
            reads: Vec::new(),
            cycles: Vec::new(),
            classes: Vec::new(),
            counts: Vec::new(),
            values: Vec::new(),
        };
        let samples = thresholds.chunks_exact(found.spec.n_inputs().max(1));
        let ends = full.counts.chunks_exact(n).zip(full.values.chunks_exact(n));
        for (thresholds, (full_counts, full_values)) in samples.zip(ends) {
            let mut stopped = None;
            for (read, (check, spec, weights)) in specs.iter().enumerate() {
                let inputs = reference::input_streams(
                    spec,
                    thresholds,
                    SampleSeed::new(SampleSeed::DEFAULT),
                );
                let counts = reference::signed_counts(spec, [weights, &inputs], [&negative, &[]]);
                let value = |(neuron, &count): (usize, &u64)| {
                    let sum = spec.polarity().sum(count, spec.fan_in(neuron), spec.length());
                    check.value(accumulator, neuron / spec.neurons_per_row(), sum)
                };
                let values: Option<Vec<i64>> = counts.iter().enumerate().map(value).collect();
                let values = values.ok_or_else(missing)?;
                let (class, decision_margin) = decision_margin(&self.comparable(&values));
                early.counts.extend(counts);
                early.values.extend(values);
                if decision_margin >= check.margin {
                    stopped = Some((read + 1, check.cycles, class));
                    break;
                }
            }
            let (reads, cycles, class) = stopped.unwrap_or_else(|| {
                early.counts.extend(full_counts);
                early.values.extend(full_values);
                (layer.checks.len() + 1, layer.length, top(&self.comparable(full_values)))
            });
            early.reads.push(reads);
            early.cycles.push(cycles);
            early.classes.push(class);
        }
        Ok(early)
    }

    /// Returns the slot of the counts of each stage that is a layer.
    fn count_slots(&self) -> Result<Vec<Option<SlotId>>> {
        let mut slots = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            slots.push(match &stage.operation {
                Operation::Layer(_) => {
                    let step =
                        self.program.steps().iter().find(|step| step.output() == stage.output.slot);
                    let counts =
                        step.filter(|step| matches!(step.kind(), StepKind::Accumulate { .. }));
                    Some(counts.ok_or_else(|| internal("hardware::count_slots"))?.input())
                }
                _ => None,
            });
        }
        Ok(slots)
    }

    /// Returns the features by input of the program.
    fn program_inputs(&self, features: &[f64], n_samples: usize) -> Result<Vec<Vec<f64>>> {
        let lens: Vec<usize> =
            self.program.inputs().iter().map(|&id| self.program.slot(id).len).collect();
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

impl Trace {
    /// Returns the class of each sample after all cycles: the first of the greatest scores,
    /// compared in one unit.
    #[must_use]
    pub fn full_classes(&self, circuit: &Circuit) -> Vec<usize> {
        let Source::Stage(index) = circuit.output else { return Vec::new() };
        let n = circuit.link(circuit.output).elements.max(1);
        let samples = self.stages.get(index).map_or(&[][..], |stage| &stage.values).chunks_exact(n);
        samples.map(|scores| top(&circuit.comparable(scores))).collect()
    }
}

/// Returns the first of the greatest scores and its decision margin.
fn decision_margin(scores: &[i64]) -> (usize, u64) {
    let class = top(scores);
    let others = scores.iter().enumerate().filter(|(k, _)| *k != class).map(|(_, &score)| score);
    let best = scores.get(class).copied().unwrap_or_default();
    (class, others.max().map_or(u64::MAX, |second| best.abs_diff(second)))
}

/// Returns the index of the first of the greatest scores.
fn top(scores: &[i64]) -> usize {
    (1..scores.len()).fold(0, |best, k| if scores[k] > scores[best] { k } else { best })
}

/// Returns the elements of a slot as words of a link.
fn words(link: &Link, data: &SlotData) -> Result<Vec<i64>> {
    match (link.word, data) {
        (Word::Threshold { width, .. }, SlotData::Words(words)) => {
            let word =
                |&word: &u64| magnitude(word) as i64 | i64::from(is_negative(word)) << (width + 1);
            Ok(words.iter().map(word).collect())
        }
        (Word::Integer { .. }, SlotData::Integer(values)) => Ok(values.clone()),
        _ => Err(internal("hardware::words")),
    }
}
