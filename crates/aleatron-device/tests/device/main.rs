//! Devices, buffers and kernels. Tests that lose a device or exhaust its memory are separate
//! programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod abilities;
mod batch;
mod buffers;
mod device;
mod kernels;
mod profile;
mod views;
mod waiting;
