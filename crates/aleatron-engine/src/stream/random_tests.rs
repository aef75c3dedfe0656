//! Random networks: every split of a batch, number of threads and backend gives the scores of the
//! reference.

#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::Device;
use crate::backend::PreparedLayer;
use crate::network::{Arithmetic, Batching, Calibration, Graph, Mode, Op, ValueRange};
use aleatron_core::conformance::{Case, LayerCase, Reference};
use aleatron_core::program::{ProgramBatch, ProgramOutput, SlotId, plain};
use aleatron_core::{LayerSpec, Polarity, Weights};
use aleatron_graph::op::{
    Dims, NoAxes, Padding, Pooling, Reduction, Rounding, Softmax, SoftmaxAxes, Window,
};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_tensor::{DType, Tensor};

/// The largest number of elements of a value of a sample.
const MAX_ELEMENTS: usize = 96;

const SEEDS: u64 = 60;

/// Runs programs one element at a time, with the counts of the reference.
#[derive(Debug)]
struct PlainBackend;

#[derive(Debug)]
struct PlainProgram(Arc<Program>);

impl Backend for PlainBackend {
    fn name(&self) -> String {
        "plain".to_owned()
    }

    fn prepare(
        &self,
        _: &LayerSpec,
        _: &Weights,
        _: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Box<dyn PreparedLayer>> {
        Err(aleatron_core::Error::Internal { place: "PlainBackend::prepare" })
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        _: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Option<Box<dyn PreparedProgram>>> {
        Ok(Some(Box::new(PlainProgram(Arc::clone(program)))))
    }
}

impl PreparedProgram for PlainProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        _: Cancel<'_>,
    ) -> aleatron_core::Result<ProgramOutput> {
        plain::run(&self.0, batch, slots, |layer, thresholds, seed| {
            let ProgramLayer { spec, weights, .. } = &self.0.layers()[layer];
            Ok(Reference.answer(&Case::Layer(LayerCase {
                weights: spec.weight_thresholds(weights)?,
                inputs: thresholds.to_vec(),
                seed,
                method: CountMethod::Best,
                spec: spec.clone(),
            })))
        })
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some("plain".to_owned())
    }
}

/// A deterministic source of random numbers.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Draws a number in [-1, 1).
    fn number(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn features(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| f64::from(self.number())).collect()
    }
}

/// A graph that is extended node by node.
struct RandomGraph {
    graph: Graph,
    random: Random,
    /// All values so far, with the shapes of a sample.
    values: Vec<(ValueId, Vec<usize>)>,
}

