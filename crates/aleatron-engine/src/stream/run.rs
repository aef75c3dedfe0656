//! Execution of samples through the segments of a compiled network.

use super::statistics::Statistics;
use super::trace::{Detail, LayerInputs, LayerOutput, StreamOutput};
use super::{Ready, StreamNetwork};
use crate::Result;
use crate::compile::{self, Compiled, CompiledLayer, NodesSegment, ProgramSegment, Segment, Views};
use crate::network::{Batching, floats, from_graph, input, top_class};
use aleatron_core::program::{KernelTime, ProgramBatch, ProgramOutput, SlotData, SlotId};
use aleatron_core::{BackendFault, Cancel, Error as CoreError, SampleSeed};
use aleatron_graph::{Error as GraphError, Op, ValueId};
use aleatron_tensor::{DType, Device, Tensor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Number of samples that run through tensor nodes or instrumentation together; programs alone take
/// any number.
const CHUNK: usize = 256;

/// A value passed between two segments, for the samples of a chunk.
enum Crossing<'a> {
    /// Elements by sample.
    Floats(Cow<'a, [f64]>),
    Tensor(Tensor),
}

/// The values between segments.
type Crossings<'a> = HashMap<ValueId, Crossing<'a>>;

/// Some samples during a run of a network.
pub(super) struct Chunk<'a> {
    pub(super) features: &'a [f64],
    /// The samples.
    pub(super) n_samples: usize,
    /// The number of runs of the programs: one for each sample, unless several samples run
    /// together.
    pub(super) n_runs: usize,
    seed: SampleSeed,
}

/// The slots of a program that a run returns.
struct RequestedSlots {
    slots: Vec<SlotId>,
    /// Whether the slots are the outputs of the segment, in their order.
    are_outputs: bool,
}

impl StreamNetwork {
    /// Computes the scores of samples, the first of which has index `first_sample` among all.
    ///
    /// # Errors
    /// Returns [`Error::RaggedSamples`] unless `features` are whole samples, [`Error::Feature`]
    /// with the first feature that a layer cannot encode, [`Error::Layer`] if a layer fails,
    /// [`Error::Graph`] if another node fails.
    ///
    /// [`Error::RaggedSamples`]: crate::Error::RaggedSamples
    /// [`Error::Feature`]: crate::Error::Feature
    /// [`Error::Layer`]: crate::Error::Layer
    /// [`Error::Graph`]: crate::Error::Graph
    pub fn forward(&self, features: &[f64], first_sample: u32) -> Result<Vec<f64>> {
        Ok(self.run(features, first_sample, Detail::default(), Cancel::NEVER)?.scores)
    }

