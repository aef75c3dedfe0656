//! Several devices give the counts of one, for any split.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::{DenseShape, Polarity, StreamAddress};
use aleatron_gpu::device::Error as DeviceError;
use aleatron_gpu::{ContextOptions, Error, GpuDense, GpuDevicePool, Split, adapter};
use common::{Draw, choice, context, length};
use std::sync::Arc;

#[test]
fn counts_do_not_depend_on_the_split() {
    let mut draw = Draw::new(31);
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let shape = DenseShape::new(9, 10, length(150), polarity).unwrap();
        let (weights, inputs) = (draw.thresholds(90), draw.thresholds(9 * 13));
        let (first, input) = (StreamAddress::weight(1, 0, 2), StreamAddress::input(2, 0, 5));
        let one = GpuDense::from_thresholds(&context(), shape, 16, &weights, first).unwrap();
        let (words, expected) = (one.words().unwrap(), one.counts(&inputs, input).unwrap());
        for n in [1, 2, 3, 12] {
            let pool = GpuDevicePool::logical(&choice(), n, &ContextOptions::default()).unwrap();
            assert_eq!(pool.contexts().len(), n);
            for split in [Split::Neurons, Split::Samples] {
                let drawn = pool.dense_from_thresholds(shape, split, 4, &weights, first).unwrap();
                assert_eq!(drawn.counts(&inputs, input).unwrap(), expected, "{n} {split:?}");
                let given = pool.dense_from_words(shape, split, 4, &words).unwrap();
                assert_eq!(given.counts(&inputs, input).unwrap(), expected, "{n} {split:?}");
                let held: usize = given.parts().map(|(neurons, _)| neurons.len()).sum();
                assert_eq!(held, if split == Split::Neurons { 10 } else { 10 * n });
            }
        }
    }
}

#[test]
fn a_failing_device_and_bad_requests_are_errors() {
    let none = GpuDevicePool::new(vec![]);
    assert!(matches!(none, Err(Error::Device(DeviceError::NoAdapter { .. }))));
    let pool = GpuDevicePool::logical(&choice(), 2, &ContextOptions::default()).unwrap();
    let shape = DenseShape::new(2, 4, length(8), Polarity::Unipolar).unwrap();
    assert!(matches!(pool.dense_from_words(shape, Split::Neurons, 1, &[0; 7]), Err(Error::Core(_))));
    let layer = pool.dense_from_words(shape, Split::Neurons, 1, &[0; 8]).unwrap();
    let mut draw = Draw::new(32);
    assert!(matches!(layer.counts(&draw.thresholds(3), StreamAddress::input(0, 0, 0)), Err(Error::Core(_))));
    pool.contexts()[1].destroy();
    let lost = layer.counts(&draw.thresholds(4), StreamAddress::input(0, 0, 0));
    assert!(matches!(lost, Err(Error::Device(DeviceError::DeviceLost { .. }))), "{lost:?}");
}

#[test]
fn devices_are_taken_by_their_place() {
    let index = adapter::find(&choice()).unwrap().index;
    // One place twice is one device twice: they are told apart by place, and this is one.
    let pool = GpuDevicePool::of([index, index]).unwrap();
    assert!(pool.contexts().iter().all(|device| Arc::ptr_eq(device, &context())));
    assert!(matches!(GpuDevicePool::of([usize::MAX]), Err(Error::Device(DeviceError::NoAdapter { .. }))));
}
