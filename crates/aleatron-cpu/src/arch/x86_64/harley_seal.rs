//! Harley-Seal counting, generic over the width of registers.
//!
//! A carry-save adder turns three words into a word of sums and a word of carries. A tree of
//! fifteen of them turns sixteen registers into one of sixteens and four of remainders, so the
//! costly popcount of a register, a lookup of its nibbles, runs once per sixteen (Muła, Kurz and
//! Lemire, "Faster Population Counts Using AVX2 Instructions").

use crate::arch::portable::count as portable;
use crate::arch::vector::simd::Simd;

/// The instructions required by the adders.
pub(super) trait CountOnes: Simd {
    /// Returns the sums of three bits at each position, and their carries; `c` should be the
    /// operand that is ready last.
    fn carry_save(self, a: Self::V, b: Self::V, c: Self::V) -> (Self::V, Self::V);

    /// Counts the ones of each 64-bit lane.
    fn popcount(self, v: Self::V) -> Self::V;

    /// Adds 64-bit lanes.
    fn add_words(self, a: Self::V, b: Self::V) -> Self::V;

    /// Returns the sum of all 64-bit lanes.
    fn sum_words(self, v: Self::V) -> u64;
}

/// Number of registers that are added to a [`Tree`] at a time.
const GROUP: usize = 16;

/// Counts the ones of `words`.
#[inline(always)]
pub(super) fn ones<S: CountOnes>(simd: S, words: &[u64]) -> u64 {
    let groups = words.chunks_exact(GROUP * S::WORDS);
    let blocks = groups.remainder().chunks_exact(S::WORDS);
    let rest = portable::ones(blocks.remainder());
    let mut tree = Tree::new(simd);
    for group in groups {
        let mut registers = [simd.zero(); GROUP];
        for (register, words) in registers.iter_mut().zip(group.chunks_exact(S::WORDS)) {
            *register = simd.load_words(words);
        }
        tree.add(simd, registers);
    }
    let mut total = tree.total(simd);
    for words in blocks {
        total = simd.add_words(total, simd.popcount(simd.load_words(words)));
    }
    simd.sum_words(total) + rest
}

/// Counts the ones that `a` and `b`, of one length, share.
#[inline(always)]
pub(super) fn and_ones<S: CountOnes>(simd: S, a: &[u64], b: &[u64]) -> u64 {
    let (a_groups, b_groups) = (a.chunks_exact(GROUP * S::WORDS), b.chunks_exact(GROUP * S::WORDS));
    let (a, b) = (a_groups.remainder(), b_groups.remainder());
    let (a_blocks, b_blocks) = (a.chunks_exact(S::WORDS), b.chunks_exact(S::WORDS));
    let rest = portable::and_ones(a_blocks.remainder(), b_blocks.remainder());
    let mut tree = Tree::new(simd);
    for (a, b) in a_groups.zip(b_groups) {
        let mut registers = [simd.zero(); GROUP];
        let words = a.chunks_exact(S::WORDS).zip(b.chunks_exact(S::WORDS));
        for (register, (a, b)) in registers.iter_mut().zip(words) {
            *register = simd.and(simd.load_words(a), simd.load_words(b));
        }
        tree.add(simd, registers);
    }
    let mut total = tree.total(simd);
    for (a, b) in a_blocks.zip(b_blocks) {
        let shared = simd.and(simd.load_words(a), simd.load_words(b));
        total = simd.add_words(total, simd.popcount(shared));
    }
    simd.sum_words(total) + rest
}

/// Ones not yet carried into sixteens, by weight, and the counted sixteens.
struct Tree<V> {
    ones: V,
    twos: V,
    fours: V,
    eights: V,
    sixteens: V,
}

impl<V: Copy> Tree<V> {
    #[inline(always)]
    fn new<S: CountOnes<V = V>>(simd: S) -> Self {
        let zero = simd.zero();
        Self { ones: zero, twos: zero, fours: zero, eights: zero, sixteens: zero }
    }

    /// Adds sixteen registers. The stored sums are the last operand of each adder: only one
    /// operation depends on them, not two.
    #[inline(always)]
    fn add<S: CountOnes<V = V>>(&mut self, simd: S, registers: [V; GROUP]) {
        let mut eights = [simd.zero(); 2];
        for (eight, registers) in eights.iter_mut().zip(registers.as_chunks::<8>().0) {
            let mut fours = [simd.zero(); 2];
            for (four, registers) in fours.iter_mut().zip(registers.as_chunks::<4>().0) {
                let mut twos = [simd.zero(); 2];
                for (two, [a, b]) in twos.iter_mut().zip(registers.as_chunks::<2>().0) {
                    (self.ones, *two) = simd.carry_save(*a, *b, self.ones);
                }
                (self.twos, *four) = simd.carry_save(twos[0], twos[1], self.twos);
            }
            (self.fours, *eight) = simd.carry_save(fours[0], fours[1], self.fours);
        }
        let sixteen;
        (self.eights, sixteen) = simd.carry_save(eights[0], eights[1], self.eights);
        self.sixteens = simd.add_words(self.sixteens, simd.popcount(sixteen));
    }

    /// Returns the count of each 64-bit lane.
    #[inline(always)]
    fn total<S: CountOnes<V = V>>(&self, simd: S) -> V {
        let mut total = self.sixteens;
        for part in [self.eights, self.fours, self.twos, self.ones] {
            total = simd.add_words(simd.add_words(total, total), simd.popcount(part));
        }
        total
    }
}
