//! A netlist by hand: a register with an enable after an inverter.

use super::cells::Cells;
use super::netlist::{Hierarchy, Netlist};
use super::simulation::Simulation;
use crate::cost::Part;

/// A top module with two instances of a module: an inverter and three flip-flops with one enable.
const NETLIST: &str = r#"{"modules": {
    "top": {"ports": {"clk": {"bits": [2]}, "d": {"bits": [3]}, "e": {"bits": [4]}, "q": {"bits": [5, 6]}, "one": {"bits": ["1"]}},
        "cells": {
            "a": {"type": "al_window", "connections": {"clk": [2], "d": [3], "e": [4], "q": [5]}},
            "b": {"type": "al_window", "connections": {"clk": [2], "d": [5], "e": ["1"], "q": [6]}}}},
    "al_window": {"ports": {"clk": {"bits": [2]}, "d": {"bits": [3]}, "e": {"bits": [4]}, "q": {"bits": [9]}},
        "cells": {
            "n": {"type": "$_NOT_", "connections": {"A": [3], "Y": [5]}},
            "f": {"type": "$_DFFE_PP_", "connections": {"C": [2], "D": [5], "E": [4], "Q": [6]}},
            "g": {"type": "$_DFFE_PP_", "connections": {"C": [2], "D": [6], "E": [4], "Q": [7]}},
            "h": {"type": "$_DFFE_PP_", "connections": {"C": [2], "D": [7], "E": [4], "Q": [9]}}}}}}"#;

fn hierarchy() -> Hierarchy {
    serde_json::from_str(NETLIST).unwrap()
}

#[test]
fn modules_count_as_often_as_they_are_instantiated() {
    let (area, flip_flops) = hierarchy().area("top", &Cells::Generic).unwrap();
    // Twice an inverter, three flip-flops and a clock gate.
    assert_eq!((area.total(), flip_flops), (2.0 * (0.5 + 3.0 * 6.0 + 4.0), 6));
    assert_eq!(area.get(Part::InputRegisters), area.total());
}

#[test]
fn unknown_cells_and_modules_are_errors() {
    assert!(
        hierarchy()
            .area("other", &Cells::Generic)
            .unwrap_err()
            .to_string()
            .contains("module other")
    );
    let unknown: Hierarchy = serde_json::from_str(&NETLIST.replace("$_NOT_", "$_LATCH_")).unwrap();
    let error = Netlist::new(&unknown, "top", &Cells::Generic).unwrap_err().to_string();
    assert!(error.contains("$_LATCH_"), "{error}");
}

#[test]
fn flip_flops_load_only_with_their_enables() {
    let netlist = Netlist::new(&hierarchy(), "top", &Cells::Generic).unwrap();
    let mut simulation = Simulation::new(&netlist);
    assert!(simulation.settle());
    let (d, e, q) =
        (netlist.port("d").unwrap(), netlist.port("e").unwrap(), netlist.port("q").unwrap());
    simulation.reset_counts();
    // The first register loads 1 in cycles 0 and 1, and holds after that; the second one always
    // loads.
    simulation.set(e, 1);
    for cycle in 0..8 {
        if cycle == 2 {
            simulation.set(e, 0);
            simulation.set(d, 1);
        }
        assert!(simulation.settle());
        simulation.edge();
    }
    assert!(simulation.settle());
    // Two loads of the first: its last flip-flop is still 0, so that the second one holds the
    // inverse.
    assert_eq!(simulation.word(q), 0b10);
    let mut loads = simulation.loads.clone();
    loads.sort_unstable();
    assert_eq!(loads, [2, 2, 2, 8, 8, 8]);
    assert_eq!(simulation.toggles[d[0] as usize], 1);
}

#[test]
fn short_pulses_do_not_pass_a_slow_gate() {
    // y = a NAND b with a changing twice before the delay is over.
    let text = r#"{"modules": {"top": {"ports": {"a": {"bits": [2]}, "b": {"bits": [3]}, "y": {"bits": [4]}},
        "cells": {"n": {"type": "$_NAND_", "connections": {"A": [2], "B": [3], "Y": [4]}}}}}}"#;
    let hierarchy: Hierarchy = serde_json::from_str(text).unwrap();
    let netlist = Netlist::new(&hierarchy, "top", &Cells::Generic).unwrap();
    let mut simulation = Simulation::new(&netlist);
    simulation.set(netlist.port("b").unwrap(), 1);
    assert!(simulation.settle());
    let y = netlist.port("y").unwrap();
    assert!(simulation.bit(y[0]));
    simulation.reset_counts();
    simulation.set(netlist.port("a").unwrap(), 1);
    simulation.set(netlist.port("a").unwrap(), 0);
    assert!(simulation.settle());
    assert_eq!((simulation.toggles[y[0] as usize], simulation.bit(y[0])), (0, true));
}
