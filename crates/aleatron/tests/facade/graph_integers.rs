//! Graphs in integers, beside a plain model of the specification that shares no arithmetic with them. Its counts are those of the reference.
#![cfg(feature = "graph")]

use crate::graph::{constant, features, gemm, input, window};
use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate, find_losses};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::graph::{Calibration, Graph, GraphLayer, GraphNetwork, Mode, Op, ProductKind};
use aleatron::network::{Arithmetic, Network, StreamConfig};
use aleatron::{Cancel, EngineError, Error, Polarity};
use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, LayerCase, Reference};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    ConvShape, Convolution, Encoding, LayerIndex, LayerSpec, Length, SampleSeed, Topology, Weights,
};
use aleatron_graph::op::{NoAxes, Pooling, Reduced, Reduction, Rounding, Softmax, SoftmaxAxes};
use aleatron_graph::{Binary, Unary, ValueId};
use aleatron_tensor::{Device, Tensor};

const SEED: u64 = 7;

fn config(length: usize, generator: &str) -> StreamConfig {
    StreamConfig::new(length).generator(generator.parse().unwrap()).seed(SEED).arithmetic(Arithmetic::Integer)
}

fn numbers(graph: &mut Graph, name: &str, values: &[f32], shape: &[usize]) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
}

fn pool(pooling: Pooling, kernel: [i64; 2], strides: [i64; 2], pads: [i64; 4]) -> Op {
    let mut window = window(&strides, &pads);
    window.kernel = kernel.to_vec();
    Op::Pool { pooling, window, rounding: Rounding::Floor }
}

/// Convolutions with padding, pools of both kinds, a residual sum, bounds, moves, constants, and a dense layer.
fn residual(last: Option<Op>) -> GraphNetwork {
    let mut graph = Graph::new("residual");
    let x = input(&mut graph, &[2, 6, 5]);
    let (k1, b1) = (constant(&mut graph, "k1", &[4, 2, 3, 3], 1), constant(&mut graph, "b1", &[4], 2));
    let same = || Op::Conv { window: window(&[1, 1], &[1, 1, 1, 1]), groups: 1 };
    let conv1 = graph.add_node("conv1", same(), &[x, k1, b1]);
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv1]);
    let max = pool(Pooling::Max { column_major: false }, [2, 2], [2, 2], [0, 0, 0, 1]);
    let max = graph.add_node("max", max, &[relu]);
    let k2 = constant(&mut graph, "k2", &[4, 4, 3, 3], 3);
    let conv2 = graph.add_node("conv2", same(), &[max, k2]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[conv2, max]);
    let (low, high) = (numbers(&mut graph, "low", &[-0.6], &[]), numbers(&mut graph, "high", &[1.7], &[]));
    let clip = graph.add_node("clip", Op::Clip { low: None, high: None }, &[sum, low, high]);
    let mean = pool(Pooling::Average { count_padding: false }, [2, 2], [1, 1], [1, 0, 0, 0]);
    let mean = graph.add_node("mean", mean, &[clip]);
    let turned = graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 3, 1]) }, &[mean]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[turned]);
    let half = numbers(&mut graph, "half", &[0.75], &[1]);
    let scaled = graph.add_node("scaled", Op::Binary(Binary::Mul), &[flat, half]);
    let (w, b) = (constant(&mut graph, "w", &[5, 24], 4), constant(&mut graph, "b", &[5], 5));
    let fc = graph.add_node("fc", gemm(), &[scaled, w, b]);
    let term = constant(&mut graph, "term", &[5], 6);
    let mut out = graph.add_node("out", Op::Binary(Binary::Sub), &[fc, term]);
    if let Some(last) = last {
        out = graph.add_node("last", last, &[out]);
    }
    graph.add_output(out);
    let calibration = Calibration::default();
    GraphNetwork::new(graph).unwrap().calibrated(&features(20 * 60, 3), &calibration).unwrap()
}

/// Integers of one sample: channels by rows by columns, with what 1 stands for.
struct Held {
    values: Vec<i64>,
    units: Vec<f64>,
}

/// The multiplier and the shift of a ratio, found by doubling.
fn factor(ratio: f64) -> (i128, u32) {
    let mut e = -200;
    while 2f64.powi(e) <= ratio {
        e += 1;
    }
    let bits = e.max(16);
    let shift = (bits - e) as u32;
    let m = (ratio * 2f64.powi(bits - e) + 0.5).floor() as i128;
    (m.min((1 << bits) - 1), shift)
}

