//! Signed layers, convolutions and pools: known answers, properties, and invalid parameters.

use aleatron_core::arithmetic::{
    Accumulator, Border, IntegerActivation, Pool, PoolKind, PoolShape, Requantizer,
};
use aleatron_core::backend::{Batch, CountMethod};
use aleatron_core::conformance::{Case, LayerCase, Reference};
use aleatron_core::generator::{GeneratorName, Pairing, Sequence, Sharing, Sobol};
use aleatron_core::golden::{self, LAYERS_TEXT};
use aleatron_core::threshold::{NEGATIVE, magnitude};
use aleatron_core::{
    Connections, ConvShape, Convolution, Encoding, Error, LayerIndex, LayerSpec, Length, Polarity,
    Quantity, SampleSeed, Topology, Weights, Width, reference,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

#[test]
fn layers_have_known_counts() {
    let answers = golden::layers().unwrap();
    let has = |f: &dyn Fn(&LayerSpec) -> bool| {
        answers.iter().filter(|answer| f(&answer.case.spec)).count()
    };
    assert!(has(&|spec| spec.polarity() == Polarity::Signed) >= 10);
    assert!(has(&|spec| matches!(spec.encoding(), Encoding::BernoulliInputs { .. })) >= 6);
    assert!(has(&|spec| matches!(spec.encoding(), Encoding::BernoulliWeights { .. })) >= 6);
    for polarity in Polarity::ALL {
        let is_conv = |spec: &LayerSpec| matches!(spec.topology(), Topology::Conv(_));
        assert!(has(&|spec| is_conv(spec) && spec.polarity() == polarity) >= 2, "{polarity}");
    }
    for answer in answers {
        assert_eq!(
            Reference.answer(&Case::Layer(answer.case.clone())),
            answer.counts,
            "{:?}",
            answer.case.spec
        );
    }
}

/// Returns the lines of one kind: the fields of each question, and the answer.
fn lines(kind: &str) -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let lines = LAYERS_TEXT.lines().filter(move |line| line.split(' ').next() == Some(kind));
    lines
        .map(|line| line.split_once(" = ").unwrap())
        .map(|(question, answer)| (question.split(' ').collect(), answer))
}

