//! Comparing two evaluations: settings that differ, and the difference of each common row with its
//! interval.

mod interval;
#[cfg(feature = "transformer")]
mod language;
mod read;
mod text;

pub use interval::{Method, ScoreDifference, Verdict};
#[cfg(feature = "transformer")]
pub use language::compare_language;
pub use read::{ResultFile, compare_results};
pub(crate) use text::grouped;

use super::cost::{CircuitCost, CostFigures};
use super::figures::Figures;
use super::plan::Plan;
use super::provenance::{Provenance, Source};
use super::result::{Cell, Evaluation, Row};
use crate::{Error, Result};
use interval::{Noise, proportions, seeds};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The subject of an evaluation, which two compared ones share unless the caller allows otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The network, or the language model.
    Network,
    /// The samples, or the text.
    Data,
    /// Classification, regression, or the prediction of text. Always the same.
    Task,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Data => "data",
            Self::Task => "task",
        })
    }
}

/// The score that two evaluations are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedScore {
    /// The share of samples whose best score is that of their class.
    Accuracy,
    /// The root mean square error against the targets.
    RootMeanSquareError,
    /// The mean negative logarithm of the probability of a token, in nats.
    NatsPerToken,
}

/// Two evaluations, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first evaluation.
    pub a: Compared,
    /// The second evaluation.
    pub b: Compared,
    /// The score of rows.
    pub score: ComparedScore,
    /// The settings that differ.
    pub settings: Vec<SettingDifference>,
    /// The scores in floating point.
    pub float: ScoreDifference,
    /// The rows of both.
    pub rows: Vec<RowDifference>,
    /// The rows of the first alone.
    pub only_a: Vec<RowKey>,
    /// The rows of the second alone.
    pub only_b: Vec<RowKey>,
    /// The statistics of the intervals, and what they leave out, one sentence or more each.
    pub statistics: Vec<String>,
}

/// One of two compared evaluations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The name that the caller gave it, such as its file.
    pub name: String,
    /// The name of the network or of the model.
    pub network: String,
    /// The name of the data or of the text.
    pub data: String,
    /// The samples, or the predicted tokens.
    pub samples: usize,
    /// The version of Aleatron that made it.
    pub version: String,
    /// The cells or runs that are missing.
    pub unfinished: usize,
    /// The runs that contributed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingDifference {
    /// The name.
    pub setting: String,
    /// The value in the first evaluation.
    pub a: String,
    /// The value in the second.
    pub b: String,
}

/// The identity of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowKey {
    /// The generator.
    pub generator: String,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<String>,
}

/// A row of both evaluations. Of each pair, the first is that of the first evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowDifference {
    /// The identity of the row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The stream lengths as text: the shortest and the longest if layers differ.
    pub bits: [String; 2],
    /// The scores.
    pub score: ScoreDifference,
    /// The coefficients of determination of a regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<[f64; 2]>,
    /// The fewest mean cycles of early termination that lose at most half a point; `None` if there
    /// are none.
    #[serde(skip_serializing_if = "is_empty")]
    pub early_cycles: [Option<f64>; 2],
    /// The costs of circuits, if there are any.
    #[serde(skip_serializing_if = "is_empty", serialize_with = "costs")]
    pub cost: [Option<CostFigures>; 2],
}

fn is_empty<T>(pair: &[Option<T>; 2]) -> bool {
    pair.iter().all(Option::is_none)
}

fn costs<S: Serializer>(pair: &[Option<CostFigures>; 2], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pair)
}

