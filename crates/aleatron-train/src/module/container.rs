//! Modules that contain modules.

use aleatron_tensor::Tensor;

use super::{Mode, Module, State};
use crate::Result;

/// A sequence of modules; the parameters of module k are named `k.NAME`.
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Module>>);

impl Sequential {
    /// Creates an empty sequence: the identity.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a module.
    #[must_use]
    pub fn with(mut self, module: impl Module + 'static) -> Self {
        self.0.push(Box::new(module));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(x.clone(), |x, module| module.forward(&x))
    }

    fn state(&self) -> Vec<(String, State)> {
        let mut all = Vec::new();
        for (k, module) in self.0.iter().enumerate() {
            all.extend(
                module.state().into_iter().map(|(name, state)| (format!("{k}.{name}"), state)),
            );
        }
        all
    }

    fn set_mode(&mut self, mode: Mode) {
        self.0.iter_mut().for_each(|module| module.set_mode(mode));
    }
}

/// The sum of a module's output and its input; its parameters are those of the module.
pub struct Residual<M>(pub M);

impl<M: Module> Module for Residual<M> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.0.forward(x)?.add(x)?)
    }

    fn state(&self) -> Vec<(String, State)> {
        self.0.state()
    }

    fn set_mode(&mut self, mode: Mode) {
        self.0.set_mode(mode);
    }
}
