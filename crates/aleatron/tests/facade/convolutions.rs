//! Networks of convolutions and signed layers: equal to the plain reference, in files and out of them, and faults are named.

use aleatron::arithmetic::{Border, Pool, PoolKind};
use aleatron::backend::CountMethod;
use aleatron::conformance::{Case, NetworkCase, NetworkLayer, Reference};
use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::generator::{Sharing, Width};
use aleatron::network::{
    Activation, Arithmetic, Detail, FeatureMap, Layer, Network, StreamConfig, StreamNetwork,
};
use aleatron::{Cancel, ConvShape, Convolution, EngineError, Polarity, SampleSeed, StreamLayer, Weights};

/// Numbers in [-1, 1] that do not repeat soon.
fn numbers(n: usize, step: usize) -> Vec<f64> {
    (0..n).map(|k| ((k * step + 5) % 101) as f64 / 50.0 - 1.0).collect()
}

fn conv(name: &str, convolution: Convolution, step: usize) -> Layer {
    let shape = ConvShape::new(convolution).unwrap();
    let bias = numbers(shape.n_channels(), 17);
    Layer::convolution(name, shape, numbers(shape.n_weights(), step)).with_bias(bias)
}

/// Every kind of node: strides, padding, groups, both pools, a convolution along one axis at the end of a chain is another network.
fn network(polarity: Polarity) -> Network {
    let first = Convolution::conv2d([2, 6, 7], 4, [3, 2]).with_padding([1, 0]).with_groups(2);
    let second =
        Convolution::conv2d([4, 3, 3], 3, [2, 2]).with_stride([1, 2]).with_paddings([[0, 1], [1, 0]]);
    let layers = vec![
        conv("first", first, 37)
            .with_activation(Activation::Relu)
            .with_pool(Pool::new(PoolKind::Max, [2, 2]))
            .unwrap(),
        conv("second", second, 41)
            .with_input_scale(4.0)
            .with_activation(Activation::Clamp { low: -3.0, high: 5.0 })
            .with_pool(Pool::new(PoolKind::Average, [2, 1]).with_paddings([[1, 0], [0, 0]], Border::Zeros))
            .unwrap(),
        Layer::new("last", 12, numbers(36, 29)).with_input_scale(3.0).with_bias(vec![0.25, -0.5, 0.0]),
    ];
    let layers = layers.into_iter().map(|layer| layer.with_polarity(polarity)).collect();
    Network::new("convolutions", FeatureMap { offset: 0.5, scale: 2.0 }, layers).unwrap()
}

fn sequence() -> Network {
    let first =
        Convolution::conv1d([2, 20], 3, 4).with_stride([1, 2]).with_dilation([1, 2]).with_padding([0, 1]);
    let layers = vec![
        conv("first", first, 37)
            .with_polarity(Polarity::Signed)
            .with_pool(Pool::new(PoolKind::Average, [1, 3]))
            .unwrap(),
        conv("second", Convolution::conv1d([3, 2], 2, 2), 11).with_polarity(Polarity::Signed),
    ];
    Network::new("sequence", FeatureMap::IDENTITY, layers).unwrap()
}

/// The counts of every layer and the outputs, as the plain reference finds them.
fn reference(network: &Network, streams: &StreamNetwork, inputs: &[f64], arithmetic: Arithmetic) -> Vec<u64> {
    let requantizer = streams.integer_layers().find_map(|layer| layer.requantizer).unwrap();
    let layers = network.layers().iter().zip(streams.layers()).zip(streams.integer_layers());
    let layers = layers.map(|((layer, stream), integer)| NetworkLayer {
        spec: stream.spec().clone(),
        weights: Weights::new(stream.spec(), layer.encoded_weights()).unwrap(),
        input_scale: layer.input_scale(),
        stage: layer.stage(),
        accumulator: integer.accumulator.clone(),
        pool: layer.pools().first().copied(),
        requantizer: integer.requantizer.unwrap_or(requantizer),
    });
    let FeatureMap { offset, scale } = network.input();
    let inputs = inputs.iter().map(|x| (x - offset) / scale / network.layers()[0].input_scale()).collect();
    let seed = SampleSeed::new(3).starting_at(7);
    Reference.answer(&Case::Network(NetworkCase { layers: layers.collect(), inputs, seed, arithmetic }))
}

