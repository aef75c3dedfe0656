//! The page of a search for short streams.

use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::text::{plural, short, si};
use crate::{CircuitCost, Found};
use serde::Serialize;

/// A network with some lengths, in the comparison of a search with retraining.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthsRow {
    /// The name of the row.
    pub name: String,
    /// The length of each layer that runs as streams; none in floating point.
    pub lengths: Vec<usize>,
    /// Products of bits of one sample; none in floating point.
    pub bit_macs: Option<u64>,
    /// The score of the validation samples, if it was measured.
    pub validation: Option<f64>,
    /// The score of the test samples.
    pub test: f64,
}

/// Returns a search over the layers of the network `name` as an HTML page that needs nothing else.
#[must_use]
pub fn search(found: &Found, name: &str) -> String {
    search_page(found, name, "")
}

/// Returns a search with retraining as an HTML page that needs nothing else, with a comparison of
/// the network before and after.
#[must_use]
pub fn trained_search(found: &Found, rows: &[LengthsRow], name: &str) -> String {
    let mut body = "<h2>Before and after</h2>\n<p>Lengths were chosen by the validation samples. The test samples were used for \
        this table alone.</p>\n"
        .to_owned();
    let headings = [(Kind::Text, "network"), (Kind::Text, "bits"), (Kind::Number, "bit-MACs")];
    let scores = [(Kind::Number, "validation"), (Kind::Number, "test")];
    let mut table = Table::new(headings.into_iter().chain(scores));
    for row in rows {
        let lengths: Vec<String> = row.lengths.iter().map(ToString::to_string).collect();
        let bit_macs = row.bit_macs.map_or_else(String::new, |bits| si(bits as f64));
        let validation =
            row.validation.map_or_else(|| "-".to_owned(), |score| found.measure.show(score));
        let test = found.measure.show(row.test);
        table.row("", [row.name.clone(), lengths.join("-"), bit_macs, validation, test]);
    }
    body.push_str(&table.panel());
    search_page(found, name, &body)
}

/// Returns the page of a search; `comparison` follows the lengths.
fn search_page(found: &Found, name: &str, comparison: &str) -> String {
    let title = format!("Shortest streams of {name}");
    let score = |score: f64| found.measure.show(score);
    let state = if !found.is_finished {
        "The search has not finished."
    } else if found.has_good_lengths() {
        "The search has finished."
    } else {
        "The longest streams are not good enough."
    };
    let result = match found.measured_score() {
        Some(measured) => format!(
            "with the lengths below: {}, and {:.2} % of {} bit-MACs of a sample saved",
            score(measured),
            100.0 * (1.0 - found.bit_macs as f64 / found.bit_macs_before.max(1) as f64),
            si(found.bit_macs_before as f64),
        ),
        None => "no lengths were good enough".to_owned(),
    };
    let mut body = format!(
        "<h1>{}</h1>\n<p>Generator {}. Floating point: {}; required: {}; {result}. {state}</p>\n\
         <h2>Layers</h2>\n",
        escape(&title),
        escape(&found.generator.to_string()),
        score(found.float_score),
        score(found.bar),
    );
    let mut layers =
        Table::new([(Kind::Text, "layer"), (Kind::Number, "products"), (Kind::Number, "bits")]);
    for ((layer, &products), length) in found.layers.iter().zip(&found.products).zip(&found.lengths)
    {
        let bits = found.measured_score().map_or_else(|| "-".to_owned(), |_| length.to_string());
        layers.row("", [layer.clone(), si(products as f64), bits]);
    }
    body.push_str(&layers.panel());
    body.push_str(comparison);
    let circuit = match &found.cost {
        Some(CircuitCost::Known(cost)) => format!(
            "<p>Circuit, by a model: {} cycles, {} gate equivalents and {} nJ for a sample.</p>\n",
            cost.cycles,
            si(cost.area),
            short(cost.energy)
        ),
        Some(CircuitCost::Missing { reason }) => {
            format!("<p>No circuit: {}.</p>\n", escape(reason))
        }
        None => String::new(),
    };
    body.push_str(&format!("{circuit}<h2>{}</h2>\n", plural(found.trials.len(), "trial")));
    let layers = found.layers.iter().map(String::as_str);
    let is_trained = found.trials.iter().any(|trial| trial.untrained.is_some());
    let before = is_trained.then_some("before training");
    let headings = layers.chain(before).chain(["score"]);
    let mut trials = Table::new(headings.map(|heading| (Kind::Number, heading)));
    for trial in &found.trials {
        let lengths = trial.lengths.iter().map(ToString::to_string);
        let before = trial.untrained.map_or_else(String::new, score);
        let before = is_trained.then_some(before);
        trials.row("", lengths.chain(before).chain([score(trial.score)]));
    }
    body.push_str(&trials.panel());
    body.push_str(&provenance(&found.provenance));
    page(&title, &body)
}
