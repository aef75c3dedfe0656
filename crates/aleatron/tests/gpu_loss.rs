//! A lost device, in a process of its own: the shared device of every other test would be lost with it.
#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use aleatron::gpu::{AdapterChoice, GpuContext};
use aleatron::{DenseLayer, GpuDenseLayer};

#[test]
fn a_layer_lives_on_after_its_device_is_lost() {
    let choice = match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    };
    let cpu = DenseLayer::new(12, 7, 96, 2).unwrap();
    let layer = GpuDenseLayer::from_layer(cpu, choice.clone(), 4).unwrap();
    let x: Vec<f64> = (0..12).map(|i| f64::from(i) / 12.0).collect();
    let expected = layer.cpu().counts(&x, 1).unwrap();
    assert_eq!(layer.counts(&x, 1).unwrap(), expected);
    let lost = GpuContext::get(&choice).unwrap();
    lost.destroy();
    assert!(lost.check().is_err());
    assert_eq!(layer.counts(&x, 1).unwrap(), expected);
    assert_ne!(GpuContext::get(&choice).unwrap().id(), lost.id());
}