#[test]
fn networks_are_what_the_reference_says() {
    for (polarity, generator, sharing) in [
        (Polarity::Signed, "bernoulli", Sharing::OneForAll),
        (Polarity::Signed, "sobol", Sharing::OneForAll),
        (Polarity::Signed, "lfsr", Sharing::OnePerInput),
        (Polarity::Bipolar, "sobol:1+halton:3", Sharing::OneForAll),
        (Polarity::Bipolar, "bernoulli", Sharing::OneForAll),
        (Polarity::Signed, "bernoulli+sobol:2", Sharing::OnePerInput),
        (Polarity::Signed, "lfsr:5+bernoulli", Sharing::OneForAll),
        (Polarity::Bipolar, "bernoulli+lfsr:5", Sharing::OnePerStream),
    ] {
        let network = network(polarity);
        let features: Vec<f64> = numbers(3 * 84, 13).iter().map(|x| 2.0 * x + 0.5).collect();
        let config = StreamConfig::new(40).generator(generator.parse().unwrap()).sharing(sharing).seed(3);
        // Floating point first: inputs in integers have coarser thresholds than the reference's case begins with.
        let streams = network.to_streams(&config).unwrap();
        let detail = Detail { layers: true, ..Detail::default() };
        let output = streams.run(&features, 7, detail, Cancel::NEVER).unwrap();
        let counts = output.layers.iter().flat_map(|layer| layer.counts.iter().copied());
        let answer: Vec<u64> = counts.chain(output.scores.iter().map(|score| score.to_bits())).collect();
        assert_eq!(
            answer,
            reference(&network, &streams, &features, Arithmetic::Float),
            "{polarity} {generator}"
        );

        // In integers, with inputs that comparators of any width hold exactly.
        let features: Vec<f64> =
            features.iter().map(|x| (x * 8.0).round() / 8.0).map(|x| x.clamp(-1.5, 2.5)).collect();
        let streams = network.to_streams(&config.arithmetic(Arithmetic::Integer)).unwrap();
        let output = streams.run(&features, 7, detail, Cancel::NEVER).unwrap();
        let counts = output.layers.iter().flat_map(|layer| layer.counts.iter().copied());
        let last = network.layers().last().unwrap();
        let unit = last.input_scale() * last.weight_scale() / 40.0 / 256.0;
        let plain = reference(&network, &streams, &features, Arithmetic::Integer);
        let (plain_counts, held) = plain.split_at(plain.len() - 9);
        assert_eq!(counts.collect::<Vec<_>>(), plain_counts, "{polarity} {generator} in integers");
        let scores: Vec<f64> = held.iter().map(|&value| value as i64 as f64 * unit).collect();
        assert_eq!(output.scores, scores, "{polarity} {generator} in integers");
    }
}

/// Signed streams that are long enough come near floating point, through every kind of node.
#[test]
fn streams_come_near_floating_point() {
    for network in [network(Polarity::Signed), sequence()] {
        let n = network.n_features();
        let features = numbers(2 * n, 13);
        let network = network.calibrated(&features).unwrap();
        let exact = network.forward(&features).unwrap();
        let config =
            StreamConfig::new(1 << 14).generator("sobol".parse().unwrap()).width(Width::new(14).unwrap());
        let detail = Detail { statistics: true, ..Detail::default() };
        let output = network.to_streams(&config).unwrap().run(&features, 0, detail, Cancel::NEVER).unwrap();
        // A whole period of Sobol 1 and 2 multiplies to within 2^-14 log2(2^14), per product; scales and layers multiply that.
        for (a, b) in output.scores.iter().zip(&exact) {
            assert!((a - b).abs() < 0.05 * (1.0 + b.abs()), "{a} {b} of {}", network.name());
        }
        for (stats, layer) in output.statistics.iter().zip(network.layers()) {
            let fan_in = layer.topology().max_fan_in() as f64;
            assert!(stats.worst_value > 0.0 && stats.worst_value < fan_in * 14.0 / 16384.0, "{stats:?}");
        }
    }
}

