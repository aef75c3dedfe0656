//! `aleatron compare`: the differences of two evaluations.

use super::report::{LOCK_NAME, fault, open_folder};
use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::eval::{
    Comparison, Error as EvalError, ResultFile, Subject, compare_results, report,
};
use std::path::{Path, PathBuf};

/// The files of a comparison in the folder of a report.
const PAGE_NAME: &str = "comparison.html";
const JSON_NAME: &str = "comparison.json";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 if both were compared, whatever the differences; 1 if they could\nnot be read or compared; 2 for invalid usage.\n\nExamples:\n  \
    aleatron eval --report a\n  \
    aleatron eval --width 6 --report b\n  \
    aleatron compare a b\n  \
    aleatron compare before.json after.json --across network --report changes"
)]
pub(crate) struct Arguments {
    /// The folder of a report of `aleatron eval`, or its evaluation.json.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another one, whose differences from the first are shown.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// What may differ beside the settings: network, data or both.
    #[arg(long, value_delimiter = ',', value_name = "WHAT,...", ignore_case = true)]
    across: Vec<Across>,
    /// Write a page (comparison.html) and the full comparison (comparison.json) into this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A subject that may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Across {
    Network,
    Data,
}

impl From<Across> for Subject {
    fn from(across: Across) -> Self {
        match across {
            Across::Network => Self::Network,
            Across::Data => Self::Data,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let across: Vec<Subject> = arguments.across.iter().copied().map(Subject::from).collect();
    let paths = [&arguments.first, &arguments.second];
    let names = paths.map(|path| path.display().to_string());
    let [a, b] = [ResultFile::read(paths[0])?, ResultFile::read(paths[1])?];
    let found = compare_results([&names[0], &names[1]], [&a, &b], &across).map_err(explain)?;
    if let Some(folder) = &arguments.report {
        write(folder, &found)?;
    }
    if arguments.json {
        output::json(&found)?;
        return Ok(Verdict::Good);
    }
    output::line(found.text(output::width()).trim_end())?;
    if let Some(folder) = &arguments.report {
        output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
    }
    Ok(Verdict::Good)
}

/// Returns an error with its remedy.
fn explain(error: EvalError) -> Failure {
    let remedy = match &error {
        EvalError::Incomparable { subject: Subject::Task, .. } => {
            "; give two results of the same task".to_owned()
        }
        EvalError::Incomparable { subject, .. } => {
            format!("; --across {subject} compares them nevertheless")
        }
        _ => String::new(),
    };
    Failure::Work(format!("{error}{remedy}"))
}

/// Writes the page and the comparison.
fn write(folder: &Path, found: &Comparison) -> Result<(), Failure> {
    let _lock = open_folder(folder, LOCK_NAME)?;
    for (name, text) in [(PAGE_NAME, report::comparison(found)), (JSON_NAME, found.to_json()?)] {
        let path = folder.join(name);
        if path.is_dir() {
            return Err(fault(&path, &"it is a folder; choose another --report DIR"));
        }
        aleatron::eval::write(&path, &text)?;
    }
    Ok(())
}
