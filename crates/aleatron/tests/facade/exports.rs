//! The documented names exist, and are those of the crates behind them.

use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::network::{Detail, Measured, Network, StreamConfig, StreamNetwork};
use aleatron::{Cancel, Polarity, StreamLayer};

/// A path through all crates by the names of the facade alone.
#[test]
fn facade_runs_evaluates_and_reports_a_network() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let config = StreamConfig::new(16).generator("sobol".parse().unwrap());
    let streams: StreamNetwork = network.to_streams(&config).unwrap();
    let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
    let output = streams.run(data.features(), 0, detail, Cancel::NEVER).unwrap();
    let classes = network.classes(&output.scores);
    let right = classes.iter().zip(data.labels()).filter(|(class, label)| class == label).count();
    let plan =
        Plan { lengths: vec![16], generators: vec!["sobol".parse().unwrap()], ..Plan::default() };
    let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.cells[0].figures.score(), right as f64 / data.len() as f64);
    assert!(aleatron::eval::report::evaluation(&found).starts_with("<!doctype html>"));
}

#[test]
fn facade_types_are_those_of_the_crates() {
    let layer: aleatron_engine::StreamLayer =
        StreamLayer::dense(3, 2).polarity(Polarity::Bipolar).build().unwrap();
    assert_eq!(layer.spec().polarity(), aleatron_core::Polarity::Bipolar);
    assert_eq!(aleatron::VERSION, env!("CARGO_PKG_VERSION"));
    assert!(
        aleatron::Tier::available()
            .iter()
            .any(|tier| tier.name() == aleatron::simd_tier().unwrap())
    );
}
