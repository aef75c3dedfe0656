//! Computing nodes of integers.

use super::plan::{Held, Pattern, Plan, Step, StreamStep};
use crate::graph::stream::input_floats;
use crate::graph::{GraphLayer, values};
use crate::network::LayerInputs;
use crate::{Error, Result};
use aleatron_core::arithmetic::Rescaler;
use aleatron_core::generator::Width;
use aleatron_core::threshold::{NEGATIVE, magnitude};
use aleatron_core::{LayerSpec, Quantity};
use aleatron_graph::{Error as GraphError, Node, Runner, ValueId};
use aleatron_tensor::{Device, Tensor};

/// From this many equal units on, integers are turned into thresholds together.
const TOGETHER: usize = 16;

impl Plan {
    /// What a node other than a stream makes; `None` leaves it to tensors.
    pub(crate) fn compute(
        &self,
        runner: &Runner,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Option<Vec<Tensor>>> {
        let input = |k: usize| match inputs.get(k) {
            Some(Some(tensor)) => Ok(tensor),
            _ => Err(Error::from(GraphError::Input { input: k, reason: "it is missing".to_owned() })),
        };
        let Some(step) = self.steps.get(index) else { return Ok(None) };
        Ok(Some(vec![match step {
            Step::Tensors | Step::Stream(_) => return Ok(None),
            Step::Decode => {
                let floats: Vec<Option<Tensor>> = node
                    .inputs
                    .iter()
                    .zip(inputs)
                    .map(|(id, tensor)| match (id.and_then(|id| self.held(id)), tensor) {
                        (Some(held), Some(tensor)) => {
                            let values: Vec<f32> =
                                self.decode(held, tensor)?.into_iter().map(|value| value as f32).collect();
                            let made = Tensor::from_slice(&values, tensor.shape(), &Device::Cpu);
                            Ok(Some(made.map_err(GraphError::from)?))
                        }
                        (_, other) => Ok(other.clone()),
                    })
                    .collect::<Result<_>>()?;
                return Ok(Some(runner.compute_with(node, &floats)?));
            }
            Step::Keep { operand } => input(*operand)?.clone(),
            Step::Relu => {
                let values = integers(input(0)?)?.into_iter().map(|value| value.max(0));
                tensor(values.collect(), input(0)?.shape())?
            }
            Step::Clip(bounds) => {
                let mut values = integers(input(0)?)?;
                if let Some(held) = node.inputs.first().copied().flatten().and_then(|id| self.held(id)) {
                    each_run(&held.units, &mut values, |unit, run| {
                        let [low, high] = bounds.get(&unit).copied().unwrap_or_default();
                        let (low, high) = (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX));
                        run.iter_mut().for_each(|value| *value = (*value).max(low).min(high));
                    });
                }
                tensor(values, input(0)?.shape())?
            }
            Step::Pool { shape, output } => tensor(shape.integers(&integers(input(0)?)?)?, output)?,
            Step::Offset { operand, sign, terms } => {
                let mut values = integers(input(*operand)?)?;
                for (value, term) in values.iter_mut().zip(terms.iter().cycle()) {
                    // The plan has room for it.
                    *value = sign.wrapping_mul(*value).wrapping_add(*term);
                }
                tensor(values, input(*operand)?.shape())?
            }
            Step::Sum { sign, pairs, joins } => {
                let (mut left, mut right) = (integers(input(0)?)?, integers(input(1)?)?);
                for (k, values) in [&mut left, &mut right].into_iter().enumerate() {
                    each_run(pairs, values, |pair, run| rescale(joins.get(pair as usize), k, run));
                }
                for (left, right) in left.iter_mut().zip(right) {
                    *left = left.wrapping_add(sign.wrapping_mul(right));
                }
                tensor(left, input(0)?.shape())?
            }
        }]))
    }

