//! Programs whose accumulators have faults, step by step on the host.

use super::mask::{field, flip};
use crate::backend::{Batch, PreparedLayer};
use aleatron_core::arithmetic::{Accumulator, IntegerActivation};
use aleatron_core::fault::{FaultSite, Faults, Operand, flip_accumulator};
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, StepKind, plain,
};
use aleatron_core::{Cancel, Error, LayerSpec, Length, Quantity, Result, SampleSeed, memory};
use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid};
use std::sync::Arc;

/// Number of samples that run together.
const CHUNK: usize = 64;

const MISSING: Error = Error::Internal { place: "engine::FaultProgram" };

/// A program on layers with faults, with faults in its accumulators.
#[derive(Debug)]
pub(super) struct FaultProgram {
    program: Arc<Program>,
    layers: Vec<Box<dyn PreparedLayer>>,
    /// The faults of each layer.
    faults: Vec<Faults>,
    /// The accumulator of each step without its activation; `None` for other steps.
    accumulators: Vec<Option<Accumulator>>,
}

impl FaultProgram {
    pub(super) fn new(
        program: Arc<Program>,
        layers: Vec<Box<dyn PreparedLayer>>,
        faults: Vec<Faults>,
    ) -> Result<Self> {
        let plain = |accumulator: &Accumulator| {
            let (width, bias) = (accumulator.width(), accumulator.bias().to_vec());
            let plain = Accumulator::new(width, bias, IntegerActivation::Identity)?;
            plain.with_fraction(accumulator.fraction())
        };
        let accumulators = program.steps().iter().map(|step| match step.kind() {
            StepKind::Accumulate { accumulator, .. } => plain(accumulator).map(Some),
            _ => Ok(None),
        });
        let accumulators = accumulators.collect::<Result<_>>()?;
        Ok(Self { program, layers, faults, accumulators })
    }

    /// Returns the values of faulty accumulators for counts, from row `seed` on.
    fn accumulate(
        faults: &Faults,
        spec: &LayerSpec,
        plain: &Accumulator,
        activation: IntegerActivation,
        counts: &[u64],
        seed: SampleSeed,
    ) -> Result<Vec<i64>> {
        let (mut held, m) = (plain.values(spec, counts)?, spec.n_neurons());
        let cpu = Cpu::current()?;
        let length = Length::new(plain.width() as usize)?;
        let unit = field(Quantity::Neurons, spec.first_neuron() as usize * spec.neurons_per_row())?;
        let mut flips: Vec<u64> = memory::zeros(counts.len() as u128, Quantity::Counts)?;
        for mask in faults.at(FaultSite::Accumulators, spec.index()) {
            let rows = if mask.fault().is_per_sample() { counts.len() / m } else { 1 };
            let addresses =
                mask.addresses(seed.first_sample, 0, Operand::Inputs).map(|at| at.at_unit(unit));
            let drawn = MaskDrawer::new(mask).masks(
                &cpu,
                addresses,
                MaskGrid { length, rows, units: m },
            )?;
            flips.chunks_mut(drawn.len().max(1)).for_each(|flips| flip(flips, &drawn));
        }
        for (held, &mask) in held.iter_mut().zip(&flips) {
            *held = activation.apply(flip_accumulator(*held, mask, plain.width()));
        }
        Ok(held)
    }

    fn run_chunk(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        let program = &self.program;
        let mut data: Vec<Option<SlotData>> = vec![None; program.slots().len()];
        for (id, input) in program.inputs().iter().zip(batch.inputs) {
            data[id.index()] = Some(SlotData::Float(input.to_vec()));
        }
        let mut saturated = vec![0; program.layers().len()];
        for (step, plain) in program.steps().iter().zip(&self.accumulators) {
            cancel.check()?;
            let inputs = step.inputs().iter().map(|id| data[id.index()].as_ref());
            let inputs: Vec<&SlotData> = inputs.collect::<Option<_>>().ok_or(MISSING)?;
            let made = match (step.kind(), plain, &inputs[..]) {
                (StepKind::Product { layer }, _, [SlotData::Words(thresholds)]) => {
                    let seed = batch.row_seed(program.layers()[*layer].rows, 0)?;
                    SlotData::Words(
                        self.layers[*layer].counts(&Batch::thresholds(thresholds, seed), cancel)?,
                    )
                }
                (
                    StepKind::Accumulate { layer, accumulator },
                    Some(plain),
                    [SlotData::Words(counts)],
                ) => {
                    let own = &program.layers()[*layer];
                    let (seed, activation) =
                        (batch.row_seed(own.rows, 0)?, accumulator.activation());
                    SlotData::Integer(Self::accumulate(
                        &self.faults[*layer],
                        &own.spec,
                        plain,
                        activation,
                        counts,
                        seed,
                    )?)
                }
                _ => plain::run_step(program, step, &inputs, batch.n_samples, &mut saturated)?,
            };
            data[step.output().index()] = Some(made);
        }
        let slots = slots.iter().map(|id| data.get(id.index()).cloned().flatten().ok_or(MISSING));
        Ok(ProgramOutput { slots: slots.collect::<Result<_>>()?, saturated })
    }
}

impl PreparedProgram for FaultProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        let empty = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        let saturated = vec![0; self.program.layers().len()];
        let mut output = ProgramOutput { slots: slots.iter().map(empty).collect(), saturated };
        for start in (0..batch.n_samples).step_by(CHUNK) {
            let end = batch.n_samples.min(start + CHUNK);
            let inputs = batch.samples(start, end)?;
            let made = self.run_chunk(&batch.part(&inputs, start, end)?, slots, cancel);
            let made = made.map_err(|error| self.program.shifted(error, start))?;
            output.saturated.iter_mut().zip(&made.saturated).for_each(|(sum, more)| *sum += more);
            output.slots.iter_mut().zip(made.slots).try_for_each(|(all, more)| all.append(more))?;
        }
        Ok(output)
    }

    fn is_lost(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_lost())
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for (layer, own) in self.layers.iter().zip(self.program.layers()) {
            let name = layer.backend_for(n_samples.min(CHUNK).saturating_mul(own.rows))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names.join(","))
    }

    fn notes(&self) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.notes()).collect()
    }
}
