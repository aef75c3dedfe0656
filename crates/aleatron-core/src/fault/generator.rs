//! Shared sequences that start from a faulty state.

use crate::error::{Error, Quantity, Result};
use crate::generator::{Lfsr, OperandSequences, Sequence, Sharing};
use crate::layer::{InputSource, LayerSpec, WeightSource};
use crate::stream::{BitStream, Length, WORD_BITS};

/// Checks that at least one operand of a layer has shared sequences, and that the state of each is
/// defined.
///
/// # Errors
/// Returns [`Error::Syntax`] with the sequence that has no state.
pub fn check_generators(spec: &LayerSpec) -> Result<()> {
    let inputs = match spec.encoding().input_source() {
        InputSource::Bernoulli => None,
        InputSource::Sequences(sequences) => Some(sequences.first),
    };
    let weights = match spec.encoding().weight_source() {
        WeightSource::Bernoulli { .. } => None,
        WeightSource::Sequences(sequences) => Some(sequences.first),
    };
    let fault = |of: &str| Error::Syntax {
        what: Quantity::FaultSite,
        text: "generators".to_owned(),
        reason: format!("{of} have no state to flip; use lfsr, sobol or ramp, or another site"),
    };
    match [inputs, weights] {
        [None, None] => Err(fault("bernoulli streams")),
        operands if operands.iter().flatten().any(|first| matches!(first, Sequence::Halton(_))) => {
            Err(fault("halton sequences"))
        }
        operands if operands.iter().flatten().any(|first| matches!(first, Sequence::Digit(_))) => {
            Err(fault("the digits of a counter"))
        }
        _ => Ok(()),
    }
}

/// Returns the number of the sequence of an input among those of its operand.
#[must_use]
pub const fn sequence_of_input(sequences: &OperandSequences, input: usize) -> usize {
    match sequences.sharing {
        Sharing::OneForAll => 0,
        Sharing::OnePerInput | Sharing::OnePerStream => input,
    }
}

/// Returns the number of the sequence of a weight among those of its operand, in a layer with rows
/// of `n` units.
#[must_use]
pub const fn sequence_of_weight(
    sequences: &OperandSequences,
    row: usize,
    unit: usize,
    n: usize,
) -> usize {
    match sequences.sharing {
        Sharing::OneForAll => 0,
        Sharing::OnePerInput => unit,
        Sharing::OnePerStream => row.saturating_mul(n).saturating_add(unit),
    }
}

/// Encodes a threshold with a sequence whose first state has the bits of `mask` flipped.
///
/// # Errors
/// Returns [`Error::Syntax`] for a sequence without a state; see [`check_generators`].
pub fn encode_faulty(
    sequence: &Sequence,
    mask: u32,
    threshold: u64,
    length: Length,
) -> Result<BitStream> {
    let width = sequence.width();
    let mut values: Box<dyn Iterator<Item = u32>> = match sequence {
        Sequence::Lfsr(lfsr) => match lfsr.seed() ^ mask {
            // An LFSR in the state of zeros stays there.
            0 => Box::new(std::iter::repeat(0)),
            state => {
                let taps: Vec<u32> = lfsr.taps().collect();
                Box::new(Lfsr::with_taps(width, &taps, state)?.values())
            }
        },
        Sequence::Sobol(sobol) => Box::new(sobol.values().map(move |value| value ^ mask)),
        Sequence::Ramp(_) => {
            let one = width.one();
            Box::new((u64::from(mask)..).map(move |value| (value % one) as u32))
        }
        Sequence::Halton(_) | Sequence::Digit(_) => {
            let reason = format!("{sequence} has no state to flip");
            return Err(Error::Syntax {
                what: Quantity::FaultSite,
                text: "generators".to_owned(),
                reason,
            });
        }
    };
    Ok(BitStream::from_fn(length, |_| {
        let bits = values.by_ref().take(WORD_BITS).enumerate();
        bits.fold(0, |word, (k, u)| word | u64::from(u64::from(u) < threshold) << k)
    }))
}
