//! Execution of programs on a backend.

use super::{Program, SlotId, SlotKind};
use crate::cancel::Cancel;
use crate::error::{Error, Quantity, Result};
use crate::layer::SampleSeed;
use std::fmt;
use std::time::Duration;

/// A program on a backend, whose layers hold their encoded weights.
pub trait PreparedProgram: fmt::Debug + Send + Sync {
    /// Runs a batch of samples and returns the requested slots.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for inputs of the wrong size, [`Error::OutOfRange`] with the
    /// flat index of the first value outside the interval of its layer if it is checked,
    /// [`Error::TooLarge`] above 2^32 rows, [`Error::Memory`] if the slots do not fit,
    /// [`Error::Cancelled`], and [`Error::Backend`].
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput>;

    /// Runs a batch and returns the time of each kernel on the device, in the order of their first
    /// launches; empty for a backend without kernels.
    ///
    /// # Errors
    /// As for [`Self::run`].
    fn profile(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> Result<Vec<KernelTime>> {
        self.run(batch, slots, cancel).map(|_| Vec::new())
    }

    /// Returns whether the device is lost, so that the program must be prepared again.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the name of the backend that runs a batch of `n_samples`; `None` before it has been
    /// measured.
    fn backend_for(&self, n_samples: usize) -> Option<String>;

    /// Returns notes for the user, such as a device that could not be used.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The time of a kernel on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTime {
    /// Its name.
    pub name: String,
    /// The number of launches.
    pub launches: u32,
    /// The total time of all launches.
    pub time: Duration,
    /// The bytes that all launches must read and write at least.
    pub bytes: u64,
}

/// Samples for a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramBatch<'a> {
    /// The elements of each input of the program, row-major of samples by elements.
    pub inputs: &'a [&'a [f64]],
    /// The number of samples.
    pub n_samples: usize,
    /// The seed of Bernoulli input streams, and the global index of the first sample.
    pub seed: SampleSeed,
    /// The number of samples of the data per sample of the program: 1, unless samples depend on
    /// each other and run together.
    pub group: usize,
}

impl<'a> ProgramBatch<'a> {
    /// Checks that every input has whole samples and that all rows can be numbered.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for inputs of the wrong number or size, [`Error::TooLarge`]
    /// above 2^32 rows.
    pub fn check(&self, program: &Program) -> Result<()> {
        let (expected, actual) = (program.inputs().len(), self.inputs.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Inputs, expected, actual });
        }
        for (&id, input) in program.inputs().iter().zip(self.inputs) {
            let expected = program.slot(id).len.saturating_mul(self.n_samples);
            if expected != input.len() {
                return Err(Error::Mismatch {
                    what: Quantity::Inputs,
                    expected,
                    actual: input.len(),
                });
            }
        }
        let Some(last) = self.n_samples.checked_sub(1) else { return Ok(()) };
        program.layers().iter().try_for_each(|layer| {
            self.row_seed(layer.rows, last)?.advanced(layer.rows - 1).map(drop)
        })
    }

    /// Returns the seed of the first row of sample `sample` of the batch in a layer of `rows` rows
    /// per sample.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above 2^32 rows.
    pub fn row_seed(&self, rows: usize, sample: usize) -> Result<SampleSeed> {
        let first = u128::from(self.seed.first_sample) + sample as u128 * self.group as u128;
        let row = first.saturating_mul(rows as u128) / self.group.max(1) as u128;
        match usize::try_from(row) {
            Ok(row) => SampleSeed::new(self.seed.seed).advanced(row),
            Err(_) => {
                Err(Error::TooLarge { what: Quantity::Row, actual: row, limit: u32::MAX.into() })
            }
        }
    }

    /// Returns samples `start..end` as a batch over `inputs`, which [`Self::samples`] returns.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above 2^32 samples.
    pub fn part<'b>(
        &self,
        inputs: &'b [&'b [f64]],
        start: usize,
        end: usize,
    ) -> Result<ProgramBatch<'b>> {
        let seed = self.seed.advanced(start.saturating_mul(self.group))?;
        Ok(ProgramBatch { inputs, n_samples: end.saturating_sub(start), seed, group: self.group })
    }

    /// Returns samples `start..end` as one input slice per input, or an error for a range past the
    /// end.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the range is out of bounds.
    pub fn samples(&self, start: usize, end: usize) -> Result<Vec<&'a [f64]>> {
        self.inputs
            .iter()
            .map(|input| {
                let len = input.len() / self.n_samples.max(1);
                input.get(start * len..end * len).ok_or(Error::TooLarge {
                    what: Quantity::Samples,
                    actual: end as u128,
                    limit: self.n_samples as u128,
                })
            })
            .collect()
    }
}

/// The elements of a slot for some samples, row-major of samples by elements.
#[derive(Debug, Clone, PartialEq)]
pub enum SlotData {
    /// Values in f64.
    Float(Vec<f64>),
    /// Signed integers.
    Integer(Vec<i64>),
    /// Thresholds or counts.
    Words(Vec<u64>),
}

impl SlotData {
    /// Creates data without elements for a slot of this kind.
    #[must_use]
    pub const fn empty(kind: SlotKind) -> Self {
        match kind {
            SlotKind::Float => Self::Float(Vec::new()),
            SlotKind::Integer => Self::Integer(Vec::new()),
            SlotKind::Threshold | SlotKind::Count => Self::Words(Vec::new()),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Words(words) => words.len(),
        }
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends elements of the same kind.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for elements of another kind.
    pub fn append(&mut self, more: Self) -> Result<()> {
        match (self, more) {
            (Self::Float(all), Self::Float(more)) => all.extend(more),
            (Self::Integer(all), Self::Integer(more)) => all.extend(more),
            (Self::Words(all), Self::Words(more)) => all.extend(more),
            _ => return Err(Error::Internal { place: "program::SlotData::append" }),
        }
        Ok(())
    }

    /// Returns values in f64.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for a slot of another kind.
    pub fn into_floats(self) -> Result<Vec<f64>> {
        match self {
            Self::Float(values) => Ok(values),
            _ => Err(Error::Internal { place: "program::SlotData::into_floats" }),
        }
    }

    /// Returns thresholds or counts.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] for a slot of another kind.
    pub fn into_words(self) -> Result<Vec<u64>> {
        match self {
            Self::Words(words) => Ok(words),
            _ => Err(Error::Internal { place: "program::SlotData::into_words" }),
        }
    }

    /// Returns the elements as words: the bits of floats, the two's complement of integers. Zero
    /// has one form: the sign that a maximum gives it is not defined.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        match self {
            Self::Float(values) => values.iter().map(|value| (value + 0.0).to_bits()).collect(),
            Self::Integer(values) => values.iter().map(|&value| value as u64).collect(),
            Self::Words(words) => words.clone(),
        }
    }
}

/// The result of running a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramOutput {
    /// The requested slots, in their order.
    pub slots: Vec<SlotData>,
    /// For each layer, the number of inputs outside the interval of its streams, which saturated.
    pub saturated: Vec<u64>,
}
