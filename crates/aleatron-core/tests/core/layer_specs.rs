//! Layer specifications: sizes, shards, seeds, thresholds and values, and slices of batches.

use aleatron_core::backend::{
    Batch, CountMethod, DeviceArray, DeviceElement, Inputs, PrepareOptions,
};
use aleatron_core::generator::{Lfsr, OperandSequences, Pairing, Sequence, Sharing, Sobol, Width};
use aleatron_core::{
    BackendFault, Cancel, Connections, Convolution, DenseShape, Domain, Encoding, Error,
    LayerIndex, LayerSpec, Length, Polarity, Quantity, SampleSeed, StreamAddress, Topology,
    Weights, philox, weights,
};

const BERNOULLI: Encoding = Encoding::Bernoulli { seed: 5 };

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

fn dense(n_inputs: usize, n_neurons: usize) -> LayerSpec {
    LayerSpec::dense(n_inputs, n_neurons, length(100), Polarity::Bipolar, BERNOULLI).unwrap()
}

/// Returns four inputs with neurons of two, no, four and one of them.
fn connections() -> Connections {
    let rows: [&[usize]; 4] = [&[0, 2], &[], &[0, 1, 2, 3], &[3]];
    Connections::from_rows(rows.map(|row| row.iter().copied()), 4).unwrap()
}

fn sparse(polarity: Polarity) -> LayerSpec {
    LayerSpec::sparse(connections(), length(100), polarity, BERNOULLI).unwrap()
}

fn sobol(dimension: u32, bits: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::new(bits).unwrap()).unwrap())
}

#[test]
fn topologies_have_expected_sizes() {
    let spec = dense(3, 5);
    assert_eq!((spec.n_inputs(), spec.n_neurons(), spec.n_weights()), (3, 5, 15));
    assert_eq!((spec.fan_in(4), spec.max_fan_in()), (3, 3));
    // 100 bits are two words.
    assert_eq!((spec.sample_words(), spec.weight_words()), (6, 30));
    assert_eq!(
        (spec.length().bits(), spec.polarity(), *spec.encoding()),
        (100, Polarity::Bipolar, BERNOULLI)
    );
    let shape = DenseShape::new(3, 5, length(100), Polarity::Bipolar).unwrap();
    assert_eq!(spec.dense_shape(), Some(shape));
    assert_eq!((shape.n_inputs(), shape.n_neurons(), shape.n_weights()), (3, 5, 15));
    assert_eq!((shape.row_words(), shape.weight_words(), shape.weight_bytes()), (6, 30, 240));
    assert_eq!((shape.length(), shape.polarity()), (length(100), Polarity::Bipolar));
    assert_eq!(shape.decode(225), 1.5);

    let spec = sparse(Polarity::Unipolar);
    assert_eq!((spec.n_inputs(), spec.n_neurons(), spec.n_weights()), (4, 4, 7));
    assert_eq!([0, 1, 2, 3].map(|neuron| spec.fan_in(neuron)), [2, 0, 4, 1]);
    assert_eq!((spec.max_fan_in(), spec.sample_words(), spec.weight_words()), (4, 8, 14));
    assert_eq!(
        (spec.dense_shape(), spec.first_neuron(), spec.index()),
        (None, 0, LayerIndex::ALONE)
    );
    let connections = connections();
    assert_eq!(
        (connections.offsets(), connections.inputs()),
        (&[0, 2, 2, 6, 7][..], &[0, 2, 0, 1, 2, 3, 3][..])
    );
    assert!(!connections.is_empty());
    assert!(Connections::from_mask(&[false; 4], 2).unwrap().is_empty());
}

#[test]
fn decoded_counts_have_known_values() {
    let spec = dense(3, 2);
    assert_eq!(spec.decode_all(&[150, 300, 0, 225]), [0.0, 3.0, -3.0, 1.5]);
    assert_eq!([spec.decode(0, 150), spec.decode(1, 225)], [0.0, 1.5]);
    // Neurons of 2, 0, 4 and 1 products, two samples.
    let spec = sparse(Polarity::Bipolar);
    assert_eq!(
        spec.decode_all(&[100, 0, 200, 100, 200, 0, 0, 25]),
        [0.0, 0.0, 0.0, 1.0, 2.0, 0.0, -4.0, -0.5]
    );
    assert_eq!(sparse(Polarity::Unipolar).decode_all(&[25, 0, 50, 100]), [0.25, 0.0, 0.5, 1.0]);
}

