//! The interface between layers and processors.
//!
//! A layer is described by its [`LayerSpec`] and its [`Weights`]. A [`Backend`] prepares it once:
//! it encodes the weights and uploads them. The [`PreparedLayer`] then returns counts for batches.
//! CPUs, GPUs and pools of both are backends, and all of them give the same counts. A backend
//! without code for some kind of layer returns [`Error::unsupported`].

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
    /// Returns the name, such as `cpu` or `gpu:0`.
    fn name(&self) -> String;

    /// Prepares a layer: encodes its weights and stores them on the device.
    ///
    /// # Errors
    /// Returns [`Error::Memory`], and [`Error::Backend`] for a missing device, exhausted device
    /// memory, or an unsupported kind of layer.
    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>>;

    /// Prepares a program to run from inputs to outputs on this backend with all slots resident.
    /// Returns `None` if the backend does not support one of its steps; its layers can then be
    /// prepared one by one, and the steps between them run on the host.
    ///
    /// # Errors
    /// As for [`Self::prepare`].
    fn prepare_program(
        &self,
        _: &Arc<Program>,
        _: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        Ok(None)
    }

    /// Prepares a layer whose weights are given as streams, which are counted as they are, bit by
    /// bit. Returns `None` if the backend counts only streams that it encodes.
    ///
    /// # Errors
    /// As for [`Self::prepare`] and [`WeightStreams::check`].
    fn prepare_streams(
        &self,
        _: &LayerSpec,
        _: WeightStreams<'_>,
        _: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedLayer>>> {
        Ok(None)
    }
}

/// The weights of a layer as streams.
#[derive(Debug, Clone, Copy)]
pub struct WeightStreams<'a> {
    /// Packed streams, one per weight in their order; for a signed layer, those of the magnitudes.
    pub words: &'a [u64],
    /// Whether each stream of a signed layer is that of a negative weight; empty for other layers.
    pub negative: &'a [bool],
}

impl WeightStreams<'_> {
    /// Checks the streams of a layer's weights.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] for a wrong number of words or signs, [`Error::DirtyTail`] for a
    /// stream with ones beyond its length.
    pub fn check(&self, spec: &LayerSpec) -> Result<()> {
        check_signs(spec, spec.n_weights(), self.negative)?;
        check_words(self.words, spec.n_weights(), spec.length())
    }
}

/// Checks that each of `n_streams` of a signed layer has a sign, and those of other layers none.
fn check_signs(spec: &LayerSpec, n_streams: usize, negative: &[bool]) -> Result<()> {
    let expected = if spec.polarity() == Polarity::Signed { n_streams } else { 0 };
    match negative.len() {
        actual if actual == expected => Ok(()),
        actual => Err(Error::Mismatch { what: Quantity::Signs, expected, actual }),
    }
}

/// Options for the preparation of a layer. They never change a count.
#[derive(Debug, Clone, Copy)]
pub struct PrepareOptions<'a> {
    /// How layers with shared sequences are counted.
    pub method: CountMethod,
    /// The batch size to allocate buffers for; larger batches run in chunks.
    pub max_batch: usize,
    /// The cancellation token.
    pub cancel: Cancel<'a>,
}

impl Default for PrepareOptions<'_> {
    /// Returns the faster method, batches of 256, and no cancellation.
    fn default() -> Self {
        Self { method: CountMethod::Best, max_batch: 256, cancel: Cancel::NEVER }
    }
}

/// How a layer with shared sequences is counted. All methods give the same counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CountMethod {
    /// Tables wherever they are supported.
    #[default]
    Best,
    /// One lookup per product, whatever the length: for dense layers with sequences of up to 12
    /// bits shared by the streams of an input, and for convolutions with such sequences shared by
    /// all.
    Tables,
    /// Generates and multiplies every bit; for all layers.
    Bits,
}

