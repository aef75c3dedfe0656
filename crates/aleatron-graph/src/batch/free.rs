//! Graphs that fix the number of samples, changed to take any number.
//!
//! Exporters that trace a model write the number of samples into shapes and constants. A run with
//! that number shows where: [`Tracer`] follows the samples as if their number were free, and each
//! node that depends on the number is repaired. The changed graph is analyzed and compared with the
//! original one before it is used.

use aleatron_tensor::{DType, Device, Tensor};

use super::front::Front;
use super::rule::recurrent_axes;
use super::site::{Dependence, PROBES, Site, axes_of};
use super::{BatchAnalysis, Batching, Layout, Traced, Tracer};
use crate::error::Result;
use crate::graph::{Dim, Graph, Node, ValueId};
use crate::op::{ConstantValue, Op};
use crate::run::{Observer, Runner};

/// Returns a graph that computes the same for any number of samples as `graph` does for `batch` of
/// them, which are the first size of all of its inputs; `None` if there is none, because samples
/// depend on each other or a node has no repair.
///
/// # Errors
/// An error if the graph cannot run.
pub fn free(graph: &Graph, batch: usize) -> Result<Option<Graph>> {
    let runner = Runner::new(graph.clone(), &Device::Cpu)?;
    let inputs = inputs_for(graph, batch, 1)?;
    let tracer = Tracer::new(&runner, &inputs, batch);
    let mut repair = Repair { tracer, edits: Vec::new() };
    // Values that ids or other integers cannot have may make a run fail which other values do not.
    let Ok(expected) = runner.run_with(inputs, &mut repair) else { return Ok(None) };
    let is_leading = |id: &ValueId| {
        let value = repair.tracer.values.get(id).map(|value| &value.dependence);
        matches!(value, Some(Dependence::Samples(layout)) if *layout == Layout::LEADING)
    };
    if graph.outputs().is_empty() || !graph.outputs().iter().all(is_leading) {
        return Ok(None);
    }
    let freed = rebuilt(graph, std::mem::take(&mut repair.edits))?;
    Ok(if is_same(&freed, batch, &expected)? { Some(freed) } else { None })
}

