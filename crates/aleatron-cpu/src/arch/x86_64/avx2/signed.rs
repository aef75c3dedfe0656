//! What complemented streams add to counts: the portable loops, compiled for registers of 256 bits.

use crate::arch::portable::signed::{self as portable, LANES};

/// The ones of inputs under negative weights.
#[target_feature(enable = "avx2")]
pub(crate) fn ones_of_negative<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
) -> [[i16; LANES]; S] {
    portable::ones_of_negative(values, ones)
}

/// The same, and the ones of weights under negative inputs.
#[target_feature(enable = "avx2")]
pub(crate) fn ones_of_either<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
    masks: [&[i16]; S],
) -> [[i16; LANES]; S] {
    portable::ones_of_either(values, ones, masks)
}
