//! Inter-layer arithmetic as in a circuit: integers of stated widths.

use super::exact;
use super::factor::{Factor, round_half_up};
use super::float::{Activation, FloatStage};
use crate::error::{Error, Quantity, Result};
use crate::generator::Width;
use crate::layer::LayerSpec;
use crate::polarity::Polarity;
use crate::stream::Length;
use crate::threshold::{NEGATIVE, magnitude};

/// An activation in units of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IntegerActivation {
    /// The identity.
    #[default]
    Identity,
    /// Negative values become 0.
    Relu,
    /// Values are limited to an interval.
    Clamp {
        /// The least value.
        low: i64,
        /// The greatest value.
        high: i64,
    },
}

impl IntegerActivation {
    /// Applies the activation to a value.
    #[inline]
    #[must_use]
    pub fn apply(self, value: i64) -> i64 {
        match self {
            Self::Identity => value,
            Self::Relu => value.max(0),
            Self::Clamp { low, high } => value.max(low).min(high),
        }
    }
}

/// The counter of a layer's neurons: adds the bias to a count, saturates to its width, and applies
/// the activation.
///
/// Its unit is one product bit, of which a value of 1 is `length`. With fraction bits the unit is a
/// fraction of a product bit: counts are shifted left, and biases have a fraction.
///
/// ```
/// use aleatron_core::arithmetic::{Accumulator, IntegerActivation};
/// use aleatron_core::{Encoding, LayerSpec, Length, Polarity};
/// let spec = LayerSpec::dense(3, 1, Length::new(16)?, Polarity::Unipolar, Encoding::Bernoulli { seed: 0 })?;
/// // A bias of 2.75 product bits.
/// let accumulated = Accumulator::new(12, vec![11], IntegerActivation::Identity)?.with_fraction(2)?;
/// assert_eq!(accumulated.values(&spec, &[5])?, [31]); // 7.75
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Accumulator {
    width: u32,
    fraction: u32,
    bias: Vec<i64>,
    activation: IntegerActivation,
}

impl Accumulator {
    /// The widest accumulator.
    pub const MAX_WIDTH: u32 = 63;

    /// The largest number of fraction bits.
    pub const MAX_FRACTION: u32 = 32;

