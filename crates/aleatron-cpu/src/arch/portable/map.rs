//! Maps of counts: the entries of one row of a table for each of many thresholds, and sums of such
//! maps.

use super::table::NEGATIVE;

/// Block size of maps and sums.
pub(crate) const LANES: usize = 64;

/// Number of sums computed at a time: they stay in the first-level cache.
const BLOCK: usize = 512;

/// A map, and the index of its first entry to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapTap {
    pub(crate) map: u32,
    pub(crate) shift: u32,
}

impl MapTap {
    /// Returns the entries, among maps of `len` entries, that are added to the sums from number
    /// `first` on.
    #[inline]
    pub(crate) fn entries(self, maps: &[u16], len: usize, first: usize) -> &[u16] {
        &maps[self.map as usize * len..][..len][self.shift as usize + first..]
    }
}

/// Writes `rows[k][thresholds[j]]` to entry `j` of map `k`, negated if the threshold has the bit
/// [`NEGATIVE`].
#[inline]
pub(crate) fn fill(rows: &[&[u16]], thresholds: &[u16], maps: &mut [u16]) {
    for (row, map) in rows.iter().zip(maps.chunks_exact_mut(thresholds.len())) {
        for (entry, &threshold) in map.iter_mut().zip(thresholds) {
            let sign = (threshold as i16 >> 15) as u16;
            *entry = (row[usize::from(threshold & !NEGATIVE)] ^ sign).wrapping_sub(sign);
        }
    }
}

/// Adds entry `j + shift` of maps of `len` entries to each `sums[j]`, or subtracts it; the change
/// of one sum fits 16 bits with a sign.
#[inline]
pub(crate) fn add(maps: &[u16], len: usize, plus: &[MapTap], minus: &[MapTap], sums: &mut [u32]) {
    for (sums, first) in sums.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
        let mut narrow = [0_u16; BLOCK];
        let narrow = &mut narrow[..sums.len()];
        for tap in plus {
            let entries = &tap.entries(maps, len, first)[..narrow.len()];
            narrow.iter_mut().zip(entries).for_each(|(sum, entry)| *sum = sum.wrapping_add(*entry));
        }
        for tap in minus {
            let entries = &tap.entries(maps, len, first)[..narrow.len()];
            narrow.iter_mut().zip(entries).for_each(|(sum, entry)| *sum = sum.wrapping_sub(*entry));
        }
        for (sum, &narrow) in sums.iter_mut().zip(&*narrow) {
            *sum = sum.wrapping_add(i32::from(narrow as i16) as u32);
        }
    }
}
