//! Resuming an earlier evaluation: finished cells are retained, even if the new plan does not
//! include them.

use super::figures::{Classification, Figures};
use super::result::{Cell, Evaluation, GraphSummary, Losses};
use crate::{Error, Result};
use aleatron_core::Length;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A file that holds the state of a long computation, so that a process that is killed loses
/// little.
///
/// Every write replaces the whole file or leaves it as it is. Writes take at most a twentieth of
/// the time.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    /// When the last write ended, and how long it took.
    last: Option<(Instant, Duration)>,
    saved: usize,
}

impl CheckpointFile {
    /// The time between two writes is at least so many times that of a write.
    const INTERVAL: u32 = 20;

    /// Creates a checkpoint that will be written to a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), last: None, saved: 0 }
    }

    /// Writes the state if it has advanced to `done` finished parts since the last write and it is
    /// time to.
    ///
    /// # Errors
    /// As `state`, and [`Error::File`] if the file cannot be written.
    pub fn update(&mut self, done: usize, state: impl FnOnce() -> Result<String>) -> Result<()> {
        let is_due = self.last.is_none_or(|(end, took)| end.elapsed() >= took * Self::INTERVAL);
        if done <= self.saved || !is_due {
            return Ok(());
        }
        let start = Instant::now();
        super::write(&self.path, &state()?)?;
        self.last = Some((Instant::now(), start.elapsed()));
        self.saved = done;
        Ok(())
    }
}

/// Takes over the cells of `checkpoint`, if it is of the same network, data and settings.
pub(super) fn resume(evaluation: &mut Evaluation, checkpoint: Evaluation) -> Result<()> {
    let is_classification = |evaluation: &Evaluation| evaluation.float.classification().is_some();
    for (what, is_same) in [
        ("the network", checkpoint.network == evaluation.network),
        ("the data", checkpoint.data.fingerprint == evaluation.data.fingerprint),
        ("its task", is_classification(&checkpoint) == is_classification(evaluation)),
        ("its settings", checkpoint.plan.settings() == evaluation.plan.settings()),
        ("the version that made it", checkpoint.version == evaluation.version),
    ] {
        if !is_same {
            return Err(Error::Checkpoint(what));
        }
    }
    checkpoint.validate()?;
    evaluation.plan.add(&checkpoint.plan);
    evaluation.float = checkpoint.float;
    evaluation.warnings = checkpoint.warnings;
    evaluation.cells = checkpoint.cells;
    evaluation.provenance = checkpoint.provenance;
    // The losses of nodes are of the lengths that were there.
    evaluation.graph = None;
    Ok(())
}

impl GraphSummary {
    /// Checks that nodes read the outputs of earlier ones, and that numbers can be scores and
    /// errors.
    fn validate(&self, scores: &std::ops::RangeInclusive<f64>) -> Result<(), String> {
        let n = self.nodes.len();
        if let Some(k) = (0..n).find(|&k| self.nodes[k].inputs.iter().any(|&input| input >= k)) {
            return Err(format!("node {k} reads the output of a later one"));
        }
        for Losses { generator, length, score, node_errors, alone } in &self.losses {
            let mut own = alone.iter().flatten().chain([score]);
            let is_consistent = node_errors.len() == n
                && alone.len() == n
                && own.all(|score| scores.contains(score))
                && node_errors.iter().flatten().all(|error| (0.0..f64::INFINITY).contains(error));
            if !is_consistent {
                return Err(format!("the losses of {generator} at {length} bits are inconsistent"));
            }
        }
        Ok(())
    }
}

