//! Convolutions on GPUs: products of the weights with patches that are read from the image on
//! demand.

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::matmul::{BatchAxis, Bias, MatmulPlan, Patches, Problem, Right, Source, run, source};
use super::size::{self, offset, product, size, step, wrapped};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::conv::Geometry;

/// Records a non-empty convolution. The weights are a matrix with a row for each channel of the
/// result.
pub(crate) fn launch(
    device: &GpuDevice,
    geometry: &Geometry,
    image: &GpuView,
    weight: &GpuView,
    bias: Option<&GpuView>,
    dtype: DType,
    plan: MatmulPlan,
) -> Result<GpuData> {
    let Geometry { images, groups, channels: [channels, out_channels], out, .. } = *geometry;
    let depth = geometry.depth();
    let steps = image.layout.strides();
    let weight_steps = weight.layout.strides();
    let mut left_steps = [0, out_channels as isize * weight_steps[0]];
    let sides = [(out_channels, weight_steps[0]), (depth, weight_steps[1])];
    let left = source(&weight.data, weight.layout.offset(), sides, &mut left_steps)?;
    let group_step = channels as isize * steps[1];
    let pair = |what: &'static str, [y, x]: [usize; 2]| -> Result<[u32; 2]> {
        Ok([size(what, y)?, size(what, x)?])
    };
    // A stride or a dilation that is larger is never taken.
    let taken = |distances: [usize; 2]| distances.map(|distance| distance.min(1 << 31));
    // The elements of a kernel are counted in 32 bits, too.
    product("elements of a kernel", &geometry.kernel)?;
    let patches = Patches {
        kernel: pair("size of a kernel", geometry.kernel)?,
        spread: pair("stride", taken(geometry.spread))?,
    };
    let [stride_y, stride_x] = pair("stride", taken(geometry.stride))?;
    let [dilation_y, dilation_x] = pair("dilation", taken(geometry.dilation))?;
    let [extent_y, extent_x] = pair("size of an image", geometry.extent)?;
    let [before_y, before_x] = geometry.before;
    let image_steps = size::steps(&image.layout)?;
    let problem = Problem {
        sizes: [out_channels, geometry.positions(), depth],
        batch: vec![
            BatchAxis { count: images, steps: [step(images, left_steps[0])?, image_steps[0]] },
            BatchAxis {
                count: groups,
                steps: [step(groups, left_steps[1])?, step(groups, group_step)?],
            },
        ],
        left,
        right: Source {
            data: &image.data,
            load: Right::Patches(patches),
            words: [offset(image.layout.offset())?, dilation_y, dilation_x],
        },
        bias: match bias {
            Some(view) => Some(Bias {
                data: &view.data,
                offset: offset(view.layout.offset())?,
                step: step(view.layout.shape()[0], view.layout.strides()[0])?,
            }),
            None => None,
        },
        extra: vec![
            size("columns of the result", out[1])?,
            wrapped("padding", before_y)?,
            wrapped("padding", before_x)?,
            extent_y,
            extent_x,
            image_steps[1],
            image_steps[2],
            image_steps[3],
            stride_y,
            stride_x,
        ],
        dtype,
    };
    run(device, &problem, plan)
}
