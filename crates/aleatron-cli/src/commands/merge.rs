//! `aleatron merge`: the shards of an evaluation, put together. It needs neither the network nor the data.

use super::report::{Earlier, Format, Report, fault};
use super::shard::{self, Shard};
use super::{Failure, Outcome};
use aleatron::eval::Assembly;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files that `eval --shard` wrote, or folders with such files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write a page (index.html), the full result (evaluation.json) and a table (evaluation.csv) into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let start = Instant::now();
    let report =
        arguments.report.as_deref().map(|folder| Report::open(folder, Earlier::Replace)).transpose()?;
    let mut merged: Option<(Assembly, PathBuf)> = None;
    for path in shards(&arguments.files)? {
        let (outline, parts) = shard::read(&path)?;
        let assembly = match &mut merged {
            Some((assembly, first)) if *assembly.outline() != outline => {
                let other = format!("its network, data, plan or version is not that of {}", first.display());
                return Err(fault(&path, &other));
            }
            Some((assembly, _)) => assembly,
            None => &mut merged.insert((Assembly::new(outline, None)?, path.clone())).0,
        };
        for part in parts {
            assembly.add(part).map_err(|e| fault(&path, &e))?;
        }
    }
    let Some((assembly, _)) = merged else {
        return Err(Failure::Work("there is no shard in these folders".to_owned()));
    };
    let evaluation = assembly.finish()?;
    if let Some(report) = &report {
        report.write(&evaluation)?;
    }
    arguments.format.print(&evaluation, report.as_ref(), start.elapsed())
}

/// The files, and those of shards in folders, each folder's by name.
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
