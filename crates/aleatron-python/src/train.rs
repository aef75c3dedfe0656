//! Training behind `train`.

use crate::error::exception;
use crate::evaluation::{Labels, dataset, network_of, with_progress};
use crate::network::Network;
use crate::plan::EvaluationPlan;
use aleatron::network::StreamConfig;
use aleatron::train::batches::{Augmentation, Flip};
use aleatron::train::{
    AdamOptions, Forward, OptimizerKind, Progress, Score, SgdOptions, TrainOptions, train_with,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A validation score: loss and accuracy.
type ScorePair = (f64, Option<f64>);

/// An epoch: loss, learning rate and validation score.
type EpochRow = (f64, f64, Option<ScorePair>);

/// The network, the validation score before training, the epochs and the best one.
type Trained = (Network, Option<ScorePair>, Vec<EpochRow>, usize);

/// Trains. `plan` has the lengths and generators; `progress` is called with (steps done, all steps,
/// "epoch", epoch, 0) and ends the training by raising.
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
    checkpoint: Option<PathBuf>,
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
        checkpoint,
        ..TrainOptions::default()
    };
    let (trained, raised) = with_progress(py, None, progress, |cancel, reporter| {
        let mut per_epoch = 1;
        let trained =
            train_with(&network, &data, &options, cancel, &mut |progress| match progress {
                Progress::Start { steps, .. } => per_epoch = steps,
                Progress::Step { epoch, step, .. } => {
                    reporter.report((
                        (epoch - 1) * per_epoch + step,
                        per_epoch * epochs,
                        "epoch",
                        epoch,
                        0,
                    ));
                }
                _ => {}
            })?;
        Ok((trained, None))
    })?;
    if let Some(raised) = raised {
        return Err(PyErr::from_value(raised.into_bound(py)));
    }
    let pair = |score: Score| (score.loss, score.accuracy);
    let epochs =
        trained.history.iter().map(|epoch| (epoch.loss, epoch.rate, epoch.validation.map(pair)));
    let epochs = epochs.collect();
    Ok((trained.network.into(), trained.before.map(pair), epochs, trained.best_epoch))
}
