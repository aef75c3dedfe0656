//! Degenerate parameters: dead neurons, dead layers, constant and duplicate rows of weights.

use crate::support::config;
use aleatron_core::arithmetic::{Activation, Arithmetic};
use aleatron_core::{Error as CoreError, Polarity};
use aleatron_engine::network::{
    Calibration, InputScale, Network, NetworkBuilder, ValueRange, WeightScale,
};
use aleatron_engine::{Device, Error};
use aleatron_graph::{Op, Unary};

const POLARITIES: [Polarity; 2] = [Polarity::Signed, Polarity::Bipolar];

/// Returns two layers; the first has the weights of a dead neuron between two others.
fn with_dead_neuron(dead: f64, bias: f64, polarity: Polarity) -> Network {
    let weights = [0.5, -0.25, 0.75, dead, -dead, dead, 0.25, 0.5, -0.5];
    NetworkBuilder::new("dead", &[3])
        .dense("a", 3, &weights, &[0.125, bias, -0.25])
        .polarity(polarity)
        .activation(Activation::Relu)
        .dense("b", 3, &[0.5, -0.25, 1.0, 0.75, 0.5, -1.0], &[0.25, 0.0])
        .polarity(polarity)
        .build()
        .unwrap()
}

fn features() -> Vec<f64> {
    (0..24).map(|k| f64::from(k) / 24.0).collect()
}

/// Returns the outputs of a calibrated network as long streams.
fn outputs(network: &Network, calibration: &Calibration, arithmetic: Arithmetic) -> Vec<f64> {
    let network = network.calibrated(&features(), calibration).unwrap();
    // A percentile leaves some features outside.
    let config = config(4096, "sobol").arithmetic(arithmetic).range(ValueRange::Saturate);
    network.to_streams(&config).unwrap().forward(&features(), 0).unwrap()
}

fn calibrations() -> [Calibration; 3] {
    [
        Calibration::default(),
        Calibration { weights: WeightScale::Tensor, ..Calibration::default() },
        Calibration { inputs: InputScale::Percentile(0.9), ..Calibration::default() },
    ]
}

#[test]
fn dead_neuron_has_weight_scale_one() {
    for dead in [0.0, 1e-32, 1e-38, 1e-45] {
        let network = with_dead_neuron(dead, 0.5, Polarity::Signed);
        assert_eq!(network.layers()[0].weight_scales, [0.75, 1.0, 0.5], "{dead}");
    }
}

#[test]
fn network_with_a_dead_neuron_runs_in_both_arithmetics() {
    for polarity in POLARITIES {
        for dead in [0.0, 1e-9, 1e-12, 1e-32, 1e-45] {
            for bias in [0.0, 0.5, -0.5, 100.0] {
                let network = with_dead_neuron(dead, bias, polarity);
                let exact = network.forward(&features()).unwrap();
                for calibration in calibrations() {
                    for arithmetic in Arithmetic::ALL {
                        let case =
                            format!("{polarity}, {dead}, {bias}, {calibration:?}, {arithmetic}");
                        let scores = outputs(&network, &calibration, arithmetic);
                        assert!(scores.iter().all(|y| y.is_finite()), "{case}: {scores:?}");
                        if calibration.inputs != InputScale::Maximum {
                            continue;
                        }
                        // Streams of 4096 bits are within a few hundredths of the largest value
                        // between the layers.
                        let bound = 0.05 * (1.0 + bias.abs());
                        let largest = scores
                            .iter()
                            .zip(&exact)
                            .map(|(y, x)| (y - x).abs())
                            .fold(0.0, f64::max);
                        assert!(largest < bound, "{case}: {largest}");
                    }
                }
            }
        }
    }
}

/// No neuron has a signal: outputs are those of the biases alone.
#[test]
fn dead_layer_runs_in_both_arithmetics() {
    for dead in [0.0, 1e-32, 1e-45] {
        for (first, second) in [(dead, 0.5), (0.5, dead), (dead, dead)] {
            let network = NetworkBuilder::new("dead", &[2])
                .dense("a", 2, &[first, first, -first, first], &[])
                .activation(Activation::Relu)
                .dense("b", 2, &[second, -second, second, second], &[0.25, -0.5])
                .build()
                .unwrap();
            for calibration in calibrations() {
                for arithmetic in Arithmetic::ALL {
                    let case = format!("{first}, {second}, {calibration:?}, {arithmetic}");
                    for pair in outputs(&network, &calibration, arithmetic).as_chunks::<2>().0 {
                        let apart = [pair[0] - 0.25, pair[1] + 0.5].map(f64::abs);
                        assert!(apart.iter().all(|x| *x < 0.02), "{case}: {pair:?}");
                    }
                }
            }
        }
    }
}