    /// The numbers that the integers of a value stand for.
    pub(crate) fn decode(&self, held: &Held, tensor: &Tensor) -> Result<Vec<f64>> {
        let values = integers(tensor)?;
        let mut made = Vec::with_capacity(values.len());
        for chunk in values.chunks(held.units.period) {
            let mut rest = chunk;
            for &(len, unit) in &held.units.runs {
                let (run, after) = rest.split_at(len.min(rest.len()));
                let unit = self.units.get(unit as usize).copied().unwrap_or(f64::NAN);
                made.extend(run.iter().map(|&value| value as f64 * unit));
                rest = after;
            }
        }
        Ok(made)
    }

    /// The inputs of a product as thresholds, and how many of them saturated.
    pub(crate) fn thresholds(
        &self,
        step: &StreamStep,
        layer: &GraphLayer,
        spec: &LayerSpec,
        id: Option<ValueId>,
        input: &Tensor,
    ) -> Result<(LayerInputs, u64)> {
        let width = spec.encoding().input_width();
        match (&step.requantizers, id.and_then(|id| self.held(id))) {
            (Some(requantizers), Some(held)) => {
                let values = integers(input)?;
                let mut thresholds = Vec::with_capacity(values.len());
                let mut saturated = 0;
                let unused = width.bits() - step.comparator.bits();
                for chunk in values.chunks(held.units.period) {
                    let mut rest = chunk;
                    for &(len, unit) in &held.units.runs {
                        let (run, after) = rest.split_at(len.min(rest.len()));
                        rest = after;
                        let Some(requantizer) = requantizers.get(&unit) else { return Err(Error::NoLayers) };
                        if len >= TOGETHER {
                            let made = requantizer.thresholds(run, width)?;
                            saturated += made.saturated;
                            thresholds.extend(made.thresholds);
                            continue;
                        }
                        for &value in run {
                            let threshold = requantizer.threshold(value);
                            saturated += u64::from(requantizer.saturates(value));
                            thresholds.push(magnitude(threshold) << unused | threshold & NEGATIVE);
                        }
                    }
                }
                Ok((LayerInputs::Thresholds(thresholds), saturated))
            }
            _ => {
                let (values, saturated) = values::encoded(&input_floats(input)?, layer)?;
                let thresholds = widened(&values, spec, step.comparator, width)?;
                Ok((LayerInputs::Thresholds(thresholds), saturated))
            }
        }
    }
}

/// Thresholds of a comparator for values, widened to those of a generator.
fn widened(values: &[f64], spec: &LayerSpec, comparator: Width, width: Width) -> Result<Vec<u64>> {
    let unused = width.bits() - comparator.bits();
    let mut thresholds = comparator.thresholds(values, spec.polarity(), Quantity::Value)?;
    for threshold in &mut thresholds {
        *threshold = magnitude(*threshold) << unused | *threshold & NEGATIVE;
    }
    Ok(thresholds)
}

fn rescale(join: Option<&[Option<Rescaler>; 2]>, side: usize, run: &mut [i64]) {
    if let Some(rescaler) = join.and_then(|join| join[side].as_ref()) {
        run.iter_mut().for_each(|value| *value = rescaler.apply(*value));
    }
}

/// Calls `f` with the elements of each run of a pattern.
fn each_run(pattern: &Pattern, values: &mut [i64], f: impl Fn(u32, &mut [i64])) {
    for chunk in values.chunks_mut(pattern.period) {
        let mut rest = chunk;
        for &(len, number) in &pattern.runs {
            let (run, after) = rest.split_at_mut(len.min(rest.len()));
            f(number, run);
            rest = after;
        }
    }
}

fn integers(tensor: &Tensor) -> Result<Vec<i64>> {
    Ok(tensor.to_vec::<i64>().map_err(GraphError::from)?)
}

fn tensor(values: Vec<i64>, shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(&values, shape, &Device::Cpu).map_err(GraphError::from)?)
}
