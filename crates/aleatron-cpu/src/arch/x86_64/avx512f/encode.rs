//! Bernoulli encoding, sixteen 32-bit stream words at a time. See [`slots`](crate::arch::x86_64::slots).

use crate::arch::x86_64::memory::{load512, store512};
use crate::arch::x86_64::slots::{Cursor, FIRST_DRAWS, Slots, add_bits, finish, round_keys};
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::{MULTIPLIERS, ROUNDS};
use aleatron_core::{Length, StreamAddress, Threshold};
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_add_epi32, _mm512_add_epi64, _mm512_mask_shuffle_epi32,
    _mm512_maskz_compress_epi32, _mm512_mul_epu32, _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_sll_epi32, _mm512_slli_epi32, _mm512_srai_epi32,
    _mm512_srli_epi64, _mm512_ternarylogic_epi32, _mm512_test_epi32_mask, _mm512_xor_si512,
};

/// Slots per register.
const LANES: usize = 16;

/// Words per register.
const WORDS: usize = LANES / 2;

/// Words filled between lists being emptied: slots inside must be indexed by `u32`.
const CHUNK: usize = 1 << 20;

/// Undecided slots collected before they are settled: enough that several registers of them are in flight at once.
const ROOM: usize = 256;

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
#[target_feature(enable = "avx512f")]
pub(crate) fn encode(thresholds: &[Threshold], length: Length, address: StreamAddress, out: &mut [u64]) {
    let mut cursor = Cursor::new(thresholds, length, address);
    let philox = Philox::new(address);
    for chunk in out.chunks_mut(CHUNK) {
        let mut undecided = Undecided::new();
        let mut slot = 0;
        for start in (0..chunk.len()).step_by(WORDS) {
            match (cursor.next::<LANES>(), chunk[start..].first_chunk_mut::<WORDS>()) {
                (Slots::OneStream { word, unit, threshold }, Some(block)) => {
                    let lanes = Lanes::of_stream(word, unit, threshold);
                    let (below, equal) = first_planes(&philox.draw_stream(&lanes, unit), |m| {
                        // Looked up: loads have nothing else to do here.
                        _mm512_set1_epi32(DIGITS[(threshold >> 24) as usize][m])
                    });
                    store512(block, below);
                    undecided.push_stream(&lanes, equal, word, threshold, slot);
                }
                (slots, _) => {
                    let lanes = Lanes::of(slots);
                    let (below, equal) = first_planes(&philox.draw(&lanes, 0), |m| lanes.digit(m as u32));
                    let mut block = [0; WORDS];
                    store512(&mut block, below);
                    let filled = WORDS.min(chunk.len() - start);
                    chunk[start..start + filled].copy_from_slice(&block[..filled]);
                    undecided.push(&lanes, equal, u16::MAX >> (LANES - 2 * filled), slot);
                }
            }
            if undecided.len > ROOM - LANES {
                undecided.settle(&philox, chunk);
            }
            slot += LANES as u32;
        }
        undecided.settle(&philox, chunk);
    }
    finish(thresholds, length, out);
}

