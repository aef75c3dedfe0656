//! Convolutions in the sense of neural networks: the kernel is not flipped.

use crate::autograd::{self, is_recorded};
use crate::cpu;
use crate::dtype::DType;
use crate::error::{Error, Limit, RankNeeded, Result};
use crate::gpu::conv as gpu;
use crate::gpu::matmul::MatmulPlan;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

/// Options of a convolution over images of `D` axes.
///
/// ```
/// use aleatron_tensor::ConvOptions;
/// let options = ConvOptions { padding: [[1, 1]; 2], ..ConvOptions::default() };
/// assert_eq!((options.stride, options.groups), ([1, 1], 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvOptions<const D: usize> {
    /// The steps of the kernel.
    pub stride: [usize; D],
    /// The zeros before and after the image.
    pub padding: [[usize; 2]; D],
    /// The distance between the image elements under neighbouring kernel elements.
    pub dilation: [usize; D],
    /// The number of groups of channels; each group of the output depends on its group of the
    /// input.
    pub groups: usize,
}

impl<const D: usize> Default for ConvOptions<D> {
    fn default() -> Self {
        Self { stride: [1; D], padding: [[0; 2]; D], dilation: [1; D], groups: 1 }
    }
}

/// Options of a transposed convolution over images of `D` axes: the gradient of a convolution with
/// these options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvTransposeOptions<const D: usize> {
    /// The distance at which elements of the image spread.
    pub stride: [usize; D],
    /// The elements removed before and after the result.
    pub padding: [[usize; 2]; D],
    /// The distance between the image elements under neighbouring kernel elements.
    pub dilation: [usize; D],
    /// The elements added after the result.
    pub output_padding: [usize; D],
    /// The number of groups of channels.
    pub groups: usize,
}

impl<const D: usize> Default for ConvTransposeOptions<D> {
    fn default() -> Self {
        let ConvOptions { stride, padding, dilation, groups } = ConvOptions::default();
        Self { stride, padding, dilation, output_padding: [0; D], groups }
    }
}

/// The sizes of a convolution of images of two axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    pub(crate) groups: usize,
    /// Channels of the input and of the output in a group.
    pub(crate) channels: [usize; 2],
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// The position of the kernel's first element before the image; negative inside it.
    pub(crate) before: [isize; 2],
    /// The distance of the elements of the image, with zeros in between.
    pub(crate) spread: [usize; 2],
    /// The image with the zeros in between.
    pub(crate) extent: [usize; 2],
    pub(crate) out: [usize; 2],
}

impl Geometry {
    /// Returns the number of elements of a patch.
    pub(crate) fn depth(&self) -> usize {
        self.channels[0] * self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of positions of the result.
    pub(crate) fn positions(&self) -> usize {
        self.out[0] * self.out[1]
    }

    fn out_shape(&self) -> [usize; 4] {
        [self.images, self.groups * self.channels[1], self.out[0], self.out[1]]
    }
}

/// Larger extents are errors: positions before an image are counted modulo 2^32.
const MAX_EXTENT: u128 = 1 << 31;

/// Returns the number of positions of a window along an axis.
pub(crate) fn window_positions(
    op: &'static str,
    [size, kernel, stride, dilation]: [usize; 4],
    [before, after]: [usize; 2],
    rounding: Rounding,
) -> Result<usize> {
    for (what, value) in
        [("size of the kernel", kernel), ("stride", stride), ("dilation", dilation)]
    {
        if value == 0 {
            return Err(Error::argument(op, what, value, "it must be at least 1"));
        }
    }
    let padded = size as u128 + before as u128 + after as u128;
    if padded >= MAX_EXTENT {
        return Err(Error::TooLarge {
            what: Limit::AxisLength,
            actual: padded,
            limit: MAX_EXTENT - 1,
        });
    }
    let reach = (kernel as u128 - 1) * dilation as u128 + 1;
    if reach > padded {
        let expected = "it must not be larger than the padded input";
        return Err(Error::argument(op, "extent of the kernel", (reach, padded), expected));
    }
    let room = padded - reach;
    let steps = match rounding {
        Rounding::Down => room / stride as u128,
        // The last window must begin inside the image or what is before it.
        Rounding::Up => room
            .div_ceil(stride as u128)
            .min((size as u128 + before as u128).saturating_sub(1) / stride as u128),
    };
    Ok(steps as usize + 1)
}

/// The treatment of a last window that reaches past the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// The window is dropped.
    #[default]
    Down,
    /// The window is retained without the elements past the end.
    Up,
}

