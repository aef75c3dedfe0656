//! Linear-feedback shift registers: Fibonacci form, shifting left.

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// Taps that give the longest cycle, for widths 3 to 32.
const MAXIMAL: [&[u32]; 30] = [
    &[3, 2],
    &[4, 3],
    &[5, 3],
    &[6, 5],
    &[7, 6],
    &[8, 6, 5, 4],
    &[9, 5],
    &[10, 7],
    &[11, 9],
    &[12, 6, 4, 1],
    &[13, 4, 3, 1],
    &[14, 5, 3, 1],
    &[15, 14],
    &[16, 15, 13, 4],
    &[17, 14],
    &[18, 11],
    &[19, 6, 2, 1],
    &[20, 17],
    &[21, 19],
    &[22, 21],
    &[23, 18],
    &[24, 23, 22, 17],
    &[25, 22],
    &[26, 6, 2, 1],
    &[27, 5, 2, 1],
    &[28, 25],
    &[29, 27],
    &[30, 6, 4, 1],
    &[31, 28],
    &[32, 22, 2, 1],
];

/// A shift register: the new low bit is the XOR of the tapped bits, the first output is the seed,
/// and 0 never occurs.
///
/// ```
/// use aleatron_core::generator::{Lfsr, Width};
/// let lfsr = Lfsr::with_taps(Width::EIGHT, &[8, 6, 5, 4], 1)?;
/// assert_eq!(lfsr, Lfsr::new(Width::EIGHT, 1)?);
/// assert_eq!(lfsr.values().take(6).collect::<Vec<_>>(), [1, 2, 4, 8, 17, 35]);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lfsr {
    width: Width,
    /// Bit t - 1 is set for tap t.
    mask: u32,
    seed: u32,
}

impl Lfsr {
    /// The narrowest register.
    pub const MIN_WIDTH: u32 = 3;

    /// Creates a register with the cycle of `2^W - 1` states.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] for a width below 3, and [`Error::Zero`] or [`Error::TooLarge`]
    /// for the seed.
    pub fn new(width: Width, seed: u32) -> Result<Self> {
        let index = width.bits().checked_sub(Self::MIN_WIDTH);
        match index.and_then(|index| MAXIMAL.get(index as usize)) {
            Some(taps) => Self::with_taps(width, taps, seed),
            None => Err(too_narrow(width)),
        }
    }

    /// Creates a register with the given taps, counted from 1 at the low end. The highest must be
    /// the width, otherwise states would be lost. The caller chooses taps with the longest cycle.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] for a width below 3; [`Error::Zero`], [`Error::TooLarge`],
    /// [`Error::RepeatedTap`] or [`Error::MissingTap`] for the taps; [`Error::Zero`] or
    /// [`Error::TooLarge`] for the seed.
    pub fn with_taps(width: Width, taps: &[u32], seed: u32) -> Result<Self> {
        if width.bits() < Self::MIN_WIDTH {
            return Err(too_narrow(width));
        }
        let mut mask = 0_u32;
        for &tap in taps {
            if tap == 0 {
                return Err(Error::Zero(Quantity::LfsrTap));
            }
            if tap > width.bits() {
                let limit = width.bits().into();
                return Err(Error::TooLarge { what: Quantity::LfsrTap, actual: tap.into(), limit });
            }
            if mask >> (tap - 1) & 1 == 1 {
                return Err(Error::RepeatedTap { tap });
            }
            mask |= 1 << (tap - 1);
        }
        if mask >> (width.bits() - 1) == 0 {
            return Err(Error::MissingTap { width: width.bits() });
        }
        match u64::from(seed) {
            0 => Err(Error::Zero(Quantity::LfsrSeed)),
            state if state >= width.one() => Err(Error::TooLarge {
                what: Quantity::LfsrSeed,
                actual: state.into(),
                limit: u128::from(width.one()) - 1,
            }),
            _ => Ok(Self { width, mask, seed }),
        }
    }

    /// Returns the width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the first state.
    #[must_use]
    pub const fn seed(&self) -> u32 {
        self.seed
    }

    /// Returns the taps, highest first.
    pub fn taps(&self) -> impl Iterator<Item = u32> + use<> {
        let mask = self.mask;
        (1..=Width::MAX).rev().filter(move |tap| mask >> (tap - 1) & 1 == 1)
    }

    /// Returns the state after `state`.
    #[inline]
    const fn step(&self, state: u32) -> u32 {
        let full = (self.width.one() - 1) as u32;
        (state << 1 | (state & self.mask).count_ones() & 1) & full
    }

    /// Returns an endless iterator over the integers.
    #[must_use]
    pub const fn values(&self) -> LfsrValues {
        LfsrValues { lfsr: *self, state: self.seed }
    }

    /// Returns the same register, started `steps` steps later, in the time of `log2(steps)` small
    /// products.
    ///
    /// ```
    /// use aleatron_core::generator::{Lfsr, Width};
    /// let lfsr = Lfsr::new(Width::new(16)?, 44_257)?;
    /// assert_eq!(Some(lfsr.advanced(1000).seed()), lfsr.values().nth(1000));
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    #[must_use]
    pub fn advanced(&self, mut steps: u64) -> Self {
        let mut power = self.matrix();
        let mut state = self.seed;
        while steps > 0 {
            if steps & 1 == 1 {
                state = apply(&power, state);
            }
            power = squared(&power);
            steps >>= 1;
        }
        Self { seed: state, ..*self }
    }

