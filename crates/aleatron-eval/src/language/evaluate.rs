//! The evaluation of a language model: calibration, floating point, and a run over the text for each generator, length and seed.

use super::calibrate::InputScales;
use super::checkpoint::LanguageCheckpoint;
use super::plan::{LanguagePlan, Sensitivity};
use super::products::{ProductSelection, StreamProducts};
use super::result::{LanguageEvaluation, LanguageFigures, LanguageSeed, LinearSensitivity};
use super::score::{Reading, Score};
use super::text::{LanguageText, SplitText};
use crate::{Error, Result};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Cancel, Error as CoreError, Quantity};
use aleatron_engine::network::StreamConfig;
use aleatron_transformer::{Config, ForwardPass, LinearId, Transformer};
use std::sync::Arc;
use std::time::Instant;

/// How far an evaluation is.
#[derive(Debug)]
pub struct LanguageProgress<'a> {
    /// The tokens that were read, over all runs.
    pub done: usize,
    /// The tokens of all runs.
    pub total: usize,
    /// The run in progress, for people.
    pub label: &'a str,
    /// The generator of the run; `float` in floating point.
    pub generator: &'a str,
    /// The bits of a stream; 0 in floating point.
    pub length: usize,
    /// The seed of the run.
    pub seed: u64,
    /// The runs that are finished; `None` before the model has run in floating point.
    pub evaluation: Option<&'a LanguageEvaluation>,
}

/// One run over the text.
#[derive(Debug, Clone)]
struct Run {
    generator: GeneratorName,
    length: usize,
    streams: StreamConfig,
    selection: ProductSelection,
}

impl Run {
    fn label(&self) -> String {
        let only = match self.selection {
            ProductSelection::All => String::new(),
            ProductSelection::Only(linear) => format!(", {linear} alone"),
        };
        format!("{}, {} bits, seed {}{only}", self.generator, self.length, self.streams.seed)
    }

    fn is_finished(&self, found: &LanguageEvaluation) -> bool {
        let generator = self.generator.to_string();
        match self.selection {
            ProductSelection::All => found.has_seed(&generator, self.length, self.streams.seed),
            ProductSelection::Only(linear) => found.has_product(&generator, self.length, &linear.to_string()),
        }
    }
}

/// Returns the runs of a plan, in their order.
fn runs(plan: &LanguagePlan, model: &Config) -> Vec<Run> {
    let streams = plan.resolved(model);
    let mut runs = Vec::new();
    for generator in &streams.generators {
        for &length in &streams.lengths {
            for seed in streams.seeds_of(generator, None) {
                let streams = streams.config(generator, length, seed);
                runs.push(Run { generator: *generator, length, streams, selection: ProductSelection::All });
            }
        }
    }
    if plan.sensitivity == Sensitivity::Enabled {
        for generator in &streams.generators {
            let Some(&length) = streams.lengths.first() else { continue };
            for linear in LinearId::all(model) {
                let (streams, selection) =
                    (streams.config(generator, length, 0), ProductSelection::Only(linear));
                runs.push(Run { generator: *generator, length, streams, selection });
            }
        }
    }
    runs
}