    /// Creates an accumulator of `width` bits in two's complement, whose unit is one product bit.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] or [`Error::TooLarge`] for a width outside 2..=63, and
    /// [`Error::OutOfRange`] with the first bias or bound that does not fit, or if the lower bound
    /// is above the upper one.
    pub fn new(width: u32, bias: Vec<i64>, activation: IntegerActivation) -> Result<Self> {
        bounded(Quantity::AccumulatorWidth, width, 2, Self::MAX_WIDTH)?;
        let accumulator = Self { width, fraction: 0, bias, activation };
        let [low, high] = accumulator.interval();
        let check = |what, index, value: i64, low: i64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => {
                let [value, low, high] = [value, low, high].map(|x| x as f64);
                Err(Error::OutOfRange { what, index, value, low, high })
            }
        };
        for (index, &bias) in accumulator.bias.iter().enumerate() {
            check(Quantity::Bias, index, bias, low)?;
        }
        if let IntegerActivation::Clamp { low: least, high: most } = activation {
            check(Quantity::Bound, 0, least, low)?;
            check(Quantity::Bound, 1, most, least)?;
        }
        Ok(accumulator)
    }

    /// Interprets the same integers with `fraction` fraction bits.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above [`Self::MAX_FRACTION`].
    pub fn with_fraction(self, fraction: u32) -> Result<Self> {
        bounded(Quantity::FractionBits, fraction, 0, Self::MAX_FRACTION)?;
        Ok(Self { fraction, ..self })
    }

    /// Returns the accumulator that does for `spec` what `stage` does in floating point: wide
    /// enough never to saturate, with `fraction` fraction bits, or as many fewer as 63 bits
    /// require. A product bit of row `j` has the value `scales[j] / length`.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one bias per row of weights and one scale, or
    /// one per row, and for a clamp of rows with different scales; [`Error::OutOfRange`] with the
    /// first bias or bound that is too large; [`Error::TooLarge`] if more than 63 bits are needed
    /// without a fraction, and above [`Self::MAX_FRACTION`].
    pub fn calibrated(spec: &LayerSpec, stage: &FloatStage, fraction: u32) -> Result<Self> {
        let expected = spec.n_rows();
        for (actual, is_shared) in
            [(stage.bias.len(), false), (stage.scales.len(), stage.scales.len() == 1)]
        {
            if expected != actual && !is_shared {
                return Err(Error::Mismatch { what: Quantity::Bias, expected, actual });
            }
        }
        let length = spec.length().bits() as f64;
        let per_unit =
            |row: usize| length / stage.scales[if stage.scales.len() == 1 { 0 } else { row }];
        most_fraction(fraction, |fraction| {
            let integer = |what, index, value: f64| round(what, index, shifted(value, fraction));
            let bias = stage.bias.iter().enumerate();
            let bias = bias.map(|(row, &bias)| integer(Quantity::Bias, row, bias * per_unit(row)));
            let bias: Vec<i64> = bias.collect::<Result<_>>()?;
            let activation = match stage.activation {
                Activation::Identity => IntegerActivation::Identity,
                Activation::Relu => IntegerActivation::Relu,
                Activation::Clamp { low, high } => {
                    // A pair of integer bounds is valid only for rows of one unit.
                    if stage.scales.iter().any(|scale| *scale != stage.scales[0]) {
                        let (expected, actual) = (1, stage.scales.len());
                        return Err(Error::Mismatch { what: Quantity::Bound, expected, actual });
                    }
                    IntegerActivation::Clamp {
                        low: integer(Quantity::Bound, 0, low * per_unit(0))?,
                        high: integer(Quantity::Bound, 1, high * per_unit(0))?,
                    }
                }
            };
            Self::wide_enough(spec, fraction, bias, activation)
        })
    }

    fn wide_enough(
        spec: &LayerSpec,
        fraction: u32,
        bias: Vec<i64>,
        activation: IntegerActivation,
    ) -> Result<Self> {
        let bounds = match activation {
            IntegerActivation::Clamp { low, high } => [low, high],
            _ => [0, 0],
        };
        let products = (spec.max_fan_in() as u128 * spec.length().bits() as u128) << fraction;
        let largest =
            |values: &[i64]| values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
        let most = (products + u128::from(largest(&bias))).max(largest(&bounds).into());
        let width = 2 + most.checked_ilog2().unwrap_or(0);
        Self::new(width, bias, activation)?.with_fraction(fraction)
    }

    /// Returns the width in bits.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of fraction bits.
    #[must_use]
    pub const fn fraction(&self) -> u32 {
        self.fraction
    }

    /// Returns the value of 1 in a layer of the given length whose sums of 1 have the value
    /// `scale`.
    #[must_use]
    pub fn unit(&self, length: Length, scale: f64) -> f64 {
        scale / length.bits() as f64 / 2f64.powi(self.fraction as i32)
    }

    /// Returns the biases, one per row of weights: per neuron, or per output channel.
    #[must_use]
    pub fn bias(&self) -> &[i64] {
        &self.bias
    }

    /// Returns the activation.
    #[must_use]
    pub const fn activation(&self) -> IntegerActivation {
        self.activation
    }

    /// Returns the least and the greatest representable value.
    #[must_use]
    pub const fn interval(&self) -> [i64; 2] {
        let half = 1i64 << (self.width - 1);
        [-half, half - 1]
    }

    /// Returns the least and the greatest value after the activation.
    #[must_use]
    pub const fn bounds(&self) -> [i64; 2] {
        let [low, high] = self.interval();
        match self.activation {
            IntegerActivation::Identity => [low, high],
            IntegerActivation::Relu => [0, high],
            IntegerActivation::Clamp { low, high } => [low, high],
        }
    }

    /// Returns the accumulated values for the counts of a layer, row-major of samples by neurons.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one bias per row of weights.
    pub fn values(&self, spec: &LayerSpec, counts: &[u64]) -> Result<Vec<i64>> {
        let (expected, actual) = (spec.n_rows(), self.bias.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Bias, expected, actual });
        }
        let (fan_ins, per_row) = (spec.topology().fan_ins(), spec.neurons_per_row());
        let [low, high] = self.interval();
        // If all intermediate integers are below 2^51, f64 represents them, and vector registers of
        // every processor can compute them.
        let most = (2 * spec.max_fan_in() as u128 * spec.length().bits() as u128) << self.fraction;
        let largest = counts.iter().fold(0, |all, &count| all | count);
        if self.width <= exact::BITS && most < 1 << 50 && largest < 1 << (50 - self.fraction) {
            let one = 2f64.powi(self.fraction as i32);
            let bits = spec.length().bits() as f64 * one;
            let (factor, bits) = match spec.polarity() {
                Polarity::Unipolar => (one, 0.0),
                Polarity::Bipolar => (2.0 * one, bits),
                Polarity::Signed => (one, bits),
            };
            // The offset of each neuron's count.
            let offsets: Vec<f64> = match fan_ins[..] {
                [n] if per_row == 1 => {
                    self.bias.iter().map(|&bias| bias as f64 - bits * n as f64).collect()
                }
                _ => {
                    let biases = self
                        .bias
                        .iter()
                        .flat_map(|&bias| std::iter::repeat_n(bias as f64, per_row));
                    biases
                        .zip(fan_ins.iter().cycle())
                        .map(|(bias, &n)| bias - bits * n as f64)
                        .collect()
                }
            };
            let accumulated = |count: u64, offset: f64| {
                exact::clamp(exact::of_count(count) * factor + offset, low as f64, high as f64)
            };
            // One loop per activation, because the compiler vectorizes loops without a match
            // inside.
            return Ok(match self.activation {
                IntegerActivation::Identity => each(counts, &offsets, accumulated),
                IntegerActivation::Relu => each(counts, &offsets, |count, offset| {
                    let accumulated = accumulated(count, offset);
                    if accumulated > 0.0 { accumulated } else { 0.0 }
                }),
                IntegerActivation::Clamp { low, high } => {
                    each(counts, &offsets, |count, offset| {
                        exact::clamp(accumulated(count, offset), low as f64, high as f64)
                    })
                }
            });
        }
        let biases = self.bias.iter().flat_map(|bias| std::iter::repeat_n(bias, per_row));
        let neurons = biases.zip(fan_ins.iter().cycle());
        let neurons: Vec<_> = neurons.collect();
        let value = |(&count, &(&bias, &n)): (&u64, &(&i64, &usize))| {
            let sum = spec.polarity().sum(count, n, spec.length()) << self.fraction;
            let accumulated = (sum + i128::from(bias)).clamp(low.into(), high.into());
            self.activation.apply(accumulated as i64)
        };
        Ok(counts.iter().zip(neurons.iter().cycle()).map(value).collect())
    }
}

