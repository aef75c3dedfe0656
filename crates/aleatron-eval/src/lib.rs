//! Evaluating a network as streams: accuracy or errors against length, generator and precision.
//!
//! A [`Plan`] has lengths, generators and seeds; [`evaluate`] runs a network over a data set for
//! each of them and returns an [`Evaluation`]. Its [cells](Cell) hold everything that was measured,
//! its [rows](Evaluation::rows) sum it up over seeds, and it can be saved as JSON, resumed, printed
//! and turned into a [report](mod@report). Samples with class labels are a classification, samples
//! with targets a regression. [`find`] searches for the shortest streams, [`explore`] for the
//! designs worth building. [`multiplier`] evaluates a pair of generators by all products of 8-bit
//! values.
//!
//! An evaluation can run on several processes and machines: a [`Job`] runs [tasks](Task), some
//! chunks of the samples through the network once, and a [`Journal`] collects their results.
//! [`evaluate`] does the same in one process.
//!
//! With the cargo feature `transformer`, `language` evaluates language models from Hugging Face
//! files.
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
//! assert!(evaluation.rows()[0].score() >= 0.9);
//! # Ok::<(), aleatron_eval::Error>(())
//! ```
// Documentation lists the automatic traits of types that hold a GPU, deep inside wgpu.
#![recursion_limit = "256"]
#![forbid(unsafe_code)]

mod checkpoint;
mod compare;
mod cost;
mod early;
mod error;
mod explore;
mod faults;
mod figures;
mod find;
mod finished;
mod job;
mod journal;
#[cfg(feature = "transformer")]
pub mod language;
mod lock;
mod losses;
pub mod multiplier;
mod pass;
mod plan;
mod provenance;
pub mod report;
mod result;
mod run;
mod schedule;
mod serial;
mod sha256;
mod split;
mod statistics;
mod subject;
mod task;
mod text;

pub use checkpoint::CheckpointFile;
#[cfg(feature = "transformer")]
pub use compare::compare_language;
pub use compare::{
    Compared, ComparedScore, Comparison, Method, ResultFile, RowDifference, RowKey,
    ScoreDifference, SettingDifference, Subject, Verdict, compare, compare_results,
};
pub use cost::{CircuitCost, CostFigures, RowCost, add_cost, add_costs};
pub use early::{CertainStop, EarlyStop};
pub use error::{Error, Result};
pub use explore::{
    Design, DesignCost, DesignSpace, DesignTrial, EarlyTermination, Exploration, Lanes, Missing,
    PendingTrial, Rung, StreamDesign, explore, pending_trials, run_trial,
};
pub use faults::FaultPoint;
pub use figures::{
    CellFigures, Classification, ClassificationRow, ErrorEstimate, Errors, Figures, FloatAccuracy,
    FloatFigures, Regression, RegressionRow, RowFigures,
};
pub use find::{Found, Measure, Retrain, Search, Trial, find, find_retrained};
#[doc(hidden)]
pub use finished::whole_lines;
pub use job::Job;
pub use journal::Journal;
pub use lock::FileLock;
pub use losses::find_losses;
pub use plan::Plan;
pub use provenance::{Provenance, Source};
pub use result::{
    Cell, DataSummary, Evaluation, GraphNode, GraphSummary, Losses, NetworkSummary, Row,
};
pub use run::{Progress, evaluate};
pub use schedule::Schedule;
pub use statistics::Estimate;
pub use task::{Task, TaskResult};
#[doc(hidden)]
pub use text::plural;

#[doc(hidden)]
/// Writes a result to a file, as a whole or not at all.
///
/// # Errors
/// [`crate::Error::File`] if it cannot be written.
pub fn write(path: impl AsRef<std::path::Path>, text: &str) -> crate::Result<()> {
    let path = path.as_ref();
    aleatron_engine::file::replace(path, text.as_bytes())
        .map_err(|error| crate::Error::file(path, error))
}
