//! The top level: stages connected, with AXI streams at both ends.

use super::Module;
use super::text::{range, table, unsigned, unused};
use super::{scale_bits, width_of};
use crate::circuit::{Circuit, SCORE_SHIFT, Source, Word, bits};
use crate::{Options, Output};
use std::fmt::Write as _;

/// Returns the name of the signals of a source.
pub(crate) fn link_name(circuit: &Circuit, source: Source) -> String {
    match source {
        Source::Input => "s".to_owned(),
        Source::Stage(index) => {
            circuit.stages.get(index).map_or_else(String::new, |stage| stage.name.clone())
        }
    }
}

/// Returns the width of data on an AXI stream: whole bytes.
pub(crate) fn bytes(bits: u32) -> u32 {
    bits.div_ceil(8) * 8
}

/// Returns the number of bits of the circuit's output.
pub(crate) fn output_bits(circuit: &Circuit, options: &Options) -> u32 {
    let scores = circuit.link(circuit.output);
    match options.output {
        Output::Scores => scores.word.bits(),
        Output::Class => bits(scores.elements),
    }
}

/// Returns the readers of a source: the index of the stage and of its input; the output of the
/// circuit comes after all stages.
fn readers(circuit: &Circuit, source: Source) -> Vec<(usize, usize)> {
    let mut readers = Vec::new();
    for (k, stage) in circuit.stages.iter().enumerate() {
        readers.extend(
            stage
                .inputs
                .iter()
                .enumerate()
                .filter(|(_, input)| **input == source)
                .map(|(i, _)| (k, i)),
        );
    }
    if circuit.output == source {
        readers.push((circuit.stages.len(), 0));
    }
    readers
}

/// Returns the prefix of the valid and ready signals of one reader.
fn reader_name(circuit: &Circuit, source: Source, reader: (usize, usize)) -> String {
    let name = link_name(circuit, source);
    let all = readers(circuit, source);
    match all.iter().position(|own| *own == reader) {
        Some(branch) if all.len() > 1 => format!("{name}_to{branch}"),
        _ => name,
    }
}

/// Returns the scores in one unit, and the index of the greatest one on the AXI stream.
fn decision(circuit: &Circuit, (data, branch): (&str, &str), output: u32, m_bytes: u32) -> String {
    let scores = circuit.link(circuit.output);
    let (n, mut width) = (scores.elements, scores.word.bits());
    let mut score = format!("{data}_data");
    let mut text = format!("    wire {} score_index;\n", range(output as usize));
    if let (Word::Integer { low, high }, false) =
        (scores.word, circuit.score_multipliers.is_empty())
    {
        let factors: Vec<u128> =
            circuit.score_multipliers.iter().map(|&factor| factor.into()).collect();
        let m = width_of(factors.iter().copied());
        let (product, result) =
            scale_bits(low.into(), high.into(), &factors, SCORE_SHIFT, width, m);
        let entries: Vec<String> = factors.iter().map(|&factor| unsigned(factor, m)).collect();
        let _ = write!(
            text,
            "{}    wire {} scaled_score;\n    al_scale #(.A({width}), .M({m}), .SHIFT({SCORE_SHIFT}), .P({}), .R({result})) scale_score \
             (.value({score}), .multiplier(factor_of(score_index)), .result(scaled_score));\n",
            table("factor_of", &range(m as usize), output, &entries),
            range(result as usize),
            product.max(result),
        );
        (score, width) = ("scaled_score".to_owned(), result);
    } else {
        text.push_str(&unused(&["score_index"]).replace("unused", "unused_index"));
    }
    let unit = match circuit.checked_layer() {
        None => format!("al_argmax #(.WIDTH({width}), .N({n}), .INDEX({output})) argmax ("),
        Some((_, layer)) => {
            // No decision margin reaches a threshold of more bits; after the last read, every one
            // does.
            let most = (1_u128 << (width + 1)) - 1;
            let margins = layer.checks.iter().map(|check| u128::from(check.margin).min(most));
            let margins: Vec<String> =
                margins.chain([0]).map(|margin| unsigned(margin, width + 1)).collect();
            let read = bits(margins.len());
            text.push_str(&table("margin_of", &range(width as usize + 1), read, &margins));
            format!(
                "al_decide #(.WIDTH({width}), .N({n}), .INDEX({output}), .READ({read})) decide (\n        .read(read_number), \
                 .margin(margin_of(read_number)), .verdict(verdict), .stop(stop),"
            )
        }
    };
    let _ = writeln!(
        text,
        "    wire {} class_data;\n    {unit}\n        .clk(clk), .rst(rst), .in_data({score}), .in_valid({branch}_valid), \
         .in_ready({branch}_ready), .index(score_index), .out_data(class_data),\n        .out_valid(m_axis_tvalid), \
         .out_ready(m_axis_tready)\n    );\n    assign m_axis_tdata = {};",
        range(output as usize),
        extended("class_data", "1'b0", m_bytes - output),
    );
    text
}

