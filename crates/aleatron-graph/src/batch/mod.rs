//! Independence of the samples of a batch, and their layout in each value.
//!
//! One run shows the shapes of all values. Along with it, [`BatchAnalysis`] follows the axis of the
//! samples from node to node by rules that hold for any number of samples. A node without a rule,
//! or one that sums, compares or moves elements across samples, mixes them. The result is therefore
//! safe: samples that are called independent are. [`free`] changes a graph that fixes the number of
//! samples into one that takes any number.

mod free;
pub(crate) mod front;
mod layout;
mod movement;
mod product;
mod rule;
mod site;
#[cfg(test)]
mod tests;

pub use free::free;
pub use layout::Layout;

use aleatron_tensor::{DType, Device, Tensor};

use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{ConstantValue, NoAxes, Op};
use crate::run::{Observer, Runner};
use site::{Dependence, Input, PROBES, Site};
use std::collections::HashMap;

/// The ways in which samples can run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Batching {
    /// Samples are independent: batches can be cut anywhere.
    Independent,
    /// An output of one sample depends on other samples, on how many there are, or on its position:
    /// batches run whole.
    Whole,
}

/// The dependence of the values of a graph on the samples of a batch, and their shapes in a run.
#[derive(Debug, Clone)]
pub struct BatchAnalysis {
    /// By the index of the value; `None` for values that no node of the run has.
    values: Vec<Option<Traced>>,
    /// The node that made samples depend on each other, by the values that do.
    mixed_by: HashMap<ValueId, usize>,
    /// The node whose output has a size that depends on features, by the values that have such
    /// sizes.
    sized_by: HashMap<ValueId, usize>,
    outputs: Vec<Tensor>,
    n: usize,
}

impl BatchAnalysis {
    /// Runs a graph with the inputs of `n` samples, which lie along the first axis of each, and
    /// analyzes it. One sample is enough for a graph that takes any number of them.
    ///
    /// # Errors
    /// An error if the graph cannot run with these inputs.
    pub fn new(runner: &Runner, inputs: Vec<Tensor>, n: usize) -> Result<Self> {
        let mut tracer = Tracer::new(runner, &inputs, n);
        let outputs = runner.run_with(inputs, &mut tracer)?;
        let (mixed_by, sized_by) = (tracer.mixed_by, tracer.sized_by);
        let mut values = vec![None; runner.graph().n_values()];
        for (id, value) in tracer.values {
            values[id.index()] = Some(value);
        }
        Ok(Self { values, mixed_by, sized_by, outputs, n })
    }

    /// Returns the outputs of the run.
    #[must_use]
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// Returns the number of samples of the run.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.n
    }

    /// Returns the shape and the type of a value of the run; `None` for constants of the graph.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> Option<(&[usize], DType)> {
        self.value(id).map(|value| (value.shape.as_slice(), value.dtype))
    }

    /// Returns whether a value depends on features; values of shapes alone do not.
    #[must_use]
    pub fn depends_on_features(&self, id: ValueId) -> bool {
        self.value(id).is_some_and(|value| value.tensor.is_none())
    }

    /// Returns a value that a node of the run computed without features.
    #[must_use]
    pub fn tensor(&self, id: ValueId) -> Option<&Tensor> {
        self.value(id)?.tensor.as_ref()
    }

    fn value(&self, id: ValueId) -> Option<&Traced> {
        self.values.get(id.index())?.as_ref()
    }

    fn dependence(&self, id: ValueId) -> &Dependence {
        self.value(id).map_or(&Dependence::Constant, |value| &value.dependence)
    }

    /// Returns where the samples lie in a value; `None` if it does not depend on samples, or on
    /// several of them.
    #[must_use]
    pub fn layout(&self, id: ValueId) -> Option<Layout> {
        match self.dependence(id) {
            Dependence::Samples(layout) => Some(*layout),
            _ => None,
        }
    }

    /// Returns whether a value is the same for all samples and any number of them.
    #[must_use]
    pub fn is_constant(&self, id: ValueId) -> bool {
        matches!(self.dependence(id), Dependence::Constant)
    }

    /// Returns how samples can run together if `output` is the output.
    ///
    /// # Errors
    /// [`Error::Model`] with the name of the output if its size depends on the values of features,
    /// if it does not depend on samples, or if its leading size is not the number of samples.
    pub fn batching(&self, graph: &Graph, output: ValueId) -> Result<Batching> {
        let name = |id: ValueId| graph.value(id).map(|value| value.name.clone());
        let place = format!("output \"{}\"", name(output)?);
        let node = |index: &usize| {
            let node = graph.nodes().get(*index);
            node.map_or_else(String::new, |node| {
                format!("node \"{}\" ({})", node.name, node.op.name())
            })
        };
        if let Some(index) = self.sized_by.get(&output) {
            let node = node(index);
            let reason = format!(
                "its size depends on the values of features, by {node}; choose another output"
            );
            return Err(Error::model(place, reason));
        }
        match self.dependence(output) {
            Dependence::Samples(layout) if *layout == Layout::LEADING => Ok(Batching::Independent),
            Dependence::Samples(Layout { axis, outer, inner }) => {
                let reason = match (axis, outer * inner) {
                    (axis, 1) => format!("its samples lie along axis {axis}, not along the first"),
                    (0, n) => format!("its first size is {n} times the number of samples"),
                    (axis, n) => format!("its axis {axis} holds {n} rows of each sample"),
                };
                let remedy = "the first size must be the number of samples; choose another output";
                Err(Error::model(place, format!("{reason}: {remedy}")))
            }
            Dependence::Constant | Dependence::Number(_) => Err(Error::model(
                place,
                "it does not depend on the features; choose another output",
            )),
            Dependence::Several => Ok(Batching::Whole),
        }
    }

    /// Returns the index of the first node on the way to a value that makes samples depend on each
    /// other.
    #[must_use]
    pub fn mixed_by(&self, id: ValueId) -> Option<usize> {
        self.mixed_by.get(&id).copied()
    }
}

