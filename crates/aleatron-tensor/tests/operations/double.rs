//! 64-bit floats: exact arithmetic of the CPU, and a clear error on GPUs.

use aleatron_tensor::{BinaryOp, ConvOptions, DType, Device, Error, Order, Scalar, Tensor};
use half::f16;

use crate::common;

fn of(values: &[f64]) -> Tensor {
    Tensor::from_slice(values, &[values.len()], &Device::Cpu).unwrap()
}

fn values(tensor: aleatron_tensor::Result<Tensor>) -> Vec<f64> {
    tensor.unwrap().to_vec().unwrap()
}

#[test]
fn arithmetic_of_doubles_has_64_bits() {
    let x = of(&[0.1, -7.5, 1e300, f64::INFINITY]);
    let y = of(&[0.2, 2.0, 1e-300, 3.0]);
    assert_eq!(values(x.add(&y)), [0.1 + 0.2, -5.5, 1e300, f64::INFINITY]);
    assert_eq!(values(x.mul(&y)), [0.1 * 0.2, -15.0, 1e300 * 1e-300, f64::INFINITY]);
    assert_eq!(values(&x - 1e-12)[0], 0.1 - 1e-12);
    assert_eq!(values(x.floor_divide(&y))[..2], [0.0, -4.0]);
    assert_eq!(values(x.remainder(&y))[..2], [0.1, 0.5]);
    assert_eq!(
        values(Tensor::binary(BinaryOp::NextAfter, &of(&[1.0]), &of(&[2.0]))),
        [1.0 + f64::EPSILON]
    );
    assert_eq!(values(of(&[2.0, 0.5]).sqrt()), [2f64.sqrt(), 0.5f64.sqrt()]);
    assert_eq!(values(of(&[1.0]).exp()), [1f64.exp()]);
    assert_eq!(values(of(&[-1.0, 2.0]).relu()), [0.0, 2.0]);
    // With 32-bit floats the result is of 64 bits; integers do not combine.
    let narrow = Tensor::from_slice(&[1.5f32, 1.5, 1.5, 1.5], &[4], &Device::Cpu).unwrap();
    assert_eq!(values(x.add(&narrow))[0], 0.1 + 1.5);
    assert!(matches!(x.add(&narrow.cast(DType::I64).unwrap()), Err(Error::Promotion { .. })));
    assert_eq!(x.gt(&y).unwrap().to_vec::<bool>().unwrap(), [false, false, true, true]);
    assert_eq!(x.is_inf().unwrap().to_vec::<bool>().unwrap(), [false, false, false, true]);
    let chosen = x.gt(0.0).unwrap().where_(&x, &y);
    assert_eq!(values(chosen)[..2], [0.1, 2.0]);
    assert_eq!(
        values(Tensor::full(&[2], Scalar::Int(1 << 40), DType::F64, &Device::Cpu)),
        [2f64.powi(40); 2]
    );
    assert_eq!(values(Tensor::arange(0.0, 0.3, 0.1, DType::F64, &Device::Cpu)), [0.0, 0.1, 0.2]);
}

#[test]
fn casts_keep_the_nearest_value() {
    let x = of(&[1.0 + 2f64.powi(-11) + 2f64.powi(-20)]);
    assert_eq!(
        x.cast(DType::F16).unwrap().to_vec::<f16>().unwrap(),
        [f16::from_f32(1.0 + 2f32.powi(-10))]
    );
    assert_eq!(
        x.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        [1.0 + 2f32.powi(-11) + 2f32.powi(-20)]
    );
    let wide = of(&[3e9, -1e300, f64::NAN, 0.0]);
    assert_eq!(
        wide.cast(DType::I64).unwrap().to_vec::<i64>().unwrap(),
        [3_000_000_000, i64::MIN, 0, 0]
    );
    assert_eq!(
        wide.cast(DType::Bool).unwrap().to_vec::<bool>().unwrap(),
        [true, true, true, false]
    );
    let back = Tensor::from_slice(&[i64::MAX], &[1], &Device::Cpu).unwrap().cast(DType::F64);
    assert_eq!(values(back), [9_223_372_036_854_775_807i64 as f64]);
}