#[test]
fn signed_accumulators_and_requantizers_have_known_values() {
    let mut seen = 0;
    for (fields, answer) in lines("accumulate") {
        let number = |k: usize| fields[k].parse::<i64>().unwrap();
        let length = Length::new(number(3) as usize).unwrap();
        let polarity: Polarity = fields[1].parse().unwrap();
        let encoding = Encoding::Bernoulli { seed: 0 };
        let spec = LayerSpec::dense(number(2) as usize, 1, length, polarity, encoding).unwrap();
        let accumulator =
            Accumulator::new(number(4) as u32, vec![number(5)], IntegerActivation::Identity)
                .unwrap();
        let (count, expected) = (number(6) as u64, answer.parse().unwrap());
        assert_eq!(reference::accumulate(&accumulator, &spec, 0, count), expected, "{fields:?}");
        assert_eq!(accumulator.values(&spec, &[count]).unwrap(), [expected], "{fields:?}");
        seen += 1;
    }
    for (fields, answer) in lines("requantize") {
        let number = |k: usize| fields[k].parse::<i64>().unwrap();
        let (comparator, polarity) =
            (Width::new(number(4) as u32).unwrap(), fields[5].parse().unwrap());
        let requantizer = Requantizer::new(
            number(1) as u64,
            number(2) as u32,
            number(3) as u32,
            comparator,
            polarity,
        )
        .unwrap();
        let sign = if answer.starts_with('-') { NEGATIVE } else { 0 };
        let expected = answer[1..].parse::<u64>().unwrap() | sign;
        let value = number(6);
        assert_eq!(reference::requantize(&requantizer, value), expected, "{fields:?}");
        assert_eq!(requantizer.threshold(value), expected, "{fields:?}");
        let many = requantizer.thresholds(&[value], Width::BERNOULLI).unwrap().thresholds;
        assert_eq!(many, [magnitude(expected) << (32 - comparator.bits()) | sign], "{fields:?}");
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn pools_have_known_values() {
    let mut seen = 0;
    for (fields, answer) in lines("pool") {
        let numbers =
            |k: usize| fields[k].split(',').map(|n| n.parse().unwrap()).collect::<Vec<usize>>();
        let kind = if fields[1] == "max" { PoolKind::Max } else { PoolKind::Average };
        let border = if fields[2] == "zeros" { Border::Zeros } else { Border::Excluded };
        let (image, window, stride, padding) = (numbers(3), numbers(4), numbers(5), numbers(6));
        let pool = Pool::new(kind, [window[0], window[1]])
            .with_stride([stride[0], stride[1]])
            .with_paddings([[padding[0], padding[1]], [padding[2], padding[3]]], border);
        let shape = PoolShape::new(pool, [image[0], image[1], image[2]]).unwrap();
        let values: Vec<i64> =
            (0..shape.n_inputs() as i64).map(|i| (37 * i + 11) % 101 - 50).collect();
        let expected: Vec<i64> = answer.split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(reference::pool_integers(&shape, &values), expected, "{fields:?}");
        // Pooling two images at once equals pooling each.
        assert_eq!(shape.integers(&values.repeat(2)).unwrap(), expected.repeat(2), "{fields:?}");
        let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        let pooled = shape.floats(&floats).unwrap();
        assert_eq!(pooled, reference::pool_floats(&shape, &floats), "{fields:?}");
        let rounded: Vec<i64> = pooled.iter().map(|value| (value + 0.5).floor() as i64).collect();
        assert_eq!(rounded, expected, "{fields:?}");
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}

/// Generates a convolution and a batch of random thresholds.
fn conv_case(
    convolution: Convolution,
    polarity: Polarity,
    bits: usize,
    words: &[u64],
) -> LayerCase {
    let encoding = Encoding::Bernoulli { seed: 7 };
    let spec =
        LayerSpec::conv(convolution, Length::new(bits).unwrap(), polarity, encoding).unwrap();
    let sign = if polarity == Polarity::Signed { NEGATIVE } else { 0 };
    let mut next = words.iter().cycle();
    let mut thresholds = |n: usize| -> Vec<u64> {
        (0..n)
            .map(|_| next.next().unwrap())
            .map(|word| word % ((1 << 32) + 1) | word & sign)
            .collect()
    };
    let (weights, inputs) = (thresholds(spec.n_weights()), thresholds(spec.n_inputs()));
    LayerCase { spec, weights, inputs, seed: SampleSeed::new(3), method: CountMethod::Best }
}

fn answer(case: &LayerCase) -> Vec<u64> {
    Reference.answer(&Case::Layer(case.clone()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A kernel as large as the image is a dense layer: units and rows are the same.
    #[test]
    fn conv_with_kernel_of_image_size_equals_dense(
        c in 1usize..3, h in 1usize..4, w in 1usize..4, o in 1usize..4, bits in 1usize..80,
        polarity in prop::sample::select(Polarity::ALL.to_vec()), words in vec(any::<u64>(), 100),
    ) {
        let conv = conv_case(Convolution::conv2d([c, h, w], o, [h, w]), polarity, bits, &words);
        let spec = LayerSpec::dense(c * h * w, o, conv.spec.length(), polarity, *conv.spec.encoding()).unwrap();
        let dense = LayerCase { spec, ..conv.clone() };
        prop_assert_eq!(answer(&conv), answer(&dense));
        prop_assert_eq!(conv.spec.decode_all(&answer(&conv)), dense.spec.decode_all(&answer(&dense)));
    }

    /// Negating every input, or every weight, negates every sum; without signs, the counts are the
    /// unipolar ones.
    #[test]
    fn signed_sums_follow_the_signs(
        geometry in 0usize..3, bits in 1usize..80, words in vec(any::<u64>(), 100),
    ) {
        let conv = Convolution::conv2d([2, 3, 4], 2, [2, 2]);
        let convolution = [conv, conv.with_padding([1, 1]), conv.with_stride([2, 1]).with_groups(2)][geometry];
        let case = conv_case(convolution, Polarity::Signed, bits, &words);
        let sums = |case: &LayerCase| -> Vec<i128> {
            let counts = answer(case).into_iter().enumerate();
            let fan_in = |neuron| case.spec.fan_in(neuron);
            counts.map(|(j, c)| Polarity::Signed.sum(c, fan_in(j), case.spec.length())).collect()
        };
        let flipped = |thresholds: &[u64]| thresholds.iter().map(|t| t ^ NEGATIVE).collect::<Vec<_>>();
        let plain = |thresholds: &[u64]| thresholds.iter().map(|&t| magnitude(t)).collect::<Vec<_>>();
        let negated: Vec<i128> = sums(&case).iter().map(|sum| -sum).collect();
        prop_assert_eq!(&sums(&LayerCase { inputs: flipped(&case.inputs), ..case.clone() }), &negated);
        prop_assert_eq!(&sums(&LayerCase { weights: flipped(&case.weights), ..case.clone() }), &negated);
        let unsigned = LayerCase { weights: plain(&case.weights), inputs: plain(&case.inputs), ..case.clone() };
        let length = case.spec.length();
        let unipolar = LayerSpec::conv(convolution, length, Polarity::Unipolar, *case.spec.encoding()).unwrap();
        let expected: Vec<i128> =
            answer(&LayerCase { spec: unipolar, ..unsigned.clone() }).into_iter().map(i128::from).collect();
        prop_assert_eq!(sums(&unsigned), expected);
    }

    /// Separate output channels, and half of them, have the same counts as in the whole.
    #[test]
    fn channel_slices_equal_the_whole(
        groups in prop::sample::select(vec![1usize, 2]), cut in 1usize..4, words in vec(any::<u64>(), 100),
        polarity in prop::sample::select(Polarity::ALL.to_vec()),
    ) {
        let convolution = Convolution::conv2d([4, 3, 3], 4, [2, 2]).with_groups(groups).with_padding([1, 0]);
        let case = conv_case(convolution, polarity, 40, &words);
        let (spec, positions, whole) = (&case.spec, case.spec.neurons_per_row(), answer(&case));
        let weights = case.weight_values().unwrap();
        for channels in [0..cut, cut..4] {
            let range = channels.start * positions..channels.end * positions;
            let part = spec.neurons(range.clone()).unwrap();
            prop_assert_eq!(part.first_neuron() as usize, channels.start);
            let weights = part.weight_thresholds(&weights.neurons(spec, range.clone())).unwrap();
            let counts = answer(&LayerCase { spec: part, weights, ..case.clone() });
            prop_assert_eq!(&counts, &whole[range]);
        }
    }

    /// Sums are exact if all streams are zeros or ones.
    #[test]
    fn sums_of_constant_streams_are_exact(signs in vec(0usize..3, 12), bits in 1usize..100) {
        let value = |k: usize| [-1.0, 0.0, 1.0][signs[k % 12]];
        let convolution = Convolution::conv2d([1, 3, 3], 2, [2, 2]).with_padding([1, 1]);
        let encoding = Encoding::Bernoulli { seed: 0 };
        let spec = LayerSpec::conv(convolution, Length::new(bits).unwrap(), Polarity::Signed, encoding).unwrap();
        let (w, x): (Vec<f64>, Vec<f64>) = ((0..8).map(value).collect(), (2..11).map(value).collect());
        let weights = spec.weight_thresholds(&Weights::new(&spec, w.clone()).unwrap()).unwrap();
        let inputs = spec.input_thresholds(&x).unwrap();
        let case = LayerCase { spec, weights, inputs, seed: SampleSeed::new(0), method: CountMethod::Best };
        let values = case.spec.decode_all(&answer(&case));
        for (neuron, value) in values.iter().enumerate() {
            let (o, r, c) = (neuron / 16, neuron / 4 % 4, neuron % 4);
            let mut exact = 0.0;
            for (tap, weight) in w[o * 4..][..4].iter().enumerate() {
                let (row, column) = (r + tap / 2, c + tap % 2);
                if (1..4).contains(&row) && (1..4).contains(&column) {
                    exact += weight * x[(row - 1) * 3 + column - 1];
                }
            }
            prop_assert_eq!(*value, exact, "{}", neuron);
            prop_assert_eq!(case.spec.decode(neuron, answer(&case)[neuron]), exact);
        }
    }
}

#[test]
fn zero_has_no_sign() {
    let width = Width::EIGHT;
    let thresholds =
        |values: &[f64]| width.thresholds(values, Polarity::Signed, Quantity::Value).unwrap();
    assert_eq!(thresholds(&[0.0, -0.0, -1e-300, -1.0, 1.0]), [0, 0, NEGATIVE, NEGATIVE | 256, 256]);
    for threshold in [0, 1, 255, 256, NEGATIVE | 1, NEGATIVE | 256] {
        assert_eq!(thresholds(&[width.value(threshold, Polarity::Signed)]), [threshold]);
    }
    // A stream of zeros counts neither up nor down, with either sign.
    let words = [5 << 29, 3 << 30 | NEGATIVE, 1 << 31];
    let mut case =
        conv_case(Convolution::conv2d([1, 2, 2], 1, [1, 1]), Polarity::Signed, 64, &words);
    case.inputs = vec![0; 4];
    let positive = answer(&case);
    case.inputs = vec![NEGATIVE; 4];
    assert_eq!(answer(&case), positive);
    assert_eq!(positive, [64; 4]);
}

#[test]
fn positions_in_padding_alone_sum_to_zero() {
    for polarity in Polarity::ALL {
        let convolution = Convolution::conv2d([1, 1, 1], 1, [1, 1]).with_padding([1, 2]);
        let case = conv_case(convolution, polarity, 50, &[1 << 32, 1 << 32]);
        let (counts, values) = (answer(&case), case.spec.decode_all(&answer(&case)));
        assert_eq!(counts.len(), 15);
        for (position, (&count, &value)) in counts.iter().zip(&values).enumerate() {
            let inside = position == 7;
            assert_eq!(case.spec.fan_in(position), usize::from(inside));
            assert_eq!(
                (count > 0, value),
                (inside, if inside { 1.0 } else { 0.0 }),
                "{polarity} {position}"
            );
        }
    }
}

#[test]
fn invalid_convolutions_are_errors() {
    let base = Convolution::conv2d([4, 5, 6], 6, [3, 3]);
    let error = |convolution: Convolution| ConvShape::new(convolution).unwrap_err();
    for (input, what) in [
        ([0, 5, 6], Quantity::Channels),
        ([4, 0, 6], Quantity::ImageSize),
        ([4, 5, 0], Quantity::ImageSize),
    ] {
        assert_eq!(error(Convolution { input, ..base }), Error::Zero(what));
    }
    assert_eq!(error(Convolution { out_channels: 0, ..base }), Error::Zero(Quantity::Channels));
    assert_eq!(error(Convolution { kernel: [0, 3], ..base }), Error::Zero(Quantity::KernelSize));
    assert_eq!(error(base.with_stride([1, 0])), Error::Zero(Quantity::Stride));
    assert_eq!(error(base.with_dilation([0, 1])), Error::Zero(Quantity::Dilation));
    assert_eq!(error(base.with_groups(0)), Error::Zero(Quantity::Groups));
    let ragged = |actual, divisor| Error::Ragged { what: Quantity::Channels, actual, divisor };
    assert_eq!(error(base.with_groups(3)), ragged(4, 3));
    assert_eq!(error(base.with_groups(4)), ragged(6, 4));
    let too_large = |what, actual, limit| Error::TooLarge { what, actual, limit };
    assert_eq!(
        error(Convolution { kernel: [6, 3], ..base }),
        too_large(Quantity::KernelSize, 6, 5)
    );
    assert_eq!(error(base.with_dilation([1, 3])), too_large(Quantity::KernelSize, 7, 6));
    assert!(ConvShape::new(base.with_dilation([1, 3]).with_padding([0, 1])).is_ok());
    // Sizes that overflow, or that exceed the range of counters.
    let huge = usize::MAX;
    for input in [[huge, 5, 6], [4, huge, huge], [1 << 20, 1 << 10, 1 << 10]] {
        assert!(
            matches!(error(Convolution { input, ..base }), Error::TooLarge { .. }),
            "{input:?}"
        );
    }
    assert!(matches!(
        error(Convolution { out_channels: huge - 1, ..base }),
        Error::TooLarge { .. }
    ));
    assert!(matches!(error(base.with_padding([huge, huge])), Error::TooLarge { .. }));
    assert!(matches!(error(base.with_padding([1 << 20, 1 << 20])), Error::TooLarge { .. }));
    let encoding = Encoding::Bernoulli { seed: 0 };
    let long = Length::new(1 << 34).unwrap();
    let memory = LayerSpec::conv(
        Convolution::conv2d([1 << 10, 1 << 10, 1 << 10], 1 << 20, [1, 1]),
        long,
        Polarity::Unipolar,
        encoding,
    );
    assert!(matches!(memory, Err(Error::TooLarge { .. } | Error::Memory { .. })), "{memory:?}");
    // Slices of channels.
    let spec = LayerSpec::conv(base, Length::new(8).unwrap(), Polarity::Signed, encoding).unwrap();
    let positions = spec.neurons_per_row();
    assert_eq!(positions, 12);
    let ragged = |actual| Error::Ragged { what: Quantity::Neurons, actual, divisor: positions };
    assert_eq!(spec.neurons(1..positions).unwrap_err(), ragged(1));
    assert_eq!(spec.neurons(0..positions + 5).unwrap_err(), ragged(positions + 5));
    assert_eq!(spec.neurons(12..12).unwrap_err(), Error::Zero(Quantity::Neurons));
}

#[test]
fn generators_need_a_sequence_for_every_pixel_and_tap() {
    let conv = |input, sharing| {
        let encoding =
            "sobol".parse::<GeneratorName>().unwrap().encoding(0, Width::EIGHT, sharing).unwrap();
        let convolution = Convolution::conv2d(input, 2, [3, 3]);
        LayerSpec::conv(convolution, Length::new(64).unwrap(), Polarity::Signed, encoding)
    };
    assert!(conv([1, 28, 28], Sharing::OneForAll).is_ok());
    assert!(matches!(conv([1, 28, 28], Sharing::OnePerInput), Err(Error::TooLarge { .. })));
    assert!(conv([1, 20, 20], Sharing::OnePerInput).is_ok());
    let tables = conv([1, 20, 20], Sharing::OnePerInput).unwrap();
    assert_eq!(CountMethod::Best.resolve(&tables), Ok(CountMethod::Bits));
    assert!(CountMethod::Tables.resolve(&tables).is_err());
    // Weights have the even dimensions up to 1110: 555 streams, which are 111 kernels of 5 taps.
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OnePerStream };
    let kernels = |n| {
        let (convolution, encoding) =
            (Convolution::conv1d([1, 5], n, 5), Encoding::Sequences(pairing));
        LayerSpec::conv(convolution, Length::new(64).unwrap(), Polarity::Signed, encoding)
    };
    assert!(kernels(111).is_ok());
    assert!(matches!(kernels(112), Err(Error::TooLarge { what: Quantity::SobolDimension, .. })));
    let tables = conv([1, 20, 20], Sharing::OneForAll).unwrap();
    assert_eq!(CountMethod::Best.resolve(&tables), Ok(CountMethod::Tables));
}

/// An operand of a mixed layer has the same streams as in a layer with both operands of its kind.
#[test]
fn mixed_operands_equal_operands_of_unmixed_layers() {
    let topologies = [
        Topology::Dense { n_inputs: 5, n_neurons: 3 },
        Topology::Sparse(Arc::new(
            Connections::from_rows([vec![0, 2], vec![], vec![1, 2, 4]], 5).unwrap(),
        )),
        Topology::Conv(ConvShape::new(Convolution::conv2d([1, 3, 4], 2, [2, 2])).unwrap()),
    ];
    let seed = SampleSeed::new(9).starting_at(4);
    for (topology, polarity, sharing) in topologies.iter().flat_map(|topology| {
        let of_sharing = move |p| Sharing::ALL.map(|sharing| (topology, p, sharing));
        Polarity::ALL.into_iter().flat_map(of_sharing)
    }) {
        let layer = |generator: &str| {
            let name: GeneratorName = generator.parse().unwrap();
            let encoding = name.encoding(7, Width::EIGHT, sharing).unwrap();
            let spec =
                LayerSpec::new(topology.clone(), Length::new(70).unwrap(), polarity, encoding)
                    .unwrap();
            spec.at(LayerIndex::new(3).unwrap()).starting_at(2)
        };
        let inputs = |generator: &str| {
            let spec = layer(generator);
            let values: Vec<f64> = (0..2 * spec.n_inputs()).map(|k| (k % 7) as f64 / 7.0).collect();
            reference::input_streams(&spec, &spec.input_thresholds(&values).unwrap(), seed)
        };
        let weights = |generator: &str| {
            let spec = layer(generator);
            let values = (0..spec.n_weights()).map(|k| (k % 5) as f64 / 5.0).collect();
            let weights = Weights::new(&spec, values).unwrap();
            reference::weight_streams(&spec, &spec.weight_thresholds(&weights).unwrap())
        };
        assert_eq!(inputs("bernoulli+lfsr:5"), inputs("bernoulli"));
        assert_eq!(weights("bernoulli+lfsr:5"), weights("sobol:3+lfsr:5"));
        assert_eq!(inputs("sobol:3+bernoulli"), inputs("sobol:3+lfsr:5"));
        assert_eq!(weights("sobol:3+bernoulli"), weights("bernoulli"));
    }
}

#[test]
fn signs_are_required_for_signed_layers_only() {
    let (length, encoding) = (Length::new(64).unwrap(), Encoding::Bernoulli { seed: 0 });
    let spec = |polarity| LayerSpec::dense(3, 2, length, polarity, encoding).unwrap();
    let (words, negative) = ([0; 6], [true; 6]);
    let mismatch =
        |expected, actual| Err(Error::Mismatch { what: Quantity::Signs, expected, actual });
    assert_eq!(Batch::streams(&words).check(&spec(Polarity::Signed)), mismatch(6, 0));
    assert_eq!(
        Batch::signed_streams(&words, &negative[..5]).check(&spec(Polarity::Signed)),
        mismatch(6, 5)
    );
    assert_eq!(
        Batch::signed_streams(&words, &negative).check(&spec(Polarity::Bipolar)),
        mismatch(0, 6)
    );
    assert_eq!(Batch::signed_streams(&words, &negative).check(&spec(Polarity::Signed)), Ok(2));
    let one =
        Batch::signed_streams(&words, &negative).samples(&spec(Polarity::Signed), 1, 2).unwrap();
    assert_eq!(one.check(&spec(Polarity::Signed)), Ok(1));
    // Only thresholds of signed inputs may have a sign.
    let thresholds = [NEGATIVE | 5; 3];
    let batch = Batch::thresholds(&thresholds, SampleSeed::new(0));
    assert_eq!(batch.check(&spec(Polarity::Signed)), Ok(1));
    assert!(matches!(
        batch.check(&spec(Polarity::Unipolar)),
        Err(Error::OutOfRange { index: 0, .. })
    ));
    let past = [NEGATIVE | (1 << 32) + 1; 3];
    let batch = Batch::thresholds(&past, SampleSeed::new(0));
    assert!(matches!(
        batch.check(&spec(Polarity::Signed)),
        Err(Error::OutOfRange { index: 0, .. })
    ));
}

#[test]
fn signed_counts_must_fit_64_bits() {
    let (length, encoding) = (Length::new(1 << 34).unwrap(), Encoding::Bernoulli { seed: 0 });
    let dense = |n, polarity| LayerSpec::dense(n, 1, length, polarity, encoding);
    assert!(dense(1 << 30, Polarity::Bipolar).is_ok());
    let most = dense(1 << 29, Polarity::Signed);
    assert!(matches!(most, Err(Error::TooLarge { what: Quantity::Counts, .. })), "{most:?}");
    assert!(dense((1 << 29) - 1, Polarity::Signed).is_ok());
}

#[test]
fn invalid_pools_are_errors() {
    let base = Pool::new(PoolKind::Max, [2, 2]);
    let error = |pool: Pool, image| PoolShape::new(pool, image).unwrap_err();
    assert_eq!(error(base, [0, 4, 4]), Error::Zero(Quantity::Channels));
    assert_eq!(error(base, [1, 0, 4]), Error::Zero(Quantity::ImageSize));
    assert_eq!(error(base.with_stride([0, 1]), [1, 4, 4]), Error::Zero(Quantity::Stride));
    assert_eq!(
        error(Pool::new(PoolKind::Max, [2, 0]), [1, 4, 4]),
        Error::Zero(Quantity::KernelSize)
    );
    let large = |what, actual, limit| Error::TooLarge { what, actual, limit };
    assert_eq!(
        error(Pool::new(PoolKind::Max, [5, 2]), [1, 4, 4]),
        large(Quantity::KernelSize, 5, 4)
    );
    // A window of padding alone has no maximum.
    let padded = base.with_paddings([[2, 0], [0, 0]], Border::Zeros);
    assert_eq!(error(padded, [1, 4, 4]), large(Quantity::Padding, 2, 1));
    let after = base.with_paddings([[0, 0], [0, 3]], Border::Excluded);
    assert_eq!(error(after, [1, 4, 5]), large(Quantity::Padding, 3, 1));
    assert_eq!(error(base, [1 << 20, 1 << 10, 1 << 10]), large(Quantity::Inputs, 1 << 40, 1 << 32));
    assert_eq!(error(base, [1 << 43; 3]), large(Quantity::Inputs, u128::MAX, 1 << 32));
    // Much padding makes many windows of a small image.
    let many = Pool::new(PoolKind::Max, [1 << 17; 2])
        .with_stride([1, 1])
        .with_paddings([[(1 << 17) - 1; 2]; 2], Border::Excluded);
    assert_eq!(error(many, [2, 1, 1]), large(Quantity::Neurons, 1 << 35, 1 << 32));
    let shape = PoolShape::new(base, [1, 2, 2]).unwrap();
    let ragged = Error::Ragged { what: Quantity::Inputs, actual: 5, divisor: 4 };
    assert_eq!(shape.floats(&[0.0; 5]).unwrap_err(), ragged);
    assert_eq!(shape.integers(&[]).unwrap(), Vec::<i64>::new());
}

/// The largest integers do not overflow before their mean is computed.
#[test]
fn means_of_large_integers_are_exact() {
    let shape = PoolShape::new(Pool::global(PoolKind::Average, [2, 2]), [1, 2, 2]).unwrap();
    let [low, high] = [-(1i64 << 62), (1 << 62) - 1];
    assert_eq!(shape.integers(&[high; 4]).unwrap(), [high]);
    assert_eq!(shape.integers(&[low; 4]).unwrap(), [low]);
    assert_eq!(shape.integers(&[-1, -2, -2, -1]).unwrap(), [-1]);
    assert_eq!(shape.integers(&[-1, -2, -2, -2]).unwrap(), [-2]);
}

/// The layer index also applies to convolutions.
#[test]
fn layers_with_different_indices_have_different_bits() {
    let words: Vec<u64> = (1..50u64).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let case = conv_case(Convolution::conv2d([1, 3, 3], 2, [2, 2]), Polarity::Unipolar, 64, &words);
    let other =
        LayerCase { spec: case.spec.clone().at(LayerIndex::new(1).unwrap()), ..case.clone() };
    assert_ne!(answer(&case), answer(&other));
}
