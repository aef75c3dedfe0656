//! Graphs as streams compared with direct computations in f64, added biases, calibration, and
//! faults by name.

use crate::support::{
    cnn, config, constant, dense, features, gemm, given, graph, message, network, numbers, relu,
    window,
};
use aleatron_core::arithmetic::{Activation, Pool, PoolKind, PoolShape};
use aleatron_core::{
    Cancel, ConvShape, Convolution, Error as CoreError, LayerIndex, Polarity, Quantity, SampleSeed,
    Topology, reference,
};
use aleatron_engine::network::{
    Arithmetic, Calibration, Graph, InputScale, Layer, Network, NetworkBuilder, NetworkShape, Op,
    StreamConfig, WeightScale,
};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_engine::{Error, StreamLayer};
use aleatron_graph::op::{Dims, NoAxes, Pooling, Reduction, Rounding};
use aleatron_graph::{Binary, Dim, Unary, Value};
use aleatron_tensor::DType;

/// Returns the builder of a single layer of a network.
fn alone(
    network: &Network,
    layer: usize,
    topology: Topology,
    config: &StreamConfig,
) -> StreamLayer {
    let own = &network.layers()[layer];
    StreamLayer::of(topology)
        .polarity(own.polarity)
        .length(config.settings.length)
        .seed(config.seed)
        .generator(config.settings.generator)
        .at(LayerIndex::new(layer).unwrap())
        .weights(&own.encoded_weights())
        .build()
        .unwrap()
}

/// Returns the outputs of a layer in the units of the network, from inputs in these units.
fn outputs(layer: &Layer, stream: &StreamLayer, inputs: &[f64], seed: SampleSeed) -> Vec<f64> {
    let [low, high] = layer.polarity.interval();
    let encoded: Vec<f64> =
        inputs.iter().map(|x| (x / layer.input_scale).clamp(low, high)).collect();
    let sums = stream.forward_batch(&encoded, seed).unwrap();
    let (n, rows) = (stream.spec().n_neurons(), layer.product.n_rows());
    let row = |k: usize| k % n / (n / rows);
    let scale = |row: usize| layer.input_scale * layer.weight_scale(row);
    sums.iter().enumerate().map(|(k, sum)| sum * scale(row(k)) + layer.biases()[row(k)]).collect()
}

#[test]
fn dense_node_counts_equal_a_layer() {
    for (polarity, generator) in [
        (Polarity::Signed, "bernoulli"),
        (Polarity::Bipolar, "bernoulli"),
        (Polarity::Signed, "bernoulli+sobol:2"),
        (Polarity::Bipolar, "sobol:1+bernoulli"),
    ] {
        let network = dense().with_polarity(polarity).unwrap();
        let x = features(3 * 6, 7);
        let config = config(100, generator).seed(5);
        let stream = alone(&network, 0, Topology::Dense { n_inputs: 6, n_neurons: 4 }, &config);
        let expected =
            outputs(&network.layers()[0], &stream, &x, SampleSeed::new(5).starting_at(11));
        assert_eq!(network.to_streams(&config).unwrap().forward(&x, 11).unwrap(), expected);
    }
}

