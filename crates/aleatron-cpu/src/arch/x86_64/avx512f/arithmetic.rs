//! Integer inter-layer arithmetic: the portable loops, compiled for registers of 512 bits.

use crate::arch::portable::arithmetic::{
    self as portable, DecodeLanes, DecodeRows, LevelLanes, PoolLanes, QuantizeLanes, Saturation,
    SumLanes,
};

/// Converts counts to thresholds. Returns the number of saturated thresholds.
#[target_feature(enable = "avx512f")]
pub(crate) fn requantize(
    sum: SumLanes,
    level: LevelLanes,
    offsets: &[f64],
    counts: &mut [u64],
) -> u64 {
    portable::requantize(sum, level, offsets, counts)
}

/// Converts counts to accumulated values.
#[target_feature(enable = "avx512f")]
pub(crate) fn accumulate(sum: SumLanes, offsets: &[f64], counts: &[u64], out: &mut [f64]) {
    portable::accumulate(sum, offsets, counts, out);
}

/// Converts accumulated values to thresholds. Returns the number of saturated thresholds.
#[target_feature(enable = "avx512f")]
pub(crate) fn thresholds(level: LevelLanes, accumulated: &[f64], out: &mut [u64]) -> u64 {
    portable::thresholds(level, accumulated, out)
}

/// Pools one channel.
#[target_feature(enable = "avx512f")]
pub(crate) fn pool(lanes: &PoolLanes, image: &[f64], row: &mut [f64], out: &mut [f64]) {
    portable::pool(lanes, image, row, out);
}

/// Converts integers to thresholds with a multiplier and a tie for each. Returns the number of
/// saturated thresholds.
#[target_feature(enable = "avx512f")]
pub(crate) fn thresholds_each(
    level: LevelLanes,
    constants: [&[f64]; 2],
    accumulated: &[f64],
    out: &mut [u64],
) -> u64 {
    portable::thresholds_each(level, constants, accumulated, out)
}

/// Decodes counts.
#[target_feature(enable = "avx512f")]
pub(crate) fn decode(lanes: DecodeLanes, rows: &DecodeRows, counts: &[u64], out: &mut [f64]) {
    portable::decode(lanes, rows, counts, out);
}

/// Converts values to thresholds.
#[target_feature(enable = "avx512f")]
pub(crate) fn quantize(lanes: QuantizeLanes, values: &[f64], out: &mut [u64]) -> Saturation {
    portable::quantize(lanes, values, out)
}