impl CountMethod {
    /// Returns [`Self::Tables`] or [`Self::Bits`] for a layer.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for tables of a layer that only bits can count.
    pub fn resolve(self, spec: &LayerSpec) -> Result<Self> {
        let possible = match (spec.topology(), spec.encoding()) {
            (Topology::Dense { .. }, Encoding::Sequences(pairing)) => {
                has_table(pairing) && pairing.sharing != Sharing::OnePerStream
            }
            // An input meets every tap of a kernel, each with its own sequence if inputs have
            // separate ones.
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

/// A layer prepared on a backend.
pub trait PreparedLayer: fmt::Debug + Send + Sync {
    /// Returns the counts of a batch, row-major of samples by neurons.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] unless the inputs are whole samples, [`Error::OutOfRange`] with
    /// the first input outside its interval, [`Error::DirtyTail`] for streams with ones beyond
    /// their length, [`Error::TooLarge`] above 2^32 samples, [`Error::Memory`] if the counts do not
    /// fit, [`Error::Cancelled`], and [`Error::Backend`].
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>>;

    /// Counts a batch and returns the time of each kernel, or no times if the backend does not
    /// measure them.
    ///
    /// # Errors
    /// As for [`Self::counts`].
    fn profile(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<KernelTime>> {
        self.counts(batch, cancel).map(|_| Vec::new())
    }

    /// Counts arrays in device memory and leaves the results there. All work is complete on return.
    ///
    /// # Errors
    /// As for [`Self::counts`], and [`Error::Backend`] if the backend does not support device
    /// arrays, if the memory belongs to another device or to the backend itself, and if arrays
    /// overlap or do not fit the layer.
    fn counts_on_device(&self, _: &mut DeviceBatch<'_>, _: Cancel<'_>) -> Result<()> {
        Err(Error::unsupported(
            self.backend_for(1).unwrap_or_else(|| "auto".to_owned()),
            "arrays in device memory",
        ))
    }

    /// Returns whether the device is lost, so that the layer must be prepared again.
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

/// Samples to count.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The inputs, row-major of samples by inputs.
    pub inputs: Inputs<'a>,
    /// The seed of Bernoulli streams, and the index of the first sample.
    pub seed: SampleSeed,
}

/// The form of a batch's inputs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Inputs<'a> {
    /// Values in the interval of the polarity.
    Values(&'a [f64]),
    /// Thresholds of comparators as wide as [`Encoding::input_width`], negative ones of a signed
    /// layer with the bit [`NEGATIVE`](crate::threshold::NEGATIVE).
    Thresholds(&'a [u64]),
    /// Packed streams of the layer's length, each starting at a word boundary. They are counted as
    /// they are, whatever the layer's encoding. A signed layer takes [`Self::SignedStreams`].
    Streams(&'a [u64]),
    /// Packed streams as above, of the magnitudes of a signed layer's inputs.
    SignedStreams {
        /// The streams.
        words: &'a [u64],
        /// Whether each stream is that of a negative input.
        negative: &'a [bool],
    },
}

impl<'a> Batch<'a> {
    /// Creates a batch of values to encode.
    #[must_use]
    pub const fn values(values: &'a [f64], seed: SampleSeed) -> Self {
        Self { inputs: Inputs::Values(values), seed }
    }

    /// Creates a batch of thresholds to encode.
    #[must_use]
    pub const fn thresholds(thresholds: &'a [u64], seed: SampleSeed) -> Self {
        Self { inputs: Inputs::Thresholds(thresholds), seed }
    }

    /// Creates a batch of encoded streams.
    #[must_use]
    pub const fn streams(words: &'a [u64]) -> Self {
        Self { inputs: Inputs::Streams(words), seed: SampleSeed::new(0) }
    }

    /// Creates a batch of encoded streams of magnitudes with their signs.
    #[must_use]
    pub const fn signed_streams(words: &'a [u64], negative: &'a [bool]) -> Self {
        Self { inputs: Inputs::SignedStreams { words, negative }, seed: SampleSeed::new(0) }
    }

    /// Returns the number of samples for a layer.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] unless the inputs are whole samples.
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

    /// Checks the inputs, except for the range of values, which is checked by their conversion.
    /// Returns the number of samples.
    ///
    /// # Errors
    /// As for [`Self::n_samples`]; [`Error::OutOfRange`] for a threshold above that of the stream
    /// of ones, [`Error::DirtyTail`] for a stream with ones beyond its length, [`Error::Mismatch`]
    /// for a wrong number of signs or for signs of an unsigned layer, [`Error::TooLarge`] for more
    /// samples than a counter can address.
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
                let negative = match self.inputs {
                    Inputs::SignedStreams { negative, .. } => negative,
                    _ => &[],
                };
                check_signs(spec, n_streams, negative)?;
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

    /// Returns the samples from `start` to `end`.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if a counter cannot address the first sample, or if `end` is out
    /// of bounds.
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
