//! Resizing: other numbers of elements along axes, interpolated.
//!
//! Positions in the input and weights of neighbours are computed on the host in 64 bits, so devices
//! differ only in the rounding of sums.

use aleatron_core::{Quantity, memory};

use crate::autograd::{self, is_recorded};
use crate::cpu;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Limit, Result};
use crate::gpu::resize as gpu;
use crate::layout;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

/// The choice of the nearest neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nearest {
    /// The nearer neighbour; the lower one of a tie.
    #[default]
    PreferFloor,
    /// The nearer neighbour; the upper one of a tie.
    PreferCeil,
    /// The lower neighbour.
    Floor,
    /// The upper neighbour.
    Ceil,
}

/// The interpolation between elements of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interpolation {
    /// The nearest neighbour.
    Nearest(Nearest),
    /// A straight line between two neighbours.
    Linear,
    /// A cubic convolution over four neighbours with this coefficient, often -0.75 or -0.5.
    Cubic(f64),
}

/// The positions of elements of the result in the input, by their names in ONNX.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Coordinates {
    /// Elements are at the centres of pixels.
    #[default]
    HalfPixel,
    /// As `HalfPixel`, with the centre of the image fixed if the scale is not the ratio of the
    /// sizes.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but a single element of the result is the first of the input.
    PytorchHalfPixel,
    /// The first and the last elements keep their positions.
    AlignCorners,
    /// Elements are at the beginnings of pixels.
    Asymmetric,
    /// A part of the input is resized; positions outside the input have this value.
    CropAndResize(f32),
}

/// An axis to resize.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizeAxis {
    /// The axis; negative ones count from the end.
    pub axis: isize,
    /// The new size of the axis.
    pub size: usize,
    /// The scale, if it is not the ratio of the new size to the old one.
    pub scale: Option<f64>,
    /// The part of the input that is resized, for [`Coordinates::CropAndResize`]: all of it is
    /// from 0 to 1.
    pub region: [f64; 2],
}

impl ResizeAxis {
    /// Creates an axis with a new size.
    #[must_use]
    pub fn new(axis: isize, size: usize) -> Self {
        Self { axis, size, scale: None, region: [0.0, 1.0] }
    }
}

/// The width of the interpolating function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Filter {
    /// The width of the elements of the input.
    #[default]
    Fixed,
    /// The width of the elements of the result if the result is smaller: details are smoothed.
    Antialias,
}

/// The weight of neighbours outside the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Border {
    /// The elements at the edge are repeated.
    #[default]
    Repeat,
    /// They are ignored, and the other weights are normalised.
    Ignore,
}

/// Options of resizing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizeOptions {
    /// The interpolation between elements of the input.
    pub interpolation: Interpolation,
    /// The positions of elements of the result in the input.
    pub coordinates: Coordinates,
    /// The width of the interpolating function.
    pub filter: Filter,
    /// The weight of neighbours outside the input.
    pub border: Border,
}

impl ResizeOptions {
    /// Creates options that interpolate between the centres of pixels.
    #[must_use]
    pub fn new(interpolation: Interpolation) -> Self {
        let (coordinates, filter, border) = Default::default();
        Self { interpolation, coordinates, filter, border }
    }
}

/// The largest number of neighbours of an element: a loop of a kernel runs over them.
const MAX_TAPS: usize = 65_534;

/// The longest axis that can be resized: the table of its neighbours must stay small.
const MAX_RESIZED: u128 = 1 << 28;

/// The position outside the input.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// The neighbours of the elements along one axis, equally many for each, with their weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taps {
    pub(crate) count: usize,
    pub(crate) positions: Vec<u32>,
    pub(crate) weights: Vec<f32>,
    /// The value outside the input.
    pub(crate) outside: f32,
}

