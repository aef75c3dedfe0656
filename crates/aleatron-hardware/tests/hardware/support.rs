//! Folders, networks and checks that tests share.

use aleatron_engine::network::{Arithmetic, Network, StreamConfig};
use aleatron_hardware::simulate::{self, Passed, Simulator};
use aleatron_hardware::{Bench, Circuit, Design, Options};
use std::path::{Path, PathBuf};

/// A separate folder for a test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("aleatron-hardware-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns streams in integer arithmetic.
pub(crate) fn config(length: usize, generator: &str) -> StreamConfig {
    StreamConfig::new(length).generator(generator.parse().unwrap()).arithmetic(Arithmetic::Integer)
}

/// Writes the circuit of a network and its test benches.
pub(crate) fn write(
    folder: &Folder,
    network: &Network,
    config: &StreamConfig,
    options: &Options,
    x: &[f64],
) -> Design {
    let circuit = Circuit::new(network, config, options).unwrap();
    let design = Design::new(&circuit, options).unwrap();
    let trace = circuit.trace(x).unwrap();
    // The trace is that of the engine, whose scores are its last integers in their units.
    let n = circuit.units.len();
    let scores = network.to_streams(config).unwrap().forward(x, 0).unwrap();
    let last = match circuit.output {
        aleatron_hardware::circuit::Source::Stage(index) => &trace.stages[index].values,
        aleatron_hardware::circuit::Source::Input => panic!("no stages"),
    };
    let traced: Vec<f64> =
        last.iter().enumerate().map(|(k, &v)| v as f64 * circuit.units[k % n]).collect();
    assert_eq!(traced, scores);
    design.write(folder.path()).unwrap();
    Bench::new(&circuit, options, &trace).unwrap().write(folder.path()).unwrap();
    design
}

/// Simulates the circuit of a network; every run must agree with the engine.
pub(crate) fn check(
    name: &str,
    network: &Network,
    config: &StreamConfig,
    options: &Options,
    x: &[f64],
    simulator: Simulator,
) -> Vec<Passed> {
    let folder = Folder::new(name);
    let design = write(&folder, network, config, options, x);
    match simulate::check(folder.path(), &design, simulator) {
        Ok(passed) => passed,
        Err(error) => panic!("{name}: {error}"),
    }
}
