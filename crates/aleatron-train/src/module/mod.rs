//! Modules: layers to build models from, with the names and shapes of parameters that torch uses.
//!
//! ```
//! use aleatron_tensor::{Device, Generator, Tensor};
//! use aleatron_train::module::{Activation, Linear, Module, Sequential};
//!
//! let mut generator = Generator::new(0);
//! let model = Sequential::new()
//!     .with(Linear::new(4, 8, &mut generator, &Device::Cpu)?)
//!     .with(Activation::Relu)
//!     .with(Linear::new(8, 3, &mut generator, &Device::Cpu)?);
//! let names: Vec<String> = model.state_dict()?.into_keys().collect();
//! assert_eq!(names, ["0.bias", "0.weight", "2.bias", "2.weight"]);
//! assert_eq!(model.forward(&Tensor::from_slice(&[0.5f32; 8], &[2, 4], &Device::Cpu)?)?.shape(), [2, 3]);
//! # Ok::<(), aleatron_train::Error>(())
//! ```

mod container;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod pool;

pub use container::{Residual, Sequential};
pub use conv::{Conv1d, Conv2d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{BatchNorm, LayerNorm};
pub use pool::{AvgPool2d, Flatten, GlobalAvgPool, MaxPool2d};

use std::collections::BTreeMap;

use aleatron_tensor::{DType, Device, Generator, Tensor};

use crate::{Error, Parameter, Result};

/// The mode of modules that differ between training and inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Dropout drops, batch normalization uses the statistics of the batch and updates the running
    /// ones.
    #[default]
    Training,
    /// Dropout is the identity, batch normalization uses the running statistics.
    Evaluation,
}

/// A tensor of a module that is part of its state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum State {
    /// It is trained.
    Parameter(Parameter),
    /// It is not trained, such as a running mean.
    Buffer(Parameter),
}

impl State {
    fn cell(&self) -> &Parameter {
        match self {
            Self::Parameter(own) | Self::Buffer(own) => own,
        }
    }
}

/// A function of a tensor with parameters.
pub trait Module: Send + Sync {
    /// Computes the output of the module.
    ///
    /// # Errors
    /// [`Error::Tensor`] for an input that does not fit.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// Returns all tensors of the state with their names, in a fixed order.
    fn state(&self) -> Vec<(String, State)> {
        Vec::new()
    }

    /// Switches between training and evaluation.
    fn set_mode(&mut self, mode: Mode) {
        let _ = mode;
    }

    /// Returns the parameters, in a fixed order.
    fn parameters(&self) -> Vec<Parameter> {
        let all = self.state().into_iter();
        all.filter_map(|(_, state)| match state {
            State::Parameter(parameter) => Some(parameter),
            State::Buffer(_) => None,
        })
        .collect()
    }

    /// Returns the state as tensors by name, as torch's method of this name does.
    ///
    /// # Errors
    /// [`Error::State`] if two tensors have one name.
    fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut tensors = BTreeMap::new();
        for (name, state) in self.state() {
            if tensors.insert(name.clone(), state.cell().tensor().detach()).is_some() {
                let reason = "two tensors of the module have this name".to_owned();
                return Err(Error::State { place: format!("\"{name}\""), reason });
            }
        }
        Ok(tensors)
    }

    /// Replaces the state. Nothing changes if a tensor is missing, unknown or of another shape.
    ///
    /// # Errors
    /// [`Error::State`] with the tensor at fault.
    fn load_state_dict(&self, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        let own = self.state();
        let fault =
            |name: &str, reason: String| Error::State { place: format!("\"{name}\""), reason };
        if let Some(name) = tensors.keys().find(|name| own.iter().all(|(known, _)| known != *name))
        {
            let known: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
            return Err(fault(
                name,
                format!("the module has no such tensor; it has {}", known.join(", ")),
            ));
        }
        let mut values = Vec::with_capacity(own.len());
        for (name, state) in &own {
            let value = tensors.get(name).ok_or_else(|| fault(name, "it is missing".to_owned()))?;
            let old = state.cell().tensor();
            if value.shape() != old.shape() || !value.dtype().is_float() {
                let (expected, actual) = (old.shape(), value.shape());
                let reason = format!(
                    "expected floats of shape {expected:?}, got {} {actual:?}",
                    value.dtype()
                );
                return Err(fault(name, reason));
            }
            values.push(value.cast(old.dtype())?.to_device(&old.device())?);
        }
        own.iter().zip(&values).try_for_each(|((_, state), value)| state.cell().set(value))
    }
}

/// An activation function as a module.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// The Gaussian error linear unit.
    Gelu,
    /// x times its sigmoid.
    Silu,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// The nearest number in an interval.
    Clip {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match *self {
            Self::Relu => x.relu()?,
            Self::Gelu => x.gelu()?,
            Self::Silu => x.silu()?,
            Self::Sigmoid => x.sigmoid()?,
            Self::Tanh => x.tanh()?,
            Self::Clip { low, high } => x.clip(low, high)?,
        })
    }
}

/// Draws a parameter uniformly from `[-bound, bound)`, as torch initializes weights and biases.
fn uniform(
    shape: &[usize],
    bound: f64,
    generator: &mut Generator,
    device: &Device,
) -> Result<Parameter> {
    let draws = generator.rand(shape, DType::F32, device)?;
    Parameter::new(&draws.mul(2.0 * bound)?.sub(bound)?)
}

/// Creates a parameter with one value everywhere.
fn constant(shape: &[usize], value: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::full(shape, value, DType::F32, device)?)
}

/// Returns the bound of uniform weights of a layer whose neurons have this many inputs.
fn bound(fan_in: usize) -> Result<f64> {
    match fan_in {
        0 => Err(Error::option("number of inputs", 0, "it must be at least 1")),
        _ => Ok((fan_in as f64).sqrt().recip()),
    }
}

/// Returns the state of a module with weights and biases.
fn weight_and_bias(weight: &Parameter, bias: &Parameter) -> Vec<(String, State)> {
    vec![
        ("weight".to_owned(), State::Parameter(weight.clone())),
        ("bias".to_owned(), State::Parameter(bias.clone())),
    ]
}