impl Tensor {
    /// Returns the convolution of sequences `[n, c, l]` with a kernel `[o, c / groups, k]`, plus a
    /// bias `[o]`.
    ///
    /// # Errors
    /// As [`Self::conv2d`].
    pub fn conv1d(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<1>,
    ) -> Result<Self> {
        const OP: &str = "conv1d";
        let (image, kernel) = (self.with_rows(OP)?, weight.with_rows(OP)?);
        let ConvOptions { stride: [stride], padding: [padding], dilation: [dilation], groups } =
            *options;
        let options = ConvOptions {
            stride: [1, stride],
            padding: [[0; 2], padding],
            dilation: [1, dilation],
            groups,
        };
        let result =
            image.convolve(OP, &kernel, bias, &options, MatmulPlan::Automatic)?.squeeze(2)?;
        Ok(report(OP, result))
    }

    /// Returns the convolution of images `[n, c, h, w]` with a kernel `[o, c / groups, kh, kw]`,
    /// plus a bias `[o]`.
    ///
    /// The image may be any view. Products are accumulated in 32 bits, then the bias is added.
    ///
    /// ```
    /// use aleatron_tensor::{ConvOptions, DType, Device, Tensor};
    /// let image = Tensor::arange(0, 9, 1, DType::F32, &Device::Cpu)?.reshape(&[1, 1, 3, 3])?;
    /// let kernel = Tensor::ones(&[1, 1, 2, 2], DType::F32, &Device::Cpu)?;
    /// let sums = image.conv2d(&kernel, None, &ConvOptions::default())?;
    /// assert_eq!(sums.to_vec::<f32>()?, [8.0, 12.0, 20.0, 24.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rank`] or [`Error::Shapes`] if the shapes are not compatible, [`Error::Argument`]
    /// for options that do not fit, [`Error::DType`] or [`Error::Promotion`] for other types than
    /// floats, [`Error::Devices`] for two devices, [`Error::Memory`] if memory is exhausted.
    pub fn conv2d(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<2>,
    ) -> Result<Self> {
        self.conv2d_by(weight, bias, options, MatmulPlan::Automatic)
    }

    /// Like [`Self::conv2d`], by a plan, which the CPU ignores.
    pub(crate) fn conv2d_by(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<2>,
        plan: MatmulPlan,
    ) -> Result<Self> {
        const OP: &str = "conv2d";
        Ok(report(OP, self.convolve(OP, weight, bias, options, plan)?))
    }

    /// Returns the transposed convolution of sequences `[n, c, l]` with a kernel `[c, o / groups,
    /// k]`, plus a bias `[o]`.
    ///
    /// # Errors
    /// As [`Self::conv2d`].
    pub fn conv_transpose1d(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvTransposeOptions<1>,
    ) -> Result<Self> {
        const OP: &str = "conv_transpose1d";
        let (image, kernel) = (self.with_rows(OP)?, weight.with_rows(OP)?);
        let options = ConvTransposeOptions {
            stride: [1, options.stride[0]],
            padding: [[0; 2], options.padding[0]],
            dilation: [1, options.dilation[0]],
            output_padding: [0, options.output_padding[0]],
            groups: options.groups,
        };
        Ok(report(OP, image.convolve_transposed(OP, &kernel, bias, &options)?.squeeze(2)?))
    }