    /// Computes the class of each sample.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn predict(&self, features: &[f64], first_sample: u32) -> Result<Vec<usize>> {
        let scores = self.forward(features, first_sample)?;
        Ok(scores.chunks_exact(self.network.n_outputs().max(1)).map(top_class).collect())
    }

    /// Computes the scores of samples and the requested details, with cancellation.
    ///
    /// # Errors
    /// As for [`Self::forward`], and [`CoreError::Cancelled`].
    pub fn run(
        &self,
        features: &[f64],
        first_sample: u32,
        detail: Detail,
        cancel: Cancel<'_>,
    ) -> Result<StreamOutput> {
        self.network.check_samples(features)?;
        let width = self.network.n_features();
        let n_samples = features.len() / width;
        let group = self.group(n_samples);
        let ready = match detail.nodes.is_enabled() {
            // The same programs, with recorded locations of each node's output.
            true => {
                let compiled = compile::compile(
                    &self.network,
                    &self.config,
                    &self.runner,
                    group,
                    Views::Recorded,
                )?;
                Arc::new(self.prepare(compiled, cancel)?)
            }
            false => self.ready(group, cancel)?,
        };
        let is_one_program = matches!(ready.compiled.segments[..], [Segment::Program(_)]);
        let size = match self.network.batching() {
            Batching::Whole => group,
            Batching::Independent if is_one_program && detail == Detail::default() => {
                n_samples.max(1)
            }
            Batching::Independent => CHUNK,
        };
        let n_layers = self.network.layers().len();
        let (mut output, mut statistics) = (StreamOutput::new(n_layers), Statistics::new(n_layers));
        for (k, features) in features.chunks(size * width).enumerate() {
            cancel.check()?;
            let n_samples = features.len() / width;
            let seed = self.seed_at(first_sample).advanced(k * size)?;
            let chunk = Chunk { features, n_samples, n_runs: n_samples / group, seed };
            self.run_chunk(&ready, &chunk, detail, &mut output, &mut statistics, cancel)
                .map_err(|error| error.shifted(k * size))?;
        }
        if detail.statistics.is_enabled() {
            output.statistics = statistics.finish(&output.saturated);
        }
        Ok(output)
    }

    /// Runs samples and returns the time of each kernel of the backend, over all programs.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn profile(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<KernelTime>> {
        self.network.check_samples(features)?;
        let n_samples = features.len() / self.network.n_features();
        let ready = self.ready(self.group(n_samples), cancel)?;
        let (compiled, seed) = (&ready.compiled, self.seed_at(0));
        let chunk = Chunk { features, n_samples, n_runs: n_samples / compiled.n_samples(), seed };
        let mut values = self.enter(&chunk)?;
        let constants = self.sized(compiled, chunk.n_runs)?;
        let mut times: Vec<KernelTime> = Vec::new();
        for (k, segment) in compiled.segments.iter().enumerate() {
            match segment {
                Segment::Nodes(segment) => {
                    self.run_nodes(compiled, segment, &constants, &chunk, &mut values)?;
                }
                Segment::Program(segment) => {
                    let requested =
                        requested(compiled, segment, k, Detail::default(), self.score_layer);
                    let mut computed = self.run_program(
                        &ready,
                        k,
                        segment,
                        &chunk,
                        &requested.slots,
                        &values,
                        cancel,
                    )?;
                    let owned = inputs(compiled, segment, &values)?;
                    let inputs: Vec<&[f64]> = owned.iter().map(|values| &values[..]).collect();
                    let group = compiled.n_samples();
                    let batch =
                        ProgramBatch { inputs: &inputs, n_samples: chunk.n_runs, seed, group };
                    let missing = CoreError::Internal { place: "engine::StreamNetwork::profile" };
                    let Some(Some(prepared)) = ready.programs.get(k) else {
                        return Err(missing.into());
                    };
                    let program = prepared.0.read().unwrap_or_else(PoisonError::into_inner).clone();
                    times.extend(program.profile(&batch, segment.program.outputs(), cancel)?);
                    pass_outputs(segment, &requested, &mut computed, &mut values)?;
                }
            }
        }
        Ok(times)
    }

    /// Runs one chunk of samples and adds its results.
    fn run_chunk(
        &self,
        ready: &Ready,
        chunk: &Chunk<'_>,
        detail: Detail,
        output: &mut StreamOutput,
        statistics: &mut Statistics,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let mut start = Instant::now();
        let mut values = self.enter(chunk)?;
        let mut nodes = HashMap::new();
        let mut sized = None;
        for (k, segment) in ready.compiled.segments.iter().enumerate() {
            match segment {
                Segment::Program(segment) => {
                    let requested =
                        requested(&ready.compiled, segment, k, detail, self.score_layer);
                    let mut computed = self.run_program(
                        ready,
                        k,
                        segment,
                        chunk,
                        &requested.slots,
                        &values,
                        cancel,
                    )?;
                    // The time of instrumentation is not part of the network's.
                    output.elapsed += start.elapsed();
                    self.observe(
                        &ready.compiled,
                        k,
                        segment,
                        &requested,
                        &computed,
                        detail,
                        output,
                        statistics,
                    )?;
                    if detail.nodes.is_enabled() {
                        super::nodes::view(
                            &ready.compiled,
                            k,
                            segment,
                            &requested.slots,
                            &computed,
                            &mut nodes,
                        )?;
                    }
                    start = Instant::now();
                    pass_outputs(segment, &requested, &mut computed, &mut values)?;
                }
                Segment::Nodes(segment) => {
                    let constants = match &sized {
                        Some(constants) => constants,
                        None => sized.insert(self.sized(&ready.compiled, chunk.n_runs)?),
                    };
                    let computed =
                        self.run_nodes(&ready.compiled, segment, constants, chunk, &mut values)?;
                    if detail.nodes.is_enabled() {
                        for (node, tensor) in computed {
                            nodes.insert(node, self.by_sample(&ready.compiled, node, &tensor)?);
                        }
                    }
                }
            }
        }
        let scores = self.scores(&ready.compiled, chunk, values)?;
        output.elapsed += start.elapsed();
        match output.scores.is_empty() {
            true => output.scores = scores.into_owned(),
            false => output.scores.extend_from_slice(&scores),
        }
        if detail.nodes.is_enabled() {
            self.compare_nodes(&ready.compiled, chunk, &nodes, output)?;
        }
        Ok(())
    }

    /// Returns the inputs of the graph.
    fn enter<'a>(&self, chunk: &Chunk<'a>) -> Result<Crossings<'a>> {
        let (inputs, width) = (self.network.inputs(), self.network.n_features());
        let mut values = HashMap::new();
        let mut tensors = None;
        let mut first = 0;
        for (k, (&id, input)) in self.network.graph().inputs().iter().zip(inputs).enumerate() {
            let range = first..first + input.len();
            first = range.end;
            let value = match (input.dtype, inputs.len()) {
                (DType::F32, 1) => Crossing::Floats(Cow::Borrowed(chunk.features)),
                (DType::F32, _) => {
                    let samples = chunk.features.chunks_exact(width);
                    Crossing::Floats(
                        samples.flat_map(|sample| &sample[range.clone()]).copied().collect(),
                    )
                }
                _ => {
                    let computed = match &tensors {
                        Some(computed) => computed,
                        None => {
                            tensors.insert(input::tensors(inputs, chunk.features, chunk.n_samples)?)
                        }
                    };
                    Crossing::Tensor(computed[k].clone())
                }
            };
            values.insert(id, value);
        }
        Ok(values)
    }

    #[expect(clippy::too_many_arguments, reason = "all of them belong to one run of a program")]
    fn run_program(
        &self,
        ready: &Ready,
        index: usize,
        segment: &ProgramSegment,
        chunk: &Chunk<'_>,
        slots: &[SlotId],
        values: &Crossings<'_>,
        cancel: Cancel<'_>,
    ) -> Result<ProgramOutput> {
        let missing = CoreError::Internal { place: "engine::StreamNetwork::run_program" };
        let Some(Some(prepared)) = ready.programs.get(index) else { return Err(missing.into()) };
        let owned = inputs(&ready.compiled, segment, values)?;
        let inputs: Vec<&[f64]> = owned.iter().map(|values| &values[..]).collect();
        let group = ready.compiled.n_samples();
        let batch =
            ProgramBatch { inputs: &inputs, n_samples: chunk.n_runs, seed: chunk.seed, group };
        let run = || prepared.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let computed = match run().run(&batch, slots, cancel) {
            Err(error) if error.backend_fault() == Some(BackendFault::Lost) => {
                // The device was lost in this call or before it: the next one may work.
                let again = self.prepare_program(&segment.program, &segment.layers, cancel)?;
                *prepared.0.write().unwrap_or_else(PoisonError::into_inner) = again;
                run().run(&batch, slots, cancel)
            }
            computed => computed,
        };
        computed.map_err(|error| self.explained(segment, chunk.features, error))
    }

    /// Computes values that depend on no feature, but on the number of samples, for `n_runs` runs.
    fn sized(&self, compiled: &Compiled, n_runs: usize) -> Result<HashMap<ValueId, Tensor>> {
        let mut constants = HashMap::new();
        for &index in &compiled.sized {
            let node = &self.network.graph().nodes()[index];
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for id in &node.inputs {
                inputs.push(match (id, &node.op) {
                    (None, _) => None,
                    // Only the shape of a value of features is read.
                    (Some(id), Op::Shape { .. } | Op::Size)
                        if compiled.analysis.depends_on_features(*id) =>
                    {
                        let zero = Tensor::zeros(&[], DType::F32, &Device::Cpu)
                            .map_err(GraphError::from)?;
                        let shape = compiled.shape(*id, n_runs)?;
                        Some(zero.broadcast_to(&shape).map_err(GraphError::from)?)
                    }
                    (Some(id), _) => {
                        let missing = CoreError::Internal { place: "engine::StreamNetwork::sized" };
                        let known =
                            constants.get(id).or_else(|| self.network.graph().constant(*id));
                        Some(
                            known.or_else(|| compiled.analysis.tensor(*id)).ok_or(missing)?.clone(),
                        )
                    }
                });
            }
            let computed = self.runner.compute_with(node, &inputs)?;
            constants.extend(
                node.outputs
                    .iter()
                    .zip(computed)
                    .filter_map(|(id, computed)| Some(((*id)?, computed))),
            );
        }
        Ok(constants)
    }

    /// Runs nodes on tensors and returns the first output of each.
    fn run_nodes(
        &self,
        compiled: &Compiled,
        segment: &NodesSegment,
        constants: &HashMap<ValueId, Tensor>,
        chunk: &Chunk<'_>,
        values: &mut Crossings<'_>,
    ) -> Result<HashMap<usize, Tensor>> {
        let missing = CoreError::Internal { place: "engine::StreamNetwork::run_nodes" };
        let mut tensors = HashMap::with_capacity(segment.inputs.len() + segment.constants.len());
        for id in &segment.constants {
            let value = constants.get(id).or_else(|| compiled.analysis.tensor(*id));
            tensors.insert(*id, value.ok_or_else(|| missing.clone())?.clone());
        }
        for id in &segment.inputs {
            let tensor = match values.get(id) {
                Some(Crossing::Tensor(tensor)) => tensor.clone(),
                Some(Crossing::Floats(elements)) => tensor(compiled, *id, elements, chunk.n_runs)?,
                None => return Err(missing.into()),
            };
            tensors.insert(*id, tensor);
        }
        self.runner.run_nodes(&segment.nodes, &mut tensors).map_err(from_graph)?;
        for id in &segment.outputs {
            if let Some(tensor) = tensors.get(id) {
                values.insert(*id, Crossing::Tensor(tensor.clone()));
            }
        }
        let nodes = self.network.graph().nodes();
        let first = |&node: &usize| {
            Some((node, tensors.get(&nodes[node].outputs.first().copied().flatten()?)?.clone()))
        };
        Ok(segment.nodes.iter().filter_map(first).collect())
    }

    fn scores<'a>(
        &self,
        compiled: &Compiled,
        chunk: &Chunk<'_>,
        mut values: Crossings<'a>,
    ) -> Result<Cow<'a, [f64]>> {
        let missing = CoreError::Internal { place: "engine::StreamNetwork::scores" };
        let Some(&id) = self.network.graph().outputs().first() else { return Err(missing.into()) };
        let scores = match values.remove(&id) {
            Some(Crossing::Floats(scores)) => scores,
            Some(Crossing::Tensor(tensor)) => {
                Cow::Owned(self.network.scores(std::slice::from_ref(&tensor), chunk.n_samples)?)
            }
            // An output that depends on no feature is rejected, so the only other case is an output
            // for a fixed number of samples.
            None => match compiled.analysis.tensor(id) {
                Some(tensor) => {
                    Cow::Owned(self.network.scores(std::slice::from_ref(tensor), chunk.n_samples)?)
                }
                None => return Err(missing.into()),
            },
        };
        match scores.len() == chunk.n_samples * self.network.n_outputs() {
            true => Ok(scores),
            false => Err(missing.into()),
        }
    }

    /// Adds the details of layers from the output of a program.
    #[expect(clippy::too_many_arguments, reason = "all of them belong to one run of a program")]
    fn observe(
        &self,
        compiled: &Compiled,
        index: usize,
        segment: &ProgramSegment,
        requested: &RequestedSlots,
        computed: &ProgramOutput,
        detail: Detail,
        output: &mut StreamOutput,
        statistics: &mut Statistics,
    ) -> Result<()> {
        let internal = || CoreError::Internal { place: "engine::StreamNetwork::observe" };
        let of_slot = |slot: SlotId| {
            requested
                .slots
                .iter()
                .position(|requested| *requested == slot)
                .and_then(|k| computed.slots.get(k))
        };
        let words = |slot: SlotId| match of_slot(slot) {
            Some(SlotData::Words(words)) => Ok(words),
            _ => Err(internal()),
        };
        for (own, &layer) in segment.layers.iter().enumerate() {
            let saturated = computed.saturated.get(own).ok_or_else(internal)?;
            output.saturated[layer] += saturated;
            let Some(compiled) = compiled.layers[layer].as_ref().filter(|c| c.segment == index)
            else {
                return Err(internal().into());
            };
            let program_layer = &segment.program.layers()[own];
            if compiled.is_first {
                output.clipped += saturated;
            }
            if detail.statistics.is_enabled() {
                let (thresholds, counts) = (words(compiled.thresholds)?, words(compiled.counts)?);
                statistics.add(layer, program_layer, thresholds, counts)?;
            }
            let numbers =
                || self.numbers(layer, compiled, of_slot(compiled.outputs), program_layer);
            if detail.layers.is_enabled() {
                let (counts, outputs) = (words(compiled.counts)?, numbers()?);
                match output.layers.iter_mut().find(|known| known.layer == layer) {
                    Some(known) => {
                        known.counts.extend_from_slice(counts);
                        known.outputs.extend(outputs);
                    }
                    None => {
                        output.layers.push(LayerOutput { layer, counts: counts.clone(), outputs })
                    }
                }
                output.layers.sort_by_key(|layer| layer.layer);
            }
            if detail.score_layer.is_enabled() && self.score_layer == Some(layer) {
                let inputs = output
                    .score_inputs
                    .get_or_insert_with(|| LayerInputs { thresholds: Vec::new() });
                inputs.thresholds.extend_from_slice(words(compiled.thresholds)?);
                output.score_outputs.extend(numbers()?);
            }
        }
        Ok(())
    }

    /// Returns the outputs of a layer in the units of the network.
    fn numbers(
        &self,
        layer: usize,
        compiled: &CompiledLayer,
        outputs: Option<&SlotData>,
        program_layer: &aleatron_core::program::ProgramLayer,
    ) -> Result<Vec<f64>> {
        match (outputs, &compiled.accumulator) {
            (Some(SlotData::Float(values)), None) => Ok(values.clone()),
            (Some(SlotData::Integer(values)), Some(accumulator)) => {
                let (spec, own) = (&program_layer.spec, &self.network.layers()[layer]);
                let unit = |row: usize| {
                    accumulator.unit(spec.length(), own.input_scale * own.weight_scale(row))
                };
                let units: Vec<f64> = (0..spec.n_rows()).map(unit).collect();
                let row = |k: usize| k % spec.n_neurons() / spec.neurons_per_row();
                Ok(values
                    .iter()
                    .enumerate()
                    .map(|(k, &value)| value as f64 * units[row(k)])
                    .collect())
            }
            _ => Err(CoreError::Internal { place: "engine::StreamNetwork::numbers" }.into()),
        }
    }
}

