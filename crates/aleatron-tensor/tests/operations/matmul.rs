//! Products of matrices compared with exact ones, on every device and for every kind of view.

use crate::common::{Draw, U, all_devices, assert_within, devices, gpu, own_gpu, views};
use aleatron_device::{Capabilities, ContextOptions};
use aleatron_tensor::{DType, Device, Error, MatmulPlan, Tensor, Tile};
use half::f16;

/// Elements of the common axis that GPUs add up before they add them to the rest.
const SLICE: usize = 512;

/// Returns a product in 64 bits, and the sums of absolute products.
fn exact(a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> (Vec<f64>, Vec<f64>) {
    let mut sums = vec![0.0; m * n];
    let mut absolute = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            let x = f64::from(a[i * k + l]);
            for j in 0..n {
                let product = x * f64::from(b[l * n + j]);
                sums[i * n + j] += product;
                absolute[i * n + j] += product.abs();
            }
        }
    }
    (sums, absolute)
}

/// Returns the relative error of a sum of k products in 32 bits in any order: each product and each
/// of the additions it goes through is rounded.
fn gamma(k: usize) -> f64 {
    let roundings = (k + k / SLICE + 1) as f64 * U;
    roundings / (1.0 - roundings)
}

/// Returns the error of rounding to 16 bits: half a unit of the last of 11 bits, or of the smallest
/// number.
fn half_rounding(value: f64) -> f64 {
    value.abs() / 2048.0 + f64::powi(2.0, -25)
}

#[track_caller]
fn check(what: &str, got: &Tensor, a: &[f32], b: &[f32], sizes: [usize; 3]) {
    let (want, absolute) = exact(a, b, sizes);
    // Matrix units of 16-bit floats may cut sums off instead of rounding them; see
    // `cooperative.rs`.
    let has_matrix_units = match got.device() {
        Device::Gpu(gpu) => {
            got.dtype() == DType::F16 && !gpu.info().cooperative_matrices.is_empty()
        }
        Device::Cpu => false,
    };
    let units = if has_matrix_units { 4.0 } else { 1.0 };
    let bound = |i: usize| units * gamma(sizes[1]) * absolute[i];
    if got.dtype() == DType::F16 {
        let got: Vec<f32> = got.to_vec::<f16>().unwrap().into_iter().map(f16::to_f32).collect();
        assert_within(what, &got, &want, |i| bound(i) + half_rounding(want[i]) * (1.0 + 1e-3));
    } else {
        assert_within(what, &got.to_vec::<f32>().unwrap(), &want, bound);
    }
}

#[test]
fn all_small_shapes_match_reference() {
    let mut draw = Draw::new(1);
    for device in devices() {
        for m in 1..=6 {
            for k in 0..=6 {
                for n in 1..=6 {
                    let (a, b) = (draw.floats(m * k, -1.0, 1.0), draw.floats(k * n, -1.0, 1.0));
                    let left = Tensor::from_slice(&a, &[m, k], &device).unwrap();
                    let right = Tensor::from_slice(&b, &[k, n], &device).unwrap();
                    let got = left.matmul(&right).unwrap();
                    assert_eq!(got.shape(), [m, n]);
                    check(&format!("{m}x{k}x{n} on {device}"), &got, &a, &b, [m, k, n]);
                }
            }
        }
    }
}

#[test]
fn products_of_views_match_reference() {
    let mut draw = Draw::new(2);
    let (m, k, n) = (12, 20, 8);
    let (a, b) = (draw.floats(m * k, -1.0, 1.0), draw.floats(k * n, -1.0, 1.0));
    for device in all_devices() {
        for (left_kind, left) in views(&a, &[m, k], &device) {
            for (right_kind, right) in views(&b, &[k, n], &device) {
                let got = left.matmul(&right).unwrap();
                check(&format!("{left_kind} by {right_kind} on {device}"), &got, &a, &b, [m, k, n]);
            }
        }
    }
}

#[test]
fn ragged_edges_of_every_tile_match_reference() {
    let mut draw = Draw::new(3);
    let device = gpu();
    for tile in Tile::ALL {
        let (rows, columns) = (tile.rows as usize, tile.columns as usize);
        for [m, k, n] in [
            [rows, 2 * tile.depth as usize, columns],
            [rows + 1, 37, columns + 3],
            [rows - 1, SLICE + 7, columns - 1],
            [2 * rows + 3, 5, 2 * columns + 4],
        ] {
            let (a, b) = (draw.floats(m * k, -1.0, 1.0), draw.floats(k * n, -1.0, 1.0));
            let left = Tensor::from_slice(&a, &[m, k], &device).unwrap();
            let right = Tensor::from_slice(&b, &[k, n], &device).unwrap();
            for plan in [MatmulPlan::Sequential(tile), MatmulPlan::SplitK(tile)] {
                let got = left.matmul_as(&right, plan).unwrap();
                check(&format!("{m}x{k}x{n} by {plan:?}"), &got, &a, &b, [m, k, n]);
            }
        }
    }
}

