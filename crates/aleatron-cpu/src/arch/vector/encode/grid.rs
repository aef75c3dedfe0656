//! Which register holds which words of which streams.

use super::FIRST_DIGITS;
use aleatron_core::Length;

/// How registers cover streams by words: one holds `words` words of each of `streams` streams.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Grid {
    pub(super) streams: usize,
    pub(super) words: usize,
    n_streams: usize,
    n_words: usize,
    /// Registers side by side that cover the words.
    pub(super) columns: usize,
}

impl Grid {
    /// The grid that leaves the fewest of `lanes` 32-bit lanes idle; of several, the one with the
    /// longest runs of words.
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

    /// The registers that cover all streams.
    fn registers(&self) -> usize {
        self.n_streams.div_ceil(self.streams).saturating_mul(self.columns)
    }

    /// The words that the first draws of all registers take.
    pub(in crate::arch) fn first_draws(&self, lanes: usize) -> usize {
        self.registers().saturating_mul(FIRST_DIGITS * lanes / 2)
    }

    /// Whether the registers of a row lie in the output one after another, without a gap or an idle
    /// lane.
    #[inline(always)]
    pub(super) fn is_whole(&self, row: usize) -> bool {
        let in_one_piece = self.streams == 1 || self.words == self.n_words;
        in_one_piece
            && self.columns * self.words == self.n_words
            && (row + 1) * self.streams <= self.n_streams
    }

    /// The streams and the words that the register at a place really holds.
    fn held(&self, row: usize, column: usize) -> (usize, usize) {
        let streams = self.streams.min(self.n_streams - row * self.streams);
        (streams, self.words.min(self.n_words - column * self.words))
    }

    /// The 32-bit lanes that hold something, a bit each.
    #[inline(never)]
    pub(super) fn filled(&self, row: usize, column: usize) -> u32 {
        let (streams, words) = self.held(row, column);
        let of_one = (1 << (2 * words)) - 1;
        (0..streams).fold(0, |filled, stream| filled | of_one << (2 * stream * self.words))
    }

    /// The output of a row.
    #[inline(always)]
    pub(super) fn output<'a>(&self, row: usize, out: &'a mut [u64]) -> &'a mut [u64] {
        let first = row * self.streams * self.n_words;
        let last = out.len().min(first + self.streams * self.n_words);
        &mut out[first..last]
    }

    /// Writes a register to its place among the output of its row, piece by piece.
    #[inline(never)]
    pub(super) fn write(&self, register: &[u64], row: usize, column: usize, out: &mut [u64]) {
        let (streams, words) = self.held(row, column);
        for (stream, from) in register.chunks(self.words).take(streams).enumerate() {
            let to = stream * self.n_words + column * self.words;
            out[to..to + words].copy_from_slice(&from[..words]);
        }
    }
}
