//! The binary side between two layers: what turns the counts of one into the inputs of the next.
//!
//! [`FloatStage`] does it in f64, as a simulation may. [`Accumulator`] and [`Requantizer`] do it as a circuit does, in integers
//! of stated widths: count, integer bias, activation, multiplier and right shift, saturation, threshold of the next comparator.
//! `docs/streams.md` defines both.

use crate::error::{Error, Quantity, Result};
use crate::generator::Width;
use crate::layer::LayerSpec;
use crate::polarity::Polarity;
use std::fmt;
use std::str::FromStr;

/// How numbers are kept between layers. As text: `float` or `integer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// In f64.
    #[default]
    Float,
    /// In integers of stated widths, as a circuit has them.
    Integer,
}

impl Arithmetic {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Float, Self::Integer];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|arithmetic| arithmetic.name() == text);
        found.ok_or_else(|| Error::unknown_name(Quantity::Arithmetic, text, Self::ALL.map(Self::name)))
    }
}

/// What happens to a layer's sums before the next layer encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// Negative values become 0.
    Relu,
    /// Values are limited to an interval; -1 to 1 is the hard tanh.
    Clamp {
        /// The least value.
        low: f64,
        /// The greatest value.
        high: f64,
    },
}

impl Activation {
    /// The activation of a value.
    #[inline]
    #[must_use]
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Self::Identity => value,
            Self::Relu => value.max(0.0),
            Self::Clamp { low, high } => value.max(low).min(high),
        }
    }
}

/// The binary side in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatStage {
    /// What a sum of 1 stands for: the scale of the inputs times that of the weights.
    pub scale: f64,
    /// One per neuron.
    pub bias: Vec<f64>,
    /// The activation.
    pub activation: Activation,
}

impl FloatStage {
    /// The layer's output for the sum of products `v` of a neuron.
    #[inline]
    #[must_use]
    pub fn output(&self, neuron: usize, v: f64) -> f64 {
        let bias = self.bias.get(neuron).copied().unwrap_or(0.0);
        self.activation.apply(v * self.scale + bias)
    }

    /// The layer's outputs for its counts, row-major of samples by neurons.
    #[must_use]
    pub fn outputs(&self, spec: &LayerSpec, counts: &[u64]) -> Vec<f64> {
        let mut values = spec.decode_all(counts);
        for sample in values.chunks_mut(spec.n_neurons()) {
            for (value, &bias) in sample.iter_mut().zip(&self.bias) {
                *value = self.activation.apply(*value * self.scale + bias);
            }
        }
        values
    }
}

/// Divides values by `scale` and limits them to what streams of `polarity` can hold; how many were outside.
pub fn saturate(values: &mut [f64], scale: f64, polarity: Polarity) -> u64 {
    let [low, high] = polarity.interval();
    let mut saturated = 0;
    for value in values {
        let scaled = *value / scale;
        *value = scaled.clamp(low, high);
        saturated += u64::from(*value != scaled);
    }
    saturated
}

/// An activation in units of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IntegerActivation {
    /// Nothing.
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
    /// The activation of a value.
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

/// The counter of a layer's neurons: adds the bias to a count, saturates to its width, and applies the activation.
///
/// Its unit is one product bit: a value of 1 is `length` of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Accumulator {
    width: u32,
    bias: Vec<i64>,
    activation: IntegerActivation,
}

impl Accumulator {
    /// The widest accumulator.
    pub const MAX_WIDTH: u32 = 63;

