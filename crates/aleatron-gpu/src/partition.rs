//! Partition of a matrix of streams into blocks that a device can bind.
//!
//! A row (a neuron's weights, a sample's inputs) is a run of 32-bit words. Rows are cut if one
//! would exceed a binding or if its count could exceed 32 bits; then as many rows as fit form a
//! block. Cuts fall on 16-byte vectors, so that kernels read whole ones, and a row's last vector is
//! padded with zeros, which count nothing.

pub(crate) use aleatron_core::stream::StreamWords;
use aleatron_device::{GpuContext, size_u32};

use crate::error::{Error, Limit, Result, host_size};

/// Number of 32-bit words per vector.
pub(crate) const VECTOR: usize = 4;

/// Number of rows of most tiles.
const TILE_ROWS: usize = 64;

/// Number of words of a row that one pass may count: 2^30 bits stay far below 32-bit counts, and
/// 256 threads need 2^15 steps for them, less than the limit at which some software devices
/// silently stop a loop (65,535).
const CUT_WORDS: usize = 1 << 25;

/// A part of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The index of its first word.
    pub(crate) begin: usize,
    /// The number of words.
    pub(crate) words: usize,
    /// The number of occupied words, whole vectors.
    pub(crate) stride: usize,
}

impl Cut {
    pub(crate) fn vectors(&self) -> Result<u32> {
        Ok(size_u32(self.stride / VECTOR, "vectors of a row")?)
    }
}

/// A part of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) cut: Cut,
    pub(crate) first_row: usize,
    pub(crate) n_rows: usize,
}

impl Block {
    pub(crate) fn words(&self) -> usize {
        self.cut.stride * self.n_rows
    }
}

/// Returns the cuts of rows of `row_words` words for bindings of `limit` bytes.
pub(crate) fn cuts(row_words: usize, limit: u64) -> Result<Vec<Cut>> {
    if row_words > u32::MAX as usize {
        let actual = row_words as u128;
        return Err(Error::TooLarge { what: Limit::RowWords, actual, limit: u32::MAX.into() });
    }
    let most = CUT_WORDS.min(usize::try_from(limit / 4).unwrap_or(CUT_WORDS) / VECTOR * VECTOR);
    if most == 0 {
        return Err(Error::TooLarge { what: Limit::StreamBytes, actual: 16, limit });
    }
    // Cuts of nearly one size rather than full ones and a small rest.
    let even = row_words.div_ceil(row_words.div_ceil(most)).next_multiple_of(VECTOR);
    Ok((0..row_words)
        .step_by(even)
        .map(|begin| {
            let words = even.min(row_words - begin);
            Cut { begin, words, stride: words.next_multiple_of(VECTOR) }
        })
        .collect())
}

/// Returns the blocks of `n_rows` rows, cut by cut.
pub(crate) fn blocks(n_rows: usize, row_words: usize, context: &GpuContext) -> Result<Vec<Block>> {
    let limit = context.max_binding_bytes();
    let mut blocks = Vec::new();
    for cut in cuts(row_words, limit)? {
        let rows = even_rows(n_rows, (host_size(limit / 4) / cut.stride).max(1));
        blocks.extend((0..n_rows).step_by(rows).map(|first_row| Block {
            cut,
            first_row,
            n_rows: rows.min(n_rows - first_row),
        }));
    }
    Ok(blocks)
}

/// Returns the number of rows per block: as few blocks as `most` allows, of nearly one size, since
/// a block of a few rows leaves a device idle; whole tiles if that gives no more blocks.
fn even_rows(n_rows: usize, most: usize) -> usize {
    let even = n_rows.div_ceil(n_rows.div_ceil(most).max(1)).max(1);
    even.next_multiple_of(TILE_ROWS).min(most)
}

/// Gathers the words of a block from packed rows: row after row, each padded to whole vectors.
pub(crate) fn gather(words: &[u32], row_words: usize, block: &Block, out: &mut Vec<u32>) {
    out.clear();
    for row in words.chunks_exact(row_words).skip(block.first_row).take(block.n_rows) {
        out.extend_from_slice(&row[block.cut.begin..block.cut.begin + block.cut.words]);
        out.resize(out.len().next_multiple_of(VECTOR), 0);
    }
}

/// Writes the words of a block to packed rows: the inverse of [`gather`].
pub(crate) fn scatter(block_words: &[u32], row_words: usize, block: &Block, words: &mut [u32]) {
    let Cut { begin, words: n, stride } = block.cut;
    let rows = words.chunks_exact_mut(row_words).skip(block.first_row).take(block.n_rows);
    for (row, block_words) in rows.zip(block_words.chunks_exact(stride)) {
        row[begin..begin + n].copy_from_slice(&block_words[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_cover_a_row_in_whole_vectors() {
        for row_words in [2usize, 4, 6, 10, 62, 64, 66, 1000, 4098] {
            for limit in [16u64, 32, 64, 100, 1 << 20] {
                let cuts = cuts(row_words, limit).unwrap();
                let mut next = 0;
                for cut in &cuts {
                    assert_eq!(cut.begin, next);
                    assert!(cut.begin % VECTOR == 0 && cut.stride % VECTOR == 0 && cut.words > 0);
                    assert!(
                        cut.stride >= cut.words && cut.stride as u64 * 4 <= limit,
                        "{cut:?} for {limit}"
                    );
                    next += cut.words;
                }
                assert_eq!(next, row_words);
            }
        }
        assert_eq!(cuts(1 << 26, 1 << 40).unwrap().len(), 2);
        assert!(cuts(1 << 33, 1 << 40).is_err());
        assert!(cuts(8, 8).is_err());
    }

    #[test]
    fn scatter_is_the_inverse_of_gather() {
        let words: Vec<u32> = (0..7 * 10).collect();
        let mut back = vec![0; words.len()];
        for cut in cuts(10, 16).unwrap() {
            for first_row in [0, 3, 6] {
                let block = Block { cut, first_row, n_rows: if first_row == 6 { 1 } else { 3 } };
                let mut packed = vec![9; 5];
                gather(&words, 10, &block, &mut packed);
                assert_eq!(packed.len(), block.words());
                scatter(&packed, 10, &block, &mut back);
            }
        }
        assert_eq!(back, words);
    }

    /// For any limits of a device, the sizes of a block fit the integers of kernels.
    #[test]
    fn blocks_of_huge_bindings_fit_32_bits() {
        let limit = u64::from(u32::MAX) / 16 * 16;
        for row_words in [2usize, 1 << 20, 1 << 25, 1 << 31, u32::MAX as usize] {
            for cut in cuts(row_words, limit).unwrap() {
                assert!(cut.stride <= CUT_WORDS + VECTOR, "{cut:?}");
                let rows = host_size(limit / 4) / cut.stride;
                assert!(size_u32(rows * cut.stride, "words").is_ok() && cut.vectors().is_ok());
            }
        }
    }

    #[test]
    fn rows_are_distributed_evenly() {
        assert_eq!(even_rows(4096, 4095), 2048);
        assert_eq!(even_rows(4096, 10_000), 4096);
        assert_eq!(even_rows(11, 3), 3);
        assert_eq!(even_rows(1, 1), 1);
        for (n_rows, most) in [(1000, 7), (1040, 1023), (5, 5), (300, 299), (130, 65)] {
            let rows = even_rows(n_rows, most);
            assert!(
                rows <= most && n_rows.div_ceil(rows) == n_rows.div_ceil(most),
                "{n_rows} {most}: {rows}"
            );
        }
    }
}