    /// Returns the transposed convolution of images `[n, c, h, w]` with a kernel `[c, o / groups,
    /// kh, kw]`, plus a bias `[o]`: each element of the image adds the kernel, scaled by it, to the
    /// result.
    ///
    /// # Errors
    /// As [`Self::conv2d`].
    pub fn conv_transpose2d(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvTransposeOptions<2>,
    ) -> Result<Self> {
        const OP: &str = "conv_transpose2d";
        Ok(report(OP, self.convolve_transposed(OP, weight, bias, options)?))
    }

    /// Inserts an axis of one row.
    fn with_rows(&self, op: &'static str) -> Result<Self> {
        if self.rank() != 3 {
            return Err(Error::Rank {
                op,
                expected: RankNeeded::Exactly(3),
                shape: self.shape().to_vec(),
            });
        }
        self.unsqueeze(2)
    }

    fn four_axes(&self, op: &'static str) -> Result<[usize; 4]> {
        self.shape().try_into().map_err(|_| Error::Rank {
            op,
            expected: RankNeeded::Exactly(4),
            shape: self.shape().to_vec(),
        })
    }

    pub(crate) fn convolve(
        &self,
        op: &'static str,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<2>,
        plan: MatmulPlan,
    ) -> Result<Self> {
        if is_recorded([Some(self), Some(weight), bias].into_iter().flatten()) {
            return autograd::convolve(op, self, weight, bias, options, plan);
        }
        let [images, channels, rows, columns] = self.four_axes(op)?;
        let [out_channels, own_channels, kernel_rows, kernel_columns] = weight.four_axes(op)?;
        let ConvOptions { stride, padding, dilation, groups } = *options;
        check_groups(op, groups, [channels, out_channels])?;
        if own_channels != channels / groups {
            return Err(Error::shapes(op, self.shape(), weight.shape()));
        }
        let (size, kernel) = ([rows, columns], [kernel_rows, kernel_columns]);
        let mut out = [0; 2];
        for axis in 0..2 {
            let sizes = [size[axis], kernel[axis], stride[axis], dilation[axis]];
            out[axis] = window_positions(op, sizes, padding[axis], Rounding::Down)?;
        }
        let geometry = Geometry {
            images,
            groups,
            channels: [own_channels, out_channels / groups],
            kernel,
            stride,
            dilation,
            before: padding.map(|[before, _]| before as isize),
            spread: [1, 1],
            extent: size,
            out,
        };
        self.run_convolution(op, weight, bias, geometry, plan)
    }

    pub(crate) fn convolve_transposed(
        &self,
        op: &'static str,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvTransposeOptions<2>,
    ) -> Result<Self> {
        if is_recorded([Some(self), Some(weight), bias].into_iter().flatten()) {
            return autograd::convolve_transposed(op, self, weight, bias, options);
        }
        let [images, channels, rows, columns] = self.four_axes(op)?;
        let [weight_channels, own_channels, kernel_rows, kernel_columns] = weight.four_axes(op)?;
        let ConvTransposeOptions { stride, padding, dilation, output_padding, groups } = *options;
        check_groups(op, groups, [channels, groups])?;
        if weight_channels != channels {
            return Err(Error::shapes(op, self.shape(), weight.shape()));
        }
        let (size, kernel) = ([rows, columns], [kernel_rows, kernel_columns]);
        let ([mut out, mut extent], mut before) = ([[0; 2]; 2], [0isize; 2]);
        for axis in 0..2 {
            let [n, k, s, d] =
                [size[axis], kernel[axis], stride[axis], dilation[axis]].map(|x| x as i128);
            let [cut_before, cut_after] = padding[axis].map(|x| x as i128);
            for (what, value) in [("size of the kernel", k), ("stride", s), ("dilation", d)] {
                if value == 0 {
                    return Err(Error::argument(op, what, value, "it must be at least 1"));
                }
            }
            let spread = (n - 1).max(0).saturating_mul(s) + i128::from(n > 0);
            let reach = (k - 1).saturating_mul(d);
            let all = spread.saturating_add(reach).saturating_add(output_padding[axis] as i128);
            let kept = all - cut_before - cut_after;
            if n > 0 && kept <= 0 {
                return Err(Error::argument(
                    op,
                    "padding",
                    padding[axis],
                    "it must leave something of the result",
                ));
            }
            if all.saturating_add(reach) >= MAX_EXTENT as i128 {
                let (actual, limit) = (all as u128, MAX_EXTENT - 1);
                return Err(Error::TooLarge { what: Limit::AxisLength, actual, limit });
            }
            (out[axis], extent[axis]) = (kept.max(0) as usize, spread as usize);
            before[axis] = (reach - cut_before) as isize;
        }
        let geometry = Geometry {
            images,
            groups,
            channels: [channels / groups, own_channels],
            kernel,
            stride: [1, 1],
            dilation,
            before,
            spread: stride,
            extent,
            out,
        };
        // Outputs use the flipped kernel.
        let turned = weight
            .reshape(&[groups, channels / groups, own_channels, kernel_rows, kernel_columns])?
            .transpose(1, 2)?
            .flip(3)?
            .flip(4)?
            .reshape(&[groups * own_channels, channels / groups, kernel_rows, kernel_columns])?;
        self.run_convolution(op, &turned, bias, geometry, MatmulPlan::Automatic)
    }

