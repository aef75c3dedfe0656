//! Maps of counts: filled from rows of a table in registers, and summed in registers.

use super::table::{ENTRIES, LANES, Row};
use crate::arch::portable::map::{self as portable, MapTap};
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    _mm512_add_epi16, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_cvtepi16_epi32,
    _mm512_extracti64x4_epi64, _mm512_mask_sub_epi16, _mm512_movepi16_mask, _mm512_setzero_si512,
    _mm512_sub_epi16,
};

/// Number of registers of sums, and of the sums after the last block of this size.
const REGISTERS: usize = 8;
const REST: usize = portable::LANES / LANES;

/// Writes `rows[k][thresholds[j]]` to entry `j` of map `k`, negated if the threshold has its
/// highest bit set.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn fill(rows: &[&[u16]], thresholds: &[u16], maps: &mut [u16]) {
    for (row, map) in rows.iter().zip(maps.chunks_exact_mut(thresholds.len())) {
        let Ok(row) = <&[u16; ENTRIES]>::try_from(*row) else {
            portable::fill(&[row], thresholds, map);
            continue;
        };
        let row = Row::from_narrow(row);
        let blocks =
            map.as_chunks_mut::<LANES>().0.iter_mut().zip(thresholds.as_chunks::<LANES>().0);
        for (map, thresholds) in blocks {
            let thresholds = load512(thresholds);
            let (entries, negative) = (row.look_up(thresholds), _mm512_movepi16_mask(thresholds));
            store512(
                map,
                _mm512_mask_sub_epi16(entries, negative, _mm512_setzero_si512(), entries),
            );
        }
    }
}

/// Adds entry `j + shift` of maps of `len` entries to each `sums[j]`, or subtracts it; the change
/// of one sum fits 16 bits with a sign.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn add(maps: &[u16], len: usize, plus: &[MapTap], minus: &[MapTap], sums: &mut [u32]) {
    let (blocks, rest) = sums.as_chunks_mut::<{ REGISTERS * LANES }>();
    let whole = blocks.len() * REGISTERS * LANES;
    for (sums, first) in blocks.iter_mut().zip((0..).step_by(REGISTERS * LANES)) {
        add_block::<REGISTERS>(maps, len, plus, minus, first, sums);
    }
    for (sums, first) in rest.chunks_exact_mut(REST * LANES).zip((whole..).step_by(REST * LANES)) {
        add_block::<REST>(maps, len, plus, minus, first, sums);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_block<const REGISTERS: usize>(
    maps: &[u16],
    len: usize,
    plus: &[MapTap],
    minus: &[MapTap],
    first: usize,
    sums: &mut [u32],
) {
    let mut narrow = [_mm512_setzero_si512(); REGISTERS];
    for tap in plus {
        let entries = &tap.entries(maps, len, first).as_chunks::<LANES>().0[..REGISTERS];
        for (sum, entries) in narrow.iter_mut().zip(entries) {
            *sum = _mm512_add_epi16(*sum, load512(entries));
        }
    }
    for tap in minus {
        let entries = &tap.entries(maps, len, first).as_chunks::<LANES>().0[..REGISTERS];
        for (sum, entries) in narrow.iter_mut().zip(entries) {
            *sum = _mm512_sub_epi16(*sum, load512(entries));
        }
    }
    let (sums, _) = sums.as_chunks_mut::<16>();
    for (narrow, sums) in narrow.into_iter().zip(sums.as_chunks_mut::<2>().0) {
        let halves = [_mm512_castsi512_si256(narrow), _mm512_extracti64x4_epi64::<1>(narrow)];
        for (half, sums) in halves.into_iter().zip(sums) {
            let sum = _mm512_add_epi32(load512(sums), _mm512_cvtepi16_epi32(half));
            store512(sums, sum);
        }
    }
}
