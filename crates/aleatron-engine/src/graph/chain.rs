//! Networks of layers as graphs.

use super::GraphNetwork;
use crate::Result;
use crate::network::{Activation, FeatureMap, Layer, Network};
use aleatron_core::arithmetic::{Border, PoolKind, PoolShape};
use aleatron_graph::op::{Padding, Pooling, Rounding, Window};
use aleatron_graph::{Binary, Dim, Error as GraphError, Graph, Op, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};

impl Network {
    /// The same network as a graph, in 32-bit floats: features are shifted and scaled, and every layer is a product, its activation and its
    /// pools. The products have the polarities and scales of the layers.
    ///
    /// ```
    /// use aleatron_engine::network::Network;
    /// let network = Network::digits_cnn()?;
    /// let graph = network.to_graph()?;
    /// let digits = aleatron_data::Dataset::digits_test();
    /// assert_eq!(graph.predict(digits.features())?, network.predict(digits.features())?);
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Graph`] where a number is too large for 32 bits.
    pub fn to_graph(&self) -> Result<GraphNetwork> {
        let mut graph = Graph::new(self.name());
        let sizes = self.input_shape().into_iter().map(Dim::Fixed);
        let shape = [Dim::Named("samples".to_owned())].into_iter().chain(sizes).collect();
        let mut last = graph.add_input(Value {
            name: "features".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(shape),
        });
        let FeatureMap { offset, scale } = self.input();
        for (name, what, function, neutral) in
            [("features_offset", offset, Binary::Sub, 0.0), ("features_scale", scale, Binary::Div, 1.0)]
        {
            if what != neutral {
                let constant = self.constant(&mut graph, name, &[what], &[])?;
                last = graph.add_node(name, Op::Binary(function), &[last, constant]);
            }
        }
        let mut rank = self.input_shape().len();
        for layer in self.layers() {
            if layer.conv_shape().is_none() && rank != 1 {
                last = graph.add_node(format!("{}_inputs", layer.name()), Op::Flatten { axis: 1 }, &[last]);
            }
            last = self.add_layer(&mut graph, layer, last)?;
            rank = layer.output_shape().len();
        }
        if rank != 1 {
            last = graph.add_node("scores", Op::Flatten { axis: 1 }, &[last]);
        }
        graph.add_output(last);
        let mut network = GraphNetwork::new(graph)?;
        for (own, layer) in network.layers.iter_mut().zip(self.layers()) {
            own.polarity = layer.polarity();
            own.input_scale = layer.input_scale();
            own.weight_scales = vec![layer.weight_scale()];
        }
        Ok(network)
    }

    fn constant(&self, graph: &mut Graph, name: &str, values: &[f64], shape: &[usize]) -> Result<ValueId> {
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        if let Some(index) = narrow.iter().position(|value| !value.is_finite()) {
            let reason = format!("element {index} is {}, too large for 32 bits", values[index]);
            return Err(
                GraphError::Model { place: format!("\"{name}\" of \"{}\"", self.name()), reason }.into()
            );
        }
        let tensor = Tensor::from_slice(&narrow, shape, &Device::Cpu).map_err(GraphError::from)?;
        Ok(graph.add_constant(name, tensor))
    }

    fn add_layer(&self, graph: &mut Graph, layer: &Layer, input: ValueId) -> Result<ValueId> {
        let name = layer.name();
        let (op, shape) = match layer.conv_shape() {
            None => {
                let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
                (op, layer.weight_shape())
            }
            Some(shape) => {
                let conv = shape.convolution();
                let window = window(conv.kernel, conv.stride, conv.dilation, conv.padding);
                // A sequence is an image of one row.
                let [rows, columns] = conv.kernel;
                let weights = vec![shape.n_channels(), shape.group_inputs(), rows, columns];
                (Op::Conv { window, groups: conv.groups as i64 }, weights)
            }
        };
        let weights = self.constant(graph, &format!("{name}.weight"), layer.weights(), &shape)?;
        let bias = self.constant(graph, &format!("{name}.bias"), layer.bias(), &[layer.bias().len()])?;
        let mut last = graph.add_node(name, op, &[input, weights, bias]);
        match layer.activation() {
            Activation::Identity => {}
            Activation::Relu => {
                last = graph.add_node(format!("{name}_relu"), Op::Unary(Unary::Relu), &[last]);
            }
            Activation::Clamp { low, high } => {
                let clip = Op::Clip { low: None, high: None };
                let low = self.constant(graph, &format!("{name}.low"), &[low], &[])?;
                let high = self.constant(graph, &format!("{name}.high"), &[high], &[])?;
                last = graph.add_node(format!("{name}_clip"), clip, &[last, low, high]);
            }
            other => {
                let reason = format!("its activation {other:?} is none of a graph");
                return Err(GraphError::Model { place: format!("layer \"{name}\""), reason }.into());
            }
        }
        for (k, pool) in layer.pools().iter().enumerate() {
            last = graph.add_node(format!("{name}_pool{k}"), pool_op(pool), &[last]);
        }
        Ok(last)
    }
}

fn pool_op(pool: &PoolShape) -> Op {
    let pool = pool.pool();
    let pooling = match pool.kind {
        PoolKind::Max => Pooling::Max { column_major: false },
        PoolKind::Average => Pooling::Average { count_padding: pool.border == Border::Zeros },
    };
    let window = window(pool.window, pool.stride, [1, 1], pool.padding);
    Op::Pool { pooling, window, rounding: Rounding::Floor }
}

fn window(kernel: [usize; 2], stride: [usize; 2], dilation: [usize; 2], padding: [[usize; 2]; 2]) -> Window {
    let numbers = |values: [usize; 2]| values.map(|value| value as i64).to_vec();
    let [[top, bottom], [left, right]] = padding.map(|pair| pair.map(|size| size as i64));
    Window {
        kernel: numbers(kernel),
        strides: numbers(stride),
        dilations: numbers(dilation),
        padding: Padding::Explicit(vec![top, left, bottom, right]),
    }
}
