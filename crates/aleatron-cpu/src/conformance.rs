//! The CPU in the suite that every backend must pass.

use crate::Cpu;
use aleatron_core::conformance::{Backend, Case, DenseCase, SparseCase, trace_words};
use aleatron_core::lif::LifDrive;
use aleatron_core::{Error, Result, StreamAddress};

impl Backend for Cpu {
    type Error = Error;

    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        Some(self.answer(case))
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
            Case::Mux { select, a, b } => self.mux(select.words(), a.words(), b.words(), a.length())?,
            Case::Popcount { a } => vec![self.popcount(a.words())],
            Case::AndPopcount { a, b } => vec![self.and_popcount(a.words(), b.words())?],
            Case::Hamming { a, b } => self.hamming_distances(a.words(), b.words(), a.length())?,
            Case::Dense(case) => self.dense(case)?,
            Case::Sparse(case) => self.sparse(case)?,
            Case::LifRun { params, drives } => {
                let constants = drives.first().copied().unwrap_or_default();
                let currents: Vec<i16> = drives.iter().map(|drive| drive.current).collect();
                let noises: Vec<i16> = drives.iter().map(|drive| drive.noise).collect();
                trace_words(&self.lif_run_varying(*params, constants, &currents, Some(&noises))?)
            }
            Case::LifMulti { params, drive, currents, n_steps } => {
                let together = self.lif_run_multi(*params, *drive, currents, *n_steps)?;
                // The constant run of one neuron must give the same; where it does not, its answer fails the comparison.
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

    fn dense(&self, case: &DenseCase) -> Result<Vec<u64>> {
        let (n, length) = (case.shape.n_inputs(), case.shape.length());
        let weight = StreamAddress::weight(case.weight_seed, 0, 0).in_layer(case.layer);
        let input = StreamAddress::input(case.input_seed, 0, case.first_row).in_layer(case.layer);
        let weights = self.encode_rows(&case.weights, n, length, weight)?;
        let inputs = self.encode_rows(&case.inputs, n, length, input)?;
        let ones = self.row_ones(weights.words(), case.shape.row_words());
        let encoded = self.dense_counts(&case.shape, weights.words(), &ones, inputs.words())?;
        // Inputs yet to be encoded must give the same, with draws recorded, stored and cached; another answer fails the comparison.
        for _ in 0..3 {
            let counts = self.dense_counts_of(&case.shape, weights.words(), &ones, &case.inputs, input)?;
            if counts != encoded {
                return Ok(counts);
            }
        }
        Ok(encoded)
    }

    fn sparse(&self, case: &SparseCase) -> Result<Vec<u64>> {
        let mut weights = vec![0; case.weights.len() * case.length.words()];
        let weight = StreamAddress::weight(case.weight_seed, 0, 0);
        self.encode_connections(&case.connections, &case.weights, case.length, weight, &mut weights)?;
        let input = StreamAddress::input(case.input_seed, 0, case.first_row);
        let SparseCase { connections, length, polarity, .. } = case;
        self.sparse_counts_of(connections, *length, *polarity, &weights, &case.inputs, input)
    }
}