/// An element depends on its row and its column only, for every plan.
#[test]
fn every_plan_gives_the_same_bits() {
    let mut draw = Draw::new(4);
    let device = gpu();
    let (m, k, n) = (70, 3 * SLICE - 100, 66);
    let left = Tensor::from_slice(&draw.floats(m * k, -1.0, 1.0), &[m, k], &device).unwrap();
    let right = Tensor::from_slice(&draw.floats(k * n, -1.0, 1.0), &[k, n], &device).unwrap();
    let want = left.matmul(&right).unwrap().to_vec::<f32>().unwrap();
    for tile in Tile::ALL {
        for plan in [MatmulPlan::Sequential(tile), MatmulPlan::SplitK(tile)] {
            assert_eq!(
                left.matmul_as(&right, plan).unwrap().to_vec::<f32>().unwrap(),
                want,
                "{plan:?}"
            );
        }
    }
    for rows in [1, 2, 3, 9, 17] {
        let some = left.slice(0, 0..rows).unwrap().matmul(&right).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(some, want[..rows * n], "{rows} rows");
    }
    let one = right.slice(1, 5..6).unwrap();
    let column = left.matmul(&one).unwrap().to_vec::<f32>().unwrap();
    let of_all: Vec<f32> = want.chunks(n).map(|row| row[5]).collect();
    assert_eq!(column, of_all);
}

/// The rows and columns of the CPU's products do not depend on how many there are, so threads may
/// cut them anywhere; nor do they depend on how the matrices lie in memory.
#[test]
fn elements_on_the_cpu_do_not_depend_on_the_size_of_the_product() {
    let mut draw = Draw::new(9);
    for (m, k, n) in [(200, 700, 130), (65, 300, 33), (40, 1100, 9)] {
        let left =
            Tensor::from_slice(&draw.floats(m * k, -1.0, 1.0), &[m, k], &Device::Cpu).unwrap();
        let right =
            Tensor::from_slice(&draw.floats(k * n, -1.0, 1.0), &[k, n], &Device::Cpu).unwrap();
        // The same matrix, stored along its columns.
        let turned =
            Tensor::from_slice(&right.t().unwrap().to_vec::<f32>().unwrap(), &[n, k], &Device::Cpu)
                .unwrap();
        let turned = turned.t().unwrap();
        let want = left.matmul(&right).unwrap().to_vec::<f32>().unwrap();
        for right in [&right, &turned] {
            for first in [0, 1, 7] {
                for rows in [1, 2, 3, 9, 17, 32] {
                    let some = left.slice(0, first..first + rows).unwrap().matmul(right).unwrap();
                    let want = &want[first * n..(first + rows) * n];
                    assert_eq!(
                        some.to_vec::<f32>().unwrap(),
                        want,
                        "{rows} rows from {first} of {m}x{k}x{n}"
                    );
                }
                for columns in [1, 2] {
                    let some = right.slice(1, first..first + columns).unwrap();
                    let some = left.matmul(&some).unwrap().to_vec::<f32>().unwrap();
                    let want: Vec<f32> = want
                        .chunks(n)
                        .flat_map(|row| row[first..].iter().take(columns).copied())
                        .collect();
                    assert_eq!(some, want, "{columns} columns from {first} of {m}x{k}x{n}");
                }
            }
        }
    }
}

#[test]
fn batches_broadcast_and_vectors_are_rows_or_columns_in_products() {
    let mut draw = Draw::new(5);
    for device in all_devices() {
        let (m, k, n) = (5, 6, 7);
        let a = draw.floats(2 * 3 * m * k, -1.0, 1.0);
        let b = draw.floats(3 * k * n, -1.0, 1.0);
        let left = Tensor::from_slice(&a, &[2, 3, m, k], &device).unwrap();
        let right = Tensor::from_slice(&b, &[3, k, n], &device).unwrap();
        let got = left.matmul(&right).unwrap();
        assert_eq!(got.shape(), [2, 3, m, n]);
        let got = got.to_vec::<f32>().unwrap();
        for batch in 0..6 {
            let (a, b) = (&a[batch * m * k..][..m * k], &b[batch % 3 * k * n..][..k * n]);
            let (want, absolute) = exact(a, b, [m, k, n]);
            let got = &got[batch * m * n..][..m * n];
            assert_within(&format!("{batch} on {device}"), got, &want, |i| gamma(k) * absolute[i]);
        }
        // The batch of the left is folded into its rows if it is contiguous.
        let weights = right.select(0, 1).unwrap();
        let turned = left.transpose(0, 1).unwrap();
        let got = turned.matmul(&weights).unwrap().transpose(0, 1).unwrap();
        assert_eq!(
            got.to_vec::<f32>().unwrap(),
            left.matmul(&weights).unwrap().to_vec::<f32>().unwrap()
        );
        let vector = Tensor::from_slice(&b[..k], &[k], &device).unwrap();
        let got = left.matmul(&vector).unwrap();
        assert_eq!(got.shape(), [2, 3, m]);
        check("by a vector", &got, &a, &b[..k], [6 * m, k, 1]);
        let got = vector.matmul(&weights).unwrap();
        assert_eq!(got.shape(), [n]);
        check("a vector by", &got, &b[..k], &b[k * n..][..k * n], [1, k, n]);
        let got = vector.matmul(&vector).unwrap();
        assert_eq!(got.shape(), [0usize; 0]);
        check("two vectors", &got, &b[..k], &b[..k], [1, k, 1]);
    }
}

