//! Bytes as an ONNX network: one that runs as streams, or an error, never a panic; and a network survives being written and read.
//!
//! The bytes stand for the file, and for edits of a good one with a convolution and a pool.
#![no_main]

use aleatron::graph::{Calibration, GraphNetwork};
use aleatron::network::StreamConfig;
use aleatron_fuzz::{convolutional, edited};
use aleatron_graph::Graph;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The most numbers that the inputs or the weights of a network which is run may have.
const MAX_SIZE: usize = 1 << 10;

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| convolutional().to_graph().unwrap().to_onnx().unwrap());

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&edited(GOOD.clone(), bytes));
});

fn check(bytes: &[u8]) {
    // Many nodes take long, and show no more than few.
    if !Graph::from_onnx(bytes).is_ok_and(|graph| graph.nodes().len() <= 16) {
        return;
    }
    let Ok(network) = GraphNetwork::from_onnx(bytes) else { return };
    let again = GraphNetwork::from_onnx(&network.to_onnx().unwrap()).unwrap();
    assert_eq!(again.layers(), network.layers());
    assert_eq!([again.n_features(), again.n_outputs()], [network.n_features(), network.n_outputs()]);
    let weights: usize = network.layers().iter().map(|layer| layer.product.weights.len()).sum();
    if network.n_features() > MAX_SIZE || weights > MAX_SIZE || network.n_outputs() > MAX_SIZE {
        return;
    }
    let features: Vec<f64> = (0..2 * network.n_features()).map(|k| (k % 7) as f64 / 4.0 - 0.75).collect();
    let Ok(scores) = network.forward(&features) else { return };
    assert_eq!(scores.len(), 2 * network.n_outputs());
    if let Ok(again) = again.forward(&features) {
        let bits = |scores: &[f64]| scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&again), bits(&scores));
    }
    let network = network.clone().calibrated(&features, &Calibration::default()).unwrap_or(network);
    let Ok(streams) = network.to_streams(&StreamConfig::new(8).device(aleatron::Device::Cpu)) else { return };
    if let Ok(scores) = streams.forward(&features, 0) {
        assert_eq!(scores.len(), 2 * network.n_outputs());
    }
}
