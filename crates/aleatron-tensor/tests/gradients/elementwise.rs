//! Elementwise operations.

use aleatron_tensor::{BinaryOp, DType, Device, Tensor, UnaryOp};

use super::check::{check, random};
use super::common::Draw;

/// Returns the arguments for which an operation is smooth.
fn domain(op: UnaryOp) -> [f32; 2] {
    match op {
        UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Recip => [0.5, 2.0],
        UnaryOp::Log | UnaryOp::Log2 | UnaryOp::Log10 | UnaryOp::Log1p => [0.5, 2.0],
        UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atanh => [-0.6, 0.6],
        UnaryOp::Acosh => [1.5, 3.0],
        UnaryOp::Abs | UnaryOp::Relu | UnaryOp::Sign => [0.1, 2.0],
        UnaryOp::Round | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc => [0.1, 0.4],
        _ => [-1.2, 1.2],
    }
}

#[test]
fn unary_operations_match_finite_differences() {
    let mut draw = Draw::new(1);
    let mut checked = 0;
    for &op in UnaryOp::ALL {
        if op.result(DType::F64) != Ok(DType::F64) {
            continue;
        }
        let [low, high] = domain(op);
        let x = random(&mut draw, &[2, 3], low, high);
        check(op.name(), std::slice::from_ref(&x), |x| x[0].unary(op));
        // Both signs, if the operation supports them.
        if matches!(op, UnaryOp::Abs | UnaryOp::Relu | UnaryOp::Recip) {
            check(op.name(), &[x.neg().unwrap()], |x| x[0].unary(op));
        }
        checked += 1;
    }
    assert!(checked >= 34, "{checked} operations were checked");
}

#[test]
fn binary_operations_match_finite_differences() {
    let mut draw = Draw::new(2);
    let differentiable = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::FloorDiv,
        BinaryOp::Rem,
        BinaryOp::Pow,
        BinaryOp::Min,
        BinaryOp::Max,
        BinaryOp::LeakyRelu,
        BinaryOp::Elu,
        BinaryOp::Atan2,
        BinaryOp::CopySign,
        BinaryOp::Hypot,
        BinaryOp::LogAddExp,
    ];
    for op in differentiable {
        for (left, right) in
            [(&[2, 3][..], &[2, 3][..]), (&[2, 3], &[3]), (&[3, 1], &[1, 2]), (&[1], &[2, 2, 2])]
        {
            // Quotients lie between two integers.
            let x = random(&mut draw, left, 1.6, 1.9);
            let y = random(&mut draw, right, 1.1, 1.3);
            check(op.name(), &[x.clone(), y.clone()], |x| Tensor::binary(op, &x[0], &x[1]));
            check(op.name(), &[y, x], |x| Tensor::binary(op, &x[0], &x[1]));
        }
        let x = random(&mut draw, &[4], 1.1, 1.3);
        check(op.name(), std::slice::from_ref(&x), |x| Tensor::binary(op, &x[0], 1.7));
        check(op.name(), std::slice::from_ref(&x), |x| Tensor::binary(op, 1.7, &x[0]));
        check(op.name(), &[x], |x| Tensor::binary(op, &x[0], &x[0].mul(1.3)?));
    }
    let negative = random(&mut draw, &[4], -1.5, -0.5);
    let slope = random(&mut draw, &[1], 0.1, 0.3);
    for op in [BinaryOp::LeakyRelu, BinaryOp::Elu] {
        check(op.name(), &[negative.clone(), slope.clone()], |x| Tensor::binary(op, &x[0], &x[1]));
    }
    check("pow", std::slice::from_ref(&negative), |x| x[0].pow(3.0));
    check("copysign", std::slice::from_ref(&negative), |x| {
        Tensor::binary(BinaryOp::CopySign, &x[0], 2.0)
    });
}

