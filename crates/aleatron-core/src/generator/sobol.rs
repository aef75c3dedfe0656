//! Sobol sequences with the direction numbers of Joe and Kuo, unscrambled, in Gray-code order, as
//! in SciPy and torch.

use std::sync::LazyLock;

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// Lines of `dimension degree polynomial initial-numbers` from dimension 2 on, in the layout in
/// which Joe and Kuo publish it; their licence is next to the file.
const TABLE: &str = include_str!("../../data/joe-kuo/new-joe-kuo-6.1111");

/// The table by line; line d - 1 is dimension d, and line 0 the heading.
static LINES: LazyLock<Vec<&str>> = LazyLock::new(|| TABLE.lines().collect());

/// Direction numbers per dimension, one for each bit of an index.
const DIRECTIONS: usize = 64;

/// One dimension of the Sobol sequence: `U_k = floor(2^W * u_k)`, `U_0 = 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sobol {
    dimension: u32,
    width: Width,
}

impl Sobol {
    /// The number of dimensions with direction numbers.
    pub const DIMENSIONS: u32 = 1111;

    /// Creates dimension `dimension`, counted from 1.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for dimension 0, [`Error::TooLarge`] above [`Self::DIMENSIONS`].
    pub fn new(dimension: u32, width: Width) -> Result<Self> {
        let what = Quantity::SobolDimension;
        match dimension {
            0 => Err(Error::Zero(what)),
            1..=Self::DIMENSIONS => Ok(Self { dimension, width }),
            _ => Err(Error::TooLarge {
                what,
                actual: dimension.into(),
                limit: Self::DIMENSIONS.into(),
            }),
        }
    }

    /// Returns the dimension, counted from 1.
    #[must_use]
    pub const fn dimension(&self) -> u32 {
        self.dimension
    }

    /// Returns the width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the direction number of each bit of an index, rounded down to the width: from point
    /// k to k + 1, the direction of the lowest zero bit of k is flipped.
    ///
    /// ```
    /// use aleatron_core::generator::{Sobol, Width};
    /// let sobol = Sobol::new(2, Width::EIGHT)?;
    /// assert_eq!(sobol.direction_numbers().take(3).collect::<Vec<_>>(), [0b1000_0000, 0b1100_0000, 0b1010_0000]);
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    pub fn direction_numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let shift = 64 - self.width.bits();
        directions(self.dimension).into_iter().map(move |number| (number >> shift) as u32)
    }

    /// Returns an endless iterator over the integers.
    #[must_use]
    pub fn values(&self) -> SobolValues {
        SobolValues {
            next: 0,
            point: 0,
            shift: 64 - self.width.bits(),
            directions: Box::new(directions(self.dimension)),
        }
    }

    /// Creates dimension `dimension`.
    pub(super) fn from_parameter(dimension: u32, width: Width) -> Result<Self> {
        Self::new(dimension, width)
    }

    /// Returns the number of points after which every integer has occurred once.
    pub(super) const fn period(&self) -> u64 {
        self.width.one()
    }

    /// Returns the sequence `2 * index` dimensions further on.
    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        let dimension = index as u128 * 2 + u128::from(self.dimension);
        match u32::try_from(dimension) {
            Ok(dimension) => Self::new(dimension, self.width),
            Err(_) => Err(Error::TooLarge {
                what: Quantity::SobolDimension,
                actual: dimension,
                limit: Self::DIMENSIONS.into(),
            }),
        }
    }
}

impl fmt::Display for Sobol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sobol {} bits, dimension {}", self.width.bits(), self.dimension)
    }
}

/// Returns the direction numbers of a dimension as binary fractions: number i is `m_i / 2^i`, with
/// the point before bit 63.
fn directions(dimension: u32) -> [u64; DIRECTIONS] {
    let mut v: [u64; DIRECTIONS] = std::array::from_fn(|i| 1 << (63 - i));
    // Dimension 1 has no polynomial, and all its m are 1.
    if dimension == 1 {
        return v;
    }
    let line = LINES.get(dimension as usize - 1).copied().unwrap_or_default();
    let mut fields = line.split_whitespace().skip(1).filter_map(|field| field.parse::<u64>().ok());
    let (degree, polynomial) = (fields.next().unwrap_or(0) as usize, fields.next().unwrap_or(0));
    for (i, m) in fields.take(degree).enumerate() {
        v[i] = m << (63 - i);
    }
    for i in degree..DIRECTIONS {
        v[i] = v[i - degree] ^ v[i - degree] >> degree;
        for k in 1..degree {
            if polynomial >> (degree - 1 - k) & 1 == 1 {
                v[i] ^= v[i - k];
            }
        }
    }
    v
}

/// The integers of a [`Sobol`] sequence.
#[derive(Debug, Clone)]
pub struct SobolValues {
    next: u64,
    point: u64,
    shift: u32,
    directions: Box<[u64; DIRECTIONS]>,
}

impl Iterator for SobolValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.point >> self.shift;
        // Gray code: from point k to k + 1 flip the direction of the lowest zero of k.
        self.point ^= self.directions[self.next.trailing_ones() as usize % DIRECTIONS];
        self.next = self.next.wrapping_add(1);
        Some(value as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_number_table_is_complete() {
        assert_eq!(LINES.len(), Sobol::DIMENSIONS as usize);
        for (d, line) in LINES.iter().enumerate().skip(1) {
            let fields: Vec<u64> =
                line.split_whitespace().map(|field| field.parse().unwrap()).collect();
            let (dimension, degree, polynomial, m) =
                (fields[0], fields[1], fields[2], &fields[3..]);
            assert_eq!(dimension, d as u64 + 1);
            assert_eq!(m.len(), degree as usize);
            assert!(polynomial < 1 << (degree - 1));
            assert!(
                m.iter().enumerate().all(|(i, &m)| m % 2 == 1 && m < 2 << i),
                "dimension {dimension}"
            );
        }
    }
}
