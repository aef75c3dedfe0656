//! Many threads wait for one device at the same time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::context;

#[test]
fn threads_waiting_together_all_get_their_results() {
    let context = context();
    std::thread::scope(|scope| {
        for thread in 0..16u32 {
            let context = &context;
            scope.spawn(move || {
                for n in 0..3000u32 {
                    let buffer = context.upload(&[thread, n]).unwrap();
                    assert_eq!(buffer.read().unwrap(), [thread, n]);
                }
            });
        }
    });
}
