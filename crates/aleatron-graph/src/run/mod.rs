//! Running graphs on tensors.
//!
//! Nodes run one after the other; a value is dropped after its last use. Operators run as
//! operations of tensors, on the device that [`placement`] selects. Operators that tensors do not
//! support copy their inputs to the host.

mod array;
mod attention;
mod control;
mod elementwise;
mod grid;
mod index;
mod inputs;
mod memory;
mod nms;
mod normalize;
mod placement;
mod pool;
mod product;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod select;
mod shape;
mod signal;
mod window;

use std::collections::HashMap;
use std::sync::Arc;

use aleatron_tensor::{Device, Tensor};

pub(crate) use self::elementwise::broadcast_shapes;
use self::inputs::Inputs;
pub(crate) use self::inputs::axis as axis_of;
use self::memory::Limits;
pub(crate) use self::memory::at_least;
use self::placement::Role;
pub(crate) use self::shape::reshaped_shape;
pub(crate) use self::window::Geometry;
use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, Node, ValueId};
use crate::op::Op;

/// An observer of a run, which may compute nodes itself.
pub trait Observer {
    /// Computes a node in place of the runner; `None` leaves the node to the runner.
    ///
    /// # Errors
    /// Any error ends the run.
    fn compute(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Option<Vec<Tensor>>> {
        let _ = (index, node, inputs);
        Ok(None)
    }

    /// Receives the outputs of a node and may replace them.
    ///
    /// # Errors
    /// Any error ends the run.
    fn made(&mut self, index: usize, node: &Node, outputs: &mut [Tensor]) -> Result<()> {
        let _ = (index, node, outputs);
        Ok(())
    }
}

/// An observer that does nothing.
struct Unobserved;

impl Observer for Unobserved {}

/// Runs a graph on a device.
#[derive(Debug)]
pub struct Runner {
    graph: Arc<Graph>,
    device: Device,
    /// The constants of nodes on the device.
    constants: HashMap<ValueId, Tensor>,
    /// The values that are not needed after each node.
    last_uses: Vec<Vec<ValueId>>,
}

impl Runner {
    /// Copies the constants of a graph to a device.
    ///
    /// # Errors
    /// [`Error::Tensor`] if they do not fit into memory.
    pub fn new(graph: impl Into<Arc<Graph>>, device: &Device) -> Result<Self> {
        let graph = graph.into();
        graph.check_values()?;
        let mut constants = HashMap::new();
        for node in graph.nodes() {
            for (k, id) in node.inputs.iter().enumerate() {
                let Some((id, tensor)) = id.and_then(|id| Some((id, graph.constant(id)?))) else {
                    continue;
                };
                let role = placement::role(&node.op, k);
                let is_needed = role != Role::Parameter && !placement::is_on_host(&node.op);
                if is_needed
                    && !constants.contains_key(&id)
                    && placement::fits(tensor, role, device)
                {
                    constants.insert(id, placement::moved(tensor, role, device)?);
                }
            }
        }
        let mut seen = vec![false; graph.n_values()];
        for id in graph.outputs() {
            seen[id.index()] = true;
        }
        let mut last_uses = vec![Vec::new(); graph.nodes().len()];
        for (k, node) in graph.nodes().iter().enumerate().rev() {
            for id in node.needs().chain(node.outputs.iter().flatten().copied()) {
                if !seen[id.index()] && graph.constant(id).is_none() {
                    seen[id.index()] = true;
                    last_uses[k].push(id);
                }
            }
        }
        Ok(Self { graph, device: device.clone(), constants, last_uses })
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs the graph with inputs in its order and returns the outputs.
    ///
    /// # Errors
    /// [`Error::MissingInput`] or [`Error::InputType`] for missing or wrong inputs, [`Error::Node`]
    /// with the node that failed and the reason.
    pub fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        self.run_with(inputs, &mut Unobserved)
    }

