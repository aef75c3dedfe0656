//! Conversion of a network's program to its circuit.

use super::layer::{BuiltLayer, LayerParts};
use super::{
    Circuit, InputInterval, Link, Operation, Source, Stage, Word, order, score_multipliers,
};
use crate::error::internal;
use crate::{Error, Options, Result};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::program::{InputSign, Program, SlotId, SlotKind, Step, StepKind};
use aleatron_engine::network::{Batching, Network, StreamConfig};
use aleatron_engine::stream::NetworkSegment;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl Circuit {
    /// Describes the circuit of a network with these streams.
    ///
    /// ```
    /// use aleatron_engine::network::{Arithmetic, Network, StreamConfig};
    /// use aleatron_hardware::{Circuit, Options};
    /// let config = StreamConfig::new(64).generator("lfsr".parse()?).arithmetic(Arithmetic::Integer);
    /// let circuit = Circuit::new(&Network::digits_noise_aware()?, &config, &Options::default())?;
    /// let (_, hidden) = circuit.layers().next().ok_or("no layer")?;
    /// assert_eq!((hidden.rows.len(), hidden.fan_in(), hidden.count_bits), (64, 64, 13));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::FloatArithmetic`], [`Error::Bernoulli`], [`Error::TensorNodes`] and
    /// [`Error::Unsupported`] for networks without hardware support, [`Error::Engine`] for a
    /// network that cannot run with the configuration.
    pub fn new(network: &Network, config: &StreamConfig, options: &Options) -> Result<Self> {
        if config.arithmetic != Arithmetic::Integer {
            return Err(Error::FloatArithmetic);
        }
        if network.batching() == Batching::Whole {
            return Err(Error::Unsupported {
                part: format!("network \"{}\"", network.name()),
                what: "a graph whose samples depend on each other".to_owned(),
                remedy: "export the network for a single sample",
            });
        }
        let (mut program, mut tensor_nodes) = (None, Vec::new());
        for segment in network.segments(config)? {
            match segment {
                NetworkSegment::Program { program: found, layers } if program.is_none() => {
                    program = Some((found, layers));
                }
                NetworkSegment::Program { .. } => {}
                NetworkSegment::Nodes { nodes } => {
                    let nodes = nodes.into_iter().map(|node| (node.name, node.operator.to_owned()));
                    tensor_nodes.extend(nodes);
                }
            }
        }
        if !tensor_nodes.is_empty() {
            return Err(Error::TensorNodes { nodes: tensor_nodes });
        }
        let Some((program, layers)) = program else {
            return Err(aleatron_engine::Error::NoLayers.into());
        };
        let names: Vec<String> = layers.iter().map(|&k| network.layers()[k].name.clone()).collect();
        let mut builder = Builder::new(&program, names, options);
        for (k, step) in program.steps().iter().enumerate() {
            builder.step(k, step)?;
        }
        let (input, stages, output, units) = builder.finish()?;
        let circuit = Self {
            name: network.name().to_owned(),
            network_hash: format!("{:032x}", fnv1a(&network.to_onnx()?)),
            settings: settings(config),
            input,
            stages,
            output,
            score_multipliers: score_multipliers(&units),
            units,
            n_features: network.n_features(),
            program,
        };
        circuit.with_checks(options)
    }
}

fn settings(config: &StreamConfig) -> String {
    let all = config.settings;
    let mut text = format!(
        "{} bits, {}, sharing {}, seed {}",
        all.length, all.generator, all.sharing, config.seed
    );
    for (name, layer) in &config.layers {
        text.push_str(&format!(", {name}: {layer}"));
    }
    text
}

/// Returns the FNV-1a hash of 128 bits.
fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// A slot of the program during the conversion.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Computed before the circuit, from features.
    Host,
    /// Thresholds of features: the input of the circuit, in any order.
    Input,
    /// Counts of a layer, read by its accumulator.
    Counts { thresholds: SlotId },
    /// The output of a stage.
    Stage(View),
    /// Scores as floats.
    Scores,
}

/// The elements of a slot in their order of arrival from a source.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) source: Source,
    /// The element of the slot that arrives at each position.
    pub(super) order: Vec<u32>,
}

impl View {
    /// Returns the link of a stage that changes elements one by one.
    pub(super) fn link(&self, word: Word, slot: SlotId) -> Link {
        Link { elements: self.order.len(), word, order: self.order.clone(), slot }
    }
}

/// Adds stages for the steps of a program.
pub(super) struct Builder<'a> {
    pub(super) program: &'a Arc<Program>,
    names: Vec<String>,
    options: &'a Options,
    pub(super) values: HashMap<SlotId, Value>,
    input: Option<Link>,
    pub(super) stages: Vec<Stage>,
    scores: Option<(Source, Vec<f64>)>,
    used: HashSet<String>,
}

impl<'a> Builder<'a> {
    fn new(program: &'a Arc<Program>, names: Vec<String>, options: &'a Options) -> Self {
        let values = program.inputs().iter().map(|&slot| (slot, Value::Host)).collect();
        Self {
            program,
            names,
            options,
            values,
            input: None,
            stages: Vec::new(),
            scores: None,
            used: HashSet::new(),
        }
    }

