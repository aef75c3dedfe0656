//! `aleatron inspect`: the graph of an ONNX network, and which of its nodes can run as streams.

use super::{Outcome, read_length};
use crate::{Verdict, output};
use aleatron::graph::Graph;
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
        output::line(found.to_string())?;
    }
    Ok(Verdict::Good)
}
