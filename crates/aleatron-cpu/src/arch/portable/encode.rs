//! Bernoulli encoding, one 32-bit stream word at a time.

use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::philox4x32;
use aleatron_core::{Length, StreamAddress, Threshold};

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
pub(crate) fn encode(thresholds: &[Threshold], length: Length, address: StreamAddress, out: &mut [u64]) {
    let streams = out.chunks_exact_mut(length.words());
    for ((stream, &threshold), unit) in streams.zip(thresholds).zip(address.unit..=u32::MAX) {
        let address = address.at_unit(unit);
        match threshold {
            Threshold::ZERO => stream.fill(0),
            Threshold::ONE => stream.fill(u64::MAX),
            _ => {
                for (word, i) in stream.iter_mut().zip((0..).step_by(2)) {
                    let half = |i| u64::from(below(threshold.get() as u32, address, i));
                    *word = half(i) | half(i + 1) << 32;
                }
            }
        }
        if let Some(last) = stream.last_mut() {
            *last &= length.tail_mask();
        }
    }
}

/// For each bit of stream word `word`, whether its uniform integer is below `threshold`.
fn below(threshold: u32, address: StreamAddress, word: u32) -> u32 {
    let (mut below, mut undecided) = (0, u32::MAX);
    for draw in 0..DRAWS {
        let planes = philox4x32(address.counter(word, draw), address.key());
        for (plane, m) in planes.into_iter().zip(PLANES_PER_DRAW * draw..) {
            if threshold >> (31 - m) & 1 == 1 {
                below |= undecided & !plane;
                undecided &= plane;
            } else {
                undecided &= !plane;
            }
        }
        // Equal so far, and nothing but zeros left to compare with: not below, whatever comes.
        let rest = threshold.checked_shl(PLANES_PER_DRAW * (draw + 1)).unwrap_or(0);
        if undecided == 0 || rest == 0 {
            break;
        }
    }
    below
}
