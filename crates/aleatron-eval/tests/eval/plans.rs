//! Plans that cannot run are errors before the first pass.

use crate::support::{cnn, features, network};
use aleatron_core::generator::Sharing;
use aleatron_core::{Cancel, Error as CoreError, Polarity, Quantity};
use aleatron_data::Dataset;
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::{Mode, Network, NetworkBuilder};
use aleatron_eval::{Error, Job, Plan, Result, evaluate};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn default_plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|text| text.parse().unwrap()).collect();
    Plan { generators, lengths: lengths.to_vec(), ..Plan::default() }
}

/// A plan that cannot run is an error at once, not after the passes that can.
#[test]
fn errors_are_reported_before_the_first_pass() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let refusal = |plan: &Plan, data: &Dataset| {
        let ticks = AtomicUsize::new(0);
        let count = |_: aleatron_eval::Progress<'_>| _ = ticks.fetch_add(1, Ordering::Relaxed);
        let error = evaluate(&network, data, plan, None, Cancel::NEVER, count).unwrap_err();
        assert_eq!(ticks.load(Ordering::Relaxed), 0);
        error
    };
    let huge = default_plan(&["bernoulli"], &[8, 1 << 34]);
    let error = refusal(&huge, &data);
    assert!(matches!(error.core(), Some(CoreError::Memory { .. })), "{error}");
    let mut features = data.features().to_vec();
    features[64 * 300 + 5] = 16.5;
    let outside = Dataset::new("outside", 64, features, data.labels().to_vec()).unwrap();
    // Found by the first pass as streams, before any cell is done.
    let plan = default_plan(&["bernoulli"], &[8, 16]);
    let error = evaluate(&network, &outside, &plan, None, Cancel::NEVER, |progress| {
        assert_eq!((progress.done, progress.length), (0, 8));
    });
    let error = error.unwrap_err();
    assert!(
        matches!(error, Error::Engine(EngineError::Feature { sample: 300, feature: 5, .. })),
        "{error}"
    );
}

#[test]
fn impossible_plans_are_errors_with_reasons() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let message = |plan: Plan, data: &Dataset| {
        let mut ran = false;
        let error = evaluate(&network, data, &plan, None, Cancel::NEVER, |_| ran = true)
            .unwrap_err()
            .to_string();
        assert!(!ran, "found out too late: {error}");
        error
    };
    assert_eq!(
        message(Plan { lengths: vec![], ..Plan::default() }, &data),
        "lengths: at least one is needed"
    );
    assert_eq!(
        message(Plan { seeds: 0, ..Plan::default() }, &data),
        "seeds: at least one is needed"
    );
    assert_eq!(
        message(default_plan(&["sobol"], &[8, 0]), &data),
        "layer 0 (hidden): stream length must be at least 1"
    );
    assert_eq!(
        message(default_plan(&["sobol"], &[8, 99_999_999_999]), &data),
        "layer 0 (hidden): stream length is 99999999999, the maximum is 17179869184"
    );
    for margin in [f64::NAN, f64::INFINITY, -1.0] {
        let error = message(Plan { margins: vec![margin], ..Plan::default() }, &data);
        assert_eq!(error, format!("the margin is {margin}, not a finite number from 0 on"));
    }
    let far = message(default_plan(&["bernoulli", "sobol:1+sobol:5000"], &[8]), &data);
    assert_eq!(far, "layer 0 (hidden): Sobol dimension is 5000, the maximum is 1111");
    let many = Plan { sharing: Sharing::OnePerStream, ..default_plan(&["sobol"], &[8]) };
    assert_eq!(
        message(many, &data),
        "layer 0 (hidden): Sobol dimension is 8192, the maximum is 1111"
    );
    let mut layers = default_plan(&["sobol"], &[8]);
    layers.layers.insert("last".into(), "length=4".parse().unwrap());
    assert_eq!(message(layers, &data), "there is no layer \"last\"; the layers are hidden, output");
    let narrow = Dataset::new("narrow", 2, vec![0.0; 4], vec![0, 1]).unwrap();
    assert_eq!(
        message(Plan::default(), &narrow),
        "the samples have 2 features, the network takes 64"
    );
    let unknown = Dataset::new("unknown", 64, vec![0.0; 128], vec![0, 10]).unwrap();
    assert_eq!(
        message(Plan::default(), &unknown),
        "the label of sample 1 is 10, but the network has 10 classes"
    );
}

