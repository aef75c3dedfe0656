//! Fault masks at the speed of the stream encoders.

use aleatron_core::fault::{FaultMask, FaultSite, Faults, Operand};
use aleatron_core::philox::philox4x32;
use aleatron_core::{
    Error, LayerSpec, Length, Quantity, Result, StreamAddress, Threshold, Topology, memory,
};
use aleatron_cpu::Cpu;

/// The least first threshold for which the second comparison is computed for all bits at once:
/// above it, most words have a bit that needs it, and the encoder is faster than single bits.
const DENSE: u64 = 1 << (32 - 7);

/// A rectangle of masks: consecutive rows of consecutive units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) length: Length,
    pub(super) rows: usize,
    pub(super) units: usize,
}

impl Grid {
    pub(super) const fn words(&self) -> usize {
        self.rows.saturating_mul(self.units).saturating_mul(self.length.words())
    }

    /// Returns the masks of a fault from an address on, row after row.
    pub(super) fn draw(
        &self,
        cpu: &Cpu,
        mask: &FaultMask,
        addresses: [StreamAddress; 2],
    ) -> Result<Vec<u64>> {
        let mut words = memory::zeros(self.words() as u128, Quantity::Streams)?;
        let n = self.rows.saturating_mul(self.units);
        let [coarse, fine] = mask.thresholds();
        let thresholds = vec![coarse; n];
        cpu.encode_rows_into(&thresholds, self.units, self.length, addresses[0], &mut words)?;
        if fine != Threshold::ONE && coarse.get() >= DENSE {
            let mut second = memory::zeros(self.words() as u128, Quantity::Streams)?;
            cpu.encode_rows_into(
                &vec![fine; n],
                self.units,
                self.length,
                addresses[1],
                &mut second,
            )?;
            words
                .iter_mut()
                .zip(&second)
                .for_each(|(word, second): (&mut u64, &u64)| *word &= second);
            if let cycles @ 2.. = mask.fault().kind().cycles() {
                let streams = words.chunks_exact_mut(self.length.words());
                streams.for_each(|stream| extend(stream, cycles, self.length));
            }
            return Ok(words);
        }
        let streams = words.chunks_exact_mut(self.length.words()).enumerate();
        for (k, stream) in streams.filter(|(_, stream)| stream.iter().any(|&word| word != 0)) {
            // The encoder has checked that rows and units fit.
            let row = addresses[1].row.wrapping_add((k / self.units) as u32);
            let unit = addresses[1].unit.wrapping_add((k % self.units) as u32);
            finish(stream, mask, addresses[1].at_row(row).at_unit(unit), self.length);
        }
        Ok(words)
    }
}

/// Turns the bits of the first comparison of a mask into the mask.
fn finish(stream: &mut [u64], mask: &FaultMask, address: StreamAddress, length: Length) {
    let [_, fine] = mask.thresholds();
    if fine != Threshold::ONE {
        for (word, bits) in
            stream.iter_mut().zip((0u32..).step_by(2)).map(|(bits, word)| (word, bits))
        {
            if *bits != 0 {
                let low = refine(*bits as u32, word, fine, address);
                let high = refine((*bits >> 32) as u32, word + 1, fine, address);
                *bits = u64::from(high) << 32 | u64::from(low);
            }
        }
    }
    match mask.fault().kind().cycles() {
        1 => {}
        cycles => extend(stream, cycles, length),
    }
}

/// Returns the bits of `bits`, of one 32-bit word of a stream, whose uniform integers are below the
/// threshold.
fn refine(bits: u32, word: u32, threshold: Threshold, address: StreamAddress) -> u32 {
    let (mut undecided, mut below) = (bits, 0);
    let threshold = threshold.get() as u32;
    for draw in 0..8 {
        // No bit is set once the threshold has no ones left.
        let rest = threshold << (4 * draw);
        if undecided == 0 || rest == 0 {
            break;
        }
        for (plane, m) in
            philox4x32(address.counter(word, draw), address.key()).into_iter().zip(0..4)
        {
            if rest << m >> 31 == 1 {
                below |= undecided & !plane;
                undecided &= plane;
            } else {
                undecided &= !plane;
            }
        }
    }
    below
}

