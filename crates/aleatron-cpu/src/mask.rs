//! Fault masks of many addresses.

use crate::arch::portable::hits::HitRows;
use crate::encode::check_counter;
use crate::{Cpu, dispatch};
use aleatron_core::fault::{FaultMask, FlipBlocks, Operand};
use aleatron_core::{Connections, Length, Quantity, Result, StreamAddress, Threshold, memory};
use std::time::Duration;

/// Positions whose hits are drawn at a time, about.
const BITS_AT_ONCE: usize = 1 << 20;

/// Nanoseconds that a hit takes, about; only the order of magnitude matters.
const HIT: f64 = 4.0;

/// A rectangle of masks: rows of consecutive units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskGrid {
    /// The length of each mask.
    pub length: Length,
    /// The number of rows.
    pub rows: usize,
    /// The number of units in each row.
    pub units: usize,
}

impl MaskGrid {
    /// Returns the number of words of all masks.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.rows.saturating_mul(self.units).saturating_mul(self.length.words())
    }
}

/// Draws the masks of one fault in one layer; `docs/streams.md` defines their bits.
///
/// ```
/// use aleatron_core::fault::{Faults, FaultSite, Operand, plain};
/// use aleatron_core::{LayerIndex, Length};
/// use aleatron_cpu::{Cpu, MaskDrawer, MaskGrid};
///
/// let faults = Faults::new(7, vec!["products:1e-2".parse()?])?;
/// let mask = faults.at(FaultSite::Products, LayerIndex::ALONE).next().ok_or("no fault")?;
/// let length = Length::new(100)?;
/// let grid = MaskGrid { length, rows: 3, units: 5 };
/// let masks = MaskDrawer::new(mask).masks(&Cpu::current()?, mask.addresses(2, 0, Operand::Inputs), grid)?;
/// let last = plain::mask(&mask, length, Operand::Inputs, 2, 2, 4);
/// assert_eq!(masks[28..], *last.words());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct MaskDrawer {
    mask: FaultMask,
    blocks: Option<FlipBlocks>,
}

impl MaskDrawer {
    /// Prepares the masks of a fault.
    #[must_use]
    pub fn new(mask: FaultMask) -> Self {
        Self { mask, blocks: mask.blocks() }
    }

    /// Returns the masks' fault and layer.
    #[must_use]
    pub const fn mask(&self) -> &FaultMask {
        &self.mask
    }

    /// Returns the addresses of the masks at unit 0; see [`FaultMask::addresses`].
    #[must_use]
    pub fn addresses(&self, sample: u32, row: u32, operand: Operand) -> [StreamAddress; 2] {
        self.mask.addresses(sample, row, operand)
    }

    /// Returns the cycles of a burst; 1 for other faults.
    #[must_use]
    pub const fn cycles(&self) -> usize {
        self.mask.fault().kind().cycles()
    }

    /// Returns whether the rate is low enough for [`Self::hits`].
    #[must_use]
    pub const fn has_hits(&self) -> bool {
        self.blocks.is_some()
    }

    /// Appends the hits of the masks of a grid whose first mask has the given addresses: for each,
    /// the index of the mask times the length plus the index of the bit, row after row. Several
    /// may be equal. A hit begins a burst, if the fault is one.
    ///
    /// Returns false and appends nothing for faults whose masks are not drawn by hits.
    ///
    /// # Errors
    /// [`aleatron_core::Error::TooLarge`] if units or rows pass 2^32.
    pub fn hits(
        &self,
        cpu: &Cpu,
        addresses: [StreamAddress; 2],
        grid: MaskGrid,
        out: &mut Vec<u64>,
    ) -> Result<bool> {
        let Some(blocks) = &self.blocks else { return Ok(false) };
        let address = addresses[0];
        check_counter(Quantity::Inputs, address.unit, grid.units)?;
        check_counter(Quantity::Row, address.row, grid.rows)?;
        if grid.rows == 0 || grid.units == 0 {
            return Ok(true);
        }
        let bits = grid.length.bits() as u128;
        let first = u128::from(address.unit) * bits;
        let row_bits = grid.units as u128 * bits;
        let [from, to] =
            [first, first + row_bits - 1].map(|position| (position >> blocks.log2_bits()) as u64);
        let rows = HitRows {
            blocks,
            address,
            n_rows: grid.rows,
            first_block: from,
            n_blocks: (to - from) as usize + 1,
            first: (first - (u128::from(from) << blocks.log2_bits())) as u64,
            row_bits: row_bits as u64,
        };
        dispatch::hits(cpu.tier(), rows, out);
        Ok(true)
    }

    /// Returns the masks of a grid whose first mask has the given addresses, row after row.
    ///
    /// # Errors
    /// [`aleatron_core::Error::TooLarge`] if units or rows pass 2^32,
    /// [`aleatron_core::Error::Memory`] if the masks do not fit.
    pub fn masks(
        &self,
        cpu: &Cpu,
        addresses: [StreamAddress; 2],
        grid: MaskGrid,
    ) -> Result<Vec<u64>> {
        let mut words: Vec<u64> = memory::zeros(grid.words() as u128, Quantity::Streams)?;
        match &self.blocks {
            Some(blocks) => self.add_blocks(cpu, blocks, addresses, grid, &mut words)?,
            None => self.compare(cpu, addresses, grid, &mut words)?,
        }
        Ok(words)
    }

