//! The one trait between layers and processors.
//!
//! A layer knows its [`LayerSpec`] and its [`Weights`]; a [`Backend`] prepares them once, encoded
//! and wherever it wants them, and the [`PreparedLayer`] answers counts for batches. CPUs, GPUs and
//! pools of both are backends, and every one of them gives the same counts. A backend without code
//! for some kind of layer answers [`Error::unsupported`].

mod device;

pub use device::{
    DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement, DeviceStream, InputOrder,
};

use crate::cancel::Cancel;
use crate::error::{Error, Quantity, Result};
use crate::generator::{CountTable, Pairing, Sharing, Width};
use crate::layer::{Encoding, InputSource, LayerSpec, SampleSeed, Topology, Weights};
use crate::polarity::Polarity;
use crate::program::{KernelTime, PreparedProgram, Program};
use crate::stream::check_words;
use std::fmt;
use std::sync::Arc;

/// A processor that layers run on.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Its name, such as `cpu` or `gpu:0`.
    fn name(&self) -> String;

    /// Prepares a layer: encodes its weights and keeps them.
    ///
    /// # Errors
    /// [`Error::Memory`] and faults of [`Error::Backend`]: no such device, no memory there, no code for this kind of layer.
    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>>;

    /// Prepares a program to run from inputs to outputs on this backend, all slots resident; `None`
    /// if the backend has no code for one of its steps. Its layers can then be prepared one by
    /// one, and the steps between them run on the host.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    fn prepare_program(
        &self,
        _: &Arc<Program>,
        _: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        Ok(None)
    }
}

/// How to prepare a layer. It never changes a count.
#[derive(Debug, Clone, Copy)]
pub struct PrepareOptions<'a> {
    /// How layers with shared sequences count.
    pub method: CountMethod,
    /// The batch to keep buffers for; larger ones run in more pieces.
    pub max_batch: usize,
    /// Whether to go on.
    pub cancel: Cancel<'a>,
}

impl Default for PrepareOptions<'_> {
    /// The faster method, batches of 256, to the end.
    fn default() -> Self {
        Self { method: CountMethod::Best, max_batch: 256, cancel: Cancel::NEVER }
    }
}

/// How a layer with shared sequences counts. All give the same counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CountMethod {
    /// Tables wherever there can be any.
    #[default]
    Best,
    /// One lookup per product, whatever the length; for dense layers with sequences of up to 12
    /// bits shared by the streams of an input, and for convolutions with such sequences shared
    /// by all.
    Tables,
    /// Every bit is made and multiplied; for everything.
    Bits,
}

impl CountMethod {
    /// [`Self::Tables`] or [`Self::Bits`] for a layer.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for tables of what only bits can count.
    pub fn resolve(self, spec: &LayerSpec) -> Result<Self> {
        let possible = match (spec.topology(), spec.encoding()) {
            (Topology::Dense { .. }, Encoding::Sequences(pairing)) => {
                has_table(pairing) && pairing.sharing != Sharing::OnePerStream
            }
            // An input meets every tap of a kernel, each with a sequence of its own where inputs
            // have theirs.
            (Topology::Conv(_), Encoding::Sequences(pairing)) => {
                has_table(pairing) && pairing.sharing == Sharing::OneForAll
            }
            _ => false,
        };
        match self {
            Self::Bits => Ok(Self::Bits),
            Self::Best if !possible => Ok(Self::Bits),
            Self::Tables if !possible => {
                let width = match spec.encoding() {
                    Encoding::Sequences(pairing) => pairing.inputs.width(),
                    _ => Width::BERNOULLI,
                };
                let (actual, limit) = (width.bits().into(), CountTable::MAX_WIDTH.into());
                Err(Error::TooLarge { what: Quantity::CountTable, actual, limit })
            }
            Self::Best | Self::Tables => Ok(Self::Tables),
        }
    }
}

fn has_table(pairing: &Pairing) -> bool {
    let widest = pairing.inputs.width().max(pairing.weights.width()).bits();
    widest <= CountTable::MAX_WIDTH
}

/// A layer on a backend.
pub trait PreparedLayer: fmt::Debug + Send + Sync {
    /// The counts of a batch, row-major of samples by neurons.
    ///
    /// # Errors
    /// [`Error::Ragged`] where the inputs are not whole samples, [`Error::OutOfRange`] with the
    /// first input outside its interval, [`Error::DirtyTail`] for streams with ones past their
    /// length, [`Error::TooLarge`] past 2^32 samples, [`Error::Memory`] where the counts do not
    /// fit, [`Error::Cancelled`], and faults of [`Error::Backend`].
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>>;

