//! wgpu's own handles, for applications that share a device with this crate. Behind the cargo
//! feature `raw`; nothing else of this crate needs it.
//!
//! An application that draws with wgpu [imports](import) its device and computes on it; an
//! application that needs a command that this crate lacks uses the [`device`], the [`queue`] and
//! the [`buffer`]s and records it itself. wgpu's types change with its version, and so does this
//! module.
//!
//! ```no_run
//! use aleatron_device::raw::{self, wgpu};
//! use aleatron_device::ContextOptions;
//!
//! # async fn example(adapter: wgpu::Adapter) -> Result<(), Box<dyn std::error::Error>> {
//! let (device, queue) = adapter
//!     .request_device(&wgpu::DeviceDescriptor {
//!         required_features: wgpu::Features::IMMEDIATES,
//!         required_limits: adapter.limits(),
//!         ..wgpu::DeviceDescriptor::default()
//!     })
//!     .await?;
//! let context = raw::import(&adapter, device.clone(), queue, &ContextOptions::default())?;
//! let computed = context.upload(&[1.0f32, 2.0, 3.0])?;
//! // SAFETY: `computed` lives as long as the handle is used.
//! let drawn: &wgpu::Buffer = unsafe { raw::buffer(&computed) };
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use bytemuck::Pod;
pub use wgpu;

use crate::adapter::{AdapterInfo, adapters};
use crate::buffer::GpuBuffer;
use crate::context::{ContextOptions, GpuContext, IMMEDIATES};
use crate::error::{Error, Result};
use crate::wait::Submission;

/// Creates a context on an application's own device. Its features must include `IMMEDIATES`; the
/// context uses the optional features that were requested when the device was opened, and the
/// limits in force.
///
/// The context collects the device's errors: its error handler and its callback for a lost device
/// replace the application's. Errors of the application's own commands, outside of error scopes,
/// come out of the context's next operation or [`GpuContext::check`].
///
/// # Errors
/// Returns [`Error::Unsupported`] if the device does not support kernel parameters.
pub fn import(
    adapter: &wgpu::Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    options: &ContextOptions,
) -> Result<Arc<GpuContext>> {
    let features = device.features();
    let mut info = AdapterInfo::of(0, adapter, &device.limits(), features);
    if !features.contains(wgpu::Features::IMMEDIATES) {
        return Err(Error::Unsupported { adapter: info.name, feature: IMMEDIATES });
    }
    let known = adapters();
    info.index = known.iter().position(|other| other.looks_like(&info)).unwrap_or(known.len());
    Ok(GpuContext::around(info, adapter.clone(), device, queue, options))
}

/// Returns the adapter of a context.
#[must_use]
pub fn adapter(context: &GpuContext) -> &wgpu::Adapter {
    &context.adapter
}

/// Returns the device of a context.
#[must_use]
pub fn device(context: &GpuContext) -> &wgpu::Device {
    &context.device
}

/// Returns the queue of a context. Commands submitted to it run in order with those of the context.
#[must_use]
pub fn queue(context: &GpuContext) -> &wgpu::Queue {
    &context.queue
}

/// Returns the buffer behind a [`GpuBuffer`]: at least as large, with the usages `STORAGE`,
/// `COPY_SRC` and `COPY_DST`.
///
/// # Safety
/// Its memory is reused when the `GpuBuffer` is dropped, even if other code still holds the handle:
/// neither the handle nor a clone of it may be written through after that. Kernels without run-time
/// checks rely on the contents of their buffers.
#[allow(unsafe_code, reason = "the handle outlives what it stands for")]
#[must_use]
pub unsafe fn buffer<T: Pod>(buffer: &GpuBuffer<T>) -> &wgpu::Buffer {
    buffer.raw().buffer()
}

/// Returns the buffer behind a [`GpuBuffer`], like [`buffer`], and takes its memory out of the
/// pool: it is freed when the `GpuBuffer` and every clone of the handle are dropped, so that the
/// handle can never reach memory of another buffer.
#[must_use]
pub fn shared_buffer<T: Pod>(buffer: &GpuBuffer<T>) -> wgpu::Buffer {
    buffer.raw().share().clone()
}

/// Returns the index of a submission, for `wgpu::Device::poll`.
#[must_use]
pub fn submission_index(submission: &Submission) -> &wgpu::SubmissionIndex {
    &submission.index
}
