//! Programs on the CPU: layers of any backend, and the inter-layer arithmetic between them in cache-sized chunks on all threads.
//!
//! All numbers of a program are f64 here. Those of integer arithmetic are integers, and [`op`] proves when a program is prepared that
//! each of them is exact; a program with wider integers runs step by step as [`aleatron_core::program::plain`] has it.

mod op;
mod pool;
mod stage;

use crate::CpuBackend;
use aleatron_core::backend::{Batch, PreparedLayer};
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, SlotKind, StepKind, plain,
};
use aleatron_core::{Cancel, Error, Quantity, Result, memory};
use op::Op;
use stage::{Data, Stage};
use std::sync::Arc;

/// The bytes of all slots that a chunk of samples may take: some of them stay in the outer caches, and large batches stay small.
const CHUNK_BYTES: usize = 64 << 20;

/// The fewest samples of a chunk: layers reuse their weights over the samples of a call.
const CHUNK_SAMPLES: usize = 64;

/// A program whose layers run on any backend and whose inter-layer arithmetic runs on the CPU.
#[derive(Debug)]
pub struct CpuProgram {
    program: Arc<Program>,
    backend: CpuBackend,
    layers: Vec<Box<dyn PreparedLayer>>,
    /// One operation per step, `None` for products; nothing if the integers of the program are not exact in f64.
    ops: Option<Vec<Option<Op>>>,
    parts: Vec<Part>,
    last_uses: Vec<Option<usize>>,
    chunk: usize,
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
    /// [`Error::Mismatch`] unless there is one prepared layer for each layer of the program, [`Error::Memory`] if the constants of its
    /// steps do not fit.
    pub fn new(
        program: Arc<Program>,
        layers: Vec<Box<dyn PreparedLayer>>,
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
        Ok(Self { program, backend, layers, ops, parts, last_uses, chunk })
    }

    /// Runs one chunk of samples and appends the slots asked for to `output`.
    fn run_chunk(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        output: &mut ProgramOutput,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let made = match &self.ops {
            Some(ops) => self.run_exact(ops, batch, slots, &mut output.saturated, cancel)?,
            None => {
                let counts_of = |layer: usize, thresholds: &[u64], seed| {
                    self.layers[layer].counts(&Batch::thresholds(thresholds, seed), cancel)
                };
                let made = plain::run(&self.program, batch, slots, counts_of)?;
                output.saturated.iter_mut().zip(&made.saturated).for_each(|(sum, more)| *sum += more);
                made.slots
            }
        };
        output.slots.iter_mut().zip(made).try_for_each(|(all, more)| all.append(more))
    }

    fn run_exact(
        &self,
        ops: &[Option<Op>],
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        saturated: &mut [u64],
        cancel: Cancel<'_>,
    ) -> Result<Vec<SlotData>> {
        let cpu = self.backend.cpu()?;
        let mut data: Vec<Option<Data<'_>>> = (0..self.program.slots().len()).map(|_| None).collect();
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
                    let counts = self.layers[*layer].counts(&Batch::thresholds(thresholds, seed), cancel)?;
                    data[step.output().index()] = Some(Data::Words(counts));
                    step_index..step_index + 1
                }
                Part::Stage(stage) => {
                    let run = stage::Run {
                        cpu: &cpu,
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
            // Slots that nothing needs any more give their memory back.
            for input in self.program.steps()[steps.clone()].iter().flat_map(|step| step.inputs()) {
                let is_needed = self.last_uses[input.index()].is_some_and(|last| last >= steps.end);
                if !is_needed && !slots.contains(input) {
                    data[input.index()] = None;
                }
            }
        }
        slots.iter().map(|&id| self.take(id, slots, &mut data)).collect()
    }

    /// Returns a slot as its kind has it.
    fn take(&self, id: SlotId, slots: &[SlotId], data: &mut [Option<Data<'_>>]) -> Result<SlotData> {
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
            (Some(Data::Words(words)), SlotKind::Threshold | SlotKind::Count) => SlotData::Words(words),
            _ => return Err(missing),
        })
    }
}

impl PreparedProgram for CpuProgram {
    fn run(&self, batch: &ProgramBatch<'_>, slots: &[SlotId], cancel: Cancel<'_>) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        let kind = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        let saturated = vec![0; self.layers.len()];
        let mut output = ProgramOutput { slots: slots.iter().map(kind).collect(), saturated };
        let wanted: u128 = slots.iter().map(|&id| self.program.slot(id).len as u128).sum();
        memory::check(wanted.saturating_mul(8 * batch.n_samples as u128), Quantity::Samples)?;
        for start in (0..batch.n_samples).step_by(self.chunk) {
            cancel.check()?;
            let end = batch.n_samples.min(start + self.chunk);
            let inputs = batch.samples(start, end)?;
            let chunk = batch.part(&inputs, start, end)?;
            let made = self.run_chunk(&chunk, slots, &mut output, cancel);
            made.map_err(|error| self.program.shifted(error, start))?;
        }
        Ok(output)
    }

    fn is_lost(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_lost())
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for (layer, description) in self.layers.iter().zip(self.program.layers()) {
            let name = layer.backend_for(n_samples.min(self.chunk).saturating_mul(description.rows))?;
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
