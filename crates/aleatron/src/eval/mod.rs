//! Judging networks as streams.

mod error;

pub use error::PlanError;