#[test]
fn files_survive() {
    for network in [network(Polarity::Signed), network(Polarity::Bipolar), sequence()] {
        let (description, tensors) = network.to_parts().unwrap();
        let read = Network::from_parts(&description, &tensors).unwrap();
        assert_eq!(read, network);
        assert_eq!(read.to_parts().unwrap(), (description, tensors));
    }
    let (description, _) = network(Polarity::Signed).to_parts().unwrap();
    for part in ["\"conv2d\"", "\"pool\"", "\"flatten\"", "\"signed\"", "\"last.flatten\"", "\"zeros\""] {
        assert!(description.contains(part), "{part} in {description}");
    }
    let (description, _) = sequence().to_parts().unwrap();
    assert!(description.contains("\"conv1d\"") && !description.contains("\"conv2d\""));
    // A sequence has two axes wherever it is described.
    let described: serde_json::Value = serde_json::from_str(&description).unwrap();
    let shape = |pointer: &str| described.pointer(pointer).unwrap().clone();
    assert_eq!(shape("/inputs/0/shape"), serde_json::json!([2, 20]));
    assert_eq!(shape("/nodes/0/shape"), serde_json::json!([3, 8]));
    // A window over rows is none over a sequence, nor is a row that is made by padding.
    for convolution in [
        Convolution::conv2d([1, 3, 3], 1, [2, 2]),
        Convolution::conv2d([1, 1, 3], 1, [1, 2]).with_paddings([[1, 0], [0, 0]]),
    ] {
        let network =
            Network::new("image", FeatureMap::IDENTITY, vec![conv("only", convolution, 7)]).unwrap();
        let (description, tensors) = network.to_parts().unwrap();
        assert!(description.contains("\"conv2d\""), "{description}");
        assert_eq!(Network::from_parts(&description, &tensors).unwrap(), network);
    }
}

fn message<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn faults_of_files_are_named() {
    let (description, tensors) = network(Polarity::Signed).to_parts().unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&description).unwrap();
    let whole = value.clone();
    let mut changed = |pointer: &str, to: serde_json::Value| {
        value = whole.clone();
        *value.pointer_mut(pointer).unwrap() = to;
        message(Network::from_parts(&value.to_string(), &tensors))
    };
    let fault = changed("/nodes/0/stride", serde_json::json!([1]));
    assert_eq!(fault, "network description: node \"first\" has a stride of 1 numbers, expected 2");
    let fault = changed("/nodes/0/stride", serde_json::json!([1, 0]));
    assert!(fault.contains("node \"first\" cannot be: "), "{fault}");
    let fault = changed("/nodes/0/padding", serde_json::json!([[usize::MAX, 0], [0, 0]]));
    assert!(fault.contains("node \"first\" cannot be: "), "{fault}");
    let fault = changed("/nodes/0/groups", serde_json::json!(1));
    assert!(fault.contains("tensor \"first.weight\" has shape [4, 1, 3, 2], expected [4, 2, ..]"), "{fault}");
    let fault = changed("/nodes/0/kind", serde_json::json!("conv3d"));
    assert!(fault.contains("unknown variant `conv3d`"), "{fault}");
    let fault = changed("/nodes/0/kind", serde_json::json!("conv1d"));
    assert!(
        fault.contains(
            "tensor \"first.weight\" has shape [4, 1, 3, 2], expected (output channels, channels, places)"
        ),
        "{fault}"
    );
    // The tensors of a sequence are none of an image.
    let (description, of_sequence) = sequence().to_parts().unwrap();
    let fault = message(Network::from_parts(&description.replace("conv1d", "conv2d"), &of_sequence));
    assert!(
        fault.contains("has shape [3, 2, 4], expected (output channels, channels, rows, columns)"),
        "{fault}"
    );
    let fault = changed("/nodes/1/window", serde_json::json!([2, 2, 2]));
    assert!(fault.contains("node \"first.pool0\" has a window of 3 axes; use one or two"), "{fault}");
    let fault = changed("/nodes/1/shape", serde_json::json!([4, 3, 4]));
    assert!(fault.contains("node \"first.pool0\" has shape [4, 3, 4], but gives [4, 3, 3]"), "{fault}");
    let fault = changed("/inputs/0/shape", serde_json::json!([84]));
    assert!(
        fault.contains("node \"first\" needs channels, rows and columns, but gets shape [84]"),
        "{fault}"
    );
    let fault = changed("/inputs/0/shape", serde_json::json!([]));
    assert!(fault.contains("input \"input\" has no shape"), "{fault}");
    let fault = changed("/inputs/0/shape", serde_json::json!([2, 6, 8]));
    assert!(fault.contains("node \"first\" has shape [4, 6, 6], but gives [4, 6, 7]"), "{fault}");
}

