//! Programs on the CPU: layers of any backend, and the inter-layer arithmetic between them in
//! cache-sized chunks on all threads.
//!
//! All numbers of a program are f64 here. In integer arithmetic they are integers, and [`op`]
//! proves during preparation that each of them is exact; a program with wider integers runs step by
//! step as in [`aleatron_core::program::plain`].

mod layers;
mod op;
mod pool;
mod stage;

pub(crate) use layers::ProgramLayers;

use crate::cost::Costs;
use crate::{Cpu, CpuBackend, Pool, recycle};
use aleatron_core::backend::{Batch, PreparedLayer};
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, SlotKind, StepKind,
    plain,
};
use aleatron_core::{Cancel, Error, Quantity, Result, memory};
use layers::SampleSplit;
use op::Op;
use stage::{Data, Stage};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The size in bytes of all slots of a chunk of samples: some of them stay in the outer caches, and
/// large batches stay small.
const CHUNK_BYTES: usize = 64 << 20;

/// The least number of samples of a chunk: layers reuse their weights over the samples of a call.
const CHUNK_SAMPLES: usize = 64;

/// Number of items for each thread.
const ITEMS_PER_THREAD: usize = 4;

/// A program whose layers run on any backend and whose inter-layer arithmetic runs on the CPU.
#[derive(Debug)]
pub struct CpuProgram {
    program: Arc<Program>,
    backend: CpuBackend,
    layers: ProgramLayers,
    /// One operation per step, `None` for products; absent if the integers of the program are not
    /// exact in f64.
    ops: Option<Vec<Option<Op>>>,
    parts: Vec<Part>,
    last_uses: Vec<Option<usize>>,
    chunk: usize,
    /// `None` if threads divide the work of every layer.
    split: Option<SampleSplit>,
}

/// Consecutive steps that run together.
#[derive(Debug, Clone)]
enum Part {
    /// A layer.
    Product { step: usize, layer: usize },
    /// Inter-layer arithmetic.
    Stage(Stage),
}

impl CpuProgram {
    /// Creates a program from its layers, prepared on any backend.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one prepared layer for each layer of the
    /// program, [`Error::Memory`] if the constants of its steps do not fit.
    pub fn new(
        program: Arc<Program>,
        layers: Vec<Box<dyn PreparedLayer>>,
        backend: CpuBackend,
    ) -> Result<Self> {
        Self::of(program, ProgramLayers::Any(layers), backend)
    }

