//! Layers on a GPU, with the same counts as on the CPU. A missing adapter is a failure; these tests
//! must run.
#![cfg(feature = "gpu")]

use aleatron_core::generator::Width;
use aleatron_core::{
    BackendFault, Cancel, Connections, Error as CoreError, LayerIndex, Polarity, SampleSeed,
    Weights,
};
use aleatron_engine::backend::{
    self, Backend, Batch, CountMethod, PoolBackend, PrepareOptions, Split,
};
use aleatron_engine::{Device, Error, LayerBuilder, StreamLayer, encode_inputs};
use aleatron_gpu::{AdapterChoice, adapter};
use std::sync::Arc;

/// Returns the adapter selected by the environment, otherwise Mesa's software adapter.
fn gpu() -> Device {
    let choice = match AdapterChoice::from_env() {
        AdapterChoice::Strongest => AdapterChoice::named("llvmpipe"),
        named => named,
    };
    let info = adapter::find(&choice).unwrap_or_else(|error| {
        panic!("{error}\nGPU tests need an adapter: apt-get install mesa-vulkan-drivers libvulkan1")
    });
    Device::Gpu(Some(info.index))
}

fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 37 % 101) as f64 / 100.0).collect()
}

fn signed(n: usize) -> Vec<f64> {
    values(n).iter().map(|x| 2.0 * x - 1.0).collect()
}

/// Returns a layer on the GPU, and the same on the CPU.
fn both(builder: LayerBuilder) -> [StreamLayer; 2] {
    let cpu = builder.clone().device(Device::Cpu).build().unwrap();
    let gpu = builder.device(gpu()).max_batch(4).build().unwrap();
    [gpu, cpu]
}

fn dense(n_inputs: usize, n_neurons: usize, length: usize, seed: u64) -> LayerBuilder {
    StreamLayer::dense(n_inputs, n_neurons).length(length).seed(seed)
}

#[test]
fn dense_layer_on_a_gpu_equals_the_cpu() {
    for (n_inputs, n_neurons, length) in
        [(1, 1, 1), (3, 5, 33), (17, 9, 100), (64, 32, 1024), (33, 70, 2113)]
    {
        let [gpu, cpu] = both(dense(n_inputs, n_neurons, length, 7));
        let x = values(n_inputs);
        assert_eq!(gpu.counts(&x, 5).unwrap(), cpu.counts(&x, 5).unwrap());
        assert_eq!(gpu.forward(&x, 5).unwrap(), cpu.forward(&x, 5).unwrap());
        // Larger than `max_batch`, so that it runs in chunks; and from a later sample on.
        let (x, seed) = (values(n_inputs * 11), SampleSeed::new(8).starting_at(1000));
        assert_eq!(gpu.forward_batch(&x, seed).unwrap(), cpu.forward_batch(&x, seed).unwrap());
        let streams =
            encode_inputs(&x, n_inputs, cpu.spec().length(), Polarity::Unipolar, seed).unwrap();
        let batch = Batch::streams(streams.words());
        assert_eq!(gpu.count(&batch, Cancel::NEVER).unwrap(), cpu.counts_batch(&x, seed).unwrap());
    }
}

/// Every topology with every encoding, by tables and by bits.
#[test]
fn layers_of_every_kind_on_a_gpu_equal_the_cpu() {
    let mask: Vec<bool> = (0..11 * 30).map(|k| k % 3 != 1).collect();
    let connections = Arc::new(Connections::from_mask(&mask, 30).unwrap());
    let topologies = [StreamLayer::dense(30, 11), StreamLayer::sparse(connections)];
    for topology in topologies {
        for polarity in Polarity::ALL {
            for (generator, sharing) in [
                ("bernoulli", "all"),
                ("sobol", "all"),
                ("sobol:2+lfsr:5", "input"),
                ("lfsr", "stream"),
            ]
            .into_iter()
            .chain([("bernoulli+sobol:2", "input"), ("sobol:3+bernoulli", "all")])
            {
                for method in [CountMethod::Best, CountMethod::Bits] {
                    let builder = topology
                        .clone()
                        .length(300)
                        .polarity(polarity)
                        .generator(generator.parse().unwrap())
                        .width(Width::new(10).unwrap())
                        .sharing(sharing.parse().unwrap())
                        .method(method)
                        .at(LayerIndex::new(3).unwrap());
                    let [gpu, cpu] = both(builder);
                    let x = if polarity == Polarity::Bipolar { signed(90) } else { values(90) };
                    let expected = cpu.counts_batch(&x, 5).unwrap();
                    assert_eq!(gpu.counts_batch(&x, 5).unwrap(), expected, "{generator} {sharing}");
                }
            }
        }
    }
}

