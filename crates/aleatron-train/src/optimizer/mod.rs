//! Optimizers: rules that change parameters by their gradients.

mod adam;
mod sgd;

pub use adam::{Adam, AdamOptions, Decay};
pub use sgd::{Sgd, SgdOptions};

use std::collections::BTreeMap;

use aleatron_tensor::{Tensor, autograd};

use crate::{Error, Parameter, Result};

/// Changes parameters by their gradients.
pub trait Optimizer: Send {
    /// Returns the parameters.
    fn parameters(&self) -> &[Parameter];

    /// Updates every parameter that has a gradient, and removes the gradients.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a device fails.
    fn step(&mut self) -> Result<()>;

    /// Returns the learning rate.
    fn rate(&self) -> f64;

    /// Sets the learning rate.
    fn set_rate(&mut self, rate: f64);

    /// Returns the state as tensors by name, for checkpoints.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a device fails.
    fn state(&self) -> Result<BTreeMap<String, Tensor>>;

    /// Restores a state that [`Self::state`] returned for the same parameters.
    ///
    /// # Errors
    /// [`Error::State`] for tensors that do not fit.
    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()>;

    /// Removes all gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Parameter::zero_grad);
    }
}

/// The rule that [`crate::train`] uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptimizerKind {
    /// Stochastic gradient descent.
    Sgd(SgdOptions),
    /// Adam or AdamW.
    Adam(AdamOptions),
}

impl Default for OptimizerKind {
    fn default() -> Self {
        Self::Adam(AdamOptions::default())
    }
}

impl OptimizerKind {
    /// Creates the optimizer of these parameters.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range.
    pub fn build(self, parameters: Vec<Parameter>) -> Result<Box<dyn Optimizer>> {
        Ok(match self {
            Self::Sgd(options) => Box::new(Sgd::new(parameters, options)?),
            Self::Adam(options) => Box::new(Adam::new(parameters, options)?),
        })
    }

    /// Returns the rule with another learning rate.
    #[must_use]
    pub fn with_rate(mut self, rate: f64) -> Self {
        match &mut self {
            Self::Sgd(options) => options.rate = rate,
            Self::Adam(options) => options.rate = rate,
        }
        self
    }

    /// Returns the learning rate.
    #[must_use]
    pub fn rate(self) -> f64 {
        match self {
            Self::Sgd(options) => options.rate,
            Self::Adam(options) => options.rate,
        }
    }
}

/// Scales all gradients so that their norm together does not exceed `limit`, and returns the norm
/// before.
///
/// # Errors
/// [`Error::Option`] for a limit that is not positive, [`Error::Tensor`] if a device fails.
pub fn clip_grad_norm(parameters: &[Parameter], limit: f64) -> Result<f64> {
    if limit.is_nan() || limit <= 0.0 {
        return Err(Error::option("limit of the gradient norm", limit, "it must be positive"));
    }
    autograd::no_grad(|| {
        let mut squares = 0.0;
        for gradient in parameters.iter().filter_map(Parameter::grad) {
            squares += crate::loss::finite(&gradient.square()?.sum_all()?)?;
        }
        let norm = squares.sqrt();
        if norm > limit && norm.is_finite() {
            for parameter in parameters {
                if let Some(gradient) = parameter.grad() {
                    parameter.set_grad(&gradient.mul(limit / norm)?)?;
                }
            }
        }
        Ok(norm)
    })
}

/// Checks that a number of an optimizer is in `[low, high)`.
fn check(option: &'static str, value: f64, high: f64, expected: &'static str) -> Result<()> {
    if value >= 0.0 && value < high { Ok(()) } else { Err(Error::option(option, value, expected)) }
}

/// Returns the tensor of a state, if its shape is that of the parameter.
fn from_state(
    state: &BTreeMap<String, Tensor>,
    name: &str,
    parameter: &Parameter,
) -> Result<Option<Tensor>> {
    let Some(tensor) = state.get(name) else { return Ok(None) };
    let own = parameter.tensor();
    if tensor.shape() != own.shape() {
        let reason = format!("expected shape {:?}, got {:?}", own.shape(), tensor.shape());
        return Err(Error::State { place: format!("optimizer state \"{name}\""), reason });
    }
    Ok(Some(tensor.to_device(&own.device())?))
}