/// Decoding many counts equals decoding each, even if f64 cannot hold every intermediate integer.
#[test]
fn decode_all_equals_decode_of_each_count() {
    for polarity in Polarity::ALL {
        for (n, bits) in [
            (3, 64),
            (3, 100),
            (7, 1000),
            (1 << 20, 1 << 31),
            (1 << 18, 1 << 34),
            (1 << 19, 1 << 34),
        ] {
            let length = length(bits);
            let most = (n as u64).saturating_mul(bits as u64);
            let counts = [0, 1, most / 3, most / 2 + 1, most - 1, most];
            let alone = counts.map(|count| polarity.decode(count, n, length));
            assert_eq!(polarity.decode_all(&counts, n, length), alone, "{polarity} {n} {bits}");
        }
    }
    // Counts beyond any layer's are valid: the conversion must not lose their high bits.
    for counts in [[1 << 51, (1 << 52) + 1, u64::MAX], [(1 << 52) + 1, (1 << 52) + 1, 0]] {
        let alone = counts.map(|count| Polarity::Unipolar.decode(count, 1, length(3)));
        assert_eq!(Polarity::Unipolar.decode_all(&counts, 1, length(3)), alone);
    }
}

#[test]
fn neurons_returns_a_layer_of_the_same_bits() {
    let part = dense(3, 5).at(LayerIndex::new(7).unwrap()).neurons(1..4).unwrap();
    assert_eq!((part.n_neurons(), part.first_neuron(), part.index().get()), (3, 1, 7));
    assert_eq!(part.neurons(1..3).unwrap().first_neuron(), 2);
    let part = sparse(Polarity::Unipolar).neurons(2..4).unwrap();
    assert_eq!(
        (part.n_weights(), part.fan_in(0), part.fan_in(1), part.first_neuron()),
        (5, 4, 1, 2)
    );
    assert_eq!(dense(3, 5).neurons(2..2), Err(Error::Zero(Quantity::Neurons)));
    let past = Error::TooLarge { what: Quantity::Neurons, actual: 6, limit: 5 };
    assert_eq!(dense(3, 5).neurons(5..6), Err(past));
    assert!(dense(3, 5).neurons(4..5).is_ok());
    assert_eq!(dense(3, 5).starting_at(9).first_neuron(), 9);

    // Channels of three positions and two taps.
    let spec = LayerSpec::conv(
        Convolution::conv1d([1, 4], 4, 2),
        length(64),
        Polarity::Unipolar,
        BERNOULLI,
    )
    .unwrap();
    let part = spec.neurons(3..12).unwrap();
    let first_channel = |spec: &LayerSpec| match spec.topology() {
        Topology::Conv(shape) => shape.first_channel(),
        other => panic!("{other:?}"),
    };
    assert_eq!((part.n_neurons(), part.first_neuron(), first_channel(&part)), (9, 1, 1));
    let part_of_it = part.neurons(3..6).unwrap();
    assert_eq!(
        (part_of_it.n_neurons(), part_of_it.first_neuron(), first_channel(&part_of_it)),
        (3, 2, 2)
    );
    let whole = Weights::random(&spec, 9).unwrap();
    assert_eq!(whole.neurons(&spec, 3..12).values(), &whole.values()[2..8]);

    // The weights of the slice are those of the whole layer.
    for spec in [dense(3, 5), sparse(Polarity::Bipolar)] {
        let whole = Weights::random(&spec, 9).unwrap();
        let part = spec.neurons(1..4).unwrap();
        let of_part = whole.neurons(&spec, 1..4);
        assert_eq!(of_part, Weights::random(&part, 9).unwrap());
        assert_eq!(of_part.values().len(), part.n_weights());
        assert!(whole.neurons(&spec, 9..12).values().is_empty());
    }
    let whole = Weights::new(&dense(2, 3), vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5]).unwrap();
    assert_eq!(whole.neurons(&dense(2, 3), 1..2).values(), [0.2, 0.3]);
}