    /// Counts a batch and returns the time of each kernel; none on a backend that does not time
    /// them.
    ///
    /// # Errors
    /// As [`Self::counts`].
    fn profile(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<KernelTime>> {
        self.counts(batch, cancel).map(|_| Vec::new())
    }

    /// Counts arrays in the memory of the backend's device, and leaves the results there. All work
    /// is done when this returns.
    ///
    /// # Errors
    /// As [`Self::counts`], and a fault of [`Error::Backend`] for a backend without such arrays,
    /// for memory that is not of the backend's device or in use by the backend itself, and for
    /// arrays that overlap or do not fit the layer.
    fn counts_on_device(&self, _: &mut DeviceBatch<'_>, _: Cancel<'_>) -> Result<()> {
        Err(Error::unsupported(
            self.backend_for(1).unwrap_or_else(|| "auto".to_owned()),
            "arrays in device memory",
        ))
    }

    /// Whether the device is gone, so that the layer must be prepared again.
    fn is_lost(&self) -> bool {
        false
    }

    /// The name of the backend that a batch of `n_samples` runs on; `None` where that has yet to be
    /// measured.
    fn backend_for(&self, n_samples: usize) -> Option<String>;

    /// What a user should know of how it runs, such as a device that could not be used.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Samples to count.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The inputs, row-major of samples by inputs.
    pub inputs: Inputs<'a>,
    /// The seed of Bernoulli streams, and the index of the first sample.
    pub seed: SampleSeed,
}

/// What the inputs of a batch are given as.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Inputs<'a> {
    /// Values in the interval of the polarity.
    Values(&'a [f64]),
    /// Thresholds of comparators as wide as [`Encoding::input_width`], negative ones of a signed
    /// layer with the bit [`NEGATIVE`](crate::threshold::NEGATIVE).
    Thresholds(&'a [u64]),
    /// Packed streams of the layer's length, each starting with a word of its own. They are counted
    /// as they are, whatever the layer's encoding. A signed layer takes
    /// [`Self::SignedStreams`].
    Streams(&'a [u64]),
    /// Packed streams as above, of the magnitudes of a signed layer's inputs.
    SignedStreams {
        /// The streams.
        words: &'a [u64],
        /// Whether each of them is that of a negative input.
        negative: &'a [bool],
    },
}

impl<'a> Batch<'a> {
    /// Values to encode.
    #[must_use]
    pub const fn values(values: &'a [f64], seed: SampleSeed) -> Self {
        Self { inputs: Inputs::Values(values), seed }
    }

    /// Thresholds to encode.
    #[must_use]
    pub const fn thresholds(thresholds: &'a [u64], seed: SampleSeed) -> Self {
        Self { inputs: Inputs::Thresholds(thresholds), seed }
    }

    /// Streams that are encoded.
    #[must_use]
    pub const fn streams(words: &'a [u64]) -> Self {
        Self { inputs: Inputs::Streams(words), seed: SampleSeed::new(0) }
    }

    /// Streams of magnitudes that are encoded, and which of them are negative.
    #[must_use]
    pub const fn signed_streams(words: &'a [u64], negative: &'a [bool]) -> Self {
        Self { inputs: Inputs::SignedStreams { words, negative }, seed: SampleSeed::new(0) }
    }

    /// The number of samples for a layer.
    ///
    /// # Errors
    /// [`Error::Ragged`] where the inputs are not whole samples.
    pub fn n_samples(&self, spec: &LayerSpec) -> Result<usize> {
        match self.inputs {
            Inputs::Values(values) => spec.samples_in(values.len()),
            Inputs::Thresholds(thresholds) => spec.samples_in(thresholds.len()),
            Inputs::Streams(words) | Inputs::SignedStreams { words, .. } => {
                let divisor = spec.sample_words();
                match words.len().is_multiple_of(divisor) {
                    true => Ok(words.len() / divisor),
                    false => {
                        Err(Error::Ragged { what: Quantity::Words, actual: words.len(), divisor })
                    }
                }
            }
        }
    }

    /// Checks everything about the inputs but the range of values, which is checked when they are
    /// converted; the number of samples.
    ///
    /// # Errors
    /// As [`Self::n_samples`], [`Error::OutOfRange`] for a threshold past that of the stream of
    /// ones, [`Error::DirtyTail`] for a stream with ones past its length, [`Error::Mismatch`]
    /// for streams with too few signs or with any that the layer's have not,
    /// [`Error::TooLarge`] for more samples than a counter can name.
    pub fn check(&self, spec: &LayerSpec) -> Result<usize> {
        let n_samples = self.n_samples(spec)?;
        match self.inputs {
            Inputs::Values(_) => {}
            Inputs::Thresholds(thresholds) => {
                let (width, polarity) = (spec.encoding().input_width(), spec.polarity());
                width.check_thresholds(thresholds, polarity, Quantity::Value)?;
            }
            Inputs::Streams(words) | Inputs::SignedStreams { words, .. } => {
                let n_streams = n_samples * spec.n_inputs();
                let expected = if spec.polarity() == Polarity::Signed { n_streams } else { 0 };
                let actual = match self.inputs {
                    Inputs::SignedStreams { negative, .. } => negative.len(),
                    _ => 0,
                };
                if expected != actual {
                    return Err(Error::Mismatch { what: Quantity::Signs, expected, actual });
                }
                check_words(words, n_streams, spec.length())?;
                return Ok(n_samples);
            }
        }
        if let (InputSource::Bernoulli, Some(last)) =
            (spec.encoding().input_source(), n_samples.checked_sub(1))
        {
            self.seed.advanced(last)?;
        }
        Ok(n_samples)
    }

    /// The samples from `start` to `end`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where a counter cannot name the first one, or there are not so many
    /// samples.
    pub fn samples(&self, spec: &LayerSpec, start: usize, end: usize) -> Result<Self> {
        fn part<T>(all: &[T], start: usize, end: usize, size: usize) -> Result<&[T]> {
            let range = start.saturating_mul(size)..end.saturating_mul(size);
            let (what, actual, limit) =
                (Quantity::Samples, end as u128, (all.len() / size.max(1)) as u128);
            all.get(range).ok_or(Error::TooLarge { what, actual, limit })
        }
        let n = spec.n_inputs();
        let inputs = match self.inputs {
            Inputs::Values(values) => Inputs::Values(part(values, start, end, n)?),
            Inputs::Thresholds(thresholds) => Inputs::Thresholds(part(thresholds, start, end, n)?),
            Inputs::Streams(words) => {
                Inputs::Streams(part(words, start, end, spec.sample_words())?)
            }
            Inputs::SignedStreams { words, negative } => Inputs::SignedStreams {
                words: part(words, start, end, spec.sample_words())?,
                negative: part(negative, start, end, n)?,
            },
        };
        Ok(Self { inputs, seed: self.seed.advanced(start)? })
    }
}
