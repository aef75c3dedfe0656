//! Exhaustion of memory: a separate process, which it takes to its limits.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use aleatron_device::{ContextOptions, Error};
use common::own_context;

#[test]
fn exhausted_memory_is_an_error_and_device_continues() {
    // A pool that retains everything: the last allocation succeeds only if the pool frees memory
    // first.
    let context =
        own_context(&ContextOptions { pool_bytes: Some(u64::MAX), ..ContextOptions::default() });
    let mut allocated = Vec::new();
    let len = (context.info().max_buffer_bytes / 4 - 1) as usize;
    let mut error = None;
    // Far more than any machine has: the driver or the system's limits refuse at some point.
    for _ in 0..100_000 {
        match context.buffer::<u32>(len) {
            Ok(buffer) => allocated.push(buffer),
            Err(refused) => {
                error = Some(refused);
                break;
            }
        }
    }
    let error = error.expect("memory has an end");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let small = context.upload(&[3u32; 5]).unwrap();
    assert_eq!(small.read().unwrap(), [3; 5], "what fits still works");
    drop(allocated);
    assert!(context.pooled_bytes() > len as u64);
    // Of another size class, which the pool lacks. There is hardly room for them next to the pool's
    // memory: at some point it is emptied, and then there is.
    let mut others = Vec::new();
    while context.pooled_bytes() > 0 {
        others.push(context.buffer::<u32>(len / 2).unwrap());
        assert!(others.len() < 100_000);
    }
    assert!(!others.is_empty());
    drop(others);
    assert_eq!(context.upload(&[1u32, 2]).unwrap().read().unwrap(), [1, 2]);
}