fn multiply(value: i64, (m, shift): (i128, u32)) -> i64 {
    let half = if shift == 0 { 0 } else { 1i128 << (shift - 1) };
    (i128::from(value) * m + half).div_euclid(1i128 << shift) as i64
}

fn nearest(value: f64, unit: f64) -> i64 {
    (value / unit + 0.5).floor() as i64
}

/// A product of the network over one sample, whose thresholds have `v` bits.
struct Model<'a> {
    network: &'a GraphNetwork,
    length: usize,
    generator: &'a str,
    sample: u32,
}

impl Model<'_> {
    fn spec(&self, layer: &GraphLayer, place: usize, image: [usize; 3]) -> LayerSpec {
        let topology = match &layer.product.kind {
            ProductKind::Dense { n_inputs, n_neurons } => {
                Topology::Dense { n_inputs: *n_inputs, n_neurons: *n_neurons }
            }
            ProductKind::Conv { n_channels, .. } => {
                let conv = Convolution::conv2d(image, *n_channels, [3, 3]).with_paddings([[1, 1], [1, 1]]);
                Topology::Conv(ConvShape::new(conv).unwrap())
            }
        };
        let (generator, length): (GeneratorName, _) =
            (self.generator.parse().unwrap(), Length::new(self.length).unwrap());
        let width = WidthChoice::Auto.resolve(&generator, length);
        let encoding = generator.encoding(SEED, width, Sharing::OneForAll).unwrap();
        LayerSpec::new(topology, length, layer.polarity, encoding)
            .unwrap()
            .at(LayerIndex::new(place).unwrap())
    }

    /// What inputs as levels of comparators become: 2^v stands for the input scale, or half of it in bipolar layers, negative ones below 0.
    fn stream(&self, place: usize, image: [usize; 3], level: impl Fn(&GraphLayer, f64) -> Vec<i64>) -> Held {
        let layer = &self.network.layers()[place];
        let spec = self.spec(layer, place, image);
        let wide = spec.encoding().input_width().bits();
        let v = if matches!(spec.encoding(), Encoding::Bernoulli { .. }) { 16 } else { wide };
        let one = 1i64 << v;
        let thresholds = level(layer, one as f64).into_iter().map(|level| match layer.polarity {
            Polarity::Signed => {
                let sign = if level < 0 { NEGATIVE } else { 0 };
                (level.abs().min(one) as u64) << (wide - v) | sign
            }
            _ => ((level + one / 2).clamp(0, one) as u64) << (wide - v),
        });
        let n_rows = layer.product.n_rows();
        let fan_in = layer.product.weights.len() / n_rows;
        let weights = layer.product.weights.iter().enumerate();
        let weights = weights.map(|(k, &w)| f64::from(w) / layer.weight_scale(k / fan_in)).collect();
        let weights = spec.weight_thresholds(&Weights::new(&spec, weights).unwrap()).unwrap();
        let counts = Reference.answer(&Case::Layer(LayerCase {
            weights,
            inputs: thresholds.collect(),
            seed: SampleSeed::new(SEED).starting_at(self.sample),
            method: CountMethod::Best,
            spec: spec.clone(),
        }));
        let positions = counts.len() / n_rows;
        let [channels, rows, columns] = image;
        let mut held = Held { values: Vec::new(), units: Vec::new() };
        for (k, &count) in counts.iter().enumerate() {
            // The taps that are inside of the image.
            let n = match layer.product.kind {
                ProductKind::Dense { n_inputs, .. } => n_inputs,
                ProductKind::Conv { .. } => {
                    let (r, c) = (k % positions / columns, k % positions % columns);
                    let inside = |at: usize, size: usize| {
                        (0..3).filter(|tap| (1..=size).contains(&(at + tap))).count()
                    };
                    channels * inside(r, rows) * inside(c, columns)
                }
            };
            let (all, count) = ((n * self.length) as i64, count as i64);
            let sum = if layer.polarity == Polarity::Signed { count - all } else { 2 * count - all };
            let row = k / positions;
            let scale = layer.input_scale * layer.weight_scale(row);
            let bias = layer.product.bias.get(row).map_or(0.0, |&b| f64::from(b));
            // Eight fraction bits.
            let bias = (bias * (self.length as f64 / scale) * 256.0 + 0.5).floor() as i64;
            held.values.push(256 * sum + bias);
            held.units.push(scale / self.length as f64 / 256.0);
        }
        held
    }

    /// As [`Self::stream`], of integers.
    fn stream_of(&self, place: usize, image: [usize; 3], from: &Held) -> Held {
        self.stream(place, image, |layer, one| {
            let levels = if layer.polarity == Polarity::Bipolar { one / 2.0 } else { one };
            let each = from.values.iter().zip(&from.units);
            each.map(|(&value, unit)| multiply(value, factor(unit / layer.input_scale * levels))).collect()
        })
    }

    /// The scores of one sample of the residual network.
    fn residual(&self, x: &[f64]) -> Vec<f64> {
        let conv1 = self.stream(0, [2, 6, 5], |layer, one| {
            let each = x.iter().map(|&x| (f64::from(x as f32) / layer.input_scale).clamp(-1.0, 1.0));
            match layer.polarity {
                // The sign is that of the value; thresholds are rounded as magnitudes.
                Polarity::Signed => each
                    .map(|x| {
                        let magnitude = (x.abs() * one + 0.5).floor() as i64;
                        if x < 0.0 { -magnitude } else { magnitude }
                    })
                    .collect(),
                _ => {
                    each.map(|x| ((x + 1.0) / 2.0 * one + 0.5).floor() as i64 - (one / 2.0) as i64).collect()
                }
            }
        });
        let relu: Vec<i64> = conv1.values.iter().map(|&v| if v < 0 { 0 } else { v }).collect();
        let mut max = Held { values: Vec::new(), units: Vec::new() };
        for (c, r, k) in places([4, 3, 3]) {
            let inside = (2 * r..2 * r + 2).flat_map(|r| (2 * k..(2 * k + 2).min(5)).map(move |k| (r, k)));
            max.values.push(inside.map(|(r, k)| relu[(c * 6 + r) * 5 + k]).max().unwrap());
            max.units.push(conv1.units[c * 30]);
        }
        let conv2 = self.stream_of(1, [4, 3, 3], &max);
        let mut clip = Held { values: Vec::new(), units: Vec::new() };
        for k in 0..36 {
            let (a, b) = (conv2.values[k], max.values[k]);
            let (u, w) = (conv2.units[k], max.units[k]);
            let (sum, unit) = match u < w {
                true => (a + multiply(b, factor(w / u)), u),
                false if w < u => (multiply(a, factor(u / w)) + b, w),
                false => (a + b, u),
            };
            let (low, high) = (nearest(f64::from(-0.6_f32), unit), nearest(f64::from(1.7_f32), unit));
            clip.values.push(sum.max(low).min(high));
            clip.units.push(unit);
        }
        // Rows of padding before the first are left out; what is made is turned to rows, columns, channels.
        let mut scaled = Held { values: vec![0; 24], units: vec![0.0; 24] };
        for (c, r, k) in places([4, 3, 2]) {
            let inside = (r.saturating_sub(1)..=r).flat_map(|r| (k..k + 2).map(move |k| (r, k)));
            let inside: Vec<i64> = inside.map(|(r, k)| clip.values[(c * 3 + r) * 3 + k]).collect();
            let (sum, n) = (inside.iter().sum::<i64>(), inside.len() as i64);
            let to = (r * 2 + k) * 4 + c;
            scaled.values[to] = (2 * sum + n).div_euclid(2 * n);
            scaled.units[to] = clip.units[c * 9] * 0.75;
        }
        let fc = self.stream_of(2, [1, 1, 24], &scaled);
        let term = crate::graph::numbers(5, 6);
        (0..5)
            .map(|j| (fc.values[j] + nearest(-f64::from(term[j]), fc.units[j])) as f64 * fc.units[j])
            .collect()
    }
}

