//! `aleatron eval --find`: the shortest streams of a network that are good enough, layer by layer.

use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{Found, Plan, Search, Subject, plural};
use aleatron::network::{LayerOverride, layers_to_json};
use indicatif::ProgressBar;
use std::path::Path;

/// The file of a search in the folder of a report.
const NAME: &str = "find.json";

/// The lengths found, to be read with `--layers`.
const LAYERS_NAME: &str = "layers.json";

/// What a search is asked for.
pub(super) struct Request<'a> {
    pub(super) loss: f64,
    pub(super) budget: usize,
    pub(super) folder: Option<&'a Path>,
    pub(super) resume: bool,
    pub(super) json: bool,
}

pub(super) fn run(
    network: &Subject,
    data: &Dataset,
    plan: &Plan,
    request: &Request<'_>,
    cancel: Cancel<'_>,
    bar: &ProgressBar,
) -> Outcome {
    let (Some(&generator), Some(&longest), Some(&shortest)) =
        (plan.generators.first(), plan.lengths.iter().max(), plan.lengths.iter().min())
    else {
        return Err(Failure::Usage("--find needs a generator and lengths".to_owned()));
    };
    let search = Search { generator, loss: request.loss, longest, shortest, budget: request.budget };
    let known = match (request.folder, request.resume) {
        (Some(folder), true) => Some(read(&folder.join(NAME))?),
        _ => None,
    };
    bar.set_length(request.budget as u64);
    let found = aleatron::eval::find(network, data, plan, &search, known, cancel, |trials| {
        bar.set_position(trials as u64);
        bar.set_message("trials");
    });
    bar.finish_and_clear();
    let found = found?;
    if let Some(folder) = request.folder {
        aleatron::eval::write(folder.join(NAME), &found.to_json()?)?;
        let lengths = found.layers.iter().zip(&found.lengths).map(|(layer, &length)| {
            let own = plan.layers.get(layer).copied().unwrap_or_default();
            (layer.clone(), LayerOverride { length: Some(length), ..own })
        });
        aleatron::eval::write(folder.join(LAYERS_NAME), &layers_to_json(&lengths.collect())?)?;
    }
    if request.json {
        output::json(&found)?;
    } else {
        output::line(text(&found, network.name()).trim_end())?;
    }
    Ok(if found.is_good() { Verdict::Good } else { Verdict::Bad })
}

/// What an earlier search found.
fn read(path: &Path) -> Result<Found, Failure> {
    let fault = |error: &dyn std::fmt::Display| Failure::Work(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    Found::from_json(&text).map_err(|error| fault(&error))
}

fn text(found: &Found, name: &str) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mut text = format!(
        "Network {name}, {}: floating point {}, at least {} wanted\n\n",
        found.generator,
        percent(found.float_accuracy),
        percent(found.bar.max(0.0)),
    );
    let width = found.layers.iter().map(|layer| layer.chars().count()).max().unwrap_or(0).max(5);
    text.push_str(&format!("{:width$}  {:>12}  {:>6}\n", "layer", "products", "bits"));
    for ((layer, products), length) in found.layers.iter().zip(&found.products).zip(&found.lengths) {
        text.push_str(&format!("{layer:width$}  {products:>12}  {length:>6}\n"));
    }
    let saved = 1.0 - found.bit_macs as f64 / found.bit_macs_before.max(1) as f64;
    text.push_str(&format!(
        "\n{} with these lengths; {} of {} bit-MACs saved; {}\n",
        percent(found.accuracy),
        percent(saved),
        found.bit_macs_before,
        plural(found.trials.len(), "trial"),
    ));
    if found.accuracy < found.bar {
        text.push_str("not even the longest streams are good enough\n");
    } else if !found.is_finished {
        text.push_str("the search has not ended: go on with --report DIR --resume and a larger --budget\n");
    }
    text
}
