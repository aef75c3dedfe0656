//! Building networks layer by layer.

use super::Network;
use crate::{Error, Result};
use aleatron_core::arithmetic::{Activation, Border, Pool, PoolKind};
use aleatron_core::{ConvShape, Convolution, Error as CoreError, Polarity, Quantity};
use aleatron_graph::op::{Padding, Pooling, Rounding, Window};
use aleatron_graph::{Binary, Dim, Error as GraphError, Graph, Op, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};

/// Builds a network in which each layer takes the outputs of the previous one. Numbers are stored
/// in 32 bits. The first error is returned by [`Self::build`].
///
/// ```
/// use aleatron_engine::network::{Activation, NetworkBuilder};
/// // Pixels from 0 to 16 become inputs from 0 to 1.
/// let network = NetworkBuilder::new("small", &[2])
///     .features(&[0.0], &[16.0])
///     .dense("hidden", 2, &[0.5, -2.0, 1.0, 0.25, 0.0, 0.5], &[0.0, 0.125, -0.125])
///     .activation(Activation::Relu)
///     .dense("output", 3, &[1.0, -1.0, 0.5], &[0.25])
///     .build()?;
/// assert_eq!(network.forward(&[16.0, 0.0])?, [0.25 + 0.5 - 1.125]);
/// assert_eq!(network.layers()[0].weight_scales, [2.0, 1.0, 0.5]);
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct NetworkBuilder {
    graph: Graph,
    last: ValueId,
    /// The number of axes of a sample.
    rank: usize,
    n_features: usize,
    layers: Vec<LayerChoice>,
    fault: Option<Error>,
}

/// The settings of one layer.
#[derive(Debug, Default)]
struct LayerChoice {
    name: String,
    polarity: Option<Polarity>,
    input_scale: Option<f64>,
    weight_scale: Option<f64>,
}

impl NetworkBuilder {
    /// Starts a network for samples of a shape: features, channels and positions, or channels, rows
    /// and columns.
    #[must_use]
    pub fn new(name: impl Into<String>, sample: &[usize]) -> Self {
        let mut graph = Graph::new(name);
        let sizes = sample.iter().copied().map(Dim::Fixed);
        let shape = [Dim::Named("samples".to_owned())].into_iter().chain(sizes).collect();
        let input =
            Value { name: "features".to_owned(), dtype: Some(DType::F32), shape: Some(shape) };
        let last = graph.add_input(input);
        let n_features = sample.iter().fold(1_usize, |n, &size| n.saturating_mul(size));
        Self { graph, last, rank: sample.len(), n_features, layers: Vec::new(), fault: None }
    }

    /// Maps features to `(feature - offset) / scale`; one offset and scale for all features, or one
    /// for each.
    #[must_use]
    pub fn features(mut self, offset: &[f64], scale: &[f64]) -> Self {
        for (name, values, function, neutral) in [
            ("features_offset", offset, Binary::Sub, 0.0),
            ("features_scale", scale, Binary::Div, 1.0),
        ] {
            if values.iter().all(|value| *value == neutral) {
                continue;
            }
            let shape: Vec<usize> = match values.len() {
                1 => Vec::new(),
                // One for each feature of a sample of one axis; others are given per feature in the
                // order of the sample.
                n if n == self.n_features && self.rank == 1 => vec![n],
                actual => {
                    let (what, expected) = (Quantity::Inputs, self.n_features);
                    return self.fail(CoreError::Mismatch { what, expected, actual }.into());
                }
            };
            if function == Binary::Div
                && let Some(index) =
                    values.iter().position(|scale| !(*scale > 0.0 && scale.is_finite()))
            {
                return self
                    .fail(Error::Scale { what: Quantity::InputScale, value: values[index] });
            }
            match self.constant(name, values, &shape) {
                Ok(constant) => self.add(name, Op::Binary(function), &[constant]),
                Err(error) => return self.fail(error),
            }
        }
        self
    }

