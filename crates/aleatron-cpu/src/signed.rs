//! Signed operands: negative streams are complemented, and counts are corrected for the
//! complements.
//!
//! Let w' be the complement of a weight stream w if the weight is negative, otherwise w itself, and
//! x' likewise for an input. The sum of the signed products is then the ones that w' and x' share,
//! minus the ones of x' under negative weights, minus the ones of w' under negative inputs, plus
//! the length for each pair of negative operands. So signed rows are counted by the kernels of
//! unipolar ones, and the correction afterwards is one addition per weight, whatever the length.

use crate::arch::portable::signed as portable;
use crate::cost::Costs;
use crate::dispatch::{self, SIGNED_LANES as LANES};
use crate::{Cpu, Tier};
use aleatron_core::{Error, Length, Quantity, Result, memory};
use std::ops::Range;

pub(crate) use crate::arch::portable::signed::Term;

/// Number of rows of inputs summed together.
const TOGETHER: usize = 4;

/// The longest streams whose ones are summed in 16 bits.
const NARROW: usize = i16::MAX as usize;

/// The width of the integers for sums of ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermWidth {
    /// 16 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

impl TermWidth {
    /// Returns the width for streams of a length.
    pub(crate) const fn of(length: Length) -> Self {
        if length.bits() <= NARROW { Self::Narrow } else { Self::Wide }
    }
}

/// The order of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountLayout {
    /// By row of inputs, then by row of weights.
    ByInputRow,
    /// By row of weights, then by row of inputs.
    ByWeightRow,
}

/// The corrections for the complements of a matrix of weight streams.
#[derive(Debug, Clone)]
pub(crate) struct SignTable {
    n_rows: usize,
    per_row: usize,
    length: Length,
    values: Values,
}

/// The ones of each weight stream before it was complemented, negated if it was: by block of
/// [`LANES`] rows, then by stream. A negative weight whose stream has no ones is not complemented:
/// it counts neither up nor down.
#[derive(Debug, Clone)]
enum Values {
    Narrow(Vec<[i16; LANES]>),
    Wide(Vec<[i64; LANES]>),
}

impl SignTable {
    /// Complements the streams of negative weights, rows of `per_row` streams, and stores the
    /// corrections.
    pub(crate) fn new(
        cpu: &Cpu,
        streams: &mut [u64],
        per_row: usize,
        length: Length,
        negative: &[bool],
    ) -> Result<Self> {
        let n_rows = negative.len() / per_row.max(1);
        let blocks = n_rows.div_ceil(LANES);
        let len = blocks as u128 * per_row as u128;
        let values = match length.bits() {
            0..=NARROW => {
                let mut values = memory::zeros(len, Quantity::Weights)?;
                complement_rows(cpu, streams, per_row, length, negative, &mut values, |ones| {
                    ones as i16
                });
                Values::Narrow(values)
            }
            _ => {
                let mut values = memory::zeros(len, Quantity::Weights)?;
                complement_rows(cpu, streams, per_row, length, negative, &mut values, |ones| ones);
                Values::Wide(values)
            }
        };
        Ok(Self { n_rows, per_row, length, values })
    }

    /// Returns the number of blocks of rows.
    pub(crate) fn n_blocks(&self) -> usize {
        self.n_rows.div_ceil(LANES)
    }

    /// Returns the rows of some blocks.
    pub(crate) fn rows_of(&self, blocks: &Range<usize>) -> Range<usize> {
        (blocks.start * LANES).min(self.n_rows)..(blocks.end * LANES).min(self.n_rows)
    }

    /// Subtracts the corrections from `counts`, of some rows of inputs and the weight rows of
    /// `blocks`.
    pub(crate) fn subtract(
        &self,
        tier: Tier,
        terms: TermRows<'_>,
        blocks: Range<usize>,
        layout: CountLayout,
        counts: &mut [u64],
    ) -> Result<()> {
        match (&self.values, terms) {
            (Values::Narrow(values), TermRows::Narrow(terms)) => {
                let at_once = NARROW / self.length.bits();
                self.subtract_terms(tier, values, &terms, blocks, layout, counts, at_once);
            }
            (Values::Wide(values), TermRows::Wide(terms)) => {
                self.subtract_terms(tier, values, &terms, blocks, layout, counts, self.per_row);
            }
            // Terms are computed for the length of the table.
            _ => {
                return Err(Error::Internal {
                    place: "cpu::signed::subtract, terms of another length",
                });
            }
        }
        Ok(())
    }

