//! `aleatron eval --find`: the shortest streams of each layer that are accurate enough.

use super::eval::{progress_bar, resume_hint};
use super::report::{Earlier, LOCK_NAME, fault, open_folder};
use super::{Failure, Outcome};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{
    CheckpointFile, CircuitCost, Error as EvalError, Found, Plan, Provenance, Search, add_cost,
    plural, report,
};
use aleatron::network::{LayerOverride, Network, layers_to_json};
use std::collections::BTreeMap;
use std::path::Path;

/// The file of a search in the folder of a report.
pub(super) const NAME: &str = "find.json";

/// The lengths found, to be read with `--layers`.
pub(super) const LAYERS_NAME: &str = "layers.json";

/// The page of a search.
pub(super) const PAGE_NAME: &str = "find.html";

/// The options of a search.
pub(super) struct Request<'a> {
    pub(super) loss: f64,
    pub(super) budget: usize,
    pub(super) folder: Option<&'a Path>,
    pub(super) earlier: Earlier,
    pub(super) json: bool,
    pub(super) provenance: &'a Provenance,
}

pub(super) fn run(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    request: &Request<'_>,
    invocation: &Invocation,
) -> Outcome {
    let (Some(&generator), Some(&longest), Some(&shortest)) =
        (plan.generators.first(), plan.lengths.iter().max(), plan.lengths.iter().min())
    else {
        return Err(Failure::Usage("--find needs a generator and lengths".to_owned()));
    };
    let search =
        Search { generator, loss: request.loss, longest, shortest, budget: request.budget };
    let layers: Vec<String> =
        network.stream_layers().map(|(_, layer)| layer.name.clone()).collect();
    let title = format!("Network {}", network.name());
    let subject = SearchSubject { title, name: network.name(), layers: &layers, own: &plan.layers };
    subject.search(request, invocation, |known, cancel, progress| {
        let found = aleatron::eval::find(network, data, plan, &search, known, cancel, progress);
        found.map(|mut found| {
            add_cost(network, data, plan, &mut found);
            found
        })
    })
}

/// The network or the model of a search.
pub(super) struct SearchSubject<'a> {
    pub(super) title: String,
    pub(super) name: &'a str,
    /// The layers that run as streams.
    pub(super) layers: &'a [String],
    /// The layers with their own settings.
    pub(super) own: &'a BTreeMap<String, LayerOverride>,
}