/// Returns a residual network: convolutions with padding, a maximum, a sum, bounds, a transpose and
/// a factor.
fn residual() -> Network {
    let built = network(&[2, 6, 5], |graph, x| {
        let (k1, b1) = (constant(graph, "k1", &[4, 2, 3, 3], 1), constant(graph, "b1", &[4], 2));
        let same = || Op::Conv { window: window(&[1, 1], &[1, 1, 1, 1]), groups: 1 };
        let conv1 = graph.add_node("conv1", same(), &[x, k1, b1]);
        let relu = relu(graph, "relu", conv1);
        let mut over = window(&[2, 2], &[0, 0, 0, 1]);
        over.kernel = vec![2, 2];
        let pooling = Pooling::Max { column_major: false };
        let max = graph.add_node(
            "max",
            Op::Pool { pooling, window: over, rounding: Rounding::Down },
            &[relu],
        );
        let k2 = constant(graph, "k2", &[4, 4, 3, 3], 3);
        let conv2 = graph.add_node("conv2", same(), &[max, k2]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Sub), &[conv2, max]);
        let clip = graph.add_node("clip", Op::Clip { low: Some(-0.6), high: Some(1.7) }, &[sum]);
        let turned =
            graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 3, 1]) }, &[clip]);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[turned]);
        let factors = constant(graph, "factors", &[36], 9);
        let scaled = graph.add_node("scaled", Op::Binary(Binary::Mul), &[flat, factors]);
        let (w, b) = (constant(graph, "w", &[5, 36], 4), constant(graph, "b", &[5], 5));
        let fc = graph.add_node("fc", gemm(), &[scaled, w, b]);
        let term = constant(graph, "term", &[5], 6);
        graph.add_node("out", Op::Binary(Binary::Sub), &[term, fc])
    });
    built.calibrated(&features(20 * 60, 3), &Calibration::default()).unwrap()
}

/// All inter-layer arithmetic is done in f64, without rounding to 32 bits.
#[test]
fn residual_network_in_floating_point_equals_a_plain_computation_in_f64() {
    let conv = |channels: usize, image: [usize; 2]| {
        let [rows, columns] = image;
        let conv = Convolution::conv2d([channels, rows, columns], 4, [3, 3]).with_padding([1, 1]);
        Topology::Conv(ConvShape::new(conv).unwrap())
    };
    for polarity in [Polarity::Signed, Polarity::Bipolar] {
        let network = residual().with_polarity(polarity).unwrap();
        let x = features(4 * 60, 11);
        for generator in ["bernoulli", "sobol"] {
            let config = config(48, generator).seed(7);
            let scores = network.to_streams(&config).unwrap().forward(&x, 5).unwrap();
            let topologies =
                [conv(2, [6, 5]), conv(4, [3, 3]), Topology::Dense { n_inputs: 36, n_neurons: 5 }];
            let streams: Vec<StreamLayer> = topologies
                .into_iter()
                .enumerate()
                .map(|(k, t)| alone(&network, k, t, &config))
                .collect();
            let layers = network.layers();
            let (factors, term) = (numbers(36, 9), numbers(5, 6));
            for (k, x) in x.chunks(60).enumerate() {
                let seed = SampleSeed::new(7).starting_at(5 + k as u32);
                let conv1 = outputs(&layers[0], &streams[0], x, seed);
                let relu: Vec<f64> = conv1.iter().map(|v| v.max(0.0)).collect();
                let pool = Pool::new(PoolKind::Max, [2, 2])
                    .with_paddings([[0, 0], [0, 1]], aleatron_core::arithmetic::Border::Excluded);
                let max = reference::pool_floats(&PoolShape::new(pool, [4, 6, 5]).unwrap(), &relu);
                let conv2 = outputs(&layers[1], &streams[1], &max, seed);
                let clip: Vec<f64> = conv2
                    .iter()
                    .zip(&max)
                    .map(|(a, b)| (a - b).max(f64::from(-0.6_f32)).min(f64::from(1.7_f32)))
                    .collect();
                let scaled: Vec<f64> =
                    (0..36).map(|k| clip[k % 4 * 9 + k / 4] * f64::from(factors[k])).collect();
                let fc = outputs(&layers[2], &streams[2], &scaled, seed);
                let expected: Vec<f64> =
                    fc.iter().zip(&term).map(|(v, &c)| f64::from(c) - v).collect();
                assert_eq!(scores[k * 5..][..5], expected, "{polarity} {generator} sample {k}");
            }
        }
    }
}

#[test]
fn long_streams_approach_floating_point() {
    let network = dense();
    let x = features(50 * 6, 4);
    let length = 4096;
    let streams = network.to_streams(&StreamConfig::new(length)).unwrap();
    let (scores, exact) = (streams.forward(&x, 0).unwrap(), network.forward(&x).unwrap());
    // Six products, each of a variance of at most 1/4 per bit, weights below 1: six standard
    // deviations.
    let bound = 6.0 * (6.0 * 0.25 / length as f64).sqrt();
    for (a, b) in scores.iter().zip(&exact) {
        assert!((a - b).abs() < bound, "{a} {b}");
    }
    assert_ne!(scores, exact);
}

