//! Every operation against 64-bit floats, on every device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod attention;
mod concat;
mod conv;
mod cooperative;
mod cumsum;
mod double;
mod elementwise;
mod gather;
mod matmul;
mod normalize;
mod operators;
mod pad;
mod pool;
mod random;
mod reduce;
mod resize;
mod sort;
mod tiles;
mod views;