/// Returns the accumulated values for counts of samples by neurons, each with the offset of its
/// neuron.
#[inline]
fn each(counts: &[u64], offsets: &[f64], accumulated: impl Fn(u64, f64) -> f64) -> Vec<i64> {
    let mut values = vec![0; counts.len()];
    let samples = values.chunks_mut(offsets.len().max(1)).zip(counts.chunks(offsets.len().max(1)));
    for (values, counts) in samples {
        for ((value, &count), &offset) in values.iter_mut().zip(counts).zip(offsets) {
            *value = exact::to_integer(accumulated(count, offset));
        }
    }
    values
}

/// Converts accumulated values to the thresholds of the next layer's comparators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Requantizer {
    multiplier: u64,
    multiplier_width: u32,
    shift: u32,
    comparator: Width,
    polarity: Polarity,
}

impl Requantizer {
    /// The widest multiplier.
    pub const MAX_MULTIPLIER_WIDTH: u32 = 62;

    /// The largest right shift.
    pub const MAX_SHIFT: u32 = 125;

    /// Creates a requantizer, which multiplies by `multiplier`, an unsigned integer of
    /// `multiplier_width` bits, shifts right by `shift`, rounding half up, and gives a threshold of
    /// `comparator` bits for streams of `polarity`.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] or [`Error::TooLarge`] for a multiplier width outside 1..=62,
    /// [`Error::TooLarge`] for a multiplier that does not fit it or a shift above 125.
    pub fn new(
        multiplier: u64,
        multiplier_width: u32,
        shift: u32,
        comparator: Width,
        polarity: Polarity,
    ) -> Result<Self> {
        bounded(Quantity::MultiplierWidth, multiplier_width, 1, Self::MAX_MULTIPLIER_WIDTH)?;
        let most = (1u64 << multiplier_width) - 1;
        if multiplier > most {
            let (what, actual) = (Quantity::Multiplier, multiplier.into());
            return Err(Error::TooLarge { what, actual, limit: most.into() });
        }
        bounded(Quantity::Shift, shift, 0, Self::MAX_SHIFT)?;
        Ok(Self { multiplier, multiplier_width, shift, comparator, polarity })
    }

    /// Creates the requantizer between a layer whose accumulators have units of `scale / length`
    /// and a layer that divides its inputs by `next_scale`, with the closest multiplier of at least
    /// `multiplier_width` bits.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a ratio of scales that no multiplier and shift can
    /// express.
    pub fn calibrated(
        spec: &LayerSpec,
        scale: f64,
        next_scale: f64,
        multiplier_width: u32,
        comparator: Width,
        polarity: Polarity,
    ) -> Result<Self> {
        let unit = scale / spec.length().bits() as f64;
        Self::of_unit(unit, next_scale, multiplier_width, comparator, polarity)
    }

