//! Functions of elements.

use aleatron_tensor::{BinaryOp, DType, Device, Scalar, Tensor};

use super::array::{Number, for_number};
use super::inputs::{Inputs, floats};
use crate::error::{Error, Result};
use crate::op::{Binary, Unary, Variadic};

pub(super) fn unary(function: Unary, inputs: &Inputs<'_>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    apply(function, x)
}

/// Applies a function to every element.
pub(super) fn apply(function: Unary, x: &Tensor) -> Result<Tensor> {
    Ok(match function {
        Unary::Abs => x.abs()?,
        Unary::BitwiseNot | Unary::Not => x.not()?,
        Unary::Ceil => x.ceil()?,
        Unary::Cos => x.cos()?,
        Unary::Elu { alpha } => x.elu(alpha)?,
        Unary::Erf => x.erf()?,
        Unary::Exp => x.exp()?,
        Unary::Floor => x.floor()?,
        Unary::Gelu => x.gelu()?,
        Unary::GeluTanh => x.gelu_tanh()?,
        Unary::IsInf { negative: true, positive: true } => x.is_inf()?,
        Unary::IsInf { negative: true, positive: false } => x.eq(f32::NEG_INFINITY)?,
        Unary::IsInf { negative: false, positive: true } => x.eq(f32::INFINITY)?,
        Unary::IsInf { negative: false, positive: false } => {
            Tensor::full(x.shape(), false, DType::Bool, &x.device())?
        }
        Unary::IsNan => x.is_nan()?,
        Unary::LeakyRelu { alpha } => x.leaky_relu(alpha)?,
        Unary::Log => x.log()?,
        Unary::Neg => x.neg()?,
        Unary::Reciprocal => x.recip()?,
        Unary::Relu => x.relu()?,
        Unary::Round => x.round()?,
        Unary::Sigmoid => x.sigmoid()?,
        Unary::Sign => x.sign()?,
        Unary::Sin => x.sin()?,
        Unary::Softplus => x.softplus()?,
        Unary::Softsign => x.div(&x.abs()?.add(1.0)?)?,
        Unary::Sqrt => x.sqrt()?,
        Unary::Swish { alpha: 1.0 } => x.silu()?,
        Unary::Swish { alpha } => x.mul(&x.mul(alpha)?.sigmoid()?)?,
        Unary::Tanh => x.tanh()?,
        Unary::HardSigmoid { alpha, beta } => x.mul(alpha)?.add(beta)?.clip(0.0, 1.0)?,
        Unary::HardSwish => {
            let gate = x.mul(1.0_f32 / 6.0)?.add(0.5)?.clip(0.0, 1.0)?;
            x.mul(&gate)?
        }
        Unary::Mish => x.mul(&x.softplus()?.tanh()?)?,
        Unary::Selu { alpha, gamma } => x.elu(alpha)?.mul(gamma)?,
        // max(0, x) + min(0, alpha (e^(x / alpha) - 1)), which is elu of slope alpha of x / alpha.
        Unary::Celu { alpha } => {
            let below = x.div(alpha)?.expm1()?.mul(alpha)?.minimum(0.0)?;
            x.maximum(0.0)?.add(&below)?
        }
        Unary::Shrink { bias, lambda } => {
            let above = x.gt(lambda)?.where_(&x.sub(bias)?, 0.0)?;
            x.lt(-lambda)?.where_(&x.add(bias)?, &above)?
        }
        Unary::ThresholdedRelu { alpha } => x.gt(alpha)?.where_(x, 0.0)?,
        Unary::Acos => x.acos()?,
        Unary::Acosh => x.acosh()?,
        Unary::Asin => x.asin()?,
        Unary::Asinh => x.asinh()?,
        Unary::Atan => x.atan()?,
        Unary::Atanh => x.atanh()?,
        Unary::Cosh => x.cosh()?,
        Unary::Sinh => x.sinh()?,
        Unary::Tan => x.tan()?,
    })
}

