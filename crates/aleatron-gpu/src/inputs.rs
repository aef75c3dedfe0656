//! What a layer counts over, and how.

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
    /// All of them.
    Slice(&'a [T]),
    /// Asked for when they are wanted: some samples at a time and in order, while the device counts
    /// those before.
    Filled {
        /// The samples of the batch.
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
    /// The samples there are, each of `n_inputs` thresholds.
    pub(crate) fn n_samples(&self, n_inputs: usize) -> Result<usize> {
        match self {
            Self::Slice(all) => rows_in(all.len(), n_inputs, Quantity::Inputs),
            Self::Filled { n_samples, .. } => Ok(*n_samples),
        }
    }

    /// The thresholds of some samples; `filled` is where those that are asked for go.
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

/// What a layer of Bernoulli streams counts over.
#[derive(Debug)]
pub enum Inputs<'a> {
    /// Streams the device draws: that of input i of sample s at row `first.row + s`, unit
    /// `first.unit + i`.
    Thresholds {
        /// One per sample and input.
        source: ThresholdSource<'a, Threshold>,
        /// Where the first stream is drawn.
        first: StreamAddress,
    },
    /// Packed streams, `[sample][input][word]`.
    Streams(&'a [u64]),
}

impl Inputs<'_> {
    /// The samples there are, each of `n_inputs` streams of `length`, checked to be such as kernels
    /// take.
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

    /// Where the stream of the first input of `sample` is drawn; `None` for streams that are there.
    /// Rows were checked to fit.
    pub(crate) fn first(&self, sample: usize) -> Result<Option<StreamAddress>> {
        match self {
            Self::Thresholds { first, .. } => at_row(*first, sample).map(Some),
            Self::Streams(_) => Ok(None),
        }
    }
}

/// How to count: nothing here changes a count.
pub struct CountOptions<'a> {
    /// Times the kernels.
    pub profiler: Option<&'a mut Profiler>,
    /// Asked before each chunk of samples.
    pub cancel: Cancel<'a>,
}

impl Default for CountOptions<'_> {
    /// Untimed, to the end.
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
    /// With kernels timed.
    #[must_use]
    pub fn profiled(profiler: &'a mut Profiler) -> Self {
        Self { profiler: Some(profiler), ..Self::default() }
    }
}

/// The rows of `per_row` elements that `n` elements make.
pub(crate) fn rows_in(n: usize, per_row: usize, what: Quantity) -> Result<usize> {
    if n.is_multiple_of(per_row) {
        Ok(n / per_row)
    } else {
        Err(CoreError::Ragged { what, actual: n, divisor: per_row }.into())
    }
}
