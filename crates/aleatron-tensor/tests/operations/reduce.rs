//! Reductions: every one on every device against 64-bit floats, over views and any axes.

use crate::common::{Draw, U, all_devices, assert_within, devices, gpu};
use aleatron_tensor::{DType, Device, Dims, Error, Reduction, Tensor};
use half::f16;

/// The depth of sums that the crate promises.
const DEPTH: f64 = aleatron_tensor::SUM_DEPTH as f64;

/// Returns the elements behind each result, in order.
fn rows(data: &[f32], shape: &[usize], axes: &[usize]) -> Vec<Vec<f64>> {
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let n = kept.iter().map(|&axis| shape[axis]).product();
    let mut rows = vec![Vec::new(); n];
    for (i, &x) in data.iter().enumerate() {
        let (mut left, mut at) = (i, vec![0; shape.len()]);
        for axis in (0..shape.len()).rev() {
            at[axis] = left % shape[axis];
            left /= shape[axis];
        }
        let row = kept.iter().fold(0, |row, &axis| row * shape[axis] + at[axis]);
        rows[row].push(f64::from(x));
    }
    rows
}

/// Returns the exact value of a reduction and how far a result may be off.
fn exact(reduction: Reduction, row: &[f64]) -> (f64, f64) {
    let depth = DEPTH.min(row.len() as f64);
    let (sum, size) = (row.iter().sum::<f64>(), row.iter().map(|x| x.abs()).sum::<f64>());
    let n = row.len() as f64;
    let index = |is_better: &dyn Fn(f64, f64) -> bool| {
        (0..row.len()).fold(0, |best, i| if is_better(row[i], row[best]) { i } else { best }) as f64
    };
    match reduction {
        Reduction::Sum => (sum, depth * U * size),
        // A division more, which devices may do with an error of 2.5 units.
        Reduction::Mean => (sum / n, (depth + 5.0) * U * size / n),
        Reduction::Prod => {
            let product = row.iter().product::<f64>();
            (product, (n * 1.1 * U) * product.abs() + f64::from(f32::MIN_POSITIVE))
        }
        Reduction::Max => (row.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
        Reduction::Min => (row.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
        Reduction::ArgMax => (index(&|x, best| x > best), 0.0),
        Reduction::ArgMin => (index(&|x, best| x < best), 0.0),
        Reduction::LogSumExp => {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
            // Differences are off by a rounding of the largest, exponentials by that and 1.5 units,
            // the sum by its depth, the logarithm by 1.5 units, and the result by a
            // rounding.
            let spread = row.iter().map(|x| (x - largest).abs()).fold(0.0, f64::max);
            let value = sum.ln() + largest;
            (value, U * (spread + 3.0 + depth + 3.0 * sum.ln().abs() + value.abs() + 1.0))
        }
        Reduction::Any => (f64::from(u8::from(row.iter().any(|x| *x != 0.0))), 0.0),
        Reduction::All => (f64::from(u8::from(row.iter().all(|x| *x != 0.0))), 0.0),
        other => panic!("{other:?} is not tested"),
    }
}

fn check(what: &str, x: &Tensor, data: &[f32], axes: &[isize]) {
    let indices: Vec<usize> = if axes.is_empty() {
        (0..x.rank()).collect()
    } else {
        axes.iter().map(|&axis| axis.rem_euclid(x.rank() as isize) as usize).collect()
    };
    let rows = rows(data, x.shape(), &indices);
    for &reduction in Reduction::ALL {
        for dims in [Dims::Drop, Dims::Keep] {
            let y = x.reduce(reduction, axes, dims).unwrap();
            assert_eq!(y.device(), x.device());
            let shape = x.shape().iter().enumerate().filter_map(|(axis, &size)| {
                if !indices.contains(&axis) {
                    Some(size)
                } else {
                    (dims == Dims::Keep).then_some(1)
                }
            });
            assert_eq!(y.shape(), shape.collect::<Vec<_>>(), "{what} {reduction:?}");
            let got: Vec<f32> = match y.dtype() {
                DType::F32 => y.to_vec().unwrap(),
                _ => y.cast(DType::F32).unwrap().to_vec().unwrap(),
            };
            let exact: Vec<(f64, f64)> = rows.iter().map(|row| exact(reduction, row)).collect();
            let want: Vec<f64> = exact.iter().map(|(want, _)| *want).collect();
            let what = format!(
                "{} of {:?} over {axes:?} ({what}) on {}",
                reduction.name(),
                x.shape(),
                x.device()
            );
            assert_within(&what, &got, &want, |i| exact[i].1);
        }
    }
}

#[test]
fn every_reduction_over_every_axis_matches_reference() {
    let mut draw = Draw::new(1);
    for device in all_devices() {
        let is_shared = devices().contains(&device);
        for shape in [vec![2, 3, 4], vec![8, 12], vec![5, 1, 7], vec![1], vec![130, 6]] {
            // Devices that differ in checks and limits alone see fewer shapes.
            if !is_shared && shape.len() != 2 {
                continue;
            }
            let n = shape.iter().product();
            let data = draw.floats(n, -2.0, 2.0);
            for (what, x) in crate::common::views(&data, &shape, &device) {
                let rank = shape.len() as isize;
                check(what, &x, &data, &[]);
                for axis in 0..rank {
                    check(what, &x, &data, &[axis]);
                    for other in axis + 1..rank {
                        check(what, &x, &data, &[other - rank, axis]);
                    }
                }
            }
        }
    }
}

#[test]
fn long_rows_and_columns() {
    let mut draw = Draw::new(2);
    for device in devices() {
        for shape in [
            [3, 20_001],
            [2, 70_000],
            [20_004, 4],
            [9_000, 3],
            [700, 64],
            [1, 140_000],
            [5_000, 20],
        ] {
            let data = draw.floats(shape[0] * shape[1], -1.0, 1.0);
            let x = Tensor::from_slice(&data, &shape, &device).unwrap();
            for axes in [&[0][..], &[1], &[]] {
                check("in order", &x, &data, axes);
            }
        }
    }
}

#[test]
fn reductions_of_scalars_and_empty_tensors() {
    for device in all_devices() {
        let one = Tensor::from_slice(&[-3.5f32], &[], &device).unwrap();
        check("scalar", &one, &[-3.5], &[]);
        let none = Tensor::from_slice::<f32>(&[], &[3, 0], &device).unwrap();
        let floats = |x: Tensor| x.to_vec::<f32>().unwrap();
        assert_eq!(floats(none.sum(1).unwrap()), [0.0; 3]);
        assert_eq!(floats(none.prod_all().unwrap()), [1.0]);
        assert!(floats(none.mean(1).unwrap()).iter().all(|x| x.is_nan()));
        assert_eq!(floats(none.logsumexp(1).unwrap()), [f32::NEG_INFINITY; 3]);
        assert_eq!(none.any(1).unwrap().to_vec::<bool>().unwrap(), [false; 3]);
        assert_eq!(none.all_keepdim(1).unwrap().to_vec::<bool>().unwrap(), [true; 3]);
        assert_eq!(none.max(0).unwrap().shape(), [0]);
        assert_eq!(none.sum(0).unwrap().shape(), [0]);
        for reduction in [Reduction::Max, Reduction::Min, Reduction::ArgMax, Reduction::ArgMin] {
            let error = none.reduce(reduction, &[1], Dims::Drop).unwrap_err();
            assert!(matches!(error, Error::Argument { what: "elements", .. }), "{error}");
        }
        assert!(matches!(one.sum(0), Err(Error::Axis { .. })));
        assert!(matches!(none.sum([0, -2]), Err(Error::RepeatedAxis { .. })));
    }
}

#[test]
fn special_floats() {
    let inf = f32::INFINITY;
    for device in devices() {
        let of = |data: &[f32]| Tensor::from_slice(data, &[data.len()], &device).unwrap();
        let max = |data: &[f32]| of(data).max_all().unwrap().item::<f32>().unwrap();
        let min = |data: &[f32]| of(data).min_all().unwrap().item::<f32>().unwrap();
        let indices = |data: &[f32]| {
            let [a, b] = [of(data).argmax_all(), of(data).argmin_all()];
            (a.unwrap().item::<i32>().unwrap(), b.unwrap().item::<i32>().unwrap())
        };
        let lse = |data: &[f32]| of(data).logsumexp_all().unwrap().item::<f32>().unwrap();
        assert_eq!((max(&[-inf; 9]), min(&[inf; 9]), max(&[-inf, -3e38])), (-inf, inf, -3e38));
        assert!(max(&[1.0, f32::NAN, 2.0]).is_nan() && min(&[1.0, f32::NAN, inf]).is_nan());
        assert_eq!(indices(&[1.0, f32::NAN, 2.0, f32::NAN]), (1, 1));
        assert_eq!(indices(&[-0.0, 0.0, -0.0]), (0, 0));
        assert_eq!(indices(&[-inf, -inf]), (0, 0));
        assert_eq!(indices(&[2.0, 5.0, 5.0, -1.0, -1.0]), (1, 3));
        assert_eq!(
            (lse(&[-inf, -inf]), lse(&[inf, 1.0]), lse(&[1000.0, 1000.0])),
            (-inf, inf, (1000.0 + std::f64::consts::LN_2) as f32)
        );
        assert!(lse(&[f32::NAN, 1.0]).is_nan());
        let sum = |data: &[f32]| of(data).sum_all().unwrap().item::<f32>().unwrap();
        assert!(sum(&[inf, -inf]).is_nan());
        assert_eq!(sum(&[inf, 1.0]), inf);
    }
}

#[test]
fn integers_bytes_booleans_and_halves() {
    let mut draw = Draw::new(5);
    let data = draw.ints(6000, i32::MIN / 2, i32::MAX / 2);
    for device in devices() {
        let x = Tensor::from_slice(&data, &[20, 300], &device).unwrap();
        let sums: Vec<i32> =
            data.chunks(300).map(|row| row.iter().fold(0i32, |a, b| a.wrapping_add(*b))).collect();
        assert_eq!(x.sum(1).unwrap().to_vec::<i32>().unwrap(), sums);
        let maxima: Vec<i32> = data.chunks(300).map(|row| *row.iter().max().unwrap()).collect();
        assert_eq!(x.max(1).unwrap().to_vec::<i32>().unwrap(), maxima);
        let columns: Vec<i32> =
            (0..300).map(|c| (0..20).map(|r| data[r * 300 + c]).min().unwrap()).collect();
        assert_eq!(x.min(0).unwrap().to_vec::<i32>().unwrap(), columns);
        let bytes: Vec<u8> = data.iter().map(|x| *x as u8).collect();
        let b = Tensor::from_slice(&bytes, &[6000], &device).unwrap();
        let total: i32 = bytes.iter().map(|b| i32::from(*b)).sum();
        assert_eq!(b.sum_all().unwrap().item::<i32>().unwrap(), total);
        assert_eq!(b.max_all().unwrap().item::<u8>().unwrap(), *bytes.iter().max().unwrap());
        if device.supports(DType::I64) {
            let wide: Vec<i64> = data.iter().map(|x| i64::from(*x) << 18).collect();
            let w = Tensor::from_slice(&wide, &[6, 1000], &device).unwrap();
            let want: Vec<i64> = (0..6).map(|r| wide[r * 1000..][..1000].iter().sum()).collect();
            assert_eq!(w.sum(1).unwrap().to_vec::<i64>().unwrap(), want);
            let t = w.reshape(&[6000]).unwrap();
            let best = (0..6000).max_by_key(|&i| (wide[i], std::cmp::Reverse(i))).unwrap();
            assert_eq!(t.argmax_all().unwrap().item::<i32>().unwrap(), best as i32);
            let long: Vec<i64> =
                (0..20_000).map(|i| (i64::from(i) * 7919) % 65_537 << 33).collect();
            let l = Tensor::from_slice(&long, &[20_000], &device).unwrap();
            assert_eq!(l.sum_all().unwrap().item::<i64>().unwrap(), long.iter().sum::<i64>());
            let best = (0..20_000).max_by_key(|&i| (long[i], std::cmp::Reverse(i))).unwrap();
            assert_eq!(l.argmax_all().unwrap().item::<i32>().unwrap(), best as i32);
        }
        // 16-bit floats are summed in 32 bits: 4096 ones would stop at 2048.
        let halves = Tensor::full(&[4096], 1.0, DType::F16, &device).unwrap();
        assert_eq!(halves.sum_all().unwrap().item::<f16>().unwrap(), f16::from_f32(4096.0));
        assert_eq!(halves.mean_all().unwrap().item::<f16>().unwrap(), f16::ONE);
        let truth = x.gt(0).unwrap();
        assert!(matches!(truth.sum_all(), Err(Error::DType { .. })));
        assert!(truth.any_all().unwrap().item::<bool>().unwrap());
        assert!(!truth.all_all().unwrap().item::<bool>().unwrap());
        assert!(matches!(x.mean_all(), Err(Error::DType { .. })));
    }
}

#[test]
fn pending_expressions_are_reduced_without_a_copy() {
    let own = crate::common::own_gpu(&aleatron_device::ContextOptions::default());
    let Device::Gpu(gpu) = &own else { unreachable!() };
    let x = Tensor::arange(0, 100, 1, DType::F32, &own).unwrap();
    let sum = x.mul(2.0).unwrap().add(1.0).unwrap().sum_all().unwrap();
    assert_eq!(sum.item::<f32>().unwrap(), 10_000.0);
    assert_eq!(gpu.launches(), 1);
    // The same from run to run.
    let y = Tensor::from_slice(&Draw::new(4).floats(100_000, -1.0, 1.0), &[100_000], &own).unwrap();
    let first = y.sum_all().unwrap().item::<f32>().unwrap();
    for _ in 0..5 {
        assert_eq!(y.sum_all().unwrap().item::<f32>().unwrap().to_bits(), first.to_bits());
    }
}

#[test]
fn variance() {
    let data = Draw::new(8).floats(600, 99.0, 101.0);
    for device in devices() {
        let x = Tensor::from_slice(&data, &[3, 200], &device).unwrap();
        let got = x.var(1, 1.0).unwrap().to_vec::<f32>().unwrap();
        for (row, got) in data.chunks(200).zip(got) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / 200.0;
            let want = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 199.0;
            // The mean is off by m, which moves the variance by m^2; each difference is off by a
            // rounding of 1.
            let m = 200.0 * U * 101.0;
            let bound = m * m * 1.1 + (4.0 + 200.0 + 5.0) * U * want + 2.0 * U * want;
            assert!((f64::from(got) - want).abs() <= bound, "{got} {want} {bound} on {device}");
        }
    }
}

#[test]
fn sizes_across_the_limits_of_devices() {
    let device = gpu();
    // 2^20 ones: past 65,535 in one loop of the reference device.
    let ones = Tensor::ones(&[1 << 20], DType::F32, &device).unwrap();
    assert_eq!(ones.sum_all().unwrap().item::<f32>().unwrap(), 1_048_576.0);
    // 64 Mi elements are 256 MiB, twice the largest binding there, and more than 65,535 workgroups
    // of 256.
    let many = Tensor::full(&[64 << 20], 0.5, DType::F32, &device).unwrap().contiguous().unwrap();
    let stored = many.add(&Tensor::zeros(&[1], DType::F32, &device).unwrap()).unwrap();
    assert_eq!(stored.sum_all().unwrap().item::<f32>().unwrap(), 33_554_432.0);
    let rows = stored.reshape(&[1 << 20, 64]).unwrap();
    let sums = rows.sum(1).unwrap();
    assert_eq!(sums.min_all().unwrap().item::<f32>().unwrap(), 32.0);
    assert_eq!(sums.max_all().unwrap().item::<f32>().unwrap(), 32.0);
}

/// Long rows are searched in segments; the first of equal elements is returned for any boundaries.
#[test]
fn argmax_in_long_rows_returns_the_first_maximum() {
    let n = (3 << 16) + 77;
    for device in devices() {
        for first in [0, 5, 65_535, 65_536, 70_001, n - 1] {
            let mut data = vec![0.5_f32; n];
            for index in [first, 2 << 16, n - 1] {
                data[index.max(first)] = 2.0;
            }
            let of = |data: &[f32]| Tensor::from_slice(data, &[n], &device).unwrap();
            let x = of(&data);
            let index = |x: &Tensor| x.argmax_all().unwrap().item::<i32>().unwrap() as usize;
            assert_eq!(index(&x), first, "{device}");
            assert_eq!(index(&x.cast(DType::I32).unwrap()), first, "{device}");
            let least = x.neg().unwrap().argmin_all().unwrap();
            assert_eq!(least.item::<i32>().unwrap() as usize, first, "{device}");
            // NaN is past everything.
            data[n / 2] = f32::NAN;
            assert_eq!(index(&of(&data)), n / 2, "{device}");
        }
    }
}