/// A value of the run.
#[derive(Debug, Clone)]
struct Traced {
    dependence: Dependence,
    shape: Vec<usize>,
    dtype: DType,
    /// The value itself, if it does not depend on features: on constants or shapes alone.
    tensor: Option<Tensor>,
}

impl Traced {
    fn new(dependence: Dependence, tensor: &Tensor, of_features: bool) -> Self {
        let (shape, dtype) = (tensor.shape().to_vec(), tensor.dtype());
        Self { dependence, shape, dtype, tensor: (!of_features).then(|| tensor.clone()) }
    }
}

/// Follows samples through a run.
struct Tracer<'a> {
    runner: &'a Runner,
    values: HashMap<ValueId, Traced>,
    mixed_by: HashMap<ValueId, usize>,
    sized_by: HashMap<ValueId, usize>,
    /// The inputs of the node that runs.
    inputs: Vec<Option<Tensor>>,
    n: usize,
}

impl<'a> Tracer<'a> {
    fn new(runner: &'a Runner, inputs: &[Tensor], n: usize) -> Self {
        let leading =
            |tensor: &Tensor| Traced::new(Dependence::Samples(Layout::LEADING), tensor, true);
        let ids = runner.graph().inputs().iter().zip(inputs);
        let values = ids.map(|(&id, tensor)| (id, leading(tensor))).collect();
        let (mixed_by, sized_by) = (HashMap::new(), HashMap::new());
        Self { runner, values, mixed_by, sized_by, inputs: Vec::new(), n }
    }

