//! Circuits against the engine: every generated file is simulated.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod conformance;
mod cost;
mod digits;
mod early;
mod formal;
mod mutants;
mod random;
mod refusals;
mod residual;
mod support;
mod tools;
