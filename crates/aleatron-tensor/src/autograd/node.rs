//! Nodes of recorded computations.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::is_enabled;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The gradients of the arguments of an operation, in their order; `None` where there is none.
pub(crate) type Gradients = Vec<Option<Tensor>>;

/// Computes the gradients of the arguments from that of the result.
pub(super) type Pullback = Box<dyn FnOnce(&Tensor) -> Result<Gradients> + Send>;

/// A tracked argument of an operation.
pub(super) struct Edge {
    pub(super) node: Arc<Node>,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
}

/// The recorded part of an operation, until a backward pass takes it.
pub(super) struct Record {
    /// One for each argument; `None` for untracked ones.
    pub(super) edges: Vec<Option<Edge>>,
    pub(super) pullback: Pullback,
}

enum Kind {
    Leaf(Mutex<Option<Tensor>>),
    Operation { op: &'static str, record: Mutex<Option<Record>> },
}

/// A leaf or an operation.
pub(crate) struct Node {
    /// The position in the order of creation: arguments come before results.
    id: u64,
    kind: Kind,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), kind })
    }

    pub(super) fn leaf() -> Arc<Self> {
        Self::new(Kind::Leaf(Mutex::new(None)))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.kind, Kind::Leaf(_))
    }

    /// Returns the accumulated gradient of a leaf.
    pub(super) fn gradient(&self) -> Option<Tensor> {
        match &self.kind {
            Kind::Leaf(gradient) => lock(gradient).clone(),
            Kind::Operation { .. } => None,
        }
    }

    pub(super) fn clear_gradient(&self) {
        self.set_gradient(None);
    }

    pub(super) fn set_gradient(&self, value: Option<Tensor>) {
        if let Kind::Leaf(gradient) = &self.kind {
            // Dropped after the lock is released.
            let _old = std::mem::replace(&mut *lock(gradient), value);
        }
    }

    /// Takes the record of an operation, which frees the values that it saved; `None` for a leaf.
    pub(super) fn take(&self) -> Result<Option<Record>> {
        match &self.kind {
            Kind::Leaf(_) => Ok(None),
            Kind::Operation { op, record } => {
                lock(record).take().map(Some).ok_or(Error::GraphFreed { op })
            }
        }
    }

    /// Returns the nodes of the tracked arguments; none for a leaf and for a node that was freed.
    pub(super) fn arguments(&self) -> Vec<Arc<Self>> {
        match &self.kind {
            Kind::Leaf(_) => Vec::new(),
            Kind::Operation { record, .. } => {
                let record = lock(record);
                let edges = record.iter().flat_map(|record| record.edges.iter().flatten());
                edges.map(|edge| Arc::clone(&edge.node)).collect()
            }
        }
    }

    /// Moves the nodes of the arguments of a node that is dropped to a list.
    fn drain(&mut self, nodes: &mut Vec<Arc<Self>>) {
        if let Kind::Operation { record, .. } = &mut self.kind
            && let Some(record) = record.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            nodes.extend(record.edges.into_iter().flatten().map(|edge| edge.node));
        }
    }
}

impl Drop for Node {
    /// Drops long chains without recursion.
    fn drop(&mut self) {
        let mut nodes = Vec::new();
        self.drain(&mut nodes);
        while let Some(node) = nodes.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.drain(&mut nodes);
            }
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Leaf(_) => write!(f, "Leaf({})", self.id),
            Kind::Operation { op, .. } => write!(f, "Operation({op}, {})", self.id),
        }
    }
}

/// Returns whether an operation on these arguments is recorded.
pub(crate) fn is_recorded<'a>(inputs: impl IntoIterator<Item = &'a Tensor>) -> bool {
    inputs.into_iter().any(|input| input.node().is_some()) && is_enabled()
}

/// Returns the result of an operation with a node that computes the gradients of its arguments.
///
/// Gradients are reduced to the shape of an argument that was broadcast, and cast to its type. The
/// pullback must hold detached tensors only.
pub(crate) fn attach(
    op: &'static str,
    inputs: &[&Tensor],
    output: &Tensor,
    pullback: impl FnOnce(&Tensor) -> Result<Gradients> + Send + 'static,
) -> Tensor {
    attach_boxed(op, inputs, output, Box::new(pullback))
}

fn attach_boxed(
    op: &'static str,
    inputs: &[&Tensor],
    output: &Tensor,
    pullback: Pullback,
) -> Tensor {
    let edge = |input: &&Tensor| {
        let node = Arc::clone(input.node()?);
        Some(Edge { node, shape: input.shape().to_vec(), dtype: input.dtype() })
    };
    let record = Record { edges: inputs.iter().map(edge).collect(), pullback };
    output.detach().with_node(Node::new(Kind::Operation { op, record: Mutex::new(Some(record)) }))
}
