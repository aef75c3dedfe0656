//! Layouts of tensors in their storage: shape, strides and offset, and the views that change only
//! these.
//!
//! A [`Layout`] is only ever derived from a valid one by checked steps, so every index it can
//! produce lies inside its storage. Strides are in elements and may be 0 (an axis that is
//! broadcast) or negative (one that is flipped).

use crate::error::{Error, Limit, Result};

/// The largest number of elements of a tensor: their bytes must be countable.
const MAX_ELEMENTS: u128 = isize::MAX as u128 / 8;

/// The highest supported rank.
pub const MAX_RANK: usize = 64;

/// Shape, strides and offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

/// Returns the number of elements of a shape.
///
/// # Errors
/// [`Error::TooLarge`] if they cannot be counted.
pub(crate) fn elements(shape: &[usize]) -> Result<usize> {
    if shape.len() > MAX_RANK {
        let (actual, limit) = (shape.len() as u128, MAX_RANK as u128);
        return Err(Error::TooLarge { what: Limit::Rank, actual, limit });
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let mut n = 1u128;
    for &size in shape {
        n = n.saturating_mul(size as u128);
    }
    if n > MAX_ELEMENTS {
        return Err(Error::TooLarge { what: Limit::Elements, actual: n, limit: MAX_ELEMENTS });
    }
    Ok(n as usize)
}

/// Returns the strides of a shape in row-major order.
fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1usize;
    for (stride, &size) in strides.iter_mut().zip(shape).rev() {
        *stride = step as isize;
        step = step.saturating_mul(size.max(1));
    }
    strides
}

/// Resolves an axis, which counts from the end if it is negative.
pub(crate) fn axis(op: &'static str, axis: isize, rank: usize) -> Result<usize> {
    let from_start = if axis < 0 { axis.checked_add(rank as isize) } else { Some(axis) };
    match from_start {
        Some(index) if index >= 0 && (index as usize) < rank => Ok(index as usize),
        _ => Err(Error::Axis { op, axis, rank }),
    }
}

/// Resolves axes, in ascending order; an empty list stands for all axes.
pub(crate) fn axes(op: &'static str, named: &[isize], rank: usize) -> Result<Vec<usize>> {
    if named.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut found = Vec::with_capacity(named.len());
    for &name in named {
        let index = axis(op, name, rank)?;
        if found.contains(&index) {
            return Err(Error::RepeatedAxis { op, axis: name });
        }
        found.push(index);
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the shape that two shapes broadcast to.
///
/// # Errors
/// [`Error::Shapes`] if two sizes differ and none is 1.
pub(crate) fn broadcast_shapes(
    op: &'static str,
    left: &[usize],
    right: &[usize],
) -> Result<Vec<usize>> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], i: usize| {
        (i + shape.len()).checked_sub(rank).map_or(1, |index| shape[index])
    };
    (0..rank)
        .map(|i| match (size(left, i), size(right, i)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(Error::shapes(op, left, right)),
        })
        .collect()
}

impl Layout {
    /// Returns a row-major layout without gaps.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the elements cannot be counted.
    pub fn contiguous(shape: &[usize]) -> Result<Self> {
        elements(shape)?;
        Ok(Self { shape: shape.to_vec(), strides: row_major(shape), offset: 0 })
    }