/// Extends every one of a stream to a run of `cycles` ones.
fn extend(stream: &mut [u64], cycles: usize, length: Length) {
    let starts = stream.to_vec();
    let mut end = 0;
    for (word, mut bits) in starts.into_iter().enumerate() {
        while bits != 0 {
            let start = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let first = start.max(end);
            end = start.saturating_add(cycles).min(length.bits());
            let mut k = first;
            while k < end {
                let n = (64 - k % 64).min(end - k);
                stream[k / 64] |= (u64::MAX >> (64 - n)) << (k % 64);
                k += n;
            }
        }
    }
}

/// Flips the bits of `words` selected by `mask`.
pub(super) fn flip(words: &mut [u64], mask: &[u64]) {
    words.iter_mut().zip(mask).for_each(|(word, mask)| *word ^= mask);
}

/// Returns a number as a field of a Philox counter.
pub(super) fn field(what: Quantity, value: usize) -> Result<u32> {
    let (actual, limit) = (value as u128, u32::MAX.into());
    u32::try_from(value).map_err(|_| Error::TooLarge { what, actual, limit })
}

/// The weights of a layer as rows of units.
pub(super) struct WeightGrid<'a> {
    pub(super) spec: &'a LayerSpec,
}

impl WeightGrid<'_> {
    /// Returns the mask of each weight of rows `first..first + rows` for a site, in their order;
    /// `None` without faults. A mask has `length` bits.
    pub(super) fn masks(
        &self,
        cpu: &Cpu,
        masks: impl Iterator<Item = FaultMask>,
        length: Length,
        operand: Operand,
        sample: u32,
        [first, rows]: [usize; 2],
    ) -> Result<Option<Vec<u64>>> {
        let mut all: Option<Vec<u64>> = None;
        for mask in masks {
            let row = self.spec.first_neuron().wrapping_add(field(Quantity::Row, first)?);
            let addresses = mask.addresses(sample, row, operand);
            let drawn = self.draw(cpu, &mask, addresses, length, [first, rows])?;
            match &mut all {
                Some(all) => flip(all, &drawn),
                None => all = Some(drawn),
            }
        }
        Ok(all)
    }

    fn draw(
        &self,
        cpu: &Cpu,
        mask: &FaultMask,
        addresses: [StreamAddress; 2],
        length: Length,
        [first, rows]: [usize; 2],
    ) -> Result<Vec<u64>> {
        let Topology::Sparse(connections) = self.spec.topology() else {
            let units = self.spec.n_weights() / self.spec.n_rows();
            return Grid { length, rows, units }.draw(cpu, mask, addresses);
        };
        let neurons = self.spec.neurons(first..first + rows)?;
        let Topology::Sparse(own) = neurons.topology() else {
            return Err(Error::Internal { place: "engine::fault::WeightGrid::draw" });
        };
        let n = own.len();
        let mut words = memory::zeros(n as u128 * length.words() as u128, Quantity::Streams)?;
        let [coarse, _] = mask.thresholds();
        cpu.encode_connections(own, &vec![coarse; n], length, addresses[0], &mut words)?;
        let units = (first..first + rows).zip(addresses[1].row..=u32::MAX);
        let units = units
            .flat_map(|(j, row)| connections.inputs_of(j).iter().map(move |&unit| (row, unit)));
        for (stream, (row, unit)) in words.chunks_exact_mut(length.words()).zip(units) {
            if stream.iter().any(|&word| word != 0) {
                finish(stream, mask, addresses[1].at_row(row).at_unit(unit), length);
            }
        }
        Ok(words)
    }
}

/// Returns the level that the generator of each operand of a grid is stuck at, if any.
pub(super) fn stuck_at(zero: Option<&[u64]>, one: Option<&[u64]>, n: usize) -> Vec<Option<bool>> {
    let is_set = |mask: Option<&[u64]>, k: usize| {
        mask.and_then(|mask| mask.get(k)).is_some_and(|&bit| bit == 1)
    };
    let level = |k| match (is_set(zero, k), is_set(one, k)) {
        (_, true) => Some(true),
        (true, false) => Some(false),
        (false, false) => None,
    };
    (0..n).map(level).collect()
}

/// Returns whether generators are stuck, at 0 or at 1.
pub(super) fn has_stuck(faults: &Faults) -> bool {
    faults.has(FaultSite::StuckAtZero) || faults.has(FaultSite::StuckAtOne)
}
