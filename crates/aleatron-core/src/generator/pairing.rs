//! The assignment of shared sequences to the streams of a layer.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use super::{Lfsr, Sequence, Width};
use crate::error::{Error, Quantity, Result};
use crate::stream::Length;

/// How many independent sequences the streams of a layer share. As text: `all`, `input` or
/// `stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sharing {
    /// One sequence for all inputs and one for all weights.
    #[default]
    OneForAll,
    /// One sequence for each input and one for the weights of each input.
    OnePerInput,
    /// One sequence for each input and one for each weight.
    OnePerStream,
}

impl Sharing {
    /// All sharings.
    pub const ALL: [Self; 3] = [Self::OneForAll, Self::OnePerInput, Self::OnePerStream];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneForAll => "all",
            Self::OnePerInput => "input",
            Self::OnePerStream => "stream",
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Sharing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|sharing| sharing.name() == text);
        found.ok_or_else(|| Error::unknown_name(Quantity::Sharing, text, Self::ALL.map(Self::name)))
    }
}

/// The sequences of one operand of a layer, its inputs or its weights: stream number q has the
/// sequence `first.nth(q)`. q is 0 for all, the input, or the index of the stream (of weights,
/// row-major by neuron), as given by `sharing`. In a convolution, the weights have taps for inputs
/// and output channels for neurons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperandSequences {
    /// The first sequence.
    pub first: Sequence,
    /// The number of sequences.
    pub sharing: Sharing,
}

impl OperandSequences {
    /// Returns the width of the sequences.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.first.width()
    }

    /// Returns the sequence of an input, if the operand is the inputs.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn input(&self, input: usize) -> Result<Sequence> {
        match self.sharing {
            Sharing::OneForAll => Ok(self.first),
            Sharing::OnePerInput | Sharing::OnePerStream => self.first.nth(input),
        }
    }

    /// Returns the sequence of the weight of an input at a neuron, if the operand is the weights,
    /// in a layer of `n_inputs`; or of a tap at an output channel, with kernels of `n_inputs` taps.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn weight(&self, neuron: usize, input: usize, n_inputs: usize) -> Result<Sequence> {
        match self.sharing {
            Sharing::OneForAll => Ok(self.first),
            Sharing::OnePerInput => self.first.nth(input),
            Sharing::OnePerStream => {
                self.first.nth(neuron.saturating_mul(n_inputs).saturating_add(input))
            }
        }
    }

    /// Returns the number of different sequences of `n_streams` streams of inputs, samples of
    /// `n_inputs` one after the other: stream r has number `r % period`.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without inputs, [`Error::Ragged`] if the streams are not whole
    /// samples.
    pub fn input_period(&self, n_streams: usize, n_inputs: usize) -> Result<usize> {
        if n_inputs == 0 {
            return Err(Error::Zero(Quantity::Inputs));
        }
        if !n_streams.is_multiple_of(n_inputs) {
            return Err(Error::Ragged {
                what: Quantity::Inputs,
                actual: n_streams,
                divisor: n_inputs,
            });
        }
        Ok(match self.sharing {
            Sharing::OneForAll => 1,
            Sharing::OnePerInput | Sharing::OnePerStream => n_inputs,
        })
    }

    /// Returns the warning for streams of `length` bits that end within a period of the sequences;
    /// `None` if they do not, or if no width would be better.
    #[must_use]
    pub fn cut_off(&self, length: Length) -> Option<Warning> {
        let (sequence, bits) = (self.first, length.bits());
        let (period, covered, length) = (sequence.period(), Width::covered_by(length), bits as u64);
        match sequence {
            Sequence::Lfsr(_) | Sequence::Ramp(_) if length < period => {
                (sequence.width() > covered).then_some(Warning::CutOff { sequence, length: bits })
            }
            // The last, partial period of a counter has only small numbers: with r of its P steps,
            // counts are up to r (P - r) / P bits too large. The states of a register in a partial
            // period are spread.
            Sequence::Ramp(_) => {
                let steps = u128::from(length % period);
                (steps * (u128::from(period) - steps) > u128::from(period))
                    .then_some(Warning::PartialPeriod { sequence, length: bits })
            }
            Sequence::Digit(_) => {
                (length % period != 0).then_some(Warning::PartialPeriod { sequence, length: bits })
            }
            _ => None,
        }
    }
}