    /// Sums `at_once` terms in an integer of their own width.
    #[expect(clippy::too_many_arguments, reason = "those of `subtract`, by width")]
    fn subtract_terms<T: SumTerms>(
        &self,
        tier: Tier,
        values: &[[T; LANES]],
        terms: &TermSlices<'_, T>,
        blocks: Range<usize>,
        layout: CountLayout,
        counts: &mut [u64],
        at_once: usize,
    ) {
        let (n, rows, n_inputs) = (self.per_row, self.rows_of(&blocks), terms.starts.len());
        let mut first = 0;
        while first < n_inputs {
            let together = if n_inputs - first >= TOGETHER { TOGETHER } else { 1 };
            for block in blocks.clone() {
                let lanes = self.rows_of(&(block..block + 1));
                let lanes = lanes.start - rows.start..lanes.end - rows.start;
                for start in (0..n).step_by(at_once) {
                    let streams = start..n.min(start + at_once);
                    let values = &values[block * n..][streams.clone()];
                    let mut take = |row: usize, sums: &[T; LANES]| {
                        let (from, step) = match layout {
                            CountLayout::ByInputRow => (row * rows.len() + lanes.start, 1),
                            CountLayout::ByWeightRow => (lanes.start * n_inputs + row, n_inputs),
                        };
                        let counts = counts[from..].iter_mut().step_by(step).take(lanes.len());
                        for (count, &sum) in counts.zip(sums) {
                            *count = count.wrapping_sub(sum.into() as u64);
                        }
                    };
                    if together == TOGETHER {
                        let sums = T::sum::<TOGETHER>(tier, values, terms.some(first, &streams));
                        sums.iter().enumerate().for_each(|(r, sums)| take(first + r, sums));
                    } else {
                        take(first, &T::sum::<1>(tier, values, terms.some(first, &streams))[0]);
                    }
                }
            }
            first += together;
        }
    }
}

/// The terms of some rows of inputs.
#[derive(Debug)]
pub(crate) enum TermRows<'a> {
    Narrow(TermSlices<'a, i16>),
    Wide(TermSlices<'a, i64>),
}

/// The terms of rows that start at known elements; without masks if no input is negative.
#[derive(Debug)]
pub(crate) struct TermSlices<'a, T> {
    pub(crate) ones: &'a [T],
    pub(crate) masks: Option<&'a [T]>,
    pub(crate) starts: RowStarts<'a>,
}

/// The first elements of rows.
#[derive(Debug)]
pub(crate) enum RowStarts<'a> {
    /// Some of the rows of a matrix.
    Matrix { rows: Range<usize>, per_row: usize },
    /// Any elements.
    At(&'a [usize]),
}

impl RowStarts<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Matrix { rows, .. } => rows.len(),
            Self::At(starts) => starts.len(),
        }
    }

    fn get(&self, row: usize) -> usize {
        match self {
            Self::Matrix { rows, per_row } => (rows.start + row) * per_row,
            Self::At(starts) => starts[row],
        }
    }
}

impl<T> TermSlices<'_, T> {
    /// Returns some streams of the `S` rows from `first` on.
    fn some<const S: usize>(&self, first: usize, streams: &Range<usize>) -> SomeTerms<'_, T, S> {
        let row = |r: usize| {
            let start = self.starts.get(first + r);
            start + streams.start..start + streams.end
        };
        SomeTerms {
            ones: std::array::from_fn(|r| &self.ones[row(r)]),
            masks: self.masks.map(|masks| std::array::from_fn(|r| &masks[row(r)])),
        }
    }
}

