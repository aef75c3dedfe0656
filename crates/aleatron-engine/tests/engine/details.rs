//! The details of a run, in every combination.

use crate::support::{cnn, config, constant, features, gemm, given, network, relu, small, window};
use aleatron_core::{Cancel, Polarity, SampleSeed};
use aleatron_engine::network::{
    Arithmetic, Calibration, Mode, Network, NetworkBuilder, Op, StreamConfig, ValueRange,
};
use aleatron_engine::stream::{Detail, LayerInputs, LayerStats, Measured};
use aleatron_graph::{Binary, Runner, Unary};
use aleatron_tensor::{Device, Tensor};

fn all_details() -> impl Iterator<Item = Detail> {
    let measured = |bits: usize, bit: usize| {
        if bits >> bit & 1 == 1 { Measured::Enabled } else { Measured::Disabled }
    };
    (0..16).map(move |bits| Detail {
        statistics: measured(bits, 0),
        layers: measured(bits, 1),
        score_layer: measured(bits, 2),
        nodes: measured(bits, 3),
    })
}

const EVERYTHING: Detail = Detail {
    statistics: Measured::Enabled,
    layers: Measured::Enabled,
    score_layer: Measured::Enabled,
    nodes: Measured::Enabled,
};

/// Returns layers in separate programs, with a tensor node between them.
fn sandwich() -> Network {
    network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[5, 6], 1), constant(graph, "b", &[5], 2));
        let first = graph.add_node("first", gemm(), &[x, w, b]);
        let gate = graph.add_node("gate", Op::Unary(Unary::Sigmoid), &[first]);
        let (v, c) = (constant(graph, "v", &[4, 5], 3), constant(graph, "c", &[4], 4));
        graph.add_node("second", gemm(), &[gate, v, c])
    })
}

#[test]
fn combinations_of_details_return_equal_parts() {
    for (network, arithmetic) in
        [(cnn(), Arithmetic::Float), (cnn(), Arithmetic::Integer), (sandwich(), Arithmetic::Float)]
    {
        let network = network
            .calibrated(&features(10 * network.n_features(), 4), &Calibration::default())
            .unwrap();
        let streams = network.to_streams(&config(32, "bernoulli").arithmetic(arithmetic)).unwrap();
        // More than one chunk.
        let x = features(260 * network.n_features(), 5);
        let whole = streams.run(&x, 3, EVERYTHING, Cancel::NEVER).unwrap();
        assert!(whole.nodes.squares.iter().any(|[error, _]| *error > 0.0));
        for detail in all_details() {
            let part = streams.run(&x, 3, detail, Cancel::NEVER).unwrap();
            assert_eq!(
                (&part.scores, &part.saturated, part.clipped),
                (&whole.scores, &whole.saturated, whole.clipped)
            );
            let expect = |measured: Measured| measured.is_enabled();
            assert_eq!(
                part.statistics == whole.statistics,
                expect(detail.statistics),
                "{detail:?}"
            );
            assert_eq!(part.layers == whole.layers, expect(detail.layers), "{detail:?}");
            assert_eq!(
                part.score_inputs == whole.score_inputs,
                expect(detail.score_layer),
                "{detail:?}"
            );
            assert_eq!(
                part.score_outputs == whole.score_outputs,
                expect(detail.score_layer),
                "{detail:?}"
            );
            assert_eq!(part.nodes == whole.nodes, expect(detail.nodes), "{detail:?}");
            assert!(part.elapsed > std::time::Duration::ZERO);
        }
    }
}