#[test]
fn long_sums_match_reference() {
    let mut draw = Draw::new(6);
    for device in devices() {
        // Past the length that one workgroup of a plain dot product sums, and past the iterations
        // of a loop on some drivers.
        for k in [257, 1000, 70_000, 16_384 * 5 + 3] {
            let (a, b) = (draw.floats(2 * k, -1.0, 1.0), draw.floats(k, -1.0, 1.0));
            let left = Tensor::from_slice(&a, &[2, k], &device).unwrap();
            let right = Tensor::from_slice(&b, &[k], &device).unwrap();
            check(&format!("{k} on {device}"), &left.matmul(&right).unwrap(), &a, &b, [2, k, 1]);
            let ones = Tensor::ones(&[k], DType::F32, &device).unwrap();
            assert_eq!(ones.matmul(&ones).unwrap().to_vec::<f32>().unwrap(), [k as f32]);
        }
        let k = 16_384 * 5 + 3;
        let left = Tensor::ones(&[3, k], DType::F32, &device).unwrap();
        let plan = MatmulPlan::Sequential(Tile::ROW);
        let got = left.matmul_as(&left.t().unwrap(), plan).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [k as f32; 9]);
    }
}

#[test]
fn halves_are_accumulated_in_32_bits() {
    let mut draw = Draw::new(7);
    let round = |x: &mut Vec<f32>| x.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
    for device in all_devices() {
        for [m, k, n] in [[3, 5, 7], [20, 100, 33], [64, 600, 64], [1, 300, 40], [40, 33, 1]] {
            let (mut a, mut b) = (draw.floats(m * k, -1.0, 1.0), draw.floats(k * n, -1.0, 1.0));
            round(&mut a);
            round(&mut b);
            let left = Tensor::from_slice(&a, &[m, k], &device).unwrap();
            let right = Tensor::from_slice(&b, &[k, n], &device).unwrap();
            let [left16, right16] = [&left, &right].map(|x| x.cast(DType::F16).unwrap());
            let got = left16.matmul(&right16).unwrap();
            assert_eq!(got.dtype(), DType::F16);
            check(&format!("{m}x{k}x{n} on {device}"), &got, &a, &b, [m, k, n]);
            let got = left16.matmul(&right).unwrap();
            assert_eq!(got.dtype(), DType::F32);
            check(&format!("mixed {m}x{k}x{n} on {device}"), &got, &a, &b, [m, k, n]);
            let columns = right16.t().unwrap().contiguous().unwrap().t().unwrap();
            check("by columns", &left16.matmul(&columns).unwrap(), &a, &b, [m, k, n]);
        }
        // The sum of 2,049 ones is not a 16-bit float, but 4,096 are; sums in 16 bits would stop at 2,048.
        let ones = Tensor::ones(&[4096], DType::F16, &device).unwrap();
        assert_eq!(ones.matmul(&ones).unwrap().to_vec::<f16>().unwrap(), [f16::from_f32(4096.0)]);
    }
}

#[test]
fn integer_products_wrap_on_the_cpu_and_are_errors_on_a_gpu() {
    let a = Tensor::from_slice(&[i32::MAX, 2, 3, 4], &[2, 2], &Device::Cpu).unwrap();
    let b = Tensor::from_slice(&[2i32, 0, 1, 1], &[2, 2], &Device::Cpu).unwrap();
    assert_eq!(a.matmul(&b).unwrap().to_vec::<i32>().unwrap(), [0, 2, 10, 4]);
    assert_eq!(a.t().unwrap().matmul(&b).unwrap().to_vec::<i32>().unwrap(), [1, 3, 8, 4]);
    let wide = b.cast(DType::I64).unwrap();
    assert_eq!(a.matmul(&wide).unwrap().to_vec::<i64>().unwrap(), [(1i64 << 32) - 2 + 2, 2, 10, 4]);
    let bytes = Tensor::from_slice(&[200u8, 100], &[2], &Device::Cpu).unwrap();
    assert_eq!(bytes.matmul(&bytes).unwrap().to_vec::<u8>().unwrap(), [(50_000u32 % 256) as u8]);
    let device = gpu();
    let on_gpu = a.to_device(&device).unwrap();
    assert!(matches!(on_gpu.matmul(&on_gpu), Err(Error::Unsupported { .. })));
}

