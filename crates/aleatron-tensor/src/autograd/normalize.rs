//! Gradients of softmax and normalizations.

use super::formula::{Formula, Value};
use super::node::attach;
use super::reduce::wide;
use crate::error::Result;
use crate::expr::Expr;
use crate::layout;
use crate::op::UnaryOp;
use crate::ops::evaluate_formula;
use crate::tensor::Tensor;

/// A gradient that depends on the output and a sum along the axes.
enum SoftmaxGradient {
    Softmax,
    LogSoftmax,
}

impl Formula for SoftmaxGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, y, sum] = [0, 1, 2].map(|i| Value::new(arguments[i].clone()));
        let gradient = match self {
            Self::Softmax => y * (g - sum),
            Self::LogSoftmax => g - y.unary(UnaryOp::Exp) * sum,
        };
        gradient.into_expr()
    }
}

/// Returns the axes of an operation, all of them if none is named.
fn named(op: &'static str, axes: &[isize], x: &Tensor) -> Result<Vec<isize>> {
    Ok(layout::axes(op, axes, x.rank())?.into_iter().map(|axis| axis as isize).collect())
}

/// Records a softmax.
pub(crate) fn softmax(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    const OP: &str = "softmax";
    let output = x.detach().softmax(axes)?;
    let (axes, y) = (named(OP, axes, x)?, output.detach());
    Ok(attach(OP, &[x], &output, move |g| {
        let sum = sum_along(&wide(g)?.mul(&wide(&y)?)?, &axes)?;
        let operands = [g.into(), (&y).into(), (&sum).into()];
        Ok(vec![Some(evaluate_formula(OP, &operands, &SoftmaxGradient::Softmax)?)])
    }))
}

/// Records the logarithm of a softmax.
pub(crate) fn log_softmax(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    const OP: &str = "log_softmax";
    let output = x.detach().log_softmax(axes)?;
    let (axes, y) = (named(OP, axes, x)?, output.detach());
    Ok(attach(OP, &[x], &output, move |g| {
        let sum = sum_along(&wide(g)?, &axes)?;
        let operands = [g.into(), (&y).into(), (&sum).into()];
        Ok(vec![Some(evaluate_formula(OP, &operands, &SoftmaxGradient::LogSoftmax)?)])
    }))
}

/// Sums along axes; a tensor without axes is its own sum.
fn sum_along(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    if axes.is_empty() { Ok(x.clone()) } else { x.sum_keepdim(axes) }
}

fn mean_along(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    if axes.is_empty() { Ok(x.clone()) } else { x.mean_keepdim(axes) }
}

/// The gradient of a normalization: `scale (g - mean of g - y mean of (g y))`, where `y` is
/// normalized. The means are arguments; a normalization without a mean passes zero.
struct NormGradient;

impl Formula for NormGradient {
    fn build<L: Clone + PartialEq>(&self, arguments: &[Expr<L>]) -> Expr<L> {
        let [g, y, scale, mean, product] =
            [0, 1, 2, 3, 4].map(|i| Value::new(arguments[i].clone()));
        ((g - mean - y * product) * scale).into_expr()
    }
}

/// Multiplies a gradient by a scale, if there is one.
fn scaled(g: &Tensor, scale: Option<&Tensor>) -> Result<Tensor> {
    match scale {
        Some(scale) => g.mul(scale),
        None => Ok(g.clone()),
    }
}

/// Records a layer normalization.
pub(crate) fn layer_norm(
    x: &Tensor,
    axes: &[isize],
    scale: Option<&Tensor>,
    shift: Option<&Tensor>,
    epsilon: f32,
) -> Result<Tensor> {
    const OP: &str = "layer_norm";
    let (x_value, scale_value, shift_value) =
        (x.detach(), scale.map(Tensor::detach), shift.map(Tensor::detach));
    let output = x_value.layer_norm(axes, scale_value.as_ref(), shift_value.as_ref(), epsilon)?;
    let axes = named(OP, axes, x)?;
    let inputs: Vec<&Tensor> = [Some(x), scale, shift].into_iter().flatten().collect();
    let tracked = [Some(x), scale, shift].map(|input| input.map(Tensor::is_tracked));
    Ok(attach(OP, &inputs, &output, move |g| {
        let (x, g) = (wide(&x_value)?, wide(g)?);
        let centred = x.sub(&mean_along(&x, &axes)?)?;
        let deviation = mean_along(&centred.square()?, &axes)?.add(f64::from(epsilon))?.rsqrt()?;
        let y = centred.mul(&deviation)?;
        let mut gradients = Vec::new();
        if tracked[0] == Some(true) {
            let inner = scaled(&g, scale_value.as_ref())?;
            let (mean, product) = (mean_along(&inner, &axes)?, mean_along(&inner.mul(&y)?, &axes)?);
            let operands = [&inner, &y, &deviation, &mean, &product].map(Into::into);
            gradients.push(Some(evaluate_formula(OP, &operands, &NormGradient)?));
        } else {
            gradients.push(None);
        }
        if let Some(is_tracked) = tracked[1] {
            gradients.push(is_tracked.then(|| g.mul(&y)).transpose()?);
        }
        gradients.extend(tracked[2].map(|is_tracked| is_tracked.then(|| g.clone())));
        Ok(gradients)
    }))
}

/// Records a normalization by the root mean square.
pub(crate) fn rms_norm(
    x: &Tensor,
    axes: &[isize],
    scale: Option<&Tensor>,
    epsilon: f32,
) -> Result<Tensor> {
    const OP: &str = "rms_norm";
    let (x_value, scale_value) = (x.detach(), scale.map(Tensor::detach));
    let output = x_value.rms_norm(axes, scale_value.as_ref(), epsilon)?;
    let axes = named(OP, axes, x)?;
    let inputs: Vec<&Tensor> = [Some(x), scale].into_iter().flatten().collect();
    let tracked = [Some(x), scale].map(|input| input.map(Tensor::is_tracked));
    Ok(attach(OP, &inputs, &output, move |g| {
        let (x, g) = (wide(&x_value)?, wide(g)?);
        let root = mean_along(&x.square()?, &axes)?.add(f64::from(epsilon))?.rsqrt()?;
        let y = x.mul(&root)?;
        let mut gradients = Vec::new();
        if tracked[0] == Some(true) {
            let inner = scaled(&g, scale_value.as_ref())?;
            let product = mean_along(&inner.mul(&y)?, &axes)?;
            let operands =
                [(&inner).into(), (&y).into(), (&root).into(), 0.0.into(), (&product).into()];
            gradients.push(Some(evaluate_formula(OP, &operands, &NormGradient)?));
        } else {
            gradients.push(None);
        }
        if let Some(is_tracked) = tracked[1] {
            gradients.push(is_tracked.then(|| g.mul(&y)).transpose()?);
        }
        Ok(gradients)
    }))
}
