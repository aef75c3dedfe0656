//! Evaluating networks of regression: errors instead of accuracy.

use super::assembly::{add_new, merge};
use super::checkpoint::Identity;
use super::job::{check_samples, from_sample};
use super::outline::{cells_of, summarize_data, summarize_plan};
use super::plan::Plan;
use super::result::{DataSummary, NetworkSummary, PlanSummary, bits};
use super::run::Progress;
use super::statistics::{Estimate, mean};
use super::subject::{Subject, bits_of_sample, lengths};
use crate::{Error, Result};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Cancel, Length};
use aleatron_data::Dataset;
use aleatron_engine::VERSION;
use aleatron_engine::network::{Network, StreamConfig};
use aleatron_engine::stream::{Detail, LayerStats, Measured};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How far outputs are from what they should be, over all samples and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The mean of the absolute differences.
    pub mean_absolute: f64,
    /// The root of the mean of their squares.
    pub root_mean_square: f64,
}

/// Errors over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorEstimate {
    /// The mean of the absolute differences.
    pub mean_absolute: Estimate,
    /// The root of the mean of their squares.
    pub root_mean_square: Estimate,
}

/// Everything an evaluation of a network of regression found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressionEvaluation {
    /// The version of Aleatron that made it.
    pub version: String,
    /// The network.
    pub network: NetworkSummary,
    /// The data.
    pub data: DataSummary,
    /// What was to be run; samples are not stopped early.
    pub plan: PlanSummary,
    /// The errors of floating point against the targets.
    pub float: Errors,
    /// What is known to be wrong with generators, each once.
    pub warnings: Vec<String>,
    /// What was run: one cell per generator, length and seed.
    pub cells: Vec<RegressionCell>,
    /// The cells of the plan that were not run.
    pub unfinished: usize,
}

/// One generator, length and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressionCell {
    /// The generator.
    pub generator: String,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The seed.
    pub seed: u64,
    /// The errors of the streams' outputs against the targets.
    pub to_targets: Errors,
    /// The errors of the streams' outputs against those of floating point.
    pub to_float: Errors,
    /// The errors of each layer's counts.
    pub layers: Vec<LayerStats>,
    /// Features that lay outside what the first layer can encode, and were clipped.
    pub clipped: u64,
    /// The time the streams took.
    pub seconds: f64,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
}

/// One generator and length, over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegressionRow {
    /// The generator.
    pub generator: String,
    /// The length of streams, except in layers with a length of their own.
    pub length: usize,
    /// The stream length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The errors against the targets.
    pub to_targets: ErrorEstimate,
    /// The errors against floating point.
    pub to_float: ErrorEstimate,
    /// The mean error of each layer's counts; the worst is over all seeds.
    pub layers: Vec<LayerStats>,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Products of bits per second.
    pub bit_macs_per_second: f64,
}

/// Sums of differences.
#[derive(Default)]
struct Sums {
    absolute: f64,
    squares: f64,
    n: usize,
}

impl Sums {
    fn add(&mut self, outputs: &[f64], others: &[f64]) {
        for (output, other) in outputs.iter().zip(others) {
            let difference = output - other;
            self.absolute += difference.abs();
            self.squares += difference * difference;
        }
        self.n += outputs.len();
    }

    fn errors(&self) -> Errors {
        let n = self.n.max(1) as f64;
        Errors { mean_absolute: self.absolute / n, root_mean_square: (self.squares / n).sqrt() }
    }
}

fn check(subject: &Subject, data: &Dataset, plan: &Plan) -> Result<()> {
    subject.check(plan)?;
    check_samples(data, subject.network().n_features())?;
    match data.n_targets() {
        0 => {
            let (actual, needed) = ("class labels", "targets");
            Err(Error::LabelKind { name: data.name().to_owned(), actual, needed })
        }
        n if n != subject.network().n_outputs() => {
            Err(Error::TargetCount { expected: subject.network().n_outputs(), actual: n })
        }
        _ => subject.check_features(data),
    }
}

