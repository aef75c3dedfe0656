//! Dense layers.

use aleatron_tensor::{Device, Generator, Tensor};

use super::{Module, State, bound, uniform, weight_and_bias};
use crate::{Parameter, Result};

/// A dense layer: `x weight^T + bias` over the last axis.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Parameter,
    bias: Parameter,
}

impl Linear {
    /// Creates a layer with random weights: uniform with a bound of one over the root of the number
    /// of inputs.
    ///
    /// # Errors
    /// [`crate::Error::Option`] for no inputs, [`crate::Error::Tensor`] if memory is exhausted.
    pub fn new(
        inputs: usize,
        outputs: usize,
        generator: &mut Generator,
        device: &Device,
    ) -> Result<Self> {
        let bound = bound(inputs)?;
        let weight = uniform(&[outputs, inputs], bound, generator, device)?;
        Ok(Self { weight, bias: uniform(&[outputs], bound, generator, device)? })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.matmul(&self.weight.tensor().t()?)?.add(&self.bias.tensor())?)
    }

    fn state(&self) -> Vec<(String, State)> {
        weight_and_bias(&self.weight, &self.bias)
    }
}
