//! `aleatron merge`: merges the shards of an evaluation. It needs neither the network nor the data.

#[cfg(feature = "transformer")]
use super::language_report::LanguageReport;
use super::report::{Earlier, Format, Report, fault};
use super::shard::{self, Shard};
use super::{Failure, Outcome};
use crate::invocation::Invocation;
#[cfg(feature = "transformer")]
use aleatron::eval::Provenance;
#[cfg(feature = "transformer")]
use aleatron::eval::language::LanguageJournal;
use aleatron::eval::{Error as EvalError, Journal, Source};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron eval --shard 1/2 --report shards\n  \
    aleatron eval --shard 2/2 --report shards\n  \
    aleatron merge shards --report report")]
pub(crate) struct Arguments {
    /// Files that `eval --shard` wrote, or folders with such files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write a page (index.html), the full result (evaluation.json) and a table (evaluation.csv)
    /// into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Replace the report that the folder holds, even if it is unfinished or of another network.
    #[arg(long, requires = "report", help_heading = "Output")]
    force: bool,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    let start = Instant::now();
    let files = shards(&arguments.files)?;
    let Some(first) = files.first() else {
        return Err(Failure::Work("there is no shard in these folders".to_owned()));
    };
    let missing = missing_note(&files);
    let mut provenance = super::provenance::of_command(invocation)?;
    for file in &files {
        provenance.sources.push(Source::read("shard", file)?);
    }
    #[cfg(feature = "transformer")]
    if LanguageJournal::is_header(&shard::read_text(first)?) {
        let journal = merged(&files, first, LanguageJournal::read, LanguageJournal::merge)?;
        return arguments.finish_language(journal, missing, start, provenance);
    }
    let journal = merged(&files, first, Journal::read, Journal::merge)?;
    let [network, data] = {
        let evaluation = journal.evaluation();
        [evaluation.network.name.clone(), evaluation.data.name.clone()]
    };
    let earlier = if arguments.force { Earlier::Force } else { Earlier::Replace };
    let report = arguments.report.as_deref();
    let report =
        report.map(|folder| Report::open(folder, earlier, [&network, &data])).transpose()?;
    let mut evaluation =
        journal.finish().map_err(|error| with_missing(error, missing.as_deref()))?;
    evaluation.provenance.push(provenance);
    if let Some(report) = &report {
        report.write(&evaluation)?;
    }
    let notes: Vec<String> = missing.into_iter().filter(|_| !evaluation.is_complete()).collect();
    arguments.format.print(&evaluation, &notes, report.as_ref(), start.elapsed())
}

impl Arguments {
    /// Writes and prints the evaluation of a language model.
    #[cfg(feature = "transformer")]
    fn finish_language(
        &self,
        journal: LanguageJournal,
        missing: Option<String>,
        start: Instant,
        provenance: Provenance,
    ) -> Outcome {
        let [model, text] = journal.names().map(str::to_owned);
        let earlier = if self.force { Earlier::Force } else { Earlier::Replace };
        let report = self.report.as_deref();
        let report = report
            .map(|folder| LanguageReport::open(folder, earlier, [&model, &text]))
            .transpose()?;
        let mut found =
            journal.finish().map_err(|error| with_missing(error, missing.as_deref()))?;
        found.provenance.push(provenance);
        if let Some(report) = &report {
            report.write(&found)?;
        }
        missing.iter().filter(|_| !found.is_complete()).for_each(super::super::output::message);
        self.format.print_language(&found, report.as_ref(), start.elapsed())
    }
}

/// Reads and merges shards.
fn merged<J>(
    files: &[PathBuf],
    first: &Path,
    read: impl Fn(&str) -> Result<J, EvalError>,
    merge: impl Fn(&mut J, J) -> Result<(), EvalError>,
) -> Result<J, Failure> {
    let read = |path: &Path| read(&shard::read_text(path)?).map_err(|error| fault(path, &error));
    let mut all = read(first)?;
    for path in files.iter().skip(1) {
        merge(&mut all, read(path)?).map_err(|_| {
            let other =
                format!("its network, data, plan or version is not that of {}", first.display());
            fault(path, &other)
        })?;
    }
    Ok(all)
}

/// Returns an error with the shards that are missing.
fn with_missing(error: EvalError, missing: Option<&str>) -> Failure {
    match missing {
        Some(missing) => Failure::Work(format!("{error}; {missing}")),
        None => error.into(),
    }
}

/// Returns the shards that the names of the others show to be missing, for messages.
fn missing_note(files: &[PathBuf]) -> Option<String> {
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    let known: Vec<Shard> = names.filter_map(Shard::of_name).collect();
    let missing: Vec<String> = Shard::missing(&known).iter().map(ToString::to_string).collect();
    (!missing.is_empty()).then(|| format!("missing shards: {}", missing.join(", ")))
}

/// Returns the files, and the shards in folders in the order of their names.
fn shards(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(shards_in(path).map_err(|e| fault(path, &e))?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn shards_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(Shard::is_name) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
