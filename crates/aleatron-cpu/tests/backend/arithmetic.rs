//! What is between layers in integers, in one pass, against the reference step by step, on every tier, for 1, 2 and 3 threads.

use aleatron_core::arithmetic::{
    Accumulator, Activation, Border, FloatStage, IntegerActivation, Pool as ImagePool, PoolKind, PoolShape,
    Requantized, Requantizer, saturate,
};
use aleatron_core::threshold::{NEGATIVE, magnitude};
use aleatron_core::{
    Connections, Convolution, Encoding, Error, LayerSpec, Length, Polarity, Quantity, Width, reference,
};
use aleatron_cpu::{Cpu, FeatureStage, IntegerStage, LayerSums, Pool, Tier};
use proptest::prelude::*;
use std::sync::Arc;

fn cpus() -> Vec<Cpu> {
    let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers.iter().flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone()))).collect()
}

fn polarities() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

/// A layer of any kind, with neurons of one and of several numbers of products.
fn specs() -> impl Strategy<Value = LayerSpec> {
    let lengths = prop::sample::select(vec![1_usize, 16, 100, 1 << 20]);
    (0..3, 1_usize..20, 1_usize..70, lengths, polarities()).prop_map(|(kind, n, m, length, polarity)| {
        let (length, encoding) = (Length::new(length).unwrap(), Encoding::Bernoulli { seed: 0 });
        match kind {
            0 => LayerSpec::dense(n, m, length, polarity, encoding),
            1 => {
                let rows = (0..m).map(|j| (0..n).filter(move |i| (i * 7 + j * 3) % 5 < 2));
                LayerSpec::sparse(Connections::from_rows(rows, n).unwrap(), length, polarity, encoding)
            }
            _ => {
                let convolution =
                    Convolution { padding: [[1, 1], [0, 1]], ..Convolution::conv2d([2, 4, 3], 3, [3, 2]) };
                LayerSpec::conv(convolution, length, polarity, encoding)
            }
        }
        .unwrap()
    })
}

/// An accumulator of any width, or one that fits what the layer counts.
fn accumulator(spec: &LayerSpec, width: u32, fraction: u32, kind: u32, bits: u64) -> Accumulator {
    let number = |k: u64, shift: u32| (bits.wrapping_mul(2 * k + 1).rotate_left(23) as i64) >> shift;
    let bias: Vec<i64> = (0..spec.n_rows()).map(|j| number(j as u64, 64 - width)).collect();
    let [a, b] = [1000, 1001].map(|k| number(k, 64 - width));
    let activation = match kind {
        0 => IntegerActivation::Identity,
        1 => IntegerActivation::Relu,
        _ => IntegerActivation::Clamp { low: a.min(b), high: a.max(b) },
    };
    Accumulator::new(width, bias, activation).unwrap().with_fraction(fraction).unwrap()
}

/// Counts of samples: the ends of what the layer counts, any in between, and some that no layer has.
fn counts(spec: &LayerSpec, samples: usize, bits: u64, is_wild: bool) -> Vec<u64> {
    let count = |k: usize| {
        let random = bits.wrapping_mul(2 * k as u64 + 1).rotate_left(29);
        let most = spec.max_count() as u64;
        match (random % 8, is_wild) {
            (0, _) => 0,
            (1, _) => most,
            // A sum of 0 where sums have signs.
            (4, _) => most / 2,
            (2, true) => random,
            (3, true) => random >> (random % 40),
            _ => (random >> 3) % (most + 1),
        }
    };
    (0..samples * spec.n_neurons()).map(count).collect()
}

/// One count at a time.
fn stepwise(
    spec: &LayerSpec,
    accumulator: &Accumulator,
    requantizer: &Requantizer,
    width: Width,
    counts: &[u64],
) -> (Vec<i64>, Requantized) {
    let held = counts.iter().enumerate();
    let held = held.map(|(k, &count)| reference::accumulate(accumulator, spec, k % spec.n_neurons(), count));
    let held: Vec<i64> = held.collect();
    let made = requantized(requantizer, width, &held);
    (held, made)
}

