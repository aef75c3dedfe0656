//! Known answers of small units: correlation, endless sequences, neurons, and edge cases of the
//! inter-layer arithmetic.

use aleatron_core::arithmetic::{
    Accumulator, Activation, FloatStage, IntegerActivation, Requantizer, saturate,
};
use aleatron_core::generator::{
    GeneratorName, Halton, Lfsr, Pairing, Ramp, Sequence, SequenceKind, Sharing, Sobol, Warning,
    Width,
};
use aleatron_core::lif::{FixedPointLif, LifDrive, LifLayer, LifLayerParams, LifParams};
use aleatron_core::{
    BitStream, Connections, ConvShape, Convolution, Encoding, Error, LayerSpec, Length, Overlap,
    Polarity, Quantity, StreamMatrix, Topology, golden, memory, reference,
};

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

fn width(bits: u32) -> Width {
    Width::new(bits).unwrap()
}

fn overlap(bits: usize, ones: [u64; 2], both: u64) -> Overlap {
    Overlap::new(length(bits), ones, both).unwrap()
}

/// With fractions p, q and r of ones in X, Y and both: SCC is (r - pq) / (min(p, q) - pq) if that
/// is positive, otherwise (r - pq) / (pq - max(p + q - 1, 0)).
#[test]
fn correlation_has_known_values() {
    // p = 1/2, q = 1/4, r from 0 to 1/4; pq = 1/8.
    assert_eq!([0, 1, 2].map(|both| overlap(8, [4, 2], both).scc()), [-1.0, 0.0, 1.0]);
    // p = q = 3/4: at least half are in both, pq = 9/16.
    assert_eq!(overlap(8, [6, 6], 4).scc(), -1.0);
    assert_eq!(overlap(8, [6, 6], 6).scc(), 1.0);
    // r = 5/8: (10 - 9) / 16 of (12 - 9) / 16.
    assert_eq!(overlap(8, [6, 6], 5).scc(), 1.0 / 3.0);
    // p = 5/8, q = 3/4, pq = 30/64, at least 24/64 and at most 40/64: 3 in both is the least.
    assert_eq!(overlap(8, [5, 6], 3).scc(), -1.0);
    assert_eq!(overlap(8, [5, 6], 4).scc(), 2.0 / 10.0);
    // Constant streams have no correlation.
    assert_eq!([overlap(8, [0, 5], 0).scc(), overlap(8, [8, 5], 5).scc()], [0.0, 0.0]);

    // The distance of r from pq in 1 / 64, minus the least distance that whole bits allow: pq of 4
    // and 2 ones is 8 / 64, one bit.
    assert_eq!([0, 1, 2].map(|both| overlap(8, [4, 2], both).zce()), [-0.125, 0.0, 0.125]);
    // 5 and 6 ones: 30 / 64 lies between 24 and 32, which is closer by 2.
    assert_eq!([3, 4, 5].map(|both| 64.0 * overlap(8, [5, 6], both).zce()), [-4.0, 0.0, 8.0]);
    // 3 and 3 ones: 9 / 64 between 8 and 16.
    assert_eq!(
        [0, 1, 2, 3].map(|both| 64.0 * overlap(8, [3, 3], both).zce()),
        [-8.0, 0.0, 6.0, 14.0]
    );
    // 1 and 4 ones: 4 / 64, half-way between 0 and 8.
    assert_eq!([0, 1].map(|both| overlap(8, [1, 4], both).zce()), [0.0, 0.0]);
    assert_eq!(overlap(8, [5, 6], 4).counts(), [4, 1, 2, 1]);
}

#[test]
fn impossible_overlaps_are_errors() {
    let new = |ones, both| Overlap::new(length(8), ones, both);
    let what = Quantity::Counts;
    assert_eq!(new([9, 1], 0), Err(Error::TooLarge { what, actual: 9, limit: 8 }));
    assert_eq!(new([1, 9], 0), Err(Error::TooLarge { what, actual: 9, limit: 8 }));
    assert_eq!(new([3, 2], 3), Err(Error::TooLarge { what, actual: 3, limit: 2 }));
    assert_eq!(new([6, 6], 3), Err(Error::TooSmall { what, actual: 3, limit: 4 }));
    assert!(new([8, 8], 8).is_ok() && new([6, 6], 4).is_ok() && new([2, 3], 2).is_ok());
}

