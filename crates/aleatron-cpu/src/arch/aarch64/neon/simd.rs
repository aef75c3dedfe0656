//! 128-bit registers of 32-bit lanes.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "a `Neon` proves that the machine has the instructions"
)]

use crate::arch::aarch64::memory::{load_u8, load_u32, load_u64, store_u32, store_u64};
use crate::arch::vector::simd::{Lanes, Simd};
use std::arch::aarch64::{
    uint32x4_t, uint64x2_t, vaddq_u32, vaddvq_u32, vandq_u32, vbicq_u32, vbslq_u32, vdupq_n_u32,
    veorq_u32, vget_low_u32, vmull_high_u32, vmull_u32, vqtbl1q_u8, vreinterpretq_u8_u32,
    vreinterpretq_u32_u8, vreinterpretq_u32_u64, vreinterpretq_u64_u32, vshlq_n_u32, vtstq_u32,
    vuzp1q_u32, vuzp2q_u32,
};

/// Proof that the machine has NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// For each mask, the bytes of its lanes, moved to the front.
static COMPRESSED: [[u8; 16]; 16] = {
    let mut table = [[0; 16]; 16];
    let mut mask = 0;
    while mask < 16 {
        let (mut byte, mut at) = (0, 0);
        while byte < 16 {
            if mask >> (byte / 4) & 1 == 1 {
                table[mask][at] = byte;
                at += 1;
            }
            byte += 1;
        }
        mask += 1;
    }
    table
};

impl Simd for Neon {
    type V = uint32x4_t;
    const WORDS: usize = 2;

    #[inline(always)]
    fn load_words(self, words: &[u64]) -> uint32x4_t {
        match words.first_chunk::<2>() {
            Some(block) => unsafe { vreinterpretq_u32_u64(load_u64(block)) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store_words(self, v: uint32x4_t, words: &mut [u64]) {
        if let Some(block) = words.first_chunk_mut::<2>() {
            unsafe { store_u64(block, vreinterpretq_u64_u32(v)) }
        }
    }

    #[inline(always)]
    fn zero(self) -> uint32x4_t {
        self.splat(0)
    }

    #[inline(always)]
    fn and(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        unsafe { vandq_u32(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        unsafe { veorq_u32(a, b) }
    }
}

impl Lanes for Neon {
    #[inline(always)]
    fn load(self, lanes: &[u32]) -> uint32x4_t {
        match lanes.first_chunk::<4>() {
            Some(block) => unsafe { load_u32(block) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store(self, v: uint32x4_t, lanes: &mut [u32]) {
        if let Some(block) = lanes.first_chunk_mut::<4>() {
            unsafe { store_u32(block, v) }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> uint32x4_t {
        unsafe { vdupq_n_u32(word) }
    }

    #[inline(always)]
    fn add(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        unsafe { vaddq_u32(a, b) }
    }

    #[inline(always)]
    fn times_8(self, v: uint32x4_t) -> uint32x4_t {
        unsafe { vshlq_n_u32::<3>(v) }
    }

    #[inline(always)]
    fn digit(self, v: uint32x4_t, m: u32) -> uint32x4_t {
        unsafe { vtstq_u32(v, vdupq_n_u32((1 << 31) >> m)) }
    }

    /// Returns the lanes that are below: if the bits differ, the second number's bit decides.
    #[inline(always)]
    fn less(self, plane: uint32x4_t, below: uint32x4_t, digit: uint32x4_t) -> uint32x4_t {
        unsafe { vbslq_u32(veorq_u32(plane, digit), digit, below) }
    }

    #[inline(always)]
    fn same(self, equal: uint32x4_t, plane: uint32x4_t, digit: uint32x4_t) -> uint32x4_t {
        unsafe { vbicq_u32(equal, veorq_u32(plane, digit)) }
    }

    #[inline(always)]
    fn nonzero(self, v: uint32x4_t) -> u32 {
        let bit = self.load(&[1, 2, 4, 8]);
        unsafe { vaddvq_u32(vandq_u32(vtstq_u32(v, v), bit)) }
    }

    #[inline(always)]
    fn compress(self, mask: u32, v: uint32x4_t) -> uint32x4_t {
        unsafe {
            let bytes = load_u8(&COMPRESSED[mask as usize % 16]);
            vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(v), bytes))
        }
    }

    type Counters = uint32x4_t;
    /// The products of the first two lanes, and of the last two.
    type Products = [uint64x2_t; 2];

    #[inline(always)]
    fn lanes_to_counters(self, lanes: uint32x4_t) -> uint32x4_t {
        lanes
    }

    #[inline(always)]
    fn pairs_to_counters(self, lanes: uint32x4_t) -> uint32x4_t {
        lanes
    }

    #[inline(always)]
    fn counters_to_lanes(self, counters: uint32x4_t) -> uint32x4_t {
        counters
    }

    #[inline(always)]
    fn splat_counters(self, word: u32) -> uint32x4_t {
        self.splat(word)
    }

    #[inline(always)]
    fn multiply(self, counters: uint32x4_t, factors: uint32x4_t) -> [uint64x2_t; 2] {
        unsafe {
            [
                vmull_u32(vget_low_u32(counters), vget_low_u32(factors)),
                vmull_high_u32(counters, factors),
            ]
        }
    }

    #[inline(always)]
    fn high(self, [low, high]: [uint64x2_t; 2]) -> uint32x4_t {
        unsafe { vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)) }
    }

    #[inline(always)]
    fn low(self, [low, high]: [uint64x2_t; 2]) -> uint32x4_t {
        unsafe { vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)) }
    }

    #[inline(always)]
    fn xor_counters(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        self.xor(a, b)
    }

    #[inline(always)]
    fn xor3_counters(self, a: uint32x4_t, b: uint32x4_t, c: uint32x4_t) -> uint32x4_t {
        self.xor(a, self.xor(b, c))
    }
}