    /// Returns a layout with given strides over a storage of `len` elements.
    ///
    /// # Errors
    /// [`Error::Argument`] if it would reach outside, or the number of strides is not the rank.
    pub fn strided(shape: &[usize], strides: &[isize], offset: usize, len: usize) -> Result<Self> {
        elements(shape)?;
        if strides.len() != shape.len() {
            return Err(Error::argument(
                "strided",
                "strides",
                strides,
                "one for each axis is needed",
            ));
        }
        let layout = Self { shape: shape.to_vec(), strides: strides.to_vec(), offset };
        let [mut low, mut high] = [offset as i128; 2];
        for (&size, &stride) in shape.iter().zip(strides) {
            let reach = (size.max(1) as i128 - 1) * stride as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        // Offsets are computed in `isize`, for any length of the caller.
        let end = (len as i128).min(isize::MAX as i128);
        let is_inside = layout.is_empty() || (low >= 0 && high < end);
        if is_inside {
            Ok(layout)
        } else {
            Err(Error::argument(
                "strided",
                "layout",
                (shape, strides, offset),
                "it reaches outside its storage",
            ))
        }
    }

    /// Returns the sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the strides: the steps between neighbours along each axis, in elements.
    #[must_use]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the offset of the first element.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.shape.iter().product() }
    }