impl RandomGraph {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let shape = [random.within(1, 3), random.within(2, 5), random.within(2, 5)].to_vec();
        let mut graph = Graph::new(format!("random {seed}"));
        let sizes = shape.iter().copied().map(Dim::Fixed);
        let all = Some(std::iter::once(Dim::Named("n".to_owned())).chain(sizes).collect());
        let x =
            graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: all });
        Self { graph, random, values: vec![(x, shape)] }
    }

    fn last(&self) -> (ValueId, Vec<usize>) {
        self.values[self.values.len() - 1].clone()
    }

    fn add(&mut self, op: Op, inputs: &[ValueId], shape: Vec<usize>) {
        let name = format!("{}{}", op.name(), self.values.len());
        let built = self.graph.add_node(name, op, inputs);
        self.values.push((built, shape));
    }

    fn constant(&mut self, shape: &[usize], map: impl Fn(f32) -> f32) -> ValueId {
        let n = shape.iter().product();
        let values: Vec<f32> = (0..n).map(|_| map(self.random.number())).collect();
        let name = format!("c{}", self.graph.n_values());
        let tensor = Tensor::from_slice(&values, shape, &aleatron_tensor::Device::Cpu).unwrap();
        self.graph.add_constant(name, tensor)
    }

    /// Adds a node that fits the last value.
    fn grow(&mut self) {
        let (x, shape) = self.last();
        let (n, rank) = (shape.iter().product::<usize>(), shape.len());
        match (self.random.below(12), rank) {
            (0..=2, 3) => self.convolution(x, &shape),
            (0..=1, 1 | 2) => self.dense(x, &shape),
            (3, 3) => self.pool(x, &shape),
            (4, _) => self.add(Op::Unary(Unary::Relu), &[x], shape),
            (5, _) => self.add(Op::Clip { low: Some(-0.75), high: Some(1.5) }, &[x], shape),
            (6, _) => {
                // A residual sum with any value of this shape, or with itself.
                let same: Vec<ValueId> = self.values[1..]
                    .iter()
                    .filter(|(_, other)| *other == shape)
                    .map(|(id, _)| *id)
                    .collect();
                let Some(first) = same.first() else { return };
                let other = if self.random.below(2) == 0 { *first } else { same[same.len() - 1] };
                let op = self.random.choose(&[Binary::Add, Binary::Sub]);
                self.add(Op::Binary(op), &[x, other], shape);
            }
            (7, _) => {
                let op = self.random.choose(&[Binary::Add, Binary::Sub, Binary::Mul]);
                let mut sizes = vec![1; rank];
                sizes[0] = shape[0];
                let constant = match op {
                    Binary::Mul => self.constant(&sizes, |value| value.abs() + 0.25),
                    _ => self.constant(&sizes, |value| value),
                };
                self.add(Op::Binary(op), &[x, constant], shape);
            }
            (8, 2 | 3) => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(self.random.below(rank), self.random.below(rank));
                let order =
                    std::iter::once(0).chain(axes.iter().map(|&axis| axis as i64 + 1)).collect();
                let turned = axes.iter().map(|&axis| shape[axis]).collect();
                self.add(Op::Transpose { order: Some(order) }, &[x], turned);
            }
            (9, 3) => {
                let shape = vec![shape[0], n / shape[0]];
                let sizes = [-1, shape[0] as i64, shape[1] as i64].to_vec();
                self.add(Op::Reshape { shape: Some(sizes), allow_zero: false }, &[x], shape);
            }
            (9, _) => self.add(Op::Flatten { axis: 1 }, &[x], vec![n]),
            (10, _) if 2 * n <= MAX_ELEMENTS => {
                self.add(Op::Concat { axis: 1 }, &[x, x], [&[2 * shape[0]], &shape[1..]].concat());
            }
            // Nodes on tensors.
            (11, _) => {
                let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) };
                let op = self.random.choose(&[
                    Op::Unary(Unary::Tanh),
                    Op::Unary(Unary::Sigmoid),
                    softmax,
                ]);
                self.add(op, &[x], shape);
            }
            _ => {}
        }
    }

    fn convolution(&mut self, x: ValueId, shape: &[usize]) {
        let channels = shape[0];
        let groups = self.random.choose(&[1, channels]);
        let out = groups * self.random.within(1, if groups == 1 { 4 } else { 2 });
        let kernel = [0, 1].map(|axis| self.random.within(1, shape[axis + 1].min(3)));
        let (window, sizes) = self.window(kernel, shape);
        if out * sizes[0] * sizes[1] > MAX_ELEMENTS {
            return;
        }
        let mut inputs =
            vec![x, self.constant(&[out, channels / groups, kernel[0], kernel[1]], |w| w)];
        if self.random.below(2) == 0 {
            inputs.push(self.constant(&[out], |b| b));
        }
        let op = Op::Conv { window, groups: groups as i64 };
        self.add(op, &inputs, vec![out, sizes[0], sizes[1]]);
    }

    /// Draws a window with strides and padding. Returns it with the sizes after it.
    fn window(&mut self, kernel: [usize; 2], shape: &[usize]) -> (Window, [usize; 2]) {
        let strides = [(); 2].map(|()| self.random.within(1, 2));
        let pads = [(); 4].map(|()| self.random.below(2));
        // Padding is smaller than the window, so that every window has an element.
        let pads = [0, 1, 2, 3].map(|k| pads[k].min(kernel[k % 2] - 1));
        let size = |axis: usize| {
            (shape[axis + 1] + pads[axis] + pads[axis + 2] - kernel[axis]) / strides[axis] + 1
        };
        let window = Window {
            kernel: kernel.map(|size| size as i64).to_vec(),
            strides: strides.map(|stride| stride as i64).to_vec(),
            dilations: Vec::new(),
            padding: Padding::Explicit(pads.map(|pad| pad as i64).to_vec()),
        };
        (window, [size(0), size(1)])
    }

    fn pool(&mut self, x: ValueId, shape: &[usize]) {
        let kernel = [0, 1].map(|axis| self.random.within(1, shape[axis + 1].min(3)));
        let (window, sizes) = self.window(kernel, shape);
        let kinds = [
            Pooling::Max { column_major: false },
            Pooling::Average { count_padding: false },
            Pooling::Average { count_padding: true },
        ];
        let pooling = self.random.choose(&kinds);
        let op = Op::Pool { pooling, window, rounding: Rounding::Down };
        self.add(op, &[x], vec![shape[0], sizes[0], sizes[1]]);
    }

    fn dense(&mut self, x: ValueId, shape: &[usize]) {
        let (n, m) = (shape[shape.len() - 1], self.random.within(1, 6));
        let w = self.constant(&[n, m], |w| w);
        self.add(Op::MatMul, &[x, w], [&shape[..shape.len() - 1], &[m]].concat());
    }

    /// Subtracts the mean over all samples.
    fn center(&mut self) {
        let (x, shape) = self.last();
        let (reduction, axes) = (Reduction::Mean, Some(vec![0]));
        let op = Op::Reduce { reduction, axes, reduced: Dims::Keep, no_axes: NoAxes::All };
        let mean = self.graph.add_node("mean", op, &[x]);
        self.add(Op::Binary(Binary::Sub), &[x, mean], shape);
    }

    /// Ends with a dense layer of a few scores, and sometimes a softmax after it.
    fn finish(mut self) -> (Network, Random) {
        let (x, shape) = self.last();
        let n = shape.iter().product();
        if shape.len() > 1 {
            self.add(Op::Flatten { axis: 1 }, &[x], vec![n]);
        }
        let (x, _) = self.last();
        let m = self.random.within(2, 5);
        let (w, b) = (self.constant(&[m, n], |w| w), self.constant(&[m], |b| b));
        let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
        self.add(gemm, &[x, w, b], vec![m]);
        if self.random.below(4) == 0 {
            let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) };
            let (x, shape) = self.last();
            self.add(softmax, &[x], shape);
        }
        self.graph.add_output(self.last().0);
        (Network::new(self.graph).unwrap(), self.random)
    }
}

