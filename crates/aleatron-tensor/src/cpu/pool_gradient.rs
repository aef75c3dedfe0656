//! Gradients of pooling on the CPU, plane by plane.

use super::parallel::for_each_chunk;
use super::pool::Reach;
use super::simd::{spread_quarters, spread_to_largest_of_four, take_larger_index};
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::pool::{Padding, Pool, Windows};
use crate::storage::CpuStorage;

/// Elements of the result that a thread takes at a time, about.
const CHUNK: usize = 1 << 14;

/// Computes the gradient of the image from that of the result; both are contiguous. Max pooling
/// needs the image.
pub(crate) fn run(windows: &Windows, g: &CpuView, image: Option<&CpuView>) -> Result<CpuStorage> {
    let Windows {
        shape: [images, channels, rows, columns],
        out: [out_rows, out_columns],
        kernel,
        ..
    } = *windows;
    let g_data = &g.storage.slice::<f32>()?[g.layout.offset()..];
    let image = match image {
        Some(view) => Some(&view.storage.slice::<f32>()?[view.layout.offset()..]),
        None => None,
    };
    let (down, across) = (windows.reaches(0, out_rows)?, windows.reaches(1, out_columns)?);
    let (plane, out_plane) = (rows * columns, out_rows * out_columns);
    let planes = (CHUNK / plane).max(1);
    let visits = out_plane as f64 * (2.0 + kernel[0] as f64 * kernel[1] as f64);
    filled(DType::F32, images * channels * plane, |buffer| {
        for_each_chunk(
            buffer.slice_mut::<f32>()?,
            planes * plane,
            1.0 + visits / plane as f64,
            |start, out| {
                out.fill(0.0);
                for (index, out) in (start / plane..).zip(out.chunks_mut(plane)) {
                    let g = &g_data[index * out_plane..][..out_plane];
                    match (windows.pool, image) {
                        (Pool::Max, Some(image)) => {
                            max(windows, &down, &across, g, &image[index * plane..][..plane], out);
                        }
                        (Pool::Average(padding), _) => {
                            average(windows, padding, &down, &across, g, out);
                        }
                        (Pool::Max, None) => {
                            return Err(Error::internal("cpu::pool_gradient, image"));
                        }
                    }
                }
                Ok(())
            },
        )
    })
}

/// Adds the gradient of each window to its first largest element.
fn max(
    windows: &Windows,
    down: &[Reach],
    across: &[Reach],
    g: &[f32],
    image: &[f32],
    out: &mut [f32],
) {
    let columns = windows.shape[3];
    if windows.has_whole_rows() {
        return max_of_whole_rows(windows, down, g, image, out);
    }
    for (down, g) in down.iter().zip(g.chunks(across.len())) {
        for (across, &g) in across.iter().zip(g) {
            let mut best: Option<(usize, f32)> = None;
            for i in 0..down.count {
                let line = (down.first + i * windows.dilation[0]) * columns + across.first;
                for j in 0..across.count {
                    let index = line + j * windows.dilation[1];
                    let x = image[index];
                    // The first NaN is the largest.
                    if best.is_none_or(|(_, most)| x > most || (x.is_nan() && !most.is_nan())) {
                        best = Some((index, x));
                    }
                }
            }
            if let Some((index, _)) = best {
                out[index] += g;
            }
        }
    }
}

/// Like [`max`], for windows that lie inside the image along rows: all windows of a row are
/// compared at once.
fn max_of_whole_rows(windows: &Windows, down: &[Reach], g: &[f32], image: &[f32], out: &mut [f32]) {
    let Windows { shape: [.., columns], kernel, stride, dilation, out: [_, out_columns], .. } =
        *windows;
    let (mut most, mut indices) = (vec![0f32; out_columns], vec![0u32; out_columns]);
    for (down, g) in down.iter().zip(g.chunks(out_columns)) {
        if down.count == 0 {
            continue;
        }
        if windows.are_pairs() && down.count == 2 {
            let start = down.first * columns;
            let (above, below) = out[start..start + 2 * columns].split_at_mut(columns);
            let lines =
                [&image[start..start + columns], &image[start + columns..start + 2 * columns]];
            spread_to_largest_of_four(lines, g, above, below);
            continue;
        }
        // Indices count the elements of the window; the first one is the largest until another is
        // larger.
        let first_line = &image[down.first * columns..];
        most.iter_mut().zip(first_line.iter().step_by(stride[1])).for_each(|(most, &x)| *most = x);
        indices.fill(0);
        for k in 1..down.count * kernel[1] {
            let line = &image[(down.first + k / kernel[1] * dilation[0]) * columns..][..columns];
            take_larger_index(
                &mut most,
                &mut indices,
                &line[k % kernel[1] * dilation[1]..],
                stride[1],
                k as u32,
            );
        }
        for (column, (&k, &g)) in indices.iter().zip(g).enumerate() {
            let k = k as usize;
            let row = down.first + k / kernel[1] * dilation[0];
            out[row * columns + column * stride[1] + k % kernel[1] * dilation[1]] += g;
        }
    }
}

/// Adds an equal part of the gradient of each window to its elements.
fn average(
    windows: &Windows,
    padding: Padding,
    down: &[Reach],
    across: &[Reach],
    g: &[f32],
    out: &mut [f32],
) {
    let columns = windows.shape[3];
    let are_whole_pairs = windows.are_pairs() && windows.has_whole_rows();
    for (down, g) in down.iter().zip(g.chunks(across.len())) {
        if are_whole_pairs && down.count == 2 {
            let lines = &mut out[down.first * columns..][..2 * columns];
            lines.chunks_mut(columns).for_each(|line| spread_quarters(g, line));
            continue;
        }
        for (across, &g) in across.iter().zip(g) {
            let count = match padding {
                Padding::Ignored => down.count * across.count,
                Padding::Counted => down.counted * across.counted,
            };
            let part = g / count as f32;
            for i in 0..down.count {
                let line = (down.first + i * windows.dilation[0]) * columns + across.first;
                for j in 0..across.count {
                    out[line + j * windows.dilation[1]] += part;
                }
            }
        }
    }
}
