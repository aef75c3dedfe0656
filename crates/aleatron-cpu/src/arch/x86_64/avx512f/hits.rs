//! Hits of fault masks: the portable loops, compiled for registers of 512 bits.

use crate::arch::portable::hits::{HitRows, hits_of_lanes};

/// Appends the hits of rows.
#[target_feature(enable = "avx512f")]
pub(crate) fn hits(rows: HitRows<'_>, out: &mut Vec<u64>) {
    hits_of_lanes(rows, out);
}
