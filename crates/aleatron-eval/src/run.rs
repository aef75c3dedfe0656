//! Running a plan on this machine.

use super::assembly::Assembly;
use super::job::Job;
use super::outline::{FLOAT, Task};
use super::plan::Plan;
use super::result::Evaluation;
use super::subject::Subject;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use std::borrow::Cow;

/// How far an evaluation has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The cells that are done.
    pub done: usize,
    /// All cells of the plan.
    pub total: usize,
    /// The generator being run.
    pub generator: &'a str,
    /// The length being run.
    pub length: usize,
    /// The seed being run.
    pub seed: u64,
}

/// Runs a network, a chain of layers or a graph, over `data` for each generator, length and seed of `plan`.
///
/// Samples of a graph are stopped early where the scores are the outputs of a dense product that runs as streams, also through a softmax;
/// where they are those outputs themselves, the rule of certainty holds, too.
///
/// Cells of `checkpoint`, an evaluation of the same network and data with the same settings, are kept, whatever the plan asks for, and
/// not run again. `progress` is called at least every 256 samples. When cancelled, the evaluation returns with the cells
/// that are done.
///
/// # Errors
/// [`Error`] for a plan that cannot be run, data that do not fit the network, or a checkpoint of something else;
/// [`Error::Unfinished`], with the cells that are done, where something fails on the way.
pub fn evaluate(
    network: impl Into<Subject>,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<Evaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Evaluation> {
    let job = Job::new(network, Cow::Borrowed(data), plan.clone())?;
    let mut assembly = Assembly::new(job.outline().clone(), checkpoint)?;
    let float = Task { pass: FLOAT, first: 0, pieces: job.outline().n_pieces() };
    // A chain of layers is done in no time, and then there is always a result.
    let float_cancel = if matches!(job.subject, Subject::Layers(_)) { Cancel::NEVER } else { cancel };
    assembly.add(job.run(&float, float_cancel, &mut || ())?)?;
    let float_classes = assembly.float_classes()?;
    let cells = &job.outline().cells;
    let (mut done, total) = (0, cells.len());
    for (k, cell) in cells.iter().enumerate() {
        if !assembly.has(k) {
            let (generator, length, seed) = (&cell.generator, cell.length, cell.seed);
            let mut tick = || progress(Progress { done, total, generator, length, seed });
            let mut run = || {
                for task in assembly.missing_of_cell(k) {
                    assembly.add(job.run(&task, cancel, &mut tick)?)?;
                    // No other task is of the same pass.
                    job.release();
                }
                Ok(())
            };
            match run() {
                Ok(()) => assembly.close(k, &float_classes),
                Err(Error::Core(aleatron_core::Error::Cancelled)) => break,
                Err(source) => {
                    let (done, source) = (Box::new(assembly.into_evaluation()), Box::new(source));
                    return Err(Error::Unfinished { done, source });
                }
            }
        }
        done += 1;
    }
    Ok(assembly.into_evaluation())
}
