//! A small harness for robust measurements on a noisy machine: a case and its ceiling are timed
//! alternately within one run, in many short rounds. The time is the best of them (noise only
//! adds); the share of the ceiling beside it is the median over rounds, of which each has both, so
//! that a quiet moment of one alone makes no share.
//!
//! Arguments: `--json` for one JSON array, `--quick` for a tenth of the time, and any word to run
//! only the cases whose name contains it. Every case checks its result before it is timed.
#![allow(dead_code, reason = "each benchmark uses a part of the harness")]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The ceiling of a case: its name, and a loop that does only that work.
pub(crate) struct Ceiling<'a> {
    pub(crate) name: &'a str,
    pub(crate) work: &'a mut dyn FnMut(),
    /// The fraction of the case's work that one run of the ceiling represents.
    pub(crate) scale: f64,
    /// The time at which the ceiling is measured.
    pub(crate) timing: Timing,
}

/// The time at which a ceiling is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Alternating with its case, so that disturbances affect both.
    Alternating,
    /// After its case: each has its own memory, and both together would not fit into the cache.
    Separate,
}

/// The rate of a case: the number and the unit of operations per run.
pub(crate) struct Rate {
    pub(crate) amount: f64,
    pub(crate) unit: &'static str,
}

pub(crate) fn rate(amount: f64, unit: &'static str) -> Option<Rate> {
    Some(Rate { amount, unit })
}

struct Row {
    name: String,
    time: Duration,
    rate: Option<(f64, &'static str)>,
    share: Option<(f64, String)>,
}

/// Collects cases and prints them at the end.
pub(crate) struct Table {
    budget: Duration,
    filter: Vec<String>,
    json: bool,
    rows: Vec<Row>,
}

impl Table {
    /// Creates a table by the options of the command line.
    pub(crate) fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
        let flag = |name| arguments.iter().any(|a| a == name);
        let budget = Duration::from_millis(if flag("--quick") { 60 } else { 600 });
        let filter = arguments.iter().filter(|a| !a.starts_with("--")).cloned().collect();
        Self { budget, filter, json: flag("--json"), rows: Vec::new() }
    }

    /// Returns whether a case of this name is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|word| name.contains(word.as_str()))
    }

    /// Times a case and its ceiling, if it has one, and returns its best time.
    pub(crate) fn case(
        &mut self,
        name: &str,
        rate: Option<Rate>,
        mut work: impl FnMut(),
        ceiling: Option<Ceiling<'_>>,
    ) -> Duration {
        if !self.wants(name) {
            return Duration::ZERO;
        }
        let (time, share) = match ceiling {
            None => (best(&rounds([&mut work], self.budget)), None),
            Some(Ceiling { name, work: ceiling, scale, timing: Timing::Separate }) => {
                let time = best(&rounds([&mut work], self.budget));
                let share =
                    best(&rounds([ceiling], self.budget)).as_secs_f64() / time.as_secs_f64();
                (time, Some((share * scale, name.to_owned())))
            }
            Some(Ceiling { name, work: ceiling, scale, timing: Timing::Alternating }) => {
                let rounds = rounds([&mut work, ceiling], 2 * self.budget);
                let shares =
                    rounds.iter().map(|[case, ceiling]| ceiling.as_secs_f64() / case.as_secs_f64());
                (best(&rounds), Some((median(shares.collect()) * scale, name.to_owned())))
            }
        };
        let rate = rate.map(|rate| (rate.amount / time.as_secs_f64(), rate.unit));
        self.rows.push(Row { name: name.to_owned(), time, rate, share });
        time
    }

    /// Prints all cases.
    pub(crate) fn print(&self, title: &str) {
        if self.json {
            let rows: Vec<String> = self.rows.iter().map(Row::json).collect();
            println!("[\n{}\n]", rows.join(",\n"));
            return;
        }
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        println!("\n{title}\n");
        println!("{:width$}  {:>10}  {:>16}  share of ceiling", "case", "time", "rate");
        for row in &self.rows {
            let rate =
                row.rate.map_or_else(String::new, |(value, unit)| format!("{} {unit}", si(value)));
            let share = row
                .share
                .as_ref()
                .map_or_else(String::new, |(share, name)| format!("{share:.2} of {name}"));
            println!("{:width$}  {:>10}  {rate:>16}  {share}", row.name, duration(row.time));
        }
    }
}

impl Row {
    fn json(&self) -> String {
        let rate = self.rate.map_or_else(String::new, |(value, unit)| {
            format!(r#", "rate": {value:e}, "unit": "{unit}""#)
        });
        let share = self.share.as_ref();
        let share = share.map_or_else(String::new, |(share, name)| {
            format!(r#", "share": {share:.4}, "ceiling": "{name}""#)
        });
        format!(
            r#"  {{"case": "{}", "seconds": {:e}{rate}{share}}}"#,
            self.name,
            self.time.as_secs_f64()
        )
    }
}

/// Returns the time per run of each of several workloads in every round, timed alternately for
/// `budget` in total.
fn rounds<const N: usize>(
    mut works: [&mut dyn FnMut(); N],
    budget: Duration,
) -> Vec<[Duration; N]> {
    // A round is long enough for the clock and short enough for many of them.
    let round = (budget / 200).max(Duration::from_micros(200));
    let mut time = |k: usize, runs: u32| {
        let start = Instant::now();
        (0..runs).for_each(|_| works[k]());
        start.elapsed() / runs
    };
    let runs: [u32; N] = std::array::from_fn(|k| {
        time(k, 1);
        let once = time(k, 1).max(Duration::from_nanos(50));
        (round.as_nanos() / once.as_nanos()).clamp(1, 1 << 20) as u32
    });
    let (mut rounds, start) = (Vec::new(), Instant::now());
    while rounds.len() < 5 || start.elapsed() < budget {
        rounds.push(std::array::from_fn(|k| {
            // Each workload begins with its own caches.
            time(k, 1);
            time(k, runs[k])
        }));
    }
    rounds
}

/// Returns the best time of the first workload.
fn best<const N: usize>(rounds: &[[Duration; N]]) -> Duration {
    rounds.iter().filter_map(|times| times.first()).min().copied().unwrap_or_default()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns a ceiling of one run.
pub(crate) fn ceiling<'a>(name: &'a str, work: &'a mut dyn FnMut()) -> Option<Ceiling<'a>> {
    Some(Ceiling { name, work, scale: 1.0, timing: Timing::Alternating })
}

/// Keeps a result from being optimised away.
pub(crate) fn keep<T>(value: T) {
    black_box(value);
}

fn duration(time: Duration) -> String {
    let ns = time.as_secs_f64() * 1e9;
    match ns {
        _ if ns < 1e3 => format!("{ns:.1} ns"),
        _ if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

fn si(value: f64) -> String {
    let (scaled, prefix) = match value {
        _ if value >= 1e12 => (value / 1e12, "T"),
        _ if value >= 1e9 => (value / 1e9, "G"),
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ => (value / 1e3, "k"),
    };
    format!("{scaled:.2} {prefix}")
}