#[test]
fn networks_that_cannot_be_are_errors() {
    let image = |input| ConvShape::new(Convolution::conv2d(input, 2, [2, 2])).unwrap();
    let new = |layers| Network::new("n", FeatureMap::IDENTITY, layers);
    let first = || Layer::convolution("a", image([1, 4, 4]), vec![0.5; 8]);
    // 2 x 3 x 3 numbers, but of another shape.
    let second = Layer::convolution("b", image([1, 3, 6]), vec![0.5; 8]);
    assert_eq!(
        message(new(vec![first(), second])),
        "layer 1 (b) takes images of shape [1, 3, 6], but the layer before it gives [2, 3, 3]"
    );
    let dense = Layer::new("d", 2, vec![0.5; 4]);
    assert!(matches!(dense.with_pool(Pool::new(PoolKind::Max, [1, 1])), Err(EngineError::NotAnImage { .. })));
    assert!(first().with_pool(Pool::new(PoolKind::Max, [4, 1])).is_err());
    assert!(message(new(vec![first().with_bias(vec![0.0; 3])])).starts_with("layer 0 (a): "));
    let part = image([1, 4, 4]).channels(0..1).unwrap();
    assert!(message(new(vec![Layer::convolution("p", part, vec![0.5; 4])])).starts_with("layer 0 (p): "));
    assert!(message(new(vec![Layer::convolution("w", image([1, 4, 4]), vec![0.5; 7])])).contains("weights"));
    // A unipolar layer has no negative weights.
    assert!(network(Polarity::Signed).with_polarity(Polarity::Unipolar).is_err());
}

#[test]
fn layers_of_every_kind_count_alike_however_they_count() {
    let convolution = Convolution::conv2d([2, 5, 5], 3, [3, 3]).with_padding([1, 1]);
    let values = numbers(2 * 50, 13);
    let layer = |method| {
        let layer =
            StreamLayer::convolution(convolution).signed().length(100).generator("sobol".parse().unwrap());
        layer.weights(&numbers(54, 7)).method(method).build().unwrap()
    };
    let [bits, tables] = [CountMethod::Bits, CountMethod::Tables].map(layer);
    assert_eq!(bits.counts_batch(&values, 0).unwrap(), tables.counts_batch(&values, 0).unwrap());
    assert!(StreamLayer::convolution(convolution.with_stride([0, 1])).build().is_err());
    assert!(tables.counts(&values, 0).is_err());
}

