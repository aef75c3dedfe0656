//! Reverse-mode differentiation.
//!
//! [`Tensor::requires_grad`] creates a leaf. An operation with a tracked argument records a node
//! that refers to the nodes of its arguments and holds the values that its gradient needs.
//! [`Tensor::backward`] visits the nodes in the reverse order of their creation and adds the
//! gradients to the leaves. Nodes are freed as soon as they were visited, so a graph can be
//! differentiated once.
//!
//! Operations without a tracked argument, and all operations inside [`no_grad`], record nothing.
//! Comparisons, integers and positions of elements have no gradient: their results are untracked.
//! Step functions such as `round` and `sign` have a gradient of zero.
//!
//! # Choices where a derivative does not exist
//!
//! - `relu`, `abs` and `sign` at 0: 0. `clip` at a bound: 1.
//! - `maximum` and `minimum` of equal elements: one half each.
//! - `max` and `min` along axes: the gradient is divided evenly between the elements that are equal
//!   to the result.
//! - Max pooling: the first largest element of a window in row-major order receives the gradient.
//! - `sort` and `topk`: the element that a result was taken from receives the gradient.
//!
//! # Order of sums
//!
//! Contributions to a gradient are added in the reverse order in which the operations were
//! recorded. On the CPU, gradients are bit-identical for any number of threads, like all other
//! results.

mod assemble;
mod attention;
mod conv;
mod elementwise;
mod engine;
mod formula;
mod function;
mod gather;
mod matmul;
mod node;
mod normalize;
mod pool;
mod reduce;
mod scan;
mod view;

pub(crate) use assemble::{concat, pad};
pub(crate) use attention::attention;
pub(crate) use conv::{convolve, convolve_transposed};
pub(crate) use elementwise::{binary, cast, clip, select_where, unary};
pub(crate) use formula::Formula;
pub use function::{Function, apply, checkpoint};
pub(crate) use gather::{gather, index_select, resample};
pub(crate) use matmul::matmul;
pub(crate) use node::{Node, is_recorded};
pub(crate) use normalize::{layer_norm, log_softmax, rms_norm, softmax};
pub(crate) use pool::pool;
pub(crate) use reduce::{reduce, variance};
pub(crate) use scan::scan;
pub(crate) use view::{View, same_elements, to_device, viewed};

use std::cell::Cell;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use engine::Target;

/// Whether operations of a thread are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Operations on tracked tensors are recorded.
    Enabled,
    /// Nothing is recorded.
    Disabled,
}

thread_local! {
    static RECORDING: Cell<Recording> = const { Cell::new(Recording::Enabled) };
}

/// Restores the recording state of the thread when it is dropped, also during a panic.
struct RecordingGuard(Recording);

impl RecordingGuard {
    fn set(recording: Recording) -> Self {
        Self(set_recording(recording))
    }
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        RECORDING.set(self.0);
    }
}

/// Runs a closure in which operations of this thread record nothing.
///
/// ```
/// use aleatron_tensor::{Device, Tensor, autograd};
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2], &Device::Cpu)?.requires_grad()?;
/// let y = autograd::no_grad(|| x.mul(2.0))?;
/// assert!(!y.is_tracked() && x.mul(2.0)?.is_tracked());
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    let _guard = RecordingGuard::set(Recording::Disabled);
    f()
}

/// Runs a closure in which operations record, also inside [`no_grad`].
fn with_grad<T>(f: impl FnOnce() -> T) -> T {
    let _guard = RecordingGuard::set(Recording::Enabled);
    f()
}

/// Returns whether operations of this thread record nodes for tracked arguments: `false` inside
/// [`no_grad`].
#[must_use]
pub fn is_enabled() -> bool {
    RECORDING.get() == Recording::Enabled
}

/// Enables or disables recording in this thread, and returns the state before.
///
/// [`no_grad`] is the form for a closure, and restores the state also after a panic. This function
/// is for interfaces with a begin and an end.
pub fn set_recording(recording: Recording) -> Recording {
    RECORDING.replace(recording)
}

