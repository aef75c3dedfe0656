//! Resizing on the CPU, one axis at a time.

use super::parallel::for_each_chunk;
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Layout, elements};
use crate::ops::resize::{OUTSIDE, Taps};
use crate::storage::CpuStorage;

/// Resizes an axis of a tensor of 32-bit floats.
pub(crate) fn run(view: &CpuView, axis: usize, taps: &Taps, shape: &[usize]) -> Result<CpuStorage> {
    let (data, layout) = (view.storage.slice::<f32>()?, &view.layout);
    let inner = layout.keep_axes(axis + 1..layout.rank());
    let outer = layout.keep_axes(0..axis);
    let base = layout.offset() as isize;
    let starts = outer.offset_list()?;
    let (lines, size, step) = (inner.len(), shape[axis], layout.strides()[axis]);
    filled(DType::F32, elements(shape)?, |buffer| {
        let nanoseconds = 1.0 + taps.count as f64;
        for_each_chunk(buffer.slice_mut::<f32>()?, lines, nanoseconds, |start, out| {
            let row = start / lines;
            let (outer, i) = (starts[row / size] as isize - base, row % size);
            let own = i * taps.count..(i + 1) * taps.count;
            let (offsets, weights) = (&taps.positions[own.clone()], &taps.weights[own]);
            sum_neighbours(data, &inner, outer, step, offsets, weights, taps.outside, out);
            Ok(())
        })
    })
}

#[expect(clippy::too_many_arguments, reason = "the parts of a sum")]
fn sum_neighbours(
    data: &[f32],
    inner: &Layout,
    outer: isize,
    step: isize,
    offsets: &[u32],
    weights: &[f32],
    outside: f32,
    out: &mut [f32],
) {
    if offsets[0] == OUTSIDE {
        out.fill(outside);
        return;
    }
    for (out, offset) in out.iter_mut().zip(inner.offsets()) {
        let at =
            |neighbour: u32| data[(offset as isize + outer + neighbour as isize * step) as usize];
        *out = if let [only] = offsets {
            at(*only)
        } else {
            // Elements of weight 0 are skipped: they may be infinite.
            let terms = offsets.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
            terms.fold(0.0, |sum, (&neighbour, weight)| sum + at(neighbour) * weight)
        };
    }
}