/// One value at a time.
fn requantized(requantizer: &Requantizer, width: Width, held: &[i64]) -> Requantized {
    let unused = width.bits() - requantizer.comparator().bits();
    let thresholds = held.iter().map(|&value| {
        let threshold = reference::requantize(requantizer, value);
        magnitude(threshold) << unused | threshold & NEGATIVE
    });
    let saturated = held.iter().filter(|&&value| requantizer.saturates(value)).count() as u64;
    Requantized { thresholds: thresholds.collect(), saturated }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_pass_equals_its_steps(
        spec in specs(), next in polarities(), samples in 0_usize..5, kind in 0_u32..3, bits: u64,
        any_width in 2_u32..=63, fits: bool, fraction in 0_u32..=32, multiplier_bits in 1_u32..=62,
        any_shift in 0_u32..=125, off in -3_i32..=3, v in 1_u32..=32, wider in 0_u32..=31, is_wild in prop::bool::weighted(0.2),
    ) {
        // Either anything, or what about fits: levels up to a few times what the comparator can express.
        let fraction = if fits { fraction / 4 } else { fraction };
        let most = spec.max_count() << fraction;
        let held_bits = 2 + most.checked_ilog2().unwrap_or(0);
        let width = if fits { held_bits.saturating_add_signed(off).clamp(2, 63) } else { any_width };
        let multiplier_bits = if fits { multiplier_bits / 3 + 1 } else { multiplier_bits };
        let fitting = (held_bits + multiplier_bits).saturating_sub(v + 1).saturating_add_signed(off);
        let shift = if fits { fitting } else { any_shift };
        let accumulator = accumulator(&spec, width, fraction, kind, bits);
        let multiplier = bits.rotate_left(7) >> (64 - multiplier_bits);
        let comparator = Width::new(v).unwrap();
        let requantizer = Requantizer::new(multiplier, multiplier_bits, shift, comparator, next).unwrap();
        let generator = Width::new((v + wider).min(32)).unwrap();
        let counts = counts(&spec, samples, bits, is_wild);
        let (held, expected) = stepwise(&spec, &accumulator, &requantizer, generator, &counts);
        let stage = IntegerStage::new(&spec, &accumulator, &requantizer, generator).unwrap();
        let sums = LayerSums::new(&spec, &accumulator).unwrap();
        let unit = 1.0 / 3.0;
        let outputs: Vec<f64> = held.iter().map(|&held| held as f64 * unit).collect();
        for cpu in cpus() {
            prop_assert_eq!(&cpu.requantize(&stage, counts.clone()).unwrap(), &expected);
            prop_assert_eq!(&cpu.accumulator_outputs(&sums, &counts, unit).unwrap(), &outputs);
        }
    }

    #[test]
    fn pools_equal_their_steps(
        polarity in polarities(), next in polarities(), length in prop::sample::select(vec![16_usize, 1 << 20]), bits: u64,
        samples in 0_usize..4, size in (6_usize..12, 6_usize..12), kinds in prop::collection::vec(0_u32..2, 1..3), off in -2_i32..=4,
        window in (1_usize..=3, 1_usize..=3), stride in (1_usize..=3, 1_usize..=3), is_padded: bool, zeros: bool, activation in 0_u32..3,
        fraction in 0_u32..=20, is_wild in prop::bool::weighted(0.1),
    ) {
        let (length, encoding) = (Length::new(length).unwrap(), Encoding::Bernoulli { seed: 0 });
        let convolution = Convolution::conv2d([1, size.0, size.1], 3, [2, 2]);
        let spec = LayerSpec::conv(convolution, length, polarity, encoding).unwrap();
        let held_bits = 2 + (spec.max_count() << fraction).ilog2();
        let accumulator = accumulator(&spec, held_bits, fraction, activation, bits);
        let mut pools: Vec<PoolShape> = Vec::new();
        for kind in kinds {
            let image = pools.last().map_or([3, size.0 - 1, size.1 - 1], PoolShape::output);
            let kind = if kind == 0 { PoolKind::Max } else { PoolKind::Average };
            let [rows, columns] = [window.0, window.1];
            let padding = if is_padded { [[rows - 1, 0], [0, columns - 1]] } else { [[0; 2]; 2] };
            let border = if zeros { Border::Zeros } else { Border::LeftOut };
            let pool = ImagePool::new(kind, [rows, columns]).with_stride([stride.0, stride.1]);
            // The second of two may find no place.
            pools.extend(PoolShape::new(pool.with_paddings(padding, border), image));
        }
        let shift = (held_bits + 16 - 12).saturating_add_signed(off);
        let multiplier = (bits >> 48) | 1;
        let requantizer = Requantizer::new(multiplier, 16, shift, Width::new(12).unwrap(), next).unwrap();
        let counts = counts(&spec, samples, bits, is_wild);
        let (held, _) = stepwise(&spec, &accumulator, &requantizer, Width::BERNOULLI, &counts);
        let held = pools.iter().fold(held, |held, pool| pool.integers(&held).unwrap());
        let expected = requantized(&requantizer, Width::BERNOULLI, &held);
        let stage = IntegerStage::new(&spec, &accumulator, &requantizer, Width::BERNOULLI).unwrap();
        let stage = stage.with_pools(&pools).unwrap();
        let sums = LayerSums::new(&spec, &accumulator).unwrap().with_pools(&pools).unwrap();
        let outputs: Vec<f64> = held.iter().map(|&held| held as f64 * 0.3).collect();
        for cpu in cpus() {
            prop_assert_eq!(&cpu.requantize(&stage, counts.clone()).unwrap(), &expected);
            prop_assert_eq!(&cpu.accumulator_outputs(&sums, &counts, 0.3).unwrap(), &outputs);
        }
    }

    #[test]
    fn features_equal_their_steps(
        offset in prop::sample::select(vec![0.0, 8.0, -0.3]), polarity in polarities(),
        scale in prop::sample::select(vec![1.0, 16.0, 0.25, 3.7]), input_scale in prop::sample::select(vec![1.0, 8.0, 0.7]),
        v in 1_u32..=32, wider in 0_u32..=31, shares in prop::collection::vec(-1.3_f64..1.3, 0..150),
        half in 0_u32..1000,
    ) {
        let comparator = Width::new(v).unwrap();
        let width = Width::new((v + wider).min(32)).unwrap();
        // Half way between two thresholds, and next to it.
        let half = (f64::from(half) + 0.5) / comparator.one() as f64;
        let ends = [half, half.next_up(), half.next_down(), -half, -0.0, 1.0, -1.0, f64::MIN_POSITIVE, -1e-300];
        let shares = shares.iter().copied().chain(ends);
        let features: Vec<f64> = shares.map(|share| share * input_scale * scale + offset).collect();
        let mut values: Vec<f64> = features.iter().map(|feature| (feature - offset) / scale).collect();
        let saturated = saturate(&mut values, input_scale, polarity);
        let thresholds = comparator.thresholds(&values, polarity, Quantity::Value).unwrap().into_iter();
        let thresholds = thresholds.map(|t| magnitude(t) << (width.bits() - v) | t & NEGATIVE).collect();
        let expected = Requantized { thresholds, saturated };
        let all = [f64::MIN, f64::MAX];
        let stage = FeatureStage::new(all, offset, [scale, input_scale], polarity, comparator, width).unwrap();
        for cpu in cpus() {
            prop_assert_eq!(&cpu.feature_thresholds(&stage, &features).unwrap().unwrap(), &expected);
        }
    }
}

