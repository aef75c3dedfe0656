//! Dispatch from a tier to its kernels: the only module that calls code compiled for instructions
//! the machine may lack.

#[cfg(target_arch = "aarch64")]
use crate::arch::aarch64::neon;
use crate::arch::portable;
use crate::arch::portable::hits::HitRows;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{avx2, avx512bw, avx512f, popcnt, vpopcntdq};
use crate::draws::Draws;
use crate::tier::{Isa, Tier};
use aleatron_core::gates::Gate;
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{Length, StreamAddress, Threshold};

/// Calls the kernel of the arm with the tier's instruction set, otherwise the portable kernel. Arms
/// are in blocks by processor.
macro_rules! dispatch {
    ($tier:expr, $args:tt,
        x86_64 { $($($x86_64:ident)|+ => $x86_64_kernel:path,)* }
        aarch64 { $($($aarch64:ident)|+ => $aarch64_kernel:path,)* }
        _ => $portable:path) => {
        match $tier.isa() {
            $(
                #[cfg(target_arch = "x86_64")]
                // SAFETY: tiers are created by detection only, so the machine has every instruction
                // of its kernels.
                $(Isa::$x86_64)|+ => unsafe { $x86_64_kernel $args },
            )*
            $(
                #[cfg(target_arch = "aarch64")]
                // SAFETY: as above.
                $(Isa::$aarch64)|+ => unsafe { $aarch64_kernel $args },
            )*
            _ => $portable $args,
        }
    };
}

/// Counts the ones of `words`.
pub(crate) fn ones(tier: Tier, words: &[u64]) -> u64 {
    dispatch!(tier, (words),
        x86_64 {
            Avx512Vpopcntdq => vpopcntdq::count::ones,
            Avx512bw => avx512bw::count::ones,
            Avx512f | Avx2 => avx2::count::ones,
            Popcnt => popcnt::count::ones,
        }
        aarch64 {
            Neon => neon::count::ones,
        }
        _ => portable::count::ones)
}

/// Counts the ones of each stream of `per_stream` words.
pub(crate) fn stream_ones(tier: Tier, words: &[u64], per_stream: usize, out: &mut [u64]) {
    dispatch!(tier, (words, per_stream, out),
        x86_64 {
            Avx512Vpopcntdq => vpopcntdq::count::stream_ones,
            Avx512bw | Avx512f | Avx2 | Popcnt => popcnt::count::stream_ones,
        }
        aarch64 {}
        _ => portable::count::stream_ones)
}

/// Counts the ones that `a` and `b`, of one length, share.
pub(crate) fn and_ones(tier: Tier, a: &[u64], b: &[u64]) -> u64 {
    dispatch!(tier, (a, b),
        x86_64 {
            Avx512Vpopcntdq => vpopcntdq::count::and_ones,
            Avx512bw => avx512bw::count::and_ones,
            Avx512f | Avx2 => avx2::count::and_ones,
            Popcnt => popcnt::count::and_ones,
        }
        aarch64 {
            Neon => neon::count::and_ones,
        }
        _ => portable::count::and_ones)
}

/// Counts the ones that each of `N` rows shares with each of `S` others, all of one length.
#[inline]
pub(crate) fn tile<const N: usize, const S: usize>(
    tier: Tier,
    rows: [&[u64]; N],
    others: [&[u64]; S],
) -> [[u64; S]; N] {
    match tier.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: tiers are created by detection only, so the machine has every instruction of its
        // kernels.
        Isa::Avx512Vpopcntdq => unsafe { vpopcntdq::count::tile(rows, others) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Isa::Neon => unsafe { neon::count::tile(rows, others) },
        // In other tiers, counting uses all registers for one pair; the tile's rows at least share
        // the cache.
        _ => rows.map(|row| others.map(|other| and_ones(tier, row, other))),
    }
}

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their
/// words.
pub(crate) fn encode(
    tier: Tier,
    thresholds: &[Threshold],
    length: Length,
    address: StreamAddress,
    draws: Draws<'_>,
    out: &mut [u64],
) {
    dispatch!(tier, (thresholds, length, address, draws, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::encode::encode,
            Avx2 => avx2::encode::encode,
        }
        aarch64 {
            Neon => neon::encode::encode,
        }
        _ => portable::encode::encode)
}

