//! The inputs under the kernel at some positions, as rows for the kernels of dense layers.
//!
//! Inputs are stored by channel. A [`Region`] stores some of their rows and columns by pixel
//! instead, with all channels of a pixel contiguous, and a [`Panel`] stores the pixels under the
//! kernel by column: overlapping windows share their columns, so that a pixel is copied once for
//! each row of the kernel and not once for each tap. Weights have the same order: by column, row
//! and channel. Taps in the padding are zeros, which share no ones with any weight.

use aleatron_core::windows::Windows;
use aleatron_core::{ConvShape, Quantity, Result, memory};
use std::ops::Range;

/// Some rows and columns of the image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

impl Region {
    /// Returns the region under the kernel at some positions, which are whole rows of positions or
    /// lie in one row.
    pub(super) fn under(shape: &ConvShape, positions: &Range<usize>) -> Self {
        let [over_rows, over_columns] = shape.windows();
        let width = over_columns.len();
        let (first, last) = (positions.start, positions.end - 1);
        let rows = covered(over_rows, first / width..last / width + 1);
        let columns =
            if first / width == last / width { first % width..last % width + 1 } else { 0..width };
        let columns = covered(over_columns, columns);
        // All positions may lie in the padding.
        if rows.is_empty() || columns.is_empty() { Self::default() } else { Self { rows, columns } }
    }

    /// Returns the number of pixels.
    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Returns the index of each input of some channels, by pixel.
    fn inputs(
        &self,
        shape: &ConvShape,
        first_channel: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let ([_, height, width], n) = (shape.convolution().input, shape.group_inputs());
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        (0..n).flat_map(move |channel| {
            let (columns, first) = (columns.clone(), rows.start);
            rows.clone().map(move |row| {
                let input = ((first_channel + channel) * height + row) * width + columns.start;
                (input, (row - first) * columns.len() * n + channel)
            })
        })
    }

    /// Writes an element of every input by pixel: `element` receives the index of the input.
    pub(super) fn fill<T: Copy + Default>(
        &self,
        shape: &ConvShape,
        first_channel: usize,
        out: &mut Vec<T>,
        element: impl Fn(usize) -> T,
    ) -> Result<()> {
        let n = shape.group_inputs();
        resize(out, self.len() * n)?;
        for (input, to) in self.inputs(shape, first_channel) {
            let to = out[to..].iter_mut().step_by(n).take(self.columns.len());
            to.zip(input..).for_each(|(to, input)| *to = element(input));
        }
        Ok(())
    }

    /// Writes the streams of `words` words of every input by pixel: `copy` receives the index of
    /// the input and the destination of its words.
    pub(super) fn fill_streams(
        &self,
        shape: &ConvShape,
        first_channel: usize,
        image: &[u64],
        words: usize,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let n = shape.group_inputs();
        resize(out, self.len() * n * words)?;
        for (input, to) in self.inputs(shape, first_channel) {
            let from = &image[input * words..(input + self.columns.len()) * words];
            let to = &mut out[to * words..];
            match words {
                1 => spread::<1>(from, n, to),
                2 => spread::<2>(from, n, to),
                4 => spread::<4>(from, n, to),
                _ => {
                    let to = to.chunks_mut(n * words);
                    from.chunks_exact(words)
                        .zip(to)
                        .for_each(|(from, to)| to[..words].copy_from_slice(from));
                }
            }
        }
        Ok(())
    }
}

/// Copies blocks of `N` words to every `step`th block.
fn spread<const N: usize>(from: &[u64], step: usize, to: &mut [u64]) {
    let to = to.as_chunks_mut::<N>().0.iter_mut().step_by(step);
    from.as_chunks::<N>().0.iter().zip(to).for_each(|(from, to)| *to = *from);
}

/// Returns the part of the image that some windows cover.
fn covered(windows: &Windows, some: Range<usize>) -> Range<usize> {
    let axis = windows.axis();
    let reach = (axis.kernel - 1) * axis.dilation + 1;
    let inside = |at: i64| at.clamp(0, axis.size as i64) as usize;
    inside(windows.begin(some.start))..inside(windows.begin(some.end - 1) + reach as i64)
}

/// The positions of windows in a panel.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    shape: &'a ConvShape,
    /// Number of columns of the panel between neighbouring windows.
    step: usize,
    runs: Vec<Run>,
    /// The column at which the window of each position starts.
    pub(super) starts: Vec<usize>,
}

