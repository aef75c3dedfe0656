//! Attention and rotary positions.

use aleatron_tensor::{AttentionOptions, Causality, DType, Device, PadMode, Scalar, Tensor};

use super::array::len;
use super::inputs::{Inputs, size};
use super::shape;
use crate::error::{Error, Result};
use crate::op::{Attention, ShownScores};

/// Splits heads into a separate axis: (batch, heads, length, head).
fn split_heads(x: &Tensor, heads: Option<i64>, input: usize) -> Result<Tensor> {
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

/// Appends a tensor along the axis of time.
fn appended(past: Option<&Tensor>, new: Tensor) -> Result<Tensor> {
    match past {
        None => Ok(new),
        Some(past) => shape::concat(&Inputs(&[Some(past.clone()), Some(new)]), 2),
    }
}

pub(super) fn attention(
    inputs: &Inputs<'_>,
    attention: &Attention,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let query = inputs.get(0)?;
    let q = split_heads(query, attention.query_heads, 0)?;
    let keys = appended(inputs.maybe(4), split_heads(inputs.get(1)?, attention.key_heads, 1)?)?;
    let values = appended(inputs.maybe(5), split_heads(inputs.get(2)?, attention.key_heads, 2)?)?;
    let (&[batch, heads, n, head], &[_, key_heads, m, key_head], &[_, value_heads, m2, value_head]) =
        (q.shape(), keys.shape(), values.shape())
    else {
        return Err(Error::input(0, "rank 3 or 4 is needed"));
    };
    let fits = head == key_head
        && m == m2
        && key_heads == value_heads
        && key_heads > 0
        && heads % key_heads == 0
        && keys.shape()[0] == batch
        && values.shape()[0] == batch;
    if !fits {
        return Err(Error::input(
            1,
            format!(
                "queries {:?}, keys {:?}, values {:?}",
                q.shape(),
                keys.shape(),
                values.shape()
            ),
        ));
    }
    // Heads that share keys are on a separate axis.
    let groups = [key_heads, heads / key_heads];
    let grouped = q.reshape(&[batch, groups[0], groups[1], n, head])?;
    let (k, v) = (keys.unsqueeze(2)?, values.unsqueeze(2)?);
    let past = inputs.maybe(4).map_or(0, |past| past.shape().get(2).copied().unwrap_or(0));
    let lengths = inputs.maybe_ints(6)?;
    if lengths.as_ref().is_some_and(|lengths| lengths.len() != batch) {
        return Err(Error::input(6, format!("{batch} lengths are needed")));
    }
    let mask =
        inputs.maybe(3).map(|mask| grouped_mask(mask, [batch, heads, n, m], groups)).transpose()?;
    let scale = attention.scale.map_or(1.0 / (head as f64).sqrt(), f64::from);
    let visible = Visible {
        attention,
        lengths: lengths.as_deref(),
        past,
        has_past: inputs.maybe(4).is_some(),
    };
    let causality = visible.as_causality(n, m);
    let is_whole = attention.softcap <= 0.0 && n_outputs < 4 && value_head <= LONGEST_VALUE;
    let (y, shown) = match causality {
        Some(causality) if is_whole => {
            let options = AttentionOptions { mask: mask.as_ref(), causality, scale: Some(scale) };
            (grouped.attention(&k, &v, &options)?, None)
        }
        _ => {
            let seen = visible.as_mask(batch, n, m, &q.device())?;
            by_scores([&grouped, &k, &v], mask.as_ref(), seen.as_ref(), scale, attention)?
        }
    };
    let mut y = y.cast(query.dtype())?.reshape(&[batch, heads, n, value_head])?;
    if query.rank() == 3 {
        y = y.permute(&[0, 2, 1, 3])?.reshape(&[batch, n, len(&[heads, value_head])?])?;
    }
    let mut made = vec![y, keys, values];
    if let Some(shown) = shown.filter(|_| n_outputs > 3) {
        made.push(shown.reshape(&[batch, heads, n, m])?.cast(query.dtype())?);
    }
    Ok(made)
}

/// The longest value that the attention of tensors supports on every device.
const LONGEST_VALUE: usize = 512;

/// The keys that a query attends to, by its position.
struct Visible<'a> {
    attention: &'a Attention,
    /// The keys of each sample.
    lengths: Option<&'a [i64]>,
    /// The keys before those of the node.
    past: usize,
    has_past: bool,
}

