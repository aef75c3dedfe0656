//! Products with constant weights: the nodes that can run as streams.

use aleatron_tensor::{DType, Tensor};

use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Op, Rounding, Window};
use crate::run::Geometry;

/// A product with constant weights. With weights W and an input x, its output is `W x + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The connection of inputs and weights.
    pub kind: ProductKind,
    /// The weights, row-major: neurons by inputs, or output channels by channels of a group by
    /// taps.
    pub weights: Vec<f32>,
    /// One bias per neuron or output channel; empty without a bias, or if the bias is not a
    /// constant.
    pub bias: Vec<f32>,
}

/// The connection of inputs and weights.
#[derive(Debug, Clone, PartialEq)]
pub enum ProductKind {
    /// Every neuron is connected to every input along the last axis.
    Dense {
        /// The number of inputs of a neuron.
        n_inputs: usize,
        /// The number of neurons.
        n_neurons: usize,
    },
    /// A convolution over one or two axes.
    Conv {
        /// The channels of a group, and the sizes of the kernel.
        kernel: Vec<usize>,
        /// The number of output channels.
        n_channels: usize,
        /// The number of groups.
        groups: usize,
        /// Stride, padding and dilation.
        window: Window,
    },
}

/// A window over an input of known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvSizes {
    /// The sizes of the input.
    pub input: Vec<usize>,
    /// The sizes of the kernel.
    pub kernel: Vec<usize>,
    /// The strides.
    pub strides: Vec<usize>,
    /// The dilations: the distances of the taps.
    pub dilations: Vec<usize>,
    /// Padding before and after each axis.
    pub padding: Vec<[usize; 2]>,
    /// The sizes of the output.
    pub output: Vec<usize>,
}

impl ConvSizes {
    /// Computes the sizes of a window over spatial axes.
    ///
    /// # Errors
    /// [`crate::Error::Attribute`] if the window does not fit.
    pub fn new(window: &Window, input: &[usize], kernel: &[usize]) -> Result<Self> {
        Self::rounded(window, input, kernel, Rounding::Down)
    }

    /// Like [`Self::new`], with this rounding of the sizes of the output.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn rounded(
        window: &Window,
        input: &[usize],
        kernel: &[usize],
        rounding: Rounding,
    ) -> Result<Self> {
        let Geometry { input, kernel, strides, dilations, begins, ends, output } =
            Geometry::new(window, input, kernel, rounding)?;
        let padding = begins.into_iter().zip(ends).map(|(begin, end)| [begin, end]).collect();
        Ok(Self { input, kernel, strides, dilations, padding, output })
    }
}

impl Product {
    /// Returns the product of a node, if it is one with constant weights.
    ///
    /// # Errors
    /// An error if the weights cannot be read.
    pub fn of(graph: &Graph, node: &Node) -> Result<Option<Self>> {
        let constant = |k: usize| -> Option<&Tensor> { graph.constant(input(node, k)?) };
        // The first input must be a value: a product of constants is a constant.
        if input(node, 0).is_none_or(|id| graph.constant(id).is_some()) {
            return Ok(None);
        }
        let Some(weights) = constant(1).filter(|tensor| tensor.dtype().is_float()) else {
            return Ok(None);
        };
        let bias = |factor: f32, rows: usize| -> Result<Vec<f32>> {
            match constant(2) {
                // One for each column, the same for every row.
                Some(bias) if bias.len() == rows && bias.shape().last() == Some(&rows) => {
                    Ok(floats(bias)?.iter().map(|b| b * factor).collect())
                }
                Some(bias) if bias.len() == 1 => Ok(vec![floats(bias)?[0] * factor; rows]),
                _ => Ok(Vec::new()),
            }
        };
        Ok(match &node.op {
            Op::MatMul => {
                let &[n_inputs, n_neurons] = weights.shape() else { return Ok(None) };
                let kind = ProductKind::Dense { n_inputs, n_neurons };
                Some(Self { kind, weights: floats(&weights.t()?)?, bias: Vec::new() })
            }
            Op::Gemm { alpha, beta, transpose_a: false, transpose_b } => {
                let rows = if *transpose_b { weights.clone() } else { weights.t()? };
                let &[n_neurons, n_inputs] = rows.shape() else { return Ok(None) };
                let bias = bias(*beta, n_neurons)?;
                if bias.is_empty() && input(node, 2).is_some() {
                    return Ok(None);
                }
                let weights = floats(&rows)?.iter().map(|w| w * alpha).collect();
                Some(Self { kind: ProductKind::Dense { n_inputs, n_neurons }, weights, bias })
            }
            Op::Conv { window, groups } => {
                let [n_channels, kernel @ ..] = weights.shape() else { return Ok(None) };
                let groups = usize::try_from(*groups).unwrap_or(0);
                if !(2..=3).contains(&kernel.len()) || groups == 0 {
                    return Ok(None);
                }
                let bias = bias(1.0, *n_channels)?;
                if bias.is_empty() && input(node, 2).is_some() {
                    return Ok(None);
                }
                let (kernel, window) = (kernel.to_vec(), window.clone());
                let kind = ProductKind::Conv { kernel, n_channels: *n_channels, groups, window };
                Some(Self { kind, weights: floats(weights)?, bias })
            }
            _ => None,
        })
    }

    /// Returns the number of neurons or output channels.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match self.kind {
            ProductKind::Dense { n_neurons, .. } => n_neurons,
            ProductKind::Conv { n_channels, .. } => n_channels,
        }
    }

    /// Returns the number of products per output, without padding.
    #[must_use]
    pub fn fan_in(&self) -> usize {
        self.weights.len().checked_div(self.n_rows()).unwrap_or(0)
    }
}

pub(crate) fn input(node: &Node, k: usize) -> Option<ValueId> {
    node.inputs.get(k).copied().flatten()
}

pub(crate) fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.cast(DType::F32)?.to_vec::<f32>()?)
}
