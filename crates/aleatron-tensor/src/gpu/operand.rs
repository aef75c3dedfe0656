//! Buffers as operands of kernels.

use aleatron_device::{Access, BufferView};

use super::data::{GpuData, words};
use super::device::GpuDevice;
use super::fault::Faults;
use super::wgsl::{Items, Operand};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Allocates a buffer for elements that a kernel will write. The caller that records the kernel
/// sets the number of its recording.
pub(crate) fn allocate(
    device: &GpuDevice,
    dtype: DType,
    len: usize,
    faults: Faults,
) -> Result<GpuData> {
    if !crate::Device::Gpu(device.clone()).supports(dtype) {
        let what = crate::ops::missing(dtype);
        return Err(Error::Unsupported { device: device.to_string(), what });
    }
    let buffer = device.context().buffer(words(dtype, len)?)?;
    Ok(GpuData { buffer, dtype, len, recording: 0, faults })
}

/// Returns the logarithm of the size of a window in bytes: the largest power of two that a binding
/// holds.
fn window_log2(device: &GpuDevice) -> u32 {
    device.context().max_binding_bytes().max(16).ilog2()
}

/// Returns the words of a window.
fn window_words(device: &GpuDevice) -> usize {
    1 << (window_log2(device) - 2)
}

/// Returns the operand of a buffer.
pub(crate) fn operand(device: &GpuDevice, data: &GpuData, items: Items, access: Access) -> Operand {
    if data.view().bytes() <= device.context().max_binding_bytes() {
        return Operand { dtype: data.dtype, items, access, windows: 1, window_log2: 0 };
    }
    // More windows than a kernel can bind are an error at the launch.
    let windows = data.view().len().div_ceil(window_words(device));
    Operand { dtype: data.dtype, items, access, windows, window_log2: window_log2(device) }
}

/// Appends the views to bind for a buffer, in the order of the declarations of its operand.
pub(crate) fn views<'a>(
    device: &GpuDevice,
    data: &'a GpuData,
    out: &mut Vec<BufferView<'a>>,
) -> Result<()> {
    let view = data.view();
    if view.bytes() <= device.context().max_binding_bytes() {
        out.push(view);
        return Ok(());
    }
    let window = window_words(device);
    for start in (0..view.len()).step_by(window) {
        out.push(view.part(start, window.min(view.len() - start))?);
    }
    Ok(())
}
