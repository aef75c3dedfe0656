//! Circuits against the engine: everything that is generated is simulated.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod digits;
mod mutants;
mod random;
mod refusals;
mod residual;
mod support;
mod tools;
