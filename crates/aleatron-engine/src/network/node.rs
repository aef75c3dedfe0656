//! The nodes of a network's description, and the layers they make.

use super::Activation;
use super::file::Tensor;
use super::layer::Layer;
use crate::{Error, Result};
use aleatron_core::arithmetic::{Border, Pool, PoolKind, PoolShape};
use aleatron_core::{ConvShape, Convolution, Polarity};

/// A node as it is described. [`super::file`] says what the fields mean.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Node {
    Dense(DenseNode),
    Conv1d(ConvNode),
    Conv2d(ConvNode),
    Pool(PoolNode),
    Flatten(FlattenNode),
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DenseNode {
    pub(super) name: String,
    pub(super) inputs: Vec<String>,
    /// Empty where it is not known, as in files of the first version.
    pub(super) shape: Vec<usize>,
    pub(super) polarity: String,
    pub(super) input_scale: f64,
    pub(super) weight_scale: f64,
    pub(super) activation: ActivationDescription,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConvNode {
    name: String,
    inputs: Vec<String>,
    shape: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<[usize; 2]>,
    dilation: Vec<usize>,
    groups: usize,
    polarity: String,
    input_scale: f64,
    weight_scale: f64,
    activation: ActivationDescription,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolNode {
    name: String,
    inputs: Vec<String>,
    shape: Vec<usize>,
    reduce: Reduce,
    window: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<[usize; 2]>,
    border: BorderDescription,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlattenNode {
    name: String,
    inputs: Vec<String>,
    shape: Vec<usize>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reduce {
    Max,
    Average,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum BorderDescription {
    LeftOut,
    Zeros,
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ActivationDescription {
    Identity,
    Relu,
    Clamp { low: f64, high: f64 },
}

impl From<ActivationDescription> for Activation {
    fn from(activation: ActivationDescription) -> Self {
        match activation {
            ActivationDescription::Identity => Self::Identity,
            ActivationDescription::Relu => Self::Relu,
            ActivationDescription::Clamp { low, high } => Self::Clamp { low, high },
        }
    }
}

impl From<Activation> for ActivationDescription {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Relu => Self::Relu,
            Activation::Clamp { low, high } => Self::Clamp { low, high },
            _ => Self::Identity,
        }
    }
}

impl Node {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Dense(DenseNode { name, .. })
            | Self::Conv1d(ConvNode { name, .. })
            | Self::Conv2d(ConvNode { name, .. })
            | Self::Pool(PoolNode { name, .. })
            | Self::Flatten(FlattenNode { name, .. }) => name,
        }
    }

    pub(super) fn inputs(&self) -> &[String] {
        match self {
            Self::Dense(DenseNode { inputs, .. })
            | Self::Conv1d(ConvNode { inputs, .. })
            | Self::Conv2d(ConvNode { inputs, .. })
            | Self::Pool(PoolNode { inputs, .. })
            | Self::Flatten(FlattenNode { inputs, .. }) => inputs,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Dense(DenseNode { shape, .. })
            | Self::Conv1d(ConvNode { shape, .. })
            | Self::Conv2d(ConvNode { shape, .. })
            | Self::Pool(PoolNode { shape, .. })
            | Self::Flatten(FlattenNode { shape, .. }) => shape,
        }
    }
}

/// The nodes of a layer that takes the output, of some shape, of the node called `before`.
pub(super) fn nodes_of(layer: &Layer, before: &str, shape: &[usize]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let inputs = |nodes: &[Node]| vec![nodes.last().map_or(before, Node::name).to_owned()];
    let name = layer.name().to_owned();
    let (polarity, activation) = (layer.polarity().to_string(), layer.activation().into());
    let (input_scale, weight_scale) = (layer.input_scale(), layer.weight_scale());
    match layer.conv_shape() {
        None => {
            if shape.len() > 1 {
                let shape = vec![layer.n_inputs()];
                nodes.push(Node::Flatten(FlattenNode {
                    name: format!("{name}.flatten"),
                    inputs: inputs(&nodes),
                    shape,
                }));
            }
            let (inputs, shape) = (inputs(&nodes), vec![layer.n_neurons()]);
            nodes.push(Node::Dense(DenseNode {
                name,
                inputs,
                shape,
                polarity,
                input_scale,
                weight_scale,
                activation,
            }));
        }
        Some(conv) => {
            let Convolution { stride, padding, dilation, groups, .. } = *conv.convolution();
            let node = ConvNode {
                name,
                inputs: inputs(&nodes),
                shape: conv.output().to_vec(),
                stride: stride.to_vec(),
                padding: padding.to_vec(),
                dilation: dilation.to_vec(),
                groups,
                polarity,
                input_scale,
                weight_scale,
                activation,
            };
            nodes.push(match is_sequence(conv) {
                false => Node::Conv2d(node),
                true => Node::Conv1d(ConvNode {
                    shape: vec![conv.output()[0], conv.output()[2]],
                    stride: stride[1..].to_vec(),
                    padding: padding[1..].to_vec(),
                    dilation: dilation[1..].to_vec(),
                    ..node
                }),
            });
        }
    }
    for (k, pooled) in layer.pools().iter().enumerate() {
        let pool = pooled.pool();
        nodes.push(Node::Pool(PoolNode {
            name: format!("{}.pool{k}", layer.name()),
            inputs: inputs(&nodes),
            shape: pooled.output().to_vec(),
            reduce: match pool.kind {
                PoolKind::Max => Reduce::Max,
                PoolKind::Average => Reduce::Average,
            },
            window: pool.window.to_vec(),
            stride: pool.stride.to_vec(),
            padding: pool.padding.to_vec(),
            border: match pool.border {
                Border::LeftOut => BorderDescription::LeftOut,
                Border::Zeros => BorderDescription::Zeros,
            },
        }));
    }
    nodes
}

/// Whether a convolution is along one axis, and its input and output have but one row.
pub(super) fn is_sequence(shape: &ConvShape) -> bool {
    let Convolution { input, kernel, stride, padding, dilation, .. } = *shape.convolution();
    [input[1], kernel[0], stride[0], dilation[0]] == [1; 4] && padding[0] == [0, 0]
}

/// Layers as they are read, node by node.
pub(super) struct Reader<'a> {
    tensors: &'a [Tensor],
    /// The shape of what the last node gives; empty where it is not known.
    shape: Vec<usize>,
    layers: Vec<Layer>,
}

impl<'a> Reader<'a> {
    /// A reader of nodes for inputs of some shape, empty where it is not known.
    pub(super) fn new(tensors: &'a [Tensor], shape: Vec<usize>) -> Self {
        Self { tensors, shape, layers: Vec::new() }
    }

    /// Reads the next node. Faults of the description are made by `fault`.
    pub(super) fn read(&mut self, node: &Node, fault: &dyn Fn(String) -> Error) -> Result<()> {
        let name = node.name();
        let fault = |reason: String| fault(format!("node \"{name}\" {reason}"));
        self.shape = match node {
            Node::Dense(node) => self.dense(node, &fault)?,
            Node::Conv1d(node) => self.convolution(node, 1, &fault)?,
            Node::Conv2d(node) => self.convolution(node, 2, &fault)?,
            Node::Pool(node) => self.pool(node, &fault)?,
            Node::Flatten(_) => {
                let len = self.shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
                vec![len.ok_or_else(|| fault(format!("takes shape {:?}, which overflows", self.shape)))?]
            }
        };
        // A row of an image may be said or not.
        let is_same = node.shape() == self.shape || image(node.shape()) == image(&self.shape);
        match node.shape().is_empty() || is_same {
            true => Ok(()),
            false => Err(fault(format!("has shape {:?}, but gives {:?}", node.shape(), self.shape))),
        }
    }

    /// The layers that were read.
    pub(super) fn finish(self) -> Vec<Layer> {
        self.layers
    }

    fn dense(&mut self, node: &DenseNode, fault: &dyn Fn(String) -> Error) -> Result<Vec<usize>> {
        let layer = dense_layer(self.layers.len(), &node.name, self.tensors)?;
        if !self.shape.is_empty() && self.shape != [layer.n_inputs()] {
            let n = layer.n_inputs();
            return Err(fault(format!("takes {n} inputs, but gets shape {:?}", self.shape)));
        }
        let shape = layer.output_shape();
        self.layers.push(
            layer
                .with_polarity(polarity(&node.polarity, fault)?)
                .with_input_scale(node.input_scale)
                .with_weight_scale(node.weight_scale)
                .with_activation(node.activation.into()),
        );
        Ok(shape)
    }

    fn convolution(
        &mut self,
        node: &ConvNode,
        axes: usize,
        fault: &dyn Fn(String) -> Error,
    ) -> Result<Vec<usize>> {
        let input = self.image(fault)?;
        let (k, tensors) = (self.layers.len(), self.tensors);
        let weight = find(k, &node.name, "weight", tensors)?;
        let expected = ["(output channels, channels, places)", "(output channels, channels, rows, columns)"];
        if weight.shape.len() != 2 + axes {
            return Err(wrong(k, weight, expected[axes - 1]));
        }
        let sized = |what: &str, values: &[usize]| axis_pair(values, axes, 1, fault, what);
        let convolution = Convolution {
            input,
            out_channels: weight.shape[0],
            kernel: sized("kernel", &weight.shape[2..])?,
            stride: sized("stride", &node.stride)?,
            padding: axis_pair(&node.padding, axes, [0, 0], fault, "padding")?,
            dilation: sized("dilation", &node.dilation)?,
            groups: node.groups,
        };
        let shape = ConvShape::new(convolution).map_err(|error| fault(format!("cannot be: {error}")))?;
        if weight.shape[1] != shape.group_inputs() {
            let expected = format!("[{}, {}, ..]", shape.n_channels(), shape.group_inputs());
            return Err(wrong(k, weight, &expected));
        }
        let layer = Layer::convolution(&node.name, shape, weight.values.clone());
        let layer = with_bias(k, layer, shape.n_channels(), tensors)?
            .with_polarity(polarity(&node.polarity, fault)?)
            .with_input_scale(node.input_scale)
            .with_weight_scale(node.weight_scale)
            .with_activation(node.activation.into());
        let shape = layer.output_shape();
        self.layers.push(layer);
        Ok(shape)
    }

    fn pool(&mut self, node: &PoolNode, fault: &dyn Fn(String) -> Error) -> Result<Vec<usize>> {
        let axes = node.window.len();
        if !(1..=2).contains(&axes) {
            return Err(fault(format!("has a window of {axes} axes; use one or two")));
        }
        let pool = Pool {
            kind: match node.reduce {
                Reduce::Max => PoolKind::Max,
                Reduce::Average => PoolKind::Average,
            },
            window: axis_pair(&node.window, axes, 1, fault, "window")?,
            stride: axis_pair(&node.stride, axes, 1, fault, "stride")?,
            padding: axis_pair(&node.padding, axes, [0, 0], fault, "padding")?,
            border: match node.border {
                BorderDescription::LeftOut => Border::LeftOut,
                BorderDescription::Zeros => Border::Zeros,
            },
        };
        let image = self.image(fault)?;
        let shape = PoolShape::new(pool, image).map_err(|error| fault(format!("cannot be: {error}")))?;
        let Some(layer) = self.layers.pop().filter(|layer| layer.output_shape() == image) else {
            return Err(fault("does not follow a convolution or a pool".to_owned()));
        };
        self.layers.push(layer.with_pool(pool)?);
        Ok(shape.output().to_vec())
    }

    /// What the last node gives, as channels, rows and columns.
    fn image(&self, fault: &dyn Fn(String) -> Error) -> Result<[usize; 3]> {
        let shape = &self.shape;
        image(shape)
            .ok_or_else(|| fault(format!("needs channels, rows and columns, but gets shape {shape:?}")))
    }
}

/// A shape as channels, rows and columns; a sequence has one row.
fn image(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [channels, size] => Some([channels, 1, size]),
        [channels, rows, columns] => Some([channels, rows, columns]),
        _ => None,
    }
}

