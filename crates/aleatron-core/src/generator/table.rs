//! Counting products without making the bits.
//!
//! When two sequences are shared, the product of two streams depends on nothing but their thresholds, so its count is
//! a number in a table. [`PrefixCounts`] makes one row of that table, for one input threshold, in `L + 2^W` steps;
//! [`CountTable`] holds all rows. Every entry equals the count of the streams made bit by bit.

use super::{Sequence, Width};
use crate::dense::Polarity;
use crate::error::{Error, Quantity, Result};
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
    /// The weight sequence's integers, ordered by the input sequence's integer at the same position.
    weights: Vec<u16>,
    /// The number of ones of the input stream at each threshold: that many of `weights` come first.
    input_ones: Vec<u32>,
    /// The number of ones of the weight stream at each threshold.
    weight_ones: Vec<u32>,
}

impl PrefixCounts {
    /// The widest sequence counted this way: thresholds up to 2^W then fit 16 bits.
    pub const MAX_WIDTH: u32 = 15;

    /// Prepares the pair.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a sequence wider than [`Self::MAX_WIDTH`] or a length of 2^32 bits or more,
    /// [`Error::Memory`] where the sequences do not fit.
    pub fn new(inputs: &Sequence, weights: &Sequence, length: Length, polarity: Polarity) -> Result<Self> {
        for width in [inputs.width(), weights.width()] {
            check_width(width, Self::MAX_WIDTH)?;
        }
        let bits = u32::try_from(length.bits()).map_err(|_| Error::TooLarge {
            what: Quantity::Length,
            actual: length.bits() as u128,
            limit: u32::MAX.into(),
        })?;
        let input_ones = ones(inputs, length);
        // A counting sort: the next free place of each input integer.
        let mut places = input_ones.clone();
        let mut ordered = with_capacity(length.bits())?;
        ordered.resize(length.bits(), 0);
        for (u, w) in inputs.values().zip(weights.values()).take(length.bits()) {
            let place = &mut places[u as usize];
            ordered[*place as usize] = w as u16;
            *place += 1;
        }
        Ok(Self { length: bits, polarity, weights: ordered, input_ones, weight_ones: ones(weights, length) })
    }

    /// The number of entries of a row, one per weight threshold: `2^W + 1`.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.weight_ones.len()
    }

    /// Appends the counts of the input stream at threshold `input` with the weight streams at every threshold. As for a
    /// comparator, a threshold past `2^W` makes the stream of ones.
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
            Polarity::Unipolar => {
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
    /// The widest sequence that gets a table; at this width one takes 64 MiB.
    pub const MAX_WIDTH: u32 = 12;

    /// Counts every pair of thresholds.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a sequence wider than [`Self::MAX_WIDTH`] or a length of 2^32 bits or more,
    /// [`Error::Memory`] where it does not fit.
    pub fn new(inputs: &Sequence, weights: &Sequence, length: Length, polarity: Polarity) -> Result<Self> {
        for width in [inputs.width(), weights.width()] {
            check_width(width, Self::MAX_WIDTH)?;
        }
        let prefixes = PrefixCounts::new(inputs, weights, length, polarity)?;
        let (row_len, n_rows) = (prefixes.row_len(), inputs.width().one() + 1);
        let mut counts = with_capacity(row_len * n_rows as usize)?;
        (0..n_rows).for_each(|input| prefixes.append_row(input, &mut counts));
        Ok(Self { row_len, counts })
    }

    /// The counts of an input threshold with every weight threshold. A threshold past `2^W` makes the stream of ones.
    #[inline]
    #[must_use]
    pub fn row(&self, input: u64) -> &[u32] {
        let last = self.counts.len() / self.row_len - 1;
        let first = usize::try_from(input).map_or(last, |input| input.min(last)) * self.row_len;
        &self.counts[first..first + self.row_len]
    }

    /// The count of one pair of thresholds.
    #[inline]
    #[must_use]
    pub fn get(&self, input: u64, weight: u64) -> u64 {
        let last = self.row_len - 1;
        self.row(input)[usize::try_from(weight).map_or(last, |weight| weight.min(last))].into()
    }
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

/// The number of ones at each threshold from 0 to `2^W`. The caller has checked that the width is small.
fn ones(sequence: &Sequence, length: Length) -> Vec<u32> {
    let mut ones = vec![0; sequence.width().one() as usize + 1];
    for u in sequence.values().take(length.bits()) {
        ones[u as usize + 1] += 1;
    }
    let mut sum = 0;
    for entry in &mut ones {
        sum += *entry;
        *entry = sum;
    }
    ones
}

fn with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    match out.try_reserve_exact(len) {
        Ok(()) => Ok(out),
        Err(_) => Err(Error::Memory {
            what: Quantity::CountTable,
            bytes: len as u128 * size_of::<T>() as u128,
            available: None,
        }),
    }
}
