//! Convolutions: a kernel for each output channel, moved over an image of several channels.

use crate::error::{Error, Quantity, Result};
use crate::windows::{Axis, Windows};
use std::ops::Range;

/// The parameters of a convolution, which [`ConvShape::new`] checks.
///
/// ```
/// use aleatron_core::{ConvShape, Convolution};
/// let shape = ConvShape::new(Convolution::conv2d([32, 28, 28], 64, [3, 3]).with_padding([1, 1]))?;
/// assert_eq!(shape.output(), [64, 28, 28]);
/// assert_eq!(shape.kernel_weights(), 288);
/// let wave = ConvShape::new(Convolution::conv1d([2, 100], 4, 5).with_stride([1, 2]))?;
/// assert_eq!(wave.output(), [4, 1, 48]);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The channels, rows and columns of a sample.
    pub input: [usize; 3],
    /// The channels of the result.
    pub out_channels: usize,
    /// The rows and columns of a kernel.
    pub kernel: [usize; 2],
    /// The rows and columns from one position of the kernel to the next.
    pub stride: [usize; 2],
    /// The rows of padding before and after the image, and the columns.
    pub padding: [[usize; 2]; 2],
    /// The rows and columns from one tap of the kernel to the next.
    pub dilation: [usize; 2],
    /// The number of groups of channels without connections to each other.
    pub groups: usize,
}

impl Convolution {
    /// Creates a convolution of an image, given by its channels, rows and columns, with kernels of
    /// rows and columns.
    #[must_use]
    pub const fn conv2d(input: [usize; 3], out_channels: usize, kernel: [usize; 2]) -> Self {
        let (stride, padding, dilation) = ([1, 1], [[0, 0]; 2], [1, 1]);
        Self { input, out_channels, kernel, stride, padding, dilation, groups: 1 }
    }

    /// Creates a convolution of a sequence, given by its channels and length: an image of one row.
    #[must_use]
    pub const fn conv1d([channels, size]: [usize; 2], out_channels: usize, kernel: usize) -> Self {
        Self::conv2d([channels, 1, size], out_channels, [1, kernel])
    }

    /// Sets the rows and columns from one position of the kernel to the next.
    #[must_use]
    pub const fn with_stride(self, stride: [usize; 2]) -> Self {
        Self { stride, ..self }
    }

    /// Sets the rows of padding before and after the image, and the columns.
    #[must_use]
    pub const fn with_padding(self, [rows, columns]: [usize; 2]) -> Self {
        self.with_paddings([[rows, rows], [columns, columns]])
    }

    /// Sets padding that may differ before and after.
    #[must_use]
    pub const fn with_paddings(self, padding: [[usize; 2]; 2]) -> Self {
        Self { padding, ..self }
    }

    /// Sets the rows and columns from one tap of the kernel to the next.
    #[must_use]
    pub const fn with_dilation(self, dilation: [usize; 2]) -> Self {
        Self { dilation, ..self }
    }

    /// Sets the number of groups of channels.
    #[must_use]
    pub const fn with_groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }
}

/// A convolution, or some of its output channels, with checked sizes.
///
/// Inputs and outputs are numbered by channel, row and column, the taps of a kernel by channel of
/// its group, row and column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvShape {
    convolution: Convolution,
    windows: [Windows; 2],
    first_channel: usize,
    n_channels: usize,
}

impl ConvShape {
    /// Creates a whole convolution.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for a size, stride, dilation or number of groups of 0,
    /// [`Error::Ragged`] if the groups do not divide the channels of the input or of the result,
    /// [`Error::TooLarge`] for a kernel larger than the padded image and above 2^32 inputs or
    /// outputs.
    pub fn new(convolution: Convolution) -> Result<Self> {
        let Convolution { input: [channels, ..], out_channels, groups, .. } = convolution;
        for (what, n) in [
            (Quantity::Channels, channels),
            (Quantity::Channels, out_channels),
            (Quantity::Groups, groups),
        ] {
            if n == 0 {
                return Err(Error::Zero(what));
            }
        }
        for n in [channels, out_channels] {
            if !n.is_multiple_of(groups) {
                return Err(Error::Ragged { what: Quantity::Channels, actual: n, divisor: groups });
            }
        }
        let axis = |k: usize| Axis {
            size: convolution.input[1 + k],
            kernel: convolution.kernel[k],
            stride: convolution.stride[k],
            padding: convolution.padding[k],
            dilation: convolution.dilation[k],
        };
        let windows = [Windows::new(axis(0))?, Windows::new(axis(1))?];
        let volume = |channels: usize, size: [usize; 2]| {
            channels as u128 * size[0] as u128 * size[1] as u128
        };
        for (what, n) in [
            (Quantity::Inputs, volume(channels, [convolution.input[1], convolution.input[2]])),
            (Quantity::Neurons, volume(out_channels, [windows[0].len(), windows[1].len()])),
            (Quantity::Weights, volume(channels / groups, convolution.kernel)),
        ] {
            if n > 1 << 32 {
                return Err(Error::TooLarge { what, actual: n, limit: 1 << 32 });
            }
        }
        Ok(Self { convolution, windows, first_channel: 0, n_channels: out_channels })
    }

