//! Every kernel against the reference. Tests that lose a device or reach its limits are separate
//! programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod conformance;
mod conv;
mod dense;
mod encode;
mod gates;
mod profile;
mod program;
mod sequence;
mod sparse;
mod table;
