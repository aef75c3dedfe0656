//! Emission of the nodes of a program segment as steps.

use super::form::Form;
use super::pool::pool;
use super::value::Number;
use super::{CompiledLayer, Links, Views, refused};
use crate::network::{Layer, LayerShapes, Network, StreamConfig};
use crate::{Error, Result};
use aleatron_core::arithmetic::{
    Accumulator, Activation, Arithmetic, FloatStage, Requantizer, Rescaler, to_units,
};
use aleatron_core::fault::{FaultSite, check_generators, counter_width};
use aleatron_core::generator::{IntegerBits, Width};
use aleatron_core::program::{
    Bounds, ConstantOp, InputSign, Pattern, ProgramBuilder, Sign, SlotId, SlotKind, ValueRange,
};
use aleatron_core::{InputSource, LayerIndex, LayerSpec, Quantity, Weights};
use aleatron_graph::batch::BatchAnalysis;
use aleatron_graph::{Binary, Error as GraphError, Node, Op, Runner, Unary, ValueId};
use aleatron_tensor::{DType, Tensor};
use std::collections::{HashMap, HashSet};

/// The width of the comparators of Bernoulli streams in integer arithmetic. Sequences have
/// comparators of their own width.
const COMPARATOR_BITS: u32 = 16;

/// The width of multipliers of integer arithmetic, unless the ratio of scales needs more.
const MULTIPLIER_BITS: u32 = 16;

/// Fraction bits of accumulators of streams: biases are rounded to 1/256 of a product bit, whose
/// own noise is far larger.
const FRACTION_BITS: u32 = 8;

/// Returns the fraction bits of the accumulators of a layer. Products of integers need none for
/// biases.
fn fraction_bits(spec: &LayerSpec) -> u32 {
    if spec.integer_bits().is_some() { 0 } else { FRACTION_BITS }
}

