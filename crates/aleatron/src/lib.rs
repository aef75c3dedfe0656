//! Neural networks as streams of random bits: a number in [0, 1] is a stream whose share of ones is
//! the number, AND multiplies, popcount adds.
//!
//! Aleatron computes what a stochastic-computing chip would, **bit for bit the same** on every SIMD
//! tier, thread count, GPU and batch split: results are integers, compared with `==`, defined by
//! `docs/streams.md`.
//!
//! ```
//! use aleatron::StreamLayer;
//!
//! let layer = StreamLayer::dense(64, 32).length(1024).build()?;
//! let x = vec![0.5; 64];
//! let y = layer.forward(&x, 44257)?; // 32 noisy dot products of the weights with x
//! let exact: f64 = layer.weights()[..64].iter().map(|w| w * 0.5).sum();
//! assert!((y[0] - exact).abs() < 1.0);
//! assert_eq!(y[0] * 1024.0, layer.counts(&x, 44257)?[0] as f64);
//! # Ok::<(), aleatron::Error>(())
//! ```
//!
//! - [`StreamLayer`]: a layer over given or random weights, dense, sparse or a convolution, of
//!   random bits or low-discrepancy sequences, on any [`Device`];
//! - [`network`]: networks, built layer by layer or read from ONNX files, and their execution as
//!   streams;
//! - [`data`], [`eval`]: samples, and the accuracy of networks as streams;
//! - [`train`](mod@train): training in floating point and through streams;
//! - [`hardware`]: circuits of networks, in Verilog that is equal to the engine;
//! - [`backend`]: the processors that layers run on;
//! - [`tensor`]: float tensors on the CPU and on GPUs;
//! - `transformer`, behind the cargo feature of this name: language models from Hugging Face files;
//! - [`Cpu`]: the operations underneath, on packed words;
//! - [`stream`], [`gates`], [`generator`], [`lif`] and other modules of `aleatron-core`: the
//!   meaning of every bit, with a plain [`reference`](mod@reference) of each operation;
//! - [`simd_tier`], [`set_num_threads`], [`set_draw_memory`]: settings that change the speed and
//!   never a result;
//! - [`Error`]: the error of every crate. Layers and networks return an [`EngineError`], data a
//!   [`data::Error`], evaluations an [`eval::Error`]; `?` converts them;
//! - [`compat`]: names of other systems.
//!
//! This crate re-exports the others: `aleatron-core` defines streams, `aleatron-engine` has layers
//! and networks, `aleatron-data` samples and `aleatron-eval` evaluations. Examples on their pages
//! use the names of these crates.
#![forbid(unsafe_code)]

pub mod compat;
mod error;

pub use aleatron_core::lif::{
    FixedPointLif, LifDrive, LifLayer, LifLayerParams, LifParams, LifTrace,
};
pub use aleatron_core::{
    BackendFault, BitStream, Cancel, Connections, ConvShape, Convolution, DenseShape, Encoding,
    InputSource, LayerIndex, LayerSpec, Length, Polarity, SampleSeed, StreamAddress, StreamMatrix,
    Threshold, Topology, WeightSource, Weights,
};
pub use aleatron_core::{
    Error as CoreError, Quantity, arithmetic, conformance, correlation, fault, gates, generator,
    golden, lif, memory, reference, stream, threshold,
};
pub use aleatron_cpu::{
    Cpu, CpuBackend, Pool, Tier, get_draw_memory, get_num_threads, set_draw_memory, set_num_threads,
};
#[cfg(feature = "cuda")]
pub use aleatron_cuda as cuda;
#[doc(inline)]
pub use aleatron_data as data;
pub use aleatron_engine::{
    DEFAULT_WEIGHT_SEED, Device, Error as EngineError, LayerBuilder, RefusedNode, StreamLayer,
    VERSION, backend, encode_inputs,
};
#[doc(inline)]
pub use aleatron_eval as eval;
#[cfg(feature = "gpu")]
pub use aleatron_gpu as gpu;
#[doc(inline)]
pub use aleatron_hardware as hardware;
#[doc(inline)]
pub use aleatron_tensor as tensor;
#[doc(inline)]
pub use aleatron_train as train;
#[cfg(feature = "transformer")]
pub use aleatron_transformer as transformer;
pub use error::{Error, Result};

/// Networks, their files, their calibration and their execution as streams.
pub mod network {
    #[doc(inline)]
    pub use aleatron_engine::network::*;
    #[doc(inline)]
    pub use aleatron_engine::stream::*;
}

/// Returns the name of the SIMD tier whose kernels are in use: the best of this machine, or the one
/// that `ALEATRON_TIER` names.
///
/// # Errors
/// If `ALEATRON_TIER` names no tier of this machine.
pub fn simd_tier() -> Result<&'static str> {
    Ok(Tier::current()?.name())
}

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