/// Ramps against a constant: counts are exact, and so are their errors.
#[test]
fn statistics_are_the_errors_against_exact_products() {
    let layer =
        NetworkBuilder::new("n", &[1]).dense("a", 1, &[1.0, 0.5], &[]).polarity(Polarity::Unipolar);
    let network = layer.weight_scale(1.0).build().unwrap();
    let config = config(16, "ramp+vdc").width(aleatron_core::generator::Width::new(4).unwrap());
    let streams = network.to_streams(&config).unwrap();
    // 5/16 of ones; times one, and times a half: 2 or 3 of the 2.5 that would be exact.
    let output = streams.run(&[5.0 / 16.0], 0, EVERYTHING, Cancel::NEVER).unwrap();
    assert_eq!(output.layers[0].counts[0], 5);
    let second = output.layers[0].counts[1] as f64;
    assert_eq!((second - 2.5).abs(), 0.5);
    let expected = LayerStats {
        counts: 2,
        mean_count: 0.25,
        worst_count: 0.5,
        mean_value: 0.25 / 16.0,
        worst_value: 0.5 / 16.0,
        // 5/16 times one and times a half.
        mean_signal: (5.0 + 2.5) / 2.0 / 16.0,
        saturated: 0,
    };
    assert_eq!(expected.relative_error(), Some(0.25 / 3.75));
    // Streams without ones lose the whole signal; a signal of zeros has no relative error.
    let dead = LayerStats { mean_value: 0.5, mean_signal: 0.5, ..expected };
    assert_eq!(dead.relative_error(), Some(1.0));
    assert_eq!(LayerStats { mean_signal: 0.0, ..expected }.relative_error(), None);
    assert_eq!(LayerStats::default().relative_error(), Some(0.0));
    assert_eq!(output.statistics, [expected]);
    assert_eq!(output.score_inputs, Some(LayerInputs { thresholds: vec![5] }));
    assert_eq!(output.scores, [5.0 / 16.0, second / 16.0]);
    assert_eq!(
        (&output.layers[0].outputs, &output.score_outputs),
        (&output.scores, &output.scores)
    );
    // A bipolar count moves a value by two over the length.
    let bipolar =
        NetworkBuilder::new("n", &[1]).dense("a", 1, &[1.0], &[]).polarity(Polarity::Bipolar);
    let streams = bipolar.build().unwrap().to_streams(&StreamConfig::new(10)).unwrap();
    let stats = streams.run(&[0.1], 0, EVERYTHING, Cancel::NEVER).unwrap().statistics[0];
    assert!(
        (stats.mean_count - 5.0 * stats.mean_value).abs() < 1e-12
            && stats.mean_value == stats.worst_value
    );
    assert!(stats.mean_value > 0.0);
}

/// Errors are in units of the products: each output channel has a separate scale.
#[test]
fn statistics_of_a_convolution_use_the_scales_of_its_rows() {
    for (groups, polarity, per_value) in [(1, Polarity::Signed, 32.0), (2, Polarity::Bipolar, 16.0)]
    {
        let network = network(&[2, 5, 4], |graph, x| {
            let k = constant(graph, "k", &[4, 2 / groups, 3, 2], 7);
            let op = Op::Conv { window: window(&[2, 1], &[1, 0, 0, 1]), groups: groups as i64 };
            let conv = graph.add_node("conv", op, &[x, k]);
            graph.add_node("flat", Op::Flatten { axis: 1 }, &[conv])
        });
        let x = features(20 * 40, 3);
        let network = network
            .calibrated(&x, &Calibration::default())
            .unwrap()
            .with_polarity(polarity)
            .unwrap();
        let streams = network.to_streams(&StreamConfig::new(32)).unwrap();
        let found = streams.run(&x, 0, EVERYTHING, Cancel::NEVER).unwrap();
        let layer = &network.layers()[0];
        // Four channels of two rows and four columns.
        let scale = |k: usize| layer.input_scale * layer.weight_scale(k / 8 % 4);
        assert!((0..4).all(|row| scale(8 * row) != scale(8 * ((row + 1) % 4))));
        let exact = network.forward(&x).unwrap();
        assert_eq!(exact.len(), 20 * 32);
        let errors: Vec<f64> = found
            .scores
            .iter()
            .zip(&exact)
            .enumerate()
            .map(|(k, (a, b))| (a - b).abs() / scale(k))
            .collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let stats = &found.statistics[0];
        // Sums of 12 products below 1, in floats of 24 bits.
        let bound = 12.0 * 12.0 * 2f64.powi(-24) / (0..32).map(scale).fold(1.0, f64::min);
        assert!(
            (stats.mean_value - mean).abs() < bound && mean > 100.0 * bound,
            "{stats:?} {mean}"
        );
        assert!((stats.worst_value - worst).abs() < bound, "{stats:?} {worst}");
        assert_eq!((stats.counts, stats.mean_count), (20 * 32, stats.mean_value * per_value));
        assert_eq!(stats.worst_count, stats.worst_value * per_value);
    }
}

