//! What is between the counts of two layers in integer arithmetic, in one pass: [`aleatron_core::arithmetic`] says what it is.
//!
//! All of it is done in f64 where every integer on the way is known to be exact in it, and by the core elsewhere.

use crate::dispatch::{
    self, Division, FeatureFaults, FeatureLanes, LevelLanes, MIDDLE, SHIFT, Signs, SumLanes,
};
use crate::{Cpu, Tier};
use aleatron_core::arithmetic::{Accumulator, IntegerActivation, Requantized, Requantizer};
use aleatron_core::{Error, LayerSpec, Polarity, Quantity, Result, Width, memory};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Integers below this and sums of a few of them are exact in f64.
const EXACT: u128 = 1 << 50;

/// Offsets are repeated up to so many, for loops that are long enough for vector registers.
const ROW: usize = 256;

/// Values that a thread takes at a time, at least where samples have fewer.
const PIECE: usize = 1 << 13;

/// The accumulators of a layer, ready to be filled by [`Cpu::accumulator_outputs`].
#[derive(Debug, Clone)]
pub struct LayerSums {
    spec: LayerSpec,
    accumulator: Accumulator,
    lanes: Option<(SumLanes, Offsets)>,
}

/// What is added to the counts of all neurons, once or several times.
#[derive(Debug, Clone)]
struct Offsets(Vec<f64>);

impl LayerSums {
    /// The accumulators of a layer.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one bias per row of weights, [`Error::Memory`] where there is no room.
    pub fn new(spec: &LayerSpec, accumulator: &Accumulator) -> Result<Self> {
        let (expected, actual) = (spec.n_rows(), accumulator.bias().len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Bias, expected, actual });
        }
        let lanes = lanes(spec, accumulator)?;
        Ok(Self { spec: spec.clone(), accumulator: accumulator.clone(), lanes })
    }
}

/// The accumulators of a layer in f64, where all that they can hold and what they add to counts is exact. A sum that is not lies past what they
/// can hold, and saturates as it should.
fn lanes(spec: &LayerSpec, accumulator: &Accumulator) -> Result<Option<(SumLanes, Offsets)>> {
    let (fraction, [low, high]) = (accumulator.fraction(), accumulator.interval());
    let most = (spec.max_fan_in() as u128 * spec.length().bits() as u128) << fraction;
    if most >= EXACT || high as u128 >= EXACT {
        return Ok(None);
    }
    let one = 2f64.powi(fraction as i32);
    let (count, product) = match spec.polarity() {
        Polarity::Unipolar => (one, 0.0),
        Polarity::Bipolar => (2.0 * one, one),
        Polarity::Signed => (one, one),
    };
    let bits = product * spec.length().bits() as f64;
    let (n, per_row, fan_ins) = (spec.n_neurons(), spec.neurons_per_row(), spec.topology().fan_ins());
    let times = (ROW / n.max(1)).max(1);
    let mut values = memory::with_capacity(n as u128 * times as u128, Quantity::Bias)?;
    for _ in 0..times {
        let biases = accumulator.bias().iter().flat_map(|&bias| std::iter::repeat_n(bias as f64, per_row));
        values.extend(biases.zip(fan_ins.iter().cycle()).map(|(bias, &n)| bias - bits * n as f64));
    }
    // The bounds of an activation lie inside those of the accumulator.
    let [low, high] = match accumulator.activation() {
        IntegerActivation::Relu => [0, high],
        IntegerActivation::Clamp { low, high } => [low, high],
        _ => [low, high],
    };
    let lanes = SumLanes { shift: SHIFT * count, low: low as f64, high: high as f64 };
    Ok(Some((lanes, Offsets(values))))
}

/// From the counts of a layer to the thresholds of the next one's comparators, ready to be used by [`Cpu::requantize`].
///
/// ```
/// use aleatron_core::arithmetic::{Accumulator, IntegerActivation, Requantizer};
/// use aleatron_core::{Encoding, LayerSpec, Length, Polarity, Width};
/// use aleatron_cpu::{Cpu, IntegerStage};
/// let spec = LayerSpec::dense(3, 2, Length::new(16)?, Polarity::Unipolar, Encoding::Bernoulli { seed: 0 })?;
/// let accumulator = Accumulator::new(12, vec![1, -20], IntegerActivation::Relu)?;
/// let requantizer = Requantizer::new(3, 2, 1, Width::EIGHT, Polarity::Unipolar)?;
/// let stage = IntegerStage::new(&spec, &accumulator, &requantizer, Width::EIGHT)?;
/// let made = Cpu::current()?.requantize(&stage, vec![30, 10])?;
/// assert_eq!(made.thresholds, [47, 0]); // 31 * 3 / 2, rounded up, and nothing below 0
/// # Ok::<(), aleatron_cpu::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct IntegerStage {
    sums: LayerSums,
    requantizer: Requantizer,
    width: Width,
    lanes: Option<(SumLanes, LevelLanes)>,
}