/// A sample with several rows uses consecutive rows of the streams.
#[test]
fn rows_of_a_sample_are_rows_of_the_product() {
    let network = network(&[3, 6], |graph, x| {
        let w = constant(graph, "w", &[6, 4], 1);
        graph.add_node("product", Op::MatMul, &[x, w])
    });
    assert_eq!((network.output_shape(), network.n_outputs()), (&[3, 4][..], 12));
    let x = features(5 * 18, 3);
    for arithmetic in Arithmetic::ALL {
        let config = StreamConfig::new(64).seed(5).arithmetic(arithmetic);
        let streams = network.to_streams(&config).unwrap();
        let whole = streams.forward(&x, 7).unwrap();
        assert_eq!(streams.forward(&x[2 * 18..], 9).unwrap(), whole[2 * 12..]);
        let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
        let counts =
            streams.run(&x, 7, detail, Cancel::NEVER).unwrap().layers.swap_remove(0).counts;
        let layer = streams.layer_at(0, 64).unwrap();
        let rows = SampleSeed::new(5).starting_at(3 * 7);
        match arithmetic {
            Arithmetic::Float => {
                assert_eq!(counts, layer.counts_batch(&x, rows).unwrap());
                assert_eq!(whole, outputs(&network.layers()[0], &layer, &x, rows));
            }
            // Comparators of 16 bits.
            _ => assert_eq!(counts.len(), 5 * 12),
        }
    }
}

/// Returns a product with an addition after it, which is its bias if it has one number for each
/// row.
fn added(sample: &[usize], term: &[usize], add: Binary, term_first: bool) -> Network {
    network(sample, |graph, x| {
        let product = match sample.len() {
            3 => {
                let k = constant(graph, "k", &[4, sample[0], 2, 2], 1);
                graph.add_node(
                    "product",
                    Op::Conv { window: window(&[1, 1], &[]), groups: 1 },
                    &[x, k],
                )
            }
            _ => {
                let w = constant(graph, "w", &[sample[sample.len() - 1], 4], 1);
                graph.add_node("product", Op::MatMul, &[x, w])
            }
        };
        let term = constant(graph, "term", term, 2);
        let operands = if term_first { [term, product] } else { [product, term] };
        graph.add_node("add", Op::Binary(add), &operands)
    })
}

#[test]
fn constant_added_to_a_product_becomes_its_bias() {
    let signed = |sign: f32| numbers(4, 2).iter().map(|value| sign * value).collect::<Vec<f32>>();
    for (sample, term, add, term_first, expected) in [
        (&[6][..], &[4][..], Binary::Add, false, signed(1.0)),
        (&[6], &[1, 4], Binary::Add, true, signed(1.0)),
        (&[6], &[4], Binary::Sub, false, signed(-1.0)),
        (&[6], &[1], Binary::Add, false, vec![numbers(1, 2)[0]; 4]),
        (&[6], &[], Binary::Add, false, vec![numbers(1, 2)[0]; 4]),
        (&[3, 6], &[4], Binary::Add, false, signed(1.0)),
        (&[3, 6], &[1, 1, 4], Binary::Add, false, signed(1.0)),
        (&[2, 4, 4], &[4, 1, 1], Binary::Add, false, signed(1.0)),
        (&[2, 4, 4], &[1, 4, 1, 1], Binary::Sub, false, signed(-1.0)),
    ] {
        let network = added(sample, term, add, term_first);
        let layer = &network.layers()[0];
        assert_eq!(
            (&layer.product.bias, layer.bias_node),
            (&expected, Some(1)),
            "{sample:?} {term:?}"
        );
        assert_eq!((layer.name.as_str(), layer.node, layer.output_node()), ("product", 0, 1));
        // The same bits as a product with that bias: a separate node would round integers twice.
        let n = network.n_features();
        let x = features(4 * n, 3);
        for arithmetic in Arithmetic::ALL {
            let config = config(32, "sobol").arithmetic(arithmetic);
            let streams = network.to_streams(&config).unwrap();
            let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
            let output = streams.run(&x, 0, detail, Cancel::NEVER).unwrap();
            assert_eq!(output.layers[0].outputs, output.scores, "{sample:?} {term:?} {arithmetic}");
            if arithmetic == Arithmetic::Integer {
                let accumulator = &streams.integer_layers().unwrap()[0].accumulator;
                assert!(
                    accumulator.bias().iter().all(|&bias| bias != 0),
                    "{:?}",
                    accumulator.bias()
                );
            }
        }
        let floats = network.forward(&x).unwrap();
        let long = network.to_streams(&config(4096, "sobol")).unwrap().forward(&x, 0).unwrap();
        assert!(floats.iter().zip(&long).all(|(a, b)| (a - b).abs() < 0.1), "{sample:?} {term:?}");
    }
}

