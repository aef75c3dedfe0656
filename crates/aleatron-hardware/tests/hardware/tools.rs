//! The tools accept the generated files without warnings.

use crate::support::{Folder, config, write};
use aleatron_engine::network::{Activation, Network, NetworkBuilder};
use aleatron_hardware::{ClockGating, Error, Options, simulate};
use std::process::Command;

#[test]
fn verilator_and_yosys_report_no_warnings() {
    let network = Network::digits_cnn().unwrap();
    let folder = Folder::new("lint");
    let x = vec![1.0; 64];
    let design = write(
        &folder,
        &network,
        &config(16, "sobol"),
        &Options { lanes: Some(4), ..Options::default() },
        &x,
    );
    simulate::lint(folder.path(), &design).unwrap();
    let script = format!(
        "read_verilog {}; hierarchy -check -top {}; proc; check -assert",
        design.sources().join(" "),
        design.top()
    );
    let yosys = Command::new("yosys")
        .args(["-q", "-e", ".*", "-p", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&yosys.stdout).into_owned()
        + &String::from_utf8_lossy(&yosys.stderr);
    assert!(yosys.status.success() && text.trim().is_empty(), "{text}");
}

#[test]
fn netlist_equals_the_engine() {
    let weights: Vec<f64> = (0..24).map(|k| f64::from(k * 37 % 19 - 9) / 9.0).collect();
    let network = NetworkBuilder::new("netlist", &[6])
        .dense("first", 6, &weights, &[0.5, -0.25, 0.125, 0.0])
        .activation(Activation::Relu)
        .dense("second", 4, &weights[..12], &[])
        .build()
        .unwrap();
    for clock_gating in [ClockGating::Enables, ClockGating::Cells] {
        let folder = Folder::new("netlist");
        let options = Options { lanes: Some(2), clock_gating, ..Options::default() };
        let x: Vec<f64> = (0..12).map(|k| f64::from(k * 5 % 17) / 8.0 - 1.0).collect();
        let design = write(&folder, &network, &config(16, "lfsr"), &options, &x);
        let passed = simulate::check_netlist(folder.path(), &design).unwrap();
        assert_eq!(passed.len(), 2);
        // A netlist of another circuit is not equal.
        let path = folder.path().join("rtl/al_adders.v");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("half ^ c", "half | c", 1)).unwrap();
        let found = simulate::check_netlist(folder.path(), &design);
        assert!(matches!(found, Err(Error::Different { .. })), "{found:?}");
    }
}
