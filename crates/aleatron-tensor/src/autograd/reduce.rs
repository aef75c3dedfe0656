//! Gradients of reductions.

use super::formula::{Formula, Value};
use super::node::attach;
use crate::error::Result;
use crate::expr::Expr;
use crate::layout;
use crate::op::{BinaryOp, UnaryOp};
use crate::ops::{Dims, Reduction, evaluate_formula};
use crate::tensor::Tensor;

/// Returns a tensor with the reduced axes as axes of size 1.
fn with_axes(reduced: &Tensor, shape: &[usize], axes: &[usize]) -> Result<Tensor> {
    let mut kept = shape.to_vec();
    axes.iter().for_each(|&axis| kept[axis] = 1);
    reduced.reshape(&kept)
}

/// Returns a tensor in the type that floats are computed in: counts and sums may have no 16-bit
/// float.
pub(super) fn wide(x: &Tensor) -> Result<Tensor> {
    x.cast(x.dtype().computed())
}

/// Records a reduction.
pub(crate) fn reduce(
    x: &Tensor,
    reduction: Reduction,
    axes: &[isize],
    dims: Dims,
) -> Result<Tensor> {
    let output = x.detach().reduce(reduction, axes, dims)?;
    let op = reduction.name();
    let axes = layout::axes(op, axes, x.rank())?;
    let shape = x.shape().to_vec();
    let count = axes.iter().map(|&axis| shape[axis] as f64).product::<f64>();
    Ok(match reduction {
        Reduction::ArgMax | Reduction::ArgMin | Reduction::Any | Reduction::All => output,
        Reduction::Sum => attach(op, &[x], &output, move |g| {
            Ok(vec![Some(with_axes(g, &shape, &axes)?.broadcast_to(&shape)?)])
        }),
        Reduction::Mean => attach(op, &[x], &output, move |g| {
            let part = with_axes(&wide(g)?, &shape, &axes)?.div(count)?;
            Ok(vec![Some(part.broadcast_to(&shape)?)])
        }),
        Reduction::Prod => {
            let x_value = x.detach();
            attach(op, &[x], &output, move |g| {
                let others = products_of_others(&x_value, &axes)?;
                Ok(vec![Some(others.mul(&with_axes(g, &shape, &axes)?)?)])
            })
        }
        Reduction::Max | Reduction::Min => {
            let (x_value, y) = (x.detach(), output.detach());
            attach(op, &[x], &output, move |g| {
                let g = wide(g)?;
                let is_extreme = x_value.eq(&with_axes(&y, &shape, &axes)?)?.cast(g.dtype())?;
                let names: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                let share = with_axes(&g, &shape, &axes)?.div(&is_extreme.sum_keepdim(&names)?)?;
                Ok(vec![Some(is_extreme.mul(&share)?)])
            })
        }
        Reduction::LogSumExp => {
            let (x_value, y) = (x.detach(), output.detach());
            attach(op, &[x], &output, move |g| {
                let (g, y) = (with_axes(g, &shape, &axes)?, with_axes(&y, &shape, &axes)?);
                let operands = [(&g).into(), (&x_value).into(), (&y).into()];
                Ok(vec![Some(evaluate_formula(op, &operands, &LogSumExpGradient)?)])
            })
        }
    })
}

/// The gradient of the logarithm of a sum of exponentials.
struct LogSumExpGradient;

impl Formula for LogSumExpGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, x, y] = [0, 1, 2].map(|i| Value::new(arguments[i].clone()));
        // Without a finite sum the exponentials are taken as they are: 0 for minus infinity.
        let shift = y.clone().unary(UnaryOp::Abs).is(BinaryOp::Eq, f64::INFINITY).zero_or(&y);
        (g * (x - shift).unary(UnaryOp::Exp)).into_expr()
    }
}

/// Returns for each element the product of all others along axes, also if elements are zero.
fn products_of_others(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if x.is_empty() {
        return Ok(x.clone());
    }
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<isize> = kept.chain(axes.iter().copied()).map(|axis| axis as isize).collect();
    let mut inverse = vec![0isize; x.rank()];
    for (position, &axis) in order.iter().enumerate() {
        inverse[axis as usize] = position as isize;
    }
    let moved = x.permute(&order)?;
    let moved_shape = moved.shape().to_vec();
    let n: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let rows = moved.reshape(&[x.len() / n.max(1), n])?;
    let before = exclusive_products(&rows)?;
    let after = exclusive_products(&rows.flip(1)?)?.flip(1)?;
    before.mul(&after)?.reshape(&moved_shape)?.permute(&inverse)
}

/// Returns for each element of a row the product of those before it.
fn exclusive_products(rows: &Tensor) -> Result<Tensor> {
    let (count, n) = (rows.shape()[0], rows.shape()[1]);
    let ones = Tensor::ones(&[count, 1], rows.dtype(), &rows.device())?;
    let shifted = Tensor::concat(&[&ones, &rows.slice(1, ..n - 1)?], 1)?;
    shifted.cumprod(1)
}

/// The gradient of a variance from the distances to the mean.
struct VarianceGradient(f64);

impl Formula for VarianceGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, x, mean] = [0, 1, 2].map(|i| Value::new(arguments[i].clone()));
        (g * (x - mean) * self.0).into_expr()
    }
}

/// Records a variance.
pub(crate) fn variance(x: &Tensor, axes: &[isize], correction: f64, dims: Dims) -> Result<Tensor> {
    const OP: &str = "var";
    let x_value = x.detach();
    let output = match dims {
        Dims::Drop => x_value.var(axes, correction)?,
        Dims::Keep => x_value.var_keepdim(axes, correction)?,
    };
    let axes = layout::axes(OP, axes, x.rank())?;
    let shape = x.shape().to_vec();
    Ok(attach(OP, &[x], &output, move |g| {
        let names: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
        let count = axes.iter().map(|&axis| shape[axis] as f64).product::<f64>();
        let mean = wide(&x_value)?.mean_keepdim(&names)?;
        let g = with_axes(g, &shape, &axes)?;
        let factor = 2.0 / (count - correction).max(0.0);
        let operands = [(&g).into(), (&x_value).into(), (&mean).into()];
        Ok(vec![Some(evaluate_formula(OP, &operands, &VarianceGradient(factor))?)])
    }))
}