/// What sixteen slots draw and compare with, one per 32-bit lane.
pub(super) struct Lanes {
    pub(super) words: __m512i,
    pub(super) units: __m512i,
    pub(super) thresholds: __m512i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of_stream(word: u32, unit: u32, threshold: u32) -> Self {
        Self {
            words: _mm512_add_epi32(_mm512_set1_epi32(word as i32), iota()),
            units: _mm512_set1_epi32(unit as i32),
            thresholds: _mm512_set1_epi32(threshold as i32),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of(slots: Slots<LANES>) -> Self {
        match slots {
            Slots::OneStream { word, unit, threshold } => Self::of_stream(word, unit, threshold),
            Slots::Mixed { words, units, thresholds } => Self::of_slots(&words, &units, &thresholds),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of_slots(words: &[u32; LANES], units: &[u32; LANES], thresholds: &[u32; LANES]) -> Self {
        Self { words: load512(words), units: load512(units), thresholds: load512(thresholds) }
    }

    /// Digit `m` of the thresholds, in all bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn digit(&self, m: u32) -> __m512i {
        _mm512_srai_epi32::<31>(_mm512_sll_epi32(self.thresholds, _mm_cvtsi32_si128(m as i32)))
    }

    /// The bits among `equal`, those that equal their threshold in the first eight planes, that are below it further down.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn further_planes(&self, mut equal: __m512i, philox: &Philox) -> __m512i {
        let mut below = _mm512_setzero_si512();
        for first in (FIRST_DRAWS as u32..DRAWS).step_by(2) {
            let draws = philox.draw::<2>(self, first);
            for (&plane, m) in draws.as_flattened().iter().zip(PLANES_PER_DRAW * first..) {
                let digit = self.digit(m);
                let less = _mm512_ternarylogic_epi32::<A_AND_NOT_B_AND_C>(equal, plane, digit);
                below = _mm512_or_si512(below, less);
                equal = _mm512_ternarylogic_epi32::<A_AND_B_XNOR_C>(equal, plane, digit);
            }
            if _mm512_test_epi32_mask(equal, equal) == 0 {
                break;
            }
        }
        below
    }
}

/// What all draws of a call share.
pub(super) struct Philox {
    row: u32,
    tag: u32,
    keys: [[u64; 2]; ROUNDS],
}

impl Philox {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(address: StreamAddress) -> Self {
        Self { row: address.row, tag: address.tag(), keys: round_keys(address) }
    }

    /// Draws `first`, `first + 1`, … of every slot: four planes each.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn draw<const N: usize>(&self, lanes: &Lanes, first: u32) -> [[__m512i; 4]; N] {
        // A multiplication takes the low halves of 64-bit lanes: the even slots as they lie, the odd ones shifted down.
        let mut counters = [[[_mm512_setzero_si512(); 4]; 2]; N];
        let odd_units = _mm512_srli_epi64::<32>(lanes.units);
        let (row, tag) = (splat(self.row.into()), splat(self.tag.into()));
        for (counters, draw) in counters.iter_mut().zip(first..) {
            let c0 = _mm512_or_si512(_mm512_slli_epi32::<3>(lanes.words), _mm512_set1_epi32(draw as i32));
            counters[0] = [c0, lanes.units, row, tag];
            counters[1] = [_mm512_srli_epi64::<32>(c0), odd_units, row, tag];
        }
        self.rounds::<0>(counters.as_flattened_mut());
        merged(&counters)
    }

    /// The first two draws of slots of one stream. Counter words 1 to 3 are the same in all lanes, so half of the first
    /// two rounds is made once, in scalar registers, and the second draw's first product is the first one's plus the
    /// multiplier.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn draw_stream(&self, lanes: &Lanes, unit: u32) -> [[__m512i; 4]; FIRST_DRAWS] {
        let [m0, m1] = MULTIPLIERS.map(u64::from);
        let [[k0, k1], [l0, l1]] = [self.keys[0], self.keys[1]];
        let row = u64::from(self.row) * m1;
        let c0 = row >> 32 ^ u64::from(unit) ^ k0;
        let c0 = (c0 & 0xffff_ffff) * m0;
        let (tag, low) = (splat(u64::from(self.tag) ^ k1), splat(row ^ l0));
        let (high, c3) = (splat(c0 >> 32 ^ l1), splat(c0));
        let even = _mm512_mul_epu32(_mm512_slli_epi32::<3>(lanes.words), splat(m0));
        let odd = _mm512_mul_epu32(_mm512_srli_epi64::<29>(lanes.words), splat(m0));
        let mut counters = [[[_mm512_setzero_si512(); 4]; 2]; FIRST_DRAWS];
        let mut first = [even, odd];
        for counters in &mut counters {
            for (counter, first) in counters.iter_mut().zip(&mut first) {
                let c2 = _mm512_xor_si512(_mm512_srli_epi64::<32>(*first), tag);
                let p1 = _mm512_mul_epu32(c2, splat(m1));
                let c0 = _mm512_xor_si512(_mm512_srli_epi64::<32>(p1), low);
                *counter = [c0, p1, _mm512_xor_si512(*first, high), c3];
                *first = _mm512_add_epi64(*first, splat(m0));
            }
        }
        self.rounds::<2>(counters.as_flattened_mut());
        merged(&counters)
    }

    /// Rounds `FIRST` and on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rounds<const FIRST: usize>(&self, counters: &mut [[__m512i; 4]]) {
        let multipliers = MULTIPLIERS.map(|m| splat(m.into()));
        macro_rules! rounds {
            ($($round:literal)*) => {$(if $round >= FIRST {
                let key = [splat(self.keys[$round][0]), splat(self.keys[$round][1])];
                for [c0, c1, c2, c3] in counters.iter_mut() {
                    let p0 = _mm512_mul_epu32(*c0, multipliers[0]);
                    let p1 = _mm512_mul_epu32(*c2, multipliers[1]);
                    *c0 = _mm512_ternarylogic_epi32::<XOR>(_mm512_srli_epi64::<32>(p1), *c1, key[0]);
                    *c2 = _mm512_ternarylogic_epi32::<XOR>(_mm512_srli_epi64::<32>(p0), *c3, key[1]);
                    // The high halves of these products are left in place: nothing reads them.
                    (*c1, *c3) = (p1, p0);
                }
            })*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9);
    }
}

/// Even and odd slots in one register again.
#[inline]
#[target_feature(enable = "avx512f")]
fn merged<const N: usize>(counters: &[[[__m512i; 4]; 2]; N]) -> [[__m512i; 4]; N] {
    let mut draws = [[_mm512_setzero_si512(); 4]; N];
    for (planes, [even, odd]) in draws.iter_mut().zip(counters) {
        for i in 0..4 {
            planes[i] = _mm512_mask_shuffle_epi32::<0b10_10_00_00>(even[i], 0xaaaa, odd[i]);
        }
    }
    draws
}

