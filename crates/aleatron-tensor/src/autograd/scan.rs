//! Gradients of running sums and products.

use super::formula::{Condition, Formula, Value};
use super::node::attach;
use super::reduce::wide;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{BinaryOp, Reducer};
use crate::ops::evaluate_formula;
use crate::tensor::Tensor;

/// Returns for each element along an axis the sum of it and those after it.
fn sums_from(x: &Tensor, axis: isize) -> Result<Tensor> {
    x.flip(axis)?.cumsum(axis)?.flip(axis)
}

/// Records a running sum or product.
pub(crate) fn scan(op: &'static str, x: &Tensor, axis: isize, reducer: &Reducer) -> Result<Tensor> {
    let x_value = x.detach();
    if *reducer == Reducer::Sum {
        let output = x_value.cumsum(axis)?;
        return Ok(attach(op, &[x], &output, move |g| Ok(vec![Some(sums_from(g, axis)?)])));
    }
    let output = x_value.cumprod(axis)?;
    let y = output.detach();
    Ok(attach(op, &[x], &output, move |g| {
        if g.is_empty() {
            return Ok(vec![Some(g.clone())]);
        }
        let g = wide(g)?;
        let plain = sums_from(&g.mul(&wide(&y)?)?, axis)?;
        // The first zero of a row: its gradient is a sum of products without it.
        let is_zero = x_value.eq(0.0)?;
        let is_first = is_zero.cast(DType::I32)?.cumsum(axis)?.eq(1)?.and(&is_zero)?;
        let without = is_first.where_(1.0, &wide(&x_value)?)?.cumprod(axis)?;
        let at_zero = sums_from(&g.mul(&without)?, axis)?;
        let operands = [(&plain).into(), (&x_value).into(), (&at_zero).into(), (&is_first).into()];
        Ok(vec![Some(evaluate_formula(op, &operands, &ProductGradient)?)])
    }))
}

/// The gradient of a running product.
struct ProductGradient;

impl Formula for ProductGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [plain, x, at_zero] = [0, 1, 2].map(|i| Value::new(arguments[i].clone()));
        let is_first = Condition::new(arguments[3].clone());
        let elsewhere = x.is(BinaryOp::Eq, 0.0).zero_or(&(plain / x));
        is_first.select(&at_zero, &elsewhere).into_expr()
    }
}