    fn site<'n>(&self, node: &'n Node, outputs: &[Tensor]) -> Site<'n> {
        let input = |(id, tensor): (&Option<ValueId>, &Option<Tensor>)| {
            let (id, tensor) = ((*id)?, tensor.clone()?);
            let known = self.values.get(&id);
            let dependence = known.map_or(Dependence::Constant, |known| known.dependence.clone());
            Some(Input { dependence, tensor })
        };
        let inputs = node.inputs.iter().zip(&self.inputs).map(input).collect();
        let outputs = outputs.iter().map(|tensor| tensor.shape().to_vec()).collect();
        Site { node, inputs, outputs, n: self.n }
    }

    /// Returns how the outputs of a node depend on samples.
    fn outputs(&self, site: &Site<'_>) -> Vec<Dependence> {
        let n_outputs = site.outputs.len();
        let mut needs = site
            .node
            .needs()
            .map(|id| self.values.get(&id).map(|known| &known.dependence))
            .peekable();
        let is_several = |known: &Option<&Dependence>| matches!(known, Some(Dependence::Several));
        let several = || vec![Dependence::Several; n_outputs];
        if needs.peek().is_none() {
            return vec![Dependence::Constant; n_outputs];
        }
        let needs: Vec<Option<&Dependence>> = needs.collect();
        if matches!(site.node.op, Op::Shape { .. } | Op::Size) {
            return self.sizes(site).unwrap_or_else(several);
        }
        if needs.iter().any(is_several) {
            return several();
        }
        let has_samples = needs.iter().any(|known| matches!(known, Some(Dependence::Samples(_))));
        let has_numbers = needs.iter().any(|known| matches!(known, Some(Dependence::Number(_))));
        match (has_samples, has_numbers) {
            (false, false) => vec![Dependence::Constant; n_outputs],
            (false, true) => self.computed(site).unwrap_or_else(several),
            (true, _) => self.moved(site).unwrap_or_else(several),
        }
    }

    /// Returns the layouts of outputs by rule.
    fn moved(&self, site: &Site<'_>) -> Option<Vec<Dependence>> {
        let layouts = rule::layouts(site)?;
        let made = site.outputs.iter().enumerate().map(|(k, shape)| {
            let layout = layouts.get(k).copied().flatten();
            let mut one = shape.clone();
            let is_whole = layout.and_then(|layout| one.get_mut(layout.axis)).is_some_and(|size| {
                let is_whole = size.is_multiple_of(self.n);
                *size /= self.n;
                is_whole
            });
            match layout.filter(|layout| is_whole && layout.fits(&one)) {
                Some(layout) => Dependence::Samples(layout),
                None => Dependence::Several,
            }
        });
        Some(made.collect())
    }

    /// Returns sizes of a value for other numbers of samples.
    fn sizes(&self, site: &Site<'_>) -> Option<Vec<Dependence>> {
        let input = site.input(0)?;
        let shapes = match input.dependence {
            Dependence::Samples(_) => {
                let x = site.samples(0)?;
                PROBES.map(|n| x.layout.shape(&x.one, n))
            }
            Dependence::Constant | Dependence::Number(_) => {
                PROBES.map(|_| input.tensor.shape().to_vec())
            }
            Dependence::Several => return None,
        };
        self.probe(site.node, |probe| {
            // A view of one element: no memory for sizes alone.
            let zero = Tensor::zeros(&[], input.tensor.dtype(), &Device::Cpu)?;
            Ok(vec![Some(zero.broadcast_to(&shapes[probe])?)])
        })
    }

    /// Computes a node of constants and sizes for other numbers of samples.
    fn computed(&self, site: &Site<'_>) -> Option<Vec<Dependence>> {
        if site.node.needs().count() != site.node.inputs.iter().flatten().count() {
            // Graphs inside the node take values from outside.
            return None;
        }
        self.probe(site.node, |probe| {
            let input = |input: &Option<Input>| {
                input.as_ref().map(|input| match &input.dependence {
                    Dependence::Number(tensors) => tensors[probe].clone(),
                    _ => input.tensor.clone(),
                })
            };
            Ok(site.inputs.iter().map(input).collect())
        })
    }

    /// Computes a node for each of [`PROBES`].
    fn probe(
        &self,
        node: &Node,
        inputs: impl Fn(usize) -> Result<Vec<Option<Tensor>>>,
    ) -> Option<Vec<Dependence>> {
        let run = |probe: usize| self.runner.compute_with(node, &inputs(probe).ok()?).ok();
        let [one, two, three] = [run(0)?, run(1)?, run(2)?];
        let all = one.into_iter().zip(two).zip(three);
        Some(all.map(|((one, two), three)| compared([one, two, three])).collect())
    }

    /// Returns the node by which the sizes of a node's outputs depend on features.
    fn sized(&self, index: usize, node: &Node) -> Option<usize> {
        let reduces_all = |node: &Node| matches!(&node.op, Op::Reduce { axes: None, no_axes: NoAxes::All, .. } if node.inputs.len() < 2);
        if matches!(node.op, Op::Shape { .. } | Op::Size) || reduces_all(node) {
            return None;
        }
        if let Some(known) = node.needs().find_map(|id| self.sized_by.get(&id)) {
            return Some(*known);
        }
        let of_features = |k: &usize| {
            let id = node.inputs.get(*k).copied().flatten();
            id.and_then(|id| self.values.get(&id)).is_some_and(|known| known.tensor.is_none())
        };
        size_inputs(&node.op).iter().any(of_features).then_some(index)
    }
}

