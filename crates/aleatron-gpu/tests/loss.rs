//! The shared context after its device was lost: alone in its process, since every other test shares it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{DenseShape, Polarity, StreamAddress, Threshold};
use aleatron_gpu::{Error, GpuDense};
use common::{context, length};

#[test]
fn the_next_context_after_a_lost_device_works() {
    let shape = DenseShape::new(3, 1, length(64), Polarity::Unipolar).unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let context = context();
        ids.push(context.id());
        let layer = GpuDense::from_words(&context, shape, 1, &[u64::MAX; 3]).unwrap();
        let counts = || layer.counts(&[Threshold::ONE; 3], StreamAddress::input(0, 0, 0));
        assert_eq!(counts().unwrap(), [192]);
        context.destroy();
        assert!(matches!(counts(), Err(Error::DeviceLost { .. })));
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "a new device each time");
}