#[test]
fn other_additions_to_a_product_stay_nodes() {
    // A number for each position or row, another shape, a subtracted product, or a second use.
    for (sample, term, add, term_first) in [
        (&[3, 6][..], &[3, 1][..], Binary::Add, false),
        (&[3, 6], &[3, 4], Binary::Add, false),
        (&[2, 4, 4], &[4, 3, 3], Binary::Add, false),
        (&[2, 4, 4], &[3], Binary::Add, false),
        (&[6], &[4], Binary::Sub, true),
        (&[6], &[4], Binary::Mul, false),
    ] {
        let network = added(sample, term, add, term_first);
        let layer = &network.layers()[0];
        assert_eq!((layer.bias_node, layer.product.bias.len()), (None, 0), "{sample:?} {term:?}");
    }
    let used = network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[6, 4], 1), constant(graph, "b", &[4], 2));
        let product = graph.add_node("product", Op::MatMul, &[x, w]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[product, b]);
        graph.add_node("twice", Op::Binary(Binary::Add), &[sum, product])
    });
    assert_eq!(used.layers()[0].bias_node, None);
    // A product with a bias keeps it.
    let biased = network(&[6], |graph, x| {
        let (w, b, c) = (
            constant(graph, "w", &[4, 6], 1),
            constant(graph, "b", &[4], 2),
            constant(graph, "c", &[4], 3),
        );
        let product = graph.add_node("product", gemm(), &[x, w, b]);
        graph.add_node("sum", Op::Binary(Binary::Add), &[product, c])
    });
    assert_eq!(
        (biased.layers()[0].bias_node, &biased.layers()[0].product.bias),
        (None, &numbers(4, 2))
    );
}

#[test]
fn score_layer_is_found_before_an_added_bias() {
    let score = added(&[6], &[4], Binary::Add, false).score_layer().unwrap();
    assert_eq!((score.layer, score.is_direct), (0, true));
    assert!(added(&[6], &[4], Binary::Mul, false).score_layer().is_none());
    assert!(added(&[3, 6], &[4], Binary::Add, false).score_layer().is_none());
}

