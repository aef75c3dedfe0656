//! Sums of maps: the portable loop, compiled for registers of 256 bits.

use crate::arch::portable::map::{self as portable, MapTap};

/// Adds entry `j + shift` of maps of `len` entries to each `sums[j]`, or subtracts it.
#[target_feature(enable = "avx2")]
pub(crate) fn add(maps: &[u16], len: usize, plus: &[MapTap], minus: &[MapTap], sums: &mut [u32]) {
    portable::add(maps, len, plus, minus, sums);
}
