//! The dense layer whose streams share deterministic sequences, as most hardware has it.

use crate::{Device, Error, Result};
use aleatron_core::generator::{CountTable, Pairing, Sharing, Warning};
use aleatron_core::{DenseShape, Error as CoreError, Quantity};
use aleatron_cpu::{Cpu, TabledWeights};

/// How a [`SequenceLayer`] counts. Both give the same counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counting {
    /// One lookup per weight, whatever the length; for sequences of up to 12 bits shared by the streams of an input.
    Tables,
    /// Every bit is made and multiplied; for everything.
    Bits,
}

impl Counting {
    /// Tables wherever there can be any.
    #[must_use]
    pub fn best(pairing: &Pairing) -> Self {
        let widest = pairing.inputs.width().max(pairing.weights.width()).bits();
        match pairing.sharing {
            Sharing::OneForAll | Sharing::OnePerInput if widest <= CountTable::MAX_WIDTH => Self::Tables,
            _ => Self::Bits,
        }
    }
}

/// A dense layer with shared sequences.
///
/// ```
/// use aleatron::core::generator::{Pairing, Sequence, Sharing, Sobol, Width};
/// use aleatron::layer::{Counting, SequenceLayer};
/// use aleatron::{DenseShape, Length, Polarity};
///
/// let sobol = |dimension| Sobol::new(dimension, Width::EIGHT).map(Sequence::Sobol);
/// let pairing = Pairing { inputs: sobol(1)?, weights: sobol(2)?, sharing: Sharing::OneForAll };
/// let shape = DenseShape::new(2, 1, Length::new(256)?, Polarity::Bipolar)?;
/// let layer = SequenceLayer::new(shape, pairing, &[0.5, -1.0])?;
/// assert_eq!(layer.forward(&[-0.5, 0.25])?, [-0.5]); // exactly 0.5 * -0.5 + -1.0 * 0.25
///
/// let bits = SequenceLayer::with_counting(shape, pairing, &[0.5, -1.0], Counting::Bits)?;
/// assert_eq!(layer.counts(&[-0.5, 0.25])?, bits.counts(&[-0.5, 0.25])?);
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug)]
pub struct SequenceLayer {
    shape: DenseShape,
    pairing: Pairing,
    warnings: Vec<Warning>,
    weights: Weights,
}

#[derive(Debug)]
enum Weights {
    Tables(TabledWeights),
    Bits {
        words: Vec<u64>,
        ones: Vec<u64>,
    },
    #[cfg(feature = "gpu")]
    Gpu {
        twin: crate::device::SequenceTwin,
        counting: Counting,
    },
}

impl SequenceLayer {
    /// A layer on the CPU with the given weights, row-major of neurons by inputs, counting in the way that is faster.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] where there is not one weight per neuron and input, [`CoreError::OutOfRange`] with the first
    /// weight outside the interval of the polarity, [`CoreError::TooLarge`] where a generator has too few sequences,
    /// [`CoreError::Memory`] where the layer does not fit.
    pub fn new(shape: DenseShape, pairing: Pairing, weights: &[f64]) -> Result<Self> {
        Self::with_counting(shape, pairing, weights, Counting::best(&pairing))
    }

    /// Like [`Self::new`], counting as told.
    ///
    /// # Errors
    /// As [`Self::new`], and [`CoreError::TooLarge`] for tables of what only bits can count.
    pub fn with_counting(
        shape: DenseShape,
        pairing: Pairing,
        weights: &[f64],
        counting: Counting,
    ) -> Result<Self> {
        let n = shape.n_inputs();
        let thresholds = weight_thresholds(&shape, &pairing, weights)?;
        let warnings = pairing.warnings(n, shape.n_neurons())?;
        let weights = match counting {
            Counting::Tables => Weights::Tables(TabledWeights::new(shape, &pairing, &thresholds)?),
            Counting::Bits => {
                let words = pairing.encode_weights(&thresholds, n, shape.length())?.into_words();
                let ones = Cpu::current()?.row_ones(&words, shape.row_words());
                Weights::Bits { words, ones }
            }
        };
        Ok(Self { shape, pairing, warnings, weights })
    }

