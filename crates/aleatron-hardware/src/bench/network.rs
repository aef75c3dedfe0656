//! The test bench of a whole network.

use super::{arriving, counters, hex, results};
use crate::circuit::{Circuit, Operation, Source};
use crate::error::internal;
use crate::verilog::{File, link_name, output_bits, range, top_name};
use crate::{Options, Output, Result, Trace};
use std::fmt::Write as _;

/// A stream that the bench compares.
struct Monitor {
    name: String,
    condition: String,
    signal: String,
    bits: u32,
    per_sample: usize,
    /// The number of elements of all samples; with early termination, samples are read several
    /// times.
    total: usize,
    what: &'static str,
}

pub(super) fn files(circuit: &Circuit, options: &Options, trace: &Trace) -> Result<Vec<File>> {
    if trace.stages.len() != circuit.stages.len() {
        return Err(internal("hardware::bench::network"));
    }
    let mut files = Vec::new();
    let mut monitors = Vec::new();
    let input = &circuit.input;
    files.push(hex(
        "tb/input.hex",
        arriving(input, &trace.inputs).map(i128::from),
        input.word.bits(),
    ));
    for (k, (stage, traced)) in circuit.stages.iter().zip(&trace.stages).enumerate() {
        let (name, link) = (&stage.name, &stage.output);
        let (mut counts, mut values, mut reads) = (&traced.counts, &traced.values, Vec::new());
        if let Operation::Layer(layer) = &stage.operation {
            match &trace.early {
                Some(early) if !layer.checks.is_empty() => {
                    (counts, values) = (&early.counts, &early.values);
                    let cycles = |read: usize| {
                        layer.checks.get(read).map_or(layer.length, |check| check.cycles)
                    };
                    reads.extend(early.reads.iter().flat_map(|&reads| (0..reads).map(cycles)));
                }
                _ => reads.resize(trace.n_samples, layer.length),
            }
            let file = format!("{name}_count");
            files.push(hex(
                &format!("tb/{file}.hex"),
                counters(circuit, k, counts, &reads).into_iter(),
                layer.count_bits,
            ));
            monitors.push(Monitor {
                condition: format!("dut.{name}.read && dut.{name}.advance"),
                signal: format!("dut.{name}.count"),
                name: file,
                bits: layer.count_bits,
                per_sample: link.elements,
                total: counts.len(),
                what: "count",
            });
        }
        let total = values.len();
        let values = arriving(link, values).map(i128::from);
        files.push(hex(&format!("tb/{name}.hex"), values, link.word.bits()));
        let signal = link_name(circuit, Source::Stage(k));
        monitors.push(Monitor {
            condition: format!("dut.{signal}_valid && dut.{signal}_ready"),
            signal: format!("dut.{signal}_data"),
            name: name.clone(),
            bits: link.word.bits(),
            per_sample: link.elements,
            total,
            what: stage.operation.name(),
        });
    }
    let scores = results(circuit, options, trace);
    let bits = output_bits(circuit, options);
    files.push(hex("tb/output.hex", scores.iter().map(|&score| i128::from(score)), bits));
    let per_sample =
        if options.output == Output::Scores { circuit.link(circuit.output).elements } else { 1 };
    let cocotb = include_str!("cocotb.py")
        .replace("@TOP@", &top_name(circuit))
        .replace("@WORDS@", &input.elements.to_string())
        .replace("@RESULTS@", &per_sample.to_string())
        .replace("@BITS@", &bits.to_string());
    files.push(File { path: "tb/test_network.py".to_owned(), text: cocotb });
    let text = bench(circuit, trace.n_samples, &monitors, bits, per_sample);
    files.push(File { path: "tb/network_tb.v".to_owned(), text });
    Ok(files)
}

