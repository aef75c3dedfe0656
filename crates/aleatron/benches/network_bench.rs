//! Networks as streams: a call of a network that is kept, beside the counts of its layers alone.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::arithmetic::{Pool, PoolKind};
use aleatron::data::Dataset;
use aleatron::network::{Activation, Arithmetic, Detail, FeatureMap, Layer, Network, StreamConfig};
use aleatron::{Cancel, ConvShape, Convolution, SampleSeed, Tier, get_num_threads};
use support::{Ceiling, Table, Timing, keep, rate};

fn main() {
    let mut table = Table::from_arguments();
    let digits = Dataset::digits_test();
    let aware = Network::digits_noise_aware().unwrap();
    let large = random(&[784, 512, 512, 10]);
    let images = pooled();
    let features: Vec<f64> = (0..784 * 64).map(|k| (k * 7919 % 1999) as f64 / 999.0 - 1.0).collect();
    for (generator, length) in [("bernoulli", 64), ("bernoulli", 1024), ("sobol", 64), ("sobol", 1024)] {
        for arithmetic in Arithmetic::ALL {
            let config =
                StreamConfig::new(length).generator(generator.parse().unwrap()).arithmetic(arithmetic);
            let name = format!("{generator}, L = {length}, {arithmetic}");
            case(&mut table, &format!("64-64-10 x 1, {name}"), &aware, &config, &digits.features()[..64]);
            case(
                &mut table,
                &format!("64-64-10 x 256, {name}"),
                &aware,
                &config,
                &digits.features()[..64 * 256],
            );
            case(&mut table, &format!("784-512-512-10 x 64, {name}"), &large, &config, &features);
            case(&mut table, &format!("28x28 with pools x 64, {name}"), &images, &config, &features);
        }
    }
    let tier = Tier::current().unwrap();
    table.print(&format!(
        "Networks on {tier}, {} threads; shares are of the layers' counts alone",
        get_num_threads().unwrap()
    ));
}

/// A network with weights all over the interval.
fn random(sizes: &[usize]) -> Network {
    let layer =
        |k: usize| {
            let (n, m) = (sizes[k], sizes[k + 1]);
            let weights = (0..n * m).map(|i| (i * 104_729 % 2003) as f64 / 1001.0 - 1.0).collect();
            Layer::new(k.to_string(), n, weights)
                .with_activation(Activation::Relu)
                .with_input_scale(if k == 0 { 1.0 } else { 30.0 })
        };
    let layers = (0..sizes.len() - 1).map(layer).collect();
    Network::new("random", FeatureMap::IDENTITY, layers).unwrap()
}

/// A network of images of 28 by 28: two convolutions with pools, and a dense layer.
fn pooled() -> Network {
    let weights = |n: usize| (0..n).map(|i| (i * 104_729 % 2003) as f64 / 1001.0 - 1.0).collect::<Vec<f64>>();
    let convolution = |name: &str, image, channels, scale| {
        let shape = ConvShape::new(Convolution::conv2d(image, channels, [5, 5])).unwrap();
        let layer = Layer::convolution(name, shape, weights(shape.n_weights()));
        layer.with_activation(Activation::Relu).with_input_scale(scale)
    };
    let max = Pool::new(PoolKind::Max, [2, 2]);
    let first = convolution("0", [1, 28, 28], 8, 1.0).with_pool(max).unwrap();
    let second = convolution("1", [8, 12, 12], 16, 10.0).with_pool(max).unwrap();
    let last = Layer::new("2", 256, weights(2560)).with_input_scale(30.0);
    Network::new("pooled", FeatureMap::IDENTITY, vec![first, second, last]).unwrap()
}

fn case(table: &mut Table, name: &str, network: &Network, config: &StreamConfig, features: &[f64]) {
    if !table.wants(name) {
        return;
    }
    let streams = network.to_streams(config).unwrap();
    // What each layer gets, so that its counts can be had alone.
    let mut inputs = Vec::new();
    for k in 0..network.layers().len() {
        let layers = network.layers()[..=k].to_vec();
        let part = Network::new("part", network.input(), layers).unwrap().to_streams(config).unwrap();
        let detail = Detail { last_inputs: true, ..Detail::default() };
        inputs.push(part.run(features, 0, detail, Cancel::NEVER).unwrap().last_inputs.unwrap());
    }
    let counts = || {
        for (layer, inputs) in streams.layers().zip(&inputs) {
            keep(layer.count(&inputs.batch(SampleSeed::new(config.seed)), Cancel::NEVER).unwrap());
        }
    };
    assert_eq!(streams.forward(features, 0).unwrap(), streams.forward(features, 0).unwrap());
    let samples = features.len() / network.n_features();
    let mut alone = counts;
    let timing = Timing::InTurns;
    let ceiling = Ceiling { name: "its layers' counts", work: &mut alone, scale: 1.0, timing };
    table.case(
        name,
        rate(samples as f64, "samples/s"),
        || keep(streams.forward(features, 0).unwrap()),
        Some(ceiling),
    );
}