/// Returns the inputs of a program, sample after sample.
fn inputs<'a>(
    compiled: &Compiled,
    segment: &ProgramSegment,
    values: &'a Crossings<'_>,
) -> Result<Vec<Cow<'a, [f64]>>> {
    let input = |id: &ValueId| match values.get(id) {
        Some(Crossing::Floats(values)) => Ok(Cow::Borrowed(&values[..])),
        Some(Crossing::Tensor(tensor)) => {
            Ok(Cow::Owned(samples_first(floats(tensor)?, compiled.blocks(*id)?)))
        }
        None => Err(CoreError::Internal { place: "engine::stream::inputs" }.into()),
    };
    segment.inputs.iter().map(input).collect()
}

/// Passes the outputs of a program to other segments.
fn pass_outputs(
    segment: &ProgramSegment,
    requested: &RequestedSlots,
    computed: &mut ProgramOutput,
    values: &mut Crossings<'_>,
) -> Result<()> {
    for (k, (id, slot)) in segment.outputs.iter().enumerate() {
        let at = if requested.are_outputs {
            Some(k)
        } else {
            requested.slots.iter().position(|own| own == slot)
        };
        let data = at.and_then(|at| computed.slots.get_mut(at));
        let Some(SlotData::Float(elements)) = data else {
            return Err(CoreError::Internal { place: "engine::stream::pass_outputs" }.into());
        };
        // Two values may share a slot, unless each has its own.
        let elements =
            if requested.are_outputs { std::mem::take(elements) } else { elements.clone() };
        values.insert(*id, Crossing::Floats(Cow::Owned(elements)));
    }
    Ok(())
}

