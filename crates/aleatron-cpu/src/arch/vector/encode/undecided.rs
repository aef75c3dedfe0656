//! Slots that are not decided by their first draws.

use super::{Job, MAX_LANES, compare};
use crate::arch::portable::encode::below;
use crate::arch::vector::philox::Philox;
use crate::arch::vector::simd::Lanes;
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};

/// Number of slots collected before they are settled: enough that several registers of them are in
/// flight at once.
pub(super) const ROOM: usize = 256;

/// Slots with bits still equal to their threshold, pending until they fill registers: unit, stream
/// word, threshold, and those bits.
pub(in crate::arch) struct Undecided {
    pub(super) len: usize,
    columns: [[u32; ROOM]; 4],
}

impl Undecided {
    pub(super) fn new() -> Self {
        Self { len: 0, columns: [[0; ROOM]; 4] }
    }

    /// Appends the first `n` lanes; the other lanes are overwritten by the next call, or are beyond
    /// the end.
    #[inline(always)]
    pub(super) fn append<S: Lanes>(&mut self, simd: S, slots: [S::V; 4], n: u32) {
        let at = self.len.min(ROOM - S::LANES);
        for (column, v) in self.columns.iter_mut().zip(slots) {
            simd.store(v, &mut column[at..]);
        }
        self.len = at + n as usize;
    }

    /// Decides all slots on the list, from `draw` on.
    #[inline(always)]
    pub(in crate::arch) fn settle<S: Lanes>(
        &mut self,
        simd: S,
        philox: &Philox<S>,
        job: &mut Job<'_>,
        draw: usize,
    ) {
        // Each draw leaves one slot in sixteen; the last few are not worth a register.
        for draw in draw as u32..DRAWS {
            if self.len < S::LANES / 4 {
                self.settle_one_by_one(draw, job);
                break;
            }
            self.draw_further(simd, philox, draw, job);
        }
        self.len = 0;
    }

    /// Compares with the planes of `draw`, two registers at a time, and leaves undecided slots on
    /// the list.
    #[inline(always)]
    fn draw_further<S: Lanes>(
        &mut self,
        simd: S,
        philox: &Philox<S>,
        draw: u32,
        job: &mut Job<'_>,
    ) {
        // Lanes beyond the end of the list hold stale values without undecided bits.
        let end = self.len.next_multiple_of(2 * S::LANES);
        self.columns[3][self.len..end].fill(0);
        self.len = 0;
        for start in (0..end).step_by(2 * S::LANES) {
            let none = simd.splat_counters(0);
            let mut loaded = [[simd.zero(); 4]; 2];
            let mut word_parts = [[none; 4]; 2];
            let mut unit_parts = [philox.unit_part(none); 2];
            for (i, loaded) in loaded.iter_mut().enumerate() {
                for (v, column) in loaded.iter_mut().zip(&self.columns) {
                    *v = simd.load(&column[start + i * S::LANES..]);
                }
                let [units, words, ..] = *loaded;
                unit_parts[i] = philox.unit_part(simd.lanes_to_counters(units));
                word_parts[i] = philox.word_part(words, draw);
            }
            let planes = philox.draw(&word_parts, &unit_parts);
            for (planes, [units, words, thresholds, equal]) in planes.iter().zip(loaded) {
                let mut digits = [thresholds; PLANES_PER_DRAW as usize];
                for (digit, m) in digits.iter_mut().zip(PLANES_PER_DRAW * draw..) {
                    *digit = simd.digit(thresholds, m);
                }
                let (below, same) = compare(simd, std::slice::from_ref(planes), digits);
                let [mut unit, mut word, mut bits] = [[0; MAX_LANES]; 3];
                simd.store(units, &mut unit);
                simd.store(words, &mut word);
                simd.store(simd.and(below, equal), &mut bits);
                for lane in 0..S::LANES {
                    job.add(unit[lane], word[lane], bits[lane]);
                }
                let mut slots = [units, words, thresholds, simd.and(same, equal)];
                let open = simd.nonzero(slots[3]);
                for v in &mut slots {
                    *v = simd.compress(open, *v);
                }
                self.append(simd, slots, open.count_ones());
            }
        }
    }

    fn settle_one_by_one(&self, draw: u32, job: &mut Job<'_>) {
        let [units, words, thresholds, equal] = &self.columns;
        for i in 0..self.len {
            let address = job.address.at_unit(units[i]);
            job.add(units[i], words[i], below(thresholds[i], address, words[i], draw, equal[i]));
        }
    }
}
