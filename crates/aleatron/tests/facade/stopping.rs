//! Evaluations of networks whose streams are known: what is counted, when samples stop, and what is agreed with.

use super::{network, plan, samples};
use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::network::{Activation, FeatureMap, Layer, Network};
use aleatron::{Cancel, Polarity};

/// One unipolar product for each class: the scores are the stream of the feature, and nothing.
fn constant() -> Network {
    let layer = Layer::new("a", 1, vec![1.0, 0.0]).with_polarity(Polarity::Unipolar);
    Network::new("n", FeatureMap::IDENTITY, vec![layer]).unwrap()
}

#[test]
fn leads_are_in_deviations_of_noise() {
    // Ones lead by 1; the noise of two scores of one product is sqrt(2 / 4 / cycles), so the lead after 8 cycles is 4.
    let data = Dataset::new("d", 1, vec![1.0, 0.0], vec![0, 0]).unwrap();
    let judge = |margins: Vec<f64>| {
        let plan = Plan { margins, ..plan(&["sobol"], &[32]) };
        evaluate(&constant(), &data, &plan, None, Cancel::NEVER, |_| ()).unwrap().cells.remove(0)
    };
    let cell = judge(vec![0.0, 3.9, 4.1, 5.6, 5.7, 100.0]);
    // A feature of 0 never leads: the tie is 0 deviations, which is enough for a margin of 0 alone.
    let cycles: Vec<f64> = cell.early.iter().map(|stop| stop.mean_cycles).collect();
    assert_eq!(cycles, [8.0, (8.0 + 32.0) / 2.0, (16.0 + 32.0) / 2.0, (16.0 + 32.0) / 2.0, 32.0, 32.0]);
    let stopped: Vec<f64> = cell.early.iter().map(|stop| stop.stopped).collect();
    assert_eq!(stopped, [1.0, 0.5, 0.5, 0.5, 0.0, 0.0]);
    assert!(cell.early.iter().all(|stop| stop.accuracy == 1.0 && stop.accuracy_lost == 0.0));
    assert_eq!((cell.accuracy, cell.agreement), (1.0, 1.0));
    assert_eq!(cell.confusion, [[2, 0], [0, 0]]);
}

#[test]
fn rates_follow_from_times() {
    let evaluation = super::run(&plan(&["sobol"], &[8]));
    let cell = &evaluation.cells[0];
    assert!(cell.seconds > 0.0);
    assert!((cell.samples_per_second - 3.0 / cell.seconds).abs() <= 1e-9 * cell.samples_per_second);
    // Ten products of eight bits.
    assert!((cell.bit_macs_per_second / cell.samples_per_second - 80.0).abs() < 1e-6);
    assert_eq!(evaluation.network.products, 10);
    assert_eq!((evaluation.network.sizes.as_slice(), evaluation.data.samples), (&[2, 2, 3][..], 3));
    assert_eq!(evaluation.network.layers, ["a", "b"]);
    assert_eq!(
        (evaluation.plan.device.as_str(), evaluation.plan.seeds, evaluation.plan.clip),
        ("auto", 2, false)
    );
}

/// More samples than a piece of 256: errors are means over all of them, and samples keep their numbers.
#[test]
fn pieces_are_summed_up() {
    let features: Vec<f64> = (0..2 * 300).map(|k| f64::from(k % 41) / 20.0 - 1.0).collect();
    let data = Dataset::new("d", 2, features.clone(), vec![0; 300]).unwrap();
    let plan = Plan { seeds: 1, ..plan(&["bernoulli"], &[16]) };
    let cell = evaluate(&network(), &data, &plan, None, Cancel::NEVER, |_| ()).unwrap().cells.remove(0);
    let config = aleatron::network::StreamConfig::new(16).seed(0);
    let detail = aleatron::network::Detail { statistics: true, ..Default::default() };
    let output = network().to_streams(&config).unwrap().run(&features, 0, detail, Cancel::NEVER).unwrap();
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
    let classes: Vec<usize> = output.scores.chunks_exact(3).map(aleatron::network::top_class).collect();
    let right = classes.iter().filter(|&&class| class == 0).count();
    assert_eq!(cell.confusion[0][0] as usize, right);
    assert_eq!(cell.accuracy, right as f64 / 300.0);
    let float = network().predict(&features).unwrap();
    let same = classes.iter().zip(&float).filter(|(a, b)| a == b).count();
    assert_eq!(cell.agreement, same as f64 / 300.0);
    assert!(same < 300, "sixteen bits are too few to agree in all");
}

/// Progress is told before every piece, with what is being run.
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
                progress.generator.to_owned(),
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
        .map(|(done, (name, length, seed))| (done, 6, name.to_owned(), length, seed))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn certainty_counts_cycles_of_the_last_layer() {
    // Ones against nothing: after 34 of 64 cycles the lead is more than what is left, asked at every sixteenth: 36.
    let data = Dataset::new("d", 1, vec![1.0, 0.0], vec![0, 0]).unwrap();
    let judge = |network: &Network| {
        evaluate(network, &data, &plan(&["sobol"], &[64]), None, Cancel::NEVER, |_| ())
            .unwrap()
            .cells
            .remove(0)
    };
    let certain = judge(&constant()).certain.unwrap();
    assert_eq!((certain.mean_cycles, certain.stopped), ((36.0 + 64.0) / 2.0, 0.5));
    // A bias of a half stands for 32 cycles: certain from the first sixteenth on, and where there is no feature from 36 on.
    let layer =
        Layer::new("a", 1, vec![1.0, 0.0]).with_polarity(Polarity::Unipolar).with_bias(vec![0.5625, 0.0]);
    let biased = Network::new("n", FeatureMap::IDENTITY, vec![layer.clone()]).unwrap();
    let certain = judge(&biased).certain.unwrap();
    // Ones: t + 36 > 64 - t from t = 16 on, asked at 16 (52 > 48). Zeros: 36 > 64 - t from t = 32 on (36 > 32).
    assert_eq!((certain.mean_cycles, certain.stopped), ((16.0 + 32.0) / 2.0, 1.0));
    let relu =
        Network::new("n", FeatureMap::IDENTITY, vec![layer.with_activation(Activation::Relu)]).unwrap();
    assert!(judge(&relu).certain.is_none());
}
