//! The shared context after the loss of its device: a separate process, since every other test
//! shares it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::Error;
use common::context;

#[test]
fn context_after_a_lost_device_works() {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let context = context();
        ids.push(context.id());
        let buffer = context.upload(&[1u32, 2, 3]).unwrap();
        assert_eq!(buffer.read().unwrap(), [1, 2, 3]);
        context.destroy();
        assert!(matches!(buffer.read(), Err(Error::DeviceLost { .. })));
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "a new device each time");
}
