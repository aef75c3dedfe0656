//! Packed streams: bit `k` is in word `k / 64` at position `k % 64`, least significant first, and
//! the bits beyond the length are always zero. That is `numpy.packbits(bits, bitorder="little")`
//! viewed as `<u8`.

use crate::error::{Error, Quantity, Result};
use crate::memory;

/// Bits per packed word.
pub const WORD_BITS: usize = 64;

/// The length of a stream in bits: at least 1, at most 2^34 (29 bits of a counter index 32-bit
/// words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Length(usize);

impl Length {
    /// The longest stream that a counter can address.
    pub const MAX: u64 = 1 << 34;

    /// Creates a length of `bits`.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for 0, [`Error::TooLarge`] above [`Self::MAX`].
    pub fn new(bits: usize) -> Result<Self> {
        match bits {
            0 => Err(Error::Zero(Quantity::Length)),
            _ if bits as u64 > Self::MAX => Err(Error::TooLarge {
                what: Quantity::Length,
                actual: bits as u128,
                limit: Self::MAX.into(),
            }),
            _ => Ok(Self(bits)),
        }
    }

    /// Returns the length in bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> usize {
        self.0
    }

    /// Returns the number of 64-bit words of a stream of this length.
    #[inline]
    #[must_use]
    pub const fn words(self) -> usize {
        self.0.div_ceil(WORD_BITS)
    }

    /// Returns the number of 32-bit words drawn for a stream of this length.
    #[inline]
    #[must_use]
    pub const fn draw_words(self) -> usize {
        self.0.div_ceil(32)
    }

    /// Returns the mask of the bits of the last word that belong to the stream.
    #[inline]
    #[must_use]
    pub const fn tail_mask(self) -> u64 {
        u64::MAX >> ((WORD_BITS - self.0 % WORD_BITS) % WORD_BITS)
    }
}

/// The layout of a stream in 32-bit words, which GPUs count with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamWords {
    /// Stored words: two for each packed word.
    pub stored: u32,
    /// Words entirely inside the length.
    pub full: u32,
    /// The mask of the bits of the word after the full ones.
    pub tail_mask: u32,
}

impl StreamWords {
    /// Returns the layout of streams of a length.
    ///
    /// ```
    /// use aleatron_core::Length;
    /// use aleatron_core::stream::StreamWords;
    /// let words = StreamWords::of(Length::new(65)?);
    /// assert_eq!(words, StreamWords { stored: 4, full: 2, tail_mask: 1 });
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    #[must_use]
    pub fn of(length: Length) -> Self {
        // A length is at most 2^34 bits, so its words are at most 2^29.
        let full = (length.bits() / 32) as u32;
        let tail_mask = (1u32 << (length.bits() % 32)) - 1;
        Self { stored: 2 * length.words() as u32, full, tail_mask }
    }
}

/// A packed stream.
///
/// ```
/// use aleatron_core::{BitStream, gates};
/// let a = BitStream::from_bits(&[1, 1, 0, 0, 1])?;
/// let b = BitStream::from_bits(&[1, 0, 1, 0, 1])?;
/// assert_eq!(gates::and(&a, &b)?.to_bits(), [1, 0, 0, 0, 1]);
/// assert_eq!(a.ones(), 3);
/// assert_eq!(gates::not(&a).ones(), 2);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BitStream {
    length: Length,
    words: Vec<u64>,
}

impl BitStream {
    /// Creates the stream of zeros.
    #[must_use]
    pub fn zeros(length: Length) -> Self {
        Self { length, words: vec![0; length.words()] }
    }

    /// Creates the stream of the given bits; any byte other than 0 is a 1.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without bits.
    pub fn from_bits(bits: &[u8]) -> Result<Self> {
        let mut stream = Self::zeros(Length::new(bits.len())?);
        for (word, bits) in stream.words.iter_mut().zip(bits.chunks(WORD_BITS)) {
            *word =
                bits.iter().enumerate().fold(0, |word, (k, &bit)| word | u64::from(bit != 0) << k);
        }
        Ok(stream)
    }