impl Visible<'_> {
    /// Returns the equivalent causality of tensors, if there is one.
    fn as_causality(&self, n: usize, m: usize) -> Option<Causality> {
        let Attention { causal, left_window, right_window, .. } = *self.attention;
        match causal {
            _ if self.lengths.is_some() || left_window.is_some() || right_window.is_some() => None,
            false => Some(Causality::None),
            true if self.past == 0 => Some(Causality::FromFirst),
            true if m.checked_sub(n) == Some(self.past) => Some(Causality::FromLast),
            true => None,
        }
    }

    /// Returns whether each query attends to each key, as booleans that are broadcast to the
    /// scores; `None` if all queries attend to all keys.
    fn as_mask(&self, batch: usize, n: usize, m: usize, device: &Device) -> Result<Option<Tensor>> {
        let numbers = |n: usize| -> Result<Tensor> {
            Ok(Tensor::arange(0, i64::try_from(n).unwrap_or(i64::MAX), 1, DType::I32, device)?)
        };
        let (queries, keys) = (numbers(n)?.unsqueeze(1)?, numbers(m)?);
        let narrow = |number: i64| number.clamp(i32::MIN.into(), i32::MAX.into());
        let of_samples = |numbers: Vec<i64>| -> Result<Tensor> {
            let numbers: Vec<i32> =
                numbers.into_iter().map(|number| narrow(number) as i32).collect();
            Ok(Tensor::from_slice(&numbers, &[batch, 1, 1, 1, 1], device)?)
        };
        // The number of keys before the first query.
        let distance = match self.lengths {
            Some(lengths) if !self.has_past => {
                let before =
                    lengths.iter().map(|&length| length.saturating_sub(n as i64)).collect();
                queries.add(&of_samples(before)?)?.sub(&keys)?
            }
            _ => queries.add(Scalar::Int(narrow(self.past as i64)))?.sub(&keys)?,
        };
        let mut conditions = Vec::new();
        if self.attention.causal {
            conditions.push(distance.ge(Scalar::Int(0))?);
        }
        if let Some(left) = self.attention.left_window {
            conditions.push(distance.le(Scalar::Int(narrow(left)))?);
        }
        if let Some(right) = self.attention.right_window {
            conditions.push(distance.ge(Scalar::Int(narrow(right.saturating_neg())))?);
        }
        if let Some(lengths) = self.lengths {
            conditions.push(keys.lt(&of_samples(lengths.to_vec())?)?);
        }
        let mut all = conditions.into_iter();
        let first = all.next();
        first.map(|first| all.try_fold(first, |seen, next| Ok(seen.and(&next)?))).transpose()
    }
}

/// Computes attention with all scores, and returns the scores after the requested step.
fn by_scores(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    seen: Option<&Tensor>,
    scale: f64,
    attention: &Attention,
) -> Result<(Tensor, Option<Tensor>)> {
    let wide = |x: &Tensor| x.cast(DType::F32);
    let mut shown = None;
    let mut show = |scores: &Tensor, step: ShownScores| {
        if attention.shown == step {
            shown = Some(scores.clone());
        }
    };
    let mut scores = wide(q)?.matmul(&wide(k)?.transpose(-1, -2)?)?.mul(scale)?;
    show(&scores, ShownScores::Product);
    if attention.softcap > 0.0 {
        scores = scores.div(attention.softcap)?.tanh()?.mul(attention.softcap)?;
    }
    show(&scores, ShownScores::Capped);
    match mask {
        Some(mask) if mask.dtype() == DType::Bool => {
            scores = mask.where_(&scores, f64::NEG_INFINITY)?
        }
        Some(mask) => scores = scores.add(&wide(mask)?)?,
        None => {}
    }
    if let Some(seen) = seen {
        scores = seen.where_(&scores, f64::NEG_INFINITY)?;
    }
    show(&scores, ShownScores::Masked);
    if scores.is_empty() {
        return Ok((scores.matmul(&wide(v)?)?, shown));
    }
    // A query that sees no key gets zeros.
    let is_blind = scores.max_keepdim(-1)?.eq(f64::NEG_INFINITY)?;
    let weights = is_blind.where_(0.0, &scores.softmax(&[-1])?)?;
    show(&weights, ShownScores::Weights);
    Ok((weights.matmul(&wide(v)?)?, shown))
}

