//! Slices in, vectors out, computed on a GPU.

use super::GpuDevice;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::op::{BinaryOp, UnaryOp};
use crate::ops::ConvOptions;
use crate::tensor::Tensor;
use crate::tiles::{self, MaxOp, MinOp, ReduceOp, SumOp};

/// A GPU that is opened when it is needed first.
#[derive(Debug, Clone, Default)]
pub struct GpuBackend {
    device: Option<Device>,
}

impl GpuBackend {
    /// Returns a backend that has opened nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a backend for a device.
    #[must_use]
    pub fn with_device(device: &GpuDevice) -> Self {
        Self { device: Some(Device::Gpu((**device).clone())) }
    }

    /// Returns whether there is a GPU: a software adapter only where the environment names one.
    #[must_use]
    pub fn is_available() -> bool {
        Device::gpu().is_ok()
    }

    fn device(&mut self) -> Result<Device> {
        if let Some(device) = &self.device {
            return Ok(device.clone());
        }
        let device = Device::gpu()?;
        self.device = Some(device.clone());
        Ok(device)
    }

    fn tensor(&mut self, data: &[f32], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(data, shape, &self.device()?)
    }

    fn each(
        &mut self,
        data: &[f32],
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<f32>> {
        operation(&self.tensor(data, &[data.len()])?)?.to_vec()
    }

    fn pair(&mut self, op: &'static str, a: &[f32], b: &[f32]) -> Result<[Tensor; 2]> {
        if a.len() != b.len() {
            return Err(Error::shapes(op, &[a.len()], &[b.len()]));
        }
        Ok([self.tensor(a, &[a.len()])?, self.tensor(b, &[b.len()])?])
    }

    /// Applies an operation of one argument to every element.
    ///
    /// # Errors
    /// [`Error::Device`] without a GPU, [`Error::Memory`] if memory is exhausted.
    pub fn unary(&mut self, op: UnaryOp, data: &[f32]) -> Result<Vec<f32>> {
        self.each(data, |x| x.unary(op))
    }

    /// Returns the sums of pairs.
    ///
    /// # Errors
    /// As [`Self::unary`]; [`Error::Shapes`] for two lengths.
    pub fn vec_add(&mut self, a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        let [a, b] = self.pair("vec_add", a, b)?;
        Tensor::binary(BinaryOp::Add, &a, &b)?.to_vec()
    }

    /// Returns the sum of products of pairs.
    ///
    /// # Errors
    /// As [`Self::vec_add`].
    pub fn dot(&mut self, a: &[f32], b: &[f32]) -> Result<f32> {
        let [a, b] = self.pair("dot", a, b)?;
        a.mul(&b)?.sum_all()?.item()
    }

    /// x if it is positive, otherwise x times the slope.
    ///
    /// # Errors
    /// As [`Self::unary`].
    pub fn leaky_relu(&mut self, data: &[f32], slope: f32) -> Result<Vec<f32>> {
        self.each(data, |x| x.leaky_relu(slope))
    }

    /// x if it is positive, otherwise alpha (e^x - 1).
    ///
    /// # Errors
    /// As [`Self::unary`].
    pub fn elu(&mut self, data: &[f32], alpha: f32) -> Result<Vec<f32>> {
        self.each(data, |x| x.elu(alpha))
    }

    /// Nothing below `low` nor above `high`.
    ///
    /// # Errors
    /// As [`Self::unary`].
    pub fn clip(&mut self, data: &[f32], low: f32, high: f32) -> Result<Vec<f32>> {
        self.each(data, |x| x.clip(low, high))
    }

    /// Exponentials over their sum.
    ///
    /// # Errors
    /// As [`Self::unary`].
    pub fn softmax(&mut self, data: &[f32]) -> Result<Vec<f32>> {
        self.each(data, |x| x.softmax(&[0]))
    }

    /// Returns the logarithm of the softmax.
    ///
    /// # Errors
    /// As [`Self::unary`].
    pub fn log_softmax(&mut self, data: &[f32]) -> Result<Vec<f32>> {
        self.each(data, |x| x.log_softmax(&[0]))
    }

    /// Returns the product of an m x k and a k x n matrix.
    ///
    /// # Errors
    /// As [`Self::unary`]; [`Error::Elements`] for another number of elements.
    pub fn matmul(
        &mut self,
        a: &[f32],
        b: &[f32],
        m: usize,
        k: usize,
        n: usize,
    ) -> Result<Vec<f32>> {
        self.tensor(a, &[m, k])?.matmul(&self.tensor(b, &[k, n])?)?.to_vec()
    }

    /// Returns the sums of products of a kernel with every part of a matrix that has its shape.
    ///
    /// # Errors
    /// As [`Self::matmul`]; [`Error::Argument`] for a kernel that is larger than the matrix.
    pub fn convolve2d(
        &mut self,
        input: &[f32],
        kernel: &[f32],
        [rows, columns]: [usize; 2],
        [kernel_rows, kernel_columns]: [usize; 2],
    ) -> Result<Vec<f32>> {
        let x = self.tensor(input, &[1, 1, rows, columns])?;
        let weight = self.tensor(kernel, &[1, 1, kernel_rows, kernel_columns])?;
        x.conv2d(&weight, None, &ConvOptions::default())?.to_vec()
    }

    /// Returns the sum of a matrix, finished on the GPU.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn tiled_sum_2d_gpu(&mut self, data: &[f32], width: usize, height: usize) -> Result<f32> {
        tiles::tiled_sum_2d(&self.tensor(data, &[height, width])?)?.item()
    }

