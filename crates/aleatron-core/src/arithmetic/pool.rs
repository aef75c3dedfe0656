//! Pooling: reduces each window of an image to one number, in the inter-layer arithmetic.

use std::ops::Range;

use crate::error::{Error, Quantity, Result};
use crate::memory;
use crate::windows::{Axis, Windows};

/// The reduction of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The mean.
    Average,
    /// The maximum.
    Max,
}

/// How an average treats padding; a maximum ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Border {
    /// Padding is excluded: the mean is that of the positions inside the image.
    #[default]
    Excluded,
    /// Padding is zeros: the mean is that of the whole window.
    Zeros,
}

/// The parameters of a pool, which [`PoolShape::new`] checks.
///
/// ```
/// use aleatron_core::arithmetic::{Pool, PoolKind, PoolShape};
/// let halves = PoolShape::new(Pool::new(PoolKind::Max, [2, 2]), [1, 2, 4])?;
/// assert_eq!(halves.floats(&[1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0])?, [4.0, 8.0]);
/// let global = PoolShape::new(Pool::global(PoolKind::Average, [2, 2]), [1, 2, 2])?;
/// assert_eq!(global.integers(&[1, 2, 3, 4])?, [3]); // 2.5, rounded half up
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The reduction of a window.
    pub kind: PoolKind,
    /// The rows and columns of a window.
    pub window: [usize; 2],
    /// The rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// The rows of padding before and after the image, and the columns.
    pub padding: [[usize; 2]; 2],
    /// How an average treats the padding.
    pub border: Border,
}

impl Pool {
    /// Creates a pool of adjacent windows of rows and columns.
    #[must_use]
    pub const fn new(kind: PoolKind, window: [usize; 2]) -> Self {
        Self { kind, window, stride: window, padding: [[0, 0]; 2], border: Border::Excluded }
    }

    /// Creates a pool with one window over a whole image of rows and columns.
    #[must_use]
    pub const fn global(kind: PoolKind, size: [usize; 2]) -> Self {
        Self::new(kind, size)
    }

    /// Sets the rows and columns from one window to the next.
    #[must_use]
    pub const fn with_stride(self, stride: [usize; 2]) -> Self {
        Self { stride, ..self }
    }

    /// Sets the padding before and after the rows, and the columns.
    #[must_use]
    pub const fn with_paddings(self, padding: [[usize; 2]; 2], border: Border) -> Self {
        Self { padding, border, ..self }
    }
}

/// A pool of images of one shape with checked sizes: each window overlaps the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolShape {
    pool: Pool,
    channels: usize,
    windows: [Windows; 2],
}

impl PoolShape {
    /// Creates a pool of images of the given channels, rows and columns.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for a size or stride of 0, [`Error::TooLarge`] for a window larger
    /// than the padded image, for padding that fills a whole window, and above 2^32 positions or
    /// windows.
    pub fn new(pool: Pool, [channels, rows, columns]: [usize; 3]) -> Result<Self> {
        if channels == 0 {
            return Err(Error::Zero(Quantity::Channels));
        }
        let count = |what, sizes: [usize; 3]| {
            let n = sizes.iter().fold(1_u128, |n, &size| n.saturating_mul(size as u128));
            if n > 1 << 32 {
                Err(Error::TooLarge { what, actual: n, limit: 1 << 32 })
            } else {
                Ok(())
            }
        };
        count(Quantity::Inputs, [channels, rows, columns])?;
        let windows = |k: usize, size: usize| {
            let Pool { window, stride, padding, .. } = pool;
            let axis =
                Axis { stride: stride[k], padding: padding[k], ..Axis::new(size, window[k]) };
            let windows = Windows::new(axis)?;
            // The first window reaches furthest into the padding before the image, the last into
            // that after it.
            if [0, windows.len() - 1].into_iter().any(|window| windows.taps(window).is_empty()) {
                let (actual, limit) =
                    (padding[k][0].max(padding[k][1]) as u128, window[k] as u128 - 1);
                return Err(Error::TooLarge { what: Quantity::Padding, actual, limit });
            }
            Ok(windows)
        };
        let windows = [windows(0, rows)?, windows(1, columns)?];
        count(Quantity::Neurons, [channels, windows[0].len(), windows[1].len()])?;
        Ok(Self { pool, channels, windows })
    }

    /// Returns the parameters of the pool.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the windows along the rows and along the columns.
    #[must_use]
    pub const fn windows(&self) -> &[Windows; 2] {
        &self.windows
    }

