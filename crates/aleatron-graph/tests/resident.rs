//! Networks on a GPU read nothing back between their inputs and their outputs.
#![allow(clippy::unwrap_used, clippy::panic)]

use aleatron_device::{AdapterChoice, Capabilities, ContextOptions};
use aleatron_graph::op::{
    Attention, Dims, NoAxes, Padding, Pooling, Reduction, Rounding, ShownScores, Softmax,
    SoftmaxAxes, Window,
};
use aleatron_graph::{Binary, Dim, Graph, Op, Runner, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, GpuDevice, Tensor};

/// Returns the adapter that the environment names, or Mesa's software one. A missing adapter is a
/// failure.
fn gpu(options: &ContextOptions) -> GpuDevice {
    let choice = match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    };
    GpuDevice::open(&choice, options).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

/// Returns a device with all of its abilities, and one without optional ones such as 64-bit
/// integers.
fn gpus() -> [GpuDevice; 2] {
    let plain = ContextOptions { capabilities: Capabilities::NONE, ..ContextOptions::default() };
    [gpu(&ContextOptions::default()), gpu(&plain)]
}

/// A graph under construction, with weights that differ from each other.
struct Builder {
    graph: Graph,
    n: usize,
}

impl Builder {
    fn new(name: &str) -> Self {
        Self { graph: Graph::new(name), n: 0 }
    }

    /// Returns an input of samples whose other axes have these sizes; 0 is any size.
    fn input(&mut self, name: &str, dtype: DType, sizes: &[usize]) -> ValueId {
        let axes = sizes.iter().enumerate().map(|(axis, &size)| match size {
            0 => Dim::Named(format!("n{axis}")),
            size => Dim::Fixed(size),
        });
        let shape = [Dim::Named("n".to_owned())].into_iter().chain(axes).collect();
        self.graph.add_input(Value {
            name: name.to_owned(),
            dtype: Some(dtype),
            shape: Some(shape),
        })
    }

    /// Weights of magnitudes up to 0.5, around a number.
    fn weights(&mut self, shape: &[usize], around: f32) -> ValueId {
        self.n += 1;
        let len = shape.iter().product::<usize>();
        let data: Vec<f32> =
            (0..len).map(|k| around + ((k * 7 + self.n * 13) as f32).sin() / 2.0).collect();
        self.constant(&Tensor::from_slice(&data, shape, &Device::Cpu).unwrap())
    }

    fn constant(&mut self, tensor: &Tensor) -> ValueId {
        self.n += 1;
        self.graph.add_constant(format!("c{}", self.n), tensor.clone())
    }

    fn float(&mut self, value: f32) -> ValueId {
        self.constant(&Tensor::from_slice(&[value], &[], &Device::Cpu).unwrap())
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant(&Tensor::from_slice(values, &[values.len()], &Device::Cpu).unwrap())
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.n += 1;
        self.graph.add_node(format!("n{}", self.n), op, inputs)
    }

    fn conv(&mut self, x: ValueId, [from, to, kernel, stride]: [usize; 4]) -> ValueId {
        let w = self.weights(&[to, from, kernel, kernel], 0.0);
        let window = window(kernel, stride);
        let y = self.node(Op::Conv { window, groups: 1 }, &[x, w]);
        let parameters = [(to, 1.0), (to, 0.0), (to, 0.0), (to, 1.0)];
        let [scale, bias, mean, variance] =
            parameters.map(|(n, around)| self.weights(&[n], around));
        let norm = Op::BatchNormalization { epsilon: 1e-5, momentum: 0.9, training: false };
        self.node(norm, &[y, scale, bias, mean, variance])
    }

    fn linear(&mut self, x: ValueId, from: usize, to: usize) -> ValueId {
        let (w, b) = (self.weights(&[from, to], 0.0), self.weights(&[to], 0.0));
        let y = self.node(Op::MatMul, &[x, w]);
        self.node(Op::Binary(Binary::Add), &[y, b])
    }

    fn layer_norm(&mut self, x: ValueId, n: usize) -> ValueId {
        let (scale, bias) = (self.weights(&[n], 1.0), self.weights(&[n], 0.0));
        self.node(Op::LayerNormalization { axis: -1, epsilon: 1e-5 }, &[x, scale, bias])
    }

    /// Returns the Gaussian error linear unit as exporters write it.
    fn gelu(&mut self, x: ValueId) -> ValueId {
        let (root, one, half) = (self.float(2.0_f32.sqrt()), self.float(1.0), self.float(0.5));
        let y = self.node(Op::Binary(Binary::Div), &[x, root]);
        let y = self.node(Op::Unary(Unary::Erf), &[y]);
        let y = self.node(Op::Binary(Binary::Add), &[y, one]);
        let y = self.node(Op::Binary(Binary::Mul), &[x, y]);
        self.node(Op::Binary(Binary::Mul), &[y, half])
    }
}

fn window(kernel: usize, stride: usize) -> Window {
    let pad = kernel as i64 / 2;
    Window {
        kernel: vec![kernel as i64; 2],
        strides: vec![stride as i64; 2],
        dilations: vec![],
        padding: Padding::Explicit(vec![pad; 4]),
    }
}

