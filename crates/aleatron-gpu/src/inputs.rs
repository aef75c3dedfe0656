//! Inputs and options of counting.

use std::fmt;
use std::ops::Range;

use aleatron_core::stream::check_words;
use aleatron_core::{Cancel, Error as CoreError, Length, Quantity, StreamAddress, Threshold};
use aleatron_device::Profiler;

use crate::encode::{at_row, check_address};
use crate::error::Result;

/// Appends the thresholds of a range of samples, sample by sample.
pub type Fill<'a, T> = &'a mut dyn FnMut(Range<usize>, &mut Vec<T>) -> Result<()>;

/// Thresholds of a batch, one per sample and input.
pub enum ThresholdSource<'a, T> {
    /// All thresholds.
    Slice(&'a [T]),
    /// Thresholds computed on demand: some samples at a time and in order, while the device counts
    /// the previous ones.
    Filled {
        /// The number of samples of the batch.
        n_samples: usize,
        /// Appends the thresholds of some of them.
        fill: Fill<'a, T>,
    },
}

impl<T> fmt::Debug for ThresholdSource<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slice(all) => f.debug_tuple("Slice").field(&all.len()).finish(),
            Self::Filled { n_samples, .. } => f.debug_tuple("Filled").field(n_samples).finish(),
        }
    }
}

impl<T> ThresholdSource<'_, T> {
    /// Returns the number of samples, each of `n_inputs` thresholds.
    pub(crate) fn n_samples(&self, n_inputs: usize) -> Result<usize> {
        match self {
            Self::Slice(all) => rows_in(all.len(), n_inputs, Quantity::Inputs),
            Self::Filled { n_samples, .. } => Ok(*n_samples),
        }
    }

    /// Returns the thresholds of some samples; `filled` is the buffer for those computed on demand.
    pub(crate) fn of<'s>(
        &'s mut self,
        samples: Range<usize>,
        n_inputs: usize,
        filled: &'s mut Vec<T>,
    ) -> Result<&'s [T]> {
        match self {
            Self::Slice(all) => Ok(&all[samples.start * n_inputs..samples.end * n_inputs]),
            Self::Filled { fill, .. } => {
                filled.clear();
                let expected = samples.len() * n_inputs;
                fill(samples, filled)?;
                let actual = filled.len();
                if actual != expected {
                    return Err(
                        CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into()
                    );
                }
                Ok(filled)
            }
        }
    }
}

/// The inputs of a layer of Bernoulli streams.
#[derive(Debug)]
pub enum Inputs<'a> {
    /// Streams drawn by the device: the stream of input i of sample s at row `first.row + s`, unit
    /// `first.unit + i`.
    Thresholds {
        /// One threshold per sample and input.
        source: ThresholdSource<'a, Threshold>,
        /// The address of the first stream.
        first: StreamAddress,
    },
    /// Packed streams, `[sample][input][word]`.
    Streams(&'a [u64]),
}

impl Inputs<'_> {
    /// Returns the number of samples, each of `n_inputs` streams of `length`, after checking them
    /// for kernels.
    pub(crate) fn n_samples(&self, n_inputs: usize, length: Length) -> Result<usize> {
        match self {
            Self::Thresholds { source, first } => {
                let n_samples = source.n_samples(n_inputs)?;
                check_address(*first, n_samples, n_inputs)?;
                Ok(n_samples)
            }
            Self::Streams(words) => {
                let n_samples = rows_in(words.len(), n_inputs * length.words(), Quantity::Words)?;
                check_words(words, n_samples * n_inputs, length)?;
                Ok(n_samples)
            }
        }
    }

    /// Returns the address of the stream of the first input of `sample`; `None` for packed streams.
    /// Rows were checked to fit.
    pub(crate) fn first(&self, sample: usize) -> Result<Option<StreamAddress>> {
        match self {
            Self::Thresholds { first, .. } => at_row(*first, sample).map(Some),
            Self::Streams(_) => Ok(None),
        }
    }
}

/// Options of counting; they never change a count.
pub struct CountOptions<'a> {
    /// Times the kernels.
    pub profiler: Option<&'a mut Profiler>,
    /// The cancellation token, polled before each chunk of samples.
    pub cancel: Cancel<'a>,
}

impl Default for CountOptions<'_> {
    /// Returns options without timing and cancellation.
    fn default() -> Self {
        Self { profiler: None, cancel: Cancel::NEVER }
    }
}

impl fmt::Debug for CountOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountOptions")
            .field("profiler", &self.profiler.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

impl<'a> CountOptions<'a> {
    /// Returns options with timed kernels.
    #[must_use]
    pub fn profiled(profiler: &'a mut Profiler) -> Self {
        Self { profiler: Some(profiler), ..Self::default() }
    }
}

/// Returns the number of rows of `per_row` elements in `n` elements.
pub(crate) fn rows_in(n: usize, per_row: usize, what: Quantity) -> Result<usize> {
    if n.is_multiple_of(per_row) {
        Ok(n / per_row)
    } else {
        Err(CoreError::Ragged { what, actual: n, divisor: per_row }.into())
    }
}
