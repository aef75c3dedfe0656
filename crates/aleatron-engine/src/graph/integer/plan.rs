//! What nodes of integers need to know: the units of their values, and the constants that follow from them.
//!
//! The graph is run once with numbers of units in place of integers. Nodes that move integers move these alike.

use super::form::{Form, Forms};
use super::pool::pool;
use crate::error::RefusedNode;
use crate::graph::stream::{from_graph, topology};
use crate::graph::{GraphLayer, GraphNetwork, Op};
use crate::network::{FRACTION_BITS, MULTIPLIER_BITS, StreamConfig, comparator};
use crate::{Error, Result};
use aleatron_core::arithmetic::{Accumulator, PoolShape, Requantizer, Rescaler, to_units};
use aleatron_core::generator::Width;
use aleatron_core::{LayerSpec, Length, Quantity, Topology};
use aleatron_graph::{Binary, Error as GraphError, Node, Observer, Runner, ValueId};
use aleatron_tensor::{DType, Device, Tensor};
use std::collections::HashMap;

/// The plan of a graph for a number of samples.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// What 1 stands for, by the number of a unit.
    pub(super) units: Vec<f64>,
    /// Values that are integers, by their place.
    pub(super) values: Vec<Option<Held>>,
}

/// Integers of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(super) units: Pattern,
    /// Their width in bits.
    pub(super) width: u32,
}

/// Units of elements, which come again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// After how many elements.
    pub(super) period: usize,
    /// How many elements have which unit, one after the other.
    pub(super) runs: Vec<(usize, u32)>,
}

impl Pattern {
    /// The pattern of the units of all elements of `n` samples.
    fn new(units: &[u32], n: usize) -> Self {
        let period = units.len() / n.max(1);
        let is_periodic = period > 0
            && period * n == units.len()
            && units.chunks_exact(period).all(|chunk| chunk == &units[..period]);
        let period = if is_periodic { period } else { units.len().max(1) };
        let mut runs: Vec<(usize, u32)> = Vec::new();
        for &unit in &units[..period.min(units.len())] {
            match runs.last_mut() {
                Some((len, last)) if *last == unit => *len += 1,
                _ => runs.push((1, unit)),
            }
        }
        Self { period, runs }
    }

    /// The units there are, each once.
    fn distinct(&self) -> Vec<u32> {
        let mut units: Vec<u32> = self.runs.iter().map(|run| run.1).collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

/// How a node computes.
#[derive(Debug)]
pub(crate) enum Step {
    /// On tensors.
    Tensors,
    /// As streams.
    Stream(Box<StreamStep>),
    Relu,
    /// Bounds for each unit.
    Clip(HashMap<u32, [Option<i64>; 2]>),
    Pool {
        shape: PoolShape,
        output: Vec<usize>,
    },
    /// The integers stay as they are.
    Keep {
        operand: usize,
    },
    /// `sign * value + term`, with terms that come again and again.
    Offset {
        operand: usize,
        sign: i64,
        terms: Vec<i64>,
    },
    /// `left + sign * right`, both in the finer of two units; patterns of pairs.
    Sum {
        sign: i64,
        pairs: Pattern,
        joins: Vec<[Option<Rescaler>; 2]>,
    },
    Decode,
}

/// A product as streams.
#[derive(Debug)]
pub(crate) struct StreamStep {
    /// The product, by its place.
    pub(crate) place: usize,
    /// The width of the comparators of its inputs.
    pub(crate) comparator: Width,
    /// From integers to thresholds, for each unit of the inputs; `None` for inputs that are floats.
    pub(crate) requantizers: Option<HashMap<u32, Requantizer>>,
    pub(crate) accumulator: Accumulator,
    /// What 1 stands for in each row.
    pub(crate) units: Vec<f64>,
}

impl Plan {
    pub(super) fn new(
        network: &GraphNetwork,
        config: &StreamConfig,
        runner: &Runner,
        forms: &Forms,
        n_samples: usize,
    ) -> Result<Self> {
        let n_values = network.graph().n_values();
        let mut planner = Planner {
            network,
            config,
            runner,
            forms,
            n_samples,
            plan: Self { steps: Vec::new(), units: Vec::new(), values: vec![None; n_values] },
            numbers: HashMap::new(),
            width: 0,
        };
        let zeros = network.zeros(n_samples)?;
        runner.run_with(vec![zeros], &mut planner).map_err(from_graph)?;
        Ok(planner.plan)
    }

    /// What a value holds, if it is integers.
    pub(crate) fn held(&self, id: ValueId) -> Option<&Held> {
        self.values.get(id.index())?.as_ref()
    }

    /// The step of a product.
    pub(crate) fn stream(&self, place: usize) -> Option<&StreamStep> {
        self.steps.iter().find_map(|step| match step {
            Step::Stream(stream) if stream.place == place => Some(&**stream),
            _ => None,
        })
    }

    /// The products that run as streams, in the order in which they run.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &StreamStep> {
        self.steps.iter().filter_map(|step| match step {
            Step::Stream(stream) => Some(&**stream),
            _ => None,
        })
    }
}

/// Makes a plan.
struct Planner<'a> {
    network: &'a GraphNetwork,
    config: &'a StreamConfig,
    runner: &'a Runner,
    forms: &'a Forms,
    n_samples: usize,
    plan: Plan,
    /// The numbers of units, by their bits.
    numbers: HashMap<u64, u32>,
    /// The width of what the node makes.
    width: u32,
}

