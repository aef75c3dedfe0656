//! A lost device, in a separate process: the shared device of every other test would be lost with
//! it.
#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used)]

use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::gpu::{AdapterChoice, GpuContext, adapter};
use aleatron::network::Network;
use aleatron::{Cancel, Device, StreamLayer};

fn index() -> usize {
    let choice = match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    };
    adapter::find(&choice).unwrap().index
}

/// One test, since there is one shared device.
#[test]
fn layers_and_evaluations_survive_a_lost_device() {
    let context = || GpuContext::get(&AdapterChoice::Index(index())).unwrap();
    let builder = StreamLayer::dense(12, 7).length(96).seed(2);
    let layer = builder.clone().device(Device::Gpu(Some(index()))).build().unwrap();
    let cpu = builder.device(Device::Cpu).build().unwrap();
    let x: Vec<f64> = (0..12).map(|i| f64::from(i) / 12.0).collect();
    let expected = cpu.counts(&x, 1).unwrap();
    assert_eq!(layer.counts(&x, 1).unwrap(), expected);
    let lost = context();
    lost.destroy();
    assert!(lost.check().is_err());
    // The layer is prepared again on a new device.
    assert_eq!(layer.counts(&x, 1).unwrap(), expected);
    assert_ne!(context().id(), lost.id());

    // An evaluation that loses its device repeatedly equals one on the CPU.
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let generators = vec!["bernoulli".parse().unwrap()];
    let plan = |device| Plan {
        seeds: 1,
        lengths: vec![8, 16],
        generators: generators.clone(),
        device,
        ..Plan::default()
    };
    let on_gpu = plan(Device::Gpu(Some(index())));
    let found =
        evaluate(&network, &data, &on_gpu, None, Cancel::NEVER, |_| context().destroy()).unwrap();
    let expected =
        evaluate(&network, &data, &plan(Device::Cpu), None, Cancel::NEVER, |_| ()).unwrap();
    assert!(found.is_complete());
    for (found, expected) in found.cells.iter().zip(&expected.cells) {
        assert_eq!(found.figures, expected.figures);
    }
}
