//! Batches of a data set: shuffled by a seed, with simple augmentation of images.

use aleatron_core::philox::{key, philox4x32};

use crate::{Error, Result};

/// The domain in the last word of a counter: training draws from a separate domain.
const DOMAIN: u32 = 0x7472_6169;

/// The purposes of random words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draw {
    Shuffle = 0,
    Split = 1,
    Shift = 2,
    Flip = 3,
    Seed = 4,
}

/// Returns a random word as a function of its purpose and two indices.
pub(crate) fn word(seed: u64, draw: Draw, index: u64, part: u32) -> u32 {
    philox4x32([index as u32, (index >> 32) as u32, part << 8 | draw as u32, DOMAIN], key(seed))[0]
}

/// Returns a seed as a function of another seed and an index.
pub(crate) fn seed_of(seed: u64, index: u64) -> u64 {
    let [low, high] = [0, 1].map(|part| u64::from(word(seed, Draw::Seed, index, part)));
    high << 32 | low
}

/// Returns the indices `0..n` in an order that the seed and the epoch decide.
///
/// ```
/// use aleatron_train::batches::shuffled;
/// let order = shuffled(5, 7, 0);
/// let mut sorted = order.clone();
/// sorted.sort();
/// assert_eq!(sorted, [0, 1, 2, 3, 4]);
/// assert_eq!(order, shuffled(5, 7, 0));
/// ```
#[must_use]
pub fn shuffled(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    shuffled_for(Draw::Shuffle, n, seed, epoch)
}

fn shuffled_for(draw: Draw, n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let own = seed_of(seed, epoch);
    let mut order: Vec<usize> = (0..n).collect();
    // Fisher and Yates: a position is exchanged with one at or before it. The product of a 32-bit
    // word and a bound of at most 2^32 keeps the bias of a choice below 2^-32 n.
    for last in (1..n).rev() {
        let draw = u128::from(word(own, draw, last as u64, 0)) << 32
            | u128::from(word(own, draw, last as u64, 1));
        order.swap(last, (draw * (last as u128 + 1) >> 64) as usize);
    }
    order
}

/// Splits the indices `0..n` at random: a share for validation, the rest for training. Each part is
/// in ascending order.
///
/// # Errors
/// [`Error::Option`] for a share outside [0, 1), or one that leaves no sample for training.
pub fn split(n: usize, share: f64, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    if !(0.0..1.0).contains(&share) {
        return Err(Error::option(
            "validation share",
            share,
            "it must be at least 0 and less than 1",
        ));
    }
    let held = (n as f64 * share).round() as usize;
    if held >= n {
        return Err(Error::option(
            "validation share",
            share,
            "it must leave at least one sample for training",
        ));
    }
    let order = shuffled_for(Draw::Split, n, seed, 0);
    let (mut validation, mut training) = (order[..held].to_vec(), order[held..].to_vec());
    validation.sort_unstable();
    training.sort_unstable();
    Ok((training, validation))
}

/// Random changes of training images, drawn anew in every epoch. None by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Augmentation {
    /// Moves an image by up to this many pixels along both axes; the border is filled with zeros.
    pub shift: usize,
    /// Mirrors half of the images left to right.
    pub flip: Flip,
}

/// Whether images are mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flip {
    /// Images keep their direction.
    #[default]
    Never,
    /// Half of them are mirrored left to right.
    Horizontal,
}

impl Augmentation {
    /// Checks that samples of a shape can be augmented.
    pub(crate) fn check(self, shape: &[usize]) -> Result<()> {
        if self == Self::default() {
            return Ok(());
        }
        let Some([rows, columns]) = image(shape).map(|[_, rows, columns]| [rows, columns]) else {
            let expected =
                "samples must be images: rows and columns, or channels, rows and columns";
            return Err(Error::option(
                "augmentation of samples of shape",
                format!("{shape:?}"),
                expected,
            ));
        };
        if self.shift >= rows.min(columns) {
            return Err(Error::option("shift", self.shift, "it must be smaller than the image"));
        }
        Ok(())
    }

