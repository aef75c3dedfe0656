//! Reductions on the CPU.
//!
//! Elements are reduced in segments whose results are folded in pairs, so that no element of a sum
//! goes through more than a few hundred additions; within a segment, 64 partial results are
//! computed in parallel. The order is a function of the shape and the strides alone.

use bytemuck::Pod;
use half::f16;

use super::elementwise::Leaf;
use super::{CpuView, cast, filled, parallel, simd};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::op::Reducer;
use crate::storage::CpuStorage;

/// The number of elements of a segment.
const SEGMENT: usize = 1 << 16;

/// The number of elements loaded at a time if they are not contiguous.
const BLOCK: usize = 1 << 12;

/// The number of rows of a block of columns that are summed before the sum is added to the others.
const RUN: usize = 256;

/// An element type of reductions.
pub(crate) trait Load: Pod + Send + Sync {
    /// Loads the elements from `start` on: a slice of the storage, or a copy in `scratch`.
    fn load<'s>(
        leaf: &'s Leaf<'_>,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<Self>,
    ) -> Result<&'s [Self]>;
}

fn gathered<'s, T: Pod>(
    leaf: &Leaf<'_>,
    start: usize,
    len: usize,
    scratch: &'s mut Vec<T>,
) -> Result<&'s [T]> {
    scratch.resize(len, T::zeroed());
    leaf.gather(start, scratch)?;
    Ok(scratch)
}

impl Load for f32 {
    fn load<'s>(
        leaf: &'s Leaf<'_>,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<f32>,
    ) -> Result<&'s [f32]> {
        if leaf.dtype() == DType::F16 {
            let mut halves = Vec::new();
            gathered::<f16>(leaf, start, len, &mut halves)?;
            scratch.resize(len, 0.0);
            cast::widen(&halves, scratch);
            return Ok(scratch);
        }
        if leaf.is_borrowed() {
            leaf.slice(start, len)
        } else {
            gathered(leaf, start, len, scratch)
        }
    }
}

impl Load for f64 {
    fn load<'s>(
        leaf: &'s Leaf<'_>,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<f64>,
    ) -> Result<&'s [f64]> {
        if leaf.is_borrowed() {
            leaf.slice(start, len)
        } else {
            gathered(leaf, start, len, scratch)
        }
    }
}

impl Load for i32 {
    fn load<'s>(
        leaf: &'s Leaf<'_>,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<i32>,
    ) -> Result<&'s [i32]> {
        if leaf.dtype() != DType::I32 {
            let mut bytes = Vec::new();
            gathered::<u8>(leaf, start, len, &mut bytes)?;
            scratch.clear();
            scratch.extend(bytes.iter().map(|&byte| i32::from(byte)));
            return Ok(scratch);
        }
        if leaf.is_borrowed() {
            leaf.slice(start, len)
        } else {
            gathered(leaf, start, len, scratch)
        }
    }
}

impl Load for i64 {
    fn load<'s>(
        leaf: &'s Leaf<'_>,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<i64>,
    ) -> Result<&'s [i64]> {
        if leaf.is_borrowed() {
            leaf.slice(start, len)
        } else {
            gathered(leaf, start, len, scratch)
        }
    }
}

