//! Convolutions on GPUs: products of the weights with patches that are read from the image as they are needed.

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::matmul::{Bias, MatmulPlan, Patches, Problem, Right, Source, run, source};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::conv::Geometry;

/// Records a convolution that is not empty. The weights are a matrix: a row for each channel of the result.
#[expect(clippy::too_many_arguments, reason = "the parts of a convolution")]
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
    let left = source(&weight.data, weight.layout.offset(), sides, &mut left_steps);
    let group_step = channels as isize * steps[1];
    // A stride or a dilation that is larger is never taken.
    let small = |sizes: [usize; 2]| sizes.map(|size| size.min(1 << 31) as u32);
    let patches = Patches { kernel: small(geometry.kernel), spread: small(geometry.spread) };
    let ([stride_y, stride_x], [dilation_y, dilation_x]) = (small(geometry.stride), small(geometry.dilation));
    let [before_y, before_x] = geometry.before.map(|before| before as u32);
    let [extent_y, extent_x] = geometry.extent.map(|extent| extent as u32);
    let problem = Problem {
        sizes: [out_channels, geometry.places(), depth],
        batch: vec![
            [images as u32, left_steps[0] as u32, steps[0] as u32],
            [groups as u32, left_steps[1] as u32, group_step as u32],
        ],
        left,
        right: Source {
            data: &image.data,
            load: Right::Patches(patches),
            words: [image.layout.offset() as u32, dilation_y, dilation_x],
        },
        bias: bias.map(|view| Bias {
            data: &view.data,
            offset: view.layout.offset() as u32,
            step: view.layout.strides()[0] as u32,
        }),
        extra: vec![
            out[1] as u32,
            before_y,
            before_x,
            extent_y,
            extent_x,
            steps[1] as u32,
            steps[2] as u32,
            steps[3] as u32,
            stride_y,
            stride_x,
        ],
        dtype,
    };
    run(device, &problem, plan)
}
