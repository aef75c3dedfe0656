//! Consecutive steps of inter-layer arithmetic: chunks of samples go through all of them while they
//! are in the caches.

use super::op::{In, Levels, Op, Out};
use crate::dispatch::{self, Saturation};
use crate::{Cpu, recycle};
use aleatron_core::program::{Program, SlotData, SlotId, SlotKind, Step, plain};
use aleatron_core::{Error, Quantity, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of elements of the largest slot that a thread takes at a time.
const ELEMENTS: usize = 1 << 13;

/// The approximate time of a step for an element on one thread; only the order of magnitude
/// matters.
const PICOSECONDS: u64 = 700;

/// The steps between two layers.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) steps: Range<usize>,
    /// The number of elements per sample of all its slots together, and of the largest.
    elements: usize,
    largest: usize,
}

impl Stage {
    pub(super) fn new(program: &Program, steps: Range<usize>) -> Self {
        let slots =
            program.steps()[steps.clone()].iter().map(|step| program.slot(step.output()).len);
        let elements = slots.clone().fold(0, usize::saturating_add);
        Self { steps, elements, largest: slots.max().unwrap_or(1) }
    }
}

/// The elements of a slot for the samples of a run.
#[derive(Debug, Clone)]
pub(super) enum Data<'a> {
    /// Inputs of the program.
    Borrowed(&'a [f64]),
    /// Floats, or integers that are exact in f64.
    Numbers(Vec<f64>),
    /// Thresholds or counts.
    Words(Vec<u64>),
}

impl Data<'_> {
    fn samples(&self, range: Range<usize>) -> In<'_> {
        match self {
            Data::Borrowed(values) => In::Numbers(&values[range]),
            Data::Numbers(values) => In::Numbers(&values[range]),
            Data::Words(words) => In::Words(&words[range]),
        }
    }
}

/// State shared by the stages of a run.
pub(super) struct Run<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) program: &'a Program,
    pub(super) ops: &'a [Option<Op>],
    pub(super) last_uses: &'a [Option<usize>],
    pub(super) slots: &'a [SlotId],
    pub(super) n_samples: usize,
}

/// Some samples of a stage, with the memory of their results.
struct Chunk<'a> {
    first: usize,
    n: usize,
    /// By the index of the slot.
    outputs: BTreeMap<usize, Out<'a>>,
}

/// A computed slot of a chunk.
enum ChunkSlot<'a> {
    /// In the memory of the result.
    Result(Out<'a>),
    /// In memory of the chunk.
    Local(Vec<f64>),
}

impl ChunkSlot<'_> {
    fn elements(&self) -> In<'_> {
        match self {
            ChunkSlot::Result(Out::Numbers(values)) => In::Numbers(values),
            ChunkSlot::Result(Out::Words(words)) => In::Words(words),
            ChunkSlot::Local(values) => In::Numbers(values),
        }
    }

    fn elements_mut(&mut self) -> Out<'_> {
        match self {
            ChunkSlot::Result(Out::Numbers(values)) => Out::Numbers(values),
            ChunkSlot::Result(Out::Words(words)) => Out::Words(words),
            ChunkSlot::Local(values) => Out::Numbers(values),
        }
    }
}

