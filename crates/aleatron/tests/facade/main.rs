//! The facade: its re-exports, the conversion of errors of the other crates, and the names of other
//! systems.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

mod errors;
mod exports;
mod gpu;
