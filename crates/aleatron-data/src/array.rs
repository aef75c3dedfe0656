//! Arrays of numbers from `.npy` and `.npz` files.

use crate::npy::{self, Header};
use crate::{Result, npz};
use std::collections::BTreeMap;
use std::path::Path;

/// An array of numbers, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<f64>,
    /// Whether the file has whole numbers or truth values.
    pub is_integer: bool,
}

impl Array {
    pub(crate) fn new(header: Header, values: Vec<f64>) -> Self {
        let is_integer = header.element.is_integer();
        Self { shape: header.shape, values, is_integer }
    }

    /// Reads an `.npy` file.
    ///
    /// # Errors
    /// The file at fault and the reason. Arrays in column-major order are read if they have two
    /// axes.
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (header, values) = npy::read(path)?;
        header.check_order(&path.display().to_string())?;
        Ok(Self::new(header, values))
    }

    /// Reads all arrays of an `.npz` file, by name.
    ///
    /// # Errors
    /// The file and the array at fault and the reason.
    pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Self>> {
        npz::read_all(path.as_ref())
    }
}