/// Returns whether a freed graph is one of independent samples and has the outputs that the
/// original had for `batch` samples.
fn is_same(freed: &Graph, batch: usize, expected: &[Tensor]) -> Result<bool> {
    let runner = Runner::new(freed.clone(), &Device::Cpu)?;
    let Ok(analysis) = BatchAnalysis::new(&runner, inputs_for(freed, 1, 1)?, 1) else {
        return Ok(false);
    };
    for &id in freed.outputs() {
        if !matches!(analysis.batching(freed, id), Ok(Batching::Independent)) {
            return Ok(false);
        }
    }
    // One sample more than the original takes.
    let Ok(made) = runner.run(inputs_for(freed, batch + 1, 1)?) else { return Ok(false) };
    for (made, expected) in made.iter().zip(expected) {
        let first = made.slice(0, 0..batch)?;
        if ConstantValue(first) != ConstantValue(expected.clone()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns inputs of `n` samples: numbers in [-1, 1) that look random, and zeros and ones for
/// integers, which most models take. The first samples are the same for every `n`.
fn inputs_for(graph: &Graph, n: usize, seed: u64) -> Result<Vec<Tensor>> {
    let mut inputs = Vec::with_capacity(graph.inputs().len());
    for (k, &id) in graph.inputs().iter().enumerate() {
        let value = graph.value(id)?;
        let sizes = value.shape.iter().flatten().skip(1);
        let sample = sizes.map(|dim| if let Dim::Fixed(size) = dim { *size } else { 1 });
        let shape: Vec<usize> = std::iter::once(n).chain(sample).collect();
        let len: usize = shape.iter().product();
        aleatron_core::memory::check(8 * len as u128, aleatron_core::Quantity::Samples)?;
        let mut state = seed.wrapping_add(k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let dtype = value.dtype.unwrap_or(DType::F32);
        let values: Vec<f32> = match dtype.is_float() {
            true => (0..len).map(|_| next()).collect(),
            false => (0..len).map(|_| f32::from(u8::from(next() >= 0.0))).collect(),
        };
        inputs.push(Tensor::from_slice(&values, &shape, &Device::Cpu)?.cast(dtype)?);
    }
    Ok(inputs)
}

/// A change of one input of a node.
#[derive(Debug)]
struct Edit {
    node: usize,
    input: usize,
    to: Operand,
}

/// An operand of a node of the freed graph.
#[derive(Debug)]
enum Operand {
    /// A constant.
    Constant(Tensor),
    /// A constant of one sample, for each sample.
    Repeated(Tensor, Layout),
    /// Sizes, of which `None` is the number of samples.
    Sizes(Vec<Option<i64>>),
    /// None.
    Missing,
}

/// Follows samples through a run and repairs nodes that fix their number.
struct Repair<'a> {
    tracer: Tracer<'a>,
    edits: Vec<Edit>,
}

impl Observer for Repair<'_> {
    fn compute(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Option<Vec<Tensor>>> {
        self.tracer.compute(index, node, inputs)
    }

    fn made(&mut self, index: usize, node: &Node, outputs: &mut [Tensor]) -> Result<()> {
        let mut site = self.tracer.site(node, outputs);
        let mut fixes = Fixes { site: &mut site, node: index, edits: &mut self.edits };
        let decided = fixes.node();
        let dependences = match decided {
            Some(layout) => vec![Dependence::Samples(layout)],
            None => self.tracer.outputs(&site),
        };
        for ((id, dependence), tensor) in node.outputs.iter().zip(dependences).zip(outputs) {
            if let Some(id) = id {
                self.tracer.values.insert(*id, Traced::new(dependence, tensor, true));
            }
        }
        Ok(())
    }
}

/// Repairs of one node.
struct Fixes<'a, 'n> {
    site: &'a mut Site<'n>,
    node: usize,
    edits: &'a mut Vec<Edit>,
}

impl Fixes<'_, '_> {
    /// Repairs the node; returns the layout of its output if the repair decides it.
    fn node(&mut self) -> Option<Layout> {
        match self.site.node.op.clone() {
            Op::Reshape { shape, .. } => return self.reshape(shape.is_some()),
            Op::Expand => self.expand(),
            Op::Unary(_) | Op::Binary(_) | Op::Variadic(_) | Op::Where | Op::Clip { .. } => {
                self.elementwise()
            }
            Op::SwiGlu { .. } => self.elementwise(),
            Op::Gemm { transpose_a, .. } => {
                let left = self.site.samples(0)?;
                if left.axis() == usize::from(transpose_a) {
                    self.broadcast(2, left.layout.moved(0), 2);
                }
            }
            Op::Concat { .. } => {
                let layout = (0..self.site.inputs.len()).find_map(|k| self.site.samples(k))?.layout;
                (0..self.site.inputs.len()).for_each(|k| self.repeat(k, layout));
            }
            Op::GridSample { .. } | Op::GatherElements { .. } => {
                let layout = self.site.samples(0)?.layout;
                self.repeat(1, layout);
            }
            Op::ReverseSequence { .. } => {
                let layout = self.site.samples(0)?.layout;
                self.repeat(1, layout.moved(0));
            }
            Op::Recurrent(op) => {
                let x = self.site.samples(0)?;
                let ([sequence, state], _) = recurrent_axes(&op);
                let steps = *x.one.get(1 - sequence)?;
                let all = self
                    .site
                    .ints(4)
                    .is_some_and(|lengths| lengths.iter().all(|&n| n == steps as i64));
                if all {
                    self.remove(4)
                } else {
                    self.repeat(4, x.layout.moved(0))
                }
                for k in [5, 6] {
                    self.repeat(k, x.layout.moved(state));
                }
            }
            Op::Resize(resize) => self.resize(resize.axes.as_deref(), 3),
            Op::Slice { given: None } => self.slice(),
            _ => {}
        }
        None
    }

    fn edit(&mut self, input: usize, to: Operand) {
        self.edits.push(Edit { node: self.node, input, to });
    }

    /// Replaces an input by a constant, also for the rule that follows.
    fn set(&mut self, k: usize, tensor: Tensor) {
        if let Some(Some(input)) = self.site.inputs.get_mut(k) {
            input.tensor = tensor.clone();
            input.dependence = Dependence::Constant;
            self.edit(k, Operand::Constant(tensor));
        }
    }

    fn remove(&mut self, k: usize) {
        if let Some(input) = self.site.inputs.get_mut(k) {
            *input = None;
            self.edit(k, Operand::Missing);
        }
    }

    /// Replaces sizes that name the number of samples.
    fn reshape(&mut self, is_attribute: bool) -> Option<Layout> {
        let x = self.site.samples(0)?;
        if !is_attribute {
            self.site.ints(1)?;
        }
        let to = self.site.outputs.first()?.clone();
        let candidates = x.layout.candidates(&x.one, &to, self.site.n);
        let is_alone = |layout: &&Layout| layout.outer * layout.inner == 1;
        let layout = *candidates.iter().find(is_alone).or(candidates.first())?;
        if super::movement::reshape(self.site).and_then(|found| found.first().copied().flatten())
            != Some(layout)
        {
            let mut sizes: Vec<i64> = to.iter().map(|&size| size as i64).collect();
            sizes[layout.axis] = -1;
            if is_attribute {
                return None;
            }
            self.set(1, ints(&sizes)?);
        }
        Some(layout)
    }

    fn expand(&mut self) {
        let Some((x, mut wanted)) = self.site.samples(0).zip(self.site.ints(1)) else { return };
        let aligned = (x.axis() + wanted.len()).checked_sub(x.rank());
        let size = (x.layout.outer * self.site.n * x.layout.inner) as i64;
        if let Some(own) = aligned.and_then(|axis| wanted.get_mut(axis))
            && *own == size
            && let Some(tensor) = {
                *own = 1;
                ints(&wanted)
            }
        {
            self.set(1, tensor);
        }
    }

    fn elementwise(&mut self) {
        let rank = self.site.rank();
        let aligned = |site: &Site<'_>, k: usize| {
            let x = site.samples(k)?;
            Some(x.layout.moved((x.axis() + rank).checked_sub(x.rank())?))
        };
        let n = self.site.inputs.len();
        let Some(layout) = (0..n).find_map(|k| aligned(self.site, k)) else { return };
        (0..n).for_each(|k| self.broadcast(k, layout, rank));
    }

    /// Replaces a constant that is broadcast to samples and has a row for each of them.
    fn broadcast(&mut self, k: usize, layout: Layout, rank: usize) {
        let Some(shape) = self.site.constant_shape(k) else { return };
        let Some(axis) = (layout.axis + shape.len()).checked_sub(rank) else { return };
        if shape.get(axis).is_none_or(|&size| size == 1) {
            return;
        }
        let own = layout.moved(axis);
        match own.outer * own.inner {
            1 => {
                if let Some(tensor) = self.one(k, own) {
                    self.set(k, tensor);
                }
            }
            _ => self.repeat(k, own),
        }
    }

    /// Returns the part of a constant that belongs to a sample, if it is the same for all of them.
    fn one(&self, k: usize, layout: Layout) -> Option<Tensor> {
        let n = self.site.n;
        let tensor = &self
            .site
            .input(k)
            .filter(|input| matches!(input.dependence, Dependence::Constant))?
            .tensor;
        let mut shape = tensor.shape().to_vec();
        let size = shape.get_mut(layout.axis)?;
        if *size != layout.outer * n * layout.inner {
            return None;
        }
        *size /= n;
        let [before, after] = layout.blocks(&shape);
        let blocks = tensor.reshape(&[before, n, after]).ok()?;
        let part = |s: usize| blocks.slice(1, s..s + 1).ok();
        let first = part(0)?;
        let is_same = |s: usize| {
            part(s).is_some_and(|own| ConstantValue(own) == ConstantValue(first.clone()))
        };
        (1..n).all(is_same).then(|| first.reshape(&shape).ok())?
    }

    /// Replaces a constant that has a row for each sample.
    fn repeat(&mut self, k: usize, layout: Layout) {
        let Some(tensor) = self.one(k, layout) else { return };
        if let Some(Some(input)) = self.site.inputs.get_mut(k) {
            input.dependence = Dependence::Samples(layout);
            self.edit(k, Operand::Repeated(tensor, layout));
        }
    }

    fn resize(&mut self, axes: Option<&[i64]>, k: usize) {
        let Some((x, sizes)) = self.site.samples(0).zip(self.site.ints(k)) else { return };
        let axes = match axes {
            Some(axes) => axes_of(axes, x.rank()),
            None => Some((0..x.rank()).collect()),
        };
        let own = axes.and_then(|axes: Vec<usize>| axes.iter().position(|axis| *axis == x.axis()));
        let Some(own) =
            own.filter(|&own| x.layout.outer * x.layout.inner == 1 && own < sizes.len())
        else {
            return;
        };
        if sizes[own] != self.site.n as i64 {
            return;
        }
        let probe = |n: usize| {
            let mut sizes = sizes.clone();
            sizes[own] = n as i64;
            ints(&sizes)
        };
        if let [Some(one), Some(two), Some(three)] = PROBES.map(probe)
            && let Some(Some(input)) = self.site.inputs.get_mut(k)
        {
            input.dependence = Dependence::Number(Box::new([one, two, three]));
            let sizes = sizes.iter().enumerate().map(|(at, &size)| (at != own).then_some(size));
            self.edit(k, Operand::Sizes(sizes.collect()));
        }
    }

    /// Replaces the end of a slice of all samples.
    fn slice(&mut self) {
        let site = &self.site;
        let parameters = || Some((site.samples(0)?, site.ints(1)?, site.ints(2)?));
        let Some((x, starts, mut ends)) = parameters() else { return };
        let axes = site.ints(3).unwrap_or_else(|| (0..starts.len() as i64).collect());
        let own = axes_of(&axes, x.rank())
            .and_then(|axes| axes.iter().position(|axis| *axis == x.axis()));
        let size = (x.layout.outer * site.n * x.layout.inner) as i64;
        if let Some(own) = own
            && starts.get(own) == Some(&0)
            && ends.get(own).is_some_and(|&end| end >= size)
        {
            ends[own] = i64::MAX;
            if let Some(tensor) = ints(&ends) {
                self.set(2, tensor);
            }
        }
    }
}

fn ints(values: &[i64]) -> Option<Tensor> {
    Tensor::from_slice(values, &[values.len()], &Device::Cpu).ok()
}

/// Applies edits to a graph.
fn rebuilt(graph: &Graph, edits: Vec<Edit>) -> Result<Graph> {
    let mut made = Front::new(graph.clone());
    let name = made.unused("samples");
    let outputs = made.graph.outputs.clone();
    let named = |id: &ValueId| graph.inputs.contains(id) || outputs.contains(id);
    for (k, value) in made.graph.values.iter_mut().enumerate() {
        let id = ValueId::new(k);
        if named(&id) {
            if let Some(first) = value.shape.as_mut().and_then(|shape| shape.first_mut()) {
                *first = Dim::Named(name.clone());
            }
        } else if !graph.constants.contains_key(&id) {
            // Shapes of the file hold for the number of samples that it fixed.
            value.shape = None;
        }
    }
    for Edit { node, input, to } in edits {
        let old = graph.nodes.get(node).and_then(|node| node.inputs.get(input).copied().flatten());
        let narrow = old.and_then(|id| graph.narrow(id));
        let id = match to {
            Operand::Constant(tensor) => {
                let id = made.constant(tensor);
                made.graph.narrow.extend(narrow.map(|narrow| (id, narrow)));
                Some(id)
            }
            Operand::Repeated(tensor, layout) => Some(made.repeated(&tensor, layout, narrow)?),
            Operand::Sizes(sizes) => Some(made.sizes(&sizes)?),
            Operand::Missing => None,
        };
        if let Some(slot) =
            made.graph.nodes.get_mut(node).and_then(|node| node.inputs.get_mut(input))
        {
            *slot = id;
        }
    }
    Ok(made.finish())
}
