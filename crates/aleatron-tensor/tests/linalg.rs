//! Linear algebra against definitions: products of factors, orthogonality, known eigenvalues, exact
//! determinants.
//!
//! Bounds are first-order ones for backward stable algorithms (Higham, Accuracy and Stability of
//! Numerical Algorithms, 2nd edition): the factors of an n x n matrix multiply to A + E with |E| <=
//! c n eps |A| in the Frobenius norm for orthogonal factorizations (section 19.3) and for
//! Cholesky's (section 10.1), and |A x - b| <= 3 n^2 eps g |A| |x| for Gaussian elimination with a
//! growth factor g (section 9.3). C holds c, and the growth factor, which is below 8 for the
//! matrices here.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use aleatron_core::philox::philox4x32;
use aleatron_tensor::error::MatrixFault;
use aleatron_tensor::linalg::{Factors, MatrixNorm};
use aleatron_tensor::{DType, Device, Element, Error, Tensor, autograd};

const C: f64 = 8.0;

/// Returns the distance from 1 to the next float.
fn eps(dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// Uniform numbers in [-1, 1), rounded to 32 bits, so that both types hold the same matrix.
fn random(seed: u32, shape: &[usize], dtype: DType) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u32)
        .map(|i| (philox4x32([i, 0, 0, 0], [seed, 5])[0] >> 8) as f32 / 8_388_608.0 - 1.0)
        .collect();
    Tensor::from_slice(&values, shape, &Device::Cpu).unwrap().cast(dtype).unwrap()
}

fn of<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
}

fn wide(x: &Tensor) -> Tensor {
    x.cast(DType::F64).unwrap()
}

fn values(x: &Tensor) -> Vec<f64> {
    wide(x).to_vec().unwrap()
}

/// Returns the Frobenius norm of all elements, in 64 bits, scaled so that squares neither overflow
/// nor underflow.
fn norm(x: &Tensor) -> f64 {
    let values = values(x);
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        0.0
    } else {
        largest * values.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt()
    }
}

/// Returns a product in 64 bits, whose own error is far below that of 32-bit factors and of the
/// order of that of 64-bit ones.
fn product(factors: &[&Tensor]) -> Tensor {
    let mut all = wide(factors[0]);
    for factor in &factors[1..] {
        all = all.matmul(&wide(factor)).unwrap();
    }
    all
}

fn distance(x: &Tensor, y: &Tensor) -> f64 {
    norm(&wide(x).sub(&wide(y)).unwrap())
}

fn identity(n: usize) -> Tensor {
    let mut values = vec![0.0f64; n * n];
    values.iter_mut().step_by(n + 1).for_each(|value| *value = 1.0);
    of(&values, &[n, n])
}

fn diagonal(values: &Tensor) -> Tensor {
    wide(&values.unsqueeze(-1).unwrap()).mul(&identity(values.shape()[0])).unwrap()
}

#[track_caller]
fn assert_orthonormal_columns(q: &Tensor) {
    let n = q.shape()[1];
    let error = distance(&product(&[&q.t().unwrap(), q]), &identity(n));
    // Each of n columns is orthonormal up to c rows eps.
    let bound = C * q.shape()[0] as f64 * (n as f64).sqrt() * eps(q.dtype());
    assert!(error <= bound, "{:?}: {error:e} > {bound:e}", q.shape());
}

const SHAPES: [[usize; 2]; 7] = [[1, 1], [1, 5], [5, 1], [3, 3], [7, 4], [4, 7], [40, 33]];
const TYPES: [DType; 2] = [DType::F32, DType::F64];

/// Factors such that squares of elements overflow or underflow the type.
fn scales(dtype: DType) -> [f64; 5] {
    let powers =
        if dtype == DType::F32 { [0, -100, 100, -115, 120] } else { [0, -700, 700, -960, 1015] };
    powers.map(|power| 2f64.powi(power))
}

