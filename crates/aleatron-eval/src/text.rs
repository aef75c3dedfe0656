//! Evaluations as tables for people.

use super::cost::{CircuitCost, CostFigures};
use super::faults::FaultPoint;
use super::figures::{ErrorEstimate, Figures};
use super::result::{Evaluation, Row};
use super::statistics::Estimate;
use aleatron_engine::stream::LayerStats;
use std::fmt;

/// Columns that are always shown, without those of faults.
pub(super) const LEAST: usize = 3;

/// Returns the columns of a row with their headings, the most important first: those that do not
/// fit are omitted.
fn columns(evaluation: &Evaluation, row: &Row) -> Vec<(&'static str, String)> {
    let mut columns = vec![("generator", row.generator.to_string()), ("bits", row.bits())];
    if evaluation.plan.has_faults() {
        let [sites, rate] = match row.faults {
            Some(FaultPoint { sites, rate }) => [sites.to_string(), rate.to_string()],
            None => ["-".to_owned(), "0".to_owned()],
        };
        columns.extend([("fault site", sites), ("fault rate", rate)]);
    }
    let mut certain = None;
    match &row.figures {
        Figures::Classification(figures) => {
            let stop = if evaluation.has_early(row) { row.early_within(0.5) } else { None };
            let early =
                |show: fn(&super::EarlyStop) -> String| stop.map_or_else(|| "-".into(), show);
            columns.extend([
                ("accuracy %", accuracy(&figures.accuracy)),
                ("agrees %", format!("{:.2}", 100.0 * figures.agreement)),
                ("early cycles", early(|stop| format!("{:.1}", stop.mean_cycles))),
                // Adding 0 removes the minus sign of a loss of 0.
                ("points lost", early(|stop| format!("{:.2}", 100.0 * stop.accuracy_lost + 0.0))),
            ]);
            let cycles = figures.certain.map(|stop| format!("{:.1}", stop.mean_cycles));
            certain = Some(("certain cycles", cycles.unwrap_or_else(|| "-".into())));
        }
        Figures::Regression(figures) => {
            let ErrorEstimate { mean_absolute, root_mean_square, r_squared } = &figures.to_targets;
            columns.extend([
                ("mean error", estimate(mean_absolute)),
                ("rms error", estimate(root_mean_square)),
                ("R²", format!("{:.4}", r_squared.mean)),
                ("rms to float", short(figures.to_float.root_mean_square.mean)),
                ("mean to float", short(figures.to_float.mean_absolute.mean)),
            ]);
        }
    }
    if !evaluation.costs.is_empty() {
        columns.extend(cost(row));
    }
    columns.extend([
        ("samples/s", si(row.samples_per_second)),
        ("bit-MAC/s", si(row.bit_macs_per_second)),
    ]);
    columns.extend(certain);
    let errors: Vec<String> = row.layers.iter().map(error).collect();
    columns.push(("layer errors mean (worst)", errors.join("  ")));
    columns
}

