//! Windows that move over spatial axes: sizes, and the input elements of each tap.

use aleatron_tensor::{DType, Device, PadMode, Scalar, Slice, Tensor};

use super::array::len;
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

/// Returns one number per axis; 1 if none are given.
fn per_axis(name: &str, numbers: &[i64], rank: usize) -> Result<Vec<usize>> {
    if numbers.is_empty() {
        return Ok(vec![1; rank]);
    }
    if numbers.len() != rank {
        return Err(Error::attribute(
            name,
            numbers,
            format!("one for each of {rank} axes is needed"),
        ));
    }
    numbers.iter().map(|&number| size(number, name)).collect()
}

impl Geometry {
    /// Returns the geometry of a window over `input`. `kernel` is the size if the window does not
    /// define it.
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
        if let Some(zero) = [&strides, &dilations].into_iter().find(|numbers| numbers.contains(&0))
        {
            return Err(Error::attribute(
                "strides or dilations",
                zero,
                "positive numbers are needed",
            ));
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
                        (geometry.begins[axis], geometry.ends[axis]) =
                            (pads[axis], pads[rank + axis]);
                    }
                }
                Padding::Valid => {}
                Padding::SameUpper | Padding::SameLower => {
                    let total =
                        (n.div_ceil(stride).saturating_sub(1) * stride + reach).saturating_sub(n);
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
                Rounding::Down => room / stride + 1,
                Rounding::Up => room.div_ceil(stride) + 1,
            };
            // A window that begins after the input is dropped.
            if rounding == Rounding::Up && (positions - 1) * stride >= n + geometry.begins[axis] {
                positions -= 1;
            }
            geometry.output.push(positions);
        }
        Ok(geometry)
    }

    /// Returns the window along the first spatial axis alone: along the others it has one tap.
    pub(super) fn first(&self) -> Self {
        let single = |numbers: &[usize], other: usize| {
            let mut all = vec![other; numbers.len()];
            all[..1].copy_from_slice(&numbers[..1]);
            all
        };
        let mut output = self.input.clone();
        output[..1].copy_from_slice(&self.output[..1]);
        Self {
            input: self.input.clone(),
            kernel: single(&self.kernel, 1),
            strides: single(&self.strides, 1),
            dilations: single(&self.dilations, 1),
            begins: single(&self.begins, 0),
            ends: single(&self.ends, 0),
            output,
        }
    }

    /// Returns the window without the first spatial axis.
    pub(super) fn without_first(&self) -> Self {
        let rest = |numbers: &[usize]| numbers[1..].to_vec();
        Self {
            input: rest(&self.input),
            kernel: rest(&self.kernel),
            strides: rest(&self.strides),
            dilations: rest(&self.dilations),
            begins: rest(&self.begins),
            ends: rest(&self.ends),
            output: rest(&self.output),
        }
    }

    /// Returns the extent of a window along an axis, from the first to the last tap.
    pub(crate) fn reach(&self, axis: usize) -> Result<usize> {
        let taps = self.dilations[axis].checked_mul(self.kernel[axis] - 1);
        match taps.and_then(|taps| taps.checked_add(1)).filter(|&reach| reach < 1 << 40) {
            Some(reach) => Ok(reach),
            None => Err(Error::attribute("dilations", &self.dilations, "the window is too large")),
        }
    }

    /// Calls `f` with each tap of the window: its index, and its input elements at all positions,
    /// `outside` for positions outside the input.
    pub(super) fn each_tap(
        &self,
        x: &Tensor,
        outside: Scalar,
        mut f: impl FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut around = vec![(0, 0); 2];
        for axis in 0..self.input.len() {
            // The last window may extend past the padding.
            let end = (self.output[axis].max(1) - 1) * self.strides[axis] + self.reach(axis)?;
            let after =
                end.saturating_sub(self.input[axis] + self.begins[axis]).max(self.ends[axis]);
            around.push((self.begins[axis], after));
        }
        let padded = x.pad(&around, PadMode::Constant(outside))?;
        for tap in 0..len(&self.kernel)? {
            let (mut met, mut rest) = (padded.clone(), tap);
            for axis in (0..self.kernel.len()).rev() {
                let start = rest % self.kernel[axis] * self.dilations[axis];
                rest /= self.kernel[axis];
                let span = self.output[axis]
                    .checked_sub(1)
                    .map_or(0, |last| last * self.strides[axis] + 1);
                let slice = Slice::from(start..start + span).step(self.strides[axis]);
                met = met.slice(axis as isize + 2, slice)?;
            }
            f(tap, met)?;
        }
        Ok(())
    }

    /// Returns the number of counted elements in each window.
    pub(super) fn counts(
        &self,
        padding: aleatron_tensor::Padding,
        device: &Device,
    ) -> Result<Tensor> {
        let mut counts = Tensor::ones(&vec![1; self.input.len()], DType::F32, device)?;
        for axis in 0..self.input.len() {
            let (begin, n) = (self.begins[axis], self.input[axis]);
            let inside = match padding {
                aleatron_tensor::Padding::Counted => 0..n + begin + self.ends[axis],
                aleatron_tensor::Padding::Ignored => begin..begin + n,
            };
            let of_window = |position: usize| {
                let taps = (0..self.kernel[axis])
                    .map(|k| position * self.strides[axis] + k * self.dilations[axis]);
                taps.filter(|position| inside.contains(position)).count() as f32
            };
            let along: Vec<f32> = (0..self.output[axis]).map(of_window).collect();
            let mut shape = vec![1; self.input.len()];
            shape[axis] = along.len();
            counts = counts.mul(&Tensor::from_slice(&along, &shape, device)?)?;
        }
        Ok(counts)
    }
}

