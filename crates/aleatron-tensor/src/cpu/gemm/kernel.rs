//! The innermost loops of matrix products: a tile of the result in registers, for each kind of
//! vector.
//!
//! Every element of a tile is one chain of multiplications and additions over k, so it does not
//! depend on the tile that it is in. AVX2, AVX-512 and NEON fuse each multiplication with its
//! addition and so give the same bits; the baseline of x86-64 has no such instruction and rounds
//! both.

use aleatron_cpu::Tier;

use super::Beta;
use super::blocks::{Operand, Out};
use super::row::{self, RowProduct};
use crate::error::{Error, Result};

/// The largest number of rows and of vectors across that a tile has.
pub(super) const MOST_ROWS: usize = 8;
pub(super) const MOST_VECTORS: usize = 3;

/// The vectors across a tile of one row, which reads long runs of the right matrix once.
const ROW_VECTORS: usize = 12;

/// The width of the widest vector, in floats.
pub(super) const MOST_WIDTH: usize = 16;

/// The operands and the destination of a tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    /// The number of products that are added for each element.
    pub(super) k: usize,
    pub(super) left: Operand,
    /// Rows of whole vectors, and the stride between them.
    pub(super) right: *const f32,
    pub(super) right_step: isize,
    pub(super) out: Out,
}

/// The kernels of one vector width, and the shape of tiles that their registers hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    /// The number of floats of a vector.
    pub(super) width: usize,
    /// The rows and the vectors across of a whole tile.
    pub(super) rows: usize,
    vectors: usize,
    /// Computes a tile; returns false, and writes nothing, if there is no code for this number of
    /// rows and vectors.
    tile: unsafe fn(usize, usize, Tile) -> bool,
    pub(super) row: unsafe fn(RowProduct, *mut f32, Beta),
    /// Whether multiplications are fused with additions.
    #[cfg_attr(not(test), allow(dead_code, reason = "what tests expect"))]
    pub(super) fuses: bool,
}

impl Kernel {
    /// Returns the kernel of the tier in use, or the baseline for an unknown tier in the
    /// environment, which the first request for the tier reports.
    pub(super) fn current() -> Self {
        Tier::current().map_or(Self::BASELINE, Self::of)
    }

    /// Returns the kernel of a tier.
    pub(super) fn of(tier: Tier) -> Self {
        #[cfg(target_arch = "x86_64")]
        if tier.has_fma() {
            return if tier.has_avx512bw() { Self::AVX512 } else { Self::AVX2 };
        }
        let _ = tier;
        Self::BASELINE
    }

    const BASELINE: Self = Self {
        width: 4,
        rows: Self::BASELINE_SHAPE[0],
        vectors: Self::BASELINE_SHAPE[1],
        tile: baseline,
        row: row::baseline,
        fuses: cfg!(target_arch = "aarch64"),
    };

    /// x86-64 has 16 registers, others have 32.
    const BASELINE_SHAPE: [usize; 2] =
        if cfg!(target_arch = "x86_64") { [4, 2] } else { [MOST_ROWS, MOST_VECTORS] };

    /// Returns the columns of a whole tile of a product with this number of rows.
    pub(super) fn columns(self, rows: usize) -> usize {
        self.width * if rows == 1 { ROW_VECTORS } else { self.vectors }
    }

    /// Computes a tile of up to as many rows and columns as a whole one has.
    ///
    /// # Safety
    /// The tile's operands must be valid for `rows` rows and the columns rounded up to whole
    /// vectors, and its result for `rows` rows of `columns` elements, that nothing else refers
    /// to.
    ///
    /// # Errors
    /// [`Error::Internal`] for a tile that is larger than a whole one.
    pub(super) unsafe fn tile(self, rows: usize, columns: usize, tile: Tile) -> Result<()> {
        const SITE: &str = "tile of a matrix product";
        let vectors = match columns.div_ceil(self.width) {
            vectors @ ..=MOST_VECTORS => vectors,
            _ => ROW_VECTORS,
        };
        if columns == vectors * self.width {
            // SAFETY: guaranteed by the caller; the machine has the tier's instructions.
            let written = unsafe { (self.tile)(rows, vectors, tile) };
            return if written { Ok(()) } else { Err(Error::internal(SITE)) };
        }
        if rows * vectors > MOST_ROWS * MOST_VECTORS {
            return Err(Error::internal(SITE));
        }
        // The last vector extends past the columns: the tile is computed in a separate array.
        let mut beside = [0.0f32; MOST_ROWS * MOST_VECTORS * MOST_WIDTH];
        let row_step = vectors * self.width;
        // SAFETY: guaranteed by the caller; the array has room for the largest tile.
        unsafe {
            let out = Out { start: beside.as_mut_ptr(), row_step, beta: Beta::Overwrite };
            if !(self.tile)(rows, vectors, Tile { out, ..tile }) {
                return Err(Error::internal(SITE));
            }
            for (row, sums) in beside.chunks(row_step).enumerate().take(rows) {
                let out = tile.out.start.add(row * tile.out.row_step);
                tile.out.beta.write(sums, std::slice::from_raw_parts_mut(out, columns));
            }
        }
        Ok(())
    }
}

