//! Bounds of the difference between outputs of two programs due to rounding.
//!
//! With u = 2^-24, a sum of n products of 32-bit floats, in any order, is off by at most
//! ((1 + u)^n - 1) times the sum of the magnitudes of its products. Along a path the exponents add
//! up, so a value is off by at most ((1 + u)^N - 1) M, where N counts the roundings on the longest
//! path to it, and M is the output of the network of magnitudes: absolute inputs and weights, every
//! subtraction an addition, and, in place of a function f whose slope is at most L, L |x| + |f(0)|.
//! Two programs differ by at most twice that.

use std::collections::HashMap;

use aleatron_tensor::{Device, Tensor};

use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{
    Binary, Dims, NoAxes, Op, Pooling, Reduction, Softmax, SoftmaxAxes, Unary, Variadic,
};
use crate::run::{compute, compute_in};

/// Half the distance from 1 to the next 32-bit float.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// The number of roundings that represent the error of a function such as tanh: libraries are off
/// by up to four units in the last place.
const FUNCTION: u64 = 8;

/// A factor that covers the error of magnitudes themselves, computed in 32 bits.
const SLACK: f64 = 1.0 + 1.0 / 256.0;

/// A value of the network of magnitudes.
#[derive(Clone)]
struct Bounded {
    magnitude: Tensor,
    roundings: u64,
}

impl Graph {
    /// Returns a bound of the difference between two programs that compute the first output in
    /// 32-bit floats, for each element; `None` if the graph has an operator whose error is not
    /// bounded here, such as a layer normalisation, whose divisor may be small.
    ///
    /// # Errors
    /// An error if the graph cannot run with these inputs.
    pub fn rounding_bound(&self, inputs: &[Tensor]) -> Result<Option<Vec<f64>>> {
        self.check_values()?;
        let mut values: HashMap<ValueId, Bounded> = HashMap::new();
        for (id, tensor) in self.constants() {
            values.insert(id, Bounded { magnitude: magnitude(tensor)?, roundings: 0 });
        }
        for (&id, tensor) in self.inputs().iter().zip(inputs) {
            // An input may have been rounded to 32 bits before.
            values.insert(id, Bounded { magnitude: magnitude(tensor)?, roundings: 1 });
        }
        for (index, node) in self.nodes().iter().enumerate() {
            let made = self.bounded(node, &values).map_err(|source| Error::Node {
                index,
                name: node.name.clone(),
                operator: node.op.name().to_owned(),
                source: Box::new(source),
            })?;
            let Some(made) = made else { return Ok(None) };
            for (id, value) in node.outputs.iter().zip(made) {
                if let Some(id) = id {
                    values.insert(*id, value);
                }
            }
        }
        let Some(Bounded { magnitude, roundings }) =
            self.outputs().first().and_then(|id| values.get(id))
        else {
            return Ok(None);
        };
        if !magnitude.dtype().is_float() {
            return Ok(None);
        }
        let factor = 2.0 * (*roundings as f64 * UNIT.ln_1p()).exp_m1() * SLACK;
        // Subnormal intermediate results may be flushed to zero.
        let tiny = *roundings as f64 * f64::from(f32::MIN_POSITIVE);
        let magnitudes = crate::product::floats(magnitude)?;
        Ok(Some(
            magnitudes
                .iter()
                .map(|&m| factor * f64::from(m) + tiny * f64::from(m.max(1.0)))
                .collect(),
        ))
    }