/// Returns elements by sample as the tensor that nodes read.
fn tensor(compiled: &Compiled, id: ValueId, elements: &[f64], n_runs: usize) -> Result<Tensor> {
    let [before, after] = compiled.blocks(id)?;
    let mut values = Vec::with_capacity(elements.len());
    for block in 0..before {
        for sample in elements.chunks_exact((before * after).max(1)) {
            values.extend(
                sample[block * after..(block + 1) * after].iter().map(|&value| value as f32),
            );
        }
    }
    let shape = compiled.shape(id, n_runs)?;
    Ok(Tensor::from_slice(&values, &shape, &Device::Cpu).map_err(GraphError::from)?)
}

/// Returns the elements of a tensor of shape `[before, n, after]` by sample.
pub(super) fn samples_first(elements: Vec<f64>, [before, after]: [usize; 2]) -> Vec<f64> {
    if before == 1 {
        return elements;
    }
    let n = elements.len() / (before * after).max(1);
    let mut values = Vec::with_capacity(elements.len());
    for sample in 0..n {
        for block in 0..before {
            values.extend_from_slice(&elements[(block * n + sample) * after..][..after]);
        }
    }
    values
}

/// Returns the slots of a program that a run returns.
fn requested(
    compiled: &Compiled,
    segment: &ProgramSegment,
    index: usize,
    detail: Detail,
    score_layer: Option<usize>,
) -> RequestedSlots {
    let outputs = segment.outputs.iter().map(|(_, slot)| *slot);
    if detail == Detail::default() && segment.has_own_slots {
        return RequestedSlots { slots: outputs.collect(), are_outputs: true };
    }
    let mut slots: Vec<SlotId> = outputs.collect();
    for &layer in &segment.layers {
        let Some(own) = compiled.layers[layer].as_ref().filter(|own| own.segment == index) else {
            continue;
        };
        if detail.statistics.is_enabled() {
            slots.extend([own.thresholds, own.counts]);
        }
        if detail.layers.is_enabled() {
            slots.extend([own.counts, own.outputs]);
        }
        if detail.score_layer.is_enabled() && score_layer == Some(layer) {
            slots.extend([own.thresholds, own.outputs]);
        }
    }
    if detail.nodes.is_enabled() {
        let views = compiled.views.iter().filter(|view| view.segment == index);
        let viewed: std::collections::BTreeSet<usize> =
            views.flat_map(|view| view.elements.iter().map(|element| element.0)).collect();
        let steps = segment.program.steps().iter().map(|step| step.output());
        let all = steps.chain(segment.program.inputs().iter().copied());
        slots.extend(all.filter(|slot| viewed.contains(&slot.index())));
    }
    slots.sort_unstable();
    slots.dedup();
    RequestedSlots { slots, are_outputs: false }
}
