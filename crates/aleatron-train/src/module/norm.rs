//! Normalization.

use aleatron_tensor::{Device, Tensor, autograd};

use super::{Mode, Module, State, constant, weight_and_bias};
use crate::{Error, Parameter, Result};

/// The number that is added to variances.
const EPSILON: f64 = 1e-5;

/// The share of a batch's statistics in the running ones.
const MOMENTUM: f64 = 0.1;

/// Layer normalization over the last axes.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Parameter,
    bias: Parameter,
    axes: Vec<isize>,
}

impl LayerNorm {
    /// Creates a normalization over the last axes, which have this shape.
    ///
    /// # Errors
    /// [`Error::Tensor`] if memory is exhausted.
    pub fn new(shape: &[usize], device: &Device) -> Result<Self> {
        let axes = (1..=shape.len() as isize).rev().map(|axis| -axis).collect();
        Ok(Self {
            weight: constant(shape, 1.0, device)?,
            bias: constant(shape, 0.0, device)?,
            axes,
        })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.tensor(), self.bias.tensor());
        Ok(x.layer_norm(&self.axes, Some(&weight), Some(&bias), EPSILON as f32)?)
    }

    fn state(&self) -> Vec<(String, State)> {
        weight_and_bias(&self.weight, &self.bias)
    }
}

/// Batch normalization of features `[n, channels]`, sequences `[n, channels, positions]` or images
/// `[n, channels, rows, columns]`.
#[derive(Debug, Clone)]
pub struct BatchNorm {
    weight: Parameter,
    bias: Parameter,
    running_mean: Parameter,
    running_var: Parameter,
    mode: Mode,
}

impl BatchNorm {
    /// Creates a normalization of this many channels.
    ///
    /// # Errors
    /// [`Error::Tensor`] if memory is exhausted.
    pub fn new(channels: usize, device: &Device) -> Result<Self> {
        let of = |value: f64| constant(&[channels], value, device);
        let (weight, bias, running_mean, running_var) = (of(1.0)?, of(0.0)?, of(0.0)?, of(1.0)?);
        Ok(Self { weight, bias, running_mean, running_var, mode: Mode::Training })
    }

    /// Moves the running statistics towards those of a batch of `n` elements per channel.
    fn update(&self, mean: &Tensor, variance: &Tensor, n: usize) -> Result<()> {
        let channels = self.running_mean.tensor().shape().to_vec();
        // The running variance is the unbiased one, as torch's.
        let unbiased = variance.mul(n as f64 / (n.max(2) - 1) as f64)?;
        for (running, batch) in [(&self.running_mean, mean), (&self.running_var, &unbiased)] {
            let batch = batch.reshape(&channels)?.mul(MOMENTUM)?;
            running.set(&running.tensor().detach().mul(1.0 - MOMENTUM)?.add(&batch)?)?;
        }
        Ok(())
    }
}

impl Module for BatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let channels = self.weight.tensor().len();
        if x.rank() < 2 || x.shape()[1] != channels {
            let place = "batch normalization".to_owned();
            let reason =
                format!("expected {channels} channels along axis 1, got shape {:?}", x.shape());
            return Err(Error::State { place, reason });
        }
        let mut shape = vec![1; x.rank()];
        shape[1] = channels;
        let of = |parameter: &Parameter| parameter.tensor().reshape(&shape);
        let (mean, variance) = match self.mode {
            Mode::Evaluation => (
                self.running_mean.tensor().detach().reshape(&shape)?,
                self.running_var.tensor().detach().reshape(&shape)?,
            ),
            Mode::Training => {
                let axes: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
                let mean = x.mean_keepdim(&axes[..])?;
                let variance = x.sub(&mean)?.square()?.mean_keepdim(&axes[..])?;
                let n = x.len().checked_div(channels).unwrap_or(0);
                if n < 2 {
                    let expected =
                        "training needs at least two for each channel; use a larger batch";
                    return Err(Error::option("elements of batch normalization", n, expected));
                }
                autograd::no_grad(|| self.update(&mean.detach(), &variance.detach(), n))?;
                (mean, variance)
            }
        };
        let scale = variance.add(EPSILON)?.rsqrt()?.mul(&of(&self.weight)?)?;
        Ok(x.sub(&mean)?.mul(&scale)?.add(&of(&self.bias)?)?)
    }

    fn state(&self) -> Vec<(String, State)> {
        let mut state = weight_and_bias(&self.weight, &self.bias);
        state.push(("running_mean".to_owned(), State::Buffer(self.running_mean.clone())));
        state.push(("running_var".to_owned(), State::Buffer(self.running_var.clone())));
        state
    }

    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }
}
