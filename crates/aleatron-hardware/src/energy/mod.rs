//! Energy of an inference: toggles of the netlist's nets, times the energies of cells.
//!
//! [`Synthesized`](crate::synthesis::Synthesized) is a design as gates and flip-flops with enables.
//! Its netlist is simulated with delays, so that glitches count, on samples whose results must
//! equal those of the engine. The energy of a sample is the sum over all pins of their toggles
//! times the energy of one:
//!
//! - with a Liberty file, half of the capacitance of an input pin times the square of the voltage,
//!   and the tables of internal power at a typical slope and load;
//! - without one, an energy in proportion to the area of the generic gate that toggles.
//!
//! Flip-flops that share an enable share clock gates: their clock counts only in cycles with the
//! enable. The energy of wires, of the clock tree and of leakage is not included.

pub(crate) mod cells;
mod depth;
mod function;
pub(crate) mod liberty;
pub(crate) mod netlist;
mod simulation;

use crate::bench::{arriving, results};
use crate::cost::{Part, PartValues};
use crate::error::internal;
use crate::verilog::{masked, output_bits};
use crate::{Circuit, Error, Options, Result, Trace};
use cells::{Cells, ClockGate};
use netlist::{Hierarchy, Netlist, ONE};
use serde::Serialize;
use simulation::Simulation;
use std::collections::BTreeMap;

/// The energy of samples, measured by the simulation of a netlist.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Energy {
    /// The energy of a sample in nanojoules.
    pub nanojoules: f64,
    /// The energy of the clock of flip-flops and clock gates in nanojoules.
    pub clock: f64,
    /// The energy of each part of the circuit in nanojoules.
    pub parts: PartValues,
    /// The number of samples.
    pub samples: usize,
    /// The cycles from the end of the reset to the last result.
    pub cycles: u64,
    /// The mean number of nets that change in a cycle; a net that changes twice counts twice.
    pub toggles_per_cycle: f64,
    /// The fraction of flip-flops with clock gates.
    pub gated: f64,
}

/// Measures the energy of the samples of a trace on a netlist.
pub(crate) fn measure(
    hierarchy: &Hierarchy,
    top: &str,
    cells: &Cells,
    circuit: &Circuit,
    options: &Options,
    trace: &Trace,
) -> Result<Energy> {
    let netlist = Netlist::new(hierarchy, top, cells)?;
    let (simulation, cycles) = run(&netlist, circuit, options, trace)?;
    Ok(sum_up(&netlist, &simulation, cells, trace.n_samples, cycles))
}

/// Returns the cells on the longest path of a netlist between registers.
pub(crate) fn depth(hierarchy: &Hierarchy, top: &str, cells: &Cells) -> Result<u64> {
    Netlist::new(hierarchy, top, cells)?.depth()
}

/// Runs the samples of a trace one after the other, and compares the results.
fn run<'a>(
    netlist: &'a Netlist,
    circuit: &Circuit,
    options: &Options,
    trace: &Trace,
) -> Result<(Simulation<'a>, u64)> {
    let inputs: Vec<u128> = arriving(&circuit.input, &trace.inputs)
        .map(|word| masked(word.into(), circuit.input.word.bits()))
        .collect();
    let bits = output_bits(circuit, options);
    let expected: Vec<u128> = results(circuit, options, trace)
        .into_iter()
        .map(|score| masked(score.into(), bits))
        .collect();
    let per_sample = circuit.input.elements.max(1);
    let [data, valid, last, ready] =
        ["s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "s_axis_tready"]
            .map(|port| netlist.port(port));
    let (data, valid, last, ready) = (data?, valid?, last?, ready?);
    let (result, is_result) = (netlist.port("m_axis_tdata")?, netlist.port("m_axis_tvalid")?);
    let (reset, take) = (netlist.port("aresetn")?, netlist.port("m_axis_tready")?);
    let result = result.get(..bits as usize).ok_or_else(|| internal("hardware::energy::run"))?;
    let different = |output: String| Error::Different { run: "netlist".to_owned(), output };
    let mut simulation = Simulation::new(netlist);
    let settle = |simulation: &mut Simulation<'_>| match simulation.settle() {
        true => Ok(()),
        false => Err(different("the netlist oscillates".to_owned())),
    };
    simulation.set(take, ONE.into());
    settle(&mut simulation)?;
    for _ in 0..4 {
        simulation.edge();
        settle(&mut simulation)?;
    }
    simulation.reset_counts();
    simulation.set(reset, 1);
    let (mut sent, mut got, mut cycles) = (0, 0, 0_u64);
    let limit = cycle_limit(circuit, trace.n_samples);
    loop {
        simulation.set(valid, u128::from(sent < inputs.len()));
        simulation.set(data, inputs.get(sent).copied().unwrap_or(0));
        simulation.set(last, u128::from(sent % per_sample == per_sample - 1));
        settle(&mut simulation)?;
        if simulation.word(is_result) == 1 {
            let found = simulation.word(result);
            if expected.get(got) != Some(&found) {
                return Err(different(format!(
                    "result {got} is {found:#x}, expected {:x?}",
                    expected.get(got)
                )));
            }
            got += 1;
        }
        if got == expected.len() {
            return Ok((simulation, cycles));
        }
        if cycles > limit {
            return Err(different(format!(
                "{got} of {} results after {cycles} cycles",
                expected.len()
            )));
        }
        let is_sent = sent < inputs.len() && simulation.word(ready) == 1;
        simulation.edge();
        sent += usize::from(is_sent);
        cycles += 1;
    }
}

