//! Arrays in device memory that this crate allocates, for resident results.

use std::sync::Arc;

use aleatron_core::backend::{DeviceArray, DeviceArrayMut, DeviceElement};

use crate::driver::{CudaContext, DeviceBuffer, Stream};
use crate::error::{Error, Result};

/// An array of eight-byte elements in device memory.
#[derive(Debug)]
pub struct CudaArray {
    buffer: DeviceBuffer<u64>,
    element: DeviceElement,
}

impl CudaArray {
    /// Allocates an array of `len` zeros.
    ///
    /// # Errors
    /// Returns [`Error::Array`] for elements of other than eight bytes, [`Error::OutOfMemory`], and
    /// errors of the driver.
    pub fn zeros(context: &Arc<CudaContext>, len: usize, element: DeviceElement) -> Result<Self> {
        if element.bytes() != 8 {
            return Err(Error::Array(format!("results are uint64 or float64, not {element}")));
        }
        let (stream, buffer) = (Stream::new(context)?, DeviceBuffer::new(context, len)?);
        buffer.fill(0, &stream)?;
        stream.synchronize()?;
        buffer.publish();
        Ok(Self { buffer, element })
    }

    /// Allocates an array with these values.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`], and errors of the driver.
    pub fn with(context: &Arc<CudaContext>, values: &[f64]) -> Result<Self> {
        let stream = Stream::new(context)?;
        let buffer = DeviceBuffer::with(context, bytemuck::cast_slice(values), &stream)?;
        buffer.publish();
        Ok(Self { buffer, element: DeviceElement::F64 })
    }

    /// Returns the array as inputs of a layer.
    #[must_use]
    pub fn array(&self) -> DeviceArray<'_> {
        self.buffer.array(self.element)
    }

    /// Returns the array as results of a layer.
    #[must_use]
    pub fn array_mut(&mut self) -> DeviceArrayMut<'_> {
        self.buffer.array_mut(self.element)
    }

    /// Returns the context of the array.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        self.buffer.context()
    }

    /// Reads its elements as words: counts as they are, values as the bits of an `f64`.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn read(&self) -> Result<Vec<u64>> {
        self.buffer.read(&Stream::new(self.context())?)
    }
}
