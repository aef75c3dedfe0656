//! Dropout.

use std::sync::{Mutex, PoisonError};

use aleatron_tensor::{DType, Generator, Tensor};

use super::{Mode, Module};
use crate::{Error, Result};

/// Sets elements to zero at random in training, and scales the others so that means stay.
#[derive(Debug)]
pub struct Dropout {
    share: f64,
    generator: Mutex<Generator>,
    mode: Mode,
}

impl Dropout {
    /// Creates a dropout of this share of the elements, in [0, 1), with masks from a seed.
    ///
    /// # Errors
    /// [`Error::Option`] for a share outside [0, 1).
    pub fn new(share: f64, seed: u64) -> Result<Self> {
        if !(0.0..1.0).contains(&share) {
            return Err(Error::option(
                "share of dropout",
                share,
                "it must be at least 0 and less than 1",
            ));
        }
        Ok(Self { share, generator: Mutex::new(Generator::new(seed)), mode: Mode::Training })
    }
}

impl Module for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.mode == Mode::Evaluation || self.share == 0.0 {
            return Ok(x.clone());
        }
        let seed = self.generator.lock().unwrap_or_else(PoisonError::into_inner).next_seed();
        let draws = Tensor::rand_seeded(x.shape(), seed, DType::F32, &x.device())?;
        let mask = draws.ge(self.share)?.cast(x.dtype())?.mul(1.0 / (1.0 - self.share))?;
        Ok(x.mul(&mask)?)
    }

    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }
}