    /// An accumulator of `width` bits in two's complement.
    ///
    /// # Errors
    /// [`Error::TooSmall`] or [`Error::TooLarge`] for a width outside 2..=63, [`Error::OutOfRange`] with the first bias or bound
    /// that does not fit it, [`Error::OutOfRange`] for a lower bound above the upper one.
    pub fn new(width: u32, bias: Vec<i64>, activation: IntegerActivation) -> Result<Self> {
        bounded(Quantity::AccumulatorWidth, width, 2, Self::MAX_WIDTH)?;
        let accumulator = Self { width, bias, activation };
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

    /// The accumulator that does what `stage` does for `spec`, wide enough never to saturate.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one bias per neuron, [`Error::TooLarge`] where more than 63 bits would be needed.
    pub fn calibrated(spec: &LayerSpec, stage: &FloatStage) -> Result<Self> {
        let (expected, actual) = (spec.n_neurons(), stage.bias.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Bias, expected, actual });
        }
        let unit = spec.length().bits() as f64 / stage.scale;
        let integer = |what, index, value: f64| {
            let rounded = (value * unit + 0.5).floor();
            let most = 2f64.powi(Self::MAX_WIDTH as i32 - 1);
            match rounded.abs() < most {
                true => Ok(rounded as i64),
                false => Err(Error::OutOfRange { what, index, value: rounded, low: -most, high: most }),
            }
        };
        let bias = stage.bias.iter().enumerate().map(|(j, &bias)| integer(Quantity::Bias, j, bias));
        let bias: Vec<i64> = bias.collect::<Result<_>>()?;
        let activation = match stage.activation {
            Activation::Identity => IntegerActivation::Identity,
            Activation::Relu => IntegerActivation::Relu,
            Activation::Clamp { low, high } => IntegerActivation::Clamp {
                low: integer(Quantity::Bound, 0, low)?,
                high: integer(Quantity::Bound, 1, high)?,
            },
        };
        let bounds = match activation {
            IntegerActivation::Clamp { low, high } => [low, high],
            _ => [0, 0],
        };
        let products = spec.max_fan_in() as u128 * spec.length().bits() as u128;
        let largest = |values: &[i64]| values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
        let most = (products + u128::from(largest(&bias))).max(largest(&bounds).into());
        let width = 2 + most.checked_ilog2().unwrap_or(0);
        if width > Self::MAX_WIDTH {
            let (actual, limit) = (width.into(), Self::MAX_WIDTH.into());
            return Err(Error::TooLarge { what: Quantity::AccumulatorWidth, actual, limit });
        }
        Self::new(width, bias, activation)
    }

    /// The width in bits.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The biases, one per neuron.
    #[must_use]
    pub fn bias(&self) -> &[i64] {
        &self.bias
    }

    /// The activation.
    #[must_use]
    pub const fn activation(&self) -> IntegerActivation {
        self.activation
    }

    /// The least and the greatest value it holds.
    #[must_use]
    pub const fn interval(&self) -> [i64; 2] {
        let half = 1i64 << (self.width - 1);
        [-half, half - 1]
    }

    /// What it holds for the counts of a layer, row-major of samples by neurons.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one bias per neuron.
    pub fn values(&self, spec: &LayerSpec, counts: &[u64]) -> Result<Vec<i64>> {
        let (expected, actual) = (spec.n_neurons(), self.bias.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Bias, expected, actual });
        }
        let [low, high] = self.interval();
        let neurons = (0..expected).cycle().zip(self.bias.iter().cycle());
        let value = |(&count, (neuron, &bias)): (&u64, (usize, &i64))| {
            let sum = spec.polarity().sum(count, spec.fan_in(neuron), spec.length());
            let held = (sum + i128::from(bias)).clamp(low.into(), high.into());
            self.activation.apply(held as i64)
        };
        Ok(counts.iter().zip(neurons).map(value).collect())
    }
}

