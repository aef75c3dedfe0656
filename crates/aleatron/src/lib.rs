//! Neural networks as streams of random bits: a number in [0, 1] is a stream whose share of ones is the number, AND
//! multiplies, popcount adds.
//!
//! Aleatron computes what a stochastic-computing chip would, **bit for bit the same** on every SIMD tier, thread count
//! and batch split: results are integers, compared with `==`, defined by `docs/streams.md`.
//!
//! ```
//! use aleatron::DenseLayer;
//!
//! let layer = DenseLayer::new(64, 32, 1024, 24301)?;
//! let x = vec![0.5; 64];
//! let y = layer.forward(&x, 44257)?; // 32 noisy dot products of the weights with x
//! let exact: f64 = layer.weights()[..64].iter().map(|w| w * 0.5).sum();
//! assert!((y[0] - exact).abs() < 1.0);
//! assert_eq!(y[0] * 1024.0, layer.counts(&x, 44257)?[0] as f64);
//! # Ok::<(), aleatron::Error>(())
//! ```
//!
//! - [`DenseLayer`] and [`SparseLayer`]: layers over given or random weights;
//! - [`DeviceLayer`]: a dense layer on the CPU, a GPU (feature `gpu`), or wherever it was measured to be faster;
//! - [`Cpu`]: the operations underneath, on packed words;
//! - [`core`]: what every bit means, streams, gates and neurons, with a plain reference of each;
//! - [`simd_tier`], [`set_num_threads`], [`set_draw_memory`]: how it runs, which never changes what it computes.
#![forbid(unsafe_code)]

pub mod data;
pub mod device;
mod error;
pub mod eval;
pub mod layer;
pub mod network;
mod seed;

pub use aleatron_core as core;
pub use aleatron_core::lif::{FixedPointLif, LifDrive, LifLayer, LifLayerParams, LifParams, LifTrace};
pub use aleatron_core::{
    BitStream, Connections, DenseShape, LayerIndex, Length, Polarity, StreamAddress, StreamMatrix, Threshold,
    gates,
};
pub use aleatron_cpu::threads::forget_after_fork;
pub use aleatron_cpu::{Cpu, Pool, Tier, get_draw_memory, get_num_threads, set_draw_memory, set_num_threads};
#[cfg(feature = "gpu")]
pub use aleatron_gpu as gpu;
#[cfg(feature = "gpu")]
pub use device::GpuDenseLayer;
pub use device::{Device, DeviceLayer};
pub use error::{Error, Result};
pub use layer::{DenseLayer, SparseLayer};
pub use seed::{DEFAULT_INPUT_SEED, DEFAULT_WEIGHT_SEED, SampleSeed};

/// The version of Aleatron.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The name of the SIMD tier whose kernels are in use: the best of this machine, or the one `ALEATRON_TIER` names.
///
/// # Errors
/// Where `ALEATRON_TIER` names no tier of this machine.
pub fn simd_tier() -> Result<&'static str> {
    Ok(Tier::current()?.name())
}

/// The examples of the README, which must work as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