impl Observer for Planner<'_> {
    fn compute(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        let in_node = |error| GraphError::Other(Box::new(error));
        let (step, made) = self.step(index, node, inputs).map_err(in_node)?;
        self.plan.steps.push(step);
        Ok(made)
    }

    fn made(&mut self, _: usize, node: &Node, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        for (id, tensor) in node.outputs.iter().zip(outputs) {
            if let Some(id) = id.filter(|id| self.forms.is_integer[id.index()]) {
                let units = Pattern::new(&numbers(tensor)?, self.n_samples);
                self.plan.values[id.index()] = Some(Held { units, width: self.width });
            }
        }
        Ok(())
    }
}

impl Planner<'_> {
    fn step(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<(Step, Option<Vec<Tensor>>)> {
        let input = |k: usize| match inputs.get(k) {
            Some(Some(tensor)) => Ok(tensor),
            _ => Err(refused(node, format!("input {k} is missing"))),
        };
        // As wide as the widest, where nothing else is said.
        let widths = node.inputs.iter().flatten().filter_map(|&id| Some(self.plan.held(id)?.width));
        self.width = widths.max().unwrap_or(0);
        let form = self.forms.nodes[index];
        Ok(match form {
            Form::Tensors => (Step::Tensors, None),
            Form::Stream(place) => {
                let (step, made) = self.stream(place, node, input(0)?)?;
                (Step::Stream(Box::new(step)), Some(vec![made]))
            }
            Form::Relu => (Step::Relu, Some(vec![input(0)?.clone()])),
            Form::Clip => (self.clip(node, inputs)?, Some(vec![input(0)?.clone()])),
            Form::Pool => {
                let axes = match inputs.get(1) {
                    Some(Some(axes)) => Some(axes.to_vec::<i64>().map_err(GraphError::from)?),
                    _ => None,
                };
                let (step, made) = pool_step(node, input(0)?, axes)?;
                (step, Some(vec![made]))
            }
            Form::Scale(operand) => {
                let factors = constants(node, input(1 - operand)?, input(operand)?.shape())?;
                let made = self.scale(node, input(operand)?, &factors)?;
                (Step::Keep { operand }, Some(vec![made]))
            }
            Form::Offset(operand) => {
                let terms = constants(node, input(1 - operand)?, input(operand)?.shape())?;
                let step = self.offset(node, operand, input(operand)?, &terms)?;
                (step, Some(vec![input(operand)?.clone()]))
            }
            Form::Sum => {
                let (step, made) = self.sum(node, [input(0)?, input(1)?])?;
                (step, Some(vec![made]))
            }
            Form::Decode => {
                let is_integer =
                    |id: &Option<ValueId>| id.is_some_and(|id| self.forms.is_integer[id.index()]);
                let mut floats = Vec::with_capacity(inputs.len());
                for (id, tensor) in node.inputs.iter().zip(inputs) {
                    floats.push(match tensor {
                        Some(tensor) if is_integer(id) => Some(
                            Tensor::full(tensor.shape(), 0.0_f32, DType::F32, &Device::Cpu)
                                .map_err(GraphError::from)?,
                        ),
                        other => other.clone(),
                    });
                }
                (Step::Decode, Some(self.runner.compute_with(node, &floats)?))
            }
        })
    }

    /// The number of a unit.
    fn number(&mut self, unit: f64) -> u32 {
        let units = &mut self.plan.units;
        *self.numbers.entry(unit.to_bits()).or_insert_with(|| {
            units.push(unit);
            (units.len() - 1) as u32
        })
    }

    fn unit(&self, number: u32) -> f64 {
        self.plan.units.get(number as usize).copied().unwrap_or(f64::NAN)
    }

    fn stream(&mut self, place: usize, node: &Node, input: &Tensor) -> Result<(StreamStep, Tensor)> {
        let Some(layer) = self.network.layers().get(place) else { return Err(Error::NoLayers) };
        let in_layer =
            |source: Error| Error::Layer { layer: place, name: layer.name.clone(), source: Box::new(source) };
        let spec = |topology: Topology| -> Result<LayerSpec> {
            let settings = self.config.settings_of(&layer.name);
            let length = Length::new(settings.length)?;
            let width = settings.width.resolve(&settings.generator, length);
            let encoding = settings.generator.encoding(self.config.seed, width, settings.sharing)?;
            Ok(LayerSpec::new(topology, length, layer.polarity, encoding)?)
        };
        let (topology, shape, _) = topology(layer, input.shape()).map_err(in_layer)?;
        let positions = match &topology {
            Topology::Conv(conv) => conv.n_positions(),
            _ => 1,
        };
        let spec = spec(topology).map_err(in_layer)?;
        let n_rows = layer.product.n_rows();
        let scales: Vec<f64> = (0..n_rows).map(|row| layer.input_scale * layer.weight_scale(row)).collect();
        let accumulator = Accumulator::per_row(&spec, &scales, &biases(layer), FRACTION_BITS);
        let accumulator = accumulator.map_err(|error| in_layer(error.into()))?;
        let units: Vec<f64> = scales.iter().map(|&scale| accumulator.unit(spec.length(), scale)).collect();
        let comparator = comparator(&spec)?;
        let held = node.inputs.first().copied().flatten().and_then(|id| self.plan.held(id));
        let requantizers = held.map(|held| {
            let of_unit = |number: u32| {
                let requantizer = Requantizer::of_unit(
                    self.unit(number),
                    layer.input_scale,
                    MULTIPLIER_BITS,
                    comparator,
                    layer.polarity,
                );
                Ok((number, requantizer.map_err(|error| in_layer(error.into()))?))
            };
            held.units.distinct().into_iter().map(of_unit).collect::<Result<HashMap<_, _>>>()
        });
        let requantizers = requantizers.transpose()?;
        let rows: Vec<i64> = units.iter().map(|&unit| i64::from(self.number(unit))).collect();
        let len: usize = shape.iter().product();
        let made: Vec<i64> = (0..len).map(|k| rows[k / positions % n_rows]).collect();
        self.width = accumulator.width();
        Ok((StreamStep { place, comparator, requantizers, accumulator, units }, tensor(&made, &shape)?))
    }

    fn clip(&mut self, node: &Node, inputs: &[Option<Tensor>]) -> Result<Step> {
        let Op::Clip { low, high } = &node.op else { return Err(refused(node, "it is no clip")) };
        let given = |k: usize, attribute: &Option<f32>| match inputs.get(k) {
            Some(Some(bound)) => Ok(floats(bound)?.first().copied()),
            _ => Ok::<_, Error>(*attribute),
        };
        let bounds = [given(1, low)?, given(2, high)?];
        let Some(held) = node.inputs.first().copied().flatten().and_then(|id| self.plan.held(id)) else {
            return Err(refused(node, "its input is no integer"));
        };
        let mut clips = HashMap::new();
        let (most, mut width) = (interval(held.width), held.width);
        for number in held.units.distinct() {
            let mut clip = [None; 2];
            for (k, bound) in bounds.into_iter().enumerate() {
                let Some(bound) = bound.map(f64::from) else { continue };
                if bound.is_nan() {
                    return Err(refused(node, "a bound is not a number"));
                }
                // What lies outside of all that is held limits nothing.
                let is_far = bound / self.unit(number) >= most as f64;
                let is_low = bound / self.unit(number) <= -(most as f64) - 1.0;
                if k == 0 && is_low || k == 1 && is_far {
                    continue;
                }
                let bound = to_units(Quantity::Bound, k, bound, self.unit(number))?;
                width = width.max(bits(bound));
                clip[k] = Some(bound);
            }
            clips.insert(number, clip);
        }
        self.width = width;
        Ok(Step::Clip(clips))
    }

    fn scale(&mut self, node: &Node, value: &Tensor, factors: &[f32]) -> Result<Tensor> {
        let divides = matches!(node.op, Op::Binary(Binary::Div));
        let mut made = Vec::with_capacity(factors.len());
        for (number, &factor) in numbers(value)?.into_iter().zip(factors) {
            let (unit, factor) = (self.unit(number), f64::from(factor));
            let unit = if divides { unit / factor } else { unit * factor };
            if !(unit > 0.0 && unit.is_finite()) {
                return Err(refused(node, format!("its constant is {factor}, not positive")));
            }
            made.push(i64::from(self.number(unit)));
        }
        tensor(&made, value.shape())
    }

    fn offset(&mut self, node: &Node, operand: usize, value: &Tensor, terms: &[f32]) -> Result<Step> {
        // a - c takes the constant away, c - a the value.
        let is_sub = matches!(node.op, Op::Binary(Binary::Sub));
        let (sign, is_taken_away) = match (is_sub, operand) {
            (true, 0) => (1, true),
            (true, _) => (-1, false),
            (false, _) => (1, false),
        };
        let mut made = Vec::with_capacity(terms.len());
        for (index, (number, &term)) in numbers(value)?.into_iter().zip(terms).enumerate() {
            let term = f64::from(if is_taken_away { -term } else { term });
            made.push(to_units(Quantity::Bias, index, term, self.unit(number))?);
        }
        let most = made.iter().map(|&term| bits(term)).max().unwrap_or(0);
        self.width = fitting(node, 1 + self.width.max(most))?;
        let period = made.len() / self.n_samples.max(1);
        if made.chunks(period.max(1)).all(|chunk| *chunk == made[..period]) {
            made.truncate(period);
        }
        Ok(Step::Offset { operand, sign, terms: made })
    }

    fn sum(&mut self, node: &Node, values: [&Tensor; 2]) -> Result<(Step, Tensor)> {
        if values[0].shape() != values[1].shape() {
            let [left, right] = values.map(Tensor::shape);
            return Err(refused(node, format!("its operands have the shapes {left:?} and {right:?}")));
        }
        let widths: Vec<u32> =
            node.inputs.iter().flatten().map(|&id| self.plan.held(id).map_or(0, |held| held.width)).collect();
        let (left, right) = (numbers(values[0])?, numbers(values[1])?);
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let (mut joins, mut finer, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let mut width = 0;
        for pair in left.into_iter().zip(right) {
            let place = match known.get(&pair) {
                Some(&place) => place,
                None => {
                    let units = [self.unit(pair.0), self.unit(pair.1)];
                    let least = units[0].min(units[1]);
                    let mut join = [None; 2];
                    for k in 0..2 {
                        let mut wide = widths.get(k).copied().unwrap_or(0);
                        if units[k] > least {
                            let rescaler = Rescaler::calibrated(units[k], least, MULTIPLIER_BITS)?;
                            wide += rescaler.growth();
                            join[k] = Some(rescaler);
                        }
                        width = width.max(wide);
                    }
                    joins.push(join);
                    finer.push(self.number(least));
                    let place = (joins.len() - 1) as u32;
                    known.insert(pair, place);
                    place
                }
            };
            pairs.push(place);
        }
        self.width = fitting(node, width + 1)?;
        let made: Vec<i64> = pairs.iter().map(|&place| i64::from(finer[place as usize])).collect();
        let sign = if matches!(node.op, Op::Binary(Binary::Sub)) { -1 } else { 1 };
        let pairs = Pattern::new(&pairs, self.n_samples);
        Ok((Step::Sum { sign, pairs, joins }, tensor(&made, values[0].shape())?))
    }
}

/// One bias for each row.
fn biases(layer: &GraphLayer) -> Vec<f64> {
    match layer.product.bias.as_slice() {
        [] => vec![0.0; layer.product.n_rows()],
        bias => bias.iter().map(|&bias| f64::from(bias)).collect(),
    }
}

fn pool_step(node: &Node, input: &Tensor, axes: Option<Vec<i64>>) -> Result<(Step, Tensor)> {
    let (shape, output) = pool(node, input.shape(), axes)?;
    let places = shape.n_inputs() / shape.output()[0];
    let windows = shape.n_outputs() / shape.output()[0];
    let mut made = Vec::with_capacity(output.iter().product());
    for image in numbers(input)?.chunks_exact(places) {
        if image.iter().any(|number| *number != image[0]) {
            return Err(refused(node, "what it reduces has several units"));
        }
        made.extend(std::iter::repeat_n(i64::from(image[0]), windows));
    }
    let made = tensor(&made, &output)?;
    Ok((Step::Pool { shape, output }, made))
}

/// A constant as it meets the elements of a value, which it must not make larger.
fn constants(node: &Node, constant: &Tensor, shape: &[usize]) -> Result<Vec<f32>> {
    let (values, own) = (floats(constant)?, constant.shape());
    let Some(lead) = shape.len().checked_sub(own.len()) else {
        return Err(refused(node, format!("its constant has the shape {own:?}")));
    };
    if own.iter().zip(&shape[lead..]).any(|(&own, &size)| own != 1 && own != size) {
        return Err(refused(node, format!("its constant has the shape {own:?}")));
    }
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for axis in (0..own.len()).rev() {
        strides[lead + axis] = if own[axis] == 1 { 0 } else { stride };
        stride *= own[axis];
    }
    let len: usize = shape.iter().product();
    let place = |k: usize| {
        let mut rest = k;
        (0..shape.len()).rev().fold(0, |place, axis| {
            let at = rest % shape[axis];
            rest /= shape[axis];
            place + at * strides[axis]
        })
    };
    Ok((0..len).map(|k| values[place(k)]).collect())
}

pub(super) fn refused(node: &Node, reason: impl Into<String>) -> Error {
    Error::NoIntegerForm { nodes: vec![RefusedNode::new(node, reason)] }
}

/// A width that accumulators have.
fn fitting(node: &Node, width: u32) -> Result<u32> {
    match width <= Accumulator::MAX_WIDTH {
        true => Ok(width),
        false => Err(refused(node, format!("it would need {width} bits"))),
    }
}

/// The greatest value of so many bits in two's complement.
fn interval(width: u32) -> i64 {
    (1i64 << (width.clamp(1, 63) - 1)) - 1
}

/// The bits of a value in two's complement.
fn bits(value: i64) -> u32 {
    let magnitude = if value < 0 { !value } else { value };
    65 - magnitude.leading_zeros()
}

fn tensor(values: &[i64], shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, shape, &Device::Cpu).map_err(GraphError::from)?)
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.cast(DType::F32).and_then(|x| x.to_vec::<f32>()).map_err(GraphError::from)?)
}