    /// Creates a stream from packed words.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the number of words is not that of the length, and
    /// [`Error::DirtyTail`] if a bit beyond the length is set.
    pub fn from_words(words: Vec<u64>, length: Length) -> Result<Self> {
        check_words(&words, 1, length)?;
        Ok(Self { length, words })
    }

    /// Creates the stream of words `word(index)`; bits beyond the length are cleared.
    pub(crate) fn from_fn(length: Length, word: impl FnMut(usize) -> u64) -> Self {
        let mut words: Vec<u64> = (0..length.words()).map(word).collect();
        if let Some(last) = words.last_mut() {
            *last &= length.tail_mask();
        }
        Self { length, words }
    }

    /// Returns the length.
    #[must_use]
    pub fn length(&self) -> Length {
        self.length
    }

    /// Returns the packed words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the packed words by value.
    #[must_use]
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Returns bit `k`; `None` past the end.
    #[must_use]
    pub fn get(&self, k: usize) -> Option<bool> {
        (k < self.length.bits()).then(|| self.words[k / WORD_BITS] >> (k % WORD_BITS) & 1 == 1)
    }

    /// Returns the bits, one byte each.
    #[must_use]
    pub fn to_bits(&self) -> Vec<u8> {
        (0..self.length.bits())
            .map(|k| (self.words[k / WORD_BITS] >> (k % WORD_BITS)) as u8 & 1)
            .collect()
    }

    /// Returns the number of ones.
    #[must_use]
    pub fn ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Packed streams of one length, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamMatrix {
    rows: usize,
    length: Length,
    words: Vec<u64>,
}

impl StreamMatrix {
    /// Creates `rows` streams of zeros.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit.
    pub fn zeros(rows: usize, length: Length) -> Result<Self> {
        let words = memory::zeros(rows as u128 * length.words() as u128, Quantity::Streams)?;
        Ok(Self { rows, length, words })
    }

    /// Creates streams from packed words, row after row.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the number of words is not `rows` times that of the length,
    /// and [`Error::DirtyTail`] with the first row that has a bit beyond the length set.
    pub fn from_words(words: Vec<u64>, rows: usize, length: Length) -> Result<Self> {
        check_words(&words, rows, length)?;
        Ok(Self { rows, length, words })
    }

    /// Creates streams from words of this crate, which have the right number and zeros beyond the
    /// length.
    pub(crate) fn from_clean_words(words: Vec<u64>, rows: usize, length: Length) -> Self {
        debug_assert!(check_words(&words, rows, length).is_ok());
        Self { rows, length, words }
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the length of the streams.
    #[must_use]
    pub fn length(&self) -> Length {
        self.length
    }

    /// Returns all packed words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns all packed words for writing. The bits beyond the length of each stream must stay
    /// zero.
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Returns all packed words by value.
    #[must_use]
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Returns the stream at `row`; `None` past the end.
    #[must_use]
    pub fn stream(&self, row: usize) -> Option<BitStream> {
        let n = self.length.words();
        let words = self.words.get(row.checked_mul(n)?..)?.get(..n)?;
        Some(BitStream { length: self.length, words: words.to_vec() })
    }
}

/// Checks packed words of a caller: their number, and that the bits beyond the length are zero.
///
/// # Errors
/// Returns [`Error::Mismatch`] or [`Error::DirtyTail`].
pub fn check_words(words: &[u64], rows: usize, length: Length) -> Result<()> {
    let n = length.words();
    if rows.checked_mul(n) != Some(words.len()) {
        return Err(Error::Mismatch {
            what: Quantity::Words,
            expected: rows.saturating_mul(n),
            actual: words.len(),
        });
    }
    let dirty = !length.tail_mask();
    let clean = |row: &[u64]| row.last().is_none_or(|last| last & dirty == 0);
    match words.chunks_exact(n).position(|row| !clean(row)) {
        Some(stream) => Err(Error::DirtyTail { stream, length: length.bits() }),
        None => Ok(()),
    }
}
