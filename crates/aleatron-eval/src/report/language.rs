//! The page of a language model: loss against stream length, and the loss that each linear product
//! adds.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::language::{LanguageEvaluation, LanguageRow};
use crate::text::plural;

/// Returns the evaluation of a language model as an HTML page that needs no other file.
#[must_use]
pub fn language(found: &LanguageEvaluation) -> String {
    let title = format!("{} as streams", found.model);
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} of {} predicted ({}), in sequences of {}. Input scales: the {} quantile over the first {} of the text, \
         which are not evaluated. Weights: {}; linear products on {}.</p>\n",
        escape(&title),
        plural(found.predicted_tokens, "token"),
        escape(&found.text),
        plural(found.predicted_bytes, "byte"),
        plural(found.context, "position"),
        found.quantile,
        plural(found.calibration_tokens, "token"),
        escape(&found.precision),
        escape(&found.device_text()),
    );
    for line in found.override_lines() {
        body.push_str(&format!("<p>{}</p>\n", escape(&line)));
    }
    if found.unfinished > 0 {
        body.push_str(&format!(
            "<div class=\"warn\">Unfinished: {} to go.</div>\n",
            plural(found.unfinished, "run")
        ));
    }
    for warning in &found.warnings {
        body.push_str(&format!("<div class=\"warn\">{}</div>\n", escape(warning)));
    }
    body.push_str(&losses(found));
    body.push_str(&table(found));
    body.push_str(&head(found));
    body.push_str(&sensitivity(found));
    body.push_str(&provenance(&found.provenance));
    page(&title, &body)
}

/// Returns the curves of losses, one for each generator.
fn losses(found: &LanguageEvaluation) -> String {
    let mut curves: Vec<Curve> = Vec::new();
    for row in &found.rows {
        let point = Point {
            x: row.length as f64,
            y: row.loss.mean,
            band: (row.loss.n > 1).then_some([row.loss.low, row.loss.high]),
            values: row.seeds.iter().map(|run| run.loss).collect(),
            text: format!(
                "{}: {} bits, {:.4} nats per token",
                row.generator, row.length, row.loss.mean
            ),
        };
        match curves.iter_mut().find(|curve| curve.name == row.generator) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name: row.generator.clone(), points: vec![point] }),
        }
    }
    if curves.is_empty() {
        return String::new();
    }
    let mut lengths: Vec<usize> = found.rows.iter().map(|row| row.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let lengths: Vec<f64> = lengths.into_iter().map(|length| length as f64).collect();
    let ends = |row: &LanguageRow| [row.loss.low, row.loss.high];
    let all = || found.rows.iter().flat_map(ends).chain([found.float.loss]);
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y)));
    // Equal losses still need an interval.
    let margin = (0.05 * (high - low)).max(1e-3 * high.abs()).max(1e-6);
    let chart = Chart {
        curves: &curves,
        x: Axis::logarithmic("bits per stream", &lengths),
        y: Axis::linear("nats per token", [(low - margin).max(0.0), high + margin]),
        level: Some(found.float.loss),
        label: "loss against stream length",
    };
    format!(
        "<h2>Loss</h2>\n<div class=\"panel\">{}{}</div>\n",
        chart::legend(&curves, Some("floating point")),
        chart.svg()
    )
}

/// Returns the table of all rows.
fn table(found: &LanguageEvaluation) -> String {
    let bits =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let float = &found.float;
    let mut table = Table::new([
        (Kind::Text, "generator"),
        (Kind::Number, "bits"),
        (Kind::Number, "width"),
        (Kind::Number, "nats per token"),
        (Kind::Number, "95 % interval"),
        (Kind::Number, "added"),
        (Kind::Number, "bits per byte"),
        (Kind::Number, "perplexity"),
        (Kind::Number, "agreement with float"),
        (Kind::Number, "saturated inputs"),
    ]);
    let none = || "-".to_owned();
    table.row(
        "",
        [
            "float".to_owned(),
            none(),
            none(),
            format!("{:.4}", float.loss),
            none(),
            none(),
            bits(float.bits_per_byte),
            format!("{:.3}", float.perplexity),
            none(),
            none(),
        ],
    );
    for row in &found.rows {
        let interval = match row.loss.n {
            1 => none(),
            _ => format!("{:.4} to {:.4}", row.loss.low, row.loss.high),
        };
        table.row(
            "",
            [
                row.generator.clone(),
                row.length.to_string(),
                row.width.map_or_else(none, |width| width.to_string()),
                format!("{:.4}", row.loss.mean),
                interval,
                format!("{:+.4}", row.added_loss),
                bits(row.bits_per_byte),
                format!("{:.3}", row.perplexity),
                format!("{:.2} %", 100.0 * row.agreement),
                format!("{:.3} %", 100.0 * row.saturated),
            ],
        );
    }
    table.panel()
}

/// Returns the table of early termination of the head.
fn head(found: &LanguageEvaluation) -> String {
    if found.rows.iter().all(|row| row.head.is_empty()) {
        return String::new();
    }
    let mut table = Table::new([
        (Kind::Text, "generator"),
        (Kind::Number, "bits"),
        (Kind::Number, "margin"),
        (Kind::Number, "mean cycles"),
        (Kind::Number, "saved bits"),
        (Kind::Number, "stopped positions"),
        (Kind::Number, "changed tokens"),
    ]);
    for (row, stop) in
        found.rows.iter().flat_map(|row| row.head.iter().map(move |stop| (row, stop)))
    {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        table.row(
            "",
            [
                row.generator.clone(),
                row.length.to_string(),
                stop.margin.to_string(),
                format!("{:.1}", stop.mean_cycles),
                percent(stop.saved),
                percent(stop.stopped),
                percent(stop.changed),
            ],
        );
    }
    "<h2>Early termination of the head</h2>\n<p>A position stops when its best token leads by a margin in standard \
     deviations.</p>\n"
        .to_owned()
        + &table.panel()
}

/// Returns the table of products that ran as streams alone.
fn sensitivity(found: &LanguageEvaluation) -> String {
    if found.sensitivity.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        (Kind::Text, "product"),
        (Kind::Text, "generator"),
        (Kind::Number, "bits"),
        (Kind::Number, "nats per token"),
        (Kind::Number, "added"),
        (Kind::Number, "agreement with float"),
    ]);
    for row in &found.sensitivity {
        table.row(
            "",
            [
                row.product.clone(),
                row.generator.clone(),
                row.length.to_string(),
                format!("{:.4}", row.loss),
                format!("{:+.4}", row.added_loss),
                format!("{:.2} %", 100.0 * row.agreement),
            ],
        );
    }
    "<h2>One linear product as streams</h2>\n<p>The other products run in floating point.</p>\n"
        .to_owned()
        + &table.panel()
}
