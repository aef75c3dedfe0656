//! Integer arithmetic, compared with an independent model of the specification. Its counts are
//! those of the reference.

use crate::support::{constant, features, gemm, given, input, window};
use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, LayerCase, Reference};
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    Cancel, ConvShape, Convolution, Encoding, LayerIndex, LayerSpec, Length, Polarity, SampleSeed,
    Topology, Weights,
};
use aleatron_engine::Error;
use aleatron_engine::network::{
    Arithmetic, Calibration, Graph, InputScale, Layer, Mode, Network, Op, ProductKind,
    StreamConfig, WeightScale,
};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_graph::op::{Dims, NoAxes, Pooling, Reduction, Rounding, Softmax, SoftmaxAxes};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_tensor::DType;

const SEED: u64 = 7;

fn config(length: usize, generator: &str) -> StreamConfig {
    StreamConfig::new(length)
        .generator(generator.parse().unwrap())
        .seed(SEED)
        .arithmetic(Arithmetic::Integer)
}

fn pool(pooling: Pooling, kernel: [i64; 2], strides: [i64; 2], pads: [i64; 4]) -> Op {
    let mut window = window(&strides, &pads);
    window.kernel = kernel.to_vec();
    Op::Pool { pooling, window, rounding: Rounding::Down }
}

/// Returns convolutions with padding, pools of both kinds, a residual sum, bounds, moves,
/// constants, and a dense layer.
fn residual(last: Option<Op>) -> Network {
    let mut graph = Graph::new("residual");
    let x = input(&mut graph, &[2, 6, 5]);
    let (k1, b1) =
        (constant(&mut graph, "k1", &[4, 2, 3, 3], 1), constant(&mut graph, "b1", &[4], 2));
    let same = || Op::Conv { window: window(&[1, 1], &[1, 1, 1, 1]), groups: 1 };
    let conv1 = graph.add_node("conv1", same(), &[x, k1, b1]);
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv1]);
    let max = pool(Pooling::Max { column_major: false }, [2, 2], [2, 2], [0, 0, 0, 1]);
    let max = graph.add_node("max", max, &[relu]);
    let k2 = constant(&mut graph, "k2", &[4, 4, 3, 3], 3);
    let conv2 = graph.add_node("conv2", same(), &[max, k2]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[conv2, max]);
    let (low, high) =
        (given(&mut graph, "low", &[-0.6_f32], &[]), given(&mut graph, "high", &[1.7_f32], &[]));
    let clip = graph.add_node("clip", Op::Clip { low: None, high: None }, &[sum, low, high]);
    let mean = pool(Pooling::Average { count_padding: false }, [2, 2], [1, 1], [1, 0, 0, 0]);
    let mean = graph.add_node("mean", mean, &[clip]);
    let turned = graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 3, 1]) }, &[mean]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[turned]);
    let half = given(&mut graph, "half", &[0.75_f32], &[1]);
    let scaled = graph.add_node("scaled", Op::Binary(Binary::Mul), &[flat, half]);
    let (w, b) = (constant(&mut graph, "w", &[5, 24], 4), constant(&mut graph, "b", &[5], 5));
    let fc = graph.add_node("fc", gemm(), &[scaled, w, b]);
    let term = constant(&mut graph, "term", &[5], 6);
    let mut out = graph.add_node("out", Op::Binary(Binary::Sub), &[fc, term]);
    if let Some(last) = last {
        out = graph.add_node("last", last, &[out]);
    }
    graph.add_output(out);
    Network::new(graph).unwrap().calibrated(&features(20 * 60, 3), &Calibration::default()).unwrap()
}

/// Integers of one sample: channels by rows by columns, with the unit of each.
struct IntegerImage {
    values: Vec<i64>,
    units: Vec<f64>,
}

/// Returns the multiplier and the shift of a ratio, found by doubling.
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
    network: &'a Network,
    length: usize,
    generator: &'a str,
    sample: u32,
}

