//! Running a plan on this machine.

use super::job::Job;
use super::plan::Plan;
use super::result::Evaluation;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use aleatron_data::Dataset;
use aleatron_engine::network::Network;
use std::borrow::Cow;
use std::sync::Arc;

/// The progress of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The evaluation with the cells that are done. A [`CheckpointFile`](super::CheckpointFile)
    /// saves it.
    pub evaluation: &'a Evaluation,
    /// The cells that are done, those of the checkpoint included.
    pub done: usize,
    /// All cells of the plan.
    pub total: usize,
    /// The generator being run.
    pub generator: GeneratorName,
    /// The length being run.
    pub length: usize,
    /// The seed being run.
    pub seed: u64,
}

/// Runs a network over samples for each generator, length and seed of `plan`, on this machine.
/// Samples with class labels are a classification, samples with targets a regression.
///
/// All cells of `checkpoint`, an earlier result of the same network and data with the same
/// settings, are retained, even if the plan does not include them, and not run again. `progress` is
/// called before every chunk of samples and after every cell. When cancelled, the evaluation
/// returns with the cells that are done.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Plan, evaluate};
/// use aleatron_engine::network::Network;
///
/// // A regression: how near the scores of the embedded network come to those of floating point.
/// let (network, digits) = (Network::digits_noise_aware()?, Dataset::digits_test());
/// let scores = network.forward(digits.features())?;
/// let data = Dataset::with_targets("scores", 64, digits.features().to_vec(), 10, scores)?;
/// let plan = Plan { lengths: vec![16, 256], generators: vec!["sobol".parse()?], ..Plan::default() };
/// let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())?;
/// let errors = found.cells.iter().filter_map(|cell| cell.figures.regression());
/// let errors: Vec<f64> = errors.map(|errors| errors.to_targets.root_mean_square).collect();
/// assert!(errors[1] < errors[0]);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
///
/// # Errors
/// [`Error`] for a plan that cannot be run, data that do not fit the network, or a checkpoint of
/// another evaluation; [`Error::Unfinished`], with the cells that are done, if a later cell fails;
/// [`aleatron_core::Error::Cancelled`] if no cell is done before the network has run in floating
/// point.
pub fn evaluate(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<Evaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Evaluation> {
    let job = Job::new(Arc::new(network.clone()), Cow::Borrowed(data), plan.clone())?;
    let mut journal = job.journal(checkpoint)?;
    for task in journal.missing_float() {
        match job.run(&task, cancel, &mut || ()) {
            Ok(result) => journal.add(result)?,
            Err(Error::Core(aleatron_core::Error::Cancelled))
                if !journal.evaluation().cells.is_empty() =>
            {
                return Ok(journal.into_evaluation());
            }
            Err(error) => return Err(error),
        }
    }
    journal.close_float()?;
    let cells = &job.schedule().cells;
    let (mut done, total) = (0, cells.len());
    for (k, cell) in cells.iter().enumerate() {
        if !journal.has(k) {
            let (generator, length, seed) = (cell.generator, cell.length, cell.seed);
            let mut run = || {
                for task in journal.missing_of_cell(k) {
                    let evaluation = journal.evaluation();
                    let mut tick =
                        || progress(Progress { evaluation, done, total, generator, length, seed });
                    let result = job.run(&task, cancel, &mut tick)?;
                    journal.add(result)?;
                    // No other task is of the same pass.
                    job.release();
                }
                Ok(())
            };
            match run() {
                Ok(()) => {
                    journal.close(k);
                    let (evaluation, done) = (journal.evaluation(), done + 1);
                    progress(Progress { evaluation, done, total, generator, length, seed });
                }
                Err(Error::Core(aleatron_core::Error::Cancelled)) => break,
                // Without a cell there is nothing to save.
                Err(source) if journal.evaluation().cells.is_empty() => return Err(source),
                Err(source) => {
                    let (done, source) = (Box::new(journal.into_evaluation()), Box::new(source));
                    return Err(Error::Unfinished { done, source });
                }
            }
        }
        done += 1;
    }
    Ok(journal.into_evaluation())
}
