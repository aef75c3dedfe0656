//! The loss of Bernoulli streams against a model of their noise in floating point, on the model in
//! the program.

use super::binomial::{BinomialProducts, Covariance, loss};
use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use aleatron_eval::language::{InputScales, LanguagePlan, LanguageText, evaluate_language_model};
use aleatron_transformer::{DeviceChoice, LoadOptions, ModelSource, Precision, Transformer};
use std::sync::Arc;

/// Returns the mean of some values, and its variance.
fn estimate(values: &[f64]) -> [f64; 2] {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    [mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n]
}

/// The model has the means, the variances and the covariances of all counts, so that its loss may
/// differ by their higher moments alone, for which 1 % of the loss is left. To this the statistical
/// error of both losses is added: with 2 * 3 degrees of freedom, Student's t is beyond 5.2 with a
/// probability of 0.2 %. Both figures have fixed seeds. The added loss itself is 20 % of the loss
/// at 64 bits, so that a variance that is wrong by a factor of 2 fails.
#[test]
fn loss_of_bernoulli_streams_is_that_of_binomial_noise() {
    let options = LoadOptions { device: DeviceChoice::Cpu, precision: Precision::F32, merge: None };
    let mut model = Transformer::load(&ModelSource::Embedded, &options).unwrap();
    let text = LanguageText::embedded(model.tokenizer().unwrap()).unwrap();
    let plan = LanguagePlan {
        lengths: vec![64, 256],
        generators: vec![GeneratorName::Bernoulli],
        seeds: 4,
        predicted: Some(1024),
        ..LanguagePlan::default()
    };
    let found =
        evaluate_language_model("bytes", &mut model, &text, &plan, None, Cancel::NEVER, |_| ());
    let found = found.unwrap();
    let scales = InputScales { scales: found.input_scales.clone(), tokens: 1, share: 1.0 };
    let tokens = &text.tokens()[text.split(None, plan.predicted).unwrap().evaluation];
    assert!((loss(model.pass(), None, tokens, 256).unwrap() - found.float.loss).abs() < 1e-9);
    let mut losses_of = |length: usize, covariance: Covariance| -> Vec<f64> {
        let run = |seed: u64| {
            let products =
                BinomialProducts::new(model.pass(), &scales, length, seed, covariance).unwrap();
            loss(model.pass(), Some(Arc::new(products)), tokens, 256).unwrap()
        };
        (0..4).map(run).collect()
    };
    for row in &found.rows {
        let modelled = losses_of(row.length, Covariance::Shared);
        let losses: Vec<f64> = row.seeds.iter().map(|run| run.loss).collect();
        let ([streams, a], [noise, b]) = (estimate(&losses), estimate(&modelled));
        let limit = 0.01 * streams + 5.2 * (a + b).sqrt();
        assert!(
            (streams - noise).abs() < limit,
            "{} bits: {losses:?}, {modelled:?}, {limit}",
            row.length
        );
        assert!(row.added_loss > 0.0 && limit < 0.06 * streams, "{} bits: {limit}", row.length);
    }
    // Without the covariances, the same variances cost less.
    let independent = losses_of(64, Covariance::Independent);
    let ([streams, a], [noise, b]) = (
        estimate(&found.rows[0].seeds.iter().map(|run| run.loss).collect::<Vec<_>>()),
        estimate(&independent),
    );
    assert!(streams - noise > 5.2 * (a + b).sqrt(), "{independent:?}");
}
