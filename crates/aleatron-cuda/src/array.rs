//! Arrays on a card that this crate allocates, for results that stay there.

use std::sync::Arc;

use aleatron_core::backend::{DeviceArray, DeviceArrayMut, DeviceElement};

use crate::driver::{CudaContext, DeviceBuffer, Stream};
use crate::error::{Error, Result};

/// An array of eight-byte elements on a card.
#[derive(Debug)]
pub struct CudaArray {
    buffer: DeviceBuffer<u64>,
    element: DeviceElement,
}

impl CudaArray {
    /// An array of `len` elements, which hold zeros.
    ///
    /// # Errors
    /// [`Error::Array`] for elements of other than eight bytes, [`Error::OutOfMemory`], or what the
    /// driver reports.
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

    /// An array with these values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
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

    /// The card it is on.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        self.buffer.context()
    }

    /// Its elements as words: counts as they are, values as the bits of an `f64`.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn read(&self) -> Result<Vec<u64>> {
        self.buffer.read(&Stream::new(self.context())?)
    }
}
