//! Gradients of convolutions on the CPU, by matrix products.
//!
//! The gradient of the image is the product of the transposed weights and the gradient of the
//! result, whose rows are added to the positions of their patches. The gradient of the weights is
//! the product of the gradient of the result and the patches of the image.

use std::ops::Range;

use super::conv::{Image, PATCH_NANOSECONDS};
use super::gemm::{Beta, ColumnsMut, Matrix, gemm, split_columns};
use super::parallel::{for_each_chunk, for_each_item};
use super::scratch::with_scratch;
use super::simd::add_runs;
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::conv::Geometry;
use crate::storage::{CpuStorage, HostBuffer};

/// Nanoseconds of a multiplication and an addition.
const NANOSECONDS: f64 = 0.05;

/// Floats of a block of patches.
const BLOCK: usize = 1 << 17;

/// Floats of the partial sums of the gradient of the weights.
const PARTIAL_SUMS: usize = 1 << 22;

/// Parts that images are cut into for the gradient of the weights. The number depends on the sizes
/// alone, so that the order of sums does not depend on the number of threads.
const MAX_PARTS: usize = 32;

/// The number of channels of the result up to which the gradient of the weights is computed by dot
/// products: preparing the operands of such a small matrix product takes longer.
const FEW_CHANNELS: usize = 8;

/// The row length from which on dot products are faster.
const LONG_ROWS: usize = 256;

/// Patch rows that one task takes, for the gradient of large weights.
const DEPTH_BLOCK: usize = 256;

/// Computes the gradient of the image from the contiguous gradient of the result and the weights, a
/// row for each channel of the result.
pub(crate) fn of_image(geometry: &Geometry, g: &CpuView, weight: &CpuView) -> Result<CpuStorage> {
    let Geometry { images, groups, channels: [channels, out_channels], kernel, extent, .. } =
        *geometry;
    let (positions, plane) = (geometry.positions(), extent[0] * extent[1]);
    let area = kernel[0] * kernel[1];
    let (g_data, g_start) = (g.storage.slice::<f32>()?, g.layout.offset());
    let weights = Matrix {
        data: weight.storage.slice::<f32>()?,
        offset: weight.layout.offset(),
        row_step: weight.layout.strides()[0],
        column_step: weight.layout.strides()[1],
    };
    // A task takes some channels of one image.
    let block = (BLOCK / (area * positions).max(1)).clamp(1, channels);
    filled(DType::F32, images * groups * channels * plane, |buffer| {
        let mut tasks = Vec::new();
        for (index, out) in buffer.slice_mut::<f32>()?.chunks_mut(channels * plane).enumerate() {
            let blocks = out.chunks_mut(block * plane).enumerate();
            tasks.extend(blocks.map(|(number, out)| (index, number * block, out)));
        }
        let work = images as f64
            * groups as f64
            * (channels * area) as f64
            * out_channels as f64
            * positions as f64;
        let nanoseconds = work * NANOSECONDS + work / out_channels as f64 * PATCH_NANOSECONDS;
        for_each_item(tasks, nanoseconds, |(index, first, out)| {
            let rows = out.len() / plane * area;
            let group = index % groups;
            let left = weights.at_row(group * out_channels).at_column(first * area).t();
            let offset = g_start + index * out_channels * positions;
            let right =
                Matrix { data: g_data, offset, row_step: positions as isize, column_step: 1 };
            with_scratch(rows * positions, |patches| {
                gemm(
                    [rows, out_channels, positions],
                    left,
                    right,
                    Beta::Overwrite,
                    patches,
                    positions,
                )?;
                out.fill(0.0);
                for (k, row) in patches.chunks(positions).enumerate() {
                    add_patch_row(geometry, k, row, out);
                }
                Ok(())
            })
        })
    })
}

