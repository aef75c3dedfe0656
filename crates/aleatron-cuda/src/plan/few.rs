//! The grid of the kernel of a few samples: slices of columns by groups of neurons.

use super::rows::Part;
use crate::error::{Error, Limit, Result};
use crate::size::size_u32;

/// The largest number of samples of the kernel.
pub(crate) const MAX_SAMPLES: usize = 8;

/// The largest size of a slice in bytes: eight samples of it fit the shared memory of every kernel.
const MAX_SLICE_BYTES: u64 = 4096;

/// Number of rows that a warp multiplies at a time.
const WARP_ROWS: u64 = 16;

/// Number of warps of a block.
const WARPS: u64 = 8;

/// Size of a slice for one sample in bytes: enough for every thread of a block to encode a word,
/// and no more than a warp's registers hold.
const SHORT_SLICE_BYTES: u32 = 1024;
const LONG_SLICE_BYTES: u32 = 2048;

/// Number of bytes of a row for each block from which slices are long.
const LONG_ROW_BYTES: u64 = 384;

/// The kernel that counts a few samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FewKernel {
    /// Tiles of sixteen rows by eight samples, loaded some steps ahead.
    Tiles {
        /// The number of steps.
        ahead: u32,
    },
    /// Whole slices of rows, for one sample.
    Rows {
        /// Number of vectors of sixteen bytes of a slice per lane.
        vectors: u32,
        /// Number of rows that are loaded ahead.
        ahead: u32,
    },
}

impl FewKernel {
    /// The kernel in use for several samples.
    pub(crate) const TILES: Self = Self::Tiles { ahead: 2 };

    /// Returns the kernel for a number of samples and a size of slices.
    pub(crate) fn best(n_samples: usize, slice_bytes: u32) -> Self {
        match (n_samples, slice_bytes.div_ceil(512)) {
            (0 | 1, 0..=2) => Self::Rows { vectors: 2, ahead: 2 },
            (0 | 1, _) => Self::Rows { vectors: 4, ahead: 2 },
            _ => Self::TILES,
        }
    }

    /// Checks that it can run a plan for a number of samples: kernels rely on the size of a slice.
    pub(crate) fn check(self, plan: &FewPlan, n_samples: usize) -> Result<()> {
        let limit = match self {
            Self::Tiles { .. } => MAX_SLICE_BYTES,
            Self::Rows { vectors, .. } => MAX_SLICE_BYTES.min(512 * u64::from(vectors)),
        };
        let slice = u64::from(plan.slice_bytes);
        if slice > limit || slice == 0 || !slice.is_multiple_of(128) {
            let (actual, limit) = (slice.into(), limit.into());
            return Err(Error::TooLarge {
                what: Limit::Kernel("bytes of a slice, whole 128"),
                actual,
                limit,
            });
        }
        let limit = if matches!(self, Self::Rows { .. }) { 1 } else { MAX_SAMPLES };
        if n_samples > limit {
            let (actual, limit) = (n_samples as u128, limit as u128);
            return Err(Error::TooLarge {
                what: Limit::Kernel("samples of a kernel of few"),
                actual,
                limit,
            });
        }
        Ok(())
    }

    /// Returns the name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Tiles { ahead } => format!("few_{ahead}"),
            Self::Rows { vectors, ahead } => format!("one_{vectors}_{ahead}"),
        }
    }
}

/// The division of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FewPlan {
    pub(crate) slice_bytes: u32,
    pub(crate) n_slices: u32,
    pub(crate) group_rows: u32,
    pub(crate) n_groups: u32,
}

impl FewPlan {
    /// Returns the plan for `n_rows` neurons, with about `blocks` blocks: each has a slice, and if
    /// there are too few slices some of the neurons.
    pub(crate) fn new(part: &Part, n_rows: usize, blocks: u32) -> Result<Self> {
        let (bytes, blocks, n_rows) = (part.bytes(), u64::from(blocks.max(1)), n_rows as u64);
        let slice_bytes = bytes.div_ceil(blocks).next_multiple_of(128).min(MAX_SLICE_BYTES);
        let n_slices = bytes.div_ceil(slice_bytes);
        let n_groups = (blocks / n_slices).clamp(1, n_rows.div_ceil(WARP_ROWS));
        let group_rows = n_rows.div_ceil(n_groups).next_multiple_of(WARP_ROWS);
        Ok(Self {
            slice_bytes: size_u32(slice_bytes, "bytes of a slice")?,
            n_slices: size_u32(n_slices, "number of slices")?,
            group_rows: size_u32(group_rows, "group rows")?,
            n_groups: size_u32(n_rows.div_ceil(group_rows), "number of groups")?,
        })
    }

    /// Returns the plan for one sample: slices of about a kilobyte, so that little is encoded twice
    /// and sums are added rarely.
    pub(crate) fn one(part: &Part, n_rows: usize, blocks: u32) -> Result<Self> {
        // Long rows are read in long runs; short rows leave more blocks to share the neurons if
        // slices are small.
        let is_long = part.bytes() >= LONG_ROW_BYTES * u64::from(blocks);
        let slice_bytes = if is_long { LONG_SLICE_BYTES } else { SHORT_SLICE_BYTES };
        Self::with_slice(part, n_rows, blocks, slice_bytes)
    }

