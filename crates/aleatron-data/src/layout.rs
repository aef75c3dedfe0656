//! The shapes of samples: the order of their axes, and whether they fit a network.

use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use std::fmt;
use std::str::FromStr;

/// The order of the axes of samples in an array. As text: `nchw` or `nhwc`, in any case.
///
/// ```
/// use aleatron_data::Layout;
/// assert_eq!("NHWC".parse::<Layout>()?, Layout::ChannelsLast);
/// # Ok::<(), aleatron_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// The axes are those of the network: channels, rows, columns.
    #[default]
    ChannelsFirst,
    /// Rows, columns, channels: the last axis becomes the first one when samples are read.
    ChannelsLast,
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "nchw" => Ok(Self::ChannelsFirst),
            "nhwc" => Ok(Self::ChannelsLast),
            _ => Err(Error::Layout(text.to_owned())),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChannelsFirst => "nchw",
            Self::ChannelsLast => "nhwc",
        })
    }
}

/// The axes of stored samples whose last one becomes the first one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transposition {
    positions: usize,
    channels: usize,
}

impl Layout {
    /// Returns the shape of samples, and how stored samples are transposed, if they are.
    pub(crate) fn apply(
        self,
        stored: &[usize],
        name: &str,
    ) -> Result<(Vec<usize>, Option<Transposition>)> {
        match (self, stored) {
            (Self::ChannelsFirst, stored) => Ok((stored.to_vec(), None)),
            (Self::ChannelsLast, [axes @ .., channels]) if !axes.is_empty() => {
                let transposition =
                    Transposition { positions: axes.iter().product(), channels: *channels };
                Ok(([&[*channels], axes].concat(), Some(transposition)))
            }
            (Self::ChannelsLast, stored) => {
                let reason = format!(
                    "samples of shape {stored:?} have no axis of channels, which nhwc needs"
                );
                Err(Error::Format { file: name.to_owned(), reason })
            }
        }
    }
}

impl Transposition {
    /// Returns whole samples with the last axis as the first one.
    pub(crate) fn apply(&self, values: &[f64]) -> Result<Vec<f64>> {
        let mut transposed = memory::with_capacity(values.len() as u128, Quantity::Samples)?;
        for sample in values.chunks_exact((self.positions * self.channels).max(1)) {
            for channel in 0..self.channels {
                transposed.extend(sample.iter().skip(channel).step_by(self.channels));
            }
        }
        Ok(transposed)
    }
}

/// Checks that samples of a shape are those that a network takes. Samples and networks without axes
/// take elements in the order in which they are, and axes of size 1 make no difference.
pub(crate) fn check_shape(name: &str, actual: &[usize], expected: &[usize]) -> Result<()> {
    let long =
        |shape: &[usize]| shape.iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
    let (own, network) = (long(actual), long(expected));
    let elements =
        |shape: &[usize]| shape.iter().fold(1_u128, |n, &size| n.saturating_mul(size as u128));
    let is_flat = actual.len() == 1 || expected.len() == 1;
    if own == network || (is_flat && elements(actual) == elements(expected)) {
        return Ok(());
    }
    let axes = permutation(actual, expected);
    Err(Error::SampleShape {
        name: name.to_owned(),
        actual: actual.to_vec(),
        expected: expected.to_vec(),
        axes,
    })
}

/// Returns the order of the axes of `actual` that has the shape `expected`. Channels become the
/// first axis if that is enough.
fn permutation(actual: &[usize], expected: &[usize]) -> Option<Vec<usize>> {
    if actual.len() != expected.len() {
        return None;
    }
    let last = actual.len().checked_sub(1)?;
    let channels_first: Vec<usize> = std::iter::once(last).chain(0..last).collect();
    if channels_first.iter().map(|&axis| actual[axis]).eq(expected.iter().copied()) {
        return Some(channels_first);
    }
    let mut axes: Vec<usize> = Vec::new();
    for &size in expected {
        axes.push((0..actual.len()).find(|axis| actual[*axis] == size && !axes.contains(axis))?);
    }
    Some(axes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_match_by_axes_not_by_element_counts() {
        let check = |actual: &[usize], expected: &[usize]| {
            check_shape("d", actual, expected).map_err(|error| error.to_string())
        };
        for (actual, expected) in [
            (&[3, 4, 5][..], &[3, 4, 5][..]),
            (&[60], &[3, 4, 5]),
            (&[3, 4, 5], &[60]),
            (&[8, 8], &[1, 8, 8]),
            (&[8, 8, 1], &[1, 8, 8]),
        ] {
            assert_eq!(check(actual, expected), Ok(()), "{actual:?} {expected:?}");
        }
        assert_eq!(
            check(&[28, 28, 3], &[3, 28, 28]).unwrap_err(),
            "d: samples have shape [28, 28, 3], the network takes [3, 28, 28]; transpose the array with the axes \
             [0, 3, 1, 2]; --layout nhwc does that"
        );
        assert_eq!(
            check(&[5, 4, 3], &[3, 4, 5]).unwrap_err(),
            "d: samples have shape [5, 4, 3], the network takes [3, 4, 5]; transpose the array with the axes [0, 3, 2, 1]"
        );
        for actual in [&[4, 15][..], &[3, 4, 6], &[61]] {
            let error = check(actual, &[3, 4, 5]).unwrap_err();
            assert!(
                error.ends_with("or give them as rows of numbers (samples, features)"),
                "{error}"
            );
        }
    }

    #[test]
    fn channels_become_the_first_axis() {
        let (shape, transposition) = Layout::ChannelsLast.apply(&[1, 2, 3], "d").unwrap();
        assert_eq!(shape, [3, 1, 2]);
        // Two samples of two pixels of three channels.
        let values: Vec<f64> = (0..12).map(f64::from).collect();
        let expected = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0];
        assert_eq!(transposition.unwrap().apply(&values).unwrap(), expected);
        assert!(Layout::ChannelsLast.apply(&[6], "d").is_err());
        assert_eq!(Layout::ChannelsFirst.apply(&[1, 2, 3], "d").unwrap(), (vec![1, 2, 3], None));
    }
}
