//! Evaluations of networks as streams: results, early termination, checkpoints, tasks, searches,
//! regression, and their tables and pages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

#[cfg(feature = "transformer")]
mod binomial;
mod checkpoints;
mod costs;
mod evaluations;
mod exploration;
mod faults;
mod find;
mod graph_stops;
mod graphs;
#[cfg(feature = "transformer")]
mod language;
#[cfg(feature = "transformer")]
mod language_noise;
#[cfg(feature = "transformer")]
mod language_onnx;
#[cfg(feature = "transformer")]
mod language_tasks;
mod locks;
mod losses;
mod multiplier;
mod plans;
mod regression;
mod results;
mod searches;
mod stopping;
mod support;
mod tasks;