    /// Like [`Self::new`], on a device. For [`Device::Auto`] that is the CPU, unless `ALEATRON_DEVICE` says otherwise: tables
    /// leave so little to do that sending it elsewhere takes longer.
    ///
    /// # Errors
    /// As [`Self::new`]; `Error::Gpu` where `device` is the GPU and there is none or it cannot hold the layer,
    /// [`Error::NotBuilt`] where this build has no GPU support.
    pub fn on_device(shape: DenseShape, pairing: Pairing, weights: &[f64], device: Device) -> Result<Self> {
        match device.resolved()? {
            Device::Auto | Device::Cpu => Self::new(shape, pairing, weights),
            #[cfg(feature = "gpu")]
            Device::Gpu => {
                let thresholds = weight_thresholds(&shape, &pairing, weights)?;
                let warnings = pairing.warnings(shape.n_inputs(), shape.n_neurons())?;
                let counting = Counting::best(&pairing);
                let twin = crate::device::SequenceTwin::new(shape, pairing, thresholds, counting)?;
                Ok(Self { shape, pairing, warnings, weights: Weights::Gpu { twin, counting } })
            }
            #[cfg(not(feature = "gpu"))]
            Device::Gpu => Err(Error::NotBuilt),
        }
    }

    /// Inputs, neurons, length and polarity.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// Which sequences its streams share.
    #[must_use]
    pub fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    /// What is wrong with the pairing, if anything is known to be.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// How it counts.
    #[must_use]
    pub fn counting(&self) -> Counting {
        match self.weights {
            Weights::Tables(_) => Counting::Tables,
            Weights::Bits { .. } => Counting::Bits,
            #[cfg(feature = "gpu")]
            Weights::Gpu { counting, .. } => counting,
        }
    }

    /// The counts of samples one after the other, row-major of samples by neurons.
    ///
    /// # Errors
    /// [`CoreError::Ragged`] where the values are not whole samples, [`CoreError::OutOfRange`] with the first value outside the
    /// interval of the polarity, [`CoreError::Memory`] where the counts do not fit.
    pub fn counts(&self, values: &[f64]) -> Result<Vec<u64>> {
        let shape = &self.shape;
        shape.samples_in(values.len())?;
        let thresholds = self.pairing.inputs.width().thresholds(values, shape.polarity(), Quantity::Value)?;
        let cpu = Cpu::current()?;
        match &self.weights {
            Weights::Tables(weights) => Ok(cpu.table_counts(weights, &thresholds)?),
            #[cfg(feature = "gpu")]
            Weights::Gpu { twin, .. } => twin.counts(&thresholds),
            Weights::Bits { words, ones } => {
                let per_piece = (super::PIECE_WORDS / shape.row_words()).max(1);
                let count = |piece: &[u64]| -> Result<Vec<u64>, CoreError> {
                    let inputs = self.pairing.encode_inputs(piece, shape.n_inputs(), shape.length())?;
                    cpu.dense_counts(shape, words, ones, inputs.words())
                };
                let pieces = thresholds.chunks(per_piece * shape.n_inputs()).map(count);
                pieces.collect::<Result<Vec<_>, _>>().map(|counts| counts.concat()).map_err(Error::from)
            }
        }
    }

    /// The values of [`Self::counts`].
    ///
    /// # Errors
    /// As [`Self::counts`].
    pub fn forward(&self, values: &[f64]) -> Result<Vec<f64>> {
        Ok(self.counts(values)?.into_iter().map(|count| self.shape.decode(count)).collect())
    }
}

/// The thresholds of a layer's weights.
fn weight_thresholds(shape: &DenseShape, pairing: &Pairing, weights: &[f64]) -> Result<Vec<u64>> {
    let (expected, actual) = (shape.n_weights(), weights.len());
    if expected != actual {
        return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
    }
    Ok(pairing.weights.width().thresholds(weights, shape.polarity(), Quantity::Weight)?)
}
