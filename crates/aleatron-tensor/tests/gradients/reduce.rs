//! Reductions, normalizations, running sums and sorting.

use aleatron_tensor::{DType, Device, Dims, Order, Reduction, Tensor};

use super::check::{check, random};
use super::common::Draw;

#[test]
fn reductions_match_finite_differences() {
    let mut draw = Draw::new(11);
    let reductions = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
        Reduction::LogSumExp,
    ];
    for reduction in reductions {
        for axes in [&[][..], &[0], &[-1], &[0, 2]] {
            for dims in [Dims::Drop, Dims::Keep] {
                let x = random(&mut draw, &[2, 3, 2], 0.5, 1.5);
                check(reduction.name(), &[x], |x| x[0].reduce(reduction, axes, dims));
            }
        }
        let x = random(&mut draw, &[3, 1], 0.5, 1.5);
        check("a broadcast view", &[x], |x| {
            x[0].broadcast_to(&[2, 3, 4])?.reduce(reduction, &[0, 2], Dims::Drop)
        });
    }
}

#[test]
fn variance_matches_finite_differences() {
    let mut draw = Draw::new(12);
    for correction in [0.0, 1.0] {
        let x = random(&mut draw, &[3, 4], -1.0, 1.0);
        check("var", std::slice::from_ref(&x), |x| x[0].var(1, correction));
        check("var_keepdim", std::slice::from_ref(&x), |x| x[0].var_keepdim([0, 1], correction));
        check("var of a broadcast view", &[x], |x| {
            x[0].unsqueeze(0)?.broadcast_to(&[2, 3, 4])?.var_all(correction)
        });
    }
}

#[test]
fn normalizations_match_finite_differences() {
    let mut draw = Draw::new(13);
    for axes in [&[-1][..], &[0], &[0, 1], &[]] {
        let x = random(&mut draw, &[3, 4], -1.0, 1.0);
        check("softmax", std::slice::from_ref(&x), |x| x[0].softmax(axes));
        check("log_softmax", std::slice::from_ref(&x), |x| x[0].log_softmax(axes));
        check("layer_norm", std::slice::from_ref(&x), |x| x[0].layer_norm(axes, None, None, 0.1));
        check("rms_norm", std::slice::from_ref(&x), |x| x[0].rms_norm(axes, None, 0.1));
        let (scale, shift) =
            (random(&mut draw, &[4], 0.5, 1.5), random(&mut draw, &[3, 1], -1.0, 1.0));
        let inputs = [x.clone(), scale.clone(), shift.clone()];
        check("layer_norm with weights", &inputs, |x| {
            x[0].layer_norm(axes, Some(&x[1]), Some(&x[2]), 0.1)
        });
        check("layer_norm with a shift", &[x.clone(), shift], |x| {
            x[0].layer_norm(axes, None, Some(&x[1]), 0.1)
        });
        check("rms_norm with a scale", &[x, scale], |x| x[0].rms_norm(axes, Some(&x[1]), 0.1));
    }
}

#[test]
fn running_sums_and_products_match_finite_differences() {
    let mut draw = Draw::new(14);
    for axis in [0, 1, -1] {
        let x = random(&mut draw, &[3, 4], 0.5, 1.5);
        check("cumsum", std::slice::from_ref(&x), |x| x[0].cumsum(axis));
        check("cumprod", &[x], |x| x[0].cumprod(axis));
    }
    // One zero, two zeros, none.
    let x = [0.5f64, 0.0, 2.0, 3.0, 0.0, 2.0, 0.0, 1.5, 1.0, 2.0, 3.0, 4.0];
    let x = Tensor::from_slice(&x, &[3, 4], &Device::Cpu).unwrap();
    check("cumprod with zeros", std::slice::from_ref(&x), |x| x[0].cumprod(1));
    check("prod with zeros", &[x], |x| x[0].prod(1));
}

#[test]
fn sorting_matches_finite_differences() {
    let mut draw = Draw::new(15);
    let x = random(&mut draw, &[3, 4], -1.0, 1.0);
    for order in [Order::Ascending, Order::Descending] {
        check("sort", std::slice::from_ref(&x), |x| x[0].sort(1, order));
        check("topk", std::slice::from_ref(&x), |x| {
            x[0].topk(2, 0, order).map(|(values, _)| values)
        });
    }
}

#[test]
fn equal_extremes_share_the_gradient_evenly() {
    let x = Tensor::from_slice(&[3.0f32, 1.0, 3.0, 2.0, 2.0, 2.0], &[2, 3], &Device::Cpu).unwrap();
    let x = x.requires_grad().unwrap();
    x.max(1).unwrap().mul(6.0).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [3.0, 0.0, 3.0, 2.0, 2.0, 2.0]);
}

#[test]
fn logsumexp_of_minus_infinities_has_a_zero_gradient() {
    let x = Tensor::full(&[3], f64::NEG_INFINITY, DType::F32, &Device::Cpu)
        .unwrap()
        .requires_grad()
        .unwrap();
    x.logsumexp(0).unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [0.0; 3]);
}

/// Counts past the integers of 16-bit floats.
#[test]
fn gradients_of_16_bit_floats_are_computed_in_32_bits() {
    let x = Tensor::ones(&[100_000], DType::F16, &Device::Cpu).unwrap().requires_grad().unwrap();
    let thousand = Tensor::full(&[], 1000.0, DType::F16, &Device::Cpu).unwrap();
    for mean in [x.mean_all(), x.max_all()] {
        x.zero_grad();
        mean.unwrap().backward_with(&thousand).unwrap();
        let gradient = x.grad().unwrap();
        assert_eq!(gradient.dtype(), DType::F16);
        // 0.01, rounded to 16 bits.
        assert_eq!(
            gradient.cast(DType::F32).unwrap().slice(0, ..1).unwrap().to_vec::<f32>().unwrap(),
            [0.010_002_136]
        );
    }
}