impl Observer for Tracer<'_> {
    fn compute(
        &mut self,
        _: usize,
        _: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Option<Vec<Tensor>>> {
        self.inputs = inputs.to_vec();
        Ok(None)
    }

    fn made(&mut self, index: usize, node: &Node, outputs: &mut [Tensor]) -> Result<()> {
        let site = self.site(node, outputs);
        let dependences = self.outputs(&site);
        let of_features = !matches!(node.op, Op::Shape { .. } | Op::Size)
            && node
                .needs()
                .any(|id| self.values.get(&id).is_some_and(|known| known.tensor.is_none()));
        let mixed_by = node.needs().find_map(|id| self.mixed_by.get(&id).copied()).unwrap_or(index);
        let sized_by = self.sized(index, node);
        for ((id, dependence), tensor) in node.outputs.iter().zip(dependences).zip(outputs) {
            let Some(id) = id else { continue };
            if matches!(dependence, Dependence::Several) {
                self.mixed_by.insert(*id, mixed_by);
            }
            if let Some(node) = sized_by {
                self.sized_by.insert(*id, node);
            }
            self.values.insert(*id, Traced::new(dependence, tensor, of_features));
        }
        Ok(())
    }
}

/// Returns how a value depends on the number of samples, from its values for [`PROBES`].
fn compared(values: [Tensor; PROBES.len()]) -> Dependence {
    let [one, two, three] = &values;
    let same = |a: &Tensor, b: &Tensor| ConstantValue(a.clone()) == ConstantValue(b.clone());
    let ranks = [one.rank(), two.rank(), three.rank()];
    if ranks.iter().any(|rank| *rank != ranks[0]) {
        return Dependence::Several;
    }
    let mut axes = (0..one.rank()).filter(|&axis| {
        let sizes = [one, two, three].map(|tensor| tensor.shape()[axis]);
        sizes.iter().any(|size| *size != sizes[0])
    });
    let Some(axis) = axes.next() else {
        let is_constant = same(one, two) && same(two, three);
        return if is_constant {
            Dependence::Constant
        } else {
            Dependence::Number(Box::new(values))
        };
    };
    // One row for each sample, all of them equal, is what a constant for each sample is.
    let is_repeated = axes.next().is_none()
        && [one, two, three].map(|tensor| tensor.shape()[axis]) == PROBES
        && [two, three].into_iter().all(|tensor| {
            let n = tensor.shape()[axis];
            (0..n).all(|k| tensor.slice(axis as isize, k..k + 1).is_ok_and(|row| same(&row, one)))
        });
    if is_repeated { Dependence::Samples(Layout::LEADING.moved(axis)) } else { Dependence::Several }
}

/// Returns the inputs of an operator whose values decide the sizes of its outputs.
fn size_inputs(op: &Op) -> &'static [usize] {
    match op {
        Op::NonZero | Op::Unique { .. } | Op::ConstantOfShape { .. } | Op::If { .. } => &[0],
        Op::Compress { .. } | Op::Reshape { .. } | Op::Expand | Op::Tile | Op::TopK { .. } => &[1],
        Op::Split { .. } | Op::OneHot { .. } | Op::CenterCropPad { .. } | Op::Reduce { .. } => &[1],
        Op::Squeeze { .. } | Op::Unsqueeze { .. } | Op::Upsample { .. } => &[1],
        Op::Range => &[0, 1, 2],
        Op::Slice { .. } => &[1, 2, 3, 4],
        Op::Pad { .. } => &[1, 3],
        Op::Resize(_) => &[1, 2, 3],
        Op::Col2Im { .. } => &[1, 2],
        Op::Loop { .. } => &[0, 1],
        Op::MaxUnpool { .. } => &[2],
        Op::NonMaxSuppression { .. } => &[0, 1, 2, 3, 4],
        Op::Dft { .. } => &[1, 2],
        Op::Stft { .. } => &[1, 3],
        Op::SignalWindow { .. } => &[0],
        _ => &[],
    }
}

/// Returns an error unless the leading size of an output is the number of samples.
///
/// # Errors
/// [`Error::Model`] with the name and shape of the output.
pub fn check_output(graph: &Graph, id: ValueId, tensor: &Tensor, n_samples: usize) -> Result<()> {
    if tensor.shape().first() == Some(&n_samples) && !tensor.is_empty() {
        return Ok(());
    }
    let name = &graph.value(id)?.name;
    let reason = format!(
        "it has shape {:?} for {n_samples} samples: the first size must be the number of samples; choose another output",
        tensor.shape()
    );
    Err(Error::model(format!("output \"{name}\""), reason))
}
