//! The engine: layers, networks, files, devices, and placement.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod batches;
mod binary;
mod convolutions;
mod cuda;
mod degenerate;
mod details;
mod devices;
mod faults;
mod files;
mod gpu;
mod graphs;
mod integers;
mod layer_errors;
mod layers;
mod networks;
mod placement;
mod ranges;
mod segments;
mod statistics;
mod support;