/// The generators of a layer: stream number q of the inputs has the sequence `inputs.nth(q)`, and
/// likewise for the weights. q is 0 for all, the input, or the index of the stream (of weights,
/// row-major by neuron), as given by `sharing`. In a convolution, the weights have taps for inputs
/// and output channels for neurons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pairing {
    /// The first sequence of the inputs.
    pub inputs: Sequence,
    /// The first sequence of the weights.
    pub weights: Sequence,
    /// The number of sequences.
    pub sharing: Sharing,
}

impl Pairing {
    /// Returns the sequences of the inputs.
    #[must_use]
    pub const fn of_inputs(&self) -> OperandSequences {
        OperandSequences { first: self.inputs, sharing: self.sharing }
    }

    /// Returns the sequences of the weights.
    #[must_use]
    pub const fn of_weights(&self) -> OperandSequences {
        OperandSequences { first: self.weights, sharing: self.sharing }
    }

    /// Returns the sequence of an input.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn input(&self, input: usize) -> Result<Sequence> {
        self.of_inputs().input(input)
    }

    /// Returns the sequence of the weight of an input at a neuron, in a layer of `n_inputs`; or of
    /// a tap at an output channel, with kernels of `n_inputs` taps.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn weight(&self, neuron: usize, input: usize, n_inputs: usize) -> Result<Sequence> {
        self.of_weights().weight(neuron, input, n_inputs)
    }

    /// Returns warnings about this pairing in a layer of `n_inputs` inputs and `n_neurons` neurons.
    /// A product is right on average only if its two streams are independent; the reported pairs
    /// are known not to be.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn warnings(&self, n_inputs: usize, n_neurons: usize) -> Result<Vec<Warning>> {
        // With one sequence for all, or one per input, every product pairs sequences as far apart
        // as the first two.
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

    /// Returns warnings as [`Self::warnings`], in a convolution of `n_inputs` inputs and
    /// `n_channels` kernels of `n_taps` taps, where any input may meet any weight.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no sequence left.
    pub fn conv_warnings(
        &self,
        n_inputs: usize,
        n_channels: usize,
        n_taps: usize,
    ) -> Result<Vec<Warning>> {
        let numbers = match self.sharing {
            Sharing::OneForAll => [1, 1],
            Sharing::OnePerInput => [n_inputs, n_taps],
            Sharing::OnePerStream => [n_inputs, n_channels.saturating_mul(n_taps)],
        };
        let all = |first: &Sequence, n: usize| {
            let siblings = first.siblings();
            // The registers of a cycle repeat after a full turn.
            let n = if let Sequence::Lfsr(_) = first { n.min(first.period() as usize) } else { n };
            (0..n).map(|q| siblings.nth(q)).collect::<Result<HashSet<_>>>()
        };
        let (inputs, weights) = (all(&self.inputs, numbers[0])?, all(&self.weights, numbers[1])?);
        // Looks for each of the fewer sequences, and its neighbours, among the others.
        let near = |sequence: &Sequence| match sequence {
            Sequence::Lfsr(lfsr) => {
                lfsr.around(Warning::neighbourhood(lfsr)).map(Sequence::Lfsr).collect()
            }
            _ => vec![*sequence],
        };
        let found = match inputs.len() < weights.len() {
            true => inputs
                .iter()
                .find_map(|x| near(x).iter().find_map(|w| Warning::of(x, weights.get(w)?))),
            false => weights
                .iter()
                .find_map(|w| near(w).iter().find_map(|x| Warning::of(inputs.get(x)?, w))),
        };
        Ok(found.into_iter().collect())
    }
}

/// A property of a pairing that makes the products of a layer wrong on average.
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
        /// The number of steps between them.
        steps: usize,
        /// The width of the register.
        width: u32,
    },
    /// Streams end before the period of a sequence that is even only over its whole period.
    CutOff {
        /// The sequence.
        sequence: Sequence,
        /// The length of the streams.
        length: usize,
    },
    /// Streams end within a later period of a counter, whose beginning has small numbers only.
    PartialPeriod {
        /// The sequence.
        sequence: Sequence,
        /// The length of the streams.
        length: usize,
    },
}

