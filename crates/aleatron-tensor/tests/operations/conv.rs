//! Convolutions compared with exact ones, on every device.

use crate::common::{Draw, U, all_devices, assert_within, devices, gpu, views};
use aleatron_tensor::{ConvOptions, ConvTransposeOptions, DType, Device, Error, Tensor};
use half::f16;

/// Returns a convolution in 64 bits, and the sums of absolute products.
fn exact(
    x: &[f32],
    [images, channels, height, width]: [usize; 4],
    w: &[f32],
    [out_channels, own, kh, kw]: [usize; 4],
    bias: Option<&[f32]>,
    options: &ConvOptions<2>,
) -> ([usize; 4], Vec<f64>, Vec<f64>) {
    let ConvOptions { stride, padding, dilation, groups } = *options;
    let out = |size: usize, kernel: usize, axis: usize| {
        (size + padding[axis][0] + padding[axis][1] - dilation[axis] * (kernel - 1) - 1)
            / stride[axis]
            + 1
    };
    let (oh, ow) = (out(height, kh, 0), out(width, kw, 1));
    let (mut sums, mut absolute) = (Vec::new(), Vec::new());
    for n in 0..images {
        for o in 0..out_channels {
            let first = o / (out_channels / groups) * own;
            for y in 0..oh {
                for z in 0..ow {
                    let (mut sum, mut total) = (0.0, 0.0);
                    for c in 0..own {
                        for i in 0..kh {
                            for j in 0..kw {
                                let row =
                                    (y * stride[0] + i * dilation[0]).wrapping_sub(padding[0][0]);
                                let column =
                                    (z * stride[1] + j * dilation[1]).wrapping_sub(padding[1][0]);
                                if row < height && column < width {
                                    let offset = ((n * channels + first + c) * height + row)
                                        * width
                                        + column;
                                    let weight = f64::from(w[((o * own + c) * kh + i) * kw + j]);
                                    let product = f64::from(x[offset]) * weight;
                                    sum += product;
                                    total += product.abs();
                                }
                            }
                        }
                    }
                    let bias = bias.map_or(0.0, |bias| f64::from(bias[o]));
                    sums.push(sum + bias);
                    absolute.push(total + bias.abs());
                }
            }
        }
    }
    ([images, out_channels, oh, ow], sums, absolute)
}

/// Each product, each of its additions, the addition of a slice and that of the bias is rounded.
fn gamma(depth: usize) -> f64 {
    let roundings = (depth + depth / 512 + 2) as f64 * U;
    roundings / (1.0 - roundings)
}

struct Case {
    x: Vec<f32>,
    x_shape: [usize; 4],
    w: Vec<f32>,
    w_shape: [usize; 4],
    bias: Option<Vec<f32>>,
    options: ConvOptions<2>,
}

impl Case {
    fn new(
        draw: &mut Draw,
        x_shape: [usize; 4],
        w_shape: [usize; 4],
        options: ConvOptions<2>,
    ) -> Self {
        let x = draw.floats(x_shape.iter().product(), -1.0, 1.0);
        let w = draw.floats(w_shape.iter().product(), -1.0, 1.0);
        let bias = (draw.below(2) == 0).then(|| draw.floats(w_shape[0], -1.0, 1.0));
        Self { x, x_shape, w, w_shape, bias, options }
    }

    #[track_caller]
    fn check(&self, what: &str, image: &Tensor, weight: &Tensor) {
        let device = image.device();
        let bias = self
            .bias
            .as_ref()
            .map(|bias| Tensor::from_slice(bias, &[bias.len()], &device).unwrap());
        let got = image.conv2d(weight, bias.as_ref(), &self.options).unwrap();
        let (shape, want, absolute) = exact(
            &self.x,
            self.x_shape,
            &self.w,
            self.w_shape,
            self.bias.as_deref(),
            &self.options,
        );
        assert_eq!(got.shape(), shape, "{what}");
        let depth: usize = self.w_shape[1..].iter().product();
        let text =
            format!("{what}: {:?} {:?} {:?} on {device}", self.x_shape, self.w_shape, self.options);
        assert_within(&text, &got.to_vec::<f32>().unwrap(), &want, |i| gamma(depth) * absolute[i]);
    }

    #[track_caller]
    fn check_on(&self, device: &Device) {
        let image = Tensor::from_slice(&self.x, &self.x_shape, device).unwrap();
        let weight = Tensor::from_slice(&self.w, &self.w_shape, device).unwrap();
        self.check("in order", &image, &weight);
    }
}