/// Thresholds of the score layer are those of its comparators, and reproduce its counts.
#[test]
fn score_layer_inputs_reproduce_its_counts() {
    for (arithmetic, zeros) in [(Arithmetic::Float, 0), (Arithmetic::Integer, 16)] {
        let streams =
            small().to_streams(&StreamConfig::new(64).arithmetic(arithmetic).seed(3)).unwrap();
        let output = streams.run(&[0.5, -0.5, 0.25, 1.0], 7, EVERYTHING, Cancel::NEVER).unwrap();
        let inputs = output.score_inputs.unwrap();
        assert_eq!(inputs.thresholds.len(), 2 * 2);
        // Comparators of sixteen bits, in the high half of 32.
        assert!(inputs.thresholds.iter().all(|threshold| threshold.trailing_zeros() >= zeros));
        assert_eq!(streams.seed_at(7), SampleSeed::new(3).starting_at(7));
        let last = streams.layer_at(1, 64).unwrap();
        let counts = last.count(&inputs.batch(streams.seed_at(7)), Cancel::NEVER).unwrap();
        assert_eq!(counts, output.layers[1].counts);
        // The values of the streams are the outputs of the previous layer.
        let values = inputs.values(last.spec());
        for (value, output) in values.iter().zip(&output.layers[0].outputs) {
            assert!((value - output.clamp(-1.0, 1.0)).abs() <= 2f64.powi(-16), "{value} {output}");
        }
        assert_eq!(output.score_outputs, output.scores);
    }
    // Without a layer that computes the scores, there are no inputs or outputs of it.
    let binary = small().with_mode("b", Mode::Binary).unwrap();
    let output = binary.to_streams(&StreamConfig::new(8)).unwrap();
    let output = output.run(&[0.5, 0.5], 0, EVERYTHING, Cancel::NEVER).unwrap();
    assert_eq!(
        (output.score_inputs, output.score_outputs.len(), output.layers.len()),
        (None, 0, 1)
    );
    assert_eq!((output.statistics[1].counts, output.statistics[0].counts), (0, 2));
}

/// Outputs in integers are in the units of their rows, at every position.
#[test]
fn layer_outputs_in_integers_are_in_the_units_of_their_rows() {
    let network = network(&[1, 3, 4], |graph, x| {
        // The scale of each row is its largest weight.
        let k = given(graph, "k", &[0.5_f32, -0.25, 1.0, 0.75, 0.125, 0.1], &[3, 1, 1, 2]);
        graph.add_node("conv", Op::Conv { window: window(&[], &[]), groups: 1 }, &[x, k])
    });
    let streams = network.to_streams(&config(64, "sobol").arithmetic(Arithmetic::Integer)).unwrap();
    let x: Vec<f64> = (0..24).map(|k| f64::from(k) / 24.0).collect();
    let output = streams.run(&x, 0, EVERYTHING, Cancel::NEVER).unwrap();
    assert_eq!((output.scores.len(), &output.layers[0].outputs), (2 * 3 * 9, &output.scores));
}

/// Returns the first output of every node in floating point.
fn exact_nodes(network: &Network, x: &[f64]) -> Vec<Vec<f64>> {
    struct Outputs(Vec<Vec<f64>>);
    impl aleatron_graph::Observer for Outputs {
        fn made(
            &mut self,
            _: usize,
            _: &aleatron_graph::Node,
            made: &mut [Tensor],
        ) -> aleatron_graph::Result<()> {
            self.0.push(made[0].to_vec::<f32>()?.into_iter().map(f64::from).collect());
            Ok(())
        }
    }
    let runner = Runner::new(network.graph().clone(), &Device::Cpu).unwrap();
    let narrow: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let shape = [&[x.len() / network.n_features()], &network.input_shape()[..]].concat();
    let mut seen = Outputs(Vec::new());
    runner
        .run_with(vec![Tensor::from_slice(&narrow, &shape, &Device::Cpu).unwrap()], &mut seen)
        .unwrap();
    seen.0
}