impl Warning {
    /// Returns the warning about multiplying streams of these two sequences; `None` if no problem
    /// is known.
    #[must_use]
    pub fn of(x: &Sequence, w: &Sequence) -> Option<Self> {
        if x == w {
            return Some(Self::SameSequence { sequence: *x });
        }
        let (Sequence::Lfsr(x), Sequence::Lfsr(w)) = (x, w) else { return None };
        let steps = Lfsr::distance(x, w, Self::neighbourhood(x))?;
        Some(Self::NeighbouringStates { steps, width: x.width().bits() })
    }

    /// Returns the distance within which a register's states are too similar: within twice its
    /// width they still share most of their bits. For a narrow register it is limited to a quarter
    /// of the cycle.
    fn neighbourhood(lfsr: &Lfsr) -> usize {
        let quarter = (lfsr.width().one() as usize - 1) / 4;
        quarter.min(2 * lfsr.width().bits() as usize)
    }
}

impl Pairing {
    /// Returns the warning for streams of `length` bits that end within a period of a sequence;
    /// `None` if no sequence is cut off, or if no width would be better.
    #[must_use]
    pub fn cut_off(&self, length: Length) -> Option<Warning> {
        self.of_inputs().cut_off(length).or_else(|| self.of_weights().cut_off(length))
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
                "the LFSRs of inputs and weights, of {width} bits, are {steps} steps apart: their streams are correlated"
            ),
            Self::CutOff { sequence, length } => write!(
                f,
                "streams of {length} bits end before the period of {} ({sequence}): small and large numbers come unevenly",
                sequence.period()
            ),
            Self::PartialPeriod { sequence, length } => {
                let period = sequence.period();
                let steps = *length as u64 % period;
                write!(
                    f,
                    "streams of {length} bits end {steps} steps into a period of {period} ({sequence}): small numbers come too \
                     often; use a length that is a multiple of {period}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generator::{Lfsr, Ramp, Sobol};

    fn of(first: Sequence) -> OperandSequences {
        OperandSequences { first, sharing: Sharing::OneForAll }
    }

    /// Warnings are compared with the errors of all counts: more than one bit.
    #[test]
    fn partial_period_of_a_ramp_is_reported_if_counts_are_off_by_more_than_one_bit() {
        for bits in 3..=7 {
            let width = Width::new(bits).unwrap();
            let (ramp, one) = (Sequence::Ramp(Ramp::new(width)), width.one() as usize);
            for length in one..4 * one {
                // In units of 1 / 2^W bits.
                let error = |threshold: usize| {
                    let count = (0..length).filter(|k| k % one < threshold).count();
                    (count * one).abs_diff(threshold * length)
                };
                let is_off = (0..=one).any(|threshold| error(threshold) > one);
                let warning = of(ramp).cut_off(Length::new(length).unwrap());
                let expected = is_off.then_some(Warning::PartialPeriod { sequence: ramp, length });
                assert_eq!(warning, expected, "{length} bits, {width:?}");
            }
        }
    }

    #[test]
    fn partial_periods_of_other_sequences_are_not_reported() {
        let width = Width::new(6).unwrap();
        let sequences = [
            Sequence::Lfsr(Lfsr::new(width, 1).unwrap()),
            Sequence::Sobol(Sobol::new(1, width).unwrap()),
            Sequence::Halton(super::super::Halton::van_der_corput(width)),
        ];
        for sequence in sequences {
            assert_eq!(of(sequence).cut_off(Length::new(100).unwrap()), None, "{sequence}");
        }
    }

    #[test]
    fn partial_period_names_the_period_and_a_remedy() {
        let ramp = Sequence::Ramp(Ramp::new(Width::new(6).unwrap()));
        let pairing = Pairing { inputs: ramp, weights: ramp, sharing: Sharing::OneForAll };
        let warning = pairing.cut_off(Length::new(100).unwrap()).unwrap();
        let expected = format!(
            "streams of 100 bits end 36 steps into a period of 64 ({ramp}): small numbers come too often; use a length that is a \
             multiple of 64"
        );
        assert_eq!(warning.to_string(), expected);
    }
}