fn places([channels, rows, columns]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..channels).flat_map(move |c| (0..rows).flat_map(move |r| (0..columns).map(move |k| (c, r, k))))
}

#[test]
fn a_graph_is_what_the_specification_says() {
    for polarity in [Polarity::Signed, Polarity::Bipolar] {
        let network = residual(None).with_polarity(polarity).unwrap();
        let x = features(3 * 60, 11);
        for (generator, length) in [("bernoulli", 64), ("sobol", 33), ("lfsr", 100)] {
            let streams = network.to_streams(&config(length, generator)).unwrap();
            let scores = streams.forward(&x, 5).unwrap();
            for (k, x) in x.chunks(60).enumerate() {
                let sample = 5 + k as u32;
                let model = Model { network: &network, length, generator, sample };
                assert_eq!(scores[k * 5..][..5], model.residual(x), "{polarity:?} {generator} sample {k}");
                assert_eq!(streams.forward(x, sample).unwrap(), scores[k * 5..][..5]);
            }
            let float = network.to_streams(&config(length, generator).arithmetic(Arithmetic::Float)).unwrap();
            assert_ne!(float.forward(&x, 5).unwrap(), scores);
        }
    }
}

#[test]
fn a_chain_of_layers_and_its_graph_are_the_same_in_integers() {
    let network = Network::digits_cnn().unwrap();
    let graph = network.to_graph().unwrap();
    let digits = Dataset::digits_test();
    let x = &digits.features()[..40 * 64];
    for (generator, length) in [("bernoulli", 32), ("sobol", 64)] {
        let config = config(length, generator);
        let chain = network.to_streams(&config).unwrap().forward(x, 3).unwrap();
        assert_eq!(graph.to_streams(&config).unwrap().forward(x, 3).unwrap(), chain, "{generator}");
    }
}

