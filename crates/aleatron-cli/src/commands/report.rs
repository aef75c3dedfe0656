//! What `eval` and `merge` make of an evaluation: a table or text for machines, and the folder of a report.

use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::eval::{Evaluation, RegressionEvaluation, plural, report};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of a report.
const JSON_NAME: &str = "evaluation.json";
const PAGE_NAME: &str = "index.html";
const CSV_NAME: &str = "evaluation.csv";
/// The finished tasks of a run on several processes.
const TASKS_NAME: &str = "tasks.jsonl";

/// How to print an evaluation.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Format {
    /// Print JSON instead of a table.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values instead of a table.
    #[arg(long)]
    csv: bool,
}

/// What an evaluation found, of classes or of numbers.
pub(crate) trait Found: serde::Serialize + Sized {
    fn from_json(text: &str) -> aleatron::Result<Self>;
    fn to_json(&self) -> aleatron::Result<String>;
    fn to_csv(&self) -> String;
    fn to_html(&self) -> String;
    fn text(&self, width: usize) -> String;
    fn n_cells(&self) -> usize;
    fn is_complete(&self) -> bool;
}

impl Found for Evaluation {
    fn from_json(text: &str) -> aleatron::Result<Self> {
        Self::from_json(text)
    }

    fn to_json(&self) -> aleatron::Result<String> {
        self.to_json()
    }

    fn to_csv(&self) -> String {
        self.to_csv()
    }

    fn to_html(&self) -> String {
        report::evaluation(self)
    }

    fn text(&self, width: usize) -> String {
        self.text(width)
    }

    fn n_cells(&self) -> usize {
        self.cells.len()
    }

    fn is_complete(&self) -> bool {
        self.is_complete()
    }
}

impl Found for RegressionEvaluation {
    fn from_json(text: &str) -> aleatron::Result<Self> {
        Self::from_json(text)
    }

    fn to_json(&self) -> aleatron::Result<String> {
        self.to_json()
    }

    fn to_csv(&self) -> String {
        self.to_csv()
    }

    fn to_html(&self) -> String {
        report::regression(self)
    }

    fn text(&self, width: usize) -> String {
        self.text(width)
    }

    fn n_cells(&self) -> usize {
        self.cells.len()
    }

    fn is_complete(&self) -> bool {
        self.is_complete()
    }
}

impl Format {
    /// Prints an evaluation; unfinished ones are bad.
    pub(crate) fn print<E: Found>(
        &self,
        evaluation: &E,
        report: Option<&Report<E>>,
        elapsed: Duration,
    ) -> Outcome {
        if self.json {
            output::json(evaluation)?;
        } else if self.csv {
            output::line(evaluation.to_csv().trim_end())?;
        } else {
            output::line(evaluation.text(output::width()).trim_end())?;
            let cells = plural(evaluation.n_cells(), "cell");
            output::line(format!("\n{cells} in {:.1} s", elapsed.as_secs_f64()))?;
            if let Some(report) = report {
                output::line(format!("Report: {}", report.folder.join(PAGE_NAME).display()))?;
            }
        }
        Ok(if evaluation.is_complete() { Verdict::Good } else { Verdict::Bad })
    }
}

/// Whether to keep what a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It is replaced.
    Replace,
    /// It is gone on from.
    Resume,
}

impl Earlier {
    pub(crate) fn new(resume: bool) -> Self {
        if resume { Self::Resume } else { Self::Replace }
    }
}

/// The folder of a report, found to be writable before anything is run.
#[derive(Debug)]
pub(crate) struct Report<E = Evaluation> {
    folder: PathBuf,
    pub(crate) earlier: Earlier,
    pub(crate) checkpoint: Option<E>,
}

impl<E: Found> Report<E> {
    pub(crate) fn open(folder: &Path, earlier: Earlier) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
        let file = folder.join(JSON_NAME);
        let checkpoint = match earlier {
            // Tasks of a run that was killed are something to go on from, too.
            Earlier::Resume if !file.exists() && folder.join(TASKS_NAME).exists() => None,
            Earlier::Resume => {
                let text = std::fs::read_to_string(&file).map_err(|e| fault(&file, &e))?;
                Some(E::from_json(&text).map_err(|e| fault(&file, &e))?)
            }
            Earlier::Replace => None,
        };
        try_writing(folder)?;
        Ok(Self { folder: folder.to_owned(), earlier, checkpoint })
    }

    /// The file for the finished tasks of a run on several processes.
    pub(crate) fn tasks(&self) -> PathBuf {
        self.folder.join(TASKS_NAME)
    }

    pub(crate) fn write(&self, evaluation: &E) -> Result<(), Failure> {
        let files = [
            (JSON_NAME, evaluation.to_json()?),
            (CSV_NAME, evaluation.to_csv()),
            (PAGE_NAME, evaluation.to_html()),
        ];
        for (name, text) in files {
            aleatron::eval::write(self.folder.join(name), &text)?;
        }
        Ok(())
    }
}

/// Makes sure that files can be made in a folder.
pub(crate) fn try_writing(folder: &Path) -> Result<(), Failure> {
    let trial = folder.join(".aleatron-trial");
    let tried = std::fs::write(&trial, "").and_then(|()| std::fs::remove_file(&trial));
    tried.map_err(|e| fault(folder, &e))
}

/// A failure of a file or folder.
pub(crate) fn fault(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Work(format!("{}: {error}", path.display()))
}
