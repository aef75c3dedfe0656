//! The grid of the kernel of a few samples: slices of columns by groups of neurons.

use super::rows::Part;
use crate::error::{Result, number};

/// Samples that the kernel takes at most.
pub(crate) const MAX_SAMPLES: usize = 8;

/// Bytes of a slice at most: eight samples of it fit the shared memory that every kernel has.
const MAX_SLICE_BYTES: u64 = 4096;

/// Rows that a warp multiplies at a time.
const WARP_ROWS: u64 = 16;

/// The cut of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FewPlan {
    pub(crate) slice_bytes: u32,
    pub(crate) n_slices: u32,
    pub(crate) group_rows: u32,
    pub(crate) n_groups: u32,
}

impl FewPlan {
    /// The plan for `n_rows` neurons, with about `blocks` blocks: every one has a slice, and where there are too few slices some of the
    /// neurons.
    pub(crate) fn new(part: &Part, n_rows: usize, blocks: u32) -> Result<Self> {
        let (bytes, blocks, n_rows) = (part.bytes(), u64::from(blocks.max(1)), n_rows as u64);
        let slice_bytes = bytes.div_ceil(blocks).next_multiple_of(128).min(MAX_SLICE_BYTES);
        let n_slices = bytes.div_ceil(slice_bytes);
        let n_groups = (blocks / n_slices).clamp(1, n_rows.div_ceil(WARP_ROWS));
        let group_rows = n_rows.div_ceil(n_groups).next_multiple_of(WARP_ROWS);
        Ok(Self {
            slice_bytes: slice_bytes as u32,
            n_slices: number(n_slices as usize)?,
            group_rows: number(group_rows as usize)?,
            n_groups: number(n_rows.div_ceil(group_rows) as usize)?,
        })
    }

    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.n_slices) * u64::from(self.n_groups)
    }

    /// The shared memory of a block: the slice of every sample, apart so that two of them use different banks.
    pub(crate) fn shared_bytes(&self, n_samples: u32) -> u32 {
        16 + n_samples * (self.slice_bytes + 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: u64) -> Part {
        Part { begin: 0, words: (bytes / 4) as u32, stride: (bytes / 4) as u32 }
    }

    #[test]
    fn every_row_and_column_has_a_block() {
        for bytes in [128, 256, 1280, 64_000, 128_000, 512 << 10, 64 << 20] {
            for n_rows in [1usize, 15, 16, 17, 256, 500, 4096, 100_000] {
                for blocks in [1, 6, 264] {
                    let plan = FewPlan::new(&part(bytes), n_rows, blocks).unwrap();
                    let slices = u64::from(plan.n_slices) * u64::from(plan.slice_bytes);
                    assert!(slices >= bytes && slices - u64::from(plan.slice_bytes) < bytes, "{plan:?}");
                    let rows = plan.n_groups as usize * plan.group_rows as usize;
                    assert!(rows >= n_rows && rows - (plan.group_rows as usize) < n_rows, "{plan:?}");
                    assert!(plan.slice_bytes % 128 == 0 && plan.group_rows % 16 == 0);
                    assert!(plan.shared_bytes(8) <= 48 << 10);
                }
            }
        }
    }

    /// The layers of the benchmarks have one block for about each place of an H200, which has two for each of 132 processors.
    #[test]
    fn layers_of_the_benchmarks_fill_a_large_card() {
        for (bytes, n_rows, slices) in [(65_536, 256, 256), (128_000, 500, 250), (524_288, 4096, 256)] {
            let plan = FewPlan::new(&part(bytes), n_rows, 264).unwrap();
            assert_eq!((plan.n_slices, plan.n_groups), (slices, 1), "{plan:?}");
        }
        // Few columns and many neurons: groups of neurons fill the card.
        let plan = FewPlan::new(&part(512), 100_000, 264).unwrap();
        assert_eq!((plan.n_slices, plan.n_groups), (4, 66));
    }
}
