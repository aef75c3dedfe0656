//! Attention and rotary positions.

use aleatron_tensor::{DType, Tensor};

use super::array::{Array, len};
use super::inputs::{Inputs, size};
use super::shape;
use crate::error::{Error, Result};
use crate::op::{Attention, ShownScores};

/// Heads on an axis of their own: (batch, heads, length, head).
fn apart(x: &Tensor, heads: Option<i64>, input: usize) -> Result<Tensor> {
    match *x.shape() {
        [_, _, _, _] => Ok(x.clone()),
        [batch, length, features] => {
            let heads = size(heads.unwrap_or(0), "heads")?;
            if heads == 0 || features % heads != 0 {
                return Err(Error::input(input, format!("{features} features in {heads} heads")));
            }
            Ok(x.reshape(&[batch, length, heads, features / heads])?.permute(&[0, 2, 1, 3])?)
        }
        _ => Err(Error::input(input, format!("rank 3 or 4 is needed, not {:?}", x.shape()))),
    }
}

/// A tensor behind another along the axis of time.
fn appended(past: Option<&Tensor>, new: Tensor) -> Result<Tensor> {
    match past {
        None => Ok(new),
        Some(past) => shape::concat(&Inputs(&[Some(past.clone()), Some(new)]), 2),
    }
}

pub(super) fn attention(inputs: &Inputs<'_>, attention: &Attention, n_outputs: usize) -> Result<Vec<Tensor>> {
    let query = inputs.get(0)?;
    let dtype = query.dtype();
    let is_joined = query.rank() == 3;
    let q = apart(query, attention.query_heads, 0)?;
    let keys = appended(inputs.maybe(4), apart(inputs.get(1)?, attention.key_heads, 1)?)?;
    let values = appended(inputs.maybe(5), apart(inputs.get(2)?, attention.key_heads, 2)?)?;
    let (q, k, v) = (Array::floats(&q)?, Array::floats(&keys)?, Array::floats(&values)?);
    let (&[batch, heads, n, head], &[_, key_heads, m, key_head], &[_, value_heads, m2, value_head]) =
        (q.shape.as_slice(), k.shape.as_slice(), v.shape.as_slice())
    else {
        return Err(Error::input(0, "rank 3 or 4 is needed"));
    };
    let fits = head == key_head
        && m == m2
        && key_heads == value_heads
        && key_heads > 0
        && heads % key_heads == 0
        && k.shape[0] == batch
        && v.shape[0] == batch;
    if !fits {
        return Err(Error::input(
            1,
            format!("queries {:?}, keys {:?}, values {:?}", q.shape, k.shape, v.shape),
        ));
    }
    let past = inputs.maybe(4).map_or(0, |past| past.shape().get(2).copied().unwrap_or(0));
    let lengths = inputs.maybe_ints(6)?;
    if lengths.as_ref().is_some_and(|lengths| lengths.len() != batch) {
        return Err(Error::input(6, format!("{batch} lengths are needed")));
    }
    let mask = Mask::read(inputs.maybe(3), [batch, heads, n, m])?;
    let scale = attention.scale.map_or(1.0 / (head as f64).sqrt(), f64::from);
    let softcap = f64::from(attention.softcap);
    let per_key = heads / key_heads;
    let mut out = Array::<f32>::full(&[batch, heads, n, value_head], 0.0)?;
    let mut shown = Array::<f32>::full(&if n_outputs > 3 { [batch, heads, n, m] } else { [0; 4] }, 0.0)?;
    let mut scores = vec![0.0_f64; m];
    for b in 0..batch {
        // How many keys come before the first query.
        let offset = match &lengths {
            Some(lengths) if inputs.maybe(4).is_none() => lengths[b] - n as i64,
            _ => past as i64,
        };
        for h in 0..heads {
            let key_row = (b * key_heads + h / per_key) * m;
            for i in 0..n {
                let row = ((b * heads + h) * n + i) * head;
                let q = &q.data[row..row + head];
                let mut show = |scores: &[f64], step: ShownScores| {
                    if n_outputs > 3 && attention.shown == step {
                        let first = ((b * heads + h) * n + i) * m;
                        let target = &mut shown.data[first..first + m];
                        target.iter_mut().zip(scores).for_each(|(target, score)| *target = *score as f32);
                    }
                };
                for (j, score) in scores.iter_mut().enumerate() {
                    let k = &k.data[(key_row + j) * head..][..head];
                    *score = scale * q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
                }
                show(&scores, ShownScores::Product);
                if softcap > 0.0 {
                    scores.iter_mut().for_each(|score| *score = (*score / softcap).tanh() * softcap);
                }
                show(&scores, ShownScores::Capped);
                for (j, score) in scores.iter_mut().enumerate() {
                    let distance = i as i64 + offset - j as i64;
                    let is_seen = !(attention.causal && distance < 0)
                        && attention.left_window.is_none_or(|left| distance <= left)
                        && attention.right_window.is_none_or(|right| -distance <= right)
                        && lengths.as_ref().is_none_or(|lengths| (j as i64) < lengths[b]);
                    *score = if is_seen { *score + mask.at(b, h, i, j) } else { f64::NEG_INFINITY };
                }
                show(&scores, ShownScores::Masked);
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let shift = if largest == f64::NEG_INFINITY { 0.0 } else { largest };
                let mut total = 0.0;
                for score in &mut scores {
                    *score = (*score - shift).exp();
                    total += *score;
                }
                // A query that sees no key gets zeros.
                let total = if total == 0.0 { 1.0 } else { total };
                scores.iter_mut().for_each(|score| *score /= total);
                show(&scores, ShownScores::Weights);
                for d in 0..value_head {
                    let sum: f64 =
                        (0..m).map(|j| scores[j] * f64::from(v.data[(key_row + j) * value_head + d])).sum();
                    out.data[((b * heads + h) * n + i) * value_head + d] = sum as f32;
                }
            }
        }
    }
    let mut y = out.tensor_as(dtype)?;
    if is_joined {
        y = y.permute(&[0, 2, 1, 3])?.reshape(&[batch, n, len(&[heads, value_head])?])?;
    }
    let mut made = vec![y, keys, values];
    if n_outputs > 3 {
        made.push(shown.tensor_as(dtype)?);
    }
    Ok(made)
}