/// Compares two evaluations of the same network on the same data; `across` has the subjects that
/// may differ. Names are for messages.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Plan, compare, evaluate};
/// use aleatron_engine::network::Network;
///
/// let (network, data) = (Network::digits_noise_aware()?, Dataset::digits_test());
/// let plan = Plan { lengths: vec![16], generators: vec!["sobol".parse()?], ..Plan::default() };
/// let other = Plan { width: "4".parse()?, ..plan.clone() };
/// let a = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())?;
/// let b = evaluate(&network, &data, &other, None, Cancel::NEVER, |_| ())?;
/// let found = compare(["a", "b"], [&a, &b], &[])?;
/// assert_eq!((found.rows.len(), found.settings[0].setting.as_str()), (1, "width"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Incomparable`] if the tasks differ, or another subject that is not in `across`.
pub fn compare(
    names: [&str; 2],
    evaluations: [&Evaluation; 2],
    across: &[Subject],
) -> Result<Comparison> {
    let [a, b] = evaluations;
    let refuse = |subject, what: [String; 2]| refusal(names, subject, what);
    let tasks = evaluations.map(|evaluation| match evaluation.float {
        Figures::Classification(_) => "a classification".to_owned(),
        Figures::Regression(_) => "a regression".to_owned(),
    });
    if tasks[0] != tasks[1] {
        return Err(refuse(Subject::Task, tasks));
    }
    let identity = |name: &str, fingerprint: &str| format!("{name} ({fingerprint})");
    if a.network.fingerprint != b.network.fingerprint && !across.contains(&Subject::Network) {
        let networks = evaluations.map(|e| identity(&e.network.name, &e.network.fingerprint));
        return Err(refuse(Subject::Network, networks));
    }
    if a.data.fingerprint != b.data.fingerprint && !across.contains(&Subject::Data) {
        let data = evaluations.map(|e| identity(&e.data.name, &e.data.fingerprint));
        return Err(refuse(Subject::Data, data));
    }
    let is_classification = a.float.classification().is_some();
    let score = match is_classification {
        true => ComparedScore::Accuracy,
        false => ComparedScore::RootMeanSquareError,
    };
    let [rows_a, rows_b] = evaluations.map(Evaluation::rows);
    let mut rows = Vec::new();
    for row in &rows_a {
        if let Some(other) = rows_b.iter().find(|other| key(other) == key(row)) {
            rows.push(row_difference(evaluations, [row, other]));
        }
    }
    let only = |own: &[Row], others: &[Row]| -> Vec<RowKey> {
        let alone = own.iter().filter(|row| others.iter().all(|other| key(other) != key(row)));
        alone.map(key).collect()
    };
    let side = |k: usize| Compared {
        name: names[k].to_owned(),
        network: evaluations[k].network.name.clone(),
        data: evaluations[k].data.name.clone(),
        samples: evaluations[k].data.samples,
        version: evaluations[k].version.clone(),
        unfinished: evaluations[k].unfinished,
        provenance: evaluations[k].provenance.clone(),
    };
    let statistics = statistics(score, evaluations, &rows);
    Ok(Comparison {
        a: side(0),
        b: side(1),
        score,
        settings: settings(evaluations)?,
        float: float(evaluations),
        only_a: only(&rows_a, &rows_b),
        only_b: only(&rows_b, &rows_a),
        rows,
        statistics,
    })
}

/// Returns the error of evaluations whose subjects differ.
fn refusal(names: [&str; 2], subject: Subject, what: [String; 2]) -> Error {
    let [a, b] = names.map(str::to_owned);
    let [of_a, of_b] = what;
    Error::Incomparable { a, b, subject, reason: format!("{of_a} and {of_b}") }
}

fn key(row: &Row) -> RowKey {
    RowKey {
        generator: row.generator.to_string(),
        length: row.length,
        faults: row.faults.map(|faults| faults.to_string()),
    }
}

/// Compares the scores of floating point.
fn float(evaluations: [&Evaluation; 2]) -> ScoreDifference {
    let [a, b] = evaluations;
    match (&a.float, &b.float) {
        (Figures::Classification(a), Figures::Classification(b)) => {
            let samples = evaluations.map(|evaluation| evaluation.data.samples);
            proportions([a.accuracy, b.accuracy], samples, Noise::Exact)
        }
        (Figures::Regression(a), Figures::Regression(b)) => {
            seeds([a.root_mean_square, b.root_mean_square], Noise::Exact)
        }
        // Both have been found to be of one task.
        _ => seeds([a.float.score(), b.float.score()], Noise::Exact),
    }
}

