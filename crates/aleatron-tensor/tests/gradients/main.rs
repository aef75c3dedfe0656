//! Gradients against finite differences in 64-bit floats, exact adjoints, and devices against each
//! other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod check;
mod devices;
mod elementwise;
mod engine;
mod function;
mod linear;
mod reduce;
mod shape;
