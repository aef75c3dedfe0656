//! Filling maps of counts.

use super::table::{ENTRIES, UNROLLED, add_row};
use crate::arch::portable::map as portable;
use crate::arch::portable::table::NEGATIVE;

/// Writes `rows[k][thresholds[j]]` to entry `j` of map `k`, negated if the threshold has its
/// highest bit set.
#[target_feature(enable = "neon")]
pub(crate) fn fill(rows: &[&[u16]], thresholds: &[u16], maps: &mut [u16]) {
    let magnitudes: Vec<u16> = thresholds.iter().map(|threshold| threshold & !NEGATIVE).collect();
    let has_negative = magnitudes != thresholds;
    for (row, map) in rows.iter().zip(maps.chunks_exact_mut(thresholds.len())) {
        if row.len() != ENTRIES {
            portable::fill(&[row], thresholds, map);
            continue;
        }
        let mut entries = [0; ENTRIES];
        entries.iter_mut().zip(*row).for_each(|(entry, &count)| *entry = u32::from(count));
        map.fill(0);
        add_row(&entries, magnitudes.as_chunks::<UNROLLED>().0, map.as_chunks_mut::<UNROLLED>().0);
        if has_negative {
            for (entry, &threshold) in map.iter_mut().zip(thresholds) {
                let sign = (threshold as i16 >> 15) as u16;
                *entry = (*entry ^ sign).wrapping_sub(sign);
            }
        }
    }
}
