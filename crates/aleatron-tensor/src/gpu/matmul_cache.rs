//! Weights that stay on a GPU.

use std::collections::HashMap;
use std::fmt;

use super::device::GpuDevice;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A cache of named matrices on a GPU, to multiply inputs with.
///
/// A weight has one layout, rows by columns, and one result for any number of input rows: a row of
/// the result depends on its row of the input alone, bit for bit.
///
/// ```no_run
/// use aleatron_tensor::{Device, GpuMatmulCache};
/// let Device::Gpu(device) = Device::gpu()? else { unreachable!() };
/// let mut cache = GpuMatmulCache::new(&device);
/// cache.upload_weight("projection", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3)?;
/// let mut output = [0.0; 3];
/// cache.matmul_cached("projection", &[1.0, 10.0], &mut output, 1)?;
/// assert_eq!(output, [41.0, 52.0, 63.0]);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct GpuMatmulCache {
    device: GpuDevice,
    weights: HashMap<String, Tensor>,
}

impl fmt::Debug for GpuMatmulCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuMatmulCache")
            .field("device", &self.device)
            .field("weights", &self.weights.len())
            .finish_non_exhaustive()
    }
}

impl GpuMatmulCache {
    /// Creates an empty cache on a device.
    #[must_use]
    pub fn new(device: &GpuDevice) -> Self {
        Self { device: device.clone(), weights: HashMap::new() }
    }

    /// Returns the device of the weights.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::Gpu(self.device.clone())
    }

    /// Caches a matrix of `rows` by `columns` under a name; replaces a weight of the same name.
    ///
    /// # Errors
    /// [`Error::Elements`] for another number of elements, [`Error::Device`] if memory is
    /// exhausted.
    pub fn upload_weight(
        &mut self,
        name: &str,
        data: &[f32],
        rows: usize,
        columns: usize,
    ) -> Result<()> {
        let weight = Tensor::from_slice(data, &[rows, columns], &self.device())?;
        self.weights.insert(name.to_owned(), weight);
        Ok(())
    }

    /// Caches a matrix of floats; moves it to the device if necessary.
    ///
    /// # Errors
    /// [`Error::Shapes`] for a tensor that is not a matrix, [`Error::DType`] for other types than
    /// floats, [`Error::Memory`] if memory is exhausted.
    pub fn insert(&mut self, name: &str, weight: &Tensor) -> Result<()> {
        const OP: &str = "matmul cache";
        if weight.rank() != 2 {
            let expected = crate::error::RankNeeded::Exactly(2);
            return Err(Error::Rank { op: OP, expected, shape: weight.shape().to_vec() });
        }
        if !weight.dtype().is_float() {
            return Err(Error::DType { op: OP, dtype: weight.dtype(), expected: "floats" });
        }
        self.weights.insert(name.to_owned(), weight.to_device(&self.device())?);
        Ok(())
    }

    /// Returns a weight.
    ///
    /// # Errors
    /// [`Error::Name`] for an unknown name.
    pub fn weight(&self, name: &str) -> Result<&Tensor> {
        self.weights.get(name).ok_or_else(|| Error::Name { what: "weight", name: name.to_owned() })
    }

    /// Removes a weight; returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.weights.remove(name).is_some()
    }

    /// Multiplies an input, on the device, with a weight. Does not wait for the result.
    ///
    /// # Errors
    /// [`Error::Name`] for an unknown weight, otherwise as [`Tensor::matmul`].
    pub fn matmul(&self, name: &str, input: &Tensor) -> Result<Tensor> {
        input.matmul(self.weight(name)?)
    }

    /// Multiplies `m` rows with a weight, from and to the host.
    ///
    /// # Errors
    /// [`Error::Name`] for an unknown weight, [`Error::Elements`] if the length of the input or the
    /// output does not match `m` rows, otherwise as [`Tensor::matmul`].
    pub fn matmul_cached(
        &self,
        name: &str,
        input: &[f32],
        output: &mut [f32],
        m: usize,
    ) -> Result<()> {
        let weight = self.weight(name)?;
        let [rows, columns] = [weight.shape()[0], weight.shape()[1]];
        if Some(output.len()) != m.checked_mul(columns) {
            let (expected, actual) = (m as u128 * columns as u128, output.len());
            return Err(Error::Elements { shape: vec![m, columns], expected, actual });
        }
        let product = Tensor::from_slice(input, &[m, rows], &self.device())?.matmul(weight)?;
        output.copy_from_slice(&product.cast(DType::F32)?.to_vec::<f32>()?);
        Ok(())
    }

    /// Returns the number of weights.
    #[must_use]
    pub fn weight_count(&self) -> usize {
        self.weights.len()
    }

    /// Returns the size of all weights in bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weights.values().map(|weight| (weight.len() * weight.dtype().size()) as u64).sum()
    }
}