    /// Returns the plan for a given size of slices.
    pub(crate) fn with_slice(
        part: &Part,
        n_rows: usize,
        blocks: u32,
        slice_bytes: u32,
    ) -> Result<Self> {
        let (blocks, n_rows) = (u64::from(blocks.max(1)), n_rows as u64);
        let n_slices = part.bytes().div_ceil(u64::from(slice_bytes.max(128)));
        let n_groups = (blocks / n_slices).clamp(1, n_rows.div_ceil(WARPS));
        let group_rows = n_rows.div_ceil(n_groups);
        Ok(Self {
            slice_bytes,
            n_slices: size_u32(n_slices, "number of slices")?,
            group_rows: size_u32(group_rows, "group rows")?,
            n_groups: size_u32(n_rows.div_ceil(group_rows), "number of groups")?,
        })
    }

    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.n_slices) * u64::from(self.n_groups)
    }

    /// Returns the shared memory of a block: the slice of every sample, padded so that two of them
    /// use different banks.
    pub(crate) fn shared_bytes(&self, n_samples: u32) -> u32 {
        16 + n_samples * (self.slice_bytes + 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: u64) -> Part {
        Part::new(0, bytes / 4).unwrap()
    }

    #[test]
    fn rows_and_columns_are_all_covered_by_blocks() {
        for bytes in [128, 256, 1280, 64_000, 128_000, 512 << 10, 64 << 20] {
            for n_rows in [1usize, 15, 16, 17, 256, 500, 4096, 100_000] {
                for blocks in [1, 6, 264] {
                    let plan = FewPlan::new(&part(bytes), n_rows, blocks).unwrap();
                    let slices = u64::from(plan.n_slices) * u64::from(plan.slice_bytes);
                    assert!(
                        slices >= bytes && slices - u64::from(plan.slice_bytes) < bytes,
                        "{plan:?}"
                    );
                    let rows = plan.n_groups as usize * plan.group_rows as usize;
                    assert!(
                        rows >= n_rows && rows - (plan.group_rows as usize) < n_rows,
                        "{plan:?}"
                    );
                    assert!(
                        plan.slice_bytes.is_multiple_of(128) && plan.group_rows.is_multiple_of(16)
                    );
                    assert!(plan.shared_bytes(8) <= 48 << 10);
                }
            }
        }
    }

    #[test]
    fn rows_and_columns_of_one_sample_are_all_covered_by_blocks() {
        for bytes in [128, 256, 1280, 64_000, 128_000, 512 << 10, 64 << 20] {
            for n_rows in [1usize, 7, 8, 9, 256, 500, 4096, 100_000] {
                for blocks in [1, 6, 264] {
                    let plan = FewPlan::one(&part(bytes), n_rows, blocks).unwrap();
                    let slices = u64::from(plan.n_slices) * u64::from(plan.slice_bytes);
                    assert!(
                        slices >= bytes && slices - u64::from(plan.slice_bytes) < bytes,
                        "{plan:?}"
                    );
                    let rows = plan.n_groups as usize * plan.group_rows as usize;
                    assert!(
                        rows >= n_rows && rows - (plan.group_rows as usize) < n_rows,
                        "{plan:?}"
                    );
                    let FewKernel::Rows { vectors, .. } = FewKernel::best(1, plan.slice_bytes)
                    else {
                        panic!()
                    };
                    assert!(
                        vectors * 512 >= plan.slice_bytes && plan.slice_bytes.is_multiple_of(128),
                        "{plan:?}"
                    );
                }
            }
        }
        let plan = FewPlan::one(&part(65_536), 256, 264).unwrap();
        assert_eq!((plan.slice_bytes, plan.n_slices, plan.n_groups), (1024, 64, 4));
        let plan = FewPlan::one(&part(128_000), 500, 264).unwrap();
        assert_eq!((plan.slice_bytes, plan.n_slices, plan.n_groups), (2048, 63, 4));
        let plan = FewPlan::one(&part(524_288), 4096, 264).unwrap();
        assert_eq!((plan.slice_bytes, plan.n_slices, plan.n_groups), (2048, 256, 1));
    }

    /// The layers of the benchmarks have about one block for each slot of an H200, which has two
    /// for each of 132 processors.
    #[test]
    fn layers_of_the_benchmarks_fill_a_large_gpu() {
        for (bytes, n_rows, slices) in
            [(65_536, 256, 256), (128_000, 500, 250), (524_288, 4096, 256)]
        {
            let plan = FewPlan::new(&part(bytes), n_rows, 264).unwrap();
            assert_eq!((plan.n_slices, plan.n_groups), (slices, 1), "{plan:?}");
        }
        // Few columns and many neurons: groups of neurons fill the GPU.
        let plan = FewPlan::new(&part(512), 100_000, 264).unwrap();
        assert_eq!((plan.n_slices, plan.n_groups), (4, 66));
    }
}
