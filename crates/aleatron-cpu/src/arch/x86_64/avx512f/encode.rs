//! Bernoulli encoding, sixteen 32-bit stream words at a time. See [`slots`](crate::arch::x86_64::slots).

use crate::arch::x86_64::memory::{load512, store512};
use crate::arch::x86_64::slots::{Cursor, FIRST_DRAWS, Slots, add_bits, finish};
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::{KEY_INCREMENTS, MULTIPLIERS, ROUNDS};
use aleatron_core::{Length, StreamAddress, Threshold};
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_add_epi32, _mm512_mask_shuffle_epi32, _mm512_maskz_compress_epi32,
    _mm512_maskz_mov_epi32, _mm512_mul_epu32, _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_sll_epi32, _mm512_slli_epi32, _mm512_srai_epi32,
    _mm512_srli_epi64, _mm512_ternarylogic_epi32, _mm512_test_epi32_mask,
};

/// Slots per register.
const LANES: usize = 16;

/// Words filled between lists being emptied: slots inside must be indexed by `u32`.
const CHUNK: usize = 1 << 20;

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
#[target_feature(enable = "avx512f")]
pub(crate) fn encode(thresholds: &[Threshold], length: Length, address: StreamAddress, out: &mut [u64]) {
    let mut cursor = Cursor::new(thresholds, length, address);
    for chunk in out.chunks_mut(CHUNK) {
        let mut undecided = Undecided::new();
        let mut first_slot = 0;
        for start in (0..chunk.len()).step_by(LANES / 2) {
            let end = chunk.len().min(start + LANES / 2);
            let lanes = Lanes::at(&mut cursor);
            let (below, open) = lanes.first_planes(address);
            let mut block = [0u64; LANES / 2];
            store512(&mut block, below);
            chunk[start..end].copy_from_slice(&block[..end - start]);
            let filled = ((1u32 << (2 * (end - start))) - 1) as u16;
            undecided.push(&lanes, open, filled, first_slot);
            if undecided.len >= LANES {
                undecided.settle(address, chunk);
            }
            first_slot += LANES as u32;
        }
        undecided.settle(address, chunk);
    }
    finish(thresholds, length, out);
}

/// What sixteen slots draw and compare with, one per 32-bit lane.
struct Lanes {
    words: __m512i,
    units: __m512i,
    thresholds: __m512i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn at(cursor: &mut Cursor<'_>) -> Self {
        match cursor.next::<LANES>() {
            Slots::OneStream { word, unit, threshold } => Self {
                words: _mm512_add_epi32(_mm512_set1_epi32(word as i32), iota()),
                units: _mm512_set1_epi32(unit as i32),
                thresholds: _mm512_set1_epi32(threshold as i32),
            },
            Slots::Mixed { words, units, thresholds } => {
                Self { words: load512(&words), units: load512(&units), thresholds: load512(&thresholds) }
            }
        }
    }

    /// The bits after the first eight planes: those below their threshold, and those that equal it so far.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn first_planes(&self, address: StreamAddress) -> (__m512i, __m512i) {
        let draws = self.draw::<FIRST_DRAWS>(0, address);
        let (mut below, mut equal) = (_mm512_setzero_si512(), _mm512_set1_epi32(-1));
        // From the last plane up: a bit is below if this plane says so, or it is equal here and below further down.
        macro_rules! planes {
            ($($m:literal)*) => {$(
                let plane = draws[$m / 4][$m % 4];
                let digit = _mm512_srai_epi32::<31>(_mm512_slli_epi32::<$m>(self.thresholds));
                below = _mm512_ternarylogic_epi32::<MAJORITY_OF_NOT_A_B_C>(plane, below, digit);
                equal = _mm512_ternarylogic_epi32::<A_AND_B_XNOR_C>(equal, plane, digit);
            )*};
        }
        planes!(7 6 5 4 3 2 1 0);
        (below, equal)
    }

    /// Draws `first`, `first + 1`, … of every slot: four planes each.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn draw<const N: usize>(&self, first: u32, address: StreamAddress) -> [[__m512i; 4]; N] {
        // A multiplication takes the low halves of 64-bit lanes: the even slots as they lie, the odd ones shifted down.
        let mut counters = [[[_mm512_setzero_si512(); 4]; 2]; N];
        let (row, tag) = (_mm512_set1_epi64(address.row.into()), _mm512_set1_epi64(address.tag().into()));
        for (counters, draw) in counters.iter_mut().zip(first..) {
            let c0 = _mm512_or_si512(_mm512_slli_epi32::<3>(self.words), _mm512_set1_epi32(draw as i32));
            counters[0] = [c0, self.units, row, tag];
            counters[1] = [_mm512_srli_epi64::<32>(c0), _mm512_srli_epi64::<32>(self.units), row, tag];
        }
        let [mut k0, mut k1] = address.key();
        let (m0, m1) = (splat(MULTIPLIERS[0]), splat(MULTIPLIERS[1]));
        for _ in 0..ROUNDS {
            let key = [splat(k0), splat(k1)];
            for [c0, c1, c2, c3] in counters.as_flattened_mut() {
                let (p0, p1) = (_mm512_mul_epu32(*c0, m0), _mm512_mul_epu32(*c2, m1));
                *c0 = _mm512_ternarylogic_epi32::<XOR>(_mm512_srli_epi64::<32>(p1), *c1, key[0]);
                *c2 = _mm512_ternarylogic_epi32::<XOR>(_mm512_srli_epi64::<32>(p0), *c3, key[1]);
                // The high halves of these products are left in place: nothing reads them.
                (*c1, *c3) = (p1, p0);
            }
            k0 = k0.wrapping_add(KEY_INCREMENTS[0]);
            k1 = k1.wrapping_add(KEY_INCREMENTS[1]);
        }
        let mut draws = [[_mm512_setzero_si512(); 4]; N];
        for (planes, [even, odd]) in draws.iter_mut().zip(&counters) {
            for i in 0..4 {
                planes[i] = _mm512_mask_shuffle_epi32::<0b10_10_00_00>(even[i], 0xaaaa, odd[i]);
            }
        }
        draws
    }
}