/// Slots with bits still equal to their threshold, waiting to fill registers.
struct Undecided {
    len: usize,
    slots: [u32; ROOM],
    words: [u32; ROOM],
    units: [u32; ROOM],
    thresholds: [u32; ROOM],
    equal: [u32; ROOM],
}

impl Undecided {
    fn new() -> Self {
        let none = [0; ROOM];
        Self { len: 0, slots: none, words: none, units: none, thresholds: none, equal: none }
    }

    /// Puts the lanes with open bits on the list, unless their threshold has only zeros left to compare with.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn push(&mut self, lanes: &Lanes, equal: __m512i, filled: u16, first_slot: u32) {
        let rest = _mm512_slli_epi32::<{ FIRST_DRAWS as u32 * PLANES_PER_DRAW }>(lanes.thresholds);
        let open = _mm512_test_epi32_mask(equal, equal) & _mm512_test_epi32_mask(rest, rest) & filled;
        let kept = |values| _mm512_maskz_compress_epi32(open, values);
        let slots = _mm512_add_epi32(_mm512_set1_epi32(first_slot as i32), iota());
        self.append(
            [kept(slots), kept(lanes.words), kept(lanes.units), kept(lanes.thresholds), kept(equal)],
            open.count_ones() as usize,
        );
    }

    /// As [`Self::push`], for slots of one stream from `word` on: what is the same in all lanes needs no picking.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn push_stream(&mut self, lanes: &Lanes, equal: __m512i, word: u32, threshold: u32, first_slot: u32) {
        if threshold << (FIRST_DRAWS as u32 * PLANES_PER_DRAW) == 0 {
            return;
        }
        let open = _mm512_test_epi32_mask(equal, equal);
        let place = _mm512_maskz_compress_epi32(open, iota());
        let at = |first: u32| _mm512_add_epi32(_mm512_set1_epi32(first as i32), place);
        let equal = _mm512_maskz_compress_epi32(open, equal);
        self.append(
            [at(first_slot), at(word), lanes.units, lanes.thresholds, equal],
            open.count_ones() as usize,
        );
    }

    /// Appends the first `n` lanes; what the others hold is overwritten by the next, or is past the end.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn append(&mut self, [slots, words, units, thresholds, equal]: [__m512i; 5], n: usize) {
        let at = self.len.min(ROOM - LANES);
        for (list, values) in [
            (&mut self.slots, slots),
            (&mut self.words, words),
            (&mut self.units, units),
            (&mut self.thresholds, thresholds),
            (&mut self.equal, equal),
        ] {
            if let Some(block) = list[at..].first_chunk_mut::<LANES>() {
                store512(block, values);
            }
        }
        self.len = at + n;
    }

    /// Decides all slots on the list, sixteen at a time.
    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    fn settle(&mut self, philox: &Philox, out: &mut [u64]) {
        // Lanes past the end of the list hold what was there before: nothing is open in them.
        self.equal[self.len..self.len.next_multiple_of(LANES)].fill(0);
        let columns = [&self.slots, &self.words, &self.units, &self.thresholds, &self.equal];
        let [slots, words, units, thresholds, equal] = columns.map(|list| list.as_chunks::<LANES>().0);
        for i in 0..self.len.div_ceil(LANES) {
            let lanes = Lanes::of_slots(&words[i], &units[i], &thresholds[i]);
            let mut bits = [0u32; LANES];
            store512(&mut bits, lanes.further_planes(load512(&equal[i]), philox));
            for (&slot, bits) in slots[i].iter().zip(bits) {
                add_bits(out, slot, bits);
            }
        }
        self.len = 0;
    }
}

/// The digits of each 8-bit number, first to last, each in all bits.
static DIGITS: [[i32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut i = 0;
    while i < 256 * 8 {
        table[i / 8][i % 8] = -((i / 8 >> (7 - i % 8) & 1) as i32);
        i += 1;
    }
    table
};

/// The bits after the first eight planes, whose digits of the thresholds are `digit(m)`: those below their threshold, and those
/// that equal it so far.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_planes(draws: &[[__m512i; 4]; FIRST_DRAWS], digit: impl Fn(usize) -> __m512i) -> (__m512i, __m512i) {
    let (mut below, mut equal) = (_mm512_setzero_si512(), _mm512_set1_epi32(-1));
    // From the last plane up: a bit is below if this plane says so, or it is equal here and below further down.
    for m in (0..8).rev() {
        let (plane, digit) = (draws[m / 4][m % 4], digit(m));
        below = _mm512_ternarylogic_epi32::<MAJORITY_OF_NOT_A_B_C>(plane, below, digit);
        equal = _mm512_ternarylogic_epi32::<A_AND_B_XNOR_C>(equal, plane, digit);
    }
    (below, equal)
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
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word as i64)
}
