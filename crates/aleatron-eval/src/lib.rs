//! Evaluating a network as streams: accuracy against length, generator and precision.
//!
//! A [`Plan`] says which lengths, generators and seeds; [`evaluate`] runs a network over a data set for each of them and
//! returns an [`Evaluation`], whose [cells](Cell) hold everything that was measured, whose [rows](Evaluation::rows) sum it up over
//! seeds, and which can be saved as JSON, resumed, printed and turned into a [report](mod@report). [`multiplier`] evaluates a
//! pair of generators by all products of 8-bit values instead.
//!
//! [`evaluate_regression`] evaluates networks whose samples have targets instead of classes, with the same plan.
//!
//! What an evaluation does can be spread over processes and machines: a [`Job`] runs [tasks](Task), some pieces of the samples through
//! the network once, and an [`Assembly`] puts together what they found. [`evaluate`] does the same in one process.
//!
//! ```
//! use aleatron_core::Cancel;
//! use aleatron_data::Dataset;
//! use aleatron_eval::{Plan, evaluate};
//! use aleatron_engine::network::Network;
//!
//! let plan = Plan { lengths: vec![16, 32], generators: vec!["sobol".parse()?], ..Plan::default() };
//! let network = Network::digits_noise_aware()?;
//! let evaluation = evaluate(&network, &Dataset::digits_test(), &plan, None, Cancel::NEVER, |_| ())?;
//! assert!(evaluation.rows()[0].accuracy.mean >= 0.9);
//! # Ok::<(), aleatron_eval::Error>(())
//! ```
#![forbid(unsafe_code)]

mod assembly;
mod checkpoint;
mod early;
mod error;
mod find;
mod job;
mod lock;
mod losses;
pub mod multiplier;
mod outline;
mod part;
mod pass;
mod payload;
mod plan;
mod regression;
pub mod report;
mod result;
mod run;
mod statistics;
mod subject;
#[cfg(test)]
mod tests;
mod text;

pub use assembly::Assembly;
pub use checkpoint::CheckpointFile;
pub use early::{CertainStop, EarlyStop};
pub use error::{Error, Result};
pub use find::{Found, Search, Trial, find};
pub use job::Job;
pub use lock::FileLock;
pub use losses::find_losses;
pub use outline::{Outline, Task};
pub use part::{Part, read_lines};
pub use plan::Plan;
pub use regression::{
    ErrorEstimate, Errors, RegressionCell, RegressionEvaluation, RegressionRow, evaluate_regression,
};
pub use result::{
    Cell, DataSummary, Evaluation, GraphNode, GraphSummary, Losses, NetworkSummary, PlanSummary, Row,
};
pub use run::{Progress, evaluate};
pub use statistics::Estimate;
pub use text::plural;

/// Writes a result to a file: whole, or not at all.
///
/// # Errors
/// [`crate::Error::File`] where it cannot be written.
pub fn write(path: impl AsRef<std::path::Path>, text: &str) -> crate::Result<()> {
    let path = path.as_ref();
    aleatron_engine::file::replace(path, text.as_bytes()).map_err(|error| crate::Error::file(path, error))
}