/// Adds the steps of nodes to a program.
pub(super) struct Emitter<'a> {
    pub(super) network: &'a Network,
    pub(super) config: &'a StreamConfig,
    pub(super) runner: &'a Runner,
    analysis: &'a BatchAnalysis,
    links: &'a Links,
    views: Views,
    pub(super) program: ProgramBuilder,
    pub(super) values: HashMap<ValueId, Number>,
    /// The outputs of layers before their bias or activation, if the locations of outputs are
    /// recorded.
    pub(super) shown: HashMap<ValueId, (SlotId, Number)>,
    /// The value of 1, by the index of a unit.
    pub(super) units: Vec<f64>,
    unit_indices: HashMap<u64, u32>,
    /// The layers of the program, with their indices in the network.
    pub(super) layers: Vec<(usize, CompiledLayer)>,
    /// Nodes whose activation is merged into the stage of a layer.
    merged: HashSet<usize>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        network: &'a Network,
        config: &'a StreamConfig,
        runner: &'a Runner,
        analysis: &'a BatchAnalysis,
        links: &'a Links,
        views: Views,
    ) -> Self {
        Self {
            network,
            config,
            runner,
            analysis,
            links,
            views,
            program: ProgramBuilder::default(),
            values: HashMap::new(),
            shown: HashMap::new(),
            units: Vec::new(),
            unit_indices: HashMap::new(),
            layers: Vec::new(),
            merged: HashSet::new(),
        }
    }

    /// Adds an input of floats.
    pub(super) fn input(&mut self, id: ValueId, shape: &[usize], is_streamed: bool) -> Result<()> {
        let slot = self.program.input(shape.iter().product())?;
        let number = Number { is_streamed, ..Number::of_slot(slot, SlotKind::Float, shape)? };
        self.values.insert(id, number);
        Ok(())
    }

    /// Adds the steps of a node.
    pub(super) fn node(&mut self, index: usize, node: &Node, form: Form) -> Result<()> {
        let emitted = match form {
            Form::Stream(layer) => vec![self.stream(layer, node)?],
            Form::Bias(operand) => vec![self.number(node, operand)?],
            Form::Move => self.moved(node)?,
            Form::Clip if self.merged.contains(&index) => vec![self.number(node, 0)?],
            Form::Clip => vec![self.clipped(node)?],
            Form::Pool => vec![self.pooled(node)?],
            Form::Scale(operand) => vec![self.scaled(node, operand)?],
            Form::Offset(operand) => vec![self.shifted(node, operand)?],
            Form::Sum => vec![self.sum(node)?],
            Form::Constant | Form::Tensors => {
                return Err(aleatron_core::Error::Internal {
                    place: "engine::compile::Emitter::node",
                }
                .into());
            }
        };
        for (id, number) in node.outputs.iter().zip(emitted) {
            if let Some(id) = id {
                self.values.insert(*id, number);
            }
        }
        Ok(())
    }

    /// Returns a slot of floats that holds a value.
    pub(super) fn floats(&mut self, id: ValueId) -> Result<SlotId> {
        let Some(number) = self.values.get(&id).cloned() else {
            return Err(aleatron_core::Error::Internal {
                place: "engine::compile::Emitter::floats",
            }
            .into());
        };
        let slot = number.slot(&mut self.program)?;
        match number.kind {
            SlotKind::Integer => {
                let units = self.unit_pattern(&number, |&unit| Ok(unit))?;
                Ok(self.program.restore(slot, units)?)
            }
            _ => Ok(slot),
        }
    }

    fn number(&self, node: &Node, k: usize) -> Result<Number> {
        let number = node.inputs.get(k).copied().flatten().and_then(|id| self.values.get(&id));
        number.cloned().ok_or_else(|| refused(node, format!("input {k} is missing")))
    }

    /// Returns an input if it is a constant.
    fn constant(&self, node: &Node, k: usize) -> Option<&Tensor> {
        let id = node.inputs.get(k).copied().flatten()?;
        self.network.graph().constant(id).or_else(|| self.analysis.tensor(id))
    }

    fn unit(&self, index: u32) -> Result<f64> {
        let missing = aleatron_core::Error::Internal { place: "engine::compile::Emitter::unit" };
        self.units.get(index as usize).copied().ok_or_else(|| missing.into())
    }

    fn unit_index(&mut self, unit: f64) -> u32 {
        let units = &mut self.units;
        *self.unit_indices.entry(unit.to_bits()).or_insert_with(|| {
            units.push(unit);
            (units.len() - 1) as u32
        })
    }

    /// Returns a pattern of constants that follow from the units of a number.
    fn unit_pattern<T: Clone>(
        &self,
        number: &Number,
        mut convert: impl FnMut(&f64) -> aleatron_core::Result<T>,
    ) -> Result<Pattern<T>> {
        let indices = number.unit_indices()?;
        // Only the units that occur are converted: others may have no such constant.
        let mut used = indices.clone();
        used.sort_unstable();
        used.dedup();
        let mut table = Vec::with_capacity(used.len());
        for &index in &used {
            table.push(convert(&self.unit(index)?)?);
        }
        let internal =
            |_| aleatron_core::Error::Internal { place: "engine::compile::Emitter::unit_pattern" };
        let key = |index| Ok(used.binary_search(index).map_err(internal)? as u32);
        let keys = indices.iter().map(key).collect::<aleatron_core::Result<Vec<_>>>()?;
        Ok(Pattern::from_keys(&keys, table)?)
    }

    fn stream(&mut self, index: usize, node: &Node) -> Result<Number> {
        let layer = &self.network.layers()[index];
        let in_layer = |error: Error| match error {
            error @ Error::Core(aleatron_core::Error::Cancelled) => error,
            source => {
                Error::Layer { layer: index, name: layer.name.clone(), source: Box::new(source) }
            }
        };
        self.stream_of(index, layer, node).map_err(in_layer)
    }

    /// Checks that a layer has the sites of its faults.
    fn check_faults(&self, name: &str, spec: &LayerSpec) -> Result<()> {
        let StreamConfig { faults, fault_layers, .. } = self.config;
        let is_own = fault_layers.is_empty() || fault_layers.iter().any(|layer| layer == name);
        for fault in faults.iter().filter(|fault| is_own && !fault.rate().is_zero()) {
            if let Some(bits) = spec.integer_bits().filter(|_| !fault.site().is_binary()) {
                return Err(Error::NoStreams { site: fault.site(), bits });
            }
            match fault.site() {
                FaultSite::Generators => check_generators(spec)?,
                FaultSite::Counters => counter_width(spec).map(drop)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn stream_of(&mut self, index: usize, layer: &Layer, node: &Node) -> Result<Number> {
        let input = self.number(node, 0)?;
        let shapes = layer.shapes(input.shape())?;
        let settings = self.config.settings_of(&layer.name);
        let spec = settings.spec(
            self.config.seed,
            shapes.topology.clone(),
            layer.polarity,
            LayerIndex::new(index)?,
        )?;
        self.check_faults(&layer.name, &spec)?;
        // A weight or input of 1 becomes the greatest integer.
        let gain = spec.integer_bits().map_or(1.0, IntegerBits::gain);
        let weights = layer.encoded_weights().into_iter().map(|weight| weight / gain).collect();
        let weights = Weights::new(&spec, weights)?;
        let program_layer = self.program.layer(spec.clone(), weights, shapes.rows)?;
        if input.sign == InputSign::NonNegative {
            self.program.set_non_negative(program_layer)?;
        }
        let slot = input.slot(&mut self.program)?;
        let comparator = comparator(&spec)?;
        let thresholds = match input.kind {
            SlotKind::Integer => {
                let scale = layer.input_scale * gain;
                let requantizers = self.unit_pattern(&input, |&unit| {
                    Requantizer::of_unit(unit, scale, MULTIPLIER_BITS, comparator, spec.polarity())
                })?;
                self.program.requantize(program_layer, slot, requantizers)?
            }
            _ => {
                let range =
                    if input.is_streamed { ValueRange::Saturate } else { self.config.range };
                let comparator = match self.config.arithmetic {
                    Arithmetic::Float => None,
                    Arithmetic::Integer => Some(comparator),
                };
                self.program.quantize(
                    program_layer,
                    slot,
                    layer.input_scale * gain,
                    comparator,
                    range,
                )?
            }
        };
        let counts = self.program.product(program_layer, thresholds)?;
        let activation = Activation::Identity;
        let mut stage = FloatStage { scales: layer.sum_scales(), bias: layer.biases(), activation };
        stage.activation = self.activation_behind(layer, &spec, &stage)?;
        let (outputs, number, accumulator) =
            self.staged(layer, &spec, program_layer, counts, &stage, &shapes)?;
        if self.views == Views::Recorded {
            self.show(layer, &spec, program_layer, counts, &stage, &shapes)?;
        }
        self.layers.push((
            index,
            CompiledLayer {
                segment: 0,
                layer: program_layer,
                thresholds,
                counts,
                outputs,
                comparator,
                accumulator,
                is_first: !input.is_streamed,
            },
        ));
        Ok(number)
    }

    /// Adds the step from counts to numbers.
    fn staged(
        &mut self,
        layer: &Layer,
        spec: &LayerSpec,
        program_layer: usize,
        counts: SlotId,
        stage: &FloatStage,
        shapes: &LayerShapes,
    ) -> Result<(SlotId, Number, Option<Accumulator>)> {
        let sign = sign_of(stage.activation);
        let streamed = |number: Number| Number { is_streamed: true, sign, ..number };
        if self.config.arithmetic == Arithmetic::Float {
            let outputs = self.program.decode(program_layer, counts, stage.clone())?;
            let number = Number::of_slot(outputs, SlotKind::Float, &shapes.output)?;
            return Ok((outputs, streamed(number), None));
        }
        let accumulator = Accumulator::calibrated(spec, stage, fraction_bits(spec))?;
        let outputs = self.program.accumulate(program_layer, counts, accumulator.clone())?;
        let unit = |row: usize| {
            accumulator.unit(spec.length(), layer.input_scale * layer.weight_scale(row))
        };
        let rows: Vec<u32> = (0..spec.n_rows()).map(|row| self.unit_index(unit(row))).collect();
        let (per_row, n) = (spec.neurons_per_row(), spec.n_neurons());
        let units: Vec<u32> = (0..n * shapes.rows).map(|k| rows[k % n / per_row]).collect();
        let number =
            Number::of_slot(outputs, SlotKind::Integer, &shapes.output)?.with_units(&units)?;
        let number = Number { width: accumulator.width(), ..streamed(number) };
        Ok((outputs, number, Some(accumulator)))
    }

    /// Adds the outputs of a layer before its bias and before its activation, if these are separate
    /// nodes.
    fn show(
        &mut self,
        layer: &Layer,
        spec: &LayerSpec,
        program_layer: usize,
        counts: SlotId,
        stage: &FloatStage,
        shapes: &LayerShapes,
    ) -> Result<()> {
        let output =
            |node: usize| self.network.graph().nodes()[node].outputs.first().copied().flatten();
        let plain = FloatStage { activation: Activation::Identity, ..stage.clone() };
        let without_bias = FloatStage { bias: vec![0.0; stage.bias.len()], ..plain.clone() };
        let mut parts = Vec::new();
        if layer.bias_node.is_some() {
            parts.push((output(layer.node), without_bias));
        }
        if stage.activation != Activation::Identity {
            parts.push((output(layer.output_node()), plain));
        }
        for (id, stage) in parts {
            let (slot, number, _) =
                self.staged(layer, spec, program_layer, counts, &stage, shapes)?;
            if let Some(id) = id {
                self.shown.insert(id, (slot, number));
            }
        }
        Ok(())
    }

    /// Returns the activation that is the only user of a layer's outputs and is merged into its
    /// stage.
    fn activation_behind(
        &mut self,
        layer: &Layer,
        spec: &LayerSpec,
        stage: &FloatStage,
    ) -> Result<Activation> {
        let graph = self.network.graph();
        let output = graph.nodes()[layer.output_node()].outputs.first().copied().flatten();
        let Some(output) = output.filter(|id| !graph.outputs().contains(id)) else {
            return Ok(Activation::Identity);
        };
        let [user] = self.links.users(output)[..] else { return Ok(Activation::Identity) };
        let next = &graph.nodes()[user];
        let activation = match &next.op {
            Op::Unary(Unary::Relu) => Activation::Relu,
            Op::Clip { .. } if next.inputs.first() == Some(&Some(output)) => {
                // Integers of rows of different units have no common bounds.
                let [low, high] = self.clip_bounds(next)?;
                match (low, high, layer.weight_scales.len()) {
                    (Some(low), Some(high), 1) if low <= high => Activation::Clamp { low, high },
                    _ => return Ok(Activation::Identity),
                }
            }
            _ => return Ok(Activation::Identity),
        };
        if let (Activation::Clamp { low, high }, Arithmetic::Integer) =
            (activation, self.config.arithmetic)
        {
            // Bounds beyond all values would widen the accumulator: a separate step drops them.
            let plain = Accumulator::calibrated(spec, stage, fraction_bits(spec))?;
            let unit = plain.unit(spec.length(), layer.input_scale * layer.weight_scale(0));
            let [least, greatest] = plain.interval().map(|end| end as f64 * unit);
            if low < least || high > greatest {
                return Ok(Activation::Identity);
            }
        }
        self.merged.insert(user);
        Ok(activation)
    }

    fn moved(&mut self, node: &Node) -> Result<Vec<Number>> {
        let first = self.number(node, 0)?;
        let (mut codes, mut units) = (Vec::new(), Vec::new());
        let mut width = 0;
        let mut sign = InputSign::NonNegative;
        for (k, id) in node.inputs.iter().enumerate() {
            match id.and_then(|id| self.values.get(&id)) {
                Some(number) => {
                    width = width.max(number.width);
                    sign = both(sign, number.sign);
                    codes.push(Some(number.codes.clone()));
                    units.push(number.units.clone());
                }
                None => {
                    let constant = self.constant(node, k).cloned();
                    codes.push(constant.clone());
                    units.push(constant);
                }
            }
        }
        let moved = self.runner.compute_with(node, &codes)?;
        let units = match first.units {
            Some(_) => self.runner.compute_with(node, &units)?.into_iter().map(Some).collect(),
            None => vec![None; moved.len()],
        };
        let emitted = moved.into_iter().zip(units);
        Ok(emitted
            .map(|(codes, units)| Number { codes, units, width, sign, ..first.clone() })
            .collect())
    }

    /// Returns the bounds of a node that limits numbers.
    fn clip_bounds(&self, node: &Node) -> Result<[Option<f64>; 2]> {
        let Op::Clip { low, high } = &node.op else { return Ok([Some(0.0), None]) };
        let given = |k: usize, attribute: &Option<f32>| -> Result<Option<f64>> {
            let bound = match self.constant(node, k) {
                Some(bound) => floats(bound)?.first().copied(),
                None => *attribute,
            };
            match bound.map(f64::from) {
                Some(bound) if bound.is_nan() => Err(refused(node, "a bound is not a number")),
                bound => Ok(bound),
            }
        };
        Ok([given(1, low)?, given(2, high)?])
    }

    fn clipped(&mut self, node: &Node) -> Result<Number> {
        let number = self.number(node, 0)?;
        let bounds @ [low, high] = self.clip_bounds(node)?;
        let slot = number.slot(&mut self.program)?;
        let mut width = number.width;
        let emitted = match number.kind {
            SlotKind::Integer => {
                let most = greatest(number.width);
                let pattern = self.unit_pattern(&number, |&unit| {
                    let mut clip = [i64::MIN, i64::MAX];
                    for (k, bound) in bounds.into_iter().enumerate() {
                        let Some(bound) = bound else { continue };
                        // A bound beyond all values limits nothing.
                        let is_beyond =
                            [bound / unit <= -(most as f64) - 1.0, bound / unit >= most as f64][k];
                        if !is_beyond {
                            clip[k] = to_units(Quantity::Bound, k, bound, unit)?;
                            width = width.max(bits(clip[k]));
                        }
                    }
                    Ok(clip)
                })?;
                self.program.clip(slot, Bounds::Integer(pattern))?
            }
            _ => {
                let [low, high] = [low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)];
                self.program.clip(slot, Bounds::Float(Pattern::uniform([low, high])))?
            }
        };
        let sign =
            if low.is_some_and(|low| low >= 0.0) { InputSign::NonNegative } else { number.sign };
        Ok(Number { width, sign, ..self.same(&number, emitted)? })
    }

    /// Returns the number of a new slot with the same elements.
    fn same(&self, number: &Number, slot: SlotId) -> Result<Number> {
        let emitted = Number::of_slot(slot, number.kind, number.shape())?;
        Ok(Number { codes: emitted.codes, ..number.clone() })
    }

    fn pooled(&mut self, node: &Node) -> Result<Number> {
        let number = self.number(node, 0)?;
        let axes = match (&node.op, self.constant(node, 1)) {
            (Op::Reduce { .. }, Some(axes)) => {
                Some(axes.to_vec::<i64>().map_err(GraphError::from)?)
            }
            _ => None,
        };
        let (shape, output) = pool(node, number.shape(), axes)?;
        let slot = number.slot(&mut self.program)?;
        let emitted = self.program.pool(slot, shape)?;
        let mut pooled = Number::of_slot(emitted, number.kind, &output)?;
        (pooled.width, pooled.is_streamed, pooled.sign) =
            (number.width, number.is_streamed, number.sign);
        if number.kind == SlotKind::Integer {
            let positions = shape.n_inputs() / shape.output()[0];
            let windows = shape.n_outputs() / shape.output()[0];
            let mut units = Vec::new();
            for image in number.unit_indices()?.chunks_exact(positions) {
                if image.iter().any(|unit| *unit != image[0]) {
                    return Err(refused(node, "the elements that it reduces have different units"));
                }
                units.extend(std::iter::repeat_n(image[0], windows));
            }
            pooled = pooled.with_units(&units)?;
        }
        Ok(pooled)
    }

    /// Returns the constant operand of a node for each element of the result.
    fn operand(&self, node: &Node, k: usize, shape: &[usize]) -> Result<Vec<f64>> {
        let Some(constant) = self.constant(node, k) else {
            return Err(refused(node, format!("input {k} is not a constant")));
        };
        let constant = constant.broadcast_to(shape).map_err(GraphError::from)?;
        Ok(floats(&constant)?.into_iter().map(f64::from).collect())
    }

    /// Returns the number that is combined with a constant, broadcast to the shape of the result.
    fn non_constant_operand(&self, node: &Node, operand: usize) -> Result<Number> {
        let number = self.number(node, operand)?;
        let Some(constant) = self.constant(node, 1 - operand) else {
            return Err(refused(node, format!("input {} is not a constant", 1 - operand)));
        };
        let shape = broadcast_shape(node, number.shape(), constant.shape())?;
        number.broadcast(&shape)
    }

    fn scaled(&mut self, node: &Node, operand: usize) -> Result<Number> {
        let number = self.non_constant_operand(node, operand)?;
        let factors = self.operand(node, 1 - operand, number.shape())?;
        let divides = matches!(node.op, Op::Binary(Binary::Div));
        if number.kind != SlotKind::Integer {
            let op = if divides { ConstantOp::Divide } else { ConstantOp::Multiply };
            let slot = number.slot(&mut self.program)?;
            let emitted = self.program.constant(slot, op, self.per_sample(&factors)?)?;
            let keeps_sign = factors.iter().all(|factor| *factor >= 0.0);
            let sign = if keeps_sign { number.sign } else { InputSign::Any };
            return Ok(Number { sign, ..self.same(&number, emitted)? });
        }
        let mut units = Vec::with_capacity(factors.len());
        for (index, &factor) in number.unit_indices()?.into_iter().zip(&factors) {
            let unit = self.unit(index)?;
            let unit = if divides { unit / factor } else { unit * factor };
            if !(unit > 0.0 && unit.is_finite()) {
                return Err(refused(
                    node,
                    format!("its constant is {factor}, which is not positive"),
                ));
            }
            units.push(self.unit_index(unit));
        }
        number.with_units(&units)
    }

    fn shifted(&mut self, node: &Node, operand: usize) -> Result<Number> {
        let number = self.non_constant_operand(node, operand)?;
        let terms = self.operand(node, 1 - operand, number.shape())?;
        let is_sub = matches!(node.op, Op::Binary(Binary::Sub));
        let slot = number.slot(&mut self.program)?;
        if number.kind != SlotKind::Integer {
            let op = match (is_sub, operand) {
                (false, _) => ConstantOp::Add,
                (true, 0) => ConstantOp::Subtract,
                (true, _) => ConstantOp::SubtractFrom,
            };
            let emitted = self.program.constant(slot, op, self.per_sample(&terms)?)?;
            return Ok(Number { sign: InputSign::Any, ..self.same(&number, emitted)? });
        }
        // a - c subtracts the constant, c - a the value.
        let (sign, is_subtracted) = match (is_sub, operand) {
            (true, 0) => (Sign::Plus, true),
            (true, _) => (Sign::Minus, false),
            (false, _) => (Sign::Plus, false),
        };
        let mut emitted = Vec::with_capacity(terms.len());
        for (k, (index, &term)) in number.unit_indices()?.into_iter().zip(&terms).enumerate() {
            let term = if is_subtracted { -term } else { term };
            emitted.push(to_units(Quantity::Bias, k, term, self.unit(index)?)?);
        }
        let most = emitted.iter().map(|&term| bits(term)).max().unwrap_or(0);
        let width = fitting(node, 1 + number.width.max(most))?;
        let emitted = self.program.offset(slot, sign, self.per_sample(&emitted)?)?;
        Ok(Number { width, sign: InputSign::Any, ..self.same(&number, emitted)? })
    }

    /// Returns the pattern of constants, which are the same for every sample of a run of several.
    fn per_sample<T: Clone + PartialEq>(&self, values: &[T]) -> Result<Pattern<T>> {
        let n_samples = self.analysis.n_samples();
        let part = values.len() / n_samples;
        let is_periodic = part > 0
            && part * n_samples == values.len()
            && values.chunks(part).all(|c| c == &values[..part]);
        Ok(Pattern::from_elements(if is_periodic { &values[..part] } else { values })?)
    }

    fn sum(&mut self, node: &Node) -> Result<Number> {
        let [left, right] = [self.number(node, 0)?, self.number(node, 1)?];
        let shape = broadcast_shape(node, left.shape(), right.shape())?;
        let [left, right] = [left.broadcast(&shape)?, right.broadcast(&shape)?];
        let sign =
            if matches!(node.op, Op::Binary(Binary::Sub)) { Sign::Minus } else { Sign::Plus };
        let slots = [left.slot(&mut self.program)?, right.slot(&mut self.program)?];
        let is_streamed = left.is_streamed || right.is_streamed;
        let summed = if sign == Sign::Plus { both(left.sign, right.sign) } else { InputSign::Any };
        if left.kind != SlotKind::Integer {
            let emitted = self.program.combine(slots, sign, None)?;
            return Ok(Number { is_streamed, sign: summed, ..self.same(&left, emitted)? });
        }
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let (mut joins, mut finer, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut width = 0;
        for pair in left.unit_indices()?.into_iter().zip(right.unit_indices()?) {
            let key = match known.get(&pair) {
                Some(&key) => key,
                None => {
                    let units = [self.unit(pair.0)?, self.unit(pair.1)?];
                    let least = units[0].min(units[1]);
                    let mut join = [None; 2];
                    for (k, number) in [&left, &right].into_iter().enumerate() {
                        let mut wide = number.width;
                        if units[k] > least {
                            let rescaler = Rescaler::calibrated(units[k], least, MULTIPLIER_BITS)?;
                            wide += rescaler.growth();
                            join[k] = Some(rescaler);
                        }
                        width = width.max(wide);
                    }
                    joins.push(join);
                    finer.push(self.unit_index(least));
                    let key = (joins.len() - 1) as u32;
                    known.insert(pair, key);
                    key
                }
            };
            keys.push(key);
        }
        let width = fitting(node, width + 1)?;
        let units: Vec<u32> = keys.iter().map(|&key| finer[key as usize]).collect();
        let is_equal = joins.iter().flatten().all(Option::is_none);
        let rescale = if is_equal { None } else { Some(Pattern::from_keys(&keys, joins)?) };
        let emitted = self.program.combine(slots, sign, rescale)?;
        let sum = self.same(&left, emitted)?.with_units(&units)?;
        Ok(Number { width, is_streamed, sign: summed, ..sum })
    }
}

/// Returns the sign of the outputs of an activation.
fn sign_of(activation: Activation) -> InputSign {
    match activation {
        Activation::Relu => InputSign::NonNegative,
        Activation::Clamp { low, .. } if low >= 0.0 => InputSign::NonNegative,
        _ => InputSign::Any,
    }
}

/// Returns the sign of elements of two values, or of their sums.
fn both(a: InputSign, b: InputSign) -> InputSign {
    if a == InputSign::NonNegative { b } else { a }
}

/// Returns the width of the comparators of a layer's inputs in integer arithmetic.
fn comparator(spec: &LayerSpec) -> Result<Width> {
    Ok(match spec.encoding().input_source() {
        InputSource::Bernoulli => Width::new(COMPARATOR_BITS)?,
        InputSource::Sequences(inputs) => inputs.width(),
    })
}

/// Returns the broadcast shape of two operands.
fn broadcast_shape(node: &Node, left: &[usize], right: &[usize]) -> Result<Vec<usize>> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |own| shape[own])
    };
    let sizes = (0..rank).map(|axis| match (size(left, axis), size(right, axis)) {
        (a, b) if a == b => Ok(a),
        (1, b) => Ok(b),
        (a, 1) => Ok(a),
        _ => Err(refused(node, format!("shapes {left:?} and {right:?} cannot be broadcast"))),
    });
    sizes.collect()
}

