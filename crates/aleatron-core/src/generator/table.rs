//! Counts of products without generating the bits.
//!
//! If two sequences are shared, the product of two streams depends only on their thresholds, so its
//! count can be read from a table. [`PrefixCounts`] computes one row of that table, for one input
//! threshold, in `L + 2^W` steps; [`CountTable`] holds all rows. Every entry equals the count of
//! the bit-by-bit streams; for signed operands, of their magnitudes.

use super::{Sequence, Width};
use crate::error::{Error, Quantity, Result};
use crate::memory;
use crate::polarity::Polarity;
use crate::stream::Length;

/// The products of one input stream with every weight threshold, for one pair of sequences.
///
/// ```
/// use aleatron_core::generator::{PrefixCounts, Sequence, Sobol, Width};
/// use aleatron_core::{Length, Polarity, gates};
/// let [x, w] = [1, 2].map(|dimension| Sobol::new(dimension, Width::EIGHT).map(Sequence::Sobol));
/// let (x, w, length) = (x?, w?, Length::new(100)?);
/// let mut row = Vec::new();
/// PrefixCounts::new(&x, &w, length, Polarity::Bipolar)?.append_row(200, &mut row);
/// let product = gates::xnor(&x.encode(200, length), &w.encode(77, length))?;
/// assert_eq!(u64::from(row[77]), product.ones());
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PrefixCounts {
    length: u32,
    polarity: Polarity,
    /// The weight sequence's integers, ordered by the input sequence's integer at the same
    /// position.
    weights: Vec<u16>,
    /// The number of ones of the input stream at each threshold: this many of `weights` come first.
    input_ones: Vec<u32>,
    /// The number of ones of the weight stream at each threshold.
    weight_ones: Vec<u32>,
}

impl PrefixCounts {
    /// The widest supported sequence: thresholds up to 2^W fit 16 bits.
    pub const MAX_WIDTH: u32 = 15;

    /// The longest supported streams, in bits.
    pub const MAX_LENGTH: usize = 1 << 28;

    /// Prepares a pair of sequences for streams of `length`.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for a sequence wider than [`Self::MAX_WIDTH`] or a length above
    /// [`Self::MAX_LENGTH`], [`Error::Memory`] if the sequences do not fit.
    pub fn new(
        inputs: &Sequence,
        weights: &Sequence,
        length: Length,
        polarity: Polarity,
    ) -> Result<Self> {
        check_length(length.bits())?;
        let collect = |sequence: &Sequence| -> Result<Vec<u32>> {
            let mut values = memory::with_capacity(length.bits() as u128, Quantity::CountTable)?;
            values.extend(sequence.values().take(length.bits()));
            Ok(values)
        };
        let widths = [inputs.width(), weights.width()];
        Self::from_values(&collect(inputs)?, &collect(weights)?, widths, polarity)
    }

    /// Prepares a pair of sequences given by their integers, which have the given widths and are
    /// equally many.
    ///
    /// # Errors
    /// As for [`Self::new`], [`Error::Mismatch`] unless there is one weight integer per input
    /// integer, and [`Error::OutOfRange`] with the index of an integer of `2^W` or more.
    pub fn from_values(
        inputs: &[u32],
        weights: &[u32],
        widths: [Width; 2],
        polarity: Polarity,
    ) -> Result<Self> {
        let bits = Length::new(inputs.len())?.bits();
        let length = check_length(bits)?;
        if weights.len() != bits {
            return Err(Error::Mismatch {
                what: Quantity::Length,
                expected: bits,
                actual: weights.len(),
            });
        }
        let (input_ones, weight_ones) = (ones(inputs, widths[0])?, ones(weights, widths[1])?);
        // A counting sort: the next free position for each input integer.
        let mut positions = input_ones.clone();
        let mut ordered = memory::zeros(bits as u128, Quantity::CountTable)?;
        for (&u, &w) in inputs.iter().zip(weights) {
            let position = &mut positions[u as usize];
            ordered[*position as usize] = w as u16;
            *position += 1;
        }
        Ok(Self { length, polarity, weights: ordered, input_ones, weight_ones })
    }

    /// Returns the number of entries of a row, one per weight threshold: `2^W + 1`.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.weight_ones.len()
    }

    /// Appends the counts of the input stream at threshold `input` with the weight streams at every
    /// threshold. As for a comparator, a threshold above `2^W` gives the stream of ones.
    pub fn append_row(&self, input: u64, rows: &mut Vec<u32>) {
        let last = self.input_ones.len() - 1;
        let ones = self.input_ones[usize::try_from(input).map_or(last, |input| input.min(last))];
        let first = rows.len();
        rows.resize(first + self.row_len(), 0);
        let row = &mut rows[first..];
        for &w in &self.weights[..ones as usize] {
            row[usize::from(w) + 1] += 1;
        }
        let mut both = 0;
        match self.polarity {
            Polarity::Unipolar | Polarity::Signed => {
                for entry in row {
                    both += *entry;
                    *entry = both;
                }
            }
            Polarity::Bipolar => {
                // Matches are both ones or both zeros.
                for (entry, &weight_ones) in row.iter_mut().zip(&self.weight_ones) {
                    both += *entry;
                    *entry = both + (self.length - (ones - both) - weight_ones);
                }
            }
        }
    }
}

