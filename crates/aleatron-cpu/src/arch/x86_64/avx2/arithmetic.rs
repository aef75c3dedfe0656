//! Integers between layers: the portable loops, compiled for registers of 256 bits.

use crate::arch::portable::arithmetic::{
    self as portable, FeatureFaults, FeatureLanes, LevelLanes, PoolLanes, SumLanes,
};

/// The largest count, or up to twice as much.
#[target_feature(enable = "avx2")]
pub(crate) fn largest(counts: &[u64]) -> u64 {
    portable::largest(counts)
}

/// Makes thresholds of counts; how many saturated.
#[target_feature(enable = "avx2")]
pub(crate) fn requantize(sum: SumLanes, level: LevelLanes, offsets: &[f64], counts: &mut [u64]) -> u64 {
    portable::requantize(sum, level, offsets, counts)
}

/// Writes what accumulators hold for counts.
#[target_feature(enable = "avx2")]
pub(crate) fn outputs(sum: SumLanes, unit: f64, offsets: &[f64], counts: &[u64], out: &mut [f64]) {
    portable::outputs(sum, unit, offsets, counts, out);
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

/// Writes the thresholds of features.
#[target_feature(enable = "avx2")]
pub(crate) fn features(lanes: FeatureLanes, features: &[f64], out: &mut [u64]) -> FeatureFaults {
    portable::features(lanes, features, out)
}
