//! Every tier and number of threads against the reference.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod arithmetic;
mod conformance;
mod gates;
mod sequence;
mod table;
