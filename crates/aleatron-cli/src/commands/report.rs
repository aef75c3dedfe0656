//! Printing evaluations, and the folder of a report.

use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::eval::{CheckpointFile, Error as EvalError, Evaluation, FileLock, plural, report};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of a report.
const JSON_NAME: &str = "evaluation.json";
const PAGE_NAME: &str = "index.html";
const CSV_NAME: &str = "evaluation.csv";
/// The finished tasks of a run on several processes.
const TASKS_NAME: &str = "tasks.jsonl";
/// The lock file that prevents two processes from writing one report.
pub(crate) const LOCK_NAME: &str = ".aleatron.lock";

/// The format of a printed evaluation.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Format {
    /// Print JSON instead of a table.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values instead of a table.
    #[arg(long)]
    pub(crate) csv: bool,
}

impl Format {
    /// Prints an evaluation and notes about it; unfinished evaluations are failures.
    pub(crate) fn print(
        &self,
        evaluation: &Evaluation,
        notes: &[String],
        report: Option<&Report>,
        elapsed: Duration,
    ) -> Outcome {
        if self.json {
            output::json(evaluation)?;
        } else if self.csv {
            output::line(evaluation.to_csv().trim_end())?;
        } else {
            output::line(evaluation.text(output::width()).trim_end())?;
            notes.iter().try_for_each(output::line)?;
            let cells = plural(evaluation.cells.len(), "cell");
            output::line(format!("\n{cells} in {:.1} s", elapsed.as_secs_f64()))?;
            if let Some(report) = report {
                output::line(format!("Report: {}", report.folder.join(PAGE_NAME).display()))?;
            }
        }
        if self.json || self.csv {
            notes.iter().for_each(output::message);
        }
        Ok(if evaluation.is_complete() { Verdict::Good } else { Verdict::Bad })
    }
}

/// The treatment of existing results in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// Finished results of the same network and data are replaced; others are an error.
    Replace,
    /// They are replaced.
    Force,
    /// Existing results are retained, and the missing ones are added.
    Resume,
}

/// The options that choose among [`Earlier`].
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct EarlierOptions {
    /// Retain the results that the folder of the report holds, and run the missing ones.
    #[arg(long, requires = "report", conflicts_with = "force")]
    resume: bool,
    /// Replace the report that the folder holds, even if it is unfinished or of another network.
    #[arg(long, requires = "report")]
    force: bool,
}

impl EarlierOptions {
    pub(crate) fn earlier(self) -> Earlier {
        match (self.resume, self.force) {
            (true, _) => Earlier::Resume,
            (false, true) => Earlier::Force,
            (false, false) => Earlier::Replace,
        }
    }
}

/// The folder of a report, found to be writable before anything is run.
#[derive(Debug)]
pub(crate) struct Report {
    folder: PathBuf,
    pub(crate) earlier: Earlier,
    pub(crate) checkpoint: Option<Evaluation>,
    /// Held as long as the report may be written.
    _lock: FileLock,
}

impl Report {
    /// Opens the folder of a report of the network and the data with these names.
    pub(crate) fn open(folder: &Path, earlier: Earlier, names: [&str; 2]) -> Result<Self, Failure> {
        let lock = open_folder(folder, LOCK_NAME)?;
        let file = folder.join(JSON_NAME);
        let read = || {
            let text = std::fs::read_to_string(&file).map_err(|e| fault(&file, &e))?;
            Evaluation::from_json(&text).map_err(|e| fault(&file, &e))
        };
        let checkpoint = match earlier {
            Earlier::Resume if file.exists() => Some(read()?),
            Earlier::Resume | Earlier::Force => None,
            Earlier::Replace => {
                check_replaced(folder, file.exists().then(read), names)?;
                None
            }
        };
        Ok(Self { folder: folder.to_owned(), earlier, checkpoint, _lock: lock })
    }

    /// Returns the file for the finished tasks of a run on several processes.
    pub(crate) fn tasks(&self) -> PathBuf {
        self.folder.join(TASKS_NAME)
    }

    /// Returns the file that a run writes while it is in progress, and that a later run resumes
    /// from.
    pub(crate) fn checkpoint_file(&self) -> CheckpointFile {
        CheckpointFile::new(self.folder.join(JSON_NAME))
    }

    /// Writes the result, the table and the page.
    pub(crate) fn write(&self, evaluation: &Evaluation) -> Result<(), Failure> {
        let files = [
            (JSON_NAME, evaluation.to_json()?),
            (CSV_NAME, evaluation.to_csv()),
            (PAGE_NAME, report::evaluation(evaluation)),
        ];
        for (name, text) in files {
            aleatron::eval::write(self.folder.join(name), &text)?;
        }
        Ok(())
    }
}

/// Checks that a report can be replaced without losing work: it is finished, and of the same
/// network and data.
fn check_replaced(
    folder: &Path,
    found: Option<Result<Evaluation, Failure>>,
    names: [&str; 2],
) -> Result<(), Failure> {
    let refuse =
        |reason: &str| Err(fault(folder, &format!("{reason}, or replace it with --force")));
    if folder.join(TASKS_NAME).exists() {
        return refuse("it holds an unfinished report: go on with --resume");
    }
    match found {
        None if folder.join(PAGE_NAME).exists() => {
            refuse("it holds a page of something else: choose another folder")
        }
        None => Ok(()),
        Some(Err(_)) => refuse("it holds a report of something else: choose another folder"),
        Some(Ok(found)) if [&*found.network.name, &*found.data.name] != names => {
            let [network, data] = [&found.network.name, &found.data.name];
            refuse(&format!(
                "it holds a report of network {network} on {data}: choose another folder"
            ))
        }
        Some(Ok(found)) if !found.is_complete() => {
            refuse("it holds an unfinished report: go on with --resume")
        }
        Some(Ok(_)) => Ok(()),
    }
}

/// Creates a folder if it is missing, checks that files can be written there, and locks it until
/// the lock is dropped.
pub(crate) fn open_folder(folder: &Path, lock: &str) -> Result<FileLock, Failure> {
    std::fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
    let lock = match FileLock::acquire(folder.join(lock)) {
        Ok(lock) => lock,
        Err(EvalError::Locked { process, .. }) => {
            return Err(fault(folder, &format!("process {process} is writing this report")));
        }
        Err(EvalError::File { source, .. }) => return Err(fault(folder, &source)),
        Err(error) => return Err(error.into()),
    };
    try_writing(folder)?;
    Ok(lock)
}

/// Checks that files can be created in a folder.
pub(crate) fn try_writing(folder: &Path) -> Result<(), Failure> {
    let trial = folder.join(format!(".aleatron-trial-{}", std::process::id()));
    let tried = std::fs::write(&trial, "").and_then(|()| std::fs::remove_file(&trial));
    tried.map_err(|e| fault(folder, &e))
}

/// Returns the failure of a file or folder.
pub(crate) fn fault(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Work(format!("{}: {error}", path.display()))
}
