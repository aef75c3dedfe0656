//! Training of networks, in floating point and through their bitstreams.
//!
//! - [`train`]: fine-tunes any [`Network`](aleatron_engine::network::Network) for given stream
//!   lengths and generators. The forward pass is the engine's, bit for bit what evaluation
//!   computes; gradients pass straight through the streams;
//! - [`train_lengths`]: searches for the shortest stream length of each layer, with retraining;
//! - [`module`]: layers to build models from, with the parameter names of torch;
//! - [`loss`], [`optimizer`], [`schedule`]: losses, SGD and Adam, learning rates;
//! - [`batches`]: shuffled batches of a data set, with augmentation;
//! - `language`, behind the cargo feature `transformer`: fine-tuning of language models, of all
//!   weights or by low-rank adapters;
//! - checkpoints: files from which training resumes with the same bits
//!   ([`TrainOptions::checkpoint`]).
//!
//! ```
//! use aleatron_data::Dataset;
//! use aleatron_engine::network::{Network, StreamConfig};
//! use aleatron_train::{Forward, TrainOptions, train};
//!
//! let network = Network::digits_noise_aware()?;
//! let data = Dataset::digits_train();
//! let streams = StreamConfig::new(8).generator("sobol".parse()?);
//! let options = TrainOptions { epochs: 1, forward: Forward::Streams(vec![streams]), ..TrainOptions::default() };
//! let trained = train(&network, &data, &options)?;
//! assert_eq!(trained.history.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod batches;
mod checkpoint;
mod error;
mod forward;
#[cfg(feature = "transformer")]
pub mod language;
mod lengths;
pub mod loss;
pub mod module;
pub mod optimizer;
mod parameter;
pub mod schedule;
mod score;
mod train;

pub use error::{Error, Result};
pub use forward::Forward;
pub use lengths::{LengthProgress, TrainedLengths, train_lengths};
pub use loss::Loss;
pub use optimizer::{
    Adam, AdamOptions, Decay, Optimizer, OptimizerKind, Sgd, SgdOptions, clip_grad_norm,
};
pub use parameter::Parameter;
pub use schedule::Schedule;
pub use score::{Score, calibrate_for};
pub use train::{Epoch, Progress, TrainOptions, Trained, train, train_with};

/// Runs the examples of the guide as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Guide;