    fn step(&mut self, index: usize, step: &Step) -> Result<()> {
        let inputs: Vec<Value> =
            step.inputs().iter().filter_map(|id| self.values.get(id).cloned()).collect();
        let kind = self.program.slot(step.output()).kind;
        let is_host = inputs.iter().all(|value| matches!(value, Value::Host));
        let value = match step.kind() {
            StepKind::Quantize { .. }
                if is_host && self.values.values().any(|v| matches!(v, Value::Input)) =>
            {
                return Err(Error::Unsupported {
                    part: format!("step {index} (quantize)"),
                    what: "a second layer that reads features".to_owned(),
                    remedy: "let one layer read the features",
                });
            }
            StepKind::Quantize { .. } if is_host => Value::Input,
            StepKind::Product { .. } => Value::Counts { thresholds: step.input() },
            StepKind::Accumulate { layer, accumulator } => {
                let Some(Value::Counts { thresholds }) = inputs.first() else {
                    return Err(internal("hardware::Builder::step"));
                };
                Value::Stage(self.layer(*layer, accumulator, *thresholds, step.output())?)
            }
            StepKind::Restore { units } => {
                let Some(Value::Stage(view)) = inputs.first() else {
                    return Err(internal("hardware::Builder::step"));
                };
                let len = self.program.slot(step.output()).len;
                let units = (0..len).map(|k| *units.get(k)).collect();
                let view = self.in_order(view, &order::identity(len))?;
                if self.scores.replace((view.source, units)).is_some() {
                    return Err(Error::Unsupported {
                        part: format!("step {index} (restore)"),
                        what: "a second output".to_owned(),
                        remedy: "choose one output with --output NAME",
                    });
                }
                Value::Scores
            }
            _ if is_host && kind == SlotKind::Float => Value::Host,
            _ => Value::Stage(self.arithmetic(index, step, &inputs)?),
        };
        self.values.insert(step.output(), value);
        Ok(())
    }

    fn finish(self) -> Result<(Link, Vec<Stage>, Source, Vec<f64>)> {
        let missing = || internal("hardware::Builder::finish");
        let (output, units) = self.scores.ok_or_else(missing)?;
        Ok((self.input.ok_or_else(missing)?, self.stages, output, units))
    }

    fn layer(
        &mut self,
        layer: usize,
        accumulator: &aleatron_core::arithmetic::Accumulator,
        thresholds: SlotId,
        slot: SlotId,
    ) -> Result<View> {
        let name = self.names.get(layer).cloned().unwrap_or_default();
        let program = Arc::clone(self.program);
        let found =
            program.layers().get(layer).ok_or_else(|| internal("hardware::Builder::layer"))?;
        let is_input = matches!(self.values.get(&thresholds), Some(Value::Input));
        let is_declared = is_input && self.options.inputs == InputInterval::NonNegative;
        let input_sign = if is_declared { InputSign::NonNegative } else { found.input_sign };
        let parts = LayerParts { name: &name, index: layer, layer: found, accumulator, input_sign };
        let elements = program.slot(thresholds).len;
        let view = match self.values.get(&thresholds).cloned() {
            Some(Value::Input) => {
                let order = parts.input_order().unwrap_or_else(|| order::identity(elements));
                let width = found.spec.encoding().input_width().bits();
                let word = Word::Threshold { width, sign: parts.interval() };
                self.input = Some(Link { elements, word, order: order.clone(), slot: thresholds });
                View { source: Source::Input, order }
            }
            Some(Value::Stage(view)) => match parts.input_order() {
                Some(order) => self.in_order(&view, &order)?,
                None => view,
            },
            _ => return Err(internal("hardware::Builder::layer")),
        };
        let BuiltLayer { circuit, output_order, interval } = parts.build(&view.order)?;
        let [low, high] = interval.ends(&name)?;
        let elements = program.slot(slot).len;
        let output =
            Link { elements, word: Word::Integer { low, high }, order: output_order, slot };
        let name = self.unique(&name);
        Ok(self.push(Stage {
            name,
            inputs: vec![view.source],
            output,
            operation: Operation::Layer(Box::new(circuit)),
        }))
    }

    /// Returns a view of the same elements that arrive in this order.
    pub(super) fn in_order(&mut self, view: &View, order: &[u32]) -> Result<View> {
        if view.order == order {
            return Ok(view.clone());
        }
        let positions = order::positions(&view.order);
        let addresses: Vec<u32> =
            order.iter().map(|&element| positions[element as usize]).collect();
        let link = self.link(view.source)?;
        // The memory passes on the elements of the previous slot, which a view may have renumbered.
        let order_before = addresses.iter().map(|&k| link.order[k as usize]).collect();
        let output = Link { order: order_before, ..link.clone() };
        let name = self.unique("reorder");
        let stage = Stage {
            name,
            inputs: vec![view.source],
            output,
            operation: Operation::Reorder { addresses },
        };
        Ok(View { order: order.to_vec(), ..self.push(stage) })
    }

    pub(super) fn link(&self, source: Source) -> Result<&Link> {
        let link = match source {
            Source::Input => self.input.as_ref(),
            Source::Stage(index) => self.stages.get(index).map(|stage| &stage.output),
        };
        link.ok_or_else(|| internal("hardware::Builder::link"))
    }

    pub(super) fn push(&mut self, stage: Stage) -> View {
        let order = stage.output.order.clone();
        self.stages.push(stage);
        View { source: Source::Stage(self.stages.len() - 1), order }
    }

    /// Returns the name of a layer of the program.
    pub(super) fn layer_name(&self, layer: usize) -> String {
        self.names.get(layer).cloned().unwrap_or_default()
    }

    /// Returns an identifier of Verilog that is unique among stages.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let base = identifier("n", name);
        let mut found = base.clone();
        let mut number = 2;
        while !self.used.insert(found.clone()) {
            found = format!("{base}_{number}");
            number += 1;
        }
        found
    }
}

/// Returns a name as an identifier of Verilog, in lower case, with a prefix that prevents keywords
/// and leading digits.
pub(crate) fn identifier(prefix: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    format!("{prefix}_{}", plain.trim_matches('_'))
}
