//! Running a plan on this machine.

use super::assembly::Assembly;
use super::job::Job;
use super::outline::{FLOAT, Task};
use super::plan::Plan;
use super::result::Evaluation;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::Network;
use std::borrow::Cow;
use std::sync::Arc;

/// The progress of an evaluation with results of type `E`.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a, E = Evaluation> {
    /// The evaluation with the cells that are done. A [`CheckpointFile`](super::CheckpointFile) saves it.
    pub evaluation: &'a E,
    /// The cells that are done, those of the checkpoint included.
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

/// Runs a network over `data` for each generator, length and seed of `plan`.
///
/// Samples stop early if the scores are the outputs of a dense layer that runs as streams, also through a softmax; if they are those outputs
/// themselves, the rule of certainty holds as well.
///
/// Cells of `checkpoint`, an evaluation of the same network and data with the same settings, are retained, whatever the plan asks for, and
/// not run again. `progress` is called before every chunk of samples and after every cell. When cancelled, the evaluation returns with the
/// cells that are done.
///
/// # Errors
/// [`Error`] for a plan that cannot be run, data that do not fit the network, or a checkpoint of something else;
/// [`Error::Unfinished`], with the cells that are done, if a later cell fails; [`aleatron_core::Error::Cancelled`] if no cell is done before
/// the network has run in floating point.
pub fn evaluate(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<Evaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Evaluation> {
    let job = Job::new(Arc::new(network.clone()), Cow::Borrowed(data), plan.clone())?;
    let mut assembly = Assembly::new(job.outline().clone(), checkpoint)?;
    let float = Task { pass: FLOAT, first: 0, pieces: job.outline().n_pieces() };
    match job.run(&float, cancel, &mut || ()) {
        Ok(part) => assembly.add(part)?,
        Err(Error::Core(aleatron_core::Error::Cancelled)) if !assembly.evaluation().cells.is_empty() => {
            return Ok(assembly.into_evaluation());
        }
        Err(error) => return Err(error),
    }
    let float_classes = assembly.float_classes()?;
    let cells = &job.outline().cells;
    let (mut done, total) = (0, cells.len());
    for (k, cell) in cells.iter().enumerate() {
        if !assembly.has(k) {
            let (generator, length, seed) = (&cell.generator, cell.length, cell.seed);
            let mut run = || {
                for task in assembly.missing_of_cell(k) {
                    let evaluation = assembly.evaluation();
                    let mut tick = || progress(Progress { evaluation, done, total, generator, length, seed });
                    let part = job.run(&task, cancel, &mut tick)?;
                    assembly.add(part)?;
                    // No other task is of the same pass.
                    job.release();
                }
                Ok(())
            };
            match run() {
                Ok(()) => {
                    assembly.close(k, &float_classes);
                    let (evaluation, done) = (assembly.evaluation(), done + 1);
                    progress(Progress { evaluation, done, total, generator, length, seed });
                }
                Err(Error::Core(aleatron_core::Error::Cancelled)) => break,
                // Without a cell there is nothing to save.
                Err(source) if assembly.evaluation().cells.is_empty() => return Err(source),
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
