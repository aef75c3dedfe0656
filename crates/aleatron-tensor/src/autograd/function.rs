//! Functions with a gradient of their own, and checkpoints.

use std::sync::Arc;

use super::engine::{self, Target};
use super::node::{attach, is_recorded};
use super::{no_grad, with_grad};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A function of tensors with a user-defined gradient.
///
/// Errors of the function's own are created with [`Error::custom`].
///
/// ```
/// use aleatron_tensor::{Device, Result, Tensor, autograd};
///
/// /// Rounds, and passes the gradient on as if nothing was rounded.
/// struct StraightThroughRound;
///
/// impl autograd::Function for StraightThroughRound {
///     fn name(&self) -> &'static str {
///         "straight_through_round"
///     }
///     fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
///         inputs[0].round()
///     }
///     fn backward(&self, _: &[Tensor], _: &Tensor, gradient: &Tensor) -> Result<Vec<Option<Tensor>>> {
///         Ok(vec![Some(gradient.clone())])
///     }
/// }
///
/// let x = Tensor::from_slice(&[0.6f32, 1.2], &[2], &Device::Cpu)?.requires_grad()?;
/// let y = autograd::apply(StraightThroughRound, &[&x])?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0]);
/// y.sum_all()?.backward()?;
/// assert_eq!(x.grad().map(|gradient| gradient.to_vec::<f32>()), Some(Ok(vec![1.0, 1.0])));
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
pub trait Function: Send + Sync {
    /// Returns the name, which error messages contain.
    fn name(&self) -> &'static str;

    /// Computes the result. Operations in it are not recorded.
    ///
    /// # Errors
    /// The error of the function.
    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor>;

    /// Computes the gradient of each input from that of the output; `None` for an input without
    /// one. A gradient has the shape, the type and the device of its input.
    ///
    /// # Errors
    /// The error of the function.
    fn backward(
        &self,
        inputs: &[Tensor],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<Vec<Option<Tensor>>>;
}

/// Applies a function with a gradient of its own. The inputs and the output are retained until the
/// backward pass.
///
/// # Errors
/// The error of the function; during the backward pass [`Error::Argument`] for another number of
/// gradients than inputs, and [`Error::Shapes`], [`Error::Promotion`] or [`Error::Devices`] for a
/// gradient that is not like its input.
pub fn apply(function: impl Function + 'static, inputs: &[&Tensor]) -> Result<Tensor> {
    let detached: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let output = no_grad(|| function.forward(&detached))?;
    if !is_recorded(inputs.iter().copied()) {
        return Ok(output.detach());
    }
    let name = function.name();
    if !output.dtype().is_float() {
        return Err(Error::DType {
            op: name,
            dtype: output.dtype(),
            expected: "floats as a differentiable result",
        });
    }
    let result = output.detach();
    Ok(attach(name, inputs, &output, move |gradient| {
        let gradients = function.backward(&detached, &result, gradient)?;
        if gradients.len() != detached.len() {
            let counts = (gradients.len(), detached.len());
            return Err(Error::argument(
                name,
                "number of gradients and inputs",
                counts,
                "both must be equal",
            ));
        }
        for (gradient, input) in gradients.iter().zip(&detached) {
            let Some(gradient) = gradient else { continue };
            if gradient.shape() != input.shape() {
                return Err(Error::shapes(name, gradient.shape(), input.shape()));
            }
            if gradient.dtype() != input.dtype() {
                return Err(Error::Promotion {
                    op: name,
                    left: gradient.dtype(),
                    right: input.dtype(),
                });
            }
            input.check_device(name, gradient)?;
        }
        Ok(gradients)
    }))
}

/// Computes a function of tensors without retaining its intermediate values: the backward pass
/// computes them again from the inputs.
///
/// The function must return the same result both times. Tensors that require a gradient must be
/// inputs; the backward pass fails for a captured one.
///
/// ```
/// use aleatron_tensor::{Device, Tensor, autograd};
/// let x = Tensor::from_slice(&[0.5f32], &[1], &Device::Cpu)?.requires_grad()?;
/// let y = autograd::checkpoint(&[&x], |inputs| inputs[0].exp()?.square())?;
/// y.backward()?;
/// let twice_e = 2.0 * 1f32.exp();
/// let gradient = x.grad().map(|gradient| gradient.item::<f32>());
/// assert!(matches!(gradient, Some(Ok(value)) if (value - twice_e).abs() < 1e-5));
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
///
/// # Errors
/// The error of the function.
pub fn checkpoint(
    inputs: &[&Tensor],
    f: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !is_recorded(inputs.iter().copied()) {
        return f(&inputs.iter().map(|&input| input.clone()).collect::<Vec<_>>());
    }
    let detached: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let tracked: Vec<bool> = inputs.iter().map(|input| input.is_tracked()).collect();
    let output = no_grad(|| f(&detached))?;
    Ok(attach("checkpoint", inputs, &output, move |gradient| {
        let leaf = |(input, &is_tracked): (&Tensor, &bool)| {
            if is_tracked { input.requires_grad() } else { Ok(input.clone()) }
        };
        let leaves = detached.iter().zip(&tracked).map(leaf).collect::<Result<Vec<_>>>()?;
        let output = with_grad(|| f(&leaves))?;
        if output.shape() != gradient.shape() {
            return Err(Error::shapes("checkpoint", gradient.shape(), output.shape()));
        }
        let Some(node) = output.node().cloned() else { return Ok(vec![None; leaves.len()]) };
        drop(output);
        let nodes: Vec<_> = leaves.iter().map(|leaf| leaf.node().map(Arc::clone)).collect();
        engine::gradients_of(node, gradient.clone(), &nodes, Target::InputsOnly)
    }))
}
