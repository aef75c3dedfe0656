//! Hits of fault masks: the portable loops, compiled for registers of 256 bits.

use crate::arch::portable::hits::{HitRows, hits_of_lanes};

/// Appends the hits of rows.
#[target_feature(enable = "avx2")]
pub(crate) fn hits(rows: HitRows<'_>, out: &mut Vec<u64>) {
    hits_of_lanes(rows, out);
}
