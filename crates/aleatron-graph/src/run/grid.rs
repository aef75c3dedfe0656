//! Samples of an image at the positions of a grid.

use aleatron_tensor::{DType, Scalar, Tensor};

use super::array::len;
use super::inputs::Inputs;
use super::window::spatial;
use crate::error::{Error, Result};
use crate::op::{Interpolation, PadModeOfGrid};

/// A neighbour of all positions along one axis.
struct Tap {
    /// The index, clamped to the axis.
    index: Tensor,
    /// Whether the index was inside.
    is_inside: Tensor,
    weight: Tensor,
}

/// The sampling of an axis.
struct Sampler {
    interpolation: Interpolation,
    edge: PadModeOfGrid,
    /// Whether -1 and 1 are the centres of the outermost elements rather than their edges.
    align_corners: bool,
    /// The length of the axis.
    size: usize,
}

pub(super) fn sample(
    inputs: &Inputs<'_>,
    interpolation: Interpolation,
    edge: PadModeOfGrid,
    align_corners: bool,
) -> Result<Tensor> {
    let (x, grid) = (inputs.get(0)?, inputs.get(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let rank = input.len();
    let fits =
        grid.rank() == rank + 2 && grid.shape()[0] == batch && grid.shape()[rank + 1] == rank;
    if !fits {
        return Err(Error::input(
            1,
            format!("a grid {:?} for shape {:?}", grid.shape(), x.shape()),
        ));
    }
    let output = &grid.shape()[1..=rank];
    let (plane, positions) = (len(input)?, len(output)?);
    let shape = [&[batch, channels], output].concat();
    if len(&shape)? == 0 || plane == 0 {
        return Ok(Tensor::zeros(&shape, x.dtype(), &x.device())?);
    }
    let grid = grid.cast(DType::F32)?.reshape(&[batch, 1, positions, rank])?;
    let image = x.cast(DType::F32)?.reshape(&[batch, channels, plane])?;
    let mut axes = Vec::with_capacity(rank);
    for (axis, &size) in input.iter().enumerate() {
        // The grid names the last axis first.
        axes.push(
            Sampler { interpolation, edge, align_corners, size }
                .taps(&grid.select(3, rank - 1 - axis)?)?,
        );
    }
    let mut sum = Tensor::zeros(&[], DType::F32, &x.device())?;
    for choice in 0..axes.iter().map(Vec::len).product() {
        let mut rest = choice;
        let chosen = axes.iter().map(|taps| {
            let tap = &taps[rest % taps.len()];
            rest /= taps.len();
            tap
        });
        let mut joined: Option<Tap> = None;
        for (tap, &size) in chosen.zip(input) {
            joined = Some(match joined {
                None => Tap {
                    index: tap.index.clone(),
                    is_inside: tap.is_inside.clone(),
                    weight: tap.weight.clone(),
                },
                Some(outer) => Tap {
                    index: outer.index.mul(Scalar::Int(size as i64))?.add(&tap.index)?,
                    is_inside: outer.is_inside.and(&tap.is_inside)?,
                    weight: outer.weight.mul(&tap.weight)?,
                },
            });
        }
        let Some(Tap { index, is_inside, weight }) = joined else { continue };
        let met = image.gather(2, &index)?;
        sum = sum.add(&is_inside.where_(&met.mul(&weight)?, 0.0)?)?;
    }
    Ok(sum.reshape(&shape)?.cast(x.dtype())?)
}

impl Sampler {
    /// Returns the neighbours of positions in [-1, 1], with their weights.
    fn taps(&self, at: &Tensor) -> Result<Vec<Tap>> {
        let size = self.size as f64;
        let mut x = match self.align_corners {
            true => at.add(1.0)?.div(2.0)?.mul(size - 1.0)?,
            false => at.add(1.0)?.mul(size)?.sub(1.0)?.div(2.0)?,
        };
        let is_cubic = matches!(self.interpolation, Interpolation::Cubic(_));
        if matches!(self.interpolation, Interpolation::Nearest(_)) {
            x = x.round()?;
        }
        if !is_cubic && self.edge != PadModeOfGrid::Zeros {
            x = self.inside(&x)?;
        }
        let base = x.floor()?;
        let share = x.sub(&base)?;
        let tap = |step: f64, weight: Tensor| -> Result<Tap> {
            let index = self.inside(&base.add(step)?)?.trunc()?;
            let is_inside = index.ge(0.0)?.and(&index.lt(size)?)?;
            let index = index.clip(0.0, size - 1.0)?.cast(DType::I32)?;
            Ok(Tap { index, is_inside, weight })
        };
        match self.interpolation {
            Interpolation::Nearest(_) => Ok(vec![Tap {
                weight: Tensor::ones(&[], DType::F32, &x.device())?,
                ..tap(0.0, share.clone())?
            }]),
            Interpolation::Linear => {
                Ok(vec![tap(0.0, share.neg()?.add(1.0)?)?, tap(1.0, share.clone())?])
            }
            Interpolation::Cubic(a) => {
                let near = |d: &Tensor| d.mul(a + 2.0)?.sub(a + 3.0)?.mul(d)?.mul(d)?.add(1.0);
                let far =
                    |d: &Tensor| d.mul(a)?.sub(5.0 * a)?.mul(d)?.add(8.0 * a)?.mul(d)?.sub(4.0 * a);
                let rest = share.neg()?.add(1.0)?;
                let weights =
                    [far(&share.add(1.0)?)?, near(&share)?, near(&rest)?, far(&rest.add(1.0)?)?];
                [-1.0, 0.0, 1.0, 2.0]
                    .into_iter()
                    .zip(weights)
                    .map(|(step, weight)| tap(step, weight))
                    .collect()
            }
        }
    }

    /// Maps positions outside the axis to positions inside, by the padding mode.
    fn inside(&self, x: &Tensor) -> Result<Tensor> {
        let size = self.size as f64;
        Ok(match self.edge {
            PadModeOfGrid::Zeros => x.clone(),
            PadModeOfGrid::Border => x.clip(0.0, size - 1.0)?,
            PadModeOfGrid::Reflection => {
                let (low, range) =
                    if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size) };
                match range > 0.0 {
                    false => x.mul(0.0)?,
                    true => {
                        // Positions repeat after twice the range, the second half backwards.
                        let turned = x.sub(low)?.abs()?.remainder(2.0 * range)?;
                        turned.minimum(&turned.neg()?.add(2.0 * range)?)?.add(low)?
                    }
                }
            }
        })
    }
}