/// Runs a graph on each GPU, checks that nothing was read, and returns the largest distance from
/// the outputs of the CPU.
fn check(graph: &Graph, inputs: &[Tensor]) -> Vec<f32> {
    // As in normal use: from a file, and simplified.
    let mut graph = Graph::from_onnx(&graph.to_onnx().unwrap()).unwrap();
    graph.simplify().unwrap();
    let of = |device: &Device| Runner::new(graph.clone(), device).unwrap();
    let expected = of(&Device::Cpu).run(inputs.to_vec()).unwrap();
    let mut distances = Vec::new();
    for gpu in gpus() {
        let runner = of(&Device::Gpu(gpu.clone()));
        let before = gpu.reads();
        let outputs = runner.run(inputs.to_vec()).unwrap();
        assert_eq!(gpu.reads() - before, 0, "{} on {gpu}", graph.name());
        let mut largest = 0.0_f32;
        for (output, expected) in outputs.iter().zip(&expected) {
            assert_eq!(output.shape(), expected.shape());
            assert!(output.device().is_gpu());
            let (output, expected) =
                (output.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
            for (got, want) in output.iter().zip(&expected) {
                assert!(got.is_finite());
                largest = largest.max((got - want).abs());
            }
        }
        // The instrument counts: the outputs were read, and once whether all indices were inside.
        assert!(gpu.reads() - before >= outputs.len() as u64);
        distances.push(largest);
    }
    distances
}

#[test]
fn resnet_reads_nothing_back() {
    let mut b = Builder::new("resnet");
    let x = b.input("x", DType::F32, &[3, 32, 32]);
    let y = b.conv(x, [3, 8, 7, 2]);
    let y = b.node(Op::Unary(Unary::Relu), &[y]);
    let pooling = Pooling::Max { column_major: false };
    let pool = Op::Pool { pooling, window: window(3, 2), rounding: Rounding::Down };
    let mut y = b.node(pool, &[y]);
    for (from, to, stride) in [(8, 8, 1), (8, 16, 2)] {
        let inner = b.conv(y, [from, to, 3, stride]);
        let inner = b.node(Op::Unary(Unary::Relu), &[inner]);
        let inner = b.conv(inner, [to, to, 3, 1]);
        let around = if stride == 1 { y } else { b.conv(y, [from, to, 1, stride]) };
        let sum = b.node(Op::Binary(Binary::Add), &[inner, around]);
        y = b.node(Op::Unary(Unary::Relu), &[sum]);
    }
    let y = b.node(Op::GlobalPool(Pooling::Average { count_padding: false }), &[y]);
    let y = b.node(Op::Flatten { axis: 1 }, &[y]);
    let (w, bias) = (b.weights(&[5, 16], 0.0), b.weights(&[5], 0.0));
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let scores = b.node(gemm, &[y, w, bias]);
    let shares = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(1) };
    let y = b.node(shares, &[scores]);
    b.graph.add_output(y);
    let data: Vec<f32> = (0..2 * 3 * 32 * 32).map(|k| (k as f32 * 0.37).sin()).collect();
    let x = Tensor::from_slice(&data, &[2, 3, 32, 32], &Device::Cpu).unwrap();
    let distances = check(&b.graph, std::slice::from_ref(&x));
    b.graph.simplify().unwrap();
    let bound = b.graph.rounding_bound(&[x]).unwrap().unwrap().into_iter().fold(0.0, f64::max);
    for distance in distances {
        assert!(f64::from(distance) <= bound, "{distance} is more than {bound}");
    }
}

/// The form of attention in the network.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Products, a mask that is added, and a softmax; sizes are computed from shapes.
    Exported,
    /// One node.
    Operator,
}