    /// Restricts the convolution to some of its output channels.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for an empty range, [`Error::TooLarge`] for one past the end.
    pub fn channels(&self, range: Range<usize>) -> Result<Self> {
        let (what, limit) = (Quantity::Channels, self.n_channels as u128);
        if range.end > self.n_channels {
            return Err(Error::TooLarge { what, actual: range.end as u128, limit });
        }
        if range.is_empty() {
            return Err(Error::Zero(what));
        }
        Ok(Self {
            first_channel: self.first_channel + range.start,
            n_channels: range.len(),
            ..*self
        })
    }

    /// Returns the parameters of the whole convolution.
    #[must_use]
    pub const fn convolution(&self) -> &Convolution {
        &self.convolution
    }

    /// Returns the positions of the kernel along the rows and along the columns.
    #[must_use]
    pub const fn windows(&self) -> &[Windows; 2] {
        &self.windows
    }

    /// Returns the first output channel: 0 unless restricted by [`Self::channels`].
    #[must_use]
    pub const fn first_channel(&self) -> usize {
        self.first_channel
    }

    /// Returns the number of output channels.
    #[must_use]
    pub const fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// Returns the channels, rows and columns of the result.
    #[must_use]
    pub const fn output(&self) -> [usize; 3] {
        [self.n_channels, self.windows[0].len(), self.windows[1].len()]
    }

    /// Returns the number of inputs of a sample.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        let [channels, rows, columns] = self.convolution.input;
        channels * rows * columns
    }

    /// Returns the number of positions of the kernel: the outputs of a channel.
    #[must_use]
    pub const fn n_positions(&self) -> usize {
        self.windows[0].len() * self.windows[1].len()
    }

    /// Returns the number of outputs of a sample.
    #[must_use]
    pub const fn n_outputs(&self) -> usize {
        self.n_channels * self.n_positions()
    }

    /// Returns the number of input channels of each output channel.
    #[must_use]
    pub const fn group_inputs(&self) -> usize {
        self.convolution.input[0] / self.convolution.groups
    }

    /// Returns the number of weights of an output channel: the taps of its kernel.
    #[must_use]
    pub const fn kernel_weights(&self) -> usize {
        self.group_inputs() * self.convolution.kernel[0] * self.convolution.kernel[1]
    }

    /// Returns the number of weights of all output channels.
    #[must_use]
    pub const fn n_weights(&self) -> usize {
        self.n_channels * self.kernel_weights()
    }

    /// Iterates over the groups: the first input channel of each, and its output channels among
    /// those of this shape.
    pub fn groups(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let per_group = self.convolution.out_channels / self.convolution.groups;
        let end = self.first_channel + self.n_channels;
        let groups = self.first_channel / per_group..end.div_ceil(per_group);
        groups.map(move |group| {
            let first = (group * per_group).max(self.first_channel) - self.first_channel;
            let last = ((group + 1) * per_group).min(end) - self.first_channel;
            (group * self.group_inputs(), first..last)
        })
    }

    /// Returns the first input channel of an output channel, counted from the first output channel
    /// of this shape.
    #[must_use]
    pub const fn first_input_channel(&self, channel: usize) -> usize {
        let per_group = self.convolution.out_channels / self.convolution.groups;
        (self.first_channel + channel) / per_group * self.group_inputs()
    }

    /// Returns the input under a tap of the kernel at a position, for an output channel whose input
    /// channels start at `first_input_channel`; `None` in the padding.
    #[must_use]
    pub fn input_at(
        &self,
        first_input_channel: usize,
        position: usize,
        tap: usize,
    ) -> Option<usize> {
        let ([_, rows, columns], [height, width]) =
            (self.convolution.input, self.convolution.kernel);
        let [over_rows, over_columns] = &self.windows;
        let (row, column) = (position / over_columns.len(), position % over_columns.len());
        let (channel, tap_row, tap_column) =
            (tap / (height * width), tap / width % height, tap % width);
        let row = over_rows.at(row, tap_row)?;
        let column = over_columns.at(column, tap_column)?;
        Some(((first_input_channel + channel) * rows + row) * columns + column)
    }

    /// Returns the number of products of an output at a position: the taps outside the padding.
    #[must_use]
    pub fn fan_in(&self, position: usize) -> usize {
        let [over_rows, over_columns] = &self.windows;
        let (row, column) = (position / over_columns.len(), position % over_columns.len());
        self.group_inputs() * over_rows.taps(row).len() * over_columns.taps(column).len()
    }

    /// Returns the number of products of the outputs at each position.
    #[must_use]
    pub fn fan_ins(&self) -> Vec<usize> {
        let taps = |windows: &Windows| {
            (0..windows.len()).map(|k| windows.taps(k).len()).collect::<Vec<_>>()
        };
        let [rows, columns] = [taps(&self.windows[0]), taps(&self.windows[1])];
        rows.iter()
            .flat_map(|row| columns.iter().map(move |column| self.group_inputs() * row * column))
            .collect()
    }

    /// Returns the largest number of products of an output.
    #[must_use]
    pub fn max_fan_in(&self) -> usize {
        let most = |windows: &Windows| {
            windows.runs().map(|run| windows.taps(run.start).len()).max().unwrap_or(0)
        };
        self.group_inputs() * most(&self.windows[0]) * most(&self.windows[1])
    }

    /// Returns the number of products of a sample.
    #[must_use]
    pub fn n_products(&self) -> usize {
        let per_channel =
            self.windows[0].total_taps() as u128 * self.windows[1].total_taps() as u128;
        let all = self.n_channels as u128 * self.group_inputs() as u128 * per_channel;
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}