#[test]
fn halton_sequences_end_at_the_last_prime() {
    let halton = |base| Sequence::Halton(Halton::new(base, Width::EIGHT).unwrap());
    // Every second prime after the base: from 9 on these are 11, 13, 17, 19, 23.
    assert_eq!([1, 2].map(|q| halton(9).nth(q).unwrap()), [halton(13), halton(19)]);
    assert_eq!(halton(2).nth(3270).unwrap(), halton(65_519));
    let past = Error::TooLarge { what: Quantity::HaltonBase, actual: 65_537, limit: 65_536 };
    assert_eq!(halton(2).nth(3271), Err(past.clone()));
    assert_eq!(halton(65_521).nth(1), Err(past));
    assert_eq!(halton(65_521).nth(0).unwrap(), halton(65_521));
    let new = |base| Halton::new(base, Width::EIGHT);
    assert_eq!(new(1), Err(Error::TooSmall { what: Quantity::HaltonBase, actual: 1, limit: 2 }));
    assert_eq!(
        new(65_537),
        Err(Error::TooLarge { what: Quantity::HaltonBase, actual: 65_537, limit: 65_536 })
    );
    assert_eq!(new(65_536).unwrap().base(), 65_536);
    assert_eq!(new(7).unwrap().width(), Width::EIGHT);
    // The digits of 5 in base 3 are 12: mirrored, 2/3 + 1/9 of 256.
    assert_eq!(new(3).unwrap().at(5), 256 * 7 / 9);
}

#[test]
fn sequences_display_their_parameters() {
    let lfsr = Sequence::Lfsr(Lfsr::new(Width::EIGHT, 77).unwrap());
    let sobol = Sequence::Sobol(Sobol::new(3, Width::EIGHT).unwrap());
    let halton = Sequence::Halton(Halton::new(5, Width::EIGHT).unwrap());
    let ramp = Sequence::Ramp(Ramp::new(Width::EIGHT));
    let all = [lfsr, sobol, halton, ramp];
    assert_eq!(all.map(|sequence| sequence.period()), [255, 256, 256, 256]);
    assert_eq!(
        all.map(|sequence| sequence.to_string()),
        [
            "LFSR 8 bits, taps 8,6,5,4, seed 77",
            "Sobol 8 bits, dimension 3",
            "Halton 8 bits, base 5",
            "ramp 8 bits"
        ]
    );
    assert_eq!(
        SequenceKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        ["lfsr", "sobol", "halton", "ramp", "digit"]
    );
    assert!(matches!(ramp.nth(1), Err(Error::TooLarge { .. })));
    assert_eq!(ramp.nth(0), Ok(ramp));
    let names =
        ["bernoulli", "lfsr", "sobol", "vdc", "lfsr:1+lfsr:2", "bernoulli+sobol", "ramp+bernoulli"];
    let names = names.map(|name| name.parse::<GeneratorName>().unwrap());
    assert_eq!(names.map(|name| name.is_seeded()), [true, true, false, false, false, true, true]);
    assert_eq!(
        names.map(|name| name.has_random_bits()),
        [true, false, false, false, false, true, true]
    );
}

