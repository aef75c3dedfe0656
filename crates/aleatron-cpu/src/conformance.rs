//! The CPU in the suite that every backend must pass.

use crate::{Cpu, CpuBackend};
use aleatron_core::conformance::{Case, Subject, run_layers, trace_words};
use aleatron_core::lif::LifDrive;
use aleatron_core::{Result, gates};

impl Subject for Cpu {
    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        match case {
            Case::Layer(_) | Case::Network(_) => run_layers(&CpuBackend::new(self.clone()), case),
            _ => Some(self.answer(case)),
        }
    }
}

impl Cpu {
    fn answer(&self, case: &Case) -> Result<Vec<u64>> {
        Ok(match case {
            Case::Encode { thresholds, length, address } => {
                self.encode(thresholds, *length, *address)?.into_words()
            }
            Case::Pack { bits } => self.pack(bits),
            Case::Unpack { stream } => {
                let bits = self.unpack(stream.words(), stream.length().bits())?;
                bits.into_iter().map(u64::from).collect()
            }
            Case::Gate { gate, a, b } => gates::gate(*gate, a, b)?.into_words(),
            Case::Not { a } => gates::not(a).into_words(),
            Case::Mux { select, a, b } => gates::mux(select, a, b)?.into_words(),
            Case::Popcount { a } => vec![self.popcount(a.words())],
            Case::AndPopcount { a, b } => vec![self.and_popcount(a.words(), b.words())?],
            Case::Hamming { a, b } => vec![gates::hamming_distance(a, b)?],
            Case::EncodeSequence { sequence, thresholds, length } => {
                thresholds.iter().flat_map(|&t| sequence.encode(t, *length).into_words()).collect()
            }
            Case::Layer(_) | Case::Network(_) => Vec::new(),
            Case::LifRun { params, drives } => {
                let constants = drives.first().copied().unwrap_or_default();
                let currents: Vec<i16> = drives.iter().map(|drive| drive.current).collect();
                let noises: Vec<i16> = drives.iter().map(|drive| drive.noise).collect();
                trace_words(&self.lif_run_varying(*params, constants, &currents, Some(&noises))?)
            }
            Case::LifMulti { params, drive, currents, n_steps } => {
                let together = self.lif_run_multi(*params, *drive, currents, *n_steps)?;
                // The constant run of one neuron must give the same; where it does not, the answer is the wrong one.
                for (&current, row) in currents.iter().zip(together.voltages.chunks(*n_steps)) {
                    let alone = self.lif_run(*params, LifDrive { current, ..*drive }, *n_steps)?;
                    if alone.voltages != row {
                        return Ok(trace_words(&alone));
                    }
                }
                trace_words(&together)
            }
        })
    }
}
