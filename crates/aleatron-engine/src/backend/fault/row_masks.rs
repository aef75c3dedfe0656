//! Masks of a row of weights or of a neuron's products, few words of which are not 0.

use super::mask::field;
use aleatron_core::{Length, Quantity, Result, memory};
use aleatron_cpu::run_words;

/// Masks of the weights of a row or of a neuron's products, most words 0.
pub(super) struct RowMasks {
    pub(super) words: Vec<u64>,
    /// The indices of the words that are not 0, each once.
    pub(super) touched: Vec<u32>,
}

impl RowMasks {
    pub(super) fn new(words: usize) -> Result<Self> {
        // Touched words are named by 32 bits.
        field(Quantity::Words, words)?;
        Ok(Self { words: memory::zeros(words as u128, Quantity::Streams)?, touched: Vec::new() })
    }

    /// Sets bits of a word.
    #[inline]
    pub(super) fn set(&mut self, index: usize, bits: u64) {
        let word = &mut self.words[index];
        if *word == 0 {
            self.touched.push(index as u32);
        }
        *word |= bits;
    }

    /// Inverts bits of a word.
    pub(super) fn flip(&mut self, index: usize, bits: u64) {
        let word = &mut self.words[index];
        if *word == 0 && bits != 0 {
            self.touched.push(index as u32);
        }
        *word ^= bits;
    }

    /// Inverts the bits of other masks, which become 0.
    pub(super) fn take(&mut self, other: &mut Self) {
        for &index in &other.touched {
            let bits = std::mem::take(&mut other.words[index as usize]);
            self.flip(index as usize, bits);
        }
        other.touched.clear();
        // A word that became 0 in between was listed again.
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    pub(super) fn clear(&mut self) {
        self.touched.drain(..).for_each(|index| self.words[index as usize] = 0);
    }

    /// Sets `cycles` bits of a stream that begins with word `start`, from bit `first` on, or fewer at
    /// its end.
    pub(super) fn set_run(&mut self, start: usize, first: usize, cycles: usize, length: Length) {
        run_words(first, cycles, length).for_each(|(index, bits)| self.set(start + index, bits));
    }
}