    /// Adds a dense layer with weights row-major by neuron and one bias per neuron, or none. Images
    /// are flattened first.
    #[must_use]
    pub fn dense(mut self, name: &str, n_inputs: usize, weights: &[f64], bias: &[f64]) -> Self {
        if self.rank != 1 {
            self.add(&format!("{name}.flatten"), Op::Flatten { axis: 1 }, &[]);
            self.rank = 1;
        }
        let n_neurons = weights.len().checked_div(n_inputs).unwrap_or(0);
        if n_inputs == 0 || n_neurons == 0 || n_neurons.checked_mul(n_inputs) != Some(weights.len())
        {
            let (what, actual) = (Quantity::Weights, weights.len());
            return self.fail(CoreError::Ragged { what, actual, divisor: n_inputs }.into());
        }
        let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
        self.layer(name, op, weights, &[n_neurons, n_inputs], bias)
    }

    /// Adds a convolution with weights by output channel, channel of its group, row and column, and
    /// one bias per output channel, or none. Samples of channels and positions take
    /// convolutions of one row.
    #[must_use]
    pub fn convolution(
        self,
        name: &str,
        convolution: Convolution,
        weights: &[f64],
        bias: &[f64],
    ) -> Self {
        let shape = match ConvShape::new(convolution) {
            Ok(shape) => shape,
            Err(error) => return self.fail(error.into()),
        };
        let Convolution { kernel, stride, padding, dilation, groups, .. } = convolution;
        let axes = self.rank.saturating_sub(1).clamp(1, 2);
        let numbers =
            |values: [usize; 2]| values[2 - axes..].iter().map(|&value| value as i64).collect();
        let begins = padding[2 - axes..].iter().map(|pair| pair[0] as i64);
        let ends = padding[2 - axes..].iter().map(|pair| pair[1] as i64);
        let window = Window {
            kernel: numbers(kernel),
            strides: numbers(stride),
            dilations: numbers(dilation),
            padding: Padding::Explicit(begins.chain(ends).collect()),
        };
        let weight_shape =
            [&[shape.n_channels(), shape.group_inputs()], &kernel[2 - axes..]].concat();
        self.layer(name, Op::Conv { window, groups: groups as i64 }, weights, &weight_shape, bias)
    }

    /// Adds an activation.
    #[must_use]
    pub fn activation(mut self, activation: Activation) -> Self {
        let name =
            self.layers.last().map_or_else(|| "features".to_owned(), |layer| layer.name.clone());
        match activation {
            Activation::Identity => {}
            Activation::Relu => self.add(&format!("{name}_relu"), Op::Unary(Unary::Relu), &[]),
            Activation::Clamp { low, high } => {
                if low > high || low.is_nan() || high.is_nan() {
                    let what = Quantity::Bound;
                    let error =
                        CoreError::OutOfRange { what, index: 0, value: low, low: f64::MIN, high };
                    return self.fail(error.into());
                }
                let bounds = [(low, "low"), (high, "high")]
                    .map(|(bound, which)| self.constant(&format!("{name}.{which}"), &[bound], &[]));
                match bounds {
                    [Ok(low), Ok(high)] => {
                        self.add(
                            &format!("{name}_clip"),
                            Op::Clip { low: None, high: None },
                            &[low, high],
                        );
                    }
                    [Err(error), _] | [_, Err(error)] => return self.fail(error),
                }
            }
            _ => {
                return self.fail(
                    CoreError::Internal { place: "engine::NetworkBuilder::activation" }.into(),
                );
            }
        }
        self
    }

    /// Adds a pool of the images of all channels.
    #[must_use]
    pub fn pool(mut self, pool: Pool) -> Self {
        let axes = self.rank.saturating_sub(1).clamp(1, 2);
        let numbers =
            |values: [usize; 2]| values[2 - axes..].iter().map(|&value| value as i64).collect();
        let begins = pool.padding[2 - axes..].iter().map(|pair| pair[0] as i64);
        let ends = pool.padding[2 - axes..].iter().map(|pair| pair[1] as i64);
        let window = Window {
            kernel: numbers(pool.window),
            strides: numbers(pool.stride),
            dilations: Vec::new(),
            padding: Padding::Explicit(begins.chain(ends).collect()),
        };
        let pooling = match pool.kind {
            PoolKind::Max => Pooling::Max { column_major: false },
            PoolKind::Average => Pooling::Average { count_padding: pool.border == Border::Zeros },
        };
        let name =
            self.layers.last().map_or_else(|| "features".to_owned(), |layer| layer.name.clone());
        let n = self.graph.nodes().len();
        self.add(
            &format!("{name}_pool{n}"),
            Op::Pool { pooling, window, rounding: Rounding::Down },
            &[],
        );
        self
    }

