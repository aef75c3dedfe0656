//! Gradients of convolutions.

use super::node::attach;
use crate::cpu;
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::matmul::MatmulPlan;
use crate::ops::conv::Geometry;
use crate::ops::{ConvOptions, ConvTransposeOptions};
use crate::tensor::{DeviceView, Tensor};

/// Records a convolution.
pub(crate) fn convolve(
    op: &'static str,
    image: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions<2>,
    plan: MatmulPlan,
) -> Result<Tensor> {
    let (x, w, b) = (image.detach(), weight.detach(), bias.map(Tensor::detach));
    let output = x.convolve(op, &w, b.as_ref(), options, plan)?;
    let options = *options;
    let (size, kernel) = (last_two(&x), last_two(&w));
    // An argument is retained only if the gradient of the other one needs it.
    let (x, w) = (weight.is_tracked().then_some(x), image.is_tracked().then_some(w));
    let tracks_bias = bias.map(Tensor::is_tracked);
    let inputs: Vec<&Tensor> = [Some(image), Some(weight), bias].into_iter().flatten().collect();
    Ok(attach(op, &inputs, &output, move |g| {
        let g = g.contiguous()?;
        let mut gradients = vec![
            w.map(|w| input_gradient(op, &g, &w, size, &options)).transpose()?,
            x.map(|x| weight_gradient(op, &x, &g, kernel, &options)).transpose()?,
        ];
        if let Some(is_tracked) = tracks_bias {
            gradients.push(is_tracked.then(|| g.sum([0, 2, 3])).transpose()?);
        }
        Ok(gradients)
    }))
}

/// Records a transposed convolution.
pub(crate) fn convolve_transposed(
    op: &'static str,
    image: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions<2>,
) -> Result<Tensor> {
    let (x, w, b) = (image.detach(), weight.detach(), bias.map(Tensor::detach));
    let output = x.convolve_transposed(op, &w, b.as_ref(), options)?;
    let ConvTransposeOptions { stride, padding, dilation, groups, .. } = *options;
    let options = ConvOptions { stride, padding, dilation, groups };
    let (size, kernel) = (last_two(&x), last_two(&w));
    let (x, w) = (weight.is_tracked().then_some(x), image.is_tracked().then_some(w));
    let tracks_bias = bias.map(Tensor::is_tracked);
    let inputs: Vec<&Tensor> = [Some(image), Some(weight), bias].into_iter().flatten().collect();
    let is_empty = output.is_empty() || image.is_empty();
    Ok(attach(op, &inputs, &output, move |g| {
        let g = g.contiguous()?;
        let zeros = |x: &Tensor| Tensor::zeros(x.shape(), x.dtype(), &x.device());
        let of_image = |w: Tensor| {
            // More output padding than the stride adds windows that belong to no element.
            let all = g.convolve(op, &w, None, &options, MatmulPlan::Automatic)?;
            all.slice(2, ..size[0])?.slice(3, ..size[1])
        };
        let mut gradients = if is_empty {
            let image_shape = w.as_ref().map(|w| [g.shape()[0], w.shape()[0], size[0], size[1]]);
            let of_image = image_shape
                .map(|shape| Tensor::zeros(&shape, g.dtype(), &g.device()))
                .transpose()?;
            let of_weight = x.as_ref().map(|x| {
                let shape = [x.shape()[1], g.shape()[1] / options.groups, kernel[0], kernel[1]];
                Tensor::zeros(&shape, g.dtype(), &g.device())
            });
            vec![of_image, of_weight.transpose()?]
        } else {
            vec![
                w.map(of_image).transpose()?,
                x.map(|x| weight_gradient(op, &g, &x, kernel, &options)).transpose()?,
            ]
        };
        if let Some(is_tracked) = tracks_bias {
            let sum = if g.is_empty() { zeros(&g)?.sum([0, 2, 3]) } else { g.sum([0, 2, 3]) };
            gradients.push(is_tracked.then_some(sum).transpose()?);
        }
        Ok(gradients)
    }))
}

fn last_two(x: &Tensor) -> [usize; 2] {
    let shape = x.shape();
    [shape[shape.len() - 2], shape[shape.len() - 1]]
}

