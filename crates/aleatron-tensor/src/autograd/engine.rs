//! The backward pass.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::no_grad;
use super::node::{Edge, Node};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The leaves that a backward pass may reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Any; nodes that lead to no input are not visited.
    Inputs,
    /// Only inputs: another leaf is an error.
    InputsOnly,
}

/// A node whose gradient is known in part, ordered by its creation.
struct Entry(Arc<Node>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.id().cmp(&other.0.id())
    }
}

/// Gradients of nodes that were not visited yet. The latest node is visited first: everything
/// computed from it was visited before, so its gradient is complete.
#[derive(Default)]
struct Pending {
    heap: BinaryHeap<Entry>,
    gradients: HashMap<u64, Tensor>,
}

impl Pending {
    fn add(&mut self, node: Arc<Node>, gradient: Tensor) -> Result<()> {
        match self.gradients.remove(&node.id()) {
            Some(sum) => {
                self.gradients.insert(node.id(), sum.add(&gradient)?);
            }
            None => {
                self.gradients.insert(node.id(), gradient);
                self.heap.push(Entry(node));
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<(Arc<Node>, Tensor)> {
        let Entry(node) = self.heap.pop()?;
        let gradient = self.gradients.remove(&node.id())?;
        Some((node, gradient))
    }
}

/// Visits the nodes below a root. `finish` receives each node with its complete gradient and
/// returns whether to visit its arguments.
fn run(
    root: Arc<Node>,
    seed: Tensor,
    mut finish: impl FnMut(&Arc<Node>, &Tensor) -> Result<Below>,
) -> Result<()> {
    let mut pending = Pending::default();
    pending.add(root, seed)?;
    while let Some((node, gradient)) = pending.pop() {
        let below = finish(&node, &gradient)?;
        if below == Below::Skip {
            continue;
        }
        let Some(record) = node.take()? else { continue };
        let parts = (record.pullback)(&gradient)?;
        drop(gradient);
        for (edge, part) in record.edges.into_iter().zip(parts) {
            if let (Some(edge), Some(part)) = (edge, part) {
                let part = fit(&edge, part)?;
                pending.add(edge.node, part)?;
            }
        }
    }
    Ok(())
}

/// Whether the arguments of a node are visited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Visit,
    Skip,
}

/// Serializes the changes of leaves by backward passes of several threads.
static ACCUMULATION: Mutex<()> = Mutex::new(());

/// Computes the gradients of the leaves below a root and adds them.
pub(super) fn backward(root: Arc<Node>, seed: Tensor) -> Result<()> {
    no_grad(|| {
        let mut leaves = Vec::new();
        run(root, seed, |node, gradient| {
            if node.is_leaf() {
                leaves.push((Arc::clone(node), gradient.clone()));
            }
            Ok(Below::Visit)
        })?;
        let _guard = ACCUMULATION.lock().unwrap_or_else(PoisonError::into_inner);
        for (leaf, gradient) in &mut leaves {
            if let Some(sum) = leaf.gradient() {
                *gradient = sum.add(&*gradient)?;
            }
            // Computed now: the values that it was computed from can be freed.
            gradient.record()?;
        }
        // Nothing failed, so every leaf changes.
        for (leaf, sum) in leaves {
            leaf.set_gradient(Some(sum));
        }
        Ok(())
    })
}

/// Computes the gradients of some nodes.
pub(super) fn gradients_of(
    root: Arc<Node>,
    seed: Tensor,
    inputs: &[Option<Arc<Node>>],
    target: Target,
) -> Result<Vec<Option<Tensor>>> {
    no_grad(|| {
        let wanted: HashSet<u64> = inputs.iter().flatten().map(|node| node.id()).collect();
        let leading = leading_to(&root, &wanted);
        let mut found: HashMap<u64, Tensor> = HashMap::new();
        run(root, seed, |node, gradient| {
            if wanted.contains(&node.id()) {
                gradient.record()?;
                found.insert(node.id(), gradient.clone());
            } else if target == Target::InputsOnly && node.is_leaf() {
                return Err(Error::argument(
                    "checkpoint",
                    "a tensor used by the function",
                    node,
                    "it requires a gradient and must be passed as an input",
                ));
            }
            let goes_on = target == Target::InputsOnly || leading.contains(&node.id());
            Ok(if goes_on { Below::Visit } else { Below::Skip })
        })?;
        Ok(inputs.iter().map(|node| found.get(&node.as_ref()?.id()).cloned()).collect())
    })
}

/// Returns the nodes below a root whose arguments lead to a wanted node.
fn leading_to(root: &Arc<Node>, wanted: &HashSet<u64>) -> HashSet<u64> {
    let mut seen: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut open = vec![Arc::clone(root)];
    while let Some(node) = open.pop() {
        if seen.contains_key(&node.id()) {
            continue;
        }
        let arguments = node.arguments();
        seen.insert(node.id(), arguments.iter().map(|node| node.id()).collect());
        open.extend(arguments);
    }
    // Arguments are older than results.
    let mut order: Vec<u64> = seen.keys().copied().collect();
    order.sort_unstable();
    let mut leading = HashSet::new();
    for id in order {
        let leads = |argument: &u64| wanted.contains(argument) || leading.contains(argument);
        if seen[&id].iter().any(leads) {
            leading.insert(id);
        }
    }
    leading
}

/// Returns a gradient in the shape and the type of an argument: axes that were broadcast are
/// summed.
fn fit(edge: &Edge, gradient: Tensor) -> Result<Tensor> {
    sum_to(gradient, &edge.shape, edge.dtype)
}

pub(super) fn sum_to(gradient: Tensor, shape: &[usize], dtype: DType) -> Result<Tensor> {
    if gradient.shape() == shape {
        return gradient.cast(dtype);
    }
    let added = gradient
        .rank()
        .checked_sub(shape.len())
        .ok_or(Error::internal("autograd, rank of a gradient"))?;
    let is_repeated =
        |axis: usize| axis < added || (shape[axis - added] == 1 && gradient.shape()[axis] != 1);
    let axes: Vec<isize> =
        (0..gradient.rank()).filter(|&axis| is_repeated(axis)).map(|axis| axis as isize).collect();
    let sum = if axes.is_empty() { gradient } else { gradient.sum_keepdim(&axes)? };
    sum.reshape(shape)?.cast(dtype)
}
