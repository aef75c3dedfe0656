//! `aleatron tables`: how wrong products of two generators are, over all pairs of 8-bit values.

use super::Outcome;
use crate::{Verdict, output};
use aleatron::eval::multiplier::{MultiplierError, Operand};
use aleatron::eval::report;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pairs as X+Y, with each of sobol:DIMENSION, halton:BASE, vdc, ramp, lfsr:SEED and bernoulli:SEED.
    #[arg(default_values = ["sobol:1+sobol:2", "lfsr:1+lfsr:113", "halton:2+halton:3", "ramp+vdc", "bernoulli:1+bernoulli:2"])]
    pairs: Vec<String>,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", default_values_t = [16, 32, 64, 128, 256])]
    lengths: Vec<usize>,
    /// Print comma-separated values instead of a table.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write a page with error maps (index.html), tables.csv and one SVG per pair and length into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for pair in &arguments.pairs {
        let (x, y) = pair.split_once('+').ok_or_else(|| format!("\"{pair}\" is not a pair: use X+Y"))?;
        let (x, y): (Operand, Operand) = (x.parse()?, y.parse()?);
        warnings.extend(x.warning(&y)?.map(|warning| format!("{x}, {y}: {warning}")));
        for &length in &arguments.lengths {
            errors.push(MultiplierError::of(x, y, length)?);
        }
    }
    if let Some(folder) = &arguments.report {
        write_report(folder, &errors)?;
    }
    if arguments.json {
        output::json(&errors)?;
    } else if arguments.csv {
        output::line(csv(&errors).trim_end())?;
    } else {
        print_table(&errors)?;
        for warning in &warnings {
            output::line(format!("warning: {warning}"))?;
        }
        if let Some(folder) = &arguments.report {
            output::line(format!("Report: {}", folder.join("index.html").display()))?;
        }
    }
    Ok(Verdict::Good)
}

fn csv(errors: &[MultiplierError]) -> String {
    let lines = std::iter::once(MultiplierError::CSV_HEADING.to_owned())
        .chain(errors.iter().map(MultiplierError::csv));
    lines.map(|line| line + "\n").collect()
}

fn print_table(errors: &[MultiplierError]) -> std::io::Result<()> {
    let name = |error: &MultiplierError| format!("{}, {}", error.x, error.y);
    let width = errors.iter().map(|error| name(error).len()).max().unwrap_or(0);
    output::line(format!(
        "{:width$}  {:>6}  {:>8}  {:>8}  {:>9}  {:>8}  {:>9}  {:>9}",
        "X, Y", "bits", "MAE", "RMSE", "bias", "worst", "mean|SCC|", "mean|ZCE|"
    ))?;
    let mut before = String::new();
    for error in errors {
        let name = name(error);
        if !before.is_empty() && before != name {
            output::line("")?;
        }
        output::line(format!(
            "{name:width$}  {:>6}  {:>8.5}  {:>8.5}  {:>+9.5}  {:>8.5}  {:>9.5}  {:>9.5}",
            error.length, error.mae, error.rmse, error.bias, error.worst, error.mean_scc, error.mean_zce
        ))?;
        before = name;
    }
    Ok(())
}

fn write_report(folder: &Path, errors: &[MultiplierError]) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    write("index.html", &report::multiplier(errors))?;
    write("tables.csv", &csv(errors))?;
    for error in errors {
        // Colons are no part of a file's name everywhere.
        let name = format!("{}_{}_{}.svg", error.x, error.y, error.length).replace(':', "-");
        write(&name, &report::heat_map(error))?;
    }
    Ok(())
}
