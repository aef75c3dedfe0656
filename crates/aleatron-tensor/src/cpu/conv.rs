//! Convolutions on the CPU: blocks of patches are laid out as matrices, small enough to stay in a
//! cache, and multiplied with the weights.

use super::gemm::{Beta, ColumnsMut, Matrix, split_columns};
use super::parallel::for_each_item;
use super::scratch::with_scratch;
use super::simd::copy_runs;
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::conv::Geometry;
use crate::storage::CpuStorage;

/// Floats of a block of patches.
const BLOCK: usize = 1 << 17;

/// Nanoseconds of a multiplication and an addition.
const NANOSECONDS: f64 = 0.04;

/// Nanoseconds of an element of a patch.
pub(super) const PATCH_NANOSECONDS: f64 = 0.3;

/// The number of channels of the result below which they are computed one by one: a matrix product
/// of so few rows is slower.
const FEW_CHANNELS: usize = 4;

/// Computes a non-empty convolution of 32-bit floats. The weights are a matrix with a row for each
/// channel of the result.
pub(crate) fn run(
    geometry: &Geometry,
    image: &CpuView,
    weight: &CpuView,
    bias: Option<&[f32]>,
) -> Result<CpuStorage> {
    let Geometry { images, groups, channels: [_, out_channels], .. } = *geometry;
    let (positions, depth) = (geometry.positions(), geometry.depth());
    let columns = (BLOCK / depth).next_multiple_of(16).clamp(32, 2048).min(positions);
    filled(DType::F32, images * groups * out_channels * positions, |buffer| {
        let mut blocks = Vec::new();
        for (index, part) in
            buffer.slice_mut::<f32>()?.chunks_mut(out_channels * positions).enumerate()
        {
            blocks.extend(split_columns(part, out_channels, columns).map(|block| (index, block)));
        }
        let work =
            images as f64 * groups as f64 * out_channels as f64 * positions as f64 * depth as f64;
        let nanoseconds = work * NANOSECONDS + work / out_channels as f64 * PATCH_NANOSECONDS;
        for_each_item(blocks, nanoseconds, |(index, block)| {
            let image = Image::new(geometry, image, [index / groups, index % groups])?;
            let weight = Matrix {
                data: weight.storage.slice::<f32>()?,
                offset: weight.layout.offset(),
                row_step: weight.layout.strides()[0],
                column_step: weight.layout.strides()[1],
            };
            let first = index % groups * out_channels;
            convolve(geometry, &image, weight.at_row(first), bias.map(|bias| &bias[first..]), block)
        })
    })
}

/// Computes a block of the result.
fn convolve(
    geometry: &Geometry,
    image: &Image<'_>,
    weight: Matrix<'_>,
    bias: Option<&[f32]>,
    mut out: ColumnsMut<'_>,
) -> Result<()> {
    let (depth, columns, rows) = (geometry.depth(), out.columns(), out.rows());
    let positions = out.first_column()..out.first_column() + columns;
    if rows < FEW_CHANNELS {
        let mut patch = vec![0.0f32; columns];
        for row in 0..rows {
            out.row_mut(row).fill(0.0);
        }
        for k in 0..depth {
            image.patch_rows(geometry, k, positions.clone(), &mut patch);
            for row in 0..rows {
                let position = weight.offset as isize
                    + row as isize * weight.row_step
                    + k as isize * weight.column_step;
                let factor = weight.data[position as usize];
                for (out, &x) in out.row_mut(row).iter_mut().zip(&patch) {
                    *out += factor * x;
                }
            }
        }
    } else {
        with_scratch(depth * columns, |patches| {
            image.patch_rows(geometry, 0, positions, patches);
            let right =
                Matrix { data: patches, offset: 0, row_step: columns as isize, column_step: 1 };
            out.gemm(depth, weight, right, Beta::Overwrite)
        })?;
    }
    for (row, &bias) in bias.unwrap_or_default().iter().enumerate().take(rows) {
        out.row_mut(row).iter_mut().for_each(|out| *out += bias);
    }
    Ok(())
}

/// The channels of an image in one group.
pub(super) struct Image<'a> {
    data: &'a [f32],
    offset: isize,
    /// The strides of channels, rows and columns.
    steps: [isize; 3],
}

impl<'a> Image<'a> {
    pub(super) fn new(
        geometry: &Geometry,
        view: &'a CpuView,
        [image, group]: [usize; 2],
    ) -> Result<Self> {
        let steps = view.layout.strides();
        let channel = group * geometry.channels[0];
        let offset =
            view.layout.offset() as isize + image as isize * steps[0] + channel as isize * steps[1];
        Ok(Self {
            data: view.storage.slice::<f32>()?,
            offset,
            steps: [steps[1], steps[2], steps[3]],
        })
    }