impl Taps {
    /// Returns the neighbours of the elements of an axis of `len` elements.
    fn new(op: &'static str, len: usize, to: &ResizeAxis, options: &ResizeOptions) -> Result<Self> {
        let ResizeOptions { interpolation, coordinates, filter, border } = *options;
        let scale = to.scale.unwrap_or(to.size as f64 / len as f64);
        // A stretched function covers every element if the result is smaller.
        let stretch = if filter == Filter::Antialias { scale.min(1.0) } else { 1.0 };
        let reach = match interpolation {
            Interpolation::Nearest(_) => 0.0,
            Interpolation::Linear => (1.0 / stretch).ceil(),
            Interpolation::Cubic(_) => (2.0 / stretch).ceil(),
        };
        if 2.0 * reach > MAX_TAPS as f64 {
            return Err(Error::argument(
                op,
                "scale",
                scale,
                "at most 65534 elements may count for one of the result",
            ));
        }
        let reach = reach as i64;
        let count = (2 * reach).max(1) as usize;
        let outside = match coordinates {
            Coordinates::CropAndResize(value) => value,
            _ => 0.0,
        };
        let entries = to.size as u128 * count as u128;
        let positions = memory::with_capacity(entries, Quantity::Words)?;
        let weights = memory::with_capacity(entries, Quantity::Words)?;
        let mut taps = Self { count, positions, weights, outside };
        let last = len as f64 - 1.0;
        let clamped = |position: f64| position.clamp(0.0, last) as u32;
        for i in 0..to.size {
            let x = coordinate(i, len, to, coordinates);
            let is_outside =
                matches!(coordinates, Coordinates::CropAndResize(_)) && !(0.0..=last).contains(&x);
            if is_outside {
                taps.positions.extend(std::iter::repeat_n(OUTSIDE, count));
                taps.weights.extend(std::iter::repeat_n(0.0, count));
                continue;
            }
            if let Interpolation::Nearest(nearest) = interpolation {
                let position = match nearest {
                    Nearest::PreferFloor => (x - 0.5).ceil(),
                    Nearest::PreferCeil => (x + 0.5).floor(),
                    Nearest::Floor => x.floor(),
                    Nearest::Ceil => x.ceil(),
                };
                taps.positions.push(clamped(position));
                taps.weights.push(1.0);
                continue;
            }
            let (below, fraction) = (x.floor(), x - x.floor());
            let weight = |step: i64| {
                let is_counted =
                    border == Border::Repeat || (0.0..=last).contains(&(below + step as f64));
                let distance = ((step as f64 - fraction) * stretch).abs();
                match interpolation {
                    _ if !is_counted => 0.0,
                    Interpolation::Cubic(a) => cubic(distance, a),
                    _ => (1.0 - distance).max(0.0),
                }
            };
            let steps = 1 - reach..1 + reach;
            let is_whole = border == Border::Repeat && filter == Filter::Fixed;
            let total = if is_whole { 1.0 } else { steps.clone().map(weight).sum::<f64>() };
            taps.positions.extend(steps.clone().map(|step| clamped(below + step as f64)));
            taps.weights.extend(steps.map(|step| (weight(step) / total) as f32));
        }
        Ok(taps)
    }
}

/// Returns the cubic function of a distance.
fn cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// Returns the position of an element of the result in the input.
fn coordinate(i: usize, len: usize, to: &ResizeAxis, coordinates: Coordinates) -> f64 {
    let (i, len, size) = (i as f64, len as f64, to.size as f64);
    let scale = to.scale.unwrap_or(size / len);
    let width = to.scale.map_or(size, |scale| scale * len);
    let half_pixel = (i + 0.5) / scale - 0.5;
    match coordinates {
        Coordinates::HalfPixel => half_pixel,
        Coordinates::HalfPixelSymmetric => {
            let adjustment = size / (scale * len);
            len / 2.0 * (1.0 - adjustment) + half_pixel
        }
        Coordinates::PytorchHalfPixel if size > 1.0 => half_pixel,
        // The corners of a result that is not a whole number of elements wide are at its true
        // width.
        Coordinates::AlignCorners if width != 1.0 => i * (len - 1.0) / (width - 1.0),
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
        Coordinates::Asymmetric => i / scale,
        Coordinates::CropAndResize(_) => {
            let [start, end] = to.region;
            if size > 1.0 {
                start * (len - 1.0) + i * (end - start) * (len - 1.0) / (size - 1.0)
            } else {
                0.5 * (start + end) * (len - 1.0)
            }
        }
    }
}