    /// Returns whether the layout has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns whether the elements are contiguous in row-major order; the offset does not matter.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1usize;
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            // The stride of a single element is never taken.
            if size > 1 && stride != step as isize {
                return self.is_empty();
            }
            // If one axis has no elements, the others may be of any size.
            step = step.saturating_mul(size.max(1));
        }
        true
    }

    /// Returns the first and the last offset of any element; `None` if there are no elements.
    #[must_use]
    pub fn span(&self) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        let [mut low, mut high] = [self.offset as isize; 2];
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = (size as isize - 1) * stride;
            if reach < 0 { low += reach } else { high += reach }
        }
        Some((low as usize, high as usize))
    }

    /// Returns the offset of the element with these coordinates; `None` outside the shape.
    #[must_use]
    pub fn offset_of(&self, coordinates: &[usize]) -> Option<usize> {
        if coordinates.len() != self.rank() {
            return None;
        }
        let mut offset = self.offset as isize;
        for ((&at, &size), &stride) in coordinates.iter().zip(&self.shape).zip(&self.strides) {
            if at >= size {
                return None;
            }
            offset += at as isize * stride;
        }
        Some(offset as usize)
    }

    /// Returns the storage offset of an element by its row-major index; `None` past the last.
    pub(crate) fn nth_offset(&self, number: usize) -> Option<usize> {
        if number >= self.len() {
            return None;
        }
        let (mut left, mut offset) = (number, self.offset as isize);
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            offset += (left % size) as isize * stride;
            left /= size;
        }
        usize::try_from(offset).ok()
    }

    /// Returns whether every element along an axis is the same one: the axis is broadcast.
    pub(crate) fn is_repeated(&self, axis: usize) -> bool {
        self.shape[axis] > 1 && self.strides[axis] == 0
    }

    /// Permutes the axes.
    pub(crate) fn permute(&self, op: &'static str, order: &[isize]) -> Result<Self> {
        if order.len() != self.rank() {
            return Err(Error::argument(op, "order", order, "each axis must be named once"));
        }
        let mut seen = vec![false; self.rank()];
        let mut permuted = Self { shape: Vec::new(), strides: Vec::new(), offset: self.offset };
        for &name in order {
            let index = axis(op, name, self.rank())?;
            if std::mem::replace(&mut seen[index], true) {
                return Err(Error::RepeatedAxis { op, axis: name });
            }
            permuted.shape.push(self.shape[index]);
            permuted.strides.push(self.strides[index]);
        }
        Ok(permuted)
    }

    /// Returns the elements `start..end` of an axis, every `step`th of them.
    pub(crate) fn slice(&self, axis: usize, start: usize, end: usize, step: usize) -> Result<Self> {
        const OP: &str = "slice";
        let len = self.shape[axis];
        if start > end || end > len {
            return Err(Error::Range { op: OP, start, end, len });
        }
        if step == 0 {
            return Err(Error::argument(OP, "step", step, "it must be at least 1"));
        }
        let mut sliced = self.clone();
        sliced.shape[axis] = (end - start).div_ceil(step);
        // An empty slice accesses no element, and its offset stays inside.
        if start < end {
            sliced.offset = (self.offset as isize + start as isize * self.strides[axis]) as usize;
        }
        // A stride that is never taken must not overflow either.
        sliced.strides[axis] = self.strides[axis].saturating_mul(step.min(len.max(1)) as isize);
        Ok(sliced)
    }

    /// Returns an axis in reverse order.
    pub(crate) fn flip(&self, axis: usize) -> Self {
        let mut flipped = self.clone();
        if self.shape[axis] > 0 {
            let last = self.shape[axis] as isize - 1;
            flipped.offset = (self.offset as isize + last * self.strides[axis]) as usize;
        }
        flipped.strides[axis] = -self.strides[axis];
        flipped
    }

    /// Removes an axis of size 1.
    pub(crate) fn squeeze(&self, axis: usize) -> Result<Self> {
        if self.shape[axis] != 1 {
            return Err(Error::argument(
                "squeeze",
                "size of the axis",
                self.shape[axis],
                "it must be 1",
            ));
        }
        let mut squeezed = self.clone();
        squeezed.shape.remove(axis);
        squeezed.strides.remove(axis);
        Ok(squeezed)
    }

    /// Inserts an axis of size 1 before `axis`, which may be the rank.
    pub(crate) fn unsqueeze(&self, axis: usize) -> Self {
        let mut unsqueezed = self.clone();
        unsqueezed.shape.insert(axis, 1);
        unsqueezed.strides.insert(axis, 0);
        unsqueezed
    }

    /// Broadcasts to a larger shape: axes of size 1, and missing leading axes, are repeated.
    pub(crate) fn broadcast_to(&self, op: &'static str, shape: &[usize]) -> Result<Self> {
        elements(shape)?;
        let refused = || Error::shapes(op, &self.shape, shape);
        let missing = shape.len().checked_sub(self.rank()).ok_or_else(refused)?;
        let mut strides = vec![0; missing];
        for ((&own, &stride), &wanted) in
            self.shape.iter().zip(&self.strides).zip(&shape[missing..])
        {
            strides.push(match own {
                own if own == wanted => stride,
                1 => 0,
                _ => return Err(refused()),
            });
        }
        Ok(Self { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// Returns the same elements in the same order with another shape; `None` if that requires a
    /// copy.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<Option<Self>> {
        if elements(shape)? != self.len() {
            return Err(Error::Reshape { from: self.shape.clone(), to: shape.to_vec() });
        }
        if self.is_empty() {
            return Ok(Some(Self { offset: self.offset, ..Self::contiguous(shape)? }));
        }
        let (dims, [strides]) = collapse([self]);
        // Each collapsed axis is a run of equal steps; new axes are parts of runs.
        let (mut new_strides, mut left) = (vec![0isize; shape.len()], Vec::new());
        left.extend(dims.iter().copied().zip(strides.iter().copied()));
        let (mut run, mut step) = left.pop().unwrap_or((1, 1));
        for (index, &size) in shape.iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            if run == 1 {
                let Some(next) = left.pop() else { return Ok(None) };
                (run, step) = next;
            }
            if !run.is_multiple_of(size) {
                return Ok(None);
            }
            new_strides[index] = step;
            run /= size;
            step = step.saturating_mul(size as isize);
        }
        Ok(Some(Self { shape: shape.to_vec(), strides: new_strides, offset: self.offset }))
    }

    /// Creates a layout from strides of other layouts, whose offsets are inside their storage.
    pub(crate) fn raw(shape: &[usize], strides: Vec<isize>, offset: usize) -> Self {
        debug_assert_eq!(shape.len(), strides.len());
        Self { shape: shape.to_vec(), strides, offset }
    }

    /// Returns the layout with another size and stride of an axis.
    pub(crate) fn with_axis(&self, axis: usize, size: usize, stride: isize) -> Self {
        let mut changed = self.clone();
        changed.shape[axis] = size;
        changed.strides[axis] = stride;
        changed
    }

    /// Returns the view with only these axes, at the first element of the others.
    pub(crate) fn keep_axes(&self, kept: impl Iterator<Item = usize>) -> Self {
        let (shape, strides) = kept.map(|axis| (self.shape[axis], self.strides[axis])).unzip();
        Self { shape, strides, offset: self.offset }
    }

    /// Returns the offsets of all elements in row-major order, as a list.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory is exhausted: a broadcast view has any number of elements.
    pub(crate) fn offset_list(&self) -> Result<Vec<usize>> {
        let mut list = aleatron_core::memory::with_capacity(
            self.len() as u128,
            aleatron_core::Quantity::Words,
        )?;
        list.extend(self.offsets());
        Ok(list)
    }

    /// Returns the offsets of all elements in row-major order.
    pub(crate) fn offsets(&self) -> Offsets {
        let (dims, [strides]) = collapse([self]);
        Offsets {
            at: vec![0; dims.len()],
            offset: self.offset as isize,
            left: self.len(),
            dims,
            strides,
        }
    }
}

