//! Resizing, one axis after the other.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Tensor};

use super::array::{Array, Number, for_number, room};
use super::inputs::{Inputs, axis, floats, size};
use super::reduce::around;
use crate::error::{Error, Result};
use crate::op::{Aspect, Coordinates, Interpolation, Nearest, Resize};

/// An axis that is resized.
struct Axis {
    axis: usize,
    input: usize,
    output: usize,
    scale: f64,
    /// The part of the input, as shares of it, for cropping.
    region: [f64; 2],
}

pub(super) fn upsample(inputs: &Inputs<'_>, interpolation: Interpolation) -> Result<Tensor> {
    let resize_as = Resize {
        interpolation,
        coordinates: Coordinates::Asymmetric,
        nearest: Nearest::Floor,
        cubic_a: -0.75,
        exclude_outside: false,
        antialias: false,
        extrapolation: 0.0,
        axes: None,
        aspect: Aspect::Stretch,
    };
    resize(&Inputs(&[inputs.maybe(0).cloned(), None, inputs.maybe(1).cloned()]), &resize_as)
}

pub(super) fn resize(inputs: &Inputs<'_>, resize: &Resize) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let over = match &resize.axes {
        Some(numbers) => numbers.iter().map(|&n| axis(n, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    let scales = inputs.maybe(2).map(floats).transpose()?.filter(|scales| !scales.is_empty());
    let sizes = inputs.maybe_ints(3)?.filter(|sizes| !sizes.is_empty());
    let region = inputs.maybe(1).map(floats).transpose()?.filter(|region| !region.is_empty());
    let mut axes = Vec::with_capacity(over.len());
    for &axis in &over {
        let input = x.shape()[axis];
        axes.push(Axis { axis, input, output: input, scale: 1.0, region: [0.0, 1.0] });
    }
    match (scales, sizes) {
        (Some(scales), None) if scales.len() == over.len() => {
            for (axis, scale) in axes.iter_mut().zip(scales) {
                axis.scale = f64::from(scale);
                let output = (axis.input as f64 * axis.scale).floor();
                if !(scale > 0.0 && output < 1e12) {
                    return Err(Error::input(2, format!("a scale of {scale}")));
                }
                axis.output = output as usize;
            }
        }
        (None, Some(sizes)) if sizes.len() == over.len() => {
            let mut ratios = Vec::with_capacity(sizes.len());
            for (axis, &wanted) in axes.iter_mut().zip(&sizes) {
                axis.output = size(wanted, "sizes")?;
                if axis.input == 0 {
                    return Err(Error::input(0, "an axis is empty"));
                }
                axis.scale = axis.output as f64 / axis.input as f64;
                ratios.push(axis.scale);
            }
            let common = match resize.aspect {
                Aspect::Stretch => None,
                Aspect::NotLarger => ratios.iter().copied().reduce(f64::min),
                Aspect::NotSmaller => ratios.iter().copied().reduce(f64::max),
            };
            if let Some(scale) = common {
                for axis in &mut axes {
                    // Halves are rounded up.
                    axis.output = (scale * axis.input as f64 + 0.5).floor() as usize;
                    axis.scale = scale;
                }
            }
        }
        _ => return Err(Error::input(2, format!("scales or sizes for {} axes are needed", over.len()))),
    }
    if let Some(region) = region {
        if region.len() != 2 * over.len() {
            return Err(Error::input(1, format!("{} numbers for {} axes", region.len(), over.len())));
        }
        for (k, axis) in axes.iter_mut().enumerate() {
            axis.region = [f64::from(region[k]), f64::from(region[over.len() + k])];
        }
    }
    if x.dtype() == DType::F32 || x.dtype() == DType::F16 {
        let mut values = Array::floats(x)?;
        apply_axes(&mut values, &axes, resize)?;
        return values.tensor_as(x.dtype());
    }
    // Integers: nearest ones stay exact, others are rounded.
    for_number!(x, T => {
        let wide = Array::<T>::read(x)?;
        let mut values = Array { shape: wide.shape.clone(), data: wide.data.iter().map(|v| v.wide() as f32).collect() };
        apply_axes(&mut values, &axes, resize)?;
        let data = values.data.iter().map(|&v| T::narrow(f64::from(v).round_ties_even())).collect();
        Array { shape: values.shape, data }.tensor()
    })
}

fn apply_axes(values: &mut Array<f32>, axes: &[Axis], resize: &Resize) -> Result<()> {
    // In 64 bits between axes.
    let mut data: Vec<f64> = values.data.iter().map(|&v| f64::from(v)).collect();
    for axis in axes {
        let is_same = axis.input == axis.output && axis.scale == 1.0;
        if is_same && resize.coordinates != Coordinates::CropAndResize {
            continue;
        }
        memory::check(64 * axis.output as u128, Quantity::Value)?;
        let taps: Vec<Option<Vec<(usize, f64)>>> =
            (0..axis.output).map(|k| taps_of(axis, k, resize)).collect();
        let [before, n, after] = around(&values.shape, axis.axis)?;
        let mut shape = values.shape.clone();
        shape[axis.axis] = axis.output;
        let mut next = room(&shape)?;
        for i in 0..before {
            for taps in &taps {
                for j in 0..after {
                    next.push(match taps {
                        None => f64::from(resize.extrapolation),
                        Some(taps) => {
                            taps.iter().map(|&(k, weight)| weight * data[(i * n + k) * after + j]).sum()
                        }
                    });
                }
            }
        }
        (data, values.shape) = (next, shape);
    }
    values.data = data.iter().map(|&v| v as f32).collect();
    Ok(())
}

/// Which elements make an output, with their weights; `None` outside a region that is cropped to.
fn taps_of(axis: &Axis, k: usize, resize: &Resize) -> Option<Vec<(usize, f64)>> {
    let Axis { input, output, scale, region, .. } = *axis;
    let (n, x) = (input as f64, k as f64);
    let at = match resize.coordinates {
        Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
        Coordinates::HalfPixelSymmetric => {
            let adjusted = output as f64 / (scale * n);
            n / 2.0 * (1.0 - adjusted) + (x + 0.5) / scale - 0.5
        }
        Coordinates::PytorchHalfPixel if output > 1 => (x + 0.5) / scale - 0.5,
        // The corners of an output that is not a whole number of elements wide are at its true width.
        Coordinates::AlignCorners if scale * n != 1.0 => x * (n - 1.0) / (scale * n - 1.0),
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
        Coordinates::Asymmetric => x / scale,
        Coordinates::CropAndResize => {
            let [start, end] = region;
            let at = match output > 1 {
                true => start * (n - 1.0) + x * (end - start) * (n - 1.0) / (output as f64 - 1.0),
                false => 0.5 * (start + end) * (n - 1.0),
            };
            if !(0.0..=n - 1.0).contains(&at) {
                return None;
            }
            at
        }
    };
    let last = input.checked_sub(1)?;
    let clamped = |index: f64| index.clamp(0.0, last as f64) as usize;
    if resize.interpolation == Interpolation::Nearest {
        let nearest = match resize.nearest {
            Nearest::RoundPreferFloor => (at - 0.5).ceil(),
            Nearest::RoundPreferCeil => (at + 0.5).floor(),
            Nearest::Floor => at.floor(),
            Nearest::Ceil => at.ceil(),
        };
        return Some(vec![(clamped(nearest), 1.0)]);
    }
    let (base, share) = (at.floor(), at - at.floor());
    // Where it makes smaller, the function is stretched so that no element is left out.
    let stretch = if resize.antialias { scale.min(1.0) } else { 1.0 };
    let reach = if resize.interpolation == Interpolation::Cubic { 2.0 } else { 1.0 };
    let start = (-reach / stretch).floor() as i64 + 1;
    let end = 2 - start;
    let weight = |distance: f64| match resize.interpolation {
        Interpolation::Cubic => cubic(distance.abs(), f64::from(resize.cubic_a)),
        _ => (1.0 - distance.abs()).max(0.0),
    };
    let mut taps: Vec<(f64, f64)> =
        (start..end).map(|k| (base + k as f64, weight((k as f64 - share) * stretch))).collect();
    if resize.exclude_outside {
        for (index, weight) in &mut taps {
            if !(0.0..n).contains(index) {
                *weight = 0.0;
            }
        }
    }
    if resize.exclude_outside || resize.antialias {
        let total: f64 = taps.iter().map(|(_, weight)| weight).sum();
        taps.iter_mut().for_each(|(_, weight)| *weight /= total);
    }
    Some(taps.into_iter().map(|(index, weight)| (clamped(index), weight)).collect())
}

/// The cubic function of a distance.
pub(super) fn cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
