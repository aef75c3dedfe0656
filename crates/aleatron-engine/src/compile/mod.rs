//! Compilation of a network: its graph becomes programs, which run on a backend, and the nodes
//! between them, which run on tensors.
//!
//! [`form`] determines the form of each node. Nodes that run as streams or belong to the
//! inter-layer arithmetic and do not depend on a tensor node form one [segment](Segment); `emit`
//! converts a segment into a [`Program`]. Everything is compiled for the shapes of one sample,
//! unless the samples of a batch cannot run separately.

mod emit;
mod form;
mod pool;
mod value;

use crate::error::RefusedNode;
use crate::network::{Batching, Mode, Network, StreamConfig, from_graph};
use crate::{Error, Result};
use aleatron_core::arithmetic::{Accumulator, Arithmetic};
use aleatron_core::fault::{FaultSite, Faults};
use aleatron_core::generator::Width;
use aleatron_core::program::{Program, SlotId};
use aleatron_graph::batch::BatchAnalysis;
use aleatron_graph::{Graph, Node, Runner, ValueId};
use emit::Emitter;
use form::{Form, Forms, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A network compiled for a configuration.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) segments: Vec<Segment>,
    /// By the index of the layer; `None` for binary layers.
    pub(crate) layers: Vec<Option<CompiledLayer>>,
    /// The analysis of a run with zeros of the samples that one run of the programs takes together.
    pub(crate) analysis: Arc<BatchAnalysis>,
    /// Nodes that depend on no feature, but on the number of samples.
    pub(crate) sized: Vec<usize>,
    /// The locations of the outputs of nodes, if recorded.
    pub(crate) views: Vec<NodeView>,
}

impl Compiled {
    /// Returns the number of samples that one run of the programs takes together.
    pub(crate) fn n_samples(&self) -> usize {
        self.analysis.n_samples()
    }

    /// Returns the sizes around the samples in the memory of a value that depends on features:
    /// `[before, n, after]`.
    pub(crate) fn blocks(&self, id: ValueId) -> Result<[usize; 2]> {
        let missing = aleatron_core::Error::Internal { place: "engine::Compiled::blocks" };
        let (shape, _) = self.analysis.shape(id).ok_or(missing)?;
        Ok(match (self.n_samples(), self.analysis.layout(id)) {
            (1, Some(layout)) => layout.blocks(shape),
            // Samples that run together are one block.
            _ => [1, shape.iter().product()],
        })
    }

    /// Returns the shape of a value for `n` runs of the programs.
    pub(crate) fn shape(&self, id: ValueId, n: usize) -> Result<Vec<usize>> {
        let missing = aleatron_core::Error::Internal { place: "engine::Compiled::shape" };
        let (shape, _) = self.analysis.shape(id).ok_or_else(|| missing.clone())?;
        match (n, self.n_samples(), self.analysis.layout(id)) {
            (1, ..) => Ok(shape.to_vec()),
            (n, 1, Some(layout)) => Ok(layout.shape(shape, n)),
            _ => Err(missing.into()),
        }
    }
}

/// A segment of a compiled network.
#[derive(Debug)]
pub(crate) enum Segment {
    /// Layers as streams and the arithmetic between them.
    Program(ProgramSegment),
    /// Nodes on tensors.
    Nodes(NodesSegment),
}

/// Layers as streams and the arithmetic between them.
#[derive(Debug)]
pub(crate) struct ProgramSegment {
    pub(crate) program: Arc<Program>,
    /// The value of each input of the program.
    pub(crate) inputs: Vec<ValueId>,
    /// The values that other segments need, each with a slot of floats.
    pub(crate) outputs: Vec<(ValueId, SlotId)>,
    /// Whether no two outputs share a slot.
    pub(crate) has_own_slots: bool,
    /// The layers of the program, by their index in the network.
    pub(crate) layers: Vec<usize>,
}