#[test]
fn random_weights_are_drawn_at_their_address() {
    let index = LayerIndex::new(3).unwrap();
    // Word 5 % 4 of Philox at (5 / 4, 0, neuron, domain and layer).
    let words = philox::philox4x32([1, 0, 2, Domain::WeightInit as u32 + 3 * 16], philox::key(9));
    let weight = f64::from(words[1]) / 2f64.powi(32);
    assert_eq!(weights::random(9, index, 2, 5, Polarity::Unipolar), weight);
    let spec = sparse(Polarity::Bipolar).at(index);
    let expected: Vec<f64> = [(0, 0), (0, 2), (2, 0), (2, 1), (2, 2), (2, 3), (3, 3)]
        .map(|(neuron, input)| weights::random(9, index, neuron, input, Polarity::Bipolar))
        .to_vec();
    assert_eq!(Weights::random(&spec, 9).unwrap().values(), expected);
    let spec = dense(6, 2).at(index);
    let expected: Vec<f64> = (0..2)
        .flat_map(|neuron| {
            (0..6).map(move |input| weights::random(9, index, neuron, input, Polarity::Bipolar))
        })
        .collect();
    assert_eq!(Weights::random(&spec, 9).unwrap().values(), expected);
    assert!(
        expected.iter().any(|&weight| weight < 0.0) && expected.iter().any(|&weight| weight > 0.0)
    );
    let few = Weights::new(&spec, vec![0.0; 11]);
    assert_eq!(few, Err(Error::Mismatch { what: Quantity::Weights, expected: 12, actual: 11 }));
    assert!(matches!(Weights::new(&spec, vec![1.5; 12]), Err(Error::OutOfRange { index: 0, .. })));
}

#[test]
fn with_length_keeps_everything_else() {
    let spec = dense(3, 5).at(LayerIndex::new(2).unwrap()).neurons(1..5).unwrap();
    let longer = spec.with_length(length(200)).unwrap();
    assert_eq!((longer.length().bits(), longer.index().get(), longer.first_neuron()), (200, 2, 1));
    assert_eq!(longer.with_length(length(100)).unwrap(), spec);
}

#[test]
fn invalid_layers_are_errors() {
    let new = |n, m, encoding| LayerSpec::dense(n, m, length(8), Polarity::Unipolar, encoding);
    assert_eq!(new(0, 1, BERNOULLI), Err(Error::Zero(Quantity::Inputs)));
    assert_eq!(new(1, 0, BERNOULLI), Err(Error::Zero(Quantity::Neurons)));
    // Dimensions go up by two, to 1111: 556 sequences from the first.
    let shared = |sharing| {
        Encoding::Sequences(Pairing { inputs: sobol(1, 8), weights: sobol(1, 8), sharing })
    };
    assert!(new(556, 1, shared(Sharing::OnePerInput)).is_ok());
    assert!(new(557, 1, shared(Sharing::OnePerInput)).is_err());
    assert!(new(557, 1, shared(Sharing::OneForAll)).is_ok());
    assert!(new(4, 139, shared(Sharing::OnePerStream)).is_ok());
    assert!(new(4, 140, shared(Sharing::OnePerStream)).is_err());
    // Connections need only the sequences of connected inputs: 138 * 4 + 3 is the last one.
    let connected = |neuron: usize, input: usize, sharing| {
        let row = move |j: usize| (j == neuron).then_some(input);
        let connections = Connections::from_rows((0..200).map(row), 4).unwrap();
        LayerSpec::sparse(connections, length(8), Polarity::Unipolar, shared(sharing))
    };
    assert!(connected(138, 3, Sharing::OnePerStream).is_ok());
    assert!(connected(139, 0, Sharing::OnePerStream).is_err());
    assert!(connected(199, 3, Sharing::OneForAll).is_ok());
    let wide = |input: usize| {
        let few = Pairing {
            inputs: Sequence::Lfsr(Lfsr::new(Width::EIGHT, 1).unwrap()),
            weights: sobol(1, 8),
            sharing: Sharing::OnePerInput,
        };
        let connections = Connections::from_rows([[input], [0]], 600).unwrap();
        LayerSpec::sparse(connections, length(8), Polarity::Unipolar, Encoding::Sequences(few))
    };
    assert!(wide(555).is_ok() && wide(556).is_err());
    // In a mixed pair, only the operand with sequences needs them.
    let Encoding::Sequences(pairing) = shared(Sharing::OnePerStream) else { unreachable!() };
    let random_inputs = Encoding::BernoulliInputs { weights: pairing.of_weights() };
    let random_weights = Encoding::BernoulliWeights { seed: 5, inputs: pairing.of_inputs() };
    assert!(new(4, 139, random_inputs).is_ok() && new(4, 140, random_inputs).is_err());
    assert!(new(556, 140, random_weights).is_ok() && new(557, 140, random_weights).is_err());
    // More bytes than addresses.
    let huge = Connections::from_rows([[0]], 1 << 32).unwrap();
    let huge = LayerSpec::sparse(huge, length(1 << 34), Polarity::Unipolar, BERNOULLI);
    assert_eq!(
        huge,
        Err(Error::Memory { what: Quantity::Weights, bytes: 1 << 63, available: None })
    );
}

