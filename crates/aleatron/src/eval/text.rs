//! An evaluation as a table for people.

use super::result::{Evaluation, Row};
use crate::network::LayerError;
use std::fmt;

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.network.sizes.iter().map(ToString::to_string).collect();
        writeln!(
            f,
            "Network {} ({}) on {}, {} samples; floating point: {:.2} % right",
            self.network.name,
            sizes.join("-"),
            self.data.name,
            self.data.samples,
            100.0 * self.float_accuracy
        )?;
        writeln!(f)?;
        let mut lines = vec![
            [
                "generator",
                "length",
                "accuracy %",
                "agrees %",
                "early: cycles",
                "points lost",
                "layer error mean (worst)",
                "samples/s",
                "bit-MAC/s",
            ]
            .map(str::to_owned),
        ];
        let rows = self.rows();
        lines.extend(rows.iter().map(line));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|k| lines.iter().map(|line| line[k].chars().count()).max().unwrap_or(0))
            .collect();
        let mut before: Option<&str> = None;
        for (k, line) in lines.iter().enumerate() {
            // A blank line between generators.
            let generator = k.checked_sub(1).map(|k| rows[k].generator.as_str());
            if before.is_some() && before != generator {
                writeln!(f)?;
            }
            before = generator;
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for generator in &self.plan.generators {
            if self.rows_of(generator).is_empty() {
                continue;
            }
            match self.shortest_within(generator, 1.0) {
                Some(length) => {
                    writeln!(f, "{generator}: within one point of floating point from {length} bits on")?
                }
                None => writeln!(
                    f,
                    "{generator}: not within one point of floating point at any of these lengths"
                )?,
            }
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        if !self.is_complete() {
            writeln!(f, "unfinished: {} of {} cells", self.cells.len(), self.plan.cells)?;
        }
        Ok(())
    }
}

fn line(row: &Row) -> [String; 9] {
    let accuracy = &row.accuracy;
    let spread = match accuracy.n {
        1 => String::new(),
        _ => format!(" [{:.1}, {:.1}]", 100.0 * accuracy.low, 100.0 * accuracy.high),
    };
    let early = row.early_within(0.5);
    let layer = |layer: &LayerError| format!("{} ({})", short(layer.mean_value), short(layer.worst_value));
    [
        row.generator.clone(),
        row.length.to_string(),
        format!("{:.2}{spread}", 100.0 * accuracy.mean),
        format!("{:.2}", 100.0 * row.agreement),
        early.map_or_else(|| "-".into(), |stop| format!("{:.1}", stop.mean_cycles)),
        early.map_or_else(|| "-".into(), |stop| format!("{:.2}", 100.0 * stop.accuracy_lost)),
        row.layers.iter().map(layer).collect::<Vec<_>>().join(" "),
        si(row.samples_per_second),
        si(row.bit_macs_per_second),
    ]
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
            format!("{:.3}", value / scale)
                .chars()
                .take(4)
                .collect::<String>()
                .trim_end_matches('.')
                .to_owned()
                + " "
                + prefix
        }
        None => format!("{value:.0}"),
    }
}
