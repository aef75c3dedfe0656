//! Evaluations of language models as tables for people.

use super::head::HeadStop;
use super::result::{LanguageEvaluation, LanguageFigures, LanguageRow};
use crate::Estimate;
use crate::text::{LEAST, plural, si, table};

impl LanguageEvaluation {
    /// Returns the evaluation as text with tables of at most `width` characters, unless the first
    /// columns need more.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut text = format!(
            "Model {} ({}) on {}: {} predicted, {}, sequences of {}\n\
             Input scales: the {} quantile over the first {} of the text, which are not evaluated\n\
             Linear products: signed streams on {}\n",
            self.model,
            self.precision,
            self.text,
            plural(self.predicted_tokens, "token"),
            plural(self.predicted_bytes, "byte"),
            plural(self.context, "position"),
            self.quantile,
            plural(self.calibration_tokens, "token"),
            self.device_text(),
        );
        for line in self.override_lines() {
            text.push_str(&format!("{line}\n"));
        }
        text.push('\n');
        let rows: Vec<[String; 10]> = std::iter::once(float_row(&self.float))
            .chain(self.rows.iter().map(stream_row))
            .collect();
        let columns = (0..HEADINGS.len()).map(|k| {
            std::iter::once(HEADINGS[k].to_owned())
                .chain(rows.iter().map(|row| row[k].clone()))
                .collect()
        });
        text.push_str(&table(columns, width, LEAST, |line| rows[line][0] != rows[line - 1][0]));
        if self.rows.iter().any(|row| !row.head.is_empty()) {
            text.push_str(
                "\nEarly termination of the head, by decision margin in standard deviations:\n\n",
            );
            text.push_str(&self.head_table(width));
        }
        if !self.sensitivity.is_empty() {
            text.push_str("\nOne linear product as streams, the others in floating point:\n\n");
            text.push_str(&self.sensitivity_table(width));
        }
        if !self.warnings.is_empty() {
            text.push('\n');
            self.warnings
                .iter()
                .for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
        }
        if self.unfinished > 0 {
            text.push_str(&format!("\nunfinished: {} to go\n", plural(self.unfinished, "run")));
        }
        text
    }

    /// Returns the requested device and the backends that products ran on.
    pub(crate) fn device_text(&self) -> String {
        match self.backends.as_slice() {
            [] => self.device.clone(),
            backends => format!("{} ({})", self.device, backends.join(", ")),
        }
    }

    /// Returns a line for each linear product with settings of its own, which the columns do not
    /// show.
    pub(crate) fn override_lines(&self) -> impl Iterator<Item = String> {
        self.layers
            .iter()
            .map(|(name, settings)| format!("Product {name}: {settings} in every row"))
    }

    fn head_table(&self, width: usize) -> String {
        let all: Vec<(&LanguageRow, &HeadStop)> =
            self.rows.iter().flat_map(|row| row.head.iter().map(move |stop| (row, stop))).collect();
        let column =
            |heading: &str, value: &dyn Fn(&LanguageRow, &HeadStop) -> String| -> Vec<String> {
                std::iter::once(heading.to_owned())
                    .chain(all.iter().map(|(row, stop)| value(row, stop)))
                    .collect()
            };
        let columns = [
            column("generator", &|row, _| row.generator.clone()),
            column("bits", &|row, _| row.length.to_string()),
            column("margin", &|_, stop| stop.margin.to_string()),
            column("cycles", &|_, stop| format!("{:.1}", stop.mean_cycles)),
            column("saved %", &|_, stop| format!("{:.2}", 100.0 * stop.saved)),
            column("stopped %", &|_, stop| format!("{:.2}", 100.0 * stop.stopped)),
            column("changed %", &|_, stop| format!("{:.2}", 100.0 * stop.changed)),
        ];
        let is_next = |line: usize| all[line].0.generator != all[line - 1].0.generator;
        table(columns.into_iter(), width, LEAST, is_next)
    }

    fn sensitivity_table(&self, width: usize) -> String {
        let all = &self.sensitivity;
        let column =
            |heading: &str, value: &dyn Fn(&super::LinearSensitivity) -> String| -> Vec<String> {
                std::iter::once(heading.to_owned()).chain(all.iter().map(value)).collect()
            };
        let columns = [
            column("product", &|row| row.product.clone()),
            column("generator", &|row| row.generator.clone()),
            column("bits", &|row| row.length.to_string()),
            column("nats/token", &|row| format!("{:.4}", row.loss)),
            column("added", &|row| format!("{:+.4}", row.added_loss)),
            column("agrees %", &|row| format!("{:.2}", 100.0 * row.agreement)),
        ];
        table(columns.into_iter(), width, LEAST, |line| {
            all[line].generator != all[line - 1].generator
        })
    }

    /// Returns the rows as comma-separated values, the model in floating point first.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut csv = "generator,bits,width,seeds,nats_per_token,low,high,added_nats,bits_per_byte,perplexity,agreement,saturated,tokens_per_second\n"
            .to_owned();
        let optional =
            |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let LanguageFigures { loss, bits_per_byte, perplexity } = self.float;
        csv.push_str(&format!(
            "float,,,1,{loss},{loss},{loss},0,{},{perplexity},1,,\n",
            optional(bits_per_byte)
        ));
        for row in &self.rows {
            csv.push_str(&format!(
                "{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                row.generator,
                row.length,
                row.width.map(|width| width.to_string()).unwrap_or_default(),
                row.seeds.len(),
                row.loss.mean,
                row.loss.low,
                row.loss.high,
                row.added_loss,
                optional(row.bits_per_byte),
                row.perplexity,
                row.agreement,
                row.saturated,
                row.tokens_per_second,
            ));
        }
        csv
    }
}

const HEADINGS: [&str; 10] = [
    "generator",
    "bits",
    "width",
    "nats/token",
    "added",
    "bits/byte",
    "perplexity",
    "agrees %",
    "saturated %",
    "tokens/s",
];

fn float_row(float: &LanguageFigures) -> [String; 10] {
    [
        "float".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        format!("{:.4}", float.loss),
        "-".to_owned(),
        bits(float.bits_per_byte),
        format!("{:.3}", float.perplexity),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
    ]
}

fn stream_row(row: &LanguageRow) -> [String; 10] {
    [
        row.generator.clone(),
        row.length.to_string(),
        row.width.map_or_else(|| "-".to_owned(), |width| width.to_string()),
        loss(&row.loss),
        format!("{:+.4}", row.added_loss),
        bits(row.bits_per_byte),
        format!("{:.3}", row.perplexity),
        format!("{:.2}", 100.0 * row.agreement),
        format!("{:.3}", 100.0 * row.saturated),
        si(row.tokens_per_second),
    ]
}

fn bits(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

fn loss(loss: &Estimate) -> String {
    match loss.n {
        1 => format!("{:.4}", loss.mean),
        _ => format!("{:.4} [{:.4}, {:.4}]", loss.mean, loss.low, loss.high),
    }
}