#[test]
fn where_and_clip_match_finite_differences() {
    let mut draw = Draw::new(3);
    let condition = Tensor::from_slice(&[true, false, true], &[3], &Device::Cpu).unwrap();
    let [x, y] = [&[2, 3][..], &[2, 1]].map(|shape| random(&mut draw, shape, -1.0, 1.0));
    check("where", &[x.clone(), y.clone()], |x| condition.where_(&x[0], &x[1]));
    check("where with a number", std::slice::from_ref(&x), |x| condition.where_(&x[0], 2.0));
    check("where with a number first", &[x], |x| condition.where_(2.0, &x[0]));
    let values = Tensor::from_slice(&[-2.0f64, -0.3, 0.4, 3.0], &[4], &Device::Cpu).unwrap();
    let (low, high) = (random(&mut draw, &[4], -1.2, -1.0), random(&mut draw, &[1], 1.0, 1.2));
    check("clip", std::slice::from_ref(&values), |x| x[0].clip(-1.0, 1.0));
    check("clip by tensors", &[values, low, high], |x| x[0].clip(&x[1], &x[2]));
}

/// Returns the gradient of a function at one point.
fn slope(x: f32, f: impl Fn(&Tensor) -> aleatron_tensor::Result<Tensor>) -> f32 {
    let x = Tensor::from_slice(&[x], &[], &Device::Cpu).unwrap().requires_grad().unwrap();
    f(&x).unwrap().backward().unwrap();
    x.grad().unwrap().item::<f32>().unwrap()
}

#[test]
fn gradients_at_kinks_follow_the_documented_choices() {
    assert_eq!(slope(0.0, Tensor::relu), 0.0);
    assert_eq!(slope(0.0, Tensor::abs), 0.0);
    assert_eq!(slope(1.5, Tensor::round), 0.0);
    assert_eq!(slope(1.0, |x| x.clip(1.0, 2.0)), 1.0);
    assert_eq!(slope(2.0, |x| x.clip(1.0, 2.0)), 1.0);
    assert_eq!(slope(2.5, |x| x.clip(1.0, 2.0)), 0.0);
    assert_eq!(slope(3.0, |x| x.maximum(3.0)), 0.5);
    assert_eq!(slope(3.0, |x| x.minimum(3.0)), 0.5);
    assert_eq!(slope(0.0, |x| x.pow(0.0)), 0.0);
    assert_eq!(slope(0.0, |x| x.pow(2.0)), 0.0);
    assert_eq!(slope(0.0, |x| Tensor::binary(BinaryOp::Pow, 0.0, &x.add(1.0)?)), 0.0);
    assert!(slope(f32::NAN, Tensor::relu) == 1.0);
}

#[test]
fn results_without_a_gradient_are_untracked() {
    let x = Tensor::ones(&[3], DType::F32, &Device::Cpu).unwrap().requires_grad().unwrap();
    assert!(x.add(1.0).unwrap().is_tracked());
    let untracked = [
        x.gt(0.0),
        x.eq(&x),
        x.is_nan(),
        x.cast(DType::I32),
        x.cast(DType::Bool),
        x.argmax(0),
        x.any(0),
        x.argsort(0, aleatron_tensor::Order::Ascending),
        Tensor::binary(BinaryOp::NextAfter, &x, 2.0),
    ];
    for result in untracked {
        assert!(!result.unwrap().is_tracked());
    }
    let narrow = x.cast(DType::F16).unwrap();
    narrow.sum_all().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().dtype(), DType::F32);
}

#[test]
fn types_promote_and_gradients_keep_the_type_of_their_argument() {
    let x =
        Tensor::from_slice(&[1.0f32, 2.0], &[2], &Device::Cpu).unwrap().cast(DType::F16).unwrap();
    let (x, y) = (
        x.requires_grad().unwrap(),
        Tensor::from_slice(&[3.0f32, 5.0], &[2], &Device::Cpu).unwrap(),
    );
    let y = y.requires_grad().unwrap();
    x.mul(&y).unwrap().sum_all().unwrap().backward().unwrap();
    let (x, y) = (x.grad().unwrap(), y.grad().unwrap());
    assert_eq!((x.dtype(), y.dtype()), (DType::F16, DType::F32));
    assert_eq!(x.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(), [3.0, 5.0]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn operators_record() {
    let x = Tensor::from_slice(&[2.0f32], &[1], &Device::Cpu).unwrap().requires_grad().unwrap();
    let y = (-((2.0 * &x + &x) / &x - &x).unwrap()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [-1.0]);
    (&y * &x).unwrap().backward().unwrap();
    // -(3 - x) x has the derivative 2 x - 3.
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [1.0]);
}
