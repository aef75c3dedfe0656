//! Images as planes, so that the inputs under a tap at all positions of all samples are contiguous
//! in memory.

use crate::table::index;
use aleatron_core::ConvShape;

/// The padded image of each channel as planes: one plane for each row and column offset within a
/// stride.
pub(super) struct Planes {
    stride: [usize; 2],
    /// The number of rows and columns of a plane.
    size: [usize; 2],
    channels: usize,
}

/// The offset of a tap at the first position; at row r and column q it is `r * columns + q` higher.
#[derive(Clone, Copy)]
pub(super) struct PlaneOffset {
    pub(super) plane: usize,
    pub(super) offset: usize,
}

impl Planes {
    pub(super) fn new(shape: &ConvShape) -> Self {
        let stride = shape.windows().each_ref().map(|windows| windows.axis().stride);
        let size = [0, 1].map(|k: usize| {
            let axis = shape.windows()[k].axis();
            (axis.size + axis.padding[0] + axis.padding[1]).div_ceil(stride[k])
        });
        Self { stride, size, channels: shape.convolution().input[0] }
    }

    /// Returns the number of thresholds of a sample.
    pub(super) fn thresholds_per_sample(&self) -> u128 {
        let [stride, size] =
            [self.stride, self.size].map(|[rows, columns]| rows as u128 * columns as u128);
        self.channels as u128 * stride * size
    }

    /// Returns the number of planes.
    pub(super) const fn count(&self) -> usize {
        self.channels * self.per_channel()
    }

    /// Returns the number of planes of a channel.
    pub(super) const fn per_channel(&self) -> usize {
        self.stride[0] * self.stride[1]
    }

    /// Returns the number of thresholds of a plane in a sample.
    pub(super) const fn len(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Returns the number of columns of a plane.
    pub(super) const fn columns(&self) -> usize {
        self.size[1]
    }

    /// Returns the distance from the first position to the last.
    pub(super) fn reach(&self, shape: &ConvShape) -> usize {
        let [_, rows, columns] = shape.output();
        (rows - 1) * self.size[1] + columns
    }

    /// Returns the offset of a padded row and column of a channel.
    fn offset_of(&self, channel: usize, row: usize, column: usize) -> PlaneOffset {
        let phase = (row % self.stride[0]) * self.stride[1] + column % self.stride[1];
        PlaneOffset {
            plane: channel * self.per_channel() + phase,
            offset: row / self.stride[0] * self.size[1] + column / self.stride[1],
        }
    }

    /// Returns the offset of a tap.
    pub(super) fn tap_offset(
        &self,
        shape: &ConvShape,
        first_channel: usize,
        tap: usize,
    ) -> PlaneOffset {
        let [height, width] = shape.convolution().kernel;
        let (channel, row, column) = (tap / (height * width), tap / width % height, tap % width);
        let [rows, columns] = shape.convolution().dilation;
        self.offset_of(first_channel + channel, row * rows, column * columns)
    }

    /// Writes the thresholds of a channel of samples, planes of `plane_len` one after the other,
    /// each with its samples one after the other; the padding holds zeros.
    pub(super) fn fill(
        &self,
        shape: &ConvShape,
        inputs: &[u64],
        channel: usize,
        plane_len: usize,
        thresholds: &mut [u16],
    ) {
        let [over_rows, over_columns] = shape.windows();
        let (rows, columns) = (over_rows.axis().size, over_columns.axis().size);
        let (top, left) = (over_rows.axis().padding[0], over_columns.axis().padding[0]);
        for (sample, inputs) in inputs.chunks_exact(shape.n_inputs()).enumerate() {
            let inputs = &inputs[channel * rows * columns..][..rows * columns];
            let at = |row: usize, column: usize| {
                let PlaneOffset { plane, offset } = self.offset_of(0, row + top, column + left);
                plane * plane_len + sample * self.len() + offset
            };
            for (row, inputs) in inputs.chunks_exact(columns).enumerate() {
                if self.stride[1] == 1 {
                    for (tap_offset, &input) in thresholds[at(row, 0)..].iter_mut().zip(inputs) {
                        *tap_offset = index(input);
                    }
                    continue;
                }
                for (column, &input) in inputs.iter().enumerate() {
                    thresholds[at(row, column)] = index(input);
                }
            }
        }
    }
}
