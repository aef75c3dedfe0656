//! Running sums and products on the CPU.

use bytemuck::Pod;

use super::{CpuView, filled, parallel};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Reducer;
use crate::storage::CpuStorage;

/// Scans rows of `n` contiguous elements.
pub(crate) fn scan(view: &CpuView, n: usize, reducer: &Reducer) -> Result<CpuStorage> {
    let (dtype, is_sum) = (view.storage.dtype(), *reducer == Reducer::Sum);
    let len = view.layout.len();
    filled(dtype, len, |buffer| match dtype {
        DType::I32 => rows::<i32, i32>(
            view,
            n,
            buffer.slice_mut()?,
            |x| x,
            |x| x,
            |a, b| {
                if is_sum { a.wrapping_add(b) } else { a.wrapping_mul(b) }
            },
        ),
        DType::I64 => rows::<i64, i64>(
            view,
            n,
            buffer.slice_mut()?,
            |x| x,
            |x| x,
            |a, b| {
                if is_sum { a.wrapping_add(b) } else { a.wrapping_mul(b) }
            },
        ),
        DType::F64 => rows::<f64, f64>(
            view,
            n,
            buffer.slice_mut()?,
            |x| x,
            |x| x,
            |a, b| {
                if is_sum { a + b } else { a * b }
            },
        ),
        _ => rows::<f32, f64>(
            view,
            n,
            buffer.slice_mut()?,
            f64::from,
            |x| x as f32,
            |a, b| {
                if is_sum { a + b } else { a * b }
            },
        ),
    })
}

fn rows<T: Pod + Send + Sync, A: Copy>(
    view: &CpuView,
    n: usize,
    out: &mut [T],
    wide: impl Fn(T) -> A + Sync,
    narrow: impl Fn(A) -> T + Sync,
    f: impl Fn(A, A) -> A + Sync,
) -> Result<()> {
    let from: &[T] = &view.storage.slice()?[view.layout.offset()..];
    parallel::for_each_chunk(out, n * ((1 << 14) / n).max(1), 1.0, |start, out| {
        for (row, out) in out.chunks_mut(n).enumerate() {
            let from = &from[start + row * n..][..out.len()];
            let mut total = None;
            for (out, &x) in out.iter_mut().zip(from) {
                let next = total.map_or_else(|| wide(x), |total| f(total, wide(x)));
                *out = narrow(next);
                total = Some(next);
            }
        }
        Ok(())
    })
}
