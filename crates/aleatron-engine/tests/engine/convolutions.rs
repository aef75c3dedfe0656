//! Networks of convolutions and pools: equal to the reference, and close to floating point.

use crate::support::{features, message};
use aleatron_core::arithmetic::{Activation, Border, Pool, PoolKind, PoolShape};
use aleatron_core::conformance::{Case, NetworkCase, NetworkLayer, Reference};
use aleatron_core::generator::{Sharing, Width};
use aleatron_core::{Cancel, ConvShape, Convolution, Polarity, SampleSeed, Weights, reference};
use aleatron_engine::StreamLayer;
use aleatron_engine::backend::CountMethod;
use aleatron_engine::network::{Arithmetic, Calibration, Network, NetworkBuilder, StreamConfig};
use aleatron_engine::stream::{Detail, Measured, StreamNetwork, StreamOutput, each_product};

/// Returns numbers in [-1, 1] with a long period, all of them exact in 32 bits.
fn numbers(n: usize, step: usize) -> Vec<f64> {
    (0..n).map(|k| ((k * step + 5) % 101) as f64 / 64.0 - 0.75).collect()
}

fn first() -> Convolution {
    Convolution::conv2d([2, 6, 7], 4, [3, 2]).with_padding([1, 0]).with_groups(2)
}

fn second() -> Convolution {
    Convolution::conv2d([4, 3, 3], 3, [2, 2]).with_stride([1, 2]).with_paddings([[0, 1], [1, 0]])
}

fn pools() -> [Pool; 2] {
    let average =
        Pool::new(PoolKind::Average, [2, 1]).with_paddings([[1, 0], [0, 0]], Border::Zeros);
    [Pool::new(PoolKind::Max, [2, 2]), average]
}

/// Strides, padding, groups and both pools, with one scale for the weights of a layer.
fn images(polarity: Polarity) -> Network {
    let conv = |builder: NetworkBuilder, name: &str, convolution: Convolution, step: usize| {
        let shape = ConvShape::new(convolution).unwrap();
        let bias = numbers(shape.n_channels(), 17);
        builder
            .convolution(name, convolution, &numbers(shape.n_weights(), step), &bias)
            .weight_scale(1.0)
    };
    let [max, average] = pools();
    let builder = NetworkBuilder::new("images", &[2, 6, 7]).features(&[0.5], &[2.0]);
    let builder = conv(builder, "first", first(), 37).activation(Activation::Relu).pool(max);
    let builder = conv(builder, "second", second(), 41).input_scale(4.0);
    let builder = builder.activation(Activation::Clamp { low: -3.0, high: 5.0 }).pool(average);
    let builder = builder.dense("last", 12, &numbers(36, 29), &[0.25, -0.5, 0.0]);
    let network = builder.input_scale(3.0).weight_scale(1.0).build().unwrap();
    network.with_polarity(polarity).unwrap()
}

/// Convolutions along one axis.
fn sequence() -> Network {
    let first = Convolution::conv1d([2, 20], 3, 4)
        .with_stride([1, 2])
        .with_dilation([1, 2])
        .with_padding([0, 1]);
    let second = Convolution::conv1d([3, 2], 2, 2);
    NetworkBuilder::new("sequence", &[2, 20])
        .convolution("first", first, &numbers(24, 37), &numbers(3, 17))
        .pool(Pool::new(PoolKind::Average, [1, 3]))
        .convolution("second", second, &numbers(12, 11), &[])
        .build()
        .unwrap()
}