/// Evaluates a language model as streams: measures the scales of inputs on the first tokens of a text, and predicts the tokens after
/// them in floating point and with every generator, length and seed of the plan.
///
/// Runs that `checkpoint` has finished are taken from it. The model must be loaded on the CPU; its linear products run on the device of
/// the plan. A cancelled evaluation returns the runs that are finished, if the one in floating point is.
///
/// # Errors
/// [`Error::Checkpoint`] for a checkpoint of another model, text or plan; as [`LanguagePlan::check`], [`LanguageText::split`],
/// [`InputScales::measure`] and [`StreamProducts::new`]; [`CoreError::TooLarge`] for more than 2^32 positions; [`Error::UnfinishedLanguage`] with the finished runs for a failure after the
/// run in floating point.
pub fn evaluate_language_model(
    name: &str,
    model: &mut Transformer,
    text: &LanguageText,
    plan: &LanguagePlan,
    checkpoint: Option<&LanguageCheckpoint>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(&LanguageProgress<'_>),
) -> Result<LanguageEvaluation> {
    plan.check(model.config())?;
    let split = text.split(plan.calibration, plan.predicted)?;
    let context = plan.context_of(model.config());
    check_samples(&split, context)?;
    text.check_vocabulary(model.config())?;
    let precision = model.precision().to_string();
    let (mut runs, pass) = (runs(plan, model.config()), model.pass());
    let scales =
        InputScales::measure(pass, &text.tokens()[split.calibration.clone()], context, plan.share, cancel)?;
    let tokens = &text.tokens()[split.evaluation.clone()];
    let reading = Reading { tokens, context, chunk: plan.chunk, cancel };
    let (n, bytes) = (split.predicted(), text.predicted_bytes(&split));
    let total = n.saturating_mul(runs.len() + 1);
    let mut done = 0;
    let float = reading.score(pass, |tokens| {
        done += tokens;
        let (label, generator) = ("floating point", "float");
        progress(&LanguageProgress { done, total, label, generator, length: 0, seed: 0, evaluation: None });
    })?;
    let float_loss = float.nats / n as f64;
    let mut found = LanguageEvaluation {
        model: name.to_owned(),
        text: text.name().to_owned(),
        precision,
        predicted_tokens: n,
        predicted_bytes: bytes,
        context,
        float: LanguageFigures::new(float_loss, n, bytes),
        ..settings(plan, &scales)
    };
    if let Some(checkpoint) = checkpoint {
        found.resume(checkpoint)?;
        runs.retain(|run| !run.is_finished(&found));
    }
    found.unfinished = runs.len();
    let total = n.saturating_mul(runs.len() + 1);
    let worker = Worker { scales: &scales, reading, float: &float };
    for run in &runs {
        let (label, generator) = (run.label(), run.generator.to_string());
        let (length, seed) = (run.length, run.streams.seed);
        let result = worker.run(pass, run, &mut found, &mut |found, tokens| {
            done += tokens;
            let (label, generator, evaluation) = (&*label, &*generator, Some(found));
            progress(&LanguageProgress { done, total, label, generator, length, seed, evaluation });
        });
        match result {
            Ok(()) => {}
            Err(error) if error.core() == Some(&CoreError::Cancelled) => break,
            Err(source) => {
                return Err(Error::UnfinishedLanguage { done: Box::new(found), source: Box::new(source) });
            }
        }
    }
    Ok(found)
}

/// Returns an evaluation without results, with the settings of a plan and the scales of inputs.
fn settings(plan: &LanguagePlan, scales: &InputScales) -> LanguageEvaluation {
    LanguageEvaluation {
        version: aleatron_engine::VERSION,
        model: String::new(),
        text: String::new(),
        precision: String::new(),
        device: plan.device.to_string(),
        backends: Vec::new(),
        width: plan.width.to_string(),
        sharing: plan.sharing.to_string(),
        layers: plan.layers.iter().map(|(name, layer)| (name.clone(), layer.to_string())).collect(),
        calibration_tokens: scales.tokens,
        quantile: scales.share,
        input_scales: scales.scales.clone(),
        predicted_tokens: 0,
        predicted_bytes: 0,
        context: 0,
        float: LanguageFigures::new(0.0, 0, 0),
        rows: Vec::new(),
        sensitivity: Vec::new(),
        warnings: Vec::new(),
        unfinished: 0,
    }
}

/// Checks that every position of a text has an index that streams can name.
fn check_samples(split: &SplitText, context: usize) -> Result<()> {
    let sequences = split.predicted().div_ceil(context) as u128;
    let (actual, limit) = (sequences * context as u128, 1_u128 << 32);
    if actual > limit {
        return Err(CoreError::TooLarge { what: Quantity::Samples, actual, limit }.into());
    }
    Ok(())
}

/// Runs a model over a text.
struct Worker<'a> {
    scales: &'a InputScales,
    reading: Reading<'a>,
    float: &'a Score,
}

impl Worker<'_> {
    fn run(
        &self,
        pass: &mut dyn ForwardPass,
        run: &Run,
        found: &mut LanguageEvaluation,
        progress: &mut dyn FnMut(&LanguageEvaluation, usize),
    ) -> Result<()> {
        let Reading { context, cancel, .. } = self.reading;
        let products = StreamProducts::new(pass, self.scales, &run.streams, context, run.selection, cancel)?;
        let products = Arc::new(products);
        pass.set_linear_products(Some(Arc::clone(&products) as _))?;
        let start = Instant::now();
        let score = self.reading.score(pass, |tokens| progress(found, tokens));
        let seconds = start.elapsed().as_secs_f64();
        pass.set_linear_products(None)?;
        let score = score?;
        for backend in products.backends(self.reading.chunk.min(context)) {
            if !found.backends.contains(&backend) {
                found.backends.push(backend);
            }
        }
        let loss = score.nats / score.best.len().max(1) as f64;
        let agreement = score.agreement(self.float);
        let saturation = products.saturation();
        match run.selection {
            ProductSelection::All => {
                let sum = |value: fn(&super::Saturation) -> u64| saturation.iter().map(value).sum::<u64>();
                let saturated = sum(|seen| seen.saturated) as f64 / sum(|seen| seen.inputs).max(1) as f64;
                let seed = run.streams.seed;
                let result = LanguageSeed { seed, loss, agreement, saturated, seconds };
                found.add(&run.generator.to_string(), run.length, result);
                for warning in products.warnings() {
                    found.warn(format!("{}, {} bits: {warning}", run.generator, run.length));
                }
            }
            ProductSelection::Only(linear) => found.sensitivity.push(LinearSensitivity {
                product: linear.to_string(),
                generator: run.generator.to_string(),
                length: run.length,
                loss,
                added_loss: loss - found.float.loss,
                agreement,
            }),
        }
        // Inputs of products depend on the streams before them: the first run that saturates is named.
        if found.warnings.iter().all(|warning| !warning.starts_with("product ")) {
            saturation.iter().filter_map(|seen| seen.warning(pass.config())).for_each(|w| found.warn(w));
        }
        found.unfinished = found.unfinished.saturating_sub(1);
        progress(found, 0);
        Ok(())
    }
}
