//! Models of the rounding of passes, for the bounds of `reference.rs`.

use aleatron_transformer::Precision;

/// The largest relative error of a rounding to 32 bits.
pub const U: f64 = 1.0 / 16_777_216.0;

/// The relative error of a number rounded to 16 bits.
const HALF: f64 = 1.0 / 2048.0;

/// Returns the largest relative error of n roundings, one upon the other.
pub fn g(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// The order in which a pass sums the products of a row.
#[derive(Debug, Clone, Copy)]
pub enum Sums {
    /// One after the other.
    InOrder,
    /// Lanes take vectors in turns; their sums are added in a tree of this depth.
    Lanes { lanes: usize, vector: usize, tree: usize },
}

impl Sums {
    /// Returns the roundings of a term of a sum of `n`.
    pub fn depth(self, n: usize) -> usize {
        match self {
            Self::InOrder => n,
            Self::Lanes { lanes, vector, tree } => {
                n.min(n.div_ceil(lanes * vector) * vector) + tree
            }
        }
    }
}

/// The rounding of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Rounding {
    pub sums: Sums,
    /// Relative error of cached keys and values.
    pub cache: f64,
    /// Relative error of the activations of products.
    pub activations: f64,
    /// Absolute error of the hyperbolic tangent.
    pub tanh: f64,
}

impl Rounding {
    /// The rounding of the CPU pass, the same for any number of rows.
    pub const CPU: Self = Self {
        sums: Sums::Lanes { lanes: 16, vector: 1, tree: 4 },
        cache: 0.0,
        activations: 0.0,
        tanh: 4.0 * U,
    };

    /// Returns the rounding of a GPU in calls of this many rows; its cooperative matrices multiply
    /// activations of 16 bits.
    pub fn gpu(precision: Precision, rows: usize, has_matrices: bool) -> Self {
        let is_f32 = precision == Precision::F32;
        let vector = match precision {
            Precision::F32 => 4,
            Precision::F16 => 8,
            Precision::Int8 => 16,
        };
        // Up to 16 rows have kernels in which 16 to 64 lanes share a sum.
        let sums =
            if rows > 16 { Sums::InOrder } else { Sums::Lanes { lanes: 16, vector, tree: 6 } };
        Self {
            sums,
            cache: if is_f32 { 0.0 } else { HALF },
            activations: if has_matrices && !is_f32 && rows > 16 { HALF } else { 0.0 },
            tanh: 1e-5,
        }
    }
}
