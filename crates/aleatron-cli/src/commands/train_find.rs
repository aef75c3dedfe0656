//! `aleatron train --find`: the shortest streams of each layer that a network can be trained for.

use super::eval::progress_bar;
use super::find::{LAYERS_NAME, NAME, PAGE_NAME, held};
use super::report::{LOCK_NAME, fault, open_folder};
use super::train::{Arguments, Subject};
use super::{Failure, Outcome};
use crate::{Verdict, output};
use aleatron::Cancel;
use aleatron::eval::report::{LengthsRow, trained_search};
use aleatron::eval::{Evaluation, FileLock, Found, Plan, Search, add_cost, plural};
use aleatron::network::{LayerOverride, Network, layers_to_json};
use aleatron::train::{Epoch, LengthProgress, Progress, TrainedLengths, train_lengths};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The result, for `--json`.
#[derive(serde::Serialize)]
struct Result<'a> {
    found: &'a Found,
    without_retraining: &'a Found,
    comparison: &'a [LengthsRow],
    before: &'a Evaluation,
    after: &'a Evaluation,
    /// The epochs of the last accepted trial.
    epochs: &'a [Epoch],
    best_epoch: usize,
    seconds: f64,
}

/// Refuses options that a search cannot have.
pub(super) fn check(arguments: &Arguments, loss: f64) -> std::result::Result<(), Failure> {
    if !(0.0..=100.0).contains(&loss) {
        return Err(Failure::Usage(format!(
            "--find: {loss} is not a number of percentage points from 0 to 100"
        )));
    }
    if arguments.generators.len() > 1 {
        return Err(Failure::Usage("--find: give one generator with --generators".to_owned()));
    }
    if arguments.lengths.iter().max() == arguments.lengths.iter().min() {
        return Err(Failure::Usage(
            "--find: give the least and the greatest length of a layer, as in --lengths 4,64"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Locks the folder of a report. Refuses a folder with a search of something else, and one with an
/// unfinished search, unless it was a training that can go on from `checkpoint`.
pub(super) fn open_report(
    folder: &Path,
    network: &Network,
    checkpoint: Option<&Path>,
) -> std::result::Result<FileLock, Failure> {
    let lock = open_folder(folder, LOCK_NAME)?;
    let refuse = |reason: &str| {
        Err(fault(folder, &format!("{reason}; choose another folder, or remove its {NAME}")))
    };
    let can_go_on = |found: &Found| {
        found.trials.iter().any(|trial| trial.untrained.is_some())
            && checkpoint.is_some_and(Path::exists)
    };
    let layers = || network.stream_layers().map(|(_, layer)| &layer.name);
    match held(folder) {
        Some(Err(_)) => refuse("it holds a search of something else"),
        Some(Ok(found)) if !found.layers.iter().eq(layers()) => {
            refuse("it holds a search of another network")
        }
        Some(Ok(found)) if !found.is_finished && !can_go_on(&found) => {
            refuse("it holds an unfinished search")
        }
        Some(Ok(_)) | None => Ok(lock),
    }
}

pub(super) fn run(
    arguments: &Arguments,
    loss: f64,
    subject: &Subject,
    cancel: Cancel<'_>,
) -> Outcome {
    let (Some(&generator), Some(&longest), Some(&shortest)) = (
        arguments.generators.first(),
        arguments.lengths.iter().max(),
        arguments.lengths.iter().min(),
    ) else {
        return Err(Failure::Usage("--find needs a generator and lengths".to_owned()));
    };
    let search = Search { generator, loss, longest, shortest, budget: arguments.budget };
    let start = Instant::now();
    let Subject { network, test, plan, provenance, .. } = subject;
    // Before the search, so that unsuitable test samples are refused at once.
    let uniform = Plan { lengths: vec![longest], ..plan.clone() };
    let given = score(&arguments.evaluate(network, test, &uniform, cancel)?);
    let mut trained = search_lengths(arguments, subject, &search, cancel)?;
    let network_after = trained.trained.network.clone();
    add_cost(&network_after, test, plan, &mut trained.found);
    add_cost(network, test, plan, &mut trained.without_retraining);
    for found in [&mut trained.found, &mut trained.without_retraining] {
        found.provenance.push(provenance.clone());
    }
    if let Some(path) = &arguments.out {
        network_after.save(path)?;
    }
    let layers = layers_to_json(&overrides(&trained.found))?;
    if let Some(path) = &arguments.out_layers {
        aleatron::eval::write(path, &layers)?;
    }
    if let Some(folder) = &arguments.report {
        aleatron::eval::write(folder.join(NAME), &trained.found.to_json()?)?;
        aleatron::eval::write(folder.join(LAYERS_NAME), &layers)?;
    }
    let comparison = Compared::new(arguments, subject, &trained, &search, given, cancel)?;
    let TrainedLengths { trained, found, without_retraining } = &trained;
    let Compared { rows, before, after } = &comparison;
    if let Some(folder) = &arguments.report {
        for (name, text) in [
            (PAGE_NAME, trained_search(found, rows, network.name())),
            ("before.json", before.to_json()?),
            ("after.json", after.to_json()?),
        ] {
            aleatron::eval::write(folder.join(name), &text)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        let (epochs, best_epoch) = (&trained.history[..], trained.best_epoch);
        output::json(&Result {
            found,
            without_retraining,
            comparison: rows,
            before,
            after,
            epochs,
            best_epoch,
            seconds,
        })?;
    } else {
        print(arguments, subject, [found, without_retraining], rows, seconds)?;
    }
    Ok(if found.is_good() { Verdict::Good } else { Verdict::Bad })
}

/// Runs the search with a progress bar and a line for each trial.
fn search_lengths(
    arguments: &Arguments,
    subject: &Subject,
    search: &Search,
    cancel: Cancel<'_>,
) -> std::result::Result<TrainedLengths, Failure> {
    let Subject { network, data, plan, options, .. } = subject;
    let bar = progress_bar();
    let (mut per_epoch, mut shown) = (1, 0);
    let found =
        train_lengths(network, data, plan, search, options, cancel, &mut |report| match report {
            LengthProgress::Training { trial, progress } => match progress {
                Progress::Start { steps, .. } => {
                    per_epoch = steps as u64;
                    bar.set_length(per_epoch * options.epochs as u64);
                    bar.set_position(0);
                }
                Progress::Step { epoch, step, loss } => {
                    bar.set_position((epoch as u64 - 1) * per_epoch + step as u64);
                    bar.set_message(format!("trial {trial}, epoch {epoch}, loss {loss:.4}"));
                }
                _ => {}
            },
            LengthProgress::Diverged { trial, error } => {
                bar.println(format!("trial {trial:>3}: weights remain as they were: {error}"));
            }
            LengthProgress::Search(found) => {
                for index in shown..found.trials.len() {
                    bar.println(trial_line(found, index));
                }
                shown = found.trials.len();
            }
            LengthProgress::WithoutRetraining(found) => {
                bar.set_length(search.budget as u64);
                bar.set_position(found.trials.len() as u64);
                bar.set_message("trials without training");
            }
            _ => {}
        });
    bar.finish_and_clear();
    found.map_err(|error| arguments.failure(error))
}

/// The networks before and after on the test samples.
struct Compared {
    rows: Vec<LengthsRow>,
    /// The given network with the lengths of the result.
    before: Evaluation,
    /// The trained network with them.
    after: Evaluation,
}

/// Returns the score of the only row of an evaluation.
fn score(evaluation: &Evaluation) -> f64 {
    evaluation.rows().first().map_or(f64::NAN, aleatron::eval::Row::score)
}

impl Compared {
    /// Evaluates the networks; `given` is the score of the given one with its longest streams.
    fn new(
        arguments: &Arguments,
        subject: &Subject,
        result: &TrainedLengths,
        search: &Search,
        given: f64,
        cancel: Cancel<'_>,
    ) -> std::result::Result<Self, Failure> {
        let Subject { network, test, plan, provenance, .. } = subject;
        let TrainedLengths { trained, found, without_retraining: without } = result;
        let evaluate = |network: &Network, found: &Found| {
            let plan =
                Plan { lengths: vec![search.longest], layers: overrides(found), ..plan.clone() };
            let mut evaluation = arguments.evaluate(network, test, &plan, cancel)?;
            evaluation.provenance.push(provenance.clone());
            Ok::<_, Failure>(evaluation)
        };
        let uniform = Found {
            lengths: vec![search.longest; found.layers.len()],
            bit_macs: found.bit_macs_before,
            ..without.clone()
        };
        let fixed = score(&evaluate(network, without)?);
        let (before, after) = (evaluate(network, found)?, evaluate(&trained.network, found)?);
        let unfinished = |name: &str, found: &Found| match found.is_finished {
            true => name.to_owned(),
            false => format!("{name} (unfinished)"),
        };
        let row = |name: &str, found: &Found, validation: Option<f64>, test: f64| LengthsRow {
            name: name.to_owned(),
            lengths: found.lengths.clone(),
            bit_macs: Some(found.bit_macs),
            validation,
            test,
        };
        let float = |name: &str, validation: Option<f64>, test: f64| LengthsRow {
            name: name.to_owned(),
            lengths: Vec::new(),
            bit_macs: None,
            validation,
            test,
        };
        let first = found.trials.first().and_then(|trial| trial.untrained);
        let rows = vec![
            float("given, floating point", Some(found.float_score), before.float.score()),
            row("given", &uniform, first, given),
            row(
                &unfinished("given, found without training", without),
                without,
                without.measured_score(),
                fixed,
            ),
            row("given, found with training", found, None, score(&before)),
            row(
                &unfinished("trained, found with training", found),
                found,
                found.measured_score(),
                score(&after),
            ),
            float("trained, floating point", None, after.float.score()),
        ];
        Ok(Self { rows, before, after })
    }
}

/// Returns the lengths of a search as settings of layers.
fn overrides(found: &Found) -> BTreeMap<String, LayerOverride> {
    let own = |length: usize| LayerOverride { length: Some(length), ..LayerOverride::default() };
    let lengths = found.lengths.iter().map(|&length| own(length));
    found.layers.iter().cloned().zip(lengths).collect()
}

fn joined(lengths: &[usize]) -> String {
    lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
}

fn trial_line(found: &Found, index: usize) -> String {
    let Some(trial) = found.trials.get(index) else { return String::new() };
    let before = trial.untrained.map_or_else(String::new, |score| found.measure.show(score));
    let verdict = if trial.score >= found.bar { "accepted" } else { "rejected" };
    format!(
        "trial {:>3}: {} bits: {before} before training, {} after; {verdict}",
        index + 1,
        joined(&trial.lengths),
        found.measure.show(trial.score)
    )
}

fn print(
    arguments: &Arguments,
    Subject { network, plan, .. }: &Subject,
    [found, without]: [&Found; 2],
    rows: &[LengthsRow],
    seconds: f64,
) -> std::io::Result<()> {
    let show = |score: f64| found.measure.show(score);
    output::line(format!(
        "Network {}, {}: floating point {}, {} {} wanted on the validation samples\n",
        network.name(),
        found.generator,
        show(found.float_score),
        found.measure.bound(),
        show(found.bar),
    ))?;
    for index in 0..found.trials.len() {
        output::line(trial_line(found, index))?;
    }
    let width = found.layers.iter().map(|layer| layer.chars().count()).max().unwrap_or(0).max(5);
    output::line(format!(
        "\n{:width$}  {:>12}  {:>16}  {:>13}",
        "layer", "products", "without training", "with training"
    ))?;
    for (k, layer) in found.layers.iter().enumerate() {
        let (products, bits) = (found.products[k], found.lengths[k]);
        let fixed = without
            .measured_score()
            .map_or_else(|| "-".to_owned(), |_| without.lengths[k].to_string());
        output::line(format!("{layer:width$}  {products:>12}  {fixed:>16}  {bits:>13}"))?;
    }
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let bits = rows.iter().map(|row| joined(&row.lengths).len()).max().unwrap_or(0).max(4);
    output::line(format!(
        "\n{:names$}  {:>bits$}  {:>12}  {:>10}  {:>10}",
        "network", "bits", "bit-MACs", "validation", "test"
    ))?;
    for row in rows {
        let macs = row.bit_macs.map_or_else(String::new, |bit_macs| bit_macs.to_string());
        let validation = row.validation.map_or_else(|| "-".to_owned(), show);
        output::line(format!(
            "{:names$}  {:>bits$}  {macs:>12}  {validation:>10}  {:>10}",
            row.name,
            joined(&row.lengths),
            show(row.test)
        ))?;
    }
    let saved = |bits: u64| 100.0 * (1.0 - bits as f64 / found.bit_macs_before.max(1) as f64);
    let fixed = match without.has_good_lengths() {
        true => format!(", {:.2} % without training", saved(without.bit_macs)),
        false => String::new(),
    };
    output::line(format!(
        "\n{:.2} % of {} bit-MACs saved{fixed}; {}, {seconds:.1} s",
        saved(found.bit_macs),
        found.bit_macs_before,
        plural(found.trials.len(), "trial"),
    ))?;
    if !found.is_finished {
        output::line(
            "the search has not finished: go on with --checkpoint FILE and a larger --budget",
        )?;
    } else if !found.has_good_lengths() {
        output::line("not even the longest streams are good enough")?;
    }
    if let Some(path) = &arguments.out {
        output::line(format!("Network: {}", path.display()))?;
    }
    output::line(format!("Options of eval: {}", eval_options(arguments, plan, found)))?;
    if let Some(folder) = &arguments.report {
        output::line(format!("Report: {}", folder.join(PAGE_NAME).display()))?;
    }
    Ok(())
}

/// Returns the options with which `aleatron eval` runs the result.
fn eval_options(arguments: &Arguments, plan: &Plan, found: &Found) -> String {
    let mut options = vec![format!("--clip --generators {}", found.generator)];
    let default = Plan::default();
    if plan.width != default.width {
        options.push(format!("--width {}", plan.width));
    }
    if plan.sharing != default.sharing {
        options.push(format!("--sharing {}", plan.sharing));
    }
    if plan.arithmetic != default.arithmetic {
        options.push(format!("--arithmetic {}", plan.arithmetic));
    }
    match (&arguments.out_layers, &arguments.report) {
        (Some(file), _) => options.push(format!("--layers {}", file.display())),
        (None, Some(folder)) => {
            options.push(format!("--layers {}", folder.join(LAYERS_NAME).display()));
        }
        (None, None) => {
            let each = found.layers.iter().zip(&found.lengths);
            options.extend(each.map(|(layer, length)| format!("--layer {layer}:length={length}")));
        }
    }
    options.join(" ")
}