/// A pool of any devices gives the counts of one, however a layer is split.
#[test]
fn pool_of_any_devices_equals_one_device() {
    let cpu = dense(20, 150, 200, 3).device(Device::Cpu).build().unwrap();
    let x = values(20 * 7);
    let expected = cpu.counts_batch(&x, 9).unwrap();
    let devices = [vec![gpu(), gpu()], vec![gpu(), Device::Cpu, gpu()], vec![Device::Cpu]];
    for devices in devices {
        let names = devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let pool = dense(20, 150, 200, 3).device(names.parse().unwrap()).build().unwrap();
        assert_eq!(pool.counts_batch(&x, 9).unwrap(), expected, "{names}");
        assert_eq!(pool.backend_for(7), Some(names));
        for split in [Split::Best, Split::Neurons, Split::Samples] {
            let backends = devices.iter().map(|device| backend::open(device).unwrap()).collect();
            let pool = PoolBackend::new(backends, split).unwrap();
            let weights = Weights::new(cpu.spec(), cpu.weights().to_vec()).unwrap();
            let layer = pool.prepare(cpu.spec(), &weights, &PrepareOptions::default()).unwrap();
            let batch = Batch::values(&x, SampleSeed::new(9));
            assert_eq!(layer.counts(&batch, Cancel::NEVER).unwrap(), expected, "{split:?}");
        }
    }
}

#[test]
fn cancelled_pool_is_an_error_and_stays_usable() {
    let pool =
        dense(20, 150, 200, 3).device(Device::Pool(vec![gpu(), Device::Cpu])).build().unwrap();
    let x = values(20 * 64);
    let batch = Batch::values(&x, SampleSeed::new(1));
    let pressed = || true;
    let stopped = pool.count(&batch, Cancel::when(&pressed)).unwrap_err();
    assert!(matches!(stopped, Error::Core(CoreError::Cancelled)), "{stopped}");
    assert_eq!(pool.count(&batch, Cancel::NEVER).unwrap().len(), 64 * 150);
}

/// The list of devices matches that of the adapters; software adapters are marked.
#[test]
fn devices_list_the_adapters_and_their_kinds() {
    let (listed, adapters) = (backend::devices(), adapter::adapters());
    let gpus: Vec<_> = listed.iter().filter(|info| matches!(info.device, Device::Gpu(_))).collect();
    assert_eq!(gpus.len(), adapters.len());
    for (info, adapter) in gpus.iter().zip(&adapters) {
        assert_eq!((&info.device, &info.name), (&Device::Gpu(Some(adapter.index)), &adapter.name));
        assert_eq!(info.is_software, info.kind == "software");
    }
    let own = gpus.iter().find(|info| info.device == gpu());
    assert!(own.is_some_and(|info| info.is_software == info.name.contains("llvmpipe")), "{gpus:?}");
}

#[test]
fn set_weights_on_a_gpu_equals_the_cpu() {
    let [mut gpu, mut cpu] = both(dense(10, 4, 128, 1));
    let weights: Vec<f64> = (0..40).map(|i| f64::from(i) / 40.0).collect();
    gpu.set_weights(&weights).unwrap();
    cpu.set_weights(&weights).unwrap();
    let before = gpu.counts(&values(10), 3).unwrap();
    assert_eq!(before, cpu.counts(&values(10), 3).unwrap());
    assert!(gpu.set_weights(&[f64::NAN; 40]).is_err());
    assert_eq!(gpu.counts(&values(10), 3).unwrap(), before);
}

#[test]
fn invalid_input_on_a_gpu_is_an_error_with_its_index() {
    let [layer, _] = both(dense(3, 2, 64, 1));
    let nan = layer.counts(&[0.1, f64::NAN, 0.2], 1);
    assert!(matches!(nan, Err(Error::Core(CoreError::OutOfRange { index: 1, .. }))), "{nan:?}");
    // In the third chunk of a batch the index is that of the argument.
    let mut x = values(30);
    x[29] = 1.5;
    let outside = layer.counts_batch(&x, 1);
    assert!(
        matches!(outside, Err(Error::Core(CoreError::OutOfRange { index: 29, .. }))),
        "{outside:?}"
    );
    assert!(matches!(
        layer.counts(&[0.1; 4], 1),
        Err(Error::Core(CoreError::Mismatch { expected: 3, actual: 4, .. }))
    ));
    assert!(matches!(layer.counts_batch(&[0.1; 4], 1), Err(Error::Core(CoreError::Ragged { .. }))));
    assert!(layer.counts_batch(&[], 1).unwrap().is_empty());
}

#[test]
fn unknown_adapter_is_an_error_that_lists_the_adapters() {
    let error = dense(2, 2, 64, 1).device(Device::Gpu(Some(usize::MAX))).build().unwrap_err();
    assert_eq!(error.core().unwrap().backend_fault(), Some(BackendFault::Unavailable));
    let text = error.to_string();
    assert!(text.contains("there is no GPU adapter") && text.contains("llvmpipe"), "{text}");
}

#[test]
fn auto_device_has_equal_counts_and_excludes_software_adapters() {
    let x = values(40 * 2);
    let cpu = dense(40, 20, 256, 6).device(Device::Cpu).build().unwrap();
    let layer = dense(40, 20, 256, 6).device(Device::Auto).build().unwrap();
    assert_eq!(layer.backend_for(2), None);
    assert_eq!(layer.counts_batch(&x, 4).unwrap(), cpu.counts_batch(&x, 4).unwrap());
    let chosen = layer.backend_for(2).unwrap();
    let is_software =
        backend::devices().iter().any(|info| info.device == gpu() && info.is_software);
    if is_software {
        assert_eq!(chosen, "cpu");
    }
}
