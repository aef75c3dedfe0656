//! Random tensors, from the counter-based generator of the streams: element i is a function of the
//! seed and of i alone, so every device, thread count and part of a tensor has the same values.
//! They are drawn on the host.
//!
//! [`Tensor::rand`] and [`Tensor::randn`] draw new numbers on each call, from the [`Generator`] of
//! the process; [`manual_seed`] restarts it. The forms with a seed return the same numbers for the
//! same seed.

use std::sync::{Mutex, PoisonError};

use aleatron_core::philox::{key, philox4x32};

use super::Tensor;
use crate::cpu::{filled, parallel};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::elements;
use crate::trace::report;

/// The use of the third word of a counter.
#[derive(Debug, Clone, Copy)]
enum Draws {
    Uniform = 0,
    Normal = 1,
    Seed = 2,
}

/// A sequence of seeds, one for each random tensor.
///
/// Equal generators give equal tensors in the same order. [`Tensor::rand`] draws from the generator
/// of the process; a generator of its own makes a part of a program independent of the others.
///
/// ```
/// use aleatron_tensor::{DType, Device, Generator};
/// let mut generator = Generator::new(7);
/// let first = generator.randn(&[3], DType::F32, &Device::Cpu)?.to_vec::<f32>()?;
/// let second = generator.randn(&[3], DType::F32, &Device::Cpu)?.to_vec::<f32>()?;
/// assert_ne!(first, second);
/// assert_eq!(Generator::new(7).randn(&[3], DType::F32, &Device::Cpu)?.to_vec::<f32>()?, first);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
    calls: u64,
}

impl Generator {
    /// Creates a generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, calls: 0 }
    }

    /// Returns the seed of the next tensor.
    pub fn next_seed(&mut self) -> u64 {
        let [low, high, ..] = words(self.seed, self.calls, Draws::Seed);
        self.calls = self.calls.wrapping_add(1);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Draws floats from [0, 1), like [`Tensor::rand`].
    ///
    /// # Errors
    /// As [`Tensor::rand`].
    pub fn rand(&mut self, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::rand_seeded(shape, self.next_seed(), dtype, device)
    }

    /// Draws normal floats, like [`Tensor::randn`].
    ///
    /// # Errors
    /// As [`Tensor::rand`].
    pub fn randn(&mut self, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::randn_seeded(shape, self.next_seed(), dtype, device)
    }
}

/// The generator of the process. Its first seed is always the same: a program that draws in one
/// thread repeats its numbers.
static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new(0));

fn next_seed() -> u64 {
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner).next_seed()
}

/// Restarts the generator of the process, from which [`Tensor::rand`] and [`Tensor::randn`] draw.
///
/// ```
/// use aleatron_tensor::{DType, Device, Tensor, manual_seed};
/// manual_seed(42);
/// let x = Tensor::randn(&[2], DType::F32, &Device::Cpu)?;
/// manual_seed(42);
/// assert_eq!(Tensor::randn(&[2], DType::F32, &Device::Cpu)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
pub fn manual_seed(seed: u64) {
    *GENERATOR.lock().unwrap_or_else(PoisonError::into_inner) = Generator::new(seed);
}

/// Returns the four words of a group of four elements.
fn words(seed: u64, group: u64, draws: Draws) -> [u32; 4] {
    philox4x32([group as u32, (group >> 32) as u32, draws as u32, 0x7465_6e73], key(seed))
}

/// Returns four floats in [0, 1), each a multiple of 2^-24.
fn uniform(words: [u32; 4]) -> [f32; 4] {
    words.map(|word| (word >> 8) as f32 / 16_777_216.0)
}

/// Returns four normal floats: two pairs by the method of Box and Muller, in 64-bit floats whose
/// functions are the same on every machine.
fn normal(words: [u32; 4]) -> [f32; 4] {
    let pair = |radius: u32, turn: u32| {
        let radius = (-2.0 * libm::log((f64::from(radius) + 0.5) / 4_294_967_296.0)).sqrt();
        let angle = std::f64::consts::TAU * f64::from(turn) / 4_294_967_296.0;
        [(radius * libm::cos(angle)) as f32, (radius * libm::sin(angle)) as f32]
    };
    let [a, b] = pair(words[0], words[1]);
    let [c, d] = pair(words[2], words[3]);
    [a, b, c, d]
}

impl Tensor {
    /// Draws floats from [0, 1), different ones on each call: multiples of 2^-24, rounded to the
    /// type. [`manual_seed`] makes a program repeat them.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let [x, y] = [(); 2].map(|()| Tensor::rand(&[2, 3], DType::F32, &Device::Cpu));
    /// assert_ne!(x?.to_vec::<f32>()?, y?.to_vec::<f32>()?);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DType`] for other types than floats, [`Error::Memory`] if memory is exhausted.
    pub fn rand(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::rand_seeded(shape, next_seed(), dtype, device)
    }

    /// Draws normal floats with mean 0 and variance 1, different ones on each call.
    ///
    /// # Errors
    /// As [`Self::rand`].
    pub fn randn(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::randn_seeded(shape, next_seed(), dtype, device)
    }

    /// Draws floats from [0, 1), the same for the same seed on every device.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::rand_seeded(&[2, 3], 7, DType::F32, &Device::Cpu)?;
    /// assert_eq!(x.to_vec::<f32>()?, Tensor::rand_seeded(&[6], 7, DType::F32, &Device::Cpu)?.to_vec::<f32>()?);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::rand`].
    pub fn rand_seeded(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        draw("rand", shape, dtype, device, 4.0, |group| uniform(words(seed, group, Draws::Uniform)))
    }

    /// Draws normal floats with mean 0 and variance 1, the same for the same seed on every device.
    ///
    /// # Errors
    /// As [`Self::rand`].
    pub fn randn_seeded(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        draw("randn", shape, dtype, device, 25.0, |group| normal(words(seed, group, Draws::Normal)))
    }
}

fn draw(
    op: &'static str,
    shape: &[usize],
    dtype: DType,
    device: &Device,
    nanoseconds: f64,
    group: impl Fn(u64) -> [f32; 4] + Sync,
) -> Result<Tensor> {
    if !dtype.is_float() {
        return Err(Error::DType { op, dtype, expected: "floats" });
    }
    let storage = filled(DType::F32, elements(shape)?, |buffer| {
        parallel::for_each_chunk(buffer.slice_mut::<f32>()?, 1 << 14, nanoseconds, |start, out| {
            for (i, out) in out.chunks_mut(4).enumerate() {
                let values = group((start / 4 + i) as u64);
                out.copy_from_slice(&values[..out.len()]);
            }
            Ok(())
        })
    })?;
    let tensor = Tensor::from_cpu(storage, shape)?.cast(dtype)?.to_device(device)?;
    Ok(report(op, tensor))
}