/// Reduces the axes of a view. Neither the reduced axes nor the result may be empty.
pub(crate) fn reduce(view: &CpuView, reduced: &[usize], reducer: &Reducer) -> Result<CpuStorage> {
    let dtype = Reducer::computed_in(view.storage.dtype());
    match dtype {
        DType::I32 => integers::<i32>(view, reduced, reducer, [i32::MIN, i32::MAX]),
        DType::I64 => integers::<i64>(view, reduced, reducer, [i64::MIN, i64::MAX]),
        DType::F64 => match reducer {
            Reducer::Sum => fold::<f64>(view, reduced, dtype, 0.0, |x, y| x + y),
            Reducer::Prod => fold(view, reduced, dtype, 1.0, |x: f64, y| x * y),
            Reducer::Max => {
                let max = |x: f64, y: f64| if y > x || y.is_nan() { y } else { x };
                fold(view, reduced, dtype, f64::NEG_INFINITY, max)
            }
            Reducer::Min => {
                let min = |x: f64, y: f64| if y < x || y.is_nan() { y } else { x };
                fold(view, reduced, dtype, f64::INFINITY, min)
            }
            Reducer::ArgMax => {
                extreme_indices::<f64, i64>(view, reduced, i64::MIN, |x| double_key(x, |key| key))
            }
            Reducer::ArgMin => {
                extreme_indices::<f64, i64>(view, reduced, i64::MIN, |x| double_key(x, |key| !key))
            }
            Reducer::Custom { .. } => Err(Error::internal("cpu::reduce::reduce, 64-bit floats")),
        },
        _ => match reducer {
            Reducer::Sum => fold::<f32>(view, reduced, DType::F32, 0.0, |x, y| x + y),
            Reducer::Prod => fold(view, reduced, DType::F32, 1.0, |x: f32, y| x * y),
            Reducer::Max => {
                let max = |x: f32, y: f32| if y > x || y.is_nan() { y } else { x };
                fold(view, reduced, DType::F32, f32::NEG_INFINITY, max)
            }
            Reducer::Min => {
                let min = |x: f32, y: f32| if y < x || y.is_nan() { y } else { x };
                fold(view, reduced, DType::F32, f32::INFINITY, min)
            }
            Reducer::ArgMax => {
                extreme_indices::<f32, i32>(view, reduced, i32::MIN, |x| float_key(x, |key| key))
            }
            Reducer::ArgMin => {
                extreme_indices::<f32, i32>(view, reduced, i32::MIN, |x| float_key(x, |key| !key))
            }
            // User-defined operations call `fold` with their function.
            Reducer::Custom { .. } => Err(Error::internal("cpu::reduce::reduce")),
        },
    }
}

/// Maps a float to an integer with the same order; both zeros are equal, and NaN is larger than
/// everything.
pub(crate) fn float_key(x: f32, turn: impl Fn(i32) -> i32) -> i32 {
    let bits = (if x == 0.0 { 0.0 } else { x }).to_bits() as i32;
    if x.is_nan() { i32::MAX } else { turn(bits ^ ((bits >> 31) & i32::MAX)) }
}

/// Maps a 64-bit float like [`float_key`].
pub(crate) fn double_key(x: f64, turn: impl Fn(i64) -> i64) -> i64 {
    let bits = (if x == 0.0 { 0.0 } else { x }).to_bits() as i64;
    if x.is_nan() { i64::MAX } else { turn(bits ^ ((bits >> 63) & i64::MAX)) }
}

