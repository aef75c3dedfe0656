//! From a tier to its kernels: the only place that calls code compiled for instructions the machine may lack.

use crate::arch::portable;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{avx2, avx512bw, avx512f, popcnt, vpopcntdq};
use crate::draws::Draws;
use crate::tier::{Isa, Tier};
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{Length, StreamAddress, Threshold};

/// Calls the kernel of the first arm that names the tier's instruction set, else the portable one.
macro_rules! dispatch {
    ($tier:expr, $portable:path, $($($isa:ident)|+ => $kernel:path,)+ => $args:tt) => {
        match $tier.isa() {
            $(
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a tier is made by detection alone, so the machine has every instruction of its kernels.
                $(Isa::$isa)|+ => unsafe { $kernel $args },
            )+
            _ => $portable $args,
        }
    };
}

/// The ones of `words`.
pub(crate) fn ones(tier: Tier, words: &[u64]) -> u64 {
    dispatch!(tier, portable::count::ones,
        Avx512Vpopcntdq => vpopcntdq::count::ones,
        Avx512bw => avx512bw::count::ones,
        Avx512f | Avx2 => avx2::count::ones,
        Popcnt => popcnt::count::ones,
        => (words))
}

/// The ones `a` and `b`, of one length, share.
pub(crate) fn and_ones(tier: Tier, a: &[u64], b: &[u64]) -> u64 {
    dispatch!(tier, portable::count::and_ones,
        Avx512Vpopcntdq => vpopcntdq::count::and_ones,
        Avx512bw => avx512bw::count::and_ones,
        Avx512f | Avx2 => avx2::count::and_ones,
        Popcnt => popcnt::count::and_ones,
        => (a, b))
}

/// The ones each of `N` rows shares with each of `S` others, all of one length.
#[inline]
pub(crate) fn tile<const N: usize, const S: usize>(
    tier: Tier,
    rows: [&[u64]; N],
    others: [&[u64]; S],
) -> [[u64; S]; N] {
    match tier.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a tier is made by detection alone, so the machine has every instruction of its kernels.
        Isa::Avx512Vpopcntdq => unsafe { vpopcntdq::count::tile(rows, others) },
        // Elsewhere counting keeps all registers busy with one pair; the tile's rows at least share the cache.
        _ => rows.map(|row| others.map(|other| and_ones(tier, row, other))),
    }
}

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
pub(crate) fn encode(
    tier: Tier,
    thresholds: &[Threshold],
    length: Length,
    address: StreamAddress,
    draws: Draws<'_>,
    out: &mut [u64],
) {
    dispatch!(tier, portable::encode::encode,
        Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::encode::encode,
        Avx2 => avx2::encode::encode,
        => (thresholds, length, address, draws, out))
}

/// The words that the first draws of `n_streams` streams take where they are kept; 0 where the tier cannot keep them.
pub(crate) fn first_draws(tier: Tier, n_streams: usize, length: Length) -> usize {
    match tier.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vpopcntdq | Isa::Avx512bw | Isa::Avx512f => {
            avx512f::encode::first_draws(n_streams, length)
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::encode::first_draws(n_streams, length),
        _ => 0,
    }
}

/// Packs bytes, any but 0 being a 1; `out` holds `bits.len().div_ceil(64)` words.
pub(crate) fn pack(tier: Tier, bits: &[u8], out: &mut [u64]) {
    dispatch!(tier, portable::bits::pack,
        Avx512Vpopcntdq | Avx512bw => avx512bw::bits::pack,
        Avx512f | Avx2 => avx2::bits::pack,
        => (bits, out))
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
pub(crate) fn unpack(tier: Tier, words: &[u64], out: &mut [u8]) {
    dispatch!(tier, portable::bits::unpack,
        Avx512Vpopcntdq | Avx512bw => avx512bw::bits::unpack,
        Avx512f | Avx2 => avx2::bits::unpack,
        => (words, out))
}

/// Up to [`LIF_LANES`] neurons side by side; see [`portable::lif::run_lanes`].
pub(crate) fn lif_lanes(
    tier: Tier,
    params: &LifParams,
    drive: LifDrive,
    currents: &[i16],
    n_steps: usize,
    spikes: &mut [u8],
    voltages: &mut [i16],
) {
    dispatch!(tier, portable::lif::run_lanes::<portable::transpose::Elements>,
        Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::lif::run_lanes,
        Avx2 => avx2::lif::run_lanes,
        => (params, drive, currents, n_steps, spikes, voltages))
}

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`.
pub(crate) fn look_up(tier: Tier, rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    dispatch!(tier, portable::table::look_up,
        Avx512Vpopcntdq | Avx512bw => avx512bw::table::look_up,
        => (rows, thresholds, sums))
}

/// Some number that depends on all words, read as fast as can be.
pub(crate) fn read(tier: Tier, words: &[u64]) -> u64 {
    dispatch!(tier, portable::ceiling::read,
        Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::ceiling::read,
        Avx2 => avx2::ceiling::read,
        => (words))
}

/// ANDs and counts `words` pairs of words that cost nothing to load.
pub(crate) fn count_nothing(tier: Tier, words: usize) -> u64 {
    dispatch!(tier, portable::ceiling::count,
        Avx512Vpopcntdq => vpopcntdq::ceiling::count,
        Avx512bw => avx512bw::ceiling::count,
        Avx512f | Avx2 => avx2::ceiling::count,
        Popcnt => popcnt::ceiling::count,
        => (words))
}

/// Makes `draws` Philox draws and throws them away.
pub(crate) fn philox(tier: Tier, draws: usize) -> u32 {
    dispatch!(tier, portable::ceiling::philox,
        Avx512Vpopcntdq | Avx512bw | Avx512f => avx512f::encode::draw,
        Avx2 => avx2::encode::draw,
        => (draws))
}

pub(crate) use portable::lif::{LANES as LIF_LANES, run as lif_run};
