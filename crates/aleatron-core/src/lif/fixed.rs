//! The fixed-point neuron, bit-exact with the register-transfer model.
//!
//! With state `v` and a refractory counter, one step is: if the counter is not 0, decrement it, set
//! `v` to rest and do not spike; otherwise
//!
//! ```text
//! v' = wrap(v + wrap(((v_rest - v) * leak_k) >> fraction) + wrap((i * gain_k) >> fraction) + noise)
//! ```
//!
//! with arithmetic shifts, products that cannot overflow, and two's-complement `wrap` to the data
//! width. If `v' >= v_threshold` the neuron spikes, `v` becomes `v_reset` and the counter
//! `refractory_period`.

use crate::error::{Error, Quantity, Result};

/// The constants of a fixed-point neuron.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LifParams {
    data_width: u32,
    fraction: u32,
    v_rest: i16,
    v_reset: i16,
    v_threshold: i16,
    refractory_period: u32,
}

impl Default for LifParams {
    /// Returns width 16, fraction 8, rest 0, reset 0, threshold 256 (1.0), refractory period 2.
    fn default() -> Self {
        Self {
            data_width: 16,
            fraction: 8,
            v_rest: 0,
            v_reset: 0,
            v_threshold: 256,
            refractory_period: 2,
        }
    }
}

impl LifParams {
    /// Creates the constants of registers of `data_width` bits, `fraction` of them fraction bits.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] or [`Error::TooLarge`] for a width outside 1..=16,
    /// [`Error::TooLarge`] for more than 31 fraction bits.
    pub fn new(data_width: u32, fraction: u32) -> Result<Self> {
        let bounded = |what, actual: u32, low: u32, high: u32| match actual {
            _ if actual < low => {
                Err(Error::TooSmall { what, actual: actual.into(), limit: low.into() })
            }
            _ if actual > high => {
                Err(Error::TooLarge { what, actual: actual.into(), limit: high.into() })
            }
            _ => Ok(()),
        };
        bounded(Quantity::DataWidth, data_width, 1, 16)?;
        bounded(Quantity::Fraction, fraction, 0, 31)?;
        Ok(Self { data_width, fraction, ..Self::default() })
    }

    /// Sets the potential at rest.
    #[must_use]
    pub const fn with_rest(self, v_rest: i16) -> Self {
        Self { v_rest, ..self }
    }

    /// Sets the potential after a spike.
    #[must_use]
    pub const fn with_reset(self, v_reset: i16) -> Self {
        Self { v_reset, ..self }
    }

    /// Sets the potential at which the neuron spikes.
    #[must_use]
    pub const fn with_threshold(self, v_threshold: i16) -> Self {
        Self { v_threshold, ..self }
    }

    /// Sets the number of silent steps after a spike.
    #[must_use]
    pub const fn with_refractory_period(self, refractory_period: u32) -> Self {
        Self { refractory_period, ..self }
    }

    /// Returns the register width in bits, 1..=16.
    #[must_use]
    pub const fn data_width(&self) -> u32 {
        self.data_width
    }

    /// Returns the fraction bits, 0..=31.
    #[must_use]
    pub const fn fraction(&self) -> u32 {
        self.fraction
    }

    /// Returns the potential at rest.
    #[must_use]
    pub const fn v_rest(&self) -> i16 {
        self.v_rest
    }

    /// Returns the potential after a spike.
    #[must_use]
    pub const fn v_reset(&self) -> i16 {
        self.v_reset
    }

    /// Returns the potential at which the neuron spikes.
    #[must_use]
    pub const fn v_threshold(&self) -> i16 {
        self.v_threshold
    }

    /// Returns the number of silent steps after a spike.
    #[must_use]
    pub const fn refractory_period(&self) -> u32 {
        self.refractory_period
    }

    /// Returns the two's complement of the low `data_width` bits.
    #[inline]
    #[must_use]
    pub const fn wrap(&self, x: i64) -> i16 {
        let unused = 64 - self.data_width;
        (x << unused >> unused) as i16
    }
}

/// The inputs of a neuron in one step: the two gains, its input current and additive noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LifDrive {
    /// The leak towards rest, in units of 2^-fraction per step.
    pub leak_k: i16,
    /// The gain of the input current, in the same units.
    pub gain_k: i16,
    /// The input current.
    pub current: i16,
    /// Noise added to the potential.
    pub noise: i16,
}

/// The spikes and potentials of a run, row-major of neurons by steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LifTrace {
    /// 1 where the neuron spiked.
    pub spikes: Vec<u8>,
    /// The potential after each step.
    pub voltages: Vec<i16>,
}

/// One fixed-point neuron with its state.
///
/// ```
/// use aleatron_core::lif::{FixedPointLif, LifDrive, LifParams};
/// let mut neuron = FixedPointLif::new(LifParams::default());
/// let drive = LifDrive { leak_k: 20, gain_k: 256, current: 100, noise: 0 };
/// let steps: Vec<_> = (0..4).map(|_| neuron.step(drive)).collect();
/// assert_eq!(steps, [(false, 100), (false, 192), (true, 0), (false, 0)]);
/// assert_eq!(neuron.refractory_counter(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedPointLif {
    params: LifParams,
    v: i16,
    counter: u32,
}

impl FixedPointLif {
    /// Creates a neuron at rest.
    #[must_use]
    pub const fn new(params: LifParams) -> Self {
        Self { params, v: params.v_rest, counter: 0 }
    }

    /// Creates a neuron in a given state, as returned by [`Self::v`] and
    /// [`Self::refractory_counter`].
    #[must_use]
    pub const fn in_state(params: LifParams, v: i16, counter: u32) -> Self {
        Self { params, v: params.wrap(v as i64), counter }
    }

    /// Advances one step. Returns whether the neuron spiked, and its potential after the step.
    #[inline]
    pub fn step(&mut self, drive: LifDrive) -> (bool, i16) {
        let p = &self.params;
        if self.counter > 0 {
            self.counter -= 1;
            self.v = p.v_rest;
            return (false, self.v);
        }
        let leak = p.wrap(
            (i64::from(p.v_rest) - i64::from(self.v)) * i64::from(drive.leak_k) >> p.fraction,
        );
        let input = p.wrap(i64::from(drive.current) * i64::from(drive.gain_k) >> p.fraction);
        let v =
            p.wrap(i64::from(self.v) + i64::from(leak) + i64::from(input) + i64::from(drive.noise));
        let spike = v >= p.v_threshold;
        if spike {
            self.v = p.v_reset;
            self.counter = p.refractory_period;
        } else {
            self.v = v;
        }
        (spike, self.v)
    }

    /// Resets the neuron to rest.
    pub fn reset(&mut self) {
        *self = Self::new(self.params);
    }

    /// Returns the constants.
    #[must_use]
    pub const fn params(&self) -> &LifParams {
        &self.params
    }

    /// Returns the potential.
    #[must_use]
    pub const fn v(&self) -> i16 {
        self.v
    }

    /// Returns the number of remaining silent steps.
    #[must_use]
    pub const fn refractory_counter(&self) -> u32 {
        self.counter
    }
}
