//! The layers of a network: products with constant weights, and their modes.

use super::WeightScale;
use crate::{Error, Result};
use aleatron_core::{ConvShape, Convolution, Error as CoreError, Polarity, Quantity, Topology};
use aleatron_graph::batch::BatchAnalysis;
use aleatron_graph::product::{ConvSizes, Product, ProductKind};
use aleatron_graph::{Binary, Error as GraphError, Graph, Node, Op, ValueId};
use aleatron_tensor::DType;

/// The mode of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// As streams.
    #[default]
    Streams,
    /// In floating point.
    Binary,
}

/// A product with constant weights, dense or a convolution, and how it runs as streams.
///
/// With weights W and inputs x in the units of the network, streams hold `W / weight_scale` and `x
/// / input_scale`, both in the interval of the polarity. A sum v of products then has the value `v
/// * input_scale * weight_scale`, to which the bias is added in binary.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The index of its node in the graph.
    pub node: usize,
    /// The index of the node that adds its bias, if that is a separate node.
    pub bias_node: Option<usize>,
    /// The name of its node.
    pub name: String,
    /// Weights, biases and shape.
    pub product: Product,
    /// Whether it runs as streams.
    pub mode: Mode,
    /// The encoding of its streams.
    pub polarity: Polarity,
    /// The input that becomes 1; inputs outside the resulting interval saturate.
    pub input_scale: f64,
    /// The weight that becomes 1: a single one for all rows of weights (neurons or output
    /// channels), or one per row.
    pub weight_scales: Vec<f64>,
}

impl Layer {
    /// Returns the index of the node whose output is that of the layer: its own, or that of its
    /// bias.
    #[must_use]
    pub fn output_node(&self) -> usize {
        self.bias_node.unwrap_or(self.node)
    }

    /// Returns the weight of a row that becomes 1.
    ///
    /// # Panics
    /// If the layer has no such row.
    #[must_use]
    pub fn weight_scale(&self, row: usize) -> f64 {
        match self.weight_scales.as_slice() {
            [all] => *all,
            each => each[row],
        }
    }

    /// Returns the value of a sum of 1, for all rows together or for each.
    #[must_use]
    pub fn sum_scales(&self) -> Vec<f64> {
        self.weight_scales.iter().map(|scale| self.input_scale * scale).collect()
    }

    /// Returns one bias for each row of weights.
    #[must_use]
    pub fn biases(&self) -> Vec<f64> {
        match self.product.bias.as_slice() {
            [] => vec![0.0; self.product.n_rows()],
            bias => bias.iter().map(|&bias| f64::from(bias)).collect(),
        }
    }

    /// Returns the encoded weights.
    #[must_use]
    pub fn encoded_weights(&self) -> Vec<f64> {
        super::scaled_weights(&self.product.weights, self.product.fan_in(), &self.weight_scales)
    }

    /// Returns the topology of the layer's streams if its input has this shape, including samples.
    ///
    /// # Errors
    /// Returns [`Error::Graph`] for a shape that the product cannot take.
    pub fn topology(&self, input: &[usize]) -> Result<Topology> {
        self.shapes(input).map(|shapes| shapes.topology)
    }