/// Enough values that every thread gets some, rows that are not whole registers, and features that are refused wherever they are.
#[test]
fn large_batches_equal_their_steps_on_every_thread() {
    let (m, samples) = (77, 1000);
    let spec =
        LayerSpec::dense(50, m, Length::new(64).unwrap(), Polarity::Bipolar, Encoding::Bernoulli { seed: 0 });
    let spec = spec.unwrap();
    let bias = (0..m).map(|j| j as f64 / 10.0 - 3.0).collect();
    let float = FloatStage { scale: 1.5, bias, activation: Activation::Relu };
    let accumulator = Accumulator::calibrated(&spec, &float, 8).unwrap();
    let (comparator, generator) = (Width::new(16).unwrap(), Width::BERNOULLI);
    let unit = accumulator.unit(spec.length(), 1.5);
    let requantizer = Requantizer::of_unit(unit, 20.0, 16, comparator, Polarity::Signed).unwrap();
    let counts = counts(&spec, samples, 0x9E37_79B9_7F4A_7C15, false);
    let (held, expected) = stepwise(&spec, &accumulator, &requantizer, generator, &counts);
    assert!(expected.saturated > 0 && (expected.saturated as usize) < counts.len());
    let stage = IntegerStage::new(&spec, &accumulator, &requantizer, generator).unwrap();
    let sums = LayerSums::new(&spec, &accumulator).unwrap();
    let outputs: Vec<f64> = held.iter().map(|&held| held as f64 * unit).collect();
    let mut features: Vec<f64> = (0..50_000).map(|k| f64::from(k * 7919 % 1999) / 999.5 - 1.0).collect();
    let thresholds = comparator.thresholds(&features, Polarity::Signed, Quantity::Value).unwrap();
    let polarity = Polarity::Signed;
    let encode = FeatureStage::new([-1.0, 1.0], 0.0, [1.0, 1.0], polarity, comparator, comparator).unwrap();
    for cpu in cpus() {
        assert_eq!(cpu.requantize(&stage, counts.clone()).unwrap(), expected);
        assert_eq!(cpu.accumulator_outputs(&sums, &counts, unit).unwrap(), outputs);
        let made = cpu.feature_thresholds(&encode, &features).unwrap().unwrap();
        assert_eq!((&made.thresholds, made.saturated), (&thresholds, 0));
        for (place, bad) in [(0, f64::NAN), (20_011, 1.01), (49_999, f64::NEG_INFINITY)] {
            let good = std::mem::replace(&mut features[place], bad);
            assert_eq!(cpu.feature_thresholds(&encode, &features).unwrap(), None, "{bad}");
            features[place] = good;
        }
    }
}

