//! The layer on a GPU: the same counts as on the CPU, always. A missing adapter is a failure; these tests must run.
#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::panic)]

use aleatron::gpu::{AdapterChoice, GpuContext};
use aleatron::layer::DenseSpec;
use aleatron::{
    DenseLayer, DenseShape, Device, DeviceLayer, Error, GpuDenseLayer, LayerIndex, Length, Polarity,
    SampleSeed,
};

/// The adapter `SC_GPU_ADAPTER` names, else Mesa's software one.
fn choice() -> AdapterChoice {
    match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    }
}

fn layer(n_inputs: usize, n_neurons: usize, length: usize, seed: u64) -> GpuDenseLayer {
    let cpu = DenseLayer::new(n_inputs, n_neurons, length, seed).unwrap();
    GpuDenseLayer::from_layer(cpu, choice(), 4).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    })
}

fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 37 % 101) as f64 / 100.0).collect()
}

#[test]
fn gpu_layer_creation() {
    let layer = layer(64, 32, 1024, 42);
    assert_eq!(
        (layer.cpu().shape().n_inputs(), layer.cpu().shape().n_neurons(), layer.max_batch()),
        (64, 32, 4)
    );
}

#[test]
fn gpu_output_shape() {
    assert_eq!(layer(64, 32, 1024, 42).forward_gpu(&values(64), 1).unwrap().len(), 32);
}

#[test]
fn gpu_output_non_negative_and_at_most_the_inputs() {
    let y = layer(64, 32, 1024, 42).forward_gpu(&values(64), 1).unwrap();
    assert!(y.iter().all(|y| (0.0..=64.0).contains(y)));
}

#[test]
fn gpu_deterministic() {
    let layer = layer(64, 32, 1024, 42);
    assert_eq!(layer.counts(&values(64), 9).unwrap(), layer.counts(&values(64), 9).unwrap());
}

#[test]
fn gpu_cpu_agreement_is_exact() {
    for (n_inputs, n_neurons, length) in [(1, 1, 1), (3, 5, 33), (17, 9, 100), (64, 32, 1024), (33, 70, 2113)]
    {
        let layer = layer(n_inputs, n_neurons, length, 7);
        let x = values(n_inputs);
        assert_eq!(layer.counts(&x, 5).unwrap(), layer.cpu().counts(&x, 5).unwrap());
        assert_eq!(layer.forward_gpu(&x, 5).unwrap(), layer.cpu().forward(&x, 5).unwrap());
    }
}

#[test]
fn gpu_batch() {
    // Past `max_batch`, so that it runs in pieces; and from a later sample on.
    let layer = layer(20, 12, 200, 3);
    let x = values(20 * 11);
    let seed = SampleSeed::new(8).starting_at(1000);
    let y = layer.forward_batch_gpu(&x, 11, seed).unwrap();
    assert_eq!(y.len(), 11 * 12);
    assert_eq!(y, layer.cpu().forward_batch(&x, seed).unwrap());
}

#[test]
fn gpu_bipolar_in_a_network() {
    let shape = DenseShape::new(30, 11, Length::new(300).unwrap(), Polarity::Bipolar).unwrap();
    let spec = DenseSpec { shape, seed: 4, layer: LayerIndex::new(3).unwrap() };
    let layer = GpuDenseLayer::from_layer(DenseLayer::random(spec).unwrap(), choice(), 8).unwrap();
    let x: Vec<f64> = values(60).iter().map(|x| 2.0 * x - 1.0).collect();
    assert_eq!(layer.counts_batch(&x, 5).unwrap(), layer.cpu().counts_batch(&x, 5).unwrap());
}

#[test]
fn gpu_zero_inputs() {
    assert_eq!(layer(64, 32, 1024, 42).forward_gpu(&[0.0; 64], 1).unwrap(), [0.0; 32]);
}

#[test]
fn gpu_all_ones_sums_the_weight_streams() {
    let layer = layer(64, 32, 1024, 42);
    let ones = layer
        .cpu()
        .weight_streams()
        .chunks(64 * 16)
        .map(|row| row.iter().map(|w| u64::from(w.count_ones())).sum::<u64>());
    assert_eq!(layer.counts(&[1.0; 64], 1).unwrap(), ones.collect::<Vec<u64>>());
}

#[test]
fn gpu_different_seeds() {
    let layer = layer(64, 32, 1024, 42);
    assert_ne!(layer.counts(&values(64), 1).unwrap(), layer.counts(&values(64), 2).unwrap());
}

#[test]
fn gpu_adapter_name() {
    let context = GpuContext::get(&choice()).unwrap();
    assert!(!context.name().is_empty());
    assert_eq!(layer(2, 2, 64, 1).gpu_name(), context.name());
}

#[test]
fn new_weights_reach_the_device() {
    let mut layer = layer(10, 4, 128, 1);
    let weights: Vec<f64> = (0..40).map(|i| f64::from(i) / 40.0).collect();
    layer.set_weights(&weights).unwrap();
    assert_eq!(layer.counts(&values(10), 3).unwrap(), layer.cpu().counts(&values(10), 3).unwrap());
    let before = layer.counts(&values(10), 3).unwrap();
    assert!(layer.set_weights(&[f64::NAN; 40]).is_err());
    assert_eq!(layer.counts(&values(10), 3).unwrap(), before);
}

#[test]
fn bad_input_is_an_error_with_its_place() {
    use aleatron::core::Error as Core;
    let layer = layer(3, 2, 64, 1);
    let nan = layer.counts(&[0.1, f64::NAN, 0.2], 1);
    assert!(matches!(nan, Err(Error::Core(Core::OutOfRange { index: 1, .. }))), "{nan:?}");
    assert!(matches!(
        layer.counts(&[0.1; 4], 1),
        Err(Error::Core(Core::Mismatch { expected: 3, actual: 4, .. }))
    ));
    assert!(matches!(layer.counts_batch(&[0.1; 4], 1), Err(Error::Core(Core::Ragged { .. }))));
    assert!(matches!(layer.forward_batch_gpu(&[0.1; 6], 3, 1), Err(Error::Core(Core::Mismatch { .. }))));
    assert!(layer.counts_batch(&[], 1).unwrap().is_empty());
}

#[test]
fn an_unknown_adapter_is_an_error_that_lists_what_there_is() {
    let cpu = DenseLayer::new(2, 2, 64, 1).unwrap();
    let error = GpuDenseLayer::from_layer(cpu, AdapterChoice::named("no such adapter"), 1).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::Gpu(_)) && text.contains("no such adapter") && text.contains("llvmpipe"),
        "{text}"
    );
}

#[test]
fn automatic_placement_gives_the_same_counts_and_never_takes_a_software_adapter() {
    let cpu = DenseLayer::new(40, 20, 256, 6).unwrap();
    let expected = cpu.counts_batch(&values(80), 4).unwrap();
    let layer = DeviceLayer::new(cpu, Device::Auto).unwrap();
    assert_eq!(layer.device_for(2), Device::Auto);
    assert_eq!(layer.counts_batch(&values(80), 4).unwrap(), expected);
    let software =
        aleatron::gpu::adapter::find(&choice()).unwrap().kind == aleatron::gpu::AdapterKind::Software;
    if software {
        assert_eq!(layer.device_for(2), Device::Cpu);
    }
}
