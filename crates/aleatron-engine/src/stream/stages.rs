//! The compiled form of a network, for display.

use crate::Result;
use crate::compile::Segment;
use crate::network::{Network, StreamConfig};
use aleatron_core::Topology;
use aleatron_core::program::{Program, StepKind};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The stages that a network is compiled into, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stages {
    /// The name of the network.
    pub network: String,
    /// The stages.
    pub stages: Vec<Stage>,
}

/// One stage of a compiled network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "runs_as", rename_all = "snake_case")]
pub enum Stage {
    /// Layers as streams and the inter-layer arithmetic, as one program of a backend.
    Streams {
        /// The layers.
        layers: Vec<StageLayer>,
        /// The steps, in the order in which they run.
        steps: Vec<StageStep>,
    },
    /// Nodes of the graph on tensors, in floating point.
    Nodes {
        /// The nodes, in the order in which they run.
        nodes: Vec<StageNode>,
    },
}

/// A layer that runs as streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageLayer {
    /// Its name.
    pub name: String,
    /// `dense`, `sparse` or `conv` for a convolution.
    pub kind: &'static str,
    /// The stream length in bits.
    pub length: usize,
    /// The generator.
    pub generator: String,
    /// The encoding.
    pub polarity: String,
    /// The number of inputs of a row.
    pub n_inputs: usize,
    /// The number of outputs of a row.
    pub n_outputs: usize,
    /// The number of rows of inputs that one sample sends through the layer.
    pub rows: usize,
}

/// A step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageStep {
    /// The operation.
    pub operation: &'static str,
    /// The layer that the step belongs to, if any.
    pub layer: Option<String>,
    /// The number of elements of its output for one sample.
    pub elements: usize,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageNode {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: &'static str,
}

/// A segment of a compiled network, for tools that read programs, such as generators of circuits.
#[derive(Debug, Clone)]
pub enum NetworkSegment {
    /// Layers as streams and the inter-layer arithmetic.
    Program {
        /// The program of one sample.
        program: Arc<Program>,
        /// The index in the network of each layer of the program.
        layers: Vec<usize>,
    },
    /// Nodes of the graph that run on tensors.
    Nodes {
        /// The nodes, in the order in which they run.
        nodes: Vec<StageNode>,
    },
}

impl Network {
    /// Returns the segments that the network is compiled into, in the order in which they run. The
    /// programs are those that run on a backend.
    ///
    /// # Errors
    /// As for [`Self::check_config`].
    pub fn segments(&self, config: &StreamConfig) -> Result<Vec<NetworkSegment>> {
        let segments = self.compiled(config)?.segments.into_iter().map(|segment| match segment {
            Segment::Program(segment) => {
                NetworkSegment::Program { program: segment.program, layers: segment.layers }
            }
            Segment::Nodes(segment) => {
                let nodes = segment.nodes.iter().map(|&k| &self.graph().nodes()[k]);
                let nodes = nodes
                    .map(|node| StageNode { name: node.name.clone(), operator: node.op.name() });
                NetworkSegment::Nodes { nodes: nodes.collect() }
            }
        });
        Ok(segments.collect())
    }

    /// Returns the stages that the network is compiled into.
    ///
    /// ```
    /// use aleatron_engine::network::{Network, StreamConfig};
    /// use aleatron_engine::stream::Stage;
    /// let stages = Network::digits_noise_aware()?.stages(&StreamConfig::new(64))?.stages;
    /// assert!(matches!(&stages[..], [Stage::Streams { layers, .. }] if layers.len() == 2));
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::check_config`].
    pub fn stages(&self, config: &StreamConfig) -> Result<Stages> {
        let compiled = self.compiled(config)?;
        let stages = compiled.segments.iter().map(|segment| match segment {
            Segment::Program(segment) => {
                let names: Vec<&str> =
                    segment.layers.iter().map(|&k| self.layers()[k].name.as_str()).collect();
                let layers =
                    names.iter().zip(segment.program.layers()).map(|(name, layer)| StageLayer {
                        name: (*name).to_owned(),
                        kind: match layer.spec.topology() {
                            Topology::Dense { .. } => "dense",
                            Topology::Conv(_) => "conv",
                            _ => "sparse",
                        },
                        length: layer.spec.length().bits(),
                        generator: config.settings_of(name).generator.to_string(),
                        polarity: layer.spec.polarity().to_string(),
                        n_inputs: layer.spec.n_inputs(),
                        n_outputs: layer.spec.n_neurons(),
                        rows: layer.rows,
                    });
                Stage::Streams { layers: layers.collect(), steps: steps(&segment.program, &names) }
            }
            Segment::Nodes(segment) => {
                let nodes = segment.nodes.iter().map(|&k| &self.graph().nodes()[k]);
                let nodes = nodes
                    .map(|node| StageNode { name: node.name.clone(), operator: node.op.name() });
                Stage::Nodes { nodes: nodes.collect() }
            }
        });
        Ok(Stages { network: self.name().to_owned(), stages: stages.collect() })
    }
}

/// Returns the steps of a program whose layers have these names.
fn steps(program: &Program, names: &[&str]) -> Vec<StageStep> {
    let steps = program.steps().iter().map(|step| {
        let layer = match step.kind() {
            StepKind::Product { layer }
            | StepKind::Decode { layer, .. }
            | StepKind::Accumulate { layer, .. }
            | StepKind::Quantize { layer, .. }
            | StepKind::Requantize { layer, .. } => {
                names.get(*layer).map(|name| (*name).to_owned())
            }
            _ => None,
        };
        StageStep {
            operation: step.kind().name(),
            layer,
            elements: program.slot(step.output()).len,
        }
    });
    steps.collect()
}

impl fmt::Display for Stages {
    /// Writes the stages as lists of their layers, steps and nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Network {}", self.network)?;
        for (k, stage) in self.stages.iter().enumerate() {
            match stage {
                Stage::Streams { layers, steps } => {
                    writeln!(f, "\nstage {}: streams", k + 1)?;
                    for layer in layers {
                        let StageLayer {
                            name,
                            kind,
                            length,
                            generator,
                            polarity,
                            n_inputs,
                            n_outputs,
                            rows,
                        } = layer;
                        writeln!(
                            f,
                            "  layer {name}: {kind}, {n_inputs} -> {n_outputs}, {rows} rows, {length} bits, {generator}, {polarity}"
                        )?;
                    }
                    for step in steps {
                        let of_layer = step
                            .layer
                            .as_ref()
                            .map(|name| format!(" of {name}"))
                            .unwrap_or_default();
                        writeln!(
                            f,
                            "  step {}{of_layer}: {} elements",
                            step.operation, step.elements
                        )?;
                    }
                }
                Stage::Nodes { nodes } => {
                    writeln!(f, "\nstage {}: nodes on tensors", k + 1)?;
                    for node in nodes {
                        writeln!(f, "  node {}: {}", node.name, node.operator)?;
                    }
                }
            }
        }
        Ok(())
    }
}
