//! The evaluation of a language model in one process: floating point, and a run over the text for
//! each generator, length and seed.

use super::checkpoint::LanguageCheckpoint;
use super::job::LanguageJob;
use super::plan::LanguagePlan;
use super::result::LanguageEvaluation;
use super::schedule::{LanguageSchedule, Run};
use super::text::LanguageText;
use crate::{Error, Result, Task};
use aleatron_core::{Cancel, Error as CoreError};
use aleatron_transformer::Transformer;

/// The progress of an evaluation.
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

/// Evaluates a language model as streams: measures the scales of inputs on the first tokens of a
/// text, and predicts the tokens after them in floating point and with every generator, length and
/// seed of the plan.
///
/// Runs that `checkpoint` has finished are taken from it. The model must be loaded on the CPU; its
/// linear products run on the device of the plan. A cancelled evaluation returns the runs that are
/// finished, if the one in floating point is.
///
/// # Errors
/// [`Error::Checkpoint`] for a checkpoint of another model, text or plan; as [`LanguageJob::new`]
/// and [`StreamProducts::new`](super::StreamProducts::new); [`Error::UnfinishedLanguage`] with the
/// finished runs for a failure after the run in floating point.
pub fn evaluate_language_model(
    name: &str,
    model: &mut Transformer,
    text: &LanguageText,
    plan: &LanguagePlan,
    checkpoint: Option<&LanguageCheckpoint>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(&LanguageProgress<'_>),
) -> Result<LanguageEvaluation> {
    let mut job = LanguageJob::new(name, model, text, plan, cancel)?;
    let mut journal = job.journal();
    let (schedule, mut done) = (job.schedule().clone(), 0);
    let task = |pass: usize| Task { pass, first: 0, chunks: schedule.n_sequences() };
    let total_of = |runs: usize| schedule.header.predicted_tokens.saturating_mul(runs + 1);
    let total = total_of(schedule.runs.len());
    journal.add(job.run(&task(0), cancel, &mut |tokens| {
        done += tokens;
        let (label, generator) = ("floating point", "float");
        progress(&LanguageProgress {
            done,
            total,
            label,
            generator,
            length: 0,
            seed: 0,
            evaluation: None,
        });
    })?)?;
    let mut found = journal.float()?;
    if let Some(checkpoint) = checkpoint {
        found.resume(checkpoint)?;
    }
    let runs = (1..).zip(&schedule.runs).filter(|(_, run)| !is_finished(&schedule, run, &found));
    let runs: Vec<(usize, &Run)> = runs.collect();
    found.unfinished = runs.len();
    let total = total_of(runs.len());
    for (pass, run) in runs {
        let (label, generator) = (label(&schedule, run), run.generator.to_string());
        let mut report = |done: usize, found: &LanguageEvaluation| {
            let (label, generator, evaluation) = (&*label, &*generator, Some(found));
            let (length, seed) = (run.length, run.seed);
            progress(&LanguageProgress { done, total, label, generator, length, seed, evaluation });
        };
        let result = job.run(&task(pass), cancel, &mut |tokens| {
            done += tokens;
            report(done, &found);
        });
        match result
            .and_then(|result| journal.add(result))
            .and_then(|()| journal.close(pass, &mut found))
        {
            Ok(()) => report(done, &found),
            Err(error) if error.core() == Some(&CoreError::Cancelled) => break,
            Err(source) => {
                return Err(Error::UnfinishedLanguage {
                    done: Box::new(found),
                    source: Box::new(source),
                });
            }
        }
    }
    Ok(found)
}

/// Returns the name of a product that runs as streams alone.
fn product<'a>(schedule: &'a LanguageSchedule, run: &Run) -> Option<&'a str> {
    let product = schedule.header.products.get(run.only?)?;
    Some(&product.name)
}

fn label(schedule: &LanguageSchedule, run: &Run) -> String {
    let only = product(schedule, run).map_or_else(String::new, |name| format!(", {name} alone"));
    format!("{}, {} bits, seed {}{only}", run.generator, run.length, run.seed)
}

fn is_finished(schedule: &LanguageSchedule, run: &Run, found: &LanguageEvaluation) -> bool {
    let generator = run.generator.to_string();
    match product(schedule, run) {
        None => found.has_seed(&generator, run.length, run.seed),
        Some(name) => found.has_product(&generator, run.length, name),
    }
}