/// A vector of floats.
pub(super) trait Vector: Copy {
    const WIDTH: usize;
    /// # Safety
    /// The machine must have the instructions, as for all below.
    unsafe fn splat(x: f32) -> Self;
    /// # Safety
    /// `from` must be valid for the width.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// `to` must be valid for the width.
    unsafe fn store(self, to: *mut f32);
    /// Prefetches the cache line of an address.
    ///
    /// # Safety
    /// See [`Vector::splat`].
    unsafe fn prefetch(address: *const f32);
    /// # Safety
    /// See [`Vector::splat`].
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self + x y`, rounded once if the processor has fused instructions.
    ///
    /// # Safety
    /// See [`Vector::splat`].
    unsafe fn add_product(self, x: Self, y: Self) -> Self;
}

/// Computes a tile of R rows and C vectors.
///
/// # Safety
/// As for [`Kernel::tile`], and the machine must have the vector's instructions.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "loops over the shape, which the compiler unrolls")]
unsafe fn compute<V: Vector, const R: usize, const C: usize>(tile: Tile) {
    let Tile { k, left, mut right, right_step, out } = tile;
    let mut x = left.start;
    // SAFETY: the operands have k rows of R elements and of C vectors, the result R rows of C
    // vectors.
    unsafe {
        for r in 0..R {
            for c in 0..C {
                V::prefetch(out.start.add(r * out.row_step + c * V::WIDTH));
            }
        }
        let mut sums = [[V::splat(0.0); C]; R];
        for _ in 0..k {
            let mut y = [V::splat(0.0); C];
            for c in 0..C {
                y[c] = V::load(right.add(c * V::WIDTH));
            }
            for r in 0..R {
                let x = V::splat(*x.offset(r as isize * left.row_step));
                for c in 0..C {
                    sums[r][c] = sums[r][c].add_product(x, y[c]);
                }
            }
            x = x.wrapping_offset(left.column_step);
            right = right.wrapping_offset(right_step);
        }
        for r in 0..R {
            for c in 0..C {
                let target = out.start.add(r * out.row_step + c * V::WIDTH);
                let sum = match out.beta {
                    Beta::Overwrite => sums[r][c],
                    Beta::Accumulate => V::load(target).add(sums[r][c]),
                };
                sum.store(target);
            }
        }
    }
}

/// Computes the tile of a number of rows and vectors, with one copy of the code for each; returns
/// whether there is one.
macro_rules! of_shape {
    ($vector:ty, $rows:expr, $vectors:expr, $tile:expr, [$($r:literal)*]) => {{
        match ($rows, $vectors) {
            (1, ROW_VECTORS) => compute::<$vector, 1, ROW_VECTORS>($tile),
            $(
                ($r, 1) => compute::<$vector, $r, 1>($tile),
                ($r, 2) => compute::<$vector, $r, 2>($tile),
                ($r, 3) => compute::<$vector, $r, 3>($tile),
            )*
            _ => return false,
        }
        true
    }};
}

/// Four floats, which the compiler keeps in a register.
pub(super) type Four = [f32; 4];

impl Vector for Four {
    const WIDTH: usize = 4;
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] + other[i])
    }
    #[inline(always)]
    unsafe fn add_product(self, x: Self, y: Self) -> Self {
        if cfg!(target_arch = "aarch64") {
            return std::array::from_fn(|i| x[i].mul_add(y[i], self[i]));
        }
        std::array::from_fn(|i| self[i] + x[i] * y[i])
    }
}

/// # Safety
/// As for [`Kernel::tile`].
unsafe fn baseline(rows: usize, vectors: usize, tile: Tile) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { of_shape!(Four, rows, vectors, tile, [1 2 3 4 5 6 7 8]) }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::super::row;
    use super::{Kernel, MOST_ROWS, MOST_VECTORS, ROW_VECTORS, Tile, Vector, compute};

    impl Kernel {
        /// 8 rows of 48 columns: 24 of 32 registers have sums.
        pub(super) const AVX512: Self = Self {
            width: 16,
            rows: MOST_ROWS,
            vectors: MOST_VECTORS,
            tile: avx512,
            row: row::x86_64::fma,
            fuses: true,
        };

        /// 6 rows of 16 columns: 12 of 16 registers have sums. As 4 rows of 24 they would leave too
        /// few for the operands.
        pub(super) const AVX2: Self =
            Self { width: 8, rows: 6, vectors: 2, tile: avx2, row: row::x86_64::fma, fuses: true };
    }

    macro_rules! vector {
        ($type:ty, $width:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $add_product:ident) => {
            impl Vector for $type {
                const WIDTH: usize = $width;
                #[inline(always)]
                unsafe fn splat(x: f32) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $splat(x) }
                }
                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn prefetch(address: *const f32) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                unsafe fn add_product(self, x: Self, y: Self) -> Self {
                    // SAFETY: guaranteed by the caller.
                    unsafe { $add_product(x, y, self) }
                }
            }
        };
    }

    vector!(
        __m512,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_fmadd_ps
    );
    vector!(
        __m256,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_fmadd_ps
    );

    /// # Safety
    /// As for [`Kernel::tile`], and the machine must have AVX-512F.
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512(rows: usize, vectors: usize, tile: Tile) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { of_shape!(__m512, rows, vectors, tile, [1 2 3 4 5 6 7 8]) }
    }

    /// # Safety
    /// As for [`Kernel::tile`], and the machine must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(rows: usize, vectors: usize, tile: Tile) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { of_shape!(__m256, rows, vectors, tile, [1 2 3 4 5 6]) }
    }
}
