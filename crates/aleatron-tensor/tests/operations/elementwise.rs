//! Elementwise operations: every one on every device against 64-bit floats, over views, fused and
//! not.

use crate::common::{Draw, all_devices, devices, gpu};
use aleatron_tensor::{BinaryOp, DType, Device, Error, Tensor, UnaryOp, op};
use half::f16;

/// Floats of all sizes, and the special ones.
fn arguments() -> Vec<f32> {
    let mut draw = Draw::new(1);
    let mut all = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        0.25,
        1.5,
        2.5,
        -2.5,
        3.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-5,
        -1e-5,
        3e-8,
        88.0,
        -88.0,
        100.0,
        -100.0,
        1e5,
        16777216.0,
    ];
    for _ in 0..1000 {
        all.push(draw.float(-10.0, 10.0));
        let exponent = draw.float(-20.0, 20.0);
        all.push(exponent.exp2() * if draw.word() & 1 == 0 { 1.0 } else { -1.0 });
    }
    all
}

/// Returns a message if a value is wrong.
fn fault(what: &str, got: f32, want: f64, ulps: f64, dtype: DType) -> Option<String> {
    let limit = if dtype == DType::F16 { 65520.0 } else { f64::from(f32::MAX) };
    let bound = if want.is_finite() { op::error_bound(ulps, want, dtype) } else { 0.0 };
    let is_right = if want.is_nan() {
        got.is_nan()
    } else if want.abs() + bound > limit && got.is_infinite() {
        (got > 0.0) == (want > 0.0)
    } else {
        f64::from(got) == want || (f64::from(got) - want).abs() <= bound
    };
    (!is_right).then(|| format!("{what} is {got:e}, want {want:e} within {bound:e}"))
}

/// Panics with the first fault of each operation.
#[track_caller]
fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unary_operations_match_reference() {
    let mut faults = Vec::new();
    let x = arguments();
    for device in all_devices() {
        let tensor = Tensor::from_slice(&x, &[x.len()], &device).unwrap();
        let halves: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
        let half_tensor = Tensor::from_slice(&halves, &[x.len()], &device).unwrap();
        for &op in UnaryOp::ALL {
            let Ok(result) = op.result(DType::F32) else { continue };
            let y = tensor.unary(op).unwrap();
            let z = half_tensor.unary(op).unwrap();
            if result == DType::Bool {
                let want: Vec<bool> = x.iter().map(|&x| op.exact(x.into()) == Some(1.0)).collect();
                assert_eq!(y.to_vec::<bool>().unwrap(), want, "{} on {device}", op.name());
                continue;
            }
            let (y, z) = (y.to_vec::<f32>().unwrap(), z.to_vec::<f16>().unwrap());
            let exact = |x: f64| op.exact(x).unwrap();
            let what = |x: f64| format!("{}({x:e}) on {device}", op.name());
            faults.extend(
                x.iter()
                    .map(|&x| f64::from(x))
                    .zip(&y)
                    .find_map(|(x, &y)| fault(&what(x), y, exact(x), op.ulps(x), DType::F32)),
            );
            faults.extend(halves.iter().map(|h| h.to_f64()).zip(&z).find_map(|(x, z)| {
                fault(&format!("half {}", what(x)), z.to_f32(), exact(x), op.ulps(x), DType::F16)
            }));
        }
    }
    report(faults);
}

#[test]
fn binary_operations_match_reference() {
    let mut faults = Vec::new();
    let left = arguments();
    let mut right = left.clone();
    right.rotate_left(7);
    right[0] = 0.0;
    for device in all_devices() {
        let a = Tensor::from_slice(&left, &[left.len()], &device).unwrap();
        let b = Tensor::from_slice(&right, &[left.len()], &device).unwrap();
        for &op in BinaryOp::ALL {
            let Ok(result) = op.result(DType::F32) else { continue };
            let y = Tensor::binary(op, &a, &b).unwrap();
            let pairs = left.iter().zip(&right).map(|(&x, &y)| (f64::from(x), f64::from(y)));
            if result == DType::Bool {
                let want: Vec<bool> = pairs.map(|(x, y)| op.exact(x, y) == Some(1.0)).collect();
                assert_eq!(y.to_vec::<bool>().unwrap(), want, "{} on {device}", op.name());
                continue;
            }
            faults.extend(pairs.zip(y.to_vec::<f32>().unwrap()).find_map(|((x, z), got)| {
                let want = op.exact(x, z).unwrap();
                fault(
                    &format!("{}({x:e}, {z:e}) on {device}", op.name()),
                    got,
                    want,
                    op.ulps(x, z),
                    DType::F32,
                )
            }));
        }
    }
    report(faults);
}