/// Nodes on tensors.
#[derive(Debug)]
pub(crate) struct NodesSegment {
    pub(crate) nodes: Vec<usize>,
    /// The values of other segments that they read.
    pub(crate) inputs: Vec<ValueId>,
    /// The values that they read and that depend on no feature, except for constants of the graph.
    pub(crate) constants: Vec<ValueId>,
    /// The values that other segments read.
    pub(crate) outputs: Vec<ValueId>,
}

/// A layer of a compiled network.
#[derive(Debug, Clone)]
pub(crate) struct CompiledLayer {
    /// The segment of its program.
    pub(crate) segment: usize,
    /// The index in that program.
    pub(crate) layer: usize,
    pub(crate) thresholds: SlotId,
    pub(crate) counts: SlotId,
    /// The outputs after the activation, as floats or integers.
    pub(crate) outputs: SlotId,
    /// The width of the comparators of its inputs in integer arithmetic.
    pub(crate) comparator: Width,
    /// The accumulator in integer arithmetic.
    pub(crate) accumulator: Option<Accumulator>,
    /// Whether its inputs depend on no other layer as streams.
    pub(crate) is_first: bool,
}

/// The elements of a node's first output in the slots of a program, for instrumentation.
#[derive(Debug)]
pub(crate) struct NodeView {
    pub(crate) node: usize,
    pub(crate) segment: usize,
    /// The index of the slot and of the element in it.
    pub(crate) elements: Vec<(usize, u32)>,
    /// The value of 1, for integers.
    pub(crate) units: Option<Vec<f64>>,
}

/// Whether a compilation records the locations of the outputs of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Views {
    /// Locations are recorded, which takes memory for every element.
    Recorded,
    /// Locations are not recorded.
    Skipped,
}

/// Checks that faults can be combined, and that the circuit has their sites.
fn check_faults(config: &StreamConfig) -> Result<()> {
    let faults = Faults::new(config.seed, config.faults.clone())?;
    match faults.has(FaultSite::Accumulators) && config.arithmetic == Arithmetic::Float {
        true => Err(Error::NoFaultSite { site: FaultSite::Accumulators }),
        false => Ok(()),
    }
}

/// Compiles a network for `n_samples` samples that run together: 1 unless samples depend on each
/// other.
///
/// # Errors
/// Returns [`Error::UnknownLayer`] and [`Error::BinaryLayer`] for settings of a layer that does not
/// run as streams, [`Error::Layer`] for a layer that does not support its settings,
/// [`Error::NoIntegerForm`] with all nodes that integer arithmetic does not support.
pub(crate) fn compile(
    network: &Network,
    config: &StreamConfig,
    runner: &Runner,
    n_samples: usize,
    views: Views,
) -> Result<Compiled> {
    for name in config.layers.keys().chain(&config.fault_layers) {
        if network.layer(name)?.mode == Mode::Binary {
            return Err(Error::BinaryLayer { name: name.clone() });
        }
    }
    check_faults(config)?;
    let graph = network.graph();
    let analysis = match network.analysis() {
        known if known.n_samples() == n_samples => Arc::clone(known),
        _ => Arc::new(
            BatchAnalysis::new(runner, network.zeros(n_samples)?, n_samples).map_err(from_graph)?,
        ),
    };
    let links = Links::new(graph);
    let mut on_tensors: BTreeMap<usize, String> = BTreeMap::new();
    loop {
        let forms = Forms::new(network, config.arithmetic, &analysis, &on_tensors)?;
        let build = Build {
            network,
            config,
            runner,
            analysis: &analysis,
            links: &links,
            forms: &forms,
            views,
        };
        let nodes = match build.compiled() {
            Err(Error::NoIntegerForm { nodes }) => nodes,
            compiled => return compiled,
        };
        // Shapes, units and widths are known only when steps are added: a node that turns out to be
        // unsupported runs on tensors, unless a later layer needs integers.
        let known = on_tensors.len();
        for refused in &nodes {
            let index = graph.nodes().iter().position(|node| node.name == refused.name);
            on_tensors.extend(index.map(|index| (index, refused.reason.clone())));
        }
        if on_tensors.len() == known {
            return Err(Error::NoIntegerForm { nodes });
        }
    }
}

