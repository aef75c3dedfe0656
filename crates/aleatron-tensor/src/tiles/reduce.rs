//! Matrices folded tile by tile, with any operation.

use super::TILE_SIZE;
use crate::dtype::DType;
use crate::error::{Error, RankNeeded, Result};
use crate::ops::fold::fold_custom;
use crate::ops::{Dims, Reduction};
use crate::tensor::Tensor;

/// An operation that folds floats, in any order: it must be associative and commutative, up to
/// rounding.
///
/// ```
/// use aleatron_tensor::tiles::{ReduceOp, tiled_reduce_2d};
/// use aleatron_tensor::{Device, Tensor};
///
/// /// The largest magnitude.
/// struct MaxAbs;
///
/// impl ReduceOp for MaxAbs {
///     const WGSL: Option<&'static str> = Some("max(abs(a), abs(b))");
///     fn identity() -> f32 { 0.0 }
///     fn combine(a: f32, b: f32) -> f32 { a.abs().max(b.abs()) }
/// }
///
/// let x = Tensor::from_slice(&[1.0f32, -7.0, 3.0, 2.0], &[2, 2], &Device::Cpu)?;
/// assert_eq!(tiled_reduce_2d::<MaxAbs>(&x)?.item::<f32>()?, 7.0);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
pub trait ReduceOp {
    /// The combination of `a` and `b` as a WGSL expression, which GPUs compute. Without it,
    /// matrices must be on the CPU.
    const WGSL: Option<&'static str> = None;

    /// Returns the neutral element.
    fn identity() -> f32;

    /// Combines two values on the CPU.
    fn combine(a: f32, b: f32) -> f32;

    /// Returns the equivalent built-in operation, if there is one.
    #[doc(hidden)]
    fn built_in() -> Option<BuiltIn> {
        None
    }
}

/// The operations that the crate has kernels for.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// The sum.
    Sum,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

/// The sum.
#[derive(Debug, Clone, Copy, Default)]
pub struct SumOp;

/// The largest element; NaN if there is a NaN.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxOp;

/// The smallest element; NaN if there is a NaN.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinOp;

impl ReduceOp for SumOp {
    const WGSL: Option<&'static str> = Some("a + b");
    fn identity() -> f32 {
        0.0
    }
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
    fn built_in() -> Option<BuiltIn> {
        Some(BuiltIn::Sum)
    }
}

impl ReduceOp for MaxOp {
    const WGSL: Option<&'static str> = Some("max(a, b)");
    fn identity() -> f32 {
        f32::NEG_INFINITY
    }
    fn combine(a: f32, b: f32) -> f32 {
        if b > a || b.is_nan() { b } else { a }
    }
    fn built_in() -> Option<BuiltIn> {
        Some(BuiltIn::Max)
    }
}

impl ReduceOp for MinOp {
    const WGSL: Option<&'static str> = Some("min(a, b)");
    fn identity() -> f32 {
        f32::INFINITY
    }
    fn combine(a: f32, b: f32) -> f32 {
        if b < a || b.is_nan() { b } else { a }
    }
    fn built_in() -> Option<BuiltIn> {
        Some(BuiltIn::Min)
    }
}

/// Folds axes, named in ascending order.
fn fold_axes<Op: ReduceOp>(op: &'static str, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if axes.iter().any(|&axis| x.shape()[axis] == 0) {
        let shape: Vec<usize> =
            (0..x.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.shape()[axis]).collect();
        return Tensor::full(&shape, Op::identity(), DType::F32, &x.device());
    }
    let reduce = |reduction| {
        let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
        x.reduce(reduction, &axes, Dims::Drop)
    };
    match Op::built_in() {
        Some(BuiltIn::Sum) => reduce(Reduction::Sum),
        Some(BuiltIn::Max) => reduce(Reduction::Max),
        Some(BuiltIn::Min) => reduce(Reduction::Min),
        None => fold_custom(op, x, axes, Op::WGSL, Op::identity(), Op::combine),
    }
}

fn check(op: &'static str, x: &Tensor) -> Result<[usize; 2]> {
    if x.dtype() != DType::F32 {
        return Err(Error::DType { op, dtype: x.dtype(), expected: "32-bit floats" });
    }
    match *x.shape() {
        [rows, columns] => Ok([rows, columns]),
        _ => Err(Error::Rank { op, expected: RankNeeded::Exactly(2), shape: x.shape().to_vec() }),
    }
}

/// Folds a matrix to one number, on its device.
///
/// # Errors
/// [`Error::Rank`] for anything but a matrix, [`Error::DType`] for anything but 32-bit floats,
/// `Error::Device` for invalid WGSL.
pub fn tiled_reduce_2d<Op: ReduceOp>(x: &Tensor) -> Result<Tensor> {
    const OP: &str = "tiled_reduce_2d";
    check(OP, x)?;
    fold_axes::<Op>(OP, x, &[0, 1])
}

/// Folds each tile of [`TILE_SIZE`] rows and columns of a matrix; tiles at the edges are smaller.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_reduce_partial<Op: ReduceOp>(x: &Tensor) -> Result<Tensor> {
    const OP: &str = "tiled_reduce_partial";
    let [rows, columns] = check(OP, x)?;
    // Whole tiles and the rest along each axis: up to four regions, each cut evenly.
    let cuts = |n: usize| {
        let whole = n / TILE_SIZE * TILE_SIZE;
        [(0..whole, TILE_SIZE), (whole..n, n - whole)]
            .into_iter()
            .filter(|(range, _)| !range.is_empty())
    };
    let mut bands = Vec::new();
    for (row_range, height) in cuts(rows) {
        let mut parts = Vec::new();
        for (column_range, width) in cuts(columns) {
            let (down, across) = (row_range.len() / height, column_range.len() / width);
            let region = x.slice(0, row_range.clone())?.slice(1, column_range)?;
            let tiles = region.reshape(&[down, height, across, width])?;
            parts.push(fold_axes::<Op>(OP, &tiles, &[1, 3])?);
        }
        if !parts.is_empty() {
            bands.push(Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)?);
        }
    }
    if bands.is_empty() {
        let shape = [rows.div_ceil(TILE_SIZE), columns.div_ceil(TILE_SIZE)];
        return Tensor::full(&shape, Op::identity(), DType::F32, &x.device());
    }
    Tensor::concat(&bands.iter().collect::<Vec<_>>(), 0)
}

/// Returns the sum of a matrix.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_sum_2d(x: &Tensor) -> Result<Tensor> {
    tiled_reduce_2d::<SumOp>(x)
}

/// Returns the largest element of a matrix.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_max_2d(x: &Tensor) -> Result<Tensor> {
    tiled_reduce_2d::<MaxOp>(x)
}

/// Returns the smallest element of a matrix.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_min_2d(x: &Tensor) -> Result<Tensor> {
    tiled_reduce_2d::<MinOp>(x)
}
