//! The specification of Aleatron's bits, as code.
//!
//! This crate defines every stream bit ([`philox`], [`address`], [`threshold`]), the containers of
//! streams ([`stream`]), gates ([`gates`]), the counts of dense, sparse and convolutional layers
//! ([`layer`], [`connections`], [`ConvShape`]) and the steps of fixed-point neurons ([`lif`]). It
//! has no kernels: [`reference`](mod@reference) computes each operation one bit at a time and is
//! never optimized, and [`conformance`] is the suite of cases that compares every faster backend
//! with it.
//!
//! Random sources that streams share, as in hardware, are in [`generator`]; [`correlation`]
//! measures two streams.
//!
//! Start with [`stream`], then [`address`]; the specification in prose is `docs/streams.md`.
//!
//! ```
//! use aleatron_core::{Length, StreamAddress, Threshold, reference};
//!
//! let half = Threshold::from_probability(0.5)?;
//! let stream = reference::encode(half, Length::new(128)?, StreamAddress::input(42, 0, 0));
//! assert_eq!(stream.words(), [0x73b5_ad63_6315_0fac, 0xc73d_b848_145b_a3e7]);
//! # Ok::<(), aleatron_core::Error>(())
//! ```
#![deny(unsafe_code)]

pub mod address;
pub mod arithmetic;
pub mod backend;
mod cancel;
pub mod conformance;
pub mod connections;
mod convolution;
pub mod correlation;
pub mod dense;
pub mod error;
pub mod fault;
#[doc(hidden)]
pub mod file;
pub mod gates;
pub mod generator;
pub mod golden;
pub mod layer;
pub mod lif;
pub mod memory;
pub mod philox;
mod polarity;
pub mod program;
pub mod reference;
pub mod stream;
pub mod threshold;
pub mod weights;
pub mod windows;

pub use address::{Domain, LayerIndex, StreamAddress};
pub use backend::{Backend, Batch, PreparedLayer};
pub use cancel::Cancel;
pub use connections::Connections;
pub use convolution::{ConvShape, Convolution};
pub use correlation::Overlap;
pub use dense::DenseShape;
pub use error::{BackendFault, Error, Quantity, Result};
pub use generator::{CountTable, OperandSequences, Pairing, Sequence, Sharing, Width};
pub use layer::{Encoding, InputSource, LayerSpec, SampleSeed, Topology, WeightSource, Weights};
pub use polarity::Polarity;
pub use stream::{BitStream, Length, StreamMatrix};
pub use threshold::Threshold;