#[test]
fn thresholds_are_as_wide_as_their_generator() {
    let pairing =
        Pairing { inputs: sobol(1, 8), weights: sobol(2, 4), sharing: Sharing::OneForAll };
    let spec =
        LayerSpec::dense(2, 1, length(8), Polarity::Bipolar, Encoding::Sequences(pairing)).unwrap();
    assert_eq!(spec.encoding().input_width().bits(), 8);
    assert_eq!(spec.input_thresholds(&[-1.0, 0.5]).unwrap(), [0, 192]);
    let weights = Weights::new(&spec, vec![1.0, -0.5]).unwrap();
    assert_eq!(spec.weight_thresholds(&weights).unwrap(), [16, 4]);
    let mixed = |encoding| LayerSpec::dense(2, 1, length(8), Polarity::Bipolar, encoding).unwrap();
    let drawn = mixed(Encoding::BernoulliInputs { weights: pairing.of_weights() });
    assert_eq!(drawn.input_thresholds(&[-1.0, 0.5]).unwrap(), [0, 3 << 30]);
    assert_eq!(drawn.weight_thresholds(&weights).unwrap(), [16, 4]);
    let mixed_spec = mixed(Encoding::BernoulliWeights { seed: 5, inputs: pairing.of_inputs() });
    assert_eq!(mixed_spec.input_thresholds(&[-1.0, 0.5]).unwrap(), [0, 192]);
    assert_eq!(mixed_spec.weight_thresholds(&weights).unwrap(), [1 << 32, 1 << 30]);
    let spec = dense(2, 1);
    assert_eq!(spec.encoding().input_width(), Width::BERNOULLI);
    assert_eq!(spec.input_thresholds(&[-1.0, 0.5]).unwrap(), [0, 3 << 30]);
    assert_eq!(spec.weight_thresholds(&weights).unwrap(), [1 << 32, 1 << 30]);
    assert_eq!(
        Width::EIGHT.check_thresholds(&[0, 256], Polarity::Unipolar, Quantity::Value),
        Ok(())
    );
    let past =
        Error::OutOfRange { what: Quantity::Value, index: 1, value: 257.0, low: 0.0, high: 256.0 };
    assert_eq!(
        Width::EIGHT.check_thresholds(&[256, 257], Polarity::Unipolar, Quantity::Value),
        Err(past)
    );
}

#[test]
fn addresses_match_seed_domain_and_row() {
    let layer = LayerIndex::new(9).unwrap();
    let input = StreamAddress::input(1, 2, 3);
    assert_eq!(
        input,
        StreamAddress { seed: 1, domain: Domain::Input, layer: LayerIndex::ALONE, row: 3, unit: 2 }
    );
    let weight = StreamAddress::weight(1, 2, 3);
    assert_eq!(weight, StreamAddress { domain: Domain::Weight, ..input });
    assert_eq!(input.at_row(8), StreamAddress { row: 8, ..input });
    assert_eq!(input.at_unit(8), StreamAddress { unit: 8, ..input });
    assert_eq!(input.in_layer(layer), StreamAddress { layer, ..input });
    assert_eq!(weight.in_layer(layer).tag(), 1 | 9 << 4);
    assert_eq!(weight.in_layer(layer).counter(5, 6), [5 << 3 | 6, 2, 3, 1 | 9 << 4]);
    assert_eq!(StreamAddress::input(0x0102_0304_0506_0708, 0, 0).key(), [0x0506_0708, 0x0102_0304]);
    let spec = dense(3, 5).at(layer).neurons(2..4).unwrap();
    assert_eq!(spec.weight_address(1), StreamAddress::weight(1, 0, 2).in_layer(layer));
    let seed = SampleSeed::new(4).starting_at(6);
    assert_eq!(spec.input_address(seed), StreamAddress::input(4, 0, 6).in_layer(layer));
}

