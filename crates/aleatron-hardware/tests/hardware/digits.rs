//! The embedded networks.

use crate::support::{check, config};
use aleatron_engine::network::Network;
use aleatron_hardware::simulate::Simulator;
use aleatron_hardware::{Circuit, InputInterval, Options, Output, Pipeline};

/// Returns images with pixels from 0 to 16, as in the digits.
fn digits(n: usize) -> Vec<f64> {
    (0..64 * n).map(|k| (k * k * 7 / 5 % 23).saturating_sub(6) as f64).collect()
}

#[test]
fn dense_network_equals_the_engine_in_icarus() {
    let network = Network::digits_noise_aware().unwrap();
    let options = Options { lanes: Some(16), ..Options::default() };
    let passed = check(
        "noise-aware",
        &network,
        &config(16, "lfsr"),
        &options,
        &digits(1),
        Simulator::Icarus,
    );
    assert_eq!(passed.len(), 4);
    // Loading 64 inputs, 4 groups of 1 + 16 cycles, 64 values; then 65 cycles and 10 scores of the
    // output layer, and registers.
    assert!(passed[1].cycles > 64 + 4 * 17 + 64, "{passed:?}");
}

#[test]
fn convolutional_network_equals_the_engine_in_icarus() {
    let network = Network::digits_cnn().unwrap();
    let options = Options { inputs: InputInterval::NonNegative, ..Options::default() };
    check("cnn", &network, &config(8, "sobol"), &options, &digits(1), Simulator::Icarus);
}

#[test]
fn classes_and_pipeline_registers_equal_the_engine() {
    let network = Network::digits_plain().unwrap();
    let options = Options {
        output: Output::Class,
        pipeline: Pipeline::Registers,
        lanes: Some(32),
        ..Options::default()
    };
    check("classes", &network, &config(12, "vdc"), &options, &digits(1), Simulator::Icarus);
}

#[test]
fn description_is_json_of_integers() {
    let network = Network::digits_plain().unwrap();
    let circuit = Circuit::new(&network, &config(64, "lfsr"), &Options::default()).unwrap();
    let json = circuit.to_json().unwrap();
    assert!(
        json.contains("\"seed\"") && json.contains("\"taps\"") && json.contains("\"thresholds\"")
    );
    let (_, layer) = circuit.layers().next().unwrap();
    assert_eq!((layer.rows.len(), layer.fan_in(), layer.length, layer.comparator), (64, 64, 64, 6));
    let trace = circuit.trace(&digits(2)).unwrap();
    assert_eq!((trace.inputs.len(), trace.stages[0].counts.len()), (128, 128));
}