pub(super) fn binary(function: Binary, inputs: &Inputs<'_>) -> Result<Tensor> {
    let (x, y) = (inputs.get(0)?, inputs.get(1)?);
    let is_float = x.dtype().is_float();
    let op = match function {
        Binary::Add => BinaryOp::Add,
        Binary::And | Binary::BitwiseAnd => BinaryOp::And,
        Binary::BitShiftLeft | Binary::BitShiftRight => return shift(function, x, y),
        Binary::BitwiseOr | Binary::Or => BinaryOp::Or,
        Binary::BitwiseXor | Binary::Xor => BinaryOp::Xor,
        Binary::Div if is_float => BinaryOp::Div,
        Binary::Div => return divide(x, y),
        Binary::Equal => BinaryOp::Eq,
        Binary::Greater => BinaryOp::Gt,
        Binary::GreaterOrEqual => BinaryOp::Ge,
        Binary::Less => BinaryOp::Lt,
        Binary::LessOrEqual => BinaryOp::Le,
        Binary::Mod => BinaryOp::Rem,
        Binary::Fmod => return fmod(x, y),
        Binary::Mul => BinaryOp::Mul,
        Binary::Pow => return power(x, y),
        Binary::PRelu => return prelu(x, y),
        Binary::Sub => BinaryOp::Sub,
    };
    if x.dtype() != y.dtype() {
        return Err(Error::input(1, format!("{} does not match {}", y.dtype(), x.dtype())));
    }
    Ok(Tensor::binary(op, x, y)?)
}

/// Shifts bits. A distance outside the width shifts all bits out; right shifts of signed integers
/// are arithmetic.
fn shift(function: Binary, x: &Tensor, distance: &Tensor) -> Result<Tensor> {
    let last = x.dtype().size() as i64 * 8 - 1;
    let is_outside = distance.lt(Scalar::Int(0))?.or(&distance.gt(Scalar::Int(last))?)?;
    let inside = is_outside.where_(Scalar::Int(last), distance)?;
    if function == Binary::BitShiftRight {
        return Ok(x.shift_right(&inside)?);
    }
    Ok(is_outside.where_(Scalar::Int(0), &x.shift_left(&inside)?)?)
}

/// Divides integers with rounding towards zero, as ONNX does; a divisor of 0 is an error.
fn divide(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    check_divisors(y)?;
    let (quotient, rest) = (x.floor_divide(y)?, x.remainder(y)?);
    towards_zero(&quotient, &rest)
}

/// Converts a quotient that was rounded down to one rounded towards zero.
fn towards_zero(quotient: &Tensor, rest: &Tensor) -> Result<Tensor> {
    let zero = Scalar::Int(0);
    let is_low = quotient.lt(zero)?.and(&rest.ne(zero)?)?;
    Ok(quotient.add(&is_low.cast(quotient.dtype())?)?)
}

/// Divides integers by a positive number with rounding towards zero.
pub(super) fn divide_by(x: &Tensor, divisor: i64) -> Result<Tensor> {
    let divisor = Scalar::Int(divisor);
    towards_zero(&x.floor_divide(divisor)?, &x.remainder(divisor)?)
}

fn check_divisors(y: &Tensor) -> Result<()> {
    if y.is_empty() || !y.eq(Scalar::Int(0))?.any_all()?.item::<bool>()? {
        return Ok(());
    }
    let index = y.eq(Scalar::Int(0))?.to_vec::<bool>()?.iter().position(|&is_zero| is_zero);
    Err(Error::input(1, format!("the divisor at index {} is 0", index.unwrap_or(0))))
}

/// Returns the shape of two tensors that are broadcast.
pub(crate) fn broadcast_shapes(x: &[usize], y: &[usize]) -> Result<Vec<usize>> {
    let rank = x.len().max(y.len());
    let size = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(axis) => shape.get(axis).copied().unwrap_or(1),
        None => 1,
    };
    (0..rank)
        .map(|axis| match (size(x, axis), size(y, axis)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(Error::input(1, format!("shape {y:?} does not go with {x:?}"))),
        })
        .collect()
}

/// Returns the remainder of a division that rounds towards zero: it has the sign of the dividend.
fn fmod(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype() != y.dtype() {
        return Err(Error::input(1, format!("{} does not match {}", y.dtype(), x.dtype())));
    }
    if x.dtype().is_float() {
        // For magnitudes, the remainder of a division that rounds down is the same.
        let rest = x.abs()?.remainder(&y.abs()?)?;
        return Ok(Tensor::binary(BinaryOp::CopySign, &rest, x)?);
    }
    check_divisors(y)?;
    let rest = x.remainder(y)?;
    let zero = Scalar::Int(0);
    let is_turned = rest.ne(zero)?.and(&x.lt(zero)?.ne(&y.lt(zero)?)?)?;
    Ok(is_turned.where_(&rest.sub(y)?, &rest)?)
}