/// Adjacent positions in one row of positions.
#[derive(Debug)]
struct Run {
    row: usize,
    columns: Range<usize>,
}

impl<'a> Panel<'a> {
    /// Creates a panel without windows.
    pub(super) fn new(shape: &'a ConvShape) -> Self {
        Self { shape, step: column_step(shape), runs: Vec::new(), starts: Vec::new() }
    }

    /// Arranges the windows of some positions.
    pub(super) fn arrange(&mut self, positions: Range<usize>) {
        let (width, kernel) = (self.shape.windows()[1].len(), self.shape.convolution().kernel[1]);
        self.runs.clear();
        self.starts.clear();
        let (mut position, mut start) = (positions.start, 0);
        while position < positions.end {
            let (row, column) = (position / width, position % width);
            let n = (width - column).min(positions.end - position);
            self.runs.push(Run { row, columns: column..column + n });
            self.starts.extend((0..n).map(|k| start + k * self.step));
            start += (n - 1) * self.step + kernel;
            position += n;
        }
    }

    /// Fills a panel from a region that has `per_pixel` elements for each pixel.
    pub(super) fn fill<T: Copy + Default>(
        &self,
        region: &Region,
        pixels: &[T],
        per_pixel: usize,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let ([over_rows, over_columns], [height, width]) =
            (self.shape.windows(), self.shape.convolution().kernel);
        let n_columns = |run: &Run| (run.columns.len() - 1) * self.step + width;
        let column_len = height * per_pixel;
        resize(out, self.runs.iter().map(n_columns).sum::<usize>() * column_len)?;
        let mut rest = &mut out[..];
        let mut rows = Vec::with_capacity(height);
        for run in &self.runs {
            rows.clear();
            rows.extend((0..height).map(|tap| over_rows.at(run.row, tap)));
            let (columns, after) =
                std::mem::take(&mut rest).split_at_mut(n_columns(run) * column_len);
            rest = after;
            // A column of the panel belongs to the last window that starts at or before it, if that
            // has as many taps.
            let windows = run.columns.len();
            for (k, column) in columns.chunks_exact_mut(column_len).enumerate() {
                let window = (k / self.step).min(windows - 1);
                let x = over_columns.at(run.columns.start + window, k - window * self.step);
                let Some(x) = x.filter(|x| region.columns.contains(x)) else {
                    column.fill(T::default());
                    continue;
                };
                for (y, to) in rows.iter().zip(column.chunks_exact_mut(per_pixel)) {
                    match y {
                        Some(y) => {
                            let pixel = (y - region.rows.start) * region.columns.len() + x
                                - region.columns.start;
                            copy(&pixels[pixel * per_pixel..][..per_pixel], to);
                        }
                        None => to.fill(T::default()),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Copies an element or two without a call.
#[inline]
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    match (from, to) {
        ([from], [to]) => *to = *from,
        ([first, second], [to_first, to_second]) => (*to_first, *to_second) = (*first, *second),
        (from, to) => to.copy_from_slice(from),
    }
}

/// Returns the number of columns of a panel between neighbouring windows: fewer than those of a
/// window if windows overlap.
pub(super) fn column_step(shape: &ConvShape) -> usize {
    let axis = shape.windows()[1].axis();
    if axis.dilation == 1 { axis.stride.min(axis.kernel) } else { axis.kernel }
}

/// Reorders the weights of a kernel, `per_tap` elements each, to the order of panels: by column,
/// row and channel.
pub(super) fn reorder<T: Copy>(shape: &ConvShape, per_tap: usize, kernel: &mut [T]) {
    let [height, width] = shape.convolution().kernel;
    let old = kernel.to_vec();
    let mut to = kernel.chunks_exact_mut(per_tap);
    for column in 0..width {
        for row in 0..height {
            for channel in 0..shape.group_inputs() {
                let tap = (channel * height + row) * width + column;
                if let Some(to) = to.next() {
                    to.copy_from_slice(&old[tap * per_tap..][..per_tap]);
                }
            }
        }
    }
}

/// Resizes a vector to `len` elements, which may keep stale values.
pub(super) fn resize<T: Copy + Default>(vector: &mut Vec<T>, len: usize) -> Result<()> {
    if vector.capacity() < len {
        *vector = memory::with_capacity(len as u128, Quantity::EncodedInputs)?;
    }
    vector.resize(len, T::default());
    Ok(())
}
