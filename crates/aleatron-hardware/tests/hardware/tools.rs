//! The tools accept what is generated without a warning.

use crate::support::{Folder, config, write};
use aleatron_engine::network::Network;
use aleatron_hardware::{Options, simulate};
use std::process::Command;

#[test]
fn verilator_and_yosys_have_no_warnings() {
    let network = Network::digits_cnn().unwrap();
    let folder = Folder::new("lint");
    let x = vec![1.0; 64];
    let design =
        write(&folder, &network, &config(16, "sobol"), &Options { lanes: Some(4), ..Options::default() }, &x);
    simulate::lint(folder.path(), &design).unwrap();
    let script = format!(
        "read_verilog {}; hierarchy -check -top {}; proc; check -assert",
        design.sources().join(" "),
        design.top()
    );
    let made = Command::new("yosys")
        .args(["-q", "-e", ".*", "-p", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&made.stdout).into_owned() + &String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success() && text.trim().is_empty(), "{text}");
}
