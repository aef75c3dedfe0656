//! Stochastic gradient descent.

use std::collections::BTreeMap;

use aleatron_tensor::{Tensor, autograd};

use super::{Optimizer, check, from_state};
use crate::{Parameter, Result};

/// The settings of [`Sgd`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SgdOptions {
    /// The learning rate.
    pub rate: f64,
    /// The momentum: the factor of the last update, in [0, 1).
    pub momentum: f64,
    /// The share of a parameter that is added to its gradient.
    pub weight_decay: f64,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { rate: 0.01, momentum: 0.9, weight_decay: 0.0 }
    }
}

/// Stochastic gradient descent with momentum, by the rule of torch: `v = momentum v + g`, `w = w -
/// rate v`.
#[derive(Debug)]
pub struct Sgd {
    parameters: Vec<Parameter>,
    options: SgdOptions,
    velocity: Vec<Option<Tensor>>,
}

impl Sgd {
    /// Creates the optimizer of these parameters.
    ///
    /// # Errors
    /// [`crate::Error::Option`] for an option outside its range.
    pub fn new(parameters: Vec<Parameter>, options: SgdOptions) -> Result<Self> {
        check("learning rate", options.rate, f64::INFINITY, "it must be finite and at least 0")?;
        check("momentum", options.momentum, 1.0, "it must be at least 0 and less than 1")?;
        check(
            "weight decay",
            options.weight_decay,
            f64::INFINITY,
            "it must be finite and at least 0",
        )?;
        let velocity = vec![None; parameters.len()];
        Ok(Self { parameters, options, velocity })
    }

    fn update(&mut self) -> Result<()> {
        let SgdOptions { rate, momentum, weight_decay } = self.options;
        for (parameter, velocity) in self.parameters.iter().zip(&mut self.velocity) {
            let Some(mut step) = parameter.grad() else { continue };
            let value = parameter.tensor();
            if weight_decay != 0.0 {
                step = step.add(&value.mul(weight_decay)?)?;
            }
            if momentum != 0.0 {
                if let Some(last) = velocity {
                    step = last.mul(momentum)?.add(&step)?;
                }
                *velocity = Some(step.clone());
            }
            parameter.set(&value.sub(&step.mul(rate)?)?)?;
        }
        Ok(())
    }
}

impl Optimizer for Sgd {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn step(&mut self) -> Result<()> {
        autograd::no_grad(|| self.update())
    }

    fn rate(&self) -> f64 {
        self.options.rate
    }

    fn set_rate(&mut self, rate: f64) {
        self.options.rate = rate;
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let velocity = self.velocity.iter().enumerate();
        Ok(velocity.filter_map(|(k, v)| Some((format!("velocity.{k}"), v.clone()?))).collect())
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let mut velocity = Vec::with_capacity(self.parameters.len());
        for (k, parameter) in self.parameters.iter().enumerate() {
            velocity.push(from_state(state, &format!("velocity.{k}"), parameter)?);
        }
        self.velocity = velocity;
        Ok(())
    }
}