impl Run<'_> {
    /// Runs a stage and adds the saturated inputs to the sums of their layers.
    pub(super) fn stage(
        &self,
        stage: &Stage,
        data: &mut [Option<Data<'_>>],
        saturated: &mut [u64],
    ) -> Result<()> {
        if self.in_place(stage, data, saturated)? {
            return Ok(());
        }
        let steps = &self.program.steps()[stage.steps.clone()];
        let is_result = |id: SlotId| {
            self.slots.contains(&id)
                || self.last_uses[id.index()].is_some_and(|last| last >= stage.steps.end)
        };
        let mut computed: Vec<(usize, Data<'_>)> = Vec::new();
        for step in steps.iter().filter(|step| is_result(step.output())) {
            let slot = self.program.slot(step.output());
            let len = slot.len as u128 * self.n_samples as u128;
            computed.push((
                step.output().index(),
                match slot.kind {
                    SlotKind::Float | SlotKind::Integer => {
                        Data::Numbers(recycle::take(len, Quantity::Value)?)
                    }
                    SlotKind::Threshold | SlotKind::Count => {
                        Data::Words(recycle::take(len, Quantity::Value)?)
                    }
                },
            ));
        }
        let sums: Vec<AtomicU64> = saturated.iter().map(|_| AtomicU64::new(0)).collect();
        let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let chunks = self.chunks(&mut computed, (ELEMENTS / stage.largest.max(1)).max(1));
        self.cpu.pool.for_each(chunks.into_iter(), self.cost(stage.elements), |chunk| {
            let first = chunk.first;
            if let Err(error) = self.chunk(stage, data, chunk, &sums) {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                // The first failing sample is reported, whichever thread was faster.
                if failure.as_ref().is_none_or(|(known, _)| first < *known) {
                    *failure = Some((first, error));
                }
            }
        });
        if let Some((_, error)) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        saturated.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more.into_inner());
        computed.into_iter().for_each(|(slot, values)| data[slot] = Some(values));
        Ok(())
    }

    /// Converts counts to thresholds in place, if a stage does nothing else and no other step needs
    /// the counts.
    fn in_place(
        &self,
        stage: &Stage,
        data: &mut [Option<Data<'_>>],
        saturated: &mut [u64],
    ) -> Result<bool> {
        let [Some(Op::Accumulate(sums)), Some(Op::Requantize(op))] = &self.ops[stage.steps.clone()]
        else {
            return Ok(false);
        };
        let [first, second] = &self.program.steps()[stage.steps.clone()] else { return Ok(false) };
        let Levels::Uniform(level) = op.levels else { return Ok(false) };
        let is_chain = second.inputs() == [first.output()];
        let is_last = |id: SlotId, step: usize| {
            self.last_uses[id.index()] == Some(step) && !self.slots.contains(&id)
        };
        let start = stage.steps.start;
        if !is_chain || !is_last(first.input(), start) || !is_last(first.output(), start + 1) {
            return Ok(false);
        }
        let Some(Data::Words(mut counts)) = data[first.input().index()].take() else {
            return Err(Error::Internal { place: "cpu::program::Run::in_place" });
        };
        let total = AtomicU64::new(0);
        let chunk_len = sums.offsets.len() * (ELEMENTS / sums.offsets.len().max(1)).max(1);
        self.cpu.pool.for_each(
            counts.chunks_mut(chunk_len.max(1)),
            self.cost(stage.elements),
            |counts| {
                let outside =
                    dispatch::requantize(self.cpu.tier, sums.lanes, level, &sums.offsets, counts);
                total.fetch_add(outside, Ordering::Relaxed);
            },
        );
        saturated[op.layer] += total.into_inner();
        data[second.output().index()] = Some(Data::Words(counts));
        Ok(true)
    }

    /// Divides the results of a stage into chunks of samples.
    fn chunks<'m>(&self, computed: &'m mut [(usize, Data<'_>)], samples: usize) -> Vec<Chunk<'m>> {
        let mut chunks: Vec<Chunk<'m>> = (0..self.n_samples)
            .step_by(samples)
            .map(|first| {
                let n = samples.min(self.n_samples - first);
                Chunk { first, n, outputs: BTreeMap::new() }
            })
            .collect();
        for (slot, data) in computed {
            let len = self.program.slots()[*slot].len * samples;
            match data {
                Data::Numbers(values) => {
                    for (chunk, values) in chunks.iter_mut().zip(values.chunks_mut(len)) {
                        chunk.outputs.insert(*slot, Out::Numbers(values));
                    }
                }
                Data::Words(words) => {
                    for (chunk, words) in chunks.iter_mut().zip(words.chunks_mut(len)) {
                        chunk.outputs.insert(*slot, Out::Words(words));
                    }
                }
                Data::Borrowed(_) => {}
            }
        }
        chunks
    }

    /// Takes some samples through all steps of a stage.
    fn chunk(
        &self,
        stage: &Stage,
        data: &[Option<Data<'_>>],
        mut chunk: Chunk<'_>,
        sums: &[AtomicU64],
    ) -> Result<()> {
        let missing = || Error::Internal { place: "cpu::program::Run::chunk" };
        let mut done: BTreeMap<usize, ChunkSlot<'_>> = BTreeMap::new();
        for index in stage.steps.clone() {
            let (step, Some(op)) = (&self.program.steps()[index], &self.ops[index]) else {
                return Err(missing());
            };
            let output = step.output().index();
            let mut computed = match chunk.outputs.remove(&output) {
                Some(out) => ChunkSlot::Result(out),
                None => {
                    let len = self.program.slots()[output].len as u128 * chunk.n as u128;
                    ChunkSlot::Local(recycle::take(len, Quantity::Value)?)
                }
            };
            let input = |id: &SlotId| {
                let (k, len) = (id.index(), self.program.slot(*id).len);
                match (done.get(&k), &data[k]) {
                    (Some(computed), _) => Ok(computed.elements()),
                    (None, Some(data)) => {
                        Ok(data.samples(chunk.first * len..(chunk.first + chunk.n) * len))
                    }
                    (None, None) => Err(missing()),
                }
            };
            let inputs = step.inputs().iter().map(input).collect::<Result<Vec<_>>>()?;
            let Saturation { saturated, refused } =
                op.apply(self.cpu.tier, &inputs, computed.elements_mut())?;
            if refused > 0 {
                return Err(self.refusal(step, &inputs, &chunk));
            }
            if let Some(layer) = op.layer() {
                sums[layer].fetch_add(saturated, Ordering::Relaxed);
            }
            done.insert(output, computed);
            // Memory of slots that no later step of the stage reads is reused for later slots.
            for (_, computed) in
                done.extract_if(.., |&k, _| self.last_uses[k].is_none_or(|last| last <= index))
            {
                if let ChunkSlot::Local(values) = computed {
                    recycle::release(values);
                }
            }
        }
        Ok(())
    }

    /// Returns the error of the first value that is outside its interval.
    fn refusal(&self, step: &Step, inputs: &[In<'_>], chunk: &Chunk<'_>) -> Error {
        let internal = Error::Internal { place: "cpu::program::Run::refusal" };
        let [In::Numbers(values)] = inputs else { return internal };
        let mut saturated = vec![0; self.program.layers().len()];
        let values = SlotData::Float(values.to_vec());
        match plain::run_step(self.program, step, &[&values], chunk.n, &mut saturated) {
            Ok(_) => internal,
            Err(error) => error.shifted(chunk.first * self.program.slot(step.input()).len),
        }
    }

    /// Estimates the time for a number of elements of every sample on one thread.
    fn cost(&self, elements: usize) -> Duration {
        let elements = elements.saturating_mul(self.n_samples) as u64;
        Duration::from_nanos(elements.saturating_mul(PICOSECONDS) / 1000)
    }
}
