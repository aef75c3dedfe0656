//! Softmax, log-softmax, layer and RMS normalisation against 64-bit floats.

use crate::common::{Draw, U, all_devices, assert_within, devices};
use aleatron_tensor::{DType, Device, Error, SUM_DEPTH, Tensor};
use half::f16;

/// Applies a function to each row of the last axis.
fn by_rows(data: &[f32], n: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    data.chunks(n)
        .flat_map(|row| f(&row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()))
        .collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most).exp() / sum).collect()
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| (x - most) - sum.ln()).collect()
}

fn moments(row: &[f64]) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    (mean, row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

/// The largest magnitude that differences within a row have.
const SPREAD: f64 = 16.0;

fn check(what: &str, x: &Tensor, data: &[f32], n: usize) {
    let depth = SUM_DEPTH.min(n) as f64;
    // Exponentials: the rounding of a difference, 1.5 units; the sum; a division of 2.5 units.
    let relative = U * (SPREAD + 3.0 + depth + SPREAD + 3.0 + 5.0);
    let got = x.softmax(&[-1]).unwrap();
    assert_eq!((got.shape(), got.device()), (x.shape(), x.device()));
    let want = by_rows(data, n, softmax);
    assert_within(&format!("softmax {what}"), &got.to_vec().unwrap(), &want, |i| {
        relative * want[i] + 1e-37
    });
    let want = by_rows(data, n, log_softmax);
    let got = x.log_softmax(&[-1]).unwrap().to_vec::<f32>().unwrap();
    assert_within(&format!("log_softmax {what}"), &got, &want, |i| {
        relative + U * (4.0 * want[i].abs() + 3.0 * SPREAD)
    });
    let scale: Vec<f32> = (0..n).map(|i| 1.0 + i as f32 / 8.0).collect();
    let shift: Vec<f32> = (0..n).map(|i| i as f32 - 2.0).collect();
    let [g, b] = [&scale, &shift].map(|w| Tensor::from_slice(w, &[n], &x.device()).unwrap());
    let epsilon = 1e-3f32;
    let got = x.layer_norm(&[-1], Some(&g), Some(&b), epsilon).unwrap().to_vec::<f32>().unwrap();
    let want = by_rows(data, n, |row| {
        let (mean, variance) = moments(row);
        let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
        row.iter()
            .enumerate()
            .map(|(i, x)| (x - mean) * factor * f64::from(scale[i]) + f64::from(shift[i]))
            .collect()
    });
    let rows: Vec<(f64, f64, f64)> = data
        .chunks(n)
        .map(|row| {
            let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let (mean, variance) = moments(&row);
            (mean, variance, row.iter().map(|x| x.abs()).sum())
        })
        .collect();
    assert_within(&format!("layer_norm {what}"), &got, &want, |i| {
        let (mean, variance, size) = rows[i / n];
        let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
        // The mean is off by its sum and a division, a difference by that and a rounding.
        let off = U * ((depth + 5.0) * size / n as f64 + SPREAD);
        // The variance: differences twice, the sum, the square, a division; half of that for its
        // root, which adds 2 units.
        let share = (2.0 * off * variance.sqrt() + off * off) * factor * factor + U * (depth + 8.0);
        let y = (f64::from(data[i]) - mean) * factor;
        let g = f64::from(scale[i % n]);
        (off * factor + y.abs() * (share / 2.0 + 8.0 * U)) * g * 1.05
            + 3.0 * U * (y * g).abs()
            + U * want[i].abs()
            + 1e-12
    });
    let got = x.rms_norm(&[-1], Some(&g), epsilon).unwrap().to_vec::<f32>().unwrap();
    let want = by_rows(data, n, |row| {
        let square = row.iter().map(|x| x * x).sum::<f64>() / n as f64;
        row.iter()
            .enumerate()
            .map(|(i, x)| x / (square + f64::from(epsilon)).sqrt() * f64::from(scale[i]))
            .collect()
    });
    assert_within(&format!("rms_norm {what}"), &got, &want, |i| {
        want[i].abs() * U * ((depth + 8.0) / 2.0 + 8.0) + 1e-12
    });
}

#[test]
fn normalized_or_sorted_rows_of_every_length_match_reference() {
    let mut draw = Draw::new(1);
    for device in all_devices() {
        for (rows, n) in [(3, 4), (5, 7), (2, 64), (4, 1024), (1, 1), (3, 100), (2, 3000)] {
            let data = draw.floats(rows * n, -8.0, 8.0);
            for (view, x) in crate::common::views(&data, &[rows, n], &device) {
                check(&format!("of {rows} x {n}, {view}, on {device}"), &x, &data, n);
            }
        }
    }
    for device in devices() {
        for (rows, n) in [(2, 20_000), (70, 16_388)] {
            let data = draw.floats(rows * n, -8.0, 8.0);
            let x = Tensor::from_slice(&data, &[rows, n], &device).unwrap();
            check(&format!("of {rows} x {n} on {device}"), &x, &data, n);
        }
    }
}

#[test]
fn other_axes() {
    let data = Draw::new(3).floats(2 * 4 * 3 * 4, -4.0, 4.0);
    for device in devices() {
        let x = Tensor::from_slice(&data, &[2, 4, 3, 4], &device).unwrap();
        for axes in [&[1isize][..], &[0, 3], &[1, 2], &[]] {
            let order: Vec<isize> = match axes {
                [] => vec![0, 1, 2, 3],
                _ => (0..4).filter(|a| !axes.contains(a)).chain(axes.iter().copied()).collect(),
            };
            let moved = x.permute(&order).unwrap().contiguous().unwrap();
            let n: usize = if axes.is_empty() {
                96
            } else {
                axes.iter().map(|&a| x.shape()[a as usize]).product()
            };
            let rows = moved
                .reshape(&[96 / n, n])
                .unwrap()
                .softmax(&[1])
                .unwrap()
                .to_vec::<f32>()
                .unwrap();
            let got = x.softmax(axes).unwrap();
            assert_eq!(got.shape(), x.shape());
            let got = got.permute(&order).unwrap().to_vec::<f32>().unwrap();
            for (a, b) in got.iter().zip(&rows) {
                assert!((a - b).abs() <= 1e-6 * b, "{a} {b} over {axes:?} on {device}");
            }
        }
        // Weights that differ along other axes too.
        let g = Tensor::from_slice(&data[..8], &[2, 4, 1, 1], &device).unwrap();
        let y = x.layer_norm(&[-1], Some(&g), None, 1e-5).unwrap();
        let plain = x.layer_norm(&[-1], None, None, 1e-5).unwrap().mul(&g).unwrap();
        let (y, plain) = (y.to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
        assert!(y.iter().zip(&plain).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0)));
    }
}