/// The terms of some streams of `S` rows of inputs.
struct SomeTerms<'a, T, const S: usize> {
    ones: [&'a [T]; S],
    masks: Option<[&'a [T]; S]>,
}

/// Integers that terms are summed in.
trait SumTerms: Term + Into<i64> {
    /// Returns the corrections for a block of weight rows and rows of inputs.
    fn sum<const S: usize>(
        tier: Tier,
        values: &[[Self; LANES]],
        terms: SomeTerms<'_, Self, S>,
    ) -> [[Self; LANES]; S];
}

impl SumTerms for i16 {
    fn sum<const S: usize>(
        tier: Tier,
        values: &[[Self; LANES]],
        terms: SomeTerms<'_, Self, S>,
    ) -> [[Self; LANES]; S] {
        match terms.masks {
            None => dispatch::ones_of_negative(tier, values, terms.ones),
            Some(masks) => dispatch::ones_of_either(tier, values, terms.ones, masks),
        }
    }
}

impl SumTerms for i64 {
    fn sum<const S: usize>(
        _: Tier,
        values: &[[Self; LANES]],
        terms: SomeTerms<'_, Self, S>,
    ) -> [[Self; LANES]; S] {
        // Streams are so long that the cost of their terms is negligible.
        match terms.masks {
            None => portable::ones_of_negative(values, terms.ones),
            Some(masks) => portable::ones_of_either(values, terms.ones, masks),
        }
    }
}

/// Complements the streams of negative weights and writes their ones by block of rows.
fn complement_rows<T: Term>(
    cpu: &Cpu,
    streams: &mut [u64],
    per_row: usize,
    length: Length,
    negative: &[bool],
    values: &mut [[T; LANES]],
    value: impl Fn(i64) -> T + Sync,
) {
    let words = length.words();
    let cost = Costs::of(cpu.tier).count(streams.len());
    let blocks = streams.chunks_mut(LANES * per_row * words).zip(negative.chunks(LANES * per_row));
    let items: Vec<_> = blocks.zip(values.chunks_mut(per_row)).collect();
    cpu.pool.for_each(items.into_iter(), cost, |((streams, negative), values)| {
        let mut ones = vec![0; per_row];
        let rows = streams.chunks_exact_mut(per_row * words).zip(negative.chunks_exact(per_row));
        for (lane, (row, negative)) in rows.enumerate() {
            dispatch::stream_ones(cpu.tier, row, words, &mut ones);
            let streams = row.chunks_exact_mut(words).zip(negative);
            for ((values, &ones), (stream, &is_negative)) in
                values.iter_mut().zip(&ones).zip(streams)
            {
                values[lane] = value(if is_negative { -(ones as i64) } else { ones as i64 });
                if is_negative && ones > 0 {
                    complement(stream, length);
                }
            }
        }
    });
}

/// Complements the bits of a stream.
pub(crate) fn complement(stream: &mut [u64], length: Length) {
    stream.iter_mut().for_each(|word| *word = !*word);
    if let Some(last) = stream.last_mut() {
        *last &= length.tail_mask();
    }
}

/// The terms of rows of input streams for [`SignTable::subtract`]: the ones of each stream after
/// complementing, and a mask of -1 for each negative one.
#[derive(Debug)]
pub(crate) enum Terms {
    Narrow(TermsOf<i16>),
    Wide(TermsOf<i64>),
}

/// Terms in integers of one width; without masks if no input is negative.
#[derive(Debug, Clone)]
pub(crate) struct TermsOf<T> {
    ones: Vec<T>,
    masks: Option<Vec<T>>,
}

impl<T> TermsOf<T> {
    fn rows(&self, rows: Range<usize>, per_row: usize) -> TermSlices<'_, T> {
        let starts = RowStarts::Matrix { rows, per_row };
        TermSlices { ones: &self.ones, masks: self.masks.as_deref(), starts }
    }
}

impl Terms {
    /// Returns the terms of some rows of `per_row` inputs.
    pub(crate) fn rows(&self, rows: Range<usize>, per_row: usize) -> TermRows<'_> {
        match self {
            Self::Narrow(terms) => TermRows::Narrow(terms.rows(rows, per_row)),
            Self::Wide(terms) => TermRows::Wide(terms.rows(rows, per_row)),
        }
    }

    /// Complements the streams of negative inputs, and returns their terms.
    pub(crate) fn new(tier: Tier, words: &mut [u64], length: Length, negative: &[bool]) -> Self {
        let per_stream = length.words();
        let mut ones = vec![0; negative.len()];
        dispatch::stream_ones(tier, words, per_stream, &mut ones);
        let mut any = false;
        let streams = words.chunks_exact_mut(per_stream).zip(&mut ones).zip(negative);
        for ((stream, ones), _) in streams.filter(|(_, negative)| **negative) {
            any = true;
            *ones = length.bits() as u64 - *ones;
            complement(stream, length);
        }
        let mask = |&is_negative: &bool| if is_negative { -1 } else { 0 };
        match length.bits() {
            0..=NARROW => Self::Narrow(TermsOf {
                ones: ones.iter().map(|&ones| ones as i16).collect(),
                masks: any.then(|| negative.iter().map(mask).collect()),
            }),
            _ => Self::Wide(TermsOf {
                ones: ones.iter().map(|&ones| ones as i64).collect(),
                masks: any.then(|| negative.iter().map(|negative| mask(negative).into()).collect()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms of streams that are too long for the integers of a table must not leave counts that
    /// look valid.
    #[test]
    fn terms_of_another_length_are_an_internal_error() {
        let cpu = Cpu::new(Tier::current().unwrap(), crate::threads::current().unwrap());
        let [short, long] = [64, 2 * NARROW].map(|bits| Length::new(bits).unwrap());
        let table = SignTable::new(&cpu, &mut vec![0; short.words()], 1, short, &[true]).unwrap();
        let terms = Terms::new(cpu.tier(), &mut vec![0; long.words()], long, &[true]);
        let layout = CountLayout::ByInputRow;
        let refused = table.subtract(cpu.tier(), terms.rows(0..1, 1), 0..1, layout, &mut [0]);
        assert!(matches!(refused, Err(Error::Internal { .. })), "{refused:?}");
    }
}
