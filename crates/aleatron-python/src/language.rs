//! `evaluate_language_model`: language models as streams.

use crate::argument::parse;
use crate::error::exception;
use crate::evaluation::with_progress;
use crate::plan::EvaluationPlan;
use crate::warning::warn;
use aleatron::eval::Error as EvalError;
use aleatron::eval::language::{LanguagePlan, LanguageText, Sensitivity, evaluate_language_model};
use aleatron::transformer::{Config, DeviceChoice, LoadOptions, Precision, Transformer};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Evaluates the language model of a folder on the text of a file. `progress` is called with (done, total, generator, length, seed)
/// and ends the run by raising. Returns the evaluation as JSON, and the exception.
#[pyfunction]
#[pyo3(name = "_evaluate_language_model")]
pub(crate) fn evaluate_language(
    py: Python<'_>,
    folder: PathBuf,
    text: PathBuf,
    plan: &Bound<'_, EvaluationPlan>,
    context: Option<usize>,
    calibration_tokens: Option<usize>,
    max_tokens: Option<usize>,
    quantile: f64,
    sensitivity: bool,
    precision: &str,
    lora: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let precision: Precision = parse(precision).map_err(|error| exception(error, &[]))?;
    let given = &plan.get().0;
    let plan = LanguagePlan {
        lengths: given.lengths.clone(),
        generators: given.generators.clone(),
        seeds: given.seeds,
        width: given.width,
        sharing: given.sharing,
        layers: given.layers.clone(),
        device: given.device.clone(),
        context,
        calibration: calibration_tokens,
        predicted: max_tokens,
        share: quantile,
        sensitivity: if sensitivity { Sensitivity::Enabled } else { Sensitivity::Disabled },
        ..LanguagePlan::default()
    };
    let name = folder
        .file_name()
        .map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let (found, raised) = with_progress(py, None, progress, |cancel, reporter| {
        // What can be known is checked before the weights are read.
        plan.check(&Config::read(&folder.join("config.json"))?)?;
        let options = LoadOptions { device: DeviceChoice::Cpu, precision, merge: lora };
        let mut model = Transformer::from_pretrained(&folder, &options)?;
        let text = LanguageText::read(&text, model.tokenizer()?)?;
        let found = evaluate_language_model(&name, &mut model, &text, &plan, None, cancel, |p| {
            reporter.report((p.done, p.total, p.generator, p.length, p.seed));
        });
        match found {
            Ok(found) => Ok((found, None)),
            Err(EvalError::UnfinishedLanguage { done, source }) => Ok((*done, Some((*source).into()))),
            Err(error) => Err(error.into()),
        }
    })?;
    warn(py, &found.warnings)?;
    let json = found.to_json().map_err(|error| exception(error, &[]))?;
    Ok((json, raised))
}