#[test]
fn what_runs_after_the_last_streams_may_be_in_floats() {
    let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) };
    let (plain, with) = (residual(None), residual(Some(softmax)));
    let x = features(4 * 60, 12);
    let scores = plain.to_streams(&config(64, "sobol")).unwrap().forward(&x, 0).unwrap();
    let shares = with.to_streams(&config(64, "sobol")).unwrap().forward(&x, 0).unwrap();
    for (scores, shares) in scores.chunks(5).zip(shares.chunks(5)) {
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        for (score, share) in scores.iter().zip(shares) {
            // Scores below 2^4 in 32 bits, and a few roundings of what comes of them.
            assert!((score.exp() / sum - share).abs() < 2f64.powi(-18), "{score} {share}");
        }
    }
}

/// A graph of dense layers of 6, with something between the first two.
fn between(add: impl Fn(&mut Graph, ValueId) -> ValueId) -> GraphNetwork {
    let mut graph = Graph::new("between");
    let x = input(&mut graph, &[6]);
    let (w, b) = (constant(&mut graph, "w", &[6, 6], 1), constant(&mut graph, "b", &[6], 2));
    let first = graph.add_node("first", gemm(), &[x, w, b]);
    let last = add(&mut graph, first);
    let v = constant(&mut graph, "v", &[4, 6], 3);
    let y = graph.add_node("second", gemm(), &[last, v]);
    graph.add_output(y);
    GraphNetwork::new(graph).unwrap().calibrated(&features(60, 4), &Calibration::default()).unwrap()
}

fn scores(network: &GraphNetwork) -> Result<Vec<f64>, EngineError> {
    network.to_streams(&config(64, "sobol"))?.forward(&features(30, 5), 0)
}

#[test]
fn integers_that_are_moved_stay_the_same() {
    let plain = scores(&between(|_, x| x)).unwrap();
    let halves = between(|graph, x| {
        // Cut in two parts and put together again, with a shape that is computed on the way.
        let shape = graph.add_node("shape", Op::Shape { start: 0, end: None }, &[x]);
        let one = numbers_i64(graph, "cuts", &[0], &[1]);
        let (two, four, ends) = (
            numbers_i64(graph, "two", &[2], &[1]),
            numbers_i64(graph, "axis", &[1], &[1]),
            numbers_i64(graph, "end", &[6], &[1]),
        );
        let head = graph.add_node("head", Op::Slice { given: None }, &[x, one, two, four]);
        let tail = graph.add_node("tail", Op::Slice { given: None }, &[x, two, ends, four]);
        let both = graph.add_node("both", Op::Concat { axis: 1 }, &[head, tail]);
        let axes = numbers_i64(graph, "axes", &[2], &[1]);
        let deep = graph.add_node("deep", Op::Unsqueeze { axes: None }, &[both, axes]);
        graph.add_node("back", Op::Reshape { shape: None, allow_zero: false }, &[deep, shape])
    });
    assert_eq!(scores(&halves).unwrap(), plain);
    // A factor is a matter of units: the products behind it are the same with another scale.
    let doubled = between(|graph, x| {
        let two = numbers(graph, "two", &[2.0], &[]);
        let four = numbers(graph, "four", &[4.0], &[1, 1]);
        let twice = graph.add_node("twice", Op::Binary(Binary::Mul), &[two, x]);
        graph.add_node("quarter", Op::Binary(Binary::Div), &[twice, four])
    });
    let halved: Vec<f64> = plain.iter().map(|score| score / 2.0).collect();
    assert_eq!(scores(&doubled).unwrap(), halved);
    // A sum with itself is twice the value, and a difference nothing.
    let sum = between(|graph, x| graph.add_node("sum", Op::Binary(Binary::Add), &[x, x]));
    assert_eq!(scores(&sum).unwrap(), plain.iter().map(|score| score * 2.0).collect::<Vec<_>>());
    let none = between(|graph, x| graph.add_node("none", Op::Binary(Binary::Sub), &[x, x]));
    assert_eq!(scores(&none).unwrap(), [0.0; 20]);
}