    /// Checks scales and weights.
    ///
    /// # Errors
    /// Returns [`Error::Layer`] with the defect.
    pub(crate) fn check(&self, index: usize) -> Result<()> {
        let fault = |source: Error| Error::Layer {
            layer: index,
            name: self.name.clone(),
            source: Box::new(source),
        };
        let rows = self.product.n_rows();
        if ![1, rows].contains(&self.weight_scales.len()) {
            let (expected, actual) = (rows, self.weight_scales.len());
            return Err(fault(
                CoreError::Mismatch { what: Quantity::WeightScale, expected, actual }.into(),
            ));
        }
        let of_weights = self.weight_scales.iter().map(|&scale| (Quantity::WeightScale, scale));
        let products = self
            .weight_scales
            .iter()
            .map(|&scale| (Quantity::ScaleProduct, scale * self.input_scale));
        let scales = std::iter::once((Quantity::InputScale, self.input_scale))
            .chain(of_weights)
            .chain(products);
        for (what, value) in scales {
            if !(value > 0.0 && value.is_finite()) {
                return Err(fault(Error::Scale { what, value }));
            }
        }
        let fan_in = self.product.fan_in().max(1);
        for (k, &weight) in self.product.weights.iter().enumerate() {
            let [low, high] =
                self.polarity.interval().map(|bound| bound * self.weight_scale(k / fan_in));
            let value = f64::from(weight);
            // Computed scales are exact in 32 bits; given ones may have been rounded.
            if !(low * (1.0 + 1e-6) <= value && value <= high * (1.0 + 1e-6)) {
                let what = Quantity::Weight;
                return Err(fault(
                    CoreError::OutOfRange { what, index: k, value, low, high }.into(),
                ));
            }
        }
        Ok(())
    }

    /// Returns the computation of the layer for an input of a shape, and the shape of its output.
    pub(crate) fn shapes(&self, input: &[usize]) -> Result<LayerShapes> {
        let fault = || GraphError::Input {
            input: 0,
            reason: format!("shape {input:?} does not fit the weights of layer \"{}\"", self.name),
        };
        match &self.product.kind {
            ProductKind::Dense { n_inputs, n_neurons } => {
                let (n_inputs, n_neurons) = (*n_inputs, *n_neurons);
                let Some((_, lead)) = input.split_last().filter(|(last, _)| **last == n_inputs)
                else {
                    return Err(fault().into());
                };
                let rows = lead
                    .iter()
                    .try_fold(1_usize, |n, &size| n.checked_mul(size))
                    .ok_or_else(fault)?;
                let output = [lead, &[n_neurons]].concat();
                Ok(LayerShapes { topology: Topology::Dense { n_inputs, n_neurons }, output, rows })
            }
            ProductKind::Conv { kernel, n_channels, groups, window } => {
                let [batch, channels, axes @ ..] = input else { return Err(fault().into()) };
                let [group_channels, sizes @ ..] = kernel.as_slice() else {
                    return Err(fault().into());
                };
                if axes.len() != sizes.len()
                    || group_channels.checked_mul(*groups) != Some(*channels)
                {
                    return Err(fault().into());
                }
                let found = ConvSizes::new(window, axes, sizes)?;
                // A sequence is an image of one row.
                let two = |values: &[usize], fill: usize| match values {
                    [rows, columns] => Ok([*rows, *columns]),
                    [columns] => Ok([fill, *columns]),
                    _ => Err(fault()),
                };
                let padding = match found.padding.as_slice() {
                    [rows, columns] => [*rows, *columns],
                    [columns] => [[0, 0], *columns],
                    _ => return Err(fault().into()),
                };
                let [rows, columns] = two(axes, 1)?;
                let convolution =
                    Convolution::conv2d([*channels, rows, columns], *n_channels, two(sizes, 1)?)
                        .with_stride(two(&found.strides, 1)?)
                        .with_paddings(padding)
                        .with_dilation(two(&found.dilations, 1)?)
                        .with_groups(*groups);
                let output = [&[*batch, *n_channels], found.output.as_slice()].concat();
                let topology = Topology::Conv(ConvShape::new(convolution)?);
                Ok(LayerShapes { topology, output, rows: *batch })
            }
        }
    }
}