/// Iterates over the offsets of the elements of a layout.
#[derive(Debug, Clone)]
pub(crate) struct Offsets {
    dims: Vec<usize>,
    strides: Vec<isize>,
    at: Vec<usize>,
    offset: isize,
    left: usize,
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let offset = self.offset;
        for axis in (0..self.dims.len()).rev() {
            self.at[axis] += 1;
            self.offset += self.strides[axis];
            if self.at[axis] < self.dims[axis] {
                break;
            }
            self.at[axis] = 0;
            self.offset -= self.dims[axis] as isize * self.strides[axis];
        }
        Some(offset as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets {}

/// Checks that indices along an axis fit the 32-bit integers they are returned as.
pub(crate) fn check_axis_length(n: usize) -> Result<()> {
    let limit = i32::MAX as u128;
    if n as u128 <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what: Limit::AxisLength, actual: n as u128, limit })
}

/// Returns the axes that layouts of one shape need: axes of size 1 are dropped, and neighbours are
/// merged if they form one run in every layout. Never empty: a single element is an axis of size 1.
pub(crate) fn collapse<const N: usize>(layouts: [&Layout; N]) -> (Vec<usize>, [Vec<isize>; N]) {
    let (dims, mut strides) = collapse_all(&layouts);
    // There are as many lists of strides as layouts.
    (dims, std::array::from_fn(|layout| std::mem::take(&mut strides[layout])))
}

/// As [`collapse`], for any number of layouts.
pub(crate) fn collapse_all(layouts: &[&Layout]) -> (Vec<usize>, Vec<Vec<isize>>) {
    let Some(first) = layouts.first() else { return (vec![1], Vec::new()) };
    let mut dims: Vec<usize> = Vec::with_capacity(first.rank().max(1));
    let mut strides: Vec<Vec<isize>> = vec![Vec::with_capacity(first.rank().max(1)); layouts.len()];
    for axis in 0..first.rank() {
        let size = first.shape[axis];
        if size == 1 {
            continue;
        }
        let merges = !dims.is_empty()
            && layouts.iter().zip(&strides).all(|(layout, own)| {
                own.last().is_some_and(|&outer| {
                    layout.strides[axis]
                        .checked_mul(size as isize)
                        .is_some_and(|step| step == outer)
                })
            });
        if merges && let Some(last) = dims.last_mut() {
            *last *= size;
            for (own, layout) in strides.iter_mut().zip(layouts) {
                if let Some(stride) = own.last_mut() {
                    *stride = layout.strides[axis];
                }
            }
        } else {
            dims.push(size);
            for (own, layout) in strides.iter_mut().zip(layouts) {
                own.push(layout.strides[axis]);
            }
        }
    }
    if dims.is_empty() {
        dims.push(1);
        strides.iter_mut().for_each(|own| own.push(1));
    }
    (dims, strides)
}
