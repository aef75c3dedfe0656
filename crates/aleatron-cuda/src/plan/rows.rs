//! Rows of streams for kernels: 32-bit words, in parts whose counts stay below 2^31.

use crate::error::{Error, Limit, Result};
use crate::kernels::RowPart;
use crate::size::{host_size, size_u32};
pub(crate) use aleatron_core::stream::StreamWords;

/// Number of words that rows are padded to: 128 bytes, which tile kernels stage at a time.
pub(crate) const ROW_WORDS: u64 = 32;

/// The largest number of words of a part: 2^30 bits, so that counts of one part stay far below 32
/// bits.
pub(crate) const MAX_PART_WORDS: u64 = 1 << 25;

/// The largest number of words of a row that is not cut into parts: less than 2^32 by more than a
/// block of any kernel.
const MAX_ROW_WORDS: u64 = u32::MAX as u64 - (1 << 16);

/// A part of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The index of its first word.
    pub(crate) begin: u64,
    /// The number of words.
    pub(crate) words: u32,
    /// The number of occupied words.
    pub(crate) stride: u32,
}

impl Part {
    /// Creates a part of `words` words, padded to whole 128 bytes. Kernels add the words of a block
    /// to an index in it, in 32 bits.
    pub(crate) fn new(begin: u64, words: u64) -> Result<Self> {
        let stride = words.next_multiple_of(ROW_WORDS);
        if stride > MAX_ROW_WORDS {
            let (actual, limit) = (stride.into(), MAX_ROW_WORDS.into());
            return Err(Error::TooLarge { what: Limit::Kernel("words of a row"), actual, limit });
        }
        let what = "words of a row";
        Ok(Self { begin, words: size_u32(words, what)?, stride: size_u32(stride, what)? })
    }

    /// Returns the number of occupied bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.stride as u64 * 4
    }

    /// Returns the part in the form of kernels, of rows of `n_units` streams.
    pub(crate) fn of_rows(&self, n_units: usize, stream: StreamWords) -> Result<RowPart> {
        let (stored, n_units) = (u64::from(stream.stored), size_u32(n_units, "streams of a row")?);
        Ok(RowPart {
            stream_words: stream.stored,
            full_words: stream.full,
            tail_mask: stream.tail_mask,
            n_units,
            first_unit: size_u32(self.begin / stored, "first stream of a part")?,
            first_word: size_u32(self.begin % stored, "first word of a part")?,
            words: self.words,
            stride: self.stride,
        })
    }
}

/// Returns the parts of rows of `n_units` streams, each of at most `most` words.
pub(crate) fn parts(n_units: usize, stream: StreamWords, most: u64) -> Result<Vec<Part>> {
    let row_words = n_units as u128 * u128::from(stream.stored);
    let Ok(row_words) = u64::try_from(row_words) else {
        return Err(Error::TooLarge {
            what: Limit::Units,
            actual: row_words,
            limit: u64::MAX.into(),
        });
    };
    let most = most.clamp(ROW_WORDS, MAX_PART_WORDS) / ROW_WORDS * ROW_WORDS;
    // Parts of nearly one size rather than full ones and a small rest.
    let even = row_words.div_ceil(row_words.div_ceil(most)).next_multiple_of(ROW_WORDS);
    (0..row_words)
        .step_by(host_size(even))
        .map(|begin| Part::new(begin, even.min(row_words - begin)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aleatron_core::Length;

    fn stream(bits: usize) -> StreamWords {
        StreamWords::of(Length::new(bits).unwrap())
    }

    #[test]
    fn parts_cover_a_row_once() {
        for n_units in [1usize, 2, 15, 16, 17, 1000, 4097] {
            for bits in [1, 64, 65, 1000, 1024, 100_000] {
                for most in [1, 32, 64, 100, 1 << 12, u64::MAX] {
                    let parts = parts(n_units, stream(bits), most).unwrap();
                    let mut next = 0;
                    for part in &parts {
                        assert_eq!(part.begin, next);
                        assert!(part.words > 0 && part.begin % ROW_WORDS == 0);
                        assert!(
                            part.stride >= part.words && u64::from(part.stride) % ROW_WORDS == 0
                        );
                        assert!(
                            u64::from(part.stride) <= most.max(ROW_WORDS),
                            "{part:?} for {most}"
                        );
                        let row = part.of_rows(n_units, stream(bits)).unwrap();
                        let position = u64::from(row.first_unit) * u64::from(row.stream_words);
                        assert_eq!(position + u64::from(row.first_word), part.begin);
                        next += u64::from(part.words);
                    }
                    assert_eq!(next, n_units as u64 * u64::from(stream(bits).stored));
                }
            }
        }
    }

    /// Sums of one part are below 2^31 however long the rows are, so that they fit 32 bits exactly.
    #[test]
    fn counts_of_a_part_fit_31_bits() {
        for (n_units, bits) in
            [(1usize << 16, 1usize << 16), (1 << 20, 1 << 14), (3, 1 << 34), (1 << 31, 64)]
        {
            let parts = parts(n_units, stream(bits), u64::MAX).unwrap();
            assert!(
                parts.iter().all(|part| u64::from(part.words) * 32 < 1 << 31),
                "{n_units} {bits}"
            );
            assert!(parts.len() >= 4);
        }
    }
}