impl Tensor {
    /// Resizes some axes, one after another; sums are accumulated in 32 bits.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Interpolation, ResizeAxis, ResizeOptions, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 3.0], &[2], &Device::Cpu)?;
    /// let wide = x.resize(&[ResizeAxis::new(0, 4)], &ResizeOptions::new(Interpolation::Linear))?;
    /// assert_eq!(wide.to_vec::<f32>()?, [1.0, 1.5, 2.5, 3.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] or [`Error::RepeatedAxis`] for wrong axes, [`Error::Argument`] for a scale
    /// or a region that is not finite, or if an empty axis would get elements, [`Error::DType`] for
    /// other types than floats unless the nearest elements are taken, [`Error::Memory`] if memory
    /// is exhausted.
    pub fn resize(&self, axes: &[ResizeAxis], options: &ResizeOptions) -> Result<Self> {
        const OP: &str = "resize";
        let dtype = self.dtype();
        let is_choice = matches!(options.interpolation, Interpolation::Nearest(_))
            && !matches!(options.coordinates, Coordinates::CropAndResize(_));
        // Weighted elements are computed in 32 bits.
        let is_exact = !dtype.is_float() || dtype == DType::F64;
        if is_exact && !is_choice {
            return Err(Error::DType {
                op: OP,
                dtype,
                expected: "16- or 32-bit floats, unless the nearest element is taken,",
            });
        }
        let mut shape = self.shape().to_vec();
        let mut steps = Vec::with_capacity(axes.len());
        for to in axes {
            let axis = layout::axis(OP, to.axis, self.rank())?;
            if steps.iter().any(|&(other, _)| other == axis) {
                return Err(Error::RepeatedAxis { op: OP, axis: to.axis });
            }
            if to.scale.is_some_and(|scale| !(scale.is_finite() && scale > 0.0)) {
                return Err(Error::argument(
                    OP,
                    "scale",
                    to.scale,
                    "it must be positive and finite",
                ));
            }
            if !to.region.iter().all(|end| end.is_finite()) {
                return Err(Error::argument(OP, "region", to.region, "it must be finite"));
            }
            let len = self.shape()[axis];
            if len == 0 && to.size > 0 {
                return Err(Error::argument(
                    OP,
                    "size",
                    to.size,
                    "an axis without elements stays so",
                ));
            }
            if to.size as u128 > MAX_RESIZED || len as u128 > MAX_RESIZED {
                let (actual, limit) = (to.size.max(len) as u128, MAX_RESIZED);
                return Err(Error::TooLarge { what: Limit::AxisLength, actual, limit });
            }
            shape[axis] = to.size;
            steps.push((axis, to));
        }
        layout::elements(&shape)?;
        let device = self.device();
        if shape.contains(&0) {
            return Ok(report(OP, Self::zeros(&shape, dtype, &device)?));
        }
        // Axes that become smaller are resized first, which leaves less work for the others.
        steps.sort_by(|(a, to_a), (b, to_b)| {
            let ratio = |axis: usize, to: &ResizeAxis| to.size as f64 / self.shape()[axis] as f64;
            ratio(*a, to_a).total_cmp(&ratio(*b, to_b))
        });
        let mut resized = self.clone();
        for (i, &(axis, to)) in steps.iter().enumerate() {
            let taps = Taps::new(OP, self.shape()[axis], to, options)?;
            if is_exact {
                let positions: Vec<i32> =
                    taps.positions.iter().map(|&position| position as i32).collect();
                let positions = Self::from_slice(&positions, &[positions.len()], &device)?;
                resized = resized.index_select(axis as isize, &positions)?;
                continue;
            }
            // Intermediate results stay in 32 bits, so that 16-bit floats are rounded once.
            let to_dtype = if i + 1 == steps.len() { dtype } else { DType::F32 };
            resized = resized.resample(axis, &taps, to_dtype, &device)?;
        }
        Ok(report(OP, resized))
    }

    fn resample(&self, axis: usize, taps: &Taps, dtype: DType, device: &Device) -> Result<Self> {
        if is_recorded([self]) {
            let output = self.detach().resample(axis, taps, dtype, device)?;
            return autograd::resample(self, axis, taps, &output);
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = taps.positions.len() / taps.count;
        match self.device_view()? {
            DeviceView::Cpu(_) => {
                let view = self.cast(DType::F32)?.host_view()?;
                Self::from_cpu(cpu::resize::run(&view, axis, taps, &shape)?, &shape)?.cast(dtype)
            }
            DeviceView::Gpu(gpu_device, view) => {
                // Positions and weights, one behind the other.
                let words: Vec<i32> = taps
                    .positions
                    .iter()
                    .map(|&position| position as i32)
                    .chain(taps.weights.iter().map(|weight| weight.to_bits() as i32))
                    .collect();
                let table = Self::from_slice(&words, &[words.len()], device)?.gpu_view()?;
                let data = gpu::launch(&gpu_device, &view, axis, taps, &table, &shape, dtype)?;
                Self::from_gpu_data(&gpu_device, data, &shape)
            }
        }
    }
}
