//! Concatenating, stacking, splitting, padding and repeating tensors.

use crate::autograd::{self, is_recorded};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, RankNeeded, Result};
use crate::layout;
use crate::storage::Storage;
use crate::tensor::{Tensor, small};
use crate::trace::report;

/// The largest number of tensors that one kernel of a GPU assembles; every device has as many
/// bindings.
const MAX_BOXES: usize = 6;

/// The elements around a padded tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PadMode {
    /// A number.
    Constant(Scalar),
    /// The elements at the edge.
    Edge,
    /// The elements behind the edge, mirrored at it.
    Reflect,
    /// The elements from the other side.
    Wrap,
}

/// Returns a tensor of a shape with others at some indices of it, and a constant everywhere else.
fn assemble(
    op: &'static str,
    boxes: &[(&Tensor, Vec<usize>)],
    shape: &[usize],
    fill: Scalar,
) -> Result<Tensor> {
    let Some((first, _)) = boxes.first() else {
        return Err(Error::argument(op, "tensors", 0, "at least one is needed"));
    };
    let fill = fill.to_dtype(first.dtype())?;
    match first.storage() {
        Storage::Cpu(_) => {
            let mut views = Vec::with_capacity(boxes.len());
            for (tensor, starts) in boxes {
                first.check_device(op, tensor)?;
                views.push((tensor.host_view()?, starts.clone()));
            }
            Tensor::from_cpu(crate::cpu::assemble::assemble(&views, shape, fill)?, shape)
        }
        Storage::Gpu(storage) => {
            let gpu = storage.device().clone();
            let mut views = Vec::with_capacity(boxes.len());
            for (tensor, starts) in boxes {
                first.check_device(op, tensor)?;
                views.push((tensor.gpu_view()?, starts.clone()));
            }
            Tensor::from_gpu_data(
                &gpu,
                crate::gpu::assemble::launch(&gpu, &views, shape, fill)?,
                shape,
            )
        }
    }
}

impl Tensor {
    /// Concatenates tensors of one type along an axis.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(0, 4, 1, DType::I32, &Device::Cpu)?.reshape(&[2, 2])?;
    /// let y = Tensor::concat(&[&x, &x.t()?], 1)?;
    /// assert_eq!(y.to_vec::<i32>()?, [0, 1, 0, 2, 2, 3, 1, 3]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] for no tensors, [`Error::Shapes`] if other sizes than those of the axis
    /// differ, [`Error::Promotion`] for two types, [`Error::Devices`] for two devices, or if memory
    /// is exhausted.
    pub fn concat(tensors: &[&Self], axis: isize) -> Result<Self> {
        const OP: &str = "concat";
        let Some(first) = tensors.first() else {
            return Err(Error::argument(OP, "tensors", 0, "at least one is needed"));
        };
        if first.rank() == 0 {
            return Err(Error::Rank {
                op: OP,
                expected: RankNeeded::AtLeast(1),
                shape: Vec::new(),
            });
        }
        let axis = layout::axis(OP, axis, first.rank())?;
        let mut total = 0usize;
        for tensor in tensors {
            let is_same = |(index, (a, b)): (usize, (&usize, &usize))| index == axis || a == b;
            let fits = tensor.rank() == first.rank()
                && first.shape().iter().zip(tensor.shape()).enumerate().all(is_same);
            if !fits {
                return Err(Error::shapes(OP, first.shape(), tensor.shape()));
            }
            if tensor.dtype() != first.dtype() {
                return Err(Error::Promotion {
                    op: OP,
                    left: first.dtype(),
                    right: tensor.dtype(),
                });
            }
            first.check_device(OP, tensor)?;
            total = total.saturating_add(tensor.shape()[axis]);
        }
        if let [only] = tensors {
            return Ok((*only).clone());
        }
        if is_recorded(tensors.iter().copied()) {
            return autograd::concat(tensors, axis as isize);
        }
        // A kernel takes a limited number at a time; groups of tensors are concatenated first.
        if first.device().is_gpu() && tensors.len() > MAX_BOXES {
            let size = tensors.len().div_ceil(tensors.len().div_ceil(MAX_BOXES)).min(MAX_BOXES);
            let groups = tensors.chunks(size).map(|group| Self::concat(group, axis as isize));
            let groups = groups.collect::<Result<Vec<_>>>()?;
            return Self::concat(&groups.iter().collect::<Vec<_>>(), axis as isize);
        }
        let mut shape = first.shape().to_vec();
        shape[axis] = total;
        let mut at = 0;
        let mut boxes = Vec::with_capacity(tensors.len());
        for &tensor in tensors {
            let mut starts = vec![0; shape.len()];
            starts[axis] = at;
            at += tensor.shape()[axis];
            boxes.push((tensor, starts));
        }
        Ok(report(OP, assemble(OP, &boxes, &shape, small(0, first.dtype()))?))
    }

