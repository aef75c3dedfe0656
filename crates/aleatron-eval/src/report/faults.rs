//! The score against the fault rate.

use super::chart::{self, Axis, Chart, Curve, Point};
use super::evaluation::bits;
use super::score::Scores;
use crate::{Evaluation, Row};

/// Seeds up to which each has a point of its own.
const FEW_SEEDS: usize = 10;

/// Draws the score against the fault rate for each length; nothing without faults.
pub(super) fn faults(evaluation: &Evaluation, rows: &[Row]) -> String {
    if !evaluation.plan.has_faults() {
        return String::new();
    }
    let scores = Scores::of(evaluation);
    let name = scores.title();
    let kind = evaluation.plan.fault_kind.map_or_else(String::new, |kind| format!(", {kind}"));
    let mut out = format!(
        "<h2>{name} against fault rate</h2>\n<p>The probability that a bit of a site flips{kind}. Bands are intervals of 95 % over \
         seeds, small dots the seeds. The dashed line is floating point; rows without faults are in the table.</p>\n"
    );
    for &length in &evaluation.plan.lengths {
        let curves = curves(rows, length, &scores);
        let all = || curves.iter().flat_map(|curve| &curve.points);
        let Some(x) = Axis::decades("fault rate", all().map(|point| point.x)) else { continue };
        let y = scores.axis(all().map(|point| point.y), 10.0);
        let legend = chart::legend(&curves, Some(&scores.legend()));
        let level = Some(scores.float());
        let chart = Chart { curves: &curves, x, y, level, label: "Score against fault rate" };
        let title = format!("<h3>{length} bits</h3>\n");
        out.push_str(&format!("<div class=\"panel\">\n{title}{legend}{}</div>\n", chart.svg()));
    }
    out
}

/// Returns one curve for each generator and site at a length.
fn curves(rows: &[Row], length: usize, scores: &Scores) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    // Products of integers have no length: they are beside the streams of each.
    for row in
        rows.iter().filter(|row| row.length == length || row.generator.integer_bits().is_some())
    {
        let Some(faults) = row.faults else { continue };
        let name = format!("{}, {}", row.generator, faults.sites);
        let value = |score: f64| scores.value(score);
        let accuracy = row.figures.classification().map(|figures| figures.accuracy);
        let point = Point {
            x: faults.rate.get(),
            y: value(row.score()),
            band: accuracy.filter(|accuracy| accuracy.n > 1).map(|a| [value(a.low), value(a.high)]),
            values: match row.scores.len() {
                2..=FEW_SEEDS => row.scores.iter().map(|&score| value(score)).collect(),
                _ => Vec::new(),
            },
            text: format!(
                "{name}{}, rate {}: {}",
                bits(row),
                faults.rate,
                scores.text(row.score())
            ),
        };
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    curves
}