/// The numbers of units that a tensor holds.
fn numbers(tensor: &Tensor) -> aleatron_graph::Result<Vec<u32>> {
    Ok(tensor.to_vec::<i64>()?.into_iter().map(|number| number as u32).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_graph::Graph;

    #[test]
    fn widths_are_those_of_twos_complement() {
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
        for (width, most) in [(0, 0), (1, 0), (2, 1), (8, 127), (63, (1 << 62) - 1), (64, (1 << 62) - 1)] {
            assert_eq!(interval(width), most, "{width}");
        }
    }

    #[test]
    fn constants_are_repeated_along_axes_of_one() {
        let mut graph = Graph::new("sum");
        let make = |shape: &[usize]| {
            let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|k| k as f32).collect();
            Tensor::from_slice(&values, shape, &Device::Cpu).unwrap()
        };
        let x = graph.add_constant("x", make(&[1]));
        graph.add_node("sum", Op::Binary(Binary::Add), &[x, x]);
        let node = &graph.nodes()[0];
        let shape = [2, 2, 2, 3];
        // Two matrices of one row each, which both rows of both samples get.
        let rows = [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [3.0, 4.0, 5.0]];
        let found = constants(node, &make(&[2, 1, 3]), &shape).unwrap();
        assert_eq!(found, [rows, rows].concat().concat());
        // One column.
        let found = constants(node, &make(&[2, 1]), &[2, 3]).unwrap();
        assert_eq!(found, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(constants(node, &make(&[]), &[2]).unwrap(), [0.0, 0.0]);
        assert!(constants(node, &make(&[1, 2]), &[2]).is_err());
        assert!(constants(node, &make(&[3]), &[2]).is_err());
    }
}
