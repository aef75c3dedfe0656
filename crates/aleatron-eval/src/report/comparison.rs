//! The page of a comparison of two evaluations.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::compare::grouped;
use crate::{ComparedScore, Comparison, RowDifference};

/// Returns a comparison as an HTML page that needs no other file.
#[must_use]
pub fn comparison(found: &Comparison) -> String {
    let title = format!("{} and {}", found.a.name, found.b.name);
    let mut body = format!(
        "<h1>{}</h1>\n<p>A: {}.</p>\n<p>B: {}.</p>\n",
        escape(&title),
        escape(&found.side_text(&found.a)),
        escape(&found.side_text(&found.b))
    );
    body.push_str(&settings(found));
    body.push_str("<h2>Rows of both</h2>\n");
    body.push_str(&format!("<p>{}.</p>\n", escape(&found.float_text())));
    body.push_str(&curves(found));
    body.push_str(&rows(found));
    body.push_str(&alone(found));
    body.push_str("<h2>Statistics</h2>\n");
    for line in &found.statistics {
        body.push_str(&format!("<p>{}.</p>\n", escape(line)));
    }
    for (name, side) in [("A", &found.a), ("B", &found.b)] {
        if !side.provenance.is_empty() {
            body.push_str(&provenance(&side.provenance).replacen(
                "Provenance",
                &format!("Provenance of {name}"),
                1,
            ));
        }
    }
    page(&title, &body)
}

/// Returns the table of settings that differ.
fn settings(found: &Comparison) -> String {
    if found.settings.is_empty() {
        return "<p>No setting differs.</p>\n".to_owned();
    }
    let mut table = Table::new([(Kind::Text, "setting"), (Kind::Text, "A"), (Kind::Text, "B")]);
    for setting in &found.settings {
        table.row("", [&setting.setting, &setting.a, &setting.b]);
    }
    format!("<h2>Settings that differ</h2>\n{}", table.panel())
}

/// Draws the scores of both against the length.
fn curves(found: &Comparison) -> String {
    let factor = if found.score == ComparedScore::Accuracy { 100.0 } else { 1.0 };
    let mut curves: Vec<Curve> = Vec::new();
    let rows = || found.rows.iter().filter(|row| row.key.faults.is_none());
    for row in rows() {
        for (side, score) in [("A", row.score.a), ("B", row.score.b)] {
            let name = format!("{}, {side}", row.key.generator);
            let text = format!("{}, {side}: {}", row.key, found.score.show(score));
            let (x, y) = (row.key.length as f64, factor * score);
            let point = Point { x, y, band: None, values: Vec::new(), text };
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve { name, points: vec![point] }),
            }
        }
    }
    if curves.is_empty() {
        return String::new();
    }
    let mut lengths: Vec<usize> = rows().map(|row| row.key.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let lengths: Vec<f64> = lengths.into_iter().map(|length| length as f64).collect();
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.y);
    let (low, high) = values().fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(y), h.max(y)));
    let margin = (0.05 * (high - low)).max(1e-3 * high.abs()).max(1e-6);
    let y = match found.score {
        ComparedScore::Accuracy => {
            Axis::percent("accuracy", [((low - 2.0) / 5.0).floor().max(0.0) * 5.0, 100.0])
        }
        ComparedScore::RootMeanSquareError => Axis::linear("rms error", [0.0, high + margin]),
        ComparedScore::NatsPerToken => {
            Axis::linear("nats per token", [(low - margin).max(0.0), high + margin])
        }
    };
    let x = Axis::logarithmic("bits per stream", &lengths);
    let chart = Chart { curves: &curves, x, y, level: None, label: "Scores of A and B" };
    let legend = chart::legend(&curves, None);
    format!("<div class=\"panel\">\n{legend}{}</div>\n", chart.svg())
}

/// Returns the table of the rows of both.
fn rows(found: &Comparison) -> String {
    let Some(first) = found.rows.first() else {
        return "<p>No row is in both.</p>\n".to_owned();
    };
    let kind = |heading: &str| match heading {
        "generator" | "faults" | "difference" => Kind::Text,
        _ => Kind::Number,
    };
    let headings = found.columns(first).into_iter().map(|(name, _)| (kind(&name), name));
    let mut table = Table::new(headings);
    let mut before: Option<&RowDifference> = None;
    for row in &found.rows {
        let is_first = before.is_none_or(|before| before.key.generator != row.key.generator);
        before = Some(row);
        let cells = found.columns(row).into_iter().map(|(_, cell)| cell);
        table.row(if is_first { "first" } else { "" }, cells);
    }
    table.panel()
}

/// Returns the rows of one evaluation alone.
fn alone(found: &Comparison) -> String {
    let mut table =
        Table::new([(Kind::Text, "only in"), (Kind::Text, "generator"), (Kind::Text, "bits")]);
    if found.only_a.is_empty() && found.only_b.is_empty() {
        return String::new();
    }
    for (name, keys) in [("A", &found.only_a), ("B", &found.only_b)] {
        for (group, lengths) in grouped(keys) {
            table.row("", [name.to_owned(), group, lengths.join(", ")]);
        }
    }
    format!("<h2>Rows of one alone</h2>\n{}", table.panel())
}
