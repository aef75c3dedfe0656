//! Philox for a register of 32-bit stream words at a time.
//!
//! The counter of a draw is (stream word and draw, unit, row, tag). It takes three rounds until all
//! four words are mixed: before, most products depend on the stream word alone or on the unit
//! alone. These products are computed once, as a [`WordPart`] for all units and a [`UnitPart`] for
//! all words, and [`Philox::draw`] continues from there with one product instead of six.

use super::simd::Lanes;
use aleatron_core::StreamAddress;
use aleatron_core::philox::{KEY_INCREMENTS, MULTIPLIERS, ROUNDS};
use std::hint::black_box;

/// The contribution of a stream word and a draw to the first three rounds.
pub(super) type WordPart<C> = [C; 4];

/// The contribution of a unit.
#[derive(Clone, Copy)]
pub(super) struct UnitPart<C> {
    high: C,
    low: C,
}

/// The planes of a draw.
pub(super) type Planes<V> = [V; 4];

/// The state shared by all draws of a row.
pub(in crate::arch) struct Philox<S> {
    simd: S,
    row: u64,
    tag: u32,
    keys: [[u32; 2]; ROUNDS],
}

impl<S: Lanes> Philox<S> {
    #[inline(always)]
    pub(super) fn new(simd: S, address: StreamAddress) -> Self {
        let mut keys = [address.key(); ROUNDS];
        for round in 1..ROUNDS {
            for i in 0..2 {
                keys[round][i] = keys[round - 1][i].wrapping_add(KEY_INCREMENTS[i]);
            }
        }
        Self { simd, row: address.row.into(), tag: address.tag(), keys }
    }

    #[inline(always)]
    pub(super) fn simd(&self) -> S {
        self.simd
    }

    /// Computes draw `draw` of the stream words in 32-bit lanes.
    #[inline(always)]
    pub(super) fn word_part(&self, words: S::V, draw: u32) -> WordPart<S::Counters> {
        let (simd, keys) = (self.simd, &self.keys);
        let multipliers = self.multipliers();
        let row = self.row * u64::from(MULTIPLIERS[1]);
        let c0 = simd.lanes_to_counters(simd.add(simd.times_8(words), simd.splat(draw)));
        let first = simd.multiply(c0, multipliers[0]);
        let c2 = self.xor(simd.high(first), self.tag ^ keys[0][1]);
        let second = simd.multiply(c2, multipliers[1]);
        let c0 = self.xor(simd.high(second), row as u32 ^ keys[1][0]);
        let third = simd.multiply(c0, multipliers[0]);
        [
            self.xor(simd.low(first), keys[1][1]),
            self.xor(simd.low(second), keys[2][0]),
            self.xor(simd.high(third), keys[2][1]),
            simd.low(third),
        ]
    }

    /// Computes the part of the units.
    #[inline(always)]
    pub(super) fn unit_part(&self, units: S::Counters) -> UnitPart<S::Counters> {
        let simd = self.simd;
        let row = self.row * u64::from(MULTIPLIERS[1]) >> 32;
        let products =
            simd.multiply(self.xor(units, row as u32 ^ self.keys[0][0]), self.multipliers()[0]);
        UnitPart { high: simd.high(products), low: simd.low(products) }
    }

    /// Computes the draws of `N` word parts, each for its units.
    #[inline(always)]
    pub(super) fn draw<const N: usize>(
        &self,
        words: &[WordPart<S::Counters>; N],
        units: &[UnitPart<S::Counters>; N],
    ) -> [Planes<S::V>; N] {
        let simd = self.simd;
        let multipliers = self.multipliers();
        let mut counters = *words;
        for (counter, unit) in counters.iter_mut().zip(units) {
            let [c2, c0, high, c3] = *counter;
            let products = simd.multiply(simd.xor_counters(unit.high, c2), multipliers[1]);
            *counter = [
                simd.xor_counters(simd.high(products), c0),
                simd.low(products),
                simd.xor_counters(high, unit.low),
                c3,
            ];
        }
        macro_rules! rounds {
            ($($round:literal)*) => {$(
                let [k0, k1] = &self.keys[$round];
                let key = [simd.splat_counters(*k0), simd.splat_counters(*k1)];
                for [c0, c1, c2, c3] in &mut counters {
                    let p0 = simd.multiply(*c0, multipliers[0]);
                    let p1 = simd.multiply(*c2, multipliers[1]);
                    *c0 = simd.xor3_counters(simd.high(p1), *c1, key[0]);
                    *c2 = simd.xor3_counters(simd.high(p0), *c3, key[1]);
                    (*c1, *c3) = (simd.low(p1), simd.low(p0));
                }
            )*};
        }
        rounds!(3 4 5 6 7 8 9);
        let mut draws = [[simd.zero(); 4]; N];
        for (planes, counters) in draws.iter_mut().zip(&counters) {
            for (plane, counter) in planes.iter_mut().zip(counters) {
                *plane = simd.counters_to_lanes(*counter);
            }
        }
        draws
    }

    #[inline(always)]
    fn multipliers(&self) -> [S::Counters; 2] {
        [self.simd.splat_counters(MULTIPLIERS[0]), self.simd.splat_counters(MULTIPLIERS[1])]
    }

    #[inline(always)]
    fn xor(&self, counters: S::Counters, word: u32) -> S::Counters {
        self.simd.xor_counters(counters, self.simd.splat_counters(word))
    }
}

/// Computes `draws` draws and returns a number that depends on all of them.
#[inline(always)]
pub(in crate::arch) fn draw_many<S: Lanes>(simd: S, draws: usize) -> u32 {
    // The counters must be opaque to the compiler.
    let philox = Philox::new(simd, black_box(StreamAddress::input(1, 2, 3)));
    let (words, mut units) = (simd.splat(black_box(4)), simd.splat(black_box(5)));
    let parts = [philox.word_part(words, 0), philox.word_part(words, 1)];
    let mut sum = simd.splat(0);
    for _ in 0..draws / (2 * S::LANES) {
        let unit = philox.unit_part(simd.pairs_to_counters(units));
        for &plane in philox.draw(&parts, &[unit; 2]).as_flattened() {
            sum = simd.xor(sum, plane);
        }
        units = simd.add(units, simd.splat(1));
    }
    simd.nonzero(sum)
}