/// Returns the counts of every layer and the outputs of the reference.
fn expected(
    network: &Network,
    streams: &StreamNetwork,
    inputs: &[f64],
    config: &StreamConfig,
) -> Vec<u64> {
    let integer = network.to_streams(&config.clone().arithmetic(Arithmetic::Integer)).unwrap();
    let integers = integer.integer_layers().unwrap();
    let activations =
        [Activation::Relu, Activation::Clamp { low: -3.0, high: 5.0 }, Activation::Identity];
    let shapes = [[4, 6, 6], [3, 3, 2]].into_iter().zip(pools());
    let mut pools: Vec<Option<PoolShape>> =
        shapes.map(|(shape, pool)| Some(PoolShape::new(pool, shape).unwrap())).collect();
    pools.push(None);
    let mut layers = Vec::new();
    for (k, (_, program_layer)) in streams.layers().unwrap().into_iter().enumerate() {
        let layer = &network.layers()[k];
        let stage = aleatron_core::arithmetic::FloatStage {
            scales: layer.sum_scales(),
            bias: layer.biases(),
            activation: activations[k],
        };
        // No layer follows the last one, so any value will do.
        let requantizer = integers.get(k + 1).or(integers.last()).unwrap().requantizers[0];
        layers.push(NetworkLayer {
            weights: Weights::new(&program_layer.spec, layer.encoded_weights()).unwrap(),
            spec: program_layer.spec,
            input_scale: layer.input_scale,
            stage,
            accumulator: integers[k].accumulator.clone(),
            pool: pools[k],
            requantizer,
        });
    }
    let inputs = inputs.iter().map(|x| (x - 0.5) / 2.0 / network.layers()[0].input_scale).collect();
    let seed = SampleSeed::new(3).starting_at(7);
    Reference.answer(&Case::Network(NetworkCase {
        layers,
        inputs,
        seed,
        arithmetic: config.arithmetic,
    }))
}

#[test]
fn network_of_convolutions_matches_reference() {
    for (polarity, generator, sharing) in [
        (Polarity::Signed, "bernoulli", Sharing::OneForAll),
        (Polarity::Signed, "sobol", Sharing::OneForAll),
        (Polarity::Signed, "lfsr", Sharing::OnePerInput),
        (Polarity::Bipolar, "sobol:1+halton:3", Sharing::OneForAll),
        (Polarity::Bipolar, "bernoulli", Sharing::OneForAll),
        (Polarity::Signed, "bernoulli+sobol:2", Sharing::OnePerInput),
        (Polarity::Signed, "lfsr:5+bernoulli", Sharing::OneForAll),
        (Polarity::Bipolar, "bernoulli+lfsr:5", Sharing::OnePerStream),
    ] {
        let network = images(polarity);
        let config =
            StreamConfig::new(40).generator(generator.parse().unwrap()).sharing(sharing).seed(3);
        // Multiples of 1/8, which comparators of any width hold exactly.
        let x: Vec<f64> = (0..3 * 84).map(|k| ((k * 13 + 5) % 33) as f64 / 8.0 - 1.5).collect();
        for arithmetic in Arithmetic::ALL {
            let config = config.clone().arithmetic(arithmetic);
            let streams = network.to_streams(&config).unwrap();
            let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
            let output = streams.run(&x, 7, detail, Cancel::NEVER).unwrap();
            let expected = expected(&network, &streams, &x, &config);
            let (counts, sums) = expected.split_at(expected.len() - 9);
            let found: Vec<u64> =
                output.layers.iter().flat_map(|layer| layer.counts.clone()).collect();
            assert_eq!(found, counts, "{polarity} {generator} {arithmetic}");
            let unit = network.layers()[2].input_scale / 40.0 / 256.0;
            let scores: Vec<f64> = match arithmetic {
                Arithmetic::Float => sums.iter().map(|&bits| f64::from_bits(bits)).collect(),
                _ => sums.iter().map(|&value| value as i64 as f64 * unit).collect(),
            };
            assert_eq!(output.scores, scores, "{polarity} {generator} {arithmetic}");
        }
    }
}

/// Long signed streams approach floating point, through every kind of node.
#[test]
fn long_streams_of_convolutions_approach_floating_point() {
    for network in [images(Polarity::Signed), sequence()] {
        let x = numbers(2 * network.n_features(), 13);
        let network = network.calibrated(&x, &Calibration::default()).unwrap();
        let exact = network.forward(&x).unwrap();
        let config = StreamConfig::new(1 << 14)
            .generator("sobol".parse().unwrap())
            .width(Width::new(14).unwrap());
        let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
        let output =
            network.to_streams(&config).unwrap().run(&x, 0, detail, Cancel::NEVER).unwrap();
        // A whole period of Sobol 1 and 2 multiplies to within 2^-14 log2(2^14), per product;
        // scales and layers multiply that.
        for (a, b) in output.scores.iter().zip(&exact) {
            assert!((a - b).abs() < 0.05 * (1.0 + b.abs()), "{a} {b} of {}", network.name());
        }
        for (stats, layer) in output.statistics.iter().zip(network.layers()) {
            let fan_in = layer.product.fan_in() as f64;
            assert!(
                stats.worst_value > 0.0 && stats.worst_value < fan_in * 14.0 / 16384.0,
                "{stats:?}"
            );
        }
    }
}