#[test]
fn integers_are_exact_on_every_device() {
    let mut draw = Draw::new(3);
    let mut x = draw.ints(500, -1000, 1000);
    let mut y = draw.ints(500, -9, 40);
    x.extend([i32::MIN, i32::MAX, i32::MIN, 0, 7]);
    y.extend([-1, 3, 0, 0, -2]);
    let bytes = |values: &[i32]| values.iter().map(|&v| v as u8).collect::<Vec<u8>>();
    let wide =
        |values: &[i32]| values.iter().map(|&v| i64::from(v) << 20 ^ 5).collect::<Vec<i64>>();
    let cpu = |data: &[i32]| Tensor::from_slice(data, &[data.len()], &Device::Cpu).unwrap();
    for device in [gpu(), crate::common::checked_gpu(), crate::common::plain_gpu()] {
        let pairs = [
            (cpu(&x), cpu(&y)),
            (
                Tensor::from_slice(&bytes(&x), &[x.len()], &Device::Cpu).unwrap(),
                Tensor::from_slice(&bytes(&y), &[x.len()], &Device::Cpu).unwrap(),
            ),
            (
                Tensor::from_slice(&wide(&x), &[x.len()], &Device::Cpu).unwrap(),
                Tensor::from_slice(&wide(&y), &[x.len()], &Device::Cpu).unwrap(),
            ),
        ];
        for (a, b) in pairs {
            if !device.supports(a.dtype()) {
                let refused = a.to_device(&device);
                assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
                continue;
            }
            let (on_a, on_b) = (a.to_device(&device).unwrap(), b.to_device(&device).unwrap());
            let equal = |name: &str, want: Tensor, got: Tensor| {
                let got = got
                    .to_device(&Device::Cpu)
                    .unwrap()
                    .cast(DType::I64)
                    .unwrap()
                    .to_vec::<i64>()
                    .unwrap();
                let want = want.cast(DType::I64).unwrap().to_vec::<i64>().unwrap();
                assert_eq!(got, want, "{name} of {} on {device}", a.dtype());
            };
            for &op in UnaryOp::ALL {
                if op.result(a.dtype()).is_ok() {
                    equal(op.name(), a.unary(op).unwrap(), on_a.unary(op).unwrap());
                }
            }
            for &op in BinaryOp::ALL {
                if op.result(a.dtype()).is_ok() {
                    equal(
                        op.name(),
                        Tensor::binary(op, &a, &b).unwrap(),
                        Tensor::binary(op, &on_a, &on_b).unwrap(),
                    );
                }
            }
        }
    }
    // The CPU is compared with Rust.
    let sum = cpu(&x).add(&cpu(&y)).unwrap().to_vec::<i32>().unwrap();
    assert!(sum.iter().zip(x.iter().zip(&y)).all(|(s, (a, b))| *s == a.wrapping_add(*b)));
    let quotient = cpu(&x).floor_divide(&cpu(&y)).unwrap().to_vec::<i32>().unwrap();
    let floor = |a: i32, b: i32| {
        if b == 0 { 0 } else { (f64::from(a) / f64::from(b)).floor() as i64 as i32 }
    };
    assert!(
        quotient.iter().zip(x.iter().zip(&y)).all(|(q, (a, b))| *q == floor(*a, *b)),
        "{quotient:?}"
    );
}

