//! Evaluations of networks as streams: results, early termination, checkpoints, tasks, searches and regression.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod checkpoints;
mod evaluations;
mod find;
mod graph_stops;
mod graphs;
mod locks;
mod losses;
mod multiplier;
mod plans;
mod regression;
mod stopping;
mod support;
mod tasks;
