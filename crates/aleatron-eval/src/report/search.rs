//! The page of a search for short streams.

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
         of a sample saved. {state}</p>\n<h2>Layers</h2>\n<div class=\"panel\"><table>\n\
         <tr><th>layer</th><th>products</th><th>bits</th></tr>\n",
        escape(&title),
        escape(&found.generator.to_string()),
        score(found.float_score),
        score(found.bar),
        score(found.score),
        saved,
        si(found.bit_macs_before as f64),
    );
    for ((layer, &products), length) in found.layers.iter().zip(&found.products).zip(&found.lengths)
    {
        let (layer, products) = (escape(layer), si(products as f64));
        body.push_str(&format!("<tr><td>{layer}</td><td>{products}</td><td>{length}</td></tr>\n"));
    }
    let heading: String =
        found.layers.iter().map(|layer| format!("<th>{}</th>", escape(layer))).collect();
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
    body.push_str(&format!(
        "</table></div>\n{circuit}<h2>{}</h2>\n<div class=\"panel\"><table>\n<tr>{heading}<th>score</th></tr>\n",
        plural(found.trials.len(), "trial")
    ));
    for trial in &found.trials {
        let lengths: String =
            trial.lengths.iter().map(|length| format!("<td>{length}</td>")).collect();
        body.push_str(&format!("<tr>{lengths}<td>{}</td></tr>\n", score(trial.score)));
    }
    body.push_str("</table></div>\n");
    page(&title, &body)
}
