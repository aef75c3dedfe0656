//! The page of a training: accuracy against length before and after, and the curve of the losses.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::provenance::provenance;
use super::table::{Kind, Table};
use super::{escape, page};
use crate::text::{plural, short};
use crate::{Evaluation, Figures, Row};

/// The losses of one epoch of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingEpoch {
    /// The mean loss of the training samples.
    pub loss: f64,
    /// The loss of the validation samples, if there are any.
    pub validation: Option<f64>,
}

/// Returns the evaluations of a network before and after training, and the losses of the training,
/// as an HTML page that needs no other file. Both evaluations must have the same plan.
#[must_use]
pub fn training(before: &Evaluation, after: &Evaluation, epochs: &[TrainingEpoch]) -> String {
    let title = format!("{} trained through its streams", before.network.name);
    let mut body = format!(
        "<h1>{}</h1>\n<p>Trained for {}; evaluated on {}, {}, none of which were used in training.</p>\n",
        escape(&title),
        plural(epochs.len(), "epoch"),
        escape(&before.data.name),
        plural(before.data.samples, "sample"),
    );
    for warning in
        before.warnings.iter().chain(after.warnings.iter().filter(|w| !before.warnings.contains(w)))
    {
        body.push_str(&format!("<div class=\"warn\">{}</div>\n", escape(warning)));
    }
    body.push_str(&comparison(before, after));
    body.push_str(&losses(epochs));
    body.push_str(&provenance(&after.provenance));
    page(&title, &body)
}

/// Returns the losses of the steps of a fine-tuning as an HTML page that needs no other file. Each
/// note becomes a paragraph.
#[must_use]
pub fn finetuning(title: &str, notes: &[String], losses: &[f64]) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(title));
    for note in notes {
        body.push_str(&format!("<p>{}</p>\n", escape(note)));
    }
    let points = losses.iter().enumerate().map(|(k, &y)| {
        let text = format!("step {}, {}", k + 1, short(y));
        Point { x: (k + 1) as f64, y, band: None, values: Vec::new(), text }
    });
    let curves = [Curve { name: "training".to_owned(), points: points.collect() }];
    let (low, high) =
        losses.iter().fold((f64::MAX, f64::MIN), |(low, high), &y| (low.min(y), high.max(y)));
    if low <= high {
        // Equal losses still need an interval.
        let margin = (0.05 * (high - low)).max(1e-3 * high.abs()).max(1e-6);
        let (x, y) = (
            Axis::linear("step", [1.0, losses.len().max(2) as f64]),
            Axis::linear("loss", [(low - margin).max(0.0), high + margin]),
        );
        let chart = Chart { curves: &curves, x, y, level: None, label: "loss against step" };
        body.push_str(&format!("<h2>Loss</h2>\n<div class=\"panel\">{}</div>\n", chart.svg()));
    }
    page(title, &body)
}

/// Returns the curves of both evaluations and their table.
fn comparison(before: &Evaluation, after: &Evaluation) -> String {
    let is_classes = matches!(before.float, Figures::Classification(_));
    let (factor, what) = if is_classes { (100.0, "accuracy in %") } else { (1.0, "R²") };
    let mut curves = Vec::new();
    for generator in &before.plan.generators {
        for (evaluation, state) in [(before, "before"), (after, "after")] {
            let name = format!("{generator}, {state}");
            let point = |row: &Row| {
                let y = factor * row.score();
                let text = format!("{name}: {} bits, {y:.2}", row.length);
                Point { x: row.length as f64, y, band: None, values: Vec::new(), text }
            };
            let points: Vec<Point> =
                evaluation.rows_of(&generator.to_string()).iter().map(point).collect();
            curves.push(Curve { name, points });
        }
    }
    let [float_before, float_after] =
        [before, after].map(|evaluation| factor * evaluation.float.score());
    let lengths: Vec<f64> = before.plan.lengths.iter().map(|&length| length as f64).collect();
    let all = curves.iter().flat_map(|curve| &curve.points).map(|point| point.y);
    let low = all.chain([float_before, float_after]).fold(f64::MAX, f64::min);
    let y = if is_classes {
        Axis::percent("accuracy", [low.clamp(0.0, 99.0).floor(), 100.0])
    } else {
        Axis::linear("R²", [low.min(0.99), 1.0])
    };
    let x = Axis::logarithmic("bits per stream", &lengths);
    let chart = Chart {
        curves: &curves,
        x,
        y,
        level: Some(float_after),
        label: "score against stream length",
    };
    let out = format!(
        "<h2>Before and after</h2>\n<p>The dashed line is the network after training in floating point: {float_after:.2}; \
         before: {float_before:.2} ({what}).</p>\n<div class=\"panel\">{}{}</div>\n",
        chart::legend(&curves, Some("floating point, after")),
        chart.svg()
    );
    let before_heading = format!("{what} before");
    let has_faults = !before.plan.faults.is_empty();
    let headings = [(Kind::Text, "generator"), (Kind::Number, "bits")];
    let rate = has_faults.then_some((Kind::Number, "fault rate"));
    let scores = [&*before_heading, "after", "difference"].map(|name| (Kind::Number, name));
    let mut table = Table::new(headings.into_iter().chain(rate).chain(scores));
    for (old, new) in before.rows().iter().zip(&after.rows()) {
        let [a, b] = [old, new].map(|row| factor * row.score());
        let rate = old.faults.map_or_else(|| "0".to_owned(), |faults| faults.rate.to_string());
        let row = [old.generator.to_string(), old.length.to_string()].into_iter();
        let scores = [format!("{a:.2}"), format!("{b:.2}"), format!("{:+.2}", b - a)];
        table.row("", row.chain(has_faults.then_some(rate)).chain(scores));
    }
    out + &table.panel()
}

/// Returns the training curve.
fn losses(epochs: &[TrainingEpoch]) -> String {
    let curve = |name: &str, value: &dyn Fn(&TrainingEpoch) -> Option<f64>| {
        let points = epochs.iter().enumerate().filter_map(|(k, epoch)| {
            let y = value(epoch)?;
            let text = format!("{name}: epoch {}, {}", k + 1, short(y));
            Some(Point { x: (k + 1) as f64, y, band: None, values: Vec::new(), text })
        });
        Curve { name: name.to_owned(), points: points.collect() }
    };
    let curves = [
        curve("training", &|epoch| Some(epoch.loss)),
        curve("validation", &|epoch| epoch.validation),
    ];
    let curves: Vec<Curve> = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.y);
    let Some(y) = Axis::decades("loss", values()) else { return String::new() };
    let x = Axis::linear("epoch", [1.0, epochs.len().max(2) as f64]);
    let chart = Chart { curves: &curves, x, y, level: None, label: "loss against epoch" };
    format!(
        "<h2>Loss</h2>\n<div class=\"panel\">{}{}</div>\n",
        chart::legend(&curves, None),
        chart.svg()
    )
}
