//! Depth of the combinational logic of a netlist: the cells on its longest path between registers.

use super::cells::Role;
use super::netlist::{Netlist, fault};
use crate::Result;

impl Netlist {
    /// Returns the number of cells on the longest path without a flip-flop: from a register or a
    /// port to a register or a port. An adder with two outputs is one cell.
    ///
    /// # Errors
    /// Returns [`Error::ToolOutput`](crate::Error::ToolOutput) if gates form a loop.
    pub(super) fn depth(&self) -> Result<u64> {
        let is_gate = |index: usize| self.kinds[self.instances[index].kind].role == Role::Gate;
        let gates: Vec<usize> = (0..self.instances.len()).filter(|&index| is_gate(index)).collect();
        let mut is_driven = vec![false; self.n_nets];
        for &gate in &gates {
            self.instances[gate].outputs.iter().for_each(|&net| is_driven[net as usize] = true);
        }
        // The gates that read each net, and the inputs of each gate whose depth is not known yet.
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.n_nets];
        let mut unknown = vec![0_usize; self.instances.len()];
        for &gate in &gates {
            for &net in self.instances[gate].inputs.iter().filter(|&&net| is_driven[net as usize]) {
                readers[net as usize].push(gate);
                unknown[gate] += 1;
            }
        }
        let mut depths = vec![0_u64; self.n_nets];
        let mut ready: Vec<usize> =
            gates.iter().copied().filter(|&gate| unknown[gate] == 0).collect();
        let (mut n_known, mut deepest) = (0, 0);
        while let Some(gate) = ready.pop() {
            n_known += 1;
            let instance = &self.instances[gate];
            let depth =
                1 + instance.inputs.iter().map(|&net| depths[net as usize]).max().unwrap_or(0);
            deepest = deepest.max(depth);
            for &net in &instance.outputs {
                depths[net as usize] = depth;
                for &reader in &readers[net as usize] {
                    unknown[reader] -= 1;
                    if unknown[reader] == 0 {
                        ready.push(reader);
                    }
                }
            }
        }
        match n_known == gates.len() {
            true => Ok(deepest),
            false => Err(fault(format!(
                "netlist without loops: {} gates form some",
                gates.len() - n_known
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cells;
    use super::super::netlist::Hierarchy;
    use super::*;

    /// Returns a module with an input of net 2, an output and some cells of one input each, as JSON
    /// of Yosys.
    fn module(cells: &[(&str, u32, u32)], output: u32) -> String {
        let cells: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(k, (kind, input, output))| {
                let ends = match *kind {
                    "$_DFF_P_" => format!("\"D\": [{input}], \"Q\": [{output}]"),
                    _ => format!("\"A\": [{input}], \"Y\": [{output}]"),
                };
                format!("\"c{k}\": {{\"type\": \"{kind}\", \"connections\": {{{ends}}}}}")
            })
            .collect();
        format!(
            "{{\"modules\": {{\"top\": {{\"ports\": {{\"a\": {{\"bits\": [2]}}, \"y\": {{\"bits\": [{output}]}}}}, \"cells\": {{{}}}}}}}}}",
            cells.join(", ")
        )
    }

    fn depth(cells: &[(&str, u32, u32)], output: u32) -> Result<u64> {
        let hierarchy = Hierarchy::parse(&module(cells, output)).unwrap();
        Netlist::new(&hierarchy, "top", &Cells::Generic).unwrap().depth()
    }

    #[test]
    fn flip_flops_end_paths() {
        let inverter = "$_NOT_";
        assert_eq!(depth(&[], 2).unwrap(), 0);
        assert_eq!(depth(&[(inverter, 2, 3), (inverter, 3, 4), (inverter, 4, 5)], 5).unwrap(), 3);
        // Two inverters, a flip-flop and one inverter; a loop through a flip-flop is not a loop of
        // gates.
        let cells = [(inverter, 2, 3), (inverter, 3, 4), ("$_DFF_P_", 4, 5), (inverter, 5, 6)];
        assert_eq!(depth(&cells, 6).unwrap(), 2);
        assert_eq!(depth(&[("$_DFF_P_", 4, 3), (inverter, 3, 4)], 4).unwrap(), 1);
    }

    #[test]
    fn loops_of_gates_are_errors() {
        let error = depth(&[("$_NOT_", 4, 3), ("$_NOT_", 3, 4)], 4).unwrap_err().to_string();
        assert!(error.contains("2 gates"), "{error}");
    }
}