fn numbers_i64(graph: &mut Graph, name: &str, values: &[i64], shape: &[usize]) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
}

#[test]
fn pools_of_a_whole_image_are_one() {
    let with = |op: Op| {
        let mut graph = Graph::new("g");
        let x = input(&mut graph, &[1, 4, 4]);
        let k = constant(&mut graph, "k", &[3, 1, 3, 3], 1);
        let conv = Op::Conv { window: window(&[1, 1], &[1, 1, 1, 1]), groups: 1 };
        let conv = graph.add_node("conv", conv, &[x, k]);
        let mean = graph.add_node("mean", op, &[conv]);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[mean]);
        let w = constant(&mut graph, "w", &[4, 3], 2);
        let y = graph.add_node("fc", gemm(), &[flat, w]);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        let network = network.calibrated(&features(160, 4), &Calibration::default()).unwrap();
        network.to_streams(&config(64, "sobol")).unwrap().forward(&features(160, 5), 0).unwrap()
    };
    let average = Pooling::Average { count_padding: false };
    let reduce = |axes: Option<Vec<i64>>, reduced| Op::Reduce {
        reduction: Reduction::Mean,
        axes,
        reduced,
        no_axes: NoAxes::All,
    };
    let global = with(Op::GlobalPool(average));
    assert_eq!(with(pool(average, [4, 4], [1, 1], [0, 0, 0, 0])), global);
    assert_eq!(with(reduce(Some(vec![-1, 2]), Reduced::Kept)), global);
    assert_eq!(with(reduce(Some(vec![2, 3]), Reduced::Dropped)), global);
    let max = Pooling::Max { column_major: false };
    assert_ne!(with(Op::GlobalPool(max)), global);
    assert_eq!(with(Op::GlobalPool(max)), with(pool(max, [4, 4], [4, 4], [0, 0, 0, 0])));
}

fn refused(network: &GraphNetwork) -> Vec<(String, String)> {
    match scores(network) {
        Err(EngineError::NoIntegerForm { nodes }) => {
            nodes.into_iter().map(|n| (n.name, n.operator)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nodes_without_a_form_are_listed() {
    let named = |name: &str, operator: &str| (name.to_owned(), operator.to_owned());
    let two = between(|graph, x| {
        let x = graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[x]);
        graph.add_node("tanh", Op::Unary(Unary::Tanh), &[x])
    });
    // The second takes floats, which only the first makes.
    assert_eq!(refused(&two), [named("sigmoid", "Sigmoid")]);
    let apart = between(|graph, x| {
        let left = graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[x]);
        let right = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[x]);
        graph.add_node("sum", Op::Binary(Binary::Add), &[left, right])
    });
    assert_eq!(refused(&apart), [named("sigmoid", "Sigmoid"), named("tanh", "Tanh")]);
    let text = scores(&apart).unwrap_err().to_string();
    assert_eq!(text, "arithmetic integer: no form in integers has \"sigmoid\" (Sigmoid); \"tanh\" (Tanh)");
    // Features beside integers, products of two values, constants that are not positive or have several rows.
    let input = between(|graph, x| {
        let features = graph.inputs()[0];
        graph.add_node("sum", Op::Binary(Binary::Add), &[x, features])
    });
    assert_eq!(refused(&input), [named("sum", "Add")]);
    let square = between(|graph, x| graph.add_node("square", Op::Binary(Binary::Mul), &[x, x]));
    assert_eq!(refused(&square), [named("square", "Mul")]);
    for values in [[-1.0_f32], [0.0]] {
        let negative = between(|graph, x| {
            let constant = numbers(graph, "c", &values, &[1]);
            graph.add_node("times", Op::Binary(Binary::Mul), &[x, constant])
        });
        assert_eq!(refused(&negative), [named("times", "Mul")], "{values:?}");
    }
    // Means over neurons, whose units differ.
    let mean = between(|graph, x| {
        let deep =
            graph.add_node("deep", Op::Reshape { shape: Some(vec![-1, 6, 1, 1]), allow_zero: false }, &[x]);
        let turned = graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 1, 3]) }, &[deep]);
        let mean = pool(Pooling::Average { count_padding: false }, [3, 1], [1, 1], [1, 0, 1, 0]);
        let mean = graph.add_node("mean", mean, &[turned]);
        graph.add_node("flat", Op::Flatten { axis: 1 }, &[mean])
    });
    assert_eq!(refused(&mean), [named("mean", "AveragePool")]);
}

