//! Going on from an earlier evaluation: finished cells are retained, whatever the new plan asks for.

use super::result::{Cell, DataSummary, Evaluation, GraphSummary, Losses, NetworkSummary, PlanSummary};
use crate::{Error, Result};
use aleatron_core::Length;
use aleatron_core::generator::GeneratorName;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A file that holds the state of a long computation, so that a process that is killed loses little.
///
/// Every write replaces the whole file or leaves it as it is. Writes take at most a twentieth of the time.
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

    /// Writes the state if it has advanced to `done` finished parts since the last write and it is time to.
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

/// What an evaluation is of.
pub(super) struct Identity<'a> {
    pub(super) version: &'a str,
    pub(super) network: &'a NetworkSummary,
    pub(super) data: &'a DataSummary,
    pub(super) plan: &'a PlanSummary,
}

impl Identity<'_> {
    /// Checks that a checkpoint is of the same thing.
    pub(super) fn check(&self, checkpoint: &Identity<'_>) -> Result<()> {
        let settings = |plan: &PlanSummary| {
            let PlanSummary { width, sharing, layers, arithmetic, clip, margins, .. } = plan.clone();
            (width, sharing, layers, arithmetic, clip, margins)
        };
        for (what, same) in [
            ("the network", checkpoint.network == self.network),
            ("the data", checkpoint.data.fingerprint == self.data.fingerprint),
            ("its settings", settings(checkpoint.plan) == settings(self.plan)),
            ("the version that made it", checkpoint.version == self.version),
        ] {
            if !same {
                return Err(Error::Checkpoint(what));
            }
        }
        Ok(())
    }
}

impl PlanSummary {
    /// Adds what another plan of the same settings asks for.
    pub(super) fn add(&mut self, other: Self) {
        for generator in other.generators {
            if !self.generators.contains(&generator) {
                self.generators.push(generator);
            }
        }
        self.lengths.extend(other.lengths);
        self.lengths.sort_unstable();
        self.lengths.dedup();
        self.seeds = self.seeds.max(other.seeds);
    }

    /// Checks that lengths ascend and generators are there once, in an evaluation that was read.
    pub(super) fn validate(&self) -> Result<(), String> {
        if !self.lengths.is_sorted_by(|a, b| a < b) {
            return Err("the lengths of its plan do not ascend".to_owned());
        }
        let generators = &self.generators;
        match (1..generators.len()).find(|&k| generators[..k].contains(&generators[k])) {
            Some(twice) => Err(format!("generator {} of its plan is there twice", generators[twice])),
            None => Ok(()),
        }
    }
}

/// Takes over what `checkpoint` holds, after making sure that it is of the same thing.
pub(super) fn go_on_from(evaluation: &mut Evaluation, checkpoint: Evaluation) -> Result<()> {
    fn identity(evaluation: &Evaluation) -> Identity<'_> {
        let Evaluation { version, network, data, plan, .. } = evaluation;
        Identity { version, network, data, plan }
    }
    identity(evaluation).check(&identity(&checkpoint))?;
    checkpoint.validate()?;
    evaluation.plan.add(checkpoint.plan);
    evaluation.float_accuracy = checkpoint.float_accuracy;
    evaluation.warnings = checkpoint.warnings;
    evaluation.cells = checkpoint.cells;
    // It is of the lengths that were there.
    evaluation.graph = None;
    Ok(())
}

impl GraphSummary {
    /// Checks that nodes take what earlier ones make, and that numbers can be shares and errors.
    fn validate(&self) -> Result<(), String> {
        let n = self.nodes.len();
        if let Some(k) = (0..n).find(|&k| self.nodes[k].inputs.iter().any(|&input| input >= k)) {
            return Err(format!("node {k} takes what a later one makes"));
        }
        for Losses { generator, length, accuracy, node_errors, alone } in &self.losses {
            let mut shares = alone.iter().flatten().chain([accuracy]);
            let is_sound = node_errors.len() == n
                && alone.len() == n
                && shares.all(|share| (0.0..=1.0).contains(share))
                && node_errors.iter().all(|error| (0.0..f64::INFINITY).contains(error));
            if !is_sound {
                return Err(format!("the losses of {generator} at {length} bits cannot be true"));
            }
        }
        Ok(())
    }
}

