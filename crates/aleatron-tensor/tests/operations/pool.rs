//! Pooling against plain loops, on every device.

use crate::common::{Draw, U, all_devices, assert_within, devices, views};
use aleatron_tensor::{DType, Device, Error, Padding, PoolOptions, Rounding, Tensor};
use half::f16;

/// Returns the contents of each window: its elements, and the number of its positions in the image
/// or its padding.
fn windows(
    x: &[f32],
    [images, channels, height, width]: [usize; 4],
    options: &PoolOptions<2>,
) -> ([usize; 4], Vec<(Vec<f32>, usize)>) {
    let PoolOptions { kernel, stride, padding, dilation, rounding } = *options;
    let size = [height, width];
    let out = [0, 1].map(|axis| {
        let padded = size[axis] + padding[axis][0] + padding[axis][1];
        let room = padded - dilation[axis] * (kernel[axis] - 1) - 1;
        match rounding {
            Rounding::Down => room / stride[axis] + 1,
            Rounding::Up => {
                let positions = room.div_ceil(stride[axis]) + 1;
                // A window that begins past the image and its leading padding is dropped.
                if (positions - 1) * stride[axis] >= size[axis] + padding[axis][0] {
                    positions - 1
                } else {
                    positions
                }
            }
        }
    });
    let mut all = Vec::new();
    for plane in x.chunks(height * width) {
        for y in 0..out[0] {
            for z in 0..out[1] {
                let (mut elements, mut counted) = (Vec::new(), 0);
                for i in 0..kernel[0] {
                    for j in 0..kernel[1] {
                        let (row, column) =
                            (y * stride[0] + i * dilation[0], z * stride[1] + j * dilation[1]);
                        let is_counted = row < height + padding[0][0] + padding[0][1]
                            && column < width + padding[1][0] + padding[1][1];
                        counted += usize::from(is_counted);
                        let (row, column) =
                            (row.wrapping_sub(padding[0][0]), column.wrapping_sub(padding[1][0]));
                        if row < height && column < width {
                            elements.push(plane[row * width + column]);
                        }
                    }
                }
                all.push((elements, counted));
            }
        }
    }
    ([images, channels, out[0], out[1]], all)
}

