//! Resizing with the sizes and scales of ONNX.

use aleatron_tensor::{DType, ResizeAxis, Tensor};

use super::inputs::{Inputs, axis, floats, size};
use crate::error::{Error, Result};
use crate::op::{Aspect, Coordinates, Interpolation, Resize, ResizeOptions};

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
    let options =
        ResizeOptions { coordinates: Coordinates::Asymmetric, ..ResizeOptions::new(interpolation) };
    let resize_as = Resize { options, axes: None, aspect: Aspect::Stretch };
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
        _ => {
            return Err(Error::input(
                2,
                format!("scales or sizes for {} axes are needed", over.len()),
            ));
        }
    }
    if let Some(region) = region {
        if region.len() != 2 * over.len() {
            return Err(Error::input(
                1,
                format!("{} numbers for {} axes", region.len(), over.len()),
            ));
        }
        for (k, axis) in axes.iter_mut().enumerate() {
            axis.region = [f64::from(region[k]), f64::from(region[over.len() + k])];
        }
    }
    let is_cropped = matches!(resize.options.coordinates, Coordinates::CropAndResize(_));
    let changed =
        axes.iter().filter(|axis| is_cropped || axis.input != axis.output || axis.scale != 1.0);
    let steps: Vec<ResizeAxis> = changed
        .map(|to| ResizeAxis {
            scale: Some(to.scale),
            region: to.region,
            ..ResizeAxis::new(to.axis as isize, to.output)
        })
        .collect();
    let is_exact = matches!(resize.options.interpolation, Interpolation::Nearest(_)) && !is_cropped;
    if x.dtype().is_float() || is_exact {
        return Ok(x.resize(&steps, &resize.options)?);
    }
    // Means of integers are rounded.
    Ok(x.cast(DType::F32)?.resize(&steps, &resize.options)?.round()?.cast(x.dtype())?)
}
