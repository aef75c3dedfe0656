//! Batches whose samples depend on each other, and graphs with a fixed number of samples.

use crate::support::{config, constant, features, gemm, given, message, network};
use aleatron_core::{Cancel, SampleSeed};
use aleatron_engine::Error;
use aleatron_engine::network::{
    Arithmetic, Batching, Calibration, Graph, InputScale, Network, Op, StreamConfig,
};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_graph::op::{Dims, NoAxes, Reduction, Softmax, SoftmaxAxes};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_tensor::DType;

fn mean(axis: i64) -> Op {
    let axes = Some(vec![axis]);
    Op::Reduce { reduction: Reduction::Mean, axes, reduced: Dims::Keep, no_axes: NoAxes::All }
}

/// Returns a layer from whose outputs the mean over all samples is subtracted.
fn centered() -> Network {
    network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[4, 6], 1), constant(graph, "b", &[4], 2));
        let fc = graph.add_node("fc", gemm(), &[x, w, b]);
        let mean = graph.add_node("mean", mean(0), &[fc]);
        graph.add_node("centered", Op::Binary(Binary::Sub), &[fc, mean])
    })
}

#[test]
fn dependent_samples_run_as_a_whole_batch() {
    let network = centered();
    assert_eq!((network.batching(), network.batch()), (Batching::Whole, None));
    // More samples than a chunk has.
    let n = 300;
    let x = features(n * 6, 3);
    let alone = crate::support::dense();
    let exact = alone.forward(&x).unwrap();
    let scores = network.forward(&x).unwrap();
    for column in 0..4 {
        let mean: f64 = exact.iter().skip(column).step_by(4).sum::<f64>() / n as f64;
        for (score, exact) in scores.iter().zip(&exact).skip(column).step_by(4) {
            assert!((score - (exact - mean)).abs() < 1e-5, "{score} {exact} {mean}");
        }
    }
    // As streams, the samples have the same streams as when run separately.
    for arithmetic in Arithmetic::ALL {
        let config = config(64, "bernoulli").seed(5).arithmetic(arithmetic);
        let apart = alone.to_streams(&config).unwrap().forward(&x, 9).unwrap();
        let whole = network.to_streams(&config).unwrap().forward(&x, 9).unwrap();
        for column in 0..4 {
            let mean: f64 = apart.iter().skip(column).step_by(4).sum::<f64>() / n as f64;
            for (score, apart) in whole.iter().zip(&apart).skip(column).step_by(4) {
                assert!(
                    (score - (apart - mean)).abs() < 1e-5,
                    "{arithmetic}: {score} {apart} {mean}"
                );
            }
        }
        let detail = Detail {
            layers: Measured::Enabled,
            statistics: Measured::Enabled,
            ..Detail::default()
        };
        let shown = network.to_streams(&config).unwrap().run(&x, 9, detail, Cancel::NEVER).unwrap();
        let other = alone.to_streams(&config).unwrap().run(&x, 9, detail, Cancel::NEVER).unwrap();
        assert_eq!((shown.scores, &shown.layers), (whole, &other.layers), "{arithmetic}");
        assert_eq!(shown.statistics, other.statistics, "{arithmetic}");
    }
    // Batches of no sample and of one.
    assert!(network.forward(&[]).unwrap().is_empty());
    let streams = network.to_streams(&StreamConfig::new(16)).unwrap();
    assert!(streams.forward(&[], 0).unwrap().is_empty());
    assert_eq!(streams.forward(&x[..6], 0).unwrap(), [0.0; 4]);
}

/// Layers in the middle of a graph that mixes samples, with several rows for each.
#[test]
fn layers_of_whole_batches_use_the_streams_of_their_samples() {
    let network = network(&[3, 4], |graph, x| {
        let shares = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(0) };
        let shares = graph.add_node("shares", shares, &[x]);
        let w = constant(graph, "w", &[4, 2], 1);
        graph.add_node("fc", Op::MatMul, &[shares, w])
    });
    assert_eq!(network.batching(), Batching::Whole);
    let x = features(5 * 12, 3);
    let streams = network.to_streams(&config(64, "bernoulli").seed(5)).unwrap();
    let whole = streams.forward(&x, 7).unwrap();
    // The inputs of the layer by hand: the share of each element over all samples.
    let inputs: Vec<f64> = (0..60)
        .map(|k| {
            let sum: f64 = (0..5).map(|s| x[s * 12 + k % 12].exp()).sum();
            x[k].exp() / sum
        })
        .collect();
    let layer = streams.layer_at(0, 64).unwrap();
    let sums = layer.forward_batch(&inputs, SampleSeed::new(5).starting_at(3 * 7)).unwrap();
    let own = &network.layers()[0];
    for (k, (score, sum)) in whole.iter().zip(&sums).enumerate() {
        // An input in 32 bits may be on the other side of a threshold: one bit of 64 in one of four
        // products.
        let bound = 4.0 / 64.0 * own.weight_scale(k % 2);
        assert!((score - sum * own.weight_scale(k % 2)).abs() <= bound, "{score} {sum}");
    }
    // A part of the samples is another batch.
    assert_ne!(streams.forward(&x[12..], 8).unwrap(), whole[6..]);
}