impl Evaluation {
    /// Reads an evaluation from JSON and checks that its numbers are consistent.
    ///
    /// # Errors
    /// [`Error::Format`] with the inconsistency.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "evaluation".to_owned(), reason };
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        read.validate()?;
        Ok(read)
    }

    /// Checks that the numbers are consistent.
    pub(super) fn validate(&self) -> Result<()> {
        let fault = |reason: String| Error::Format { file: "evaluation".to_owned(), reason };
        let scores = match &self.float {
            Figures::Classification(float) => {
                share("accuracy in floating point", float.accuracy).map_err(fault)?;
                0.0..=1.0
            }
            Figures::Regression(errors) if errors.is_consistent() => f64::MIN..=1.0,
            Figures::Regression(_) => {
                return Err(fault("the errors of floating point are inconsistent".to_owned()));
            }
        };
        self.plan.validate().map_err(fault)?;
        self.validate_costs().map_err(fault)?;
        if let Some(graph) = &self.graph {
            graph.validate(&scores).map_err(fault)?;
        }
        let mut seen = std::collections::BTreeSet::new();
        for cell in &self.cells {
            let faults =
                cell.faults.map_or_else(String::new, |faults| format!(", faults of {faults}"));
            let name = format!(
                "cell {}{faults}, {} bits, seed {}",
                cell.generator, cell.length, cell.seed
            );
            self.validate_cell(cell).map_err(|reason| fault(format!("{name}: {reason}")))?;
            if !seen.insert(name.clone()) {
                return Err(fault(format!("{name} is there twice")));
            }
        }
        Ok(())
    }

    fn validate_cell(&self, cell: &Cell) -> Result<(), String> {
        for &length in cell.lengths.iter().chain([&cell.length]) {
            Length::new(length).map_err(|error| error.to_string())?;
        }
        let n_layers = self.network.layers.len();
        if cell.lengths.is_empty() || cell.lengths.len() > n_layers {
            return Err(format!(
                "it has {} stream lengths for {n_layers} layers",
                cell.lengths.len()
            ));
        }
        // A cell outside the plan would be in no row.
        if !self.plan.generators.contains(&cell.generator)
            || !self.plan.lengths_of(&cell.generator).contains(&cell.length)
            || !self.plan.fault_points_of(&cell.generator).contains(&cell.faults)
        {
            return Err("it is not of the plan".to_owned());
        }
        match (&cell.figures, &self.float) {
            (Figures::Classification(figures), Figures::Classification(_)) => {
                self.validate_classes(figures)?;
            }
            (Figures::Regression(figures), Figures::Regression(_))
                if figures.to_targets.is_consistent() && figures.to_float.is_consistent() => {}
            (Figures::Regression(_), Figures::Regression(_)) => {
                return Err("its errors are inconsistent".to_owned());
            }
            _ => return Err("its figures are of another task".to_owned()),
        }
        if cell.layers.len() != n_layers {
            return Err(format!("it has {} layers, the network {n_layers}", cell.layers.len()));
        }
        // Rows add these up over their cells.
        let most = u64::MAX / self.cells.len().max(1) as u64;
        for layer in &cell.layers {
            let errors = [layer.mean_count, layer.worst_count, layer.mean_value, layer.worst_value];
            finite("an error of a layer is", errors)?;
            finite("the mean signal of a layer is", [layer.mean_signal])?;
            if let Some(count) =
                [layer.counts, layer.saturated].into_iter().find(|&count| count > most)
            {
                return Err(format!("a layer has {count} counts"));
            }
        }
        let rates = [cell.seconds, cell.samples_per_second, cell.bit_macs_per_second];
        finite("a time or a rate is", rates)
    }

    fn validate_classes(&self, cell: &Classification) -> Result<(), String> {
        share("accuracy", cell.accuracy)?;
        share("agreement", cell.agreement)?;
        for stop in &cell.early {
            share("accuracy", stop.accuracy)?;
            share("share that stopped", stop.stopped)?;
        }
        cell.certain.map_or(Ok(()), |certain| share("share that stopped", certain.stopped))?;
        if !cell.early.iter().map(|stop| stop.margin).eq(self.plan.margins.iter().copied()) {
            return Err("its margins are not those of the plan".to_owned());
        }
        let cycles = cell.early.iter().map(|stop| stop.mean_cycles);
        finite(
            "its mean cycles are",
            cycles.chain(cell.certain.map(|certain| certain.mean_cycles)),
        )?;
        let n_classes = self.network.sizes.last().map_or(0, |&n| n.max(2));
        let samples: u64 = cell.confusion.iter().flatten().map(|&n| u64::from(n)).sum();
        let is_square = cell.confusion.len() == n_classes
            && cell.confusion.iter().all(|row| row.len() == n_classes);
        if !is_square || samples != self.data.samples as u64 {
            return Err("its confusion matrix is not that of the data".to_owned());
        }
        let right: u64 = cell.confusion.iter().enumerate().map(|(k, row)| u64::from(row[k])).sum();
        let accuracy = right as f64 / samples.max(1) as f64;
        match (accuracy - cell.accuracy).abs() > 1e-12 {
            true => Err(format!(
                "its accuracy is {}, its confusion matrix says {accuracy}",
                cell.accuracy
            )),
            false => Ok(()),
        }
    }
}

/// Checks that a value is a share.
fn share(what: &str, value: f64) -> Result<(), String> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(format!("its {what} is {value}, not in [0, 1]")),
    }
}

/// Checks that values are finite and not negative.
fn finite(what: &str, values: impl IntoIterator<Item = f64>) -> Result<(), String> {
    match values.into_iter().find(|value| !(0.0..f64::INFINITY).contains(value)) {
        Some(value) => Err(format!("{what} {value}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn checkpoint_file_holds_the_state_of_the_last_advance() {
        let path = std::env::temp_dir().join(format!("aleatron-checkpoint-{}", std::process::id()));
        let read = || std::fs::read_to_string(&path).unwrap();
        let mut file = CheckpointFile::new(&path);
        file.update(0, || panic!("nothing is done")).unwrap();
        assert!(!path.exists());
        file.update(1, || Ok("one".to_owned())).unwrap();
        assert_eq!(read(), "one");
        file.update(1, || panic!("nothing has changed")).unwrap();
        file.last = None;
        file.update(2, || Ok("two".to_owned())).unwrap();
        assert_eq!(read(), "two");
        // A write that took an hour is not repeated at once.
        file.last = Some((Instant::now(), Duration::from_secs(3600)));
        file.update(3, || panic!("it is too early")).unwrap();
        assert_eq!(read(), "two");
        std::fs::remove_file(path).unwrap();
    }
}