/// Returns a number of cycles in which every sample is finished.
fn cycle_limit(circuit: &Circuit, samples: usize) -> u64 {
    let work = |stage: &crate::circuit::Stage| match &stage.operation {
        crate::circuit::Operation::Layer(layer) => {
            (layer.window.positions * layer.rows.len()).saturating_mul(layer.length + 4)
        }
        _ => 4 * stage.output.elements,
    };
    let inputs = |stage: &crate::circuit::Stage| {
        stage.inputs.iter().map(|&source| 8 * circuit.link(source).elements).sum::<usize>()
    };
    let each = circuit.stages.iter().map(|stage| work(stage) + inputs(stage)).sum::<usize>();
    (each as u64).saturating_mul(samples as u64 + 1).saturating_add(10_000)
}

/// Sums toggles times energies.
fn sum_up(
    netlist: &Netlist,
    simulation: &Simulation<'_>,
    cells: &Cells,
    samples: usize,
    cycles: u64,
) -> Energy {
    let mut parts = PartValues::default();
    let toggles = |net: u32| simulation.toggles[net as usize] as f64;
    for instance in &netlist.instances {
        let kind = &netlist.kinds[instance.kind];
        let inputs = kind.inputs.iter().zip(&instance.inputs);
        let pins = inputs.chain(kind.outputs.iter().zip(&instance.outputs));
        parts.add(instance.part, pins.map(|(pin, &net)| pin.energy * toggles(net)).sum());
    }
    // The flip-flops of each enable, with the cycles in which it is 1 and the part of the first
    // flip-flop.
    let mut enables: BTreeMap<u32, (usize, u64, Part)> = BTreeMap::new();
    let (mut clock, mut n_flip_flops, mut n_gated) = (0.0, 0_usize, 0_usize);
    for (k, (_, cell, enable)) in netlist.flip_flops().enumerate() {
        if let Some(enable) = enable {
            enables.entry(enable).or_insert((0, simulation.loads[k], cell.part)).0 += 1;
        }
    }
    for (k, (_, cell, enable)) in netlist.flip_flops().enumerate() {
        n_flip_flops += 1;
        let size = enable.and_then(|enable| enables.get(&enable)).map_or(0, |(size, ..)| *size);
        let is_gated = ClockGate::drives(size);
        n_gated += usize::from(is_gated);
        let active = if is_gated { simulation.loads[k] } else { cycles };
        let energy = netlist.kinds[cell.kind].clock * active as f64;
        clock += energy;
        parts.add(cell.part, energy);
    }
    let gate = cells.clock_gate();
    for (size, loads, part) in enables.into_values() {
        let energy = ClockGate::number(size) as f64
            * (gate.always * cycles as f64 + gate.open * loads as f64);
        clock += energy;
        parts.add(part, energy);
    }
    let scale = 1e9 / samples.max(1) as f64;
    parts.scale(scale);
    Energy {
        nanojoules: parts.total(),
        clock: clock * scale,
        parts,
        samples,
        cycles,
        toggles_per_cycle: simulation.toggles.iter().sum::<u64>() as f64 / cycles.max(1) as f64,
        gated: n_gated as f64 / n_flip_flops.max(1) as f64,
    }
}

#[cfg(test)]
mod tests;
