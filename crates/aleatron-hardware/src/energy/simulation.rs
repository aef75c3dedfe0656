//! Event-driven simulation of a netlist, which counts the toggles of every net.

use super::cells::Role;
use super::netlist::{Netlist, ONE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A gate that drives one net.
struct Gate {
    inputs: [u32; 6],
    n_inputs: usize,
    table: u64,
    output: u32,
    delay: u32,
    /// The time and value of the pending change.
    pending: Option<(u64, bool)>,
}

/// A simulation. Each gate has the delay of its cell, and a pulse shorter than the delay does not
/// propagate, as in `assign #delay` of Verilog.
pub(super) struct Simulation<'a> {
    netlist: &'a Netlist,
    gates: Vec<Gate>,
    /// The adders that read each net, in one list, and the offset of each net in it.
    readers: Vec<u32>,
    first_reader: Vec<u32>,
    values: Vec<bool>,
    /// The toggles of each net.
    pub(super) toggles: Vec<u64>,
    /// The number of cycles in which each flip-flop of the netlist has loaded its data, in their
    /// order.
    pub(super) loads: Vec<u64>,
    flip_flops: Vec<(u32, Option<u32>, u32)>,
    events: BinaryHeap<Reverse<(u64, u32)>>,
    now: u64,
}

impl<'a> Simulation<'a> {
    /// Creates a simulation with all nets at 0, before [`Self::settle`].
    pub(super) fn new(netlist: &'a Netlist) -> Self {
        let mut gates = Vec::new();
        for instance in &netlist.instances {
            let kind = &netlist.kinds[instance.kind];
            if kind.role != Role::Gate {
                continue;
            }
            let mut inputs = [0; 6];
            inputs.iter_mut().zip(&instance.inputs).for_each(|(slot, &net)| *slot = net);
            for (&output, &table) in instance.outputs.iter().zip(&kind.tables) {
                let n_inputs = instance.inputs.len().min(6);
                gates.push(Gate {
                    inputs,
                    n_inputs,
                    table,
                    output,
                    delay: kind.delay,
                    pending: None,
                });
            }
        }
        let mut first_reader = vec![0_u32; netlist.n_nets + 1];
        let inputs = |gate: &Gate| gate.inputs.into_iter().take(gate.n_inputs);
        gates.iter().flat_map(inputs).for_each(|net| first_reader[net as usize + 1] += 1);
        for k in 0..netlist.n_nets {
            first_reader[k + 1] += first_reader[k];
        }
        let mut next = first_reader.clone();
        let mut readers = vec![0; *first_reader.last().unwrap_or(&0) as usize];
        for (k, gate) in gates.iter().enumerate() {
            for net in inputs(gate) {
                readers[next[net as usize] as usize] = k as u32;
                next[net as usize] += 1;
            }
        }
        let flip_flops: Vec<_> = netlist
            .flip_flops()
            .map(|(_, cell, enable)| (cell.inputs[0], enable, cell.outputs[0]))
            .collect();
        let mut values = vec![false; netlist.n_nets];
        values[ONE as usize] = true;
        let mut simulation = Self {
            netlist,
            readers,
            first_reader,
            values,
            toggles: vec![0; netlist.n_nets],
            loads: vec![0; flip_flops.len()],
            flip_flops,
            events: BinaryHeap::new(),
            now: 0,
            gates,
        };
        (0..simulation.gates.len() as u32).for_each(|gate| simulation.evaluate(gate));
        simulation
    }

    /// Returns a net.
    pub(super) fn bit(&self, net: u32) -> bool {
        self.values[net as usize]
    }

    /// Returns the word on some nets, lowest bit first; at most 128 of them.
    pub(super) fn word(&self, nets: &[u32]) -> u128 {
        nets.iter()
            .take(128)
            .enumerate()
            .fold(0, |word, (k, &net)| word | u128::from(self.bit(net)) << k)
    }

    /// Sets the word on some nets, lowest bit first.
    pub(super) fn set(&mut self, nets: &[u32], word: u128) {
        for (k, &net) in nets.iter().enumerate() {
            self.change(net, k < 128 && word >> k & 1 == 1);
        }
    }

    /// Resets the toggles so far.
    pub(super) fn reset_counts(&mut self) {
        self.toggles.fill(0);
        self.loads.fill(0);
    }

    /// Loads the flip-flops at an edge of the clock. Inputs may be set after it; [`Self::settle`]
    /// follows.
    pub(super) fn edge(&mut self) {
        let mut changes = Vec::new();
        for (k, &(data, enable, output)) in self.flip_flops.iter().enumerate() {
            if enable.is_none_or(|enable| self.values[enable as usize]) {
                self.loads[k] += 1;
                if self.values[data as usize] != self.values[output as usize] {
                    changes.push((output, self.values[data as usize]));
                }
            }
        }
        for (net, value) in changes {
            self.change(net, value);
        }
    }

    /// Runs until nothing changes any more. Returns false if the circuit oscillates.
    #[must_use]
    pub(super) fn settle(&mut self) -> bool {
        let limit = (self.netlist.n_nets as u64 + 1).saturating_mul(1000);
        let mut n_events = 0_u64;
        while let Some(Reverse((time, gate))) = self.events.pop() {
            let Some((due, value)) = self.gates[gate as usize].pending else { continue };
            if due != time {
                continue;
            }
            n_events += 1;
            if n_events > limit {
                return false;
            }
            self.now = time;
            self.gates[gate as usize].pending = None;
            self.change(self.gates[gate as usize].output, value);
        }
        true
    }

    fn change(&mut self, net: u32, value: bool) {
        let net = net as usize;
        if self.values[net] == value {
            return;
        }
        self.values[net] = value;
        self.toggles[net] += 1;
        for k in self.first_reader[net]..self.first_reader[net + 1] {
            self.evaluate(self.readers[k as usize]);
        }
    }

    /// Schedules the change of a gate's output, or cancels it.
    fn evaluate(&mut self, index: u32) {
        let gate = &self.gates[index as usize];
        let inputs = gate.inputs[..gate.n_inputs].iter().enumerate();
        let row =
            inputs.fold(0, |row, (k, &net)| row | usize::from(self.values[net as usize]) << k);
        let value = gate.table >> row & 1 == 1;
        let is_same = self.values[gate.output as usize] == value;
        let gate = &mut self.gates[index as usize];
        match gate.pending {
            Some(_) if is_same => gate.pending = None,
            None if !is_same => {
                let time = self.now + u64::from(gate.delay);
                gate.pending = Some((time, value));
                self.events.push(Reverse((time, index)));
            }
            _ => {}
        }
    }
}
