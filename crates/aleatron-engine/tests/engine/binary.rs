//! Networks that multiply integers instead of streams, compared with symmetric quantization in
//! integers.

use crate::support::features;
use aleatron_core::Cancel;
use aleatron_core::arithmetic::{Activation, Arithmetic};
use aleatron_engine::StreamLayer;
use aleatron_engine::network::{Layer, Network, NetworkBuilder, StreamConfig};
use aleatron_engine::stream::{Detail, Measured};

fn config(bits: u32) -> StreamConfig {
    StreamConfig::new(64).generator(format!("int{bits}").parse().unwrap())
}

/// Returns three dense layers with biases and these input scales after the first one.
fn scaled_network(scales: [f64; 2]) -> Network {
    let weights = features(7 * 6 + 6 * 5 + 5 * 4, 3);
    NetworkBuilder::new("n", &[7])
        .dense("a", 7, &weights[..42], &features(6, 4))
        .weight_scale(1.0)
        .activation(Activation::Relu)
        .dense("b", 6, &weights[42..72], &features(5, 5))
        .weight_scale(1.25)
        .input_scale(scales[0])
        .dense("c", 5, &weights[72..], &features(4, 6))
        .weight_scale(1.0)
        .input_scale(scales[1])
        .build()
        .unwrap()
}

/// Returns the network with scales that some inputs exceed.
fn network() -> Network {
    scaled_network([2.5, 1.5])
}

/// Returns the integer of a value: the greatest integer represents the scale.
fn quantized(value: f64, scale: f64, greatest: f64) -> i64 {
    let magnitude = (value.abs() / scale * greatest + 0.5).floor().min(greatest) as i64;
    if value < 0.0 { -magnitude } else { magnitude }
}

/// Returns the outputs of a dense layer before its activation, in the specified order of
/// floating-point operations.
fn dense(layer: &Layer, inputs: &[f64], greatest: f64) -> Vec<f64> {
    let n = layer.product.fan_in();
    let inputs: Vec<i64> =
        inputs.iter().map(|&x| quantized(x, layer.input_scale, greatest)).collect();
    let rows = layer.product.weights.chunks(n).zip(layer.biases()).enumerate();
    let rows = rows.map(|(row, (weights, bias))| {
        let weights =
            weights.iter().map(|&w| quantized(f64::from(w), layer.weight_scale(row), greatest));
        let sum: i64 = weights.zip(&inputs).map(|(w, x)| w * x).sum();
        sum as f64 / (greatest * greatest) * (layer.input_scale * layer.weight_scale(row)) + bias
    });
    rows.collect()
}

#[test]
fn integer_network_equals_symmetric_quantization() {
    let (network, samples) = (network(), features(7 * 40, 9));
    for bits in [2, 3, 4, 6, 8, 9] {
        let greatest = f64::from((1 << (bits - 1)) - 1);
        let mut expected = Vec::new();
        for sample in samples.chunks(7) {
            let mut values = sample.to_vec();
            for (k, layer) in network.layers().iter().enumerate() {
                values = dense(layer, &values, greatest);
                if k == 0 {
                    values.iter_mut().for_each(|value| *value = value.max(0.0));
                }
            }
            expected.extend(values);
        }
        let streams = network.to_streams(&config(bits)).unwrap();
        assert_eq!(streams.forward(&samples, 0).unwrap(), expected, "{bits} bits");
        let length = (greatest * greatest) as usize;
        assert_eq!(streams.lengths(), [length; 3]);
        assert!(streams.warnings().unwrap().is_empty());
    }
}

/// With scales that no input exceeds, errors are those of rounding: two more bits make them about
/// four times smaller.
#[test]
fn errors_decrease_with_the_bits() {
    // Sums of 7 and 6 products of at most 1 and of 8, and a bias of at most 1.
    let (network, samples) = (scaled_network([8.0, 49.0]), features(7 * 40, 9));
    let exact = network.forward(&samples).unwrap();
    let mut before = f64::INFINITY;
    for bits in [5, 7, 9] {
        let config = config(bits).arithmetic(Arithmetic::Integer);
        let found = network.to_streams(&config).unwrap().forward(&samples, 0).unwrap();
        let error = exact.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error < before / 2.0, "{bits} bits: {error} after {before}");
        before = error;
    }
}

/// The errors of counts are those of the weights alone: half a step of each weight times an input
/// of at most 1.
#[test]
fn statistics_of_integer_layers_are_the_rounding_of_weights() {
    let (network, samples) = (network(), features(7 * 20, 9));
    let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
    for bits in [4, 8] {
        let streams = network.to_streams(&config(bits)).unwrap();
        let output = streams.run(&samples, 0, detail, Cancel::NEVER).unwrap();
        let step = 1.0 / f64::from((1 << (bits - 1)) - 1);
        for (layer, stats) in network.layers().iter().zip(&output.statistics) {
            let bound = layer.product.fan_in() as f64 * step / 2.0;
            assert!(
                stats.worst_value > 0.0 && stats.worst_value <= bound * (1.0 + 1e-12),
                "{bits}: {stats:?}"
            );
        }
    }
}

/// Single layers have no scales for integers.
#[test]
fn single_layers_with_integers_are_errors() {
    let layer = StreamLayer::dense(4, 2).length(49).signed().generator("int4".parse().unwrap());
    let error = layer.build().unwrap_err().to_string();
    assert!(error.contains("\"int4\"") && error.contains("use a generator of streams"), "{error}");
}

/// One integer layer among stream layers.
#[test]
fn integers_and_streams_can_be_mixed() {
    let (network, samples) = (network(), features(7 * 5, 2));
    let sobol = StreamConfig::new(64).generator("sobol".parse().unwrap());
    let mixed = sobol.clone().layer("b", "generator=int8".parse().unwrap());
    let outputs = |config: &StreamConfig| {
        let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
        network.to_streams(config).unwrap().run(&samples, 0, detail, Cancel::NEVER).unwrap().layers
    };
    let (streams, mixed_outputs) = (outputs(&sobol), outputs(&mixed));
    assert_eq!(streams[0], mixed_outputs[0]);
    assert_ne!(streams[1], mixed_outputs[1]);
    assert_eq!(network.to_streams(&mixed).unwrap().lengths(), [64, 127 * 127, 64]);
    let expected: Vec<f64> = mixed_outputs[0]
        .outputs
        .chunks(6)
        .flat_map(|values| dense(&network.layers()[1], values, 127.0))
        .collect();
    assert_eq!(mixed_outputs[1].outputs, expected);
}
