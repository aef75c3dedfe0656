//! Judging a network as streams: accuracy against length, generator and precision.
//!
//! A [`Plan`] says which lengths, generators and seeds; [`evaluate`] runs a network over a data set for each of them and
//! returns an [`Evaluation`], whose [cells](Cell) hold everything that was measured, whose [rows](Evaluation::rows) sum it up over
//! seeds, and which can be saved as JSON, resumed, printed and turned into a [report](mod@report). [`multiplier`] judges a
//! pair of generators by all products of 8-bit values instead.
//!
//! ```
//! use aleatron::data::Dataset;
//! use aleatron::eval::{Plan, evaluate};
//! use aleatron::network::Network;
//! use std::ops::ControlFlow;
//!
//! let plan = Plan { lengths: vec![16, 32], generators: vec!["sobol".parse()?], ..Plan::default() };
//! let network = Network::digits_noise_aware()?;
//! let evaluation = evaluate(&network, &Dataset::digits_test(), &plan, None, |_| ControlFlow::Continue(()))?;
//! assert!(evaluation.rows()[0].accuracy.mean >= 0.9);
//! # Ok::<(), aleatron::Error>(())
//! ```

mod early;
mod error;
pub mod multiplier;
mod plan;
pub mod report;
mod result;
mod run;
mod statistics;
mod text;

pub use early::EarlyStop;
pub use error::PlanError;
pub use plan::{GeneratorSpec, Plan, SequenceSpec};
pub use result::{Cell, DataSummary, Evaluation, NetworkSummary, PlanSummary, Row};
pub use run::{Progress, evaluate};
pub use statistics::Estimate;
