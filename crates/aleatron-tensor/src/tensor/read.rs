//! Reading elements, and moving tensors between devices.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{DeviceView, Tensor};
use crate::autograd;
use crate::cpu::filled;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::gpu::{GpuRead, upload};
use crate::storage::{CpuStorage, Storage};
use crate::trace::report;

impl Tensor {
    /// Copies the elements to the host, in row-major order.
    ///
    /// # Errors
    /// [`Error::ReadAs`] if the elements are of another type, [`Error::Index`] if they depend on an
    /// index that is outside its axis, `Error::Device` with what the device has reported.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.start_read()?.wait()
    }

    /// Returns the only element.
    ///
    /// # Errors
    /// [`Error::Rank`] if there is not one element, otherwise as [`Self::to_vec`].
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.len() != 1 {
            return Err(Error::Elements {
                shape: self.shape().to_vec(),
                expected: self.len() as u128,
                actual: 1,
            });
        }
        let values = self.to_vec()?;
        values.first().copied().ok_or(Error::Elements {
            shape: self.shape().to_vec(),
            expected: 1,
            actual: 0,
        })
    }

    /// Starts to read the elements in row-major order and returns a future, which can also be
    /// waited for.
    ///
    /// # Errors
    /// As [`Self::to_vec`].
    pub fn start_read<T: Element>(&self) -> Result<PendingValues<T>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::ReadAs { wanted: T::DTYPE, actual: self.dtype() });
        }
        if self.is_empty() {
            return Ok(PendingValues(Inner::Ready(Vec::new())));
        }
        let source = if self.is_contiguous() { self.clone() } else { self.copied()? };
        match source.device_view()? {
            DeviceView::Cpu(view) => {
                let stored: &[T::Stored] = view.storage.slice()?;
                let stored = &stored[view.layout.offset()..][..self.len()];
                let mut values = aleatron_core::memory::with_capacity(
                    self.len() as u128,
                    aleatron_core::Quantity::Words,
                )?;
                values.extend(stored.iter().map(|&stored| T::from_stored(stored)));
                Ok(PendingValues(Inner::Ready(values)))
            }
            DeviceView::Gpu(gpu, view) => {
                Ok(PendingValues(Inner::Reading(GpuRead::start(gpu, view)?)))
            }
        }
    }

    /// Returns the tensor on a device: itself if it is there already, otherwise a copy. Only the
    /// elements of a view are copied, not its whole storage.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device has no such elements, [`Error::Memory`] or
    /// `Error::Device` if memory is exhausted, otherwise as [`Self::to_vec`].
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        if self.device() == *device {
            return Ok(self.clone());
        }
        if autograd::is_recorded([self]) {
            return autograd::to_device(self, device);
        }
        let host = match &self.storage {
            Storage::Cpu(storage) => Arc::clone(storage),
            Storage::Gpu(_) => Arc::new(self.download()?),
        };
        let on_host = match &self.storage {
            Storage::Cpu(_) => self.detach(),
            Storage::Gpu(_) => Self {
                storage: Storage::Cpu(host),
                layout: super::create::contiguous(self.shape())?,
                node: None,
            },
        };
        let moved = match device {
            Device::Cpu => on_host,
            Device::Gpu(gpu) => {
                let whole = on_host.whole()?;
                let Storage::Cpu(storage) = &whole.storage else {
                    return Err(Error::internal("tensor::to_device, copy on the host"));
                };
                Self::from_gpu_data(gpu, upload(gpu, storage)?, self.shape())?
            }
        };
        Ok(report("to_device", moved))
    }

    /// Copies the elements to host memory.
    fn download(&self) -> Result<CpuStorage> {
        fn fill<T: Element>(tensor: &Tensor) -> Result<CpuStorage> {
            let values = tensor.to_vec::<T>()?;
            filled(T::DTYPE, values.len(), |buffer| {
                for (stored, value) in buffer.slice_mut::<T::Stored>()?.iter_mut().zip(values) {
                    *stored = value.to_stored();
                }
                Ok(())
            })
        }
        match self.dtype() {
            DType::F64 => fill::<f64>(self),
            DType::F32 => fill::<f32>(self),
            DType::F16 => fill::<half::f16>(self),
            DType::I32 => fill::<i32>(self),
            DType::I64 => fill::<i64>(self),
            DType::U8 => fill::<u8>(self),
            DType::Bool => fill::<bool>(self),
        }
    }
}

/// Elements that are being copied to the host. The copy can be waited for, or awaited.
#[must_use = "what is read is lost unless it is waited for"]
#[derive(Debug)]
pub struct PendingValues<T: Element>(Inner<T>);

#[derive(Debug)]
enum Inner<T> {
    Ready(Vec<T>),
    Reading(GpuRead),
    Taken,
}

impl<T: Element> PendingValues<T> {
    /// Waits for the elements.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn wait(self) -> Result<Vec<T>> {
        match self.0 {
            Inner::Ready(values) => Ok(values),
            Inner::Reading(read) => read.wait(),
            Inner::Taken => Err(taken()),
        }
    }

    /// Returns whether [`Self::wait`] would return immediately.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Inner::Ready(_) | Inner::Taken => true,
            Inner::Reading(read) => read.is_ready(),
        }
    }
}

/// Returns the error for values that were awaited before.
fn taken() -> Error {
    Error::argument("read", "pending values", "already returned", "await them once")
}

impl<T: Element> Unpin for PendingValues<T> {}

impl<T: Element> Future for PendingValues<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.0, Inner::Taken) {
            Inner::Ready(values) => Poll::Ready(Ok(values)),
            Inner::Reading(mut read) => {
                let polled = read.poll(task);
                if polled.is_pending() {
                    self.0 = Inner::Reading(read);
                }
                polled
            }
            Inner::Taken => Poll::Ready(Err(taken())),
        }
    }
}