#[test]
fn input_scales_are_computed_from_samples() {
    let x: Vec<f64> = features(20 * 6, 4).iter().map(|value| 3.0 * value).collect();
    let largest = x.iter().fold(0.0_f64, |all, value| all.max(value.abs()));
    let calibration = Calibration { inputs: InputScale::Maximum, weights: WeightScale::Tensor };
    let network = dense().calibrated(&x, &calibration).unwrap();
    assert_eq!(network.layers()[0].input_scale, f64::from(largest as f32));
    let half = Calibration { inputs: InputScale::Percentile(0.5), ..Calibration::default() };
    let half = dense().calibrated(&x, &half).unwrap();
    let mut magnitudes: Vec<f64> = x.iter().map(|value| value.abs()).collect();
    magnitudes.sort_by(f64::total_cmp);
    assert_eq!(half.layers()[0].input_scale, f64::from(magnitudes[59] as f32));
    for (share, is_possible) in [
        (1.0, true),
        (1e-9, true),
        (0.0, false),
        (1.0 + 1e-9, false),
        (-0.5, false),
        (f64::NAN, false),
    ] {
        let built = dense()
            .calibrated(&x, &Calibration { inputs: InputScale::Percentile(share), ..calibration });
        assert_eq!(built.is_ok(), is_possible, "{share}");
        assert!(is_possible || matches!(built, Err(Error::Setting { .. })), "{share}");
    }
    // Zeros need no scale, and a number that does not fit into 32 bits cannot have one.
    assert_eq!(dense().calibrated(&[0.0; 12], &calibration).unwrap().layers()[0].input_scale, 1.0);
    let error = message(dense().calibrated(&[1e300; 6], &calibration));
    assert!(error.contains("fc") && error.contains("inf"), "{error}");
    let stop = || true;
    let stopped = dense().calibrated_with(&x, &calibration, Cancel::when(&stop)).unwrap_err();
    assert!(matches!(stopped, Error::Core(CoreError::Cancelled)), "{stopped}");
    // More samples than one run takes.
    let many: Vec<f64> = (0..300 * 6).map(|k| if k == 299 * 6 { 7.0 } else { 0.5 }).collect();
    assert_eq!(dense().calibrated(&many, &calibration).unwrap().layers()[0].input_scale, 7.0);
}

#[test]
fn weight_scales_are_the_largest_of_each_row_or_of_all() {
    let rows = dense();
    let layer = &rows.layers()[0];
    for (row, weights) in layer.product.weights.chunks(6).enumerate() {
        let largest = weights.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
        assert_eq!(layer.weight_scales[row], f64::from(largest));
    }
    let whole = Calibration { weights: WeightScale::Tensor, ..Calibration::default() };
    let largest = layer.weight_scales.iter().fold(0.0_f64, |most, &scale| most.max(scale));
    assert_eq!(rows.calibrated(&[0.0; 6], &whole).unwrap().layers()[0].weight_scales, [largest]);
}

/// Returns a product whose second row has these weights next to ordinary rows.
fn with_row(row: [f32; 2]) -> Network {
    network(&[2], |graph, x| {
        let weights = [0.5, -0.25, row[0], row[1], 0.125, 1.0];
        let (w, b) =
            (given(graph, "w", &weights, &[3, 2]), given(graph, "b", &[0.5_f32, 0.25, -0.5], &[3]));
        let first = graph.add_node("first", gemm(), &[x, w, b]);
        let first = relu(graph, "relu", first);
        let v = constant(graph, "v", &[2, 3], 3);
        graph.add_node("second", gemm(), &[first, v])
    })
}

#[test]
fn rows_without_signal_have_scale_one_and_run_in_integers() {
    for row in [[0.0, 0.0], [1e-32, -1e-33], [1e-38, 0.0]] {
        let network = with_row(row);
        assert_eq!(network.layers()[0].weight_scales, [0.5, 1.0, 1.0], "{row:?}");
        let x = features(2 * 20, 5);
        let calibrated = network.calibrated(&x, &Calibration::default()).unwrap();
        assert_eq!(calibrated.layers()[0].weight_scales, [0.5, 1.0, 1.0], "{row:?}");
        for arithmetic in Arithmetic::ALL {
            let streams =
                calibrated.to_streams(&config(1024, "sobol").arithmetic(arithmetic)).unwrap();
            let (scores, exact) =
                (streams.forward(&x, 0).unwrap(), calibrated.forward(&x).unwrap());
            for (a, b) in scores.iter().zip(&exact) {
                assert!((a - b).abs() < 0.05, "{row:?} {arithmetic}: {a} {b}");
            }
        }
    }
    // A row of small weights that are not lost relative to the others keeps its scale.
    assert_eq!(with_row([1e-6, 0.0]).layers()[0].weight_scales[1], f64::from(1e-6_f32));
}

