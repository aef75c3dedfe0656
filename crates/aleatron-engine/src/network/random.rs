//! Networks of known architectures with random weights, for benchmarks.

use super::Network;
use crate::{Error, Result};
use aleatron_graph::op::{Padding, Pooling, Window};
use aleatron_graph::{Binary, Dim, Error as GraphError, Graph, Op, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};
use std::fmt;
use std::str::FromStr;

/// A known architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NetworkShape {
    /// Two convolutions of 5 x 5 and three dense layers, on images of 28 x 28 (LeCun et al., 1998).
    Lenet5,
    /// Nineteen convolutions of 3 x 3 in residual blocks and a dense layer, on images of 3 x 32 x
    /// 32 (He et al., 2016). If a block halves the image, its shortcut is a convolution of 1 x 1.
    Resnet20,
}

impl NetworkShape {
    /// All architectures.
    pub const ALL: [Self; 2] = [Self::Lenet5, Self::Resnet20];
}

impl fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lenet5 => "lenet5",
            Self::Resnet20 => "resnet20",
        })
    }
}

impl FromStr for NetworkShape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|shape| shape.to_string() == text).ok_or_else(|| {
            Error::UnknownShape {
                name: text.to_owned(),
                known: Self::ALL.map(|shape| shape.to_string()).to_vec(),
            }
        })
    }
}

impl Network {
    /// Creates a network of a known architecture with normally distributed weights.
    ///
    /// ```
    /// use aleatron_engine::network::{Network, NetworkShape};
    ///
    /// let network = Network::random(NetworkShape::Lenet5, 1)?;
    /// assert_eq!((network.n_features(), network.n_outputs()), (784, 10));
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Network::new`].
    pub fn random(shape: NetworkShape, seed: u64) -> Result<Self> {
        let mut build = Build { graph: Graph::new(shape.to_string()), seed, n_layers: 0 };
        let scores = match shape {
            NetworkShape::Lenet5 => lenet5(&mut build),
            NetworkShape::Resnet20 => resnet20(&mut build),
        }?;
        build.graph.add_output(scores);
        build.graph.sort()?;
        Self::new(build.graph)
    }
}

/// A value and its number of channels.
#[derive(Clone, Copy)]
struct ImageValue {
    id: ValueId,
    channels: usize,
}

struct Build {
    graph: Graph,
    seed: u64,
    n_layers: u64,
}

impl Build {
    fn input(&mut self, sample: [usize; 3]) -> ImageValue {
        let mut shape = vec![Dim::Named("samples".to_owned())];
        shape.extend(sample.map(Dim::Fixed));
        let value =
            Value { name: "images".to_owned(), dtype: Some(DType::F32), shape: Some(shape) };
        ImageValue { id: self.graph.add_input(value), channels: sample[0] }
    }

    /// Adds weights whose products with numbers of variance 1 preserve it after a rectifier.
    fn weights(&mut self, shape: &[usize]) -> Result<ValueId> {
        self.n_layers += 1;
        let fan_in: usize = shape[1..].iter().product();
        let seed = self.seed.wrapping_add(self.n_layers << 32);
        let drawn = Tensor::randn_seeded(shape, seed, DType::F32, &Device::Cpu)
            .map_err(GraphError::from)?;
        let scale = (2.0 / fan_in as f32).sqrt();
        let scale = Tensor::full(&[], f64::from(scale), DType::F32, &Device::Cpu)
            .map_err(GraphError::from)?;
        let scaled = drawn.mul(&scale).map_err(GraphError::from)?;
        Ok(self.graph.add_constant(format!("weights{}", self.n_layers), scaled))
    }

    fn conv(
        &mut self,
        x: ImageValue,
        channels: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
    ) -> Result<ImageValue> {
        let weights = self.weights(&[channels, x.channels, kernel, kernel])?;
        let window = Window {
            kernel: vec![kernel as i64; 2],
            strides: vec![stride as i64; 2],
            dilations: Vec::new(),
            padding: Padding::Explicit(vec![padding as i64; 4]),
        };
        let name = format!("conv{}", self.n_layers);
        Ok(ImageValue {
            id: self.graph.add_node(name, Op::Conv { window, groups: 1 }, &[x.id, weights]),
            channels,
        })
    }

    fn dense(&mut self, x: ValueId, n_inputs: usize, n_neurons: usize) -> Result<ValueId> {
        let weights = self.weights(&[n_neurons, n_inputs])?;
        let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
        Ok(self.graph.add_node(format!("dense{}", self.n_layers), op, &[x, weights]))
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("{name}{}", self.graph.nodes().len());
        self.graph.add_node(name, op, inputs)
    }

    fn relu(&mut self, x: ImageValue) -> ImageValue {
        ImageValue { id: self.node("relu", Op::Unary(Unary::Relu), &[x.id]), ..x }
    }

    fn flatten(&mut self, x: ImageValue) -> ValueId {
        self.node("flatten", Op::Flatten { axis: 1 }, &[x.id])
    }
}

fn lenet5(build: &mut Build) -> Result<ValueId> {
    let mut x = build.input([1, 28, 28]);
    for (channels, padding) in [(6, 2), (16, 0)] {
        x = build.conv(x, channels, 5, 1, padding)?;
        x = build.relu(x);
        let window = Window {
            kernel: vec![2, 2],
            strides: vec![2, 2],
            dilations: Vec::new(),
            padding: Padding::Explicit(Vec::new()),
        };
        let pooling = Pooling::Max { column_major: false };
        let op = Op::Pool { pooling, window, rounding: aleatron_graph::op::Rounding::Down };
        x.id = build.node("pool", op, &[x.id]);
    }
    let mut x = build.flatten(x);
    for [n_inputs, n_neurons] in [[400, 120], [120, 84]] {
        let hidden = build.dense(x, n_inputs, n_neurons)?;
        x = build.node("relu", Op::Unary(Unary::Relu), &[hidden]);
    }
    build.dense(x, 84, 10)
}

fn resnet20(build: &mut Build) -> Result<ValueId> {
    let x = build.input([3, 32, 32]);
    let x = build.conv(x, 16, 3, 1, 1)?;
    let mut x = build.relu(x);
    for (channels, first_stride) in [(16, 1), (32, 2), (64, 2)] {
        for block in 0..3 {
            let stride = if block == 0 { first_stride } else { 1 };
            let y = build.conv(x, channels, 3, stride, 1)?;
            let y = build.relu(y);
            let y = build.conv(y, channels, 3, 1, 1)?;
            if stride > 1 {
                x = build.conv(x, channels, 1, stride, 0)?;
            }
            let sum = ImageValue {
                id: build.node("add", Op::Binary(Binary::Add), &[x.id, y.id]),
                channels,
            };
            x = build.relu(sum);
        }
    }
    let pooled = Op::GlobalPool(Pooling::Average { count_padding: false });
    let x = ImageValue { id: build.node("pool", pooled, &[x.id]), ..x };
    let x = build.flatten(x);
    build.dense(x, 64, 10)
}