#[test]
fn seeds_advance_up_to_the_last_sample() {
    let seed = SampleSeed::from(3).starting_at(10);
    assert_eq!(seed.advanced(5), Ok(SampleSeed { seed: 3, first_sample: 15 }));
    assert_eq!(SampleSeed::default(), SampleSeed { seed: SampleSeed::DEFAULT, first_sample: 0 });
    let last = u32::MAX as usize - 10;
    assert_eq!(seed.advanced(last).unwrap().first_sample, u32::MAX);
    let past = Error::TooLarge { what: Quantity::Row, actual: 1 << 32, limit: u32::MAX.into() };
    assert_eq!(seed.advanced(last + 1), Err(past));
}

#[test]
fn batches_are_counted_checked_and_sliced() {
    let (spec, seed) = (dense(3, 5), SampleSeed::new(3).starting_at(10));
    let (values, thresholds, words) = ([0.25; 12], [7u64; 12], [1u64; 24]);
    let batches = [
        Batch::values(&values, seed),
        Batch::thresholds(&thresholds, seed),
        Batch::streams(&words),
    ];
    for batch in &batches {
        assert_eq!((batch.n_samples(&spec), batch.check(&spec)), (Ok(4), Ok(4)));
        let part = batch.samples(&spec, 1, 3).unwrap();
        assert_eq!(part.n_samples(&spec), Ok(2));
        assert_eq!(part.seed, batch.seed.advanced(1).unwrap());
        assert_eq!(batch.samples(&spec, 4, 4).unwrap().n_samples(&spec), Ok(0));
        let past = Error::TooLarge { what: Quantity::Samples, actual: 5, limit: 4 };
        assert_eq!(batch.samples(&spec, 3, 5).unwrap_err(), past);
    }
    let many: Vec<u64> = (0..12).collect();
    let part = Batch::thresholds(&many, seed).samples(&spec, 1, 3).unwrap();
    assert!(matches!(part.inputs, Inputs::Thresholds([3, 4, 5, 6, 7, 8])));
    let ragged = |what, actual, divisor| Err(Error::Ragged { what, actual, divisor });
    assert_eq!(Batch::values(&values[..4], seed).check(&spec), ragged(Quantity::Inputs, 4, 3));
    assert_eq!(Batch::streams(&words[..7]).check(&spec), ragged(Quantity::Words, 7, 6));
    assert_eq!((spec.samples_in(9), spec.samples_in(8)), (Ok(3), ragged(Quantity::Inputs, 8, 3)));
    let past = [(1 << 32) + 1; 3];
    assert!(matches!(
        Batch::thresholds(&past, seed).check(&spec),
        Err(Error::OutOfRange { index: 0, .. })
    ));
    // A hundred bits: 36 of the second word.
    let dirty = [0, 1 << 36, 0, 0, 0, 0];
    assert_eq!(
        Batch::streams(&dirty).check(&spec),
        Err(Error::DirtyTail { stream: 0, length: 100 })
    );
    // The last sample that a counter can address, and one more.
    let late = SampleSeed::new(3).starting_at(u32::MAX - 3);
    assert_eq!(Batch::values(&values, late).check(&spec), Ok(4));
    let later = SampleSeed::new(3).starting_at(u32::MAX - 2);
    assert!(matches!(
        Batch::values(&values, later).check(&spec),
        Err(Error::TooLarge { what: Quantity::Row, .. })
    ));
    // Sequences do not depend on the index of a sample.
    let pairing =
        Pairing { inputs: sobol(1, 8), weights: sobol(2, 8), sharing: Sharing::OneForAll };
    let shared =
        LayerSpec::dense(3, 5, length(100), Polarity::Bipolar, Encoding::Sequences(pairing))
            .unwrap();
    assert_eq!(Batch::values(&values, later).check(&shared), Ok(4));
    let mixed =
        |encoding| LayerSpec::dense(3, 5, length(100), Polarity::Bipolar, encoding).unwrap();
    let random_weights = mixed(Encoding::BernoulliWeights { seed: 5, inputs: pairing.of_inputs() });
    assert_eq!(Batch::values(&values, later).check(&random_weights), Ok(4));
    let random_inputs = mixed(Encoding::BernoulliInputs { weights: pairing.of_weights() });
    assert!(Batch::values(&values, later).check(&random_inputs).is_err());
    assert_eq!(Batch::values(&[], later).check(&spec), Ok(0));
}