#[test]
fn outputs_that_are_not_rows_of_samples_are_errors_with_their_name() {
    let with = |build: &dyn Fn(&mut Graph, ValueId) -> ValueId| {
        message(Network::new(crate::support::graph(&[2, 3], |graph, x| {
            let w = constant(graph, "w", &[3, 3], 1);
            let fc = graph.add_node("fc", Op::MatMul, &[x, w]);
            build(graph, fc)
        })))
    };
    let turned = with(&|graph, x| {
        graph.add_node("turned", Op::Transpose { order: Some(vec![1, 0, 2]) }, &[x])
    });
    assert!(
        turned.starts_with("output \"turned_output\": its samples lie along axis 1"),
        "{turned}"
    );
    let rows = with(&|graph, x| {
        let shape = given(graph, "shape", &[-1_i64, 3], &[2]);
        graph.add_node("rows", Op::Reshape { shape: None, allow_zero: false }, &[x, shape])
    });
    assert!(
        rows.starts_with("output \"rows_output\": its first size is 2 times the number of samples"),
        "{rows}"
    );
    // Twelve elements of two samples fit three rows, which are not samples.
    let regrouped = with(&|graph, x| {
        let shape = given(graph, "shape", &[3_i64, -1], &[2]);
        graph.add_node("three", Op::Reshape { shape: None, allow_zero: false }, &[x, shape])
    });
    assert!(
        regrouped.starts_with("output \"three_output\": it has shape [3, 4] for 2 samples"),
        "{regrouped}"
    );
    let total = with(&|graph, x| {
        let op = Op::Reduce {
            reduction: Reduction::Sum,
            axes: None,
            reduced: Dims::Drop,
            no_axes: NoAxes::All,
        };
        graph.add_node("total", op, &[x])
    });
    assert!(total.starts_with("output \"total_output\": it has shape [] for 2 samples"), "{total}");
    let found = with(&|graph, x| {
        let found = graph.add_node("found", Op::NonZero, &[x]);
        graph.add_node("cast", Op::Cast(DType::F32), &[found])
    });
    assert!(
        found.contains("its size depends on the values of features, by node \"found\" (NonZero)"),
        "{found}"
    );
    let constant = with(&|graph, _| {
        let c = given(graph, "c", &[1.0_f32, 2.0], &[1, 2]);
        graph.add_node("constant", Op::Unary(Unary::Relu), &[c])
    });
    assert!(constant.contains("does not depend on the features"), "{constant}");
}

/// Returns a graph whose input takes a fixed number of samples.
fn fixed(n: Dim, sample: &[usize], build: impl FnOnce(&mut Graph, ValueId) -> ValueId) -> Network {
    let mut graph = Graph::new("fixed");
    let shape = Some(std::iter::once(n).chain(sample.iter().copied().map(Dim::Fixed)).collect());
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let y = build(&mut graph, x);
    graph.add_output(y);
    Network::new(graph).unwrap()
}

/// Returns layers with the number of samples in a shape and in a constant.
fn reshaped(n: Dim) -> Network {
    let rows = match n {
        Dim::Fixed(n) => n as i64,
        _ => -1,
    };
    fixed(n, &[2, 3], |graph, x| {
        let w = constant(graph, "w", &[3, 4], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        let shape = given(graph, "shape", &[rows, 8], &[2]);
        let flat =
            graph.add_node("flat", Op::Reshape { shape: None, allow_zero: false }, &[first, shape]);
        let tanh = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[flat]);
        let v = constant(graph, "v", &[3, 8], 2);
        graph.add_node("second", gemm(), &[tanh, v])
    })
}

#[test]
fn graph_with_fixed_number_of_independent_samples_takes_any_number() {
    let free = reshaped(Dim::Unknown);
    for n in [1, 4, 32] {
        let network = reshaped(Dim::Fixed(n));
        assert_eq!((network.batching(), network.batch()), (Batching::Independent, None), "{n}");
        let names =
            |network: &Network| network.layers().iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&network), names(&free), "{n}");
        // As many products and bits as a sample has.
        let products = |network: &Network| network.inspect(8).unwrap().stream_products;
        assert_eq!(products(&network), products(&free), "{n}");
        for n_samples in [0, 1, 3, 7, 300] {
            let x = features(n_samples * 6, 5);
            assert_eq!(network.forward(&x).unwrap(), free.forward(&x).unwrap(), "{n}: {n_samples}");
            // Neither a padded sample nor a repeated one affects a scale: a percentile depends on
            // the number of inputs.
            for inputs in [InputScale::Maximum, InputScale::Percentile(0.6)] {
                let calibration = Calibration { inputs, ..Calibration::default() };
                let [a, b] =
                    [&network, &free].map(|network| network.calibrated(&x, &calibration).unwrap());
                assert_eq!(a.layers(), b.layers(), "{n}: {n_samples} {inputs:?}");
            }
            let detail = Detail {
                statistics: Measured::Enabled,
                layers: Measured::Enabled,
                score_layer: Measured::Enabled,
                nodes: Measured::Enabled,
            };
            let [a, b] = [&network, &free].map(|network| {
                let streams = network.to_streams(&StreamConfig::new(32)).unwrap();
                streams.run(&x, 5, detail, Cancel::NEVER).unwrap()
            });
            assert_eq!(
                (&a.scores, &a.layers, &a.statistics),
                (&b.scores, &b.layers, &b.statistics)
            );
            assert_eq!(
                (&a.score_inputs, &a.score_outputs, &a.nodes),
                (&b.score_inputs, &b.score_outputs, &b.nodes)
            );
        }
        // The file has the graph that takes any number of samples.
        let read = Network::from_onnx(&network.to_onnx().unwrap()).unwrap();
        assert_eq!((read.batch(), read.layers()), (None, network.layers()));
    }
}

