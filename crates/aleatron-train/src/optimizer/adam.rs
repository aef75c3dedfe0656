//! Adam and AdamW.

use std::collections::BTreeMap;

use aleatron_tensor::{Device, Tensor, autograd};

use super::{Optimizer, check, from_state};
use crate::{Error, Parameter, Result};

/// The kind of weight decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Decay {
    /// On the parameters, apart from the gradient (AdamW).
    #[default]
    Decoupled,
    /// As a part of the gradient (Adam).
    Coupled,
}

/// The settings of [`Adam`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamOptions {
    /// The learning rate.
    pub rate: f64,
    /// The decay rates of the running means of gradients and of their squares, in [0, 1).
    pub betas: [f64; 2],
    /// The number that is added to roots of mean squares.
    pub epsilon: f64,
    /// The weight decay.
    pub weight_decay: f64,
    /// The kind of weight decay.
    pub decay: Decay,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self {
            rate: 1e-3,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            weight_decay: 0.0,
            decay: Decay::Decoupled,
        }
    }
}

/// Adam (Kingma and Ba, 2015), with decoupled weight decay (Loshchilov and Hutter, 2019) by
/// default.
#[derive(Debug)]
pub struct Adam {
    parameters: Vec<Parameter>,
    options: AdamOptions,
    /// Updates so far.
    steps: u64,
    /// The mean and the mean square of the gradients of each parameter.
    moments: Vec<Option<[Tensor; 2]>>,
}

impl Adam {
    /// Creates the optimizer of these parameters.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range.
    pub fn new(parameters: Vec<Parameter>, options: AdamOptions) -> Result<Self> {
        check("learning rate", options.rate, f64::INFINITY, "it must be finite and at least 0")?;
        for beta in options.betas {
            check("beta of Adam", beta, 1.0, "it must be at least 0 and less than 1")?;
        }
        check(
            "epsilon of Adam",
            options.epsilon,
            f64::INFINITY,
            "it must be finite and at least 0",
        )?;
        check(
            "weight decay",
            options.weight_decay,
            f64::INFINITY,
            "it must be finite and at least 0",
        )?;
        let moments = vec![None; parameters.len()];
        Ok(Self { parameters, options, steps: 0, moments })
    }

    fn update(&mut self) -> Result<()> {
        let AdamOptions { rate, betas: [first, second], epsilon, weight_decay, decay } =
            self.options;
        self.steps += 1;
        let [bias_first, bias_second] =
            [first, second].map(|beta| 1.0 - beta.powf(self.steps as f64));
        for (parameter, moments) in self.parameters.iter().zip(&mut self.moments) {
            let Some(mut gradient) = parameter.grad() else { continue };
            let mut value = parameter.tensor().detach();
            match decay {
                _ if weight_decay == 0.0 => {}
                Decay::Coupled => gradient = gradient.add(&value.mul(weight_decay)?)?,
                Decay::Decoupled => value = value.mul(1.0 - rate * weight_decay)?,
            }
            let (mean, square) =
                (gradient.mul(1.0 - first)?, gradient.square()?.mul(1.0 - second)?);
            let (mean, square) = match moments {
                Some([m, v]) => (m.mul(first)?.add(&mean)?, v.mul(second)?.add(&square)?),
                None => (mean, square),
            };
            let root = square.sqrt()?.div(bias_second.sqrt())?.add(epsilon)?;
            parameter.set(&value.sub(&mean.div(&root)?.mul(rate / bias_first)?)?)?;
            *moments = Some([mean, square]);
        }
        Ok(())
    }
}

impl Optimizer for Adam {
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
        let steps = i64::try_from(self.steps).unwrap_or(i64::MAX);
        let mut state = BTreeMap::from([(
            "steps".to_owned(),
            Tensor::from_slice(&[steps], &[1], &Device::Cpu)?,
        )]);
        for (k, moments) in self.moments.iter().enumerate() {
            if let Some([mean, square]) = moments {
                state.insert(format!("mean.{k}"), mean.clone());
                state.insert(format!("square.{k}"), square.clone());
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let fault = |reason: &str| Error::State {
            place: "optimizer state".to_owned(),
            reason: reason.to_owned(),
        };
        let steps =
            state.get("steps").ok_or_else(|| fault("\"steps\" is missing"))?.to_vec::<i64>()?;
        let &[steps] = steps.as_slice() else { return Err(fault("\"steps\" is not one number")) };
        let steps = u64::try_from(steps).map_err(|_| fault("\"steps\" is negative"))?;
        let mut moments = Vec::with_capacity(self.parameters.len());
        for (k, parameter) in self.parameters.iter().enumerate() {
            let mean = from_state(state, &format!("mean.{k}"), parameter)?;
            let square = from_state(state, &format!("square.{k}"), parameter)?;
            moments.push(match (mean, square) {
                (Some(mean), Some(square)) => Some([mean, square]),
                (None, None) => None,
                _ => return Err(fault(&format!("one of mean.{k} and square.{k} is missing"))),
            });
        }
        (self.steps, self.moments) = (steps, moments);
        Ok(())
    }
}
