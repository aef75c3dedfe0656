//! Linear algebra of matrices on the CPU: decompositions, solutions of linear equations,
//! determinants and norms.
//!
//! The last two axes of a tensor are matrices of 32- or 64-bit floats, the axes before them a
//! batch. Everything is computed in the type of the elements, on one thread, so results do not
//! depend on the machine's load. The factorizations are those of the crate [`faer`](https://docs.rs/faer). Results have no gradient: a tensor that records a computation is refused.
//!
//! Errors are relative to the norm of the matrix: a decomposition multiplies to `A + E` with `|E|
//! <= c n eps |A|`, where n is the larger side, eps the distance from 1 to the next float and c a
//! small constant (`tests/linalg.rs` has it). Matrices that differ from a singular one by less than
//! this have no reliable inverse; only exactly singular pivots are reported.

mod matrix;
mod norm;

pub use norm::MatrixNorm;

use faer::Side;
use faer::linalg::solvers::{DenseSolveCore, PartialPivLu, SolveCore};

use crate::dtype::DType;
use crate::error::{Error, MatrixFault, Result};
use crate::layout::broadcast_shapes;
use crate::tensor::Tensor;
use crate::trace::report;
use matrix::{Float, Matrices, Output, by_type};

/// The computed columns of orthogonal factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factors {
    /// As many as the smaller side of the matrix has elements.
    Thin,
    /// All: the factors are square.
    Full,
}

/// A QR decomposition: `q` has orthonormal columns, `r` is upper triangular, and their product is
/// the matrix.
#[derive(Debug, Clone)]
pub struct Qr {
    /// The orthogonal factor.
    pub q: Tensor,
    /// The triangular factor.
    pub r: Tensor,
}

/// A singular value decomposition: the matrix is `u diag(s) vt`.
#[derive(Debug, Clone)]
pub struct Svd {
    /// The left singular vectors, as columns.
    pub u: Tensor,
    /// The singular values, in descending order.
    pub s: Tensor,
    /// The right singular vectors, as rows.
    pub vt: Tensor,
}

/// The eigenvalues and eigenvectors of a symmetric matrix: the matrix is `v diag(values) vᵀ` with
/// the vectors `v`.
#[derive(Debug, Clone)]
pub struct Eigh {
    /// The eigenvalues, in ascending order.
    pub values: Tensor,
    /// The eigenvectors, as columns, which are orthonormal.
    pub vectors: Tensor,
}

impl Tensor {
    /// Decomposes matrices into an orthogonal and an upper triangular factor.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor, linalg::Factors};
    /// let x = Tensor::from_slice(&[0.0f64, 2.0, 3.0, 0.0], &[2, 2], &Device::Cpu)?;
    /// let qr = x.qr(Factors::Thin)?;
    /// assert_eq!(qr.r.abs()?.to_vec::<f64>()?, [3.0, 0.0, 0.0, 2.0]);
    /// assert_eq!(qr.q.matmul(&qr.r)?.to_vec::<f64>()?, [0.0, 2.0, 3.0, 0.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rank`] for fewer than two axes, [`Error::DType`] for other types than 32- and
    /// 64-bit floats, [`Error::Argument`] for a matrix without elements or with NaN or infinity
    /// and for a tensor that records a computation, [`Error::Unsupported`] for a tensor on a GPU,
    /// [`Error::Memory`] if the factors do not fit.
    pub fn qr(&self, factors: Factors) -> Result<Qr> {
        by_type!("qr", self, qr(self, factors))
    }

    /// Decomposes matrices into singular vectors and singular values.
    ///
    /// # Errors
    /// As [`Self::qr`]; [`Error::Matrix`] if the iteration does not converge.
    pub fn svd(&self, factors: Factors) -> Result<Svd> {
        by_type!("svd", self, svd(self, factors))
    }

    /// Returns the eigenvalues and eigenvectors of symmetric matrices, of which the lower triangle
    /// is read.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let x = Tensor::from_slice(&[3.0f64, 0.0, 0.0, -1.0], &[2, 2], &Device::Cpu)?;
    /// assert_eq!(x.eigh()?.values.to_vec::<f64>()?, [-1.0, 3.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::svd`], and [`Error::Argument`] for matrices that are not square.
    pub fn eigh(&self) -> Result<Eigh> {
        by_type!("eigh", self, eigh(self))
    }

    /// Returns the lower triangular factor `l` of positive definite matrices `l lᵀ`, of which the
    /// lower triangle is read.
    ///
    /// # Errors
    /// As [`Self::eigh`]; [`Error::Matrix`] for a matrix that is not positive definite.
    pub fn cholesky(&self) -> Result<Self> {
        by_type!("cholesky", self, cholesky(self))
    }