#[test]
fn layers_in_binary_are_before_or_after_streams() {
    let network = residual(None);
    for name in ["conv1", "fc"] {
        let network = network.clone().with_mode(name, Mode::Binary).unwrap();
        let streams = network.to_streams(&config(256, "sobol"));
        match name {
            "fc" => assert!(streams.unwrap().forward(&features(60, 1), 0).is_ok()),
            // The residual sum would meet what is not made of streams.
            _ => assert!(matches!(streams, Err(EngineError::NoIntegerForm { .. }))),
        }
    }
    let middle = network.with_mode("conv2", Mode::Binary).unwrap();
    let Err(EngineError::NoIntegerForm { nodes }) = middle.to_streams(&config(64, "sobol")) else { panic!() };
    assert_eq!((nodes[0].name.as_str(), nodes[0].reason.as_str()), ("conv2", "it runs in binary"));
}

#[test]
fn evaluations_of_graphs_in_integers() {
    let network = residual(None);
    let x = features(300 * 60, 21);
    let data = Dataset::new("own", 60, x.clone(), network.predict(&x).unwrap()).unwrap();
    let generators = vec!["sobol".parse().unwrap()];
    let arithmetic = Arithmetic::Integer;
    let plan = Plan { lengths: vec![16, 1024], generators, seeds: 1, arithmetic, ..Plan::default() };
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.plan.arithmetic, "integer");
    let streams = network.to_streams(&config(1024, "sobol").seed(0)).unwrap();
    let right = streams.predict(&x, 0).unwrap().iter().zip(data.labels()).filter(|(a, b)| a == b).count();
    assert_eq!(found.cells[1].accuracy, right as f64 / 300.0);
    assert!(found.cells[1].accuracy > 0.9 && found.cells[0].accuracy < found.cells[1].accuracy);
    // Errors of long streams are small, in every layer, and nodes are compared with floats.
    assert!(found.cells[1].layers.iter().all(|layer| layer.mean_value < 0.02), "{:?}", found.cells[1].layers);
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let losses = &found.graph.as_ref().unwrap().losses[0];
    assert!(losses.node_errors.iter().all(|&error| error > 0.0), "{losses:?}");
    assert_eq!(losses.alone.iter().flatten().count(), 3);
    // What cannot run is said before anything does.
    let sigmoid = between(|graph, x| graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[x]));
    let six = Dataset::new("six", 6, features(30, 1), vec![0; 5]).unwrap();
    let refused = evaluate(&sigmoid, &six, &plan, None, Cancel::NEVER, |_| panic!()).unwrap_err();
    assert!(matches!(refused, Error::Engine(EngineError::NoIntegerForm { .. })));
}

#[test]
fn the_integer_side_can_be_seen() {
    let network = residual(None);
    let streams = network.to_streams(&config(64, "bernoulli")).unwrap();
    let layers = streams.integer_layers().unwrap();
    let names: Vec<&str> = layers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["conv1", "conv2", "fc"]);
    let (conv1, conv2) = (&layers[0].1, &layers[1].1);
    assert!(conv1.requantizers.is_empty() && conv2.requantizers.len() == 4);
    assert_eq!((conv1.comparator.bits(), conv1.units.len(), conv1.accumulator.bias().len()), (16, 4, 4));
    let float = network.to_streams(&config(64, "bernoulli").arithmetic(Arithmetic::Float)).unwrap();
    assert!(float.integer_layers().unwrap().is_empty());
}

/// One input that is 1 or -1 times a weight of 1, in streams of one bit: a sum of one product bit, which is 256 units, and the bias.
fn one_product(bias: f32, add: impl Fn(&mut Graph, ValueId) -> ValueId) -> GraphNetwork {
    let mut graph = Graph::new("one");
    let x = input(&mut graph, &[1]);
    let (w, b) = (numbers(&mut graph, "w", &[1.0], &[1, 1]), numbers(&mut graph, "b", &[bias], &[1]));
    let product = graph.add_node("product", gemm(), &[x, w, b]);
    let y = add(&mut graph, product);
    graph.add_output(y);
    GraphNetwork::new(graph).unwrap()
}

fn score(network: &GraphNetwork, x: f64) -> Result<f64, EngineError> {
    Ok(network.to_streams(&config(1, "bernoulli"))?.forward(&[x], 0)?[0])
}

