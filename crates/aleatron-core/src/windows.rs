//! Windows that slide along one axis of an image: their positions, and their taps inside the image.
//!
//! Convolutions and pools have windows for the rows and for the columns.

use crate::error::{Error, Quantity, Result};
use std::ops::Range;

/// The windows along one axis: all sizes at least 1, and no window longer than the padded axis.
///
/// ```
/// use aleatron_core::windows::{Axis, Windows};
/// let windows = Windows::new(Axis { padding: [1, 1], ..Axis::new(5, 3) })?;
/// assert_eq!(windows.len(), 5);
/// assert_eq!(windows.taps(0), 1..3); // the first tap lies in the padding
/// assert_eq!(windows.at(0, 1), Some(0));
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Windows {
    axis: Axis,
    len: usize,
}

/// One axis of an image and the geometry of its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Axis {
    /// The number of positions of the image.
    pub size: usize,
    /// The number of taps of a window.
    pub kernel: usize,
    /// The distance between windows.
    pub stride: usize,
    /// The number of positions of padding before and after the image.
    pub padding: [usize; 2],
    /// The distance between taps.
    pub dilation: usize,
}

impl Axis {
    /// Creates adjacent windows of `kernel` taps at every position where they fit.
    #[must_use]
    pub const fn new(size: usize, kernel: usize) -> Self {
        Self { size, kernel, stride: 1, padding: [0, 0], dilation: 1 }
    }
}

impl Windows {
    /// The longest padded axis: kernels on devices index it with 31 bits.
    pub const MAX_SIZE: u128 = (1 << 31) - 1;

    /// Creates the windows along an axis.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for a size, kernel, stride or dilation of 0, and [`Error::TooLarge`]
    /// for a padded axis longer than [`Self::MAX_SIZE`] and for a dilated kernel longer than the
    /// padded axis.
    pub fn new(axis: Axis) -> Result<Self> {
        for (what, n) in [
            (Quantity::ImageSize, axis.size),
            (Quantity::KernelSize, axis.kernel),
            (Quantity::Stride, axis.stride),
            (Quantity::Dilation, axis.dilation),
        ] {
            if n == 0 {
                return Err(Error::Zero(what));
            }
        }
        let padded = axis.size as u128 + axis.padding[0] as u128 + axis.padding[1] as u128;
        if padded > Self::MAX_SIZE {
            return Err(Error::TooLarge {
                what: Quantity::PaddedSize,
                actual: padded,
                limit: Self::MAX_SIZE,
            });
        }
        let reach = (axis.kernel as u128 - 1) * axis.dilation as u128 + 1;
        if reach > padded {
            return Err(Error::TooLarge {
                what: Quantity::KernelSize,
                actual: reach,
                limit: padded,
            });
        }
        let len = ((padded - reach) / axis.stride as u128 + 1) as usize;
        // An unused step may have any size; as 1, it cannot overflow in loops that compute one step
        // too many.
        let stride = if len == 1 { 1 } else { axis.stride };
        let dilation = if axis.kernel == 1 { 1 } else { axis.dilation };
        Ok(Self { axis: Axis { stride, dilation, ..axis }, len })
    }

    /// Returns the axis. The stride of a single window is normalized to 1, and so is the dilation
    /// of a single tap.
    #[must_use]
    pub const fn axis(&self) -> &Axis {
        &self.axis
    }

    /// Returns the number of windows, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns the position of a window's first tap, which may lie in the padding: below 0, or at
    /// the size or after it.
    #[must_use]
    pub const fn begin(&self, window: usize) -> i64 {
        // The padded axis is below 2^31, and windows begin on it.
        (window * self.axis.stride) as i64 - self.axis.padding[0] as i64
    }

    /// Returns the taps of a window inside the image.
    #[must_use]
    pub fn taps(&self, window: usize) -> Range<usize> {
        let (begin, step) = (self.begin(window), self.axis.dilation as i64);
        // The taps before the position: as many as fit into the distance, rounded up.
        let before = |position: i64| {
            ((position - begin).max(0) as usize).div_ceil(step as usize).min(self.axis.kernel)
        };
        before(0)..before(self.axis.size as i64)
    }

    /// Returns the position of a window's tap; `None` in the padding.
    #[must_use]
    pub fn at(&self, window: usize, tap: usize) -> Option<usize> {
        let position = self.begin(window) + (tap * self.axis.dilation) as i64;
        usize::try_from(position).ok().filter(|&position| position < self.axis.size)
    }

    /// Returns the number of taps inside the image of all windows.
    #[must_use]
    pub fn total_taps(&self) -> usize {
        (0..self.len).map(|window| self.taps(window).len()).sum()
    }

