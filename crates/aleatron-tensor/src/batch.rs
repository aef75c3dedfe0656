//! Explicit batches: commands that are recorded together and sent together, over handles of one
//! batch.

use std::sync::atomic::{AtomicU64, Ordering};

use aleatron_device::SubmissionDone;

use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::op::{BinaryOp, UnaryOp};
use crate::storage::{HostMemory, Storage};
use crate::tensor::{PendingValues, Tensor};

/// A handle of a value of a [`GpuCommandBatch`], for one round of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId {
    batch: u64,
    round: u64,
    index: usize,
}

struct Value {
    tensor: Tensor,
    /// Whether another value depends on this one: it is then computed only when it is read.
    is_used: bool,
}

/// Records operations on one GPU and sends them together.
///
/// Nothing reaches the device before [`Self::execute`], chains of elementwise operations become one
/// kernel, and nothing waits but reads. Handles of another batch, or of this one before
/// [`Self::reset`], are errors.
///
/// ```no_run
/// use aleatron_tensor::{Device, GpuCommandBatch};
/// # let Device::Gpu(gpu) = Device::gpu()? else { return Ok(()) };
/// let mut batch = GpuCommandBatch::new(&gpu);
/// let x = batch.upload(&[1.0f32, -2.0, 3.0])?;
/// let y = batch.relu(x)?;
/// let z = batch.scale(y, 2.0)?;
/// batch.execute()?;
/// assert_eq!(batch.read::<f32>(z)?, [2.0, 0.0, 6.0]);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
pub struct GpuCommandBatch {
    id: u64,
    round: u64,
    device: GpuDevice,
    values: Vec<Value>,
    operations: usize,
    is_held: bool,
}

impl std::fmt::Debug for GpuCommandBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuCommandBatch")
            .field("device", &self.device)
            .field("buffers", &self.values.len())
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

