//! Builds a network node after node, for modules that Python walks.

use crate::array::{Input, shape_text};
use crate::compute::compute;
use aleatron_graph::op::{Padding, Pooling, Rounding, Softmax, SoftmaxAxes, Window};
use aleatron_graph::{Binary, Dim, Graph, Op, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A network under construction: each node takes the output of the one before it. Samples have the
/// given shape.
#[pyclass(module = "aleatron._core", frozen, name = "_NetworkBuilder")]
pub(crate) struct NetworkBuilder(Mutex<BuilderState>);

struct BuilderState {
    graph: Graph,
    last: ValueId,
    /// The number of axes of the last node's output, that of samples included.
    rank: usize,
}

impl NetworkBuilder {
    fn growing(&self) -> MutexGuard<'_, BuilderState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BuilderState {
    fn add(&mut self, name: &str, op: Op, constants: &[ValueId]) {
        let inputs = [&[self.last], constants].concat();
        self.last = self.graph.add_node(name, op, &inputs);
    }

    /// A constant in 32-bit floats.
    fn constant(
        &mut self,
        name: &str,
        what: &str,
        values: &[f64],
        shape: &[usize],
    ) -> PyResult<ValueId> {
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        let name = if name.is_empty() { what.to_owned() } else { format!("{name}.{what}") };
        if let Some(index) = narrow.iter().position(|value| !value.is_finite()) {
            let value = values[index];
            return Err(PyValueError::new_err(format!(
                "{name} at flat index {index} is {value}, not finite in 32 bits"
            )));
        }
        let tensor = Tensor::from_slice(&narrow, shape, &Device::Cpu);
        let tensor = tensor.map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
        Ok(self.graph.add_constant(name, tensor))
    }

    /// A constant of an array, which must have this many axes.
    fn array(
        &mut self,
        name: &str,
        what: &str,
        value: &Bound<'_, PyAny>,
        rank: usize,
    ) -> PyResult<(ValueId, Vec<usize>)> {
        let values = Input::<f64>::read(value, what)?;
        if values.shape().len() != rank {
            let shape = shape_text(values.shape());
            return Err(PyValueError::new_err(format!(
                "{name}: {what} has shape {shape}, not {rank} axes"
            )));
        }
        let shape = values.shape().to_vec();
        Ok((self.constant(name, what, values.slice()?, &shape)?, shape))
    }

    /// Pools and convolutions move over the axes after samples and channels.
    fn check_window(&self, name: &str, axes: usize) -> PyResult<()> {
        if self.rank == axes + 2 {
            return Ok(());
        }
        let rank = self.rank;
        Err(PyValueError::new_err(format!(
            "{name}: it takes {} axes with that of samples, and gets {rank}",
            axes + 2
        )))
    }
}

fn window(kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>) -> Window {
    Window { kernel, strides, dilations, padding: Padding::Explicit(padding) }
}

#[pymethods]
impl NetworkBuilder {
    #[new]
    fn new(name: &str, shape: Vec<usize>) -> Self {
        let mut graph = Graph::new(name);
        let rank = shape.len() + 1;
        let sizes = shape.into_iter().map(Dim::Fixed);
        let shape = [Dim::Named("samples".to_owned())].into_iter().chain(sizes).collect();
        let input = Value { name: "input".to_owned(), dtype: Some(DType::F32), shape: Some(shape) };
        let last = graph.add_input(input);
        Self(Mutex::new(BuilderState { graph, last, rank }))
    }

    /// Weights of shape (outputs, inputs) for the last axis, and a bias if there is one.
    #[pyo3(signature = (name, weight, bias))]
    fn linear(
        &self,
        name: &str,
        weight: &Bound<'_, PyAny>,
        bias: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut graph = self.growing();
        if graph.rank == 2 {
            let (weight, shape) = graph.array(name, "weight", weight, 2)?;
            let bias = match bias {
                Some(bias) => graph.array(name, "bias", bias, 1)?.0,
                None => {
                    let n = shape.first().copied().unwrap_or(0);
                    graph.constant(name, "bias", &vec![0.0; n], &[n])?
                }
            };
            let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
            graph.add(name, op, &[weight, bias]);
            return Ok(());
        }
        // More than one row a sample: a product with the transposed matrix, and a sum.
        let transposed = weight.py().import("numpy")?.call_method1("transpose", (weight,))?;
        let (weight, _) = graph.array(name, "weight", &transposed, 2)?;
        graph.add(name, Op::MatMul, &[weight]);
        if let Some(bias) = bias {
            let (bias, _) = graph.array(name, "bias", bias, 1)?;
            graph.add(&format!("{name}.add"), Op::Binary(Binary::Add), &[bias]);
        }
        Ok(())
    }

    /// Kernels of shape (outputs, channels of a group, sizes); padding is all beginnings, then all
    /// ends.
    #[pyo3(signature = (name, weight, bias, stride, padding, dilation, groups))]
    fn conv(
        &self,
        name: &str,
        weight: &Bound<'_, PyAny>,
        bias: Option<&Bound<'_, PyAny>>,
        stride: Vec<i64>,
        padding: Vec<i64>,
        dilation: Vec<i64>,
        groups: i64,
    ) -> PyResult<()> {
        let mut graph = self.growing();
        graph.check_window(name, stride.len())?;
        let (weight, shape) = graph.array(name, "weight", weight, stride.len() + 2)?;
        let mut constants = vec![weight];
        if let Some(bias) = bias {
            constants.push(graph.array(name, "bias", bias, 1)?.0);
        }
        let kernel = shape.iter().skip(2).map(|&size| size as i64).collect();
        graph.add(
            name,
            Op::Conv { window: window(kernel, stride, padding, dilation), groups },
            &constants,
        );
        Ok(())
    }

    /// A batch normalisation as it is after training.
    fn batch_norm(
        &self,
        name: &str,
        weight: &Bound<'_, PyAny>,
        bias: &Bound<'_, PyAny>,
        mean: &Bound<'_, PyAny>,
        variance: &Bound<'_, PyAny>,
        epsilon: f64,
    ) -> PyResult<()> {
        let mut graph = self.growing();
        let mut constants = Vec::new();
        for (what, value) in
            [("weight", weight), ("bias", bias), ("mean", mean), ("variance", variance)]
        {
            constants.push(graph.array(name, what, value, 1)?.0);
        }
        let op = Op::BatchNormalization { epsilon: epsilon as f32, momentum: 0.9, training: false };
        graph.add(name, op, &constants);
        Ok(())
    }

    /// A function of each element; `alpha` where it has a parameter.
    #[pyo3(signature = (name, function, alpha=0.0))]
    fn activation(&self, name: &str, function: &str, alpha: f64) -> PyResult<()> {
        let alpha = alpha as f32;
        let function = match function {
            "relu" => Unary::Relu,
            "leaky_relu" => Unary::LeakyRelu { alpha },
            "sigmoid" => Unary::Sigmoid,
            "tanh" => Unary::Tanh,
            "gelu" => Unary::Gelu,
            "gelu_tanh" => Unary::GeluTanh,
            "elu" => Unary::Elu { alpha },
            "silu" => Unary::Swish { alpha: 1.0 },
            "mish" => Unary::Mish,
            "softplus" => Unary::Softplus,
            "softsign" => Unary::Softsign,
            "hard_swish" => Unary::HardSwish,
            "hard_sigmoid" => Unary::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
            "selu" => Unary::Selu { alpha: 1.673_263_2, gamma: 1.050_701 },
            _ => return Err(PyValueError::new_err(format!("there is no function {function:?}"))),
        };
        self.growing().add(name, Op::Unary(function), &[]);
        Ok(())
    }

    /// Limits elements to an interval.
    fn clip(&self, name: &str, low: f64, high: f64) -> PyResult<()> {
        let mut graph = self.growing();
        let bounds = [
            graph.constant(name, "low", &[low], &[])?,
            graph.constant(name, "high", &[high], &[])?,
        ];
        graph.add(name, Op::Clip { low: None, high: None }, &bounds);
        Ok(())
    }

    /// The largest element of each window.
    fn max_pool(
        &self,
        name: &str,
        kernel: Vec<i64>,
        stride: Vec<i64>,
        padding: Vec<i64>,
        dilation: Vec<i64>,
        ceil: bool,
    ) -> PyResult<()> {
        let mut graph = self.growing();
        graph.check_window(name, kernel.len())?;
        let rounding = if ceil { Rounding::Up } else { Rounding::Down };
        let window = window(kernel, stride, padding, dilation);
        graph.add(
            name,
            Op::Pool { pooling: Pooling::Max { column_major: false }, window, rounding },
            &[],
        );
        Ok(())
    }

    /// The mean of each window, with or without the padding.
    fn average_pool(
        &self,
        name: &str,
        kernel: Vec<i64>,
        stride: Vec<i64>,
        padding: Vec<i64>,
        ceil: bool,
        count_padding: bool,
    ) -> PyResult<()> {
        let mut graph = self.growing();
        graph.check_window(name, kernel.len())?;
        let rounding = if ceil { Rounding::Up } else { Rounding::Down };
        let window = window(kernel, stride, padding, Vec::new());
        graph.add(
            name,
            Op::Pool { pooling: Pooling::Average { count_padding }, window, rounding },
            &[],
        );
        Ok(())
    }

    /// Adds the mean of each channel, over this many axes.
    fn global_average_pool(&self, name: &str, axes: usize) -> PyResult<()> {
        let mut graph = self.growing();
        graph.check_window(name, axes)?;
        graph.add(name, Op::GlobalPool(Pooling::Average { count_padding: false }), &[]);
        Ok(())
    }

    /// Adds the maximum of each channel, over this many axes.
    fn global_max_pool(&self, name: &str, axes: usize) -> PyResult<()> {
        let mut graph = self.growing();
        graph.check_window(name, axes)?;
        graph.add(name, Op::GlobalPool(Pooling::Max { column_major: false }), &[]);
        Ok(())
    }

    /// Joins all axes except that of samples.
    fn flatten(&self, name: &str) {
        let mut graph = self.growing();
        graph.add(name, Op::Flatten { axis: 1 }, &[]);
        graph.rank = 2;
    }

    /// Shares that add up to 1 along an axis.
    fn softmax(&self, name: &str, axis: i64) {
        let (function, axes) = (Softmax::Softmax, SoftmaxAxes::One(axis));
        self.growing().add(name, Op::Softmax { function, axes }, &[]);
    }

    /// The logarithms of such shares.
    fn log_softmax(&self, name: &str, axis: i64) {
        let (function, axes) = (Softmax::LogSoftmax, SoftmaxAxes::One(axis));
        self.growing().add(name, Op::Softmax { function, axes }, &[]);
    }

    /// The number of axes of the last node's output, that of samples included.
    #[getter]
    fn rank(&self) -> usize {
        self.growing().rank
    }

    /// The graph as an ONNX file.
    fn to_onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (mut graph, last) = {
            let growing = self.growing();
            (growing.graph.clone(), growing.last)
        };
        if graph.nodes().is_empty() {
            return Err(PyRuntimeError::new_err("the graph has no nodes"));
        }
        graph.add_output(last);
        let bytes = compute(py, &[], || Ok(graph.to_onnx()?))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