#[test]
fn invalid_registers_are_errors() {
    let with_taps = |bits, taps: &[u32], seed| Lfsr::with_taps(width(bits), taps, seed);
    let what = Quantity::Width;
    assert_eq!(with_taps(2, &[2, 1], 1), Err(Error::TooSmall { what, actual: 2, limit: 3 }));
    assert_eq!(Lfsr::new(width(2), 1), Err(Error::TooSmall { what, actual: 2, limit: 3 }));
    assert!(Lfsr::new(width(3), 7).is_ok());
    assert_eq!(with_taps(4, &[4, 0], 1), Err(Error::Zero(Quantity::LfsrTap)));
    assert_eq!(
        with_taps(4, &[5], 1),
        Err(Error::TooLarge { what: Quantity::LfsrTap, actual: 5, limit: 4 })
    );
    assert_eq!(with_taps(4, &[4, 3, 3], 1), Err(Error::RepeatedTap { tap: 3 }));
    assert_eq!(with_taps(4, &[3, 1], 1), Err(Error::MissingTap { width: 4 }));
    assert_eq!(with_taps(4, &[4, 3], 0), Err(Error::Zero(Quantity::LfsrSeed)));
    assert_eq!(
        with_taps(4, &[4, 3], 16),
        Err(Error::TooLarge { what: Quantity::LfsrSeed, actual: 16, limit: 15 })
    );
    let lfsr = with_taps(4, &[4, 3], 15).unwrap();
    assert_eq!((lfsr.width(), lfsr.seed()), (width(4), 15));
    assert_eq!(
        [1, 2, 14].map(|steps| lfsr.distance(&lfsr.advanced(steps), 2)),
        [Some(1), Some(2), Some(1)]
    );
    assert_eq!(lfsr.distance(&lfsr.advanced(3), 2), None);
    assert_eq!(lfsr.distance(&with_taps(4, &[4, 1], 15).unwrap(), 100), None);
    let what = Quantity::SobolDimension;
    assert!(matches!(Sobol::new(0, Width::EIGHT), Err(Error::Zero(_) | Error::TooSmall { .. })));
    assert_eq!(
        Sobol::new(1112, Width::EIGHT),
        Err(Error::TooLarge { what, actual: 1112, limit: 1111 })
    );
    assert_eq!(
        (Sobol::new(9, width(7)).unwrap().dimension(), Sobol::new(9, width(7)).unwrap().width()),
        (9, width(7))
    );
}

#[test]
fn cut_off_period_is_reported() {
    let ramp = |bits| Sequence::Ramp(Ramp::new(width(bits)));
    let sobol = |bits| Sequence::Sobol(Sobol::new(1, width(bits)).unwrap());
    let cut = |inputs, weights, bits| {
        Pairing { inputs, weights, sharing: Sharing::OneForAll }.cut_off(length(bits))
    };
    assert_eq!(
        cut(ramp(8), sobol(8), 254),
        Some(Warning::CutOff { sequence: ramp(8), length: 254 })
    );
    assert_eq!(cut(sobol(8), ramp(8), 16), Some(Warning::CutOff { sequence: ramp(8), length: 16 }));
    // Within one: a register of eight bits repeats after 255.
    assert_eq!(cut(ramp(8), sobol(8), 255), None);
    assert_eq!(cut(sobol(8), sobol(8), 16), None);
    // No narrower register is covered either.
    assert_eq!(cut(ramp(3), sobol(8), 4), None);
    let lfsr = Sequence::Lfsr(Lfsr::new(width(8), 1).unwrap());
    assert_eq!(cut(lfsr, sobol(8), 255), None);
    // Wider than any register that is chosen for a length.
    let wide = Sequence::Lfsr(Lfsr::new(width(13), 1).unwrap());
    assert_eq!(cut(wide, sobol(8), 8191), None);
    assert_eq!(cut(wide, sobol(8), 8190), Some(Warning::CutOff { sequence: wide, length: 8190 }));
    let warning = cut(lfsr, sobol(8), 100).unwrap();
    assert_eq!(
        warning.to_string(),
        "streams of 100 bits end before the period of 255 (LFSR 8 bits, taps 8,6,5,4, seed 1): small and large numbers come unevenly"
    );
}