/// Compares floating point with sums of single products, and the pools of the reference.
#[test]
fn builder_convolutions_and_pools_match_direct_computation() {
    let image = Convolution::conv2d([4, 9, 7], 6, [3, 2])
        .with_stride([2, 1])
        .with_paddings([[1, 0], [2, 1]])
        .with_dilation([1, 2])
        .with_groups(2);
    let pools = [
        Pool::new(PoolKind::Average, [2, 2])
            .with_stride([1, 1])
            .with_paddings([[1, 1], [0, 1]], Border::Zeros),
        Pool::new(PoolKind::Average, [2, 2])
            .with_stride([1, 2])
            .with_paddings([[1, 0], [0, 1]], Border::Excluded),
        Pool::new(PoolKind::Max, [2, 1]).with_paddings([[1, 0], [0, 0]], Border::Excluded),
    ];
    let line = Convolution::conv1d([3, 20], 4, 5).with_stride([1, 2]);
    for (convolution, pools) in [(image, &pools[..]), (image, &[]), (line, &[])] {
        let shape = ConvShape::new(convolution).unwrap();
        let [channels, rows, columns] = convolution.input;
        let sample =
            if rows == 1 { vec![channels, columns] } else { vec![channels, rows, columns] };
        let (weights, bias) = (features(shape.n_weights(), 5), features(shape.n_channels(), 6));
        let builder =
            NetworkBuilder::new("plain", &sample).convolution("conv", convolution, &weights, &bias);
        let mut builder = builder.activation(Activation::Clamp { low: -0.75, high: 1.5 });
        for pool in pools {
            builder = builder.pool(*pool);
        }
        let network = builder.build().unwrap();
        let n = channels * rows * columns;
        let x = features(2 * n, 8);
        let mut expected = Vec::new();
        for x in x.chunks(n) {
            let topology = aleatron_core::Topology::Conv(shape);
            let mut sums = vec![0.0; topology.n_neurons()];
            each_product(&topology, |neuron, weight, input| {
                sums[neuron] += weights[weight] * x[input]
            });
            let positions = shape.n_positions();
            let mut values: Vec<f64> = sums
                .iter()
                .enumerate()
                .map(|(k, sum)| (sum + bias[k / positions]).clamp(-0.75, 1.5))
                .collect();
            let mut image = shape.output();
            for pool in pools {
                let pool = PoolShape::new(*pool, image).unwrap();
                values = reference::pool_floats(&pool, &values);
                image = pool.output();
            }
            expected.extend(values);
        }
        let found = network.forward(&x).unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            // Sums of at most 24 products below 1, and means of them, in 24 bits.
            assert!((found - expected).abs() < 64.0 * 2f64.powi(-24), "{found} {expected}");
        }
    }
}

#[test]
fn builder_convolutions_and_pools_that_do_not_fit_are_errors() {
    let image = |input| Convolution::conv2d(input, 2, [2, 2]);
    let start =
        || NetworkBuilder::new("n", &[1, 4, 4]).convolution("a", image([1, 4, 4]), &[0.5; 8], &[]);
    // 2 x 3 x 3 numbers, but of another shape.
    let other = message(start().convolution("b", image([1, 3, 6]), &[0.5; 8], &[]).build());
    assert!(other.contains("(b, Conv)"), "{other}");
    let window = message(start().pool(Pool::new(PoolKind::Max, [4, 1])).build());
    assert!(window.contains("a_pool1"), "{window}");
    for (weights, bias, part) in
        [(7, 0, "weights: expected 8, got 7"), (8, 3, "bias: expected 2, got 3")]
    {
        let builder = NetworkBuilder::new("n", &[1, 4, 4]);
        let builder =
            builder.convolution("a", image([1, 4, 4]), &vec![0.5; weights], &vec![0.0; bias]);
        let text = message(builder.build());
        assert!(text.starts_with("layer 0 (a): ") && text.contains(part), "{text}");
    }
    let stride = image([1, 4, 4]).with_stride([0, 1]);
    assert!(
        NetworkBuilder::new("n", &[1, 4, 4])
            .convolution("a", stride, &[0.5; 8], &[])
            .build()
            .is_err()
    );
    // A unipolar layer has no negative weights.
    assert!(images(Polarity::Signed).with_polarity(Polarity::Unipolar).is_err());
}

