//! The specification: known answers, properties, errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod arithmetic;
mod backends;
mod conformance;
mod errors;
mod faults;
mod generators;
mod golden;
mod graphs;
mod layer_specs;
mod layers;
mod programs;
mod shapes;
mod streams;
mod values;