/// Compares one row of both evaluations.
fn row_difference(evaluations: [&Evaluation; 2], rows: [&Row; 2]) -> RowDifference {
    let value = |cell: &Cell| match &cell.figures {
        Figures::Classification(figures) => figures.accuracy,
        Figures::Regression(figures) => figures.to_targets.root_mean_square,
    };
    let runs = |k: usize| -> BTreeMap<u64, f64> {
        let row = rows[k];
        let own = evaluations[k].cells.iter().filter(|cell| {
            (cell.generator, cell.faults, cell.length) == (row.generator, row.faults, row.length)
        });
        own.map(|cell| (cell.seed, value(cell))).collect()
    };
    let is_seeded = |k: usize| {
        let plan = Plan { seeds: 2, ..evaluations[k].plan.clone() };
        plan.seeds_of(&rows[k].generator, rows[k].faults).end > 1
    };
    let runs = [runs(0), runs(1)];
    let noise = Noise::new([&runs[0], &runs[1]], [is_seeded(0), is_seeded(1)]);
    let means =
        [0, 1].map(|k| super::statistics::mean(&runs[k].values().copied().collect::<Vec<_>>()));
    let early = |k: usize| {
        let stop = evaluations[k].has_early(rows[k]).then(|| rows[k].early_within(0.5)).flatten();
        stop.map(|stop| stop.mean_cycles)
    };
    let cost = |k: usize| rows[k].cost.as_ref().and_then(CircuitCost::figures).copied();
    let r_squared = |k: usize| rows[k].figures.regression().map(|r| r.to_targets.r_squared.mean);
    RowDifference {
        key: key(rows[0]),
        bits: rows.map(Row::bits),
        score: match rows[0].figures {
            Figures::Classification(_) => {
                proportions(means, evaluations.map(|evaluation| evaluation.data.samples), noise)
            }
            Figures::Regression(_) => seeds(means, noise),
        },
        r_squared: r_squared(0).zip(r_squared(1)).map(|(a, b)| [a, b]),
        early_cycles: [early(0), early(1)],
        cost: [cost(0), cost(1)],
    }
}

/// Describes the statistics of the intervals, and what they leave out.
fn statistics(
    score: ComparedScore,
    evaluations: [&Evaluation; 2],
    rows: &[RowDifference],
) -> Vec<String> {
    let [a, b] = evaluations;
    let mut out = Vec::new();
    if score == ComparedScore::Accuracy {
        let same = match a.data.fingerprint == b.data.fingerprint {
            true => {
                "both ran the same samples, but result files have no result of each sample, so that a paired test (McNemar's) is \
                 impossible; the interval treats the samples as independent, which makes it wider than a paired one if both are \
                 right on the same samples"
            }
            false => "the samples of both are independent",
        };
        out.push(format!(
            "samples: 95 % interval of the difference of two proportions by Newcombe's hybrid score (1998, method 10); {same}"
        ));
    } else {
        out.push(
            "samples: the result files have no result of each sample, so that no interval covers the choice of samples; \
             differences hold for these samples"
                .to_owned(),
        );
    }
    out.extend(seed_statistics(rows, score));
    out
}

/// Describes how the noise of seeds is accounted for.
pub(super) fn seed_statistics(rows: &[RowDifference], score: ComparedScore) -> Vec<String> {
    let has = |method: Method| rows.iter().any(|row| row.score.method == method);
    let mut out = Vec::new();
    if has(Method::PairedSeeds) {
        out.push(
            "paired seeds: Student's t interval of the differences of runs with the same seed"
                .to_owned(),
        );
    }
    if has(Method::IndependentSeeds) {
        out.push("independent seeds: Welch's t interval, since both have other seeds".to_owned());
    }
    if has(Method::OneSeed) {
        out.push(
            "one seed: the noise of seeds is unknown and in no interval, so that no difference is known to be outside; run both with \
             --seeds 3 or more"
                .to_owned(),
        );
    }
    if score == ComparedScore::Accuracy
        && (has(Method::PairedSeeds) || has(Method::IndependentSeeds))
    {
        out.push("both sources of noise are added as the root of the sum of squares".to_owned());
    }
    if rows.len() > 1 {
        out.push(format!(
            "intervals are of single rows: of {} equal rows, one in twenty is expected outside",
            rows.len()
        ));
    }
    out
}

