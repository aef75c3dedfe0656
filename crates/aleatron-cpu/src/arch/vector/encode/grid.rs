//! The assignment of stream words to registers.

use super::FIRST_DIGITS;
use aleatron_core::Length;

/// The cover of streams by registers: a register holds `words` words of each of `streams` streams.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Grid {
    pub(super) streams: usize,
    pub(super) words: usize,
    n_streams: usize,
    n_words: usize,
    /// Number of adjacent registers that cover the words.
    pub(super) columns: usize,
}

impl Grid {
    /// Returns the grid that leaves the fewest of `lanes` 32-bit lanes idle; of several, the grid
    /// with the longest runs of words.
    pub(in crate::arch) fn new(lanes: usize, n_streams: usize, length: Length) -> Self {
        let n_words = length.words();
        let mut best = Self { streams: lanes / 2, words: 1, n_streams, n_words, columns: n_words };
        for words in [2, 4, 8].into_iter().filter(|words| *words <= lanes / 2) {
            let (streams, columns) = (lanes / 2 / words, n_words.div_ceil(words));
            let grid = Self { streams, words, columns, ..best };
            if grid.registers() <= best.registers() {
                best = grid;
            }
        }
        best
    }

    /// Returns the number of registers that cover all streams.
    fn registers(&self) -> usize {
        self.n_streams.div_ceil(self.streams).saturating_mul(self.columns)
    }

    /// Returns the number of words of the first draws of all registers.
    pub(in crate::arch) fn first_draws(&self, lanes: usize) -> usize {
        self.registers().saturating_mul(FIRST_DIGITS * lanes / 2)
    }

    /// Returns whether the registers of a row are contiguous in the output, without a gap or an
    /// idle lane.
    #[inline(always)]
    pub(super) fn is_whole(&self, row: usize) -> bool {
        let is_contiguous = self.streams == 1 || self.words == self.n_words;
        is_contiguous
            && self.columns * self.words == self.n_words
            && (row + 1) * self.streams <= self.n_streams
    }

    /// Returns the number of streams and of words that a register actually holds.
    fn extent(&self, row: usize, column: usize) -> (usize, usize) {
        let streams = self.streams.min(self.n_streams - row * self.streams);
        (streams, self.words.min(self.n_words - column * self.words))
    }

    /// Returns a mask of the 32-bit lanes in use.
    #[inline(never)]
    pub(super) fn filled(&self, row: usize, column: usize) -> u32 {
        let (streams, words) = self.extent(row, column);
        let of_one = (1 << (2 * words)) - 1;
        (0..streams).fold(0, |filled, stream| filled | of_one << (2 * stream * self.words))
    }

    /// Returns the output of a row.
    #[inline(always)]
    pub(super) fn output<'a>(&self, row: usize, out: &'a mut [u64]) -> &'a mut [u64] {
        let first = row * self.streams * self.n_words;
        let last = out.len().min(first + self.streams * self.n_words);
        &mut out[first..last]
    }

    /// Writes a register to its position in the output of its row, stream by stream.
    #[inline(never)]
    pub(super) fn write(&self, register: &[u64], row: usize, column: usize, out: &mut [u64]) {
        let (streams, words) = self.extent(row, column);
        for (stream, from) in register.chunks(self.words).take(streams).enumerate() {
            let to = stream * self.n_words + column * self.words;
            out[to..to + words].copy_from_slice(&from[..words]);
        }
    }
}
