//! The finished sequences of an evaluation of a language model, and the runs whose sequences are
//! finished.

use super::head::{HeadCounts, HeadStop};
use super::products::{saturation_warning, width_of};
use super::result::{LanguageEvaluation, LanguageFigures, LanguageSeed, LinearSensitivity};
use super::schedule::{Header, LanguageSchedule, Run};
use crate::finished::{Finished, FinishedPass, whole_lines};
use crate::provenance::Provenance;
use crate::task::fault;
use crate::{Error, Result, Task};
use serde::{Deserialize, Serialize};

/// The result of a task: some sequences of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageTaskResult {
    /// The index of the pass in the schedule.
    pub(super) pass: usize,
    /// The first sequence.
    pub(super) first: usize,
    pub(super) sequences: Vec<SequenceResult>,
    /// Warnings about the generators.
    pub(super) notes: Vec<String>,
}

/// The predictions of one sequence.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequenceResult {
    /// The sum of the negative logarithms of the probabilities of its tokens.
    pub(super) nats: f64,
    /// The most probable token at each position.
    pub(super) best: Vec<u32>,
    /// The inputs of each linear product and those that saturated; none in floating point.
    pub(super) saturated: Vec<[u64; 2]>,
    /// The counts of early termination of the head for each margin; none if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) head: Vec<HeadCounts>,
    /// The backends that the products ran on.
    pub(super) backends: Vec<String>,
    pub(super) seconds: f64,
}

/// More than any count of a sequence; the sum over all sequences does not overflow.
const MOST: u64 = 1 << 40;

impl LanguageTaskResult {
    /// Returns the result as a line of JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for the result of a task that was run.
    pub fn to_line(&self) -> Result<String> {
        crate::task::to_line(self)
    }

