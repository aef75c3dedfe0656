//! The page of an evaluation of a network of regression.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::evaluation::{settings, warnings};
use super::{escape, page};
use crate::text::{plural, short, si};
use crate::{ErrorEstimate, Estimate, RegressionEvaluation, RegressionRow};

/// An evaluation without classes as an HTML page that needs nothing else.
#[must_use]
pub fn regression(evaluation: &RegressionEvaluation) -> String {
    let rows = evaluation.rows();
    let title = format!("{} as streams", evaluation.network.name);
    let mut body = heading(evaluation, &title);
    body.push_str("<h2>Error against length</h2>\n<p>The root mean square error of all outputs. Bands are intervals of 95 % over seeds.</p>\n");
    let float = evaluation.float.root_mean_square;
    body.push_str(&curves(
        evaluation,
        &rows,
        "Against the numbers to be found",
        |row| row.to_targets,
        Some(float),
    ));
    body.push_str(&curves(evaluation, &rows, "Against floating point", |row| row.to_float, None));
    body.push_str(&table(evaluation, &rows));
    page(&title, &body)
}

fn heading(evaluation: &RegressionEvaluation, title: &str) -> String {
    let sizes: Vec<String> = evaluation.network.sizes.iter().map(ToString::to_string).collect();
    let card = |value: f64, label: &str| {
        format!("<div class=\"card\"><b>{}</b><span>{label}</span></div>\n", short(value))
    };
    format!(
        "<h1>{}</h1>\n<p>A network {} run as bit streams on {}, {}. {}.</p>\n<div class=\"cards\">\n{}{}</div>\n{}",
        escape(title),
        sizes.join("-"),
        escape(&evaluation.data.name),
        plural(evaluation.data.samples, "sample"),
        settings(&evaluation.plan),
        card(evaluation.float.mean_absolute, "mean error in floating point"),
        card(evaluation.float.root_mean_square, "rms error in floating point"),
        warnings(&evaluation.warnings, evaluation.unfinished),
    )
}

fn curves(
    evaluation: &RegressionEvaluation,
    rows: &[RegressionRow],
    title: &str,
    errors: fn(&RegressionRow) -> ErrorEstimate,
    level: Option<f64>,
) -> String {
    let point = |row: &RegressionRow| {
        let Estimate { mean, low, high, n } = errors(row).root_mean_square;
        // A logarithm has no place for an error of nothing.
        (mean > 0.0).then(|| Point {
            x: row.length as f64,
            y: mean,
            band: (n > 1 && low > 0.0).then_some([low, high]),
            values: Vec::new(),
            text: format!("{}, {} bits: {}", row.generator, row.bits(), short(mean)),
        })
    };
    let curve = |generator: &String| Curve {
        name: generator.clone(),
        points: rows.iter().filter(|row| row.generator == *generator).filter_map(point).collect(),
    };
    let curves: Vec<Curve> =
        evaluation.plan.generators.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let level = level.filter(|level| *level > 0.0);
    let values = curves.iter().flat_map(|curve| &curve.points).map(|point| point.y).chain(level);
    let Some(y) = Axis::decades("rms error", values) else { return String::new() };
    let lengths: Vec<f64> = evaluation.plan.lengths.iter().map(|&length| length as f64).collect();
    let x = Axis::logarithmic("bits per stream", &lengths);
    let legend =
        chart::legend(&curves, level.map(|level| format!("floating point, {}", short(level))).as_deref());
    let chart = Chart { curves: &curves, x, y, level, label: "Error against length" };
    format!("<div class=\"panel\">\n<h3>{title}</h3>\n{legend}{}</div>\n", chart.svg())
}

fn table(evaluation: &RegressionEvaluation, rows: &[RegressionRow]) -> String {
    let layers: String = evaluation
        .network
        .layers
        .iter()
        .map(|name| format!("<th>layer {} error</th>", escape(name)))
        .collect();
    let mut out = format!(
        "<h2>All figures</h2>\n<p>Errors of layers are of a neuron's sum of products, mean and worst.</p>\n<div class=\"panel\"><table>\n\
         <tr><th>generator</th><th>bits</th><th>mean error</th><th>rms error</th><th>mean to float</th><th>rms to float</th>{layers}\
         <th>samples/s</th><th>bit-MAC/s</th></tr>\n"
    );
    let mut before = None;
    for row in rows {
        let first = before.replace(&row.generator) != Some(&row.generator);
        let errors = [
            row.to_targets.mean_absolute,
            row.to_targets.root_mean_square,
            row.to_float.mean_absolute,
            row.to_float.root_mean_square,
        ];
        let errors: String = errors.iter().map(|error| format!("<td>{}</td>", short(error.mean))).collect();
        let of_layers: String = row
            .layers
            .iter()
            .map(|layer| format!("<td>{} ({})</td>", short(layer.mean_value), short(layer.worst_value)))
            .collect();
        out.push_str(&format!(
            "<tr{}><td>{}</td><td>{}</td>{errors}{of_layers}<td>{}</td><td>{}</td></tr>\n",
            if first { " class=\"first\"" } else { "" },
            escape(&row.generator),
            row.bits(),
            si(row.samples_per_second),
            si(row.bit_macs_per_second)
        ));
    }
    out.push_str("</table></div>\n");
    out
}