/// An evaluation of convolutions: every generator, early stops and certainty, both arithmetics.
#[test]
fn convolutions_are_evaluated() {
    let network = network(Polarity::Signed);
    let features: Vec<f64> = numbers(40 * 84, 13).iter().map(|x| 2.0 * x + 0.5).collect();
    let labels = network.predict(&features).unwrap();
    let data = Dataset::new("made", 84, features, labels).unwrap();
    for arithmetic in [Arithmetic::Float, Arithmetic::Integer] {
        let plan = Plan { lengths: vec![16, 256], seeds: 1, arithmetic, ..Plan::default() };
        let evaluation = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| {}).unwrap();
        assert_eq!((evaluation.float_accuracy, evaluation.network.sizes.len()), (1.0, 4));
        assert_eq!(evaluation.network.sizes, [84, 36, 12, 3]);
        for row in evaluation.rows() {
            let certain = row.certain.unwrap();
            assert!(certain.mean_cycles <= row.length as f64);
            if row.length == 256 {
                assert!(row.accuracy.mean >= 0.8, "{} {arithmetic}", row.generator);
                // Signs alone decide much before the end.
                assert!(certain.stopped > 0.0, "{} {arithmetic}", row.generator);
            }
        }
    }
}

/// What is between layers is done for some samples at a time; which ones they are with changes nothing.
#[test]
fn samples_of_a_large_batch_are_those_of_their_own() {
    let (network, n_samples) = (network(Polarity::Signed), 150);
    // Scales that are too small for some.
    let layers = network.layers().iter().cloned().map(|layer| layer.with_input_scale(1.0));
    let network =
        Network::new("small scales", FeatureMap { offset: 0.5, scale: 2.0 }, layers.collect()).unwrap();
    let width = network.n_features();
    let features: Vec<f64> = numbers(n_samples * width, 43).iter().map(|x| 2.0 * x + 0.5).collect();
    for arithmetic in Arithmetic::ALL {
        let mut config = StreamConfig::new(32).arithmetic(arithmetic);
        // Comparators of another width than those before and after it have.
        config.layers.insert("second".to_owned(), "length=64,generator=sobol".parse().unwrap());
        let streams = network.to_streams(&config).unwrap();
        let detail = Detail { statistics: true, ..Detail::default() };
        let run = |features: &[f64], first: usize, detail: Detail| {
            streams.run(features, first as u32, detail, Cancel::NEVER).unwrap()
        };
        let saturated = |output: &aleatron::network::StreamOutput| -> Vec<u64> {
            output.statistics.iter().map(|layer| layer.saturated).collect()
        };
        let all = run(&features, 0, detail);
        let (mut scores, mut outside) = (Vec::new(), vec![0; 3]);
        for (k, sample) in features.chunks_exact(width).enumerate() {
            let one = run(sample, k, detail);
            scores.extend_from_slice(&one.scores);
            outside.iter_mut().zip(saturated(&one)).for_each(|(all, one)| *all += one);
        }
        assert_eq!(all.scores, scores, "{arithmetic}");
        assert_eq!(saturated(&all), outside, "{arithmetic}");
        assert!(outside[1] > 0 && outside[2] > 0, "{outside:?}");
        let shown = run(&features, 0, Detail { layers: true, ..detail });
        assert_eq!((&shown.scores, saturated(&shown)), (&scores, outside), "{arithmetic}");
        if arithmetic == Arithmetic::Float {
            continue;
        }
        // What the accumulators hold, pooled, in the network's units.
        let layers = network.layers().iter().zip(streams.layers()).zip(streams.integer_layers());
        for (((layer, stream), integer), shown) in layers.zip(&shown.layers) {
            let held = integer.accumulator.values(stream.spec(), &shown.counts).unwrap();
            let pooled = layer.pools().iter().fold(held, |held, pool| pool.integers(&held).unwrap());
            let unit = integer.accumulator.unit(stream.spec().length(), layer.stage().scale);
            let outputs: Vec<f64> = pooled.iter().map(|&value| value as f64 * unit).collect();
            assert_eq!(shown.outputs, outputs, "{}", layer.name());
        }
    }
}
