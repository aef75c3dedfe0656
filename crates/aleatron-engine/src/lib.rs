//! Layers, networks and graphs as streams of random bits, on any processor.
//!
//! - [`StreamLayer`]: a layer over given or random weights, of any kind, on any [`Device`];
//! - [`network`]: layers in a row, and their files;
//! - `graph`, with the feature of that name: networks of ONNX files, whose products run as streams;
//! - [`backend`]: the processors all of them run on.
//!
//! What bits mean is in `aleatron-core`; how accurate a network is as streams, `aleatron-eval` finds. The crate `aleatron` has all of them together.
#![forbid(unsafe_code)]

pub mod backend;
mod concurrent;
mod error;
pub mod file;
#[cfg(feature = "graph")]
pub mod graph;
mod layer;
pub mod network;

pub use backend::Device;
#[cfg(feature = "graph")]
pub use error::RefusedNode;
pub use error::{Error, Parameter, Result};
pub use layer::{DEFAULT_WEIGHT_SEED, LayerBuilder, StreamLayer, encode_inputs};

/// The version of Aleatron.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
