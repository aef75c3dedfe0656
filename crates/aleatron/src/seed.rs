//! Which input streams a call draws.

/// The seed of a layer's weights where none is given.
pub const DEFAULT_WEIGHT_SEED: u64 = 24301;

/// The seed of a call's inputs where none is given.
pub const DEFAULT_INPUT_SEED: u64 = 44257;

/// The seed of a call's input streams, and the global index of its first sample.
///
/// A sample's streams depend on its own global index, never on the batch it came in, so splitting a batch changes no bit:
///
/// ```
/// use aleatron::{DenseLayer, SampleSeed};
/// let layer = DenseLayer::new(3, 2, 100, 1)?;
/// let x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// let whole = layer.counts_batch(&x, 7)?;
/// let last = layer.counts(&x[6..], SampleSeed::new(7).starting_at(2))?;
/// assert_eq!(whole[4..], last);
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleSeed {
    /// The seed.
    pub seed: u64,
    /// The global index of the first sample.
    pub first_sample: u32,
}

impl SampleSeed {
    /// A seed for samples 0, 1, ….
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, first_sample: 0 }
    }

    /// The same seed for samples from `first_sample` on.
    #[must_use]
    pub const fn starting_at(self, first_sample: u32) -> Self {
        Self { first_sample, ..self }
    }
}

impl Default for SampleSeed {
    fn default() -> Self {
        Self::new(DEFAULT_INPUT_SEED)
    }
}

impl From<u64> for SampleSeed {
    fn from(seed: u64) -> Self {
        Self::new(seed)
    }
}