/// Returns a calibrated network of up to ten random nodes.
fn network(seed: u64) -> (Network, Random) {
    let mut graph = RandomGraph::new(seed);
    (0..graph.random.within(2, 10)).for_each(|_| graph.grow());
    let (network, mut random) = graph.finish();
    assert_eq!(network.batching(), Batching::Independent, "{seed}");
    let x = random.features(10 * network.n_features());
    (network.calibrated(&x, &Calibration::default()).unwrap(), random)
}

/// Returns a configuration with overrides for some layers; some others run in binary.
fn configured(mut network: Network, random: &mut Random) -> (Network, StreamConfig) {
    let generators =
        ["bernoulli", "sobol", "lfsr", "halton", "bernoulli+sobol:2", "sobol:1+bernoulli"];
    let generator = random.choose(&generators).parse().unwrap();
    let length = random.choose(&[1, 7, 32, 64, 100]);
    let mut config = StreamConfig::new(length)
        .generator(generator)
        .seed(random.word())
        .range(ValueRange::Saturate);
    network = network.with_polarity(random.choose(&[Polarity::Signed, Polarity::Bipolar])).unwrap();
    for name in network.layers().iter().map(|layer| layer.name.clone()).collect::<Vec<_>>() {
        match random.below(8) {
            0 => network = network.with_mode(&name, Mode::Binary).unwrap(),
            1 => config = config.layer(&name, "length=48,generator=sobol".parse().unwrap()),
            2 => config = config.layer(&name, "length=9,generator=bernoulli".parse().unwrap()),
            _ => {}
        }
    }
    (network, config)
}

/// Returns the network on the reference.
fn on_plain(streams: &StreamNetwork) -> StreamNetwork {
    StreamNetwork {
        network: Arc::clone(&streams.network),
        config: streams.config.clone(),
        runner: streams.network.runner().unwrap(),
        backend: Arc::new(PlainBackend),
        score_layer: streams.score_layer,
        cached: Mutex::default(),
    }
}

fn bits(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|score| score.to_bits()).collect()
}

const EVERYTHING: Detail = Detail {
    statistics: Measured::Enabled,
    layers: Measured::Enabled,
    score_layer: Measured::Enabled,
    nodes: Measured::Enabled,
};