/// Runs a network over samples with targets for each generator, length and seed of `plan`, as [`super::evaluate`] does for samples with
/// classes. Samples do not stop early.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Plan, evaluate_regression};
/// use aleatron_engine::network::Network;
///
/// // How near the scores of the embedded network come to those of floating point.
/// let (network, digits) = (Network::digits_noise_aware()?, Dataset::digits_test());
/// let scores = network.forward(digits.features())?;
/// let data = Dataset::with_targets("scores", 64, digits.features().to_vec(), 10, scores)?;
/// let plan = Plan { lengths: vec![16, 256], generators: vec!["sobol".parse()?], ..Plan::default() };
/// let found = evaluate_regression(&network, &data, &plan, None, Cancel::NEVER, |_| ())?;
/// assert_eq!(found.float.root_mean_square, 0.0);
/// assert!(found.cells[1].to_targets.root_mean_square < found.cells[0].to_targets.root_mean_square);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
///
/// # Errors
/// As [`super::evaluate`], [`Error::LabelKind`] for samples with classes, and [`Error::TargetCount`] unless samples have one target per output;
/// [`Error::UnfinishedRegression`], with the cells that are done, if a later cell fails.
pub fn evaluate_regression(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<RegressionEvaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_, RegressionEvaluation>),
) -> Result<RegressionEvaluation> {
    let subject = Subject::new(Arc::new(network.clone()))?;
    let plan = &plan.resolved(&subject);
    check(&subject, data, plan)?;
    let float = subject.forward_all(data, cancel)?;
    if let Some(index) = float.iter().position(|output| !output.is_finite()) {
        return Err(subject.bad_output(index, float[index]));
    }
    let mut sums = Sums::default();
    sums.add(&float, data.targets());
    let mut evaluation = RegressionEvaluation {
        version: VERSION.to_owned(),
        network: subject.summary()?,
        data: summarize_data(data)?,
        plan: PlanSummary { margins: Vec::new(), ..summarize_plan(plan) },
        float: sums.errors(),
        warnings: first_warnings(&subject, data, cancel)?,
        cells: Vec::new(),
        unfinished: 0,
    };
    let lengths = evaluation.plan.lengths.clone();
    let wanted: Vec<(GeneratorName, u64, usize)> = cells_of(plan)
        .into_iter()
        .flat_map(|(generator, seeds)| {
            seeds.into_iter().flat_map({
                let lengths = &lengths;
                move |seed| lengths.iter().map(move |&length| (generator, seed, length))
            })
        })
        .collect();
    if let Some(checkpoint) = checkpoint {
        evaluation.go_on_from(checkpoint)?;
    }
    let total = wanted.len();
    let mut failure = None;
    let mut done = 0;
    for (generator, seed, length) in wanted {
        let name = generator.to_string();
        let same = |cell: &RegressionCell| (&cell.generator, cell.seed, cell.length) == (&name, seed, length);
        if !evaluation.cells.iter().any(same) {
            let config = plan.config(&generator, length, seed);
            let generator = name.as_str();
            let done_before = &evaluation;
            let mut tick =
                || progress(Progress { evaluation: done_before, done, total, generator, length, seed });
            match run(&subject, data, &float, &config, cancel, &mut tick) {
                Ok((cell, warnings)) => {
                    add_new(&mut evaluation.warnings, warnings.into_iter());
                    evaluation.cells.push(cell);
                    evaluation.unfinished = total - (done + 1);
                    evaluation.sort();
                    let (evaluation, done) = (&evaluation, done + 1);
                    progress(Progress { evaluation, done, total, generator, length, seed });
                }
                Err(Error::Core(aleatron_core::Error::Cancelled)) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        done += 1;
    }
    evaluation.unfinished = total - done;
    evaluation.sort();
    match failure {
        None => Ok(evaluation),
        // Without a cell there is nothing to save.
        Some(source) if evaluation.cells.is_empty() => Err(source),
        Some(source) => {
            Err(Error::UnfinishedRegression { done: Box::new(evaluation), source: Box::new(source) })
        }
    }
}

/// Returns warnings about layers whose inputs do not fit the interval of their streams, for the first samples.
fn first_warnings(subject: &Subject, data: &Dataset, cancel: Cancel<'_>) -> Result<Vec<String>> {
    let features = data.samples(0..subject.chunk(data.len()).min(data.len()))?;
    subject.input_warnings(&features, cancel)
}

/// One cell.
fn run(
    subject: &Subject,
    data: &Dataset,
    float: &[f64],
    config: &StreamConfig,
    cancel: Cancel<'_>,
    tick: &mut dyn FnMut(),
) -> Result<(RegressionCell, Vec<String>)> {
    let streams = subject.to_streams(config, cancel)?;
    let n_outputs = subject.network().n_outputs();
    let (mut to_targets, mut to_float) = (Sums::default(), Sums::default());
    let (mut clipped, mut seconds) = (0, 0.0);
    let mut layers: Vec<LayerStats> = Vec::new();
    for (first, features) in data.pieces(subject.chunk(data.len())) {
        tick();
        cancel.check()?;
        let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
        // Fits: evaluations have at most 2^32 samples.
        let made = streams.run(&features?, first as u32, detail, cancel);
        let made = made.map_err(|error| from_sample(error.into(), first))?;
        to_targets.add(&made.scores, &data.targets()[first * n_outputs..]);
        to_float.add(&made.scores, &float[first * n_outputs..]);
        layers.resize(made.statistics.len(), LayerStats::default());
        layers.iter_mut().zip(&made.statistics).for_each(|(sum, more)| merge(sum, more));
        clipped += made.clipped;
        seconds += made.elapsed.as_secs_f64();
    }
    let samples_per_second = data.len() as f64 / seconds.max(1e-9);
    let cell = RegressionCell {
        generator: config.settings.generator.to_string(),
        length: config.settings.length,
        lengths: lengths(subject.layers(), config),
        seed: config.seed,
        to_targets: to_targets.errors(),
        to_float: to_float.errors(),
        layers,
        clipped,
        seconds,
        samples_per_second,
        bit_macs_per_second: samples_per_second * bits_of_sample(subject.layers(), config),
    };
    let mut warnings = subject.warnings(config)?;
    warnings.extend(streams.notes());
    Ok((cell, warnings))
}

impl RegressionEvaluation {
    /// Whether every cell of the plan is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// The evaluation without times and rates, which no two runs have in common.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        for cell in &mut self.cells {
            (cell.seconds, cell.samples_per_second, cell.bit_macs_per_second) = (0.0, 0.0, 0.0);
        }
        self
    }

    fn sort(&mut self) {
        let generators = &self.plan.generators;
        self.cells.sort_by_key(|cell| {
            (generators.iter().position(|known| *known == cell.generator), cell.seed, cell.length)
        });
    }

    fn go_on_from(&mut self, checkpoint: Self) -> Result<()> {
        fn identity(evaluation: &RegressionEvaluation) -> Identity<'_> {
            let RegressionEvaluation { version, network, data, plan, .. } = evaluation;
            Identity { version, network, data, plan }
        }
        identity(self).check(&identity(&checkpoint))?;
        checkpoint.validate()?;
        if checkpoint.float != self.float {
            return Err(Error::Checkpoint("the errors of floating point"));
        }
        self.plan.add(checkpoint.plan);
        self.warnings = checkpoint.warnings;
        self.cells = checkpoint.cells;
        Ok(())
    }

    /// The cells summed up over seeds, by generator and then by length, in the order of the plan.
    #[must_use]
    pub fn rows(&self) -> Vec<RegressionRow> {
        let keys = self.plan.generators.iter().flat_map(|g| self.plan.lengths.iter().map(move |&l| (g, l)));
        keys.filter_map(|(generator, length)| {
            let cells = self.cells.iter();
            RegressionRow::new(
                &cells
                    .filter(|cell| cell.generator == *generator && cell.length == length)
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
    }

    /// The evaluation as JSON.
    ///
    /// # Errors
    /// What the writer of JSON says; not for an evaluation made by [`evaluate_regression`].
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| fault(error.to_string()))
    }

    /// Reads an evaluation from JSON and checks that its numbers can be those of one.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        read.validate()?;
        Ok(read)
    }

    fn validate(&self) -> Result<()> {
        self.plan.validate().map_err(fault)?;
        let is_error = |value: f64| (0.0..f64::INFINITY).contains(&value);
        let sound = |errors: &Errors| is_error(errors.mean_absolute) && is_error(errors.root_mean_square);
        if !sound(&self.float) {
            return Err(fault("the errors of floating point cannot be true".to_owned()));
        }
        let mut seen = std::collections::BTreeSet::new();
        for cell in &self.cells {
            let RegressionCell { generator, length, seed, .. } = cell;
            let cell_fault =
                |reason: &str| Err(fault(format!("cell {generator}, {length} bits, seed {seed}: {reason}")));
            generator.parse::<GeneratorName>()?;
            for &length in cell.lengths.iter().chain([length]) {
                Length::new(length)?;
            }
            if !self.plan.generators.contains(generator) || !self.plan.lengths.contains(length) {
                return cell_fault("it is not of the plan");
            }
            let rates = [cell.seconds, cell.samples_per_second, cell.bit_macs_per_second];
            let of_layers = cell.layers.iter();
            let mut of_layers =
                of_layers.flat_map(|l| [l.mean_count, l.worst_count, l.mean_value, l.worst_value]);
            if !sound(&cell.to_targets) || !sound(&cell.to_float) || !rates.into_iter().all(is_error) {
                return cell_fault("its errors or times cannot be true");
            }
            if cell.layers.len() != self.network.layers.len()
                || cell.lengths.is_empty()
                || !of_layers.all(is_error)
            {
                return cell_fault("its layers cannot be true");
            }
            if !seen.insert((generator, length, seed)) {
                return cell_fault("it is there twice");
            }
        }
        Ok(())
    }

    /// One line of comma-separated values for each cell, under a heading.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = "generator,length,seed,mean absolute error,root mean square error,mean absolute error to float,root mean square \
                        error to float,clipped,seconds,samples_per_second,bit_macs_per_second"
            .to_owned();
        for name in &self.network.layers {
            text.push_str(&format!(",{0} mean error,{0} worst error,{0} saturated", name.replace(',', ";")));
        }
        text.push('\n');
        for cell in &self.cells {
            let RegressionCell { generator, length, seed, to_targets, to_float, clipped, seconds, .. } = cell;
            let (samples, products) = (cell.samples_per_second, cell.bit_macs_per_second);
            text.push_str(&format!(
                "{generator},{length},{seed},{},{},{},{},{clipped},{seconds},{samples},{products}",
                to_targets.mean_absolute,
                to_targets.root_mean_square,
                to_float.mean_absolute,
                to_float.root_mean_square
            ));
            for layer in &cell.layers {
                text.push_str(&format!(",{},{},{}", layer.mean_value, layer.worst_value, layer.saturated));
            }
            text.push('\n');
        }
        text
    }
}

