//! Which sequences the streams of a layer share.

use std::fmt;

use super::{Lfsr, Sequence};
use crate::error::{Error, Quantity, Result};
use crate::memory;
use crate::stream::{Length, StreamMatrix, WORD_BITS};

/// How many independent sequences the streams of a layer share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sharing {
    /// One for all inputs and one for all weights.
    #[default]
    OneForAll,
    /// One for each input and one for the weights of each input.
    OnePerInput,
    /// One for each input and one for each weight.
    OnePerStream,
}

/// The generators of a layer: stream number q of the inputs has the sequence `inputs.nth(q)`, and likewise for the
/// weights. q is 0 for all, the input, or the index of the stream (of weights, row-major by neuron), as `sharing` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pairing {
    /// The first sequence of the inputs.
    pub inputs: Sequence,
    /// The first sequence of the weights.
    pub weights: Sequence,
    /// How many there are.
    pub sharing: Sharing,
}

impl Pairing {
    /// The sequence of an input.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the generator has no sequence left.
    pub fn input(&self, input: usize) -> Result<Sequence> {
        match self.sharing {
            Sharing::OneForAll => Ok(self.inputs),
            Sharing::OnePerInput | Sharing::OnePerStream => self.inputs.nth(input),
        }
    }

    /// The sequence of the weight of an input at a neuron, in a layer of `n_inputs`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the generator has no sequence left.
    pub fn weight(&self, neuron: usize, input: usize, n_inputs: usize) -> Result<Sequence> {
        match self.sharing {
            Sharing::OneForAll => Ok(self.weights),
            Sharing::OnePerInput => self.weights.nth(input),
            Sharing::OnePerStream => self.weights.nth(neuron.saturating_mul(n_inputs).saturating_add(input)),
        }
    }

    /// The streams of inputs with the given thresholds, samples of `n_inputs` one after the other.
    ///
    /// # Errors
    /// [`Error::Zero`], [`Error::Ragged`] for the inputs, [`Error::TooLarge`] where the generator has no sequence left,
    /// [`Error::Memory`] where the streams do not fit.
    pub fn encode_inputs(&self, thresholds: &[u64], n_inputs: usize, length: Length) -> Result<StreamMatrix> {
        encode(&self.inputs, thresholds, self.input_period(thresholds.len(), n_inputs)?, length)
    }

    /// The streams of weights with the given thresholds, neurons of `n_inputs` one after the other.
    ///
    /// # Errors
    /// As [`Self::encode_inputs`].
    pub fn encode_weights(
        &self,
        thresholds: &[u64],
        n_inputs: usize,
        length: Length,
    ) -> Result<StreamMatrix> {
        encode(&self.weights, thresholds, self.weight_period(thresholds.len(), n_inputs)?, length)
    }

    /// The number of different sequences that `n_streams` streams of inputs have, samples of `n_inputs` one after the other:
    /// stream r has number `r % period`.
    ///
    /// # Errors
    /// [`Error::Zero`] without inputs, [`Error::Ragged`] where the streams are not whole samples.
    pub fn input_period(&self, n_streams: usize, n_inputs: usize) -> Result<usize> {
        check_whole(n_streams, n_inputs, Quantity::Inputs)?;
        Ok(match self.sharing {
            Sharing::OneForAll => 1,
            Sharing::OnePerInput | Sharing::OnePerStream => n_inputs,
        })
    }

    /// The number of different sequences that `n_streams` streams of weights have, neurons of `n_inputs` one after the other:
    /// stream r has number `r % period`.
    ///
    /// # Errors
    /// [`Error::Zero`] without inputs, [`Error::Ragged`] where the streams are not whole neurons.
    pub fn weight_period(&self, n_streams: usize, n_inputs: usize) -> Result<usize> {
        check_whole(n_streams, n_inputs, Quantity::Weights)?;
        Ok(match self.sharing {
            Sharing::OneForAll => 1,
            Sharing::OnePerInput => n_inputs,
            // A period is never 0.
            Sharing::OnePerStream => n_streams.max(1),
        })
    }

