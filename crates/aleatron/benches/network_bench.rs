//! Networks as streams: a call of a prepared network, and the counts of its layers alone.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use aleatron::arithmetic::{Pool, PoolKind};
use aleatron::data::Dataset;
use aleatron::network::{
    Activation, Arithmetic, Network, NetworkBuilder, StreamConfig, StreamNetwork,
};
use aleatron::{Convolution, Polarity, SampleSeed, StreamLayer, Tier, get_num_threads};
use aleatron_core::program::ProgramLayer;
use support::{Ceiling, Table, Timing, keep, rate};

fn main() {
    let mut table = Table::from_arguments();
    let digits = Dataset::digits_test();
    let aware = Network::digits_noise_aware().unwrap();
    let large = random(&[784, 512, 512, 10]);
    let images = pooled();
    let features: Vec<f64> =
        (0..784 * 64).map(|k| (k * 7919 % 1999) as f64 / 999.0 - 1.0).collect();
    for (generator, length) in
        [("bernoulli", 64), ("bernoulli", 1024), ("sobol", 64), ("sobol", 1024)]
    {
        for arithmetic in Arithmetic::ALL {
            let config = StreamConfig::new(length)
                .generator(generator.parse().unwrap())
                .arithmetic(arithmetic);
            let name = format!("{generator}, L = {length}, {arithmetic}");
            case(
                &mut table,
                &format!("64-64-10 x 1, {name}"),
                &aware,
                &config,
                &digits.features()[..64],
            );
            case(
                &mut table,
                &format!("64-64-10 x 256, {name}"),
                &aware,
                &config,
                &digits.features()[..64 * 256],
            );
            case(&mut table, &format!("784-512-512-10 x 64, {name}"), &large, &config, &features);
            case(
                &mut table,
                &format!("28x28 with pools x 64, {name}"),
                &images,
                &config,
                &features,
            );
        }
    }
    let tier = Tier::current().unwrap();
    table.print(&format!(
        "Networks on {tier}, {} threads; shares are of the layers' counts alone",
        get_num_threads().unwrap()
    ));
}

/// Returns weights all over the interval.
fn weights(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 104_729 % 2003) as f64 / 1001.0 - 1.0).collect()
}

/// Builds a network of dense layers.
fn random(sizes: &[usize]) -> Network {
    let mut builder = NetworkBuilder::new("random", &sizes[..1]);
    for (k, pair) in sizes.windows(2).enumerate() {
        let scale = if k == 0 { 1.0 } else { 30.0 };
        builder = builder.dense(&k.to_string(), pair[0], &weights(pair[0] * pair[1]), &[]);
        builder =
            builder.polarity(Polarity::Bipolar).input_scale(scale).activation(Activation::Relu);
    }
    builder.build().unwrap()
}

/// Builds a network of images of 28 by 28: two convolutions with pools, and a dense layer.
fn pooled() -> Network {
    let mut builder = NetworkBuilder::new("pooled", &[1, 28, 28]);
    for (name, image, channels, scale) in [("0", [1, 28, 28], 8, 1.0), ("1", [8, 12, 12], 16, 10.0)]
    {
        let convolution = Convolution::conv2d(image, channels, [5, 5]);
        builder = builder.convolution(name, convolution, &weights(image[0] * channels * 25), &[]);
        builder =
            builder.polarity(Polarity::Bipolar).input_scale(scale).activation(Activation::Relu);
        builder = builder.pool(Pool::new(PoolKind::Max, [2, 2]));
    }
    let builder = builder.dense("2", 256, &weights(2560), &[]);
    builder.polarity(Polarity::Bipolar).input_scale(30.0).build().unwrap()
}

/// Returns each layer on its own, with inputs all over the interval for this many samples.
fn layers(streams: &StreamNetwork, n_samples: usize) -> Vec<(StreamLayer, Vec<f64>)> {
    let alone = |(_, layer): (usize, ProgramLayer)| {
        let spec = &layer.spec;
        let stream = StreamLayer::of(spec.topology().clone())
            .polarity(spec.polarity())
            .length(spec.length().bits())
            .encoding(*spec.encoding())
            .at(spec.index())
            .weights(layer.weights.values())
            .build()
            .unwrap();
        (stream, weights(spec.n_inputs() * layer.rows * n_samples))
    };
    streams.layers().unwrap().into_iter().map(alone).collect()
}

fn case(table: &mut Table, name: &str, network: &Network, config: &StreamConfig, features: &[f64]) {
    if !table.wants(name) {
        return;
    }
    let streams = network.to_streams(config).unwrap();
    let n_samples = features.len() / network.n_features();
    let layers = layers(&streams, n_samples);
    let mut alone = || {
        for (layer, inputs) in &layers {
            keep(layer.counts_batch(inputs, SampleSeed::new(config.seed)).unwrap());
        }
    };
    assert_eq!(streams.forward(features, 0).unwrap(), streams.forward(features, 0).unwrap());
    let timing = Timing::Alternating;
    let ceiling = Ceiling { name: "its layers' counts", work: &mut alone, scale: 1.0, timing };
    table.case(
        name,
        rate(n_samples as f64, "samples/s"),
        || keep(streams.forward(features, 0).unwrap()),
        Some(ceiling),
    );
}
