//! Maps of the counts that weights look up, shared by all equal weights.
//!
//! The weights of an input channel have few different thresholds: 64 kernels of 3 x 3 have 576
//! weights, and 8 bits have 257 thresholds. For each threshold a map holds the count at every
//! position of the channel's plane. A count is then a sum of maps, each shifted by the offset of
//! its tap: an addition for a product, where a look-up costs about ten.
//!
//! Positions are divided into tiles, so that the maps of a round, which is a few planes, stay in a
//! second-level cache.

use super::planes::{PlaneOffset, Planes};
use crate::dispatch::{self, MAP_LANES, MapTap};
use crate::table::{MAX_NARROW_SUM, Tables};
use crate::tier::Tier;
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{ConvShape, Length, Quantity, Result, memory};
use std::ops::Range;

/// Number of entries of the maps of a round: they fill about half of a second-level cache.
const MAP_ENTRIES: usize = 1 << 18;

/// Minimum and maximum number of positions of a tile; the minimum applies if the maps allow it.
const TILE_POSITIONS: [usize; 2] = [8 * MAP_LANES, 32 * MAP_LANES];

/// The cost of a look-up and of widening narrow sums, in additions of entries of maps.
const LOOK_UP_COST: usize = 10;
const WIDEN_COST: usize = 6;

/// The maps of a convolution, and the taps of channels that add them.
pub(super) struct SharedMaps {
    /// Number of entries of a row of the table, one for each threshold of an input.
    row_len: usize,
    rows: Vec<u16>,
    rounds: Vec<Round>,
    /// Number of products that can be summed in 16 bits.
    together: usize,
    /// The maximum number of positions of a tile.
    tile: usize,
    /// The distance from the first tap to the last.
    halo: usize,
}

/// Planes whose maps are computed together, and their output channels.
#[derive(Default)]
struct Round {
    channels: Range<usize>,
    /// Planes, and the rows of the table that fill their maps.
    planes: Vec<(usize, Vec<u16>)>,
    n_maps: usize,
    /// By channel: taps that add, then taps that subtract.
    taps: Vec<MapTap>,
    /// For each channel, the range in `taps` of those that subtract.
    ends: Vec<[usize; 2]>,
}

impl SharedMaps {
    /// Creates the maps of a convolution whose weights have the given thresholds, by channel and
    /// tap; `None` if counts are too large.
    pub(super) fn new(
        shape: &ConvShape,
        planes: &Planes,
        length: Length,
        tables: &Tables,
        weights: &[u64],
    ) -> Result<Option<Self>> {
        let together = MAX_NARROW_SUM / length.bits();
        let largest = shape.kernel_weights() as u128 * length.bits() as u128;
        let sizes = [weights.len(), planes.len()];
        if together == 0
            || largest > i32::MAX as u128
            || sizes.iter().any(|&n| u32::try_from(n).is_err())
        {
            return Ok(None);
        }
        let (row_len, rows) = tables.narrow_rows()?;
        let mut maps = Self { row_len, rows, rounds: Vec::new(), together, tile: 0, halo: 0 };
        memory::check(weights.len() as u128 * size_of::<MapTap>() as u128, Quantity::Weights)?;
        for (first_channel, channels) in shape.groups() {
            maps.add_group(shape, planes, first_channel, channels, weights);
        }
        let most = maps.rounds.iter().map(|round| round.n_maps).max().unwrap_or(1).max(1);
        let [least, largest] = TILE_POSITIONS;
        maps.tile = (MAP_ENTRIES / most).saturating_sub(maps.halo).clamp(least, largest);
        maps.tile -= maps.tile % MAP_LANES;
        Ok(Some(maps))
    }

    /// Adds the rounds of the channels of one group of inputs.
    fn add_group(
        &mut self,
        shape: &ConvShape,
        planes: &Planes,
        first_channel: usize,
        channels: Range<usize>,
        weights: &[u64],
    ) {
        let n_taps = shape.kernel_weights();
        let mut by_plane = vec![Vec::new(); shape.group_inputs() * planes.per_channel()];
        for tap in 0..n_taps {
            let PlaneOffset { plane, offset } = planes.tap_offset(shape, first_channel, tap);
            by_plane[plane - first_channel * planes.per_channel()].push((tap, offset));
            self.halo = self.halo.max(offset);
        }
        let mut first_plane = 0;
        while first_plane < by_plane.len() {
            // As many planes as can be summed in 16 bits, if their maps leave room for a tile.
            let (mut end, mut n_taps_here) = (first_plane, 0);
            let mut round = Round { channels: channels.clone(), ..Round::default() };
            let mut by_channel = vec![[Vec::new(), Vec::new()]; channels.len()];
            while let Some(taps) = by_plane.get(end) {
                n_taps_here += taps.len();
                let most = (round.n_maps + self.rows.len() / self.row_len)
                    * (TILE_POSITIONS[0] + self.halo);
                if end > first_plane && (n_taps_here > self.together || most > MAP_ENTRIES) {
                    break;
                }
                let plane = first_channel * planes.per_channel() + end;
                self.add_plane(
                    &mut round,
                    plane,
                    taps,
                    &weights[channels.start * n_taps..],
                    n_taps,
                    &mut by_channel,
                );
                end += 1;
            }
            for [plus, minus] in by_channel {
                round.taps.extend(plus);
                let begin = round.taps.len();
                round.taps.extend(minus);
                round.ends.push([begin, round.taps.len()]);
            }
            self.rounds.push(round);
            first_plane = end;
        }
    }

