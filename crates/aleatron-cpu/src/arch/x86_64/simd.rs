//! The vector instructions that kernels are written in, once for all widths of registers.
//!
//! Methods are inlined into kernels compiled for the instruction set; only there do they become single instructions.

/// Proof that the machine has an instruction set, and what its registers can do.
pub(super) trait Simd: Copy {
    /// A register.
    type V: Copy;

    /// 64-bit lanes of a register.
    const WORDS: usize;

    /// Reads [`Self::WORDS`] words; zeros where there are fewer.
    fn load_words(self, words: &[u64]) -> Self::V;

    /// Writes all 64-bit lanes, or nothing where there are not as many places.
    fn store_words(self, v: Self::V, words: &mut [u64]);

    /// A register of zeros.
    fn zero(self) -> Self::V;

    fn and(self, a: Self::V, b: Self::V) -> Self::V;

    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
}

/// What counting ones needs.
pub(super) trait CountOnes: Simd {
    /// The sums of three bits at each place, and their carries; `c` may be the one that is ready last.
    fn carry_save(self, a: Self::V, b: Self::V, c: Self::V) -> (Self::V, Self::V);

    /// The ones of each 64-bit lane.
    fn popcount(self, v: Self::V) -> Self::V;

    /// The sums of 64-bit lanes.
    fn add_words(self, a: Self::V, b: Self::V) -> Self::V;

    /// The sum of all 64-bit lanes.
    fn sum_words(self, v: Self::V) -> u64;
}

/// What encoding needs: operations on 32-bit lanes.
pub(super) trait Lanes: Simd {
    /// 32-bit lanes of a register.
    const LANES: usize = 2 * Self::WORDS;

    /// Reads [`Self::LANES`] values; zeros where there are fewer.
    fn load(self, lanes: &[u32]) -> Self::V;

    /// Writes all lanes, or nothing where there are not as many places.
    fn store(self, v: Self::V, lanes: &mut [u32]);

    /// `word` in every 32-bit lane.
    fn splat(self, word: u32) -> Self::V;

    /// The products of the low halves of 64-bit lanes.
    fn multiply(self, a: Self::V, b: Self::V) -> Self::V;

    /// The high halves of 64-bit lanes, moved down.
    fn high(self, v: Self::V) -> Self::V;

    /// The low halves of `a` below those of `b`.
    fn interleave(self, a: Self::V, b: Self::V) -> Self::V;

    fn xor3(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// The sums of 32-bit lanes.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;

    /// 32-bit lanes times 8.
    fn times_8(self, v: Self::V) -> Self::V;

    /// Bit 31 - `m` of each 32-bit lane, in all its bits.
    fn digit(self, v: Self::V, m: u32) -> Self::V;

    /// Whether a number is below another: `below` says so of the planes after this one, in which the first has the bits
    /// `plane` and the second `digit`.
    fn less(self, plane: Self::V, below: Self::V, digit: Self::V) -> Self::V;

    /// `equal` where `plane` is `digit`.
    fn same(self, equal: Self::V, plane: Self::V, digit: Self::V) -> Self::V;

    /// The 32-bit lanes that are not zero, a bit each.
    fn nonzero(self, v: Self::V) -> u32;

    /// The 32-bit lanes in `mask`, moved to the front.
    fn compress(self, mask: u32, v: Self::V) -> Self::V;
}
