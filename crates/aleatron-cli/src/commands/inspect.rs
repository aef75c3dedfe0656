//! `aleatron inspect`: the graph of an ONNX network, and which of its nodes can run as streams.

use super::{Outcome, read_length};
use crate::{Verdict, output};
use aleatron::graph::{Graph, Inspection};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// An .onnx file.
    model: PathBuf,
    /// Bits of a stream, for bit-MACs and memory.
    #[arg(long, value_name = "BITS", value_parser = read_length, default_value_t = 256)]
    length: usize,
    /// Show the graph as the file has it, without folding and removing nodes.
    #[arg(long)]
    as_written: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut graph = Graph::read_onnx(&arguments.model)?;
    if !arguments.as_written {
        graph.simplify()?;
    }
    let found = aleatron::graph::inspect(&graph, arguments.length)?;
    if arguments.json {
        output::json(&found)?;
    } else {
        output::line(text(&found).trim_end())?;
    }
    Ok(Verdict::Good)
}

/// The graph as a table.
fn text(found: &Inspection) -> String {
    let shape = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let mut rows = vec![
        ["node", "operator", "output", "parameters", "runs as", "fan-in", "products", "bit-MACs"]
            .map(str::to_owned),
    ];
    for node in &found.nodes {
        let (fan_in, products, bits) = match &node.stream {
            Some(stream) => {
                (stream.fan_in.to_string(), stream.products.to_string(), stream.bit_macs.to_string())
            }
            None => Default::default(),
        };
        rows.push([
            node.name.clone(),
            node.operator.to_owned(),
            shape(&node.shape),
            if node.parameters == 0 { String::new() } else { node.parameters.to_string() },
            if node.stream.is_some() { "streams" } else { "binary" }.to_owned(),
            fan_in,
            products,
            bits,
        ]);
    }
    let widths: Vec<usize> =
        (0..8).map(|k| rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0)).collect();
    let mut text = format!("Graph {}\n", found.name);
    for (what, values) in [("input", &found.inputs), ("output", &found.outputs)] {
        for value in values {
            text.push_str(&format!("  {what} {}: {} {}\n", value.name, value.dtype, shape(&value.shape)));
        }
    }
    text.push('\n');
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(k, (cell, &width))| {
            // Names to the left, numbers to the right.
            if k < 3 || k == 4 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    let streams = found.nodes.iter().filter_map(|node| node.stream.as_ref());
    let (count, bytes) = streams.fold((0, 0), |(n, bytes), stream| (n + 1, bytes + stream.stream_bytes));
    text.push_str(&format!(
        "\n{} nodes, {count} of them can run as streams; {} parameters ({} bytes)\n{} products a sample, {} bit-MACs at {} bits; \
         {bytes} bytes of weight streams; the largest value has {} bytes\n",
        found.nodes.len(),
        found.parameters,
        found.parameter_bytes,
        found.stream_products,
        found.stream_products.saturating_mul(found.length as u64),
        found.length,
        found.largest_value_bytes,
    ));
    text
}