#[test]
fn special_values_follow_the_array_api_standard() {
    let inf = f32::INFINITY;
    // Dividend, divisor, quotient rounded down; NaN is written as such.
    let quotients = [
        [0.0, 1.0, 0.0],
        [-0.0, 1.0, -0.0],
        [0.0, -1.0, -0.0],
        [-0.0, -1.0, 0.0],
        [0.0, 0.0, f32::NAN],
        [1.0, 0.0, inf],
        [1.0, -0.0, -inf],
        [-1.0, 0.0, -inf],
        [inf, 2.0, inf],
        [inf, -2.0, -inf],
        [-inf, 2.0, -inf],
        [-inf, -2.0, inf],
        [inf, inf, f32::NAN],
        [1.0, inf, 0.0],
        [-1.0, -inf, 0.0],
        [-1.0, inf, -0.0],
        [1.0, -inf, -0.0],
        [-0.5, -1.0, 0.0],
        [5.0, -2.0, -3.0],
        [f32::NAN, inf, f32::NAN],
        [inf, f32::NAN, f32::NAN],
    ];
    let bits = |values: &[f32]| -> Vec<Option<u32>> {
        values.iter().map(|value| (!value.is_nan()).then_some(value.to_bits())).collect()
    };
    for device in devices() {
        let column = |k: usize| quotients.map(|row| row[k]);
        let tensor = |values: &[f32]| Tensor::from_slice(values, &[values.len()], &device).unwrap();
        let found =
            tensor(&column(0)).floor_divide(&tensor(&column(1))).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(bits(&found), bits(&column(2)), "{device}: {found:?}");
        let signs =
            tensor(&[-0.0, 0.0, -3.0, inf, f32::NAN]).sign().unwrap().to_vec::<f32>().unwrap();
        assert_eq!(bits(&signs), bits(&[0.0, 0.0, -1.0, 1.0, f32::NAN]), "{device}");
        // Distances of at least the width leave no bit of a number, but copies of its sign.
        let by = Tensor::from_slice(&[31i32, 32, 33, 64, i32::MAX, -1], &[6], &device).unwrap();
        let x = Tensor::from_slice(&[-5i32; 6], &[6], &device).unwrap();
        assert_eq!(
            x.shift_left(&by).unwrap().to_vec::<i32>().unwrap(),
            [i32::MIN, 0, 0, 0, 0, 0],
            "{device}"
        );
        assert_eq!(x.shift_right(&by).unwrap().to_vec::<i32>().unwrap(), [-1; 6], "{device}");
        let bytes = Tensor::from_slice(&[255u8; 4], &[4], &device).unwrap();
        let by = Tensor::from_slice(&[7u8, 8, 9, 255], &[4], &device).unwrap();
        assert_eq!(
            bytes.shift_left(&by).unwrap().to_vec::<u8>().unwrap(),
            [128, 0, 0, 0],
            "{device}"
        );
        assert_eq!(
            bytes.shift_right(&by).unwrap().to_vec::<u8>().unwrap(),
            [1, 0, 0, 0],
            "{device}"
        );
    }
}

#[test]
fn casts() {
    let floats =
        [0.0f32, -0.7, 1.9, -300.5, 255.6, 3e9, -3e9, f32::NAN, f32::INFINITY, 1e-20, 65504.0];
    for device in devices() {
        let x = Tensor::from_slice(&floats, &[floats.len()], &device).unwrap();
        let ints = x.cast(DType::I32).unwrap().to_vec::<i32>().unwrap();
        assert_eq!(ints, floats.map(|x| x as i32), "{device}");
        assert_eq!(
            x.cast(DType::U8).unwrap().to_vec::<u8>().unwrap(),
            floats.map(|x| x as u8),
            "{device}"
        );
        assert_eq!(
            x.cast(DType::Bool).unwrap().to_vec::<bool>().unwrap(),
            floats.map(|x| x != 0.0),
            "{device}"
        );
        let halves = x.cast(DType::F16).unwrap().to_vec::<f16>().unwrap();
        assert!(
            halves
                .iter()
                .zip(floats)
                .all(|(h, x)| h.to_bits() == f16::from_f32(x).to_bits() || x.is_nan())
        );
        let n = Tensor::from_slice(&[-1i32, 0, 256, 70_000, i32::MAX], &[5], &device).unwrap();
        assert_eq!(n.cast(DType::U8).unwrap().to_vec::<u8>().unwrap(), [255, 0, 0, 112, 255]);
        assert_eq!(
            n.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
            [-1.0, 0.0, 256.0, 70_000.0, 2_147_483_648.0]
        );
        let truth = n.cast(DType::Bool).unwrap();
        assert_eq!(truth.cast(DType::I32).unwrap().to_vec::<i32>().unwrap(), [1, 0, 1, 1, 1]);
        if device.supports(DType::I64) {
            assert_eq!(
                x.cast(DType::I64).unwrap().to_vec::<i64>().unwrap(),
                floats.map(|x| x as i64),
                "{device}"
            );
        }
    }
}