impl SearchSubject<'_> {
    /// Runs a search with a progress bar, writes its files and prints it.
    pub(super) fn search(
        &self,
        request: &Request<'_>,
        invocation: &Invocation,
        find: impl FnOnce(Option<Found>, Cancel<'_>, &mut dyn FnMut(&Found)) -> Result<Found, EvalError>,
    ) -> Outcome {
        let _lock = request.folder.map(|folder| open_folder(folder, LOCK_NAME)).transpose()?;
        let known = request
            .folder
            .map(|folder| known(folder, request.earlier, self.layers))
            .transpose()?
            .flatten();
        let mut runs = known.as_ref().map_or_else(Vec::new, |known| known.provenance.clone());
        runs.push(request.provenance.clone());
        let mut file = request.folder.map(|folder| CheckpointFile::new(folder.join(NAME)));
        interrupt::watch();
        let bar = progress_bar();
        bar.set_length(request.budget as u64);
        let cancel = Cancel::when(&interrupt::is_pressed);
        let found = find(known, cancel, &mut |found: &Found| {
            if let Some(file) = &mut file {
                // A failure is seen again when the whole search is written.
                let _ = file.update(found.trials.len(), || {
                    Found { provenance: runs.clone(), ..found.clone() }.to_json()
                });
            }
            bar.set_position(found.trials.len() as u64);
            bar.set_message("trials");
        });
        bar.finish_and_clear();
        let (mut found, failure) = match found {
            Ok(found) => (found, None),
            Err(EvalError::UnfinishedSearch { done, source }) => (*done, Some(*source)),
            Err(error @ EvalError::SearchedLength { .. }) => return Err(Failure::usage(error)),
            Err(error) => return Err(error.into()),
        };
        found.provenance = runs;
        let written = match request.folder {
            Some(folder) => self.write(folder, &found)?,
            None => Vec::new(),
        };
        if let Some(error) = failure {
            return Err(
                Failure::from(error).with_hint(&resume_hint(request.folder.is_some(), invocation))
            );
        }
        if request.json {
            output::json(&found)?;
        } else {
            output::line(text(&found, &self.title).trim_end())?;
            written.iter().try_for_each(|path| output::line(format!("Written: {path}")))?;
        }
        if interrupt::is_pressed() {
            output::message(resume_hint(request.folder.is_some(), invocation));
        }
        Ok(if found.is_good() { Verdict::Good } else { Verdict::Bad })
    }

    /// Writes the search, the lengths that it found and its page, and returns the names of the
    /// files.
    fn write(&self, folder: &Path, found: &Found) -> Result<Vec<String>, Failure> {
        let lengths = found.layers.iter().zip(&found.lengths).map(|(layer, &length)| {
            let own = self.own.get(layer).copied().unwrap_or_default();
            (layer.clone(), LayerOverride { length: Some(length), ..own })
        });
        let layers = layers_to_json(&lengths.collect())?;
        let mut written = Vec::new();
        let files = [
            (PAGE_NAME, report::search(found, self.name)),
            (NAME, found.to_json()?),
            (LAYERS_NAME, layers),
        ];
        for (name, text) in files {
            let path = folder.join(name);
            aleatron::eval::write(&path, &text)?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

/// Reads the search that the folder of a report holds, if there is one.
pub(super) fn held(folder: &Path) -> Option<Result<Found, Failure>> {
    let path = folder.join(NAME);
    let read = || {
        let text = std::fs::read_to_string(&path).map_err(|error| fault(&path, &error))?;
        Found::from_json(&text).map_err(|error| fault(&path, &error))
    };
    path.exists().then(read)
}

/// Returns the result of an earlier search to resume, if the arguments request it.
fn known(folder: &Path, earlier: Earlier, layers: &[String]) -> Result<Option<Found>, Failure> {
    if earlier == Earlier::Force {
        return Ok(None);
    }
    let held = held(folder);
    if earlier == Earlier::Resume {
        return held.transpose();
    }
    let refuse =
        |reason: &str| Err(fault(folder, &format!("{reason}, or replace it with --force")));
    match held {
        Some(Err(_)) => refuse("it holds a search of something else: choose another folder"),
        Some(Ok(found)) if found.layers != layers => {
            refuse("it holds a search of another network: choose another folder")
        }
        Some(Ok(found)) if !found.is_finished => {
            refuse("it holds an unfinished search: go on with --resume")
        }
        Some(Ok(_)) | None => Ok(None),
    }
}

fn text(found: &Found, title: &str) -> String {
    let score = |score: f64| found.measure.show(score);
    let mut text = format!(
        "{title}, {}: floating point {}, {} {} wanted\n\n",
        found.generator,
        score(found.float_score),
        found.measure.bound(),
        score(found.bar),
    );
    let width = found.layers.iter().map(|layer| layer.chars().count()).max().unwrap_or(0).max(5);
    text.push_str(&format!("{:width$}  {:>12}  {:>6}\n", "layer", "products", "bits"));
    for ((layer, products), length) in found.layers.iter().zip(&found.products).zip(&found.lengths)
    {
        let bits = found.measured_score().map_or_else(|| "-".to_owned(), |_| length.to_string());
        text.push_str(&format!("{layer:width$}  {products:>12}  {bits:>6}\n"));
    }
    let trials = plural(found.trials.len(), "trial");
    match found.measured_score() {
        Some(measured) => text.push_str(&format!(
            "\n{} with these lengths; {:.2} % of {} bit-MACs saved; {trials}\n",
            score(measured),
            100.0 * (1.0 - found.bit_macs as f64 / found.bit_macs_before.max(1) as f64),
            found.bit_macs_before,
        )),
        None => text.push_str(&format!("\nno lengths were good enough in {trials}\n")),
    }
    match &found.cost {
        Some(CircuitCost::Known(cost)) => text.push_str(&format!(
            "circuit: {} cycles, {:.0} gate equivalents, {:.2} nJ per sample (by a model)\n",
            cost.cycles, cost.area, cost.energy
        )),
        Some(CircuitCost::Missing { reason }) => text.push_str(&format!("no circuit: {reason}\n")),
        None => {}
    }
    if !found.is_finished {
        text.push_str(
            "the search has not finished: go on with --report DIR --resume and a larger --budget\n",
        );
    } else if !found.has_good_lengths() {
        text.push_str("not even the longest streams are good enough\n");
    }
    text
}
