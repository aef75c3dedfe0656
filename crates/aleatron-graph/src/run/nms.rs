//! Non-maximum suppression of boxes.

use aleatron_tensor::{Device, Tensor};

use super::array::Array;
use super::inputs::Inputs;
use crate::error::{Error, Result};
use crate::op::BoxFormat;

/// A box by its lower and upper corner.
#[derive(Clone, Copy)]
struct Area {
    low: [f32; 2],
    high: [f32; 2],
}

impl Area {
    fn new(numbers: &[f32], format: BoxFormat) -> Self {
        let [a, b, c, d] = [numbers[0], numbers[1], numbers[2], numbers[3]];
        match format {
            // Any two opposite corners.
            BoxFormat::Corners => Self { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] },
            BoxFormat::Center => {
                Self { low: [a - c / 2.0, b - d / 2.0], high: [a + c / 2.0, b + d / 2.0] }
            }
        }
    }

    fn size(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Returns the intersection over the union.
    fn overlap(&self, other: &Self) -> f32 {
        let side = |axis: usize| {
            self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis])
        };
        let shared = side(0).max(0.0) * side(1).max(0.0);
        let union = self.size() + other.size() - shared;
        if union <= 0.0 { 0.0 } else { shared / union }
    }
}

/// Selects boxes by score, without those that overlap a better box of their class by more than the
/// threshold.
pub(super) fn suppress(inputs: &Inputs<'_>, format: BoxFormat) -> Result<Tensor> {
    let (boxes, scores) = (Array::floats(inputs.get(0)?)?, Array::floats(inputs.get(1)?)?);
    let (&[batches, n, 4], &[same, classes, n_scores]) =
        (boxes.shape.as_slice(), scores.shape.as_slice())
    else {
        let shapes = format!("boxes {:?} and scores {:?}", boxes.shape, scores.shape);
        return Err(Error::input(0, format!("{shapes}; [N, n, 4] and [N, classes, n] are needed")));
    };
    if same != batches || n_scores != n {
        let shapes = format!("scores {:?} for boxes {:?}", scores.shape, boxes.shape);
        return Err(Error::input(1, shapes));
    }
    let most = if inputs.maybe(2).is_some() { inputs.int(2)? } else { 0 };
    let threshold = |k: usize| inputs.maybe(k).map(|_| inputs.float(k)).transpose();
    let (iou, least) = (threshold(3)?.unwrap_or(0.0), threshold(4)?);
    let mut selected: Vec<i64> = Vec::new();
    for batch in 0..batches {
        let areas: Vec<Area> = boxes.data[batch * n * 4..][..n * 4]
            .chunks_exact(4)
            .map(|numbers| Area::new(numbers, format))
            .collect();
        for class in 0..classes {
            let scores = &scores.data[(batch * classes + class) * n..][..n];
            let mut order: Vec<usize> =
                (0..n).filter(|&k| least.is_none_or(|least| scores[k] > least)).collect();
            // The sort is stable: of equal scores, the first box comes first.
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let mut kept: Vec<usize> = Vec::new();
            for k in order {
                if kept.len() as i64 >= most {
                    break;
                }
                if kept.iter().all(|&better| areas[k].overlap(&areas[better]) <= iou) {
                    kept.push(k);
                }
            }
            selected.extend(kept.iter().flat_map(|&k| [batch as i64, class as i64, k as i64]));
        }
    }
    Ok(Tensor::from_slice(&selected, &[selected.len() / 3, 3], &Device::Cpu)?)
}
