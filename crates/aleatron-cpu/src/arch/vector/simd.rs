//! The vector instructions that kernels are written in, once for all widths of registers.
//!
//! Methods are inlined into kernels compiled for the instruction set; only there do they become
//! single instructions.

/// Proof that the machine has an instruction set, and what its registers can do.
pub(in crate::arch) trait Simd: Copy {
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

/// What encoding needs: operations on 32-bit lanes, and on Philox counters.
pub(in crate::arch) trait Lanes: Simd {
    /// 32-bit lanes of a register.
    const LANES: usize = 2 * Self::WORDS;

    /// Reads [`Self::LANES`] values; zeros where there are fewer.
    fn load(self, lanes: &[u32]) -> Self::V;

    /// Writes all lanes, or nothing where there are not as many places.
    fn store(self, v: Self::V, lanes: &mut [u32]);

    /// `word` in every 32-bit lane.
    fn splat(self, word: u32) -> Self::V;

    /// The sums of 32-bit lanes.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;

    /// 32-bit lanes times 8.
    fn times_8(self, v: Self::V) -> Self::V;

    /// Bit 31 - `m` of each 32-bit lane, in all its bits.
    fn digit(self, v: Self::V, m: u32) -> Self::V;

    /// Whether a number is below another: `below` says so of the planes after this one, in which
    /// the first has the bits `plane` and the second `digit`.
    fn less(self, plane: Self::V, below: Self::V, digit: Self::V) -> Self::V;

    /// `equal` where `plane` is `digit`.
    fn same(self, equal: Self::V, plane: Self::V, digit: Self::V) -> Self::V;

    /// The 32-bit lanes that are not zero, a bit each.
    fn nonzero(self, v: Self::V) -> u32;

    /// The 32-bit lanes in `mask`, moved to the front.
    fn compress(self, mask: u32, v: Self::V) -> Self::V;

    /// A word of the Philox counter of each lane, in whatever form it is multiplied in.
    type Counters: Copy;

    /// The 64-bit product of each lane.
    type Products: Copy;

    /// The lanes of a register as words of counters.
    fn lanes_to_counters(self, lanes: Self::V) -> Self::Counters;

    /// The same where lanes 2i and 2i + 1 are equal, which may save work.
    fn pairs_to_counters(self, lanes: Self::V) -> Self::Counters;

    /// The lanes of a register again.
    fn counters_to_lanes(self, counters: Self::Counters) -> Self::V;

    /// `word` in every lane.
    fn splat_counters(self, word: u32) -> Self::Counters;

    fn multiply(self, counters: Self::Counters, factors: Self::Counters) -> Self::Products;

    /// The high halves of products.
    fn high(self, products: Self::Products) -> Self::Counters;

    /// The low halves of products.
    fn low(self, products: Self::Products) -> Self::Counters;

    fn xor_counters(self, a: Self::Counters, b: Self::Counters) -> Self::Counters;

    /// The XOR of three.
    fn xor3_counters(
        self,
        a: Self::Counters,
        b: Self::Counters,
        c: Self::Counters,
    ) -> Self::Counters;
}
