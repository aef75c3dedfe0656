//! A small harness for figures that mean something on a noisy machine: a case and its ceiling are timed in turns within one
//! run, the best of many rounds is kept for each (noise only adds), and the share of the ceiling is printed beside the time.
//!
//! Arguments: `--json` for one JSON array, `--quick` for a tenth of the time, and any word to run only the cases whose name
//! contains it. Every case checks its result before it is timed.
#![allow(dead_code, reason = "each benchmark uses a part of the harness")]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a case is measured against: its name, and a loop that does nothing else.
pub(crate) struct Ceiling<'a> {
    pub(crate) name: &'a str,
    pub(crate) work: &'a mut dyn FnMut(),
    /// How much of the case's work one run of the ceiling stands for.
    pub(crate) scale: f64,
}

/// The rate of a case: how many of what per run.
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
    /// A table as the command line asks for it.
    pub(crate) fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
        let flag = |name| arguments.iter().any(|a| a == name);
        let budget = Duration::from_millis(if flag("--quick") { 60 } else { 600 });
        let filter = arguments.iter().filter(|a| !a.starts_with("--")).cloned().collect();
        Self { budget, filter, json: flag("--json"), rows: Vec::new() }
    }

    /// Whether a case of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|word| name.contains(word.as_str()))
    }

    /// Times a case, beside its ceiling if it has one. Returns its best time.
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
            None => (best(&mut [&mut work], self.budget)[0], None),
            Some(Ceiling { name, work: ceiling, scale }) => {
                let times = best(&mut [&mut work, ceiling], 2 * self.budget);
                let share = times[1].as_secs_f64() * scale / times[0].as_secs_f64();
                (times[0], Some((share, name.to_owned())))
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
            let rate = row.rate.map_or_else(String::new, |(value, unit)| format!("{} {unit}", si(value)));
            let share =
                row.share.as_ref().map_or_else(String::new, |(share, name)| format!("{share:.2} of {name}"));
            println!("{:width$}  {:>10}  {rate:>16}  {share}", row.name, duration(row.time));
        }
    }
}

impl Row {
    fn json(&self) -> String {
        let rate = self
            .rate
            .map_or_else(String::new, |(value, unit)| format!(r#", "rate": {value:e}, "unit": "{unit}""#));
        let share = self.share.as_ref();
        let share = share.map_or_else(String::new, |(share, name)| {
            format!(r#", "share": {share:.4}, "ceiling": "{name}""#)
        });
        format!(r#"  {{"case": "{}", "seconds": {:e}{rate}{share}}}"#, self.name, self.time.as_secs_f64())
    }
}

/// The best time per run of each of several workloads, timed in turns for `budget` in all.
fn best(works: &mut [&mut dyn FnMut()], budget: Duration) -> Vec<Duration> {
    // A round is long enough for the clock and short enough for many of them.
    let round = (budget / 40).max(Duration::from_micros(200));
    let runs: Vec<u32> = works
        .iter_mut()
        .map(|work| {
            work();
            let start = Instant::now();
            work();
            let once = start.elapsed().max(Duration::from_nanos(50));
            (round.as_nanos() / once.as_nanos()).clamp(1, 1 << 20) as u32
        })
        .collect();
    let mut best = vec![Duration::MAX; works.len()];
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 5 || start.elapsed() < budget {
        for ((work, &runs), best) in works.iter_mut().zip(&runs).zip(&mut best) {
            // Neither begins with the caches of the other.
            work();
            let start = Instant::now();
            (0..runs).for_each(|_| work());
            *best = (*best).min(start.elapsed() / runs);
        }
        rounds += 1;
    }
    best
}

/// A ceiling of one run.
pub(crate) fn ceiling<'a>(name: &'a str, work: &'a mut dyn FnMut()) -> Option<Ceiling<'a>> {
    Some(Ceiling { name, work, scale: 1.0 })
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