/// Constant rows and equal rows are treated like others.
#[test]
fn constant_and_duplicate_rows_run_in_both_arithmetics() {
    let network = NetworkBuilder::new("equal", &[3])
        .dense("a", 3, &[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -0.5, -0.5, -0.5], &[0.125, 0.125, 0.0])
        .dense("b", 3, &[1.0; 6], &[])
        .build()
        .unwrap();
    let exact = network.forward(&features()).unwrap();
    for arithmetic in Arithmetic::ALL {
        let scores = outputs(&network, &Calibration::default(), arithmetic);
        for (pair, x) in scores.as_chunks::<2>().0.iter().zip(exact.as_chunks::<2>().0) {
            assert_eq!(pair[0], pair[1], "{arithmetic}");
            assert!((pair[0] - x[0]).abs() < 0.05, "{arithmetic}: {pair:?} instead of {x:?}");
        }
    }
}

/// Biases and bounds without integer representation, because a unit is too small for them, work in
/// floating point.
#[test]
fn floating_point_needs_no_integer_constants() {
    let network = |activation| {
        NetworkBuilder::new("small", &[2])
            .dense("a", 2, &[1e-20, -5e-21, 5e-21, 1e-20], &[0.5, 1.0])
            .activation(activation)
            .dense("b", 2, &[0.5, 0.25], &[])
            .build()
            .unwrap()
    };
    for activation in
        [Activation::Identity, Activation::Relu, Activation::Clamp { low: -1e30, high: 1e30 }]
    {
        let network = network(activation)
            .calibrated(&[0.5, 0.25, 1.0, 0.75], &Calibration::default())
            .unwrap();
        let float = config(1024, "sobol");
        network.check_config(&float).unwrap();
        let scores = network.to_streams(&float).unwrap().forward(&[0.5, 0.25], 0).unwrap();
        assert!((scores[0] - 0.5).abs() < 0.01, "{activation:?}: {scores:?}");
        // In integer arithmetic, the error names the layer whose constants do not exist.
        let error =
            network.check_config(&float.arithmetic(Arithmetic::Integer)).unwrap_err().to_string();
        assert!(error.contains("layer 0 (a)") && error.contains("bias"), "{activation:?}: {error}");
    }
}

/// The logarithm of a negative number is NaN, that of zero infinite.
#[test]
fn calibration_with_inputs_that_are_not_finite_names_the_layer() {
    let network = NetworkBuilder::new("log", &[2])
        .dense("a", 2, &[-1.0, 0.0, 0.0, -1.0], &[])
        .node("log", Op::Unary(Unary::Log), &[], 1)
        .dense("b", 2, &[0.5, 0.25], &[])
        .build()
        .unwrap();
    for calibration in calibrations() {
        for features in [[0.5, 0.25], [0.0, 0.0]] {
            let error = network.calibrated(&features, &calibration).unwrap_err().to_string();
            assert!(error.contains("an input of \"b\""), "{calibration:?}, {features:?}: {error}");
        }
    }
}

/// Memory is checked before it is allocated, and the error names the layer that needs it.
#[test]
fn layer_that_does_not_fit_into_memory_is_named() {
    let network = NetworkBuilder::new("large", &[3])
        .dense("a", 3, &[0.5; 9], &[])
        .activation(Activation::Relu)
        .dense("b", 3, &vec![0.5; 3 * 20_000], &[])
        .build()
        .unwrap();
    for device in [Device::Cpu, Device::Auto, Device::Pool(vec![Device::Cpu; 2])] {
        let mut config = config(16, "bernoulli").device(device);
        // 60,000 streams of two gigabytes.
        config.layers.insert("b".to_owned(), "length=17179869184".parse().unwrap());
        let error = network.to_streams(&config).unwrap_err();
        let Error::Layer { layer: 1, name, source } = &error else { panic!("{error}") };
        assert_eq!(name, "b");
        assert!(matches!(source.core(), Some(CoreError::Memory { .. })), "{source}");
    }
}