impl Model<'_> {
    fn spec(&self, layer: &Layer, layer_index: usize, image: [usize; 3]) -> LayerSpec {
        let topology = match &layer.product.kind {
            ProductKind::Dense { n_inputs, n_neurons } => {
                Topology::Dense { n_inputs: *n_inputs, n_neurons: *n_neurons }
            }
            ProductKind::Conv { n_channels, .. } => {
                let conv =
                    Convolution::conv2d(image, *n_channels, [3, 3]).with_paddings([[1, 1], [1, 1]]);
                Topology::Conv(ConvShape::new(conv).unwrap())
            }
        };
        let (generator, length): (GeneratorName, _) =
            (self.generator.parse().unwrap(), Length::new(self.length).unwrap());
        let width = WidthChoice::Auto.resolve(&generator, length);
        let encoding = generator.encoding(SEED, width, Sharing::OneForAll).unwrap();
        LayerSpec::new(topology, length, layer.polarity, encoding)
            .unwrap()
            .at(LayerIndex::new(layer_index).unwrap())
    }

    /// Computes a layer from inputs as levels of comparators: 2^v represents the input scale, or
    /// half of it in bipolar layers; negative ones are below 0.
    fn stream(
        &self,
        layer_index: usize,
        image: [usize; 3],
        level: impl Fn(&Layer, f64) -> Vec<i64>,
    ) -> IntegerImage {
        let layer = &self.network.layers()[layer_index];
        let spec = self.spec(layer, layer_index, image);
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
        let weights =
            weights.map(|(k, &w)| f64::from(w) / layer.weight_scale(k / fan_in)).collect();
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
        let mut result = IntegerImage { values: Vec::new(), units: Vec::new() };
        for (k, &count) in counts.iter().enumerate() {
            // The taps inside the image.
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
            let sum =
                if layer.polarity == Polarity::Signed { count - all } else { 2 * count - all };
            let row = k / positions;
            let scale = layer.input_scale * layer.weight_scale(row);
            let bias = layer.product.bias.get(row).map_or(0.0, |&b| f64::from(b));
            // Eight fraction bits.
            let bias = (bias * (self.length as f64 / scale) * 256.0 + 0.5).floor() as i64;
            result.values.push(256 * sum + bias);
            result.units.push(scale / self.length as f64 / 256.0);
        }
        result
    }

    /// Computes [`Self::stream`] of integers.
    fn stream_of(
        &self,
        layer_index: usize,
        image: [usize; 3],
        from: &IntegerImage,
    ) -> IntegerImage {
        self.stream(layer_index, image, |layer, one| {
            let levels = if layer.polarity == Polarity::Bipolar { one / 2.0 } else { one };
            let each = from.values.iter().zip(&from.units);
            each.map(|(&value, unit)| multiply(value, factor(unit / layer.input_scale * levels)))
                .collect()
        })
    }

    /// Returns the scores of one sample of the residual network.
    fn residual(&self, x: &[f64]) -> Vec<f64> {
        let conv1 = self.stream(0, [2, 6, 5], |layer, one| {
            let each =
                x.iter().map(|&x| (f64::from(x as f32) / layer.input_scale).clamp(-1.0, 1.0));
            match layer.polarity {
                // The sign is that of the value; thresholds are rounded as magnitudes.
                Polarity::Signed => each
                    .map(|x| {
                        let magnitude = (x.abs() * one + 0.5).floor() as i64;
                        if x < 0.0 { -magnitude } else { magnitude }
                    })
                    .collect(),
                _ => each
                    .map(|x| ((x + 1.0) / 2.0 * one + 0.5).floor() as i64 - (one / 2.0) as i64)
                    .collect(),
            }
        });
        let relu: Vec<i64> = conv1.values.iter().map(|&v| if v < 0 { 0 } else { v }).collect();
        let mut max = IntegerImage { values: Vec::new(), units: Vec::new() };
        for (c, r, k) in positions([4, 3, 3]) {
            let inside =
                (2 * r..2 * r + 2).flat_map(|r| (2 * k..(2 * k + 2).min(5)).map(move |k| (r, k)));
            max.values.push(inside.map(|(r, k)| relu[(c * 6 + r) * 5 + k]).max().unwrap());
            max.units.push(conv1.units[c * 30]);
        }
        let conv2 = self.stream_of(1, [4, 3, 3], &max);
        let mut clip = IntegerImage { values: Vec::new(), units: Vec::new() };
        for k in 0..36 {
            let (a, b) = (conv2.values[k], max.values[k]);
            let (u, w) = (conv2.units[k], max.units[k]);
            let (sum, unit) = match u < w {
                true => (a + multiply(b, factor(w / u)), u),
                false if w < u => (multiply(a, factor(u / w)) + b, w),
                false => (a + b, u),
            };
            let (low, high) =
                (nearest(f64::from(-0.6_f32), unit), nearest(f64::from(1.7_f32), unit));
            clip.values.push(sum.max(low).min(high));
            clip.units.push(unit);
        }
        // Rows of padding before the first are skipped; the result is transposed to rows, columns,
        // channels.
        let mut scaled = IntegerImage { values: vec![0; 24], units: vec![0.0; 24] };
        for (c, r, k) in positions([4, 3, 2]) {
            let inside = (r.saturating_sub(1)..=r).flat_map(|r| (k..k + 2).map(move |k| (r, k)));
            let inside: Vec<i64> = inside.map(|(r, k)| clip.values[(c * 3 + r) * 3 + k]).collect();
            let (sum, n) = (inside.iter().sum::<i64>(), inside.len() as i64);
            let to = (r * 2 + k) * 4 + c;
            scaled.values[to] = (2 * sum + n).div_euclid(2 * n);
            scaled.units[to] = clip.units[c * 9] * 0.75;
        }
        let fc = self.stream_of(2, [1, 1, 24], &scaled);
        let term = crate::support::numbers(5, 6);
        (0..5)
            .map(|j| {
                (fc.values[j] + nearest(-f64::from(term[j]), fc.units[j])) as f64 * fc.units[j]
            })
            .collect()
    }
}

