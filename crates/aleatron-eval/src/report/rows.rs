//! The table of all rows of an evaluation.

use super::table::{Kind, Table};
use crate::text::{short, si};
use crate::{CircuitCost, CostFigures, Estimate, Evaluation, Figures, Row, RowFigures};

/// Returns the table of all rows.
pub(super) fn rows(evaluation: &Evaluation, rows: &[Row]) -> String {
    let (has_faults, has_costs) = (evaluation.plan.has_faults(), !evaluation.costs.is_empty());
    let mut table = Table::new(columns(evaluation));
    let mut before = None;
    for row in rows {
        let group = (row.generator, row.faults.map(|faults| faults.sites));
        let first = before.replace(group) != Some(group);
        let mut cells = vec![row.generator.to_string(), row.bits()];
        if has_faults {
            cells.extend(row.faults.map_or(["-".to_owned(), "0".to_owned()], |faults| {
                [faults.sites.to_string(), faults.rate.to_string()]
            }));
        }
        cells.extend(figures(&row.figures));
        cells.extend(row.layers.iter().map(|layer| match layer.relative_error() {
            Some(error) => short(100.0 * error),
            None => "-".to_owned(),
        }));
        if has_costs {
            let figures = row.cost.as_ref().and_then(CircuitCost::figures);
            let show = |show: fn(&CostFigures) -> String| figures.map(show).unwrap_or_default();
            cells.extend([
                show(|cost| cost.cycles.to_string()),
                show(|cost| si(cost.area)),
                show(|cost| short(cost.energy)),
            ]);
        }
        cells.extend([si(row.samples_per_second), si(row.bit_macs_per_second)]);
        table.row(if first { "first" } else { "" }, cells);
    }
    format!(
        "<h2>All figures</h2>\n<p>Errors of layers are mean errors of a neuron's sum of products in percent of the mean size of the exact \
         sums: 100 is a layer whose streams carry nothing. Errors in counts and in values are in the JSON file.</p>\n{}",
        table.panel()
    )
}

/// Returns the kinds and headings of the columns.
fn columns(evaluation: &Evaluation) -> Vec<(Kind, String)> {
    let mut columns = vec![(Kind::Text, "generator".to_owned()), (Kind::Number, "bits".to_owned())];
    if evaluation.plan.has_faults() {
        columns.push((Kind::Text, "fault site".to_owned()));
        columns.push((Kind::Number, "fault rate".to_owned()));
    }
    let mut numbers = |names: &[&str]| {
        columns.extend(names.iter().map(|name| (Kind::Number, (*name).to_owned())));
    };
    numbers(match evaluation.float {
        Figures::Classification(_) => &["accuracy %", "interval", "agrees with float %"],
        Figures::Regression(_) => {
            &["mean error", "rms error", "R²", "mean to float", "rms to float"]
        }
    });
    for name in &evaluation.network.layers {
        numbers(&[&format!("layer {name} error %")]);
    }
    if !evaluation.costs.is_empty() {
        numbers(&["cycles", "area", "energy nJ"]);
    }
    numbers(&["samples/s", "bit-MAC/s"]);
    columns
}

/// Returns the cells of the figures of a classification or a regression.
fn figures(figures: &RowFigures) -> Vec<String> {
    match figures {
        Figures::Classification(figures) => {
            let percent = |share: f64| format!("{:.2}", 100.0 * share);
            let Estimate { mean, low, high, n } = figures.accuracy;
            let interval = match n {
                1 => "-".to_owned(),
                _ => format!("{} to {}", percent(low), percent(high)),
            };
            vec![percent(mean), interval, percent(figures.agreement)]
        }
        Figures::Regression(figures) => {
            let (targets, float) = (&figures.to_targets, &figures.to_float);
            vec![
                short(targets.mean_absolute.mean),
                short(targets.root_mean_square.mean),
                format!("{:.4}", targets.r_squared.mean),
                short(float.mean_absolute.mean),
                short(float.root_mean_square.mean),
            ]
        }
    }
}
