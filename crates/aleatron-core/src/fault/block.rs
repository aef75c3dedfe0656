//! Masks of low rates, drawn by blocks: the number of hits of a block, then their positions.

use super::rate::FaultRate;
use crate::address::StreamAddress;
use crate::philox::philox4x32;

/// The blocks of the masks of a rate of at most 1/32, and the distribution of their hits.
///
/// The hits of a block are a Poisson process: their number has a Poisson distribution, each
/// position is uniform, and a bit flips if it has a hit, with the probability of the rate,
/// independently of all other bits. See `docs/streams.md`.
///
/// ```
/// use aleatron_core::fault::FlipBlocks;
/// let blocks = FlipBlocks::new("1e-3".parse()?).ok_or("a high rate")?;
/// assert_eq!(blocks.log2_bits(), 12);
/// // The probability of a block without hits, in units of 2^-64, is that of 4096 bits that stay.
/// let none = blocks.thresholds()[0] as f64 / 2f64.powi(64);
/// assert!((none / 0.999f64.powi(4096) - 1.0).abs() < 1e-11);
/// assert_eq!(FlipBlocks::new("0.1".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlipBlocks {
    log2_bits: u32,
    thresholds: Vec<u64>,
}

impl FlipBlocks {
    /// The highest rate whose masks are drawn by blocks: with more than a hit in 32 bits, comparing
    /// all bits is faster.
    pub const MOST: f64 = 1.0 / 32.0;

    /// Hits of a block at most.
    pub const MAX_HITS: usize = 62;

    /// Draws of a block at most.
    pub const MAX_DRAWS: u32 = 16;

    /// Returns the blocks of a rate; `None` for 0 and for rates above [`Self::MOST`].
    #[must_use]
    pub fn new(rate: FaultRate) -> Option<Self> {
        let rate = rate.get();
        if rate == 0.0 || rate > Self::MOST {
            return None;
        }
        // Multiplying by powers of two is exact.
        let (mut log2_bits, mut hits) = (0, rate);
        while hits <= 4.0 {
            (log2_bits, hits) = (log2_bits + 1, 2.0 * hits);
        }
        let hits = (hits * 2f64.powi(60)) as u128;
        // -B ln(1 - p) = Bp + Bp²/2 + Bp³/3 + …
        let (mut mean, mut term, mut i) = (0, hits, 1);
        while term > 0 {
            mean += term / i;
            (term, i) = (term * hits >> (60 + log2_bits), i + 1);
        }
        // Terms of the exponential series of the mean, and their sums.
        let (mut weight, mut sum) = (1u128 << 51, 0);
        let mut sums = Vec::with_capacity(Self::MAX_HITS + 1);
        for k in 0..=Self::MAX_HITS as u128 {
            if k > 0 {
                weight = weight * mean / (k << 60);
            }
            sum += weight;
            sums.push(sum);
        }
        let parts = sums.iter().map(|&part| u64::try_from((part << 64) / sum).ok());
        Some(Self { log2_bits, thresholds: parts.map_while(|part| part).collect() })
    }

    /// Returns the logarithm to base 2 of the number of positions in a block, 8 to 32.
    #[must_use]
    pub const fn log2_bits(&self) -> u32 {
        self.log2_bits
    }

    /// Returns the thresholds of the number of hits: the probabilities of at most 0, 1, … hits, in
    /// units of 2^-64, as far as these are below 1.
    #[must_use]
    pub fn thresholds(&self) -> &[u64] {
        &self.thresholds
    }

    /// Returns the positions of a block's hits in the block, in their order; several may be equal.
    pub fn hits(&self, address: StreamAddress, block: u64) -> impl Iterator<Item = u32> + use<> {
        let word = move |k: u32| {
            philox4x32(Self::counter(address, block, k / 4), address.key())[k as usize % 4]
        };
        let number = u64::from(word(1)) << 32 | u64::from(word(0));
        let hits = self.thresholds.iter().filter(|&&threshold| threshold <= number).count();
        let unused = 32 - self.log2_bits;
        (2..).take(hits).map(move |k| word(k) >> unused)
    }

    /// Returns the Philox counter of a draw of a block; the unit of the address is ignored.
    #[must_use]
    pub const fn counter(address: StreamAddress, block: u64, draw: u32) -> [u32; 4] {
        let high = (block >> 32) as u32 * Self::MAX_DRAWS;
        [high + draw, block as u32, address.row, address.tag()]
    }
}