    /// Copies the elements under each element of the kernel from `first` on at some positions of the
    /// result, a row of `out` for each.
    pub(super) fn patch_rows(
        &self,
        geometry: &Geometry,
        first: usize,
        positions: std::ops::Range<usize>,
        out: &mut [f32],
    ) {
        for (k, row) in (first..).zip(out.chunks_mut(positions.len().max(1))) {
            self.patch_row(geometry, k, positions.clone(), row);
        }
    }

    /// Copies the elements under element `k` of the kernel at some positions of the result.
    fn patch_row(
        &self,
        geometry: &Geometry,
        k: usize,
        positions: std::ops::Range<usize>,
        out: &mut [f32],
    ) {
        let Geometry { kernel, stride, dilation, before, spread, extent, out: [_, width], .. } =
            *geometry;
        let (channel, ky, kx) =
            (k / (kernel[0] * kernel[1]), k / kernel[1] % kernel[0], k % kernel[1]);
        if stride[1] == 1 && spread == [1, 1] && self.steps[2] == 1 {
            self.copy_lines(geometry, [channel, ky, kx], positions.start, out);
            return;
        }
        let (mut position, mut done) = (positions.start, 0);
        let (mut next_row, mut next_first) = (position / width, position % width);
        while position < positions.end {
            let (row, first) = (next_row, next_first);
            (next_row, next_first) = (row + 1, 0);
            let len = (width - first).min(positions.end - position);
            let out = &mut out[done..done + len];
            (position, done) = (position + len, done + len);
            let y = row as isize * stride[0] as isize + (ky * dilation[0]) as isize - before[0];
            // Most convolutions have no zeros in between, and need no division.
            let is_between = spread[0] > 1 && !(y as usize).is_multiple_of(spread[0]);
            if y < 0 || y as usize >= extent[0] || is_between {
                out.fill(0.0);
                continue;
            }
            let line = self.offset
                + channel as isize * self.steps[0]
                + (if spread[0] > 1 { y as usize / spread[0] } else { y as usize }) as isize
                    * self.steps[1];
            let x0 = first as isize * stride[1] as isize + (kx * dilation[1]) as isize - before[1];
            for (i, out) in out.iter_mut().enumerate() {
                let x = x0 + (i * stride[1]) as isize;
                let is_inside =
                    x >= 0 && (x as usize) < extent[1] && (x as usize).is_multiple_of(spread[1]);
                *out = if is_inside {
                    self.data[(line + (x as usize / spread[1]) as isize * self.steps[2]) as usize]
                } else {
                    0.0
                };
            }
        }
    }

    /// Copies the elements under one element of the kernel, from a position of the result on, line
    /// by line: the kernel moves by one, and the elements of a line are adjacent.
    fn copy_lines(
        &self,
        geometry: &Geometry,
        [channel, ky, kx]: [usize; 3],
        position: usize,
        mut out: &mut [f32],
    ) {
        let Geometry { stride, dilation, before, extent, out: [_, width], .. } = *geometry;
        let x0 = (kx * dilation[1]) as isize - before[1];
        // The columns of the result whose elements lie inside the image.
        let left = (-x0).clamp(0, width as isize) as usize;
        let right = (extent[1] as isize - x0).clamp(left as isize, width as isize) as usize;
        let base = self.offset + channel as isize * self.steps[0] + x0;
        let (mut row, mut first) = (position / width, position % width);
        while !out.is_empty() {
            let y = (row * stride[0] + ky * dilation[0]) as isize - before[0];
            let is_inside = y >= 0 && (y as usize) < extent[0] && left < right;
            // A longer stride belongs to a single row.
            let step = stride[0].min(extent[0]) as isize * self.steps[1];
            if first == 0 && out.len() >= width && is_inside && step >= (right - left) as isize {
                let rows = (out.len() / width).min((extent[0] - y as usize).div_ceil(stride[0]));
                let (lines, rest) = out.split_at_mut(rows * width);
                let start = (base + y * self.steps[1] + left as isize) as usize;
                let columns = left..right;
                copy_runs(&self.data[start..], step as usize, lines, width, columns);
                (row, out) = (row + rows, rest);
                continue;
            }
            // The first and the last line may be parts.
            let len = (width - first).min(out.len());
            let (line, rest) = out.split_at_mut(len);
            let [from, to] = [left, right].map(|column| column.clamp(first, first + len));
            line.fill(0.0);
            if is_inside && from < to {
                let start = (base + y * self.steps[1] + from as isize) as usize;
                let run = &self.data[start..start + to - from];
                line[from - first..to - first].copy_from_slice(run);
            }
            (row, first, out) = (row + 1, 0, rest);
        }
    }
}