    /// Stacks tensors of one shape along a new axis.
    ///
    /// # Errors
    /// As [`Self::concat`].
    pub fn stack(tensors: &[&Self], axis: isize) -> Result<Self> {
        if let Some(first) = tensors.first()
            && let Some(other) = tensors.iter().find(|other| other.shape() != first.shape())
        {
            return Err(Error::shapes("stack", first.shape(), other.shape()));
        }
        let rows =
            tensors.iter().map(|tensor| tensor.unsqueeze(axis)).collect::<Result<Vec<_>>>()?;
        Self::concat(&rows.iter().collect::<Vec<_>>(), axis)
    }

    /// Splits the tensor into views of these sizes along an axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Range`] if the sizes do not add up to the
    /// size of the axis.
    pub fn split(&self, sizes: &[usize], axis: isize) -> Result<Vec<Self>> {
        const OP: &str = "split";
        let index = layout::axis(OP, axis, self.rank())?;
        let len = self.shape()[index];
        let total = sizes.iter().fold(0usize, |sum, &size| sum.saturating_add(size));
        if total != len {
            return Err(Error::Range { op: OP, start: 0, end: total, len });
        }
        let mut start = 0;
        let part = |&size: &usize| {
            let part = self.slice(axis, start..start + size);
            start += size;
            part
        };
        sizes.iter().map(part).collect()
    }

    /// Pads the tensor before and after each axis.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is not one pair for each axis, or too few elements to mirror;
    /// [`Error::Scalar`] for a padding value that the type cannot represent; or if memory is
    /// exhausted.
    pub fn pad(&self, around: &[(usize, usize)], mode: PadMode) -> Result<Self> {
        const OP: &str = "pad";
        if around.len() != self.rank() {
            return Err(Error::argument(
                OP,
                "pairs",
                around.len(),
                "there must be one for each axis",
            ));
        }
        if around.iter().all(|&pair| pair == (0, 0)) {
            return Ok(self.clone());
        }
        if let PadMode::Constant(value) = mode {
            if is_recorded([self]) {
                return autograd::pad(self, around, mode);
            }
            let sizes = self.shape().iter().zip(around);
            let shape: Vec<usize> = sizes
                .map(|(&size, &(before, after))| size.saturating_add(before).saturating_add(after))
                .collect();
            layout::elements(&shape)?;
            let starts = around.iter().map(|&(before, _)| before).collect();
            return Ok(report(OP, assemble(OP, &[(self, starts)], &shape, value)?));
        }
        let mut padded = self.clone();
        for (axis, &(before, after)) in around.iter().enumerate() {
            padded = padded.pad_axis(axis, before, after, mode)?;
        }
        Ok(report(OP, padded))
    }

    /// Pads one axis with elements of its own.
    fn pad_axis(&self, axis: usize, before: usize, after: usize, mode: PadMode) -> Result<Self> {
        const OP: &str = "pad";
        if (before, after) == (0, 0) {
            return Ok(self.clone());
        }
        let (len, name) = (self.shape()[axis], axis as isize);
        let most = match mode {
            PadMode::Reflect => len.saturating_sub(1),
            PadMode::Wrap => len,
            _ => {
                if len > 0 {
                    usize::MAX
                } else {
                    0
                }
            }
        };
        let wanted = before.max(after);
        if wanted > most {
            return Err(Error::argument(
                OP,
                "elements around an axis",
                wanted,
                "there are fewer to take them from",
            ));
        }
        let (front, back) = match mode {
            PadMode::Reflect => {
                let front = self.slice(name, 1..1 + before)?.flip(name)?;
                (front, self.slice(name, len - 1 - after..len - 1)?.flip(name)?)
            }
            PadMode::Wrap => (self.slice(name, len - before..len)?, self.slice(name, 0..after)?),
            _ => {
                let repeated = |index: usize, times: usize| {
                    let mut shape = self.shape().to_vec();
                    shape[axis] = times;
                    self.slice(name, index..index + 1)?.broadcast_to(&shape)
                };
                (repeated(0, before)?, repeated(len - 1, after)?)
            }
        };
        Self::concat(&[&front, self, &back], name)
    }