    /// Adds any operation on the outputs of the last node, with constants as its other inputs;
    /// `rank` is the number of axes of a sample after it.
    #[must_use]
    pub fn node(
        mut self,
        name: &str,
        op: Op,
        constants: &[(&str, &[f64], &[usize])],
        rank: usize,
    ) -> Self {
        let mut ids = Vec::with_capacity(constants.len());
        for (what, values, shape) in constants {
            match self.constant(&format!("{name}.{what}"), values, shape) {
                Ok(id) => ids.push(id),
                Err(error) => return self.fail(error),
            }
        }
        self.add(name, op, &ids);
        self.rank = rank;
        self
    }

    /// Sets the encoding of the last layer's streams; signed if not set.
    #[must_use]
    pub fn polarity(mut self, polarity: Polarity) -> Self {
        if let Some(layer) = self.layers.last_mut() {
            layer.polarity = Some(polarity);
        }
        self
    }

    /// Sets the input of the last layer that becomes 1; 1 if not set.
    #[must_use]
    pub fn input_scale(mut self, scale: f64) -> Self {
        if let Some(layer) = self.layers.last_mut() {
            layer.input_scale = Some(scale);
        }
        self
    }

    /// Sets the weight of the last layer that becomes 1; the largest of each row if not set.
    #[must_use]
    pub fn weight_scale(mut self, scale: f64) -> Self {
        if let Some(layer) = self.layers.last_mut() {
            layer.weight_scale = Some(scale);
        }
        self
    }

    /// Returns the number of axes of a sample after the last node.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Finishes the network.
    ///
    /// # Errors
    /// Returns the first error of the layers, [`Error::NoLayers`] for none, [`Error::RepeatedName`]
    /// for two with the same name, and errors as for [`Network::new`].
    pub fn build(self) -> Result<Network> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        if self.layers.is_empty() {
            return Err(Error::NoLayers);
        }
        for (second, layer) in self.layers.iter().enumerate() {
            if let Some(first) =
                self.layers[..second].iter().position(|known| known.name == layer.name)
            {
                return Err(Error::RepeatedName { first, second, name: layer.name.clone() });
            }
        }
        let mut graph = self.graph;
        let last = if self.rank > 1 {
            graph.add_node("scores", Op::Flatten { axis: 1 }, &[self.last])
        } else {
            self.last
        };
        graph.add_output(last);
        let mut choices = self.layers.into_iter();
        Network::from_graph(graph)?.with_layers(|layer| {
            let Some(choice) = choices.find(|choice| choice.name == layer.name) else { return };
            layer.polarity = choice.polarity.unwrap_or(layer.polarity);
            layer.input_scale = choice.input_scale.unwrap_or(layer.input_scale);
            if let Some(scale) = choice.weight_scale {
                layer.weight_scales = vec![scale];
            }
        })
    }

    fn layer(mut self, name: &str, op: Op, weights: &[f64], shape: &[usize], bias: &[f64]) -> Self {
        let rows = shape.first().copied().unwrap_or(0);
        let expected = shape.iter().fold(1_usize, |n, &size| n.saturating_mul(size));
        if weights.len() != expected {
            let (what, actual) = (Quantity::Weights, weights.len());
            return self.fail_in(name, CoreError::Mismatch { what, expected, actual }.into());
        }
        if !bias.is_empty() && bias.len() != rows {
            let (what, expected, actual) = (Quantity::Bias, rows, bias.len());
            return self.fail_in(name, CoreError::Mismatch { what, expected, actual }.into());
        }
        let zeros = vec![0.0; rows];
        let bias = if bias.is_empty() { &zeros } else { bias };
        let constants = [("weight", weights, shape), ("bias", bias, &[rows])]
            .map(|(what, values, shape)| self.constant(&format!("{name}.{what}"), values, shape));
        match constants {
            [Ok(weights), Ok(bias)] => {
                self.add(name, op, &[weights, bias]);
                self.layers.push(LayerChoice { name: name.to_owned(), ..LayerChoice::default() });
                self
            }
            [Err(error), _] | [_, Err(error)] => self.fail_in(name, error),
        }
    }

    fn add(&mut self, name: &str, op: Op, constants: &[ValueId]) {
        let inputs = [&[self.last], constants].concat();
        self.last = self.graph.add_node(name, op, &inputs);
    }

    fn constant(&mut self, name: &str, values: &[f64], shape: &[usize]) -> Result<ValueId> {
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        if let Some(index) = narrow.iter().position(|value| !value.is_finite()) {
            let reason = format!(
                "element {index} is {}, which is not a finite 32-bit number",
                values[index]
            );
            return Err(GraphError::Model { place: format!("\"{name}\""), reason }.into());
        }
        let tensor = Tensor::from_slice(&narrow, shape, &Device::Cpu).map_err(GraphError::from)?;
        Ok(self.graph.add_constant(name, tensor))
    }

    fn fail(mut self, error: Error) -> Self {
        self.fault.get_or_insert(error);
        self
    }

    fn fail_in(self, name: &str, error: Error) -> Self {
        let layer = self.layers.len();
        self.fail(Error::Layer { layer, name: name.to_owned(), source: Box::new(error) })
    }
}

