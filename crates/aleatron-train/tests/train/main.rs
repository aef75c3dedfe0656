//! Training: modules, losses, optimizers, networks through their streams, and adapters of language
//! models.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "transformer")]
mod language;
mod lengths;
mod losses;
mod modules;
mod networks;
mod optimizers;

use aleatron_tensor::{Device, Tensor};

/// Returns a tensor of 32-bit floats on the CPU.
fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
}

/// Returns the elements of a tensor.
fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec::<f32>().unwrap()
}

/// Asserts that numbers differ by at most `bound`.
#[track_caller]
fn assert_close(actual: &[f32], expected: &[f64], bound: f64) {
    assert_eq!(actual.len(), expected.len());
    for (k, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        assert!((f64::from(a) - e).abs() <= bound, "element {k}: {a} instead of {e}");
    }
}
