//! Evaluations as tasks, for `aleatron.cluster`: what there is to do, doing some of it, and putting it together.

use crate::argument::device;
use crate::compute::{compute, compute_with_cancellation};
use crate::error::exception;
use crate::evaluation::{Evaluation, dataset, network_of};
use crate::plan::EvaluationPlan;
use aleatron::Cancel;
use aleatron::eval::{self, Assembly, Part, Task, read_lines};
use aleatron_cli::DistributedEval;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A task: the place of its pass, its first piece, and how many pieces.
type TaskTuple = (usize, usize, usize);

fn task((pass, first, pieces): TaskTuple) -> Task {
    Task { pass, first, pieces }
}

/// An evaluation to be run as tasks, and what is done of it.
#[pyclass(module = "aleatron", name = "_Job", frozen)]
pub(crate) struct Job {
    job: eval::Job<'static>,
    assembly: Mutex<Assembly>,
}

impl Job {
    fn of(job: eval::Job<'static>, checkpoint: Option<eval::Evaluation>) -> PyResult<Self> {
        let assembly = Assembly::new(job.outline().clone(), checkpoint);
        let assembly = Mutex::new(assembly.map_err(|error| exception(error, &[]))?);
        Ok(Self { job, assembly })
    }

    fn assembly(&self) -> MutexGuard<'_, Assembly> {
        self.assembly.lock().unwrap_or_else(PoisonError::into_inner)
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
        name: &str,
        plan: &Bound<'_, EvaluationPlan>,
        checkpoint: Option<&Bound<'_, Evaluation>>,
    ) -> PyResult<Self> {
        let plan = plan.get().0.clone();
        let network = network_of(network)?;
        plan.check(&network).map_err(|error| exception(error, &[]))?;
        let data = dataset(&network, x, y, name)?;
        let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
        let job = compute(py, &[], || eval::Job::new(network, Cow::Owned(data), plan))?;
        Self::of(job, checkpoint)
    }

    /// Reads what `to_bytes` wrote; where a device is given, tasks run there.
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
        Ok(PyBytes::new(py, &compute(py, &[], || self.job.to_bytes())?))
    }

    /// Where its tasks are to run.
    #[getter]
    fn device(&self) -> String {
        self.job.device().to_string()
    }

    /// The line of text that files of finished tasks begin with.
    fn outline(&self) -> PyResult<String> {
        self.job.outline().to_line().map_err(|error| exception(error, &[]))
    }

    /// What is not done, as about `n` tasks of the same cost, or more.
    fn tasks(&self, n: usize) -> Vec<TaskTuple> {
        let tasks = self.job.outline().split(&self.assembly().missing(), n);
        tasks.into_iter().map(|task| (task.pass, task.first, task.pieces)).collect()
    }

    /// The generator, length and seed of a task.
    fn label(&self, of: TaskTuple) -> (String, usize, u64) {
        let (generator, length, seed) = self.job.outline().label(&task(of));
        (generator.to_owned(), length, seed)
    }

    /// Runs a task and returns what it found as a line of text.
    fn run(&self, py: Python<'_>, of: TaskTuple) -> PyResult<String> {
        compute_with_cancellation(py, &[], |cancel| self.job.run(&task(of), cancel, &mut || ())?.to_line())
    }

    /// Takes what a task found.
    fn add(&self, line: &str) -> PyResult<()> {
        let added = Part::from_line(line).and_then(|part| self.assembly().add(part));
        added.map_err(|error| exception(error, &[]))
    }

    /// Takes what a file of finished tasks holds, and returns its whole lines; ValueError where it is of something else.
    fn add_file(&self, text: &str) -> PyResult<Vec<String>> {
        let (outline, parts) = read_lines(text).map_err(|error| exception(error, &[]))?;
        let mut assembly = self.assembly();
        if outline != *assembly.outline() {
            return Err(PyValueError::new_err("it is of another network, data set, plan or version"));
        }
        let mut lines = Vec::with_capacity(parts.len());
        for part in parts {
            lines.push(part.to_line().map_err(|error| exception(error, &[]))?);
            assembly.add(part).map_err(|error| exception(error, &[]))?;
        }
        Ok(lines)
    }

    /// What was found as JSON, with all cells that are done.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        compute(py, &[], || {
            let mut assembly = self.assembly().clone();
            // Without the classes in floating point there is no evaluation.
            for task in assembly.missing_of(&self.job.outline().tasks()[..1]) {
                assembly.add(self.job.run(&task, Cancel::NEVER, &mut || ())?)?;
            }
            assembly.finish()?.to_json()
        })
    }
}

/// `aleatron eval` with the arguments of the program, whose tasks somebody else runs.
#[pyclass(module = "aleatron", name = "_EvalProgram", frozen)]
pub(crate) struct EvalProgram {
    program: DistributedEval,
    #[pyo3(get)]
    job: Py<Job>,
}

#[pymethods]
impl EvalProgram {
    /// Reads the arguments, which start with the program's name; returns the exit code instead where there is nothing to run.
    #[staticmethod]
    fn parse(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Bound<'_, PyAny>> {
        let program = match compute(py, &[], || Ok(DistributedEval::parse(arguments)))? {
            Ok(program) => program,
            Err(code) => return Ok(code.into_pyobject(py)?.into_any()),
        };
        // The program keeps its job for its messages; the one that runs is made of the same bytes.
        let job = compute(py, &[], || eval::Job::from_bytes(&program.job().to_bytes()?))?;
        let job = Py::new(py, Job::of(job, program.checkpoint().cloned())?)?;
        Ok(Bound::new(py, Self { program, job })?.into_any())
    }

    /// The file to keep finished tasks in, if any.
    #[getter]
    fn tasks_file(&self) -> Option<PathBuf> {
        self.program.tasks_file()
    }

    /// Whether finished tasks in that file are to be kept.
    #[getter]
    fn resumed(&self) -> bool {
        self.program.is_resumed()
    }

    /// Writes and prints what was found, and what has failed, and returns the exit code.
    fn finish(&self, py: Python<'_>, found: &str, failure: Option<String>, seconds: f64) -> PyResult<u8> {
        let elapsed = Duration::try_from_secs_f64(seconds);
        let elapsed = elapsed.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        compute(py, &[], || {
            let found = eval::Evaluation::from_json(found)?;
            Ok(self.program.finish(&found, failure, elapsed))
        })
    }
}