    /// Returns a convolution whose sizes were checked.
    fn run_convolution(
        &self,
        op: &'static str,
        weight: &Self,
        bias: Option<&Self>,
        geometry: Geometry,
        plan: MatmulPlan,
    ) -> Result<Self> {
        self.check_device(op, weight)?;
        let mut dtype = promote(op, self.dtype(), weight.dtype())?;
        let shape = geometry.out_shape();
        if let Some(bias) = bias {
            self.check_device(op, bias)?;
            dtype = promote(op, dtype, bias.dtype())?;
            if bias.shape() != [shape[1]] {
                return Err(Error::shapes(op, &shape, bias.shape()));
            }
        }
        let (device, len) = (self.device(), crate::layout::elements(&shape)?);
        if len == 0 || geometry.depth() == 0 || self.is_empty() {
            let zeros = Self::zeros(&shape, dtype, &device)?;
            return match bias {
                Some(bias) if len > 0 => zeros.add(&bias.cast(dtype)?.reshape(&[shape[1], 1, 1])?),
                _ => Ok(zeros),
            };
        }
        // Kernels take the weights as a matrix.
        let matrix = weight.reshape(&[shape[1], geometry.depth()])?;
        match self.device_view()? {
            DeviceView::Cpu(_) => {
                let floats = |tensor: &Self| tensor.cast(DType::F32)?.host_view();
                let bias = bias.map(|bias| bias.cast(DType::F32)?.to_vec::<f32>()).transpose()?;
                let storage =
                    cpu::conv::run(&geometry, &floats(self)?, &floats(&matrix)?, bias.as_deref())?;
                Self::from_cpu(storage, &shape)?.cast(dtype)
            }
            DeviceView::Gpu(device, image) => {
                let (matrix, bias) = (matrix.gpu_view()?, bias.map(Self::gpu_view).transpose()?);
                let data =
                    gpu::launch(&device, &geometry, &image, &matrix, bias.as_ref(), dtype, plan)?;
                Self::from_gpu_data(&device, data, &shape)
            }
        }
    }
}

fn check_groups(op: &'static str, groups: usize, channels: [usize; 2]) -> Result<()> {
    if groups == 0 || channels.iter().any(|&channels| !channels.is_multiple_of(groups)) {
        let expected = "it must be at least 1 and divide the channels";
        return Err(Error::argument(op, "number of groups", (groups, channels), expected));
    }
    Ok(())
}

/// Returns the type of floats that two types combine to.
pub(crate) fn promote(op: &'static str, left: DType, right: DType) -> Result<DType> {
    for dtype in [left, right] {
        if !dtype.is_float() || dtype == DType::F64 {
            return Err(Error::DType { op, dtype, expected: "16- or 32-bit floats" });
        }
    }
    left.promote(right).ok_or(Error::Promotion { op, left, right })
}