/// Adds the gradients under element `k` of the kernel to their positions of the image.
fn add_patch_row(geometry: &Geometry, k: usize, row: &[f32], image: &mut [f32]) {
    let Geometry { kernel, stride, dilation, before, extent, out: [_, width], .. } = *geometry;
    let (channel, ky, kx) = (k / (kernel[0] * kernel[1]), k / kernel[1] % kernel[0], k % kernel[1]);
    let x0 = (kx * dilation[1]) as isize - before[1];
    // The columns of the result whose position lies inside the image.
    let step = stride[1] as isize;
    let first = if x0 < 0 { ((-x0) as usize).div_ceil(stride[1]) } else { 0 };
    let end = extent[1] as isize - x0;
    let last = if end <= 0 { 0 } else { (end as usize).div_ceil(stride[1]).min(width) };
    if first >= last {
        return;
    }
    // The rows of the result whose position lies inside the image.
    let y0 = (ky * dilation[0]) as isize - before[0];
    let first_row = if y0 < 0 { ((-y0) as usize).div_ceil(stride[0]) } else { 0 };
    let below = extent[0] as isize - y0;
    let last_row = if below <= 0 { 0 } else { (below as usize).div_ceil(stride[0]) };
    let last_row = last_row.min(row.len() / width);
    if first_row >= last_row {
        return;
    }
    let y = (y0 + (first_row * stride[0]) as isize) as usize;
    let start = (channel * extent[0] + y) * extent[1];
    let start = (start as isize + x0 + first as isize * step) as usize;
    let (lines, image) = (&row[first_row * width..last_row * width], &mut image[start..]);
    // A longer stride belongs to a single row.
    let pitch = stride[0].min(extent[0]) * extent[1];
    if step == 1 {
        add_runs(lines, width, first..last, image, pitch);
        return;
    }
    for (line, image) in lines.chunks(width).zip(image.chunks_mut(pitch)) {
        let image = image.iter_mut().step_by(stride[1]);
        image.zip(&line[first..last]).for_each(|(sum, &x)| *sum += x);
    }
}

/// Computes the gradient of the weights from the image and the contiguous gradient of the result.
pub(crate) fn of_weight(geometry: &Geometry, image: &CpuView, g: &CpuView) -> Result<CpuStorage> {
    let Geometry { images, groups, channels: [_, out_channels], .. } = *geometry;
    let (positions, depth) = (geometry.positions(), geometry.depth());
    let len = groups * out_channels * depth;
    let parts = (PARTIAL_SUMS / len.max(1)).clamp(1, MAX_PARTS).min(images);
    let part_images = images.div_ceil(parts);
    let parts = images.div_ceil(part_images);
    let (g_data, g_start) = (g.storage.slice::<f32>()?, g.layout.offset());
    let mut sums = HostBuffer::for_elements(DType::F32, parts * len)?;
    let partial = sums.slice_mut::<f32>()?;
    let mut tasks = Vec::new();
    for (part, out) in partial.chunks_mut(len).enumerate() {
        for (group, out) in out.chunks_mut(out_channels * depth).enumerate() {
            let blocks = split_columns(out, out_channels, DEPTH_BLOCK);
            tasks.extend(blocks.map(|block| (part, group, block)));
        }
    }
    let work = images as f64 * positions as f64 * len as f64;
    let nanoseconds = work * NANOSECONDS + work / out_channels as f64 * PATCH_NANOSECONDS;
    for_each_item(tasks, nanoseconds, |(part, group, mut out)| {
        let columns = (BLOCK / out.columns()).next_multiple_of(16).min(positions);
        with_scratch(out.columns() * columns, |patches| {
            let mut beta = Beta::Overwrite;
            for index in part * part_images..((part + 1) * part_images).min(images) {
                let source = Image::new(geometry, image, [index, group])?;
                for start in (0..positions).step_by(columns) {
                    let range = start..positions.min(start + columns);
                    let offset =
                        g_start + (index * groups + group) * out_channels * positions + start;
                    let left = Matrix {
                        data: g_data,
                        offset,
                        row_step: positions as isize,
                        column_step: 1,
                    };
                    add_products(geometry, &source, left, range, patches, beta, &mut out)?;
                    beta = Beta::Accumulate;
                }
            }
            Ok(())
        })
    })?;
    let partial = &*partial;
    filled(DType::F32, len, |buffer| {
        for_each_chunk(buffer.slice_mut::<f32>()?, 4096, parts as f64, |start, out| {
            out.copy_from_slice(&partial[start..start + out.len()]);
            for part in 1..parts {
                let part = &partial[part * len + start..][..out.len()];
                out.iter_mut().zip(part).for_each(|(sum, &x)| *sum += x);
            }
            Ok(())
        })
    })
}

/// Adds the products of the gradient of the result at some positions, `left`, and the patches there.
/// The block of the result has a column for each element of a patch.
fn add_products(
    geometry: &Geometry,
    image: &Image<'_>,
    left: Matrix<'_>,
    positions: Range<usize>,
    patches: &mut [f32],
    beta: Beta,
    out: &mut ColumnsMut<'_>,
) -> Result<()> {
    let (first, count) = (out.first_column(), positions.len());
    let patches = &mut patches[..out.columns() * count];
    image.patch_rows(geometry, first, positions, patches);
    if out.rows() <= FEW_CHANNELS && count >= LONG_ROWS {
        out.add_dots(count, &left.data[left.offset..], left.row_step as usize, patches, beta);
        return Ok(());
    }
    let right = Matrix { data: patches, offset: 0, row_step: count as isize, column_step: 1 };
    out.gemm(count, left, right.t(), beta)
}
