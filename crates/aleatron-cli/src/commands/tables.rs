//! `aleatron tables`: how wrong products of two generators are, over all pairs of 8-bit values.

use super::names::read_name;
use super::{Failure, Outcome, read_length};
use crate::invocation::Invocation;
use crate::{Verdict, output};
use aleatron::eval::multiplier::{MultiplierStats, Operand};
use aleatron::eval::{Provenance, report};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron tables\n  \
    aleatron tables sobol:1+sobol:2 lfsr:1+lfsr:142 --lengths 64,256")]
pub(crate) struct Arguments {
    /// Pairs as X+Y, with each of sobol:DIMENSION, halton:BASE, vdc, ramp, lfsr:SEED and
    /// bernoulli:SEED.
    #[arg(value_name = "X+Y", value_parser = read_pair,
        default_values = ["sobol:1+sobol:2", "lfsr:1+lfsr:113", "halton:2+halton:3", "ramp+vdc", "bernoulli:1+bernoulli:2"])]
    pairs: Vec<(Operand, Operand)>,
    /// Lengths of streams in bits.
    #[arg(long, value_delimiter = ',', value_name = "BITS,...", value_parser = read_length, allow_hyphen_values = true,
        default_values_t = [16, 32, 64, 128, 256])]
    lengths: Vec<usize>,
    /// Print comma-separated values instead of a table.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    csv: bool,
    /// Write a page with error maps (index.html), tables.csv and one SVG per pair and length into
    /// this folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Reads X+Y.
fn read_pair(text: &str) -> Result<(Operand, Operand), String> {
    let (x, y) = text.split_once('+').ok_or_else(|| "use X+Y, two generators".to_owned())?;
    let read = read_name::<Operand>;
    Ok((read(x)?, read(y)?))
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Outcome {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for (x, y) in &arguments.pairs {
        warnings.extend(
            x.warning(y).map_err(Failure::usage)?.map(|warning| format!("{x}, {y}: {warning}")),
        );
    }
    if let Some(&length) =
        arguments.lengths.iter().find(|&&length| length > MultiplierStats::MAX_LENGTH)
    {
        let most = MultiplierStats::MAX_LENGTH;
        return Err(Failure::Usage(format!(
            "--lengths: {length} is past the {most} bits that tables are made for"
        )));
    }
    // Fail before the work, not after it.
    if let Some(folder) = &arguments.report {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::Work(format!("{}: {e}", folder.display())))?;
    }
    for &(x, y) in &arguments.pairs {
        for &length in &arguments.lengths {
            errors.push(MultiplierStats::of(x, y, length)?);
        }
    }
    if let Some(folder) = &arguments.report {
        write_report(folder, &errors, &super::provenance::of_command(invocation)?)?;
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

fn csv(errors: &[MultiplierStats]) -> String {
    let lines = std::iter::once(MultiplierStats::CSV_HEADING.to_owned())
        .chain(errors.iter().map(MultiplierStats::csv));
    lines.map(|line| line + "\n").collect()
}

fn print_table(errors: &[MultiplierStats]) -> std::io::Result<()> {
    let name = |error: &MultiplierStats| format!("{}, {}", error.x, error.y);
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
            error.length,
            error.mae,
            error.rmse,
            error.bias,
            error.worst,
            error.mean_scc,
            error.mean_zce
        ))?;
        before = name;
    }
    Ok(())
}

fn write_report(
    folder: &Path,
    errors: &[MultiplierStats],
    run: &Provenance,
) -> aleatron::Result<()> {
    let write = |name: &str, text: &str| aleatron::eval::write(folder.join(name), text);
    let page = report::with_provenance(&report::multiplier(errors), std::slice::from_ref(run));
    write("index.html", &page)?;
    write("tables.csv", &csv(errors))?;
    for error in errors {
        // Some systems do not allow colons in file names.
        let name = format!("{}_{}_{}.svg", error.x, error.y, error.length).replace(':', "-");
        write(&name, &report::heat_map(error))?;
    }
    Ok(())
}