    /// Creates the requantizer between integers in units of `unit` and a layer that divides its
    /// inputs by `next_scale`, with the closest multiplier of at least `multiplier_width` bits.
    ///
    /// # Errors
    /// As for [`Self::calibrated`].
    pub fn of_unit(
        unit: f64,
        next_scale: f64,
        multiplier_width: u32,
        comparator: Width,
        polarity: Polarity,
    ) -> Result<Self> {
        let levels = match polarity {
            Polarity::Unipolar | Polarity::Signed => comparator.one() as f64,
            Polarity::Bipolar => comparator.one() as f64 / 2.0,
        };
        let Factor { multiplier, width, shift, .. } =
            Factor::new(unit / next_scale * levels, multiplier_width)?;
        Self::new(multiplier, width, shift, comparator, polarity)
    }

    /// Returns the multiplier.
    #[must_use]
    pub const fn multiplier(&self) -> u64 {
        self.multiplier
    }

    /// Returns the width of the multiplier in bits.
    #[must_use]
    pub const fn multiplier_width(&self) -> u32 {
        self.multiplier_width
    }

    /// Returns the right shift.
    #[must_use]
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the width of the comparator.
    #[must_use]
    pub const fn comparator(&self) -> Width {
        self.comparator
    }

    /// Returns the polarity of the streams that the thresholds are for.
    #[must_use]
    pub const fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// Returns the threshold for an accumulated value, 0 to 2^V for a comparator of V bits; for
    /// signed streams, the threshold of the magnitude with the sign.
    #[inline]
    #[must_use]
    pub fn threshold(&self, value: i64) -> u64 {
        let (level, one) = (self.level(value), i128::from(self.comparator.one()));
        match self.polarity {
            Polarity::Signed if level < 0 => (-level).min(one) as u64 | NEGATIVE,
            _ => level.clamp(0, one) as u64,
        }
    }

    /// Returns whether an accumulated value is outside the range of the comparator.
    #[must_use]
    pub fn saturates(&self, value: i64) -> bool {
        let one = i128::from(self.comparator.one());
        let least = if self.polarity == Polarity::Signed { -one } else { 0 };
        !(least..=one).contains(&self.level(value))
    }

    /// Returns the threshold of value 0.
    #[inline]
    fn middle(&self) -> u64 {
        match self.polarity {
            Polarity::Unipolar | Polarity::Signed => 0,
            Polarity::Bipolar => self.comparator.one() / 2,
        }
    }

    /// Returns the threshold before saturation; below 0 for negative values of signed streams.
    #[inline]
    fn level(&self, value: i64) -> i128 {
        // At most 63 + 62 bits, and the rounding constant is below 2^125.
        let product = i128::from(value) * i128::from(self.multiplier);
        let half = (1i128 << self.shift) >> 1;
        ((product + half) >> self.shift) + i128::from(self.middle())
    }

    /// Returns the thresholds for accumulated values, widened to comparators of `width` bits, the
    /// width of the layer's generator.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the comparator is wider than the generator.
    pub fn thresholds(&self, values: &[i64], width: Width) -> Result<Requantized> {
        let Some(unused) = width.bits().checked_sub(self.comparator.bits()) else {
            let (actual, limit) = (self.comparator.bits().into(), width.bits().into());
            return Err(Error::TooLarge { what: Quantity::ComparatorWidth, actual, limit });
        };
        let mut saturated = 0;
        // Values up to this limit stay below 2^51 when multiplied and rounded, so that f64
        // represents them.
        let narrow = if self.shift <= 50 { (1u64 << 50) / self.multiplier.max(1) } else { 0 };
        let largest = values.iter().fold(0, |all, value| all | value.unsigned_abs());
        let thresholds = if largest < narrow {
            let (multiplier, half) = (self.multiplier as f64, ((1u64 << self.shift) >> 1) as f64);
            let (step, middle) = (2f64.powi(-(self.shift as i32)), self.middle() as f64);
            let most = self.comparator.one() as f64;
            let level = |value: i64| {
                exact::floor((exact::of_integer(value) * multiplier + half) * step) + middle
            };
            let mut thresholds = vec![0; values.len()];
            let each = thresholds.iter_mut().zip(values);
            // The compiler vectorizes loops of this form, but not closures that collect.
            match self.polarity {
                Polarity::Unipolar | Polarity::Bipolar => {
                    for (threshold, &value) in each {
                        let level = level(value);
                        let accumulated = exact::clamp(level, 0.0, most);
                        saturated += u64::from(accumulated != level);
                        *threshold = exact::to_count(accumulated) << unused;
                    }
                }
                Polarity::Signed => {
                    for (threshold, &value) in each {
                        let level = level(value);
                        let accumulated = exact::clamp(level.abs(), 0.0, most);
                        saturated += u64::from(accumulated != level.abs());
                        // The sign bit of the number is that of the threshold; none of these is -0.
                        *threshold =
                            exact::to_count(accumulated) << unused | level.to_bits() & NEGATIVE;
                    }
                }
            }
            thresholds
        } else {
            let threshold = |&value: &i64| {
                saturated += u64::from(self.saturates(value));
                let threshold = self.threshold(value);
                magnitude(threshold) << unused | threshold & NEGATIVE
            };
            values.iter().map(threshold).collect()
        };
        Ok(Requantized { thresholds, saturated })
    }
}

