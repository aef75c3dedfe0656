//! Gradients of matrix products.

use super::node::attach;
use crate::error::Result;
use crate::gpu::matmul::MatmulPlan;
use crate::tensor::Tensor;

/// Records a matrix product.
pub(crate) fn matmul(left: &Tensor, right: &Tensor, plan: MatmulPlan) -> Result<Tensor> {
    let (a, b) = (left.detach(), right.detach());
    let output = a.matmul_by(&b, plan)?;
    let (tracks_left, tracks_right) = (left.is_tracked(), right.is_tracked());
    let (left_shape, right_shape) = (left.shape().to_vec(), right.shape().to_vec());
    // A factor is retained only if the gradient of the other one needs it.
    let (a, b) = (tracks_right.then_some(a), tracks_left.then_some(b));
    Ok(attach("matmul", &[left, right], &output, move |g| {
        let mut g = g.clone();
        if right_shape.len() == 1 {
            g = g.unsqueeze(-1)?;
        }
        if left_shape.len() == 1 {
            g = g.unsqueeze(-2)?;
        }
        let of_left = b.map(|b| gradient_of_left(&g, &b, &left_shape)).transpose()?;
        let of_right = a.map(|a| gradient_of_right(&g, &a, &right_shape)).transpose()?;
        Ok(vec![of_left, of_right])
    }))
}

/// Returns `g bᵀ`. A left factor without a batch sums over the batch, by one product.
fn gradient_of_left(g: &Tensor, b: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let b = if b.rank() == 1 { b.unsqueeze(1)? } else { b.clone() };
    if shape.len() == 1 {
        return row_gradient(g, &b, shape);
    }
    if shape.len() == 2 && g.rank() > 2 {
        return last_two_first(g)?.matmul(&last_two_first(&over_batch(&b, g)?)?.t()?);
    }
    g.matmul(&b.t()?)
}

/// Returns the gradient of a single row, summed over the batch.
fn row_gradient(g: &Tensor, b: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let product = g.matmul(&b.t()?)?;
    let axes: Vec<isize> = (0..product.rank() as isize - 1).collect();
    product.sum(&axes)?.reshape(shape)
}

/// Returns `aᵀ g`. A right factor without a batch sums over the batch, by one product.
fn gradient_of_right(g: &Tensor, a: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let a = if a.rank() == 1 { a.unsqueeze(0)? } else { a.clone() };
    let is_shared = shape.len() <= 2 && g.rank() > 2;
    let product = if is_shared {
        let joined = |x: &Tensor| {
            x.reshape(&[x.len() / x.shape()[x.rank() - 1].max(1), x.shape()[x.rank() - 1]])
        };
        if g.is_empty() || a.is_empty() {
            Tensor::zeros(shape, g.dtype(), &g.device())?
        } else {
            joined(&over_batch(&a, g)?)?.t()?.matmul(&joined(g)?)?
        }
    } else {
        a.t()?.matmul(g)?
    };
    if shape.len() == 1 { product.reshape(shape) } else { Ok(product) }
}

/// Returns matrices over the batch of others.
fn over_batch(matrices: &Tensor, batch: &Tensor) -> Result<Tensor> {
    let sides = &matrices.shape()[matrices.rank() - 2..];
    matrices.broadcast_to(&[&batch.shape()[..batch.rank() - 2], sides].concat())
}

/// Returns a batch of matrices side by side as one matrix.
fn last_two_first(x: &Tensor) -> Result<Tensor> {
    let rank = x.rank() as isize;
    let order: Vec<isize> =
        std::iter::once(rank - 2).chain(0..rank - 2).chain([rank - 1]).collect();
    let moved = x.permute(&order)?;
    let rows = moved.shape()[0];
    let columns = moved.shape()[1..].iter().product();
    moved.reshape(&[rows, columns])
}
