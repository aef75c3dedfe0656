//! The page of a language model: loss against stream length, and the loss that each linear product
//! adds.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::training::linear;
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
        y: linear("nats per token", [(low - margin).max(0.0), high + margin]),
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
    let mut out = format!(
        "<div class=\"panel\"><table>\n<tr><th>generator</th><th>bits</th><th>width</th><th>nats per token</th><th>95 % interval</th><th>added</th>\
         <th>bits per byte</th><th>perplexity</th><th>agreement with float</th><th>saturated inputs</th></tr>\n\
         <tr><td>float</td><td>-</td><td>-</td><td>{:.4}</td><td>-</td><td>-</td><td>{}</td><td>{:.3}</td><td>-</td><td>-</td></tr>\n",
        float.loss,
        bits(float.bits_per_byte),
        float.perplexity
    );
    for row in &found.rows {
        let interval = match row.loss.n {
            1 => "-".to_owned(),
            _ => format!("{:.4} to {:.4}", row.loss.low, row.loss.high),
        };
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.4}</td><td>{interval}</td><td>{:+.4}</td><td>{}</td><td>{:.3}</td><td>{:.2} %</td><td>{:.3} %</td></tr>\n",
            escape(&row.generator),
            row.length,
            row.width.map_or_else(|| "-".to_owned(), |width| width.to_string()),
            row.loss.mean,
            row.added_loss,
            bits(row.bits_per_byte),
            row.perplexity,
            100.0 * row.agreement,
            100.0 * row.saturated,
        ));
    }
    out.push_str("</table></div>\n");
    out
}

/// Returns the table of early termination of the head.
fn head(found: &LanguageEvaluation) -> String {
    if found.rows.iter().all(|row| row.head.is_empty()) {
        return String::new();
    }
    let mut out = "<h2>Early termination of the head</h2>\n<p>A position stops when its best token leads by a margin in standard \
                   deviations.</p>\n<div class=\"panel\"><table>\n<tr><th>generator</th><th>bits</th><th>margin</th><th>mean \
                   cycles</th><th>saved bits</th><th>stopped positions</th><th>changed tokens</th></tr>\n"
        .to_owned();
    for (row, stop) in
        found.rows.iter().flat_map(|row| row.head.iter().map(move |stop| (row, stop)))
    {
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.2} %</td><td>{:.2} %</td><td>{:.2} %</td></tr>\n",
            escape(&row.generator),
            row.length,
            stop.margin,
            stop.mean_cycles,
            100.0 * stop.saved,
            100.0 * stop.stopped,
            100.0 * stop.changed,
        ));
    }
    out.push_str("</table></div>\n");
    out
}

/// Returns the table of products that ran as streams alone.
fn sensitivity(found: &LanguageEvaluation) -> String {
    if found.sensitivity.is_empty() {
        return String::new();
    }
    let mut out = "<h2>One linear product as streams</h2>\n<p>The other products run in floating point.</p>\n<div class=\"panel\"><table>\n\
                   <tr><th>product</th><th>generator</th><th>bits</th><th>nats per token</th><th>added</th><th>agreement with float</th></tr>\n"
        .to_owned();
    for row in &found.sensitivity {
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.4}</td><td>{:+.4}</td><td>{:.2} %</td></tr>\n",
            escape(&row.product),
            escape(&row.generator),
            row.length,
            row.loss,
            row.added_loss,
            100.0 * row.agreement,
        ));
    }
    out.push_str("</table></div>\n");
    out
}