#[test]
fn every_half_survives_a_round_trip() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    for device in devices() {
        let x = Tensor::from_slice(&all, &[all.len()], &device).unwrap();
        let back = x.cast(DType::F32).unwrap().cast(DType::F16).unwrap().to_vec::<f16>().unwrap();
        for (x, y) in all.iter().zip(back) {
            assert!(x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(), "{x} {y} on {device}");
        }
    }
}

#[test]
fn broadcasting_over_views() {
    let mut draw = Draw::new(5);
    let (a, b) = (draw.floats(2 * 3 * 5, -1.0, 1.0), draw.floats(3, -1.0, 1.0));
    for device in all_devices() {
        for (what, x) in crate::common::views(&a, &[2, 3, 5], &device) {
            let y = Tensor::from_slice(&b, &[3, 1], &device).unwrap();
            let sum = x.add(&y).unwrap();
            assert_eq!(sum.shape(), [2, 3, 5]);
            let want: Vec<f32> = (0..30).map(|i| a[i] + b[i / 5 % 3]).collect();
            assert_eq!(sum.to_vec::<f32>().unwrap(), want, "{what} on {device}");
            let back = Tensor::binary(BinaryOp::Sub, 1.0, &x.t().unwrap()).unwrap();
            let want: Vec<f32> =
                (0..30).map(|i| 1.0 - a[i / 15 * 15 + i % 3 * 5 + i / 3 % 5]).collect();
            assert_eq!(back.to_vec::<f32>().unwrap(), want, "{what} on {device}");
        }
        let x = Tensor::from_slice(&a, &[2, 3, 5], &device).unwrap();
        let wrong = Tensor::from_slice(&a[..4], &[4], &device).unwrap();
        assert_eq!(
            x.add(&wrong).unwrap_err(),
            Error::Shapes { op: "add", left: vec![2, 3, 5], right: vec![4] }
        );
    }
}

#[test]
fn where_clip_and_logic() {
    for device in devices() {
        let x =
            Tensor::from_slice(&[-2.0f32, -0.5, 0.0, 0.5, f32::NAN, 9.0], &[6], &device).unwrap();
        let y = x.gt(0.0).unwrap().where_(&x, -1.0).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [-1.0, -1.0, -1.0, 0.5, -1.0, 9.0]);
        let clipped = x.clip(-1.0, 1.0).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(clipped[..4], [-1.0, -0.5, 0.0, 0.5]);
        assert!(clipped[4].is_nan() && clipped[5] == 1.0);
        let [p, q] = [x.gt(-1.0).unwrap(), x.lt(1.0).unwrap()];
        let bools = |t: Tensor| t.to_vec::<bool>().unwrap();
        assert_eq!(bools(p.and(&q).unwrap()), [false, true, true, true, false, false]);
        assert_eq!(bools(p.or(&q).unwrap()), [true, true, true, true, false, true]);
        assert_eq!(bools(p.xor(&q).unwrap()), [true, false, false, false, false, true]);
        assert_eq!(bools(p.not().unwrap()), [true, false, false, false, true, false]);
        assert!(matches!(x.and(&x), Err(Error::DType { .. })));
        assert!(matches!(x.where_(&x, &x), Err(Error::DType { .. })));
    }
}