/// A real network in which some neurons died: their weights decayed to 1e-32.
#[test]
fn lenet_with_dead_neurons_runs_in_integer_arithmetic() {
    let lenet = Network::random(NetworkShape::Lenet5, 3).unwrap();
    let dead = |layer: usize| {
        let product = &lenet.layers()[layer].product;
        let weights = product.weights.iter().enumerate();
        let factor = |k: usize| if k < product.fan_in() { 1e-32 } else { 1.0 };
        let weights: Vec<f64> = weights.map(|(k, &w)| f64::from(w) * factor(k)).collect();
        (weights, features(product.n_rows(), layer as u64))
    };
    let mut builder = NetworkBuilder::new("lenet", &[1, 28, 28]);
    let convolutions = [
        Convolution::conv2d([1, 28, 28], 6, [5, 5]).with_padding([2, 2]),
        Convolution::conv2d([6, 14, 14], 16, [5, 5]),
    ];
    for (k, convolution) in convolutions.into_iter().enumerate() {
        let (weights, bias) = dead(k);
        builder = builder.convolution(&format!("conv{k}"), convolution, &weights, &bias);
        builder = builder.activation(Activation::Relu).pool(Pool::new(PoolKind::Max, [2, 2]));
    }
    for (k, n_inputs) in [(2, 400), (3, 120), (4, 84)] {
        let (weights, bias) = dead(k);
        builder = builder.dense(&format!("dense{k}"), n_inputs, &weights, &bias);
        builder = if k < 4 { builder.activation(Activation::Relu) } else { builder };
    }
    let x: Vec<f64> = features(4 * 784, 2).iter().map(|x| x.abs()).collect();
    let network = builder.build().unwrap().calibrated(&x, &Calibration::default()).unwrap();
    assert!(network.layers().iter().all(|layer| layer.weight_scale(0) == 1.0));
    let config = config(64, "sobol").arithmetic(Arithmetic::Integer);
    let streams = network.to_streams(&config).unwrap();
    assert_eq!(streams.forward(&x, 0).unwrap().len(), 40);
    assert!(
        streams.integer_layers().unwrap().iter().all(|layer| layer.accumulator.fraction() == 8)
    );
}

/// Scales without integer constants run in floating point.
#[test]
fn floating_point_arithmetic_needs_no_integer_constants() {
    let network = network(&[2], |graph, x| {
        let (w, b) =
            (given(graph, "w", &[1e-30_f32, 1e-30], &[1, 2]), given(graph, "b", &[1e30_f32], &[1]));
        graph.add_node("fc", gemm(), &[x, w, b])
    });
    let network = network.with_layers(|layer| layer.weight_scales = vec![1e-30]).unwrap();
    let config = StreamConfig::new(64);
    assert_eq!(
        network.to_streams(&config).unwrap().forward(&[0.5, 0.5], 0).unwrap(),
        [f64::from(1e30_f32)]
    );
    let error = network.to_streams(&config.arithmetic(Arithmetic::Integer)).unwrap_err();
    assert!(matches!(&error, Error::Layer { layer: 0, name, .. } if name == "fc"), "{error}");
}

#[test]
fn weights_and_biases_that_are_not_finite_are_errors() {
    for (what, index, value) in [("weight", 7, f32::NAN), ("bias", 2, f32::INFINITY)] {
        let built = graph(&[6], |graph, x| {
            let (mut w, mut b) = (numbers(24, 1), numbers(4, 2));
            if what == "weight" {
                w[index] = value;
            } else {
                b[index] = value;
            }
            let (w, b) = (given(graph, "w", &w, &[4, 6]), given(graph, "b", &b, &[4]));
            graph.add_node("fc", gemm(), &[x, w, b])
        });
        let error = message(Network::new(built));
        assert!(
            error.contains(&format!("{what} {index} of layer \"fc\" is {value}, not finite")),
            "{error}"
        );
    }
}