#[test]
fn special_rows_types_and_empty_tensors() {
    let inf = f32::INFINITY;
    for device in devices() {
        let x = Tensor::from_slice(
            &[-inf, -inf, -inf, -inf, 0.0, -inf, 1.0, 1.0, 1e38, -1e38, 1e38, 0.0],
            &[3, 4],
            &device,
        )
        .unwrap();
        let y = x.softmax(&[1]).unwrap().to_vec::<f32>().unwrap();
        assert!(y[..4].iter().all(|x| x.is_nan()), "{device}: {y:?}");
        assert_eq!(y[5], 0.0);
        assert_eq!(y[8..], [0.5, 0.0, 0.5, 0.0]);
        let halves = x.slice(0, 1..2).unwrap().cast(DType::F16).unwrap().softmax(&[1]).unwrap();
        assert_eq!(halves.dtype(), DType::F16);
        assert_eq!(halves.to_vec::<f16>().unwrap()[1], f16::ZERO);
        let none = Tensor::zeros(&[2, 0], DType::F32, &device).unwrap();
        assert_eq!(none.softmax(&[1]).unwrap().shape(), [2, 0]);
        assert!(matches!(x.cast(DType::I32).unwrap().softmax(&[1]), Err(Error::DType { .. })));
        let wrong = Tensor::zeros(&[3], DType::F32, &device).unwrap();
        assert!(matches!(x.layer_norm(&[1], Some(&wrong), None, 0.1), Err(Error::Shapes { .. })));
    }
    let x = Tensor::zeros(&[2], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(x.softmax(&[1]), Err(Error::Axis { .. })));
}