    /// Returns the bounded output of a node for bounded inputs.
    fn bounded(
        &self,
        node: &Node,
        values: &HashMap<ValueId, Bounded>,
    ) -> Result<Option<Vec<Bounded>>> {
        let given: Vec<Option<&Bounded>> =
            node.inputs.iter().map(|id| id.and_then(|id| values.get(&id))).collect();
        if given.iter().zip(&node.inputs).any(|(value, id)| value.is_none() && id.is_some()) {
            return Ok(None);
        }
        let inputs: Vec<Option<Tensor>> =
            given.iter().map(|value| value.map(|value| value.magnitude.clone())).collect();
        let largest = given.iter().flatten().map(|value| value.roundings).max().unwrap_or(0);
        let all = given.iter().flatten().map(|value| value.roundings).sum::<u64>();
        let run = |op: &Op, inputs: &[Option<Tensor>]| compute(op, inputs, node.outputs.len());
        let constant =
            |k: usize| node.inputs.get(k).copied().flatten().and_then(|id| self.constant(id));
        let first =
            || inputs.first().cloned().flatten().ok_or_else(|| Error::input(0, "it is missing"));
        // Shapes and indices are exact.
        let is_exact = inputs.iter().flatten().all(|tensor| !tensor.dtype().is_float());
        let (made, roundings) = match &node.op {
            Op::If { .. } | Op::Loop { .. } => return Ok(None),
            Op::Shape { .. } | Op::Size => (run(&node.op, &inputs)?, 0),
            Op::Constant(value) => (vec![magnitude(&value.0)?], 0),
            _ if is_exact => {
                let made = compute_in(self, node, &inputs)?
                    .iter()
                    .map(magnitude)
                    .collect::<Result<_>>()?;
                (made, largest)
            }
            Op::MatMul | Op::Gemm { .. } | Op::Conv { .. } => {
                let weights = inputs.get(1).and_then(Option::as_ref);
                let x = first()?;
                let n: usize = match (&node.op, weights) {
                    (Op::Conv { .. }, Some(weights)) => weights.shape().iter().skip(1).product(),
                    (Op::Gemm { transpose_a: true, .. }, _) => {
                        x.shape().first().copied().unwrap_or(1)
                    }
                    _ => x.shape().last().copied().unwrap_or(1),
                };
                let op = match &node.op {
                    Op::Gemm { alpha, beta, transpose_a, transpose_b } => Op::Gemm {
                        alpha: alpha.abs(),
                        beta: beta.abs(),
                        transpose_a: *transpose_a,
                        transpose_b: *transpose_b,
                    },
                    op => op.clone(),
                };
                // The products, the bias, two factors, and weights that were rounded to 32 bits.
                (run(&op, &inputs)?, all + n as u64 + 4)
            }
            Op::Unary(function) => {
                let Some((slope, shift, own)) = line(*function) else { return Ok(None) };
                (vec![along(first()?, slope, shift)?], largest + own)
            }
            Op::Binary(Binary::Add | Binary::Sub) => {
                (run(&Op::Binary(Binary::Add), &inputs)?, largest + 1)
            }
            Op::Binary(Binary::Mul) => (run(&node.op, &inputs)?, all + 1),
            Op::Binary(Binary::Div) if constant(1).is_some() => (run(&node.op, &inputs)?, all + 1),
            Op::Variadic(Variadic::Sum | Variadic::Mean) => {
                (run(&node.op, &inputs)?, largest + inputs.len() as u64 + 1)
            }
            Op::Variadic(Variadic::Max | Variadic::Min) => {
                (run(&Op::Variadic(Variadic::Max), &inputs)?, largest)
            }
            Op::Clip { low, high } => {
                let bound = |k: usize, own: Option<f32>| -> Result<f32> {
                    match (own, constant(k)) {
                        (Some(bound), _) => Ok(bound),
                        (None, Some(tensor)) => {
                            Ok(crate::product::floats(tensor)?.first().copied().unwrap_or(0.0))
                        }
                        (None, None) => Ok(0.0),
                    }
                };
                if (1..3)
                    .any(|k| inputs.get(k).is_some_and(Option::is_some) && constant(k).is_none())
                {
                    return Ok(None);
                }
                // Bounds on both sides of zero make nothing larger.
                let shift = bound(1, *low)?.max(-bound(2, *high)?).max(0.0);
                (vec![along(first()?, 1.0, shift)?], largest)
            }
            Op::Pool { pooling: Pooling::Max { .. }, .. } if node.outputs.len() == 1 => {
                (run(&node.op, &inputs)?, largest)
            }
            Op::Pool { pooling: Pooling::Average { .. }, window, .. } => {
                let n = window.kernel.iter().map(|&n| n.unsigned_abs()).product::<u64>();
                (run(&node.op, &inputs)?, largest + n + 1)
            }
            Op::GlobalPool(Pooling::Max { .. }) => (run(&node.op, &inputs)?, largest),
            Op::GlobalPool(Pooling::Average { .. })
            | Op::Reduce { reduction: Reduction::Sum | Reduction::Mean, .. } => {
                let made = run(&node.op, &inputs)?;
                let outputs = made.first().map_or(1, Tensor::len).max(1);
                (made, largest + (first()?.len() / outputs) as u64 + 1)
            }
            Op::BatchNormalization { training: false, .. } => {
                let (Some(mean), Some(variance)) = (constant(3), constant(4)) else {
                    return Ok(None);
                };
                // A mean that is subtracted adds to magnitudes; the variance is positive.
                let mean =
                    run(&Op::Unary(Unary::Neg), &[Some(magnitude(mean)?)])?.into_iter().next();
                let [x, scale, shift] = [0, 1, 2].map(|k| inputs.get(k).cloned().flatten());
                // A sum, a root, a division, a difference, a product and a sum, and folded into
                // weights two more.
                (run(&node.op, &[x, scale, shift, mean, Some(variance.clone())])?, largest + 10)
            }
            Op::Dropout { .. }
                if node.outputs.len() == 1 && inputs.get(2).is_none_or(Option::is_none) =>
            {
                (vec![first()?], largest)
            }
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Squeeze { .. }
            | Op::Unsqueeze { .. }
            | Op::Transpose { .. }
            | Op::Expand
            | Op::Tile
            | Op::Concat { .. }
            | Op::Split { .. }
            | Op::Slice { .. }
            | Op::Pad { given: None, .. }
            | Op::Gather { .. } => (run(&node.op, &inputs)?, largest),
            Op::Softmax { function: function @ (Softmax::Softmax | Softmax::LogSoftmax), axes } => {
                let (made, n) = softmax(&first()?, *function, *axes)?;
                (vec![made], largest + n as u64 + 2 * FUNCTION)
            }
            _ => return Ok(None),
        };
        Ok(Some(made.into_iter().map(|magnitude| Bounded { magnitude, roundings }).collect()))
    }
}

