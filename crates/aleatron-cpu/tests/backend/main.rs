//! Every tier and number of threads against the reference.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod encode;
mod errors;
mod gates;
mod program;
mod samples;
mod sequence;
mod table;
