//! Philox for a register of 32-bit stream words at a time.
//!
//! The counter of a draw is (stream word and draw, unit, row, tag). It takes three rounds until all four have met:
//! before, most products depend on the stream word alone or on the unit alone. Those are made once, as a [`WordPart`] for
//! all units and a [`UnitPart`] for all words, and [`Philox::draw`] goes on from there with one product instead of six.

use super::simd::Lanes;
use aleatron_core::StreamAddress;
use aleatron_core::philox::{KEY_INCREMENTS, MULTIPLIERS, ROUNDS};
use std::hint::black_box;

/// What the first three rounds make of a stream word and a draw: even lanes and odd ones, in the low halves of 64-bit lanes.
pub(super) type WordPart<V> = [[V; 4]; 2];

/// What they make of a unit.
#[derive(Clone, Copy)]
pub(super) struct UnitPart<V> {
    high: V,
    low: V,
}

/// The planes of a draw.
pub(super) type Planes<V> = [V; 4];

/// What all draws of a row share.
pub(super) struct Philox<S> {
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

    /// Draw `draw` of the stream words in 32-bit lanes.
    #[inline(always)]
    pub(super) fn word_part(&self, words: S::V, draw: u32) -> WordPart<S::V> {
        let (simd, keys) = (self.simd, &self.keys);
        let c0 = simd.add(simd.times_8(words), simd.splat(draw));
        let row = self.row * u64::from(MULTIPLIERS[1]);
        let mut parts = [[c0; 4]; 2];
        for (part, c0) in parts.iter_mut().zip([c0, simd.high(c0)]) {
            let first = simd.multiply(c0, simd.splat(MULTIPLIERS[0]));
            let c2 = simd.xor(simd.high(first), simd.splat(self.tag ^ keys[0][1]));
            let second = simd.multiply(c2, simd.splat(MULTIPLIERS[1]));
            let c0 = simd.xor(simd.high(second), simd.splat(row as u32 ^ keys[1][0]));
            let third = simd.multiply(c0, simd.splat(MULTIPLIERS[0]));
            *part = [
                simd.xor(first, simd.splat(keys[1][1])),
                simd.xor(second, simd.splat(keys[2][0])),
                simd.xor(simd.high(third), simd.splat(keys[2][1])),
                third,
            ];
        }
        parts
    }

    /// The units in the low halves of 64-bit lanes.
    #[inline(always)]
    pub(super) fn unit_part(&self, units: S::V) -> UnitPart<S::V> {
        let simd = self.simd;
        let row = self.row * u64::from(MULTIPLIERS[1]) >> 32;
        let c0 = simd.xor(units, simd.splat(row as u32 ^ self.keys[0][0]));
        let low = simd.multiply(c0, simd.splat(MULTIPLIERS[0]));
        UnitPart { high: simd.high(low), low }
    }

    /// The draws of `N` word parts, for the units of even lanes and of odd ones.
    #[inline(always)]
    pub(super) fn draw<const N: usize>(
        &self,
        words: &[WordPart<S::V>; N],
        units: &[[UnitPart<S::V>; 2]; N],
    ) -> [Planes<S::V>; N] {
        let simd = self.simd;
        let multipliers = [simd.splat(MULTIPLIERS[0]), simd.splat(MULTIPLIERS[1])];
        let mut counters = *words;
        for (counters, units) in counters.iter_mut().zip(units) {
            for (counter, unit) in counters.iter_mut().zip(units) {
                let [c2, c0, high, c3] = *counter;
                let product = simd.multiply(simd.xor(unit.high, c2), multipliers[1]);
                *counter = [simd.xor(simd.high(product), c0), product, simd.xor(high, unit.low), c3];
            }
        }
        // The high halves of products are left in place: nothing reads them.
        macro_rules! rounds {
            ($($round:literal)*) => {$(
                let key = [simd.splat(self.keys[$round][0]), simd.splat(self.keys[$round][1])];
                for [c0, c1, c2, c3] in counters.as_flattened_mut() {
                    let p0 = simd.multiply(*c0, multipliers[0]);
                    let p1 = simd.multiply(*c2, multipliers[1]);
                    *c0 = simd.xor3(simd.high(p1), *c1, key[0]);
                    *c2 = simd.xor3(simd.high(p0), *c3, key[1]);
                    (*c1, *c3) = (p1, p0);
                }
            )*};
        }
        rounds!(3 4 5 6 7 8 9);
        let mut draws = [[multipliers[0]; 4]; N];
        for (planes, [even, odd]) in draws.iter_mut().zip(&counters) {
            for i in 0..4 {
                planes[i] = simd.interleave(even[i], odd[i]);
            }
        }
        draws
    }
}

/// Makes `draws` draws and throws them away; some number that depends on all of them.
#[inline(always)]
pub(super) fn draw_many<S: Lanes>(simd: S, draws: usize) -> u32 {
    // The compiler must not see what the counters are.
    let philox = Philox::new(simd, black_box(StreamAddress::input(1, 2, 3)));
    let (words, mut units) = (simd.splat(black_box(4)), simd.splat(black_box(5)));
    let parts = [philox.word_part(words, 0), philox.word_part(words, 1)];
    let mut sum = simd.splat(0);
    for _ in 0..draws / (2 * S::LANES) {
        let unit = [philox.unit_part(units); 2];
        for &plane in philox.draw(&parts, &[unit; 2]).as_flattened() {
            sum = simd.xor(sum, plane);
        }
        units = simd.add(units, simd.splat(1));
    }
    simd.nonzero(sum)
}
