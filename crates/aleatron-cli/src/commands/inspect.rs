//! `aleatron inspect`: the graph of an ONNX network, and how it runs as streams.

use super::bindings::BindingOptions;
use super::names::read_name;
use super::{Failure, Outcome, read_length, source};
use crate::{Verdict, output};
use aleatron::generator::GeneratorName;
use aleatron::network::{Arithmetic, Graph, Inspection, StreamConfig};
use aleatron_graph::{Dim, Error as GraphError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron inspect model.onnx\n  \
    aleatron inspect cnn --stages --arithmetic integer")]
pub(crate) struct Arguments {
    /// An .onnx file, or an embedded network for digits: noise_aware, plain or cnn.
    model: PathBuf,
    #[command(flatten)]
    bindings: BindingOptions,
    /// Bits of a stream, for bit-MACs and memory.
    #[arg(long, value_name = "BITS", value_parser = read_length, default_value_t = 256, help_heading = "Stages")]
    length: usize,
    /// Show the graph as the file has it, without folding and removing nodes.
    #[arg(long, conflicts_with = "stages", help_heading = "Stages")]
    as_written: bool,
    /// Show the stages that the network is compiled into: layers as streams with the arithmetic
    /// between them, and nodes on tensors.
    #[arg(long, help_heading = "Stages")]
    stages: bool,
    /// The generator of the stages.
    #[arg(long, value_name = "NAME", value_parser = read_name::<GeneratorName>, default_value = "bernoulli", requires = "stages", help_heading = "Stages")]
    generator: GeneratorName,
    /// The inter-layer arithmetic of the stages: float or integer.
    #[arg(long, value_name = "KIND", value_parser = read_name::<Arithmetic>, default_value_t = Arithmetic::Float, requires = "stages", help_heading = "Stages")]
    arithmetic: Arithmetic,
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A graph and the sizes that its file leaves open.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    inspection: Inspection,
    /// The shape of each input as the file has it: numbers, names, or null for sizes without a
    /// name.
    input_dims: BTreeMap<String, Vec<Size>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Size {
    Number(usize),
    Name(String),
    Unknown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.stages {
        return stages(arguments);
    }
    let mut graph = read(arguments)?;
    let input_dims = input_dims(&graph)?;
    graph.bind(&arguments.bindings.read()?)?;
    if !arguments.as_written {
        graph.simplify()?;
    }
    let inspection = aleatron_graph::inspect::inspect(&graph, arguments.length);
    let inspection = inspection.map_err(|error| with_sizes(&graph, &error))?;
    let shown = Shown { inspection, input_dims };
    if arguments.json {
        output::json(&shown)?;
        return Ok(Verdict::Good);
    }
    output::line(shown.inspection.to_string())?;
    for (name, dims) in &shown.input_dims {
        if dims.iter().any(|dim| !matches!(dim, Size::Number(_))) {
            output::line(format!("input {name} has the shape {} in the file", dims_text(dims)))?;
        }
    }
    let open = open_sizes(&graph)?;
    if !open.is_empty() {
        output::line(format!(
            "open sizes, shown as 1: {} (give them with --shape)",
            open.join(", ")
        ))?;
    }
    Ok(Verdict::Good)
}

/// Reads the graph of a file as it is.
fn read(arguments: &Arguments) -> Result<Graph, Failure> {
    if let Some(network) = source::embedded(&arguments.model) {
        return Ok(network?.graph().clone());
    }
    source::check_file(&arguments.model)?;
    Ok(Graph::read_onnx(&arguments.model)?)
}

fn stages(arguments: &Arguments) -> Outcome {
    let network = source::load(&arguments.model, &arguments.bindings)?;
    let config = StreamConfig::new(arguments.length).generator(arguments.generator);
    let stages = network.stages(&config.arithmetic(arguments.arithmetic))?;
    if arguments.json {
        output::json(&stages)?;
    } else {
        output::line(stages.to_string().trim_end())?;
    }
    Ok(Verdict::Good)
}

fn input_dims(graph: &Graph) -> Result<BTreeMap<String, Vec<Size>>, GraphError> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Size::Number(*size),
        Dim::Named(name) => Size::Name(name.clone()),
        Dim::Unknown => Size::Unknown,
    };
    let mut shapes = BTreeMap::new();
    for &id in graph.inputs() {
        let value = graph.value(id)?;
        let dims = value.shape.as_deref().unwrap_or_default();
        shapes.insert(value.name.clone(), dims.iter().map(size).collect());
    }
    Ok(shapes)
}

fn dims_text(dims: &[Size]) -> String {
    let text = |dim: &Size| match dim {
        Size::Number(size) => size.to_string(),
        Size::Name(name) => name.clone(),
        Size::Unknown => "?".to_owned(),
    };
    dims.iter().map(text).collect::<Vec<_>>().join(" x ")
}

/// Returns the keys of the sizes that are not numbers, each once.
fn open_sizes(graph: &Graph) -> Result<Vec<String>, GraphError> {
    let mut keys: Vec<String> = Vec::new();
    for size in graph.unbound_sizes()? {
        if !keys.contains(&size.key) {
            keys.push(size.key);
        }
    }
    Ok(keys)
}

/// Returns the failure of a graph that cannot run, with the sizes that may be the reason.
fn with_sizes(graph: &Graph, error: &GraphError) -> Failure {
    match open_sizes(graph) {
        Ok(open) if !open.is_empty() => {
            let sizes: Vec<String> = open.iter().map(|key| format!("{key}=SIZE")).collect();
            let sizes = sizes.join(",");
            Failure::Work(format!(
                "{error}; sizes that the file leaves open are 1: give them with --shape {sizes}"
            ))
        }
        _ => Failure::Work(error.to_string()),
    }
}