#[test]
fn reductions_and_sorts_of_doubles_have_64_bits() {
    let n = 100_000;
    let x = of(&(1..=n).map(f64::from).collect::<Vec<_>>());
    assert_eq!(values(x.sum_all()), [f64::from(n) * f64::from(n + 1) / 2.0]);
    assert_eq!(values(x.mean_all()), [f64::from(n + 1) / 2.0]);
    let squares = x.reshape(&[100, 1000]).unwrap();
    assert_eq!(values(squares.max(0))[..2], [99_001.0, 99_002.0]);
    assert_eq!(squares.argmin(1).unwrap().to_vec::<i32>().unwrap(), [0; 100]);
    let nan = of(&[2.0, f64::NAN, 3.0]);
    assert!(values(nan.max_all())[0].is_nan());
    assert_eq!(nan.argmax_all().unwrap().item::<i32>().unwrap(), 1);
    assert_eq!(
        values(of(&[1.0, 1.0 + f64::EPSILON, 1.0 - f64::EPSILON]).sort(0, Order::Ascending)),
        [1.0 - f64::EPSILON, 1.0, 1.0 + f64::EPSILON]
    );
    assert_eq!(values(of(&[1.0, 1e-16, -1.0]).cumsum(0)), [1.0, 1.0, 0.0]);
    assert_eq!(values(of(&[1.0, 2.0, 4.0]).var_all(1.0)), [7.0 / 3.0]);
    let total: f64 = values(of(&[1.0, 2.0, 3.0]).softmax(&[0])).iter().sum();
    assert!((total - 1.0).abs() <= 2.0 * f64::EPSILON, "{total}");
    assert_eq!(values(of(&[1000.0, 1000.0]).logsumexp_all()), [1000.0 + 2f64.ln()]);
}

#[test]
fn products_views_and_slices_of_doubles_have_64_bits() {
    let x = of(&[1.0, 1e-12, 3.0, 4.0]).reshape(&[2, 2]).unwrap();
    assert_eq!(values(x.matmul(&x)), [1.0 + 3e-12, 1e-12 + 4e-12, 15.0, 16.0 + 3e-12]);
    assert_eq!(values(x.t().unwrap().matmul(&x.slice(1, ..1).unwrap())), [10.0, 1e-12 + 12.0]);
    assert_eq!(
        values(Tensor::concat(&[&x, &x.t().unwrap()], 0)),
        [1.0, 1e-12, 3.0, 4.0, 1.0, 3.0, 1e-12, 4.0]
    );
    let indices = Tensor::from_slice(&[1i32, -2], &[2], &Device::Cpu).unwrap();
    assert_eq!(values(x.index_select(1, &indices)), [1e-12, 1.0, 4.0, 3.0]);
    assert_eq!(of(&[0.1, 0.2]).to_string(), "[0.1 0.2]");
}

#[test]
fn gpus_and_network_operations_reject_doubles() {
    let gpu = common::gpu();
    assert!(!gpu.supports(DType::F64));
    let is_refused = |result: aleatron_tensor::Result<Tensor>| matches!(result, Err(Error::Unsupported { what, .. }) if what.starts_with("64-bit floats"));
    assert!(is_refused(of(&[1.0]).to_device(&gpu)));
    assert!(is_refused(Tensor::zeros(&[2], DType::F64, &gpu)));
    assert!(is_refused(Tensor::ones(&[2], DType::F32, &gpu).unwrap().cast(DType::F64)));
    let image = of(&[1.0; 9]).reshape(&[1, 1, 3, 3]).unwrap();
    let refused = image.conv2d(&image, None, &ConvOptions::default());
    assert!(matches!(refused, Err(Error::DType { dtype: DType::F64, .. })));
    let query = of(&[1.0; 4]).reshape(&[2, 2]).unwrap();
    let refused = query.attention(&query, &query, &Default::default());
    assert!(matches!(refused, Err(Error::DType { dtype: DType::F64, .. })));
}
