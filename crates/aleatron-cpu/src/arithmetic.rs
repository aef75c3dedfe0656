//! What is between the counts of two layers in integer arithmetic, in one pass: [`aleatron_core::arithmetic`] says what it is.
//!
//! All of it is done in f64 where every integer on the way is known to be exact in it, and by the core elsewhere.

mod pool;

use crate::Cpu;
use crate::dispatch::{
    self, Division, FeatureFaults, FeatureLanes, LevelLanes, MIDDLE, SHIFT, Signs, SumLanes,
};
use aleatron_core::arithmetic::{Accumulator, IntegerActivation, PoolShape, Requantized, Requantizer};
use aleatron_core::{Error, LayerSpec, Polarity, Quantity, Result, Width, memory};
use pool::{PoolMemory, PoolStages};
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
    pools: Vec<PoolShape>,
    lanes: Option<(SumLanes, Offsets)>,
    pool_lanes: PoolStages,
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
        let (spec, accumulator, pools) = (spec.clone(), accumulator.clone(), Vec::new());
        Ok(Self { spec, accumulator, pools, lanes, pool_lanes: PoolStages::default() })
    }

    /// The same with pools behind the accumulators, one after the other.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where the images of a pool are not those that the layer or the pool before has.
    pub fn with_pools(self, pools: &[PoolShape]) -> Result<Self> {
        let mut expected = self.spec.n_neurons();
        for pool in pools {
            let actual = pool.n_inputs();
            if expected != actual {
                return Err(Error::Mismatch { what: Quantity::Inputs, expected, actual });
            }
            expected = pool.n_outputs();
        }
        let lanes = self.lanes.filter(|(sum, _)| PoolStages::are_exact(pools, sum.largest()));
        Ok(Self { pools: pools.to_vec(), lanes, pool_lanes: PoolStages::new(pools), ..self })
    }

    /// The numbers that a sample becomes.
    fn n_outputs(&self) -> usize {
        self.pools.last().map_or(self.spec.n_neurons(), PoolShape::n_outputs)
    }

    /// What the accumulators hold, pooled, as the core has it.
    fn plain(&self, counts: &[u64]) -> Result<Vec<i64>> {
        let held = self.accumulator.values(&self.spec, counts)?;
        self.pools.iter().try_fold(held, |held, pool| pool.integers(&held))
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
    lanes: Option<LevelLanes>,
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

    /// The same with pools behind the accumulators, one after the other.
    ///
    /// # Errors
    /// As [`LayerSums::with_pools`].
    pub fn with_pools(self, pools: &[PoolShape]) -> Result<Self> {
        Ok(Self { sums: self.sums.with_pools(pools)?, ..self })
    }
}

