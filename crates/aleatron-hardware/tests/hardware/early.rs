//! Early termination in the last layer.

use crate::support::{check, config};
use aleatron_engine::network::{Activation, Calibration, Network, NetworkBuilder, ValueRange};
use aleatron_hardware::circuit::{Operation, Source};
use aleatron_hardware::simulate::Simulator;
use aleatron_hardware::{Circuit, ClockGating, InputInterval, Margin, Options, Output, Pipeline};

fn options(margin: f64) -> Options {
    Options {
        output: Output::Class,
        inputs: InputInterval::NonNegative,
        early_termination: Some(Margin::new(margin).unwrap()),
        ..Options::default()
    }
}

fn digits(n: usize) -> Vec<f64> {
    aleatron_data::Dataset::digits_test().samples(0..n).unwrap().into_owned()
}

#[test]
fn early_terminating_circuits_equal_the_trace() {
    let network = Network::digits_plain().unwrap();
    check("early", &network, &config(50, "sobol"), &options(1.5), &digits(6), Simulator::Icarus);
    let with_registers =
        Options { pipeline: Pipeline::Registers, clock_gating: ClockGating::Cells, ..options(0.5) };
    check(
        "early-registers",
        &network,
        &config(16, "lfsr"),
        &with_registers,
        &digits(3),
        Simulator::Icarus,
    );
}

/// A margin that is never reached changes no class; a margin that is always reached stops every
/// sample at the first check.
#[test]
fn margin_determines_when_samples_stop() {
    let network = Network::digits_noise_aware().unwrap();
    let (x, config) = (digits(40), config(64, "sobol"));
    let trace = |margin| {
        let circuit = Circuit::new(&network, &config, &options(margin)).unwrap();
        let trace = circuit.trace(&x).unwrap();
        let full = trace.full_classes(&circuit);
        (trace.early.unwrap(), full)
    };
    let (never, full) = trace(1000.0);
    assert_eq!(never.cycles, [64; 40]);
    assert_eq!(never.reads, [4; 40]);
    assert_eq!(never.classes, full);
    let (sometimes, _) = trace(2.0);
    let (less, _) = trace(1.0);
    assert!(less.cycles.iter().zip(&sometimes.cycles).all(|(less, more)| less <= more));
    assert!(sometimes.cycles.iter().any(|&cycles| cycles < 64), "{:?}", sometimes.cycles);
    let (always, _) = trace(0.001);
    // A margin of less than one unit of the accumulator is a tie.
    assert!(
        always.cycles.iter().filter(|&&cycles| cycles == 8).count() >= 38,
        "{:?}",
        always.cycles
    );
}

/// Counts at a check are those of streams that end there, and the share of the bias is that of the
/// cycles so far.
#[test]
fn scores_at_a_check_equal_those_of_shorter_streams() {
    let network = Network::digits_plain().unwrap();
    let circuit = Circuit::new(&network, &config(64, "sobol"), &options(1000.0)).unwrap();
    let trace = circuit.trace(&digits(5)).unwrap();
    let early = trace.early.as_ref().unwrap();
    let Source::Stage(last) = circuit.output else { panic!("no layer") };
    let Operation::Layer(layer) = &circuit.stages[last].operation else { panic!("no layer") };
    assert_eq!(layer.checks.iter().map(|check| check.cycles).collect::<Vec<_>>(), [8, 16, 32]);
    for (row, weights) in layer.rows.iter().enumerate() {
        for check in &layer.checks {
            let exact = weights.bias as f64 * check.cycles as f64 / 64.0;
            assert!((check.biases[row] as f64 - exact).abs() <= 0.5);
        }
    }
    // Counts of prefixes increase with the prefix, by at most the products of the cycles between.
    let n = layer.rows.len();
    for sample in early.counts.chunks_exact(4 * n) {
        for row in 0..n {
            let sums: Vec<i64> = sample
                .chunks_exact(n)
                .zip([8, 16, 32, 64])
                .map(|(counts, cycles)| match layer.polarity {
                    aleatron_core::Polarity::Signed => {
                        counts[row] as i64 - layer.fan_in() as i64 * cycles
                    }
                    _ => counts[row] as i64,
                })
                .collect();
            for (pair, cycles) in sums.windows(2).zip([8, 16, 32]) {
                assert!(pair[0].abs_diff(pair[1]) <= layer.fan_in() as u64 * cycles);
            }
        }
    }
    assert_eq!(&early.counts[3 * n..4 * n], &trace.stages[last].counts[..n]);
}

#[test]
fn unsupported_early_termination_is_an_error_with_its_name() {
    let network = Network::digits_plain().unwrap();
    let fault = |config: &_, options: &Options| match Circuit::new(&network, config, options) {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    };
    let streams = config(64, "lfsr");
    for (options, config, part) in [
        (Options { output: Output::Scores, ..options(3.0) }, &streams, "--class"),
        (Options { lanes: Some(5), ..options(3.0) }, &streams, "lanes"),
        (options(3.0), &config(8, "lfsr"), "more than 8 bits"),
    ] {
        let message = fault(config, &options);
        assert!(message.contains("early termination") && message.contains(part), "{message}");
    }
    for margin in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(Margin::new(margin).unwrap_err().to_string().contains("standard deviations"));
    }
}

/// Rows of weights with separate scales give scores with separate units, which are compared in one
/// unit.
#[test]
fn classes_compare_scores_in_one_unit() {
    // Rows of very different magnitudes, whose biases make the scores nearly equal.
    let weights: Vec<f64> =
        (0..32).map(|k| ((k * 37 % 19) as f64 - 9.0) / 9.0 * [3.0, 0.3, 2.0, 0.5][k / 8]).collect();
    let network = NetworkBuilder::new("units", &[8])
        .dense(
            "first",
            8,
            &(0..64).map(|k| ((k * 29 % 17) as f64 - 6.0) / 9.0).collect::<Vec<_>>(),
            &[0.1; 8],
        )
        .activation(Activation::Relu)
        .dense("last", 8, &weights, &[0.5, 0.4, 0.6, 0.5])
        .build()
        .unwrap();
    let x: Vec<f64> = (0..8 * 60).map(|k| (k * k * 7 % 33) as f64 / 32.0).collect();
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    let config = config(33, "sobol").range(ValueRange::Saturate);
    let options = options(0.5);
    let circuit = Circuit::new(&network, &config, &options).unwrap();
    assert!(circuit.units.iter().any(|&unit| unit != circuit.units[0]), "{:?}", circuit.units);
    let trace = circuit.trace(&x).unwrap();
    let scores = network.to_streams(&config).unwrap().forward(&x, 0).unwrap();
    let classes: Vec<usize> =
        scores.chunks_exact(4).map(aleatron_engine::network::top_class).collect();
    assert_eq!(trace.full_classes(&circuit), classes);
    let Source::Stage(last) = circuit.output else { panic!("no layer") };
    let integers: Vec<f64> = trace.stages[last].values.iter().map(|&value| value as f64).collect();
    let naive: Vec<usize> =
        integers.chunks_exact(4).map(aleatron_engine::network::top_class).collect();
    assert_ne!(naive, classes, "integers of different units must not be compared");
    check("units", &network, &config, &options, &x[..8 * 12], Simulator::Icarus);
    let full = Options { early_termination: None, ..options };
    check("units-full", &network, &config, &full, &x[..8 * 12], Simulator::Icarus);
}