/// A tensor by name, in double precision: an entry of a state dict.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// The name, such as `0.weight`.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<f64>,
}

impl Network {
    /// Creates a network from a torch-style state dict: each `PREFIX.weight` of shape (neurons,
    /// inputs), with its `PREFIX.bias` if there is one, is a dense layer, in the order given;
    /// `hidden` is applied between layers. Features are mapped to `(feature - offset) / scale`.
    ///
    /// # Errors
    /// Returns [`Error::NoLayers`] if no name ends in `.weight`, [`Error::UnknownTensors`] with all
    /// tensors that belong to no layer, [`Error::TensorShape`] with the invalid tensor, and errors
    /// as for [`NetworkBuilder::build`].
    pub fn from_state_dict(
        name: impl Into<String>,
        [offset, scale]: [f64; 2],
        tensors: &[NamedTensor],
        hidden: Activation,
    ) -> Result<Self> {
        let prefixes: Vec<&str> =
            tensors.iter().filter_map(|t| t.name.strip_suffix(".weight")).collect();
        let belongs = |name: &str| {
            let prefix = name.strip_suffix(".weight").or(name.strip_suffix(".bias"));
            prefix.is_some_and(|prefix| prefixes.contains(&prefix))
        };
        let others = tensors.iter().map(|tensor| &tensor.name).filter(|name| !belongs(name));
        let others: Vec<String> = others.map(|name| format!("\"{name}\"")).collect();
        if !others.is_empty() {
            return Err(Error::UnknownTensors { tensors: others });
        }
        let find = |name: String| tensors.iter().find(|tensor| tensor.name == name);
        let wrong = |layer: usize, tensor: &NamedTensor, expected: String| Error::TensorShape {
            layer,
            tensor: tensor.name.clone(),
            expected,
            actual: tensor.shape.clone(),
        };
        let mut builder: Option<NetworkBuilder> = None;
        let name = name.into();
        for (k, prefix) in prefixes.iter().enumerate() {
            let Some(weight) = find(format!("{prefix}.weight")) else { continue };
            let &[m, n] = weight.shape.as_slice() else {
                return Err(wrong(k, weight, "(neurons, inputs)".to_owned()));
            };
            if m.checked_mul(n) != Some(weight.values.len()) {
                return Err(wrong(k, weight, format!("{} values", weight.values.len())));
            }
            let bias = match find(format!("{prefix}.bias")) {
                Some(bias) if bias.shape != [m] => return Err(wrong(k, bias, format!("[{m}]"))),
                Some(bias) => bias.values.as_slice(),
                None => &[],
            };
            let begun = builder.unwrap_or_else(|| {
                NetworkBuilder::new(name.clone(), &[n]).features(&[offset], &[scale])
            });
            let added = begun.dense(prefix, n, &weight.values, bias);
            builder = Some(if k + 1 == prefixes.len() { added } else { added.activation(hidden) });
        }
        builder.ok_or(Error::NoLayers)?.build()
    }
}
