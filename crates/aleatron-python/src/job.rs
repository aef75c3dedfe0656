//! Evaluations as tasks, for `aleatron.cluster`.

use crate::argument::device;
use crate::compute::{compute, compute_with_cancellation};
use crate::error::exception;
use crate::evaluation::{Evaluation, Labels, dataset, network_of};
use crate::plan::EvaluationPlan;
use aleatron::Cancel;
use aleatron::eval::{self, Journal, Task, TaskResult, whole_lines};
use aleatron_cli::DistributedEval;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A task: the index of its pass, its first chunk, and the number of chunks.
type TaskTuple = (usize, usize, usize);

fn task((pass, first, chunks): TaskTuple) -> Task {
    Task { pass, first, chunks }
}

/// An evaluation to be run as tasks, and the results of finished tasks.
#[pyclass(module = "aleatron", name = "_Job", frozen)]
pub(crate) struct Job {
    job: eval::Job<'static>,
    journal: Mutex<Journal>,
}

impl Job {
    fn of(job: eval::Job<'static>, checkpoint: Option<eval::Evaluation>) -> PyResult<Self> {
        let journal = Mutex::new(job.journal(checkpoint).map_err(|error| exception(error, &[]))?);
        Ok(Self { job, journal })
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Job {
    #[new]
    fn new(
        py: Python<'_>,
        network: &Bound<'_, PyAny>,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        labels: Labels,
        name: &str,
        plan: &Bound<'_, EvaluationPlan>,
        checkpoint: Option<&Bound<'_, Evaluation>>,
    ) -> PyResult<Self> {
        let plan = plan.get().0.clone();
        let network = network_of(network)?;
        plan.check(&network).map_err(|error| exception(error, &[]))?;
        let data = dataset(&network, x, y, labels, name)?;
        let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
        let job = compute(py, &[], || Ok(eval::Job::new(network, Cow::Owned(data), plan)?))?;
        Self::of(job, checkpoint)
    }

    /// Reads the output of `to_bytes`; if a device is given, tasks run there.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], on: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let on = on.map(device).transpose()?;
        let job = compute(py, &[], || {
            let job = eval::Job::from_bytes(bytes)?;
            Ok(match on {
                Some(device) => job.on(device),
                None => job,
            })
        })?;
        Self::of(job, None)
    }

    /// The network, the data and the plan, for workers.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &compute(py, &[], || Ok(self.job.to_bytes()?))?))
    }

    /// The device of its tasks.
    #[getter]
    fn device(&self) -> String {
        self.job.device().to_string()
    }

    /// The line of text that files of finished tasks begin with.
    fn schedule(&self) -> PyResult<String> {
        self.job.schedule().to_line().map_err(|error| exception(error, &[]))
    }

    /// Returns the unfinished work as about `n` tasks of the same cost, or more.
    fn tasks(&self, n: usize) -> Vec<TaskTuple> {
        let tasks = self.job.schedule().split(&self.journal().missing(), n);
        tasks.into_iter().map(|task| (task.pass, task.first, task.chunks)).collect()
    }

    /// The generator, length and seed of a task.
    fn label(&self, of: TaskTuple) -> (String, usize, u64) {
        self.job.schedule().label(&task(of))
    }

    /// Runs a task and returns its result as a line of text.
    fn run(&self, py: Python<'_>, of: TaskTuple) -> PyResult<String> {
        compute_with_cancellation(py, &[], |cancel| {
            Ok(self.job.run(&task(of), cancel, &mut || ())?.to_line()?)
        })
    }

    /// Adds the result of a task.
    fn add(&self, line: &str) -> PyResult<()> {
        let added = TaskResult::from_line(line).and_then(|result| self.journal().add(result));
        added.map_err(|error| exception(error, &[]))
    }

    /// Adds the results in a file of finished tasks, and returns its whole lines; ValueError if it
    /// is of another evaluation.
    fn add_file(&self, text: &str) -> PyResult<String> {
        let added = Journal::read(text).and_then(|finished| self.journal().merge(finished));
        added.map_err(|error| exception(error, &[]))?;
        Ok(whole_lines(text).to_owned())
    }

    /// Returns the evaluation as JSON, with all cells that are finished.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        compute(py, &[], || {
            let mut journal = self.journal().clone();
            // Without the pass in floating point there is no evaluation.
            for task in journal.missing_float() {
                journal.add(self.job.run(&task, Cancel::NEVER, &mut || ())?)?;
            }
            let mut found = journal.finish()?;
            self.job.add_costs(&mut found);
            Ok(found.to_json()?)
        })
    }
}

/// `aleatron eval` with the arguments of the program, whose tasks are run by the caller.
#[pyclass(module = "aleatron", name = "_EvalProgram", frozen)]
pub(crate) struct EvalProgram {
    program: DistributedEval,
    #[pyo3(get)]
    job: Py<Job>,
}

#[pymethods]
impl EvalProgram {
    /// Reads the arguments, which start with the program's name; returns the exit code instead if
    /// there is nothing to run.
    #[staticmethod]
    fn parse(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Bound<'_, PyAny>> {
        let program = match compute(py, &[], || Ok(DistributedEval::parse(arguments)))? {
            Ok(program) => program,
            Err(code) => return Ok(code.into_pyobject(py)?.into_any()),
        };
        // The program keeps its job for its messages; the running one is created from the same
        // bytes.
        let job = compute(py, &[], || Ok(eval::Job::from_bytes(&program.job().to_bytes()?)?))?;
        let job = Py::new(py, Job::of(job, program.checkpoint().cloned())?)?;
        Ok(Bound::new(py, Self { program, job })?.into_any())
    }

    /// The file of finished tasks, if any.
    #[getter]
    fn tasks_file(&self) -> Option<PathBuf> {
        self.program.tasks_file()
    }

    /// Whether finished tasks in that file are reused.
    #[getter]
    fn resumed(&self) -> bool {
        self.program.is_resumed()
    }

    /// Writes and prints results and failures, and returns the exit code.
    fn finish(
        &self,
        py: Python<'_>,
        found: &str,
        failure: Option<String>,
        seconds: f64,
    ) -> PyResult<u8> {
        let elapsed = Duration::try_from_secs_f64(seconds);
        let elapsed = elapsed.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        compute(py, &[], || {
            let found = eval::Evaluation::from_json(found)?;
            Ok(self.program.finish(&found, failure, elapsed))
        })
    }
}