/// Returns a width supported by accumulators.
fn fitting(node: &Node, width: u32) -> Result<u32> {
    match width <= Accumulator::MAX_WIDTH {
        true => Ok(width),
        false => Err(refused(
            node,
            format!("it would need {width} bits, more than {}", Accumulator::MAX_WIDTH),
        )),
    }
}

/// Returns the greatest integer of `width` bits in two's complement.
fn greatest(width: u32) -> i64 {
    (1i64 << (width.clamp(1, 63) - 1)) - 1
}

/// Returns the number of bits of an integer in two's complement.
fn bits(value: i64) -> u32 {
    let magnitude = if value < 0 { !value } else { value };
    65 - magnitude.leading_zeros()
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.cast(DType::F32).and_then(|x| x.to_vec::<f32>()).map_err(GraphError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_match_twos_complement() {
        for (value, width) in [
            (0, 1),
            (-1, 1),
            (1, 2),
            (127, 8),
            (-128, 8),
            (128, 9),
            (-129, 9),
            (i64::MAX, 64),
            (i64::MIN, 64),
        ] {
            assert_eq!(bits(value), width, "{value}");
        }
        for (width, most) in
            [(0, 0), (1, 0), (2, 1), (8, 127), (63, (1 << 62) - 1), (64, (1 << 62) - 1)]
        {
            assert_eq!(greatest(width), most, "{width}");
        }
    }
}
