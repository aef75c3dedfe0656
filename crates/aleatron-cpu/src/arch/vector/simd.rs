//! The vector instructions used by kernels, generic over the width of registers.
//!
//! Methods are inlined into kernels compiled for the instruction set; only there do they become
//! single instructions.

/// Proof that the machine has an instruction set, and the operations of its registers.
pub(in crate::arch) trait Simd: Copy {
    /// A register.
    type V: Copy;

    /// Number of 64-bit lanes of a register.
    const WORDS: usize;

    /// Reads [`Self::WORDS`] words, padded with zeros.
    fn load_words(self, words: &[u64]) -> Self::V;

    /// Writes all 64-bit lanes, or nothing if they do not fit.
    fn store_words(self, v: Self::V, words: &mut [u64]);

    /// Returns a register of zeros.
    fn zero(self) -> Self::V;

    fn and(self, a: Self::V, b: Self::V) -> Self::V;

    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
}

/// The operations of encoding: on 32-bit lanes, and on Philox counters.
pub(in crate::arch) trait Lanes: Simd {
    /// Number of 32-bit lanes of a register.
    const LANES: usize = 2 * Self::WORDS;

    /// Reads [`Self::LANES`] values, padded with zeros.
    fn load(self, lanes: &[u32]) -> Self::V;

    /// Writes all lanes, or nothing if they do not fit.
    fn store(self, v: Self::V, lanes: &mut [u32]);

    /// Returns `word` in every 32-bit lane.
    fn splat(self, word: u32) -> Self::V;

    /// Adds 32-bit lanes.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;

    /// Multiplies 32-bit lanes by 8.
    fn times_8(self, v: Self::V) -> Self::V;

    /// Broadcasts bit 31 - `m` of each 32-bit lane to all its bits.
    fn digit(self, v: Self::V, m: u32) -> Self::V;

    /// Returns whether a number is below another: `below` is the result of the planes after this
    /// one, in which the first has the bits `plane` and the second `digit`.
    fn less(self, plane: Self::V, below: Self::V, digit: Self::V) -> Self::V;

    /// Returns `equal` where `plane` is `digit`.
    fn same(self, equal: Self::V, plane: Self::V, digit: Self::V) -> Self::V;

    /// Returns a mask of the 32-bit lanes that are not zero.
    fn nonzero(self, v: Self::V) -> u32;

    /// Moves the 32-bit lanes in `mask` to the front.
    fn compress(self, mask: u32, v: Self::V) -> Self::V;

    /// A word of the Philox counter of each lane, in the form required for multiplication.
    type Counters: Copy;

    /// The 64-bit product of each lane.
    type Products: Copy;

    /// Converts the lanes of a register to words of counters.
    fn lanes_to_counters(self, lanes: Self::V) -> Self::Counters;

    /// Converts lanes of which 2i and 2i + 1 are equal, which may save work.
    fn pairs_to_counters(self, lanes: Self::V) -> Self::Counters;

    /// Converts words of counters to the lanes of a register.
    fn counters_to_lanes(self, counters: Self::Counters) -> Self::V;

    /// Returns `word` in every lane.
    fn splat_counters(self, word: u32) -> Self::Counters;

    fn multiply(self, counters: Self::Counters, factors: Self::Counters) -> Self::Products;

    /// Returns the high halves of products.
    fn high(self, products: Self::Products) -> Self::Counters;

    /// Returns the low halves of products.
    fn low(self, products: Self::Products) -> Self::Counters;

    fn xor_counters(self, a: Self::Counters, b: Self::Counters) -> Self::Counters;

    /// Returns the XOR of three.
    fn xor3_counters(
        self,
        a: Self::Counters,
        b: Self::Counters,
        c: Self::Counters,
    ) -> Self::Counters;
}