/// A compilation with given forms.
struct Build<'a> {
    network: &'a Network,
    config: &'a StreamConfig,
    runner: &'a Runner,
    analysis: &'a Arc<BatchAnalysis>,
    links: &'a Links,
    forms: &'a Forms,
    views: Views,
}

impl Build<'_> {
    fn compiled(&self) -> Result<Compiled> {
        let Self { network, config, runner, analysis, links, forms, views } = *self;
        let graph = network.graph();
        let levels = levels(network, forms);
        let streamed = forms.streamed(graph);
        let n_segments = levels.iter().flatten().max().map_or(0, |&level| level + 1);
        let is_sized =
            |node: &Node| node.outputs.iter().flatten().any(|&id| !analysis.is_constant(id));
        let nodes = graph.nodes().iter().zip(&forms.nodes).enumerate();
        let sized = nodes.filter(|(_, (node, form))| **form == Form::Constant && is_sized(node));
        let mut compiled = Compiled {
            segments: Vec::new(),
            layers: vec![None; network.layers().len()],
            sized: sized.map(|(k, _)| k).collect(),
            analysis: Arc::clone(analysis),
            views: Vec::new(),
        };
        let mut of_level = vec![Vec::new(); n_segments];
        for (node, level) in levels.iter().enumerate() {
            if let Some(level) = level {
                of_level[*level].push(node);
            }
        }
        for (level, nodes) in
            of_level.into_iter().enumerate().filter(|(_, nodes)| !nodes.is_empty())
        {
            let is_own = |node: usize| levels[node] == Some(level);
            let needs = || nodes.iter().flat_map(|&node| graph.nodes()[node].needs());
            let is_input = |id: &ValueId| {
                forms.values[id.index()] != State::Constant && !links.maker(*id).is_some_and(is_own)
            };
            let inputs: BTreeSet<ValueId> = needs().filter(is_input).collect();
            let inputs: Vec<ValueId> = inputs.into_iter().collect();
            let is_output = |id: &ValueId| {
                let reads = |node: &usize| !is_own(*node) && levels[*node].is_some();
                graph.outputs().contains(id) || links.users(*id).iter().any(reads)
            };
            let computed = nodes
                .iter()
                .flat_map(|&node| graph.nodes()[node].outputs.iter().flatten().copied());
            let outputs: Vec<ValueId> = computed.filter(is_output).collect();
            let segment = compiled.segments.len();
            if level % 2 == 1 {
                let is_plain = |id: &ValueId| {
                    forms.values[id.index()] == State::Constant && graph.constant(*id).is_none()
                };
                let constants: BTreeSet<ValueId> = needs().filter(is_plain).collect();
                let constants = constants.into_iter().collect();
                compiled.segments.push(Segment::Nodes(NodesSegment {
                    nodes,
                    inputs,
                    constants,
                    outputs,
                }));
                continue;
            }
            let mut emitter = Emitter::new(network, config, runner, analysis, links, views);
            for &id in &inputs {
                let missing = aleatron_core::Error::Internal { place: "engine::compile" };
                let (shape, _) = analysis.shape(id).ok_or(missing)?;
                emitter.input(id, shape, streamed[id.index()])?;
            }
            for &node in &nodes {
                emitter.node(node, &graph.nodes()[node], forms.nodes[node])?;
            }
            let computed = outputs
                .iter()
                .map(|&id| Ok((id, emitter.floats(id)?)))
                .collect::<Result<Vec<_>>>()?;
            if views == Views::Recorded {
                record(&mut compiled.views, segment, &nodes, network, &emitter)?;
            }
            let Emitter { program, layers, shown, .. } = emitter;
            // Layers whose outputs nothing reads do not run.
            let shown = shown.values().map(|(slot, _)| *slot).collect::<BTreeSet<_>>();
            let program =
                program.finish(computed.iter().map(|(_, slot)| *slot).chain(shown).collect())?;
            let indices = layers.iter().map(|(index, _)| *index).collect();
            for (index, layer) in layers {
                compiled.layers[index] = Some(CompiledLayer { segment, ..layer });
            }
            let slots: BTreeSet<SlotId> = computed.iter().map(|(_, slot)| *slot).collect();
            compiled.segments.push(Segment::Program(ProgramSegment {
                program: Arc::new(program),
                inputs,
                has_own_slots: slots.len() == computed.len(),
                outputs: computed,
                layers: indices,
            }));
        }
        Ok(compiled)
    }
}

