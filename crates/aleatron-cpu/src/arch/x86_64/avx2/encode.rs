//! Bernoulli encoding, eight 32-bit stream words at a time. See [`slots`](crate::arch::x86_64::slots).

use crate::arch::x86_64::memory::{load256, store256};
use crate::arch::x86_64::slots::{Cursor, FIRST_DRAWS, Slots, add_bits, finish, round_keys};
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::{MULTIPLIERS, ROUNDS};
use aleatron_core::{Length, StreamAddress, Threshold};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32,
    _mm256_mul_epu32, _mm256_or_si256, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32,
    _mm256_setzero_si256, _mm256_sll_epi32, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_srai_epi32,
    _mm256_srli_epi64, _mm256_testz_si256, _mm256_xor_si256,
};

/// Slots per register.
const LANES: usize = 8;

/// Words per register.
const WORDS: usize = LANES / 2;

/// Words filled between lists being emptied: slots inside must be indexed by `u32`.
const CHUNK: usize = 1 << 20;

/// Undecided slots collected before they are settled: enough that several registers of them are in flight at once.
const ROOM: usize = 256;

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
#[target_feature(enable = "avx2")]
pub(crate) fn encode(thresholds: &[Threshold], length: Length, address: StreamAddress, out: &mut [u64]) {
    let mut cursor = Cursor::new(thresholds, length, address);
    let philox = Philox::new(address);
    for chunk in out.chunks_mut(CHUNK) {
        let mut undecided = Undecided::new();
        let mut slot = 0;
        for start in (0..chunk.len()).step_by(WORDS) {
            let lanes = Lanes::at(&mut cursor);
            let (below, equal) = lanes.first_planes(&philox);
            match chunk[start..].first_chunk_mut::<WORDS>() {
                Some(block) => {
                    store256(block, below);
                    undecided.push(&lanes, equal, LANES, slot);
                }
                None => {
                    let rest = &mut chunk[start..];
                    let mut block = [0; WORDS];
                    store256(&mut block, below);
                    rest.copy_from_slice(&block[..rest.len()]);
                    undecided.push(&lanes, equal, 2 * rest.len(), slot);
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

/// What eight slots draw and compare with, one per 32-bit lane.
pub(super) struct Lanes {
    pub(super) words: __m256i,
    pub(super) units: __m256i,
    pub(super) thresholds: __m256i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn at(cursor: &mut Cursor<'_>) -> Self {
        match cursor.next::<LANES>() {
            Slots::OneStream { word, unit, threshold } => Self {
                words: _mm256_add_epi32(
                    _mm256_set1_epi32(word as i32),
                    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                ),
                units: _mm256_set1_epi32(unit as i32),
                thresholds: _mm256_set1_epi32(threshold as i32),
            },
            Slots::Mixed { words, units, thresholds } => {
                Self { words: load256(&words), units: load256(&units), thresholds: load256(&thresholds) }
            }
        }
    }

    /// The bits after the first eight planes: those below their threshold, and those that equal it so far.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_planes(&self, philox: &Philox) -> (__m256i, __m256i) {
        let draws = philox.draw::<FIRST_DRAWS>(self, 0);
        let (mut below, mut equal) = (_mm256_setzero_si256(), _mm256_set1_epi32(-1));
        // From the last plane up: a bit is below if this plane says so, or it is equal here and below further down.
        macro_rules! planes {
            ($($m:literal)*) => {$(
                let plane = draws[$m / 4][$m % 4];
                let digit = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<$m>(self.thresholds));
                let either = _mm256_andnot_si256(plane, _mm256_or_si256(below, digit));
                below = _mm256_or_si256(either, _mm256_and_si256(below, digit));
                equal = _mm256_andnot_si256(_mm256_xor_si256(plane, digit), equal);
            )*};
        }
        planes!(7 6 5 4 3 2 1 0);
        (below, equal)
    }

    /// The bits among `equal`, those that equal their threshold in the first eight planes, that are below it further down.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn further_planes(&self, mut equal: __m256i, philox: &Philox) -> __m256i {
        let mut below = _mm256_setzero_si256();
        for first in (FIRST_DRAWS as u32..DRAWS).step_by(2) {
            let draws = philox.draw::<2>(self, first);
            for (&plane, m) in draws.as_flattened().iter().zip(PLANES_PER_DRAW * first..) {
                let digit = _mm256_sll_epi32(self.thresholds, _mm_cvtsi32_si128(m as i32));
                let digit = _mm256_srai_epi32::<31>(digit);
                let less = _mm256_and_si256(_mm256_andnot_si256(plane, equal), digit);
                below = _mm256_or_si256(below, less);
                equal = _mm256_andnot_si256(_mm256_xor_si256(plane, digit), equal);
            }
            if _mm256_testz_si256(equal, equal) == 1 {
                break;
            }
        }
        below
    }
}

/// What all draws of a call share.
pub(super) struct Philox {
    row: __m256i,
    tag: __m256i,
    keys: [[u64; 2]; ROUNDS],
}

impl Philox {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(address: StreamAddress) -> Self {
        let (row, tag) = (_mm256_set1_epi64x(address.row.into()), _mm256_set1_epi64x(address.tag().into()));
        Self { row, tag, keys: round_keys(address) }
    }

    /// Draws `first`, `first + 1`, … of every slot: four planes each.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn draw<const N: usize>(&self, lanes: &Lanes, first: u32) -> [[__m256i; 4]; N] {
        // A multiplication takes the low halves of 64-bit lanes: the even slots as they lie, the odd ones shifted down.
        let mut counters = [[[_mm256_setzero_si256(); 4]; 2]; N];
        let odd_units = _mm256_srli_epi64::<32>(lanes.units);
        for (counters, draw) in counters.iter_mut().zip(first..) {
            let c0 = _mm256_or_si256(_mm256_slli_epi32::<3>(lanes.words), _mm256_set1_epi32(draw as i32));
            counters[0] = [c0, lanes.units, self.row, self.tag];
            counters[1] = [_mm256_srli_epi64::<32>(c0), odd_units, self.row, self.tag];
        }
        let multipliers = MULTIPLIERS.map(|m| _mm256_set1_epi64x(m.into()));
        macro_rules! rounds {
            ($($round:literal)*) => {$(
                let key = [splat(&self.keys[$round][0]), splat(&self.keys[$round][1])];
                for [c0, c1, c2, c3] in counters.as_flattened_mut() {
                    let p0 = _mm256_mul_epu32(*c0, multipliers[0]);
                    let p1 = _mm256_mul_epu32(*c2, multipliers[1]);
                    *c0 = _mm256_xor_si256(_mm256_srli_epi64::<32>(p1), _mm256_xor_si256(*c1, key[0]));
                    *c2 = _mm256_xor_si256(_mm256_srli_epi64::<32>(p0), _mm256_xor_si256(*c3, key[1]));
                    // The high halves of these products are left in place: nothing reads them.
                    (*c1, *c3) = (p1, p0);
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9);
        let mut draws = [[_mm256_setzero_si256(); 4]; N];
        for (planes, [even, odd]) in draws.iter_mut().zip(&counters) {
            for i in 0..4 {
                planes[i] = _mm256_blend_epi32::<0xaa>(even[i], _mm256_slli_epi64::<32>(odd[i]));
            }
        }
        draws
    }
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
    #[target_feature(enable = "avx2")]
    fn push(&mut self, lanes: &Lanes, equal: __m256i, filled: usize, first_slot: u32) {
        if _mm256_testz_si256(equal, equal) == 1 {
            return;
        }
        let (words, units) = (spill(lanes.words), spill(lanes.units));
        let (thresholds, equal) = (spill(lanes.thresholds), spill(equal));
        for i in 0..filled {
            // Every slot is written and the open ones kept: cheaper than a branch that cannot be foreseen.
            let at = self.len.min(ROOM - 1);
            (self.slots[at], self.equal[at]) = (first_slot + i as u32, equal[i]);
            (self.words[at], self.units[at], self.thresholds[at]) = (words[i], units[i], thresholds[i]);
            let rest = thresholds[i] << (FIRST_DRAWS as u32 * PLANES_PER_DRAW);
            self.len += usize::from(equal[i] != 0 && rest != 0);
        }
    }

    /// Decides all slots on the list, eight at a time.
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    fn settle(&mut self, philox: &Philox, out: &mut [u64]) {
        // Lanes past the end of the list hold what was there before: nothing is open in them.
        self.equal[self.len..self.len.next_multiple_of(LANES)].fill(0);
        let columns = [&self.slots, &self.words, &self.units, &self.thresholds, &self.equal];
        let [slots, words, units, thresholds, equal] = columns.map(|list| list.as_chunks::<LANES>().0);
        for i in 0..self.len.div_ceil(LANES) {
            let lanes = Lanes {
                words: load256(&words[i]),
                units: load256(&units[i]),
                thresholds: load256(&thresholds[i]),
            };
            let mut bits = [0u32; LANES];
            store256(&mut bits, lanes.further_planes(load256(&equal[i]), philox));
            for (&slot, bits) in slots[i].iter().zip(bits) {
                add_bits(out, slot, bits);
            }
        }
        self.len = 0;
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: &u64) -> __m256i {
    _mm256_set1_epi64x(*word as i64)
}

#[inline]
#[target_feature(enable = "avx2")]
fn spill(v: __m256i) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    store256(&mut lanes, v);
    lanes
}
