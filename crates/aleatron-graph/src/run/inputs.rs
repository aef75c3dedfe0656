//! The inputs of a node.

use aleatron_tensor::{DType, Tensor};

use crate::error::{Error, Result};

/// The inputs of a node, some of which may be missing.
pub(crate) struct Inputs<'a>(pub(crate) &'a [Option<Tensor>]);

impl<'a> Inputs<'a> {
    /// Returns a required input.
    pub(crate) fn get(&self, k: usize) -> Result<&'a Tensor> {
        self.maybe(k).ok_or_else(|| Error::input(k, "it is missing"))
    }

    /// Returns an optional input.
    pub(crate) fn maybe(&self, k: usize) -> Option<&'a Tensor> {
        self.0.get(k).and_then(Option::as_ref)
    }

    /// Iterates over the inputs that are not missing.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Tensor> {
        self.0.iter().flatten()
    }

    /// Returns the integers of an input.
    pub(crate) fn ints(&self, k: usize) -> Result<Vec<i64>> {
        ints(k, self.get(k)?)
    }

    /// Returns the integers of an optional input.
    pub(crate) fn maybe_ints(&self, k: usize) -> Result<Option<Vec<i64>>> {
        self.maybe(k).map(|tensor| ints(k, tensor)).transpose()
    }

    /// Returns the one integer of an input.
    pub(crate) fn int(&self, k: usize) -> Result<i64> {
        match self.ints(k)?.as_slice() {
            [value] => Ok(*value),
            values => Err(Error::input(k, format!("one number is needed, not {}", values.len()))),
        }
    }

    /// Returns the one float of an input.
    pub(crate) fn float(&self, k: usize) -> Result<f32> {
        match floats(self.get(k)?)?.as_slice() {
            [value] => Ok(*value),
            values => Err(Error::input(k, format!("one number is needed, not {}", values.len()))),
        }
    }
}

fn ints(k: usize, tensor: &Tensor) -> Result<Vec<i64>> {
    match tensor.dtype() {
        DType::I64 => Ok(tensor.to_vec::<i64>()?),
        DType::I32 => Ok(tensor.to_vec::<i32>()?.into_iter().map(i64::from).collect()),
        other => Err(Error::input(k, format!("integers are needed, not {other}"))),
    }
}

/// Returns the elements of a tensor of floats.
pub(crate) fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    match tensor.dtype() {
        DType::F32 => Ok(tensor.to_vec::<f32>()?),
        DType::F16 => {
            Ok(tensor.to_vec::<half::f16>()?.into_iter().map(half::f16::to_f32).collect())
        }
        other => Err(Error::input(0, format!("floats are needed, not {other}"))),
    }
}

/// Resolves an axis; negative numbers count from the end.
pub(crate) fn axis(number: i64, rank: usize) -> Result<usize> {
    let from_start = if number < 0 { number.checked_add(rank as i64) } else { Some(number) };
    match from_start.and_then(|axis| usize::try_from(axis).ok()) {
        Some(axis) if axis < rank => Ok(axis),
        _ => Err(Error::attribute("axis", number, format!("the tensor has rank {rank}"))),
    }
}

/// Resolves axes, in ascending order; each may occur once.
pub(crate) fn axes(numbers: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut axes = numbers.iter().map(|&number| axis(number, rank)).collect::<Result<Vec<_>>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::attribute("axes", numbers, "an axis is named twice"));
    }
    Ok(axes)
}

/// Converts a number of a file to a size.
pub(crate) fn size(number: i64, what: &str) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| Error::attribute(what, number, "a number from 0 on is needed"))
}