    /// Changes one sample in place; `index` is that of the sample in the data set.
    pub(crate) fn apply(
        self,
        sample: &mut [f64],
        shape: &[usize],
        seed: u64,
        epoch: u64,
        index: usize,
    ) {
        let Some([channels, rows, columns]) = image(shape) else { return };
        let own = seed_of(seed, epoch);
        let moved = |part: u32| {
            let span = 2 * self.shift as u64 + 1;
            let draw = u64::from(word(own, Draw::Shift, index as u64, part));
            (draw * span >> 32) as isize - self.shift as isize
        };
        let (down, right) = (moved(0), moved(1));
        let is_flipped =
            self.flip == Flip::Horizontal && word(own, Draw::Flip, index as u64, 0) & 1 == 1;
        if down == 0 && right == 0 && !is_flipped {
            return;
        }
        let source = sample.to_vec();
        for channel in 0..channels {
            for row in 0..rows {
                for column in 0..columns {
                    let from = row.checked_add_signed(-down).filter(|&row| row < rows);
                    let across =
                        column.checked_add_signed(-right).filter(|&column| column < columns);
                    let value = match (from, across) {
                        (Some(row), Some(column)) => {
                            let column = if is_flipped { columns - 1 - column } else { column };
                            source[(channel * rows + row) * columns + column]
                        }
                        _ => 0.0,
                    };
                    sample[(channel * rows + row) * columns + column] = value;
                }
            }
        }
    }
}

/// Returns channels, rows and columns of the shape of an image.
fn image(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [rows, columns] => Some([1, rows, columns]),
        [channels, rows, columns] => Some([channels, rows, columns]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shuffles_are_permutations_that_differ_between_epochs_and_seeds() {
        let sorted = |mut order: Vec<usize>| {
            order.sort_unstable();
            order
        };
        for n in [0, 1, 2, 100] {
            assert_eq!(sorted(shuffled(n, 3, 1)), (0..n).collect::<Vec<_>>());
        }
        assert_ne!(shuffled(100, 3, 1), shuffled(100, 3, 2));
        assert_ne!(shuffled(100, 3, 1), shuffled(100, 4, 1));
    }

    /// Of 3,000 shuffles of three, each order has 500 with a deviation of 20.4: five deviations are
    /// 102.
    #[test]
    fn shuffles_of_three_are_uniform() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..3000 {
            *counts.entry(shuffled(3, 9, epoch)).or_insert(0_i64) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| (count - 500).abs() < 102), "{counts:?}");
    }

    #[test]
    fn split_parts_are_disjoint_and_complete() {
        let (training, validation) = split(10, 0.3, 1).unwrap();
        assert_eq!((training.len(), validation.len()), (7, 3));
        let mut all = [training, validation].concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert!(
            split(10, 1.0, 1).is_err()
                && split(10, f64::NAN, 1).is_err()
                && split(1, 0.9, 1).is_err()
        );
        assert_eq!(split(3, 0.0, 1).unwrap().1, Vec::<usize>::new());
    }

    #[test]
    fn augmentation_moves_and_mirrors_whole_images() {
        let shape = [1, 3, 4];
        let image: Vec<f64> = (1..=12).map(f64::from).collect();
        let both = Augmentation { shift: 1, flip: Flip::Horizontal };
        both.check(&shape).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..400 {
            let mut sample = image.clone();
            both.apply(&mut sample, &shape, 5, 0, index);
            // Every result is one of the 18 images that these rules allow.
            let is_allowed = [false, true].iter().any(|&flipped| {
                (-1..=1).any(|down: isize| {
                    (-1..=1).any(|right: isize| {
                        let pixel = |row: isize, column: isize| {
                            let column = if flipped { 3 - column } else { column };
                            image[(row * 4 + column) as usize]
                        };
                        (0..12).all(|k: isize| {
                            let (row, column) = (k / 4 - down, k % 4 - right);
                            let inside = (0..3).contains(&row) && (0..4).contains(&column);
                            sample[k as usize] == if inside { pixel(row, column) } else { 0.0 }
                        })
                    })
                })
            });
            assert!(is_allowed, "{sample:?}");
            seen.insert(sample.iter().map(|&v| v as u32).collect::<Vec<_>>());
        }
        assert_eq!(seen.len(), 18);
        assert!(both.check(&[12]).is_err());
        assert!(Augmentation { shift: 3, ..both }.check(&shape).is_err());
        assert!(Augmentation::default().check(&[12]).is_ok());
    }
}
