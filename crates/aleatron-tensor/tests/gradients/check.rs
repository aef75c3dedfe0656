//! Comparison of gradients with finite differences.

use aleatron_tensor::{DType, Device, Result, Tensor};

use super::common::Draw;

/// Random 64-bit floats between two bounds.
pub(crate) fn random(draw: &mut Draw, shape: &[usize], low: f32, high: f32) -> Tensor {
    let len = shape.iter().product();
    let values: Vec<f64> = draw.floats(len, low, high).into_iter().map(f64::from).collect();
    Tensor::from_slice(&values, shape, &Device::Cpu).unwrap()
}

/// The step of the differences. Four values give an error of h^4 / 30 times the fifth derivative,
/// about 3e-14 of it.
const STEP: f64 = 1.0 / 1024.0;

/// Roundings of a weighted sum: 2^-53 each, for some hundred operations, over the step.
const ROUNDING: f64 = 1e-11;

/// The error of the differences for functions whose fifth derivative is at most 10^5.
const TRUNCATION: f64 = 3e-9;

/// Checks the gradients of a function with respect to all inputs. The sum of the results with
/// random weights is differentiated.
#[track_caller]
pub(crate) fn check(what: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let shape = f(inputs).unwrap_or_else(|error| panic!("{what}: {error}")).shape().to_vec();
    let weights = random(&mut Draw::new(99), &shape, -1.0, 1.0);
    let loss = |inputs: &[Tensor]| f(inputs)?.mul(&weights)?.sum_all();
    let leaves: Vec<Tensor> = inputs.iter().map(|input| input.requires_grad().unwrap()).collect();
    let output = loss(&leaves).unwrap();
    assert!(output.is_tracked(), "{what}: the result is untracked");
    output.backward().unwrap_or_else(|error| panic!("{what}: {error}"));
    let magnitude = f(inputs)
        .unwrap()
        .mul(&weights)
        .unwrap()
        .abs()
        .unwrap()
        .sum_all()
        .unwrap()
        .item::<f64>()
        .unwrap();
    let bound = TRUNCATION + ROUNDING * (1.0 + magnitude);
    for (number, (input, leaf)) in inputs.iter().zip(&leaves).enumerate() {
        let gradient =
            leaf.grad().unwrap_or_else(|| panic!("{what}: input {number} has no gradient"));
        assert_eq!(gradient.shape(), input.shape(), "{what}: shape of gradient {number}");
        assert_eq!(gradient.dtype(), DType::F64, "{what}: type of gradient {number}");
        let (gradient, values) =
            (gradient.to_vec::<f64>().unwrap(), input.to_vec::<f64>().unwrap());
        for i in 0..values.len() {
            let at = |change: f64| {
                let mut moved = values.clone();
                moved[i] += change;
                let mut inputs = inputs.to_vec();
                inputs[number] = Tensor::from_slice(&moved, input.shape(), &Device::Cpu).unwrap();
                loss(&inputs).unwrap().item::<f64>().unwrap()
            };
            let near = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let far = (at(2.0 * STEP) - at(-2.0 * STEP)) / (4.0 * STEP);
            let expected = (4.0 * near - far) / 3.0;
            let error = (gradient[i] - expected).abs();
            assert!(
                error <= bound,
                "{what}: gradient {number}, element {i} is {}, differences give {expected}: error {error:e}, bound {bound:e}",
                gradient[i]
            );
        }
    }
}
