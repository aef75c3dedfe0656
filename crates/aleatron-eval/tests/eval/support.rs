//! Networks, samples and plans that several files use.

use aleatron_core::Cancel;
use aleatron_core::Polarity::Bipolar;
use aleatron_core::arithmetic::Activation;
use aleatron_core::generator::GeneratorName;
use aleatron_data::Dataset;
use aleatron_engine::network::{Calibration, Graph, Network, NetworkBuilder, Op};
use aleatron_eval::{
    Cell, Classification, ClassificationRow, Evaluation, Figures, FloatAccuracy, FloatFigures,
    Plan, Row, evaluate,
};
use aleatron_graph::op::{Padding, Window};
use aleatron_graph::{Dim, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Element, Tensor};

/// Figures of a classification, which tests read and change.
pub(crate) trait Classes {
    type Figures;
    fn classes(&self) -> &Self::Figures;
    fn classes_mut(&mut self) -> &mut Self::Figures;
}

macro_rules! classes {
    ($holder:ty, $figures:ty) => {
        impl Classes for $holder {
            type Figures = $figures;

            fn classes(&self) -> &$figures {
                self.figures.classification().unwrap()
            }

            fn classes_mut(&mut self) -> &mut $figures {
                match &mut self.figures {
                    Figures::Classification(figures) => figures,
                    Figures::Regression(_) => panic!("a regression has no classes"),
                }
            }
        }
    };
}

classes!(Cell, Classification);
classes!(Row, ClassificationRow);

/// Returns the accuracy of floating point as a figure.
pub(crate) fn float_accuracy(accuracy: f64) -> FloatFigures {
    Figures::Classification(FloatAccuracy { accuracy })
}

pub(crate) fn generator(name: &str) -> GeneratorName {
    name.parse().unwrap()
}

/// Returns two bipolar layers of a few weights that run in no time.
pub(crate) fn network() -> Network {
    NetworkBuilder::new("n", &[2])
        .dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[])
        .polarity(Bipolar)
        .weight_scale(1.0)
        .dense("b", 2, &[0.75, -1.0, 0.5, 0.25, 0.0, -0.5], &[])
        .polarity(Bipolar)
        .weight_scale(1.0)
        .build()
        .unwrap()
}

/// Returns three samples for it.
pub(crate) fn samples() -> Dataset {
    Dataset::new("d", 2, vec![0.5, -0.5, 1.0, 0.0, -1.0, 0.25], vec![0, 1, 2]).unwrap()
}

pub(crate) fn plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|name| name.parse().unwrap()).collect();
    Plan {
        generators,
        lengths: lengths.to_vec(),
        seeds: 2,
        margins: vec![1.0, 2.0],
        ..Plan::default()
    }
}

/// Returns a plan of one seed with the margins of the default.
pub(crate) fn one_seed(generator: &str, lengths: &[usize]) -> Plan {
    let generators = vec![generator.parse().unwrap()];
    Plan { lengths: lengths.to_vec(), generators, seeds: 1, ..Plan::default() }
}

/// Returns the evaluation of the small network.
pub(crate) fn run(plan: &Plan) -> Evaluation {
    evaluated(&network(), &samples(), plan)
}

/// Returns the whole evaluation of a network.
pub(crate) fn evaluated(network: &Network, data: &Dataset, plan: &Plan) -> Evaluation {
    evaluate(network, data, plan, None, Cancel::NEVER, |_| ()).unwrap()
}

/// Returns one dense layer of two neurons and one input, followed by an activation.
pub(crate) fn two_scores(weights: [f64; 2], bias: &[f64], activation: Activation) -> Network {
    NetworkBuilder::new("n", &[1])
        .dense("a", 1, &weights, bias)
        .polarity(aleatron_core::Polarity::Unipolar)
        .activation(activation)
        .build()
        .unwrap()
}

/// Numbers in [-1, 1) that look random and are the same every time.
pub(crate) fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
        })
        .collect()
}

pub(crate) fn features(n: usize, seed: u64) -> Vec<f64> {
    numbers(n, seed).into_iter().map(f64::from).collect()
}

pub(crate) fn constant(graph: &mut Graph, name: &str, shape: &[usize], seed: u64) -> ValueId {
    given(graph, name, &numbers(shape.iter().product(), seed), shape)
}

pub(crate) fn given<T: Element>(
    graph: &mut Graph,
    name: &str,
    values: &[T],
    shape: &[usize],
) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
}

pub(crate) fn gemm() -> Op {
    Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true }
}

pub(crate) fn same_convolution() -> Op {
    Op::Conv { window: window(&[1, 1], &[1, 1, 1, 1]), groups: 1 }
}

fn window(strides: &[i64], pads: &[i64]) -> Window {
    Window {
        kernel: Vec::new(),
        strides: strides.to_vec(),
        dilations: Vec::new(),
        padding: Padding::Explicit(pads.to_vec()),
    }
}

/// Returns a network over samples of a shape.
pub(crate) fn graph(
    sample: &[usize],
    build: impl FnOnce(&mut Graph, ValueId) -> ValueId,
) -> Network {
    let mut graph = Graph::new("test");
    let sizes = sample.iter().map(|&n| Dim::Fixed(n));
    let shape = Some(std::iter::once(Dim::Named("n".to_owned())).chain(sizes).collect());
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let y = build(&mut graph, x);
    graph.add_output(y);
    Network::new(graph).unwrap()
}

/// Returns a dense layer alone, of six inputs and four neurons.
pub(crate) fn dense() -> Network {
    graph(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[4, 6], 1), constant(graph, "b", &[4], 2));
        graph.add_node("fc", gemm(), &[x, w, b])
    })
}

/// Returns a convolution, relu and a dense layer, on images of 2 x 5 x 4.
pub(crate) fn cnn() -> Network {
    graph(&[2, 5, 4], |graph, x| {
        let (k, b) = (constant(graph, "k", &[3, 2, 3, 3], 1), constant(graph, "kb", &[3], 2));
        let window = window(&[2, 1], &[1, 0, 1, 1]);
        let conv = graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, k, b]);
        let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv]);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[relu]);
        let (w, b) = (constant(graph, "w", &[3, 27], 3), constant(graph, "b", &[3], 4));
        graph.add_node("fc", gemm(), &[flat, w, b])
    })
}

/// Returns the CNN, calibrated, and samples with its classes in floating point.
pub(crate) fn labelled(n: usize) -> (Network, Dataset) {
    let x = features(n * 40, 21);
    let network = cnn().calibrated(&x, &Calibration::default()).unwrap();
    let labels = network.predict(&x).unwrap();
    (network, Dataset::new("made", 40, x, labels).unwrap())
}

/// Returns two layers, the second of which has scales of its own, on samples of eight features.
pub(crate) fn scaled() -> Network {
    let twice: Vec<f64> = features(32, 2).iter().map(|weight| 2.0 * weight).collect();
    NetworkBuilder::new("scaled", &[8])
        .dense("first", 8, &features(64, 1), &[])
        .polarity(Bipolar)
        .weight_scale(1.0)
        .activation(Activation::Relu)
        .dense("last", 8, &twice, &[])
        .polarity(Bipolar)
        .input_scale(4.0)
        .weight_scale(2.0)
        .build()
        .unwrap()
}
