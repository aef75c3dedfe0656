//! The page of a search for short streams.

use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::text::{plural, short, si};
use crate::{CircuitCost, Found};

/// Returns a search over the layers of the network `name` as an HTML page that needs nothing else.
#[must_use]
pub fn search(found: &Found, name: &str) -> String {
    let title = format!("Shortest streams of {name}");
    let score = |score: f64| found.measure.show(score);
    let saved = 100.0 * (1.0 - found.bit_macs as f64 / found.bit_macs_before.max(1) as f64);
    let state = if found.score < found.bar {
        "The longest streams are not good enough."
    } else if found.is_finished {
        "The search has finished."
    } else {
        "The search has not finished."
    };
    let mut body = format!(
        "<h1>{}</h1>\n<p>Generator {}. Floating point: {}; required: {}; with the lengths below: {}, and {:.2} % of {} bit-MACs \
         of a sample saved. {state}</p>\n<h2>Layers</h2>\n",
        escape(&title),
        escape(&found.generator.to_string()),
        score(found.float_score),
        score(found.bar),
        score(found.score),
        saved,
        si(found.bit_macs_before as f64),
    );
    let mut layers =
        Table::new([(Kind::Text, "layer"), (Kind::Number, "products"), (Kind::Number, "bits")]);
    for ((layer, &products), length) in found.layers.iter().zip(&found.products).zip(&found.lengths)
    {
        layers.row("", [layer.clone(), si(products as f64), length.to_string()]);
    }
    body.push_str(&layers.panel());
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
    let mut trials = Table::new(layers.chain(["score"]).map(|heading| (Kind::Number, heading)));
    for trial in &found.trials {
        let lengths = trial.lengths.iter().map(ToString::to_string);
        trials.row("", lengths.chain([score(trial.score)]));
    }
    body.push_str(&trials.panel());
    body.push_str(&provenance(&found.provenance));
    page(&title, &body)
}
