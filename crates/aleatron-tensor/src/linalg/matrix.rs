//! Batches of matrices as the factorizations take them.

use aleatron_core::{Quantity, memory};
use faer::MatRef;

use crate::autograd::is_recorded;
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, MatrixFault, RankNeeded, Result};
use crate::tensor::Tensor;

/// A type of elements that matrices are factorized in.
pub(super) trait Float: Element + faer::traits::RealField + Into<f64> {
    const ZERO: Self;

    /// Rounds to the nearest float of this type.
    fn rounded(value: f64) -> Self;
}

impl Float for f32 {
    const ZERO: Self = 0.0;

    fn rounded(value: f64) -> Self {
        value as Self
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;

    fn rounded(value: f64) -> Self {
        value
    }
}

/// Calls a function with the type of the elements of a tensor.
macro_rules! by_type {
    ($op:expr, $x:expr, $function:ident($($argument:expr),*)) => {
        match $x.dtype() {
            DType::F32 => $function::<f32>($($argument),*),
            DType::F64 => $function::<f64>($($argument),*),
            dtype => Err(Error::DType { op: $op, dtype, expected: "32- or 64-bit floats" }),
        }
    };
}
pub(super) use by_type;

/// A batch of finite matrices of at least one element each, in row-major order.
pub(super) struct Matrices<T> {
    values: Vec<T>,
    batch: Vec<usize>,
    /// The exponents of two that the matrices were divided by.
    exponents: Vec<i32>,
    /// The rows and the columns of each.
    pub(super) sides: [usize; 2],
}

impl<T: Float> Matrices<T> {
    pub(super) fn new(op: &'static str, x: &Tensor) -> Result<Self> {
        let [batch @ .., rows, columns] = x.shape() else {
            let (expected, shape) = (RankNeeded::AtLeast(2), x.shape().to_vec());
            return Err(Error::Rank { op, expected, shape });
        };
        if x.device() != Device::Cpu {
            let what = "decompositions of matrices; move the tensor to the CPU";
            return Err(Error::Unsupported { device: x.device().to_string(), what });
        }
        if is_recorded([x]) {
            let expected = "it has no gradient; detach the tensor, or compute inside no_grad";
            return Err(Error::argument(
                op,
                "argument",
                "part of a recorded computation",
                expected,
            ));
        }
        if *rows == 0 || *columns == 0 {
            return Err(Error::argument(
                op,
                "shape",
                x.shape(),
                "matrices must have rows and columns",
            ));
        }
        // The factorization copies the matrix, and its factors are copied into the result.
        let larger = (*rows).max(*columns) as u128;
        memory::check(3 * larger * larger * size_of::<T>() as u128, Quantity::Words)?;
        let values = x.to_vec::<T>()?;
        if let Some(position) = values.iter().position(|&value| !value.into().is_finite()) {
            let value: f64 = values[position].into();
            return Err(Error::Argument {
                op,
                what: "an element",
                value: format!("{value} (element {position} in row-major order)"),
                expected: "elements must be finite",
            });
        }
        let exponents = vec![0; values.len() / (rows * columns)];
        Ok(Self { values, batch: batch.to_vec(), exponents, sides: [*rows, *columns] })
    }

    /// Like [`Self::new`], for square matrices.
    pub(super) fn square(op: &'static str, x: &Tensor) -> Result<Self> {
        if let [.., rows, columns] = x.shape()
            && rows != columns
        {
            return Err(Error::argument(op, "shape", x.shape(), "matrices must be square"));
        }
        Self::new(op, x)
    }

    /// Divides each matrix by a power of two, so that its largest element is in [1/2, 1): squares
    /// of elements then neither overflow nor underflow. Elements that become zero are smaller
    /// than the error of a factorization that is relative to the norm.
    pub(super) fn normalized(mut self) -> Self {
        let [rows, columns] = self.sides;
        self.exponents = self.values.chunks_exact_mut(rows * columns).map(normalize).collect();
        self
    }

    /// Iterates over the indices, the matrices and the exponents of two that they were divided by.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, MatRef<'_, T>, i32)> {
        let [rows, columns] = self.sides;
        let matrices = self.values.chunks_exact(rows * columns);
        matrices.zip(&self.exponents).enumerate().map(move |(index, (matrix, &exponent))| {
            (index, MatRef::from_row_major_slice(matrix, rows, columns), exponent)
        })
    }
}

/// Divides a matrix by a power of two and returns the exponent.
fn normalize<T: Float>(matrix: &mut [T]) -> i32 {
    let largest = matrix.iter().fold(0.0f64, |largest, &value| largest.max(value.into().abs()));
    let (_, exponent) = libm::frexp(largest);
    for value in matrix {
        *value = T::rounded(scaled((*value).into(), -exponent));
    }
    exponent
}

/// Multiplies by a power of two.
pub(super) fn scaled(value: f64, exponent: i32) -> f64 {
    // Half of an exponent is always that of a float.
    let half = |exponent: i32| libm::ldexp(1.0, exponent);
    value * half(exponent / 2) * half(exponent - exponent / 2)
}

/// The results of a batch, in row-major order.
pub(super) struct Output<T> {
    values: Vec<T>,
    shape: Vec<usize>,
}

impl<T: Float> Output<T> {
    /// Allocates results of a shape for each matrix.
    pub(super) fn new(matrices: &Matrices<T>, shape: &[usize]) -> Result<Self> {
        let shape = [&matrices.batch[..], shape].concat();
        let len = crate::layout::elements(&shape)?;
        Ok(Self { values: memory::with_capacity(len as u128, Quantity::Words)?, shape })
    }

    pub(super) fn push_value(&mut self, value: f64) {
        self.values.push(T::rounded(value));
    }

    pub(super) fn push(&mut self, matrix: MatRef<'_, T>) {
        for i in 0..matrix.nrows() {
            self.values.extend((0..matrix.ncols()).map(|j| matrix[(i, j)]));
        }
    }

    pub(super) fn push_zeros(&mut self, count: usize) {
        self.values.extend(std::iter::repeat_n(T::ZERO, count));
    }

    /// Appends a matrix times a power of two, unless an element overflows.
    pub(super) fn push_scaled(
        &mut self,
        (op, index): (&'static str, usize),
        matrix: MatRef<'_, T>,
        exponent: i32,
    ) -> Result<()> {
        let first = self.values.len();
        self.push(matrix);
        for value in &mut self.values[first..] {
            *value = T::rounded(scaled((*value).into(), exponent));
        }
        if self.values[first..].iter().all(|&value| value.into().is_finite()) {
            return Ok(());
        }
        Err(Error::Matrix { op, index, fault: MatrixFault::Overflow })
    }

    pub(super) fn finish(self) -> Result<Tensor> {
        Tensor::from_slice(&self.values, &self.shape, &Device::Cpu)
    }
}