/// A different constant for each sample: the position of a sample matters.
#[test]
fn graph_with_fixed_number_of_dependent_samples_takes_multiples_of_it() {
    let network = fixed(Dim::Fixed(2), &[1], |graph, x| {
        let w = given(graph, "w", &[1.0_f32], &[1, 1]);
        let product = graph.add_node("product", gemm(), &[x, w]);
        let terms = given(graph, "terms", &[0.5_f32, -2.0], &[2, 1]);
        graph.add_node("sum", Op::Binary(Binary::Add), &[product, terms])
    });
    assert_eq!((network.batching(), network.batch()), (Batching::Whole, Some(2)));
    assert_eq!(network.forward(&[1.0, -1.0, 0.5, 0.5]).unwrap(), [1.5, -3.0, 1.0, -1.5]);
    for arithmetic in Arithmetic::ALL {
        let streams = network.to_streams(&StreamConfig::new(1).arithmetic(arithmetic)).unwrap();
        assert_eq!(streams.forward(&[1.0, -1.0, -1.0, 1.0], 0).unwrap(), [1.5, -3.0, -0.5, -1.0]);
        assert!(streams.forward(&[], 0).unwrap().is_empty());
        let detail = Detail {
            statistics: Measured::Enabled,
            layers: Measured::Enabled,
            ..Detail::default()
        };
        let output = streams.run(&[1.0, -1.0, -1.0, 1.0], 0, detail, Cancel::NEVER).unwrap();
        assert_eq!((output.statistics[0].counts, output.layers[0].counts.len()), (4, 4));
    }
    for error in [
        network.forward(&[1.0; 3]).unwrap_err(),
        network.calibrated(&[1.0; 3], &Calibration::default()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::PartialBatch { samples: 3, batch: 2 }), "{error}");
    }
    assert_eq!(
        message(network.to_streams(&StreamConfig::new(8)).unwrap().forward(&[1.0], 0)),
        "the graph takes 2 samples at a time, which cannot run separately: give a multiple of 2 samples, not 1"
    );
}

/// One sample at a time, in a graph that cannot be generalized.
#[test]
fn graph_fixed_to_one_sample_runs_samples_one_by_one() {
    let network = fixed(Dim::Fixed(1), &[2], |graph, x| {
        // The only sample by its index, and a mean over all samples, which is over one.
        let mean = graph.add_node("mean", mean(0), &[x]);
        let w = constant(graph, "w", &[2, 3], 1);
        let fc = graph.add_node("fc", Op::MatMul, &[mean, w]);
        graph.add_node("tanh", Op::Unary(Unary::Tanh), &[fc])
    });
    assert_eq!((network.batching(), network.batch()), (Batching::Whole, Some(1)));
    let x = features(7 * 2, 3);
    let whole = network.forward(&x).unwrap();
    let single: Vec<f64> = x.chunks(2).flat_map(|x| network.forward(x).unwrap()).collect();
    assert_eq!(whole, single);
    let streams = network.to_streams(&StreamConfig::new(64)).unwrap();
    let whole = streams.forward(&x, 4).unwrap();
    let single: Vec<f64> = x
        .chunks(2)
        .enumerate()
        .flat_map(|(k, x)| streams.forward(x, 4 + k as u32).unwrap())
        .collect();
    assert_eq!(whole, single);
}

#[test]
fn inputs_with_different_fixed_numbers_of_samples_are_errors() {
    let mut graph = Graph::new("two");
    let mut input = |name: &str, n: usize| {
        let shape = Some(vec![Dim::Fixed(n), Dim::Fixed(2)]);
        graph.add_input(Value { name: name.to_owned(), dtype: Some(DType::F32), shape })
    };
    let (a, b) = (input("a", 4), input("b", 3));
    let y = graph.add_node("y", Op::Concat { axis: 0 }, &[a, b]);
    graph.add_output(y);
    let error = message(Network::new(graph));
    assert!(error.contains("input \"b\" takes 3 samples, another input 4"), "{error}");
}
