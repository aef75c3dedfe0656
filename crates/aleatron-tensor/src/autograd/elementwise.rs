//! Gradients of elementwise operations.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LN_10, PI};

use super::formula::{Condition, Formula, Value};
use super::node::{Gradients, attach};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{BinaryOp, UnaryOp};
use crate::ops::{Operand, evaluate_formula};
use crate::tensor::Tensor;

/// An argument that a gradient needs.
#[derive(Clone)]
enum Saved {
    Tensor(Tensor),
    Scalar(Scalar),
}

impl Saved {
    fn new(operand: &Operand<'_>) -> Self {
        match operand {
            Operand::Tensor(tensor) => Self::Tensor(tensor.detach()),
            Operand::Scalar(scalar) => Self::Scalar(*scalar),
        }
    }

    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Tensor(tensor) => Operand::Tensor(tensor),
            Self::Scalar(scalar) => Operand::Scalar(*scalar),
        }
    }
}

/// The value that the gradient of an operation of one argument needs.
enum UnaryNeeds {
    Nothing,
    Input,
    Output,
    /// The gradient is zero.
    Step,
    /// There is no gradient.
    NoGradient,
}

fn unary_needs(op: UnaryOp) -> UnaryNeeds {
    use UnaryOp as Op;
    match op {
        Op::Neg => UnaryNeeds::Nothing,
        Op::Recip
        | Op::Sqrt
        | Op::Rsqrt
        | Op::Exp
        | Op::Expm1
        | Op::Tan
        | Op::Tanh
        | Op::Sigmoid
        | Op::Relu => UnaryNeeds::Output,
        Op::Sign | Op::Round | Op::Floor | Op::Ceil | Op::Trunc => UnaryNeeds::Step,
        Op::Not | Op::IsNan | Op::SignBit | Op::IsInf | Op::IsFinite => UnaryNeeds::NoGradient,
        _ => UnaryNeeds::Input,
    }
}

/// The gradient of an operation of one argument, from the gradient of the result and the saved
/// value.
struct UnaryGradient(UnaryOp);

impl Formula for UnaryGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let g = Value::new(arguments[0].clone());
        // The input or the output, as `unary_needs` says.
        let s = Value::new(arguments[1].clone());
        let result = match self.0 {
            UnaryOp::Abs => g * s.unary(UnaryOp::Sign),
            UnaryOp::Square => g * s * 2.0,
            UnaryOp::Recip => -(g * s.square()),
            UnaryOp::Sqrt => g * 0.5 / s,
            UnaryOp::Rsqrt => g * -0.5 * s.clone() * s.square(),
            UnaryOp::Exp => g * s,
            UnaryOp::Expm1 => g * (s + 1.0),
            UnaryOp::Log => g / s,
            UnaryOp::Log1p => g / (s + 1.0),
            UnaryOp::Log2 => g / (s * LN_2),
            UnaryOp::Log10 => g / (s * LN_10),
            UnaryOp::Sin => g * s.unary(UnaryOp::Cos),
            UnaryOp::Cos => -(g * s.unary(UnaryOp::Sin)),
            UnaryOp::Tan => g * (s.square() + 1.0),
            UnaryOp::Asin => g * (-s.square() + 1.0).unary(UnaryOp::Rsqrt),
            UnaryOp::Acos => -(g * (-s.square() + 1.0).unary(UnaryOp::Rsqrt)),
            UnaryOp::Atan => g / (s.square() + 1.0),
            UnaryOp::Sinh => g * s.unary(UnaryOp::Cosh),
            UnaryOp::Cosh => g * s.unary(UnaryOp::Sinh),
            UnaryOp::Asinh => g * (s.square() + 1.0).unary(UnaryOp::Rsqrt),
            UnaryOp::Acosh => g * (s.square() - 1.0).unary(UnaryOp::Rsqrt),
            UnaryOp::Atanh => g / (-s.square() + 1.0),
            UnaryOp::Tanh => g * (-s.square() + 1.0),
            UnaryOp::Erf => g * (-s.square()).unary(UnaryOp::Exp) * (2.0 / PI.sqrt()),
            UnaryOp::Sigmoid => g * s.clone() * (-s + 1.0),
            // NaN passes the gradient on.
            UnaryOp::Relu => s.is(BinaryOp::Le, 0.0).zero_or(&g),
            UnaryOp::Gelu => {
                let below = (s.clone() * FRAC_1_SQRT_2).unary(UnaryOp::Erf) * 0.5 + 0.5;
                let density =
                    (s.clone().square() * -0.5).unary(UnaryOp::Exp) * (1.0 / (2.0 * PI).sqrt());
                g * (below + s * density)
            }
            UnaryOp::GeluTanh => g * gelu_tanh_slope(&s),
            UnaryOp::Silu => {
                let sigmoid = s.clone().unary(UnaryOp::Sigmoid);
                g * sigmoid.clone() * (s * (-sigmoid + 1.0) + 1.0)
            }
            UnaryOp::Softplus => g * s.unary(UnaryOp::Sigmoid),
            // The remaining operations need no formula.
            _ => -g,
        };
        result.into_expr()
    }
}

