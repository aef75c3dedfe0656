//! Windows that move over spatial axes: sizes, and which element of the input a tap meets.

use super::array::each_place;
use super::inputs::size;
use crate::error::{Error, Result};
use crate::op::{Padding, Rounding, Window};

/// A window over an input of known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) input: Vec<usize>,
    pub(crate) kernel: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) dilations: Vec<usize>,
    /// Padding before each axis.
    pub(crate) begins: Vec<usize>,
    /// Padding after each axis.
    pub(crate) ends: Vec<usize>,
    pub(crate) output: Vec<usize>,
}

/// One number per axis; 1 where none are given.
fn per_axis(name: &str, numbers: &[i64], rank: usize) -> Result<Vec<usize>> {
    if numbers.is_empty() {
        return Ok(vec![1; rank]);
    }
    if numbers.len() != rank {
        return Err(Error::attribute(name, numbers, format!("one for each of {rank} axes is needed")));
    }
    numbers.iter().map(|&number| size(number, name)).collect()
}

impl Geometry {
    /// The geometry of a window over `input`. `kernel` is the size where the window does not say it.
    pub(crate) fn new(
        window: &Window,
        input: &[usize],
        kernel: &[usize],
        rounding: Rounding,
    ) -> Result<Self> {
        let rank = input.len();
        let kernel = match window.kernel.as_slice() {
            [] => kernel.to_vec(),
            given => per_axis("kernel_shape", given, rank)?,
        };
        if kernel.len() != rank || kernel.contains(&0) {
            return Err(Error::attribute(
                "kernel_shape",
                &kernel,
                format!("{rank} positive sizes are needed"),
            ));
        }
        let strides = per_axis("strides", &window.strides, rank)?;
        let dilations = per_axis("dilations", &window.dilations, rank)?;
        if let Some(zero) = [&strides, &dilations].into_iter().find(|numbers| numbers.contains(&0)) {
            return Err(Error::attribute("strides or dilations", zero, "positive numbers are needed"));
        }
        let pads = match &window.padding {
            Padding::Explicit(pads) if !pads.is_empty() => Some(per_axis("pads", pads, 2 * rank)?),
            _ => None,
        };
        let mut geometry = Self {
            input: input.to_vec(),
            kernel,
            strides,
            dilations,
            begins: vec![0; rank],
            ends: vec![0; rank],
            output: Vec::with_capacity(rank),
        };
        for axis in 0..rank {
            let (n, stride) = (input[axis], geometry.strides[axis]);
            let reach = geometry.reach(axis)?;
            match &window.padding {
                Padding::Explicit(_) => {
                    if let Some(pads) = &pads {
                        (geometry.begins[axis], geometry.ends[axis]) = (pads[axis], pads[rank + axis]);
                    }
                }
                Padding::Valid => {}
                Padding::SameUpper | Padding::SameLower => {
                    let total = (n.div_ceil(stride).saturating_sub(1) * stride + reach).saturating_sub(n);
                    let (less, more) = (total / 2, total - total / 2);
                    (geometry.begins[axis], geometry.ends[axis]) = match window.padding {
                        Padding::SameUpper => (less, more),
                        _ => (more, less),
                    };
                }
            }
            let padded = n + geometry.begins[axis] + geometry.ends[axis];
            let Some(room) = padded.checked_sub(reach) else {
                return Err(Error::attribute(
                    "kernel_shape",
                    &geometry.kernel,
                    format!("axis {axis} has {n} elements and {} of padding", padded - n),
                ));
            };
            let mut positions = match rounding {
                Rounding::Floor => room / stride + 1,
                Rounding::Ceil => room.div_ceil(stride) + 1,
            };
            // A window that begins after the input is none.
            if rounding == Rounding::Ceil && (positions - 1) * stride >= n + geometry.begins[axis] {
                positions -= 1;
            }
            geometry.output.push(positions);
        }
        Ok(geometry)
    }

    /// From the first to the last tap of a window along an axis.
    pub(crate) fn reach(&self, axis: usize) -> Result<usize> {
        let taps = self.dilations[axis].checked_mul(self.kernel[axis] - 1);
        match taps.and_then(|taps| taps.checked_add(1)).filter(|&reach| reach < 1 << 40) {
            Some(reach) => Ok(reach),
            None => Err(Error::attribute("dilations", &self.dilations, "the window is too large")),
        }
    }

    /// Calls `f` with the place in the kernel and the place in the input of every tap of the window at `at` that meets an element.
    pub(crate) fn each_tap(&self, at: &[usize], mut f: impl FnMut(usize, usize)) {
        let mut tap = 0;
        each_place(&self.kernel, |k| {
            let mut place = Some(0_usize);
            for axis in 0..self.input.len() {
                let element = (at[axis] * self.strides[axis] + k[axis] * self.dilations[axis])
                    .checked_sub(self.begins[axis])
                    .filter(|&element| element < self.input[axis]);
                place = place.zip(element).map(|(place, element)| place * self.input[axis] + element);
            }
            if let Some(place) = place {
                f(tap, place);
            }
            tap += 1;
        });
    }

    /// The taps of the window at `at` that meet an element or its padding.
    pub(crate) fn taps_with_padding(&self, at: &[usize]) -> usize {
        let mut taps = 1;
        for (axis, &position) in at.iter().enumerate() {
            let end = self.input[axis] + self.begins[axis] + self.ends[axis];
            let start = position * self.strides[axis];
            taps *= (0..self.kernel[axis]).filter(|k| start + k * self.dilations[axis] < end).count();
        }
        taps
    }
}

/// The batch, the channels and the spatial axes of a tensor.
pub(crate) fn spatial(shape: &[usize]) -> Result<(usize, usize, &[usize])> {
    match shape {
        [batch, channels, rest @ ..] if !rest.is_empty() => Ok((*batch, *channels, rest)),
        _ => Err(Error::input(0, format!("a batch, channels and spatial axes are needed, not {shape:?}"))),
    }
}
