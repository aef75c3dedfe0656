//! Printing evaluations of language models, and the folder of their reports.

use super::report::{Earlier, Format, LOCK_NAME, fault, open_folder};
use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::eval::language::{LanguageCheckpoint, LanguageEvaluation};
use aleatron::eval::{CheckpointFile, FileLock, plural, report};
use std::path::{Path, PathBuf};
use std::time::Duration;

const JSON_NAME: &str = "evaluation.json";
const CSV_NAME: &str = "evaluation.csv";
const PAGE_NAME: &str = "index.html";

/// The folder of a report.
pub(crate) struct LanguageReport {
    folder: PathBuf,
    /// The result to resume from.
    pub(crate) checkpoint: Option<LanguageCheckpoint>,
    /// Held as long as the report may be written.
    _lock: FileLock,
}

impl LanguageReport {
    /// Opens the folder of a report of the model and the text with these names, unless it holds
    /// results that would be lost.
    pub(crate) fn open(folder: &Path, earlier: Earlier, names: [&str; 2]) -> Result<Self, Failure> {
        let lock = open_folder(folder, LOCK_NAME)?;
        let file = folder.join(JSON_NAME);
        let read = || {
            let text = std::fs::read_to_string(&file).map_err(|error| fault(&file, &error))?;
            LanguageCheckpoint::from_json(&text).map_err(|error| fault(&file, &error))
        };
        let refuse =
            |reason: &str| Err(fault(folder, &format!("{reason}, or replace it with --force")));
        let checkpoint = match earlier {
            Earlier::Resume if file.exists() => Some(read()?),
            Earlier::Resume | Earlier::Force => None,
            Earlier::Replace if file.exists() => match read() {
                Ok(found) if found.names() == names && found.is_complete() => None,
                Ok(found) if found.names() == names => {
                    return refuse("it holds an unfinished report: go on with --resume");
                }
                _ => return refuse("it holds a report of something else: choose another folder"),
            },
            Earlier::Replace if folder.join(PAGE_NAME).exists() => {
                return refuse("it holds a page of something else: choose another folder");
            }
            Earlier::Replace => None,
        };
        Ok(Self { folder: folder.to_owned(), checkpoint, _lock: lock })
    }

    /// Returns the file that finished runs are written to.
    pub(crate) fn checkpoint_file(&self) -> CheckpointFile {
        CheckpointFile::new(self.folder.join(JSON_NAME))
    }

    /// Writes the page, the full result and the table.
    pub(crate) fn write(&self, found: &LanguageEvaluation) -> Result<(), Failure> {
        let files = [
            (JSON_NAME, found.to_json()?),
            (CSV_NAME, found.to_csv()),
            (PAGE_NAME, report::language(found)),
        ];
        for (name, text) in files {
            aleatron::eval::write(self.folder.join(name), &text)?;
        }
        Ok(())
    }
}

impl Format {
    /// Prints the evaluation of a language model; unfinished evaluations are failures.
    pub(crate) fn print_language(
        &self,
        found: &LanguageEvaluation,
        report: Option<&LanguageReport>,
        elapsed: Duration,
    ) -> Outcome {
        if self.json {
            output::json(found)?;
        } else if self.csv {
            output::line(found.to_csv().trim_end())?;
        } else {
            output::line(found.text(output::width()).trim_end())?;
            let runs = found.rows.iter().map(|row| row.seeds.len()).sum::<usize>()
                + found.sensitivity.len()
                + 1;
            let runs = plural(runs, "run");
            output::line(format!("\n{runs} over the text in {:.1} s", elapsed.as_secs_f64()))?;
            if let Some(report) = report {
                output::line(format!("Report: {}", report.folder.join(PAGE_NAME).display()))?;
            }
        }
        Ok(if found.is_complete() { Verdict::Good } else { Verdict::Bad })
    }
}
