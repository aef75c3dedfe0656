//! Losses against their definitions in 64 bits.

use super::{assert_close, tensor, values};
use aleatron_tensor::{Device, Tensor};
use aleatron_train::loss::{
    binary_cross_entropy, cross_entropy, huber, mean_absolute, mean_squared,
};
use aleatron_train::{Error, Loss};

const SCORES: [f32; 6] = [1.0, -2.0, 0.5, 100.0, 98.0, -100.0];

/// Returns the softmax of a row in 64 bits.
fn softmax(row: &[f32]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f32::MIN, f32::max);
    let powers: Vec<f64> = row.iter().map(|&score| f64::from(score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[test]
fn cross_entropy_and_its_gradient_match_the_definition() {
    for smoothing in [0.0, 0.25] {
        let scores = tensor(&SCORES, &[2, 3]).requires_grad().unwrap();
        let labels = Tensor::from_slice(&[2_i32, 0], &[2], &Device::Cpu).unwrap();
        let loss = cross_entropy(&scores, &labels, smoothing).unwrap();
        let target = |row: usize, k: usize| {
            let own = if k == [2, 0][row] { 1.0 - smoothing } else { 0.0 };
            own + smoothing / 3.0
        };
        let rows: Vec<Vec<f64>> = SCORES.chunks(3).map(softmax).collect();
        let mut expected = 0.0;
        let mut gradient = Vec::new();
        for (row, shares) in rows.iter().enumerate() {
            let largest = SCORES[3 * row..3 * row + 3].iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 =
                SCORES[3 * row..3 * row + 3].iter().map(|&s| f64::from(s - largest).exp()).sum();
            for (k, share) in shares.iter().enumerate() {
                let log = f64::from(SCORES[3 * row + k] - largest) - sum.ln();
                expected -= target(row, k) * log / 2.0;
                gradient.push((share - target(row, k)) / 2.0);
            }
        }
        // Scores of 100 have a rounding error of 4e-6 each.
        assert!((f64::from(loss.item::<f32>().unwrap()) - expected).abs() < 2e-5);
        loss.backward().unwrap();
        assert_close(&values(&scores.grad().unwrap()), &gradient, 1e-6);
    }
}

#[test]
fn binary_cross_entropy_is_stable_for_large_scores() {
    let scores = tensor(&[-200.0, 0.0, 200.0, 200.0], &[4]).requires_grad().unwrap();
    let targets = tensor(&[0.0, 1.0, 1.0, 0.0], &[4]);
    let loss = binary_cross_entropy(&scores, &targets).unwrap();
    assert!((f64::from(loss.item::<f32>().unwrap()) - (2.0_f64.ln() + 200.0) / 4.0).abs() < 1e-5);
    loss.backward().unwrap();
    assert_close(&values(&scores.grad().unwrap()), &[0.0, -0.125, 0.0, 0.25], 1e-7);
}

#[test]
fn losses_of_targets_match_their_definitions() {
    let (y, t) = (tensor(&[1.0, -3.0, 0.25], &[3, 1]), tensor(&[0.0, 1.0, 0.0], &[3, 1]));
    let item = |loss: Tensor| f64::from(loss.item::<f32>().unwrap());
    assert!((item(mean_squared(&y, &t).unwrap()) - (1.0 + 16.0 + 0.0625) / 3.0).abs() < 1e-6);
    assert!((item(mean_absolute(&y, &t).unwrap()) - 5.25 / 3.0).abs() < 1e-6);
    // Errors of 1 and 4 are linear beyond 0.5, the one of 0.25 is not.
    let expected = (0.125 + 0.5 * 0.5 + (0.125 + 0.5 * 3.5) + 0.5 * 0.0625) / 3.0;
    assert!((item(huber(&y, &t, 0.5).unwrap()) - expected).abs() < 1e-6);
}

#[test]
fn invalid_parameters_and_kinds_of_losses_are_errors() {
    let scores = tensor(&SCORES, &[2, 3]);
    let labels = Tensor::from_slice(&[2_i32, 3], &[2], &Device::Cpu).unwrap();
    assert!(matches!(cross_entropy(&scores, &labels, 0.0), Err(Error::Tensor(_))));
    assert!(matches!(cross_entropy(&scores, &labels, 1.0), Err(Error::Option { .. })));
    assert!(matches!(huber(&scores, &scores, 0.0), Err(Error::Option { .. })));
    assert!(matches!(Loss::MeanSquared.of_labels(&scores, &[0, 1]), Err(Error::Option { .. })));
    let smooth = Loss::CrossEntropy { smoothing: 0.0 };
    assert!(matches!(smooth.of_targets(&scores, &scores), Err(Error::Option { .. })));
}
