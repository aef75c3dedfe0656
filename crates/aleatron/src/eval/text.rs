//! An evaluation as a table for people.

use super::result::{Evaluation, Row};
use crate::network::LayerStats;
use std::fmt;

/// A column of the table: its heading, and what a row shows there.
type Column = (&'static str, fn(&Evaluation, &Row) -> String);

/// The most important columns first: those that do not fit are left out.
const COLUMNS: [Column; 10] = [
    ("generator", |_, row| row.generator.clone()),
    ("bits", |_, row| row.length.to_string()),
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
        let mut table = Vec::new();
        let mut used = 0;
        for (heading, show) in COLUMNS {
            let cells: Vec<String> =
                std::iter::once(heading.to_owned()).chain(rows.iter().map(|row| show(self, row))).collect();
            let size = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            if table.len() >= LEAST && used + 2 + size > width {
                break;
            }
            used += size + if table.is_empty() { 0 } else { 2 };
            table.push((size, cells));
        }
        for line in 0..=rows.len() {
            // A blank line between generators.
            if line > 1 && rows[line - 1].generator != rows[line - 2].generator {
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
        text.push('\n');
        for generator in self.plan.generators.iter().filter(|generator| !self.rows_of(generator).is_empty()) {
            text.push_str(&match self.shortest_within(generator, 1.0) {
                Ok(Some(length)) => {
                    format!("{generator}: within one point of floating point from {length} bits on\n")
                }
                _ => format!("{generator}: not within one point of floating point at any of these lengths\n"),
            });
        }
        let clipped = self.cells.iter().map(|cell| cell.clipped).max().unwrap_or(0);
        if clipped > 0 {
            text.push_str(&format!(
                "clipped: {} outside what the first layer can encode\n",
                plural(clipped as usize, "feature")
            ));
        }
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        if !self.is_complete() {
            text.push_str(&format!("unfinished: {} to go\n", plural(self.unfinished, "cell")));
        }
        text
    }
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
        _ => format!("{value:.4}"),
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
        assert_eq!([0.0, 0.01234, 0.5, 12.34, 123.4].map(short), ["0.00", "0.0123", "0.50", "12.3", "123"]);
        assert_eq!([0, 1, 2].map(|n| plural(n, "cell")), ["0 cells", "1 cell", "2 cells"]);
    }
}