/// Returns the magnitudes of floats; other types are unchanged.
fn magnitude(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.dtype().is_float() {
        return Ok(tensor.clone());
    }
    let values: Vec<f32> =
        crate::product::floats(tensor)?.iter().map(|value| value.abs()).collect();
    Ok(Tensor::from_slice(&values, tensor.shape(), &Device::Cpu)?)
}

/// Returns the steepest slope of a function, its magnitude at 0, and the roundings of computing it.
fn line(function: Unary) -> Option<(f32, f32, u64)> {
    Some(match function {
        Unary::Abs | Unary::Neg | Unary::Relu => (1.0, 0.0, 0),
        Unary::LeakyRelu { alpha } => (alpha.abs().max(1.0), 0.0, 1),
        Unary::Tanh | Unary::Softsign | Unary::Sin | Unary::Atan => (1.0, 0.0, FUNCTION),
        Unary::Sigmoid => (1.0, 0.5, FUNCTION),
        Unary::Softplus => (1.0, std::f32::consts::LN_2, FUNCTION),
        // The slopes are at most 1.13, 1.13, 1.1, 1.09 and 1.5; the slack is for the error of
        // computing with these.
        Unary::Erf | Unary::Gelu | Unary::GeluTanh | Unary::Mish => (1.25, 0.0, 2 * FUNCTION),
        Unary::Swish { alpha: 1.0 } => (1.25, 0.0, 2 * FUNCTION),
        Unary::HardSwish => (1.5, 0.0, FUNCTION),
        Unary::HardSigmoid { alpha, beta } => (alpha.abs().max(1.0), beta.abs(), FUNCTION),
        // A difference of an exponential and 1: off by a unit of 1, not of its size.
        Unary::Elu { alpha } | Unary::Celu { alpha } => {
            (alpha.abs().max(1.0), alpha.abs(), FUNCTION)
        }
        Unary::Selu { alpha, gamma } => {
            ((alpha * gamma).abs().max(gamma.abs()).max(1.0), (alpha * gamma).abs(), FUNCTION)
        }
        _ => return None,
    })
}

/// Returns slope x + shift.
fn along(x: Tensor, slope: f32, shift: f32) -> Result<Tensor> {
    if slope == 1.0 && shift == 0.0 {
        return Ok(x);
    }
    let values: Vec<f32> =
        crate::product::floats(&x)?.iter().map(|value| slope * value + shift).collect();
    Ok(Tensor::from_slice(&values, x.shape(), &Device::Cpu)?)
}

/// Returns the magnitudes after a softmax, and how many elements it joins. A score that is off by e
/// changes a share p by at most (exp(2e) - 1) p, which is less than 3e where that is less than 1,
/// and a logarithm of a share by at most 2e.
fn softmax(x: &Tensor, function: Softmax, axes: SoftmaxAxes) -> Result<(Tensor, usize)> {
    let rank = x.rank() as i64;
    let axes = match axes {
        SoftmaxAxes::One(axis) => vec![axis],
        SoftmaxAxes::From(axis) => (if axis < 0 { axis + rank } else { axis }..rank).collect(),
    };
    let op = Op::Reduce {
        reduction: Reduction::Max,
        axes: Some(axes),
        reduced: Dims::Keep,
        no_axes: NoAxes::None,
    };
    let most = compute(&op, &[Some(x.clone())], 1)?;
    let Some(most) = most.into_iter().next() else { return Err(Error::input(0, "it is empty")) };
    let n = x.len() / most.len().max(1);
    let own = match function {
        Softmax::LogSoftmax => 1.0 + (n.max(1) as f32).ln(),
        _ => 1.0,
    };
    let most = along(most, 3.0, own)?;
    Ok((most.broadcast_to(x.shape())?.contiguous()?, n))
}