    /// Iterates over the same register, started at each of the states up to `within` steps before
    /// and after its seed.
    pub(super) fn around(&self, within: usize) -> impl Iterator<Item = Self> + '_ {
        // The highest bit is part of the parity, since the highest tap is the width: its value is
        // the parity of the other tapped bits.
        let before = |state: u32| {
            let rest = state >> 1;
            rest | (state ^ (rest & self.mask).count_ones()) << 31 >> (32 - self.width.bits())
        };
        let earlier = std::iter::successors(Some(self.seed), move |&state| Some(before(state)));
        let states = earlier.take(within + 1).chain(self.values().take(within + 1));
        states.map(|state| Self { seed: state, ..*self })
    }

    /// Returns the matrix of a step, which is linear over GF(2): column b is the image of the state
    /// with only bit b set.
    fn matrix(&self) -> Matrix {
        std::array::from_fn(|b| self.step(1 << b))
    }

    /// Creates the register of the longest cycle from the state `seed`.
    pub(super) fn from_parameter(seed: u32, width: Width) -> Result<Self> {
        Self::new(width, seed)
    }

    /// Returns the number of states of the longest cycle.
    pub(super) const fn period(&self) -> u64 {
        self.width.one() - 1
    }

    /// Returns the register `index` golden sections of the longest cycle further on.
    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        Ok(self.advanced(self.sections(index)))
    }

    /// Returns the number of steps of `index` golden sections of the longest cycle.
    fn sections(&self, index: usize) -> u64 {
        let cycle = u128::from(self.width.one() - 1);
        // 2^64 / golden ratio
        let section = (cycle * 0x9e37_79b9_7f4a_7c15) >> 64;
        (index as u128 * section % cycle) as u64
    }

    /// Returns the number of steps between this register's seed and the seed of `other`, in either
    /// direction, if it is at most `within` and the registers have the same taps.
    #[must_use]
    pub fn distance(&self, other: &Self, within: usize) -> Option<usize> {
        if (self.width, self.mask) != (other.width, other.mask) {
            return None;
        }
        let states = within.saturating_add(1);
        let forwards = self.values().take(states).position(|state| state == other.seed);
        let backwards = other.values().take(states).position(|state| state == self.seed);
        [forwards, backwards].into_iter().flatten().min()
    }
}

impl fmt::Display for Lfsr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taps = self.taps().map(|tap| tap.to_string()).collect::<Vec<_>>().join(",");
        write!(f, "LFSR {} bits, taps {taps}, seed {}", self.width.bits(), self.seed)
    }
}

fn too_narrow(width: Width) -> Error {
    Error::TooSmall {
        what: Quantity::Width,
        actual: width.bits().into(),
        limit: Lfsr::MIN_WIDTH.into(),
    }
}

/// A linear map of states, by columns.
type Matrix = [u32; 32];

/// Applies the linear map to a state.
fn apply(columns: &Matrix, state: u32) -> u32 {
    let set = columns.iter().enumerate().filter(|(b, _)| state >> b & 1 == 1);
    set.fold(0, |sum, (_, column)| sum ^ column)
}

/// Composes the linear map with itself.
fn squared(columns: &Matrix) -> Matrix {
    columns.map(|column| apply(columns, column))
}

/// A register with the maps of 1, 2, 4, … steps, computed once for all registers that [`Lfsr::nth`]
/// gives.
#[derive(Debug, Clone)]
pub(super) struct LfsrPowers {
    lfsr: Lfsr,
    powers: Vec<Matrix>,
}

impl LfsrPowers {
    pub(super) fn new(lfsr: Lfsr) -> Self {
        // A cycle has fewer than 2^W steps.
        let powers = std::iter::successors(Some(lfsr.matrix()), |power| Some(squared(power)));
        Self { lfsr, powers: powers.take(lfsr.width.bits() as usize).collect() }
    }

    /// Returns the same register as [`Lfsr::nth`].
    pub(super) fn nth(&self, index: usize) -> Lfsr {
        let steps = self.lfsr.sections(index);
        let taken = self.powers.iter().enumerate().filter(|(i, _)| steps >> i & 1 == 1);
        Lfsr {
            seed: taken.fold(self.lfsr.seed, |state, (_, power)| apply(power, state)),
            ..self.lfsr
        }
    }
}

/// The states of an [`Lfsr`].
#[derive(Debug, Clone)]
pub struct LfsrValues {
    lfsr: Lfsr,
    state: u32,
}

impl Iterator for LfsrValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let state = self.state;
        self.state = self.lfsr.step(state);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_yields_neighbours_in_the_cycle() -> Result<()> {
        for bits in 3..=9 {
            let lfsr = Lfsr::new(Width::new(bits)?, 1)?;
            let n = lfsr.period() as usize;
            let cycle: Vec<u32> = lfsr.values().take(n).collect();
            for (k, &seed) in cycle.iter().enumerate() {
                let found: Vec<u32> =
                    Lfsr { seed, ..lfsr }.around(3).map(|near| near.seed).collect();
                let expected =
                    [0, 1, 2, 3].map(|steps| [cycle[(k + n - steps) % n], cycle[(k + steps) % n]]);
                let expected =
                    [expected.map(|[before, _]| before), expected.map(|[_, after]| after)].concat();
                assert_eq!(found, expected, "{bits} bits, state {seed}");
            }
        }
        Ok(())
    }
}