/// Returns the columns of the cost of a circuit, empty without one.
fn cost(row: &Row) -> [(&'static str, String); 3] {
    let figures = row.cost.as_ref().and_then(CircuitCost::figures);
    let show = |show: fn(&CostFigures) -> String| figures.map(show).unwrap_or_default();
    [
        ("cycles", show(|cost| cost.cycles.to_string())),
        ("area", show(|cost| si(cost.area))),
        ("energy nJ", show(|cost| short(cost.energy))),
    ]
}

fn accuracy(accuracy: &Estimate) -> String {
    let spread = match accuracy.n {
        1 => String::new(),
        _ => format!(" [{:.1}, {:.1}]", 100.0 * accuracy.low, 100.0 * accuracy.high),
    };
    format!("{:.2}{spread}", 100.0 * accuracy.mean)
}

fn estimate(value: &Estimate) -> String {
    match value.n {
        1 => short(value.mean),
        _ => format!("{} [{}, {}]", short(value.mean), short(value.low), short(value.high)),
    }
}

/// Returns the mean and the worst error of a layer.
pub(super) fn error(layer: &LayerStats) -> String {
    format!("{} ({})", short(layer.mean_value), short(layer.worst_value))
}

impl Evaluation {
    /// Returns the evaluation as text with a table of at most `width` characters, unless the first
    /// columns need more.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let sizes: Vec<String> = self.network.sizes.iter().map(ToString::to_string).collect();
        let (float, measure) = match &self.float {
            Figures::Classification(float) => {
                (format!("{:.2} % right", 100.0 * float.accuracy), "one point")
            }
            Figures::Regression(errors) => {
                let [mean, rms] = [errors.mean_absolute, errors.root_mean_square].map(short);
                (
                    format!("mean error {mean}, rms error {rms}, R² {:.4}", errors.r_squared),
                    "0.01 of the R²",
                )
            }
        };
        let mut text = format!(
            "Network {} ({}) on {}, {}; floating point: {float}\n\n",
            self.network.name,
            sizes.join("-"),
            self.data.name,
            plural(self.data.samples, "sample"),
        );
        let rows = self.rows();
        let shown: Vec<_> = rows.iter().map(|row| columns(self, row)).collect();
        let columns = (0..shown.first().map_or(0, Vec::len)).map(|k| {
            let heading = shown.first().map(|row| row[k].0.to_owned());
            heading.into_iter().chain(shown.iter().map(|row| row[k].1.clone())).collect()
        });
        let sites =
            |line: usize| (rows[line].generator, rows[line].faults.map(|faults| faults.sites));
        let least = LEAST + if self.plan.has_faults() { 2 } else { 0 };
        text.push_str(&table(columns, width, least, |line| sites(line) != sites(line - 1)));
        text.push('\n');
        for generator in self.plan.generators.iter().map(ToString::to_string) {
            let rows = self.rows_of(&generator);
            if rows.is_empty() {
                continue;
            }
            let is_integer = rows.iter().any(|row| row.generator.integer_bits().is_some());
            let shortest = self.shortest_within(&generator, 1.0).ok().flatten();
            text.push_str(&match rows.into_iter().find(|row| Some(row.length) == shortest) {
                Some(row) => {
                    let seeds = match row.scores.len() {
                        1 => String::new(),
                        n => format!(", the worst of {n} seeds included"),
                    };
                    let lengths = match row.has_one_length() {
                        true => format!("from {} bits on", row.length),
                        false => format!("with {} bits", row.bits()),
                    };
                    match row.generator.integer_bits() {
                        None => format!("{generator}: within {measure} of floating point {lengths}{seeds}\n"),
                        Some(_) => format!("{generator}: within {measure} of floating point\n"),
                    }
                }
                None if is_integer => format!("{generator}: not within {measure} of floating point\n"),
                None => {
                    format!("{generator}: not within {measure} of floating point at any of these lengths\n")
                }
            });
        }
        let clipped = self.cells.iter().map(|cell| cell.clipped).max().unwrap_or(0);
        if clipped > 0 {
            let features = plural(clipped as usize, "feature");
            text.push_str(&format!(
                "clipped: {features} outside what the first layer can encode\n"
            ));
        }
        self.warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
        for (generator, sites) in self.plan.missing_sites() {
            let sites: Vec<String> = sites.iter().map(ToString::to_string).collect();
            text.push_str(&format!(
                "{generator}: without rows of {}: its circuit has no streams\n",
                sites.join(", ")
            ));
        }
        for reason in self.cost_reasons() {
            text.push_str(&format!("no circuit: {reason}\n"));
        }
        text.extend(self.cost_note().map(|note| format!("{note}\n")));
        if self.unfinished > 0 {
            text.push_str(&format!("unfinished: {} to go\n", plural(self.unfinished, "cell")));
        }
        text
    }
}

/// Returns a table of at most `width` characters: columns that do not fit are omitted, except for
/// the first `least`. A blank line precedes each row, counted from 1, for which `breaks` is true.
pub(super) fn table(
    columns: impl Iterator<Item = Vec<String>>,
    width: usize,
    least: usize,
    breaks: impl Fn(usize) -> bool,
) -> String {
    let mut table: Vec<(usize, Vec<String>)> = Vec::new();
    let mut used = 0;
    for cells in columns {
        let size = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        if table.len() >= least && used + 2 + size > width {
            break;
        }
        used += size + if table.is_empty() { 0 } else { 2 };
        table.push((size, cells));
    }
    let mut text = String::new();
    for line in 0..table.first().map_or(0, |(_, cells)| cells.len()) {
        if line > 1 && breaks(line - 1) {
            text.push('\n');
        }
        for (column, (size, cells)) in table.iter().enumerate() {
            match column {
                0 => text.push_str(&format!("{:size$}", cells[line])),
                _ => text.push_str(&format!("  {:>size$}", cells[line])),
            }
        }
        text.push('\n');
    }
    text
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}

/// Returns a number with its noun.
#[must_use]
pub fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Returns a number with about three digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Returns a rate with a prefix.
pub(super) fn si(value: f64) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.iter().find(|(scale, _)| value >= *scale) {
        Some((scale, prefix)) => {
            let digits: String = format!("{:.3}", value / scale).chars().take(4).collect();
            format!("{} {prefix}", digits.trim_end_matches('.'))
        }
        None => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [12.345, 1234.0, 1.5e6, 9.99e8, 2.5e12].map(si),
            ["12", "1.23 k", "1.50 M", "999 M", "2.50 T"]
        );
        assert_eq!(
            [0.0, 0.000123, 0.01234, 0.5, 12.34, 123.4].map(short),
            ["0.00", "1.2e-4", "0.0123", "0.50", "12.3", "123"]
        );
        assert_eq!([0, 1, 2].map(|n| plural(n, "cell")), ["0 cells", "1 cell", "2 cells"]);
    }
}
