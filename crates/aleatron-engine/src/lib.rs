//! Layers and networks as stochastic bitstreams, on any processor.
//!
//! - [`StreamLayer`]: a layer over given or random weights, of any kind, on any [`Device`];
//! - [`network`]: networks, their files, and how they are calibrated;
//! - [`stream`]: networks as streams;
//! - [`backend`]: the processors that all of them run on.
//!
//! `aleatron-core` is the specification of the bits; `aleatron-eval` measures the accuracy of
//! networks as streams. The crate `aleatron` re-exports all of them.
#![forbid(unsafe_code)]

pub mod backend;
mod compile;
mod concurrent;
mod error;
mod layer;
pub mod network;
mod product;
pub mod stream;

#[doc(hidden)]
pub use aleatron_core::file;
pub use backend::Device;
pub use error::{Error, RefusedNode, Result};
pub use layer::{DEFAULT_WEIGHT_SEED, LayerBuilder, StreamLayer, encode_inputs};
pub use product::StreamProduct;

/// The version of Aleatron.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