    /// Returns the number of elements of an image.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        self.channels * self.windows[0].axis().size * self.windows[1].axis().size
    }

    /// Returns the number of windows of an image.
    #[must_use]
    pub const fn n_outputs(&self) -> usize {
        let [channels, rows, columns] = self.output();
        channels * rows * columns
    }

    /// Returns the channels, rows and columns of the result.
    #[must_use]
    pub const fn output(&self) -> [usize; 3] {
        [self.channels, self.windows[0].len(), self.windows[1].len()]
    }

    /// Pools images in f64: sums go through a window row by row, and are divided once. Of several
    /// equal maxima it returns the first.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] unless the values are whole images, and [`Error::Memory`] if the
    /// result does not fit in memory.
    pub fn floats(&self, values: &[f64]) -> Result<Vec<f64>> {
        match self.pool.kind {
            PoolKind::Average => {
                self.reduce(values, 0.0, |sum, value| sum + value, |sum, n| sum / n as f64)
            }
            PoolKind::Max => {
                let greater = |best: f64, value: f64| if value > best { value } else { best };
                self.reduce(values, f64::NEG_INFINITY, greater, |best, _| best)
            }
        }
    }

    /// Pools images in integers: a mean of k values that sum to s is `floor((2 s + k) / (2 k))`,
    /// that is, rounded half up.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] unless the values are whole images, and [`Error::Memory`] if the
    /// result does not fit in memory.
    pub fn integers(&self, values: &[i64]) -> Result<Vec<i64>> {
        match self.pool.kind {
            PoolKind::Average => {
                // Between the least and the greatest value, or 0, so that it fits again.
                let mean =
                    |sum: i128, n: usize| (2 * sum + n as i128).div_euclid(2 * n as i128) as i64;
                self.reduce(values, 0, |sum, value| sum + i128::from(value), mean)
            }
            PoolKind::Max => self.reduce(values, i64::MIN, i64::max, |best, _| best),
        }
    }

    /// Folds the values of each window from `start` with `step`, and applies `finish` to the result
    /// and the number of values.
    fn reduce<T: Copy, S: Copy>(
        &self,
        values: &[T],
        start: S,
        step: impl Fn(S, T) -> S,
        end: impl Fn(S, usize) -> T,
    ) -> Result<Vec<T>> {
        let [over_rows, over_columns] = &self.windows;
        let columns = over_columns.axis().size;
        let image = over_rows.axis().size * columns;
        let divisor = self.n_inputs();
        if !values.len().is_multiple_of(divisor) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: values.len(), divisor });
        }
        let column_ranges: Vec<_> = (0..over_columns.len())
            .map(|window| range_inside(over_columns, window))
            .collect::<Result<_>>()?;
        let are_pairs =
            column_ranges.iter().enumerate().all(|(k, inside)| *inside == (2 * k..2 * k + 2));
        let n = (values.len() / divisor) as u128 * self.n_outputs() as u128;
        let mut pooled = memory::with_capacity(n, Quantity::Value)?;
        // A row of windows goes through the image's rows together: each window still folds its
        // values in their order.
        let mut reduced = vec![start; over_columns.len()];
        for channel in values.chunks_exact(image) {
            for row in 0..over_rows.len() {
                let rows = range_inside(over_rows, row)?;
                reduced.fill(start);
                for values in
                    channel[rows.start * columns..rows.end * columns].chunks_exact(columns)
                {
                    if are_pairs {
                        // The common windows, in a loop that the compiler unrolls.
                        for (reduced, &[left, right]) in
                            reduced.iter_mut().zip(values.as_chunks().0)
                        {
                            *reduced = step(step(*reduced, left), right);
                        }
                        continue;
                    }
                    for (reduced, inside) in reduced.iter_mut().zip(&column_ranges) {
                        *reduced = values[inside.clone()]
                            .iter()
                            .fold(*reduced, |all, &value| step(all, value));
                    }
                }
                pooled.extend(reduced.iter().zip(&column_ranges).map(|(&reduced, inside)| {
                    let n = match self.pool.border {
                        Border::Excluded => rows.len() * inside.len(),
                        Border::Zeros => self.pool.window[0] * self.pool.window[1],
                    };
                    end(reduced, n)
                }));
            }
        }
        Ok(pooled)
    }
}

/// Returns the positions of a window inside the image. They are contiguous, because a pool has no
/// dilation. Fails for a window in the padding alone.
fn range_inside(windows: &Windows, window: usize) -> Result<Range<usize>> {
    let taps = windows.taps(window);
    if taps.is_empty() {
        return Ok(0..0);
    }
    let first = windows
        .at(window, taps.start)
        .ok_or(Error::Internal { place: "positions of a pool's window" })?;
    Ok(first..first + taps.len())
}