    /// Returns the solutions `x` of `self x = right`. A `right` with one axis is a vector,
    /// otherwise its columns are right-hand sides; batches are broadcast.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let a = Tensor::from_slice(&[2.0f64, 0.0, 0.0, 4.0], &[2, 2], &Device::Cpu)?;
    /// let b = Tensor::from_slice(&[1.0f64, 1.0], &[2], &Device::Cpu)?;
    /// assert_eq!(a.solve(&b)?.to_vec::<f64>()?, [0.5, 0.25]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::eigh`]; [`Error::Matrix`] for a singular matrix or a solution that overflows,
    /// [`Error::Shapes`] if the sizes do not match, [`Error::Promotion`] for two types.
    pub fn solve(&self, right: &Self) -> Result<Self> {
        by_type!("solve", self, solve(self, right))
    }

    /// Returns the inverses of matrices.
    ///
    /// # Errors
    /// As [`Self::eigh`]; [`Error::Matrix`] for a singular matrix or an inverse that overflows.
    pub fn inv(&self) -> Result<Self> {
        by_type!("inv", self, inv(self))
    }

    /// Returns the determinants of matrices: 0 for a singular one, infinity if a determinant
    /// overflows.
    ///
    /// # Errors
    /// As [`Self::eigh`]; [`Error::Matrix`] if the elimination overflows.
    pub fn det(&self) -> Result<Self> {
        by_type!("det", self, det(self))
    }
}

fn qr<T: Float>(x: &Tensor, factors: Factors) -> Result<Qr> {
    const OP: &str = "qr";
    let matrices = Matrices::<T>::new(OP, x)?;
    let [rows, columns] = matrices.sides;
    let inner = match factors {
        Factors::Thin => rows.min(columns),
        Factors::Full => rows,
    };
    let mut q = Output::new(&matrices, &[rows, inner])?;
    let mut r = Output::new(&matrices, &[inner, columns])?;
    for (index, matrix, _) in matrices.iter() {
        let factored = matrix.qr();
        match factors {
            Factors::Thin => q.push(factored.compute_thin_Q().as_ref()),
            Factors::Full => q.push(factored.compute_Q().as_ref()),
        }
        let triangle = factored.thin_R();
        r.push_scaled((OP, index), triangle, 0)?;
        r.push_zeros((inner - triangle.nrows()) * columns);
    }
    Ok(Qr { q: report(OP, q.finish()?), r: r.finish()? })
}

fn svd<T: Float>(x: &Tensor, factors: Factors) -> Result<Svd> {
    const OP: &str = "svd";
    // Without it, faer's factors of matrices with elements near 2^-100 in 32 bits are wrong.
    let matrices = Matrices::<T>::new(OP, x)?.normalized();
    let [rows, columns] = matrices.sides;
    let short = rows.min(columns);
    let [left, right] = match factors {
        Factors::Thin => [short; 2],
        Factors::Full => [rows, columns],
    };
    let mut u = Output::new(&matrices, &[rows, left])?;
    let mut s = Output::new(&matrices, &[short])?;
    let mut vt = Output::new(&matrices, &[right, columns])?;
    for (index, matrix, exponent) in matrices.iter() {
        let found = match factors {
            Factors::Thin => matrix.thin_svd(),
            Factors::Full => matrix.svd(),
        };
        let found = found.map_err(|_| Error::Matrix {
            op: OP,
            index,
            fault: MatrixFault::NoConvergence,
        })?;
        u.push(found.U());
        s.push_scaled((OP, index), found.S().column_vector().as_mat(), exponent)?;
        vt.push(found.V().transpose());
    }
    Ok(Svd { u: report(OP, u.finish()?), s: s.finish()?, vt: vt.finish()? })
}

fn eigh<T: Float>(x: &Tensor) -> Result<Eigh> {
    const OP: &str = "eigh";
    let matrices = Matrices::<T>::square(OP, x)?;
    let n = matrices.sides[0];
    let mut values = Output::new(&matrices, &[n])?;
    let mut vectors = Output::new(&matrices, &[n, n])?;
    for (index, matrix, _) in matrices.iter() {
        let found = matrix.self_adjoint_eigen(Side::Lower);
        let found = found.map_err(|_| Error::Matrix {
            op: OP,
            index,
            fault: MatrixFault::NoConvergence,
        })?;
        values.push_scaled((OP, index), found.S().column_vector().as_mat(), 0)?;
        vectors.push(found.U());
    }
    Ok(Eigh { values: report(OP, values.finish()?), vectors: vectors.finish()? })
}

fn cholesky<T: Float>(x: &Tensor) -> Result<Tensor> {
    const OP: &str = "cholesky";
    let matrices = Matrices::<T>::square(OP, x)?;
    let n = matrices.sides[0];
    let mut lower = Output::new(&matrices, &[n, n])?;
    for (index, matrix, _) in matrices.iter() {
        let factored = matrix.llt(Side::Lower);
        let fault = MatrixFault::NotPositiveDefinite;
        let factored = factored.map_err(|_| Error::Matrix { op: OP, index, fault })?;
        lower.push(factored.L());
    }
    Ok(report(OP, lower.finish()?))
}