/// Products of so many bits that f64 has just a place for them, and of more, next to half way between two thresholds.
#[test]
fn long_products_round_as_their_steps() {
    let (length, polarity) = (Length::new(8).unwrap(), Polarity::Unipolar);
    let spec = LayerSpec::dense(2, 1, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap();
    let accumulator = Accumulator::new(51, vec![0], IntegerActivation::Identity).unwrap();
    let cpus = cpus();
    for (bits, shift) in (1..=24).flat_map(|bits| (20..=48).map(move |shift| (bits, shift))) {
        let multiplier = (0x00D3_779B >> (24 - bits)) | 1_u64;
        // Each step makes twice as many bits of the reciprocal right.
        let reciprocal =
            (0..6).fold(1_u64, |r, _| r.wrapping_mul(2_u64.wrapping_sub(multiplier.wrapping_mul(r))));
        let half = 1_u64 << (shift - 1);
        // As much more as makes products large and changes nothing about what is rounded.
        let most =
            ((1_u128 << (31 + shift)) / u128::from(multiplier)).min(1 << 49) as u64 / (2 * half) * (2 * half);
        let counts =
            [half - 1, half, half + 1].map(|product| product.wrapping_mul(reciprocal) % (2 * half) + most);
        let requantizer = Requantizer::new(multiplier, bits, shift, Width::BERNOULLI, polarity).unwrap();
        let (_, expected) = stepwise(&spec, &accumulator, &requantizer, Width::BERNOULLI, &counts);
        let stage = IntegerStage::new(&spec, &accumulator, &requantizer, Width::BERNOULLI).unwrap();
        for cpu in &cpus {
            let made = cpu.requantize(&stage, counts.to_vec()).unwrap();
            assert_eq!(made, expected, "{multiplier} / 2^{shift} of {counts:?}");
        }
    }
}

/// Counts that f64 has just a place for and larger ones, and sums that are small because large numbers cancel.
#[test]
fn extreme_counts_equal_their_steps() {
    let (cpus, length) = (cpus(), Length::new(1 << 20).unwrap());
    for polarity in Polarity::ALL {
        let spec = LayerSpec::dense(20, 1, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap();
        let zero = spec.max_count() as u64 / 2;
        let counts =
            [0, zero - 1, zero, zero + 1, 1 << 51, (1 << 52) - 1, 1 << 52, 3 << 52, 1 << 63, u64::MAX];
        for (width, fraction) in [40, 51, 52, 63].into_iter().flat_map(|w| [0, 8, 25, 32].map(|f| (w, f))) {
            let accumulator = Accumulator::new(width, vec![5], IntegerActivation::Identity).unwrap();
            let accumulator = accumulator.with_fraction(fraction).unwrap();
            let requantizer = Requantizer::new(1, 1, 0, Width::EIGHT, polarity).unwrap();
            let stage = IntegerStage::new(&spec, &accumulator, &requantizer, Width::EIGHT).unwrap();
            let sums = LayerSums::new(&spec, &accumulator).unwrap();
            for (cpu, count) in cpus.iter().flat_map(|cpu| counts.map(|count| (cpu, count))) {
                let (held, expected) = stepwise(&spec, &accumulator, &requantizer, Width::EIGHT, &[count]);
                assert_eq!(cpu.requantize(&stage, vec![count]).unwrap(), expected, "{count} {fraction}");
                let outputs = cpu.accumulator_outputs(&sums, &[count], 1.0).unwrap();
                assert_eq!(outputs, [held[0] as f64], "{count} {width} {fraction}");
            }
        }
    }
}

/// Means of values whose sum has more bits than f64.
#[test]
fn means_of_extreme_values_equal_their_steps() {
    let (length, encoding) = (Length::new(8).unwrap(), Encoding::Bernoulli { seed: 0 });
    let convolution = Convolution::conv2d([1, 8, 8], 1, [1, 1]);
    let spec = LayerSpec::conv(convolution, length, Polarity::Unipolar, encoding).unwrap();
    for width in [44, 45, 46, 51] {
        let accumulator = Accumulator::new(width, vec![0], IntegerActivation::Identity).unwrap();
        let pool = PoolShape::new(ImagePool::global(PoolKind::Average, [8, 8]), [1, 8, 8]).unwrap();
        let sums = LayerSums::new(&spec, &accumulator).unwrap().with_pools(&[pool]).unwrap();
        for seed in 0..20 {
            let counts: Vec<u64> =
                (0..64).map(|k| (1 << (width - 1)) - 1 - (k * 13 + seed * 7) % 29).collect();
            let held: Vec<i64> = counts.iter().map(|&count| count as i64).collect();
            let expected = pool.integers(&held).unwrap()[0] as f64;
            for cpu in cpus() {
                assert_eq!(cpu.accumulator_outputs(&sums, &counts, 1.0).unwrap(), [expected], "{width}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let length = Length::new(8).unwrap();
    let spec = LayerSpec::dense(2, 3, length, Polarity::Unipolar, Encoding::Bernoulli { seed: 0 }).unwrap();
    let few = Accumulator::new(8, vec![0; 2], IntegerActivation::Identity).unwrap();
    let error = LayerSums::new(&spec, &few).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: Quantity::Bias, expected: 3, actual: 2 }), "{error}");
    let accumulator = Accumulator::new(8, vec![0; 3], IntegerActivation::Identity).unwrap();
    let wide = Requantizer::new(1, 1, 0, Width::BERNOULLI, Polarity::Unipolar).unwrap();
    let refused = IntegerStage::new(&spec, &accumulator, &wide, Width::EIGHT).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { what: Quantity::ComparatorWidth, actual: 32, limit: 8 }));
    let polarity = Polarity::Unipolar;
    let refused = FeatureStage::new([0.0, 1.0], 0.0, [1.0; 2], polarity, Width::BERNOULLI, Width::EIGHT);
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::TooLarge { what: Quantity::ComparatorWidth, actual: 32, limit: 8 }));
    let pools = [[1, 1, 3], [1, 1, 2]]
        .map(|image| PoolShape::new(ImagePool::new(PoolKind::Max, [1, 1]), image).unwrap());
    let sums = LayerSums::new(&spec, &accumulator).unwrap();
    let error = sums.clone().with_pools(&pools).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: Quantity::Inputs, expected: 3, actual: 2 }), "{error}");
    let ragged =
        Cpu::current().unwrap().accumulator_outputs(&sums.with_pools(&pools[..1]).unwrap(), &[1; 4], 1.0);
    let ragged = ragged.unwrap_err();
    assert!(matches!(ragged, Error::Ragged { what: Quantity::Inputs, actual: 4, divisor: 3 }), "{ragged}");
    // A feature that is allowed and no number after dividing.
    let stage = FeatureStage::new([0.0, 1.0], 0.0, [0.0, 1.0], polarity, Width::EIGHT, Width::EIGHT).unwrap();
    assert_eq!(Cpu::current().unwrap().feature_thresholds(&stage, &[0.0]).unwrap(), None);
}