/// The node that computes each value of a graph, and the nodes that read it.
#[derive(Debug)]
struct Links {
    makers: Vec<Option<usize>>,
    users: Vec<Vec<usize>>,
}

impl Links {
    fn new(graph: &Graph) -> Self {
        let (mut makers, mut users) =
            (vec![None; graph.n_values()], vec![Vec::new(); graph.n_values()]);
        for (k, node) in graph.nodes().iter().enumerate() {
            node.outputs.iter().flatten().for_each(|id| makers[id.index()] = Some(k));
            for id in node.needs() {
                let users: &mut Vec<usize> = &mut users[id.index()];
                if users.last() != Some(&k) {
                    users.push(k);
                }
            }
        }
        Self { makers, users }
    }

    fn maker(&self, id: ValueId) -> Option<usize> {
        self.makers[id.index()]
    }

    fn users(&self, id: ValueId) -> &[usize] {
        &self.users[id.index()]
    }
}

/// Returns the segment of each node; `None` for nodes that depend on no feature and those that no
/// output needs. Even segments are programs, odd ones run on tensors.
fn levels(network: &Network, forms: &Forms) -> Vec<Option<usize>> {
    let graph = network.graph();
    let mut of_value = vec![0; graph.n_values()];
    let mut levels = Vec::with_capacity(graph.nodes().len());
    for ((node, form), is_needed) in graph.nodes().iter().zip(&forms.nodes).zip(forms.needed(graph))
    {
        if *form == Form::Constant || !is_needed {
            levels.push(None);
            continue;
        }
        let least = node.needs().map(|id| of_value[id.index()]).max().unwrap_or(0);
        let parity = usize::from(!form.is_fused());
        let level = if least % 2 == parity { least } else { least + 1 };
        node.outputs.iter().flatten().for_each(|id| of_value[id.index()] = level);
        levels.push(Some(level));
    }
    levels
}

fn record(
    views: &mut Vec<NodeView>,
    segment: usize,
    nodes: &[usize],
    network: &Network,
    emitter: &Emitter<'_>,
) -> Result<()> {
    for &node in nodes {
        let Some(id) = network.graph().nodes()[node].outputs.first().copied().flatten() else {
            continue;
        };
        // The outputs of a layer before its bias and activation are not those that other nodes
        // read.
        let number =
            emitter.shown.get(&id).map(|(_, number)| number).or_else(|| emitter.values.get(&id));
        let Some(number) = number else { continue };
        let units = match &number.units {
            Some(_) => {
                let indices = number.unit_indices()?;
                Some(indices.iter().map(|&index| emitter.units[index as usize]).collect())
            }
            None => None,
        };
        views.push(NodeView { node, segment, elements: number.elements()?, units });
    }
    Ok(())
}

/// Returns the number of samples that one run of a compiled network takes together.
pub(crate) fn run_samples(network: &Network, n_samples: usize) -> usize {
    match (network.batching(), network.batch()) {
        // A graph that fixes the number of samples cannot be compiled for one of them.
        (_, Some(batch)) => batch,
        (Batching::Whole, None) => n_samples.max(1),
        (Batching::Independent, None) => 1,
    }
}

fn refused_node(node: &Node, reason: impl Into<String>) -> RefusedNode {
    RefusedNode {
        name: node.name.clone(),
        operator: node.op.name().to_owned(),
        reason: reason.into(),
    }
}

fn refused(node: &Node, reason: impl Into<String>) -> Error {
    Error::NoIntegerForm { nodes: vec![refused_node(node, reason)] }
}
