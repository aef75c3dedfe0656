//! Comparisons as tables for people.

use super::{
    Compared, ComparedScore, Comparison, RowDifference, RowKey, ScoreDifference, SettingDifference,
    Verdict,
};
use crate::text::{plural, short, si, table};
use std::fmt;

/// Columns of text at the beginning of the table, which are always shown.
const LEAST: usize = 6;

/// The heading of the settings, and the most characters that a setting is padded to.
const SETTING: &str = "setting that differs";
const MOST: usize = 60;

impl ComparedScore {
    /// Returns the name of the score in headings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy %",
            Self::RootMeanSquareError => "rms error",
            Self::NatsPerToken => "nats per token",
        }
    }

    /// Returns a score as text.
    #[must_use]
    pub fn show(self, score: f64) -> String {
        match self {
            Self::Accuracy => format!("{:.2}", 100.0 * score),
            Self::RootMeanSquareError => short(score),
            Self::NatsPerToken => format!("{score:.4}"),
        }
    }

    /// Returns a difference of scores as text, in points for accuracies.
    #[must_use]
    pub fn show_difference(self, difference: f64) -> String {
        // Adding 0 removes the minus sign of 0.
        match self {
            Self::Accuracy => format!("{:+.2}", 100.0 * difference + 0.0),
            Self::RootMeanSquareError if difference > 0.0 => format!("+{}", short(difference)),
            Self::RootMeanSquareError => short(difference + 0.0),
            Self::NatsPerToken => format!("{:+.4}", difference + 0.0),
        }
    }

    /// Returns the interval of a difference as text.
    #[must_use]
    pub fn show_interval(self, score: &ScoreDifference) -> String {
        match score.interval {
            None => "-".to_owned(),
            Some([low, high]) => {
                format!("{} to {}", self.show_difference(low), self.show_difference(high))
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Within => "within",
            Self::Outside => "outside",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.generator, plural(self.length, "bit"))?;
        self.faults.iter().try_for_each(|faults| write!(f, ", faults of {faults}"))
    }
}

impl Comparison {
    /// Returns the columns of a row with their headings, the most important first.
    pub(crate) fn columns(&self, row: &RowDifference) -> Vec<(String, String)> {
        let name = self.score.name();
        let pair = |[a, b]: &[String; 2]| if a == b { a.clone() } else { format!("{a} / {b}") };
        let mut columns = vec![
            ("generator".to_owned(), row.key.generator.clone()),
            ("bits".to_owned(), pair(&row.bits)),
            (format!("{name} A"), self.score.show(row.score.a)),
            ("B".to_owned(), self.score.show(row.score.b)),
            ("B - A".to_owned(), self.score.show_difference(row.score.difference)),
            ("95 % interval".to_owned(), self.score.show_interval(&row.score)),
            ("difference".to_owned(), row.score.verdict.to_string()),
        ];
        if self.rows.iter().any(|row| row.key.faults.is_some()) {
            let faults = row.key.faults.clone().unwrap_or_else(|| "-".to_owned());
            columns.insert(2, ("faults".to_owned(), faults));
        }
        let mut both = |name: &str, values: [Option<String>; 2]| {
            let [a, b] = values.map(|value| value.unwrap_or_else(|| "-".to_owned()));
            columns.push((format!("{name} A"), a));
            columns.push(("B".to_owned(), b));
        };
        if self.rows.iter().any(|row| row.r_squared.is_some()) {
            both("R²", [0, 1].map(|k| row.r_squared.map(|pair| format!("{:.4}", pair[k]))));
        }
        if self.rows.iter().any(|row| row.early_cycles.iter().any(Option::is_some)) {
            both("early cycles", row.early_cycles.map(|c| c.map(|cycles| format!("{cycles:.1}"))));
        }
        if self.rows.iter().any(|row| row.cost.iter().any(Option::is_some)) {
            both("cycles", row.cost.map(|c| c.map(|cost| cost.cycles.to_string())));
            both("area", row.cost.map(|c| c.map(|cost| si(cost.area))));
            both("energy nJ", row.cost.map(|c| c.map(|cost| short(cost.energy))));
        }
        columns
    }

