//! Samples of an image at places that a grid names.

use aleatron_tensor::Tensor;

use super::array::{Array, each_place, len};
use super::inputs::Inputs;
use super::resize::cubic;
use super::window::spatial;
use crate::error::{Error, Result};
use crate::op::{Interpolation, PadModeOfGrid};

pub(super) fn sample(
    inputs: &Inputs<'_>,
    interpolation: Interpolation,
    edge: PadModeOfGrid,
    align_corners: bool,
) -> Result<Tensor> {
    let (x, grid) = (inputs.get(0)?, inputs.get(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let rank = input.len();
    let fits = grid.rank() == rank + 2 && grid.shape()[0] == batch && grid.shape()[rank + 1] == rank;
    if !fits {
        return Err(Error::input(1, format!("a grid {:?} for shape {:?}", grid.shape(), x.shape())));
    }
    let output = &grid.shape()[1..=rank];
    let (plane, positions) = (len(input)?, len(output)?);
    let (image, places) = (Array::floats(x)?, Array::floats(grid)?);
    let mut out = Array::<f32>::full(&[&[batch, channels], output].concat(), 0.0)?;
    for b in 0..batch {
        for p in 0..positions {
            let place = &places.data[(b * positions + p) * rank..][..rank];
            // The grid names the last axis first.
            let axes: Vec<Vec<(Option<usize>, f64)>> = (0..rank)
                .map(|axis| {
                    let at = f64::from(place[rank - 1 - axis]);
                    taps(at, input[axis], interpolation, edge, align_corners)
                })
                .collect();
            let counts: Vec<usize> = axes.iter().map(Vec::len).collect();
            for channel in 0..channels {
                let elements = &image.data[(b * channels + channel) * plane..][..plane];
                let mut sum = 0.0;
                each_place(&counts, |at| {
                    let (mut element, mut weight) = (Some(0), 1.0);
                    for (axis, &k) in at.iter().enumerate() {
                        let (index, share) = axes[axis][k];
                        element = element.zip(index).map(|(all, index)| all * input[axis] + index);
                        weight *= share;
                    }
                    if let Some(element) = element {
                        sum += weight * f64::from(elements[element]);
                    }
                });
                out.data[(b * channels + channel) * positions + p] = sum as f32;
            }
        }
    }
    out.tensor_as(x.dtype())
}

/// The elements of an axis near a place in [-1, 1], with their weights; `None` for one outside.
fn taps(
    at: f64,
    n: usize,
    interpolation: Interpolation,
    edge: PadModeOfGrid,
    align_corners: bool,
) -> Vec<(Option<usize>, f64)> {
    let size = n as f64;
    let (low, high) = if align_corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
    let mut x = match align_corners {
        true => (at + 1.0) / 2.0 * (size - 1.0),
        false => ((at + 1.0) * size - 1.0) / 2.0,
    };
    if interpolation == Interpolation::Nearest {
        x = x.round_ties_even();
    }
    if interpolation != Interpolation::Cubic && !(low..=high).contains(&x) {
        x = match edge {
            PadModeOfGrid::Zeros => x,
            PadModeOfGrid::Border => x.clamp(0.0, (size - 1.0).max(0.0)),
            PadModeOfGrid::Reflection => reflect(x, low, high),
        };
    }
    let element = |index: f64| -> Option<usize> {
        let index = match edge {
            PadModeOfGrid::Zeros => index,
            PadModeOfGrid::Border => index.clamp(0.0, (size - 1.0).max(0.0)),
            PadModeOfGrid::Reflection => reflect(index, low, high).trunc(),
        };
        (0.0..size).contains(&index).then_some(index as usize)
    };
    let base = x.floor();
    let share = x - base;
    match interpolation {
        Interpolation::Nearest => vec![(element(x.round_ties_even()), 1.0)],
        Interpolation::Linear => vec![(element(base), 1.0 - share), (element(base + 1.0), share)],
        Interpolation::Cubic => (-1..3)
            .map(|k| {
                let k = f64::from(k);
                (element(base + k), cubic((k - share).abs(), -0.75))
            })
            .collect(),
    }
}

/// A place thrown back at the borders until it is inside.
fn reflect(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 || !x.is_finite() {
        return low.max(0.0);
    }
    let beyond = if x < low {
        low - x
    } else if x > high {
        x - high
    } else {
        return x;
    };
    let turns = (beyond / range).floor();
    let rest = beyond - turns * range;
    let is_even = turns % 2.0 == 0.0;
    match (x < low, is_even) {
        (true, true) | (false, false) => low + rest,
        (true, false) | (false, true) => high - rest,
    }
}