    /// Sets the bits that have hits, in a grid of zeros.
    fn add_blocks(
        &self,
        cpu: &Cpu,
        blocks: &FlipBlocks,
        addresses: [StreamAddress; 2],
        grid: MaskGrid,
        words: &mut [u64],
    ) -> Result<()> {
        let (length, address) = (grid.length, addresses[0]);
        check_counter(Quantity::Inputs, address.unit, grid.units)?;
        check_counter(Quantity::Row, address.row, grid.rows)?;
        if words.is_empty() {
            return Ok(());
        }
        let units = (BITS_AT_ONCE / length.bits()).clamp(1, grid.units);
        let rows = if units < grid.units { 1 } else { BITS_AT_ONCE / (units * length.bits()) };
        let rows = rows.clamp(1, grid.rows.div_ceil(cpu.threads()));
        let mut items = Vec::new();
        let of_rows = words.chunks_mut(rows * grid.units * length.words());
        for (words, row) in of_rows.zip((address.row..=u32::MAX).step_by(rows)) {
            // Rows are cut into units only if they are taken one by one.
            let per_item = if units < grid.units { units * length.words() } else { words.len() };
            let of_units = words.chunks_mut(per_item);
            items.extend(
                of_units
                    .zip((address.unit..=u32::MAX).step_by(units))
                    .map(|(words, unit)| (address.at_row(row).at_unit(unit), words)),
            );
        }
        let hits = (grid.words() as f64 * 64.0) / (1u64 << blocks.log2_bits()) as f64 * 8.0;
        let cost = Duration::from_nanos((hits * HIT) as u64);
        cpu.pool.try_for_each(items.into_iter(), cost, |(address, words)| {
            let streams = words.len() / length.words();
            let units = units.min(streams);
            let part = MaskGrid { length, rows: streams / units, units };
            let mut hits = Vec::new();
            self.hits(cpu, [address; 2], part, &mut hits)?;
            for hit in hits {
                let (stream, k) = split_hit(hit, length);
                let stream = &mut words[stream * length.words()..][..length.words()];
                set_run(stream, k, self.cycles(), length);
            }
            Ok(())
        })
    }

    /// Draws masks by two comparisons of every bit.
    fn compare(
        &self,
        cpu: &Cpu,
        addresses: [StreamAddress; 2],
        grid: MaskGrid,
        words: &mut [u64],
    ) -> Result<()> {
        let n = grid.rows.saturating_mul(grid.units);
        self.compare_with(grid.length, words, |which, words| {
            let thresholds = vec![self.mask.thresholds()[which]; n];
            cpu.encode_rows_into(&thresholds, grid.units, grid.length, addresses[which], words)
        })
    }

    /// Draws the masks of the connections of a sparse layer by two comparisons of every bit.
    /// `addresses` are those of input 0 at neuron 0.
    ///
    /// # Errors
    /// As [`Cpu::encode_connections`].
    pub fn compare_connections(
        &self,
        cpu: &Cpu,
        addresses: [StreamAddress; 2],
        connections: &Connections,
        length: Length,
        words: &mut [u64],
    ) -> Result<()> {
        self.compare_with(length, words, |which, words| {
            let thresholds = vec![self.mask.thresholds()[which]; connections.len()];
            cpu.encode_connections(connections, &thresholds, length, addresses[which], words)
        })
    }

    /// Joins two comparisons and extends bursts.
    fn compare_with(
        &self,
        length: Length,
        words: &mut [u64],
        encode: impl Fn(usize, &mut [u64]) -> Result<()>,
    ) -> Result<()> {
        encode(0, words)?;
        if self.mask.thresholds()[1] != Threshold::ONE {
            let mut second: Vec<u64> = memory::zeros(words.len() as u128, Quantity::Streams)?;
            encode(1, &mut second)?;
            words.iter_mut().zip(&second).for_each(|(word, second)| *word &= second);
        }
        if self.cycles() > 1 {
            let streams = words.chunks_exact_mut(length.words());
            streams.for_each(|stream| extend(stream, self.cycles(), length));
        }
        Ok(())
    }
}

/// Returns the mask and the bit of a hit.
#[inline]
#[must_use]
pub fn split_hit(hit: u64, length: Length) -> (usize, usize) {
    let bits = length.bits() as u64;
    match bits.is_power_of_two() {
        true => ((hit >> bits.trailing_zeros()) as usize, (hit & (bits - 1)) as usize),
        false => ((hit / bits) as usize, (hit % bits) as usize),
    }
}

/// Returns the words with `cycles` bits of a stream from bit `first` on, or fewer at its end: the
/// index of each word and its bits.
#[inline]
pub fn run_words(
    first: usize,
    cycles: usize,
    length: Length,
) -> impl Iterator<Item = (usize, u64)> {
    let (mut k, end) = (first, first.saturating_add(cycles).min(length.bits()));
    std::iter::from_fn(move || {
        (k < end).then(|| {
            let n = (64 - k % 64).min(end - k);
            let word = (k / 64, (u64::MAX >> (64 - n)) << (k % 64));
            k += n;
            word
        })
    })
}

/// Sets `cycles` bits of a stream from bit `first` on, or fewer at its end.
pub fn set_run(stream: &mut [u64], first: usize, cycles: usize, length: Length) {
    run_words(first, cycles, length).for_each(|(index, bits)| stream[index] |= bits);
}

/// Extends every one of a stream to a run of `cycles` ones.
fn extend(stream: &mut [u64], cycles: usize, length: Length) {
    let starts = stream.to_vec();
    let mut end = 0;
    for (word, mut bits) in starts.into_iter().enumerate() {
        while bits != 0 {
            let start = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // Earlier runs reach to `end`.
            let first = start.max(end);
            end = start.saturating_add(cycles).min(length.bits());
            set_run(stream, first, end - first.min(end), length);
        }
    }
}