    /// What is wrong with this pairing in a layer of `n_inputs` inputs and `n_neurons` neurons. A product is right on
    /// average only when its two streams are independent; these pairs are known not to be.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the generator has no sequence left.
    pub fn warnings(&self, n_inputs: usize, n_neurons: usize) -> Result<Vec<Warning>> {
        // One for all, or one per input: every product pairs sequences as far apart as the first two.
        let pairs = match self.sharing {
            Sharing::OneForAll | Sharing::OnePerInput => [1, 1],
            Sharing::OnePerStream => [n_inputs, n_neurons],
        };
        let (inputs, weights) = (self.inputs.siblings(), self.weights.siblings());
        for input in 0..pairs[0] {
            let x = inputs.nth(input)?;
            for neuron in 0..pairs[1] {
                let w = weights.nth(neuron.saturating_mul(n_inputs).saturating_add(input))?;
                if let Some(warning) = Warning::of(&x, &w) {
                    return Ok(vec![warning]);
                }
            }
        }
        Ok(Vec::new())
    }
}

/// Row r of the streams has sequence `r % period`.
fn encode(first: &Sequence, thresholds: &[u64], period: usize, length: Length) -> Result<StreamMatrix> {
    let mut words = StreamMatrix::zeros(thresholds.len(), length)?.into_words();
    let mut values = memory::with_capacity(length.bits() as u128, Quantity::Sequence)?;
    for q in 0..period.min(thresholds.len()) {
        values.clear();
        values.extend(first.nth(q)?.values().take(length.bits()));
        let rows = words.chunks_exact_mut(length.words()).zip(thresholds);
        for (row, &threshold) in rows.skip(q).step_by(period) {
            for (word, values) in row.iter_mut().zip(values.chunks(WORD_BITS)) {
                let bits = values.iter().enumerate();
                *word = bits.fold(0, |word, (k, &u)| word | u64::from(u64::from(u) < threshold) << k);
            }
        }
    }
    StreamMatrix::from_words(words, thresholds.len(), length)
}

fn check_whole(n_streams: usize, n_inputs: usize, what: Quantity) -> Result<()> {
    if n_inputs == 0 {
        return Err(Error::Zero(Quantity::Inputs));
    }
    if !n_streams.is_multiple_of(n_inputs) {
        return Err(Error::Ragged { what, actual: n_streams, divisor: n_inputs });
    }
    Ok(())
}

/// Something that makes the products of a [`Pairing`] wrong on average.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Both streams of a product use one sequence, so they are maximally correlated.
    SameSequence {
        /// The sequence.
        sequence: Sequence,
    },
    /// Both streams of a product use one LFSR, a few steps apart, so one is the other one shifted.
    NeighbouringStates {
        /// The steps between them.
        steps: usize,
        /// The width of the register.
        width: u32,
    },
}

impl Warning {
    /// What is wrong with multiplying streams of these two sequences; `None` where nothing is known to be.
    #[must_use]
    pub fn of(x: &Sequence, w: &Sequence) -> Option<Self> {
        if x == w {
            return Some(Self::SameSequence { sequence: *x });
        }
        let (Sequence::Lfsr(x), Sequence::Lfsr(w)) = (x, w) else { return None };
        let width = x.width().bits();
        // Within twice its width a register's states still share most of their bits.
        let steps = Lfsr::distance(x, w, 2 * width as usize)?;
        Some(Self::NeighbouringStates { steps, width })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameSequence { sequence } => {
                write!(
                    f,
                    "inputs and weights share one sequence ({sequence}): the streams overlap as much as they can"
                )
            }
            Self::NeighbouringStates { steps, width } => write!(
                f,
                "the LFSRs of inputs and weights are {steps} steps apart, closer than twice their {width} bits: \
                 their streams are correlated"
            ),
        }
    }
}
