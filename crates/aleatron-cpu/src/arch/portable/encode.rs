//! Bernoulli encoding, one 32-bit stream word at a time.

use crate::draws::Draws;
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::philox4x32;
use aleatron_core::{Length, StreamAddress, Threshold};

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their
/// words.
pub(crate) fn encode(
    thresholds: &[Threshold],
    length: Length,
    address: StreamAddress,
    _draws: Draws<'_>,
    out: &mut [u64],
) {
    let streams = out.chunks_exact_mut(length.words());
    for ((stream, &threshold), unit) in streams.zip(thresholds).zip(address.unit..=u32::MAX) {
        let address = address.at_unit(unit);
        match threshold {
            Threshold::ZERO => stream.fill(0),
            Threshold::ONE => stream.fill(u64::MAX),
            _ => {
                for (word, i) in stream.iter_mut().zip((0..).step_by(2)) {
                    let half =
                        |i| u64::from(below(threshold.get() as u32, address, i, 0, u32::MAX));
                    *word = half(i) | half(i + 1) << 32;
                }
            }
        }
        if let Some(last) = stream.last_mut() {
            *last &= length.tail_mask();
        }
    }
}

/// Returns the bits of stream word `word` among `undecided`, the bits that equal the threshold in
/// all planes before draw `first_draw`, whose uniform integer is below it.
pub(crate) fn below(
    threshold: u32,
    address: StreamAddress,
    word: u32,
    first_draw: u32,
    mut undecided: u32,
) -> u32 {
    let mut below = 0;
    for draw in first_draw..DRAWS {
        // Only zeros remain in the threshold: not below, whatever the draws.
        if undecided == 0 || threshold << (PLANES_PER_DRAW * draw) == 0 {
            break;
        }
        let planes = philox4x32(address.counter(word, draw), address.key());
        for (plane, m) in planes.into_iter().zip(PLANES_PER_DRAW * draw..) {
            if threshold >> (31 - m) & 1 == 1 {
                below |= undecided & !plane;
                undecided &= plane;
            } else {
                undecided &= !plane;
            }
        }
    }
    below
}
