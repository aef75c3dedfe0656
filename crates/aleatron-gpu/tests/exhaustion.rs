//! Memory runs out: alone in its process, which it takes to its limits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{DenseShape, Polarity, StreamAddress, Threshold};
use aleatron_gpu::{Error, GpuDense, Memory};
use common::{context, length};

#[test]
fn exhausted_memory_is_an_error_and_the_device_goes_on() {
    // Far more than any machine has: the driver says no at some point, or the system's limits do.
    let context = context();
    let mut held = Vec::new();
    let len = (context.info().max_buffer_bytes / 4 - 1) as usize;
    let mut error = None;
    for _ in 0..100_000 {
        match context.buffer::<u32>(len, Memory::Device) {
            Ok(buffer) => held.push(buffer),
            Err(refused) => {
                error = Some(refused);
                break;
            }
        }
    }
    let error = error.expect("memory has an end");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    drop(held);
    context.trim();
    let shape = DenseShape::new(2, 2, length(64), Polarity::Unipolar).unwrap();
    let layer = GpuDense::from_words(&context, shape, 4, &[1, 3, 7, 15]).unwrap();
    let counts = layer.counts(&[Threshold::ONE; 2], StreamAddress::input(0, 0, 0)).unwrap();
    assert_eq!(counts, [3, 7]);
}
