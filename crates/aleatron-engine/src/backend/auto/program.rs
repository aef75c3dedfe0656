//! Programs on the backend that was measured to be fastest.

use super::super::placement;
use super::super::{Device, PrepareOptions, open, prepare_program};
use super::{Call, Choice, Chooser};
use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::Digest;
use aleatron_core::program::{PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotId};
use aleatron_core::{Cancel, Result};
use aleatron_cpu::CpuBackend;
use std::sync::Arc;

/// The largest number of samples of a measured call: enough for a device to be busy.
const MEASURED_SAMPLES: usize = 256;

/// A program on the CPU, and on accelerators that are worth measuring.
#[derive(Debug)]
pub(super) struct AutoProgram {
    program: Arc<Program>,
    chooser: Chooser<dyn PreparedProgram>,
    /// The number of pairs of words that a sample multiplies.
    words: usize,
}

impl AutoProgram {
    pub(super) fn new(program: &Arc<Program>, options: &PrepareOptions<'_>) -> Result<Self> {
        let cpu = prepare_program(&CpuBackend::CURRENT, program, options)?;
        let mut stays = true;
        let mut words = 0_usize;
        for layer in program.layers() {
            // Tables leave so little work that transferring it takes longer.
            stays &= options.method.resolve(&layer.spec)? == CountMethod::Tables;
            words = words.saturating_add(layer.spec.product_words().saturating_mul(layer.rows));
        }
        Ok(Self { program: Arc::clone(program), chooser: Chooser::new(cpu, stays), words })
    }

    fn choice(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<Choice> {
        if batch.n_samples == 0 {
            return Ok(Choice::Cpu);
        }
        let n = batch.n_samples.min(MEASURED_SAMPLES);
        let inputs = batch.samples(0, n)?;
        let part = batch.part(&inputs, 0, n)?;
        self.chooser.choice(&Call {
            n_samples: batch.n_samples,
            words: self.words.saturating_mul(batch.n_samples),
            kind: &|backends: &[String]| self.kind(batch.n_samples, backends),
            time: &|program| placement::time(|| program.run(&part, slots, cancel).map(drop)),
            prepare: &|device: &Device| {
                Ok(prepare_program(&*open(device)?, &self.program, &PrepareOptions::default())?)
            },
        })
    }

    /// Returns the name of the kind of a call.
    fn kind(&self, n_samples: usize, backends: &[String]) -> Result<String> {
        let (tier, threads) =
            (aleatron_cpu::Tier::current()?.name(), aleatron_cpu::get_num_threads()?);
        let mut digest = Digest::default();
        for layer in self.program.layers() {
            let kind = placement::kind(&layer.spec, layer.rows, &[], tier, threads);
            digest.answer(kind.into_bytes().into_iter().map(u64::from));
        }
        let batch = n_samples.next_power_of_two();
        let (n_layers, hash) = (self.program.layers().len(), digest.finish());
        let version = crate::VERSION;
        Ok(format!(
            "{version} | program of {n_layers} layers {hash:016x} batch {batch} | {tier}, {threads} threads | {}",
            backends.join(" | ")
        ))
    }
}

impl PreparedProgram for AutoProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        if let Choice::Accelerator(index) = self.choice(batch, slots, cancel)?
            && let Some(program) = self.chooser.at(index)
        {
            match program.run(batch, slots, cancel) {
                Err(error) if error.backend_fault().is_some() => self.chooser.give_up(&error),
                output => return output,
            }
        }
        self.chooser.cpu.run(batch, slots, cancel)
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        match self.chooser.known(n_samples)? {
            Choice::Cpu => self.chooser.cpu.backend_for(n_samples),
            Choice::Accelerator(index) => self.chooser.at(index)?.backend_for(n_samples),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.chooser.notes()
    }
}
