//! The CPU as a subject of the conformance suite.

use crate::{Cpu, CpuBackend, MaskDrawer, MaskGrid};
use aleatron_core::Result;
use aleatron_core::conformance::{Case, Subject, run_layers, trace_words};
use aleatron_core::lif::LifDrive;

impl Subject for Cpu {
    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        match case {
            Case::Layer(_) | Case::Network(_) | Case::Program(_) => {
                run_layers(&CpuBackend::new(self.clone()), case)
            }
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
            Case::Gate { gate, a, b } => self.gate(*gate, a.words(), b.words(), a.length())?,
            Case::Not { a } => self.not(a.words(), a.length())?,
            Case::Mux { select, a, b } => {
                self.mux(select.words(), a.words(), b.words(), a.length())?
            }
            Case::Popcount { a } => vec![self.popcount(a.words())],
            Case::AndPopcount { a, b } => vec![self.and_popcount(a.words(), b.words())?],
            Case::Hamming { a, b } => self.hamming_distances(a.words(), b.words(), a.length())?,
            Case::EncodeSequence { sequence, thresholds, length } => {
                self.encode_sequence(sequence, thresholds, *length)?.into_words()
            }
            Case::Mask(case) => {
                let drawer = MaskDrawer::new(case.mask);
                let addresses = drawer.addresses(case.sample, case.row, case.operand);
                let grid = MaskGrid {
                    length: case.length,
                    rows: case.n_rows as usize,
                    units: case.n_units as usize,
                };
                drawer.masks(self, addresses.map(|at| at.at_unit(case.unit)), grid)?
            }
            Case::Layer(_) | Case::Network(_) | Case::Program(_) => Vec::new(),
            Case::LifRun { params, drives } => {
                let constants = drives.first().copied().unwrap_or_default();
                let currents: Vec<i16> = drives.iter().map(|drive| drive.current).collect();
                let noises: Vec<i16> = drives.iter().map(|drive| drive.noise).collect();
                trace_words(&self.lif_run_varying(*params, constants, &currents, Some(&noises))?)
            }
            Case::LifMulti { params, drive, currents, n_steps } => {
                let together = self.lif_run_multi(*params, *drive, currents, *n_steps)?;
                // The constant run of one neuron must give the same answer; otherwise an answer is
                // returned that fails the comparison.
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
