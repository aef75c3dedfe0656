//! Searches for stream lengths with retraining.

use std::sync::atomic::{AtomicUsize, Ordering};

use aleatron_core::{Cancel, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::network::{LayerOverride, Network, NetworkBuilder, StreamConfig, ValueRange};
use aleatron_eval::{Found, Plan, Search, find};
use aleatron_train::batches::split;
use aleatron_train::{
    Error, Forward, LengthProgress, OptimizerKind, Progress, SgdOptions, TrainOptions,
    TrainedLengths, train, train_lengths,
};

fn digits(n: usize) -> Dataset {
    Dataset::digits_train().subset("digits", &(0..n).collect::<Vec<_>>()).unwrap()
}

fn network() -> Network {
    Network::digits_plain().unwrap().with_polarity(Polarity::Signed).unwrap()
}

fn plan() -> Plan {
    Plan { range: ValueRange::Saturate, ..Plan::default() }
}

fn search(loss: f64, [shortest, longest]: [usize; 2]) -> Search {
    Search { generator: "sobol".parse().unwrap(), loss, longest, shortest, budget: 100 }
}

fn options() -> TrainOptions {
    TrainOptions { epochs: 2, validation: 0.25, ..TrainOptions::default() }
}

fn run(data: &Dataset, search: &Search, options: &TrainOptions) -> TrainedLengths {
    train_lengths(&network(), data, &plan(), search, options, Cancel::NEVER, &mut |_| ()).unwrap()
}

fn streams(lengths: &[usize]) -> StreamConfig {
    let mut config =
        StreamConfig::new(64).generator("sobol".parse().unwrap()).range(ValueRange::Saturate);
    for (layer, &length) in network().layers().iter().zip(lengths) {
        let own = LayerOverride { length: Some(length), ..LayerOverride::default() };
        config.layers.insert(layer.name.clone(), own);
    }
    config
}

/// Returns the accuracy of a network as streams on the validation samples.
fn accuracy(network: &Network, data: &Dataset, lengths: &[usize]) -> f64 {
    let (_, validation) = split(data.len(), options().validation, options().seed).unwrap();
    let held = data.subset("held", &validation).unwrap();
    let streams = network.to_streams(&streams(lengths)).unwrap();
    let classes = streams.predict(held.features(), 0).unwrap();
    let right = classes.iter().zip(held.labels()).filter(|(class, label)| class == label).count();
    right as f64 / held.len() as f64
}

#[test]
fn search_with_retraining_finds_shorter_streams_than_the_search_without() {
    let data = digits(800);
    let result = run(&data, &search(2.0, [2, 64]), &options());
    let TrainedLengths { trained, found, without_retraining } = result;
    assert!(found.is_good() && without_retraining.is_good(), "{found:?} {without_retraining:?}");
    assert!(found.bit_macs < without_retraining.bit_macs, "{found:?} {without_retraining:?}");
    // The network of the result has the score of the result, on samples that it was not trained
    // on, and the given network does not have it with these lengths.
    assert_eq!(accuracy(&trained.network, &data, &found.lengths), found.score);
    assert!(accuracy(&network(), &data, &found.lengths) < found.bar);
    assert_eq!((trained.history.len(), found.bar), (2, without_retraining.bar));
}

/// Trials shorten all layers from the longest down until one fails, then single layers; each begins
/// with the weights of the last one that passed.
#[test]
fn trials_begin_with_the_last_accepted_weights() {
    let data = digits(400);
    let found = run(&data, &search(1.0, [2, 32]), &options()).found;
    let mut accepted: Option<usize> = None;
    let mut lengths = vec![64, 64];
    let mut is_uniform = true;
    for (k, trial) in found.trials.iter().enumerate() {
        assert_eq!(trial.start, accepted, "{found:?}");
        let halves: Vec<usize> = lengths.iter().map(|length| length / 2).collect();
        is_uniform &= trial.lengths == halves;
        let halved = trial.lengths.iter().zip(&lengths).filter(|(new, old)| new < old).count();
        assert!(is_uniform || halved == 1, "{found:?}");
        if trial.score >= found.bar {
            (accepted, lengths) = (Some(k), trial.lengths.clone());
        } else {
            is_uniform = false;
        }
    }
    assert!(!is_uniform && accepted.is_some(), "both phases ran: {found:?}");
    assert_eq!(found.lengths, lengths);
    // The same as the trainings one after the other.
    let mut start = network();
    for trial in &found.trials {
        assert_eq!(trial.untrained, Some(accuracy(&start, &data, &trial.lengths)));
        let forward = Forward::Streams(vec![streams(&trial.lengths)]);
        let trained = train(&start, &data, &TrainOptions { forward, ..options() }).unwrap();
        assert_eq!(accuracy(&trained.network, &data, &trial.lengths), trial.score);
        if trial.score >= found.bar {
            start = trained.network;
        }
    }
}

#[test]
fn search_resumes_after_its_last_trial_with_the_same_bits() {
    let folder = std::env::temp_dir().join(format!("aleatron-lengths-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (data, network, plan) = (digits(300), network(), plan());
    let search = search(1.0, [4, 32]);
    let whole = run(&data, &search, &options());
    assert!(whole.found.trials.len() > 2, "{:?}", whole.found);
    let path = folder.join("state");
    let options = TrainOptions { checkpoint: Some(path.clone()), ..options() };
    // Cancelled in the training of the third trial.
    let trials = AtomicUsize::new(0);
    let is_over = || trials.load(Ordering::Relaxed) == 3;
    let cancel = Cancel::when(&is_over);
    let cut = train_lengths(&network, &data, &plan, &search, &options, cancel, &mut |progress| {
        if let LengthProgress::Training { trial, progress: Progress::Step { .. } } = progress {
            trials.store(trial, Ordering::Relaxed);
        }
    });
    assert!(matches!(cut, Err(Error::Core(aleatron_core::Error::Cancelled))), "{cut:?}");
    // A small budget runs the next trial, a larger one the rest.
    let mut trained = Vec::new();
    let mut resume = |budget: usize| {
        let search = Search { budget, ..search };
        train_lengths(&network, &data, &plan, &search, &options, Cancel::NEVER, &mut |progress| {
            if let LengthProgress::Training { trial, progress: Progress::Start { .. } } = progress {
                trained.push(trial);
            }
        })
        .unwrap()
    };
    let part = resume(3);
    assert_eq!((part.found.trials.len(), part.found.is_finished), (3, false));
    let resumed = resume(100);
    assert_eq!(trained, (3..=whole.found.trials.len()).collect::<Vec<_>>());
    assert_eq!(resumed.found, whole.found);
    assert_eq!(resumed.trained.network, whole.trained.network);
    assert_eq!(resumed.trained.history, whole.trained.history);

    // Another search does not continue from it.
    let other = Search { loss: 2.0, ..search };
    let other = train_lengths(&network, &data, &plan, &other, &options, Cancel::NEVER, &mut |_| ());
    assert!(matches!(other, Err(Error::File { .. })), "{other:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The checkpoint of a training is none of a search, the reverse, and a pipe is neither: reading it
/// would block.
#[test]
fn checkpoint_of_another_kind_is_an_error() {
    let folder = std::env::temp_dir().join(format!("aleatron-kinds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (data, network, plan) = (digits(60), network(), plan());
    let with =
        |name: &str| TrainOptions { epochs: 1, checkpoint: Some(folder.join(name)), ..options() };
    let find = |options: &TrainOptions| {
        let search = Search { budget: 1, ..search(1.0, [4, 8]) };
        train_lengths(&network, &data, &plan, &search, options, Cancel::NEVER, &mut |_| ())
            .map(|_| ())
    };
    let train = |options: &TrainOptions| train(&network, &data, options).map(|_| ());
    train(&with("training")).unwrap();
    find(&with("search")).unwrap();
    for refused in [find(&with("training")), train(&with("search"))] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("another kind of training"), "{error}");
        assert!(error.contains("remove it or choose another file"), "{error}");
    }
    #[cfg(unix)]
    {
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        for refused in [find(&with("pipe")), train(&with("pipe"))] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("pipe: it is not a regular file"), "{error}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn search_without_retraining_is_that_of_the_evaluation_on_the_same_samples() {
    let data = digits(200);
    let search = search(3.0, [8, 16]);
    let found = run(&data, &search, &options()).without_retraining;
    let (_, validation) = split(data.len(), 0.25, 0).unwrap();
    let held = data.subset("digits (validation)", &validation).unwrap();
    let again = find(&network(), &held, &plan(), &search, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found, again);
    assert_eq!(Found::from_json(&found.to_json().unwrap()).unwrap(), again);
}

/// A training that makes the network worse is not taken: the longest lengths remain, with the given
/// weights.
#[test]
fn search_without_a_solution_ends_with_the_longest_streams() {
    let optimizer = options().optimizer.with_rate(10.0);
    let options = TrainOptions { optimizer, ..options() };
    let result = run(&digits(200), &search(0.0, [2, 4]), &options);
    assert_eq!((result.found.trials.len(), &result.found.lengths[..]), (1, &[4, 4][..]));
    assert!(result.found.is_finished && !result.found.is_good());
    assert_eq!(result.trained.network, network());
}

/// A trial whose training diverges has the weights that it began with, and the search goes on.
#[test]
fn diverged_trial_keeps_its_weights() {
    let (data, network, search) = (digits(200), network(), search(3.0, [8, 64]));
    // The loss overflows, or weights do.
    for (rate, part) in [(1e36, "the loss is inf"), (1e38, "the value of a weight is")] {
        let optimizer = OptimizerKind::Sgd(SgdOptions::default()).with_rate(rate);
        let options = TrainOptions { optimizer, ..options() };
        let (mut diverged, mut texts) = (Vec::new(), String::new());
        let mut report = |progress: LengthProgress<'_>| {
            if let LengthProgress::Diverged { trial, error } = progress {
                assert!(matches!(error, Error::NotFinite { .. }), "{error:?}");
                diverged.push(trial);
                texts.push_str(&error.to_string());
            }
        };
        let result =
            train_lengths(&network, &data, &plan(), &search, &options, Cancel::NEVER, &mut report)
                .unwrap();
        let found = &result.found;
        assert_eq!(diverged, (1..=found.trials.len()).collect::<Vec<_>>());
        assert!(found.trials.len() > 1 && found.is_good(), "{found:?}");
        assert!(found.trials.iter().all(|trial| trial.untrained == Some(trial.score)), "{found:?}");
        assert_eq!((&result.trained.network, result.trained.best_epoch), (&network, 0));
        assert!(texts.contains(part), "{texts}");
    }
}

/// One layer cannot be shortened alone after a length for all layers has failed.
#[test]
fn failed_length_of_a_single_layer_is_tried_once() {
    let network = NetworkBuilder::new("one", &[1]).dense("layer", 1, &[1.0, -1.0], &[0.0, 0.0]);
    let network = network.build().unwrap();
    let x: Vec<f64> = (0..40).map(|k| f64::from(k) / 40.0).collect();
    let targets = x.iter().flat_map(|&x| [x, -x]).collect();
    let data = Dataset::with_targets("line", 1, x, 2, targets).unwrap();
    let options = TrainOptions { epochs: 1, validation: 0.5, ..TrainOptions::default() };
    let search = search(0.1, [2, 64]);
    let found =
        train_lengths(&network, &data, &plan(), &search, &options, Cancel::NEVER, &mut |_| ())
            .unwrap()
            .found;
    let lengths: Vec<usize> = found.trials.iter().map(|trial| trial.lengths[0]).collect();
    let n = lengths.len();
    assert!(n >= 2 && found.trials[n - 1].score < found.bar, "{found:?}");
    assert_eq!(lengths, (0..n).map(|k| 64 >> k).collect::<Vec<_>>());
    assert!(found.is_good());
}

#[test]
fn search_needs_validation_samples_and_a_range_of_lengths() {
    let (data, network) = (digits(20), network());
    let refuses = |search: Search, options: TrainOptions| {
        train_lengths(&network, &data, &plan(), &search, &options, Cancel::NEVER, &mut |_| ())
            .unwrap_err()
    };
    for validation in [0.0, 0.01] {
        let error =
            refuses(search(1.0, [4, 8]), TrainOptions { validation, ..options() }).to_string();
        assert!(error.contains("validation share") && error.contains("above 0"), "{error}");
    }
    let error = refuses(search(1.0, [8, 4]), options()).to_string();
    assert!(error.contains("lengths to search"), "{error}");
    // Errors of the training keep their kind.
    let optimizer = options().optimizer.with_rate(f64::NAN);
    let error = refuses(search(1.0, [4, 8]), TrainOptions { optimizer, ..options() });
    assert!(matches!(error, Error::Option { .. }), "{error:?}");
}