/// Returns the settings that differ, by the JSON of the plans, and the identity of the subjects.
fn settings(evaluations: [&Evaluation; 2]) -> Result<Vec<SettingDifference>> {
    let [a, b] = evaluations;
    let mut out = Vec::new();
    let mut add = |setting: &str, a: String, b: String| {
        if a != b {
            out.push(SettingDifference { setting: setting.to_owned(), a, b });
        }
    };
    let of = |name: &str, fingerprint: &str| format!("{name} ({fingerprint})");
    let network = |e: &Evaluation| of(&e.network.name, &e.network.fingerprint);
    add("network", network(a), network(b));
    let data = |e: &Evaluation| of(&e.data.name, &e.data.fingerprint);
    add("data", data(a), data(b));
    add("version", a.version.clone(), b.version.clone());
    let plan = |evaluation: &Evaluation| -> Result<serde_json::Map<String, Value>> {
        match serde_json::to_value(&evaluation.plan) {
            Ok(Value::Object(plan)) => Ok(plan),
            Ok(_) => Ok(serde_json::Map::new()),
            Err(error) => Err(Error::Format { file: "plan".to_owned(), reason: error.to_string() }),
        }
    };
    let [plan_a, plan_b] = [plan(a)?, plan(b)?];
    let mut names: Vec<&String> = plan_a.keys().chain(plan_b.keys()).collect();
    names.sort();
    names.dedup();
    let show = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    for name in names {
        add(&name.replace('_', " "), show(plan_a.get(name)), show(plan_b.get(name)));
    }
    out.extend(origins([&a.provenance, &b.provenance]));
    Ok(out)
}

/// Returns the differences of the runs: their calibration and their processor. Runs that computed
/// nothing, such as the merging of shards, have neither.
pub(super) fn origins(runs: [&[Provenance]; 2]) -> Vec<SettingDifference> {
    let calibration = runs.map(|runs| newest_source(runs, "calibration").map(shown));
    let tier = runs.map(|runs| newest_tier(runs).map(str::to_owned));
    let pairs = [("calibration", calibration), ("SIMD tier", tier)];
    let differ = pairs.into_iter().filter_map(|(setting, pair)| match pair {
        [Some(a), Some(b)] if a != b => {
            Some(SettingDifference { setting: setting.to_owned(), a, b })
        }
        _ => None,
    });
    differ.collect()
}

/// Returns the SIMD tier of the newest run that computed something.
pub(super) fn newest_tier(runs: &[Provenance]) -> Option<&str> {
    let computed = runs.iter().rev().find(|run| run.device.is_some());
    computed.or(runs.last()).map(|run| run.simd_tier.as_str())
}

/// Returns the source with a role of the newest run that has one.
pub(super) fn newest_source<'a>(runs: &'a [Provenance], role: &str) -> Option<&'a Source> {
    runs.iter().rev().find_map(|run| run.sources.iter().find(|source| source.role == role))
}

/// Returns a source as text: its name and the beginning of its hash.
pub(super) fn shown(source: &Source) -> String {
    match &source.sha256 {
        Some(hash) => format!("{} ({})", source.name, hash.get(..16).unwrap_or(hash)),
        None => source.name.clone(),
    }
}

impl Comparison {
    /// Returns the comparison as JSON.
    ///
    /// # Errors
    /// [`Error::Format`] if it cannot be written.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Format {
            file: "comparison".to_owned(),
            reason: error.to_string(),
        })
    }
}
