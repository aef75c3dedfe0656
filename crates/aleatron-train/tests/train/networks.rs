//! Networks trained through their streams.

use std::sync::atomic::{AtomicUsize, Ordering};

use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::{Cancel, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::network::{
    Activation, Calibration, InputScale, Network, NetworkBuilder, StreamConfig, ValueRange,
    WeightScale,
};
use aleatron_train::{
    Error, Forward, Loss, OptimizerKind, Progress, SgdOptions, TrainOptions, calibrate_for, train,
    train_with,
};

/// Returns the first `n` training digits.
fn digits(n: usize) -> Dataset {
    Dataset::digits_train().subset("digits", &(0..n).collect::<Vec<_>>()).unwrap()
}

fn sobol(length: usize) -> StreamConfig {
    StreamConfig::new(length).generator("sobol".parse().unwrap()).range(ValueRange::Saturate)
}

/// Returns the share of the test digits that a network classifies correctly as streams.
fn accuracy(network: &Network, config: &StreamConfig) -> f64 {
    let test = Dataset::digits_test();
    let classes = network.to_streams(config).unwrap().predict(test.features(), 0).unwrap();
    let right = classes.iter().zip(test.labels()).filter(|(class, label)| class == label).count();
    right as f64 / test.len() as f64
}

fn one_step(forward: Forward) -> TrainOptions {
    let optimizer = OptimizerKind::Sgd(SgdOptions { rate: 1.0, momentum: 0.0, weight_decay: 0.0 });
    let schedule = aleatron_train::Schedule::Constant;
    TrainOptions {
        epochs: 1,
        batch: 4,
        optimizer,
        schedule,
        forward,
        validation: 0.0,
        ..TrainOptions::default()
    }
}

/// A network of one layer: the loss of a step is that of the engine's scores, and the step is the
/// gradient of the clipped product.
#[test]
fn step_through_streams_has_the_scores_of_the_engine_and_the_gradient_of_the_product() {
    let weights = [0.5, -0.25, 1.0, 0.75, 0.125, -0.5];
    let bias = [0.1, -0.2];
    for arithmetic in [Arithmetic::Float, Arithmetic::Integer] {
        let network =
            NetworkBuilder::new("one", &[3]).dense("layer", 3, &weights, &bias).build().unwrap();
        // The third feature of the last sample saturates at 1.
        let x = [0.5, 0.25, 0.75, 0.9, 0.1, 0.3, 0.2, 0.6, 0.0, 0.4, 0.8, 1.5];
        let targets = [0.3, 0.1, -0.2, 0.4, 0.0, 0.7, -0.5, 0.2];
        let data = Dataset::with_targets("line", 3, x.to_vec(), 2, targets.to_vec()).unwrap();
        let config = sobol(16).arithmetic(arithmetic);
        let scores = network.to_streams(&config).unwrap().forward(&x, 0).unwrap();
        let mut losses = Vec::new();
        let trained = train_with(
            &network,
            &data,
            &one_step(Forward::Streams(vec![config])),
            Cancel::NEVER,
            &mut |progress| {
                if let Progress::Step { loss, .. } = progress {
                    losses.push(loss);
                }
            },
        )
        .unwrap();
        let errors: Vec<f64> = scores.iter().zip(&targets).map(|(y, t)| y - t).collect();
        let loss: f64 = errors.iter().map(|error| error * error).sum::<f64>() / 8.0;
        assert!((losses[0] - loss).abs() < 1e-6, "{losses:?} {loss}");
        // d loss / d w[n][k] = sum over samples of 2 error[n] clipped x[k] / 8.
        let layer = &trained.network.layers()[0];
        for neuron in 0..2 {
            let mut of_bias = 0.0;
            for k in 0..3 {
                let gradient: f64 = (0..4)
                    .map(|s| 2.0 * errors[2 * s + neuron] * x[3 * s + k].clamp(-1.0, 1.0) / 8.0)
                    .sum();
                let weight = weights[3 * neuron + k] - gradient;
                assert!((f64::from(layer.product.weights[3 * neuron + k]) - weight).abs() < 1e-6);
            }
            (0..4).for_each(|s| of_bias += 2.0 * errors[2 * s + neuron] / 8.0);
            assert!((layer.biases()[neuron] - (bias[neuron] - of_bias)).abs() < 1e-6);
        }
    }
}

#[test]
fn training_through_short_streams_restores_accuracy() {
    let network = Network::digits_plain().unwrap().with_polarity(Polarity::Signed).unwrap();
    let config = sobol(8);
    let before = accuracy(&network, &config);
    let forward = Forward::Streams(vec![config.clone()]);
    let trained = train(
        &network,
        &digits(1437),
        &TrainOptions { epochs: 20, forward, ..TrainOptions::default() },
    )
    .unwrap();
    let after = accuracy(&trained.network, &config);
    // The network has 90 % at 8 bits, and 96 % in floating point. Of 360 digits, two points are
    // seven.
    assert!(after > before + 0.02 && after > 0.93, "{before} {after}");
    assert!(trained.history.last().unwrap().loss < trained.history[0].loss);
    assert_eq!(trained.network.layers()[0].name, network.layers()[0].name);
}

#[test]
fn calibration_for_short_streams_is_at_least_as_good_as_any_percentile() {
    let network = Network::digits_plain().unwrap().with_polarity(Polarity::Signed).unwrap();
    let data = digits(200);
    let config = sobol(8);
    let configs = std::slice::from_ref(&config);
    let (best, share) =
        calibrate_for(&network, &data, configs, WeightScale::PerRow, Cancel::NEVER).unwrap();
    let right = |network: &Network| {
        let classes = network.to_streams(&config).unwrap().predict(data.features(), 0).unwrap();
        classes.iter().zip(data.labels()).filter(|(class, label)| class == label).count()
    };
    for inputs in [InputScale::Maximum, InputScale::Percentile(share), InputScale::Percentile(0.97)]
    {
        let other = network
            .calibrated(data.features(), &Calibration { inputs, ..Calibration::default() })
            .unwrap();
        assert!(right(&best) >= right(&other), "{inputs:?}");
    }
}

#[test]
fn noise_has_the_deviation_of_bernoulli_streams() {
    // A step with a rate of 0 reports the loss alone: the mean square of the noise around the exact
    // product.
    let weights = [0.5, -0.25, 1.0, 0.75];
    for polarity in [Polarity::Signed, Polarity::Bipolar] {
        let network = NetworkBuilder::new("one", &[2])
            .dense("layer", 2, &weights, &[0.0, 0.0])
            .polarity(polarity);
        let network = network.build().unwrap();
        let (n, x) = (2000, [0.5, 0.75]);
        let exact = [0.5 * 0.5 - 0.25 * 0.75, 0.5 + 0.75 * 0.75];
        let data = Dataset::with_targets("same", 2, x.repeat(n), 2, exact.repeat(n)).unwrap();
        let mut options = one_step(Forward::Noise { lengths: vec![16] });
        options.optimizer = options.optimizer.with_rate(0.0);
        options.batch = n;
        let loss = train(&network, &data, &options).unwrap().history[0].loss;
        // Scales of rows: 0.5 and 1.
        let mut expected = 0.0;
        for (row, scale) in [0.5, 1.0].into_iter().enumerate() {
            for k in 0..2 {
                let product = x[k] * weights[2 * row + k] / scale;
                let variance = match polarity {
                    Polarity::Bipolar => 1.0 - product * product,
                    _ => product.abs() - product * product,
                };
                expected += scale * scale * variance / 16.0 / 2.0;
            }
        }
        // The mean of 4,000 squares of normal numbers has a relative deviation of sqrt(2 / 4000) =
        // 2.2 %, or 3.2 % if one row dominates.
        assert!((loss / expected - 1.0).abs() < 0.16, "{polarity:?}: {loss} {expected}");
    }
}

/// Scales that leave out the largest inputs make these saturate, in training with noise and in the
/// evaluation after it.
#[test]
fn noise_trains_networks_whose_inputs_saturate() {
    let data = Dataset::digits_test().subset("some", &(0..64).collect::<Vec<_>>()).unwrap();
    let inputs = InputScale::Percentile(0.9);
    let network = Network::digits_plain().unwrap();
    let network = network
        .calibrated(data.features(), &Calibration { inputs, ..Calibration::default() })
        .unwrap();
    let mut options = one_step(Forward::Noise { lengths: vec![16] });
    options.validation = 0.25;
    let trained = train(&network, &data, &options).unwrap();
    assert!(trained.history[0].loss.is_finite());
    let streams =
        trained.network.to_streams(&StreamConfig::new(16).range(ValueRange::Saturate)).unwrap();
    assert_eq!(streams.forward(data.features(), 0).unwrap().len(), 64 * 10);
}

#[test]
fn training_is_deterministic_and_resumes_from_a_checkpoint_with_the_same_bits() {
    let network = Network::digits_plain().unwrap();
    let folder = std::env::temp_dir().join(format!("aleatron-train-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let data = digits(300);
    let forward = Forward::Streams(vec![StreamConfig::new(16), sobol(8)]);
    let options = TrainOptions { epochs: 3, forward, ..TrainOptions::default() };
    let whole = train(&network, &data, &options).unwrap();
    assert_eq!(train(&network, &data, &options).unwrap().network, whole.network);
    let other = train(&network, &data, &TrainOptions { seed: 1, ..options.clone() }).unwrap();
    assert_ne!(other.network, whole.network);

    // Cancelled in the second epoch, and resumed.
    let path = folder.join("state");
    let options = TrainOptions { checkpoint: Some(path.clone()), ..options };
    let steps = AtomicUsize::new(0);
    let is_over = || steps.load(Ordering::Relaxed) > 6;
    let cancel = Cancel::when(&is_over);
    let cut = train_with(&network, &data, &options, cancel, &mut |progress| {
        if let Progress::Step { .. } = progress {
            steps.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(matches!(cut, Err(Error::Core(aleatron_core::Error::Cancelled))), "{cut:?}");
    let mut epochs = Vec::new();
    let resumed = train_with(&network, &data, &options, Cancel::NEVER, &mut |progress| {
        if let Progress::Epoch(epoch) = progress {
            epochs.push(epoch.epoch);
        }
    })
    .unwrap();
    assert_eq!(epochs, [2, 3]);
    assert_eq!(resumed.network, whole.network);
    assert_eq!((resumed.history, resumed.best_epoch), (whole.history, whole.best_epoch));

    // Another training does not continue from it, and a damaged file is an error.
    let foreign = train(&network, &data, &TrainOptions { batch: 32, ..options.clone() });
    assert!(matches!(foreign, Err(Error::File { .. })), "{foreign:?}");
    std::fs::write(&path, b"not a checkpoint").unwrap();
    assert!(train(&network, &data, &options).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The number of threads is one of the process: other tests may run with it, and none may notice.
#[test]
fn weights_are_equal_for_any_number_of_threads() {
    let network = Network::digits_cnn().unwrap();
    let data = digits(96);
    let trained: Vec<Network> = [1, 2, 3, 7]
        .into_iter()
        .map(|threads| {
            aleatron_cpu::set_num_threads(threads).unwrap();
            let forward = Forward::Streams(vec![sobol(32)]);
            let options = TrainOptions {
                epochs: 2,
                batch: 48,
                forward,
                validation: 0.0,
                ..TrainOptions::default()
            };
            train(&network, &data, &options).unwrap().network
        })
        .collect();
    assert_ne!(trained[0], network);
    assert!(trained.iter().all(|other| *other == trained[0]));
}

#[test]
fn early_stopping_ends_training_and_the_best_epoch_is_the_result() {
    let network = Network::digits_plain().unwrap();
    // A rate that destroys the network: no epoch is better than the start.
    let optimizer = OptimizerKind::default().with_rate(10.0);
    let options =
        TrainOptions { epochs: 9, optimizer, patience: Some(2), ..TrainOptions::default() };
    let trained = train(&network, &digits(200), &options).unwrap();
    assert_eq!((trained.history.len(), trained.best_epoch), (2, 0));
    assert_eq!(trained.network, network);
}

#[test]
fn unipolar_weights_stay_in_their_interval() {
    let network = NetworkBuilder::new("one", &[2])
        .dense("layer", 2, &[0.01, 0.9], &[0.0])
        .polarity(Polarity::Unipolar)
        .build()
        .unwrap();
    let data =
        Dataset::with_targets("low", 2, vec![1.0, 0.0, 0.5, 0.5], 1, vec![-5.0, -5.0]).unwrap();
    let trained = train(&network, &data, &one_step(Forward::Streams(vec![sobol(16)]))).unwrap();
    assert_eq!(trained.network.layers()[0].product.weights, [0.0, 0.0]);
}

#[test]
fn invalid_options_and_data_are_errors_before_any_work() {
    let network = Network::digits_plain().unwrap();
    let data = digits(10);
    let refuses = |options: TrainOptions| {
        let error = train(&network, &data, &options).unwrap_err();
        assert!(!matches!(error, Error::Core(_)), "{error}");
    };
    let ok = TrainOptions::default();
    refuses(TrainOptions { batch: 0, ..ok.clone() });
    refuses(TrainOptions { validation: 1.0, ..ok.clone() });
    refuses(TrainOptions { clip: Some(f64::NAN), ..ok.clone() });
    refuses(TrainOptions { loss: Loss::Huber { delta: -1.0 }, ..ok.clone() });
    refuses(TrainOptions { forward: Forward::Streams(Vec::new()), ..ok.clone() });
    refuses(TrainOptions { forward: Forward::Noise { lengths: vec![0] }, ..ok.clone() });
    refuses(TrainOptions { optimizer: OptimizerKind::default().with_rate(f64::NAN), ..ok.clone() });
    refuses(TrainOptions { checkpoint: Some("/nonexistent-folder/state".into()), ..ok.clone() });
    let wide = Dataset::new("wide", 65, vec![0.0; 650], vec![0; 10]).unwrap();
    assert!(matches!(train(&network, &wide, &ok), Err(Error::Data(_))));
    let labels = Dataset::new("labels", 64, vec![0.0; 640], vec![11; 10]).unwrap();
    assert!(matches!(
        train(&network, &labels, &ok),
        Err(Error::Label { sample: 0, label: 11, classes: 10 })
    ));
    let targets = Dataset::with_targets("targets", 64, vec![0.0; 640], 1, vec![0.0; 10]).unwrap();
    assert!(matches!(train(&network, &targets, &ok), Err(Error::Option { .. })));
    // Divergence is an error that names the step.
    let rate = OptimizerKind::Sgd(SgdOptions { rate: 1e30, ..SgdOptions::default() });
    let network = NetworkBuilder::new("one", &[1])
        .dense("layer", 1, &[1.0], &[0.0])
        .activation(Activation::Identity);
    let line = Dataset::with_targets("line", 1, vec![0.5; 8], 1, vec![3.0; 8]).unwrap();
    let options = TrainOptions { optimizer: rate, batch: 4, validation: 0.0, ..ok };
    let diverged = train(&network.build().unwrap(), &line, &options);
    assert!(matches!(diverged, Err(Error::NotFinite { .. } | Error::Engine(_))), "{diverged:?}");
}
