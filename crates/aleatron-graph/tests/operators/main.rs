//! Operators of ONNX, read from files and compared with values derived by hand or by plain loops.
#![allow(clippy::unwrap_used, clippy::panic)]

mod file;
mod ml;
mod narrow;
mod quantized;
mod recurrent;
mod scan;
mod signal;
