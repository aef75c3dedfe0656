//! Sequences as registers and tables.

use crate::{Error, Result};
use aleatron_core::generator::Sequence;
use serde::Serialize;

/// A sequence shared by comparators of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SequenceCircuit {
    /// The width of its integers in bits.
    pub width: u32,
    /// How a circuit computes it.
    pub form: SequenceForm,
    /// Its name, with its parameters.
    pub name: String,
    #[serde(skip)]
    pub(crate) sequence: Sequence,
}

/// How a circuit computes a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceForm {
    /// A linear-feedback shift register.
    Lfsr {
        /// The first state.
        seed: u32,
        /// The taps, counted from 1 at the low end.
        taps: Vec<u32>,
    },
    /// A Sobol sequence in Gray-code order.
    Sobol {
        /// One direction number for each bit of the index of a cycle.
        directions: Vec<u32>,
    },
    /// The low bits of the index of the cycle.
    Counter,
    /// The low bits of the index of the cycle, mirrored.
    MirroredCounter,
    /// One integer for each cycle.
    Table {
        /// The integers.
        values: Vec<u32>,
    },
}

impl SequenceCircuit {
    /// Creates the circuit of a sequence for streams of `length` bits, whose cycles are counted in
    /// `cycle_bits` bits.
    pub(super) fn new(
        sequence: Sequence,
        length: usize,
        cycle_bits: u32,
        layer: &str,
    ) -> Result<Self> {
        let form = match sequence {
            Sequence::Lfsr(lfsr) => {
                SequenceForm::Lfsr { seed: lfsr.seed(), taps: lfsr.taps().collect() }
            }
            Sequence::Sobol(sobol) => SequenceForm::Sobol {
                directions: sobol.direction_numbers().take(cycle_bits as usize).collect(),
            },
            Sequence::Ramp(_) => SequenceForm::Counter,
            Sequence::Halton(halton) if halton.base() == 2 => SequenceForm::MirroredCounter,
            Sequence::Halton(halton) => {
                SequenceForm::Table { values: halton.values().take(length).collect() }
            }
            // Layers of integers have no sequences; streams of digits have no circuit.
            other => {
                return Err(Error::Unsupported {
                    part: format!("layer \"{layer}\""),
                    what: format!("the sequence {other}"),
                    remedy: "use lfsr, sobol, halton, vdc or ramp",
                });
            }
        };
        Ok(Self { width: sequence.width().bits(), form, name: sequence.to_string(), sequence })
    }

    /// Returns the first `length` integers, equal to those of the engine.
    pub fn values(&self, length: usize) -> impl Iterator<Item = u32> {
        self.sequence.values().take(length)
    }
}