impl Evaluation {
    /// Reads an evaluation from JSON and checks that its numbers can be those of one.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "evaluation".to_owned(), reason };
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        read.validate()?;
        Ok(read)
    }

    /// Checks that the numbers can be those of an evaluation.
    pub(super) fn validate(&self) -> Result<()> {
        let fault = |reason: String| Error::Format { file: "evaluation".to_owned(), reason };
        let share = |what: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(fault(format!("{what} is {value}, not in [0, 1]"))),
        };
        share("the accuracy in floating point", self.float_accuracy)?;
        self.plan.validate().map_err(fault)?;
        if let Some(graph) = &self.graph {
            graph.validate().map_err(fault)?;
        }
        let mut seen = std::collections::BTreeSet::new();
        for cell in &self.cells {
            self.validate_cell(cell).map_err(|reason| {
                fault(format!("cell {}, {} bits, seed {}: {reason}", cell.generator, cell.length, cell.seed))
            })?;
            if !seen.insert((&cell.generator, cell.length, cell.seed)) {
                let Cell { generator, length, seed, .. } = cell;
                return Err(fault(format!("cell {generator}, {length} bits, seed {seed} is there twice")));
            }
        }
        Ok(())
    }

    fn validate_cell(&self, cell: &Cell) -> Result<(), String> {
        cell.generator.parse::<GeneratorName>().map_err(|error| error.to_string())?;
        for &length in cell.lengths.iter().chain([&cell.length]) {
            Length::new(length).map_err(|error| error.to_string())?;
        }
        if cell.lengths.is_empty() || cell.lengths.len() > self.network.layers.len() {
            let (lengths, layers) = (cell.lengths.len(), self.network.layers.len());
            return Err(format!("it has {lengths} stream lengths for {layers} layers"));
        }
        // What is not of the plan would be in no row.
        if !self.plan.generators.contains(&cell.generator) || !self.plan.lengths.contains(&cell.length) {
            return Err("it is not of the plan".to_owned());
        }
        let mut shares = vec![("accuracy", cell.accuracy), ("agreement", cell.agreement)];
        for early in &cell.early {
            shares.extend([("accuracy", early.accuracy), ("share that stopped", early.stopped)]);
        }
        shares.extend(cell.certain.map(|certain| ("share that stopped", certain.stopped)));
        if let Some((what, value)) = shares.into_iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return Err(format!("its {what} is {value}, not in [0, 1]"));
        }
        if cell.layers.len() != self.network.layers.len() {
            return Err(format!(
                "it has {} layers, the network {}",
                cell.layers.len(),
                self.network.layers.len()
            ));
        }
        // Rows add these up over their cells.
        let most = u64::MAX / self.cells.len().max(1) as u64;
        for layer in &cell.layers {
            let errors = [layer.mean_count, layer.worst_count, layer.mean_value, layer.worst_value];
            if let Some(value) = errors.into_iter().find(|value| !(0.0..f64::INFINITY).contains(value)) {
                return Err(format!("an error of a layer is {value}"));
            }
            if let Some(count) = [layer.counts, layer.saturated].into_iter().find(|&count| count > most) {
                return Err(format!("a layer has {count} counts"));
            }
        }
        if !cell.early.iter().map(|stop| stop.margin).eq(self.plan.margins.iter().copied()) {
            return Err("its margins are not those of the plan".to_owned());
        }
        let cycles = cell.early.iter().map(|stop| stop.mean_cycles);
        let mut cycles = cycles.chain(cell.certain.map(|certain| certain.mean_cycles));
        if let Some(value) = cycles.find(|value| !(0.0..f64::INFINITY).contains(value)) {
            return Err(format!("its mean cycles are {value}"));
        }
        let rates = [cell.seconds, cell.samples_per_second, cell.bit_macs_per_second];
        if let Some(value) = rates.into_iter().find(|value| !(0.0..f64::INFINITY).contains(value)) {
            return Err(format!("a time or a rate is {value}"));
        }
        let n_classes = self.network.sizes.last().map_or(0, |&n| n.max(2));
        let samples: u64 = cell.confusion.iter().flatten().map(|&n| u64::from(n)).sum();
        let is_square =
            cell.confusion.len() == n_classes && cell.confusion.iter().all(|row| row.len() == n_classes);
        if !is_square || samples != self.data.samples as u64 {
            return Err("its confusion matrix is not that of the data".to_owned());
        }
        let right: u64 = cell.confusion.iter().enumerate().map(|(k, row)| u64::from(row[k])).sum();
        let accuracy = right as f64 / samples.max(1) as f64;
        if (accuracy - cell.accuracy).abs() > 1e-12 {
            return Err(format!("its accuracy is {}, its confusion matrix says {accuracy}", cell.accuracy));
        }
        Ok(())
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
