//! A layer of f32 leaky integrate-and-fire neurons, the model that training differentiates.
//!
//! One step is `v += (v_rest - v) * alpha + current * resistance + noise`; at or above the
//! threshold a neuron spikes and its potential becomes `v_reset`.

use crate::error::{Error, Quantity, Result};
use crate::memory;

/// The constants of a layer of f32 neurons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LifLayerParams {
    /// The potential at rest.
    pub v_rest: f32,
    /// The potential after a spike.
    pub v_reset: f32,
    /// The potential at which a neuron spikes.
    pub v_threshold: f32,
    /// The fraction of the distance to rest covered in a step.
    pub alpha: f32,
    /// The potential added by a unit of current in a step.
    pub resistance: f32,
}

impl Default for LifLayerParams {
    fn default() -> Self {
        Self { v_rest: 0.0, v_reset: 0.0, v_threshold: 1.0, alpha: 0.1, resistance: 1.0 }
    }
}

/// A layer of f32 neurons with its potentials.
///
/// ```
/// use aleatron_core::lif::{LifLayer, LifLayerParams};
/// let mut layer = LifLayer::new(2, LifLayerParams::default())?;
/// let mut spikes = [0.0; 2];
/// layer.step(&[0.5, 1.5], None, &mut spikes)?;
/// assert_eq!(spikes, [0.0, 1.0]);
/// assert_eq!(layer.voltages(), [0.5, 0.0]);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LifLayer {
    params: LifLayerParams,
    voltages: Vec<f32>,
}

impl LifLayer {
    /// Creates `n` neurons at rest.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] without neurons, [`Error::OutOfRange`] for a constant that is not
    /// finite (the index is its position in [`LifLayerParams`]), and [`Error::Memory`] if the
    /// neurons do not fit.
    pub fn new(n: usize, params: LifLayerParams) -> Result<Self> {
        if n == 0 {
            return Err(Error::Zero(Quantity::Neurons));
        }
        let LifLayerParams { v_rest, v_reset, v_threshold, alpha, resistance } = params;
        finite(&[v_rest, v_reset, v_threshold, alpha, resistance])?;
        let mut voltages = memory::zeros(n as u128, Quantity::Neurons)?;
        voltages.fill(v_rest);
        Ok(Self { params, voltages })
    }

    /// Advances every neuron one step with its current and, if given, its noise. Writes 1.0 into
    /// `spikes` for each neuron that spiked. An error leaves all potentials unchanged.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless each slice has one number per neuron, and
    /// [`Error::OutOfRange`] if a current, a noise or the resulting potential is not finite.
    pub fn step(
        &mut self,
        currents: &[f32],
        noise: Option<&[f32]>,
        spikes: &mut [f32],
    ) -> Result<()> {
        let expected = self.voltages.len();
        let noise_len = noise.map_or(expected, <[f32]>::len);
        for (what, actual) in [
            (Quantity::Currents, currents.len()),
            (Quantity::Noise, noise_len),
            (Quantity::Neurons, spikes.len()),
        ] {
            if actual != expected {
                return Err(Error::Mismatch { what, expected, actual });
            }
        }
        finite(currents)?;
        finite(noise.unwrap_or_default())?;
        let p = self.params;
        let next = |i: usize, v: f32| {
            let noise = noise.map_or(0.0, |noise| noise[i]);
            v + ((p.v_rest - v) * p.alpha + currents[i] * p.resistance + noise)
        };
        let reached = |(i, &v): (usize, &f32)| (i, next(i, v));
        if let Some((i, v)) =
            self.voltages.iter().enumerate().map(reached).find(|(_, v)| !v.is_finite())
        {
            return Err(not_finite(i, v));
        }
        for (i, v) in self.voltages.iter_mut().enumerate() {
            *v = next(i, *v);
            let spiked = *v >= p.v_threshold;
            spikes[i] = f32::from(u8::from(spiked));
            if spiked {
                *v = p.v_reset;
            }
        }
        Ok(())
    }

    /// Returns the potentials.
    #[must_use]
    pub fn voltages(&self) -> &[f32] {
        &self.voltages
    }

    /// Returns the constants.
    #[must_use]
    pub fn params(&self) -> &LifLayerParams {
        &self.params
    }

    /// Resets all neurons to rest.
    pub fn reset(&mut self) {
        self.voltages.fill(self.params.v_rest);
    }
}

fn finite(values: &[f32]) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(not_finite(index, values[index])),
        None => Ok(()),
    }
}

fn not_finite(index: usize, value: f32) -> Error {
    let (low, high) = (f32::MIN.into(), f32::MAX.into());
    Error::OutOfRange { what: Quantity::Value, index, value: value.into(), low, high }
}
