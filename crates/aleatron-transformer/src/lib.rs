//! Decoder-only transformers from Hugging Face files, resident on a GPU or on the CPU's cores.
//!
//! - [`Transformer`] loads a folder and generates text; [`ForwardPass`] is the underlying pass, for
//!   batches, caches and adapters: [`WgslForwardPass`] on GPUs and [`CpuForwardPass`] on the CPU,
//!   with one interface.
//! - [`config`] and [`rope`] describe a model, [`weights`] converts its tensors to matrices,
//!   [`lora`] reads adapters.
//! - [`products`] lets an executor compute or observe the linear products of a pass.
//! - [`ModelSource`] is a folder, or the embedded model.
//! - [`sampling`] chooses tokens, [`tokenizer`] converts them to text.
//!
//! Unsafe code: the call that maps a file in `weights/files.rs`, and calls of functions for AVX2 in
//! `cpu/dot.rs`.
#![deny(unsafe_code)]

pub mod config;
pub mod cpu;
pub mod error;
mod generation;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod lora;
mod options;
mod pass;
mod penalty;
pub mod products;
pub mod rope;
pub mod sampling;
mod source;
pub mod tokenizer;
mod transformer;
pub mod weights;

pub use config::{Config, Precision};
pub use cpu::CpuForwardPass;
pub use error::{Error, Result};
pub use generation::{GenerationConfig, GenerationOverrides};
#[cfg(feature = "gpu")]
pub use gpu::WgslForwardPass;
pub use lora::{Adapter, AdapterOptions, AlphaScaling, QkvLoRA};
pub use pass::{AdapterId, ForwardPass, Logits, Segment, SequenceId};
pub use products::{LinearId, LinearProduct, LinearProducts, ProductOutcome, TokenPosition};
pub use sampling::Sampling;
pub use source::ModelSource;
pub use tokenizer::{TextStream, Tokenizer};
pub use transformer::{
    DeviceChoice, GenerateOptions, Generation, GenerationState, LoadOptions, Transformer,
};