/// A product, its bias, its activation, a pool and a product, each as a separate node.
#[test]
fn node_errors_are_separate_for_each_node() {
    let network = network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[6, 5], 1), constant(graph, "b", &[5], 2));
        let product = graph.add_node("product", Op::MatMul, &[x, w]);
        let biased = graph.add_node("biased", Op::Binary(Binary::Add), &[product, b]);
        let relu = relu(graph, "relu", biased);
        let v = constant(graph, "v", &[5, 3], 3);
        graph.add_node("last", Op::MatMul, &[relu, v])
    });
    let x = features(40 * 6, 3);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    assert_eq!(network.layers()[0].bias_node, Some(1));
    let exact = exact_nodes(&network, &x);
    for arithmetic in Arithmetic::ALL {
        let streams = network.to_streams(&config(64, "sobol").arithmetic(arithmetic)).unwrap();
        let output = streams.run(&x, 0, EVERYTHING, Cancel::NEVER).unwrap();
        // The outputs of the first layer before its bias and its activation, computed from its
        // counts.
        let layer = &network.layers()[0];
        let spec = streams.layer_at(0, 64).unwrap();
        let sums = spec.decode(&output.layers[0].counts);
        let scale = |k: usize| layer.input_scale * layer.weight_scale(k % 5);
        let product: Vec<f64> = sums.iter().enumerate().map(|(k, v)| v * scale(k)).collect();
        let bias = |k: usize| f64::from(layer.product.bias[k % 5]);
        let biased: Vec<f64> = product.iter().enumerate().map(|(k, v)| v + bias(k)).collect();
        let relu: Vec<f64> = biased.iter().map(|v| v.max(0.0)).collect();
        for (node, values) in [product, biased, relu, output.scores.clone()].iter().enumerate() {
            let squares: f64 = values.iter().zip(&exact[node]).map(|(a, b)| (a - b).powi(2)).sum();
            let of_exact: f64 = exact[node].iter().map(|b| b * b).sum();
            let [found, found_exact] = output.nodes.squares[node];
            // Integers round biases and bounds.
            let slack = if arithmetic == Arithmetic::Float { 1e-12 } else { 1e-3 };
            assert!(
                (found - squares).abs() <= slack * squares,
                "{arithmetic} node {node}: {found} {squares}"
            );
            assert!((found_exact - of_exact).abs() <= 1e-9 * of_exact);
            assert!(found > 0.0);
        }
    }
}

/// Nodes on tensors, nodes that move, and values with steps before samples.
#[test]
fn node_errors_follow_the_order_of_samples() {
    let network = network(&[4, 2], |graph, x| {
        let w = constant(graph, "w", &[2, 3], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        let turned =
            graph.add_node("turned", Op::Transpose { order: Some(vec![1, 0, 2]) }, &[first]);
        let tanh = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[turned]);
        let back = graph.add_node("back", Op::Transpose { order: Some(vec![1, 0, 2]) }, &[tanh]);
        graph.add_node("flat", Op::Flatten { axis: 1 }, &[back])
    });
    // In binary, all errors are those of rounding; a wrong order would give errors as large as the
    // values.
    let binary = network.clone().with_mode("first", Mode::Binary).unwrap();
    let x = features(300 * 8, 3);
    let detail = Detail { nodes: Measured::Enabled, ..Detail::default() };
    let output = binary
        .to_streams(&StreamConfig::new(8))
        .unwrap()
        .run(&x, 0, detail, Cancel::NEVER)
        .unwrap();
    assert_eq!(output.nodes.squares.len(), 5);
    for (node, [error, exact]) in output.nodes.squares.iter().enumerate() {
        assert!(*exact > 0.0 && *error <= 1e-12 * exact, "node {node}: {error} {exact}");
    }
    // As streams, a transpose has the error of its input.
    let output = network
        .to_streams(&StreamConfig::new(64))
        .unwrap()
        .run(&x, 0, detail, Cancel::NEVER)
        .unwrap();
    let [first, turned, tanh, back, flat] = output.nodes.squares[..] else {
        panic!("{:?}", output.nodes)
    };
    let close = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).abs() <= 1e-9 * a[0] && a[0] > 0.0;
    assert!(close(first, turned) && close(tanh, back) && close(back, flat), "{:?}", output.nodes);
}

#[test]
fn saturated_features_and_hidden_values_are_counted_separately() {
    let network = NetworkBuilder::new("n", &[1])
        .dense("a", 1, &[1.0, -1.0], &[4.0, 0.0])
        .dense("b", 2, &[1.0, 1.0], &[])
        .build()
        .unwrap();
    let config = config(64, "sobol").range(ValueRange::Saturate);
    for arithmetic in Arithmetic::ALL {
        let streams = network.to_streams(&config.clone().arithmetic(arithmetic)).unwrap();
        let output = streams.run(&[3.0, 0.5, -2.0], 0, Detail::default(), Cancel::NEVER).unwrap();
        // Two features, and one hidden value of each sample.
        assert_eq!((output.clipped, output.saturated), (2, vec![2, 3]), "{arithmetic}");
    }
}
