//! Warnings about inputs of layers that do not fit the interval of their streams.

use crate::support::{constant, features, network};
use aleatron_core::arithmetic::Activation;
use aleatron_core::{Cancel, Error as CoreError, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::Error;
use aleatron_engine::network::{
    Calibration, InputRange, InputScale, InputWarningKind, Mode, Network, NetworkBuilder, Op,
};

/// Returns a layer of four inputs with another one after it.
fn two() -> Network {
    NetworkBuilder::new("two", &[4])
        .dense("first", 4, &features(12, 1), &[])
        .activation(Activation::Relu)
        .dense("second", 3, &features(6, 2), &[])
        .build()
        .unwrap()
}

fn kinds(network: &Network, x: &[f64]) -> Vec<(String, InputWarningKind)> {
    let warnings = network.input_warnings(x, Cancel::NEVER).unwrap();
    warnings.into_iter().map(|warning| (warning.range.name, warning.kind)).collect()
}

#[test]
fn calibrated_networks_have_no_warnings() {
    let train = Dataset::digits_train();
    for network in [Network::digits_noise_aware(), Network::digits_plain(), Network::digits_cnn()] {
        let network = network.unwrap();
        assert_eq!(kinds(&network, train.features()), [], "{}", network.name());
        for inputs in
            [InputScale::Maximum, InputScale::Percentile(0.99), InputScale::Percentile(0.999)]
        {
            let calibration = Calibration { inputs, ..Calibration::default() };
            let calibrated = network.calibrated(train.features(), &calibration).unwrap();
            assert_eq!(
                kinds(&calibrated, Dataset::digits_test().features()),
                [],
                "{}",
                network.name()
            );
        }
    }
}

#[test]
fn saturating_inputs_are_reported() {
    // Of 20 inputs, one saturates: 5 %. Of 100 inputs it is 1 %, which is permitted.
    let x = |n: usize| -> Vec<f64> { (0..4 * n).map(|k| if k == 7 { 1.5 } else { 0.5 }).collect() };
    let network = two()
        .with_layers(|layer| layer.input_scale = if layer.name == "first" { 1.0 } else { 2.0 })
        .unwrap();
    assert_eq!(kinds(&network, &x(5)), [("first".to_owned(), InputWarningKind::Saturated)]);
    assert_eq!(kinds(&network, &x(25)), []);
    let text = network.input_warnings(&x(5), Cancel::NEVER).unwrap()[0].to_string();
    assert_eq!(
        text,
        "layer \"first\": 5.0 % of its inputs saturate at the input scale 1; calibrate the network with samples of training"
    );
    // Negative inputs of unipolar streams saturate at 0.
    let unipolar = NetworkBuilder::new("n", &[2])
        .dense("fc", 2, &[0.5, 0.5], &[])
        .polarity(Polarity::Unipolar);
    let unipolar = unipolar.build().unwrap();
    assert_eq!(kinds(&unipolar, &[-0.5, 0.5]), [("fc".to_owned(), InputWarningKind::Saturated)]);
    // A binary layer has no interval.
    let binary = network.with_mode("first", Mode::Binary).unwrap();
    assert_eq!(kinds(&binary, &x(5)), []);
}

#[test]
fn inputs_that_use_a_small_part_of_the_interval_are_reported() {
    let network = two();
    let x: Vec<f64> = features(40, 5).iter().map(|x| 0.1 * x).collect();
    let found = kinds(&network, &x);
    assert_eq!(found[0], ("first".to_owned(), InputWarningKind::Unused));
    let text = network.input_warnings(&x, Cancel::NEVER).unwrap()[0].to_string();
    assert!(text.contains("its inputs use ") && text.contains(" % of the interval"), "{text}");
    // Inputs that are all zero are ignored.
    assert_eq!(kinds(&network, &[0.0; 8]), []);
}

/// Features of very different ranges, such as those of an unscaled table.
#[test]
fn inputs_of_uneven_ranges_are_reported() {
    let x: Vec<f64> = features(40, 5)
        .iter()
        .enumerate()
        .map(|(k, x)| x * if k % 4 == 2 { 1000.0 } else { 1.0 })
        .collect();
    let network = two().calibrated(&x, &Calibration::default()).unwrap();
    assert_eq!(kinds(&network, &x), [("first".to_owned(), InputWarningKind::Uneven)]);
    let text = network.input_warnings(&x, Cancel::NEVER).unwrap()[0].to_string();
    assert!(
        text.starts_with(
            "layer \"first\": 75.0 % of its inputs use less than 3.1 % of the interval"
        ),
        "{text}"
    );
    // Features that are always zero do not count.
    let zeros: Vec<f64> =
        x.iter().enumerate().map(|(k, x)| if k % 4 == 2 { *x } else { 0.0 }).collect();
    let network = two().calibrated(&zeros, &Calibration::default()).unwrap();
    assert_eq!(kinds(&network, &zeros), []);
}

#[test]
fn ranges_are_computed_for_each_input_over_all_samples() {
    // More samples than one run takes, and steps before samples in the input of the layer.
    let network = network(&[2, 3], |graph, x| {
        let turned = graph.add_node("turned", Op::Transpose { order: Some(vec![1, 0, 2]) }, &[x]);
        let w = constant(graph, "w", &[3, 2], 1);
        let product = graph.add_node("fc", Op::MatMul, &[turned, w]);
        graph.add_node("back", Op::Transpose { order: Some(vec![1, 0, 2]) }, &[product])
    });
    let x: Vec<f64> = (0..300).flat_map(|_| [1.0, 0.01, 0.01, 0.5, 0.01, 0.0]).collect();
    let ranges = network.input_ranges(&x, Cancel::NEVER).unwrap();
    let [InputRange { layer: 0, saturated, largest, small, scale, .. }] = ranges[..] else {
        panic!("{ranges:?}")
    };
    assert_eq!((saturated, largest, scale), (0.0, 1.0, 1.0));
    // Three of five that are not always zero.
    assert_eq!(small, 0.6);
    assert!(network.input_ranges(&[], Cancel::NEVER).unwrap().is_empty());
    let stop = || true;
    let stopped = network.input_ranges(&x, Cancel::when(&stop)).unwrap_err();
    assert!(matches!(stopped, Error::Core(CoreError::Cancelled)), "{stopped}");
    assert!(matches!(
        network.input_ranges(&x[..7], Cancel::NEVER),
        Err(Error::RaggedSamples { .. })
    ));
}
