//! Pooling on the CPU, row by row.

use super::parallel::for_each_chunk;
use super::simd::{largest_of_four, mean_of_four, take_larger};
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::pool::{Padding, Pool, Windows};
use crate::storage::CpuStorage;
use aleatron_core::{Quantity, memory};

/// The positions of the image in a window of an axis: the first, the number, and the number
/// including padding.
pub(super) struct Reach {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) counted: usize,
}

impl Windows {
    /// Returns whether windows are of 2 x 2 elements without overlap.
    pub(super) fn are_pairs(&self) -> bool {
        self.kernel == [2, 2] && self.stride == [2, 2] && self.dilation == [1, 1]
    }

    /// Returns whether every window lies inside the image along rows.
    pub(super) fn has_whole_rows(&self) -> bool {
        let last = (self.out[1] - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1];
        self.padding[1][0] == 0 && last < self.shape[3]
    }

    /// Returns the positions of the image in each of the first `n` windows along an axis.
    pub(super) fn reaches(&self, axis: usize, n: usize) -> Result<Vec<Reach>> {
        let mut all = memory::with_capacity(n as u128, Quantity::Words)?;
        all.extend((0..n).map(|position| self.reach(axis, position)));
        Ok(all)
    }

    /// Returns the positions of the image in a window along an axis.
    pub(super) fn reach(&self, axis: usize, position: usize) -> Reach {
        let [size, kernel, stride, dilation] =
            [self.shape[axis + 2], self.kernel[axis], self.stride[axis], self.dilation[axis]];
        let [before, after] = self.padding[axis];
        let start = position as i128 * stride as i128 - before as i128;
        // The number of elements of the window below a position.
        let below = |end: i128| -> usize {
            let room = (end - start).max(0) as u128;
            room.div_ceil(dilation as u128).min(kernel as u128) as usize
        };
        let skipped = below(0);
        let count = below(size as i128) - skipped;
        let first = (start + skipped as i128 * dilation as i128).max(0) as usize;
        Reach { first, count, counted: below(size as i128 + after as i128) }
    }
}

/// Elements of the result that a thread takes at a time, about.
const CHUNK: usize = 1 << 12;

/// Pools 32-bit floats.
pub(crate) fn run(windows: &Windows, image: &CpuView) -> Result<CpuStorage> {
    let Windows { shape: [images, channels, ..], out: [rows, columns], kernel, dilation, .. } =
        *windows;
    let (data, steps) = (image.storage.slice::<f32>()?, image.layout.strides());
    let planes = images * channels;
    // Axes of empty images may have any size.
    let (rows, columns) = if planes == 0 { (0, 0) } else { (rows, columns) };
    let (all_down, across) = (windows.reaches(0, rows)?, windows.reaches(1, columns)?);
    let nanoseconds = 2.0 + kernel[0] as f64 * kernel[1] as f64;
    let (has_whole_rows, are_pairs) = (windows.has_whole_rows(), windows.are_pairs());
    filled(DType::F32, planes * rows * columns, |buffer| {
        let chunk = (CHUNK / columns).max(1) * columns;
        let pool_row = |index: usize, out: &mut [f32]| {
            let (plane, row) = (index / rows, index % rows);
            let down = &all_down[row];
            let base = image.layout.offset() as isize
                + (plane / channels) as isize * steps[0]
                + (plane % channels) as isize * steps[1];
            // Every window of the row lies inside the image along it.
            let line_at = |row: usize| {
                let start = (base + row as isize * steps[2]) as usize;
                &data[start..start + windows.shape[3]]
            };
            if steps[3] == 1 && has_whole_rows && are_pairs && down.count == 2 {
                let lines = [line_at(down.first), line_at(down.first + 1)];
                match windows.pool {
                    Pool::Max => largest_of_four(lines, out),
                    Pool::Average(_) => mean_of_four(lines, out),
                }
                return;
            }
            if steps[3] == 1 && has_whole_rows && windows.pool == Pool::Max {
                out.fill(f32::NEG_INFINITY);
                for i in 0..down.count {
                    let line = line_at(down.first + i * dilation[0]);
                    (0..kernel[1]).for_each(|j| {
                        take_larger(out, &line[j * dilation[1]..], windows.stride[1])
                    });
                }
                return;
            }
            for (out, across) in out.iter_mut().zip(&across) {
                let elements = (0..down.count).flat_map(|i| {
                    let line = base + (down.first + i * dilation[0]) as isize * steps[2];
                    (0..across.count).map(move |j| {
                        data[(line + (across.first + j * dilation[1]) as isize * steps[3]) as usize]
                    })
                });
                *out = match windows.pool {
                    Pool::Max => elements.fold(f32::NEG_INFINITY, larger),
                    Pool::Average(padding) => {
                        let count = match padding {
                            Padding::Ignored => down.count * across.count,
                            Padding::Counted => down.counted * across.counted,
                        };
                        elements.fold(0.0, |sum, x| sum + x) / count as f32
                    }
                };
            }
        };
        for_each_chunk(buffer.slice_mut::<f32>()?, chunk, nanoseconds, |start, out| {
            for (k, out) in out.chunks_mut(columns).enumerate() {
                pool_row(start / columns + k, out);
            }
            Ok(())
        })
    })
}

/// Returns the larger number; the first NaN if there is one.
fn larger(most: f32, x: f32) -> f32 {
    if most.is_nan() || most >= x { most } else { x }
}