/// Sparse counts by hand: three streams of four bits, AND and XNOR.
#[test]
fn sparse_counts_are_those_of_connected_inputs() {
    let bits = |rows: &[[u8; 4]]| {
        let words = rows.iter().map(|row| BitStream::from_bits(row).unwrap().words()[0]).collect();
        StreamMatrix::from_words(words, rows.len(), length(4)).unwrap()
    };
    let connections = Connections::from_rows([vec![1], vec![], vec![0, 2]], 3).unwrap();
    let inputs =
        bits(&[[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]);
    let weights = bits(&[[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]]);
    let counts = |polarity| {
        let spec = LayerSpec::sparse(
            connections.clone(),
            length(4),
            polarity,
            Encoding::Bernoulli { seed: 0 },
        )
        .unwrap();
        reference::counts(&spec, &weights, &inputs)
    };
    assert_eq!(counts(Polarity::Unipolar), [2, 0, 1 + 1, 0, 0, 2 + 1]);
    assert_eq!(counts(Polarity::Bipolar), [3, 0, 2 + 3, 1, 0, 2 + 2]);
}

#[test]
fn neurons_return_their_parameters_and_state() {
    let params = LifParams::new(9, 4).unwrap();
    let params = params.with_rest(1).with_reset(-2).with_threshold(30).with_refractory_period(4);
    assert_eq!((params.data_width(), params.fraction(), params.refractory_period()), (9, 4, 4));
    assert_eq!((params.v_rest(), params.v_reset(), params.v_threshold()), (1, -2, 30));
    assert_eq!(params.with_rest(-5).v_rest(), -5);
    // Nine bits: -256 to 255.
    assert_eq!([255, 256, -256, -257, 512].map(|x| params.wrap(x)), [255, -256, -256, 255, 0]);
    let mut neuron = FixedPointLif::in_state(params, 300, 2);
    assert_eq!((neuron.v(), neuron.refractory_counter()), (300 - 512, 2));
    assert_eq!(neuron.params(), &params);
    let drive = LifDrive { leak_k: 8, gain_k: 16, current: 40, noise: 3 };
    // Two silent steps at rest; then 1 + 0 + 40 + 3 reaches the threshold, and the next spike is
    // four steps later.
    let run: Vec<(bool, i16)> = (0..8).map(|_| neuron.step(drive)).collect();
    assert_eq!(
        run,
        [
            (false, 1),
            (false, 1),
            (true, -2),
            (false, 1),
            (false, 1),
            (false, 1),
            (false, 1),
            (true, -2)
        ]
    );
    neuron.reset();
    assert_eq!((neuron.v(), neuron.refractory_counter()), (1, 0));
    let weak = LifDrive { current: 4, noise: 0, ..drive };
    // 1 + 4 = 5; then 5 + ((1 - 5) * 8 >> 4) + 4 = 7.
    assert_eq!([neuron.step(weak), neuron.step(weak)], [(false, 5), (false, 7)]);
    // 7 + ((1 - 7) * 8 >> 4) + 4 - 3.
    assert_eq!(neuron.step(LifDrive { noise: -3, ..weak }), (false, 5));
}

#[test]
fn float_neurons_leak_integrate_and_fire() {
    let params = LifLayerParams {
        v_rest: 0.5,
        v_reset: 0.25,
        v_threshold: 2.0,
        alpha: 0.5,
        resistance: 2.0,
    };
    let mut layer = LifLayer::new(2, params).unwrap();
    assert_eq!((layer.voltages(), layer.params()), (&[0.5, 0.5][..], &params));
    let mut spikes = [9.0; 2];
    layer.step(&[0.25, 0.75], None, &mut spikes).unwrap();
    assert_eq!((layer.voltages(), spikes), (&[1.0, 0.25][..], [0.0, 1.0]));
    // 1 + (0.5 - 1) / 2 + 0.5 + 0.125; 0.25 + 0.125 + 0 - 0.25.
    layer.step(&[0.25, 0.0], Some(&[0.125, -0.25]), &mut spikes).unwrap();
    assert_eq!((layer.voltages(), spikes), (&[1.375, 0.125][..], [0.0, 0.0]));
    layer.reset();
    assert_eq!(layer.voltages(), [0.5, 0.5]);
}

#[test]
fn inter_layer_arithmetic_handles_edge_cases() {
    let spec = |polarity| {
        LayerSpec::dense(4, 2, length(10), polarity, Encoding::Bernoulli { seed: 0 }).unwrap()
    };
    let stage = |activation| FloatStage { scales: vec![2.0], bias: vec![0.5, -1.0], activation };
    let counts = [20, 5, 0, 40];
    let outputs = |activation| stage(activation).outputs(&spec(Polarity::Unipolar), &counts);
    assert_eq!(outputs(Activation::Identity), [4.5, 0.0, 0.5, 7.0]);
    assert_eq!(
        stage(Activation::Relu).outputs(&spec(Polarity::Bipolar), &counts),
        [0.5, 0.0, 0.0, 7.0]
    );
    let clamp = Activation::Clamp { low: 0.25, high: 5.0 };
    assert_eq!(outputs(clamp), [4.5, 0.25, 0.5, 5.0]);
    for (activation, expected) in [
        (Activation::Identity, [-1.5, 0.0, 0.5, 6.0]),
        (Activation::Relu, [0.0, 0.0, 0.5, 6.0]),
        (clamp, [0.25, 0.25, 0.5, 5.0]),
    ] {
        assert_eq!([-1.5, 0.0, 0.5, 6.0].map(|value| activation.apply(value)), expected);
    }
    // Two samples of two channels with three positions each, which share the bias of their channel.
    let shape = ConvShape::new(Convolution::conv1d([1, 4], 2, 2)).unwrap();
    let encoding = Encoding::Bernoulli { seed: 0 };
    let conv =
        LayerSpec::new(Topology::Conv(shape), length(8), Polarity::Unipolar, encoding).unwrap();
    let counts: Vec<u64> = (0..12).collect();
    let expected: Vec<f64> = counts
        .iter()
        .zip([0.5, 0.5, 0.5, -1.0, -1.0, -1.0].iter().cycle())
        .map(|(&count, bias)| count as f64 / 8.0 * 2.0 + bias)
        .collect();
    assert_eq!(stage(Activation::Identity).outputs(&conv, &counts), expected);
    // Divided by 4, then limited to the interval; the bounds themselves are inside.
    for (polarity, expected, n) in [
        (Polarity::Bipolar, [-1.0, -1.0, 0.5, 1.0, 1.0], 2),
        (Polarity::Unipolar, [0.0, 0.0, 0.5, 1.0, 1.0], 3),
    ] {
        let mut values = [-5.0, -4.0, 2.0, 4.0, 4.5];
        assert_eq!(saturate(&mut values, 4.0, polarity), n);
        assert_eq!(values, expected);
    }
    // Division is exact rounding for powers of two and others, and beyond what a reciprocal can
    // represent.
    for scale in [1.0, 0.5, 3.0, 1e300, 2f64.powi(-1022), 2f64.powi(1023), 5e-324] {
        let mut values: Vec<f64> = (0..2000).map(|k| f64::from(k) * scale / 4000.0).collect();
        let expected: Vec<f64> = values.iter().map(|value| value / scale).collect();
        let outside = expected.iter().filter(|value| **value > 1.0).count() as u64;
        assert_eq!(saturate(&mut values, scale, Polarity::Unipolar), outside, "{scale}");
        assert_eq!(
            values,
            expected.iter().map(|value| value.min(1.0)).collect::<Vec<_>>(),
            "{scale}"
        );
    }
}

#[test]
fn requantizers_count_saturated_values() {
    // Times 3, shifted by 1, in the middle of 0..=16.
    let narrow = Requantizer::new(3, 2, 1, width(4), Polarity::Bipolar).unwrap();
    let values = [-6, -5, 0, 1, 5, 6, -100, 100];
    let requantized = narrow.thresholds(&values, width(6)).unwrap();
    // (3 v + 1) >> 1, plus 8: -17 >> 1 is -9.
    assert_eq!(requantized.thresholds, [0, 1, 8, 10, 16, 16, 0, 16].map(|level| level << 2));
    assert_eq!(requantized.saturated, 4);
    let levels: Vec<bool> = values.iter().map(|&value| narrow.saturates(value)).collect();
    assert_eq!(levels, [true, false, false, false, false, true, true, true]);
    assert_eq!((narrow.multiplier(), narrow.multiplier_width(), narrow.shift()), (3, 2, 1));
    assert_eq!((narrow.comparator(), narrow.polarity()), (width(4), Polarity::Bipolar));
    // A level equal to an end is not saturated.
    for (polarity, [low, high]) in
        [(Polarity::Unipolar, [0, 16]), (Polarity::Bipolar, [-8, 8]), (Polarity::Signed, [-16, 16])]
    {
        let plain = Requantizer::new(1, 1, 0, width(4), polarity).unwrap();
        assert_eq!(plain.thresholds(&[low, high], width(4)).unwrap().saturated, 0, "{polarity}");
        assert_eq!(
            plain.thresholds(&[low - 1, high + 1], width(4)).unwrap().saturated,
            2,
            "{polarity}"
        );
    }
    // Products above 2^63 are computed in wider integers: the same values, one at a time.
    for shift in [0, 1, 61, 62, 100] {
        let wide =
            Requantizer::new((1 << 62) - 1, 62, shift, width(32), Polarity::Bipolar).unwrap();
        for values in [
            vec![0, 1, -1, 2],
            vec![i64::MAX >> 1, -(1 << 40), 3],
            vec![1 << 60, -(1 << 61), 7],
            vec![1 << 60; 2],
        ] {
            let requantized = wide.thresholds(&values, width(32)).unwrap();
            let plain: Vec<u64> =
                values.iter().map(|&value| reference::requantize(&wide, value)).collect();
            assert_eq!(requantized.thresholds, plain, "{shift}");
            let outside = values.iter().filter(|&&value| wide.saturates(value)).count() as u64;
            assert_eq!(requantized.saturated, outside);
        }
    }
}

#[test]
fn accumulators_have_the_least_width() {
    let spec =
        LayerSpec::dense(3, 1, length(10), Polarity::Bipolar, Encoding::Bernoulli { seed: 0 })
            .unwrap();
    let calibrated = |bias: f64, activation| {
        let stage = FloatStage { scales: vec![2.0], bias: vec![bias], activation };
        Accumulator::calibrated(&spec, &stage, 0).unwrap()
    };
    // A unit is 2 / 10; sums are up to 30, and 31 fits six bits with a sign, 32 does not.
    assert_eq!(
        (
            calibrated(0.2, Activation::Identity).width(),
            calibrated(0.2, Activation::Identity).bias()
        ),
        (6, &[1][..])
    );
    assert_eq!(calibrated(0.4, Activation::Identity).width(), 7);
    assert_eq!(calibrated(-0.4, Activation::Relu).width(), 7);
    let clamp = calibrated(0.0, Activation::Clamp { low: -20.0, high: 1.0 });
    assert_eq!(
        (clamp.width(), clamp.activation()),
        (8, IntegerActivation::Clamp { low: -100, high: 5 })
    );
    assert_eq!(clamp.interval(), [-128, 127]);
    // Halves round up.
    assert_eq!(
        [0.1, 0.3, -0.1, -0.3].map(|bias| calibrated(bias, Activation::Identity).bias()[0]),
        [1, 2, 0, -1]
    );
    assert_eq!([-3, 0, 3].map(|value| IntegerActivation::Relu.apply(value)), [0, 0, 3]);
    let few = Accumulator::new(8, vec![0, 0], IntegerActivation::Identity).unwrap();
    assert_eq!(
        few.values(&spec, &[1]),
        Err(Error::Mismatch { what: Quantity::Bias, expected: 1, actual: 2 })
    );
    // Counts beyond any layer's, repeated, are computed in wider integers.
    let wide = Accumulator::new(63, vec![0], IntegerActivation::Identity).unwrap();
    let narrow = Accumulator::new(62, vec![0], IntegerActivation::Identity).unwrap();
    for accumulator in [wide, narrow] {
        let [_, most] = accumulator.interval();
        assert_eq!(accumulator.values(&spec, &[1 << 62, 1 << 62]), Ok(vec![most; 2]));
    }
    // The largest biases, counts beyond any layer's, and a layer with 2^65 products.
    let encoding = Encoding::Bernoulli { seed: 0 };
    for (polarity, (fan_in, bits)) in Polarity::ALL
        .into_iter()
        .flat_map(|polarity| [(7, 100), (1 << 32, 1 << 33)].map(|size| (polarity, size)))
    {
        let Ok(spec) = LayerSpec::dense(fan_in, 1, length(bits), polarity, encoding) else {
            // Signed counts of as many products would not fit 64 bits.
            assert!(polarity == Polarity::Signed && fan_in > 7);
            continue;
        };
        for bias in [-(1 << 62), 0, (1 << 62) - 1] {
            let accumulator =
                Accumulator::new(63, vec![bias], IntegerActivation::Identity).unwrap();
            for count in [0, 1, (1 << 61) - 1, 1 << 61, 1 << 62, u64::MAX] {
                let plain = reference::accumulate(&accumulator, &spec, 0, count);
                assert_eq!(
                    accumulator.values(&spec, &[count]),
                    Ok(vec![plain]),
                    "{polarity} {bits} {bias} {count}"
                );
            }
        }
    }
    // The largest bias below 2^62 that f64 holds is 2^62 - 2^9: 8 times 63 products still fit 63
    // bits next to it, 8 times 64 do not.
    let widest = |bits: usize| {
        let spec = LayerSpec::dense(8, 1, length(bits), Polarity::Unipolar, encoding).unwrap();
        let (unit, bias) = (bits as f64, 2f64.powi(62).next_down());
        let stage =
            FloatStage { scales: vec![unit], bias: vec![bias], activation: Activation::Identity };
        Accumulator::calibrated(&spec, &stage, 0).map(|accumulator| accumulator.width())
    };
    assert_eq!(widest(63), Ok(63));
    let too_wide = Error::TooLarge { what: Quantity::AccumulatorWidth, actual: 64, limit: 63 };
    assert_eq!(widest(64), Err(too_wide));
    let edge = Accumulator::new(4, vec![-8, 7], IntegerActivation::Clamp { low: -8, high: 7 });
    assert!(edge.is_ok());
    let low =
        Accumulator::new(4, vec![], IntegerActivation::Clamp { low: -9, high: 7 }).unwrap_err();
    assert!(matches!(low, Error::OutOfRange { what: Quantity::Bound, index: 0, .. }), "{low}");
    let high =
        Accumulator::new(4, vec![], IntegerActivation::Clamp { low: 0, high: 8 }).unwrap_err();
    assert!(matches!(high, Error::OutOfRange { what: Quantity::Bound, index: 1, .. }), "{high}");
}

#[test]
fn memory_sizes_are_checked() {
    let zeros: Vec<u32> = memory::zeros(5, Quantity::Counts).unwrap();
    assert_eq!(zeros, [0; 5]);
    let room: Vec<u64> = memory::with_capacity(100, Quantity::Counts).unwrap();
    assert!(room.is_empty() && room.capacity() >= 100);
    // The available memory is more than a page and less than any machine has.
    let left = memory::available().unwrap();
    assert!((4096..1 << 50).contains(&left), "{left}");
    assert!(memory::check(u128::from(left) * 100, Quantity::Counts).is_err());
    assert_eq!(memory::check(u128::from(left) / 2, Quantity::Counts), Ok(()));
}

#[test]
fn dense_inputs_of_known_answers_are_tenths() {
    let inputs: Vec<f64> = (0..4).map(golden::dense_input).collect();
    assert_eq!(inputs, [0.3, 1.0, 0.6, 0.2]);
}