#[test]
fn products_of_empty_matrices_are_empty_or_zero() {
    for device in devices() {
        let of = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &device).unwrap();
        assert_eq!(of(&[0, 3]).matmul(&of(&[3, 2])).unwrap().shape(), [0, 2]);
        assert_eq!(of(&[2, 0]).matmul(&of(&[0, 2])).unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
        assert_eq!(of(&[0, 2, 3]).matmul(&of(&[3, 2])).unwrap().shape(), [0, 2, 2]);
        assert_eq!(of(&[0]).matmul(&of(&[0])).unwrap().to_vec::<f32>().unwrap(), [0.0]);
        assert_eq!(of(&[1, 5, 3]).matmul(&of(&[0, 3, 2])).unwrap().shape(), [0, 5, 2]);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |shape: &[usize], device: &Device| Tensor::zeros(shape, DType::F32, device).unwrap();
    for device in devices() {
        let a = of(&[2, 3], &device);
        let refused = Error::Shapes { op: "matmul", left: vec![2, 3], right: vec![2, 3] };
        assert_eq!(a.matmul(&a).unwrap_err(), refused);
        assert!(matches!(
            of(&[2, 2, 3], &device).matmul(&of(&[3, 3, 2], &device)),
            Err(Error::Shapes { .. })
        ));
        assert!(matches!(of(&[], &device).matmul(&a), Err(Error::Rank { .. })));
        let truths = a.cast(DType::Bool).unwrap();
        assert!(matches!(truths.matmul(&truths.t().unwrap()), Err(Error::DType { .. })));
        assert!(matches!(a.matmul(&truths.t().unwrap()), Err(Error::Promotion { .. })));
    }
    let (here, there) = (of(&[2, 2], &Device::Cpu), of(&[2, 2], &gpu()));
    // Tiles that threads do not share out without a rest, or that no workgroup has room for.
    for tile in [
        Tile::new(0, 0, 0, 0, 0),
        Tile::new(64, 64, 16, 3, 4),
        Tile::new(64, 64, 16, 4, 3),
        Tile::new(64, 64, 24, 4, 4),
        Tile::new(60, 64, 16, 8, 4),
        Tile::new(1024, 1024, 512, 32, 32),
        Tile::new(256, 256, 16, 1, 4),
    ] {
        for plan in [MatmulPlan::Sequential(tile), MatmulPlan::SplitK(tile)] {
            assert!(
                matches!(there.matmul_as(&there, plan), Err(Error::Argument { .. })),
                "{tile:?}"
            );
        }
    }
    assert!(matches!(here.matmul(&there), Err(Error::Devices { .. })));
}

#[test]
fn infinities_and_nan_stay_in_their_rows_and_columns() {
    for device in devices() {
        let mut a = vec![1.0f32; 5 * 9];
        (a[9], a[20]) = (f32::INFINITY, f32::NAN);
        let left = Tensor::from_slice(&a, &[5, 9], &device).unwrap();
        let got = left.matmul(&Tensor::ones(&[9, 3], DType::F32, &device).unwrap()).unwrap();
        let got = got.to_vec::<f32>().unwrap();
        for (i, row) in got.chunks(3).enumerate() {
            let is_right = |x: &f32| match i {
                1 => *x == f32::INFINITY,
                2 => x.is_nan(),
                _ => *x == 9.0,
            };
            assert!(row.iter().all(is_right), "row {i} on {device}: {row:?}");
        }
    }
}

/// Operands and results larger than a binding.
#[test]
fn buffers_larger_than_a_binding_are_bound_in_parts() {
    let mut draw = Draw::new(8);
    let options = ContextOptions {
        capabilities: Capabilities::NONE,
        max_binding_bytes: Some(1 << 16),
        ..ContextOptions::default()
    };
    let device = own_gpu(&options);
    let (m, k, n) = (150, 130, 170);
    let (a, b) = (draw.floats(m * k, -1.0, 1.0), draw.floats(k * n, -1.0, 1.0));
    let left = Tensor::from_slice(&a, &[m, k], &device).unwrap();
    let right = Tensor::from_slice(&b, &[k, n], &device).unwrap();
    check("in windows", &left.matmul(&right).unwrap(), &a, &b, [m, k, n]);
}
