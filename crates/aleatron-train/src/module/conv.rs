//! Convolutions.

use aleatron_tensor::{ConvOptions, Device, Generator, Tensor};

use super::{Module, State, bound, uniform, weight_and_bias};
use crate::{Error, Parameter, Result};

/// Returns weights and biases of a convolution.
fn parameters(
    [inputs, outputs]: [usize; 2],
    kernel: &[usize],
    groups: usize,
    generator: &mut Generator,
    device: &Device,
) -> Result<(Parameter, Parameter)> {
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        return Err(Error::option("groups", groups, "it must divide the numbers of channels"));
    }
    let shape = [&[outputs, inputs / groups], kernel].concat();
    let bound = bound(shape[1..].iter().product())?;
    Ok((uniform(&shape, bound, generator, device)?, uniform(&[outputs], bound, generator, device)?))
}

/// A convolution of images `[n, channels, rows, columns]`.
#[derive(Debug, Clone)]
pub struct Conv2d {
    weight: Parameter,
    bias: Parameter,
    options: ConvOptions<2>,
}

impl Conv2d {
    /// Creates a convolution from `channels[0]` to `channels[1]` channels with random weights,
    /// initialized like those of [`super::Linear`].
    ///
    /// # Errors
    /// [`Error::Option`] for groups that do not divide the channels, [`Error::Tensor`] if memory is
    /// exhausted.
    pub fn new(
        channels: [usize; 2],
        kernel: [usize; 2],
        options: ConvOptions<2>,
        generator: &mut Generator,
        device: &Device,
    ) -> Result<Self> {
        let (weight, bias) = parameters(channels, &kernel, options.groups, generator, device)?;
        Ok(Self { weight, bias, options })
    }
}

impl Module for Conv2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.conv2d(&self.weight.tensor(), Some(&self.bias.tensor()), &self.options)?)
    }

    fn state(&self) -> Vec<(String, State)> {
        weight_and_bias(&self.weight, &self.bias)
    }
}

/// A convolution of sequences `[n, channels, positions]`.
#[derive(Debug, Clone)]
pub struct Conv1d {
    weight: Parameter,
    bias: Parameter,
    options: ConvOptions<1>,
}

impl Conv1d {
    /// Creates a convolution like [`Conv2d::new`], over one axis.
    ///
    /// # Errors
    /// As [`Conv2d::new`].
    pub fn new(
        channels: [usize; 2],
        kernel: usize,
        options: ConvOptions<1>,
        generator: &mut Generator,
        device: &Device,
    ) -> Result<Self> {
        let (weight, bias) = parameters(channels, &[kernel], options.groups, generator, device)?;
        Ok(Self { weight, bias, options })
    }
}

impl Module for Conv1d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.conv1d(&self.weight.tensor(), Some(&self.bias.tensor()), &self.options)?)
    }

    fn state(&self) -> Vec<(String, State)> {
        weight_and_bias(&self.weight, &self.bias)
    }
}
