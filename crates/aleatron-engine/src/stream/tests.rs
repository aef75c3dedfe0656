//! Caching of compilations, and loss of devices.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::backend::fake::{FakeBackend, FakeLayer, fault};
use crate::network::{Graph, NetworkBuilder, Op};
use aleatron_core::BackendFault;
use aleatron_graph::op::{Dims, NoAxes, Reduction};
use aleatron_graph::{Dim, Value};
use aleatron_tensor::{DType, Device, Tensor};

/// Returns two layers, the first of three inputs and two neurons, the second of one neuron.
fn layers() -> Network {
    NetworkBuilder::new("n", &[3])
        .dense("a", 3, &[0.5, 0.25, 1.0, -0.5, 0.75, 0.5], &[])
        .dense("b", 2, &[1.0, 0.5], &[])
        .build()
        .unwrap()
}

/// Returns the network on a mock backend.
fn on(backend: FakeBackend) -> Result<StreamNetwork> {
    let network = Arc::new(layers());
    let runner = network.runner()?;
    let (config, score_layer) = (StreamConfig::new(64), Some(1));
    let streams = StreamNetwork {
        network,
        config,
        runner,
        backend: Arc::new(backend),
        score_layer,
        cached: Mutex::default(),
    };
    streams.ready(1, Cancel::NEVER)?;
    Ok(streams)
}

/// Returns counts of both neurons, and of the last one: sums of zero.
fn counts() -> [aleatron_core::Result<Vec<u64>>; 2] {
    [Ok(vec![192; 2]), Ok(vec![128])]
}

#[test]
fn lost_device_is_prepared_again_once() {
    let [first, last] = counts();
    let lost = || Err(fault(BackendFault::Lost));
    // The second layer is lost in the first call: both are prepared again.
    let again = FakeLayer::new("again", first.clone());
    let calls = again.calls();
    let backend = FakeBackend::new([
        FakeLayer::new("first", first.clone()),
        FakeLayer::new("last", lost()),
        again,
        FakeLayer::new("last again", last),
    ]);
    let streams = on(backend).unwrap();
    assert_eq!(streams.forward(&[0.5; 3], 0).unwrap(), [0.0]);
    assert_eq!(streams.forward(&[0.5; 3], 0).unwrap(), [0.0]);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 2);
    // Two losses in one call, and a device without memory for the layers, are errors.
    let twice = FakeBackend::new([
        FakeLayer::new("a", first.clone()),
        FakeLayer::new("b", lost()),
        FakeLayer::new("a", first.clone()),
        FakeLayer::new("b", lost()),
    ]);
    let error = on(twice).unwrap().forward(&[0.5; 3], 0).unwrap_err();
    assert_eq!(
        error.core().and_then(aleatron_core::Error::backend_fault),
        Some(BackendFault::Lost),
        "{error}"
    );
    let full = FakeBackend::new([FakeLayer::new("a", first), FakeLayer::new("b", lost())]);
    let error = on(full).unwrap().forward(&[0.5; 3], 0).unwrap_err();
    assert!(matches!(&error, Error::Layer { layer: 0, name, .. } if name == "a"), "{error}");
}

#[test]
fn other_faults_of_a_device_are_errors() {
    let [first, _] = counts();
    let broken = FakeLayer::new("b", Err(fault(BackendFault::OutOfMemory)));
    let streams = on(FakeBackend::new([FakeLayer::new("a", first), broken])).unwrap();
    let error = streams.forward(&[0.5; 3], 0).unwrap_err();
    assert_eq!(
        error.core().and_then(aleatron_core::Error::backend_fault),
        Some(BackendFault::OutOfMemory)
    );
    // A device without room for the second layer.
    let error = on(FakeBackend::new([FakeLayer::new("a", counts()[0].clone())])).unwrap_err();
    assert!(matches!(&error, Error::Layer { layer: 1, name, .. } if name == "b"), "{error}");
}

#[test]
fn notes_and_backends_are_those_of_the_layers() {
    let [first, last] = counts();
    let backend = FakeBackend::new([FakeLayer::new("moved", first), FakeLayer::new("slow", last)]);
    let streams = on(backend).unwrap();
    assert_eq!(streams.notes(), ["moved", "slow"]);
    assert_eq!(streams.backend_for(5), Some("moved,slow".to_owned()));
    let plain = layers().to_streams(&StreamConfig::new(8)).unwrap();
    assert!(plain.notes().is_empty());
    assert_eq!(plain.backend_for(1), Some("cpu".to_owned()));
}

#[test]
fn compilations_of_the_last_batch_sizes_are_cached() {
    let mut graph = Graph::new("whole");
    let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(3)]);
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let w =
        graph.add_constant("w", Tensor::from_slice(&[0.5_f32; 6], &[3, 2], &Device::Cpu).unwrap());
    let product = graph.add_node("product", Op::MatMul, &[x, w]);
    let op = Op::Reduce {
        reduction: Reduction::Mean,
        axes: Some(vec![0]),
        reduced: Dims::Keep,
        no_axes: NoAxes::All,
    };
    let mean = graph.add_node("mean", op, &[product]);
    let y = graph.add_node("y", Op::Binary(aleatron_graph::Binary::Sub), &[product, mean]);
    graph.add_output(y);
    let streams = Network::new(graph).unwrap().to_streams(&StreamConfig::new(16)).unwrap();
    let cached = || -> Vec<usize> {
        let cached = streams.cached.lock().unwrap();
        cached.iter().map(|ready| ready.compiled.n_samples()).collect()
    };
    assert_eq!(cached(), [1]);
    let first = streams.ready(1, Cancel::NEVER).unwrap();
    for n in 2..=4 {
        streams.forward(&vec![0.5; 3 * n], 0).unwrap();
    }
    assert!(Arc::ptr_eq(&first, &streams.ready(1, Cancel::NEVER).unwrap()));
    assert_eq!(cached(), [2, 3, 4, 1]);
    streams.forward(&[0.5; 15], 0).unwrap();
    assert_eq!(cached(), [3, 4, 1, 5]);
}
