//! Errors of circuits.

use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a circuit is not supported, or why it could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The network cannot run with its configuration, or the engine failed.
    #[error(transparent)]
    Engine(#[from] aleatron_engine::Error),
    /// A layer, a program or a backend is invalid.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// The inter-layer arithmetic is not in integers.
    #[error("a circuit computes in integers: configure the network with integer arithmetic")]
    FloatArithmetic,
    /// A layer has Bernoulli streams.
    #[error(
        "layer \"{layer}\": Bernoulli streams need a random generator for each stream and have no hardware; use a sequence, such as \
         --generator lfsr or --generator sobol"
    )]
    Bernoulli {
        /// The name of the layer.
        layer: String,
    },
    /// Nodes of the network run on tensors.
    #[error(
        "{} no hardware: such nodes run in floating point; end the network before them with --output NAME, or remove them",
        have(nodes)
    )]
    TensorNodes {
        /// The names and operators of the nodes.
        nodes: Vec<(String, String)>,
    },
    /// The circuit of a part of the network is not supported.
    #[error("{part}: {what} is not supported in hardware; {remedy}")]
    Unsupported {
        /// The layer or the operation.
        part: String,
        /// The unsupported property.
        what: String,
        /// A remedy.
        remedy: &'static str,
    },
    /// The number of lanes is 0.
    #[error(
        "the number of lanes is 0; give at least 1, or leave it out for all neurons in parallel"
    )]
    NoLanes,
    /// A decision margin is not a number of standard deviations.
    #[error(
        "a decision margin of {deviations} is not between 0.001 and 1000 standard deviations; 3 is a usual one"
    )]
    Margin {
        /// The standard deviations.
        deviations: f64,
    },
    /// The features of a sample do not fit the circuit.
    #[error(
        "sample {sample}, input {input} is negative, but the circuit was generated for non-negative inputs"
    )]
    NegativeInput {
        /// The index of the sample.
        sample: usize,
        /// The index of the input.
        input: usize,
    },
    /// Features are not whole samples.
    #[error("{values} values are not whole samples of {features} features, or no sample at all")]
    Samples {
        /// The number of values.
        values: usize,
        /// The features of a sample.
        features: usize,
    },
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A Liberty file is malformed or incomplete.
    #[error("{}{}: {what}", path.display(), if *line == 0 { String::new() } else { format!(", line {line}") })]
    Liberty {
        /// The file.
        path: PathBuf,
        /// The line, or 0 for the file as a whole.
        line: usize,
        /// The defect.
        what: String,
    },
    /// A tool is missing.
    #[error(
        "{tool} is not installed; install it, for example with `apt-get install {package}` on Debian"
    )]
    MissingTool {
        /// The name of the tool.
        tool: &'static str,
        /// The Debian packages of the tool.
        package: &'static str,
    },
    /// A tool failed.
    #[error("{tool} failed: {output}")]
    Tool {
        /// The name of the tool.
        tool: String,
        /// The last lines of its output.
        output: String,
    },
    /// The output of a tool cannot be parsed.
    #[error("the output of {tool} has no {missing}")]
    ToolOutput {
        /// The name of the tool.
        tool: &'static str,
        /// The missing part.
        missing: String,
    },
    /// A simulation differs from the engine.
    #[error("the circuit differs from the engine ({run}): {output}")]
    Different {
        /// The simulation.
        run: String,
        /// Its first differences.
        output: String,
    },
}

fn have(nodes: &[(String, String)]) -> String {
    let names: Vec<String> =
        nodes.iter().map(|(name, operator)| format!("\"{name}\" ({operator})")).collect();
    match names.len() {
        1 => format!("node {} has", names[0]),
        _ => format!("nodes {} have", names.join(", ")),
    }
}

pub(crate) fn internal(place: &'static str) -> Error {
    aleatron_core::Error::Internal { place }.into()
}