/// The inputs of a layer in integer arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requantized {
    /// Thresholds of the layer's comparators, negative ones of signed streams with the bit
    /// [`NEGATIVE`].
    pub thresholds: Vec<u64>,
    /// The number of values outside the range of the comparator.
    pub saturated: u64,
}

/// Converts integers from one unit to a finer one.
///
/// ```
/// use aleatron_core::arithmetic::Rescaler;
/// let rescaler = Rescaler::calibrated(0.5, 0.2, 16)?;
/// assert_eq!((rescaler.apply(3), rescaler.apply(-3)), (8, -7)); // 7.5 and -7.5, halves rounded up
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rescaler(Factor);

impl Rescaler {
    /// Creates the rescaler whose multiplier of at least `multiplier_width` bits comes closest to
    /// `unit / finer`.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a ratio that no multiplier and shift can express.
    pub fn calibrated(unit: f64, finer: f64, multiplier_width: u32) -> Result<Self> {
        Factor::new(unit / finer, multiplier_width).map(Self)
    }

    /// Returns the multiplier.
    #[must_use]
    pub const fn multiplier(&self) -> u64 {
        self.0.multiplier
    }

    /// Returns the width of the multiplier in bits.
    #[must_use]
    pub const fn multiplier_width(&self) -> u32 {
        self.0.width
    }

    /// Returns the right shift.
    #[must_use]
    pub const fn shift(&self) -> u32 {
        self.0.shift
    }

    /// Returns by how many bits results are wider than their operands, at most; never below 0.
    #[must_use]
    pub const fn growth(&self) -> u32 {
        if self.0.exponent > 0 { self.0.exponent as u32 } else { 0 }
    }

    /// Converts a value to the finer unit: multiplies, shifts right and rounds half up. Saturates
    /// to i64.
    #[inline]
    #[must_use]
    pub fn apply(&self, value: i64) -> i64 {
        let product = i128::from(value) * i128::from(self.0.multiplier);
        let half = (1i128 << self.0.shift) >> 1;
        ((product + half) >> self.0.shift).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Returns the integer nearest to `value / unit`, rounding half up: a constant among integers in
/// units of `unit`.
///
/// # Errors
/// Returns [`Error::OutOfRange`] with `index` if it does not fit in 63 bits.
pub fn to_units(what: Quantity, index: usize, value: f64, unit: f64) -> Result<i64> {
    round(what, index, value / unit)
}

/// Returns `value` times 2^fraction, which is exact.
fn shifted(value: f64, fraction: u32) -> f64 {
    value * 2f64.powi(fraction as i32)
}

/// Returns what `make` creates with `fraction` fraction bits, or with the largest smaller number
/// for which it succeeds.
fn most_fraction(fraction: u32, make: impl Fn(u32) -> Result<Accumulator>) -> Result<Accumulator> {
    bounded(Quantity::FractionBits, fraction, 0, Accumulator::MAX_FRACTION)?;
    let found = (1..=fraction).rev().find_map(|fraction| make(fraction).ok());
    found.map_or_else(|| make(0), Ok)
}

/// Returns the nearest integer, rounding half up.
fn round(what: Quantity, index: usize, value: f64) -> Result<i64> {
    let rounded = round_half_up(value);
    let most = 2f64.powi(Accumulator::MAX_WIDTH as i32 - 1);
    match rounded.abs() < most {
        true => Ok(rounded as i64),
        false => Err(Error::OutOfRange { what, index, value: rounded, low: -most, high: most }),
    }
}

pub(super) fn bounded(what: Quantity, actual: u32, low: u32, high: u32) -> Result<()> {
    match actual {
        _ if actual < low => {
            Err(Error::TooSmall { what, actual: actual.into(), limit: low.into() })
        }
        _ if actual > high => {
            Err(Error::TooLarge { what, actual: actual.into(), limit: high.into() })
        }
        _ => Ok(()),
    }
}
