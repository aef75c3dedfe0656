//! Training behind `train`.

use crate::error::exception;
use crate::evaluation::{Labels, Reporter, dataset, network_of, with_progress};
use crate::network::Network;
use crate::plan::EvaluationPlan;
use crate::tensor::run;
use aleatron::Cancel;
use aleatron::data::Dataset;
use aleatron::eval::{self, Plan, Search};
use aleatron::network::StreamConfig;
use aleatron::train::batches::{Augmentation, Flip};
use aleatron::train::{
    AdamOptions, Forward, LengthProgress, OptimizerKind, Progress, Score, SgdOptions, TrainOptions,
    TrainedLengths, train_lengths, train_with,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A validation score: loss and accuracy.
type ScorePair = (f64, Option<f64>);

/// An epoch: loss, learning rate and validation score.
type EpochRow = (f64, f64, Option<ScorePair>);

/// The network, the validation score before training, the epochs, the best one, and the searches
/// with and without training as JSON.
type Trained = (Network, Option<ScorePair>, Vec<EpochRow>, usize, Option<(String, String)>);

/// Trains. `plan` has the lengths and generators; `progress` is called with (steps done, all steps,
/// "epoch", epoch, 0) and ends the training by raising. With `search`, the permitted loss and the
/// budget of a search for the shortest streams of each layer, it is called with (trials done, the
/// most of them, generator, longest length, 0).
#[pyfunction]
#[pyo3(name = "_train")]
pub(crate) fn train(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    labels: Labels,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    through: &str,
    epochs: usize,
    batch: usize,
    rate: f64,
    optimizer: &str,
    validation: f64,
    patience: Option<usize>,
    clip_norm: Option<f64>,
    shift: usize,
    flip: bool,
    seed: u64,
    gradient_device: &str,
    checkpoint: Option<PathBuf>,
    search: Option<(f64, usize)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Trained> {
    let network = network_of(network)?;
    let plan = &plan.get().0;
    let mut data = dataset(&network, x, y, labels, name)?;
    // Augmentation needs the axes of images.
    if shift > 0 || flip {
        data = data
            .with_sample_shape(&network.input_shape())
            .map_err(|error| exception(error, &[]))?;
    }
    let faults = match plan.faults[..] {
        [rate] => {
            let sites = plan.fault_sites.iter().map(|sites| sites.faults(plan.fault_kind, rate));
            sites.collect::<Result<Vec<_>, _>>().map_err(|error| exception(error, &[]))?.concat()
        }
        _ => Vec::new(),
    };
    let config = |length: usize, generator| {
        let config =
            StreamConfig::new(length).generator(generator).width(plan.width).sharing(plan.sharing);
        let mut config =
            config.arithmetic(plan.arithmetic).range(plan.range).device(plan.device.clone());
        config.layers = plan.layers.clone();
        config.faults(faults.clone())
    };
    let pairs =
        plan.lengths.iter().flat_map(|&length| plan.generators.iter().map(move |&g| (length, g)));
    let forward = match through.to_ascii_lowercase().as_str() {
        "streams" => {
            Forward::Streams(pairs.map(|(length, generator)| config(length, generator)).collect())
        }
        "noise" => Forward::Noise { lengths: plan.lengths.clone() },
        "float" => Forward::Float,
        _ => {
            let text =
                format!("through is \"{through}\"; expected \"streams\", \"noise\" or \"float\"");
            return Err(PyValueError::new_err(text));
        }
    };
    let kind = match optimizer.to_ascii_lowercase().as_str() {
        "adam" => OptimizerKind::Adam(AdamOptions::default()),
        "sgd" => OptimizerKind::Sgd(SgdOptions::default()),
        _ => {
            let text = format!("optimizer is \"{optimizer}\"; expected \"adam\" or \"sgd\"");
            return Err(PyValueError::new_err(text));
        }
    };
    let options = TrainOptions {
        epochs,
        batch,
        optimizer: kind.with_rate(rate),
        forward,
        augmentation: Augmentation {
            shift,
            flip: if flip { Flip::Horizontal } else { Flip::Never },
        },
        clip: clip_norm,
        validation,
        patience,
        seed,
        device: run(py, || aleatron_tensor::Device::named(gradient_device))?,
        checkpoint,
        ..TrainOptions::default()
    };
    let ((trained, searches), raised) = with_progress(py, None, progress, |cancel, reporter| {
        let trained = match search {
            Some((loss, budget)) => {
                let search = search_of(plan, loss, budget)?;
                let found = find(&network, &data, plan, &search, &options, cancel, reporter)?;
                let TrainedLengths { trained, found, without_retraining } = found;
                let searches = (found.to_json()?, without_retraining.to_json()?);
                (trained, Some(searches))
            }
            None => (fit(&network, &data, &options, cancel, reporter)?, None),
        };
        Ok((trained, None))
    })?;
    if let Some(raised) = raised {
        return Err(PyErr::from_value(raised.into_bound(py)));
    }
    let pair = |score: Score| (score.loss, score.accuracy);
    let epochs =
        trained.history.iter().map(|epoch| (epoch.loss, epoch.rate, epoch.validation.map(pair)));
    let epochs = epochs.collect();
    Ok((trained.network.into(), trained.before.map(pair), epochs, trained.best_epoch, searches))
}

/// Trains for given lengths.
fn fit(
    network: &aleatron::network::Network,
    data: &Dataset,
    options: &TrainOptions,
    cancel: Cancel<'_>,
    reporter: &Reporter<'_>,
) -> aleatron::train::Result<aleatron::train::Trained> {
    let mut per_epoch = 1;
    train_with(network, data, options, cancel, &mut |progress| match progress {
        Progress::Start { steps, .. } => per_epoch = steps,
        Progress::Step { epoch, step, .. } => reporter.report((
            (epoch - 1) * per_epoch + step,
            per_epoch * options.epochs,
            "epoch",
            epoch,
            0,
        )),
        _ => {}
    })
}

/// Searches for the shortest streams of each layer, with retraining.
fn find(
    network: &aleatron::network::Network,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    options: &TrainOptions,
    cancel: Cancel<'_>,
    reporter: &Reporter<'_>,
) -> aleatron::train::Result<TrainedLengths> {
    let named = search.generator.to_string();
    train_lengths(network, data, plan, search, options, cancel, &mut |progress| {
        if let LengthProgress::Search(found) = progress {
            let done = found.trials.len();
            reporter.report((done, search.budget, &named, search.longest, 0));
        }
    })
}

/// Returns the search between the least and the greatest length of a plan with one generator.
fn search_of(plan: &Plan, loss: f64, budget: usize) -> eval::Result<Search> {
    let (Some(&longest), Some(&shortest), [generator]) =
        (plan.lengths.iter().max(), plan.lengths.iter().min(), &plan.generators[..])
    else {
        return Err(eval::Error::Nothing("lengths, and one generator, to search with"));
    };
    Ok(Search { generator: *generator, loss, longest, shortest, budget })
}
