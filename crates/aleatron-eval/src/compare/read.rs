//! Reading the result files of evaluations.

use super::{Comparison, Subject, compare};
use crate::{Error, Evaluation, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::path::Path;

#[cfg(feature = "transformer")]
use crate::language::LanguageCheckpoint;

/// The file of a report that has the whole result.
const RESULT: &str = "evaluation.json";

/// The result of an evaluation, read from a file.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultFile {
    /// The result of a network.
    Network(Box<Evaluation>),
    /// The result of a language model.
    #[cfg(feature = "transformer")]
    Language(Box<LanguageCheckpoint>),
}

/// The fields that tell results apart.
#[derive(Deserialize)]
struct Fields {
    network: Option<IgnoredAny>,
    cells: Option<IgnoredAny>,
    model: Option<IgnoredAny>,
    rows: Option<IgnoredAny>,
    trials: Option<IgnoredAny>,
}

/// Compares two results of one kind; see [`compare`].
///
/// # Errors
/// As [`compare`], and [`Error::Incomparable`] for a network and a language model.
pub fn compare_results(
    names: [&str; 2],
    results: [&ResultFile; 2],
    across: &[Subject],
) -> Result<Comparison> {
    match results {
        [ResultFile::Network(a), ResultFile::Network(b)] => compare(names, [a, b], across),
        #[cfg(feature = "transformer")]
        [ResultFile::Language(a), ResultFile::Language(b)] => {
            super::compare_language(names, [a, b], across)
        }
        #[cfg(feature = "transformer")]
        results => {
            let kind = |result: &ResultFile| match result {
                ResultFile::Network(_) => "a network on samples",
                ResultFile::Language(_) => "a language model on text",
            };
            let [a, b] = names.map(str::to_owned);
            let reason = format!("{} and {}", kind(results[0]), kind(results[1]));
            Err(Error::Incomparable { a, b, subject: Subject::Task, reason })
        }
    }
}

impl ResultFile {
    /// Reads the folder of a report, or the JSON file of a result.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Format`] if it is something else, both with
    /// the path.
    pub fn read(path: &Path) -> Result<Self> {
        let fault = |path: &Path, reason: String| Error::Format {
            file: path.display().to_string(),
            reason,
        };
        let metadata = fs::metadata(path).map_err(|error| Error::file(path, error))?;
        let file = match metadata.is_dir() {
            true => path.join(RESULT),
            false => path.to_owned(),
        };
        let metadata = match fs::metadata(&file) {
            Ok(metadata) => metadata,
            Err(_) if metadata.is_dir() => {
                let reason = format!(
                    "the folder has no {RESULT}; give the folder that `aleatron eval --report` wrote, or a result file"
                );
                return Err(fault(path, reason));
            }
            Err(error) => return Err(Error::file(file, error)),
        };
        if !metadata.is_file() {
            let reason = "not a regular file; give a result file or the folder of a report";
            return Err(fault(&file, reason.to_owned()));
        }
        let text = fs::read_to_string(&file).map_err(|error| Error::file(&file, error))?;
        Self::from_json(&text).map_err(|error| match error {
            Error::Format { reason, .. } => fault(&file, reason),
            error => error,
        })
    }

    /// Reads the JSON of a result.
    ///
    /// # Errors
    /// [`Error::Format`] if it is something else, or inconsistent.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "result".to_owned(), reason };
        let remedy = "give the evaluation.json of a report, or what `aleatron eval --json` printed";
        let fields: Fields = serde_json::from_str(text).map_err(|error| {
            fault(format!("not the result of an evaluation ({error}); {remedy}"))
        })?;
        match fields {
            Fields { network: Some(_), cells: Some(_), .. } => {
                Evaluation::from_json(text).map(Box::new).map(Self::Network)
            }
            #[cfg(feature = "transformer")]
            Fields { model: Some(_), rows: Some(_), .. } => {
                LanguageCheckpoint::from_json(text).map(Box::new).map(Self::Language)
            }
            #[cfg(not(feature = "transformer"))]
            Fields { model: Some(_), rows: Some(_), .. } => Err(fault(
                "the result of a language model, which this build does not read; build with the feature `transformer`"
                    .to_owned(),
            )),
            Fields { trials: Some(_), .. } => {
                Err(fault(format!("the result of a search, which has no rows to compare; {remedy}")))
            }
            _ => Err(fault(format!("not the result of an evaluation; {remedy}"))),
        }
    }
}
