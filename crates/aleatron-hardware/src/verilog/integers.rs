//! The Verilog of a layer that multiplies integers: in each cycle one input with its weight in
//! every lane.

use super::Module;
use super::layer::LayerText;
use super::text::{concatenation, range, table, unsigned};
use crate::Pipeline;
use std::fmt::Write as _;

impl LayerText<'_> {
    /// Returns the input word with its magnitude limited to that of the integers: a threshold of
    /// 2^W becomes 2^W - 1.
    pub(super) fn saturated(&self) -> String {
        let width = self.layer.comparator;
        let magnitude = format!("in_data[{}:0] | {{{width}{{in_data[{width}]}}}}", width - 1);
        match self.has_signs() {
            true => format!("{{in_data[{}], {magnitude}}}", width + 1),
            false => magnitude,
        }
    }

    /// Writes the selection of inputs and weights, and one multiplier with its accumulator for each
    /// lane.
    pub(super) fn integers(&self, text: &mut String, stored: u32) {
        let (layer, lanes, gated) = (self.layer, self.lanes, self.gated());
        let (width, count) = (layer.comparator, layer.count_bits as usize);
        let weight = layer.weight_comparator as usize + 1;
        let slices = layer.taps.iter().map(|&word| format!("words[{}+:{stored}]", word * stored));
        let _ = write!(
            text,
            "    wire {} t = {};\n    wire {} weights_now;\n    {}_weights weights (.group(group), .k(k), .weights(weights_now));\n    \
             wire clk_counts;\n    al_clock_gate #(.GATED({gated})) gate_counts (.clk(clk), .enable(count_init || count_run), \
             .gated(clk_counts));\n",
            range(layer.taps.len() * stored as usize),
            concatenation(&slices.collect::<Vec<_>>()),
            range(lanes * weight),
            self.module,
        );
        // Between runs, operands are 0: a moving word toggles no multiplier.
        let operand = |text: &mut String, name: &str, bits: usize, value: &str| {
            let _ = match self.pipeline {
                Pipeline::None => {
                    writeln!(text, "    wire {} {name} = {value} & {{{bits}{{run}}}};", range(bits))
                }
                Pipeline::Registers => {
                    let enable = if gated == 1 { "" } else { "if (init || run) " };
                    writeln!(
                        text,
                        "    reg {} {name};\n    always @(posedge clk_streams) {enable}{name} <= {value} & {{{bits}{{run}}}};",
                        range(bits)
                    )
                }
            };
        };
        let is_shared = layer.input_groups.len() == 1;
        if is_shared {
            self.taps(text, "tap", stored, |k| layer.input_groups[0].get(k).copied());
            operand(text, "x", stored as usize, "tap(k, t)");
        }
        operand(text, "w", lanes * weight, "weights_now");
        for p in 0..lanes {
            let x = match is_shared {
                true => "x".to_owned(),
                false => {
                    let name = format!("x{p}");
                    self.grouped_taps(text, p, stored);
                    operand(text, &name, stored as usize, &format!("tap{p}({{group, k}}, t)"));
                    name
                }
            };
            let sign = match self.has_signs() {
                true => format!("{x}[{width}] ^ w[{}]", p * weight + weight - 1),
                false => format!("w[{}]", p * weight + weight - 1),
            };
            let _ = write!(
                text,
                "    wire {} count{p};\n    al_multiply_add #(.WIDTH({width}), .COUNT({count}), .GATED({gated})) product{p} (\n        \
                 .clk(clk_counts), .init(count_init), .run(count_run), .x({x}[{}:0]), .w(w[{}+:{width}]), .negative({sign}),\n        \
                 .count(count{p})\n    );\n",
                range(count),
                width - 1,
                p * weight,
            );
        }
    }

    /// Writes the multiplexer that selects the input of a cycle.
    fn taps(&self, text: &mut String, name: &str, stored: u32, tap: impl Fn(usize) -> Option<u32>) {
        let cycle = self.layer.cycle_bits();
        let all = range(self.layer.taps.len() * stored as usize);
        let _ = write!(
            text,
            "    function {} {name}(input {} at, input {all} all);\n        case (at)\n",
            range(stored as usize),
            range(cycle as usize),
        );
        for k in 0..self.layer.fan_in() {
            let label = if k + 1 == self.layer.fan_in() {
                "default".to_owned()
            } else {
                format!("{cycle}'d{k}")
            };
            let first = tap(k).unwrap_or(0) * stored;
            let _ = writeln!(text, "            {label}: {name} = all[{first}+:{stored}];");
        }
        text.push_str("        endcase\n    endfunction\n");
    }

    /// Writes the multiplexer of a lane whose inputs depend on the group of its output channel.
    fn grouped_taps(&self, text: &mut String, lane: usize, stored: u32) {
        let (layer, cycle) = (self.layer, self.layer.cycle_bits());
        let index = self.group_bits() + cycle;
        let _ = write!(
            text,
            "    function {} tap{lane}(input {} at, input {} all);\n        case (at)\n",
            range(stored as usize),
            range(index as usize),
            range(layer.taps.len() * stored as usize),
        );
        for group in 0..self.groups {
            let Some(row) = self.row(group, lane).and_then(|row| layer.rows.get(row)) else {
                continue;
            };
            for (k, &tap) in layer.input_groups.get(row.group).into_iter().flatten().enumerate() {
                let _ = writeln!(
                    text,
                    "            {{{}'d{group}, {cycle}'d{k}}}: tap{lane} = all[{}+:{stored}];",
                    self.group_bits(),
                    tap * stored
                );
            }
        }
        let _ = writeln!(
            text,
            "            default: tap{lane} = {stored}'d0;\n        endcase\n    endfunction"
        );
    }

    /// Returns the table of the weights: for each lane the magnitude and, above it, the sign of the
    /// weight of a cycle.
    pub(super) fn integer_weights(&self) -> Module {
        let (layer, n) = (self.layer, self.layer.fan_in());
        let (width, cycle) = (layer.weight_comparator + 1, layer.cycle_bits());
        let name = format!("{}_weights", self.module);
        let mut body = String::new();
        for lane in 0..self.lanes {
            let mut entries = Vec::with_capacity(self.groups << cycle);
            for group in 0..self.groups {
                let row = self.row(group, lane).and_then(|row| layer.rows.get(row));
                let word = |k: usize| {
                    let weight =
                        row.and_then(|row| Some((row.thresholds.get(k)?, row.negative.get(k)?)));
                    weight.map_or(0, |(&magnitude, &negative)| {
                        u128::from(magnitude) | u128::from(negative) << (width - 1)
                    })
                };
                // Cycles past the last input have no weight, except those that would end the table.
                let cycles = if group + 1 == self.groups { n } else { 1 << cycle };
                entries.extend((0..cycles).map(|k| unsigned(word(k), width)));
            }
            body.push_str(&table(
                &format!("weight{lane}"),
                &range(width as usize),
                self.group_bits() + cycle,
                &entries,
            ));
            let _ = writeln!(
                body,
                "    assign weights[{}+:{width}] = weight{lane}({{group, k}});",
                lane * width as usize
            );
        }
        let text = format!(
            "// The integers of the weights: those of each neuron in the cycle of their input.\n`default_nettype none\n\nmodule {name} (\n    \
             input  wire {} group,\n    input  wire {} k,\n    output wire {} weights\n);\n{body}endmodule\n\n`default_nettype wire\n",
            range(self.group_bits() as usize),
            range(cycle as usize),
            range(self.lanes * width as usize),
        );
        Module { name, text }
    }
}