#[test]
fn settings_of_unknown_layers_are_errors() {
    let with = |name: &str| {
        let layers = [(name.to_owned(), "length=4".parse().unwrap())].into();
        Plan { layers, ..default_plan(&["sobol"], &[8]) }.check(&network())
    };
    assert!(with("a").is_ok() && with("b").is_ok());
    assert!(
        matches!(with("c"), Err(Error::Engine(EngineError::UnknownLayer { name, known })) if name == "c" && known == ["a", "b"])
    );
}

/// The memory that a plan would take is compared with the memory of the machine before anything
/// runs.
#[test]
fn plans_larger_than_memory_are_errors() {
    let refused = |result: Result<()>, what: Quantity, expected: u128| {
        let error = result.unwrap_err();
        let Some(CoreError::Memory { what: refused, bytes, .. }) = error.core() else {
            panic!("{error}")
        };
        assert_eq!((*refused, *bytes), (what, expected));
    };
    let plan = |generator: &str, length: usize, seeds: usize| Plan {
        lengths: vec![length],
        generators: vec![generator.parse().unwrap()],
        seeds,
        ..Plan::default()
    };
    // 2^20 weights of 2^28 words each; sequences have tables in their place.
    let wide = NetworkBuilder::new("n", &[1 << 20]).dense("a", 1 << 20, &vec![0.5; 1 << 20], &[]);
    let wide = wide.polarity(Polarity::Bipolar).build().unwrap();
    refused(plan("bernoulli", 1 << 34, 1).check(&wide), Quantity::Streams, 1 << 51);
    plan("sobol", 1 << 34, 1).check(&wide).unwrap();
    // 2^20 seeds, with matrices of 2^12 classes each.
    let classes =
        NetworkBuilder::new("n", &[1]).dense("a", 1, &[0.5; 1 << 12], &[]).build().unwrap();
    let data = Dataset::new("one", 1, vec![0.5], vec![0]).unwrap();
    let job = Job::new(Arc::new(classes), Cow::Borrowed(&data), plan("bernoulli", 16, 1 << 20));
    refused(job.map(drop), Quantity::Confusion, 1 << (12 + 12 + 20 + 3));
}

/// Impossible settings are found before any cell runs.
#[test]
fn impossible_generators_of_layers_are_errors_before_a_run() {
    let network = cnn();
    let data = Dataset::new("own", 40, features(40, 8), vec![0]).unwrap();
    let plan = |default: &str, layers: &[(&str, &str)]| {
        let layers = layers.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap()));
        let generators = vec!["bernoulli".parse().unwrap(), default.parse().unwrap()];
        Plan { lengths: vec![8], generators, layers: layers.collect(), seeds: 1, ..Plan::default() }
    };
    let run = |network: &Network, plan: &Plan| {
        evaluate(network, &data, plan, None, Cancel::NEVER, |_| ()).map(|found| found.cells.len())
    };
    // A ramp is one sequence; sequences per input need one for each.
    for (name, index) in [("conv", 0), ("fc", 1)] {
        let error =
            run(&network, &plan("sobol", &[(name, "generator=ramp,sharing=input")])).unwrap_err();
        let Error::Engine(EngineError::Layer { layer, name: named, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!((layer, named.as_str()), (index, name));
    }
    // A layer in binary needs no sequences.
    let per_input = Plan { sharing: Sharing::OnePerInput, ..plan("ramp", &[]) };
    assert!(matches!(
        run(&network, &per_input),
        Err(Error::Engine(EngineError::Layer { layer: 0, .. }))
    ));
    let conv = [("conv", "generator=sobol")];
    let conv_alone = Plan { sharing: per_input.sharing, ..plan("ramp", &conv) };
    assert!(matches!(
        run(&network, &conv_alone),
        Err(Error::Engine(EngineError::Layer { layer: 1, .. }))
    ));
    let binary = network.clone().with_mode("fc", Mode::Binary).unwrap();
    assert_eq!(run(&binary, &conv_alone).unwrap(), 2);
    // Settings of a layer in binary, and of an unknown layer.
    let fc = plan("sobol", &[("fc", "length=4")]);
    assert!(
        matches!(run(&binary, &fc), Err(Error::Engine(EngineError::BinaryLayer { name })) if name == "fc")
    );
    assert_eq!(run(&network, &fc).unwrap(), 2);
    let error = run(&network, &plan("sobol", &[("nope", "length=4")])).unwrap_err();
    assert!(matches!(error, Error::Engine(EngineError::UnknownLayer { .. })));
    for network in [&network, &binary] {
        assert!(run(network, &Plan { seeds: (1 << 20) + 1, ..plan("sobol", &[]) }).is_err());
    }
}