fn positions([channels, rows, columns]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..channels)
        .flat_map(move |c| (0..rows).flat_map(move |r| (0..columns).map(move |k| (c, r, k))))
}

#[test]
fn residual_network_matches_model_of_the_specification() {
    for polarity in [Polarity::Signed, Polarity::Bipolar] {
        let network = residual(None).with_polarity(polarity).unwrap();
        let x = features(3 * 60, 11);
        for (generator, length) in [("bernoulli", 64), ("sobol", 33), ("lfsr", 100)] {
            let streams = network.to_streams(&config(length, generator)).unwrap();
            let scores = streams.forward(&x, 5).unwrap();
            for (k, x) in x.chunks(60).enumerate() {
                let sample = 5 + k as u32;
                let model = Model { network: &network, length, generator, sample };
                assert_eq!(
                    scores[k * 5..][..5],
                    model.residual(x),
                    "{polarity:?} {generator} sample {k}"
                );
                assert_eq!(streams.forward(x, sample).unwrap(), scores[k * 5..][..5]);
            }
            let float = network
                .to_streams(&config(length, generator).arithmetic(Arithmetic::Float))
                .unwrap();
            assert_ne!(float.forward(&x, 5).unwrap(), scores);
        }
    }
}

#[test]
fn softmax_after_the_last_layer_runs_on_tensors() {
    let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) };
    let (plain, with) = (residual(None), residual(Some(softmax)));
    let x = features(4 * 60, 12);
    let scores = plain.to_streams(&config(64, "sobol")).unwrap().forward(&x, 0).unwrap();
    let shares = with.to_streams(&config(64, "sobol")).unwrap().forward(&x, 0).unwrap();
    for (scores, shares) in scores.chunks(5).zip(shares.chunks(5)) {
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        for (score, share) in scores.iter().zip(shares) {
            // Scores below 2^4 in 32 bits, and a few roundings of the values computed from them.
            assert!((score.exp() / sum - share).abs() < 2f64.powi(-18), "{score} {share}");
        }
    }
}