/// Returns a power; the result has the type of the base.
fn power(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(x.pow(&y.cast(x.dtype())?)?);
    }
    if !y.dtype().is_float() {
        return Ok(x.pow(&y.cast(x.dtype())?)?);
    }
    // In 64 bits on the host: the power of an integer is truncated, and must not be below it.
    let shape = broadcast_shapes(x.shape(), y.shape())?;
    let exponents = floats(&y.broadcast_to(&shape)?)?;
    let x = x.broadcast_to(&shape)?;
    for_number!(x, T => {
        let powers = x.to_vec::<T>()?.into_iter().zip(&exponents);
        let data: Vec<T> = powers.map(|(a, b)| T::narrow(a.wide().powf(f64::from(*b)))).collect();
        Ok(Tensor::from_slice(&data, &shape, &Device::Cpu)?)
    })
}

/// Computes a leaky ReLU. Slopes without further axes belong to the channels.
fn prelu(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    let mut slope = slope.clone();
    if slope.rank() == 1 && x.rank() > 2 && slope.len() > 1 && slope.len() == x.shape()[1] {
        // Older models give one slope per channel without the axes that follow.
        let mut shape = vec![1; x.rank() - 1];
        shape[0] = slope.len();
        if slope.broadcast_to(x.shape()).is_err() {
            slope = slope.reshape(&shape)?;
        }
    }
    if x.dtype().is_float() {
        return Ok(x.leaky_relu(&slope)?);
    }
    Ok(x.lt(Scalar::Int(0))?.where_(&x.mul(&slope)?, x)?)
}

pub(super) fn variadic(function: Variadic, inputs: &Inputs<'_>) -> Result<Tensor> {
    let mut all = inputs.all();
    let Some(first) = all.next() else { return Err(Error::input(0, "it is missing")) };
    let (mut result, mut n) = (first.clone(), 1_i64);
    for next in all {
        n += 1;
        result = match function {
            Variadic::Max => result.maximum(next)?,
            Variadic::Min => result.minimum(next)?,
            Variadic::Mean | Variadic::Sum => result.add(next)?,
        };
    }
    if function == Variadic::Mean {
        result = result.div(n as f64)?;
    }
    Ok(result)
}

pub(super) fn choose(inputs: &Inputs<'_>) -> Result<Tensor> {
    let (condition, x, y) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    if x.dtype() != y.dtype() {
        return Err(Error::input(2, format!("{} does not match {}", y.dtype(), x.dtype())));
    }
    Ok(condition.where_(x, y)?)
}

pub(super) fn clip(inputs: &Inputs<'_>, low: Option<f32>, high: Option<f32>) -> Result<Tensor> {
    let mut x = inputs.get(0)?.clone();
    let dtype = x.dtype();
    // An old node has its bounds in 32 bits, for any type.
    let bound = |k: usize| -> Result<Option<Tensor>> {
        let bound = inputs.maybe(k);
        let same = bound.map(|bound| match bound.dtype().is_float() && dtype.is_float() {
            true => bound.cast(dtype),
            false => Ok(bound.clone()),
        });
        Ok(same.transpose()?)
    };
    // Attributes take precedence over inputs, as everywhere.
    if let Some(low) = low {
        x = x.maximum(low)?;
    } else if let Some(low) = bound(1)? {
        x = x.maximum(&low)?;
    }
    if let Some(high) = high {
        x = x.minimum(high)?;
    } else if let Some(high) = bound(2)? {
        x = x.minimum(&high)?;
    }
    Ok(x)
}

/// Casts the elements to another type, on the host if the device does not support it.
pub(super) fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    match x.device().supports(dtype) {
        true => Ok(x.cast(dtype)?),
        false => Ok(x.to_device(&Device::Cpu)?.cast(dtype)?),
    }
}

pub(super) fn swiglu(inputs: &Inputs<'_>, alpha: f32) -> Result<Tensor> {
    let (a, b) = (inputs.get(0)?, inputs.get(1)?);
    let gate = match alpha == 1.0 {
        true => a.silu()?,
        false => a.mul(&a.mul(alpha)?.sigmoid()?)?,
    };
    Ok(gate.mul(b)?)
}

/// Computes a dropout, which drops nothing outside training or if the ratio is 0.
pub(super) fn dropout(inputs: &Inputs<'_>, has_mode: bool) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    if has_mode && let Some(mode) = inputs.maybe(2) {
        let is_training = mode.to_vec::<bool>()?.first().copied().unwrap_or(false);
        let ratio = if inputs.maybe(1).is_some() { inputs.float(1)? } else { 0.5 };
        if is_training && ratio != 0.0 {
            return Err(Error::input(2, "training, which is not read"));
        }
    }
    Ok(vec![x.clone(), Tensor::full(x.shape(), true, DType::Bool, &x.device())?])
}
