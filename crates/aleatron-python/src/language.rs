//! `evaluate_language_model`: language models as streams, in this process or as tasks.

use crate::argument::{device, parse};
use crate::compute::{compute, compute_with_cancellation};
use crate::error::exception;
use crate::evaluation::with_progress;
use crate::plan::EvaluationPlan;
use crate::warning::warn;
use aleatron::Cancel;
use aleatron::eval::language::{
    self, LanguageJournal, LanguagePlan, LanguageTaskResult, LanguageText, ModelOrigin,
    Sensitivity, evaluate_language_model,
};
use aleatron::eval::{Error as EvalError, Task, whole_lines};
use aleatron::transformer::{ModelSource, Precision, Transformer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The model, the text and the plan of an evaluation.
struct Request {
    origin: ModelOrigin,
    text: Option<PathBuf>,
    plan: LanguagePlan,
}

impl Request {
    fn new(
        model: PathBuf,
        text: Option<PathBuf>,
        plan: &Bound<'_, EvaluationPlan>,
        context: Option<usize>,
        calibration_tokens: Option<usize>,
        max_tokens: Option<usize>,
        quantile: f64,
        sensitivity: bool,
        precision: &str,
        lora: Option<PathBuf>,
        margins: Vec<f64>,
    ) -> PyResult<Self> {
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
            margins,
            sensitivity: if sensitivity { Sensitivity::Enabled } else { Sensitivity::Disabled },
            ..LanguagePlan::default()
        };
        let model = ModelSource::named(&model);
        if text.is_none() && model != ModelSource::Embedded {
            return Err(PyValueError::new_err("text is missing: give a file of text in UTF-8"));
        }
        Ok(Self { origin: ModelOrigin { model, precision, lora }, text, plan })
    }

    /// Loads the model and reads the text. What can be known is checked before the weights are
    /// read.
    fn load(&self) -> aleatron::eval::Result<(Transformer, LanguageText)> {
        self.plan.check(&self.origin.model.config()?)?;
        let model = self.origin.load()?;
        let text = match &self.text {
            Some(text) => LanguageText::read(text, model.tokenizer()?)?,
            None => LanguageText::embedded(model.tokenizer()?)?,
        };
        Ok((model, text))
    }
}

/// Evaluates a language model on the text of a file, or the embedded one on its own text.
/// `progress` is called with (done, total, generator, length, seed) and ends the run by raising.
/// Returns the evaluation as JSON, and the exception.
#[pyfunction]
#[pyo3(name = "_evaluate_language_model")]
pub(crate) fn evaluate_language(
    py: Python<'_>,
    model: PathBuf,
    text: Option<PathBuf>,
    plan: &Bound<'_, EvaluationPlan>,
    context: Option<usize>,
    calibration_tokens: Option<usize>,
    max_tokens: Option<usize>,
    quantile: f64,
    sensitivity: bool,
    precision: &str,
    lora: Option<PathBuf>,
    margins: Vec<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let request = Request::new(
        model,
        text,
        plan,
        context,
        calibration_tokens,
        max_tokens,
        quantile,
        sensitivity,
        precision,
        lora,
        margins,
    )?;
    let name = request.origin.model.name();
    let (found, raised) = with_progress(py, None, progress, |cancel, reporter| {
        let (mut model, text) = request.load()?;
        let found =
            evaluate_language_model(&name, &mut model, &text, &request.plan, None, cancel, |p| {
                reporter.report((p.done, p.total, p.generator, p.length, p.seed));
            });
        match found {
            Ok(found) => Ok((found, None)),
            Err(EvalError::UnfinishedLanguage { done, source }) => {
                Ok((*done, Some((*source).into())))
            }
            Err(error) => Err(error.into()),
        }
    })?;
    warn(py, &found.warnings)?;
    let json = found.to_json().map_err(|error| exception(error, &[]))?;
    Ok((json, raised))
}

/// A task: the index of its pass, its first sequence, and the number of sequences.
type TaskTuple = (usize, usize, usize);

fn task((pass, first, chunks): TaskTuple) -> Task {
    Task { pass, first, chunks }
}