    /// Returns the largest of a matrix, finished on the GPU.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn tiled_max_2d_gpu(&mut self, data: &[f32], width: usize, height: usize) -> Result<f32> {
        tiles::tiled_max_2d(&self.tensor(data, &[height, width])?)?.item()
    }

    /// Returns the smallest of a matrix, finished on the GPU.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn tiled_min_2d_gpu(&mut self, data: &[f32], width: usize, height: usize) -> Result<f32> {
        tiles::tiled_min_2d(&self.tensor(data, &[height, width])?)?.item()
    }
}

macro_rules! each {
    ($($(#[$doc:meta])* $name:ident $op:ident)*) => {
        impl GpuBackend {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Self::unary`].
            pub fn $name(&mut self, data: &[f32]) -> Result<Vec<f32>> {
                self.unary(UnaryOp::$op, data)
            })*
        }
    };
}

each! {
    /// The larger of x and 0.
    relu Relu
    /// 1 / (1 + e^-x).
    sigmoid Sigmoid
    /// The hyperbolic tangent.
    tanh Tanh
    /// x / (1 + e^-x).
    swish Silu
    /// x times the probability that a normal variable is below x.
    gelu Gelu
}

/// Folds a matrix on the CPU.
///
/// # Errors
/// [`Error::Elements`] if the slice is not of these sizes.
pub fn tiled_reduce_2d<Op: ReduceOp>(data: &[f32], width: usize, height: usize) -> Result<f32> {
    tiles::tiled_reduce_2d::<Op>(&Tensor::from_slice(data, &[height, width], &Device::Cpu)?)?.item()
}

/// Folds each tile of a matrix on the CPU.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_reduce_partial<Op: ReduceOp>(
    data: &[f32],
    width: usize,
    height: usize,
) -> Result<Vec<f32>> {
    tiles::tiled_reduce_partial::<Op>(&Tensor::from_slice(data, &[height, width], &Device::Cpu)?)?
        .to_vec()
}

/// Returns the sum of a matrix, on the CPU.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_sum_2d(data: &[f32], width: usize, height: usize) -> Result<f32> {
    tiled_reduce_2d::<SumOp>(data, width, height)
}

/// Returns the largest of a matrix, on the CPU.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_max_2d(data: &[f32], width: usize, height: usize) -> Result<f32> {
    tiled_reduce_2d::<MaxOp>(data, width, height)
}

/// Returns the smallest of a matrix, on the CPU.
///
/// # Errors
/// As [`tiled_reduce_2d`].
pub fn tiled_min_2d(data: &[f32], width: usize, height: usize) -> Result<f32> {
    tiled_reduce_2d::<MinOp>(data, width, height)
}
