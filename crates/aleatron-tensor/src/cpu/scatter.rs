//! Sums of elements at indices, on the CPU.

use super::parallel::for_each_chunk;
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::storage::CpuStorage;

/// Nanoseconds of an addition at an index.
const NANOSECONDS: f64 = 3.0;

/// Adds each element of `x` to the element of `out` that has the same coordinates, except along
/// `axis`, where its index is used. Elements are added in the order of the axis, by one thread for
/// each part of the axes before it.
pub(crate) fn add(
    op: &'static str,
    x: &CpuView,
    indices: &CpuView,
    axis: usize,
    out: &Layout,
) -> Result<CpuStorage> {
    match x.storage.dtype() {
        DType::F64 => run::<f64>(op, x, indices, axis, out, |sum, x| *sum += x),
        DType::F32 => run::<f32>(op, x, indices, axis, out, |sum, x| *sum += x),
        _ => Err(Error::internal("cpu::scatter, type of the elements")),
    }
}

fn run<T: bytemuck::Pod + Send + Sync>(
    op: &'static str,
    x: &CpuView,
    indices: &CpuView,
    axis: usize,
    out: &Layout,
    add: impl Fn(&mut T, T) + Sync,
) -> Result<CpuStorage> {
    let values = x.storage.slice::<T>()?;
    let shape = x.layout.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let (count, len) = (shape[axis], out.shape()[axis]);
    // The starts of rows along the axis and those after it.
    let starts = |layout: &Layout| layout.keep_axes(0..axis).offset_list();
    let (value_starts, index_starts) = (starts(&x.layout)?, starts(&indices.layout)?);
    let row_offsets = |layout: &Layout, start: usize| {
        let row = layout.keep_axes(axis..layout.rank());
        Layout::raw(row.shape(), row.strides().to_vec(), start).offsets()
    };
    let index_at = |offset: usize| -> Result<i64> {
        Ok(match indices.storage.dtype() {
            DType::I64 => indices.storage.slice::<i64>()?[offset],
            DType::I32 => indices.storage.slice::<i32>()?[offset].into(),
            DType::U8 => indices.storage.slice::<u8>()?[offset].into(),
            _ => return Err(Error::internal("cpu::scatter, type of the indices")),
        })
    };
    filled(x.storage.dtype(), out.len(), |buffer| {
        let out = buffer.slice_mut::<T>()?;
        let row_len = len * inner;
        let cost = NANOSECONDS * (count as f64 / len as f64).max(1.0);
        for_each_chunk(out, row_len, cost, |start, out| {
            out.fill(T::zeroed());
            let row = start / row_len;
            let offsets = row_offsets(&x.layout, value_starts[row]);
            let index_offsets = row_offsets(&indices.layout, index_starts[row]);
            for (number, (value, index)) in offsets.zip(index_offsets).enumerate() {
                let named = index_at(index)?;
                let offset = if named < 0 { named + len as i64 } else { named };
                if !(0..len as i64).contains(&offset) {
                    return Err(Error::Index { op, position: number as u64, value: named, len });
                }
                add(&mut out[offset as usize * inner + number % inner], values[value]);
            }
            Ok(())
        })
    })
}