    /// Iterates over runs of windows that have the same taps inside the image.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = (next < self.len).then_some(next)?;
            let taps = self.taps(first);
            next = (first..self.len).find(|&window| self.taps(window) != taps).unwrap_or(self.len);
            Some(first..next)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn taps_match_positions_inside_image(
            size in 1usize..12, kernel in 1usize..6, stride in 1usize..5, before in 0usize..8, after in 0usize..8,
            dilation in 1usize..4,
        ) {
            let axis = Axis { size, kernel, stride, padding: [before, after], dilation };
            let reach = (kernel - 1) * dilation + 1;
            let Ok(windows) = Windows::new(axis) else {
                prop_assert!(reach > size + before + after);
                return Ok(());
            };
            // Windows begin at every stride as long as their last tap is on the padded axis.
            let fitting = (0..).step_by(stride).take_while(|begin| begin + reach <= size + before + after).count();
            prop_assert_eq!(windows.len(), fitting);
            let mut total = 0;
            for window in 0..windows.len() {
                let inside: Vec<usize> = (0..kernel).filter(|&tap| {
                    let position = (window * stride + tap * dilation) as i64 - before as i64;
                    let at = windows.at(window, tap);
                    assert_eq!(at.is_some(), (0..size as i64).contains(&position));
                    assert!(at.is_none_or(|at| at as i64 == position));
                    at.is_some()
                }).collect();
                total += inside.len();
                prop_assert_eq!(windows.taps(window).len(), inside.len());
                prop_assert_eq!(windows.taps(window).collect::<Vec<_>>(), inside);
            }
            prop_assert_eq!(windows.total_taps(), total);
            let runs: Vec<Range<usize>> = windows.runs().collect();
            prop_assert_eq!(runs.concat_len(), windows.len());
            for run in runs {
                prop_assert!(run.clone().all(|window| windows.taps(window) == windows.taps(run.start)));
            }
        }
    }

    trait ConcatLen {
        fn concat_len(&self) -> usize;
    }

    impl ConcatLen for Vec<Range<usize>> {
        fn concat_len(&self) -> usize {
            self.iter().map(Range::len).sum()
        }
    }

    #[test]
    fn invalid_windows_are_rejected() {
        let zero = |what| Err(Error::Zero(what));
        assert_eq!(Windows::new(Axis::new(0, 1)), zero(Quantity::ImageSize));
        assert_eq!(Windows::new(Axis::new(1, 0)), zero(Quantity::KernelSize));
        assert_eq!(Windows::new(Axis { stride: 0, ..Axis::new(3, 2) }), zero(Quantity::Stride));
        assert_eq!(Windows::new(Axis { dilation: 0, ..Axis::new(3, 2) }), zero(Quantity::Dilation));
        let long = |axis| match Windows::new(axis) {
            Err(Error::TooLarge { what, actual, limit }) => (what, actual, limit),
            other => panic!("{other:?}"),
        };
        assert_eq!(long(Axis::new(3, 4)), (Quantity::KernelSize, 4, 3));
        assert_eq!(long(Axis { dilation: 3, ..Axis::new(6, 3) }), (Quantity::KernelSize, 7, 6));
        let (most, huge) = (usize::MAX, u128::from(u64::MAX));
        assert_eq!(long(Axis { dilation: most, ..Axis::new(6, most) }).0, Quantity::KernelSize);
        let padded = long(Axis { padding: [most, most], ..Axis::new(most, 1) });
        assert_eq!(padded, (Quantity::PaddedSize, 3 * huge, Windows::MAX_SIZE));
        // A stride past the end leaves the first window.
        assert_eq!(Windows::new(Axis { stride: most, ..Axis::new(6, 3) }).unwrap().len(), 1);
    }

    #[test]
    fn unused_steps_do_not_overflow() {
        let most = usize::MAX;
        let axis = Axis { stride: most, dilation: most, padding: [2, 0], ..Axis::new(1, 1) };
        let windows = Windows::new(Axis { stride: 1, ..axis }).unwrap();
        // The tap and the window after the last are those with which loops end.
        assert_eq!([windows.at(0, 1), windows.at(1, 1), windows.at(3, 1)], [None, Some(0), None]);
        let single = Windows::new(Axis { stride: most, dilation: 2, kernel: 2, ..axis }).unwrap();
        assert_eq!((single.len(), single.begin(1), single.at(1, 1)), (1, -1, None));
        assert_eq!(*single.axis(), Axis { stride: 1, dilation: 2, kernel: 2, ..axis });
    }
}