/// Finds the layers of a graph. A constant that is added only to the output of a product, one for
/// each neuron or output channel, becomes its bias: streams of scores then include it, and integers
/// round it once.
///
/// # Errors
/// Returns [`GraphError::Model`] for weights and biases that are missing or not finite.
pub(super) fn layers_of(graph: &Graph, analysis: &BatchAnalysis) -> Result<Vec<Layer>> {
    let fault =
        |reason: String| GraphError::Model { place: format!("graph \"{}\"", graph.name()), reason };
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.n_values()];
    for (k, node) in graph.nodes().iter().enumerate() {
        node.needs().for_each(|id| users[id.index()].push(k));
    }
    let mut layers = Vec::new();
    for (k, node) in graph.nodes().iter().enumerate() {
        let Some(mut product) = Product::of(graph, node)? else { continue };
        if product.weights.is_empty() {
            return Err(fault(format!("layer \"{}\" has no weights", node.name)).into());
        }
        let mut bias_node = None;
        if product.bias.is_empty()
            && let Some(output) = node.outputs.first().copied().flatten()
            && let [user] = users[output.index()].as_slice()
            && !graph.outputs().contains(&output)
            && let Some(bias) =
                added_bias(graph, analysis, &product, output, &graph.nodes()[*user])?
        {
            (product.bias, bias_node) = (bias, Some(*user));
        }
        for (what, values) in [("weight", &product.weights), ("bias", &product.bias)] {
            if let Some((k, value)) =
                values.iter().enumerate().find(|(_, value)| !value.is_finite())
            {
                let reason =
                    format!("{what} {k} of layer \"{}\" is {value}, not finite", node.name);
                return Err(fault(reason).into());
            }
        }
        let weight_scales =
            super::weight_scales(&product.weights, product.fan_in(), WeightScale::PerRow);
        layers.push(Layer {
            node: k,
            bias_node,
            name: node.name.clone(),
            product,
            mode: Mode::Streams,
            polarity: Polarity::Signed,
            input_scale: 1.0,
            weight_scales,
        });
    }
    Ok(layers)
}

/// Returns the bias that a node adds to the output of a product: a constant for each row of weights
/// that does not change the shape.
fn added_bias(
    graph: &Graph,
    analysis: &BatchAnalysis,
    product: &Product,
    output: ValueId,
    node: &Node,
) -> Result<Option<Vec<f32>>> {
    let (operand, sign) = match (&node.op, node.inputs.as_slice()) {
        (Op::Binary(Binary::Add), [Some(left), Some(right)]) if *left == output => (*right, 1.0),
        (Op::Binary(Binary::Add), [Some(left), Some(right)]) if *right == output => (*left, 1.0),
        (Op::Binary(Binary::Sub), [Some(left), Some(right)]) if *left == output => (*right, -1.0),
        _ => return Ok(None),
    };
    let constant = graph.constant(operand).filter(|constant| constant.dtype() == DType::F32);
    let sum = node.outputs.first().copied().flatten().and_then(|id| analysis.shape(id));
    let (Some(constant), Some((shape, _)), Some((sum, _))) =
        (constant, analysis.shape(output), sum)
    else {
        return Ok(None);
    };
    // The axis of neurons or output channels.
    let axis = match product.kind {
        ProductKind::Dense { .. } => shape.len().checked_sub(1),
        ProductKind::Conv { .. } => Some(1),
    };
    let missing = shape.len().checked_sub(constant.rank());
    let (Some(axis), Some(missing), true) = (axis, missing, shape == sum) else { return Ok(None) };
    let is_per_row = constant
        .shape()
        .iter()
        .enumerate()
        .all(|(own, &size)| size == 1 || own + missing == axis && size == product.n_rows());
    if !is_per_row {
        return Ok(None);
    }
    let values = constant.to_vec::<f32>().map_err(GraphError::from)?;
    let signed = values.iter().map(|value| sign * value);
    Ok(Some(match values.len() {
        1 => signed.cycle().take(product.n_rows()).collect(),
        _ => signed.collect(),
    }))
}

/// A layer over an input of known shape.
pub(crate) struct LayerShapes {
    pub(crate) topology: Topology,
    /// The shape of the output.
    pub(crate) output: Vec<usize>,
    /// The number of rows of inputs that are multiplied with the weights.
    pub(crate) rows: usize,
}