#[test]
fn device_arrays_have_the_bytes_of_their_elements() {
    for (element, name, bytes) in [
        (DeviceElement::U64, "uint64", 8),
        (DeviceElement::F64, "float64", 8),
        (DeviceElement::F32, "float32", 4),
    ] {
        assert_eq!((element.bytes(), element.to_string()), (bytes, name.to_owned()));
        // SAFETY: the address is never dereferenced.
        let array = |len| unsafe { DeviceArray::from_raw(1, len, element) };
        assert_eq!((array(3).bytes(), array(usize::MAX).bytes()), (3 * bytes as u64, u64::MAX));
        assert_eq!((array(3).address(), array(3).len(), array(3).element()), (1, 3, element));
        assert!(array(0).is_empty() && !array(1).is_empty());
    }
}

#[test]
fn tables_are_rejected_for_unsupported_layers() {
    let shared = |bits: [u32; 2], sharing| {
        let pairing = Pairing { inputs: sobol(1, bits[0]), weights: sobol(2, bits[1]), sharing };
        LayerSpec::dense(3, 2, length(8), Polarity::Unipolar, Encoding::Sequences(pairing)).unwrap()
    };
    let with_table = [shared([8, 12], Sharing::OneForAll), shared([12, 8], Sharing::OnePerInput)];
    for spec in &with_table {
        assert_eq!(CountMethod::Best.resolve(spec), Ok(CountMethod::Tables));
        assert_eq!(CountMethod::Tables.resolve(spec), Ok(CountMethod::Tables));
        assert_eq!(CountMethod::Bits.resolve(spec), Ok(CountMethod::Bits));
    }
    let narrow = OperandSequences { first: sobol(1, 8), sharing: Sharing::OneForAll };
    let mixed = |encoding| LayerSpec::dense(3, 2, length(8), Polarity::Unipolar, encoding).unwrap();
    let without = [
        (shared([13, 8], Sharing::OneForAll), 13),
        (shared([8, 13], Sharing::OneForAll), 8),
        (shared([8, 8], Sharing::OnePerStream), 8),
        (dense(3, 2), 32),
        (sparse(Polarity::Unipolar), 32),
        (mixed(Encoding::BernoulliInputs { weights: narrow }), 32),
        (mixed(Encoding::BernoulliWeights { seed: 1, inputs: narrow }), 32),
    ];
    for (spec, actual) in without {
        assert_eq!(CountMethod::Best.resolve(&spec), Ok(CountMethod::Bits));
        let refused = Error::TooLarge { what: Quantity::CountTable, actual, limit: 12 };
        assert_eq!(CountMethod::Tables.resolve(&spec), Err(refused));
    }
    let options = PrepareOptions::default();
    assert_eq!(
        (options.method, options.max_batch, options.cancel.is_never()),
        (CountMethod::Best, 256, true)
    );
}

#[test]
fn cancelled_token_stops_work() {
    let (yes, no) = (|| true, || false);
    assert_eq!(Cancel::when(&yes).check(), Err(Error::Cancelled));
    assert_eq!((Cancel::when(&no).check(), Cancel::NEVER.check()), (Ok(()), Ok(())));
    assert!(Cancel::NEVER.is_never() && !Cancel::when(&no).is_never());
    assert_eq!(
        format!("{:?} {:?}", Cancel::NEVER, Cancel::when(&no)),
        "Cancel::NEVER Cancel::when(..)"
    );
}

#[test]
fn errors_of_slices_are_shifted_to_the_whole() {
    let error =
        Error::OutOfRange { what: Quantity::Value, index: 2, value: 3.0, low: 0.0, high: 1.0 };
    let shifted =
        Error::OutOfRange { what: Quantity::Value, index: 12, value: 3.0, low: 0.0, high: 1.0 };
    assert_eq!(error.shifted(10), shifted);
    assert_eq!(Error::Cancelled.shifted(10), Error::Cancelled);
    let error = Error::unsupported("gpu:0", "tables");
    assert_eq!(error.to_string(), "gpu:0: tables are not supported");
    assert_eq!(error.backend_fault(), Some(BackendFault::Unsupported));
    assert_eq!(Error::Cancelled.backend_fault(), None);
    let error = Error::unknown_name(Quantity::Polarity, "x", ["one"]).to_string();
    assert_eq!(error, "\"x\" is not a polarity: use one");
    assert_eq!(
        Error::unknown_name(Quantity::Sharing, "x", []).to_string(),
        "\"x\" is not a sharing: use "
    );
    let memory = Error::Memory { what: Quantity::Weights, bytes: 10, available: None };
    assert_eq!(memory.to_string(), "weights would take 10 bytes");
}
