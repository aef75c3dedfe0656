//! Embeddings.

use aleatron_tensor::{DType, Device, Generator, Tensor};

use super::{Module, State};
use crate::{Parameter, Result};

/// A table of vectors that are looked up by index.
#[derive(Debug, Clone)]
pub struct Embedding {
    weight: Parameter,
}

impl Embedding {
    /// Creates a table of `rows` normal random vectors of `width` elements.
    ///
    /// # Errors
    /// [`crate::Error::Tensor`] if memory is exhausted.
    pub fn new(
        rows: usize,
        width: usize,
        generator: &mut Generator,
        device: &Device,
    ) -> Result<Self> {
        Ok(Self { weight: Parameter::new(&generator.randn(&[rows, width], DType::F32, device)?)? })
    }
}

impl Module for Embedding {
    /// Returns the vectors of indices of any shape, of type i32 or i64, along a new last axis.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.tensor();
        let rows = weight.index_select(0, &x.reshape(&[x.len()])?)?;
        Ok(rows.reshape(&[x.shape(), &weight.shape()[1..]].concat())?)
    }

    fn state(&self) -> Vec<(String, State)> {
        vec![("weight".to_owned(), State::Parameter(self.weight.clone()))]
    }
}
