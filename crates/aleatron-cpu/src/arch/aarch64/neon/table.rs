//! Count look-up in a row held in registers.
//!
//! A row for 8-bit thresholds has 256 entries of 16 bits, and one more for the stream of ones.
//! Their low bytes fill sixteen registers, and so do their high bytes; four table look-ups of 64
//! bytes each find sixteen of either. Sums of four counts fit 16 bits, so the high bytes are below
//! 64.

use crate::arch::aarch64::memory::{load_u8_x4, load_u16, load_u32, store_u8, store_u16};
use crate::arch::portable::table as portable;
use std::arch::aarch64::{
    uint8x16_t, uint8x16x4_t, uint16x8_t, vaddw_high_u8, vaddw_u8, vdupq_n_u8, vget_low_u8,
    vmlal_high_u8, vmlal_u8, vmlaq_u8, vqtbl4q_u8, vqtbx4q_u8, vreinterpretq_u8_u16,
    vreinterpretq_u16_u32, vshlq_n_u8, vsubq_u8, vuzp1q_u8, vuzp1q_u16, vuzp2q_u8,
};

/// Number of entries of a row: one for each 8-bit threshold, and one for 2^8.
pub(super) const ENTRIES: usize = 257;

/// Number of thresholds looked up together.
const LANES: usize = 16;

/// Number of thresholds looked up in an iteration of the loop.
pub(super) const UNROLLED: usize = 2 * LANES;

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`.
#[target_feature(enable = "neon")]
pub(crate) fn look_up(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let [Some(a), Some(b), Some(c), Some(d)] = rows.map(|row| row.first_chunk::<ENTRIES>()) else {
        // Narrower sequences have shorter rows.
        return portable::look_up(rows, thresholds, sums);
    };
    if rows.iter().any(|row| row.len() > ENTRIES) {
        return portable::look_up(rows, thresholds, sums);
    }
    let whole = sums.len() - sums.len() % UNROLLED;
    let (blocks, _) = sums.as_chunks_mut::<UNROLLED>();
    for (row, thresholds) in [a, b, c, d].into_iter().zip(thresholds) {
        add_row(row, thresholds.as_chunks::<UNROLLED>().0, blocks);
    }
    portable::look_up(rows, thresholds.map(|thresholds| &thresholds[whole..]), &mut sums[whole..]);
}

/// Adds the entries of a row for some thresholds to their sums. Entries are below 2^15.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn add_row(
    row: &[u32; ENTRIES],
    thresholds: &[[u16; UNROLLED]],
    sums: &mut [[u16; UNROLLED]],
) {
    let [low, high] = bytes(row);
    let last = row[ENTRIES - 1];
    add(&Plane::new(&low, last as u8), thresholds, sums, |sums, bytes| {
        [vaddw_u8(sums[0], vget_low_u8(bytes)), vaddw_high_u8(sums[1], bytes)]
    });
    // Short streams have counts of one byte.
    if last >> 8 != 0 || high.iter().fold(0, |any, byte| any | byte) != 0 {
        let half = vdupq_n_u8(128);
        add(&Plane::new(&high, (last >> 8 << 1) as u8), thresholds, sums, |sums, bytes| {
            let low = vmlal_u8(sums[0], vget_low_u8(bytes), vget_low_u8(half));
            [low, vmlal_high_u8(sums[1], bytes, half)]
        });
    }
}

/// Returns the low bytes of the first 256 entries, and their high bytes twice.
#[inline]
#[target_feature(enable = "neon")]
fn bytes(row: &[u32; ENTRIES]) -> [[u8; 256]; 2] {
    let mut planes = [[0; 256]; 2];
    let [low, high] = &mut planes;
    let outs = low.as_chunks_mut::<16>().0.iter_mut().zip(high.as_chunks_mut::<16>().0);
    for (entries, (low, high)) in row.as_chunks::<4>().0.as_chunks::<4>().0.iter().zip(outs) {
        let half = |i: usize| {
            let [a, b] = [load_u32(&entries[i]), load_u32(&entries[i + 1])]
                .map(|v| vreinterpretq_u16_u32(v));
            vreinterpretq_u8_u16(vuzp1q_u16(a, b))
        };
        let (first, second) = (half(0), half(2));
        store_u8(low, vuzp1q_u8(first, second));
        store_u8(high, vshlq_n_u8::<1>(vuzp2q_u8(first, second)));
    }
    planes
}

/// The low bytes of a row's entries, or the high ones.
struct Plane {
    tables: [uint8x16x4_t; 4],
    /// The difference between the last entry and the first.
    last: uint8x16_t,
}

impl Plane {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(bytes: &[u8; 256], last: u8) -> Self {
        let (tables, _) = bytes.as_chunks::<64>();
        let tables = [
            load_u8_x4(&tables[0]),
            load_u8_x4(&tables[1]),
            load_u8_x4(&tables[2]),
            load_u8_x4(&tables[3]),
        ];
        Self { tables, last: vdupq_n_u8(last.wrapping_sub(bytes[0])) }
    }

    /// Looks up the bytes of sixteen thresholds.
    #[inline]
    #[target_feature(enable = "neon")]
    fn look_up(&self, thresholds: &[u16; LANES]) -> uint8x16_t {
        let (halves, _) = thresholds.as_chunks::<8>();
        let first = vreinterpretq_u8_u16(load_u16(&halves[0]));
        let second = vreinterpretq_u8_u16(load_u16(&halves[1]));
        // An index outside a table leaves the result of the tables before it.
        let (mut index, step) = (vuzp1q_u8(first, second), vdupq_n_u8(64));
        let mut found = vqtbl4q_u8(self.tables[0], index);
        for table in &self.tables[1..] {
            index = vsubq_u8(index, step);
            found = vqtbx4q_u8(found, *table, index);
        }
        // 2^8 has found the first entry: its high byte, a 1, adds the difference to the last.
        vmlaq_u8(found, vuzp2q_u8(first, second), self.last)
    }
}

/// Adds the bytes of thresholds to their sums with `add`.
#[inline]
#[target_feature(enable = "neon")]
fn add(
    plane: &Plane,
    thresholds: &[[u16; UNROLLED]],
    sums: &mut [[u16; UNROLLED]],
    add: impl Fn([uint16x8_t; 2], uint8x16_t) -> [uint16x8_t; 2],
) {
    for (sums, thresholds) in sums.iter_mut().zip(thresholds) {
        let halves =
            sums.as_chunks_mut::<LANES>().0.iter_mut().zip(thresholds.as_chunks::<LANES>().0);
        for (sums, thresholds) in halves {
            let bytes = plane.look_up(thresholds);
            let (registers, _) = sums.as_chunks_mut::<8>();
            let [first, second] = add([load_u16(&registers[0]), load_u16(&registers[1])], bytes);
            store_u16(&mut registers[0], first);
            store_u16(&mut registers[1], second);
        }
    }
}