#[test]
fn convolution_counts_by_bits_equal_those_by_tables() {
    let convolution = Convolution::conv2d([2, 5, 5], 3, [3, 3]).with_padding([1, 1]);
    let values = numbers(2 * 50, 13);
    let layer = |method| {
        let layer = StreamLayer::convolution(convolution)
            .signed()
            .length(100)
            .generator("sobol".parse().unwrap());
        layer.weights(&numbers(54, 7)).method(method).build().unwrap()
    };
    let [bits, tables] = [CountMethod::Bits, CountMethod::Tables].map(layer);
    assert_eq!(bits.counts_batch(&values, 0).unwrap(), tables.counts_batch(&values, 0).unwrap());
    assert!(StreamLayer::convolution(convolution.with_stride([0, 1])).build().is_err());
    assert!(tables.counts(&values, 0).is_err());
}

/// Inter-layer arithmetic runs on some samples at a time; the grouping changes nothing.
#[test]
fn samples_of_a_large_batch_equal_single_samples() {
    // Scales that are too small for some inputs.
    let network = images(Polarity::Signed).with_layers(|layer| layer.input_scale = 1.0).unwrap();
    let (width, n_samples) = (network.n_features(), 150);
    let x: Vec<f64> = numbers(n_samples * width, 43).iter().map(|x| 2.0 * x + 0.5).collect();
    for arithmetic in Arithmetic::ALL {
        let mut config = StreamConfig::new(32).arithmetic(arithmetic);
        // Comparators of another width than those before and after it.
        config.layers.insert("second".to_owned(), "length=64,generator=sobol".parse().unwrap());
        let streams = network.to_streams(&config).unwrap();
        let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
        let run = |x: &[f64], first: usize, detail: Detail| {
            streams.run(x, first as u32, detail, Cancel::NEVER).unwrap()
        };
        let saturated = |output: &StreamOutput| {
            output.statistics.iter().map(|layer| layer.saturated).collect::<Vec<u64>>()
        };
        let all = run(&x, 0, detail);
        let (mut scores, mut outside) = (Vec::new(), vec![0; 3]);
        for (k, sample) in x.chunks_exact(width).enumerate() {
            let one = run(sample, k, detail);
            scores.extend_from_slice(&one.scores);
            outside.iter_mut().zip(saturated(&one)).for_each(|(all, one)| *all += one);
        }
        assert_eq!(all.scores, scores, "{arithmetic}");
        assert_eq!(saturated(&all), outside, "{arithmetic}");
        assert!(outside[1] > 0 && outside[2] > 0, "{outside:?}");
        let shown = run(&x, 0, Detail { layers: Measured::Enabled, ..detail });
        assert_eq!((&shown.scores, saturated(&shown)), (&scores, outside), "{arithmetic}");
        if arithmetic == Arithmetic::Float {
            continue;
        }
        // The values of the accumulators in the network's units.
        for integer in streams.integer_layers().unwrap() {
            let layer = streams.layer_at(integer.layer, streams.lengths()[integer.layer]).unwrap();
            let shown = &shown.layers[integer.layer];
            let sums = integer.accumulator.values(layer.spec(), &shown.counts).unwrap();
            let outputs: Vec<f64> =
                sums.iter().map(|&value| value as f64 * integer.units[0]).collect();
            assert_eq!(shown.outputs, outputs, "layer {}", integer.layer);
        }
    }
}