    /// Adds the maps of a plane, and the taps that use them.
    fn add_plane(
        &self,
        round: &mut Round,
        plane: usize,
        taps: &[(usize, usize)],
        weights: &[u64],
        n_taps: usize,
        by_channel: &mut [[Vec<MapTap>; 2]],
    ) {
        let mut known = vec![None; self.rows.len() / self.row_len];
        let mut rows = Vec::new();
        for (weights, [plus, minus]) in weights.chunks_exact(n_taps).zip(by_channel) {
            for &(tap, shift) in taps {
                let (weight, row) = (weights[tap], magnitude(weights[tap]) as usize);
                // Weights whose look-ups are all zeros are skipped.
                let map = *known[row].get_or_insert_with(|| {
                    let entries = &self.rows[row * self.row_len..][..self.row_len];
                    let map =
                        entries.iter().any(|&entry| entry != 0).then_some(round.n_maps as u32);
                    if map.is_some() {
                        rows.push(row as u16);
                        round.n_maps += 1;
                    }
                    map
                });
                let Some(map) = map else { continue };
                let list = if is_negative(weight) { &mut *minus } else { &mut *plus };
                list.push(MapTap { map, shift: shift as u32 });
            }
        }
        if !rows.is_empty() {
            round.planes.push((plane, rows));
        }
    }

    /// Returns whether computing and adding maps is faster than looking each product up.
    pub(super) fn pays(&self, n_weights: usize) -> bool {
        let n_maps: usize = self.rounds.iter().map(|round| round.n_maps).sum();
        let n_sums: usize = self.rounds.iter().map(|round| round.ends.len()).sum();
        let n_taps: usize = self.rounds.iter().map(|round| round.taps.len()).sum();
        let n_sums = n_sums.max(n_taps / self.together);
        let [n_maps, n_sums, n_taps, n_weights] =
            [n_maps, n_sums, n_taps, n_weights].map(|n| n as f64);
        let halo = (self.tile + self.halo) as f64 / self.tile as f64;
        let look_up = LOOK_UP_COST as f64;
        n_maps * halo * look_up + n_taps + n_sums * (WIDEN_COST as f64) < n_weights * look_up
    }

    /// Divides `n_positions` of a plane among threads.
    pub(super) fn tiling(&self, n_positions: usize, threads: usize) -> Tiling {
        let n = n_positions.div_ceil(self.tile).max(threads);
        let tile = n_positions.div_ceil(n).next_multiple_of(MAP_LANES);
        let map = (tile + self.halo).next_multiple_of(MAP_LANES);
        let n = n_positions.div_ceil(tile);
        Tiling { tile, n, map }
    }

    /// Estimates the cost of a tile, in nanoseconds on one thread.
    pub(super) fn cost(&self, tiling: &Tiling) -> usize {
        let n_maps: usize = self.rounds.iter().map(|round| round.n_maps).sum();
        let n_taps: usize = self.rounds.iter().map(|round| round.taps.len()).sum();
        n_maps.saturating_mul(tiling.map).saturating_add(n_taps.saturating_mul(tiling.tile) / 16)
    }

    /// Returns the sums of the positions of a tile, by channel: modulo 2^32, as signed integers.
    /// Planes of `plane_len` thresholds follow each other.
    pub(super) fn count_tile(
        &self,
        tier: Tier,
        tiling: &Tiling,
        thresholds: &[u16],
        plane_len: usize,
        first_position: usize,
        sums: &mut [&mut [u32]],
    ) {
        let most = self.rounds.iter().map(|round| round.n_maps).max().unwrap_or(0);
        let mut maps = vec![0; most * tiling.map];
        for round in &self.rounds {
            let mut rest = &mut maps[..];
            for (plane, rows) in &round.planes {
                let thresholds = &thresholds[plane * plane_len + first_position..][..tiling.map];
                let rows: Vec<&[u16]> = rows
                    .iter()
                    .map(|&row| &self.rows[usize::from(row) * self.row_len..][..self.row_len])
                    .collect();
                let (of_plane, after) = rest.split_at_mut(rows.len() * tiling.map);
                dispatch::fill_maps(tier, &rows, thresholds, of_plane);
                rest = after;
            }
            let mut start = 0;
            for (sums, &[begin_minus, end]) in
                sums[round.channels.clone()].iter_mut().zip(&round.ends)
            {
                while start < end {
                    let stop = end.min(start + self.together);
                    let (plus, minus) =
                        round.taps[start..stop].split_at(begin_minus.clamp(start, stop) - start);
                    dispatch::add_maps(tier, &maps, tiling.map, plus, minus, sums);
                    start = stop;
                }
            }
        }
    }
}

/// Planes divided into tiles.
pub(super) struct Tiling {
    /// The number of positions of a tile.
    pub(super) tile: usize,
    /// The number of tiles.
    pub(super) n: usize,
    /// The number of entries of a map: a tile and the thresholds under the taps after it.
    map: usize,
}

impl Tiling {
    /// Returns the number of thresholds of a plane that maps read.
    pub(super) const fn reach(&self) -> usize {
        (self.n - 1) * self.tile + self.map
    }
}