impl RegressionRow {
    /// Returns the stream lengths as text: one number, or the shortest and the longest if layers differ.
    #[must_use]
    pub fn bits(&self) -> String {
        bits(&self.lengths, self.length)
    }

    /// Sums up the cells of one generator and length; `None` of none.
    fn new(cells: &[&RegressionCell]) -> Option<Self> {
        let first = cells.first()?;
        let each = |value: &dyn Fn(&RegressionCell) -> f64| -> Vec<f64> {
            cells.iter().map(|cell| value(cell)).collect()
        };
        let estimate = |errors: fn(&RegressionCell) -> Errors| {
            let of = |value: fn(Errors) -> f64| {
                Estimate::new(&each(&|cell| value(errors(cell))), [0.0, f64::INFINITY])
            };
            ErrorEstimate {
                mean_absolute: of(|errors| errors.mean_absolute),
                root_mean_square: of(|errors| errors.root_mean_square),
            }
        };
        let mut layers: Vec<LayerStats> = Vec::new();
        for cell in cells {
            layers.resize(cell.layers.len(), LayerStats::default());
            layers.iter_mut().zip(&cell.layers).for_each(|(sum, more)| merge(sum, more));
        }
        Some(Self {
            generator: first.generator.clone(),
            length: first.length,
            lengths: first.lengths.clone(),
            to_targets: estimate(|cell| cell.to_targets),
            to_float: estimate(|cell| cell.to_float),
            layers,
            samples_per_second: mean(&each(&|cell| cell.samples_per_second)),
            bit_macs_per_second: mean(&each(&|cell| cell.bit_macs_per_second)),
        })
    }
}

fn fault(reason: String) -> Error {
    Error::Format { file: "evaluation".to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_means() {
        let mut sums = Sums::default();
        sums.add(&[1.0, 2.0], &[0.0, 4.0, 9.0]);
        sums.add(&[5.0], &[9.0]);
        let errors = sums.errors();
        assert_eq!(errors.mean_absolute, (1.0 + 2.0 + 4.0) / 3.0);
        assert_eq!(errors.root_mean_square, 7.0_f64.sqrt());
    }
}
