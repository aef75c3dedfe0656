//! Dot products of rows of weights with activations, with the available instructions.
//!
//! Every product is summed in the same order, for any precision and number of rows computed at
//! once: 16 partial sums, then a tree. So the bits of a sequence do not depend on its batch, and
//! those of a prompt equal those of its tokens one by one.
//!
//! The unsafe code of the CPU pass is here: calls of functions compiled for AVX2, FMA and F16C,
//! once the tier has them, and prefetches.
#![allow(unsafe_code)]

use aleatron_cpu::Tier;
use half::f16;

/// The number of partial sums of a product.
const LANES: usize = 16;

/// The number of rows of weights computed at once.
pub(super) const ROWS: usize = 4;

/// The instructions in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    /// The instructions of every processor of the target.
    Plain,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Instructions {
    pub(super) fn of(tier: Tier) -> Self {
        #[cfg(target_arch = "x86_64")]
        if tier.has_avx2() && tier.has_fma() && tier.has_f16c() {
            return Self::Avx2;
        }
        let _ = tier;
        Self::Plain
    }

    /// Returns the products of rows of 32-bit floats with `x`. Rows and `x` have one length, a
    /// multiple of 16.
    pub(super) fn f32(self, rows: [&[f32]; ROWS], x: &[f32]) -> [f32; ROWS] {
        match self {
            Self::Plain => rows.map(|row| products(row, x, |w| *w, |a, b, c| a * b + c)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this variant is only created if the tier has these instructions.
            Self::Avx2 => unsafe { avx2::f32(rows, x) },
        }
    }

    /// As [`Self::f32`], for 16-bit floats.
    pub(super) fn f16(self, rows: [&[f16]; ROWS], x: &[f32]) -> [f32; ROWS] {
        match self {
            Self::Plain => rows.map(|row| products(row, x, |w| w.to_f32(), |a, b, c| a * b + c)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this variant is only created if the tier has these instructions.
            Self::Avx2 => unsafe { avx2::f16(rows, x) },
        }
    }

    /// As [`Self::f32`], for 8-bit integers without their scale.
    pub(super) fn int8(self, rows: [&[i8]; ROWS], x: &[f32]) -> [f32; ROWS] {
        match self {
            Self::Plain => rows.map(|row| products(row, x, |w| f32::from(*w), |a, b, c| a * b + c)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this variant is only created if the tier has these instructions.
            Self::Avx2 => unsafe { avx2::int8(rows, x) },
        }
    }
}

/// Computes products; `fma` is the multiply-add of this tier.
#[inline(always)]
fn products<T>(
    row: &[T],
    x: &[f32],
    convert: impl Fn(&T) -> f32,
    fma: impl Fn(f32, f32, f32) -> f32,
) -> f32 {
    let mut sums = [0.0; LANES];
    for (row, x) in row.as_chunks::<LANES>().0.iter().zip(x.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] = fma(convert(&row[lane]), x[lane], sums[lane]);
        }
    }
    tree(sums)
}

/// Returns the sum of the partial sums.
#[inline(always)]
fn tree(sums: [f32; LANES]) -> f32 {
    let mut half: [f32; 8] = std::array::from_fn(|i| sums[i] + sums[i + 8]);
    for width in [4, 2, 1] {
        for i in 0..width {
            half[i] += half[i + width];
        }
    }
    half[0]
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{LANES, ROWS, tree};
    use half::f16;
    use std::arch::x86_64::{
        __m128i, __m256, _MM_HINT_T0, _mm_prefetch, _mm_set_epi64x, _mm256_cvtepi8_epi32,
        _mm256_cvtepi32_ps, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_setzero_ps,
    };

    /// Two registers hold the 16 partial sums of a row.
    type Sums = [[__m256; 2]; ROWS];

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn finish(sums: Sums) -> [f32; ROWS] {
        sums.map(|[low, high]| {
            let mut all = [0.0; LANES];
            let (low, high): ([f32; 8], [f32; 8]) = (bytemuck::cast(low), bytemuck::cast(high));
            all[..8].copy_from_slice(&low);
            all[8..].copy_from_slice(&high);
            tree(all)
        })
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn load(x: &[f32; LANES]) -> [__m256; 2] {
        bytemuck::cast(*x)
    }

    /// Prefetches the bytes `distance` after a chunk. Rows are a few kilobytes long, too short for
    /// the hardware prefetcher; the following rows are prefetched while these are multiplied.
    #[inline]
    fn prefetch<T>(chunk: &T, distance: usize) {
        // SAFETY: the instruction reads nothing and accepts any address, that of the end of a
        // matrix and past it as well.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(
                std::ptr::from_ref(chunk).cast::<i8>().wrapping_add(distance),
            )
        }
    }

    /// Half of 16 bytes.
    #[inline]
    fn words(bytes: &[u8; 16]) -> __m128i {
        bytemuck::cast(*bytes)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn f32(rows: [&[f32]; ROWS], x: &[f32]) -> [f32; ROWS] {
        let mut sums: Sums = [[_mm256_setzero_ps(); 2]; ROWS];
        let distance = ROWS * size_of_val(rows[0]);
        let [a, b, c, d] = rows.map(|row| row.as_chunks::<LANES>().0);
        for ((((x, a), b), c), d) in x.as_chunks::<LANES>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            let x = load(x);
            for (sums, row) in sums.iter_mut().zip([a, b, c, d]) {
                prefetch(row, distance);
                let row = load(row);
                *sums = [
                    _mm256_fmadd_ps(row[0], x[0], sums[0]),
                    _mm256_fmadd_ps(row[1], x[1], sums[1]),
                ];
            }
        }
        finish(sums)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn f16(rows: [&[f16]; ROWS], x: &[f32]) -> [f32; ROWS] {
        let mut sums: Sums = [[_mm256_setzero_ps(); 2]; ROWS];
        let distance = ROWS * size_of_val(rows[0]);
        let [a, b, c, d] = rows.map(|row| bytemuck::cast_slice::<f16, u8>(row).as_chunks::<32>().0);
        for ((((x, a), b), c), d) in x.as_chunks::<LANES>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            let x = load(x);
            for (sums, row) in sums.iter_mut().zip([a, b, c, d]) {
                prefetch(row, distance);
                let [low, high]: [[u8; 16]; 2] = bytemuck::cast(*row);
                let (low, high) = (_mm256_cvtph_ps(words(&low)), _mm256_cvtph_ps(words(&high)));
                *sums = [_mm256_fmadd_ps(low, x[0], sums[0]), _mm256_fmadd_ps(high, x[1], sums[1])];
            }
        }
        finish(sums)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn int8(rows: [&[i8]; ROWS], x: &[f32]) -> [f32; ROWS] {
        let mut sums: Sums = [[_mm256_setzero_ps(); 2]; ROWS];
        let distance = ROWS * size_of_val(rows[0]);
        let [a, b, c, d] = rows.map(|row| bytemuck::cast_slice::<i8, u8>(row).as_chunks::<16>().0);
        for ((((x, a), b), c), d) in x.as_chunks::<LANES>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            let x = load(x);
            for (sums, row) in sums.iter_mut().zip([a, b, c, d]) {
                prefetch(row, distance);
                let [low, high]: [i64; 2] = bytemuck::cast(*row);
                let float =
                    |bytes: i64| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_set_epi64x(0, bytes)));
                *sums = [
                    _mm256_fmadd_ps(float(low), x[0], sums[0]),
                    _mm256_fmadd_ps(float(high), x[1], sums[1]),
                ];
            }
        }
        finish(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_and_instructions_agree() {
        let len = 176;
        let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 64.0;
        let x: Vec<f32> = (0..len).map(|i| value(i + 7)).collect();
        let int8: Vec<Vec<i8>> = (0..ROWS)
            .map(|r| (0..len).map(|i| (value(i * 3 + r) * 64.0) as i8).collect())
            .collect();
        let halves: Vec<Vec<f16>> =
            int8.iter().map(|row| row.iter().map(|&w| f16::from_f32(w.into())).collect()).collect();
        let floats: Vec<Vec<f32>> =
            int8.iter().map(|row| row.iter().map(|&w| w.into()).collect()).collect();
        for instructions in [Instructions::Plain, Instructions::of(Tier::best())] {
            let sums = instructions.f32(std::array::from_fn(|r| &*floats[r]), &x);
            assert_eq!(sums, instructions.f16(std::array::from_fn(|r| &*halves[r]), &x));
            assert_eq!(sums, instructions.int8(std::array::from_fn(|r| &*int8[r]), &x));
            for (row, sum) in floats.iter().zip(sums) {
                let exact: f64 =
                    row.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let size: f64 = row.iter().zip(&x).map(|(w, x)| f64::from((w * x).abs())).sum();
                // Each of 16 chains of 11 terms, and a tree of 4 levels.
                assert!((f64::from(sum) - exact).abs() <= 15.0 * 2.0_f64.powi(-24) * size);
            }
        }
    }
}