pub(crate) fn top(circuit: &Circuit, options: &Options, name: &str, prefix: &str) -> Module {
    let input = circuit.input.word.bits();
    let output = output_bits(circuit, options);
    let scores = circuit.link(circuit.output);
    let (s_bytes, m_bytes) = (bytes(input), bytes(output));
    let n_outputs = if options.output == Output::Scores { scores.elements } else { 1 };
    let mut text = format!(
        "// The network {}: {}.\n// Network hash {} (FNV-1a, 128 bits).\n// Thresholds of the inputs enter one by one; {}.\n`default_nettype \
         none\n\nmodule {name} (\n    input  wire aclk,\n    input  wire aresetn,\n    /* verilator lint_off UNUSEDSIGNAL */\n    input  wire {} \
         s_axis_tdata,\n    /* verilator lint_on UNUSEDSIGNAL */\n    input  wire s_axis_tvalid,\n    output wire s_axis_tready,\n    input  \
         wire s_axis_tlast,\n    output wire {} m_axis_tdata,\n    output wire m_axis_tvalid,\n    input  wire m_axis_tready,\n    output wire \
         m_axis_tlast,\n    output reg  framing_error\n);\n    wire clk = aclk;\n    wire rst = !aresetn;\n",
        super::comment(&circuit.name),
        super::comment(&circuit.settings),
        circuit.network_hash,
        match options.output {
            Output::Scores => "scores leave one by one",
            Output::Class => "the index of the greatest score leaves",
        },
        range(s_bytes as usize),
        range(m_bytes as usize),
    );
    // Signals first: readers may come before forks in the text.
    let sources =
        std::iter::once(Source::Input).chain((0..circuit.stages.len()).map(Source::Stage));
    let sources: Vec<Source> = sources.collect();
    for &source in &sources {
        let link = link_name(circuit, source);
        let _ = writeln!(
            text,
            "    wire {} {link}_data;\n    wire {link}_valid, {link}_ready;",
            range(circuit.link(source).word.bits() as usize)
        );
        let branches = readers(circuit, source);
        if branches.len() > 1 {
            for branch in 0..branches.len() {
                let _ =
                    writeln!(text, "    wire {link}_to{branch}_valid, {link}_to{branch}_ready;");
            }
        }
    }
    if let Some((_, layer)) = circuit.checked_layer() {
        let number = range(bits(layer.checks.len() + 1) as usize);
        let _ = writeln!(text, "    wire verdict, stop;\n    wire {number} read_number;");
    }
    let frame = bits(circuit.input.elements);
    let _ = write!(
        text,
        "    assign s_data = s_axis_tdata[{}:0];\n    assign s_valid = s_axis_tvalid;\n    assign s_axis_tready = s_ready;\n    wire {} arrived;\n    \
         al_index #(.PERIOD({n}), .INDEX({frame})) frame (.clk(clk), .rst(rst), .step(s_valid && s_ready), .index(arrived));\n    wire is_last \
         = arrived == {};\n    // Set if the last word of a packet is not the last input of a sample; a reset clears it.\n    always @(posedge \
         clk)\n        if (rst) framing_error <= 1'b0;\n        else if (s_valid && s_ready && s_axis_tlast != is_last) framing_error <= \
         1'b1;\n",
        input - 1,
        range(frame as usize),
        format_args!("{frame}'d{}", circuit.input.elements - 1),
        n = circuit.input.elements,
    );
    for &source in &sources {
        let branches = readers(circuit, source);
        if branches.len() > 1 {
            let link = link_name(circuit, source);
            let list = |signal: &str| {
                let names: Vec<String> = (0..branches.len())
                    .rev()
                    .map(|branch| format!("{link}_to{branch}_{signal}"))
                    .collect();
                names.join(", ")
            };
            let _ = writeln!(
                text,
                "    al_fork #(.N({})) {link}_fork (.clk(clk), .rst(rst), .in_valid({link}_valid), .in_ready({link}_ready), .out_valid({{{}}}), \
                 .out_ready({{{}}}));",
                branches.len(),
                list("valid"),
                list("ready"),
            );
        }
    }
    for (k, stage) in circuit.stages.iter().enumerate() {
        let ports = if stage.inputs.len() == 2 { &["a", "b"][..] } else { &["in"] };
        let mut connections = String::new();
        for (i, (&source, port)) in stage.inputs.iter().zip(ports).enumerate() {
            let (data, branch) = (link_name(circuit, source), reader_name(circuit, source, (k, i)));
            let _ = write!(
                connections,
                ".{port}_data({data}_data), .{port}_valid({branch}_valid), .{port}_ready({branch}_ready), "
            );
        }
        if circuit.checked_layer().is_some_and(|(index, _)| index == k) {
            connections.push_str(".verdict(verdict), .stop(stop), .read_number(read_number), ");
        }
        let name = &stage.name;
        let _ = writeln!(
            text,
            "    {prefix}_{name} {name} (\n        .clk(clk), .rst(rst), {connections}\n        .out_data({name}_data), .out_valid({name}_valid), \
             .out_ready({name}_ready)\n    );"
        );
    }
    let (data, branch) = (
        link_name(circuit, circuit.output),
        reader_name(circuit, circuit.output, (circuit.stages.len(), 0)),
    );
    match options.output {
        Output::Scores => {
            let fill = match scores.word {
                Word::Integer { .. } => format!("{data}_data[{}]", output - 1),
                Word::Threshold { .. } => "1'b0".to_owned(),
            };
            let _ = writeln!(
                text,
                "    assign m_axis_tdata = {};\n    assign m_axis_tvalid = {branch}_valid;\n    assign {branch}_ready = m_axis_tready;",
                extended(&format!("{data}_data"), &fill, m_bytes - output),
            );
        }
        Output::Class => text.push_str(&decision(circuit, (&data, &branch), output, m_bytes)),
    }
    let left = bits(n_outputs);
    let _ = write!(
        text,
        "    wire {} left;\n    al_index #(.PERIOD({n_outputs}), .INDEX({left})) packet (.clk(clk), .rst(rst), .step(m_axis_tvalid && \
         m_axis_tready), .index(left));\n    assign m_axis_tlast = left == {left}'d{};\nendmodule\n\n`default_nettype wire\n",
        range(left as usize),
        n_outputs - 1,
    );
    Module { name: name.to_owned(), text }
}

fn extended(signal: &str, fill: &str, bits: u32) -> String {
    match bits {
        0 => signal.to_owned(),
        bits => format!("{{{{{bits}{{{fill}}}}}, {signal}}}"),
    }
}
