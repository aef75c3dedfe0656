//! Tensors of a model that are frozen or trained.

use aleatron_tensor::Tensor;

use super::{TensorResult, internal};
use crate::{Parameter, Result};

/// Whether the weights of a model are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    Frozen,
    Trained,
}

/// A tensor of an owner: a layer, or the model outside of its layers.
#[derive(Debug)]
pub(super) enum Value {
    /// A tensor that never changes.
    Frozen(Tensor),
    /// The index of a parameter of the owner.
    Trained(usize),
}

impl Value {
    /// Returns the tensor; `parameters` are those of the owner.
    pub(super) fn of<'t>(&'t self, parameters: &'t [Tensor]) -> TensorResult<&'t Tensor> {
        match self {
            Self::Frozen(tensor) => Ok(tensor),
            Self::Trained(index) => {
                parameters.get(*index).ok_or_else(|| internal("value without a parameter"))
            }
        }
    }

    /// Returns the tensor if it is frozen.
    pub(super) fn frozen(&self) -> Option<&Tensor> {
        match self {
            Self::Frozen(tensor) => Some(tensor),
            Self::Trained(_) => None,
        }
    }
}

/// The parameters of an owner, with their names in files.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<(String, Parameter)>);

impl Parameters {
    /// Adds a parameter and returns its index.
    pub(super) fn add(&mut self, name: String, tensor: &Tensor) -> Result<usize> {
        self.0.push((name, Parameter::new(tensor)?));
        Ok(self.0.len() - 1)
    }

    /// Adds a weight, and returns it.
    pub(super) fn weight(
        &mut self,
        weights: Weights,
        name: String,
        tensor: Tensor,
    ) -> Result<Value> {
        match weights {
            Weights::Frozen => Ok(Value::Frozen(tensor)),
            Weights::Trained => Ok(Value::Trained(self.add(name, &tensor)?)),
        }
    }

    /// Returns the parameter of an index.
    pub(super) fn get(&self, index: usize) -> Option<&Parameter> {
        self.0.get(index).map(|(_, parameter)| parameter)
    }

    /// Returns the parameters with their names.
    pub(super) fn named(&self) -> &[(String, Parameter)] {
        &self.0
    }

    /// Returns the tensors that gradients accumulate in.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        self.0.iter().map(|(_, parameter)| parameter.tensor()).collect()
    }
}