/// From what an accumulator holds to the thresholds of the next layer's comparators.
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

    /// Multiplies by `multiplier`, an unsigned integer of `multiplier_width` bits, shifts right by `shift`, rounding half up, and
    /// makes a threshold of `comparator` bits for streams of `polarity`.
    ///
    /// # Errors
    /// [`Error::TooSmall`] or [`Error::TooLarge`] for a multiplier width outside 1..=62, [`Error::TooLarge`] for a multiplier that
    /// does not fit it or a shift past 125.
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

    /// The requantizer between a layer whose accumulators have `scale / length` as the value of a unit and one that divides its
    /// inputs by `next_scale`: the multiplier of at least `multiplier_width` bits that comes closest.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a ratio of scales that no multiplier and shift can express.
    pub fn calibrated(
        spec: &LayerSpec,
        scale: f64,
        next_scale: f64,
        multiplier_width: u32,
        comparator: Width,
        polarity: Polarity,
    ) -> Result<Self> {
        bounded(Quantity::MultiplierWidth, multiplier_width, 1, Self::MAX_MULTIPLIER_WIDTH)?;
        let levels = match polarity {
            Polarity::Unipolar => comparator.one() as f64,
            Polarity::Bipolar => comparator.one() as f64 / 2.0,
        };
        let ratio = scale / spec.length().bits() as f64 / next_scale * levels;
        let [least, most] =
            [-(Self::MAX_SHIFT as i32), Self::MAX_MULTIPLIER_WIDTH as i32].map(|e| 2f64.powi(e));
        if !(ratio > least && ratio < most / 2.0) {
            let (what, low, high) = (Quantity::Multiplier, least, most / 2.0);
            return Err(Error::OutOfRange { what, index: 0, value: ratio, low, high });
        }
        // The ratio is in 2^(e-1)..2^e. Read from its bits: a logarithm may differ between systems.
        let exponent = (ratio.to_bits() >> 52) as i32 - 1022;
        let width = (multiplier_width as i32).max(exponent).min(Self::MAX_MULTIPLIER_WIDTH as i32);
        let shift = (width - exponent).clamp(0, Self::MAX_SHIFT as i32);
        let rounded = (ratio * 2f64.powi(shift) + 0.5).floor() as u64;
        // Rounding up may have made it one bit longer.
        let multiplier = rounded.min((1 << width) - 1);
        Self::new(multiplier, width as u32, shift as u32, comparator, polarity)
    }

    /// The multiplier.
    #[must_use]
    pub const fn multiplier(&self) -> u64 {
        self.multiplier
    }

    /// The width of the multiplier in bits.
    #[must_use]
    pub const fn multiplier_width(&self) -> u32 {
        self.multiplier_width
    }

    /// The right shift.
    #[must_use]
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// The width of the comparator.
    #[must_use]
    pub const fn comparator(&self) -> Width {
        self.comparator
    }

    /// The polarity of the streams it makes thresholds for.
    #[must_use]
    pub const fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// The threshold for what an accumulator holds, 0 to 2^V for a comparator of V bits.
    #[inline]
    #[must_use]
    pub fn threshold(&self, value: i64) -> u64 {
        self.level(value).clamp(0, self.comparator.one().into()) as u64
    }

    /// Whether what an accumulator holds lies outside what the comparator can express.
    #[must_use]
    pub fn saturates(&self, value: i64) -> bool {
        !(0..=i128::from(self.comparator.one())).contains(&self.level(value))
    }

    #[inline]
    fn level(&self, value: i64) -> i128 {
        let middle = match self.polarity {
            Polarity::Unipolar => 0,
            Polarity::Bipolar => i128::from(self.comparator.one() / 2),
        };
        // At most 63 + 62 bits, and the rounding constant is below 2^125.
        let product = i128::from(value) * i128::from(self.multiplier);
        let half = (1i128 << self.shift) >> 1;
        ((product + half) >> self.shift) + middle
    }

    /// The thresholds for what accumulators hold, widened to comparators of `width` bits, those of the layer's generator.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the comparator is wider than the generator.
    pub fn thresholds(&self, values: &[i64], width: Width) -> Result<Vec<u64>> {
        let Some(unused) = width.bits().checked_sub(self.comparator.bits()) else {
            let (actual, limit) = (self.comparator.bits().into(), width.bits().into());
            return Err(Error::TooLarge { what: Quantity::ComparatorWidth, actual, limit });
        };
        Ok(values.iter().map(|&value| self.threshold(value) << unused).collect())
    }
}

fn bounded(what: Quantity, actual: u32, low: u32, high: u32) -> Result<()> {
    match actual {
        _ if actual < low => Err(Error::TooSmall { what, actual: actual.into(), limit: low.into() }),
        _ if actual > high => Err(Error::TooLarge { what, actual: actual.into(), limit: high.into() }),
        _ => Ok(()),
    }
}