/// Returns two layers over token ids, with a mask of tokens.
fn bert(form: Form) -> Graph {
    const WIDTH: usize = 16;
    const HEADS: usize = 4;
    let mut b = Builder::new("bert");
    let (ids, mask) = (b.input("ids", DType::I64, &[0]), b.input("mask", DType::I64, &[0]));
    let words = b.weights(&[30, WIDTH], 0.0);
    let words = b.node(Op::Gather { axis: 0 }, &[words, ids]);
    // Positions are a range of the length of the ids.
    let shape = b.node(Op::Shape { start: 0, end: None }, &[ids]);
    let scalar = |b: &mut Builder, value: i64| {
        b.constant(&Tensor::from_slice(&[value], &[], &Device::Cpu).unwrap())
    };
    let (zero, one) = (scalar(&mut b, 0), scalar(&mut b, 1));
    let length = b.node(Op::Gather { axis: 0 }, &[shape, one]);
    let numbers = b.node(Op::Range, &[zero, length, one]);
    let positions = b.weights(&[12, WIDTH], 0.0);
    let positions = b.node(Op::Gather { axis: 0 }, &[positions, numbers]);
    let sum = b.node(Op::Binary(Binary::Add), &[words, positions]);
    let mut x = b.layer_norm(sum, WIDTH);
    // 0 for tokens that are seen, -10000 for others.
    let wide = b.node(Op::Unsqueeze { axes: Some(vec![1, 2]) }, &[mask]);
    let seen = b.node(Op::Cast(DType::Bool), &[wide]);
    let wide = b.node(Op::Cast(DType::F32), &[wide]);
    let (unit, low) = (b.float(1.0), b.float(-10_000.0));
    let added = b.node(Op::Binary(Binary::Sub), &[unit, wide]);
    let added = b.node(Op::Binary(Binary::Mul), &[added, low]);
    for _ in 0..2 {
        let [q, k, v] = [0; 3].map(|_| b.linear(x, WIDTH, WIDTH));
        let seen_values = match form {
            Form::Exported => {
                let batch = b.node(Op::Shape { start: 0, end: Some(2) }, &[x]);
                let rest = b.ints(&[HEADS as i64, (WIDTH / HEADS) as i64]);
                let sizes = b.node(Op::Concat { axis: 0 }, &[batch, rest]);
                let [q, k, v] =
                    [(q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])].map(|(x, order)| {
                        let apart =
                            b.node(Op::Reshape { shape: None, allow_zero: false }, &[x, sizes]);
                        b.node(Op::Transpose { order: Some(order.to_vec()) }, &[apart])
                    });
                let scores = b.node(Op::MatMul, &[q, k]);
                let root = b.float(((WIDTH / HEADS) as f32).sqrt());
                let scores = b.node(Op::Binary(Binary::Div), &[scores, root]);
                let scores = b.node(Op::Binary(Binary::Add), &[scores, added]);
                let shares = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(-1) };
                let shares = b.node(shares, &[scores]);
                let y = b.node(Op::MatMul, &[shares, v]);
                let y = b.node(Op::Transpose { order: Some(vec![0, 2, 1, 3]) }, &[y]);
                b.node(Op::Reshape { shape: Some(vec![0, 0, -1]), allow_zero: false }, &[y])
            }
            Form::Operator => {
                let heads = Some(HEADS as i64);
                let attention = Attention {
                    causal: false,
                    query_heads: heads,
                    key_heads: heads,
                    scale: None,
                    softcap: 0.0,
                    left_window: None,
                    right_window: None,
                    shown: ShownScores::Product,
                };
                b.node(Op::Attention(attention), &[q, k, v, seen])
            }
        };
        let y = b.linear(seen_values, WIDTH, WIDTH);
        let y = b.node(Op::Binary(Binary::Add), &[x, y]);
        let y = b.layer_norm(y, WIDTH);
        let inner = b.linear(y, WIDTH, 4 * WIDTH);
        let inner = b.gelu(inner);
        let inner = b.linear(inner, 4 * WIDTH, WIDTH);
        let sum = b.node(Op::Binary(Binary::Add), &[y, inner]);
        x = b.layer_norm(sum, WIDTH);
    }
    let first = b.node(Op::Gather { axis: 1 }, &[x, zero]);
    let pooled = b.linear(first, WIDTH, WIDTH);
    let pooled = b.node(Op::Unary(Unary::Tanh), &[pooled]);
    let mean = Op::Reduce {
        reduction: Reduction::Mean,
        axes: Some(vec![1]),
        reduced: Dims::Drop,
        no_axes: NoAxes::All,
    };
    let mean = b.node(mean, &[x]);
    b.graph.add_output(pooled);
    b.graph.add_output(mean);
    b.graph
}

#[test]
fn bert_reads_nothing_back() {
    let ids: Vec<i64> = (0..14).map(|k| k * 11 % 30).collect();
    let ids = Tensor::from_slice(&ids, &[2, 7], &Device::Cpu).unwrap();
    let mask: Vec<i64> = (0..14).map(|k| i64::from(k < 12)).collect();
    let mask = Tensor::from_slice(&mask, &[2, 7], &Device::Cpu).unwrap();
    for form in [Form::Exported, Form::Operator] {
        for distance in check(&bert(form), &[ids.clone(), mask.clone()]) {
            // Values behind a normalisation are below 6 here. Each of its five passes through sums
            // of at most 64 products of magnitude 2 is off by 64 * 2 * 6 u, which the
            // next one multiplies by at most 2, for both devices: 2 * 31 * 768 u.
            assert!(distance < 2.9e-3, "{distance}");
        }
    }
}

/// An operator of the host is the only one that reads, and the instrument counts it.
#[test]
fn operator_on_host_is_counted() {
    let mut b = Builder::new("host");
    let x = b.input("x", DType::F32, &[2]);
    let y = b.node(Op::Unary(Unary::Neg), &[x]);
    let y = b.node(Op::Det, &[y]);
    b.graph.add_output(y);
    let gpu = gpu(&ContextOptions::default());
    let runner = Runner::new(b.graph, &Device::Gpu(gpu.clone())).unwrap();
    let x = Tensor::ones(&[2, 2], DType::F32, &Device::Cpu).unwrap();
    let before = gpu.reads();
    runner.run(vec![x]).unwrap();
    assert_eq!(gpu.reads() - before, 1);
}