/// Slots with bits still equal to their threshold, waiting to fill a register.
struct Undecided {
    len: usize,
    slots: [u32; 2 * LANES],
    words: [u32; 2 * LANES],
    units: [u32; 2 * LANES],
    thresholds: [u32; 2 * LANES],
    equal: [u32; 2 * LANES],
}

impl Undecided {
    fn new() -> Self {
        let none = [0; 2 * LANES];
        Self { len: 0, slots: none, words: none, units: none, thresholds: none, equal: none }
    }

    /// Puts the lanes with open bits on the list, unless their threshold has only zeros left to compare with.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn push(&mut self, lanes: &Lanes, equal: __m512i, filled: u16, first_slot: u32) {
        let rest = _mm512_slli_epi32::<{ FIRST_DRAWS as u32 * PLANES_PER_DRAW }>(lanes.thresholds);
        let open = _mm512_test_epi32_mask(equal, equal) & _mm512_test_epi32_mask(rest, rest) & filled;
        let slots = _mm512_add_epi32(_mm512_set1_epi32(first_slot as i32), iota());
        for (list, values) in [
            (&mut self.slots, slots),
            (&mut self.words, lanes.words),
            (&mut self.units, lanes.units),
            (&mut self.thresholds, lanes.thresholds),
            (&mut self.equal, equal),
        ] {
            if let Some(block) = list[self.len..].first_chunk_mut::<LANES>() {
                store512(block, _mm512_maskz_compress_epi32(open, values));
            }
        }
        self.len += open.count_ones() as usize;
    }

    /// Decides up to sixteen slots from the end of the list.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn settle(&mut self, address: StreamAddress, out: &mut [u64]) {
        let start = self.len.saturating_sub(LANES);
        let count = self.len - start;
        self.len = start;
        let at = |list: &[u32; 2 * LANES]| match list[start..].first_chunk::<LANES>() {
            Some(block) => load512(block),
            None => _mm512_setzero_si512(),
        };
        let lanes =
            Lanes { words: at(&self.words), units: at(&self.units), thresholds: at(&self.thresholds) };
        // Lanes past the end of the list hold what was there before.
        let listed = ((1u32 << count) - 1) as u16;
        let mut equal = _mm512_maskz_mov_epi32(listed, at(&self.equal));
        let mut below = _mm512_setzero_si512();
        for draw in FIRST_DRAWS as u32..DRAWS {
            if _mm512_test_epi32_mask(equal, equal) == 0 {
                break;
            }
            let [planes] = lanes.draw::<1>(draw, address);
            for (plane, m) in planes.into_iter().zip(PLANES_PER_DRAW * draw..) {
                let digit = _mm512_srai_epi32::<31>(shifted(lanes.thresholds, m));
                below = _mm512_or_si512(
                    below,
                    _mm512_ternarylogic_epi32::<A_AND_NOT_B_AND_C>(equal, plane, digit),
                );
                equal = _mm512_ternarylogic_epi32::<A_AND_B_XNOR_C>(equal, plane, digit);
            }
            let rest = shifted(lanes.thresholds, PLANES_PER_DRAW * (draw + 1));
            equal = _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(rest, rest), equal);
        }
        let mut bits = [0u32; LANES];
        store512(&mut bits, below);
        for (&slot, bits) in self.slots[start..].iter().zip(bits).take(count) {
            add_bits(out, slot, bits);
        }
    }
}

// Truth tables of three inputs: bit 4a + 2b + c is the output.
const XOR: i32 = 0x96;
const MAJORITY_OF_NOT_A_B_C: i32 = 0x8e;
const A_AND_B_XNOR_C: i32 = 0x90;
const A_AND_NOT_B_AND_C: i32 = 0x20;

#[inline]
#[target_feature(enable = "avx512f")]
fn iota() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> __m512i {
    _mm512_set1_epi64(word.into())
}

/// `v << n` per lane; all zeros for 32.
#[inline]
#[target_feature(enable = "avx512f")]
fn shifted(v: __m512i, n: u32) -> __m512i {
    _mm512_sll_epi32(v, _mm_cvtsi32_si128(n as i32))
}