/// Returns the derivative of the approximation of gelu through tanh.
fn gelu_tanh_slope<L: Clone + PartialEq>(x: &Value<L>) -> Value<L> {
    let (k, cubic) = ((2.0 / PI).sqrt(), 0.044_715);
    let square = x.clone().square();
    let t = (x.clone() * (square.clone() * cubic + 1.0) * k).unary(UnaryOp::Tanh);
    let inner = (square * (3.0 * cubic) + 1.0) * k;
    (t.clone() + 1.0) * 0.5 + x.clone() * 0.5 * (-t.square() + 1.0) * inner
}

/// Records an operation of one argument.
pub(crate) fn unary(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    let output = x.detach().unary(op)?;
    let saved = match unary_needs(op) {
        UnaryNeeds::NoGradient => return Ok(output),
        UnaryNeeds::Nothing => {
            return Ok(attach(op.name(), &[x], &output, |g| Ok(vec![Some(g.neg()?)])));
        }
        UnaryNeeds::Step => {
            return Ok(attach(op.name(), &[x], &output, |g| {
                Ok(vec![Some(Tensor::zeros(g.shape(), g.dtype(), &g.device())?)])
            }));
        }
        UnaryNeeds::Input => x.detach(),
        UnaryNeeds::Output => output.clone(),
    };
    Ok(attach(op.name(), &[x], &output, move |g| {
        let gradient =
            evaluate_formula(op.name(), &[g.into(), (&saved).into()], &UnaryGradient(op))?;
        Ok(vec![Some(gradient)])
    }))
}

/// An argument of an operation of two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The gradient of one argument of an operation, from that of the result and both arguments.
struct BinaryGradient(BinaryOp, Side);

impl Formula for BinaryGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, x, y] = [0, 1, 2].map(|i| Value::new(arguments[i].clone()));
        let result = match (self.0, self.1) {
            (BinaryOp::Mul, Side::Left) => g * y,
            (BinaryOp::Mul, Side::Right) => g * x,
            (BinaryOp::Div, Side::Left) => g / y,
            (BinaryOp::Div, Side::Right) => -(g * x) / y.square(),
            (BinaryOp::Rem, Side::Right) => -(g * x.binary(BinaryOp::FloorDiv, &y)),
            (BinaryOp::Pow, Side::Left) => {
                let slope = y.clone() * x.binary(BinaryOp::Pow, &(y.clone() - 1.0));
                y.is(BinaryOp::Eq, 0.0).zero_or(&(g * slope))
            }
            (BinaryOp::Pow, Side::Right) => {
                let slope = x.clone().binary(BinaryOp::Pow, &y) * x.clone().unary(UnaryOp::Log);
                let is_constant = x.is(BinaryOp::Eq, 0.0).and(&y.is(BinaryOp::Ge, 0.0));
                is_constant.zero_or(&(g * slope))
            }
            (BinaryOp::Min, side) => extreme(&g, &x, &y, side, [BinaryOp::Gt, BinaryOp::Lt]),
            (BinaryOp::Max, side) => extreme(&g, &x, &y, side, [BinaryOp::Lt, BinaryOp::Gt]),
            (BinaryOp::LeakyRelu, Side::Left) => {
                x.is(BinaryOp::Gt, 0.0).select(&g, &(g.clone() * y))
            }
            (BinaryOp::LeakyRelu, Side::Right) => x.is(BinaryOp::Gt, 0.0).zero_or(&(g * x)),
            (BinaryOp::Elu, Side::Left) => {
                let slope = g.clone() * y * x.clone().unary(UnaryOp::Exp);
                x.is(BinaryOp::Gt, 0.0).select(&g, &slope)
            }
            (BinaryOp::Elu, Side::Right) => {
                x.is(BinaryOp::Gt, 0.0).zero_or(&(g * x.unary(UnaryOp::Expm1)))
            }
            (BinaryOp::Atan2, Side::Left) => g * y.clone() / (x.square() + y.square()),
            (BinaryOp::Atan2, Side::Right) => -(g * x.clone()) / (x.square() + y.square()),
            (BinaryOp::CopySign, Side::Left) => {
                let sign =
                    x.clone().unary(UnaryOp::Sign) * x.number(1.0).binary(BinaryOp::CopySign, &y);
                g * sign
            }
            (BinaryOp::Hypot, side) => {
                let length = x.clone().binary(BinaryOp::Hypot, &y);
                g * if side == Side::Left { x } else { y } / length
            }
            (BinaryOp::LogAddExp, side) => {
                let distance = if side == Side::Left { x - y } else { y - x };
                g * distance.unary(UnaryOp::Sigmoid)
            }
            (BinaryOp::Sub, Side::Right) => -g,
            _ => g,
        };
        result.into_expr()
    }
}