/// The counts of all products of two sequences: F\[Tx\]\[Tw\].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountTable {
    row_len: usize,
    counts: Vec<u32>,
}

impl CountTable {
    /// The widest sequence that gets a table; a table of this width takes 64 MiB.
    pub const MAX_WIDTH: u32 = 12;

    /// Counts every pair of thresholds of two sequences.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for a sequence wider than [`Self::MAX_WIDTH`] or a length above
    /// [`PrefixCounts::MAX_LENGTH`], [`Error::Memory`] if it does not fit.
    pub fn new(
        inputs: &Sequence,
        weights: &Sequence,
        length: Length,
        polarity: Polarity,
    ) -> Result<Self> {
        check_width(inputs.width(), Self::MAX_WIDTH)?;
        check_width(weights.width(), Self::MAX_WIDTH)?;
        Self::from_prefixes(&PrefixCounts::new(inputs, weights, length, polarity)?)
    }

    /// Computes all rows of prepared sequences.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit.
    pub fn from_prefixes(prefixes: &PrefixCounts) -> Result<Self> {
        let (row_len, n_rows) = (prefixes.row_len(), prefixes.input_ones.len());
        let mut counts =
            memory::with_capacity(row_len as u128 * n_rows as u128, Quantity::CountTable)?;
        (0..n_rows as u64).for_each(|input| prefixes.append_row(input, &mut counts));
        Ok(Self { row_len, counts })
    }

    /// Returns the table of the negatives of all counts, as signed integers: the counts of signed
    /// operands with different signs.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if it does not fit.
    pub fn negative(&self) -> Result<Self> {
        let mut counts = memory::with_capacity(self.counts.len() as u128, Quantity::CountTable)?;
        counts.extend(self.counts.iter().map(|count| count.wrapping_neg()));
        Ok(Self { row_len: self.row_len, counts })
    }

    /// Returns all counts, row by row.
    #[must_use]
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the counts of an input threshold with every weight threshold. A threshold above
    /// `2^W` gives the stream of ones.
    #[inline]
    #[must_use]
    pub fn row(&self, input: u64) -> &[u32] {
        let last = self.counts.len() / self.row_len - 1;
        let first = usize::try_from(input).map_or(last, |input| input.min(last)) * self.row_len;
        &self.counts[first..first + self.row_len]
    }

    /// Returns the count of one pair of thresholds.
    #[inline]
    #[must_use]
    pub fn get(&self, input: u64, weight: u64) -> u64 {
        let last = self.row_len - 1;
        self.row(input)[usize::try_from(weight).map_or(last, |weight| weight.min(last))].into()
    }
}

/// Returns the length as the 32 bits of a count.
fn check_length(bits: usize) -> Result<u32> {
    let limit = PrefixCounts::MAX_LENGTH;
    if bits > limit {
        let (actual, limit) = (bits as u128, limit as u128);
        return Err(Error::TooLarge { what: Quantity::Length, actual, limit });
    }
    Ok(bits as u32)
}

fn check_width(width: Width, limit: u32) -> Result<()> {
    if width.bits() > limit {
        return Err(Error::TooLarge {
            what: Quantity::Width,
            actual: width.bits().into(),
            limit: limit.into(),
        });
    }
    Ok(())
}

/// Counts the ones at each threshold from 0 to `2^W`.
fn ones(values: &[u32], width: Width) -> Result<Vec<u32>> {
    check_width(width, PrefixCounts::MAX_WIDTH)?;
    let one = width.one() as usize;
    let mut ones = vec![0; one + 1];
    for (index, &u) in values.iter().enumerate() {
        if u as usize >= one {
            let (value, high) = (u.into(), (one - 1) as f64);
            return Err(Error::OutOfRange { what: Quantity::Value, index, value, low: 0.0, high });
        }
        ones[u as usize + 1] += 1;
    }
    let mut sum = 0;
    for entry in &mut ones {
        sum += *entry;
        *entry = sum;
    }
    Ok(ones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_accepted() {
        let longest = PrefixCounts::MAX_LENGTH;
        assert_eq!(check_length(longest), Ok(longest as u32));
        assert!(check_length(longest + 1).is_err());
        for limit in [CountTable::MAX_WIDTH, PrefixCounts::MAX_WIDTH] {
            let check = |bits| Width::new(bits).and_then(|width| check_width(width, limit));
            assert_eq!(check(limit), Ok(()));
            let actual = u128::from(limit) + 1;
            let wide = Error::TooLarge { what: Quantity::Width, actual, limit: limit.into() };
            assert_eq!(check(limit + 1), Err(wide));
        }
    }
}