#[test]
fn random_networks_match_reference_for_any_split_threads_and_details() {
    let mut ran = [0_u64; 2];
    for seed in 0..SEEDS {
        let (network, mut random) = network(seed);
        let (network, config) = configured(network, &mut random);
        let (width, n_outputs) = (network.n_features(), network.n_outputs());
        let n = random.within(1, 7);
        let (x, first) = (random.features(n * width), random.below(1000) as u32);
        for arithmetic in Arithmetic::ALL {
            let what = format!("network {seed}, {arithmetic}");
            let config = config.clone().arithmetic(arithmetic);
            let streams = match network.to_streams(&config) {
                Err(Error::NoIntegerForm { .. }) if arithmetic == Arithmetic::Integer => continue,
                built => built.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            ran[usize::from(arithmetic == Arithmetic::Integer)] += 1;
            let whole = bits(&streams.forward(&x, first).unwrap());
            assert_eq!(whole.len(), n * n_outputs, "{what}");
            assert_eq!(
                whole,
                bits(&on_plain(&streams).forward(&x, first).unwrap()),
                "{what}, plain"
            );
            for size in [1, 2, 3] {
                let chunks = x.chunks(size * width).enumerate().flat_map(|(k, x)| {
                    bits(&streams.forward(x, first + (k * size) as u32).unwrap())
                });
                assert_eq!(whole, chunks.collect::<Vec<_>>(), "{what}, chunks of {size}");
            }
            let output = streams.run(&x, first, EVERYTHING, Cancel::NEVER).unwrap();
            assert_eq!(whole, bits(&output.scores), "{what}, with details");
            let plain = on_plain(&streams).run(&x, first, EVERYTHING, Cancel::NEVER).unwrap();
            assert_eq!(output.layers, plain.layers, "{what}");
            assert_eq!(
                (output.saturated, output.statistics),
                (plain.saturated, plain.statistics),
                "{what}"
            );
            for threads in [1, 2, 3] {
                aleatron_cpu::set_num_threads(threads).unwrap();
                assert_eq!(
                    whole,
                    bits(&streams.forward(&x, first).unwrap()),
                    "{what}, {threads} threads"
                );
            }
            let pool = config.clone().device(Device::Pool(vec![Device::Cpu, Device::Cpu]));
            let pool = network.to_streams(&pool).unwrap();
            assert_eq!(whole, bits(&pool.forward(&x, first).unwrap()), "{what}, pool");
            let read = Network::from_onnx(&network.to_onnx().unwrap())
                .unwrap()
                .to_streams(&config)
                .unwrap();
            assert_eq!(whole, bits(&read.forward(&x, first).unwrap()), "{what}, from a file");
        }
    }
    assert!(ran[0] == SEEDS && ran[1] >= 20, "{ran:?}");
}

#[test]
fn random_networks_that_mix_samples_match_reference() {
    for seed in 0..SEEDS {
        let mut graph = RandomGraph::new(seed);
        (0..graph.random.within(0, 5)).for_each(|_| graph.grow());
        graph.center();
        (0..graph.random.within(0, 5)).for_each(|_| graph.grow());
        let (network, mut random) = graph.finish();
        assert_eq!(network.batching(), Batching::Whole, "{seed}");
        let (network, config) = configured(network, &mut random);
        let (n, first) = (random.within(1, 5), random.below(1000) as u32);
        let x = random.features(n * network.n_features());
        for arithmetic in Arithmetic::ALL {
            let streams = match network.to_streams(&config.clone().arithmetic(arithmetic)) {
                Err(Error::NoIntegerForm { .. }) if arithmetic == Arithmetic::Integer => continue,
                built => {
                    built.unwrap_or_else(|error| panic!("network {seed}, {arithmetic}: {error}"))
                }
            };
            let [scores, plain] = [&streams, &on_plain(&streams)]
                .map(|streams| bits(&streams.forward(&x, first).unwrap()));
            assert_eq!(
                (scores.len(), &scores),
                (n * network.n_outputs(), &plain),
                "{seed}, {arithmetic}"
            );
        }
    }
}

/// Elements in a wrong order would cause errors as large as the scores.
#[test]
fn long_streams_of_random_networks_approach_floating_point() {
    for seed in 0..SEEDS {
        let (network, mut random) = network(seed);
        let x = random.features(6 * network.n_features());
        // Scales of these samples: nothing saturates.
        let network = network.calibrated(&x, &Calibration::default()).unwrap();
        let exact = network.forward(&x).unwrap();
        let norm = |values: &mut dyn Iterator<Item = f64>| {
            values.map(|value| value * value).sum::<f64>().sqrt()
        };
        for arithmetic in Arithmetic::ALL {
            let config = StreamConfig::new(1 << 12)
                .generator("sobol".parse().unwrap())
                .range(ValueRange::Saturate)
                .arithmetic(arithmetic);
            let Ok(streams) = network.to_streams(&config) else { continue };
            let scores = streams.forward(&x, 0).unwrap();
            let error = norm(&mut scores.iter().zip(&exact).map(|(a, b)| a - b));
            let size = norm(&mut exact.iter().copied());
            assert!(error <= 0.1 * size, "network {seed}, {arithmetic}: {error} of {size}");
        }
    }
}
