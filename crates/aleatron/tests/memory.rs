//! Calls and layers leak no memory, on the CPU and on a GPU.
//!
//! The tests measure the resident memory of the process, `/proc/self/statm`. An allocator retains
//! some freed memory, so that tests measure after a warm-up and fail if the growth is a quarter of
//! that of the smallest leak.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

use aleatron::StreamLayer;
use aleatron::network::{NetworkBuilder, StreamConfig};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests of this file share a process and its memory: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    // The system's page is 4 KiB on all tested machines; a larger one makes the bound stricter.
    pages * 4096
}

/// Returns the growth of memory over `calls` of `work`, after a tenth as many to warm up.
fn growth(calls: u64, mut work: impl FnMut(u64)) -> u64 {
    (0..calls / 10).for_each(&mut work);
    let before = resident();
    (0..calls).for_each(&mut work);
    resident().saturating_sub(before)
}

/// The calls of each test.
const CALLS: u64 = 100_000;

/// The smallest leak of one allocation: glibc's smallest chunk.
const SMALLEST: u64 = 32;

#[test]
fn calls_leak_no_memory() {
    let _alone = alone();
    let bound = CALLS * SMALLEST / 4;
    let mut layer = StreamLayer::dense(4, 3).length(64).build().unwrap();
    let values = [0.1, 0.4, 0.6, 0.9];
    let grown = growth(CALLS, |seed| assert_eq!(layer.counts(&values, seed).unwrap().len(), 3));
    assert!(grown < bound, "counts: {grown} bytes in {CALLS} calls");

    let weights = [0.5; 12];
    let grown = growth(CALLS, |_| layer.set_weights(&weights).unwrap());
    assert!(grown < bound, "set_weights: {grown} bytes in {CALLS} calls");

    let network = NetworkBuilder::new("n", &[2])
        .dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[])
        .dense("b", 2, &[0.75, -1.0, 0.5, 0.25], &[])
        .build()
        .unwrap();
    for generator in ["bernoulli", "sobol"] {
        let config = StreamConfig::new(64).generator(generator.parse().unwrap());
        let streams = network.to_streams(&config).unwrap();
        let grown = growth(CALLS, |k| drop(streams.forward(&[0.5, -0.5], k as u32).unwrap()));
        assert!(grown < bound, "{generator}: {grown} bytes in {CALLS} calls");
    }
    // Errors leak nothing, either.
    let grown = growth(CALLS, |_| drop(layer.counts(&[2.0; 4], 0).unwrap_err()));
    assert!(grown < bound, "errors: {grown} bytes in {CALLS} calls");
}

#[test]
fn layers_leak_no_memory() {
    let _alone = alone();
    let grown =
        growth(CALLS, |seed| drop(StreamLayer::dense(4, 3).length(64).seed(seed).build().unwrap()));
    assert!(grown < CALLS * SMALLEST / 4, "{grown} bytes in {CALLS} layers");
}

/// Layers on a GPU, whose memory belongs to the process if the adapter is a software one.
#[cfg(feature = "gpu")]
mod gpu {
    use super::{StreamLayer, alone, resident};
    use aleatron::Device;
    use aleatron::gpu::{AdapterChoice, adapter};

    fn device() -> Device {
        let choice = match AdapterChoice::from_env() {
            AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
            named => named,
        };
        let info = adapter::find(&choice).unwrap_or_else(|error| {
            panic!(
                "{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1"
            )
        });
        Device::Gpu(Some(info.index))
    }

    const LAYERS: u64 = 300;

    /// Weight streams of one layer: 64 by 64 of 1024 bits.
    const LAYER_BYTES: u64 = 64 * 64 * 1024 / 8;

    /// Whether a layer is called before it is dropped.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Use {
        Called,
        Dropped,
        Rewritten,
    }

    #[test]
    fn layers_on_a_gpu_leak_no_memory() {
        let _alone = alone();
        let device = device();
        let values = vec![0.5; 64];
        let make = |seed: u64, used: Use| {
            let builder = StreamLayer::dense(64, 64).length(1024).seed(seed).max_batch(1);
            let mut layer = builder.device(device.clone()).build().unwrap();
            match used {
                Use::Called => assert_eq!(layer.counts(&values, seed).unwrap().len(), 64),
                Use::Dropped => {}
                Use::Rewritten => layer.set_weights(&[0.5; 64 * 64]).unwrap(),
            }
        };
        for used in [Use::Called, Use::Dropped, Use::Rewritten] {
            (0..LAYERS / 10).for_each(|seed| make(seed, used));
            let before = resident();
            (0..LAYERS).for_each(|seed| make(seed, used));
            let grown = resident().saturating_sub(before);
            // Leaked, they would take the bytes of all of them.
            assert!(
                grown < LAYERS * LAYER_BYTES / 20,
                "{used:?}: {grown} bytes in {LAYERS} layers"
            );
        }
    }
}