#[test]
fn bounds_at_the_ends_of_a_width() {
    // A product of 256 units and a bias of 255 are 511, the most of ten bits; a weight of 1024 makes the units larger than 1.
    for weight in [1.0, 1024.0] {
        let unit = weight / 256.0;
        let clipped = |x: f64, bias: f32, low: f32, high: f32| {
            let mut graph = Graph::new("one");
            let value = input(&mut graph, &[1]);
            let w = numbers(&mut graph, "w", &[weight], &[1, 1]);
            let [bias, low, high] = [("bias", bias, &[1][..]), ("low", low, &[]), ("high", high, &[])]
                .map(|(name, value, shape)| numbers(&mut graph, name, &[value * unit], shape));
            let product = graph.add_node("product", gemm(), &[value, w, bias]);
            let y = graph.add_node("clip", Op::Clip { low: None, high: None }, &[product, low, high]);
            graph.add_output(y);
            score(&GraphNetwork::new(graph).unwrap(), x).unwrap() / f64::from(unit)
        };
        for low in [-1e30, -513.0, -512.0, -511.0, -510.0, -128.0, 9.0] {
            let expected = f64::from(low).max(-511.0);
            assert_eq!(clipped(-1.0, -255.0, low, 1e30), expected, "{weight}: {low}");
        }
        for high in [1e30, 512.0, 511.0, 510.0, 128.0, -9.0] {
            let expected = f64::from(high).min(511.0);
            assert_eq!(clipped(1.0, 255.0, -1e30, high), expected, "{weight}: {high}");
        }
        // A bound may lie above all that there is.
        assert_eq!(clipped(1.0, 255.0, 4096.0, 1e30), 4096.0);
    }
    // All become -1024, the least of eleven bits, and then one more.
    let twice = one_product(0.0, |graph, value| {
        let clip = |low, high| Op::Clip { low, high };
        let down = graph.add_node("down", clip(None, Some(-4.0)), &[value]);
        graph.add_node("up", clip(Some(-1023.0 / 256.0), None), &[down])
    });
    assert_eq!(score(&twice, 1.0).unwrap(), -1023.0 / 256.0);
}

#[test]
fn constants_are_added_on_either_side() {
    let with = |op: Binary, constant_first: bool| {
        let network = one_product(0.5, |graph, value| {
            let term = numbers(graph, "term", &[3.25], &[1]);
            let operands = if constant_first { [term, value] } else { [value, term] };
            graph.add_node("term", Op::Binary(op), &operands)
        });
        score(&network, -1.0).unwrap()
    };
    // The value is -1 + 0.5.
    assert_eq!(with(Binary::Add, false), 2.75);
    assert_eq!(with(Binary::Add, true), 2.75);
    assert_eq!(with(Binary::Sub, false), -3.75);
    assert_eq!(with(Binary::Sub, true), 3.75);
}

/// Widths add up as those of two's complement do, and 63 bits are the most.
#[test]
fn widths_past_the_most_are_refused() {
    // Units are 2^-8, so 2^e has 2^(e + 8) of them, which takes e + 10 bits; a sum has one more.
    let of = |exponent: i32, add: &dyn Fn(&mut Graph, ValueId) -> ValueId| {
        let network = one_product(0.0, |graph, value| {
            let term = numbers(graph, "term", &[2f32.powi(exponent)], &[1]);
            let large = graph.add_node("large", Op::Binary(Binary::Add), &[value, term]);
            add(graph, large)
        });
        match score(&network, 1.0) {
            Ok(score) => Ok(score),
            Err(EngineError::NoIntegerForm { nodes }) => {
                Err((nodes[0].name.clone(), nodes[0].reason.clone()))
            }
            Err(error) => panic!("{error}"),
        }
    };
    let needs = |name: &str, bits: u32| Err((name.to_owned(), format!("it would need {bits} bits")));
    let nothing = |_: &mut Graph, value: ValueId| value;
    let units = |exponent: i32| ((1_i64 << (exponent + 8)) + 256) as f64 / 256.0;
    assert_eq!(of(52, &nothing), Ok(units(52)));
    assert_eq!(of(53, &nothing), needs("large", 64));
    let twice =
        |graph: &mut Graph, value: ValueId| graph.add_node("twice", Op::Binary(Binary::Add), &[value, value]);
    assert_eq!(of(51, &twice), Ok(2.0 * units(51)));
    assert_eq!(of(52, &twice), needs("twice", 64));
    // In units eight times as coarse on one side, which are three bits more on the other's, and one that says so.
    let nine = |graph: &mut Graph, value: ValueId| {
        let eight = numbers(graph, "eight", &[8.0], &[1]);
        let times = graph.add_node("times", Op::Binary(Binary::Mul), &[value, eight]);
        graph.add_node("nine", Op::Binary(Binary::Add), &[times, value])
    };
    assert_eq!(of(20, &nine), Ok(9.0 * units(20)));
    assert_eq!(of(47, &nine), Ok((9 * ((1_i64 << 55) + 256)) as f64 / 256.0));
    assert_eq!(of(48, &nine), needs("nine", 59 + 4 + 1));
}

