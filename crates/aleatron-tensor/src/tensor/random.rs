//! Random tensors, from the counter-based generator of the streams: element i is a function of the seed and of i alone, so every device,
//! thread count and part of a tensor has the same values. They are drawn on the host.

use aleatron_core::philox::{key, philox4x32};

use super::Tensor;
use crate::cpu::{filled, parallel};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::elements;
use crate::trace::report;

/// What the third word of a counter is for.
#[derive(Debug, Clone, Copy)]
enum Draws {
    Uniform = 0,
    Normal = 1,
}

/// The four words of a group of four elements.
fn words(seed: u64, group: u64, draws: Draws) -> [u32; 4] {
    philox4x32([group as u32, (group >> 32) as u32, draws as u32, 0x7465_6e73], key(seed))
}

/// Four floats in [0, 1), each a multiple of 2^-24.
fn uniform(words: [u32; 4]) -> [f32; 4] {
    words.map(|word| (word >> 8) as f32 / 16_777_216.0)
}

/// Four normal floats: two pairs by the method of Box and Muller, in 64-bit floats whose functions are the same on every machine.
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
    /// Floats from [0, 1), each as likely as any other: multiples of 2^-24, rounded to the type.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::rand(&[2, 3], 7, DType::F32, &Device::Cpu)?;
    /// assert_eq!(x.to_vec::<f32>()?, Tensor::rand(&[6], 7, DType::F32, &Device::Cpu)?.to_vec::<f32>()?);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DType`] for others than floats, or where there is no room.
    pub fn rand(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        draw("rand", shape, dtype, device, 4.0, |group| uniform(words(seed, group, Draws::Uniform)))
    }

    /// Normal floats with mean 0 and variance 1.
    ///
    /// # Errors
    /// As [`Self::rand`].
    pub fn randn(shape: &[usize], seed: u64, dtype: DType, device: &Device) -> Result<Self> {
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