/// The numbers of `axes` axes as those of rows and columns; a sequence has `one` for its row.
fn axis_pair<T: Copy>(
    values: &[T],
    axes: usize,
    one: T,
    fault: &dyn Fn(String) -> Error,
    what: &str,
) -> Result<[T; 2]> {
    match (axes, values) {
        (1, &[column]) => Ok([one, column]),
        (2, &[row, column]) => Ok([row, column]),
        _ => Err(fault(format!("has a {what} of {} numbers, expected {axes}", values.len()))),
    }
}

fn polarity(text: &str, fault: &dyn Fn(String) -> Error) -> Result<Polarity> {
    text.parse().map_err(|e: aleatron_core::Error| fault(format!("has no polarity: {e}")))
}

fn find<'a>(layer: usize, name: &str, suffix: &str, tensors: &'a [Tensor]) -> Result<&'a Tensor> {
    let tensor = format!("{name}.{suffix}");
    let found = tensors.iter().find(|known| known.name == tensor);
    found.ok_or(Error::MissingTensor { layer, tensor })
}

fn wrong(layer: usize, tensor: &Tensor, expected: &str) -> Error {
    let (expected, actual) = (expected.to_owned(), tensor.shape.clone());
    Error::TensorShape { layer, tensor: tensor.name.clone(), expected, actual }
}

fn with_bias(k: usize, layer: Layer, n_rows: usize, tensors: &[Tensor]) -> Result<Layer> {
    match find(k, layer.name(), "bias", tensors) {
        Ok(bias) if bias.shape == [n_rows] && bias.values.len() == n_rows => {
            Ok(layer.with_bias(bias.values.clone()))
        }
        Ok(bias) => Err(wrong(k, bias, &format!("[{n_rows}]"))),
        Err(_) => Ok(layer),
    }
}

/// The dense layer of the tensors `NAME.weight` and `NAME.bias`.
pub(super) fn dense_layer(k: usize, name: &str, tensors: &[Tensor]) -> Result<Layer> {
    let weight = find(k, name, "weight", tensors)?;
    let &[m, n] = weight.shape.as_slice() else { return Err(wrong(k, weight, "(neurons, inputs)")) };
    if m.checked_mul(n) != Some(weight.values.len()) {
        return Err(wrong(k, weight, &format!("{} values", weight.values.len())));
    }
    with_bias(k, Layer::new(name, n, weight.values.clone()), m, tensors)
}