    /// Creates a program from its layers.
    pub(crate) fn of(
        program: Arc<Program>,
        layers: ProgramLayers,
        backend: CpuBackend,
    ) -> Result<Self> {
        let (expected, actual) = (program.layers().len(), layers.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Layer, expected, actual });
        }
        let ops = op::prepare(&program)?;
        let mut parts = Vec::new();
        let mut start = 0;
        for (k, step) in program.steps().iter().enumerate() {
            if let StepKind::Product { layer } = step.kind() {
                if start < k {
                    parts.push(Part::Stage(Stage::new(&program, start..k)));
                }
                parts.push(Part::Product { step: k, layer: *layer });
                start = k + 1;
            }
        }
        if start < program.steps().len() {
            parts.push(Part::Stage(Stage::new(&program, start..program.steps().len())));
        }
        let bytes: usize = program.slots().iter().map(|slot| slot.len.saturating_mul(8)).sum();
        let chunk = (CHUNK_BYTES / bytes.max(1)).max(CHUNK_SAMPLES);
        let last_uses = program.last_uses();
        let split = layers.sample_split(&program);
        Ok(Self { program, backend, layers, ops, parts, last_uses, chunk, split })
    }

    /// Runs chunks of samples one after another, each on all threads.
    fn run_layer_by_layer(
        &self,
        cpu: &Cpu,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        let mut output = self.empty(slots);
        for start in (0..batch.n_samples).step_by(self.chunk) {
            cancel.check()?;
            let samples = start..batch.n_samples.min(start + self.chunk);
            append(&mut output, self.run_samples(cpu, batch, samples, slots, cancel)?)?;
        }
        Ok(output)
    }

    /// Runs a few samples at a time on one thread each: the outputs of a layer are still in the
    /// caches of its core when the next layer reads them.
    fn run_sample_by_sample(
        &self,
        cpu: &Cpu,
        split: SampleSplit,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        cancel.check()?;
        let samples =
            (batch.n_samples / (ITEMS_PER_THREAD * cpu.threads())).clamp(1, split.samples);
        let cost = Costs::of(cpu.tier).count(split.pairs.saturating_mul(batch.n_samples));
        let one = Cpu::new(cpu.tier, Arc::new(Pool::new(1)?));
        let caller = std::thread::current().id();
        // The first sample that failed, and the result of the cancellation token, which is polled
        // on the thread of the caller.
        let (failed, cancelled) = (AtomicUsize::new(usize::MAX), OnceLock::new());
        let starts: Vec<usize> = (0..batch.n_samples).step_by(samples).collect();
        let mut computed: Vec<Option<Result<ProgramOutput>>> =
            starts.iter().map(|_| None).collect();
        cpu.pool.for_each(starts.iter().zip(&mut computed), cost, |(&start, computed)| {
            if std::thread::current().id() == caller
                && let Err(error) = cancel.check()
            {
                cancelled.get_or_init(|| error);
            }
            if start > failed.load(Ordering::Relaxed) || cancelled.get().is_some() {
                return;
            }
            let samples = start..batch.n_samples.min(start + samples);
            let output = self.run_samples(&one, batch, samples, slots, Cancel::NEVER);
            if output.is_err() {
                failed.fetch_min(start, Ordering::Relaxed);
            }
            *computed = Some(output);
        });
        if let Some(error) = cancelled.into_inner() {
            return Err(error);
        }
        let mut output = self.empty(slots);
        // The samples before the first failed one were all computed.
        for computed in computed.into_iter().flatten() {
            append(&mut output, computed?)?;
        }
        Ok(output)
    }

    /// Creates an output without samples.
    fn empty(&self, slots: &[SlotId]) -> ProgramOutput {
        let kind = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        ProgramOutput {
            slots: slots.iter().map(kind).collect(),
            saturated: vec![0; self.layers.len()],
        }
    }

    /// Runs some samples of a batch.
    fn run_samples(
        &self,
        cpu: &Cpu,
        batch: &ProgramBatch<'_>,
        samples: Range<usize>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        let inputs = batch.samples(samples.start, samples.end)?;
        let chunk = batch.part(&inputs, samples.start, samples.end)?;
        let computed = match &self.ops {
            Some(ops) => {
                let mut saturated = vec![0; self.layers.len()];
                let slots = self.run_exact(cpu, ops, &chunk, slots, &mut saturated, cancel);
                slots.map(|slots| ProgramOutput { slots, saturated })
            }
            None => plain::run(&self.program, &chunk, slots, |layer, thresholds, seed| {
                self.layers.counts(cpu, layer, &Batch::thresholds(thresholds, seed), cancel)
            }),
        };
        computed.map_err(|error| self.program.shifted(error, samples.start))
    }

    fn run_exact(
        &self,
        cpu: &Cpu,
        ops: &[Option<Op>],
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        saturated: &mut [u64],
        cancel: Cancel<'_>,
    ) -> Result<Vec<SlotData>> {
        let mut data: Vec<Option<Data<'_>>> =
            (0..self.program.slots().len()).map(|_| None).collect();
        for (id, input) in self.program.inputs().iter().zip(batch.inputs) {
            data[id.index()] = Some(Data::Borrowed(input));
        }
        for part in &self.parts {
            cancel.check()?;
            let steps = match part {
                Part::Product { step, layer } => {
                    let (step_index, step) = (*step, &self.program.steps()[*step]);
                    let seed = batch.row_seed(self.program.layers()[*layer].rows, 0)?;
                    let Some(Data::Words(thresholds)) = &data[step.input().index()] else {
                        return Err(Error::Internal { place: "cpu::CpuProgram::run_exact" });
                    };
                    let counts = self.layers.counts(
                        cpu,
                        *layer,
                        &Batch::thresholds(thresholds, seed),
                        cancel,
                    )?;
                    data[step.output().index()] = Some(Data::Words(counts));
                    step_index..step_index + 1
                }
                Part::Stage(stage) => {
                    let run = stage::Run {
                        cpu,
                        program: &self.program,
                        ops,
                        last_uses: &self.last_uses,
                        slots,
                        n_samples: batch.n_samples,
                    };
                    run.stage(stage, &mut data, saturated)?;
                    stage.steps.clone()
                }
            };
            // The memory of unused slots is reused for later ones.
            for input in self.program.steps()[steps.clone()].iter().flat_map(|step| step.inputs()) {
                let is_needed = self.last_uses[input.index()].is_some_and(|last| last >= steps.end);
                if !is_needed && !slots.contains(input) {
                    match data[input.index()].take() {
                        Some(Data::Words(words)) => recycle::release(words),
                        Some(Data::Numbers(numbers)) => recycle::release(numbers),
                        Some(Data::Borrowed(_)) | None => {}
                    }
                }
            }
        }
        slots.iter().map(|&id| self.take(id, slots, &mut data)).collect()
    }

    /// Returns a slot in the form of its kind.
    fn take(
        &self,
        id: SlotId,
        slots: &[SlotId],
        data: &mut [Option<Data<'_>>],
    ) -> Result<SlotData> {
        let is_once = slots.iter().filter(|slot| **slot == id).count() == 1;
        let missing = Error::Internal { place: "cpu::CpuProgram::take" };
        let Some(found) = data.get_mut(id.index()) else { return Err(missing) };
        let found = if is_once { found.take() } else { found.clone() };
        Ok(match (found, self.program.slot(id).kind) {
            (Some(Data::Numbers(values)), SlotKind::Float) => SlotData::Float(values),
            (Some(Data::Borrowed(values)), SlotKind::Float) => SlotData::Float(values.to_vec()),
            (Some(Data::Numbers(values)), SlotKind::Integer) => {
                SlotData::Integer(values.into_iter().map(|value| value as i64).collect())
            }
            (Some(Data::Words(words)), SlotKind::Threshold | SlotKind::Count) => {
                SlotData::Words(words)
            }
            _ => return Err(missing),
        })
    }
}

impl PreparedProgram for CpuProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        let wanted: u128 = slots.iter().map(|&id| self.program.slot(id).len as u128).sum();
        memory::check(wanted.saturating_mul(8 * batch.n_samples as u128), Quantity::Samples)?;
        let cpu = self.backend.cpu()?;
        match self.split {
            Some(split) if batch.n_samples >= 2 * cpu.threads() => {
                self.run_sample_by_sample(&cpu, split, batch, slots, cancel)
            }
            _ => self.run_layer_by_layer(&cpu, batch, slots, cancel),
        }
    }

    fn is_lost(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_lost())
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for (layer, description) in self.layers.iter().zip(self.program.layers()) {
            let name =
                layer.backend_for(n_samples.min(self.chunk).saturating_mul(description.rows))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(if names.is_empty() { "cpu".to_owned() } else { names.join(",") })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.layers.iter().flat_map(|layer| layer.notes()) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }
}

/// Appends the samples of an output to another.
fn append(output: &mut ProgramOutput, more: ProgramOutput) -> Result<()> {
    output.saturated.iter_mut().zip(&more.saturated).for_each(|(sum, more)| *sum += more);
    output.slots.iter_mut().zip(more.slots).try_for_each(|(all, more)| all.append(more))
}