/// A tensor node may compute NaN: the layer that reads it reports its index.
#[test]
fn nan_inputs_of_layers_are_errors_with_their_index() {
    let network = network(&[100], |graph, x| {
        let built = graph.add_node("log", Op::Unary(Unary::Log), &[x]);
        let w = constant(graph, "w", &[2, 100], 1);
        graph.add_node("fc", gemm(), &[built, w])
    });
    let streams = network.to_streams(&StreamConfig::new(8)).unwrap();
    let mut x = vec![1.5; 200 * 100];
    assert_eq!(streams.forward(&x, 0).unwrap().len(), 400);
    (x[17_003], x[19_000]) = (-1.0, -1.0);
    let error = streams.forward(&x, 0).unwrap_err();
    assert!(matches!(&error, Error::Layer { layer: 0, name, .. } if name == "fc"), "{error}");
    let Some(CoreError::OutOfRange { index: 17_003, value, .. }) = error.core() else {
        panic!("{error}")
    };
    assert!(value.is_nan());
}

#[test]
fn unipolar_streams_report_the_first_negative_weight_of_a_row() {
    let rows = network(&[2], |graph, x| {
        let w = given(graph, "w", &[0.25_f32, 0.5, -0.75, 2.0, 4.0, 1.0], &[3, 2]);
        graph.add_node("fc", gemm(), &[x, w])
    });
    match rows.with_polarity(Polarity::Unipolar).unwrap_err() {
        Error::Layer { layer: 0, name, source } => {
            let (what, index, value, low, high) = (Quantity::Weight, 2, -0.75, 0.0, 2.0);
            let expected = CoreError::OutOfRange { what, index, value, low, high };
            assert_eq!((name.as_str(), source.to_string()), ("fc", expected.to_string()));
        }
        other => panic!("{other}"),
    }
    // Zero is not negative.
    let zero = network(&[2], |graph, x| {
        let w = given(graph, "w", &[0.0_f32, 0.5], &[1, 2]);
        graph.add_node("fc", gemm(), &[x, w])
    });
    assert!(zero.with_polarity(Polarity::Unipolar).is_ok());
}

#[test]
fn scores_must_be_floats() {
    let with = |op: Op| {
        Network::new(graph(&[2], |graph, x| {
            let w = constant(graph, "w", &[4, 2], 1);
            let y = graph.add_node("fc", gemm(), &[x, w]);
            graph.add_node("last", op, &[y])
        }))
    };
    assert_eq!(with(Op::Identity).unwrap().forward(&features(6, 3)).unwrap().len(), 12);
    let error = message(with(Op::Cast(DType::I64)));
    assert!(error.contains("\"last_output\"") && error.contains("i64"), "{error}");
    let sum = Op::Reduce {
        reduction: Reduction::Sum,
        axes: Some(vec![0]),
        reduced: Dims::Keep,
        no_axes: NoAxes::All,
    };
    let error = message(with(sum));
    assert!(error.contains("\"last_output\"") && error.contains("[1, 4] for 2 samples"), "{error}");
}

