//! The cost model against synthesis, and the energy of netlists.

use crate::support::{Folder, config, write};
use aleatron_core::Polarity;
use aleatron_engine::network::{Activation, Network, NetworkBuilder, StreamConfig};
use aleatron_hardware::cost::Technology;
use aleatron_hardware::synthesis::{Boundaries, Synthesized};
use aleatron_hardware::{Circuit, Error, InputInterval, Margin, Options, Output};
use std::path::Path;

/// Returns a dense network whose weights and biases all differ.
fn network(sizes: &[usize], polarity: Polarity) -> Network {
    let low = if polarity == Polarity::Unipolar { 0.0 } else { -1.0 };
    let values = |n: usize, step: f64| -> Vec<f64> {
        (0..n).map(|k| low + (1.0 - low) * (k as f64 * step).fract()).collect()
    };
    let mut builder = NetworkBuilder::new("costs", &sizes[..1]);
    for (k, pair) in sizes.windows(2).enumerate() {
        builder = builder
            .dense(
                &format!("layer{k}"),
                pair[0],
                &values(pair[0] * pair[1], 0.618_034),
                &values(pair[1], 0.414_213),
            )
            .polarity(polarity)
            .activation(Activation::Relu);
    }
    builder.build().unwrap()
}

/// Checks that model and synthesis of a design agree within 10 % in area, and returns both
/// energies.
fn compare(name: &str, network: &Network, config: &StreamConfig, options: &Options) -> [f64; 2] {
    let x: Vec<f64> = (0..2 * network.n_features()).map(|k| (k as f64 * 0.37).fract()).collect();
    let folder = Folder::new(name);
    let design = write(&folder, network, config, options, &x);
    let circuit = Circuit::new(network, config, options).unwrap();
    let trace = circuit.trace(&x).unwrap();
    let synthesized = Synthesized::new(folder.path(), &design, None, Boundaries::Parts).unwrap();
    let area = synthesized.area().unwrap();
    let cost = circuit.cost(options, Technology::Generic, Some(&trace)).unwrap();
    let error = cost.area / area.gate_equivalents - 1.0;
    assert!(error.abs() < 0.1, "{name}: model {}, synthesis {}", cost.area, area.gate_equivalents);
    assert_eq!(cost.cycles, design.interval());
    // The simulation of the netlist compares its results with those of the engine.
    let energy = synthesized.energy(&circuit, options, &trace).unwrap();
    assert!(
        (energy.parts.total() - energy.nanojoules).abs() < 1e-9 && energy.clock < energy.nanojoules
    );
    [cost.energy, energy.nanojoules]
}

#[test]
fn cost_model_agrees_with_synthesis() {
    let cases = [
        ("cost-signed", network(&[14, 6, 3], Polarity::Signed), config(32, "lfsr"), None),
        ("cost-bipolar", network(&[12, 8], Polarity::Bipolar), config(64, "sobol"), Some(4)),
        ("cost-integers", network(&[18, 9], Polarity::Signed), config(1, "int7"), None),
    ];
    for (name, network, config, lanes) in cases {
        let [model, measured] =
            compare(name, &network, &config, &Options { lanes, ..Options::default() });
        // The largest error of a design that was not fitted is 13.5 %: bipolar streams of Sobol
        // sequences, with lanes; see docs/hardware.md.
        assert!(
            (model / measured - 1.0).abs() < 0.14,
            "{name}: model {model} nJ, netlist {measured} nJ"
        );
    }
}

/// Streams that stop early use less energy, in the model as in the netlist.
#[test]
fn cost_model_has_the_cycles_of_early_termination() {
    let (network, config) = (network(&[10, 6, 4], Polarity::Signed), config(128, "lfsr"));
    let energies = |name: &str, early_termination: Option<Margin>| {
        let options = Options {
            output: Output::Class,
            inputs: InputInterval::NonNegative,
            early_termination,
            ..Options::default()
        };
        let [model, measured] = compare(name, &network, &config, &options);
        assert!(
            (model / measured - 1.0).abs() < 0.14,
            "{name}: model {model} nJ, netlist {measured} nJ"
        );
        [model, measured]
    };
    let full = energies("cost-full", None);
    let early = energies("cost-early", Some(Margin::new(0.25).unwrap()));
    let saved = [0, 1].map(|k| 1.0 - early[k] / full[k]);
    assert!(saved[1] > 0.05 && (saved[0] - saved[1]).abs() < 0.05, "{saved:?}");
}

#[test]
fn depth_equals_the_longest_path_that_yosys_finds() {
    let (folder, options) = (Folder::new("depth"), Options::default());
    let network = network(&[6, 3], Polarity::Signed);
    let design = write(&folder, &network, &config(16, "lfsr"), &options, &[0.5; 6]);
    let synthesized =
        Synthesized::new(folder.path(), &design, None, Boundaries::Flattened).unwrap();
    let run = std::process::Command::new("yosys")
        .args(["-p", "read_json build/netlist.json; ltp -noff"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let length = text.split("(length=").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    assert_eq!(synthesized.area().unwrap().depth, length.parse::<u64>().unwrap(), "{text}");
    // The depth by parts is also that of the whole design, not of its deepest part.
    let parts = Synthesized::new(folder.path(), &design, None, Boundaries::Parts).unwrap();
    assert!(parts.area().unwrap().depth > 10);
}

#[test]
fn cost_increases_with_length_and_decreases_with_lanes() {
    let network = network(&[16, 8], Polarity::Signed);
    let cost = |length: usize, lanes: Option<usize>| {
        let options = Options { lanes, ..Options::default() };
        let circuit = Circuit::new(&network, &config(length, "lfsr"), &options).unwrap();
        circuit.cost(&options, Technology::Generic, None).unwrap()
    };
    let (short, long, lanes) = (cost(16, None), cost(256, None), cost(16, Some(1)));
    assert!(short.area < long.area && short.energy < long.energy && short.cycles < long.cycles);
    assert!(lanes.area < short.area && lanes.cycles > short.cycles);
    // The words that enter, one run for each neuron, and the neurons that are read.
    assert_eq!(lanes.cycles, 16 + 8 * 17 + 8);
    let options = Options { lanes: Some(0), ..Options::default() };
    let circuit = Circuit::new(&network, &config(16, "lfsr"), &Options::default()).unwrap();
    assert!(matches!(circuit.cost(&options, Technology::Generic, None), Err(Error::NoLanes)));
}

#[test]
fn malformed_library_is_an_error_with_its_name() {
    let folder = Folder::new("liberty");
    let network = network(&[4, 2], Polarity::Unipolar);
    let design = write(&folder, &network, &config(8, "lfsr"), &Options::default(), &[0.5; 4]);
    let path = folder.path().join("broken.lib");
    std::fs::write(&path, "library (a) {\n cell (b) {").unwrap();
    let synthesize = |path: &Path| {
        Synthesized::new(folder.path(), &design, Some(path), Boundaries::Parts)
            .unwrap_err()
            .to_string()
    };
    let error = synthesize(&path);
    assert!(error.contains("broken.lib, line 2") && error.contains("without end"), "{error}");
    assert!(synthesize(&folder.path().join("missing.lib")).contains("missing.lib"));
}
