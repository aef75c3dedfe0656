//! Long conformance runs: `cargo test --release -p aleatron-hardware -- --ignored --nocapture
//! conformance`. Each prints a line for every simulation.

use crate::support::{Folder, check, config, write};
use aleatron_data::Dataset;
use aleatron_engine::network::{Calibration, Network, NetworkShape};
use aleatron_hardware::simulate::Simulator;
use aleatron_hardware::{Circuit, ClockGating, Design, Options};
use std::time::Instant;

fn run(
    name: &str,
    network: &Network,
    length: usize,
    generator: &str,
    x: &[f64],
    simulator: Simulator,
) {
    let start = Instant::now();
    let passed =
        check(name, network, &config(length, generator), &Options::default(), x, simulator);
    let simulated: f64 = passed.iter().map(|passed| passed.elapsed.as_secs_f64()).sum();
    for passed in &passed {
        let seconds = passed.elapsed.as_secs_f64();
        println!("{name} {simulator} {}: {} ({seconds:.2} s)", passed.run, passed.summary);
    }
    println!("{name} {simulator}: built in {:.1} s", start.elapsed().as_secs_f64() - simulated);
}

#[test]
#[ignore = "16 designs and 360 digits take half an hour"]
fn conformance_of_digits_for_every_generator_and_length() {
    let network = Network::digits_noise_aware().unwrap();
    let data = Dataset::digits_test();
    let x = data.samples(0..data.len()).unwrap();
    for generator in ["lfsr", "sobol", "vdc", "halton"] {
        for length in [16, 64, 100, 256] {
            let name = format!("digits-{generator}-{length}");
            run(&name, &network, length, generator, &x, Simulator::Verilator);
            run(&name, &network, length, generator, &x[..3 * 64], Simulator::Icarus);
        }
    }
}

#[test]
#[ignore = "Verilator compiles large networks for minutes"]
fn conformance_of_convolutional_networks() {
    let data = Dataset::digits_test();
    let x = data.samples(0..data.len()).unwrap();
    let cnn = Network::digits_cnn().unwrap();
    run("cnn-sobol", &cnn, 64, "sobol", &x, Simulator::Verilator);
    run("cnn-lfsr", &cnn, 64, "lfsr", &x[..64], Simulator::Icarus);
}

/// Returns LeNet-5 with random weights, calibrated on random images.
fn lenet5() -> (Network, Vec<f64>) {
    let network = Network::random(NetworkShape::Lenet5, 1).unwrap();
    let n = network.n_features();
    let x: Vec<f64> = (0..10 * n).map(|k| (k * k * 7 / 5 % 257) as f64 / 256.0).collect();
    (network.calibrated(&x, &Calibration::default()).unwrap(), x)
}

#[test]
#[ignore = "Verilator compiles large networks for minutes"]
fn conformance_of_lenet5() {
    let (network, x) = lenet5();
    let config = config(64, "sobol").range(aleatron_engine::network::ValueRange::Saturate);
    let options =
        Options { lanes: Some(4), clock_gating: ClockGating::Cells, ..Options::default() };
    let start = Instant::now();
    let circuit = Circuit::new(&network, &config, &options).unwrap();
    let design = Design::new(&circuit, &options).unwrap();
    let folder = Folder::new("lenet5-generation");
    design.write(folder.path()).unwrap();
    println!("lenet5: generated in {:.2} s", start.elapsed().as_secs_f64());
    drop(folder);
    let folder = Folder::new("lenet5");
    let design = write(&folder, &network, &config, &options, &x);
    let start = Instant::now();
    for passed in
        aleatron_hardware::simulate::check(folder.path(), &design, Simulator::Verilator).unwrap()
    {
        println!(
            "lenet5 {}: {} ({:.2} s)",
            passed.run,
            passed.summary,
            passed.elapsed.as_secs_f64()
        );
    }
    println!("lenet5: built and simulated in {:.1} s", start.elapsed().as_secs_f64());
}