/// Returns the number of words that the first draws of `n_streams` streams take in the cache; 0 if
/// the tier caches none.
pub(crate) fn first_draws(tier: Tier, n_streams: usize, length: Length) -> usize {
    match tier.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vpopcntdq | Isa::Avx512bw | Isa::Avx512f => {
            avx512f::encode::first_draws(n_streams, length)
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::encode::first_draws(n_streams, length),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => neon::encode::first_draws(n_streams, length),
        _ => 0,
    }
}

/// Appends the hits of rows of fault masks.
pub(crate) fn hits(tier: Tier, rows: HitRows<'_>, out: &mut Vec<u64>) {
    dispatch!(tier, (rows, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::hits::hits,
            Avx2 => avx2::hits::hits,
        }
        aarch64 {}
        _ => portable::hits::hits)
}

/// Packs bytes, any byte other than 0 is a 1; `out` holds `bits.len().div_ceil(64)` words.
pub(crate) fn pack(tier: Tier, bits: &[u8], out: &mut [u64]) {
    dispatch!(tier, (bits, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::bits::pack,
            Avx512f | Avx2 => avx2::bits::pack,
        }
        aarch64 {
            Neon => neon::bits::pack,
        }
        _ => portable::bits::pack)
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
pub(crate) fn unpack(tier: Tier, words: &[u64], out: &mut [u8]) {
    dispatch!(tier, (words, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::bits::unpack,
            Avx512f | Avx2 => avx2::bits::unpack,
        }
        aarch64 {
            Neon => neon::bits::unpack,
        }
        _ => portable::bits::unpack)
}

/// Applies a gate to two buffers of one size.
pub(crate) fn gate(tier: Tier, gate: Gate, a: &[u64], b: &[u64], out: &mut [u64]) {
    dispatch!(tier, (gate, a, b, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::gates::gate,
            Avx2 => avx2::gates::gate,
        }
        aarch64 {}
        _ => portable::gates::gate)
}

/// Computes the complement.
pub(crate) fn not(tier: Tier, a: &[u64], out: &mut [u64]) {
    dispatch!(tier, (a, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::gates::not,
            Avx2 => avx2::gates::not,
        }
        aarch64 {}
        _ => portable::gates::not)
}

/// Selects `a` where `select` is 1 and `b` where it is 0.
pub(crate) fn mux(tier: Tier, select: &[u64], a: &[u64], b: &[u64], out: &mut [u64]) {
    dispatch!(tier, (select, a, b, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::gates::mux,
            Avx2 => avx2::gates::mux,
        }
        aarch64 {}
        _ => portable::gates::mux)
}

/// Runs up to [`LIF_LANES`] neurons in lanes; see [`portable::lif::run_lanes`].
pub(crate) fn lif_lanes(
    tier: Tier,
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    dispatch!(tier, (params, drive, currents, n_steps, spikes, voltages),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::lif::run_lanes,
            Avx2 => avx2::lif::run_lanes,
        }
        aarch64 {
            Neon => neon::lif::run_lanes,
        }
        _ => portable::lif::run_lanes::<portable::transpose::Elements>)
}

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`. Four entries of any row fit a
/// sum of 16 bits.
pub(crate) fn look_up(tier: Tier, rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    dispatch!(tier, (rows, thresholds, sums),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::table::look_up,
        }
        aarch64 {
            Neon => neon::table::look_up,
        }
        _ => portable::table::look_up)
}

/// Looks up as [`look_up`], and subtracts the entries of thresholds with the bit
/// [`NEGATIVE_ENTRY`]: sums are those of signed integers.
pub(crate) fn look_up_signed(
    tier: Tier,
    rows: [&[u32]; 4],
    thresholds: [&[u16]; 4],
    sums: &mut [u16],
) {
    dispatch!(tier, (rows, thresholds, sums),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::table::look_up_signed,
        }
        aarch64 {}
        _ => portable::table::look_up_signed)
}

/// Writes `rows[k][thresholds[j]]` to entry `j` of map `k`, negated if the threshold has the bit
/// [`NEGATIVE_ENTRY`]. Maps are as long as `thresholds`, whole blocks of [`MAP_LANES`]; entries are
/// below 2^15.
pub(crate) fn fill_maps(tier: Tier, rows: &[&[u16]], thresholds: &[u16], maps: &mut [u16]) {
    dispatch!(tier, (rows, thresholds, maps),
        x86_64 {
            Avx512Vpopcntdq => vpopcntdq::map::fill,
            Avx512bw => avx512bw::map::fill,
        }
        aarch64 {
            Neon => neon::map::fill,
        }
        _ => portable::map::fill)
}

/// Adds entry `j + shift` of maps of `len` entries to each `sums[j]`, or subtracts it, for taps
/// whose sums fit 16 bits with a sign. Sums are whole blocks of [`MAP_LANES`].
pub(crate) fn add_maps(
    tier: Tier,
    maps: &[u16],
    len: usize,
    plus: &[MapTap],
    minus: &[MapTap],
    sums: &mut [u32],
) {
    dispatch!(tier, (maps, len, plus, minus, sums),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::map::add,
            Avx512f | Avx2 => avx2::map::add,
        }
        aarch64 {}
        _ => portable::map::add)
}

/// Sums `ones[i]` over the streams i whose `values[i]` is below 0, for each of `S` rows of inputs
/// and each row of a block of weights.
pub(crate) fn ones_of_negative<const S: usize>(
    tier: Tier,
    values: &[[i16; SIGNED_LANES]],
    ones: [&[i16]; S],
) -> [[i16; SIGNED_LANES]; S] {
    dispatch!(tier, (values, ones),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::signed::ones_of_negative,
            Avx512f | Avx2 => avx2::signed::ones_of_negative,
        }
        aarch64 {}
        _ => portable::signed::ones_of_negative)
}

/// Computes [`ones_of_negative`], and the sum of `values[i]` over the streams with a mask of -1.
pub(crate) fn ones_of_either<const S: usize>(
    tier: Tier,
    values: &[[i16; SIGNED_LANES]],
    ones: [&[i16]; S],
    masks: [&[i16]; S],
) -> [[i16; SIGNED_LANES]; S] {
    dispatch!(tier, (values, ones, masks),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw => avx512bw::signed::ones_of_either,
            Avx512f | Avx2 => avx2::signed::ones_of_either,
        }
        aarch64 {}
        _ => portable::signed::ones_of_either)
}

/// Sets bit k of a word if `values[k] < threshold`, 64 values to a word; `out` holds
/// `values.len().div_ceil(64)` words.
pub(crate) fn compare(tier: Tier, values: &[u32], threshold: u32, out: &mut [u64]) {
    dispatch!(tier, (values, threshold, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::sequence::compare,
            Avx2 => avx2::sequence::compare,
        }
        aarch64 {
            Neon => neon::sequence::compare,
        }
        _ => portable::sequence::compare)
}

/// Converts counts to thresholds; the number of counts is a multiple of the number of offsets.
/// Returns the number of saturated thresholds.
pub(crate) fn requantize(
    tier: Tier,
    sum: SumLanes,
    level: LevelLanes,
    offsets: &[f64],
    counts: &mut [u64],
) -> u64 {
    dispatch!(tier, (sum, level, offsets, counts),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::requantize,
            Avx2 => avx2::arithmetic::requantize,
        }
        aarch64 {}
        _ => portable::arithmetic::requantize)
}

/// Converts counts to accumulated values.
pub(crate) fn accumulate(
    tier: Tier,
    sum: SumLanes,
    offsets: &[f64],
    counts: &[u64],
    out: &mut [f64],
) {
    dispatch!(tier, (sum, offsets, counts, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::accumulate,
            Avx2 => avx2::arithmetic::accumulate,
        }
        aarch64 {}
        _ => portable::arithmetic::accumulate)
}

/// Decodes counts of whole samples.
pub(crate) fn decode(
    tier: Tier,
    lanes: DecodeLanes,
    rows: &DecodeRows,
    counts: &[u64],
    out: &mut [f64],
) {
    dispatch!(tier, (lanes, rows, counts, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::decode,
            Avx2 => avx2::arithmetic::decode,
        }
        aarch64 {}
        _ => portable::arithmetic::decode)
}

/// Converts integers to thresholds with a multiplier and a tie for each, repeated over them.
/// Returns the number of saturated thresholds.
pub(crate) fn thresholds_each(
    tier: Tier,
    level: LevelLanes,
    constants: [&[f64]; 2],
    accumulated: &[f64],
    out: &mut [u64],
) -> u64 {
    dispatch!(tier, (level, constants, accumulated, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::thresholds_each,
            Avx2 => avx2::arithmetic::thresholds_each,
        }
        aarch64 {}
        _ => portable::arithmetic::thresholds_each)
}

/// Converts accumulated values to thresholds. Returns the number of saturated thresholds.
pub(crate) fn thresholds(
    tier: Tier,
    level: LevelLanes,
    accumulated: &[f64],
    out: &mut [u64],
) -> u64 {
    dispatch!(tier, (level, accumulated, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::thresholds,
            Avx2 => avx2::arithmetic::thresholds,
        }
        aarch64 {}
        _ => portable::arithmetic::thresholds)
}

/// Pools one channel of an image of integers; `row` has as many elements as the image has columns.
pub(crate) fn pool(tier: Tier, lanes: &PoolLanes, image: &[f64], row: &mut [f64], out: &mut [f64]) {
    dispatch!(tier, (lanes, image, row, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::pool,
            Avx2 => avx2::arithmetic::pool,
        }
        aarch64 {}
        _ => portable::arithmetic::pool)
}

/// Converts values to thresholds; if some are rejected, the output is unspecified.
pub(crate) fn quantize(
    tier: Tier,
    lanes: QuantizeLanes,
    values: &[f64],
    out: &mut [u64],
) -> Saturation {
    dispatch!(tier, (lanes, values, out),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::arithmetic::quantize,
            Avx2 => avx2::arithmetic::quantize,
        }
        aarch64 {}
        _ => portable::arithmetic::quantize)
}

/// Reads all words as fast as possible. Returns a number that depends on all of them.
pub(crate) fn read(tier: Tier, words: &[u64]) -> u64 {
    dispatch!(tier, (words),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::ceiling::read,
            Avx2 => avx2::ceiling::read,
        }
        aarch64 {
            Neon => neon::ceiling::read,
        }
        _ => portable::ceiling::read)
}

/// ANDs and counts `words` pairs of words that cost nothing to load.
pub(crate) fn count_nothing(tier: Tier, words: usize) -> u64 {
    dispatch!(tier, (words),
        x86_64 {
            Avx512Vpopcntdq => vpopcntdq::ceiling::count,
            Avx512bw => avx512bw::ceiling::count,
            Avx512f | Avx2 => avx2::ceiling::count,
            Popcnt => popcnt::ceiling::count,
        }
        aarch64 {
            Neon => neon::ceiling::count,
        }
        _ => portable::ceiling::count)
}

/// Computes `draws` Philox draws and returns a number that depends on all of them.
pub(crate) fn philox(tier: Tier, draws: usize) -> u32 {
    dispatch!(tier, (draws),
        x86_64 {
            Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::encode::draw,
            Avx2 => avx2::encode::draw,
        }
        aarch64 {
            Neon => neon::encode::draw,
        }
        _ => portable::ceiling::philox)
}

pub(crate) use portable::arithmetic::{
    ColumnWindows, DecodeLanes, DecodeRows, Division, LevelLanes, MIDDLE, PoolLanes, QuantizeLanes,
    SHIFT, Saturation, Signs, SumLanes, floor,
};
pub(crate) use portable::lif::{LANES as LIF_LANES, run as lif_run};
pub(crate) use portable::map::{LANES as MAP_LANES, MapTap};
pub(crate) use portable::signed::LANES as SIGNED_LANES;
pub(crate) use portable::table::{LANES as LOOK_UP_LANES, NEGATIVE as NEGATIVE_ENTRY};