/// An evaluation of a language model to be run as tasks, and the results of finished tasks.
#[pyclass(module = "aleatron", name = "_LanguageJob", frozen)]
pub(crate) struct LanguageJob {
    job: Mutex<language::LanguageJob<Transformer>>,
    bytes: Vec<u8>,
    journal: Mutex<LanguageJournal>,
}

impl LanguageJob {
    fn of(job: language::LanguageJob<Transformer>, bytes: Vec<u8>) -> Self {
        let journal = Mutex::new(job.journal());
        Self { job: Mutex::new(job), bytes, journal }
    }

    fn job(&self) -> MutexGuard<'_, language::LanguageJob<Transformer>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, LanguageJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LanguageJob {
    #[new]
    fn new(
        py: Python<'_>,
        model: PathBuf,
        text: Option<PathBuf>,
        plan: &Bound<'_, EvaluationPlan>,
        context: Option<usize>,
        calibration_tokens: Option<usize>,
        max_tokens: Option<usize>,
        quantile: f64,
        sensitivity: bool,
        precision: &str,
        lora: Option<PathBuf>,
        margins: Vec<f64>,
    ) -> PyResult<Self> {
        let request = Request::new(
            model,
            text,
            plan,
            context,
            calibration_tokens,
            max_tokens,
            quantile,
            sensitivity,
            precision,
            lora,
            margins,
        )?;
        compute_with_cancellation(py, &[], |cancel| {
            let (model, text) = request.load()?;
            let name = request.origin.model.name();
            let job = language::LanguageJob::new(&name, model, &text, &request.plan, cancel)?;
            let bytes = job.to_bytes(&request.origin)?;
            Ok(Self::of(job, bytes))
        })
    }

    /// Reads the output of `to_bytes`, and loads the model; if a device is given, tasks run there.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], on: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let on = on.map(device).transpose()?;
        compute(py, &[], || {
            let job = language::LanguageJob::from_bytes(bytes)?;
            let job = match on {
                Some(device) => job.on(device),
                None => job,
            };
            Ok(Self::of(job, bytes.to_vec()))
        })
    }

    /// Returns the path of the model, the tokens and the plan, for workers.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The device of its tasks.
    #[getter]
    fn device(&self) -> String {
        self.job().device().to_string()
    }

    /// Returns the line of text that files of finished tasks begin with.
    fn schedule(&self) -> PyResult<String> {
        self.journal().schedule().to_line().map_err(|error| exception(error, &[]))
    }

    /// Returns the unfinished work, as about `n` tasks of the same cost, or more.
    fn tasks(&self, n: usize) -> Vec<TaskTuple> {
        let journal = self.journal();
        let tasks = journal.schedule().split(&journal.missing(), n);
        tasks.into_iter().map(|task| (task.pass, task.first, task.chunks)).collect()
    }

    /// Returns the generator, length and seed of a task.
    fn label(&self, of: TaskTuple) -> (String, usize, u64) {
        self.journal().schedule().label(&task(of))
    }

    /// Runs a task and returns its result as a line of text.
    fn run(&self, py: Python<'_>, of: TaskTuple) -> PyResult<String> {
        compute_with_cancellation(py, &[], |cancel| {
            Ok(self.job().run(&task(of), cancel, &mut |_| ())?.to_line()?)
        })
    }

    /// Adds the result of a task.
    fn add(&self, line: &str) -> PyResult<()> {
        let added =
            LanguageTaskResult::from_line(line).and_then(|result| self.journal().add(result));
        added.map_err(|error| exception(error, &[]))
    }

    /// Adds the results in a file of finished tasks, and returns its whole lines; ValueError if it
    /// is of another evaluation.
    fn add_file(&self, text: &str) -> PyResult<String> {
        let added = LanguageJournal::read(text).and_then(|finished| self.journal().merge(finished));
        added.map_err(|error| exception(error, &[]))?;
        Ok(whole_lines(text).to_owned())
    }

    /// Returns the evaluation as JSON, with all runs that are finished.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        compute(py, &[], || {
            let mut journal = self.journal().clone();
            let float = Task { pass: 0, first: 0, chunks: usize::MAX };
            // Without the pass in floating point there is no evaluation.
            for task in journal.missing_of(&[float]) {
                journal.add(self.job().run(&task, Cancel::NEVER, &mut |_| ())?)?;
            }
            Ok(journal.finish()?.to_json()?)
        })
    }
}