/// Returns the gradients of an output of one element with respect to some tensors, and changes no
/// leaf.
///
/// The tensors may be leaves or results of recorded operations; `None` is returned for a tensor
/// that the output does not depend on. The visited part of the graph is freed.
///
/// ```
/// use aleatron_tensor::{Device, Tensor, autograd};
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2], &Device::Cpu)?.requires_grad()?;
/// let y = x.square()?;
/// let gradients = autograd::grad(&y.sum_all()?, &[&x, &y])?;
/// assert_eq!(gradients[0].as_ref().map(Tensor::to_vec::<f32>), Some(Ok(vec![2.0, 4.0])));
/// assert_eq!(gradients[1].as_ref().map(Tensor::to_vec::<f32>), Some(Ok(vec![1.0, 1.0])));
/// assert!(x.grad().is_none());
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoGraph`] for an untracked output, [`Error::NotScalar`] for one of several elements,
/// [`Error::GraphFreed`] for a graph that was differentiated before, or the error of an operation
/// on the way.
pub fn grad(output: &Tensor, inputs: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    let (node, seed) = (root(output)?, seed(output)?);
    let nodes: Vec<Option<Arc<Node>>> = inputs.iter().map(|input| input.node().cloned()).collect();
    engine::gradients_of(node, seed, &nodes, Target::Inputs)
}

/// Returns the node of an output.
fn root(output: &Tensor) -> Result<Arc<Node>> {
    output.node().cloned().ok_or(Error::NoGraph)
}

/// Returns the gradient of an output of one element with respect to itself.
fn seed(output: &Tensor) -> Result<Tensor> {
    if output.len() != 1 {
        return Err(Error::NotScalar { shape: output.shape().to_vec() });
    }
    Tensor::ones(output.shape(), output.dtype(), &output.device())
}

/// Gradients.
impl Tensor {
    /// Returns a new leaf over the same storage: results computed from it are tracked, and
    /// [`Self::backward`] accumulates its gradient.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let x = Tensor::from_slice(&[3.0f32], &[1], &Device::Cpu)?.requires_grad()?;
    /// x.mul(&x)?.backward()?;
    /// assert_eq!(x.grad().map(|gradient| gradient.to_vec::<f32>()), Some(Ok(vec![6.0])));
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DType`] for other types than floats.
    pub fn requires_grad(&self) -> Result<Self> {
        if !self.dtype().is_float() {
            return Err(Error::DType {
                op: "requires_grad",
                dtype: self.dtype(),
                expected: "floats",
            });
        }
        Ok(self.detach().with_node(Node::leaf()))
    }

    /// Returns whether the tensor is a leaf or part of a recorded computation.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.node().is_some()
    }

    /// Returns whether the tensor is a leaf, created by [`Self::requires_grad`].
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.node().is_some_and(|node| node.is_leaf())
    }

    /// Computes the gradients of this tensor, which must have one element, and adds them to its
    /// leaves.
    ///
    /// The graph is freed on the way. If an error occurs, no leaf is changed.
    ///
    /// # Errors
    /// As [`grad`].
    pub fn backward(&self) -> Result<()> {
        let node = root(self)?;
        engine::backward(node, seed(self)?)
    }

    /// Like [`Self::backward`], for a tensor of any shape: `gradient` holds the gradient of the
    /// final result with respect to each element.
    ///
    /// # Errors
    /// As [`grad`]; [`Error::Shapes`], [`Error::Promotion`] or [`Error::Devices`] for a gradient of
    /// another shape, type or device.
    pub fn backward_with(&self, gradient: &Self) -> Result<()> {
        const OP: &str = "backward";
        let node = root(self)?;
        if gradient.shape() != self.shape() {
            return Err(Error::shapes(OP, self.shape(), gradient.shape()));
        }
        if gradient.dtype() != self.dtype() {
            return Err(Error::Promotion { op: OP, left: self.dtype(), right: gradient.dtype() });
        }
        self.check_device(OP, gradient)?;
        engine::backward(node, gradient.detach())
    }

    /// Returns the accumulated gradient of a leaf; `None` for other tensors and before the first
    /// [`Self::backward`].
    #[must_use]
    pub fn grad(&self) -> Option<Self> {
        self.node().and_then(|node| node.gradient())
    }

    /// Removes the accumulated gradient of a leaf.
    pub fn zero_grad(&self) {
        if let Some(node) = self.node() {
            node.clear_gradient();
        }
    }
}