/// A graph that fixes its samples may have constants for each of them.
#[test]
fn terms_may_differ_between_samples() {
    let mut graph = Graph::new("two samples");
    let shape = Some(vec![aleatron_graph::Dim::Fixed(2), aleatron_graph::Dim::Fixed(1)]);
    let dtype = Some(aleatron_tensor::DType::F32);
    let x = graph.add_input(aleatron_graph::Value { name: "x".to_owned(), dtype, shape });
    let w = numbers(&mut graph, "w", &[1.0], &[1, 1]);
    let product = graph.add_node("product", gemm(), &[x, w]);
    let terms = numbers(&mut graph, "terms", &[0.5, -2.0], &[2, 1]);
    let y = graph.add_node("sum", Op::Binary(Binary::Add), &[product, terms]);
    graph.add_output(y);
    let streams = GraphNetwork::new(graph).unwrap().to_streams(&config(1, "bernoulli")).unwrap();
    assert_eq!(streams.forward(&[1.0, -1.0], 0).unwrap(), [1.5, -3.0]);
}

/// Axes that are an input: of means in integers, and of what is computed of floats behind the last streams.
#[test]
fn axes_may_be_an_input() {
    let with = |reduction: Reduction, axes: Option<Vec<i64>>| {
        let mut graph = Graph::new("reduced");
        let x = input(&mut graph, &[1, 4, 4]);
        let k = constant(&mut graph, "k", &[3, 1, 3, 3], 1);
        let conv = Op::Conv { window: window(&[1, 1], &[0, 0, 0, 0]), groups: 1 };
        let conv = graph.add_node("conv", conv, &[x, k]);
        let op =
            Op::Reduce { reduction, axes: axes.clone(), reduced: Reduced::Dropped, no_axes: NoAxes::All };
        let mut inputs = vec![conv];
        if axes.is_none() {
            inputs.push(numbers_i64(&mut graph, "axes", &[2, 3], &[2]));
        }
        let y = graph.add_node("reduced", op, &inputs);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        network.to_streams(&config(64, "sobol")).unwrap().forward(&features(32, 5), 0).unwrap()
    };
    for reduction in [Reduction::Mean, Reduction::Max, Reduction::Sum] {
        let given = with(reduction, Some(vec![2, 3]));
        assert_eq!((given.len(), &with(reduction, None)), (6, &given), "{reduction:?}");
    }
}

/// Neurons of weights 1 and 1/4, of which the fewer, of weight 1, are above the scale that half of the inputs do not exceed.
#[test]
fn inputs_above_the_scale_are_counted() {
    // With few equal units, integers become thresholds one by one, with many of them together.
    for (n_large, n_small) in [(3, 5), (9, 12)] {
        let n = n_large + n_small;
        let mut graph = Graph::new("saturated");
        let x = input(&mut graph, &[1]);
        let weights: Vec<f32> = (0..n).map(|k| if k < n_large { 1.0 } else { 0.25 }).collect();
        let w = numbers(&mut graph, "w", &weights, &[n, 1]);
        let first = graph.add_node("first", gemm(), &[x, w]);
        let v = constant(&mut graph, "v", &[2, n], 3);
        let y = graph.add_node("second", gemm(), &[first, v]);
        graph.add_output(y);
        let calibration = Calibration {
            inputs: aleatron::graph::InputScale::Percentile(0.5),
            weights: aleatron::graph::WeightScale::Tensor,
        };
        let network = GraphNetwork::new(graph).unwrap().calibrated(&[1.0; 4], &calibration).unwrap();
        assert_eq!(network.layers()[1].input_scale, 0.25);
        // A quarter of the first 64 numbers of the sequence is below a quarter.
        let streams = network.to_streams(&config(64, "sobol")).unwrap();
        let found = streams.run(&[1.0; 5], 0, aleatron::graph::Statistics::Found, Cancel::NEVER).unwrap();
        let saturated: Vec<u64> = found.statistics.iter().map(|layer| layer.saturated).collect();
        assert_eq!(saturated, [0, 5 * n_large as u64]);
    }
}
