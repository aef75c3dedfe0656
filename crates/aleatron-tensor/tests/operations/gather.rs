//! Elements found by indices, and indices that are wrong.

use crate::common::{Draw, all_devices, devices, gpu};
use aleatron_tensor::{DType, Device, Error, Tensor};

#[test]
fn index_select_over_views_matches_reference() {
    let mut draw = Draw::new(1);
    let data = draw.floats(4 * 6 * 5, -1.0, 1.0);
    for device in all_devices() {
        for (what, x) in crate::common::views(&data, &[4, 6, 5], &device) {
            for (axis, size) in [(0isize, 4usize), (1, 6), (2, 5)] {
                let raw: Vec<i32> =
                    (0..7).map(|_| draw.below(2 * size) as i32 - size as i32).collect();
                let indices = Tensor::from_slice(&raw, &[7], &device).unwrap();
                let y = x.index_select(axis, &indices).unwrap();
                let mut shape = [4, 6, 5];
                shape[axis as usize] = 7;
                assert_eq!(y.shape(), shape);
                let want: Vec<f32> = (0..shape.iter().product())
                    .map(|i| {
                        let mut at =
                            [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
                        let index = raw[at[axis as usize]];
                        at[axis as usize] = index.rem_euclid(size as i32) as usize;
                        data[(at[0] * 6 + at[1]) * 5 + at[2]]
                    })
                    .collect();
                assert_eq!(y.to_vec::<f32>().unwrap(), want, "axis {axis} of {what} on {device}");
            }
        }
        let x = Tensor::from_slice(&[10u8, 20, 30], &[3], &device).unwrap();
        let table = Tensor::from_slice(&[0i32, 2, 1, 1, -1, 0], &[2, 3], &device).unwrap();
        let y = x.index_select(0, &table).unwrap();
        assert_eq!(
            (y.shape(), y.to_vec::<u8>().unwrap()),
            (&[2, 3][..], vec![10, 30, 20, 20, 30, 10])
        );
        let scalar = Tensor::from_slice(&[1u8], &[], &device).unwrap();
        assert_eq!(x.index_select(0, &scalar).unwrap().item::<u8>().unwrap(), 20);
        let none = Tensor::from_slice::<i32>(&[], &[0], &device).unwrap();
        assert_eq!(x.index_select(0, &none).unwrap().shape(), [0]);
    }
}

#[test]
fn gather_along_an_axis_matches_reference() {
    for device in devices() {
        let x = Tensor::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3], &device).unwrap();
        let i = Tensor::from_slice(&[2i32, 0, 0, 1], &[2, 2], &device).unwrap();
        assert_eq!(x.gather(1, &i).unwrap().to_vec::<i32>().unwrap(), [2, 0, 3, 4]);
        let rows = Tensor::from_slice(&[1i32, 0, -1], &[1, 3], &device).unwrap();
        assert_eq!(x.gather(0, &rows).unwrap().to_vec::<i32>().unwrap(), [3, 1, 5]);
        let wide = Tensor::from_slice(&[1i32, 2], &[2, 1], &device).unwrap();
        assert_eq!(x.gather(1, &wide).unwrap().to_vec::<i32>().unwrap(), [1, 5]);
        if device.supports(DType::I64) {
            let long = i.cast(DType::I64).unwrap();
            assert_eq!(x.gather(1, &long).unwrap().to_vec::<i32>().unwrap(), [2, 0, 3, 4]);
        }
        assert!(matches!(x.gather(1, &x.cast(DType::F32).unwrap()), Err(Error::DType { .. })));
        assert!(matches!(x.gather(1, &x.select(0, 0).unwrap()), Err(Error::Shapes { .. })));
    }
}

#[test]
fn index_out_of_range_is_an_error_with_its_position() {
    let wrong = |device: &Device, value: i32| {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3], device).unwrap();
        let i = Tensor::from_slice(&[0i32, 2, value, 1, value], &[5], device).unwrap();
        x.index_select(0, &i).and_then(|y| y.mul(2.0)?.add(1.0)?.to_vec::<f32>())
    };
    for device in devices() {
        for value in [3, -4, i32::MAX, i32::MIN] {
            let want =
                Error::Index { op: "index_select", position: 2, value: value.into(), len: 3 };
            assert_eq!(wrong(&device, value), Err(want), "{device}");
        }
        // Later results are right.
        assert_eq!(wrong(&device, 1), Ok(vec![3.0, 7.0, 5.0, 5.0, 5.0]));
        let nothing = Tensor::from_slice::<f32>(&[], &[0], &device).unwrap();
        let zero = Tensor::from_slice(&[0i32], &[1], &device).unwrap();
        assert!(matches!(nothing.index_select(0, &zero), Err(Error::Argument { .. })));
    }
}

#[test]
fn many_index_checks_are_concurrent() {
    let device = gpu();
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3], &device).unwrap();
    let i = Tensor::from_slice(&[2i32], &[1], &device).unwrap();
    let bad = Tensor::from_slice(&[5i32], &[1], &device).unwrap();
    for round in 0..1500 {
        let y = x.index_select(0, &i).unwrap();
        if round % 400 == 0 {
            assert_eq!(y.item::<f32>().unwrap(), 3.0);
        }
    }
    assert!(x.index_select(0, &bad).unwrap().item::<f32>().is_err());
    assert_eq!(x.index_select(0, &i).unwrap().item::<f32>().unwrap(), 3.0);
}
