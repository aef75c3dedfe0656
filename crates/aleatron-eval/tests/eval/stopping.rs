//! Evaluations of networks whose streams are known: counts, early termination, agreement and
//! progress.

use crate::support::{Classes, evaluated, network, plan, run, samples, two_scores};
use aleatron_core::Cancel;
use aleatron_core::arithmetic::Activation;
use aleatron_data::Dataset;
use aleatron_engine::Device;
use aleatron_engine::network::{Network, StreamConfig, ValueRange, top_class};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_eval::{Plan, evaluate};

/// One unipolar product for each class: the scores are the stream of the feature, and zero.
fn constant() -> Network {
    two_scores([1.0, 0.0], &[], Activation::Identity)
}

#[test]
fn decision_margins_are_in_standard_deviations_of_noise() {
    // Ones lead by 1; the noise of two scores of one product is sqrt(2 / 4 / cycles), so the lead
    // after 8 cycles is 4.
    let data = Dataset::new("d", 1, vec![1.0, 0.0], vec![0, 0]).unwrap();
    let cell_of = |margins: Vec<f64>| {
        let plan = Plan { margins, ..plan(&["sobol"], &[32]) };
        evaluated(&constant(), &data, &plan).cells.remove(0)
    };
    let cell = cell_of(vec![0.0, 3.9, 4.1, 5.6, 5.7, 100.0]);
    // A feature of 0 never leads: the tie is 0 deviations, which is enough for a margin of 0 alone.
    let cycles: Vec<f64> = cell.classes().early.iter().map(|stop| stop.mean_cycles).collect();
    assert_eq!(
        cycles,
        [8.0, (8.0 + 32.0) / 2.0, (16.0 + 32.0) / 2.0, (16.0 + 32.0) / 2.0, 32.0, 32.0]
    );
    let stopped: Vec<f64> = cell.classes().early.iter().map(|stop| stop.stopped).collect();
    assert_eq!(stopped, [1.0, 0.5, 0.5, 0.5, 0.0, 0.0]);
    assert!(
        cell.classes().early.iter().all(|stop| stop.accuracy == 1.0 && stop.accuracy_lost == 0.0)
    );
    assert_eq!((cell.classes().accuracy, cell.classes().agreement), (1.0, 1.0));
    assert_eq!(cell.classes().confusion, [[2, 0], [0, 0]]);
}

#[test]
fn rates_follow_from_times() {
    let evaluation = run(&plan(&["sobol"], &[8]));
    let cell = &evaluation.cells[0];
    assert!(cell.seconds > 0.0);
    assert!((cell.samples_per_second - 3.0 / cell.seconds).abs() <= 1e-9 * cell.samples_per_second);
    // Ten products of eight bits.
    assert!((cell.bit_macs_per_second / cell.samples_per_second - 80.0).abs() < 1e-6);
    assert_eq!(evaluation.network.products, 10);
    assert_eq!((evaluation.network.sizes.as_slice(), evaluation.data.samples), (&[2, 2, 3][..], 3));
    assert_eq!(evaluation.network.layers, ["a", "b"]);
    assert_eq!(
        (&evaluation.plan.device, evaluation.plan.seeds, evaluation.plan.range),
        (&Device::Auto, 2, ValueRange::Check)
    );
}

/// More samples than a chunk of 256: errors are means over all of them, and samples keep their
/// numbers.
#[test]
fn chunks_of_samples_are_summed() {
    let features: Vec<f64> = (0..2 * 300).map(|k| f64::from(k % 41) / 20.0 - 1.0).collect();
    let data = Dataset::new("d", 2, features.clone(), vec![0; 300]).unwrap();
    let plan = Plan { seeds: 1, ..plan(&["bernoulli"], &[16]) };
    let cell = evaluated(&network(), &data, &plan).cells.remove(0);
    let config = StreamConfig::new(16).seed(0);
    let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
    let output =
        network().to_streams(&config).unwrap().run(&features, 0, detail, Cancel::NEVER).unwrap();
    for (found, whole) in cell.layers.iter().zip(&output.statistics) {
        assert_eq!(
            (found.counts, found.saturated, found.worst_value),
            (whole.counts, whole.saturated, whole.worst_value)
        );
        assert_eq!(found.worst_count, whole.worst_count);
        assert!(
            (found.mean_value - whole.mean_value).abs() < 1e-12
                && (found.mean_count - whole.mean_count).abs() < 1e-9
        );
    }
    let classes: Vec<usize> = output.scores.chunks_exact(3).map(top_class).collect();
    let right = classes.iter().filter(|&&class| class == 0).count();
    assert_eq!(cell.classes().confusion[0][0] as usize, right);
    assert_eq!(cell.classes().accuracy, right as f64 / 300.0);
    let float = network().predict(&features).unwrap();
    let same = classes.iter().zip(&float).filter(|(a, b)| a == b).count();
    assert_eq!(cell.classes().agreement, same as f64 / 300.0);
    assert!(same < 300, "sixteen bits are too few to agree in all");
}

/// Progress is reported before every chunk and after every cell.
#[test]
fn progress_names_the_cell() {
    let mut seen = Vec::new();
    evaluate(
        &network(),
        &samples(),
        &plan(&["sobol", "bernoulli"], &[8, 16]),
        None,
        Cancel::NEVER,
        |progress| {
            seen.push((
                progress.done,
                progress.total,
                progress.generator.to_string(),
                progress.length,
                progress.seed,
            ));
        },
    )
    .unwrap();
    seen.dedup();
    let expected = [
        ("sobol", 8, 0),
        ("sobol", 16, 0),
        ("bernoulli", 8, 0),
        ("bernoulli", 16, 0),
        ("bernoulli", 8, 1),
        ("bernoulli", 16, 1),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .enumerate()
        .flat_map(|(done, (name, length, seed))| {
            [done, done + 1].map(|done| (done, 6, name.to_owned(), length, seed))
        })
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn certain_stops_count_cycles_of_the_last_layer() {
    // Ones against zeros: after 34 of 64 cycles the margin is more than the cycles left, checked at
    // every sixteenth: 36.
    let data = Dataset::new("d", 1, vec![1.0, 0.0], vec![0, 0]).unwrap();
    let cell_of =
        |network: &Network| evaluated(network, &data, &plan(&["sobol"], &[64])).cells.remove(0);
    let certain = cell_of(&constant()).classes().certain.unwrap();
    assert_eq!((certain.mean_cycles, certain.stopped), ((36.0 + 64.0) / 2.0, 0.5));
    // A bias of 9/16 stands for 36 cycles.
    let biased = |activation| two_scores([1.0, 0.0], &[0.5625, 0.0], activation);
    let certain = cell_of(&biased(Activation::Identity)).classes().certain.unwrap();
    // Ones: t + 36 > 64 - t from t = 16 on, checked at 16 (52 > 48). Zeros: 36 > 64 - t from t = 32
    // on (36 > 32).
    assert_eq!((certain.mean_cycles, certain.stopped), ((16.0 + 32.0) / 2.0, 1.0));
    assert!(cell_of(&biased(Activation::Relu)).classes().certain.is_none());
}
