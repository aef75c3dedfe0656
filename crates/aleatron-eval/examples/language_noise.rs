//! Compares the loss of the model in the program as Bernoulli streams with models of the noise in
//! floating point: `cargo run --release -p aleatron-eval --features transformer --example
//! language_noise`.

#[path = "../tests/eval/binomial.rs"]
mod binomial;

use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use aleatron_eval::Estimate;
use aleatron_eval::language::{InputScales, LanguagePlan, LanguageText, evaluate_language_model};
use aleatron_transformer::{DeviceChoice, LoadOptions, ModelSource, Precision, Transformer};
use binomial::{BinomialProducts, Covariance, loss};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let options = LoadOptions { device: DeviceChoice::Cpu, precision: Precision::F32, merge: None };
    let mut model = Transformer::load(&ModelSource::Embedded, &options)?;
    let text = LanguageText::embedded(model.tokenizer()?)?;
    let plan = LanguagePlan {
        generators: vec![GeneratorName::Bernoulli],
        predicted: Some(8192),
        ..LanguagePlan::default()
    };
    let found =
        evaluate_language_model("bytes", &mut model, &text, &plan, None, Cancel::NEVER, |_| ())?;
    let (split, context) =
        (text.split(plan.calibration, plan.predicted)?, plan.context_of(model.config()));
    let scales = InputScales {
        scales: found.input_scales.clone(),
        tokens: found.calibration_tokens,
        share: found.quantile,
    };
    println!("float: {:.4} nats per byte\n", found.float.loss);
    println!("bits   streams                   independent noise          shared noise");
    for row in &found.rows {
        let mut line = format!("{:>4}   {}", row.length, show(&row.loss));
        for covariance in [Covariance::Independent, Covariance::Shared] {
            let losses = (0..plan.seeds as u64).map(|seed| {
                let products =
                    BinomialProducts::new(model.pass(), &scales, row.length, seed, covariance)?;
                let tokens = &text.tokens()[split.evaluation.clone()];
                loss(model.pass(), Some(Arc::new(products)), tokens, context)
            });
            let noise =
                Estimate::new(&losses.collect::<Result<Vec<_>, _>>()?, [0.0, f64::INFINITY]);
            let difference = 100.0 * (noise.mean / row.loss.mean - 1.0);
            line += &format!("   {} ({difference:+.2} %)", show(&noise));
        }
        println!("{line}");
    }
    Ok(())
}

fn show(loss: &Estimate) -> String {
    format!("{:.4} [{:.4}, {:.4}]", loss.mean, loss.low, loss.high)
}
