//! Dropped buffers release their memory without any later call: a separate process, whose memory is
//! measured.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::{AdapterKind, ContextOptions};
use common::own_context;

/// Returns the resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

const BYTES: usize = 16 << 20;

/// Number of freed bytes that submitted commands may hold before freeing waits for them, as in
/// `pool.rs`.
const HELD_BYTES: usize = 256 << 20;

#[test]
fn dropped_buffers_release_their_memory() {
    let context =
        own_context(&ContextOptions { pool_bytes: Some(1 << 20), ..ContextOptions::default() });
    // The memory of other devices is not this process's.
    assert_eq!(
        context.info().kind,
        AdapterKind::Software,
        "set SC_GPU_ADAPTER=llvmpipe for this test"
    );
    let data = vec![1u8; BYTES];
    let cycle = |round: usize| {
        // Written and never submitted; and written and used by commands that may still be in
        // flight.
        let buffer = context.upload(&data).unwrap();
        if round.is_multiple_of(2) {
            let other = context.buffer::<u8>(BYTES).unwrap();
            let mut recorder = context.recorder(None).unwrap();
            recorder.copy(buffer.view(), other.view()).unwrap();
            recorder.submit().unwrap();
        }
    };
    (0..10).for_each(cycle);
    let before = resident();
    let mut most = before;
    for round in 0..300 {
        cycle(round);
        most = most.max(resident());
    }
    // 300 cycles touch 7 GiB. Freed buffers that commands hold are bounded, including the staging
    // memory of their writes, and up to three more are in use.
    let (grown, bound) = (most - before, (2 * HELD_BYTES + 3 * BYTES) as u64);
    assert!(grown < bound, "{} MiB more than before", grown >> 20);
    // Without any call, the remaining memory is released.
    let patience = std::time::Instant::now();
    while resident() > before + (2 * BYTES as u64) {
        let held = (resident() - before) >> 20;
        assert!(patience.elapsed().as_secs() < 20, "{held} MiB are still held");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