    /// Repeats the tensor along each axis.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(0, 3, 1, DType::I32, &Device::Cpu)?;
    /// assert_eq!(x.tile(&[2])?.to_vec::<i32>()?, [0, 1, 2, 0, 1, 2]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] for more numbers than axes if they cannot be added in front, or if
    /// memory is exhausted.
    pub fn tile(&self, times: &[usize]) -> Result<Self> {
        let rank = self.rank().max(times.len());
        let mut own = vec![1; rank - self.rank()];
        own.extend(self.shape());
        let mut repeats = vec![1; rank - times.len()];
        repeats.extend(times);
        let apart: Vec<usize> = own.iter().flat_map(|&size| [1, size]).collect();
        let wide: Vec<usize> =
            own.iter().zip(&repeats).flat_map(|(&size, &times)| [times, size]).collect();
        let shape: Vec<usize> =
            own.iter().zip(&repeats).map(|(&size, &times)| size.saturating_mul(times)).collect();
        layout::elements(&shape)?;
        let tiled = self.reshape(&apart)?.broadcast_to(&wide)?.reshape(&shape)?;
        Ok(report("tile", tiled))
    }

    /// Repeats each element along an axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Memory`] if memory is exhausted.
    pub fn repeat(&self, times: usize, axis: isize) -> Result<Self> {
        let index = layout::axis("repeat", axis, self.rank())?;
        let mut wide = self.shape().to_vec();
        wide.insert(index + 1, times);
        let mut shape = self.shape().to_vec();
        shape[index] = shape[index].saturating_mul(times);
        layout::elements(&shape)?;
        let repeated = self.unsqueeze(index as isize + 1)?.broadcast_to(&wide)?.reshape(&shape)?;
        Ok(report("repeat", repeated))
    }

    /// Shifts the elements along an axis; elements past the end continue at its beginning.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Memory`] if memory is exhausted.
    pub fn roll(&self, by: isize, axis: isize) -> Result<Self> {
        let index = layout::axis("roll", axis, self.rank())?;
        let len = self.shape()[index];
        if len == 0 {
            return Ok(self.clone());
        }
        let cut = len - by.rem_euclid(len as isize) as usize;
        Self::concat(&[&self.slice(axis, cut..)?, &self.slice(axis, ..cut)?], axis)
    }

    /// Returns the elements on and below a diagonal of matrices, 0 elsewhere. Diagonal `k` begins k
    /// columns to the right of the first.
    ///
    /// # Errors
    /// [`Error::Rank`] below rank 2, [`Error::Memory`] if memory is exhausted.
    pub fn tril(&self, k: i32) -> Result<Self> {
        self.triangle("tril", k)?.where_(self, &Self::zeros(&[], self.dtype(), &self.device())?)
    }

    /// Returns the elements on and above a diagonal of matrices, 0 elsewhere.
    ///
    /// # Errors
    /// As [`Self::tril`].
    pub fn triu(&self, k: i32) -> Result<Self> {
        let below = self.triangle("triu", k.saturating_sub(1))?;
        below.where_(&Self::zeros(&[], self.dtype(), &self.device())?, self)
    }

    /// Returns whether elements of a matrix of this shape are on or below a diagonal.
    fn triangle(&self, op: &'static str, k: i32) -> Result<Self> {
        let &[.., rows, columns] = self.shape() else {
            return Err(Error::Rank {
                op,
                expected: RankNeeded::AtLeast(2),
                shape: self.shape().to_vec(),
            });
        };
        let numbers = |n: usize| Self::arange(0, n as i64, 1, DType::I32, &self.device());
        numbers(columns)?.le(&numbers(rows)?.unsqueeze(1)?.add(i64::from(k))?)
    }
}