/// Returns the sizes of a convolution of an image with a kernel whose result is `g`.
fn geometry(
    image: [usize; 4],
    g: &Tensor,
    kernel: [usize; 2],
    options: &ConvOptions<2>,
) -> Geometry {
    let ConvOptions { stride, padding, dilation, groups } = *options;
    let [images, channels, rows, columns] = image;
    Geometry {
        images,
        groups,
        channels: [channels / groups, g.shape()[1] / groups],
        kernel,
        stride,
        dilation,
        before: padding.map(|[before, _]| before as isize),
        spread: [1, 1],
        extent: [rows, columns],
        out: last_two(g),
    }
}

/// Returns the gradient of the image of a convolution.
fn input_gradient(
    op: &'static str,
    g: &Tensor,
    weight: &Tensor,
    size: [usize; 2],
    options: &ConvOptions<2>,
) -> Result<Tensor> {
    let channels = weight.shape()[1] * options.groups;
    let shape = [g.shape()[0], channels, size[0], size[1]];
    if g.is_empty() || weight.is_empty() || shape.contains(&0) {
        return Tensor::zeros(&shape, g.dtype(), &g.device());
    }
    let geometry = geometry(shape, g, last_two(weight), options);
    if let DeviceView::Cpu(_) = g.device_view()? {
        let matrix = weight.reshape(&[weight.shape()[0], geometry.depth()])?.cast(DType::F32)?;
        let g = g.cast(DType::F32)?;
        let storage =
            cpu::conv_gradient::of_image(&geometry, &g.host_view()?, &matrix.host_view()?)?;
        return Tensor::from_cpu(storage, &shape);
    }
    let kernel = geometry.kernel;
    let output_padding = [0, 1].map(|axis| {
        let [before, after] = options.padding[axis];
        let reach = (kernel[axis] - 1) * options.dilation[axis] + 1;
        (size[axis] + before + after - reach) % options.stride[axis]
    });
    let ConvOptions { stride, padding, dilation, groups } = *options;
    let transposed = ConvTransposeOptions { stride, padding, dilation, output_padding, groups };
    g.convolve_transposed(op, weight, None, &transposed)
}

/// Returns the gradient of the weights of a convolution of `image` whose result has the gradient
/// `g`.
fn weight_gradient(
    op: &'static str,
    image: &Tensor,
    g: &Tensor,
    kernel: [usize; 2],
    options: &ConvOptions<2>,
) -> Result<Tensor> {
    let [images, channels, rows, columns] = [0, 1, 2, 3].map(|axis| image.shape()[axis]);
    let geometry = geometry([images, channels, rows, columns], g, kernel, options);
    let [own, out_channels] = geometry.channels;
    let groups = options.groups;
    let shape = [groups * out_channels, own, kernel[0], kernel[1]];
    if image.is_empty() || g.is_empty() || shape.contains(&0) {
        return Tensor::zeros(&shape, g.dtype(), &g.device());
    }
    if let DeviceView::Cpu(_) = g.device_view()? {
        let (image, g) = (image.cast(DType::F32)?, g.cast(DType::F32)?.contiguous()?);
        let storage =
            cpu::conv_gradient::of_weight(&geometry, &image.host_view()?, &g.host_view()?)?;
        return Tensor::from_cpu(storage, &shape);
    }
    // A convolution in which images and channels are exchanged, and stride and dilation as well.
    let [out_rows, out_columns] = geometry.out;
    let image = image.reshape(&[images, groups, own, rows, columns])?.permute(&[2, 1, 0, 3, 4])?;
    let image = image.reshape(&[own, groups * images, rows, columns])?;
    let g = g
        .reshape(&[images, groups, out_channels, out_rows, out_columns])?
        .permute(&[1, 2, 0, 3, 4])?;
    let g = g.reshape(&[groups * out_channels, images, out_rows, out_columns])?;
    let exchanged = ConvOptions {
        stride: options.dilation,
        padding: options.padding,
        dilation: options.stride,
        groups,
    };
    let all = image.convolve(op, &g, None, &exchanged, MatmulPlan::Automatic)?;
    all.slice(2, ..kernel[0])?.slice(3, ..kernel[1])?.permute(&[1, 0, 2, 3])
}
