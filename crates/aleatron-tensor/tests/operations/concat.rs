//! Putting tensors together and taking them apart: concat, stack, split, tile, repeat, roll,
//! triangles.

use crate::common::{all_devices, devices, gpu};
use aleatron_tensor::{DType, Device, Error, Tensor};
use half::f16;

fn numbers(start: i32, shape: &[usize], device: &Device) -> Tensor {
    let n = shape.iter().product::<usize>() as i32;
    let data: Vec<i32> = (start..start + n).collect();
    Tensor::from_slice(&data, shape, device).unwrap()
}

#[test]
fn concat_over_views_and_axes_matches_reference() {
    for device in all_devices() {
        let [a, b] = [numbers(0, &[2, 3], &device), numbers(100, &[3, 2], &device).t().unwrap()];
        let rows = Tensor::concat(&[&a, &b], 0).unwrap();
        assert_eq!(
            rows.to_vec::<i32>().unwrap(),
            [0, 1, 2, 3, 4, 5, 100, 102, 104, 101, 103, 105],
            "{device}"
        );
        let columns = Tensor::concat(&[&a, &b, &a.slice(1, 1..2).unwrap()], -1).unwrap();
        assert_eq!(columns.shape(), [2, 7]);
        assert_eq!(
            columns.to_vec::<i32>().unwrap(),
            [0, 1, 2, 100, 102, 104, 1, 3, 4, 5, 101, 103, 105, 4]
        );
        let stacked = Tensor::stack(&[&a, &b], 1).unwrap();
        assert_eq!(stacked.shape(), [2, 2, 3]);
        assert_eq!(
            stacked.to_vec::<i32>().unwrap(),
            [0, 1, 2, 100, 102, 104, 3, 4, 5, 101, 103, 105]
        );
        // More tensors than one kernel supports.
        let many: Vec<Tensor> =
            (0..40).map(|i| numbers(10 * i, &[1 + i as usize % 3], &device)).collect();
        let joined = Tensor::concat(&many.iter().collect::<Vec<_>>(), 0).unwrap();
        let want: Vec<i32> =
            (0..40).flat_map(|i| (0..1 + i % 3).map(move |j| 10 * i + j)).collect();
        assert_eq!(joined.to_vec::<i32>().unwrap(), want, "{device}");
        let empty = numbers(0, &[0, 3], &device);
        assert_eq!(
            Tensor::concat(&[&empty, &a, &empty], 0).unwrap().to_vec::<i32>().unwrap(),
            [0, 1, 2, 3, 4, 5]
        );
        assert_eq!(Tensor::concat(&[&empty, &empty], 0).unwrap().shape(), [0, 3]);
    }
}

#[test]
fn types_of_every_size() {
    for device in devices() {
        let bytes = Tensor::from_slice(&[1u8, 2, 3], &[3], &device).unwrap();
        assert_eq!(
            Tensor::concat(&[&bytes, &bytes.flip(0).unwrap()], 0).unwrap().to_vec::<u8>().unwrap(),
            [1, 2, 3, 3, 2, 1]
        );
        let truth = Tensor::from_slice(&[true, false], &[2], &device).unwrap();
        assert_eq!(
            Tensor::concat(&[&truth, &truth], 0).unwrap().to_vec::<bool>().unwrap(),
            [true, false, true, false]
        );
        let halves =
            Tensor::from_slice(&[f16::ONE, f16::EPSILON, f16::NEG_INFINITY], &[3], &device)
                .unwrap();
        let twice = Tensor::concat(&[&halves, &halves], 0).unwrap().to_vec::<f16>().unwrap();
        assert_eq!(
            twice,
            [f16::ONE, f16::EPSILON, f16::NEG_INFINITY, f16::ONE, f16::EPSILON, f16::NEG_INFINITY]
        );
        if device.supports(DType::I64) {
            let wide = Tensor::from_slice(&[1i64 << 40, -5], &[2], &device).unwrap();
            assert_eq!(
                Tensor::concat(&[&wide, &wide], 0).unwrap().to_vec::<i64>().unwrap(),
                [1 << 40, -5, 1 << 40, -5]
            );
        }
    }
}

#[test]
fn incompatible_tensors_are_not_concatenated() {
    let a = numbers(0, &[2, 3], &Device::Cpu);
    let b = numbers(0, &[2, 2], &Device::Cpu);
    assert!(matches!(Tensor::concat(&[&a, &b], 0), Err(Error::Shapes { op: "concat", .. })));
    assert!(matches!(Tensor::concat(&[], 0), Err(Error::Argument { .. })));
    assert!(matches!(
        Tensor::concat(&[&a, &a.cast(DType::F32).unwrap()], 0),
        Err(Error::Promotion { .. })
    ));
    assert!(matches!(
        Tensor::concat(&[&a, &a.to_device(&gpu()).unwrap()], 0),
        Err(Error::Devices { .. })
    ));
    assert!(matches!(Tensor::stack(&[&a, &b], 0), Err(Error::Shapes { op: "stack", .. })));
    assert!(matches!(Tensor::concat(&[&a, &a], 2), Err(Error::Axis { .. })));
    assert!(matches!(a.split(&[1, 3], 1), Err(Error::Range { end: 4, len: 3, .. })));
    assert!(matches!(
        a.select(0, 0).unwrap().select(0, 0).unwrap().tril(0),
        Err(Error::Rank { .. })
    ));
}

#[test]
fn split_tile_repeat_roll_and_triangles_match_reference() {
    for device in devices() {
        let x = numbers(0, &[2, 3], &device);
        let ints = |t: Tensor| t.to_vec::<i32>().unwrap();
        let parts = x.split(&[1, 2], 1).unwrap();
        assert_eq!(
            (ints(parts[0].clone()), ints(parts[1].clone())),
            (vec![0, 3], vec![1, 2, 4, 5])
        );
        assert!(parts[1].storage().is_same(x.storage()));
        assert_eq!(
            ints(x.tile(&[2, 2]).unwrap()),
            [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
        );
        assert_eq!(x.tile(&[2, 1, 1]).unwrap().shape(), [2, 2, 3]);
        assert_eq!(x.tile(&[0]).unwrap().shape(), [2, 0]);
        assert_eq!(ints(x.repeat(2, 1).unwrap()), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!(ints(x.roll(1, 1).unwrap()), [2, 0, 1, 5, 3, 4]);
        assert_eq!(ints(x.roll(-4, 1).unwrap()), [1, 2, 0, 4, 5, 3]);
        assert_eq!(ints(x.tril(0).unwrap()), [0, 0, 0, 3, 4, 0]);
        assert_eq!(ints(x.triu(1).unwrap()), [0, 1, 2, 0, 0, 5]);
        assert_eq!(ints(x.triu(-1).unwrap()), [0, 1, 2, 3, 4, 5]);
    }
}