/// An integer type of reductions.
trait Whole: Load + Ord + std::ops::Not<Output = Self> {
    const DTYPE: DType;
    const SMALL: [Self; 2];
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! whole {
    ($type:ty, $dtype:ident) => {
        impl Whole for $type {
            const DTYPE: DType = DType::$dtype;
            const SMALL: [Self; 2] = [0, 1];
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    };
}

whole!(i32, I32);
whole!(i64, I64);

fn integers<T: Whole>(
    view: &CpuView,
    reduced: &[usize],
    reducer: &Reducer,
    extremes: [T; 2],
) -> Result<CpuStorage> {
    match reducer {
        Reducer::Sum => fold(view, reduced, T::DTYPE, T::SMALL[0], T::plus),
        Reducer::Prod => fold(view, reduced, T::DTYPE, T::SMALL[1], T::times),
        Reducer::Max => fold(view, reduced, T::DTYPE, extremes[0], Ord::max),
        Reducer::Custom { .. } => Err(Error::internal("cpu::reduce::integers")),
        Reducer::Min => fold(view, reduced, T::DTYPE, extremes[1], Ord::min),
        Reducer::ArgMax => extreme_indices::<T, T>(view, reduced, extremes[0], |x| x),
        Reducer::ArgMin => extreme_indices::<T, T>(view, reduced, extremes[0], |x| !x),
    }
}

/// Returns the view with the axes in the order (kept, reduced) or the other way round, and the
/// numbers of results and of elements of each.
fn ordered(view: &CpuView, reduced: &[usize], columns: bool) -> Result<(CpuView, usize, usize)> {
    let kept: Vec<usize> = (0..view.layout.rank()).filter(|axis| !reduced.contains(axis)).collect();
    let size =
        |axes: &[usize]| axes.iter().map(|&axis| view.layout.shape()[axis]).product::<usize>();
    let order = if columns { [reduced, &kept[..]] } else { [&kept[..], reduced] }.concat();
    let order: Vec<isize> = order.into_iter().map(|axis| axis as isize).collect();
    let layout = view.layout.permute("reduce", &order)?;
    Ok((CpuView { storage: view.storage.clone(), layout }, size(&kept), size(reduced)))
}

/// Returns whether neighbours in memory belong to different results.
fn is_by_columns(layout: &Layout, reduced: &[usize]) -> bool {
    let axes = layout.shape().iter().zip(layout.strides()).enumerate();
    let innermost = axes
        .filter(|(_, (size, stride))| **size > 1 && **stride != 0)
        .min_by_key(|(_, (_, stride))| stride.unsigned_abs());
    innermost.is_some_and(|(axis, (size, _))| !reduced.contains(&axis) && *size >= 16)
}

/// Folds the elements of each result with a function that may be taken in any order.
pub(crate) fn fold<T: Load>(
    view: &CpuView,
    reduced: &[usize],
    dtype: DType,
    identity: T,
    f: impl Fn(T, T) -> T + Copy + Sync,
) -> Result<CpuStorage> {
    let by_columns = is_by_columns(&view.layout, reduced);
    let (view, results, n) = ordered(view, reduced, by_columns)?;
    let leaf = &Leaf::only(&view);
    if by_columns {
        return fold_columns(leaf, results, n, dtype, identity, f);
    }
    let segments = n.div_ceil(SEGMENT);
    let mut parts = parts_of(results, segments, identity)?;
    let nanoseconds = 0.3 * n.min(SEGMENT) as f64;
    // Short rows are loaded several at a time.
    let together = (BLOCK / n).max(1);
    parallel::for_each_chunk(
        &mut parts,
        (SEGMENT / n.min(SEGMENT)).max(1),
        nanoseconds,
        |first, parts| {
            let mut scratch = Vec::new();
            if segments == 1 && n < BLOCK {
                for (i, parts) in parts.chunks_mut(together).enumerate() {
                    let start = (first + i * together) * n;
                    let elements = T::load(leaf, start, parts.len() * n, &mut scratch)?;
                    for (part, row) in parts.iter_mut().zip(elements.chunks_exact(n)) {
                        *part = simd::fold(row, identity, f);
                    }
                }
                return Ok(());
            }
            for (i, part) in parts.iter_mut().enumerate() {
                let (row, segment) = ((first + i) / segments, (first + i) % segments);
                let (begin, end) = (segment * SEGMENT, n.min((segment + 1) * SEGMENT));
                let mut value = identity;
                for at in (begin..end).step_by(BLOCK) {
                    let elements = T::load(leaf, row * n + at, BLOCK.min(end - at), &mut scratch)?;
                    value = f(value, simd::fold(elements, identity, f));
                }
                *part = value;
            }
            Ok(())
        },
    )?;
    filled(dtype, results, |buffer| {
        for (result, parts) in buffer.slice_mut::<T>()?.iter_mut().zip(parts.chunks_mut(segments)) {
            *result = fold_in_pairs(parts, f).ok_or(Error::internal("cpu::reduce::fold"))?;
        }
        Ok(())
    })
}

/// Allocates the results of segments.
fn parts_of<T: Copy>(results: usize, segments: usize, identity: T) -> Result<Vec<T>> {
    let len = results.saturating_mul(segments);
    let mut parts =
        aleatron_core::memory::with_capacity(len as u128, aleatron_core::Quantity::Words)?;
    parts.resize(len, identity);
    Ok(parts)
}

/// Folds pairs of neighbours until one result is left.
fn fold_in_pairs<T: Copy>(parts: &mut [T], f: impl Fn(T, T) -> T) -> Option<T> {
    let mut len = parts.len();
    while len > 1 {
        for i in 0..len / 2 {
            parts[i] = f(parts[2 * i], parts[2 * i + 1]);
        }
        if len % 2 == 1 {
            parts[len / 2] = parts[len - 1];
        }
        len = len.div_ceil(2);
    }
    parts.first().copied()
}

fn fold_columns<T: Load>(
    leaf: &Leaf<'_>,
    results: usize,
    n: usize,
    dtype: DType,
    identity: T,
    f: impl Fn(T, T) -> T + Copy + Sync,
) -> Result<CpuStorage> {
    // Each segment is some rows of all columns; their number depends on the shape only.
    let rows = (SEGMENT / results).clamp(1, n);
    let rows = rows.max(n.div_ceil(64)).max(RUN.min(n));
    let segments = n.div_ceil(rows);
    let mut parts = parts_of(results, segments, identity)?;
    let width = results.min(BLOCK);
    let strips = results.div_ceil(width);
    // Strips of columns of each segment: slices of the parts.
    let mut slices: Vec<(usize, usize, &mut [T])> = Vec::with_capacity(segments * strips);
    for (segment, row) in parts.chunks_mut(results).enumerate() {
        slices.extend(
            row.chunks_mut(width).enumerate().map(|(strip, slice)| (segment, strip * width, slice)),
        );
    }
    parallel::for_each_item(slices, 0.3 * n as f64 * results as f64, |(segment, first, out)| {
        let (mut scratch, mut run) = (Vec::new(), vec![identity; out.len()]);
        let (begin, end) = (segment * rows, n.min((segment + 1) * rows));
        for (i, row) in (begin..end).enumerate() {
            let elements = T::load(leaf, row * results + first, out.len(), &mut scratch)?;
            simd::fold_into(&mut run, elements, f);
            if (i + 1) % RUN == 0 || row + 1 == end {
                simd::fold_into(out, &run, f);
                run.fill(identity);
            }
        }
        Ok(())
    })?;
    filled(dtype, results, |buffer| {
        let out = buffer.slice_mut::<T>()?;
        let mut rows: Vec<&mut [T]> = parts.chunks_mut(results).collect();
        while rows.len() > 1 {
            let mut next = Vec::with_capacity(rows.len().div_ceil(2));
            let mut pairs = rows.into_iter();
            while let Some(first) = pairs.next() {
                if let Some(second) = pairs.next() {
                    simd::fold_into(first, second, f);
                }
                next.push(first);
            }
            rows = next;
        }
        let total = rows.first().ok_or(Error::internal("cpu::reduce::fold_columns"))?;
        out.copy_from_slice(total);
        Ok(())
    })
}

/// Returns the indices of the first elements with the largest key, of which none is below `least`.
///
/// The largest key of a block is found first, with vector instructions; its index is searched only
/// if the key is a new maximum.
fn extreme_indices<T: Load, K: Ord + Copy + Send + Sync>(
    view: &CpuView,
    reduced: &[usize],
    least: K,
    key: impl Fn(T) -> K + Copy + Sync,
) -> Result<CpuStorage> {
    let (view, results, n) = ordered(view, reduced, false)?;
    let leaf = &Leaf::only(&view);
    let segments = n.div_ceil(SEGMENT);
    let mut parts = parts_of(results, segments, (least, 0))?;
    let together = if segments == 1 { (SEGMENT / n).max(1) } else { 1 };
    let items: Vec<(usize, &mut [(K, usize)])> = parts.chunks_mut(together).enumerate().collect();
    parallel::for_each_item(items, 0.5 * n as f64 * results as f64, |(item, parts)| {
        let mut scratch = Vec::new();
        for (i, part) in parts.iter_mut().enumerate() {
            let index = item * together + i;
            let (row, begin) = (index / segments, index % segments * SEGMENT);
            let end = n.min(begin + SEGMENT);
            let mut best: Option<(K, usize)> = None;
            for at in (begin..end).step_by(BLOCK) {
                let elements = T::load(leaf, row * n + at, BLOCK.min(end - at), &mut scratch)?;
                let largest = simd::largest_key(elements, least, key);
                if best.is_none_or(|(best, _)| largest > best) {
                    let index = elements.iter().position(|&x| key(x) == largest);
                    let index = index.ok_or(Error::internal(
                        "cpu::reduce::extreme_indices, largest of a block",
                    ))?;
                    best = Some((largest, at + index));
                }
            }
            *part = best.ok_or(Error::internal("cpu::reduce::extreme_indices, empty segment"))?;
        }
        Ok(())
    })?;
    filled(DType::I32, results, |buffer| {
        for (result, parts) in buffer.slice_mut::<i32>()?.iter_mut().zip(parts.chunks(segments)) {
            // The first of several segments with the same key wins.
            let best = parts
                .iter()
                .copied()
                .reduce(|best, part| if part.0 > best.0 { part } else { best });
            let (_, index) =
                best.ok_or(Error::internal("cpu::reduce::extreme_indices, no segments"))?;
            *result = i32::try_from(index)
                .map_err(|_| Error::internal("cpu::reduce::extreme_indices, axis length"))?;
        }
        Ok(())
    })
}