impl IntegerStage {
    /// What is between a layer and the next one, whose generator has comparators of `width` bits.
    ///
    /// # Errors
    /// As [`LayerSums::new`], and [`Error::TooLarge`] where the requantizer's comparator is wider than the generator.
    pub fn new(
        spec: &LayerSpec,
        accumulator: &Accumulator,
        requantizer: &Requantizer,
        width: Width,
    ) -> Result<Self> {
        let (comparator, limit) = (requantizer.comparator().bits(), width.bits());
        let Some(unused) = limit.checked_sub(comparator) else {
            let (what, actual) = (Quantity::ComparatorWidth, comparator.into());
            return Err(Error::TooLarge { what, actual, limit: limit.into() });
        };
        let sums = LayerSums::new(spec, accumulator)?;
        let lanes = sums.lanes.as_ref().and_then(|(sum, _)| levels(*sum, requantizer, unused));
        Ok(Self { sums, requantizer: *requantizer, width, lanes })
    }
}

/// A requantizer in f64, where it is exact, with accumulators that hold no more than matters to it.
fn levels(sum: SumLanes, requantizer: &Requantizer, unused: u32) -> Option<(SumLanes, LevelLanes)> {
    let (multiplier, shift) = (requantizer.multiplier(), requantizer.shift());
    let one = requantizer.comparator().one();
    // From here on, every value saturates.
    let past = match (u128::from(one) + 2).checked_mul(1 << shift) {
        Some(product) if multiplier > 0 => (product / u128::from(multiplier) + 1).min(EXACT),
        _ => EXACT,
    } as f64;
    let [low, high] = [sum.low, sum.high].map(|bound| bound.clamp(-past, past));
    let largest = low.abs().max(high.abs()).max(1.0) as u128;
    if largest * u128::from(multiplier) >= EXACT {
        return None;
    }
    let zero = match requantizer.polarity() {
        Polarity::Unipolar | Polarity::Signed => 0,
        Polarity::Bipolar => one / 2,
    };
    let step = 2f64.powi(-(shift as i32));
    let lanes = LevelLanes {
        multiplier: multiplier as f64 * step,
        tie: if shift == 0 { 0.0 } else { step / 2.0 },
        zero: MIDDLE + zero as f64,
        one: one as f64,
        unused,
        signs: signs(requantizer.polarity()),
    };
    Some((SumLanes { low, high, ..sum }, lanes))
}

fn signs(polarity: Polarity) -> Signs {
    match polarity {
        Polarity::Unipolar | Polarity::Bipolar => Signs::None,
        Polarity::Signed => Signs::HighestBit,
    }
}

/// From features to the thresholds of the first layer, ready to be used by [`Cpu::feature_thresholds`]: `(feature - offset) / scale / input_scale`,
/// limited to what streams of `polarity` can hold, as [`Width::thresholds`] of `comparator` converts it, widened to `width`.
#[derive(Debug, Clone)]
pub struct FeatureStage(FeatureLanes);

impl FeatureStage {
    /// Features in `allowed`, the feature `offset` being 0 and `scale` times `input_scale` from it 1.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the comparator is wider than the generator.
    pub fn new(
        allowed: [f64; 2],
        offset: f64,
        [scale, input_scale]: [f64; 2],
        polarity: Polarity,
        comparator: Width,
        width: Width,
    ) -> Result<Self> {
        let (actual, limit) = (comparator.bits(), width.bits());
        let Some(unused) = limit.checked_sub(actual) else {
            let what = Quantity::ComparatorWidth;
            return Err(Error::TooLarge { what, actual: actual.into(), limit: limit.into() });
        };
        let divisors = [scale, input_scale];
        // Powers of two have exact reciprocals: multiplying by those rounds to the same numbers.
        let is_power = |x: f64| x.is_normal() && x.to_bits() & ((1 << 52) - 1) == 0;
        let division =
            if divisors.into_iter().all(is_power) { Division::Reciprocals } else { Division::Exact };
        let one = comparator.one() as f64;
        let (addend, levels) = match polarity {
            Polarity::Unipolar | Polarity::Signed => (0.0, one),
            Polarity::Bipolar => (1.0, one / 2.0),
        };
        let (interval, signs) = (polarity.interval(), signs(polarity));
        Ok(Self(FeatureLanes {
            allowed,
            offset,
            divisors,
            division,
            interval,
            addend,
            levels,
            unused,
            signs,
        }))
    }
}

