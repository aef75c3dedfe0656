//! Layers: weights as streams, kept; inputs as streams, drawn for each call.
//!
//! Every call, whether of one sample, a batch, or streams made before, comes down to one operation: count, for each
//! sample and neuron, the ones (or matches) of input and weight streams. [`dense`] and [`sparse`] differ in which pairs they
//! count.

pub mod dense;
pub mod sequence;
pub mod sparse;

pub use dense::{DenseLayer, DenseSpec, UnfinishedLayer};
pub use sequence::{Counting, SequenceLayer};
pub use sparse::{SparseLayer, SparseSpec};

use crate::{Result, SampleSeed};
use aleatron_core::stream::check_words;
use aleatron_core::threshold::thresholds;
use aleatron_core::{Error, LayerIndex, Length, Polarity, Quantity, StreamAddress, StreamMatrix, Threshold};
use aleatron_cpu::Cpu;

/// Words of weight streams made at a time.
const PIECE_WORDS: usize = 1 << 20;

/// The inputs of a layer: what encoding needs to know.
struct InputPlan {
    n_inputs: usize,
    length: Length,
    polarity: Polarity,
    layer: LayerIndex,
}

impl InputPlan {
    /// What `count` makes of the thresholds of `values` and the address of the first.
    fn count(
        &self,
        values: &[f64],
        seed: SampleSeed,
        count: impl FnOnce(&Cpu, &[Threshold], StreamAddress) -> aleatron_core::Result<Vec<u64>>,
    ) -> Result<Vec<u64>> {
        if !values.len().is_multiple_of(self.n_inputs) {
            let (actual, divisor) = (values.len(), self.n_inputs);
            return Err(Error::Ragged { what: Quantity::Inputs, actual, divisor }.into());
        }
        let inputs = thresholds(values, self.polarity, Quantity::Value)?;
        let address = StreamAddress::input(seed.seed, 0, seed.first_sample).in_layer(self.layer);
        Ok(count(&Cpu::current()?, &inputs, address)?)
    }

    /// Checks that `values` are one sample.
    fn one_sample(&self, values: &[f64]) -> Result<()> {
        let (expected, actual) = (self.n_inputs, values.len());
        if expected == actual {
            return Ok(());
        }
        Err(Error::Mismatch { what: Quantity::Inputs, expected, actual }.into())
    }

    /// The words of streams made before, checked to be whole samples of this layer's length with clean tails.
    fn encoded<'a>(&self, streams: &'a StreamMatrix) -> Result<&'a [u64]> {
        let (expected, actual) = (self.length.bits(), streams.length().bits());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Length, expected, actual }.into());
        }
        if !streams.rows().is_multiple_of(self.n_inputs) {
            let (actual, divisor) = (streams.rows(), self.n_inputs);
            return Err(Error::Ragged { what: Quantity::Streams, actual, divisor }.into());
        }
        check_words(streams.words(), streams.rows(), self.length)?;
        Ok(streams.words())
    }
}

/// Encodes inputs once, for several layers to share: row-major samples by inputs, drawn as a layer on its own draws them.
///
/// ```
/// use aleatron::{DenseLayer, Length, Polarity, layer};
/// let x = [0.2, 0.4, 0.6];
/// let streams = layer::encode_inputs(&x, 3, Length::new(256)?, Polarity::Unipolar, 7)?;
/// for seed in [1, 2] {
///     let layer = DenseLayer::new(3, 5, 256, seed)?;
///     assert_eq!(layer.counts_encoded(&streams)?, layer.counts(&x, 7)?);
/// }
/// # Ok::<(), aleatron::Error>(())
/// ```
///
/// # Errors
/// [`Error::Zero`] without inputs, [`Error::OutOfRange`] for a value outside the interval of `polarity`, [`Error::Ragged`]
/// where the values are not whole samples, [`Error::TooLarge`] past 2^32 samples, [`Error::Memory`] where the streams do
/// not fit.
pub fn encode_inputs(
    values: &[f64],
    n_inputs: usize,
    length: Length,
    polarity: Polarity,
    seed: impl Into<SampleSeed>,
) -> Result<StreamMatrix> {
    if n_inputs == 0 {
        return Err(Error::Zero(Quantity::Inputs).into());
    }
    let SampleSeed { seed, first_sample } = seed.into();
    let thresholds = thresholds(values, polarity, Quantity::Value)?;
    let address = StreamAddress::input(seed, 0, first_sample);
    Ok(Cpu::current()?.encode_rows(&thresholds, n_inputs, length, address)?)
}
