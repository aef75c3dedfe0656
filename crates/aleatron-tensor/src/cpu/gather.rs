//! Gathering of elements by indices, on the CPU.

use bytemuck::Pod;

use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::CpuStorage;

/// Describes a gather, like `GpuJob` for GPUs.
pub(crate) struct Job<'a> {
    pub(crate) op: &'static str,
    pub(crate) x: &'a CpuView,
    /// The layout of `x` over the result, with stride 0 along the axes of the indices.
    pub(crate) base: Layout,
    pub(crate) axis_stride: isize,
    pub(crate) axis_len: usize,
    /// The indices as they are, and over the result.
    pub(crate) indices: &'a CpuView,
    pub(crate) over: Layout,
}

/// Returns the elements at the indices.
pub(crate) fn gather(job: &Job<'_>) -> Result<CpuStorage> {
    let dtype = job.x.storage.dtype();
    let len = job.base.len();
    // Memory is allocated first: if it does not suffice for the results, the indices are not read.
    filled(dtype, len, |buffer| {
        let steps = steps(job)?;
        match dtype.size() {
            1 => take::<u8>(job, &steps, buffer.slice_mut()?),
            2 => take::<u16>(job, &steps, buffer.slice_mut()?),
            4 => take::<u32>(job, &steps, buffer.slice_mut()?),
            _ => take::<u64>(job, &steps, buffer.slice_mut()?),
        }
    })
}

/// Returns the offset of each index along the axis, by its position in the storage of the indices;
/// the first index out of range is an error.
fn steps(job: &Job<'_>) -> Result<Vec<isize>> {
    let len = job.axis_len as i64;
    let storage = &job.indices.storage;
    let mut steps = aleatron_core::memory::with_capacity(
        storage.len() as u128,
        aleatron_core::Quantity::Words,
    )?;
    steps.resize(storage.len(), 0);
    for (position, offset) in job.indices.layout.offsets().enumerate() {
        let value = match storage.dtype() {
            DType::I64 => storage.slice::<i64>()?[offset],
            _ => storage.slice::<i32>()?[offset].into(),
        };
        let index = if value < 0 { value.saturating_add(len) } else { value };
        if !(0..len).contains(&index) {
            return Err(Error::Index {
                op: job.op,
                position: position as u64,
                value,
                len: job.axis_len,
            });
        }
        steps[offset] = index as isize * job.axis_stride;
    }
    Ok(steps)
}

fn take<T: Pod>(job: &Job<'_>, steps: &[isize], out: &mut [T]) -> Result<()> {
    let from: &[T] = job.x.storage.slice()?;
    for ((out, offset), index) in out.iter_mut().zip(job.base.offsets()).zip(job.over.offsets()) {
        *out = from[(offset as isize + steps[index]) as usize];
    }
    Ok(())
}