#[test]
fn fused_chain_is_one_kernel_with_equal_results() {
    let mut draw = Draw::new(9);
    let data = draw.floats(5000, -2.0, 2.0);
    let chain = |x: &Tensor| {
        let y = x.mul(2.0)?.add(1.0)?.exp()?.log1p()?.neg()?;
        y.maximum(-3.0)?.sub(x)?.abs()?.sqrt()?.tanh()
    };
    let Device::Gpu(gpu) = gpu() else { unreachable!() };
    let x = Tensor::from_slice(&data, &[5000], &Device::Gpu(gpu.clone())).unwrap();
    let launches = gpu.launches();
    let fused = chain(&x).unwrap().to_vec::<f32>().unwrap();
    // Other tests may use the device too.
    assert!(gpu.launches() > launches);
    let cpu = chain(&x.to_device(&Device::Cpu).unwrap()).unwrap().to_vec::<f32>().unwrap();
    for (a, b) in fused.iter().zip(&cpu) {
        assert!((a - b).abs() <= 1e-5, "{a} {b}");
    }
    let own = crate::common::own_gpu(&aleatron_device::ContextOptions::default());
    let Device::Gpu(alone) = &own else { unreachable!() };
    let x = Tensor::from_slice(&data, &[5000], &own).unwrap();
    let y = chain(&x).unwrap();
    assert_eq!(alone.launches(), 0);
    assert_eq!(alone.submissions(), 0);
    assert_eq!(y.to_vec::<f32>().unwrap(), fused);
    assert_eq!((alone.launches(), alone.submissions()), (1, 1));
    let created = alone.context().created();
    assert_eq!(chain(&x).unwrap().to_vec::<f32>().unwrap(), fused);
    drop(y);
    assert_eq!(alone.context().created().pipelines, created.pipelines);
}

#[test]
fn empty_and_single_elements() {
    for device in all_devices() {
        let empty = Tensor::from_slice::<f32>(&[], &[0, 3], &device).unwrap();
        assert_eq!(empty.exp().unwrap().add(1.0).unwrap().to_vec::<f32>().unwrap(), [0f32; 0]);
        assert_eq!(empty.add(&empty.t().unwrap().t().unwrap()).unwrap().shape(), [0, 3]);
        let one = Tensor::from_slice(&[3.0f32], &[], &device).unwrap();
        assert_eq!(one.square().unwrap().item::<f32>().unwrap(), 9.0);
        assert_eq!(one.reshape(&[1, 1, 1]).unwrap().add(&empty).unwrap().shape(), [1, 0, 3]);
    }
}

#[test]
fn tensors_of_two_devices_are_an_error() {
    let a = Tensor::ones(&[2], DType::F32, &Device::Cpu).unwrap();
    let b = a.to_device(&gpu()).unwrap();
    let error = a.add(&b).unwrap_err();
    assert!(matches!(&error, Error::Devices { op: "add", left, .. } if left == "cpu"), "{error}");
    assert_eq!(b.add(&b).unwrap().device(), gpu());
}

#[test]
fn wide_integers_with_high_low_words_are_exact() {
    for device in all_devices().into_iter().filter(|device| device.supports(DType::I64)) {
        let zeros = Tensor::zeros(&[5], DType::I64, &device).unwrap();
        for number in [
            3_000_000_000i64,
            -1,
            -3_000_000_000,
            i64::MAX,
            i64::MIN,
            1 << 31,
            (7 << 32) + (1 << 31),
        ] {
            let sum = zeros.add(number).unwrap().to_vec::<i64>().unwrap();
            assert_eq!(sum, [number; 5], "{device}");
        }
        // Enough elements for a reduction in several steps.
        let ones = Tensor::full(&[3, 70_000], 2_147_483_647i64, DType::I64, &device).unwrap();
        let ones = ones.contiguous().unwrap();
        for dims in [&[1][..], &[0, 1]] {
            let sum = ones.sum(dims).unwrap().to_vec::<i64>().unwrap();
            let count = 210_000 / sum.len() as i64;
            assert!(sum.iter().all(|&sum| sum == count * 2_147_483_647), "{sum:?} on {device}");
        }
    }
}
