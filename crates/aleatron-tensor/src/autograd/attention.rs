//! The gradient of attention.

use super::node::attach;
use crate::dtype::{DType, Kind};
use crate::error::Result;
use crate::ops::{AttentionOptions, Causality};
use crate::tensor::Tensor;

/// Records an attention. The backward pass computes the scores again; unlike the forward pass it
/// stores them as a whole.
pub(crate) fn attention(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    options: &AttentionOptions<'_>,
) -> Result<Tensor> {
    const OP: &str = "attention";
    let [q, k, v] = [queries, keys, values].map(Tensor::detach);
    let mask = options.mask.map(Tensor::detach);
    let causality = options.causality;
    let output = q.attention(&k, &v, &AttentionOptions { mask: mask.as_ref(), ..*options })?;
    let scale = options.scale.unwrap_or(1.0 / (q.shape()[q.rank() - 1].max(1) as f64).sqrt());
    let mut inputs = vec![queries, keys, values];
    inputs.extend(options.mask);
    let tracked: Vec<bool> = inputs.iter().map(|input| input.is_tracked()).collect();
    Ok(attach(OP, &inputs, &output, move |g| {
        if g.is_empty() || k.is_empty() {
            let zeros = |(x, &is_tracked): (&Tensor, &bool)| {
                is_tracked.then(|| Tensor::zeros(x.shape(), x.dtype(), &x.device())).transpose()
            };
            return [&q, &k, &v].into_iter().chain(&mask).zip(&tracked).map(zeros).collect();
        }
        let [g, q, k, v] = [g, &q, &k, &v].map(|x| x.cast(DType::F32));
        let (g, q, k, v) = (g?, q?, k?, v?);
        let p = probabilities(&q.matmul(&k.t()?)?.mul(scale)?, mask.as_ref(), causality)?;
        let d_v = tracked[2].then(|| p.t()?.matmul(&g)).transpose()?;
        // The gradient of the scores.
        let d_p = g.matmul(&v.t()?)?;
        let d_s = p.mul(&d_p.sub(&d_p.mul(&p)?.sum_keepdim(-1)?)?)?;
        let d_q = tracked[0].then(|| d_s.matmul(&k)?.mul(scale)).transpose()?;
        let d_k = tracked[1].then(|| d_s.t()?.matmul(&q)?.mul(scale)).transpose()?;
        let mut gradients = vec![d_q, d_k, d_v];
        gradients.extend(tracked.get(3).map(|is_tracked| is_tracked.then(|| d_s.clone())));
        Ok(gradients)
    }))
}

/// Returns the weights of the values: zeros for a query that sees no key.
fn probabilities(scores: &Tensor, mask: Option<&Tensor>, causality: Causality) -> Result<Tensor> {
    let mut scores = scores.clone();
    if let Some(mask) = mask {
        scores = match mask.dtype().kind() {
            Kind::Bool => mask.where_(&scores, f64::NEG_INFINITY)?,
            _ => scores.add(mask)?,
        };
    }
    let (queries, keys) =
        (scores.shape()[scores.rank() - 2] as i64, scores.shape()[scores.rank() - 1] as i64);
    let sees_past = match causality {
        Causality::None => None,
        Causality::FromFirst => Some(0),
        Causality::FromLast => Some(keys - queries),
    };
    if let Some(sees_past) = sees_past {
        let numbers = |n: i64| Tensor::arange(0, n, 1, DType::I32, &scores.device());
        let is_seen = numbers(keys)?.le(&numbers(queries)?.add(sees_past)?.unsqueeze(1)?)?;
        scores = is_seen.where_(&scores, f64::NEG_INFINITY)?;
    }
    let most = scores.max_keepdim(-1)?;
    // NaN stays, so that it reaches the gradient.
    let shift = most.eq(f64::NEG_INFINITY)?.where_(0.0, &most)?;
    let exponentials = scores.sub(&shift)?.exp()?;
    let sum = exponentials.sum_keepdim(-1)?;
    exponentials.div(&sum.eq(0.0)?.where_(1.0, &sum)?)
}