fn bench(
    circuit: &Circuit,
    samples: usize,
    monitors: &[Monitor],
    bits: u32,
    per_sample: usize,
) -> String {
    let (inputs, outputs) = (samples * circuit.input.elements, samples * per_sample);
    let input_bits = circuit.input.word.bits();
    let [s_bytes, m_bytes] = [input_bits, bits].map(|bits| (bits.div_ceil(8) * 8) as usize);
    let mut text = format!(
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n// Runs {samples} samples and compares every threshold, count, value and result with \
         those of the engine.\n// +stall holds back inputs and outputs at random; +reset=N resets the circuit in cycle N and starts over.\n\
         `timescale 1ns / 1ps\n`default_nettype none\n\nmodule network_tb;\n    reg clk = 1'b0, resetn = 1'b0;\n    always #5 clk = !clk;\n    \
         reg {in_range} inputs [0:{}];\n    reg {out_range} results [0:{}];\n    integer sent = 0, got = 0, errors = 0, cycles = 0, reset_at \
         = -1, first = -1;\n    reg stall = 1'b0, offer = 1'b0;\n    reg [31:0] noise = 32'h1234567;\n    wire s_ready, m_valid, m_last, \
         framing_error;\n    wire [{}:0] m_data;\n    wire s_valid = offer && sent < {inputs};\n    // Long pauses fill the circuit up to its input.\n    wire m_ready = !stall || noise[3] && cycles % 4096 >= 1024;\n    wire \
         {in_range} word = inputs[sent < {inputs} ? sent : 0];\n    {} dut (\n        .aclk(clk), .aresetn(resetn), .s_axis_tdata({}), \
         .s_axis_tvalid(s_valid), .s_axis_tready(s_ready),\n        .s_axis_tlast(sent % {per_input} == {per_input} - 1), \
         .m_axis_tdata(m_data), .m_axis_tvalid(m_valid), .m_axis_tready(m_ready),\n        .m_axis_tlast(m_last), \
         .framing_error(framing_error)\n    );\n    wire {out_range} result = m_data[{}:0];\n",
        inputs - 1,
        outputs - 1,
        m_bytes - 1,
        top_name(circuit),
        match s_bytes - input_bits as usize {
            0 => "word".to_owned(),
            more => format!("{{{more}'d0, word}}"),
        },
        bits - 1,
        in_range = range(input_bits as usize),
        out_range = range(bits as usize),
        per_input = circuit.input.elements,
    );
    text.push_str("`ifndef NETLIST\n");
    for Monitor { name, bits, total, .. } in monitors {
        let _ = writeln!(
            text,
            "    reg {} {name}_expected [0:{}];\n    integer {name}_seen = 0;",
            range(*bits as usize),
            total - 1
        );
    }
    text.push_str("    initial begin\n");
    for Monitor { name, .. } in monitors {
        let _ = writeln!(text, "        $readmemh(\"{name}.hex\", {name}_expected);");
    }
    text.push_str(
        "    end\n`endif\n    initial begin\n        $readmemh(\"input.hex\", inputs);\n        $readmemh(\"output.hex\", results);\n        stall = $test$plusargs(\"stall\");\n        if (!$value$plusargs(\"reset=%d\", reset_at)) reset_at = -1;\n    end\n    always \
         @(posedge clk) begin\n        cycles <= cycles + 1;\n        noise <= {noise[30:0], noise[31] ^ noise[21] ^ noise[1] ^ noise[0]};\n        \
         resetn <= cycles >= 3 && !(reset_at >= 0 && cycles >= reset_at && cycles < reset_at + 3);\n        if (!resetn) offer <= 1'b0;\n        \
         else if (!offer || s_ready) offer <= !stall || noise[0];\n        if (!resetn) sent <= 0;\n        else if (s_valid && s_ready) sent \
         <= sent + 1;\n    end\n",
    );
    text.push_str(
        "    // A netlist has no signals of stages.\n`ifdef NETLIST\n    wire complete = 1'b1;\n`else\n",
    );
    for Monitor { name, condition, signal, per_sample, total, what, .. } in monitors {
        let _ = write!(
            text,
            "    always @(posedge clk)\n        if (!resetn) {name}_seen = 0;\n        else if ({condition}) begin\n            if ({name}_seen \
             < {all} && {signal} !== {name}_expected[{name}_seen]) begin\n                if (errors < 20)\n                    \
             $display(\"FAIL {name}: sample %0d, {what} %0d: %0d, expected %0d\", {name}_seen / {per_sample}, {name}_seen % {per_sample}, \
             {signal}, {name}_expected[{name}_seen]);\n                errors = errors + 1;\n            end\n            {name}_seen = \
             {name}_seen + 1;\n        end\n",
            all = total,
        );
    }
    let limit = samples.saturating_mul(limit(circuit)).saturating_add(10_000);
    let complete: Vec<String> =
        monitors.iter().map(|m| format!("{}_seen >= {}", m.name, m.total)).collect();
    let _ = write!(
        text,
        "    wire complete = {};\n`endif\n    always @(negedge clk) if (resetn) begin\n        if (m_valid && m_ready) begin\n            if (result !== results[got] || m_last \
         !== (got % {per_sample} == {per_sample} - 1)) begin\n                if (errors < 20)\n                    $display(\"FAIL result \
         %0d of sample %0d: %0d, expected %0d\", got % {per_sample}, got / {per_sample}, result, results[got]);\n                errors = \
         errors + 1;\n            end\n            if (first < 0) first = cycles;\n            got = got + 1;\n        end\n        if \
         (framing_error !== 1'b0) begin\n            $display(\"FAIL framing error\");\n            errors = errors + 1;\n            $finish;\n        \
         end\n        // Values that no result depends on may come later.\n        if (got == {outputs} && (errors != 0 || complete)) begin\n            if (errors == 0) $display(\"PASS {samples} samples, \
         {outputs} results, %0d cycles\", cycles);\n            else $display(\"FAIL %0d differences\", errors);\n            $finish;\n        end\n        \
         if (errors > 1000 || cycles > {limit}) begin\n            $display(\"FAIL %0d differences, %0d of {outputs} results after %0d \
         cycles\", errors, got, cycles);\n            $finish;\n        end\n    end else got = 0;\nendmodule\n\n`default_nettype wire\n",
        complete.join(" && "),
    );
    text
}

/// Returns a number of cycles in which every sample is finished, with stalls.
fn limit(circuit: &Circuit) -> usize {
    let stages = circuit.stages.iter().map(|stage| match &stage.operation {
        Operation::Layer(layer) => {
            let window = &layer.window;
            let pixels = (window.size[0] + window.padding[0][0] + window.padding[0][1])
                * window.padded_columns();
            let reads = (layer.checks.len() + 1) * (layer.rows.len() + 4);
            pixels * window.channels
                + window.positions * (layer.rows.len() * (layer.cycles() + 4) + reads)
        }
        Operation::Pool { window, .. } => {
            let pixels = (window.size[0] + window.padding[0][0] + window.padding[0][1])
                * window.padded_columns();
            (pixels + window.positions) * window.channels
        }
        _ => 2 * stage.output.elements,
    });
    stages.fold(1000_usize, |all, cycles| all.saturating_add(cycles.saturating_mul(8)))
}
