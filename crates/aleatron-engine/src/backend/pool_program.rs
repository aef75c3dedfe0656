//! Programs on several backends: each runs some of the samples.

use crate::concurrent::on_threads;
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId,
};
use aleatron_core::{BackendFault, Cancel, Error, Result};
use std::sync::Arc;

/// A program on several backends, all of which hold all weights.
#[derive(Debug)]
pub(super) struct PoolProgram {
    pub(super) name: String,
    pub(super) program: Arc<Program>,
    pub(super) parts: Vec<Box<dyn PreparedProgram>>,
}

impl PreparedProgram for PoolProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        cancel.check()?;
        let ranges: Vec<_> = super::pool::ranges(batch.n_samples, self.parts.len()).collect();
        let inputs = ranges.iter().map(|range| batch.samples(range.start, range.end));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let results = on_threads(ranges.len(), cancel, |k, cancel| {
            let part = batch.part(&inputs[k], ranges[k].start, ranges[k].end)?;
            self.parts[k].run(&part, slots, cancel)
        });
        let empty = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        let saturated = vec![0; self.program.layers().len()];
        let mut output = ProgramOutput { slots: slots.iter().map(empty).collect(), saturated };
        for (results, range) in results.into_iter().zip(&ranges) {
            let results = results.unwrap_or_else(|| {
                let (fault, message) =
                    (BackendFault::Failed, "a thread of the pool panicked".to_owned());
                Err(Error::Backend { backend: self.name.clone(), fault, message })
            });
            let results = results.map_err(|error| self.program.shifted(error, range.start))?;
            output.saturated.iter_mut().zip(results.saturated).for_each(|(sum, more)| *sum += more);
            output
                .slots
                .iter_mut()
                .zip(results.slots)
                .try_for_each(|(all, more)| all.append(more))?;
        }
        Ok(output)
    }

    fn is_lost(&self) -> bool {
        self.parts.iter().any(|part| part.is_lost())
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.name.clone())
    }

    fn notes(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.notes()).collect()
    }
}
