//! Sorting, and the first elements of an order.

use crate::common::{Draw, all_devices, devices};
use aleatron_tensor::{DType, Error, Order, Tensor};

fn exact(row: &[f32], order: Order) -> Vec<i32> {
    let mut indices: Vec<i32> = (0..row.len() as i32).collect();
    let key = |i: i32| row[i as usize];
    let compare = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap(),
        (a, b) => a.cmp(&b),
    };
    match order {
        Order::Ascending => indices.sort_by(|&a, &b| compare(key(a), key(b))),
        Order::Descending => indices.sort_by(|&a, &b| compare(key(b), key(a))),
    }
    indices
}

#[test]
fn normalized_or_sorted_rows_of_every_length_match_reference() {
    let mut draw = Draw::new(1);
    for device in all_devices() {
        for (rows, n) in [(4, 1), (3, 2), (5, 7), (2, 100), (3, 1000), (2, 1024), (1, 5000)] {
            // Few different values, so that many are equal.
            let data: Vec<f32> = (0..rows * n)
                .map(|_| match draw.below(40) {
                    0 => f32::NAN,
                    1 => f32::INFINITY,
                    2 => f32::NEG_INFINITY,
                    3 => -0.0,
                    _ => draw.below(n) as f32 - n as f32 / 2.0,
                })
                .collect();
            let views = crate::common::views(&data, &[rows, n], &device);
            let views = if n > 200 { &views[..1] } else { &views[..] };
            for (what, x) in views {
                for order in [Order::Ascending, Order::Descending] {
                    let want: Vec<i32> = data.chunks(n).flat_map(|row| exact(row, order)).collect();
                    let indices = x.argsort(-1, order).unwrap();
                    assert_eq!(
                        indices.to_vec::<i32>().unwrap(),
                        want,
                        "{rows} x {n} {what} {order:?} on {device}"
                    );
                    let sorted = x.sort(1, order).unwrap().to_vec::<f32>().unwrap();
                    let same = sorted.iter().zip(&want).enumerate().all(|(i, (got, index))| {
                        got.to_bits() == data[i / n * n + *index as usize].to_bits()
                    });
                    assert!(same, "{what}");
                }
            }
        }
    }
}

#[test]
fn topk_and_sort_along_other_axes_and_types() {
    for device in devices() {
        let x = Tensor::from_slice(&[3i32, 1, 2, 9, 8, 7], &[2, 3], &device).unwrap();
        let (values, indices) = x.topk(2, 1, Order::Descending).unwrap();
        assert_eq!(values.to_vec::<i32>().unwrap(), [3, 2, 9, 8]);
        assert_eq!(indices.to_vec::<i32>().unwrap(), [0, 2, 0, 1]);
        let (values, _) = x.topk(1, 0, Order::Ascending).unwrap();
        assert_eq!((values.shape(), values.to_vec::<i32>().unwrap()), (&[1, 3][..], vec![3, 1, 2]));
        assert!(matches!(x.topk(4, 1, Order::Ascending), Err(Error::Range { end: 4, len: 3, .. })));
        assert_eq!(x.topk(0, 1, Order::Ascending).unwrap().0.shape(), [2, 0]);
        let bytes = Tensor::from_slice(&[200u8, 3, 100], &[3], &device).unwrap();
        assert_eq!(bytes.sort(0, Order::Ascending).unwrap().to_vec::<u8>().unwrap(), [3, 100, 200]);
        assert!(matches!(bytes.gt(5).unwrap().sort(0, Order::Ascending), Err(Error::DType { .. })));
        if device.is_gpu() && device.supports(DType::I64) {
            let wide = x.cast(DType::I64).unwrap();
            assert!(matches!(wide.sort(0, Order::Ascending), Err(Error::DType { .. })));
        }
    }
    let wide =
        Tensor::from_slice(&[1i64 << 40, -3, 5], &[3], &aleatron_tensor::Device::Cpu).unwrap();
    assert_eq!(wide.sort(0, Order::Ascending).unwrap().to_vec::<i64>().unwrap(), [-3, 5, 1 << 40]);
}
