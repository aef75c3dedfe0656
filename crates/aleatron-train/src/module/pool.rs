//! Pooling and reshaping.

use aleatron_tensor::{Padding, PoolOptions, Tensor};

use super::Module;
use crate::Result;

/// The largest element of each window of images.
#[derive(Debug, Clone, Copy)]
pub struct MaxPool2d(pub PoolOptions<2>);

impl Module for MaxPool2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.max_pool2d(&self.0)?)
    }
}

/// The mean of each window of images, with padding counted as zeros.
#[derive(Debug, Clone, Copy)]
pub struct AvgPool2d(pub PoolOptions<2>);

impl Module for AvgPool2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.avg_pool2d(&self.0, Padding::Counted)?)
    }
}

/// The mean of each channel.
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobalAvgPool;

impl Module for GlobalAvgPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.global_avg_pool()?)
    }
}

/// Joins all axes behind the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flatten;

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.flatten(1, -1)?)
    }
}
