//! Faults in the generated Verilog, all of which a check must find.

use crate::support::{Folder, config, write};
use aleatron_engine::network::{Activation, Network, NetworkBuilder};
use aleatron_hardware::simulate::{self, Simulator};
use aleatron_hardware::{Error, Options};

/// Two layers with weights of both signs, a bias and a rectifier.
fn network() -> Network {
    let weights = |n: usize| (0..n).map(|k| ((k * 37 % 19) as f64 - 9.0) / 9.0).collect::<Vec<_>>();
    NetworkBuilder::new("mutants", &[5])
        .dense("first", 5, &weights(20), &[0.5, -0.25, 0.125, 0.0])
        .activation(Activation::Relu)
        .dense("second", 4, &weights(12), &[0.1, -0.2, 0.3])
        .build()
        .unwrap()
}

#[test]
fn faults_in_generated_verilog_are_found() {
    let x = [0.1, 0.9, -0.4, 1.0, -0.75, 0.0, -1.0, 0.3, 0.6, 0.2];
    let mutants = [
        ("rtl/al_compare.v", "} < t[", "} <= t["),
        ("rtl/al_lfsr.v", "u <= SEED", "u <= SEED ^ 1"),
        ("rtl/al_lfsr.v", "^(u & TAPS)", "~^(u & TAPS)"),
        ("rtl/al_products.v", "(x & w) ^ negative", "(x | w) ^ negative"),
        ("rtl/al_accumulator.v", "count <= first", "count <= 0"),
        ("rtl/al_accumulator.v", "count + more", "count + more + 1'b1"),
        ("rtl/al_accumulate.v", "sum > HIGH", "sum >= HIGH"),
        ("rtl/al_accumulate.v", "sum < LOW ? LOW", "sum < LOW ? HIGH"),
        ("rtl/al_scale.v", "wide_multiplier + $signed(HALF)", "wide_multiplier"),
        ("rtl/al_saturate.v", "moved > ONE ? ONE", "moved > ONE ? ONE - 1"),
        ("rtl/al_control.v", "LENGTH - 1;", "LENGTH - 2;"),
        ("rtl/al_register.v", "!out_valid || out_ready", "1'b1"),
        (
            "rtl/al_window.v",
            "if (rst) begin\n            ready <= 1'b0;\n            channel <= {C{1'b0}};",
            "if (rst) begin\n            ready <= 1'b0;",
        ),
        ("rtl/net_mutants.v", "m_axis_tlast = left ==", "m_axis_tlast = left !="),
    ];
    let folder = Folder::new("mutants");
    let design = write(&folder, &network(), &config(13, "lfsr"), &Options::default(), &x);
    let run = || simulate::check(folder.path(), &design, Simulator::Icarus);
    run().unwrap();
    for (file, from, to) in mutants {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let found = run();
        let is_equivalent = to == "sum >= HIGH";
        match found {
            Err(Error::Different { .. }) => assert!(!is_equivalent, "{file}: {to}"),
            // Values at a bound are the bound.
            Ok(_) => assert!(is_equivalent, "{file}: {from} -> {to} survives"),
            Err(error) => panic!("{file}: {error}"),
        }
        std::fs::write(&path, text).unwrap();
    }
    run().unwrap();
}
