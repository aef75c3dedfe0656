//! Integers between layers: the portable loops, compiled for registers of 256 bits.

use crate::arch::portable::arithmetic::{
    self as portable, DecodeLanes, DecodeRows, LevelLanes, PoolLanes, QuantizeLanes, Saturation,
    SumLanes,
};

/// Makes thresholds of counts; how many saturated.
#[target_feature(enable = "avx2")]
pub(crate) fn requantize(
    sum: SumLanes,
    level: LevelLanes,
    offsets: &[f64],
    counts: &mut [u64],
) -> u64 {
    portable::requantize(sum, level, offsets, counts)
}

/// Writes what accumulators hold for counts.
#[target_feature(enable = "avx2")]
pub(crate) fn accumulate(sum: SumLanes, offsets: &[f64], counts: &[u64], out: &mut [f64]) {
    portable::accumulate(sum, offsets, counts, out);
}

/// Makes thresholds of what accumulators hold; how many saturated.
#[target_feature(enable = "avx2")]
pub(crate) fn thresholds(level: LevelLanes, held: &[f64], out: &mut [u64]) -> u64 {
    portable::thresholds(level, held, out)
}

/// Writes the windows of one channel.
#[target_feature(enable = "avx2")]
pub(crate) fn pool(lanes: &PoolLanes, image: &[f64], row: &mut [f64], out: &mut [f64]) {
    portable::pool(lanes, image, row, out);
}

/// Makes thresholds of integers that have a multiplier and a tie each; how many saturated.
#[target_feature(enable = "avx2")]
pub(crate) fn thresholds_each(
    level: LevelLanes,
    constants: [&[f64]; 2],
    held: &[f64],
    out: &mut [u64],
) -> u64 {
    portable::thresholds_each(level, constants, held, out)
}

/// Writes the values of counts.
#[target_feature(enable = "avx2")]
pub(crate) fn decode(lanes: DecodeLanes, rows: &DecodeRows, counts: &[u64], out: &mut [f64]) {
    portable::decode(lanes, rows, counts, out);
}

/// Writes the thresholds of values.
#[target_feature(enable = "avx2")]
pub(crate) fn quantize(lanes: QuantizeLanes, values: &[f64], out: &mut [u64]) -> Saturation {
    portable::quantize(lanes, values, out)
}