/// All sizes up to 4 of image and kernel, with all strides, paddings and dilations up to 2 that
/// fit.
#[test]
fn all_small_shapes_match_reference() {
    let mut draw = Draw::new(21);
    for device in devices() {
        for height in 1..=4 {
            for kernel in 1..=3 {
                for stride in 1..=2 {
                    for dilation in 1..=2 {
                        for before in 0..=1 {
                            if height + before + 1 < dilation * (kernel - 1) + 1 {
                                continue;
                            }
                            let options = ConvOptions {
                                stride: [stride, 1],
                                padding: [[before, 1], [0, before]],
                                dilation: [dilation, 1],
                                groups: 1,
                            };
                            let case =
                                Case::new(&mut draw, [2, 2, height, 5], [3, 2, kernel, 2], options);
                            case.check_on(&device);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn larger_shapes_and_groups_match_reference() {
    let mut draw = Draw::new(22);
    let padded =
        |padding: usize| ConvOptions { padding: [[padding; 2]; 2], ..ConvOptions::default() };
    for device in devices() {
        for (x_shape, w_shape, options) in [
            ([2, 3, 17, 19], [5, 3, 3, 3], padded(1)),
            ([1, 64, 14, 14], [70, 64, 3, 3], padded(1)),
            ([2, 8, 9, 9], [8, 1, 3, 3], ConvOptions { groups: 8, ..padded(1) }),
            ([2, 8, 9, 9], [16, 1, 3, 3], ConvOptions { groups: 8, ..padded(1) }),
            ([1, 12, 8, 8], [24, 4, 3, 3], ConvOptions { groups: 3, stride: [2, 2], ..padded(1) }),
            ([3, 16, 10, 12], [40, 16, 1, 1], ConvOptions::default()),
            ([1, 3, 30, 30], [8, 3, 7, 7], ConvOptions { stride: [2, 2], ..padded(3) }),
            (
                [1, 1, 5, 300],
                [1, 1, 1, 9],
                ConvOptions { dilation: [1, 3], ..ConvOptions::default() },
            ),
            ([1, 130, 7, 7], [140, 130, 1, 1], ConvOptions::default()),
            // Lines of several vectors, wide padding, more positions than a block, rows skipped.
            ([1, 1, 28, 28], [6, 1, 5, 5], padded(2)),
            (
                [1, 1, 9, 12],
                [4, 1, 1, 3],
                ConvOptions { padding: [[0, 0], [12, 12]], ..ConvOptions::default() },
            ),
            ([1, 2, 60, 61], [4, 2, 3, 3], padded(1)),
            ([1, 2, 20, 20], [4, 2, 3, 3], ConvOptions { stride: [2, 1], ..padded(0) }),
        ] {
            Case::new(&mut draw, x_shape, w_shape, options).check_on(&device);
        }
    }
}

#[test]
fn convolutions_of_views_match_reference() {
    let mut draw = Draw::new(23);
    let options = ConvOptions { padding: [[1, 0], [2, 1]], ..ConvOptions::default() };
    let case = Case::new(&mut draw, [2, 4, 6, 7], [5, 4, 3, 2], options);
    for device in all_devices() {
        for (image_kind, image) in views(&case.x, &case.x_shape, &device) {
            for (weight_kind, weight) in views(&case.w, &case.w_shape, &device) {
                case.check(&format!("{image_kind} by {weight_kind}"), &image, &weight);
            }
        }
    }
}

#[test]
fn halves_are_accumulated_in_32_bits() {
    let mut draw = Draw::new(24);
    for device in devices() {
        for (x_shape, w_shape) in [([1, 3, 9, 9], [5, 3, 3, 3]), ([1, 80, 4, 4], [6, 80, 3, 3])] {
            let mut case = Case::new(&mut draw, x_shape, w_shape, ConvOptions::default());
            for values in [&mut case.x, &mut case.w] {
                values.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
            }
            if let Some(bias) = &mut case.bias {
                bias.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
            }
            let of = |data: &[f32], shape: &[usize]| {
                Tensor::from_slice(data, shape, &device).unwrap().cast(DType::F16).unwrap()
            };
            let bias = case.bias.as_ref().map(|bias| of(bias, &[bias.len()]));
            let got = of(&case.x, &x_shape)
                .conv2d(&of(&case.w, &w_shape), bias.as_ref(), &case.options)
                .unwrap();
            assert_eq!(got.dtype(), DType::F16);
            let (_, want, absolute) =
                exact(&case.x, x_shape, &case.w, w_shape, case.bias.as_deref(), &case.options);
            let got: Vec<f32> = got.to_vec::<f16>().unwrap().into_iter().map(f16::to_f32).collect();
            let depth: usize = w_shape[1..].iter().product();
            assert_within(&format!("{device}"), &got, &want, |i| {
                let sum = gamma(depth) * absolute[i];
                sum + (want[i].abs() + sum) / 2048.0 + f64::powi(2.0, -25)
            });
        }
    }
}

#[test]
fn sequences_equal_images_of_one_row() {
    let mut draw = Draw::new(25);
    for device in devices() {
        let (x, w) = (draw.floats(2 * 4 * 11, -1.0, 1.0), draw.floats(6 * 2 * 3, -1.0, 1.0));
        let image = Tensor::from_slice(&x, &[2, 4, 11], &device).unwrap();
        let weight = Tensor::from_slice(&w, &[6, 2, 3], &device).unwrap();
        let options = ConvOptions { stride: [2], padding: [[2, 1]], dilation: [2], groups: 2 };
        let got = image.conv1d(&weight, None, &options).unwrap();
        let wide =
            ConvOptions { stride: [1, 2], padding: [[0; 2], [2, 1]], dilation: [1, 2], groups: 2 };
        let (shape, want, absolute) = exact(&x, [2, 4, 1, 11], &w, [6, 2, 1, 3], None, &wide);
        assert_eq!(got.shape(), [shape[0], shape[1], shape[3]]);
        assert_within("conv1d", &got.to_vec::<f32>().unwrap(), &want, |i| gamma(6) * absolute[i]);
    }
}

/// A transposed convolution is what makes the convolution's inner products equal: <conv(x), y> =
/// <x, conv_transpose(y)>. Elements are computed one by one here: each of the image spreads over
/// the result.
#[test]
fn transposed_convolutions_match_reference() {
    let mut draw = Draw::new(26);
    for device in devices() {
        for (stride, dilation, padding, output_padding, groups) in [
            ([1, 1], [1, 1], [[0, 0], [0, 0]], [0, 0], 1),
            ([2, 3], [1, 1], [[1, 0], [0, 2]], [1, 0], 1),
            ([2, 1], [2, 1], [[1, 1], [2, 2]], [0, 0], 2),
            ([3, 2], [1, 2], [[3, 0], [0, 1]], [2, 1], 2),
        ] {
            let (channels, own, kh, kw, height, width) = (4, 3, 3, 2, 4, 5);
            let x = draw.floats(2 * channels * height * width, -1.0, 1.0);
            let w = draw.floats(channels * own * kh * kw, -1.0, 1.0);
            let bias = draw.floats(own * groups, -1.0, 1.0);
            let size = |n: usize, k: usize, axis: usize| {
                (n - 1) * stride[axis] + dilation[axis] * (k - 1) + 1 + output_padding[axis]
                    - padding[axis][0]
                    - padding[axis][1]
            };
            let (oh, ow) = (size(height, kh, 0), size(width, kw, 1));
            let mut want = vec![0.0f64; 2 * groups * own * oh * ow];
            let mut absolute = want.clone();
            for (i, (want, absolute)) in want.iter_mut().zip(&mut absolute).enumerate() {
                *want = f64::from(bias[i / (oh * ow) % (groups * own)]);
                *absolute = want.abs();
            }
            for n in 0..2 {
                for c in 0..channels {
                    for y in 0..height {
                        for z in 0..width {
                            for o in 0..own {
                                for i in 0..kh {
                                    for j in 0..kw {
                                        let row = (y * stride[0] + i * dilation[0])
                                            .wrapping_sub(padding[0][0]);
                                        let column = (z * stride[1] + j * dilation[1])
                                            .wrapping_sub(padding[1][0]);
                                        if row < oh && column < ow {
                                            let channel = c / (channels / groups) * own + o;
                                            let at = ((n * groups * own + channel) * oh + row) * ow
                                                + column;
                                            let x = f64::from(
                                                x[((n * channels + c) * height + y) * width + z],
                                            );
                                            let product =
                                                x * f64::from(w[((c * own + o) * kh + i) * kw + j]);
                                            want[at] += product;
                                            absolute[at] += product.abs();
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            let image = Tensor::from_slice(&x, &[2, channels, height, width], &device).unwrap();
            let weight = Tensor::from_slice(&w, &[channels, own, kh, kw], &device).unwrap();
            let bias = Tensor::from_slice(&bias, &[own * groups], &device).unwrap();
            let options =
                ConvTransposeOptions { stride, padding, dilation, output_padding, groups };
            let got = image.conv_transpose2d(&weight, Some(&bias), &options).unwrap();
            assert_eq!(got.shape(), [2, groups * own, oh, ow]);
            let what = format!("{options:?} on {device}");
            assert_within(&what, &got.to_vec::<f32>().unwrap(), &want, |i| {
                gamma(channels * kh * kw) * absolute[i]
            });
        }
        // A sequence.
        let x = Tensor::from_slice(&[1.0f32, 2.0], &[1, 1, 2], &device).unwrap();
        let w = Tensor::from_slice(&[1.0f32, 10.0, 100.0], &[1, 1, 3], &device).unwrap();
        let options = ConvTransposeOptions { stride: [2], ..ConvTransposeOptions::default() };
        let got = x.conv_transpose1d(&w, None, &options).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [1.0, 10.0, 102.0, 20.0, 200.0]);
    }
}

#[test]
fn empty_convolutions_are_empty_and_invalid_ones_are_errors() {
    for device in devices() {
        let of = |shape: &[usize]| Tensor::ones(shape, DType::F32, &device).unwrap();
        let plain = ConvOptions::<2>::default();
        assert_eq!(
            of(&[0, 2, 4, 4]).conv2d(&of(&[3, 2, 2, 2]), None, &plain).unwrap().shape(),
            [0, 3, 3, 3]
        );
        let none = of(&[1, 0, 4, 4]).conv2d(&of(&[2, 0, 3, 3]), Some(&of(&[2])), &plain).unwrap();
        assert_eq!(none.to_vec::<f32>().unwrap(), [1.0; 8]);
        let refused = |result: aleatron_tensor::Result<Tensor>| result.unwrap_err();
        let x = of(&[1, 4, 5, 5]);
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 3, 3, 3]), None, &plain)),
            Error::Shapes { .. }
        ));
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 4, 6, 3]), None, &plain)),
            Error::Argument { .. }
        ));
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 4, 0, 3]), None, &plain)),
            Error::Argument { .. }
        ));
        let groups = ConvOptions { groups: 3, ..plain };
        assert!(matches!(
            refused(x.conv2d(&of(&[3, 1, 3, 3]), None, &groups)),
            Error::Argument { .. }
        ));
        let none = ConvOptions { stride: [0, 1], ..plain };
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 4, 3, 3]), None, &none)),
            Error::Argument { .. }
        ));
        let huge = ConvOptions { padding: [[usize::MAX, 1], [0, 0]], ..plain };
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 4, 3, 3]), None, &huge)),
            Error::TooLarge { .. }
        ));
        assert!(matches!(
            refused(x.conv2d(&of(&[2, 4, 3, 3]), Some(&of(&[3])), &plain)),
            Error::Shapes { .. }
        ));
        assert!(matches!(
            refused(x.select(0, 0).unwrap().conv2d(&of(&[2, 4, 3, 3]), None, &plain)),
            Error::Rank { .. }
        ));
        let integers = x.cast(DType::I32).unwrap();
        assert!(matches!(refused(integers.conv2d(&integers, None, &plain)), Error::DType { .. }));
        // One step that is longer than the image, and one distance that is never taken.
        let wide = of(&[1, 4, 2, 28]);
        for stride in [[1 << 62, 1], [1 << 63, 2]] {
            let long = ConvOptions { stride, ..plain };
            let got = wide.conv2d(&of(&[1, 4, 1, 1]), None, &long).unwrap();
            assert_eq!(got.shape(), [1, 1, 1, 28 / stride[1]]);
            assert_eq!(got.to_vec::<f32>().unwrap(), vec![4.0; 28 / stride[1]]);
        }
        let long = ConvOptions { stride: [1 << 40, 1 << 40], dilation: [1 << 40, 1], ..plain };
        let got = x.conv2d(&of(&[1, 4, 1, 2]), None, &long).unwrap();
        assert_eq!((got.shape(), got.to_vec::<f32>().unwrap()), (&[1, 1, 1, 1][..], vec![8.0]));
    }
    let x = Tensor::ones(&[1, 1, 2, 2], DType::F32, &Device::Cpu).unwrap();
    let there = x.to_device(&gpu()).unwrap();
    assert!(matches!(x.conv2d(&there, None, &ConvOptions::default()), Err(Error::Devices { .. })));
}