impl Cpu {
    /// The thresholds of the next layer for the counts of whole samples, in their place.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room.
    pub fn requantize(&self, stage: &IntegerStage, mut counts: Vec<u64>) -> Result<Requantized> {
        let LayerSums { spec, accumulator, lanes } = &stage.sums;
        match (stage.lanes, lanes) {
            (Some((sum, level)), Some((_, offsets))) if are_exact(self.tier, &counts) => {
                let (saturated, cost) = (AtomicU64::new(0), cost(counts.len()));
                let pieces = counts.chunks_mut(offsets.piece());
                self.pool.for_each(pieces, cost, |counts| {
                    let outside = dispatch::requantize(self.tier, sum, level, &offsets.0, counts);
                    saturated.fetch_add(outside, Ordering::Relaxed);
                });
                Ok(Requantized { thresholds: counts, saturated: saturated.into_inner() })
            }
            _ => stage.requantizer.thresholds(&accumulator.values(spec, &counts)?, stage.width),
        }
    }

    /// What the accumulators of a layer hold for the counts of whole samples, where one stands for `unit`.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room.
    pub fn accumulator_outputs(&self, sums: &LayerSums, counts: &[u64], unit: f64) -> Result<Vec<f64>> {
        match &sums.lanes {
            Some((sum, offsets)) if are_exact(self.tier, counts) => {
                let mut outputs = memory::zeros(counts.len() as u128, Quantity::Value)?;
                let (piece, cost) = (offsets.piece(), cost(counts.len()));
                let pieces = outputs.chunks_mut(piece).zip(counts.chunks(piece));
                self.pool.for_each(pieces, cost, |(outputs, counts)| {
                    dispatch::outputs(self.tier, *sum, unit, &offsets.0, counts, outputs);
                });
                Ok(outputs)
            }
            _ => {
                let held = sums.accumulator.values(&sums.spec, counts)?;
                Ok(held.into_iter().map(|held| held as f64 * unit).collect())
            }
        }
    }

    /// The thresholds of features, and how many of them streams cannot hold; `None` where one is not allowed, or no number after dividing.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room.
    pub fn feature_thresholds(&self, stage: &FeatureStage, features: &[f64]) -> Result<Option<Requantized>> {
        let mut thresholds = memory::zeros(features.len() as u128, Quantity::Value)?;
        let [refused, saturated] = [const { AtomicU64::new(0) }; 2];
        let pieces = thresholds.chunks_mut(PIECE).zip(features.chunks(PIECE));
        self.pool.for_each(pieces, cost(features.len()), |(thresholds, features)| {
            let faults: FeatureFaults = dispatch::features(self.tier, stage.0, features, thresholds);
            refused.fetch_add(faults.refused, Ordering::Relaxed);
            saturated.fetch_add(faults.outside, Ordering::Relaxed);
        });
        let saturated = saturated.into_inner();
        Ok((refused.into_inner() == 0).then_some(Requantized { thresholds, saturated }))
    }
}

impl Offsets {
    /// How many counts make a piece.
    fn piece(&self) -> usize {
        let n = self.0.len().max(1);
        n * (PIECE / n).max(1)
    }
}

/// Whether f64 has a place for all counts.
fn are_exact(tier: Tier, counts: &[u64]) -> bool {
    dispatch::largest(tier, counts) < 1 << 52
}

/// About what so many values cost on one thread; only the order of magnitude matters.
fn cost(values: usize) -> Duration {
    Duration::from_nanos(values as u64 / 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_core::arithmetic::{Activation, FloatStage};
    use aleatron_core::{Encoding, Length};

    fn is_one_pass(n_inputs: usize, length: usize, scale: f64, comparator: u32) -> bool {
        let (length, encoding) = (Length::new(length).unwrap(), Encoding::Bernoulli { seed: 0 });
        let spec = LayerSpec::dense(n_inputs, 2, length, Polarity::Bipolar, encoding).unwrap();
        let float = FloatStage { scale, bias: vec![0.5, -2.0], activation: Activation::Relu };
        let accumulator = Accumulator::calibrated(&spec, &float, 8).unwrap();
        let (unit, comparator) = (accumulator.unit(length, scale), Width::new(comparator).unwrap());
        let next = Requantizer::of_unit(unit, 4.0, 16, comparator, Polarity::Bipolar).unwrap();
        IntegerStage::new(&spec, &accumulator, &next, Width::BERNOULLI).unwrap().lanes.is_some()
    }

    /// Tests of results say nothing of how they are made.
    #[test]
    fn calibrated_layers_take_one_pass() {
        assert!(is_one_pass(1, 1, 1.0, 1));
        assert!(is_one_pass(64, 1024, 3.0, 10));
        assert!(is_one_pass(784, 1 << 16, 30.0, 16));
        // The products of the largest values need more bits than f64 has, but thresholds saturate long before.
        assert!(is_one_pass(1 << 16, 1 << 20, 1.0, 16));
        assert!(!is_one_pass(1 << 16, 1 << 20, 0.01, 16));
        assert!(!is_one_pass(1 << 20, 1 << 24, 1.0, 16));
    }
}