/// What is added to scores; keys past its end are not seen.
struct Mask {
    array: Option<Array<f32>>,
}

impl Mask {
    fn read(mask: Option<&Tensor>, [batch, heads, n, m]: [usize; 4]) -> Result<Self> {
        let Some(mask) = mask else { return Ok(Self { array: None }) };
        let mut array = match mask.dtype() {
            DType::Bool => {
                let seen = Array::<bool>::read(mask)?;
                let data = seen.data.iter().map(|&seen| if seen { 0.0 } else { f32::NEG_INFINITY }).collect();
                Array { shape: seen.shape, data }
            }
            _ => Array::floats(mask)?,
        };
        while array.shape.len() < 4 {
            array.shape.insert(0, 1);
        }
        let fits = |have: usize, want: usize| have == want || have == 1;
        let [b, h, i, j] = array.shape.as_slice() else {
            return Err(Error::input(3, format!("a mask of rank {}", array.shape.len())));
        };
        if !fits(*b, batch) || !fits(*h, heads) || !fits(*i, n) || *j > m {
            return Err(Error::input(3, format!("a mask {:?} for {:?}", array.shape, [batch, heads, n, m])));
        }
        Ok(Self { array: Some(array) })
    }

    fn at(&self, b: usize, h: usize, i: usize, j: usize) -> f64 {
        let Some(array) = &self.array else { return 0.0 };
        let mut place = 0;
        for (axis, at) in [b, h, i].into_iter().enumerate() {
            let n = array.shape[axis];
            place = place * n + if n == 1 { 0 } else { at };
        }
        match j < array.shape[3] {
            true => f64::from(array.data[place * array.shape[3] + j]),
            false => f64::NEG_INFINITY,
        }
    }
}

pub(super) fn rotary(inputs: &Inputs<'_>, interleaved: bool, heads: i64, rotated: i64) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let array = Array::floats(&apart(x, Some(heads), 0)?)?;
    let &[batch, n_heads, n, head] = array.shape.as_slice() else {
        return Err(Error::input(0, "rank 3 or 4 is needed"));
    };
    let rotated = match size(rotated, "rotary_embedding_dim")? {
        0 => head,
        rotated => rotated,
    };
    let half = rotated / 2;
    let (cos, sin) = (Array::floats(inputs.get(1)?)?, Array::floats(inputs.get(2)?)?);
    let fault =
        || Error::input(1, format!("angles {:?} for shape {:?}, {rotated} rotated", cos.shape, array.shape));
    if rotated > head || rotated % 2 != 0 || cos.shape != sin.shape || cos.shape.last() != Some(&half) {
        return Err(fault());
    }
    let positions = inputs.maybe_ints(3)?;
    let row = |b: usize, i: usize| -> Result<usize> {
        let row = match &positions {
            Some(positions) => {
                positions.get(b * n + i).and_then(|&row| usize::try_from(row).ok()).ok_or_else(fault)?
            }
            None => b * n + i,
        };
        if (row + 1) * half > cos.data.len() { Err(fault()) } else { Ok(row * half) }
    };
    let mut out = array.clone();
    for b in 0..batch {
        for i in 0..n {
            let angles = row(b, i)?;
            for h in 0..n_heads {
                let first = ((b * n_heads + h) * n + i) * head;
                for k in 0..half {
                    let (p, q) = if interleaved { (2 * k, 2 * k + 1) } else { (k, half + k) };
                    let (c, s) = (f64::from(cos.data[angles + k]), f64::from(sin.data[angles + k]));
                    let (a, d) = (f64::from(array.data[first + p]), f64::from(array.data[first + q]));
                    out.data[first + p] = (c * a - s * d) as f32;
                    out.data[first + q] = (s * a + c * d) as f32;
                }
            }
        }
    }
    let y = out.tensor_as(x.dtype())?;
    if x.rank() == 3 {
        return Ok(y.permute(&[0, 2, 1, 3])?.reshape(x.shape())?);
    }
    Ok(y)
}