    /// Returns one of both evaluations as a sentence without its full stop.
    pub(crate) fn side_text(&self, side: &Compared) -> String {
        let Compared { name, network, data, samples, version, .. } = side;
        let samples = match self.score {
            ComparedScore::NatsPerToken => plural(*samples, "predicted token"),
            ComparedScore::Accuracy | ComparedScore::RootMeanSquareError => {
                plural(*samples, "sample")
            }
        };
        let mut text = format!("{name}: {network} on {data}, {samples}, aleatron {version}");
        if let Some(run) = side.provenance.last() {
            text.push_str(&format!(", {}", run.date));
        }
        if side.unfinished > 0 {
            text.push_str(&format!(" (unfinished: {} to go)", side.unfinished));
        }
        text
    }

    /// Returns the scores of floating point as a sentence without its full stop.
    pub(crate) fn float_text(&self) -> String {
        let float = &self.float;
        let (a, b) = (self.score.show(float.a), self.score.show(float.b));
        let name = self.score.name();
        if float.a == float.b {
            return format!("Floating point: {name} {a} in both");
        }
        format!(
            "Floating point: {name} {a} in A, {b} in B; B - A {}, 95 % interval {} ({})",
            self.score.show_difference(float.difference),
            self.score.show_interval(float),
            float.verdict
        )
    }

    /// Returns the settings that differ as lines with columns that are aligned left.
    fn settings_text(&self) -> String {
        let size = |value: fn(&SettingDifference) -> &str| {
            let sizes = self.settings.iter().map(|setting| value(setting).chars().count());
            sizes.max().unwrap_or(0).min(MOST)
        };
        let (name, a) = (size(|s| &s.setting).max(SETTING.len()), size(|s| &s.a));
        let line = |setting: &str, of_a: &str, of_b: &str| {
            format!("{setting:name$}  {of_a:a$}  {of_b}").trim_end().to_owned() + "\n"
        };
        let lines = self.settings.iter().map(|s| line(&s.setting, &s.a, &s.b));
        std::iter::once(line(SETTING, "A", "B")).chain(lines).collect()
    }

    /// Returns the comparison as text with a table of at most `width` characters, unless the first
    /// columns need more.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut text =
            format!("A  {}\nB  {}\n\n", self.side_text(&self.a), self.side_text(&self.b));
        if self.settings.is_empty() {
            text.push_str("No setting differs.\n");
        } else {
            text.push_str(&self.settings_text());
        }
        text.push_str(&format!("\n{}\n\n", self.float_text()));
        if self.rows.is_empty() {
            text.push_str("No row is in both.\n");
        } else {
            let shown: Vec<_> = self.rows.iter().map(|row| self.columns(row)).collect();
            let columns = (0..shown.first().map_or(0, Vec::len)).map(|k| {
                let heading = shown.first().map(|row| row[k].0.clone());
                heading.into_iter().chain(shown.iter().map(|row| row[k].1.clone())).collect()
            });
            let generator = |line: usize| &self.rows[line].key.generator;
            text.push_str(&table(columns, width, LEAST, |line| {
                generator(line) != generator(line - 1)
            }));
        }
        text.push('\n');
        for (name, keys) in [("A", &self.only_a), ("B", &self.only_b)] {
            for (group, lengths) in grouped(keys) {
                text.push_str(&format!("only in {name}: {group}: {} bits\n", lengths.join(", ")));
            }
        }
        self.statistics.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        text
    }
}

/// Returns rows by their generator and faults, with the lengths of each.
pub(crate) fn grouped(keys: &[RowKey]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for key in keys {
        let faults = key.faults.as_ref().map_or_else(String::new, |f| format!(", faults of {f}"));
        let name = format!("{}{faults}", key.generator);
        let length = key.length.to_string();
        match groups.iter_mut().find(|(group, _)| *group == name) {
            Some((_, lengths)) => lengths.push(length),
            None => groups.push((name, vec![length])),
        }
    }
    groups
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(usize::MAX))
    }
}