impl Drop for GpuCommandBatch {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl GpuCommandBatch {
    /// Returns an empty batch for a device.
    #[must_use]
    pub fn new(device: &GpuDevice) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        device.hold();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            round: 0,
            device: device.clone(),
            values: Vec::new(),
            operations: 0,
            is_held: true,
        }
    }

    fn let_go(&mut self) {
        if std::mem::take(&mut self.is_held) {
            self.device.release();
        }
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &GpuDevice {
        &self.device
    }

    /// Returns the number of operations recorded so far.
    #[must_use]
    pub fn num_operations(&self) -> usize {
        self.operations
    }

    /// Returns the number of values with handles.
    #[must_use]
    pub fn num_buffers(&self) -> usize {
        self.values.len()
    }

    fn keep(&mut self, tensor: Tensor) -> BufferId {
        self.values.push(Value { tensor, is_used: false });
        BufferId { batch: self.id, round: self.round, index: self.values.len() - 1 }
    }

    fn value(&self, id: BufferId) -> Result<&Value> {
        let refused = Error::Handle {
            index: id.index,
            owner: id.batch,
            round: id.round,
            user: self.id,
            current: self.round,
        };
        if (id.batch, id.round) != (self.id, self.round) {
            return Err(refused);
        }
        self.values.get(id.index).ok_or(refused)
    }

    /// Returns the tensor behind a handle.
    ///
    /// # Errors
    /// [`Error::Handle`] for a handle of another batch or of an earlier round.
    pub fn tensor(&self, id: BufferId) -> Result<Tensor> {
        Ok(self.value(id)?.tensor.clone())
    }

    /// Copies elements to the device, as a tensor of one axis.
    ///
    /// # Errors
    /// [`Error::Device`] if memory is exhausted.
    pub fn upload<T: Element>(&mut self, data: &[T]) -> Result<BufferId>
    where
        Vec<T>: HostMemory,
    {
        let tensor = Tensor::from_slice(data, &[data.len()], &Device::Gpu(self.device.clone()))?;
        Ok(self.keep(tensor))
    }

    /// Returns a tensor that is on the device, without a copy.
    ///
    /// # Errors
    /// [`Error::Devices`] if it is on another one.
    pub fn import(&mut self, tensor: &Tensor) -> Result<BufferId> {
        let own = Device::Gpu(self.device.clone());
        if tensor.device() != own {
            let (left, right) = (own.to_string(), tensor.device().to_string());
            return Err(Error::Devices { op: "import", left, right });
        }
        Ok(self.keep(tensor.clone()))
    }

    /// Records an operation of tensors.
    ///
    /// # Errors
    /// [`Error::Handle`] for a handle of another batch or of an earlier round, or the error of the
    /// operation.
    pub fn apply<const N: usize>(
        &mut self,
        ids: [BufferId; N],
        operation: impl FnOnce([Tensor; N]) -> Result<Tensor>,
    ) -> Result<BufferId> {
        let mut tensors = Vec::with_capacity(N);
        for id in ids {
            tensors.push(self.tensor(id)?);
        }
        let Ok(tensors) = <[Tensor; N]>::try_from(tensors) else {
            return Err(Error::argument("batch", "handles", N, "each must have a tensor"));
        };
        let result = operation(tensors)?;
        for id in ids {
            self.values[id.index].is_used = true;
        }
        self.operations += 1;
        Ok(self.keep(result))
    }

    /// Records an operation of one argument.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn unary(&mut self, op: UnaryOp, x: BufferId) -> Result<BufferId> {
        self.apply([x], |[x]| x.unary(op))
    }

    /// Records an operation of two arguments.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn binary(&mut self, op: BinaryOp, x: BufferId, y: BufferId) -> Result<BufferId> {
        self.apply([x, y], |[x, y]| Tensor::binary(op, &x, &y))
    }

    /// Records a multiplication with a number.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn scale(&mut self, x: BufferId, factor: f32) -> Result<BufferId> {
        self.apply([x], |[x]| x.mul(factor))
    }

    /// Records the sum of the products of two tensors of one shape: one number, however many there
    /// are.
    ///
    /// # Errors
    /// As [`Self::apply`]; [`Error::Shapes`] for two shapes.
    pub fn dot(&mut self, x: BufferId, y: BufferId) -> Result<BufferId> {
        self.apply([x, y], |[x, y]| {
            if x.shape() != y.shape() {
                return Err(Error::shapes("dot", x.shape(), y.shape()));
            }
            x.mul(&y)?.sum_all()
        })
    }

    /// Records the product of an m x k and a k x n matrix whose rows follow each other.
    ///
    /// # Errors
    /// As [`Self::apply`]; [`Error::Reshape`] for another number of elements.
    pub fn matmul(
        &mut self,
        x: BufferId,
        y: BufferId,
        m: usize,
        k: usize,
        n: usize,
    ) -> Result<BufferId> {
        self.apply([x, y], |[x, y]| x.reshape(&[m, k])?.matmul(&y.reshape(&[k, n])?)?.flatten(0, 1))
    }

    /// Records a softmax over the last axis.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn softmax(&mut self, x: BufferId) -> Result<BufferId> {
        self.apply([x], |[x]| x.softmax(&[-1]))
    }

    /// Records the sum of all elements.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn sum(&mut self, x: BufferId) -> Result<BufferId> {
        self.apply([x], |[x]| x.sum_all())
    }

    /// Records the computation of every value that no other value depends on.
    fn record(&mut self) -> Result<()> {
        for value in self.values.iter().filter(|value| !value.is_used) {
            if let Storage::Gpu(storage) = value.tensor.storage() {
                storage.data()?;
            }
        }
        self.let_go();
        Ok(())
    }

    /// Submits everything recorded so far, without waiting for it. Recording may continue.
    ///
    /// # Errors
    /// [`Error::Device`] with what the device has reported, [`Error::Memory`] if memory is exhausted.
    pub fn execute(&mut self) -> Result<()> {
        self.record()?;
        self.device.submit()?;
        Ok(())
    }

    /// Like [`Self::execute`], and returns a future that is ready when the submitted work is done.
    /// `None` if there was nothing to submit.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_async(&mut self) -> Result<Option<SubmissionDone>> {
        self.record()?;
        Ok(self.device.submit()?.map(|submission| submission.done()))
    }

    /// Reads a value; computes it first if necessary.
    ///
    /// # Errors
    /// [`Error::Handle`] for a handle of another batch or of an earlier round, otherwise as
    /// [`Tensor::to_vec`].
    pub fn read<T: Element>(&self, id: BufferId) -> Result<Vec<T>> {
        self.value(id)?.tensor.to_vec()
    }

    /// Starts to read a value and returns a future of its elements.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn start_read<T: Element>(&self, id: BufferId) -> Result<PendingValues<T>> {
        self.value(id)?.tensor.start_read()
    }

    /// Drops all values and begins a new round: handles of the last round become stale, and its
    /// memory is reused.
    pub fn reset(&mut self) {
        self.values.clear();
        self.operations = 0;
        self.round += 1;
        if !self.is_held {
            self.device.hold();
            self.is_held = true;
        }
    }
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $name:ident ($($argument:ident),*) $kind:ident $op:ident)*) => {
        impl GpuCommandBatch {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Self::apply`].
            pub fn $name(&mut self, $($argument: BufferId),*) -> Result<BufferId> {
                shorthand!(@$kind self $op $($argument)*)
            })*
        }
    };
    (@unary $self:ident $op:ident $x:ident) => { $self.unary(UnaryOp::$op, $x) };
    (@binary $self:ident $op:ident $x:ident $y:ident) => { $self.binary(BinaryOp::$op, $x, $y) };
}

shorthand! {
    /// Records the larger of x and 0.
    relu(x) unary Relu
    /// Records 1 / (1 + e^-x).
    sigmoid(x) unary Sigmoid
    /// Records the hyperbolic tangent.
    tanh(x) unary Tanh
    /// Records x / (1 + e^-x).
    swish(x) unary Silu
    /// Records x times the probability that a normal variable is below x.
    gelu(x) unary Gelu
    /// Records the sum.
    add(x, y) binary Add
    /// Records the difference.
    sub(x, y) binary Sub
    /// Records the product, element by element.
    mul(x, y) binary Mul
    /// Records the quotient.
    div(x, y) binary Div
}