/// A sum over the taps of a window.
#[derive(Default)]
pub(super) struct Sum(Option<Tensor>);

impl Sum {
    /// Adds a term.
    pub(super) fn add(&mut self, term: Tensor) -> Result<()> {
        self.0 = Some(match &self.0 {
            Some(sum) => sum.add(&term)?,
            None => term,
        });
        Ok(())
    }

    /// Returns the sum of all terms.
    ///
    /// # Errors
    /// [`Error::Attribute`] for a window without taps.
    pub(super) fn total(self) -> Result<Tensor> {
        self.0.ok_or_else(|| Error::attribute("kernel_shape", 0, "positive sizes are needed"))
    }
}

/// Returns a tensor whose elements along an axis are `stride` apart, with zeros between them,
/// `begin` after the first of `total` elements.
pub(super) fn spread(
    x: &Tensor,
    axis: usize,
    stride: usize,
    begin: usize,
    total: usize,
) -> Result<Tensor> {
    let zeros = PadMode::Constant(Scalar::Int(0));
    let n = x.shape()[axis];
    let mut apart = x.clone();
    if stride > 1 && n > 1 {
        let mut around = vec![(0, 0); x.rank() + 1];
        around[axis + 1] = (0, stride - 1);
        let mut shape = x.shape().to_vec();
        shape[axis] = len(&[n, stride])?;
        apart = x.unsqueeze(axis as isize + 1)?.pad(&around, zeros)?.reshape(&shape)?;
        apart = apart.slice(axis as isize, ..(n - 1) * stride + 1)?;
    }
    let after = total.checked_sub(begin + apart.shape()[axis]);
    let Some(after) = after else {
        return Err(Error::model(
            "window",
            format!("internal error: {total} elements along axis {axis}"),
        ));
    };
    let mut around = vec![(0, 0); x.rank()];
    around[axis] = (begin, after);
    Ok(apart.pad(&around, zeros)?)
}

/// Returns the batch, the channels and the spatial axes of a tensor.
pub(crate) fn spatial(shape: &[usize]) -> Result<(usize, usize, &[usize])> {
    match shape {
        [batch, channels, rest @ ..] if !rest.is_empty() => Ok((*batch, *channels, rest)),
        _ => Err(Error::input(
            0,
            format!("a batch, channels and spatial axes are needed, not {shape:?}"),
        )),
    }
}
