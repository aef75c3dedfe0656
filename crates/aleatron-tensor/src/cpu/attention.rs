//! Attention on the CPU: blocks of queries iterate over blocks of keys, with sums that are rescaled
//! as larger scores occur.

use super::gemm::{Beta, Matrix, gemm};
use super::parallel::for_each_item;
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::math::exp;
use crate::ops::attention::Sizes;
use crate::storage::CpuStorage;

/// Queries and keys of a block.
const QUERIES: usize = 64;
const KEYS: usize = 256;

/// The time of a multiplication and an addition, in nanoseconds.
const NANOSECONDS: f64 = 0.05;

/// A batch of matrices: the offset of each, and the strides.
struct Matrices<'a> {
    data: &'a [f32],
    starts: Vec<usize>,
    steps: [isize; 2],
}

impl<'a> Matrices<'a> {
    fn new(view: &'a CpuView) -> Result<Self> {
        let layout = &view.layout;
        let rank = layout.rank();
        let starts = layout.keep_axes(0..rank - 2).offset_list()?;
        let steps = [layout.strides()[rank - 2], layout.strides()[rank - 1]];
        Ok(Self { data: view.storage.slice::<f32>()?, starts, steps })
    }

    /// Returns a matrix, from a row on.
    fn at_row(&self, batch: usize, row: usize) -> Matrix<'a> {
        let [row_step, column_step] = self.steps;
        Matrix { data: self.data, offset: self.starts[batch], row_step, column_step }.at_row(row)
    }
}

/// Computes the attention of a non-empty batch of 32-bit floats. The mask is added to the scores.
pub(crate) fn run(
    sizes: &Sizes,
    [q, k, v]: [&CpuView; 3],
    mask: Option<&CpuView>,
) -> Result<CpuStorage> {
    let Sizes { queries, keys, lengths: [length, value_length], .. } = *sizes;
    let [q, k, v] = [Matrices::new(q)?, Matrices::new(k)?, Matrices::new(v)?];
    let mask = mask.map(Matrices::new).transpose()?;
    let batch = q.starts.len();
    filled(DType::F32, batch * queries * value_length, |buffer| {
        let parts = buffer.slice_mut::<f32>()?.chunks_mut(queries * value_length).enumerate();
        let blocks: Vec<_> = parts
            .flat_map(|(index, out)| {
                let blocks = out.chunks_mut(QUERIES * value_length).enumerate();
                blocks.map(move |(block, out)| (index, block * QUERIES, out))
            })
            .collect();
        let work = batch as f64 * queries as f64 * keys as f64 * (length + value_length) as f64;
        for_each_item(blocks, work * NANOSECONDS, |(index, first, out)| {
            let mask = mask.as_ref().map(|mask| mask.at_row(index, first));
            let matrices = [q.at_row(index, first), k.at_row(index, 0), v.at_row(index, 0)];
            block(sizes, first, matrices, mask, out)
        })
    })
}

/// Computes a block of queries from query `first` on.
fn block(
    sizes: &Sizes,
    first: usize,
    [q, k, v]: [Matrix<'_>; 3],
    mask: Option<Matrix<'_>>,
    out: &mut [f32],
) -> Result<()> {
    let Sizes { keys, lengths: [length, value_length], sees_past, scale, .. } = *sizes;
    let rows = out.len() / value_length;
    let mut scores = vec![0.0f32; rows * KEYS];
    let (mut most, mut sums) = (vec![f32::NEG_INFINITY; rows], vec![0.0f32; rows]);
    out.fill(0.0);
    for start in (0..keys).step_by(KEYS) {
        let count = KEYS.min(keys - start);
        // No query of this block sees these keys, nor any later ones.
        if start as i64 > (first + rows - 1) as i64 + sees_past {
            break;
        }
        gemm([rows, length, count], q, k.at_row(start).t(), Beta::Overwrite, &mut scores, KEYS)?;
        for (row, scores) in scores.chunks_mut(KEYS).enumerate() {
            let scores = &mut scores[..count];
            for (column, score) in scores.iter_mut().enumerate() {
                *score *= scale;
                if let Some(mask) = mask {
                    let offset = mask.at_row(row).offset as isize
                        + (start + column) as isize * mask.column_step;
                    *score += mask.data[offset as usize];
                }
                if (start + column) as i64 > (first + row) as i64 + sees_past {
                    *score = f32::NEG_INFINITY;
                }
            }
            let larger = scores
                .iter()
                .fold(most[row], |most, &score| if score > most { score } else { most });
            // Before the first key there is nothing to scale.
            let shift = if larger == f32::NEG_INFINITY { 0.0 } else { larger };
            let factor = if most[row] == f32::NEG_INFINITY { 0.0 } else { exp(most[row] - shift) };
            let mut sum = 0.0;
            for score in scores.iter_mut() {
                *score = if *score == f32::NEG_INFINITY { 0.0 } else { exp(*score - shift) };
                sum += *score;
            }
            sums[row] = sums[row] * factor + sum;
            most[row] = larger;
            let out = &mut out[row * value_length..(row + 1) * value_length];
            out.iter_mut().for_each(|out| *out *= factor);
        }
        let weights = Matrix { data: &scores, offset: 0, row_step: KEYS as isize, column_step: 1 };
        gemm(
            [rows, count, value_length],
            weights,
            v.at_row(start),
            Beta::Accumulate,
            out,
            value_length,
        )?;
    }
    for (out, &sum) in out.chunks_mut(value_length).zip(&sums) {
        if sum != 0.0 {
            out.iter_mut().for_each(|out| *out /= sum);
        }
    }
    Ok(())
}