#[test]
fn qr_factors_are_orthonormal_and_triangular_and_multiply_to_the_matrix() {
    for dtype in TYPES {
        for (seed, [rows, columns]) in (1..).zip(SHAPES) {
            for scale in scales(dtype) {
                let a = random(seed, &[rows, columns], dtype).mul(scale).unwrap();
                for (factors, inner) in [(Factors::Thin, rows.min(columns)), (Factors::Full, rows)]
                {
                    let qr = a.qr(factors).unwrap();
                    assert_eq!(
                        (qr.q.shape(), qr.r.shape()),
                        (&[rows, inner][..], &[inner, columns][..])
                    );
                    assert_eq!((qr.q.dtype(), qr.r.dtype()), (dtype, dtype));
                    assert_orthonormal_columns(&qr.q);
                    let r = values(&qr.r);
                    assert!(
                        (0..inner * columns).all(|i| i / columns <= i % columns || r[i] == 0.0)
                    );
                    let error = distance(&product(&[&qr.q, &qr.r]), &a);
                    let bound = C * rows.max(columns) as f64 * eps(dtype) * norm(&a);
                    assert!(
                        error <= bound,
                        "{dtype} {rows}x{columns} {scale:e}: {error:e} > {bound:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn svd_factors_are_orthonormal_and_ordered_and_multiply_to_the_matrix() {
    for dtype in TYPES {
        for (seed, [rows, columns]) in (11..).zip(SHAPES) {
            for scale in scales(dtype) {
                let a = random(seed, &[rows, columns], dtype).mul(scale).unwrap();
                let short = rows.min(columns);
                let full = a.svd(Factors::Full).unwrap();
                assert_eq!(
                    (full.u.shape(), full.vt.shape()),
                    (&[rows, rows][..], &[columns, columns][..])
                );
                assert_orthonormal_columns(&full.u);
                assert_orthonormal_columns(&full.vt.t().unwrap());
                let svd = a.svd(Factors::Thin).unwrap();
                assert_eq!(
                    (svd.u.shape(), svd.vt.shape()),
                    (&[rows, short][..], &[short, columns][..])
                );
                let s = values(&svd.s);
                assert!(s.iter().all(|&s| s >= 0.0) && s.is_sorted_by(|a, b| a >= b), "{s:?}");
                let error = distance(&product(&[&svd.u, &diagonal(&svd.s), &svd.vt]), &a);
                let bound = C * rows.max(columns) as f64 * eps(dtype) * norm(&a);
                assert!(
                    error <= bound,
                    "{dtype} {rows}x{columns} {scale:e}: {error:e} > {bound:e}"
                );
            }
        }
    }
}

/// The n x n matrix with 2 on the diagonal and -1 beside it has the eigenvalues 2 - 2 cos(k pi / (n
/// + 1)).
fn laplacian(n: usize, dtype: DType) -> Tensor {
    let mut values = vec![0.0f64; n * n];
    for i in 0..n {
        values[i * n + i] = 2.0;
        if i > 0 {
            values[i * n + i - 1] = -1.0;
            values[(i - 1) * n + i] = -1.0;
        }
    }
    of(&values, &[n, n]).cast(dtype).unwrap()
}

#[test]
fn eigh_finds_known_eigenvalues_and_orthonormal_vectors() {
    for dtype in TYPES {
        for n in [1, 2, 3, 10, 50] {
            for scale in scales(dtype) {
                let a = laplacian(n, dtype).mul(scale).unwrap();
                let found = a.eigh().unwrap();
                assert_orthonormal_columns(&found.vectors);
                let bound = C * n as f64 * eps(dtype) * norm(&a);
                let error = distance(
                    &product(&[&a, &found.vectors]),
                    &product(&[&found.vectors, &diagonal(&found.values)]),
                );
                assert!(error <= bound, "{dtype} {n} {scale:e}: {error:e} > {bound:e}");
                // Eigenvalues of a symmetric matrix move by no more than the norm of what is added
                // (Weyl).
                for (k, value) in (1..).zip(values(&found.values)) {
                    let exact = scale
                        * (2.0
                            - 2.0 * (std::f64::consts::PI * f64::from(k) / (n as f64 + 1.0)).cos());
                    assert!(
                        (value - exact).abs() <= bound,
                        "{dtype} {n} {scale:e}: {value:e} is not {exact:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn eigh_and_cholesky_read_the_lower_triangle_only() {
    let whole = of(&[4.0f64, 2.0, 2.0, 3.0], &[2, 2]);
    let lower = of(&[4.0f64, 99.0, 2.0, 3.0], &[2, 2]);
    assert_eq!(values(&whole.eigh().unwrap().values), values(&lower.eigh().unwrap().values));
    // 4 = 2^2, 2 = 2 * 1, 3 = 1^2 + 2.
    let factor = values(&lower.cholesky().unwrap());
    assert_eq!(factor[..3], [2.0, 0.0, 1.0]);
    assert!((factor[3] - 2f64.sqrt()).abs() <= 2.0 * f64::EPSILON, "{factor:?}");
}

#[test]
fn cholesky_factor_is_lower_triangular_and_multiplies_to_the_matrix() {
    for dtype in TYPES {
        for n in [1, 2, 5, 40] {
            let a = laplacian(n, dtype);
            let l = a.cholesky().unwrap();
            let all = values(&l);
            assert!(
                (0..n * n).all(|i| i / n >= i % n || all[i] == 0.0)
                    && (0..n).all(|i| all[i * n + i] > 0.0)
            );
            let error = distance(&product(&[&l, &l.t().unwrap()]), &a);
            let bound = C * n as f64 * eps(dtype) * norm(&a);
            assert!(error <= bound, "{dtype} {n}: {error:e} > {bound:e}");
        }
    }
}

#[test]
fn solutions_and_inverses_have_small_residuals() {
    for dtype in TYPES {
        for n in [1usize, 2, 3, 8, 40] {
            let (a, b) = (random(21, &[n, n], dtype), random(22, &[n, 3], dtype));
            let relative = 3.0 * (n * n) as f64 * eps(dtype) * C;
            let x = a.solve(&b).unwrap();
            let (error, bound) =
                (distance(&product(&[&a, &x]), &b), relative * norm(&a) * norm(&x));
            assert!(error <= bound, "solve {dtype} {n}: {error:e} > {bound:e}");
            let inverse = a.inv().unwrap();
            let (error, bound) = (
                distance(&product(&[&a, &inverse]), &identity(n)),
                relative * norm(&a) * norm(&inverse),
            );
            assert!(error <= bound, "inv {dtype} {n}: {error:e} > {bound:e}");
            // A vector is a column.
            let column = b.select(1, 0).unwrap();
            let alone = a.solve(&column).unwrap();
            assert_eq!(alone.shape(), [n]);
            let error = distance(
                &product(&[&a, &alone.unsqueeze(1).unwrap()]),
                &column.unsqueeze(1).unwrap(),
            );
            assert!(error <= relative * norm(&a) * norm(&alone), "vector {dtype} {n}: {error:e}");
        }
    }
}

/// Returns the determinant of an integer matrix by Laplace's expansion, exactly.
fn exact_det(matrix: &[Vec<i64>]) -> i64 {
    if matrix.is_empty() {
        return 1;
    }
    (0..matrix.len()).map(|column| if column % 2 == 0 { 1 } else { -1 } * matrix[0][column] * exact_det(&minor(matrix, 0, column))).sum()
}

fn minor(matrix: &[Vec<i64>], row: usize, column: usize) -> Vec<Vec<i64>> {
    let rows = matrix.iter().enumerate().filter(|(i, _)| *i != row);
    rows.map(|(_, values)| {
        values.iter().enumerate().filter(|(j, _)| *j != column).map(|(_, &v)| v).collect()
    })
    .collect()
}

#[test]
fn determinants_of_integer_matrices_are_within_the_bound_of_exact_ones() {
    for dtype in TYPES {
        for n in 1..=6usize {
            for seed in 0..20 {
                let word = |i: usize| {
                    i64::from(philox4x32([i as u32, 1, 0, 0], [seed, n as u32])[0] % 19) - 9
                };
                let matrix: Vec<Vec<i64>> =
                    (0..n).map(|i| (0..n).map(|j| word(i * n + j)).collect()).collect();
                let flat: Vec<f64> = matrix.iter().flatten().map(|&value| value as f64).collect();
                let a = of(&flat, &[n, n]).cast(dtype).unwrap();
                let got = values(&a.det().unwrap())[0];
                // det(A + E) - det(A) is the scalar product of E and the cofactors, up to second
                // order.
                let cofactors: f64 = (0..n * n)
                    .map(|i| (exact_det(&minor(&matrix, i / n, i % n)) as f64).powi(2))
                    .sum::<f64>()
                    .sqrt();
                let exact = exact_det(&matrix) as f64;
                let rounding = 2.0 * n as f64 * eps(dtype) * exact.abs();
                let bound = 3.0 * (n * n) as f64 * eps(dtype) * norm(&a) * cofactors + rounding;
                assert!(
                    (got - exact).abs() <= bound,
                    "{dtype} {n} {seed}: {got} is not {exact} within {bound:e}"
                );
            }
        }
    }
}

#[test]
fn determinants_of_permutations_and_diagonals_are_exact() {
    let swapped = of(&[0.0f32, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0], &[3, 3]);
    let cycle = of(&[0.0f32, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0], &[3, 3]);
    assert_eq!(
        (swapped.det().unwrap().item(), cycle.det().unwrap().item()),
        (Ok(-1.0f32), Ok(1.0f32))
    );
    assert_eq!(of(&[1.0f64, 2.0, 2.0, 4.0], &[2, 2]).det().unwrap().item(), Ok(0.0f64));
    assert_eq!(of(&[0.0f64; 9], &[3, 3]).det().unwrap().item(), Ok(0.0f64));
    // Pivots whose partial products overflow and underflow.
    let large = [2f64.powi(1000), 2f64.powi(1000), 2f64.powi(-1000), 2f64.powi(-999)];
    let diagonal = diagonal(&of(&large, &[4]));
    assert_eq!(values(&diagonal.cholesky().unwrap())[5], 2f64.powi(500));
    assert_eq!(values(&diagonal.inv().unwrap())[10], 2f64.powi(1000));
    assert_eq!(diagonal.det().unwrap().item(), Ok(2.0f64));
    let overflow = of(&[2f32.powi(100), 0.0, 0.0, 2f32.powi(100)], &[2, 2]);
    assert_eq!(overflow.det().unwrap().item(), Ok(f32::INFINITY));
}

#[test]
fn norms_follow_their_definitions() {
    // Singular values 5 and 3 by rotations of 90 degrees.
    let a = of(&[0.0f64, -3.0, 5.0, 0.0], &[2, 2]);
    let norm = |x: &Tensor, norm| values(&x.matrix_norm(norm).unwrap());
    assert_eq!(norm(&a, MatrixNorm::Frobenius), [34f64.sqrt()]);
    assert_eq!(
        (norm(&a, MatrixNorm::Spectral), norm(&a, MatrixNorm::Nuclear)),
        (vec![5.0], vec![8.0])
    );
    let b = of(&[1.0f32, -2.0, 3.0, 4.0, 5.0, -6.0], &[2, 3]);
    assert_eq!(
        (norm(&b, MatrixNorm::One), norm(&b, MatrixNorm::Infinity)),
        (vec![9.0], vec![15.0])
    );
    assert_eq!(norm(&of(&[0.0f32; 4], &[2, 2]), MatrixNorm::Frobenius), [0.0]);
    for power in [700, -700] {
        let extreme = of(&[3.0 * 2f64.powi(power), 4.0 * 2f64.powi(power)], &[1, 2]);
        assert_eq!(norm(&extreme, MatrixNorm::Frobenius), [5.0 * 2f64.powi(power)]);
    }
}

#[test]
fn batches_equal_single_matrices() {
    for dtype in TYPES {
        let batch = random(31, &[2, 3, 4, 4], dtype);
        let symmetric = batch.add(&batch.transpose(-1, -2).unwrap()).unwrap();
        let definite = batch.matmul(&batch.transpose(-1, -2).unwrap()).unwrap();
        let [qr, svd, eigh] = [
            batch.qr(Factors::Thin).unwrap().r,
            batch.svd(Factors::Thin).unwrap().s,
            symmetric.eigh().unwrap().values,
        ];
        let (inv, det, cholesky) =
            (batch.inv().unwrap(), batch.det().unwrap(), definite.cholesky().unwrap());
        let right = random(32, &[3, 4, 2], dtype);
        let solved = batch.solve(&right).unwrap();
        assert_eq!(
            (det.shape(), svd.shape(), solved.shape()),
            (&[2, 3][..], &[2, 3, 4][..], &[2, 3, 4, 2][..])
        );
        for (i, j) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let of = |x: &Tensor| x.select(0, i).unwrap().select(0, j).unwrap();
            let one = of(&batch);
            assert_eq!(values(&of(&qr)), values(&one.qr(Factors::Thin).unwrap().r));
            assert_eq!(values(&of(&svd)), values(&one.svd(Factors::Thin).unwrap().s));
            assert_eq!(values(&of(&eigh)), values(&of(&symmetric).eigh().unwrap().values));
            assert_eq!(values(&of(&inv)), values(&one.inv().unwrap()));
            assert_eq!(values(&of(&det)), values(&one.det().unwrap()));
            assert_eq!(values(&of(&cholesky)), values(&of(&definite).cholesky().unwrap()));
            assert_eq!(
                values(&of(&solved)),
                values(&one.solve(&right.select(0, j).unwrap()).unwrap())
            );
        }
        // A view is the matrix that it shows.
        let turned = batch.transpose(-1, -2).unwrap();
        assert_eq!(
            values(&turned.inv().unwrap()),
            values(&turned.contiguous().unwrap().inv().unwrap())
        );
    }
    let none = Tensor::zeros(&[0, 3, 3], DType::F64, &Device::Cpu).unwrap();
    assert_eq!(
        (none.inv().unwrap().shape(), none.det().unwrap().shape()),
        (&[0, 3, 3][..], &[0][..])
    );
}

type Operation = fn(&Tensor) -> Result<(), Error>;

const SQUARE: [(&str, Operation); 5] = [
    ("eigh", |x| x.eigh().map(drop)),
    ("cholesky", |x| x.cholesky().map(drop)),
    ("inv", |x| x.inv().map(drop)),
    ("det", |x| x.det().map(drop)),
    ("solve", |x| x.solve(&Tensor::ones(&[2], x.dtype(), &Device::Cpu)?).map(drop)),
];

const ANY: [(&str, Operation); 3] = [
    ("qr", |x| x.qr(Factors::Full).map(drop)),
    ("svd", |x| x.svd(Factors::Full).map(drop)),
    ("matrix_norm", |x| x.matrix_norm(MatrixNorm::Nuclear).map(drop)),
];

#[test]
fn wrong_matrices_are_errors() {
    let one = |value: f64| of(&[1.0, 0.0, value, 1.0], &[2, 2]);
    for (name, operation) in SQUARE.into_iter().chain(ANY) {
        let refused = |x: &Tensor| operation(x).unwrap_err().to_string();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let text = refused(&one(value));
            assert!(
                text.contains(name) && text.contains("element 2") && text.contains("finite"),
                "{text}"
            );
        }
        for shape in [[0, 0], [2, 0], [0, 2]] {
            let empty = operation(&Tensor::zeros(&shape, DType::F32, &Device::Cpu).unwrap());
            assert!(matches!(empty, Err(Error::Argument { .. })), "{name}: {empty:?}");
        }
        assert!(matches!(operation(&of(&[1.0f32], &[1])), Err(Error::Rank { .. })), "{name}");
        for dtype in [DType::F16, DType::I32, DType::Bool] {
            let x = Tensor::ones(&[2, 2], dtype, &Device::Cpu).unwrap();
            assert!(matches!(operation(&x), Err(Error::DType { .. })), "{name} {dtype}");
        }
        let text = refused(&one(0.5).requires_grad().unwrap());
        assert!(text.contains("no gradient"), "{text}");
        assert_eq!(autograd::no_grad(|| operation(&one(0.5))), Ok(()), "{name}");
    }
    for (name, operation) in SQUARE {
        let text = operation(&of(&[1.0f32; 6], &[2, 3])).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("square"), "{text}");
    }
}

#[test]
fn singular_indefinite_and_overflowing_matrices_are_named() {
    let fault = |result: Result<Tensor, Error>| match result {
        Err(Error::Matrix { index, fault, .. }) => (index, fault),
        other => panic!("{other:?}"),
    };
    // The second of two matrices has equal rows.
    let singular = of(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 2.0, 1.0, 2.0], &[2, 2, 2]);
    assert_eq!(fault(singular.inv()), (1, MatrixFault::Singular));
    assert_eq!(fault(singular.solve(&of(&[1.0f32, 1.0], &[2]))), (1, MatrixFault::Singular));
    assert_eq!(values(&singular.det().unwrap()), [1.0, 0.0]);
    let indefinite = of(&[1.0f64, 0.0, 0.0, -1.0], &[2, 2]);
    assert_eq!(fault(indefinite.cholesky()), (0, MatrixFault::NotPositiveDefinite));
    assert_eq!(fault(of(&[0.0f64], &[1, 1]).cholesky()), (0, MatrixFault::NotPositiveDefinite));
    let tiny = of(&[1e-40f32, 0.0, 0.0, 1.0], &[2, 2]);
    assert_eq!(fault(tiny.inv()), (0, MatrixFault::Overflow));
    // The second pivot is 2e308.
    let large = of(&[1e308f64, -1e308, 1e308, 1e308], &[2, 2]);
    assert_eq!([fault(large.det()), fault(large.inv())], [(0, MatrixFault::Overflow); 2]);
    // The solution is 1e47, and the norm of the column 4.2e38.
    let small = of(&[1e-37f32, 0.0, 0.0, 1.0], &[2, 2]);
    assert_eq!(fault(small.solve(&of(&[1e10f32, 1.0], &[2]))), (0, MatrixFault::Overflow));
    let column = of(&[3e38f32, 3e38], &[2, 1]);
    assert_eq!(fault(column.qr(Factors::Thin).map(|qr| qr.r)), (0, MatrixFault::Overflow));
    assert_eq!(fault(column.svd(Factors::Thin).map(|svd| svd.s)), (0, MatrixFault::Overflow));
    let text = singular.inv().unwrap_err().to_string();
    assert!(
        text.contains("inv") && text.contains("matrix 1") && text.contains("singular"),
        "{text}"
    );
}

#[test]
fn sizes_and_types_that_do_not_match_are_errors() {
    let a = identity(3);
    assert!(matches!(a.solve(&of(&[1.0f64; 2], &[2])), Err(Error::Shapes { .. })));
    assert!(matches!(a.solve(&of(&[1.0f32; 3], &[3])), Err(Error::Promotion { .. })));
    assert!(matches!(a.solve(&of(&[1.0f64], &[])), Err(Error::Rank { .. })));
    let batches = Tensor::ones(&[2, 3, 1], DType::F64, &Device::Cpu).unwrap();
    let three = a.broadcast_to(&[3, 3, 3]).unwrap();
    assert!(matches!(three.solve(&batches), Err(Error::Shapes { .. })));
    // A broadcast column whose full factor would take 8 * 2^62 bytes.
    let column = Tensor::ones(&[1, 1], DType::F64, &Device::Cpu)
        .unwrap()
        .broadcast_to(&[1 << 31, 1])
        .unwrap();
    assert!(column.qr(Factors::Full).unwrap_err().is_out_of_memory());
}