/// Returns a mask with the axes of grouped heads; keys past its end are masked.
fn grouped_mask(
    mask: &Tensor,
    [batch, heads, n, m]: [usize; 4],
    groups: [usize; 2],
) -> Result<Tensor> {
    let mut mask = mask.clone();
    while mask.rank() < 4 {
        mask = mask.unsqueeze(0)?;
    }
    let &[b, h, i, j] = mask.shape() else {
        return Err(Error::input(3, format!("a mask of rank {}", mask.rank())));
    };
    let fits = |have: usize, want: usize| have == want || have == 1;
    if !fits(b, batch) || !fits(h, heads) || !fits(i, n) || j > m {
        return Err(Error::input(
            3,
            format!("a mask {:?} for {:?}", mask.shape(), [batch, heads, n, m]),
        ));
    }
    if j < m {
        let unseen = match mask.dtype() {
            DType::Bool => Scalar::Bool(false),
            _ => Scalar::Float(f64::NEG_INFINITY),
        };
        mask = mask.pad(&[(0, 0), (0, 0), (0, 0), (0, m - j)], PadMode::Constant(unseen))?;
    }
    let [shared, own] = if h == 1 { [1, 1] } else { groups };
    Ok(mask.reshape(&[b, shared, own, i, m])?)
}

pub(super) fn rotary(
    inputs: &Inputs<'_>,
    interleaved: bool,
    heads: i64,
    rotated: i64,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let wide = split_heads(x, Some(heads), 0)?.cast(DType::F32)?;
    let &[batch, _, n, head] = wide.shape() else {
        return Err(Error::input(0, "rank 3 or 4 is needed"));
    };
    let rotated = match size(rotated, "rotary_embedding_dim")? {
        0 => head,
        rotated => rotated,
    };
    let half = rotated / 2;
    let (cos, sin) = (inputs.get(1)?, inputs.get(2)?);
    let fault = || {
        Error::input(
            1,
            format!("angles {:?} for shape {:?}, {rotated} rotated", cos.shape(), wide.shape()),
        )
    };
    let fits = rotated <= head && rotated % 2 == 0 && cos.shape() == sin.shape();
    if !fits || cos.shape().last() != Some(&half) || half == 0 {
        return Err(fault());
    }
    let rows = cos.len() / half;
    let angles = |table: &Tensor| -> Result<Tensor> {
        let table = table.cast(DType::F32)?.reshape(&[rows, half])?;
        let own = match inputs.maybe(3) {
            Some(positions) if positions.len() == batch * n => {
                // A negative position would count from the end.
                let outside =
                    positions.lt(Scalar::Int(0))?.where_(Scalar::Int(rows as i64), positions)?;
                table.index_select(0, &outside.reshape(&[batch * n])?)?
            }
            None if batch * n <= rows => table.slice(0, ..batch * n)?,
            _ => return Err(fault()),
        };
        Ok(own.reshape(&[batch, 1, n, half])?)
    };
    let (cos, sin) = (angles(cos)?, angles(sin)?);
    let (turned, rest) = (wide.slice(-1, ..rotated)?, wide.slice(-1, rotated..)?);
    let (a, b) = match interleaved {
        true => {
            let pairs = turned.reshape(&[&wide.shape()[..3], &[half, 2]].concat())?;
            (pairs.select(-1, 0)?, pairs.select(-1, 1)?)
        }
        false => (turned.slice(-1, ..half)?, turned.slice(-1, half..)?),
    };
    let (a, b) = (a.mul(&cos)?.sub(&b.mul(&sin)?)?, a.mul(&sin)?.add(&b.mul(&cos)?)?);
    let turned = match interleaved {
        true => Tensor::stack(&[&a, &b], -1)?.reshape(turned.shape())?,
        false => Tensor::concat(&[&a, &b], -1)?,
    };
    let y = Tensor::concat(&[&turned, &rest], -1)?.cast(x.dtype())?;
    if x.rank() == 3 {
        return Ok(y.permute(&[0, 2, 1, 3])?.reshape(x.shape())?);
    }
    Ok(y)
}