/// Returns a graph of dense layers of 6, with additional nodes between the first two.
fn between(add: impl Fn(&mut Graph, ValueId) -> ValueId) -> Network {
    let mut graph = Graph::new("between");
    let x = input(&mut graph, &[6]);
    let (w, b) = (constant(&mut graph, "w", &[6, 6], 1), constant(&mut graph, "b", &[6], 2));
    let first = graph.add_node("first", gemm(), &[x, w, b]);
    let last = add(&mut graph, first);
    let v = constant(&mut graph, "v", &[4, 6], 3);
    let y = graph.add_node("second", gemm(), &[last, v]);
    graph.add_output(y);
    Network::new(graph).unwrap().calibrated(&features(60, 4), &Calibration::default()).unwrap()
}

fn scores(network: &Network) -> Result<Vec<f64>, Error> {
    network.to_streams(&config(64, "sobol"))?.forward(&features(30, 5), 0)
}

#[test]
fn moved_scaled_and_summed_integers_keep_their_values() {
    let plain = scores(&between(|_, x| x)).unwrap();
    let halves = between(|graph, x| {
        // Split into two parts and concatenated again, with a shape computed at run time.
        let shape = graph.add_node("shape", Op::Shape { start: 0, end: None }, &[x]);
        let one = given(graph, "cuts", &[0_i64], &[1]);
        let (two, four, ends) = (
            given(graph, "two", &[2_i64], &[1]),
            given(graph, "axis", &[1_i64], &[1]),
            given(graph, "end", &[6_i64], &[1]),
        );
        let head = graph.add_node("head", Op::Slice { given: None }, &[x, one, two, four]);
        let tail = graph.add_node("tail", Op::Slice { given: None }, &[x, two, ends, four]);
        let both = graph.add_node("both", Op::Concat { axis: 1 }, &[head, tail]);
        let axes = given(graph, "axes", &[2_i64], &[1]);
        let deep = graph.add_node("deep", Op::Unsqueeze { axes: None }, &[both, axes]);
        graph.add_node("back", Op::Reshape { shape: None, allow_zero: false }, &[deep, shape])
    });
    assert_eq!(scores(&halves).unwrap(), plain);
    // A factor changes only the unit: the products after it are the same with another scale.
    let doubled = between(|graph, x| {
        let two = given(graph, "two", &[2.0_f32], &[]);
        let four = given(graph, "four", &[4.0_f32], &[1, 1]);
        let twice = graph.add_node("twice", Op::Binary(Binary::Mul), &[two, x]);
        graph.add_node("quarter", Op::Binary(Binary::Div), &[twice, four])
    });
    let halved: Vec<f64> = plain.iter().map(|score| score / 2.0).collect();
    assert_eq!(scores(&doubled).unwrap(), halved);
    // A sum with itself is twice the value, and a difference is zero.
    let sum = between(|graph, x| graph.add_node("sum", Op::Binary(Binary::Add), &[x, x]));
    assert_eq!(scores(&sum).unwrap(), plain.iter().map(|score| score * 2.0).collect::<Vec<_>>());
    let none = between(|graph, x| graph.add_node("none", Op::Binary(Binary::Sub), &[x, x]));
    assert_eq!(scores(&none).unwrap(), [0.0; 20]);
}

#[test]
fn pools_over_a_whole_image_are_equal() {
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
        let network = Network::new(graph).unwrap();
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
    assert_eq!(with(reduce(Some(vec![-1, 2]), Dims::Keep)), global);
    assert_eq!(with(reduce(Some(vec![2, 3]), Dims::Drop)), global);
    let max = Pooling::Max { column_major: false };
    assert_ne!(with(Op::GlobalPool(max)), global);
    assert_eq!(with(Op::GlobalPool(max)), with(pool(max, [4, 4], [4, 4], [0, 0, 0, 0])));
}