/// Returns the gradient of a minimum or maximum: that of the result for the chosen argument, one
/// half of it for equal ones.
fn extreme<L: Clone + PartialEq>(
    g: &Value<L>,
    x: &Value<L>,
    y: &Value<L>,
    side: Side,
    [left_loses, right_loses]: [BinaryOp; 2],
) -> Value<L> {
    let loses = x.compare(if side == Side::Left { left_loses } else { right_loses }, y);
    let shared = x.compare(BinaryOp::Eq, y).select(&(g.clone() * 0.5), g);
    loses.zero_or(&shared)
}

/// Whether an operation of two arguments has a gradient, and what that needs.
enum BinaryNeeds {
    Nothing,
    Inputs,
    NoGradient,
}

fn binary_needs(op: BinaryOp) -> BinaryNeeds {
    use BinaryOp as Op;
    match op {
        Op::Add | Op::Sub => BinaryNeeds::Nothing,
        Op::Mul
        | Op::Div
        | Op::FloorDiv
        | Op::Rem
        | Op::Pow
        | Op::Min
        | Op::Max
        | Op::LeakyRelu
        | Op::Elu
        | Op::Atan2
        | Op::CopySign
        | Op::Hypot
        | Op::LogAddExp => BinaryNeeds::Inputs,
        _ => BinaryNeeds::NoGradient,
    }
}

/// Returns whether the gradient of an argument needs the other argument alone.
fn needs_other_only(op: BinaryOp, side: Side) -> bool {
    op == BinaryOp::Mul || (op == BinaryOp::Div && side == Side::Left)
}

/// Returns whether the result is constant between the steps of an argument.
fn is_step(op: BinaryOp, side: Side) -> bool {
    op == BinaryOp::FloorDiv || (op == BinaryOp::CopySign && side == Side::Right)
}

fn is_tracked(operand: &Operand<'_>) -> bool {
    operand.tensor().is_some_and(Tensor::is_tracked)
}

/// Records an operation of two arguments.
pub(crate) fn binary(op: BinaryOp, left: Operand<'_>, right: Operand<'_>) -> Result<Tensor> {
    let name = op.name();
    let (saved_left, saved_right) = (Saved::new(&left), Saved::new(&right));
    let output = Tensor::binary(op, saved_left.operand(), saved_right.operand())?;
    let (tracks_left, tracks_right) = (is_tracked(&left), is_tracked(&right));
    // One edge for each tensor.
    let inputs: Vec<&Tensor> =
        [&left, &right].into_iter().filter_map(|operand| operand.tensor()).collect();
    let sides: Vec<Option<Side>> =
        [(&left, Side::Left, tracks_left), (&right, Side::Right, tracks_right)]
            .into_iter()
            .filter(|(operand, ..)| operand.tensor().is_some())
            .map(|(_, side, is_tracked)| is_tracked.then_some(side))
            .collect();
    match binary_needs(op) {
        BinaryNeeds::NoGradient => Ok(output),
        BinaryNeeds::Nothing => {
            let is_difference = op == BinaryOp::Sub;
            Ok(attach(name, &inputs, &output, move |g| {
                let part = |side: &Option<Side>| match side {
                    Some(Side::Right) if is_difference => g.neg().map(Some),
                    Some(_) => Ok(Some(g.clone())),
                    None => Ok(None),
                };
                sides.iter().map(part).collect()
            }))
        }
        BinaryNeeds::Inputs => {
            // An argument is retained only if the gradient of a tracked one needs it.
            let needs_left = tracks_right || (tracks_left && !needs_other_only(op, Side::Left));
            let needs_right = tracks_left || (tracks_right && !needs_other_only(op, Side::Right));
            let keep = |saved, is_needed: bool| {
                if is_needed { saved } else { Saved::Scalar(Scalar::Float(0.0)) }
            };
            let (left, right) = (keep(saved_left, needs_left), keep(saved_right, needs_right));
            Ok(attach(name, &inputs, &output, move |g| {
                let part = |side: &Option<Side>| -> Result<Option<Tensor>> {
                    let Some(side) = *side else { return Ok(None) };
                    if is_step(op, side) {
                        return Tensor::zeros(g.shape(), g.dtype(), &g.device()).map(Some);
                    }
                    let zero = Saved::Scalar(Scalar::Float(0.0));
                    let unused = needs_other_only(op, side);
                    let [x, y] = match side {
                        Side::Left if unused => [&zero, &right],
                        Side::Right if unused => [&left, &zero],
                        _ => [&left, &right],
                    };
                    let operands = [g.into(), x.operand(), y.operand()];
                    evaluate_formula(name, &operands, &BinaryGradient(op, side)).map(Some)
                };
                sides.iter().map(part).collect()
            }))
        }
    }
}

