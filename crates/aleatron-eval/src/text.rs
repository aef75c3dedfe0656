//! Evaluations as tables for people.

use super::regression::{RegressionEvaluation, RegressionRow};
use super::result::{Evaluation, Row};
use super::statistics::Estimate;
use aleatron_engine::stream::LayerStats;
use std::fmt;

/// A column of the table: its heading, and what a row shows there.
type Column = (&'static str, fn(&Evaluation, &Row) -> String);

/// The most important columns first: those that do not fit are left out.
const COLUMNS: [Column; 10] = [
    ("generator", |_, row| row.generator.clone()),
    ("bits", |_, row| row.bits()),
    ("accuracy %", |_, row| accuracy(row)),
    ("agrees %", |_, row| format!("{:.2}", 100.0 * row.agreement)),
    ("early cycles", |all, row| early(all, row, |stop| format!("{:.1}", stop.mean_cycles))),
    // Adding 0 makes no minus sign of nothing lost.
    ("points lost", |all, row| early(all, row, |stop| format!("{:.2}", 100.0 * stop.accuracy_lost + 0.0))),
    ("samples/s", |_, row| si(row.samples_per_second)),
    ("bit-MAC/s", |_, row| si(row.bit_macs_per_second)),
    ("certain cycles", |_, row| {
        row.certain.map_or_else(|| "-".into(), |stop| format!("{:.1}", stop.mean_cycles))
    }),
    ("layer errors mean (worst)", |_, row| row.layers.iter().map(error).collect::<Vec<_>>().join("  ")),
];

/// Columns that are always there.
const LEAST: usize = 3;

fn accuracy(row: &Row) -> String {
    let spread = match row.accuracy.n {
        1 => String::new(),
        _ => format!(" [{:.1}, {:.1}]", 100.0 * row.accuracy.low, 100.0 * row.accuracy.high),
    };
    format!("{:.2}{spread}", 100.0 * row.accuracy.mean)
}

fn early(all: &Evaluation, row: &Row, show: impl Fn(&super::EarlyStop) -> String) -> String {
    let stop = if all.has_early(row) { row.early_within(0.5) } else { None };
    stop.map_or_else(|| "-".into(), show)
}

fn error(layer: &LayerStats) -> String {
    format!("{} ({})", short(layer.mean_value), short(layer.worst_value))
}

impl Evaluation {
    /// The evaluation as text with a table of at most `width` columns of characters, where that leaves room for the accuracy.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let sizes: Vec<String> = self.network.sizes.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "Network {} ({}) on {}, {}; floating point: {:.2} % right\n\n",
            self.network.name,
            sizes.join("-"),
            self.data.name,
            plural(self.data.samples, "sample"),
            100.0 * self.float_accuracy
        );
        let rows = self.rows();
        let columns = COLUMNS.iter().map(|(heading, show)| {
            std::iter::once((*heading).to_owned()).chain(rows.iter().map(|row| show(self, row))).collect()
        });
        text.push_str(&table(columns, width, |line| rows[line].generator != rows[line - 1].generator));
        text.push('\n');
        for generator in self.plan.generators.iter().filter(|generator| !self.rows_of(generator).is_empty()) {
            let shortest = self.shortest_within(generator, 1.0).ok().flatten();
            let row = self.rows_of(generator).into_iter().find(|row| Some(row.length) == shortest);
            text.push_str(&match row {
                Some(row) => {
                    let seeds = match row.accuracy.n {
                        1 => String::new(),
                        n => format!(", the worst of {n} seeds included"),
                    };
                    let lengths = match row.has_one_length() {
                        true => format!("from {} bits on", row.length),
                        false => format!("with {} bits", row.bits()),
                    };
                    format!("{generator}: within one point of floating point {lengths}{seeds}\n")
                }
                None => {
                    format!("{generator}: not within one point of floating point at any of these lengths\n")
                }
            });
        }
        let clipped = self.cells.iter().map(|cell| cell.clipped).max().unwrap_or(0);
        text.push_str(&remarks(clipped, &self.warnings, self.unfinished));
        text
    }
}

/// A column of the table of a regression.
type RegressionColumn = (&'static str, fn(&RegressionRow) -> String);

/// The most important columns first.
const REGRESSION_COLUMNS: [RegressionColumn; 9] = [
    ("generator", |row| row.generator.clone()),
    ("bits", |row| row.bits()),
    ("mean error", |row| estimate(&row.to_targets.mean_absolute)),
    ("rms error", |row| estimate(&row.to_targets.root_mean_square)),
    ("rms to float", |row| short(row.to_float.root_mean_square.mean)),
    ("mean to float", |row| short(row.to_float.mean_absolute.mean)),
    ("samples/s", |row| si(row.samples_per_second)),
    ("bit-MAC/s", |row| si(row.bit_macs_per_second)),
    ("layer errors mean (worst)", |row| row.layers.iter().map(error).collect::<Vec<_>>().join("  ")),
];

fn estimate(value: &Estimate) -> String {
    match value.n {
        1 => short(value.mean),
        _ => format!("{} [{}, {}]", short(value.mean), short(value.low), short(value.high)),
    }
}

impl RegressionEvaluation {
    /// The evaluation as text with a table of at most `width` columns of characters, where that leaves room for the errors.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let sizes: Vec<String> = self.network.sizes.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "Network {} ({}) on {}, {}; floating point: mean error {}, rms error {}\n\n",
            self.network.name,
            sizes.join("-"),
            self.data.name,
            plural(self.data.samples, "sample"),
            short(self.float.mean_absolute),
            short(self.float.root_mean_square)
        );
        let rows = self.rows();
        let columns = REGRESSION_COLUMNS.iter().map(|(heading, show)| {
            std::iter::once((*heading).to_owned()).chain(rows.iter().map(show)).collect()
        });
        text.push_str(&table(columns, width, |line| rows[line].generator != rows[line - 1].generator));
        text.push('\n');
        let clipped = self.cells.iter().map(|cell| cell.clipped).max().unwrap_or(0);
        text.push_str(&remarks(clipped, &self.warnings, self.unfinished));
        text
    }
}

impl fmt::Display for RegressionEvaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}

/// A table of at most `width` characters: columns that do not fit are left out, but for the first few. `breaks` says before which row,
/// counted from 1, a blank line is.
fn table(columns: impl Iterator<Item = Vec<String>>, width: usize, breaks: impl Fn(usize) -> bool) -> String {
    let mut table: Vec<(usize, Vec<String>)> = Vec::new();
    let mut used = 0;
    for cells in columns {
        let size = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        if table.len() >= LEAST && used + 2 + size > width {
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

/// What else there is to say.
fn remarks(clipped: u64, warnings: &[String], unfinished: usize) -> String {
    let mut text = String::new();
    if clipped > 0 {
        let features = plural(clipped as usize, "feature");
        text.push_str(&format!("clipped: {features} outside what the first layer can encode\n"));
    }
    warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
    if unfinished > 0 {
        text.push_str(&format!("unfinished: {} to go\n", plural(unfinished, "cell")));
    }
    text
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}

/// A number with its noun.
#[must_use]
pub fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Three digits or so.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A rate with a prefix.
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