/// Factorizes a matrix by Gaussian elimination, unless a pivot is zero or overflows.
fn factorize<T: Float>(
    op: &'static str,
    index: usize,
    matrix: faer::MatRef<'_, T>,
) -> Result<PartialPivLu<T>> {
    let factored = matrix.partial_piv_lu();
    let upper = factored.U();
    for i in 0..upper.nrows() {
        let pivot: f64 = upper[(i, i)].into();
        // A zero pivot makes later ones NaN: the first of both is the reason.
        if pivot == 0.0 || !pivot.is_finite() {
            let fault = if pivot == 0.0 { MatrixFault::Singular } else { MatrixFault::Overflow };
            return Err(Error::Matrix { op, index, fault });
        }
    }
    Ok(factored)
}

fn solve<T: Float>(x: &Tensor, right: &Tensor) -> Result<Tensor> {
    const OP: &str = "solve";
    if right.dtype() != x.dtype() {
        return Err(Error::Promotion { op: OP, left: x.dtype(), right: right.dtype() });
    }
    let is_vector = right.rank() == 1;
    let columns = if is_vector { right.unsqueeze(1)? } else { right.clone() };
    // Before broadcasting, so that an error names an element of the argument.
    let [n, _] = Matrices::<T>::square(OP, x)?.sides;
    let [equations, sides] = Matrices::<T>::new(OP, &columns)?.sides;
    if equations != n {
        return Err(Error::shapes(OP, x.shape(), right.shape()));
    }
    let outer = |tensor: &Tensor| tensor.shape()[..tensor.rank() - 2].to_vec();
    let batch = broadcast_shapes(OP, &outer(x), &outer(&columns))?;
    let left = Matrices::<T>::square(OP, &x.broadcast_to(&[&batch[..], &[n, n]].concat())?)?;
    let columns =
        Matrices::<T>::new(OP, &columns.broadcast_to(&[&batch[..], &[n, sides]].concat())?)?;
    let shape: &[usize] = if is_vector { &[n] } else { &[n, sides] };
    let mut solutions = Output::new(&left, shape)?;
    for ((index, matrix, _), (_, columns, _)) in left.iter().zip(columns.iter()) {
        let mut solution = columns.to_owned();
        factorize(OP, index, matrix)?.solve_in_place_with_conj(faer::Conj::No, solution.as_mut());
        solutions.push_scaled((OP, index), solution.as_ref(), 0)?;
    }
    Ok(report(OP, solutions.finish()?))
}

fn inv<T: Float>(x: &Tensor) -> Result<Tensor> {
    const OP: &str = "inv";
    let matrices = Matrices::<T>::square(OP, x)?;
    let n = matrices.sides[0];
    let mut inverses = Output::new(&matrices, &[n, n])?;
    for (index, matrix, _) in matrices.iter() {
        let inverse = factorize(OP, index, matrix)?.inverse();
        inverses.push_scaled((OP, index), inverse.as_ref(), 0)?;
    }
    Ok(report(OP, inverses.finish()?))
}

fn det<T: Float>(x: &Tensor) -> Result<Tensor> {
    const OP: &str = "det";
    let matrices = Matrices::<T>::square(OP, x)?;
    let mut determinants = Output::new(&matrices, &[])?;
    for (index, matrix, _) in matrices.iter() {
        let determinant = match factorize(OP, index, matrix) {
            Ok(factored) => determinant(&factored),
            Err(Error::Matrix { fault: MatrixFault::Singular, .. }) => 0.0,
            Err(error) => return Err(error),
        };
        determinants.push_value(determinant);
    }
    Ok(report(OP, determinants.finish()?))
}

/// Returns the product of the pivots with the sign of the permutation. Mantissas and exponents are
/// multiplied apart, so that only the result overflows or underflows.
fn determinant<T: Float>(factored: &PartialPivLu<T>) -> f64 {
    let (permutation, _) = factored.P().arrays();
    let mut seen = vec![false; permutation.len()];
    let mut is_odd = false;
    for start in 0..permutation.len() {
        let mut at = start;
        // A cycle of k elements is k - 1 exchanges.
        while !std::mem::replace(&mut seen[at], true) {
            at = permutation[at];
            is_odd ^= at != start;
        }
    }
    let (mut mantissa, mut exponent) = (if is_odd { -1.0 } else { 1.0 }, 0i64);
    for i in 0..permutation.len() {
        let (fraction, power) = libm::frexp(factored.U()[(i, i)].into());
        let (product, carry) = libm::frexp(mantissa * fraction);
        mantissa = product;
        exponent += i64::from(power) + i64::from(carry);
    }
    libm::ldexp(mantissa, exponent.clamp(-5000, 5000) as i32)
}