    /// Like [`Self::run`], with inputs by name.
    ///
    /// # Errors
    /// As [`Self::run`], and [`Error::UnknownInput`].
    pub fn run_named(&self, mut inputs: HashMap<String, Tensor>) -> Result<Vec<Tensor>> {
        let mut ordered = Vec::with_capacity(inputs.len());
        for &id in self.graph.inputs() {
            let name = &self.graph.value(id)?.name;
            ordered.push(
                inputs.remove(name).ok_or_else(|| Error::MissingInput { name: name.clone() })?,
            );
        }
        if let Some(name) = inputs.into_keys().min() {
            let known =
                self.graph.inputs().iter().map(|&id| Ok(self.graph.value(id)?.name.clone()));
            return Err(Error::UnknownInput { name, known: known.collect::<Result<_>>()? });
        }
        self.run(ordered)
    }

    /// Like [`Self::run`], with an observer.
    ///
    /// # Errors
    /// As [`Self::run`], and the errors of the observer.
    pub fn run_with(
        &self,
        inputs: Vec<Tensor>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Tensor>> {
        self.run_replacing(inputs, &HashMap::new(), observer)
    }

    /// Runs like [`Self::run_with`], with some constants replaced, such as the parameters of a
    /// network in training.
    ///
    /// # Errors
    /// As [`Self::run_with`], and [`Error::Model`] for a replacement of another shape or type, or
    /// of a value that is not a constant.
    pub fn run_replacing(
        &self,
        inputs: Vec<Tensor>,
        constants: &HashMap<ValueId, Tensor>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Tensor>> {
        self.check_inputs(&inputs)?;
        for (&id, tensor) in constants {
            self.graph.check_replacement(id, tensor)?;
        }
        if !self.device.is_gpu() {
            memory::check_run(&self.graph, &inputs, &self.last_uses)?;
        }
        let mut values: HashMap<ValueId, Tensor> = HashMap::new();
        for (&id, tensor) in self.graph.inputs().iter().zip(inputs) {
            let is_float = tensor.dtype().is_float();
            values.insert(id, if is_float { tensor.to_device(&self.device)? } else { tensor });
        }
        values.extend(constants.iter().map(|(&id, tensor)| (id, tensor.clone())));
        self.run_values(values, observer, &Limits::new(control::MAX_STEPS))
    }

    /// Computes a node with another first input; its other inputs must be constants.
    ///
    /// # Errors
    /// [`Error::MissingValue`] for an input that is not a constant, and the error of the node.
    pub fn compute_node(&self, node: &Node, first: Tensor) -> Result<Tensor> {
        let none = HashMap::new();
        let mut inputs = vec![Some(first)];
        for id in node.inputs.iter().skip(1) {
            inputs.push(id.map(|id| self.lookup(&none, id)).transpose()?);
        }
        let made = self.compute_with(node, &inputs)?;
        made.into_iter().next().ok_or_else(|| Error::model(&node.name, "it has no output"))
    }

    /// Computes a node without inner graphs with other inputs.
    ///
    /// # Errors
    /// The error of the node.
    pub fn compute_with(&self, node: &Node, inputs: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
        let target = self.target(node, inputs);
        let moved = |(k, tensor): (usize, &Option<Tensor>)| {
            let role = placement::role(&node.op, k);
            tensor
                .as_ref()
                .map(|tensor| placement::moved(tensor, role, device_of(role, target)))
                .transpose()
        };
        let inputs = inputs.iter().enumerate().map(moved).collect::<Result<Vec<_>>>()?;
        compute_in(&self.graph, node, &inputs)
    }

    fn run_values(
        &self,
        mut values: HashMap<ValueId, Tensor>,
        observer: &mut dyn Observer,
        limits: &Limits,
    ) -> Result<Vec<Tensor>> {
        let mut copies = HashMap::new();
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let in_node = |source: Error| in_node(index, node, source);
            let inputs = self.inputs(node, &values, &mut copies)?;
            let mut made = match observer.compute(index, node, &inputs).map_err(in_node)? {
                Some(made) => made,
                None => self.node(node, &inputs, &values, limits).map_err(in_node)?,
            };
            limits.count(&made).map_err(in_node)?;
            observer.made(index, node, &mut made).map_err(in_node)?;
            keep(node, made, &mut values).map_err(in_node)?;
            for id in &self.last_uses[index] {
                values.remove(id);
                copies.remove(id);
            }
        }
        let outputs = self.graph.outputs().iter();
        outputs.map(|&id| to_device(self.lookup(&values, id)?, &self.device)).collect()
    }

    /// Runs some of the nodes, in their order, and adds their outputs to `values`, which must hold
    /// their inputs unless those are constants.
    ///
    /// # Errors
    /// As [`Self::run`], and [`Error::MissingValue`] for an input that is neither.
    pub fn run_nodes(&self, nodes: &[usize], values: &mut HashMap<ValueId, Tensor>) -> Result<()> {
        let limits = Limits::new(control::MAX_STEPS);
        let mut copies = HashMap::new();
        for &index in nodes {
            let Some(node) = self.graph.nodes().get(index) else {
                return Err(Error::model("graph", format!("node {index} is out of range")));
            };
            let in_node = |source: Error| in_node(index, node, source);
            let inputs = self.inputs(node, values, &mut copies)?;
            let made = self.node(node, &inputs, values, &limits).map_err(in_node)?;
            limits.count(&made).map_err(in_node)?;
            keep(node, made, values).map_err(in_node)?;
        }
        Ok(())
    }

    fn lookup(&self, values: &HashMap<ValueId, Tensor>, id: ValueId) -> Result<Tensor> {
        match values.get(&id).or_else(|| self.graph.constant(id)) {
            Some(tensor) => Ok(tensor.clone()),
            None => Err(Error::MissingValue { name: self.graph.value(id)?.name.clone() }),
        }
    }

    /// Returns the inputs of a node on the devices that it needs. `copies` retains the moved
    /// tensors.
    fn inputs(
        &self,
        node: &Node,
        values: &HashMap<ValueId, Tensor>,
        copies: &mut HashMap<ValueId, Tensor>,
    ) -> Result<Vec<Option<Tensor>>> {
        let own = node.inputs.iter().map(|id| id.map(|id| self.lookup(values, id)).transpose());
        let mut inputs = own.collect::<Result<Vec<_>>>()?;
        if !self.device.is_gpu() {
            return Ok(inputs);
        }
        let target = self.target(node, &inputs);
        for (k, (id, input)) in node.inputs.iter().zip(&mut inputs).enumerate() {
            let (Some(id), Some(tensor)) = (id, input) else { continue };
            let role = placement::role(&node.op, k);
            let device = device_of(role, target);
            if tensor.device() == *device
                || matches!(node.op, Op::Loop { .. }) && role == Role::Data
            {
                continue;
            }
            let constant = self.constants.get(id).filter(|_| self.graph.constant(*id).is_some());
            *tensor = match constant.or_else(|| copies.get(id)) {
                Some(copy) if copy.device() == *device => copy.clone(),
                _ => {
                    let copy = placement::moved(tensor, role, device)?;
                    copies.insert(*id, copy.clone());
                    copy
                }
            };
        }
        Ok(inputs)
    }

    /// Returns the device of a node: the device of the run if an input that it computes with is
    /// there and all inputs can be.
    fn target(&self, node: &Node, inputs: &[Option<Tensor>]) -> &Device {
        let data = || {
            let given =
                inputs.iter().enumerate().filter_map(|(k, tensor)| Some((k, tensor.as_ref()?)));
            given.map(|(k, tensor)| (k, placement::role(&node.op, k), tensor))
        };
        let is_weight = |k: usize, tensor: &Tensor| {
            let id = node.inputs.get(k).copied().flatten();
            id.is_some_and(|id| self.graph.constant(id).is_some()) && placement::is_weight(tensor)
        };
        let is_there = data().any(|(k, role, tensor)| {
            role != Role::Parameter && (tensor.device().is_gpu() || is_weight(k, tensor))
        });
        let fits = data().all(|(_, role, tensor)| {
            role == Role::Parameter || placement::fits(tensor, role, &self.device)
        });
        match is_there && fits && !placement::is_on_host(&node.op) {
            true => &self.device,
            false => &Device::Cpu,
        }
    }

    fn node(
        &self,
        node: &Node,
        inputs: &[Option<Tensor>],
        values: &HashMap<ValueId, Tensor>,
        limits: &Limits,
    ) -> Result<Vec<Tensor>> {
        memory::check_node(node, inputs)?;
        let outer = |id: ValueId| self.lookup(values, id);
        match &node.op {
            Op::If { then_branch, else_branch } => control::branch(
                &Inputs(inputs),
                then_branch,
                else_branch,
                &outer,
                &self.device,
                limits,
            ),
            Op::Loop { body } => {
                control::repeat(&Inputs(inputs), body, &outer, &self.device, limits)
            }
            _ => compute_in(&self.graph, node, inputs),
        }
    }

    fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        let mut sizes: HashMap<&str, usize> = HashMap::new();
        for (k, &id) in self.graph.inputs().iter().enumerate() {
            let value = self.graph.value(id)?;
            let Some(tensor) = inputs.get(k) else {
                return Err(Error::MissingInput { name: value.name.clone() });
            };
            let mut fits = value.dtype.is_none_or(|dtype| dtype == tensor.dtype());
            if let Some(shape) = &value.shape {
                fits &= shape.len() == tensor.rank();
                for (dim, &size) in shape.iter().zip(tensor.shape()) {
                    fits &= match dim {
                        Dim::Fixed(fixed) => *fixed == size,
                        Dim::Named(name) => *sizes.entry(name).or_insert(size) == size,
                        Dim::Unknown => true,
                    };
                }
            }
            if !fits {
                return Err(Error::InputType {
                    name: value.name.clone(),
                    expected: describe(value.dtype, value.shape.as_deref()),
                    actual: format!("{} {:?}", tensor.dtype(), tensor.shape()),
                });
            }
            if let Some(narrow) = self.graph.narrow(id)
                && !narrow.holds(tensor)?
            {
                return Err(Error::InputType {
                    name: value.name.clone(),
                    expected: narrow.to_string(),
                    actual: "elements that it cannot hold".to_owned(),
                });
            }
        }
        if inputs.len() > self.graph.inputs().len() {
            let (name, known) = (format!("number {}", self.graph.inputs().len()), Vec::new());
            return Err(Error::UnknownInput { name, known });
        }
        Ok(())
    }
}

fn describe(dtype: Option<aleatron_tensor::DType>, shape: Option<&[Dim]>) -> String {
    let dtype = dtype.map_or_else(|| "any type".to_owned(), |dtype| dtype.to_string());
    match shape {
        None => dtype,
        Some(shape) => {
            let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("{dtype} [{}]", sizes.join(", "))
        }
    }
}

/// Moves a tensor to a device, or to the host if the device does not support its type.
fn to_device(tensor: Tensor, device: &Device) -> Result<Tensor> {
    if !device.supports(tensor.dtype()) {
        return Ok(tensor.to_device(&Device::Cpu)?);
    }
    Ok(tensor.to_device(device)?)
}

/// Returns the device of an input with this role for a node that runs on `target`.
fn device_of(role: Role, target: &Device) -> &Device {
    if role == Role::Parameter { &Device::Cpu } else { target }
}

/// Wraps an error with the node that it occurred in.
fn in_node(index: usize, node: &Node, source: Error) -> Error {
    let (name, operator) = (node.name.clone(), node.op.name().to_owned());
    Error::Node { index, name, operator, source: Box::new(source) }
}

/// Adds the outputs of a node to the values.
fn keep(node: &Node, made: Vec<Tensor>, values: &mut HashMap<ValueId, Tensor>) -> Result<()> {
    let mut made = made.into_iter();
    for (k, id) in node.outputs.iter().enumerate() {
        match (id, made.next()) {
            (Some(id), Some(tensor)) => drop(values.insert(*id, tensor)),
            (Some(_), None) => {
                return Err(Error::model(format!("output {k}"), "the operator does not make it"));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Computes a node without graphs inside; integers of types that tensors hold in wider ones are
/// reduced to their types.
pub(crate) fn compute_in(
    graph: &Graph,
    node: &Node,
    inputs: &[Option<Tensor>],
) -> Result<Vec<Tensor>> {
    let mut made = compute(&node.op, inputs, node.outputs.len())?;
    for (id, tensor) in node.outputs.iter().zip(&mut made) {
        if let Some(narrow) = id.and_then(|id| graph.narrow(id)) {
            *tensor = narrow.wrap(tensor)?;
        }
    }
    Ok(made)
}

/// Computes an operation without inner graphs.
pub(crate) fn compute(op: &Op, inputs: &[Option<Tensor>], n_outputs: usize) -> Result<Vec<Tensor>> {
    let x = &Inputs(inputs);
    let one = |tensor: Tensor| Ok(vec![tensor]);
    match op {
        Op::Unary(function) => one(elementwise::unary(*function, x)?),
        Op::Binary(function) => one(elementwise::binary(*function, x)?),
        Op::Variadic(function) => one(elementwise::variadic(*function, x)?),
        Op::Where => one(elementwise::choose(x)?),
        Op::Clip { low, high } => one(elementwise::clip(x, *low, *high)?),
        Op::Cast(dtype) => one(elementwise::cast(x.get(0)?, *dtype)?),
        Op::CastLike => one(elementwise::cast(x.get(0)?, x.get(1)?.dtype())?),
        Op::Identity => one(x.get(0)?.clone()),
        Op::Constant(value) => one(value.0.clone()),
        Op::SwiGlu { alpha } => one(elementwise::swiglu(x, *alpha)?),
        Op::Dropout { training } => elementwise::dropout(x, *training),

        Op::Reduce { reduction, axes, reduced, no_axes } => {
            one(reduce::reduce(x, *reduction, axes.as_deref(), *reduced, *no_axes)?)
        }
        Op::ArgReduce { extreme, axis, reduced, tie } => {
            one(reduce::arg_reduce(x.get(0)?, *extreme, *axis, *reduced, *tie)?)
        }
        Op::Softmax { function, axes } => one(reduce::softmax(x.get(0)?, *function, *axes)?),
        Op::CumSum { exclusive, reverse } => {
            one(reduce::cumulate(x, *exclusive, *reverse, reduce::Cumulate::Sum)?)
        }
        Op::CumProd { exclusive, reverse } => {
            one(reduce::cumulate(x, *exclusive, *reverse, reduce::Cumulate::Product)?)
        }
        Op::TopK { axis, extreme } => reduce::top_k(x, *axis, *extreme),

        Op::MatMul => one(product::matmul(x.get(0)?, x.get(1)?)?),
        Op::Gemm { alpha, beta, transpose_a, transpose_b } => {
            one(product::gemm(x, *alpha, *beta, *transpose_a, *transpose_b)?)
        }
        Op::Conv { window, groups } => one(product::conv(x, window, *groups)?),
        Op::ConvTranspose { window, groups, output_padding, output_shape } => {
            one(product::conv_transpose(x, window, *groups, output_padding, output_shape)?)
        }
        Op::Einsum { equation } => one(product::einsum(x, equation)?),
        Op::Det => one(product::determinant(x.get(0)?)?),

        Op::QuantizeLinear { axis, block_size, to } => {
            one(quantize::quantize(x, *axis, *block_size, *to)?)
        }
        Op::DequantizeLinear { axis, block_size } => {
            one(quantize::dequantize(x, *axis, *block_size)?)
        }
        Op::DynamicQuantizeLinear => quantize::dynamic(x.get(0)?),
        Op::MatMulInteger => one(quantize::matmul_integer(x)?),
        Op::ConvInteger { window, groups } => one(quantize::conv_integer(x, window, *groups)?),
        Op::QLinearMatMul { to } => one(quantize::linear_matmul(x, *to)?),
        Op::QLinearConv { window, groups, to } => {
            one(quantize::linear_conv(x, window, *groups, *to)?)
        }

        Op::Pool { pooling, window, rounding } => {
            pool::pool(x.get(0)?, *pooling, window, *rounding, n_outputs)
        }
        Op::GlobalPool(pooling) => one(pool::global(x.get(0)?, *pooling)?),
        Op::MaxUnpool { window } => one(pool::unpool(x, window)?),
        Op::Col2Im { window } => one(pool::col2im(x, window)?),

        Op::BatchNormalization { epsilon, momentum, training } => {
            normalize::batch(x, *epsilon, *momentum, *training)
        }
        Op::InstanceNormalization { epsilon } => one(normalize::instance(x, *epsilon)?),
        Op::GroupNormalization { epsilon, groups } => one(normalize::group(x, *epsilon, *groups)?),
        Op::LayerNormalization { axis, epsilon } => normalize::layer(x, *axis, *epsilon, n_outputs),
        Op::RmsNormalization { axis, epsilon } => one(normalize::rms(x, *axis, *epsilon)?),
        Op::LpNormalization { axis, p } => one(normalize::lp(x.get(0)?, *axis, *p)?),
        Op::Lrn { alpha, beta, bias, size } => {
            one(normalize::lrn(x.get(0)?, *alpha, *beta, *bias, *size)?)
        }
        Op::MeanVarianceNormalization { axes } => one(normalize::mean_variance(x.get(0)?, axes)?),

        Op::Reshape { shape, allow_zero } => one(shape::reshape(x, shape.as_deref(), *allow_zero)?),
        Op::Flatten { axis } => one(shape::flatten(x.get(0)?, *axis)?),
        Op::Squeeze { axes } => one(shape::squeeze(x, axes.as_deref())?),
        Op::Unsqueeze { axes } => one(shape::unsqueeze(x, axes.as_deref())?),
        Op::Transpose { order } => one(shape::transpose(x.get(0)?, order.as_deref())?),
        Op::Expand => one(shape::expand(x)?),
        Op::Tile => one(shape::tile(x)?),
        Op::Concat { axis } => one(shape::concat(x, *axis)?),
        Op::Split { axis, sizes, parts } => shape::split(x, *axis, sizes.as_deref(), *parts),
        Op::Slice { given } => one(shape::slice(x, given.as_ref())?),
        Op::Pad { mode, given } => one(shape::pad(x, *mode, given.as_ref())?),
        Op::CenterCropPad { axes } => one(shape::center_crop_pad(x, axes.as_deref())?),
        Op::DepthToSpace { block, order } => one(shape::depth_to_space(x.get(0)?, *block, *order)?),
        Op::SpaceToDepth { block } => one(shape::space_to_depth(x.get(0)?, *block)?),
        Op::Shape { start, end } => one(shape::shape(x.get(0)?, *start, *end)?),
        Op::Size => one(shape::count(x.get(0)?)?),
        Op::ConstantOfShape { value } => one(shape::constant_of_shape(x, &value.0)?),

        Op::Gather { axis } => one(index::gather(x.get(0)?, x.get(1)?, *axis)?),
        Op::GatherElements { axis } => one(index::gather_elements(x, *axis)?),
        Op::GatherNd { batch_dims } => one(index::gather_nd(x, *batch_dims)?),
        Op::ScatterElements { axis, scatter } => one(index::scatter_elements(x, *axis, *scatter)?),
        Op::ScatterNd { scatter } => one(index::scatter_nd(x, *scatter)?),

        Op::Compress { axis } => one(select::compress(x, *axis)?),
        Op::OneHot { axis } => one(select::one_hot(x, *axis)?),
        Op::Trilu { triangle } => one(select::trilu(x, *triangle)?),
        Op::EyeLike { diagonal, dtype } => one(select::eye_like(x.get(0)?, *diagonal, *dtype)?),
        Op::NonZero => one(select::non_zero(x.get(0)?)?),
        Op::ReverseSequence { batch_axis, time_axis } => {
            one(select::reverse_sequence(x, *batch_axis, *time_axis)?)
        }
        Op::Unique { axis, sorted } => select::unique(x.get(0)?, *axis, *sorted),
        Op::Range => one(select::range(x)?),

        Op::Resize(resize) => one(resize::resize(x, resize)?),
        Op::Upsample { interpolation } => one(resize::upsample(x, *interpolation)?),
        Op::GridSample { interpolation, edge, align_corners } => {
            one(grid::sample(x, *interpolation, *edge, *align_corners)?)
        }
        Op::Recurrent(recurrent) => recurrent::run(x, recurrent),
        Op::Attention(attention) => attention::attention(x, attention, n_outputs),
        Op::RotaryEmbedding { interleaved, heads, rotated } => {
            one(attention::rotary(x, *interleaved, *heads, *rotated)?)
        }
        Op::Dft { axis, inverse, onesided } => one(signal::dft(x, *axis, *inverse, *onesided)?),
        Op::Stft { onesided } => one(signal::stft(x, *onesided)?),
        Op::SignalWindow { function, periodic, dtype } => {
            one(signal::window(x, *function, *periodic, *dtype)?)
        }
        Op::NonMaxSuppression { format } => one(nms::suppress(x, *format)?),
        Op::If { .. } | Op::Loop { .. } => {
            Err(Error::model(op.name(), "it needs the graph around it"))
        }
    }
}
