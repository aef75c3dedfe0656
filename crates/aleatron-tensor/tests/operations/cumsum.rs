//! Running sums and products.

use crate::common::{Draw, U, all_devices, devices};
use aleatron_tensor::{DType, Device, Error, SUM_DEPTH, Tensor};
use half::f16;

#[test]
fn cumsum_along_every_axis_of_views_matches_reference() {
    let data = Draw::new(1).floats(3 * 4 * 5, -1.0, 1.0);
    for device in all_devices() {
        for (what, x) in crate::common::views(&data, &[3, 4, 5], &device) {
            for (axis, stride, size) in [(0, 20, 3), (1, 5, 4), (-1, 1, 5)] {
                let got = x.cumsum(axis).unwrap();
                assert_eq!(got.shape(), [3, 4, 5]);
                for (i, got) in got.to_vec::<f32>().unwrap().into_iter().enumerate() {
                    let at = i / stride % size;
                    let terms = || (0..=at).map(|j| f64::from(data[i - (at - j) * stride]));
                    let bound = at as f64 * U * terms().map(f64::abs).sum::<f64>() * 1.01;
                    let want: f64 = terms().sum();
                    assert!(
                        (f64::from(got) - want).abs() <= bound,
                        "{what} axis {axis} element {i} on {device}: {got} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn cumsum_of_long_axes_matches_reference() {
    for device in devices() {
        for n in [1023, 1024, 1025, 5000, 1024 * 1024 + 1500] {
            let data: Vec<i32> = (0..n).map(|i| (i as i32).wrapping_mul(7919) % 1000).collect();
            let x = Tensor::from_slice(&data, &[n], &device).unwrap();
            let mut total = 0i32;
            let want: Vec<i32> = data
                .iter()
                .map(|x| {
                    total = total.wrapping_add(*x);
                    total
                })
                .collect();
            assert!(x.cumsum(0).unwrap().to_vec::<i32>().unwrap() == want, "{n} on {device}");
        }
        let data = Draw::new(5).floats(2 * 70_000, -1.0, 1.0);
        let x = Tensor::from_slice(&data, &[2, 70_000], &device).unwrap();
        let got = x.cumsum(1).unwrap().to_vec::<f32>().unwrap();
        for (row, got) in data.chunks(70_000).zip(got.chunks(70_000)) {
            let (mut want, mut size) = (0.0, 0.0);
            for (x, got) in row.iter().zip(got) {
                want += f64::from(*x);
                size += f64::from(x.abs());
                assert!(
                    (f64::from(*got) - want).abs() <= SUM_DEPTH as f64 * U * size,
                    "{got} {want} on {device}"
                );
            }
        }
    }
}

#[test]
fn cumprod_types_and_empty_tensors() {
    for device in devices() {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], &device).unwrap();
        assert_eq!(x.cumprod(1).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 12.0]);
        let halves = x.cast(DType::F16).unwrap().cumsum(0).unwrap();
        assert_eq!(halves.to_vec::<f16>().unwrap(), [1.0, 2.0, 4.0, 6.0].map(f16::from_f32));
        let bytes = Tensor::from_slice(&[200u8, 100], &[2], &device).unwrap();
        assert_eq!(bytes.cumsum(0).unwrap().to_vec::<i32>().unwrap(), [200, 300]);
        let none = Tensor::zeros(&[0, 3], DType::F32, &device).unwrap();
        assert_eq!(none.cumsum(0).unwrap().shape(), [0, 3]);
        assert!(matches!(x.cumsum(2), Err(Error::Axis { .. })));
        let truth = x.gt(1.0).unwrap();
        assert!(matches!(truth.cumsum(0), Err(Error::DType { .. })));
    }
    let scalar = Tensor::ones(&[], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(scalar.cumsum(0), Err(Error::Axis { .. })));
}