fn options() -> Vec<PoolOptions<2>> {
    let mut all = Vec::new();
    for kernel in [[1, 1], [2, 2], [3, 2]] {
        for stride in [[1, 1], [2, 2], [2, 3]] {
            for padding in [[[0, 0], [0, 0]], [[1, 0], [0, 1]], [[1, 1], [1, 1]]] {
                for dilation in [[1, 1], [2, 1]] {
                    for rounding in [Rounding::Down, Rounding::Up] {
                        all.push(PoolOptions { kernel, stride, padding, dilation, rounding });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn pooling_windows_match_reference() {
    let mut draw = Draw::new(31);
    let shape = [2, 3, 7, 6];
    let x = draw.floats(shape.iter().product(), -1.0, 1.0);
    for device in devices() {
        let image = Tensor::from_slice(&x, &shape, &device).unwrap();
        for options in options() {
            let (out_shape, all) = windows(&x, shape, &options);
            let got = image.max_pool2d(&options).unwrap();
            assert_eq!(got.shape(), out_shape, "{options:?}");
            let want: Vec<f32> = all
                .iter()
                .map(|(elements, _)| elements.iter().copied().fold(f32::NEG_INFINITY, f32::max))
                .collect();
            assert_eq!(got.to_vec::<f32>().unwrap(), want, "{options:?} on {device}");
            for padding in [Padding::Ignored, Padding::Counted] {
                let got = image.avg_pool2d(&options, padding).unwrap().to_vec::<f32>().unwrap();
                let mean = |(elements, counted): &(Vec<f32>, usize)| {
                    let count = if padding == Padding::Counted { *counted } else { elements.len() };
                    elements.iter().map(|&x| f64::from(x)).sum::<f64>() / count as f64
                };
                let want: Vec<f64> = all.iter().map(mean).collect();
                // One rounding for each addition and two units for the division.
                let bound = |i: usize| {
                    let (elements, _) = &all[i];
                    let absolute: f64 = elements.iter().map(|x| f64::from(x.abs())).sum();
                    (elements.len() + 3) as f64 * U * absolute
                };
                assert_within(&format!("{options:?} {padding:?} on {device}"), &got, &want, bound);
            }
        }
    }
}

#[test]
fn views_sequences_and_halves_are_pooled() {
    let mut draw = Draw::new(32);
    let shape = [2, 3, 5, 6];
    let x = draw.floats(shape.iter().product(), -1.0, 1.0);
    let options = PoolOptions::new([2, 3]);
    for device in all_devices() {
        let want = Tensor::from_slice(&x, &shape, &device).unwrap().max_pool2d(&options).unwrap();
        let want = want.to_vec::<f32>().unwrap();
        for (kind, image) in views(&x, &shape, &device) {
            assert_eq!(
                image.max_pool2d(&options).unwrap().to_vec::<f32>().unwrap(),
                want,
                "{kind} on {device}"
            );
        }
        let line =
            Tensor::arange(0, 10, 1, DType::F16, &device).unwrap().reshape(&[1, 1, 10]).unwrap();
        let got = line.max_pool1d(&PoolOptions::new([4])).unwrap();
        assert_eq!(got.to_vec::<f16>().unwrap(), [3.0, 7.0].map(f16::from_f32));
        let got = line.avg_pool1d(&PoolOptions::new([4]), Padding::Ignored).unwrap();
        assert_eq!(got.to_vec::<f16>().unwrap(), [1.5, 5.5].map(f16::from_f32));
    }
}

#[test]
fn max_pool_of_nan_is_nan_and_of_padding_is_minus_infinity() {
    for device in devices() {
        let x = [1.0f32, f32::NAN, 3.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY];
        let image = Tensor::from_slice(&x, &[1, 1, 1, 6], &device).unwrap();
        let got = image.max_pool2d(&PoolOptions::new([1, 1])).unwrap().to_vec::<f32>().unwrap();
        assert!(got[1].is_nan() && got[3] == f32::NEG_INFINITY && got[5] == f32::INFINITY);
        let got = image.max_pool2d(&PoolOptions::new([1, 3])).unwrap().to_vec::<f32>().unwrap();
        assert!(got[0].is_nan() && got[1] == f32::INFINITY, "{got:?}");
        let options = PoolOptions { padding: [[1, 0], [0, 0]], ..PoolOptions::new([1, 6]) };
        let got = image.max_pool2d(&options).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(got[0], f32::NEG_INFINITY);
        let got = image.avg_pool2d(&options, Padding::Ignored).unwrap().to_vec::<f32>().unwrap();
        assert!(got[0].is_nan());
    }
}

#[test]
fn global_pooling_leaves_one_element_of_each_channel() {
    for device in devices() {
        let image = Tensor::arange(0, 2 * 3 * 4 * 5, 1, DType::F32, &device).unwrap();
        let image = image.reshape(&[2, 3, 4, 5]).unwrap();
        let got = image.global_max_pool().unwrap();
        assert_eq!(got.shape(), [2, 3, 1, 1]);
        assert_eq!(got.to_vec::<f32>().unwrap(), [19.0, 39.0, 59.0, 79.0, 99.0, 119.0]);
        let got = image.global_avg_pool().unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [9.5, 29.5, 49.5, 69.5, 89.5, 109.5]);
        let deep = image.reshape(&[2, 1, 3, 4, 5]).unwrap().global_max_pool().unwrap();
        assert_eq!(
            (deep.shape(), deep.to_vec::<f32>().unwrap()),
            (&[2, 1, 1, 1, 1][..], vec![59.0, 119.0])
        );
        // More elements than iterations of a loop on some drivers.
        let large = Tensor::ones(&[1, 1, 300, 301], DType::F32, &device).unwrap();
        assert_eq!(large.global_avg_pool().unwrap().to_vec::<f32>().unwrap(), [1.0]);
    }
}

/// Windows of two by two are pooled in vectors if the columns of an image are adjacent.
#[test]
fn pairs_of_rows_have_the_bits_of_single_elements() {
    let special = [-0.0, 0.0, 1.5, f32::MAX, -f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN];
    let mut draw = Draw::new(9);
    let count = 2 * 4 * 38;
    let values: Vec<f32> = (0..count)
        .map(|k| if k % 3 == 0 { special[k / 3 % special.len()] } else { draw.float(-1.0, 1.0) })
        .collect();
    let x = Tensor::from_slice(&values, &[1, 2, 4, 38], &Device::Cpu).unwrap();
    let turned = x.transpose(2, 3).unwrap().contiguous().unwrap().transpose(2, 3).unwrap();
    let options = PoolOptions::new([2, 2]);
    let bits = |pooled: aleatron_tensor::Result<Tensor>| -> Vec<Option<u32>> {
        let values = pooled.unwrap().to_vec::<f32>().unwrap();
        values.iter().map(|x| (!x.is_nan()).then_some(x.to_bits())).collect()
    };
    assert_eq!(bits(x.max_pool2d(&options)), bits(turned.max_pool2d(&options)));
    let average = |x: &Tensor| bits(x.avg_pool2d(&options, Padding::Ignored));
    assert_eq!(average(&x), average(&turned));
}

#[test]
fn empty_images_of_any_size_are_pooled() {
    let size = 2_000_000_000;
    for shape in [[0, 1, size, 1], [1, 0, 1, size]] {
        let x = Tensor::zeros(&shape, DType::F32, &Device::Cpu).unwrap();
        assert_eq!(x.max_pool2d(&PoolOptions::new([1, 1])).unwrap().shape(), shape);
    }
}

#[test]
fn windows_larger_than_the_image_are_errors() {
    for device in devices() {
        let image = Tensor::ones(&[1, 1, 3, 3], DType::F32, &device).unwrap();
        assert!(matches!(image.max_pool2d(&PoolOptions::new([4, 1])), Err(Error::Argument { .. })));
        assert!(matches!(image.max_pool2d(&PoolOptions::new([0, 1])), Err(Error::Argument { .. })));
        let none = PoolOptions { stride: [0, 1], ..PoolOptions::new([1, 1]) };
        assert!(matches!(image.max_pool2d(&none), Err(Error::Argument { .. })));
        assert!(matches!(image.max_pool1d(&PoolOptions::new([1])), Err(Error::Rank { .. })));
        let integers = image.cast(DType::I32).unwrap();
        assert!(matches!(integers.max_pool2d(&PoolOptions::new([1, 1])), Err(Error::DType { .. })));
        let none = Tensor::ones(&[0, 2, 3, 3], DType::F32, &device).unwrap();
        assert_eq!(none.max_pool2d(&PoolOptions::new([2, 2])).unwrap().shape(), [0, 2, 1, 1]);
    }
}
