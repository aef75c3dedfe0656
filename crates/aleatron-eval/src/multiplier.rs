//! Evaluation of a pair of generators by every product of two 8-bit values.
//!
//! X and Y run over 0..=255. Their streams are the comparators `U_k < X` and `U_k < Y` of two
//! sequences, and the estimate of `XY / 65536` is the share of ones among the first L bits of their
//! AND.

use crate::Result;
use aleatron_core::generator::{CountTable, PrefixCounts, SequenceName, Warning, Width};
use aleatron_core::{
    Domain, Error as CoreError, LayerIndex, Length, Overlap, Polarity, Quantity, StreamAddress,
    memory, reference,
};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Values of one operand.
const VALUES: usize = 256;

/// The side of an [error map](MultiplierStats::map): each entry covers 4 by 4 pairs.
pub const MAP_SIDE: usize = 64;

/// The source of the streams of one operand: a sequence as in
/// [`aleatron_core::generator::GeneratorName`], or `bernoulli:SEED`, a stream of random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A shared sequence.
    Sequence(SequenceName),
    /// Random bits.
    Bernoulli {
        /// Their seed.
        seed: u64,
    },
}

/// The errors of the products of two generators at one length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MultiplierStats {
    /// The generator of X.
    pub x: String,
    /// The generator of Y.
    pub y: String,
    /// The bits of a stream.
    pub length: usize,
    /// The mean of |error|.
    pub mae: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// The mean error.
    pub bias: f64,
    /// The largest |error|.
    pub worst: f64,
    /// The mean of |SCC|.
    pub mean_scc: f64,
    /// The mean of |ZCE|.
    pub mean_zce: f64,
    /// Mean |error| of blocks of 4 by 4 pairs, [`MAP_SIDE`] rows of X by as many columns of Y.
    #[serde(skip)]
    pub map: Vec<f64>,
}

impl MultiplierStats {
    /// The longest streams that can be evaluated, in bits.
    pub const MAX_LENGTH: usize = PrefixCounts::MAX_LENGTH;

    /// Returns the errors of all products of streams of `length`.
    ///
    /// ```
    /// use aleatron_eval::multiplier::MultiplierStats;
    /// let error = MultiplierStats::of("sobol:1".parse()?, "sobol:2".parse()?, 256)?;
    /// assert_eq!(format!("{:.5} {:.5}", error.mae, error.rmse), "0.00190 0.00237");
    /// # Ok::<(), aleatron_eval::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`aleatron_core::Error`] for a length of 0 or too long for a table, or a sequence that does
    /// not exist.
    pub fn of(x: Operand, y: Operand, length: usize) -> Result<Self> {
        let length = checked_length(length)?;
        let widths = [Width::EIGHT; 2];
        let values = [x.values(length, Domain::Input)?, y.values(length, Domain::Weight)?];
        let prefixes =
            PrefixCounts::from_values(&values[0], &values[1], widths, Polarity::Unipolar)?;
        let table = CountTable::from_prefixes(&prefixes)?;
        let bits = length.bits() as f64;
        let one = Width::EIGHT.one();
        let block = VALUES / MAP_SIDE;
        let (mut sum, mut squares, mut signed, mut worst) = (0.0, 0.0, 0.0, 0.0_f64);
        let (mut scc, mut zce) = (0.0, 0.0);
        let mut map = vec![0.0; MAP_SIDE * MAP_SIDE];
        for a in 0..VALUES {
            for b in 0..VALUES {
                let (tx, ty) = (a as u64, b as u64);
                let both = table.get(tx, ty);
                let error = both as f64 / bits - (a * b) as f64 / (VALUES * VALUES) as f64;
                sum += error.abs();
                squares += error * error;
                signed += error;
                worst = worst.max(error.abs());
                map[a / block * MAP_SIDE + b / block] += error.abs() / (block * block) as f64;
                let overlap = Overlap::new(length, [table.get(tx, one), table.get(one, ty)], both)?;
                scc += overlap.scc().abs();
                zce += overlap.zce().abs();
            }
        }
        let pairs = (VALUES * VALUES) as f64;
        Ok(Self {
            x: x.to_string(),
            y: y.to_string(),
            length: length.bits(),
            mae: sum / pairs,
            rmse: (squares / pairs).sqrt(),
            bias: signed / pairs,
            worst,
            mean_scc: scc / pairs,
            mean_zce: zce / pairs,
            map,
        })
    }

    /// The heading of [`Self::csv`].
    pub const CSV_HEADING: &'static str =
        "x,y,length,mae,rmse,bias,worst,mean_abs_scc,mean_abs_zce";

    /// One line of comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let Self { x, y, length, mae, rmse, bias, worst, mean_scc, mean_zce, .. } = self;
        format!("{x},{y},{length},{mae},{rmse},{bias},{worst},{mean_scc},{mean_zce}")
    }
}

/// Checks a length before anything of its size is allocated.
fn checked_length(bits: usize) -> Result<Length> {
    let length = Length::new(bits)?;
    let (actual, limit) = (bits as u128, MultiplierStats::MAX_LENGTH as u128);
    match actual <= limit {
        true => Ok(length),
        false => Err(CoreError::TooLarge { what: Quantity::Length, actual, limit }.into()),
    }
}

impl Operand {
    /// Returns the first integers of the sequence, of eight bits each. For Bernoulli streams of
    /// 8-bit values only the top eight of their 32 bits decide: `U < X * 2^24` is `U / 2^24 < X`.
    fn values(&self, length: Length, domain: Domain) -> Result<Vec<u32>> {
        let mut values = memory::with_capacity(length.bits() as u128, Quantity::CountTable)?;
        match self {
            Self::Sequence(spec) => {
                values.extend(spec.sequence(Width::EIGHT)?.values().take(length.bits()));
            }
            Self::Bernoulli { seed } => {
                let address = StreamAddress {
                    seed: *seed,
                    domain,
                    layer: LayerIndex::ALONE,
                    row: 0,
                    unit: 0,
                };
                values.extend((0..length.bits()).map(|k| reference::uniform(address, k) >> 24));
            }
        }
        Ok(values)
    }

    /// Returns the known problems of multiplying streams of these two generators.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] for a sequence that does not exist.
    pub fn warning(&self, other: &Self) -> Result<Option<Warning>> {
        match (self, other) {
            (Self::Sequence(x), Self::Sequence(y)) => {
                Ok(Warning::of(&x.sequence(Width::EIGHT)?, &y.sequence(Width::EIGHT)?))
            }
            _ => Ok(None),
        }
    }
}

impl FromStr for Operand {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let fault = |seed: &str| {
            let reason = format!("\"{seed}\" is not a seed in 0..2^64");
            CoreError::Syntax { what: Quantity::Generator, text: text.to_owned(), reason }
        };
        match text.trim().split_once(':') {
            None if text.trim() == "bernoulli" => Ok(Self::Bernoulli { seed: 0 }),
            Some(("bernoulli", seed)) => {
                Ok(Self::Bernoulli { seed: seed.parse().map_err(|_| fault(seed))? })
            }
            _ => Ok(Self::Sequence(text.parse()?)),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence(spec) => spec.fmt(f),
            Self::Bernoulli { seed } => write!(f, "bernoulli:{seed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_past_the_range_of_a_table_are_errors() {
        let most = MultiplierStats::MAX_LENGTH;
        assert_eq!(checked_length(most).ok().map(Length::bits), Some(most));
        for refused in [0, most + 1] {
            assert!(checked_length(refused).is_err(), "{refused}");
        }
    }
}