fn refused(network: &Network) -> Vec<(String, String)> {
    match scores(network) {
        Err(Error::NoIntegerForm { nodes }) => {
            nodes.into_iter().map(|n| (n.name, n.operator)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsupported_nodes_are_listed_with_reasons() {
    let named = |name: &str, operator: &str| (name.to_owned(), operator.to_owned());
    let two = between(|graph, x| {
        let x = graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[x]);
        graph.add_node("tanh", Op::Unary(Unary::Tanh), &[x])
    });
    // The second node takes floats, which only the first produces.
    assert_eq!(refused(&two), [named("sigmoid", "Sigmoid")]);
    let apart = between(|graph, x| {
        let left = graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[x]);
        let right = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[x]);
        graph.add_node("sum", Op::Binary(Binary::Add), &[left, right])
    });
    assert_eq!(refused(&apart), [named("sigmoid", "Sigmoid"), named("tanh", "Tanh")]);
    let text = scores(&apart).unwrap_err().to_string();
    assert_eq!(
        text,
        "integer arithmetic does not support node \"sigmoid\" (Sigmoid); node \"tanh\" (Tanh)"
    );
    // Features next to integers, products of two values, constants that are not positive or have
    // several rows.
    let input = between(|graph, x| {
        let features = graph.inputs()[0];
        graph.add_node("sum", Op::Binary(Binary::Add), &[x, features])
    });
    assert_eq!(refused(&input), [named("sum", "Add")]);
    let square = between(|graph, x| graph.add_node("square", Op::Binary(Binary::Mul), &[x, x]));
    assert_eq!(refused(&square), [named("square", "Mul")]);
    for values in [[-1.0_f32], [0.0]] {
        let negative = between(|graph, x| {
            let constant = given(graph, "c", &values, &[1]);
            graph.add_node("times", Op::Binary(Binary::Mul), &[x, constant])
        });
        assert_eq!(refused(&negative), [named("times", "Mul")], "{values:?}");
    }
    // Means over neurons, whose units differ.
    let mean = between(|graph, x| {
        let deep = graph.add_node(
            "deep",
            Op::Reshape { shape: Some(vec![-1, 6, 1, 1]), allow_zero: false },
            &[x],
        );
        let turned =
            graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 1, 3]) }, &[deep]);
        let mean = pool(Pooling::Average { count_padding: false }, [3, 1], [1, 1], [1, 0, 1, 0]);
        let mean = graph.add_node("mean", mean, &[turned]);
        graph.add_node("flat", Op::Flatten { axis: 1 }, &[mean])
    });
    assert_eq!(refused(&mean), [named("mean", "AveragePool")]);
}

#[test]
fn binary_layer_between_streams_is_an_error() {
    let network = residual(None);
    for name in ["conv1", "fc"] {
        let network = network.clone().with_mode(name, Mode::Binary).unwrap();
        let streams = network.to_streams(&config(256, "sobol"));
        match name {
            "fc" => assert!(streams.unwrap().forward(&features(60, 1), 0).is_ok()),
            // The residual sum would have an operand that is not computed from streams.
            _ => assert!(matches!(streams, Err(Error::NoIntegerForm { .. }))),
        }
    }
    let middle = network.with_mode("conv2", Mode::Binary).unwrap();
    let Err(Error::NoIntegerForm { nodes }) = middle.to_streams(&config(64, "sobol")) else {
        panic!()
    };
    assert_eq!((nodes[0].name.as_str(), nodes[0].reason.as_str()), ("conv2", "it runs in binary"));
}

#[test]
fn integer_layers_report_comparators_and_accumulators() {
    let network = residual(None);
    let streams = network.to_streams(&config(64, "bernoulli")).unwrap();
    let layers = streams.integer_layers().unwrap();
    let names: Vec<&str> =
        layers.iter().map(|own| network.layers()[own.layer].name.as_str()).collect();
    assert_eq!(names, ["conv1", "conv2", "fc"]);
    let (conv1, conv2) = (&layers[0], &layers[1]);
    assert!(conv1.requantizers.is_empty() && conv2.requantizers.len() == 4);
    assert_eq!(
        (conv1.comparator.bits(), conv1.units.len(), conv1.accumulator.bias().len()),
        (16, 4, 4)
    );
    let float = network.to_streams(&config(64, "bernoulli").arithmetic(Arithmetic::Float)).unwrap();
    assert!(float.integer_layers().unwrap().is_empty());
}

