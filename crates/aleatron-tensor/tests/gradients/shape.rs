//! Views, concatenation, padding, indices and resizing.

use aleatron_tensor::{
    Coordinates, DType, Device, Filter, Interpolation, Nearest, PadMode, ResizeAxis, ResizeOptions,
    Slice, Tensor,
};

use super::check::{check, random};
use super::common::Draw;

#[test]
fn views_match_finite_differences() {
    let mut draw = Draw::new(21);
    let x = random(&mut draw, &[3, 4, 5], -1.0, 1.0);
    let all = [x];
    check("slice", &all, |x| x[0].slice(1, 1..3));
    check("slice with a step", &all, |x| x[0].slice(-1, Slice::from(1..).step(2)));
    check("slice with a step of the last element", &all, |x| {
        x[0].slice(2, Slice::from(4..).step(7))
    });
    check("slice of nothing and all", &all, |x| Tensor::concat(&[&x[0].slice(1, 2..2)?, &x[0]], 1));
    check("select", &all, |x| x[0].select(1, 2));
    check("flip", &all, |x| x[0].flip(0));
    check("transpose", &all, |x| x[0].transpose(0, 2));
    check("permute", &all, |x| x[0].permute(&[2, 0, -2]));
    check("unsqueeze and squeeze", &all, |x| x[0].slice(0, ..1)?.squeeze(0)?.unsqueeze(-1));
    check("broadcast_to", &all, |x| x[0].slice(1, ..1)?.broadcast_to(&[2, 3, 2, 5]));
    check("reshape", &all, |x| x[0].reshape(&[6, 10]));
    check("reshape with a copy", &all, |x| x[0].t()?.reshape(&[60]));
    check("view", &all, |x| x[0].view(&[12, 5]));
    check("flatten", &all, |x| x[0].flatten(0, 1));
    check("contiguous", &all, |x| x[0].t()?.contiguous());
    check("split", &all, |x| {
        let parts = x[0].split(&[1, 3], 1)?;
        parts[0].mul(&parts[1])
    });
}

#[test]
fn assembly_matches_finite_differences() {
    let mut draw = Draw::new(22);
    let [x, y] = [&[2, 3][..], &[2, 2]].map(|shape| random(&mut draw, shape, -1.0, 1.0));
    check("concat", &[x.clone(), y.clone()], |x| Tensor::concat(&[&x[0], &x[1], &x[0]], -1));
    check("stack", std::slice::from_ref(&x), |x| Tensor::stack(&[&x[0], &x[0].square()?], 1));
    let constant = random(&mut draw, &[2, 2], -1.0, 1.0);
    check("concat with a constant", std::slice::from_ref(&x), |x| {
        Tensor::concat(&[&constant, &x[0]], 1)
    });
    for mode in [PadMode::Constant(2.0.into()), PadMode::Edge, PadMode::Reflect, PadMode::Wrap] {
        check("pad", std::slice::from_ref(&x), |x| x[0].pad(&[(1, 0), (2, 1)], mode));
    }
    check("tile", std::slice::from_ref(&x), |x| x[0].tile(&[2, 1, 2]));
    check("repeat", std::slice::from_ref(&x), |x| x[0].repeat(3, 0));
    check("roll", std::slice::from_ref(&x), |x| x[0].roll(2, 1));
    check("tril", std::slice::from_ref(&x), |x| x[0].tril(0));
    check("triu", &[x], |x| x[0].triu(1));
}

#[test]
fn indices_match_finite_differences() {
    let mut draw = Draw::new(23);
    let x = random(&mut draw, &[3, 4], -1.0, 1.0);
    let indices =
        |values: &[i32], shape: &[usize]| Tensor::from_slice(values, shape, &Device::Cpu).unwrap();
    let one = indices(&[2, 0, -1], &[3, 1]);
    check("gather of one", std::slice::from_ref(&x), |x| x[0].gather(1, &one));
    let several = indices(&[2, 0, 2, 1, -1, 1], &[3, 2]);
    check("gather", std::slice::from_ref(&x), |x| x[0].gather(1, &several));
    check("gather along the first axis", std::slice::from_ref(&x), |x| {
        x[0].gather(0, &indices(&[1, 1, 0, -1], &[1, 4]))
    });
    check("gather, broadcast", std::slice::from_ref(&x), |x| {
        x[0].gather(0, &indices(&[1, 1, 2], &[3, 1]))
    });
    for dtype in [DType::I32, DType::I64] {
        let rows = indices(&[2, 0, 2, -3], &[2, 2]).cast(dtype).unwrap();
        check("index_select", std::slice::from_ref(&x), |x| x[0].index_select(0, &rows));
        check("index_select of columns", std::slice::from_ref(&x), |x| x[0].index_select(1, &rows));
    }
    check("index_select without axes", &[x], |x| x[0].index_select(0, &indices(&[1], &[])));
}

#[test]
fn nearest_resize_matches_finite_differences() {
    let x = random(&mut Draw::new(24), &[2, 3], -1.0, 1.0);
    let axes = [ResizeAxis::new(0, 5), ResizeAxis::new(1, 2)];
    let nearest = Interpolation::Nearest(Nearest::PreferFloor);
    check("resize", &[x], |x| x[0].resize(&axes, &ResizeOptions::new(nearest)));
}

/// Resizing is linear: the gradient of a sum with weights is the transposed operation, found from
/// the results for unit vectors.
#[test]
fn interpolating_resize_has_the_transposed_gradient() {
    let device = Device::Cpu;
    let outside = Coordinates::CropAndResize(3.0);
    let cases = [
        ResizeOptions::new(Interpolation::Linear),
        ResizeOptions {
            coordinates: Coordinates::AlignCorners,
            ..ResizeOptions::new(Interpolation::Cubic(-0.75))
        },
        ResizeOptions { coordinates: outside, ..ResizeOptions::new(Interpolation::Linear) },
        ResizeOptions { filter: Filter::Antialias, ..ResizeOptions::new(Interpolation::Linear) },
    ];
    for options in cases {
        let axes = [
            ResizeAxis { region: [-0.25, 1.25], ..ResizeAxis::new(0, 5) },
            ResizeAxis { region: [0.0, 1.0], ..ResizeAxis::new(1, 2) },
        ];
        let resize = |x: &Tensor| x.resize(&axes, &options).unwrap();
        let weights: Vec<f32> = Draw::new(25).floats(10, -1.0, 1.0);
        let weights = Tensor::from_slice(&weights, &[5, 2], &device).unwrap();
        let x = Tensor::zeros(&[4, 3], DType::F32, &device).unwrap();
        let loss = |x: &Tensor| resize(x).mul(&weights).unwrap().sum_all().unwrap();
        let at_zero = loss(&x).item::<f32>().unwrap();
        let x = x.requires_grad().unwrap();
        loss(&x).backward().unwrap();
        let gradient = x.grad().unwrap().to_vec::<f32>().unwrap();
        for (i, gradient) in gradient.into_iter().enumerate() {
            let mut unit = vec![0f32; 12];
            unit[i] = 1.0;
            let difference =
                loss(&Tensor::from_slice(&unit, &[4, 3], &device).unwrap()).item::<f32>().unwrap()
                    - at_zero;
            // Some thirty roundings of numbers below 10.
            assert!(
                (gradient - difference).abs() < 30.0 * 10.0 * 6e-8,
                "element {i}: {gradient} and {difference}"
            );
        }
    }
}