/// A gradient where a condition holds, or where it does not.
struct Masked(Side);

impl Formula for Masked {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let (g, condition) =
            (Value::new(arguments[0].clone()), Condition::new(arguments[1].clone()));
        let masked = match self.0 {
            Side::Left => condition.value_or_zero(&g),
            Side::Right => condition.zero_or(&g),
        };
        masked.into_expr()
    }
}

/// Records a choice between two arguments.
pub(crate) fn select_where(
    condition: &Tensor,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<Tensor> {
    let (saved_left, saved_right) = (Saved::new(&left), Saved::new(&right));
    let output = condition.where_(saved_left.operand(), saved_right.operand())?;
    let condition = condition.clone();
    let tracked: Vec<(Side, &Tensor)> = [(Side::Left, &left), (Side::Right, &right)]
        .into_iter()
        .filter_map(|(side, operand)| {
            Some((side, operand.tensor().filter(|tensor| tensor.is_tracked())?))
        })
        .collect();
    let inputs: Vec<&Tensor> = tracked.iter().map(|&(_, tensor)| tensor).collect();
    let sides: Vec<Side> = tracked.iter().map(|&(side, _)| side).collect();
    Ok(attach("where", &inputs, &output, move |g| {
        let part = |&side: &Side| {
            evaluate_formula("where", &[g.into(), (&condition).into()], &Masked(side)).map(Some)
        };
        sides.iter().map(part).collect()
    }))
}

/// An argument of a clip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClipArgument {
    Value,
    Low,
    High,
}

/// The gradient of an argument of a clip; bounds belong to the range.
struct ClipGradient(ClipArgument);

impl Formula for ClipGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, x, low, high] = [0, 1, 2, 3].map(|i| Value::new(arguments[i].clone()));
        let gradient = match self.0 {
            ClipArgument::Value => {
                let below = x.compare(BinaryOp::Lt, &low).zero_or(&g);
                x.compare(BinaryOp::Gt, &high).zero_or(&below)
            }
            ClipArgument::Low => {
                let is_low = x.compare(BinaryOp::Lt, &low).and(&low.compare(BinaryOp::Lt, &high));
                is_low.value_or_zero(&g)
            }
            ClipArgument::High => {
                let above = x.compare(BinaryOp::Gt, &high).value_or_zero(&g);
                low.compare(BinaryOp::Ge, &high).select(&g, &above)
            }
        };
        gradient.into_expr()
    }
}

/// Records a clip.
pub(crate) fn clip(x: &Tensor, low: Operand<'_>, high: Operand<'_>) -> Result<Tensor> {
    let operands = [Operand::Tensor(x), low, high];
    let saved = operands.each_ref().map(Saved::new);
    let output = x.detach().clip(saved[1].operand(), saved[2].operand())?;
    let names = [ClipArgument::Value, ClipArgument::Low, ClipArgument::High];
    let tracked: Vec<(ClipArgument, &Tensor)> = names
        .into_iter()
        .zip(&operands)
        .filter_map(|(name, operand)| {
            Some((name, operand.tensor().filter(|tensor| tensor.is_tracked())?))
        })
        .collect();
    let inputs: Vec<&Tensor> = tracked.iter().map(|&(_, tensor)| tensor).collect();
    let arguments: Vec<ClipArgument> = tracked.iter().map(|&(argument, _)| argument).collect();
    Ok(attach("clip", &inputs, &output, move |g| {
        let part = |&argument: &ClipArgument| {
            let operands = [g.into(), saved[0].operand(), saved[1].operand(), saved[2].operand()];
            evaluate_formula("clip", &operands, &ClipGradient(argument)).map(Some)
        };
        arguments.iter().map(part).collect::<Result<Gradients>>()
    }))
}

/// Records a change of the type; integers have no gradient.
pub(crate) fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let output = x.detach().cast(dtype)?;
    if !dtype.is_float() {
        return Ok(output);
    }
    // The engine casts the gradient to the type of the argument.
    Ok(attach("cast", &[x], &output, |g| Ok(vec![Some(g.clone())])))
}