/// Returns one input that is 1 or -1 times a weight of 1, in streams of one bit: a sum of one
/// product bit, which is 256 units, and the bias.
fn one_product(bias: f32, add: impl Fn(&mut Graph, ValueId) -> ValueId) -> Network {
    let mut graph = Graph::new("one");
    let x = input(&mut graph, &[1]);
    let (w, b) =
        (given(&mut graph, "w", &[1.0_f32], &[1, 1]), given(&mut graph, "b", &[bias], &[1]));
    let product = graph.add_node("product", gemm(), &[x, w, b]);
    let y = add(&mut graph, product);
    graph.add_output(y);
    Network::new(graph).unwrap()
}

fn score(network: &Network, x: f64) -> Result<f64, Error> {
    Ok(network.to_streams(&config(1, "bernoulli"))?.forward(&[x], 0)?[0])
}

#[test]
fn clip_bounds_at_the_ends_of_a_width_are_exact() {
    // A product of 256 units and a bias of 255 are 511, the maximum of ten bits; a weight of 1024
    // makes the units larger than 1.
    for weight in [1.0, 1024.0] {
        let unit = weight / 256.0;
        let clipped = |x: f64, bias: f32, low: f32, high: f32| {
            let mut graph = Graph::new("one");
            let value = input(&mut graph, &[1]);
            let w = given(&mut graph, "w", &[weight], &[1, 1]);
            let [bias, low, high] =
                [("bias", bias, &[1][..]), ("low", low, &[]), ("high", high, &[])]
                    .map(|(name, value, shape)| given(&mut graph, name, &[value * unit], shape));
            let product = graph.add_node("product", gemm(), &[value, w, bias]);
            let y =
                graph.add_node("clip", Op::Clip { low: None, high: None }, &[product, low, high]);
            graph.add_output(y);
            score(&Network::new(graph).unwrap(), x).unwrap() / f64::from(unit)
        };
        for low in [-1e30, -513.0, -512.0, -511.0, -510.0, -128.0, 9.0] {
            let expected = f64::from(low).max(-511.0);
            assert_eq!(clipped(-1.0, -255.0, low, 1e30), expected, "{weight}: {low}");
        }
        for high in [1e30, 512.0, 511.0, 510.0, 128.0, -9.0] {
            let expected = f64::from(high).min(511.0);
            assert_eq!(clipped(1.0, 255.0, -1e30, high), expected, "{weight}: {high}");
        }
        // A bound may exceed all values.
        assert_eq!(clipped(1.0, 255.0, 4096.0, 1e30), 4096.0);
    }
    // All become -1024, the minimum of eleven bits, plus one.
    let twice = one_product(0.0, |graph, value| {
        let clip = |low, high| Op::Clip { low, high };
        let down = graph.add_node("down", clip(None, Some(-4.0)), &[value]);
        graph.add_node("up", clip(Some(-1023.0 / 256.0), None), &[down])
    });
    assert_eq!(score(&twice, 1.0).unwrap(), -1023.0 / 256.0);
}