    /// Reads a line that [`Self::to_line`] wrote. The journal that takes the result checks that it
    /// is consistent with the schedule.
    ///
    /// # Errors
    /// [`Error::Format`] with the fault.
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|error| fault(error.to_string()))
    }

    fn validate(&self, schedule: &LanguageSchedule) -> Result<()> {
        if self.pass >= schedule.n_passes() {
            return Err(fault(format!("pass {} of {}", self.pass, schedule.n_passes())));
        }
        let end = self.first.checked_add(self.sequences.len());
        if end.is_none_or(|end| end > schedule.n_sequences()) {
            return Err(fault(format!("sequences from {} on are past the end", self.first)));
        }
        let n_products = if self.pass == 0 { 0 } else { schedule.header.products.len() };
        let run = self.pass.checked_sub(1).and_then(|run| schedule.runs.get(run));
        let n_margins = match run {
            Some(Run { only: None, .. }) => schedule.header.plan.margins.len(),
            _ => 0,
        };
        for (index, sequence) in (self.first..).zip(&self.sequences) {
            let n = schedule.tokens_of(index).len() as u64;
            let is_head = |counts: &HeadCounts| {
                counts.stopped <= n && counts.changed <= n && counts.cycles < MOST
            };
            let is_share = |&[inputs, saturated]: &[u64; 2]| saturated <= inputs && inputs < MOST;
            let saturated =
                sequence.saturated.len() == n_products && sequence.saturated.iter().all(is_share);
            for (what, is_consistent) in [
                ("loss", (0.0..f64::INFINITY).contains(&sequence.nats)),
                ("tokens", sequence.best.len() == schedule.tokens_of(index).len()),
                ("saturated inputs", saturated),
                ("margins", sequence.head.len() == n_margins && sequence.head.iter().all(is_head)),
                ("seconds", (0.0..f64::INFINITY).contains(&sequence.seconds)),
            ] {
                if !is_consistent {
                    let pass = self.pass;
                    return Err(fault(format!(
                        "pass {pass}, sequence {index}: its {what} are inconsistent"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The finished sequences of a schedule. Results may come in any order and more than once; the
/// evaluation is the same.
#[derive(Debug, Clone)]
pub struct LanguageJournal {
    schedule: LanguageSchedule,
    finished: Finished<SequenceResult>,
    /// The runs that contributed.
    provenance: Vec<Provenance>,
}

impl FinishedPass<SequenceResult> {
    fn nats(&self) -> f64 {
        self.chunks.values().map(|sequence| sequence.nats).sum()
    }

    fn best(&self) -> impl Iterator<Item = u32> {
        self.chunks.values().flat_map(|sequence| sequence.best.iter().copied())
    }
}

impl LanguageJournal {
    /// Creates a journal without results.
    pub(super) fn new(schedule: LanguageSchedule) -> Self {
        let finished = Finished::new(schedule.n_passes(), schedule.n_sequences());
        Self { schedule, finished, provenance: Vec::new() }
    }

    /// Reads a file of lines: a schedule, then results of tasks and the provenance of runs. A last line without an end, left
    /// by a process that was killed, is ignored.
    ///
    /// # Errors
    /// [`Error::Format`] with the line that cannot be read.
    pub fn read(text: &str) -> Result<Self> {
        let at_line = |line: usize, error: Error| fault(format!("line {line}: {error}"));
        let mut lines = whole_lines(text).lines().zip(1..);
        let Some((head, _)) = lines.next() else { return Err(fault("it is empty".to_owned())) };
        let schedule = LanguageSchedule::from_line(head).map_err(|error| at_line(1, error))?;
        let mut journal = Self::new(schedule);
        for (line, number) in lines {
            let added = match Provenance::from_line(line) {
                Some(run) => run.map(|run| journal.provenance.push(run)),
                None => LanguageTaskResult::from_line(line).and_then(|result| journal.add(result)),
            };
            added.map_err(|error| at_line(number, error))?;
        }
        Ok(journal)
    }

    /// Returns whether a file begins like one of a language model; those of networks begin
    /// otherwise.
    #[must_use]
    pub fn is_header(text: &str) -> bool {
        text.lines().next().is_some_and(|line| line.contains("\"language_model\":"))
    }

    /// Adds the results of another journal.
    ///
    /// # Errors
    /// [`Error::OtherEvaluation`] if it is of another model, text, plan or version.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if self.schedule != other.schedule {
            return Err(Error::OtherEvaluation);
        }
        self.finished.merge(other.finished);
        self.provenance.extend(other.provenance);
        Ok(())
    }

    /// Returns the names of the model and of the text.
    #[must_use]
    pub fn names(&self) -> [&str; 2] {
        [&self.schedule.header.language_model, &self.schedule.header.text]
    }

    /// Returns the schedule.
    #[must_use]
    pub fn schedule(&self) -> &LanguageSchedule {
        &self.schedule
    }

    /// Adds the result of a task.
    ///
    /// # Errors
    /// [`Error::Format`] if it is inconsistent with the schedule.
    pub fn add(&mut self, result: LanguageTaskResult) -> Result<()> {
        result.validate(&self.schedule)?;
        self.finished.add(result.pass, result.first, result.sequences, result.notes);
        Ok(())
    }

    /// Returns the tasks that are not finished.
    #[must_use]
    pub fn missing(&self) -> Vec<Task> {
        self.missing_of(&self.schedule.tasks())
    }

    /// Returns the unfinished sequences of some tasks.
    #[must_use]
    pub fn missing_of(&self, tasks: &[Task]) -> Vec<Task> {
        self.finished.missing_of(tasks)
    }

    /// Returns the evaluation with all runs whose sequences are finished.
    ///
    /// # Errors
    /// [`Error::Format`] if the model in floating point is not finished.
    pub fn finish(mut self) -> Result<LanguageEvaluation> {
        let mut found = self.float()?;
        for pass in 1..self.schedule.n_passes() {
            self.close(pass, &mut found)?;
        }
        Ok(found)
    }

    /// Returns the evaluation with the figures of floating point alone.
    pub(super) fn float(&self) -> Result<LanguageEvaluation> {
        let all = Task { pass: 0, first: 0, chunks: self.schedule.n_sequences() };
        if let Some(task) = self.missing_of(&[all]).first() {
            return Err(fault(format!("sequence {} of floating point is missing", task.first)));
        }
        let mut found = settings(&self.schedule.header)?;
        found.provenance.clone_from(&self.provenance);
        let (n, bytes) = (found.predicted_tokens, found.predicted_bytes);
        found.float = LanguageFigures::new(self.finished.passes[0].nats() / n as f64, n, bytes);
        found.unfinished = self.schedule.runs.len();
        Ok(found)
    }

    /// Adds a run to an evaluation if its sequences are finished, and frees them.
    pub(super) fn close(&mut self, pass: usize, found: &mut LanguageEvaluation) -> Result<()> {
        let all = Task { pass, first: 0, chunks: self.schedule.n_sequences() };
        let Some(run) = pass.checked_sub(1).and_then(|run| self.schedule.runs.get(run)) else {
            return Ok(());
        };
        if !self.missing_of(&[all]).is_empty() {
            return Ok(());
        }
        let (finished, generator) = (&self.finished.passes[pass], run.generator.to_string());
        let loss = finished.nats() / found.predicted_tokens.max(1) as f64;
        let same =
            finished.best().zip(self.finished.passes[0].best()).filter(|(a, b)| a == b).count();
        let agreement = same as f64 / found.predicted_tokens.max(1) as f64;
        let mut saturated = vec![[0; 2]; found.input_scales.len()];
        for sequence in finished.chunks.values() {
            for backend in &sequence.backends {
                if !found.backends.contains(backend) {
                    found.backends.push(backend.clone());
                }
            }
            for (sum, more) in saturated.iter_mut().zip(&sequence.saturated) {
                (sum[0], sum[1]) = (sum[0] + more[0], sum[1] + more[1]);
            }
        }
        match run.only {
            None => {
                let [inputs, beyond] =
                    saturated.iter().fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
                let margins = &self.schedule.header.plan.margins;
                let mut head = vec![HeadCounts::default(); margins.len()];
                for sequence in finished.chunks.values() {
                    head.iter_mut().zip(&sequence.head).for_each(|(sum, &more)| sum.add(more));
                }
                let bits = self.schedule.config(run).settings_of("head").length;
                let head = margins.iter().zip(head);
                let head =
                    head.map(|(&m, counts)| HeadStop::new(m, counts, found.predicted_tokens, bits));
                let result = LanguageSeed {
                    head: head.collect(),
                    seed: run.seed,
                    loss,
                    agreement,
                    saturated: beyond as f64 / inputs.max(1) as f64,
                    seconds: finished.chunks.values().map(|sequence| sequence.seconds).sum(),
                };
                let width = width_of(&self.schedule.config(run))?;
                found.add(&generator, run.length, width, result);
                for note in &finished.notes {
                    found.warn(format!("{generator}, {} bits: {note}", run.length));
                }
            }
            Some(product) => found.sensitivity.push(LinearSensitivity {
                product: self
                    .schedule
                    .header
                    .products
                    .get(product)
                    .map_or_else(String::new, |p| p.name.clone()),
                generator,
                length: run.length,
                loss,
                added_loss: loss - found.float.loss,
                agreement,
            }),
        }
        // Inputs of products depend on the streams before them: the first run that saturates is
        // named.
        if found.warnings.iter().all(|warning| !warning.starts_with("product ")) {
            let products = self.schedule.header.products.iter().zip(&saturated).enumerate();
            for (k, (product, &counts)) in products {
                let warning = saturation_warning(&product.name, k, found.input_scales[k], counts);
                warning.into_iter().for_each(|warning| found.warn(warning));
            }
        }
        found.unfinished = found.unfinished.saturating_sub(1);
        self.finished.passes[pass].chunks.clear();
        Ok(())
    }
}

/// Returns an evaluation without results.
fn settings(header: &Header) -> Result<LanguageEvaluation> {
    let plan = &header.plan;
    Ok(LanguageEvaluation {
        version: header.version.clone(),
        model: header.language_model.clone(),
        text: header.text.clone(),
        precision: header.precision.clone(),
        device: plan.device.to_string(),
        backends: Vec::new(),
        width: plan.width.to_string(),
        sharing: plan.sharing.to_string(),
        margins: plan.margins.clone(),
        layers: plan.layers.iter().map(|(name, layer)| (name.clone(), layer.to_string())).collect(),
        calibration_tokens: header.calibration_tokens,
        quantile: header.quantile,
        input_scales: header.input_scales.clone(),
        predicted_tokens: header.predicted_tokens,
        predicted_bytes: header.predicted_bytes,
        context: header.context,
        float: LanguageFigures::new(0.0, 0, 0),
        rows: Vec::new(),
        sensitivity: Vec::new(),
        warnings: Vec::new(),
        unfinished: 0,
        provenance: Vec::new(),
    })
}