/// A requantizer in f64, where it is exact for all values that do not saturate. Rounding keeps the order of products, so the others saturate, too.
fn levels(sum: SumLanes, requantizer: &Requantizer, unused: u32) -> Option<LevelLanes> {
    let (multiplier, shift) = (requantizer.multiplier(), requantizer.shift());
    let one = requantizer.comparator().one();
    // From here on, every value saturates.
    let past = match (u128::from(one) + 2).checked_mul(1 << shift) {
        Some(product) if multiplier > 0 => product / u128::from(multiplier) + 1,
        _ => EXACT,
    };
    if sum.largest().clamp(1, past) * u128::from(multiplier) >= EXACT {
        return None;
    }
    let zero = match requantizer.polarity() {
        Polarity::Unipolar | Polarity::Signed => 0,
        Polarity::Bipolar => one / 2,
    };
    let step = 2f64.powi(-(shift as i32));
    Some(LevelLanes {
        multiplier: multiplier as f64 * step,
        tie: if shift == 0 { 0.0 } else { step / 2.0 },
        zero: MIDDLE + zero as f64,
        one: one as f64,
        unused,
        signs: signs(requantizer.polarity()),
    })
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
    /// The thresholds of the next layer for the counts of whole samples, in their place where there are no pools.
    ///
    /// # Errors
    /// [`Error::Ragged`] where a pool would get a part of an image, [`Error::Memory`] where there is no room.
    pub fn requantize(&self, stage: &IntegerStage, mut counts: Vec<u64>) -> Result<Requantized> {
        let (sums, total, cost) = (&stage.sums, AtomicU64::new(0), cost(counts.len()));
        let count = |outside| total.fetch_add(outside, Ordering::Relaxed);
        let thresholds = match (stage.lanes, &sums.lanes) {
            (Some(level), Some((sum, offsets))) if sums.pools.is_empty() && self.are_exact(&counts) => {
                self.pool.for_each(counts.chunks_mut(offsets.piece()), cost, |counts| {
                    count(dispatch::requantize(self.tier, *sum, level, &offsets.0, counts));
                });
                counts
            }
            (Some(level), Some((sum, offsets))) if self.are_exact(&counts) => {
                self.pooled(sums, *sum, offsets, &counts, |held, thresholds| {
                    count(dispatch::thresholds(self.tier, level, held, thresholds));
                })?
            }
            _ => return stage.requantizer.thresholds(&sums.plain(&counts)?, stage.width),
        };
        Ok(Requantized { thresholds, saturated: total.into_inner() })
    }

    /// What the accumulators of a layer hold for the counts of whole samples, pooled, where one stands for `unit`.
    ///
    /// # Errors
    /// As [`Self::requantize`].
    pub fn accumulator_outputs(&self, sums: &LayerSums, counts: &[u64], unit: f64) -> Result<Vec<f64>> {
        match &sums.lanes {
            Some((sum, offsets)) if sums.pools.is_empty() && self.are_exact(counts) => {
                let mut outputs = memory::zeros(counts.len() as u128, Quantity::Value)?;
                let (piece, cost) = (offsets.piece(), cost(counts.len()));
                let pieces = outputs.chunks_mut(piece).zip(counts.chunks(piece));
                self.pool.for_each(pieces, cost, |(outputs, counts)| {
                    dispatch::outputs(self.tier, *sum, unit, &offsets.0, counts, outputs);
                });
                Ok(outputs)
            }
            Some((sum, offsets)) if self.are_exact(counts) => {
                self.pooled(sums, *sum, offsets, counts, |held, outputs| {
                    outputs.iter_mut().zip(held).for_each(|(output, held)| *output = held * unit);
                })
            }
            _ => Ok(sums.plain(counts)?.into_iter().map(|held| held as f64 * unit).collect()),
        }
    }

    /// What `finish` makes of each sample once it is pooled.
    fn pooled<T: Clone + Default + Send>(
        &self,
        sums: &LayerSums,
        sum: SumLanes,
        offsets: &Offsets,
        counts: &[u64],
        finish: impl Fn(&[f64], &mut [T]) + Sync,
    ) -> Result<Vec<T>> {
        let (n, m) = (sums.spec.n_neurons(), sums.n_outputs());
        if !counts.len().is_multiple_of(n) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: counts.len(), divisor: n });
        }
        let samples = (PIECE / n).max(1);
        // What each thread holds of a sample.
        memory::check(self.threads() as u128 * (n + 2 * m.max(n)) as u128 * 8, Quantity::Value)?;
        let mut made = memory::zeros((counts.len() / n) as u128 * m as u128, Quantity::Value)?;
        let pieces = made.chunks_mut(samples * m).zip(counts.chunks(samples * n));
        self.pool.for_each(pieces, 2 * cost(counts.len()), |(made, counts)| {
            let (mut held, mut memory) = (vec![0.0; n], PoolMemory::default());
            for (made, counts) in made.chunks_mut(m).zip(counts.chunks(n)) {
                dispatch::outputs(self.tier, sum, 1.0, &offsets.0, counts, &mut held);
                finish(sums.pool_lanes.apply(self.tier, &held, &mut memory), made);
            }
        });
        Ok(made)
    }

    /// Whether f64 has a place for all counts.
    fn are_exact(&self, counts: &[u64]) -> bool {
        dispatch::largest(self.tier, counts) < 1 << 52
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