#[test]
fn constant_may_be_either_operand_of_a_sum() {
    let with = |op: Binary, constant_first: bool| {
        let network = one_product(0.5, |graph, value| {
            let term = given(graph, "term", &[3.25_f32], &[1]);
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

/// Widths add up as those of two's complement do, up to 63 bits.
#[test]
fn integers_wider_than_63_bits_between_layers_are_errors() {
    type Add<'a> = &'a dyn Fn(&mut Graph, ValueId) -> ValueId;
    // Units are 2^-8, so 2^e has 2^(e + 8) of them, which takes e + 10 bits; a sum has one more.
    let large = |graph: &mut Graph, value: ValueId, exponent: i32, add: Add<'_>| {
        let term = given(graph, "term", &[2f32.powi(exponent)], &[1]);
        let large = graph.add_node("large", Op::Binary(Binary::Add), &[value, term]);
        add(graph, large)
    };
    let of = |exponent: i32, add: Add<'_>| {
        let network = one_product(0.0, |graph, value| large(graph, value, exponent, add));
        score(&network, 1.0).unwrap()
    };
    let refused = |exponent: i32, add: Add<'_>| {
        let network = one_product(0.0, |graph, value| {
            let built = large(graph, value, exponent, add);
            let v = given(graph, "v", &[1.0_f32], &[1, 1]);
            graph.add_node("behind", gemm(), &[built, v])
        });
        match score(&network, 1.0) {
            Err(Error::NoIntegerForm { nodes }) => (nodes[0].name.clone(), nodes[0].reason.clone()),
            other => panic!("{other:?}"),
        }
    };
    let needs = |name: &str, bits: u32| {
        (name.to_owned(), format!("it would need {bits} bits, more than 63"))
    };
    let nothing = |_: &mut Graph, value: ValueId| value;
    let units = |exponent: i32| ((1_i64 << (exponent + 8)) + 256) as f64 / 256.0;
    assert_eq!(of(52, &nothing), units(52));
    assert_eq!(refused(53, &nothing), needs("large", 64));
    // After the last layer, a node without an integer form runs on tensors of 32 bits.
    assert_eq!(of(53, &nothing), 2f64.powi(53));
    let twice = |graph: &mut Graph, value: ValueId| {
        graph.add_node("twice", Op::Binary(Binary::Add), &[value, value])
    };
    assert_eq!(of(51, &twice), 2.0 * units(51));
    assert_eq!(refused(52, &twice), needs("twice", 64));
    // In units eight times as coarse on one side, which are three bits more on the other's, and one
    // for the ratio itself.
    let nine = |graph: &mut Graph, value: ValueId| {
        let eight = given(graph, "eight", &[8.0_f32], &[1]);
        let times = graph.add_node("times", Op::Binary(Binary::Mul), &[value, eight]);
        graph.add_node("nine", Op::Binary(Binary::Add), &[times, value])
    };
    assert_eq!(of(20, &nine), 9.0 * units(20));
    assert_eq!(of(47, &nine), (9 * ((1_i64 << 55) + 256)) as f64 / 256.0);
    assert_eq!(refused(48, &nine), needs("nine", 59 + 4 + 1));
}

/// A factor that is not positive, and a mean of different units, have no integer form; after the
/// last layer they run on tensors.
#[test]
fn nodes_without_integer_form_after_the_last_layer_run_on_tensors() {
    let with = |add: &dyn Fn(&mut Graph, ValueId) -> ValueId| {
        let built = crate::support::network(&[6], |graph, x| {
            let (w, b) = (constant(graph, "w", &[6, 6], 1), constant(graph, "b", &[6], 2));
            let first = graph.add_node("first", gemm(), &[x, w, b]);
            add(graph, first)
        });
        let built = built.calibrated(&features(60, 4), &Calibration::default()).unwrap();
        built.to_streams(&config(64, "sobol")).unwrap().forward(&features(30, 5), 0).unwrap()
    };
    let plain = with(&|_, x| x);
    let negated = with(&|graph, x| {
        let minus = given(graph, "minus", &[-1.0_f32], &[]);
        graph.add_node("negated", Op::Binary(Binary::Mul), &[x, minus])
    });
    for (a, b) in negated.iter().zip(&plain) {
        assert_eq!(*a, -f64::from(*b as f32));
    }
    let mean = with(&|graph, x| {
        let op = Op::Reduce {
            reduction: Reduction::Mean,
            axes: Some(vec![1]),
            reduced: Dims::Keep,
            no_axes: NoAxes::All,
        };
        graph.add_node("mean", op, &[x])
    });
    for (mean, values) in mean.iter().zip(plain.chunks(6)) {
        assert!((mean - values.iter().sum::<f64>() / 6.0).abs() < 1e-6, "{mean} {values:?}");
    }
}

/// A graph that fixes its samples may have constants for each of them.
#[test]
fn terms_of_a_fixed_batch_may_differ_between_samples() {
    let mut graph = Graph::new("two samples");
    let shape = Some(vec![Dim::Fixed(2), Dim::Fixed(1)]);
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let w = given(&mut graph, "w", &[1.0_f32], &[1, 1]);
    let product = graph.add_node("product", gemm(), &[x, w]);
    let terms = given(&mut graph, "terms", &[0.5_f32, -2.0_f32], &[2, 1]);
    let y = graph.add_node("sum", Op::Binary(Binary::Add), &[product, terms]);
    graph.add_output(y);
    let streams = Network::new(graph).unwrap().to_streams(&config(1, "bernoulli")).unwrap();
    assert_eq!(streams.forward(&[1.0, -1.0], 0).unwrap(), [1.5, -3.0]);
}

/// Axes given as an input: of means in integers, and of nodes on floats after the last streams.
#[test]
fn reduced_axes_may_be_an_input() {
    let with = |reduction: Reduction, axes: Option<Vec<i64>>| {
        let mut graph = Graph::new("reduced");
        let x = input(&mut graph, &[1, 4, 4]);
        let k = constant(&mut graph, "k", &[3, 1, 3, 3], 1);
        let conv = Op::Conv { window: window(&[1, 1], &[0, 0, 0, 0]), groups: 1 };
        let conv = graph.add_node("conv", conv, &[x, k]);
        let op =
            Op::Reduce { reduction, axes: axes.clone(), reduced: Dims::Drop, no_axes: NoAxes::All };
        let mut inputs = vec![conv];
        if axes.is_none() {
            inputs.push(given(&mut graph, "axes", &[2_i64, 3_i64], &[2]));
        }
        let y = graph.add_node("reduced", op, &inputs);
        graph.add_output(y);
        let network = Network::new(graph).unwrap();
        network.to_streams(&config(64, "sobol")).unwrap().forward(&features(32, 5), 0).unwrap()
    };
    for reduction in [Reduction::Mean, Reduction::Max, Reduction::Sum] {
        let given = with(reduction, Some(vec![2, 3]));
        assert_eq!((given.len(), &with(reduction, None)), (6, &given), "{reduction:?}");
    }
}

/// Neurons of weights 1 and 1/4; the fewer of weight 1 exceed the scale that half of the inputs do
/// not exceed.
#[test]
fn inputs_beyond_the_scale_are_counted_as_saturated() {
    // With few equal units, integers become thresholds one by one, with many of them together.
    for (n_large, n_small) in [(3, 5), (9, 12)] {
        let n = n_large + n_small;
        let mut graph = Graph::new("saturated");
        let x = input(&mut graph, &[1]);
        let weights: Vec<f32> = (0..n).map(|k| if k < n_large { 1.0 } else { 0.25 }).collect();
        let w = given(&mut graph, "w", &weights, &[n, 1]);
        let first = graph.add_node("first", gemm(), &[x, w]);
        let v = constant(&mut graph, "v", &[2, n], 3);
        let y = graph.add_node("second", gemm(), &[first, v]);
        graph.add_output(y);
        let calibration =
            Calibration { inputs: InputScale::Percentile(0.5), weights: WeightScale::Tensor };
        let network = Network::new(graph).unwrap().calibrated(&[1.0; 4], &calibration).unwrap();
        assert_eq!(network.layers()[1].input_scale, 0.25);
        // A quarter of the first 64 numbers of the sequence is below a quarter.
        let streams = network.to_streams(&config(64, "sobol")).unwrap();
        let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
        let found = streams.run(&[1.0; 5], 0, detail, Cancel::NEVER).unwrap();
        let saturated: Vec<u64> = found.statistics.iter().map(|layer| layer.saturated).collect();
        assert_eq!(saturated, [0, 5 * n_large as u64]);
    }
}