#[test]
fn topology_of_a_layer_follows_from_the_shape_of_its_input() {
    let conv = |sample: &[usize], kernel: &[usize], window: [&[i64]; 3], groups: i64| {
        let built = network(sample, |graph, x| {
            let weights = vec![0.5_f32; kernel.iter().product()];
            let k = given(graph, "k", &weights, kernel);
            let [strides, dilations, pads] = window.map(<[i64]>::to_vec);
            let window = aleatron_graph::op::Window {
                kernel: Vec::new(),
                strides,
                dilations,
                padding: aleatron_graph::op::Padding::Explicit(pads),
            };
            graph.add_node("conv", Op::Conv { window, groups }, &[x, k])
        });
        built.layers()[0].clone()
    };
    // A sequence is an image of one row: 1 + 9 + 3 positions for windows of 5, at every second of
    // them.
    let layer = conv(&[4, 9], &[6, 2, 3], [&[2], &[2], &[1, 3]], 2);
    let expected = Convolution::conv2d([4, 1, 9], 6, [1, 3])
        .with_stride([1, 2])
        .with_dilation([1, 2])
        .with_paddings([[0, 0], [1, 3]])
        .with_groups(2);
    assert_eq!(
        layer.topology(&[5, 4, 9]).unwrap(),
        Topology::Conv(ConvShape::new(expected).unwrap())
    );
    let layer = conv(&[4, 9, 8], &[6, 2, 3, 2], [&[1, 2], &[1, 1], &[0, 1, 2, 3]], 2);
    let expected = Convolution::conv2d([4, 9, 8], 6, [3, 2])
        .with_stride([1, 2])
        .with_paddings([[0, 2], [1, 3]])
        .with_groups(2);
    assert_eq!(
        layer.topology(&[5, 4, 9, 8]).unwrap(),
        Topology::Conv(ConvShape::new(expected).unwrap())
    );
    for other in [&[5, 4, 9][..], &[5, 4, 9, 8, 1], &[5, 2, 9, 8], &[5, 8, 9, 8], &[5]] {
        assert!(matches!(layer.topology(other), Err(Error::Graph(_))), "{other:?}");
    }
    let dense = dense();
    assert!(dense.layers()[0].topology(&[1, 6]).is_ok());
    for other in [&[][..], &[6, 1], &[usize::MAX, 2, 6]] {
        assert!(matches!(dense.layers()[0].topology(other), Err(Error::Graph(_))), "{other:?}");
    }
}

/// A product of the second output of a node.
#[test]
fn product_of_a_second_output_runs_as_streams() {
    let built = graph(&[6], |graph, x| {
        let split = Op::Split { axis: 1, sizes: None, parts: Some(2) };
        let second = graph.add_node_with_outputs("halves", split, &[x], 2)[1];
        let w = given(graph, "w", &[0.5_f32, -0.5, 0.25, 1.0, 0.75, -1.0], &[3, 2]);
        graph.add_node("fc", Op::MatMul, &[second, w])
    });
    let split = Network::new(built).unwrap();
    let plain = network(&[3], |graph, x| {
        let w = given(graph, "w", &[0.5_f32, -0.5, 0.25, 1.0, 0.75, -1.0], &[3, 2]);
        graph.add_node("fc", Op::MatMul, &[x, w])
    });
    let x = features(24, 3);
    let halves: Vec<f64> = x.chunks(6).flat_map(|x| x[3..].to_vec()).collect();
    for arithmetic in Arithmetic::ALL {
        let config = config(64, "bernoulli").arithmetic(arithmetic);
        let [a, b] = [(&split, &x), (&plain, &halves)]
            .map(|(network, x)| network.to_streams(&config).unwrap().forward(x, 3).unwrap());
        assert_eq!(a, b, "{arithmetic}");
    }
}

/// A file of a few bytes may declare samples of any size: an error before any memory is allocated
/// for them.
#[test]
fn samples_larger_than_memory_are_errors() {
    for shape in
        [vec![1, 1 << 44], vec![1 << 44, 1], vec![1, 1 << 32, 1 << 32], vec![1 << 63, 1 << 63, 2]]
    {
        let mut graph = Graph::new("large");
        let shape = Some(shape.into_iter().map(Dim::Fixed).collect());
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let y = graph.add_node("y", Op::Identity, &[x]);
        graph.add_output(y);
        let error = Network::new(graph).unwrap_err();
        assert!(matches!(error, Error::Core(CoreError::Memory { .. })), "{error}");
    }
}

#[test]
fn pool_of_devices_equals_the_cpu() {
    let (network, x) = (cnn(), features(150 * 40, 5));
    let config = config(48, "sobol");
    let on_cpu = network.to_streams(&config).unwrap().forward(&x, 7).unwrap();
    let pool = aleatron_engine::Device::Pool(vec![aleatron_engine::Device::Cpu; 2]);
    let streams = network.to_streams(&config.device(pool)).unwrap();
    assert_eq!(streams.forward(&x, 7).unwrap(), on_cpu);
    let stop = || true;
    let error = streams.run(&x, 7, Detail::default(), Cancel::when(&stop)).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::Cancelled)), "{error}");
    assert_eq!(streams.forward(&x, 7).unwrap(), on_cpu);
}
