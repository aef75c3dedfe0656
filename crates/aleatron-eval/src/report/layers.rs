//! The charts of the errors of layers, relative to their signals.

use super::chart::{self, Axis, Chart, Point};
use super::escape;
use super::evaluation::{bits, curves, lengths};
use crate::text::short;
use crate::{Evaluation, Row};

/// Draws the relative error of each layer against the length of streams.
pub(super) fn layers(evaluation: &Evaluation, rows: &[Row]) -> String {
    let mut out = String::from(
        "<h2>Error of the layers</h2>\n<p>The mean error of a neuron's sum of products against the exact sum of the same inputs and \
         weights, in percent of the mean size of the exact sums. The dashed line is 100 %: an error as large as the signal.</p>\n\
         <div class=\"row\">\n",
    );
    for (k, layer) in evaluation.network.layers.iter().enumerate() {
        let point = |row: &Row| {
            let stats = row.layers.get(k)?;
            let error = 100.0 * stats.relative_error()?;
            // A logarithmic axis has no position for an error of 0.
            (error > 0.0).then(|| Point {
                x: row.length as f64,
                y: error,
                band: None,
                values: Vec::new(),
                text: format!(
                    "{}{}: {} % of the signal (in values: mean {}, worst {})",
                    row.generator,
                    bits(row),
                    short(error),
                    short(stats.mean_value),
                    short(stats.worst_value)
                ),
            })
        };
        let curves = curves(evaluation, |rows| rows.iter().filter_map(point).collect());
        let silent = silent_rows(rows, k);
        let is_empty = curves.iter().all(|curve| curve.points.is_empty());
        if is_empty && silent.is_empty() {
            continue;
        }
        let values = curves.iter().flat_map(|curve| &curve.points).map(|point| point.y);
        let Some(mut y) = Axis::decades("mean error", values.chain([100.0])) else { continue };
        y.ticks.iter_mut().for_each(|(_, text)| text.push_str(" %"));
        let chart = Chart {
            curves: &curves,
            x: lengths(evaluation),
            y,
            level: Some(100.0),
            label: "Error against length",
        };
        let legend = chart::legend(&curves, Some("as large as the signal"));
        out.push_str(&format!(
            "<div class=\"panel\"><h3>layer {}</h3>\n{legend}{}{silent}</div>\n",
            escape(layer),
            chart.svg()
        ));
    }
    out.push_str("</div>\n");
    out
}

/// Returns a note of the rows whose exact sums are all 0, so that errors have no signal to be
/// relative to.
fn silent_rows(rows: &[Row], layer: usize) -> String {
    let is_silent =
        |row: &&Row| row.layers.get(layer).is_some_and(|stats| stats.relative_error().is_none());
    let names: Vec<String> = rows
        .iter()
        .filter(is_silent)
        .map(|row| format!("{}{}", row.generator, bits(row)))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!("<p>Errors without a signal, which have no point: {}.</p>\n", escape(&names.join("; ")))
}
