//! Networks of layers: direct computations, settings, and errors with names.

use crate::support::{cnn, config, dense, features, message, network, small};
use aleatron_core::arithmetic::Activation;
use aleatron_core::generator::{Sharing, Warning, Width};
use aleatron_core::{Cancel, LayerIndex, Polarity, SampleSeed, reference};
use aleatron_data::Dataset;
use aleatron_engine::backend::Batch;
use aleatron_engine::network::{
    Arithmetic, LayerOverride, Mode, NamedTensor, Network, NetworkBuilder, NetworkShape,
    StreamConfig, ValueRange, top_class,
};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_engine::{Device, Error, StreamLayer};
use aleatron_graph::{Op, Unary};

/// Returns the fraction of samples whose top class is their label.
fn accuracy(scores: &[f64], data: &Dataset) -> f64 {
    let classes = scores.chunks_exact(10).map(top_class);
    let right = classes.zip(data.labels()).filter(|(class, label)| class == *label).count();
    right as f64 / data.len() as f64
}

fn stream_accuracy(network: &Network, config: &StreamConfig) -> f64 {
    let data = Dataset::digits_test();
    accuracy(&network.to_streams(config).unwrap().forward(data.features(), 0).unwrap(), &data)
}

/// Returns one dense layer without a given name.
fn one_layer(polarity: Polarity, n_inputs: usize, weights: &[f64]) -> Network {
    let builder = NetworkBuilder::new("n", &[n_inputs]).dense("a", n_inputs, weights, &[]);
    builder.polarity(polarity).build().unwrap()
}

#[test]
fn noise_aware_network_meets_its_accuracy() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let float = accuracy(&network.forward(data.features()).unwrap(), &data);
    assert!(float >= 0.97, "{float}");
    let short = stream_accuracy(&network, &config(16, "sobol"));
    assert!(short >= 0.9, "{short} at 16 bits");
    let longer = stream_accuracy(&network, &config(32, "sobol"));
    assert!(longer >= float - 0.01, "{longer} at 32 bits, {float} in floating point");
}

#[test]
fn noise_aware_training_improves_short_streams() {
    let (plain, aware) = (Network::digits_plain().unwrap(), Network::digits_noise_aware().unwrap());
    let config = StreamConfig::new(32).seed(5);
    let [plain, aware] = [&plain, &aware].map(|network| stream_accuracy(network, &config));
    assert!(aware > plain + 0.2, "{aware} against {plain}");
}

/// Computes the network layer by layer, scaling and limiting values here.
#[test]
fn bernoulli_network_equals_its_layers() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let (length, seed, first) = (100, 9, 40);
    let samples = &data.features()[64 * 40..64 * 43];
    let mut values: Vec<f64> = samples.iter().map(|pixel| (pixel - 8.0) / 8.0).collect();
    let mut outputs_of = Vec::new();
    for (k, layer) in network.layers().iter().enumerate() {
        let (n, m) = (layer.product.fan_in(), layer.product.n_rows());
        let builder = StreamLayer::dense(n, m).bipolar().length(length).seed(seed);
        let builder = builder.at(LayerIndex::new(k).unwrap()).weights(&layer.encoded_weights());
        let stream = builder.build().unwrap();
        let counts =
            stream.counts_batch(&values, SampleSeed::new(seed).starting_at(first)).unwrap();
        let sums = stream.decode(&counts);
        let biases = layer.product.bias.iter().cycle().map(|&bias| f64::from(bias));
        let scale = layer.input_scale * layer.weight_scale(0);
        let outputs = sums.iter().zip(biases).map(|(v, b)| v * scale + b);
        values = outputs.map(|z| if k == 0 { z.clamp(-1.0, 1.0) } else { z }).collect();
        outputs_of.push((counts, values.clone()));
    }
    let streams = network.to_streams(&StreamConfig::new(length).seed(seed)).unwrap();
    assert_eq!(streams.forward(samples, first).unwrap(), values);
    assert_eq!(streams.forward(&samples[128..], first + 2).unwrap(), values[20..]);
    let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
    let output = streams.run(samples, first, detail, Cancel::NEVER).unwrap();
    let layers: Vec<_> =
        output.layers.into_iter().map(|layer| (layer.counts, layer.outputs)).collect();
    assert_eq!(layers, outputs_of);
    assert!(output.statistics.is_empty());
}

/// Computes the network in integers layer by layer, with the arithmetic of the reference.
#[test]
fn integer_network_equals_its_layers() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let samples = &data.features()[..64 * 5];
    for generator in ["bernoulli", "sobol", "bernoulli+sobol:2", "sobol:1+bernoulli"] {
        let config = config(64, generator).seed(3).arithmetic(Arithmetic::Integer);
        let streams = network.to_streams(&config).unwrap();
        let (layers, integer) = (streams.layers().unwrap(), streams.integer_layers().unwrap());
        let bits = integer[0].comparator.bits();
        assert_eq!(bits, if generator.starts_with("sobol") { 8 } else { 16 });
        let unused = layers[0].1.spec.encoding().input_width().bits() - bits;
        let one = f64::from(1u32 << bits);
        let threshold = |pixel: &f64| {
            ((((pixel - 8.0) / 8.0 + 1.0) / 2.0 * one + 0.5).floor() as u64) << unused
        };
        let mut thresholds: Vec<u64> = samples.iter().map(threshold).collect();
        let mut sums = Vec::new();
        for (k, integer_layer) in integer.iter().enumerate() {
            let layer = streams.layer_at(k, 64).unwrap();
            let spec = layer.spec();
            let counts = layer
                .count(&Batch::thresholds(&thresholds, SampleSeed::new(3)), Cancel::NEVER)
                .unwrap();
            let neurons = counts.iter().zip((0..spec.n_neurons()).cycle());
            let accumulator = &integer_layer.accumulator;
            sums = neurons.map(|(&c, j)| reference::accumulate(accumulator, spec, j, c)).collect();
            if let Some(next) = integer.get(k + 1) {
                let [requantizer] = next.requantizers[..] else {
                    panic!("{:?}", next.requantizers)
                };
                let unused = layers[k + 1].1.spec.encoding().input_width().bits()
                    - requantizer.comparator().bits();
                thresholds = sums
                    .iter()
                    .map(|&v| reference::requantize(&requantizer, v) << unused)
                    .collect();
            }
        }
        assert!(integer[0].requantizers.is_empty());
        let last = &network.layers()[1];
        let unit = last.input_scale * last.weight_scale(0) / 64.0 / 256.0;
        assert!(integer.iter().all(|layer| layer.accumulator.fraction() == 8));
        assert_eq!(integer[1].units, vec![unit; 10]);
        let scores: Vec<f64> = sums.iter().map(|&value| value as f64 * unit).collect();
        assert_eq!(streams.forward(samples, 0).unwrap(), scores, "{generator}");
        let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
        let output = streams.run(samples, 0, detail, Cancel::NEVER).unwrap();
        assert_eq!(
            (output.layers[0].outputs.len(), output.scores),
            (5 * 64, scores),
            "{generator}"
        );
    }
}

/// Integer inter-layer arithmetic costs at most 0.3 points at equal length.
#[test]
fn integer_arithmetic_costs_little_accuracy() {
    for network in [Network::digits_noise_aware(), Network::digits_plain(), Network::digits_cnn()] {
        let network = network.unwrap();
        for generator in ["bernoulli", "sobol", "lfsr", "halton"] {
            for length in [16, 32, 64, 1024] {
                // Several seeds, since a sample is a quarter of a point.
                let seeds = if generator == "bernoulli" { 0..8 } else { 0..1 };
                let n = (seeds.end - seeds.start) as f64;
                let lost: f64 = seeds
                    .map(|seed| {
                        let config = config(length, generator).seed(seed);
                        let float = stream_accuracy(&network, &config);
                        float - stream_accuracy(&network, &config.arithmetic(Arithmetic::Integer))
                    })
                    .sum();
                assert!(
                    lost / n <= 0.003 + 1e-9,
                    "{} {generator} {length}: {}",
                    network.name(),
                    lost / n
                );
            }
        }
    }
}

#[test]
fn layer_settings_override_those_of_the_network() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let scores =
        |config: &StreamConfig| network.to_streams(config)?.forward(&data.features()[..640], 0);
    let sobol = config(16, "sobol");
    let with = |settings: &str| scores(&sobol.clone().layer("output", settings.parse().unwrap()));
    let plain = scores(&sobol).unwrap();
    for settings in [
        "generator=bernoulli",
        "length=64",
        "width=5",
        "sharing=input",
        "length=7,generator=lfsr:5+ramp",
    ] {
        assert_ne!(with(settings).unwrap(), plain, "{settings}");
    }
    assert_eq!(with("length=16,generator=sobol,width=8,sharing=all").unwrap(), plain);
    let streams =
        network.to_streams(&sobol.clone().layer("output", "length=64".parse().unwrap())).unwrap();
    assert_eq!(streams.lengths(), [16, 64]);
    let unknown =
        message(network.to_streams(&sobol.clone().layer("last", "length=3".parse().unwrap())));
    assert_eq!(unknown, "there is no layer \"last\"; the layers are hidden, output");
    let binary = network.with_mode("output", Mode::Binary).unwrap();
    let refused = message(binary.to_streams(&sobol.layer("output", "length=3".parse().unwrap())));
    assert_eq!(refused, "layer \"output\" runs in binary: it has no stream settings");
}

#[test]
fn layer_settings_round_trip_through_text() {
    let all = "length=64,generator=sobol,width=6,sharing=input";
    let layer: LayerOverride = all.parse().unwrap();
    assert_eq!(layer.to_string(), all);
    let config = StreamConfig::new(8).layer("a", layer);
    let settings = config.settings_of("a");
    assert_eq!(
        (settings.length, settings.generator.to_string(), settings.width.to_string()),
        (64, "sobol".to_owned(), "6".to_owned())
    );
    assert_eq!(settings.sharing.to_string(), "input");
    assert_eq!(config.settings_of("b"), StreamConfig::new(8).settings);
    for (text, part) in [
        ("", "use length=, generator=, width= or sharing="),
        ("length", "\"length\" is not a setting: use length=, generator=, width= or sharing="),
        ("length=x", "\"x\" is not a number of bits"),
        ("seed=3", "use length=, generator=, width= or sharing="),
        ("generator=foo", "use one of"),
        ("width=99", "99"),
        ("length=3,width=4,length=3", "length is given twice"),
        ("sharing=foo", "use all, input or stream"),
    ] {
        let error = text.parse::<LayerOverride>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(" length = 4 ".parse::<LayerOverride>().unwrap().length, Some(4));
    let config = StreamConfig::new(8)
        .seed(5)
        .sharing("stream".parse().unwrap())
        .device(Device::Auto)
        .range(ValueRange::Saturate)
        .arithmetic(Arithmetic::Integer);
    assert_eq!((config.seed, config.device, config.range), (5, Device::Auto, ValueRange::Saturate));
    assert_eq!(
        (config.arithmetic, config.settings.sharing.to_string()),
        (Arithmetic::Integer, "stream".to_owned())
    );
}

#[test]
fn warnings_of_generators_are_reported_once() {
    let network = Network::digits_noise_aware().unwrap();
    let warnings = |config: StreamConfig| {
        let found = network.to_streams(&config).unwrap().warnings().unwrap();
        assert_eq!(network.warnings(&config).unwrap(), found);
        found
    };
    // Both layers have it.
    let near = config(255, "lfsr:1+lfsr:113").width(Width::EIGHT);
    assert_eq!(warnings(near), [Warning::NeighbouringStates { steps: 10, width: 8 }]);
    assert!(warnings(config(16, "sobol")).is_empty());
    // A width that the length does not cover.
    let cut = warnings(config(16, "lfsr").width(Width::EIGHT));
    assert!(matches!(cut[..], [Warning::CutOff { length: 16, .. }]), "{cut:?}");
    assert!(warnings(config(16, "lfsr")).is_empty());
    assert!(warnings(config(255, "lfsr").width(Width::EIGHT)).is_empty());
    // Random bits are uncorrelated with everything, but the other operand may be cut off.
    for generator in ["bernoulli+lfsr:1", "lfsr:1+bernoulli"] {
        assert!(warnings(config(255, generator).width(Width::EIGHT)).is_empty());
        let cut = warnings(config(16, generator).width(Width::EIGHT));
        assert!(matches!(cut[..], [Warning::CutOff { length: 16, .. }]), "{generator}: {cut:?}");
    }
}

/// A width that fits the length makes registers accurate at short lengths.
#[test]
fn fitted_widths_improve_short_lfsr_streams() {
    let network = Network::digits_noise_aware().unwrap();
    let mean = |config: StreamConfig| {
        (0..6).map(|seed| stream_accuracy(&network, &config.clone().seed(seed))).sum::<f64>() / 6.0
    };
    let fitted = mean(config(16, "lfsr"));
    let cut_off = mean(config(16, "lfsr").width(Width::EIGHT));
    assert!(fitted > cut_off + 0.1, "{fitted} against {cut_off}");
}

/// A counter has only small numbers at the beginning of its period.
#[test]
fn partial_period_of_a_ramp_is_reported_once() {
    let network = Network::digits_noise_aware().unwrap();
    let warnings = |length| network.warnings(&config(length, "vdc")).unwrap();
    for (partial, whole) in [(100, 128), (192, 256)] {
        assert!(warnings(whole).is_empty());
        let found = warnings(partial);
        assert!(
            matches!(found[..], [Warning::PartialPeriod { length, .. }] if length == partial),
            "{found:?}"
        );
        let [partial, whole] =
            [partial, whole].map(|n| stream_accuracy(&network, &config(n, "vdc")));
        assert!(whole > partial + 0.3, "{whole} and {partial}");
    }
}

/// Returns a unipolar layer with a bipolar one after it.
fn both_polarities() -> Network {
    NetworkBuilder::new("both", &[2])
        .features(&[1.0], &[2.0])
        .dense("a", 2, &[0.5, 0.25, 1.0, 0.75, 0.0, 0.125], &[0.125, -0.5, 0.0])
        .polarity(Polarity::Unipolar)
        .activation(Activation::Relu)
        .dense("b", 3, &[0.5, -0.25, 1.0, 0.75, 0.0, -3.0], &[])
        .polarity(Polarity::Bipolar)
        .input_scale(2.0)
        .activation(Activation::Clamp { low: -0.5, high: 5.0 })
        .build()
        .unwrap()
}

#[test]
fn network_of_both_polarities_approaches_floating_point() {
    let network = both_polarities();
    // x = (0.5, 1): hidden = relu(0.625, 0.75, 0.125), scores = clamp(0.25, 0.09375).
    let scores = network.forward(&[2.0, 3.0]).unwrap();
    assert_eq!(scores, [0.25, 0.09375]);
    let streams =
        network.to_streams(&config(4096, "sobol").width(Width::new(12).unwrap())).unwrap();
    let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
    let output = streams.run(&[2.0, 3.0], 0, detail, Cancel::NEVER).unwrap();
    for (stream, float) in output.scores.iter().zip(&scores) {
        assert!((stream - float).abs() < 0.015, "{stream} for {float}");
    }
    let counts: Vec<u64> = output.statistics.iter().map(|layer| layer.counts).collect();
    assert_eq!(counts, [3, 2]);
    for layer in &output.statistics {
        assert!(layer.mean_count <= layer.worst_count && layer.worst_value < 0.005, "{layer:?}");
        assert_eq!(layer.saturated, 0);
    }
}

#[test]
fn hidden_values_beyond_the_scale_saturate_and_are_counted() {
    let network = NetworkBuilder::new("n", &[1])
        .dense("a", 1, &[1.0, -1.0], &[4.0, 0.0])
        .dense("b", 2, &[1.0, 1.0], &[])
        .input_scale(2.0)
        .build()
        .unwrap()
        .with_polarity(Polarity::Bipolar)
        .unwrap();
    let detail = Detail { statistics: Measured::Enabled, ..Detail::default() };
    for arithmetic in Arithmetic::ALL {
        let streams = network.to_streams(&config(256, "sobol").arithmetic(arithmetic)).unwrap();
        let output = streams.run(&[1.0], 0, detail, Cancel::NEVER).unwrap();
        assert_eq!((output.statistics[1].saturated, output.clipped), (1, 0), "{arithmetic}");
        // 5 became 2, and -1 stayed.
        assert_eq!(output.scores, [1.0], "{arithmetic}");
    }
    assert_eq!(network.forward(&[1.0]).unwrap(), [4.0]);
    let calibrated = network.calibrated(&[1.0, 0.5], &Default::default()).unwrap();
    assert_eq!(calibrated.layers()[1].input_scale, 5.0);
}

#[test]
fn features_outside_the_interval_are_errors_or_saturate() {
    let network = one_layer(Polarity::Bipolar, 2, &[1.0, 0.5]);
    for arithmetic in Arithmetic::ALL {
        let check = network.to_streams(&config(64, "sobol").arithmetic(arithmetic)).unwrap();
        let text = message(check.forward(&[0.5, 0.0, 0.5, 3.0], 0));
        assert!(
            text.starts_with("sample 1, feature 1 is 3, not in [-1, 1]: calibrate the network")
                && text.contains("clip"),
            "{text}"
        );
        let saturate = config(64, "sobol").arithmetic(arithmetic).range(ValueRange::Saturate);
        let clip = network.to_streams(&saturate).unwrap();
        let output = clip.run(&[0.5, 3.0, -7.0, 0.0], 0, Detail::default(), Cancel::NEVER).unwrap();
        assert_eq!((output.clipped, output.saturated), (2, vec![2]));
        assert_eq!(output.scores, check.forward(&[0.5, 1.0, -1.0, 0.0], 0).unwrap());
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(clip.forward(&[bad, 0.0], 0).is_err());
        }
        assert_eq!(message(check.forward(&[0.5; 3], 0)), "3 values are not whole samples of 2");
    }
    // Calibration covers the first layer, too.
    let calibrated = network.calibrated(&[0.5, 3.0], &Default::default()).unwrap();
    assert_eq!(calibrated.layers()[0].input_scale, 3.0);
    assert_eq!(calibrated.feature_interval().unwrap(), Some([-3.0, 3.0]));
}

/// A rounding error of six digits is permitted, larger ones are not.
#[test]
fn features_within_the_rounding_error_are_accepted() {
    let streams = small().to_streams(&StreamConfig::new(8)).unwrap();
    // 1e-5 of the interval's length of 2.
    assert!(streams.forward(&[1.0 + 1.9e-5, -1.0 - 1.9e-5], 0).is_ok());
    for bad in [1.0 + 2.1e-5, -1.0 - 2.1e-5, f64::NAN, f64::INFINITY] {
        let error = streams.forward(&[0.0, 0.0, 0.0, bad], 0).unwrap_err();
        assert!(matches!(error, Error::Feature { sample: 1, feature: 1, .. }), "{error}");
    }
    for (x, index) in [([f64::NAN, 0.5], 0), ([0.5, f64::NAN], 1), ([f64::NAN, f64::NAN], 0)] {
        let error = small().forward(&x).unwrap_err();
        assert!(
            matches!(error, Error::Feature { sample: 0, feature, .. } if feature == index),
            "{error}"
        );
        assert!(error.to_string().contains("not a finite number"), "{error}");
    }
}

#[test]
fn feature_interval_is_that_of_the_first_layers() {
    let with = |polarity: Polarity, scale: f64| {
        let builder =
            NetworkBuilder::new("o", &[1]).features(&[3.0], &[2.0]).dense("a", 1, &[0.5], &[]);
        builder.polarity(polarity).input_scale(scale).build().unwrap().feature_interval().unwrap()
    };
    // -1 to 1 times 2 plus 3, and 0 to 4 times 2 plus 3.
    assert_eq!(with(Polarity::Signed, 1.0), Some([1.0, 5.0]));
    assert_eq!(with(Polarity::Unipolar, 4.0), Some([3.0, 11.0]));
    // Features that are combined before a layer have no individual interval.
    let mixed = network(&[2], |graph, x| {
        let sum = graph.add_node("sum", Op::Binary(aleatron_graph::Binary::Add), &[x, x]);
        let w = crate::support::constant(graph, "w", &[2, 2], 1);
        graph.add_node("fc", Op::MatMul, &[sum, w])
    });
    assert_eq!(mixed.feature_interval().unwrap(), None);
}

#[test]
fn network_reports_its_sizes_and_layers() {
    let network = small();
    assert_eq!(
        (network.name(), network.n_features(), network.n_outputs(), network.n_classes()),
        ("n", 2, 3, 3)
    );
    assert_eq!((network.input_shape(), network.output_shape()), (vec![2], &[3][..]));
    assert_eq!(network.inspect(1).unwrap().stream_products, 4 + 6);
    assert_eq!(
        network.layers().iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    let one = one_layer(Polarity::Signed, 1, &[0.5]);
    assert_eq!((one.n_outputs(), one.n_classes()), (1, 2));
    assert_eq!(one.predict(&[0.5, -0.5, 0.0]).unwrap(), [1, 0, 0]);
    assert!(matches!(network.layer("c"), Err(Error::UnknownLayer { .. })));
    assert_eq!(network.layer("b").unwrap().product.n_rows(), 3);
    let image = cnn();
    assert_eq!(
        (image.input_shape(), image.n_features(), image.output_shape()),
        (vec![2, 5, 4], 40, &[3][..])
    );
}

#[test]
fn class_is_the_first_of_the_greatest_scores() {
    assert_eq!(top_class(&[1.0, 3.0, 2.0]), 1);
    assert_eq!(top_class(&[3.0, 3.0, 2.0]), 0);
    assert_eq!([-1.0, 0.0, 0.5].map(|score| top_class(&[score])), [0, 0, 1]);
    assert_eq!(top_class(&[]), 0);
}

#[test]
fn floating_point_matches_direct_computation() {
    let network = NetworkBuilder::new("n", &[2])
        .features(&[1.0], &[2.0])
        .dense("a", 2, &[1.0, 2.0, -1.0, 0.5], &[0.5, -1.0])
        .activation(Activation::Relu)
        .dense("b", 2, &[3.0, -1.0], &[0.25])
        .build()
        .unwrap();
    // Inputs 1 and -1: sums 1 - 2 + 0.5 and -1 - 0.5 - 1, both below 0. Inputs 2 and 1: 4.5 and 0;
    // 13.5 + 0.25.
    assert_eq!(network.forward(&[3.0, -1.0, 5.0, 3.0]).unwrap(), [0.25, 13.75]);
    assert_eq!(network.predict(&[3.0, -1.0, 5.0, 3.0]).unwrap(), [1, 1]);
    assert!(matches!(
        network.forward(&[1.0; 3]),
        Err(Error::RaggedSamples { values: 3, features: 2 })
    ));
    let nan = network.forward(&[1.0, 1.0, 1.0, f64::NAN]);
    assert!(matches!(nan, Err(Error::Feature { sample: 1, feature: 1, .. })), "{nan:?}");
    let stop = || true;
    let stopped = network.forward_with(&[1.0, 1.0], Cancel::when(&stop)).unwrap_err();
    assert!(matches!(stopped, Error::Core(aleatron_core::Error::Cancelled)), "{stopped}");
}

/// Shorter streams of a layer are prefixes of the full ones.
#[test]
fn layer_at_a_shorter_length_has_a_prefix_of_the_streams() {
    for generator in ["bernoulli", "sobol", "lfsr"] {
        let streams = small().to_streams(&config(64, generator)).unwrap();
        let [full, part] = [64, 20].map(|length| streams.layer_at(1, length).unwrap());
        assert_eq!(
            (part.spec().length().bits(), part.spec().index()),
            (20, LayerIndex::new(1).unwrap())
        );
        let [full, part] = [&full, &part].map(|layer| layer.weight_streams().unwrap());
        for row in 0..6 {
            let [full, part] = [&full, &part].map(|streams| streams.stream(row).unwrap().to_bits());
            assert_eq!(full[..20], part, "{generator}");
        }
    }
    let streams =
        small().with_mode("a", Mode::Binary).unwrap().to_streams(&StreamConfig::new(8)).unwrap();
    assert_eq!(message(streams.layer_at(0, 8)), "there is no layer \"a\"; the layers are b");
    assert_eq!(message(streams.layer_at(7, 8)), "there is no layer \"7\"; the layers are b");
}

#[test]
fn state_dict_becomes_dense_layers_in_order() {
    let plain = Network::digits_plain().unwrap();
    let tensors: Vec<NamedTensor> = plain
        .layers()
        .iter()
        .flat_map(|layer| {
            let (m, n) = (layer.product.n_rows(), layer.product.fan_in());
            let tensor = |what: &str, shape: &[usize], values: &[f32]| NamedTensor {
                name: format!("{}.{what}", layer.name),
                shape: shape.to_vec(),
                values: values.iter().map(|&value| f64::from(value)).collect(),
            };
            [
                tensor("weight", &[m, n], &layer.product.weights),
                tensor("bias", &[m], &layer.product.bias),
            ]
        })
        .collect();
    let make = |tensors: &[NamedTensor]| {
        Network::from_state_dict("mine", [8.0, 8.0], tensors, Activation::Relu)
    };
    let network = make(&tensors).unwrap();
    assert!(network.layers().iter().all(|layer| layer.polarity == Polarity::Signed));
    let data = Dataset::digits_test();
    assert_eq!(network.forward(data.features()).unwrap(), plain.forward(data.features()).unwrap());
    let calibrated =
        network.calibrated(Dataset::digits_train().features(), &Default::default()).unwrap();
    let scale = |network: &Network| network.layers()[1].input_scale;
    assert!((scale(&calibrated) / scale(&plain) - 1.0).abs() < 1e-6);
    assert!(matches!(make(&[]), Err(Error::NoLayers)));
    let tensor = |name: &str, shape: &[usize], n: usize| NamedTensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        values: vec![0.5; n],
    };
    let mut more = tensors.clone();
    more.extend([tensor("norm.running_mean", &[1], 1), tensor("stray.bias", &[1], 1)]);
    let error = message(make(&more));
    assert!(error.starts_with("no layer uses \"norm.running_mean\", \"stray.bias\""), "{error}");
    // The activation is between layers only, and a bias may be missing.
    let dict =
        [tensor("0.weight", &[3, 2], 6), tensor("0.bias", &[3], 3), tensor("2.weight", &[1, 3], 3)];
    let built = make(&dict).unwrap();
    let relus =
        built.graph().nodes().iter().filter(|node| node.op == Op::Unary(Unary::Relu)).count();
    assert_eq!((relus, built.layers()[1].biases()), (1, vec![0.0]));
    // Wrong shapes of weights and biases.
    for (bad, expected) in [
        (
            tensor("0.weight", &[6], 6),
            "layer 0: tensor \"0.weight\" has shape [6], expected (neurons, inputs)",
        ),
        (
            tensor("0.weight", &[4, 2], 6),
            "layer 0: tensor \"0.weight\" has shape [4, 2], expected 6 values",
        ),
    ] {
        assert_eq!(message(make(&[bad])), expected);
    }
    for (shape, n) in [(&[1, 3][..], 3), (&[2], 2)] {
        let refused = make(&[tensor("0.weight", &[3, 2], 6), tensor("0.bias", shape, n)]);
        assert!(matches!(refused, Err(Error::TensorShape { layer: 0, .. })), "{refused:?}");
    }
}

#[test]
fn builder_errors_state_the_layer_and_the_value() {
    let build = |builder: NetworkBuilder| message(builder.build());
    let start = || NetworkBuilder::new("n", &[2]);
    let ok = || start().dense("a", 2, &[0.5, -0.5], &[]);
    assert_eq!(build(start()), "a network needs at least one layer");
    assert_eq!(
        build(ok().polarity(Polarity::Unipolar)),
        "layer 0 (a): weight at index 1 is -0.5, not in [0, 0.5]"
    );
    assert_eq!(
        build(ok().weight_scale(0.25)),
        "layer 0 (a): weight at index 0 is 0.5, not in [-0.25, 0.25]"
    );
    assert_eq!(build(ok().dense("a", 1, &[0.0], &[])), "layers 0 and 1 are both called \"a\"");
    let ragged = build(start().dense("a", 2, &[0.0; 3], &[]));
    assert!(ragged.contains("weights"), "{ragged}");
    for (n, weights) in [(0, vec![]), (2, vec![])] {
        assert!(start().dense("a", n, &weights, &[]).build().is_err(), "{n}");
    }
    let mismatched = build(ok().dense("b", 3, &[0.0; 3], &[]));
    assert!(mismatched.contains("(b, Gemm)"), "{mismatched}");
    assert!(build(start().dense("a", 2, &[1.0, f64::NAN], &[])).contains("element 1 is NaN"));
    assert!(
        build(start().dense("a", 2, &[1.0, 1e200], &[])).contains("not a finite 32-bit number")
    );
    assert!(
        build(start().dense("a", 2, &[1.0, 0.5], &[f64::INFINITY])).contains("element 0 is inf")
    );
    let biases = build(start().dense("a", 2, &[1.0, 0.5], &[0.0; 2]));
    assert!(biases.starts_with("layer 0 (a): ") && biases.contains("bias"), "{biases}");
    assert_eq!(
        build(ok().input_scale(-1.0)),
        "layer 0 (a): input scale is -1, not positive and finite"
    );
    assert_eq!(
        build(ok().weight_scale(f64::NAN)),
        "layer 0 (a): weight scale is NaN, not positive and finite"
    );
    let huge = build(ok().input_scale(1e200).weight_scale(1e200));
    assert!(
        huge.starts_with("layer 0 (a): product of input scale and weight scale is inf"),
        "{huge}"
    );
    let tiny = NetworkBuilder::new("n", &[2]).dense("a", 2, &[0.0; 2], &[]);
    let tiny = build(tiny.input_scale(1e-200).weight_scale(1e-200));
    assert!(tiny.contains("product of input scale and weight scale is 0"), "{tiny}");
    for (low, high) in [(1.0, 0.0), (f64::NAN, 0.0), (0.0, f64::NAN)] {
        assert!(ok().activation(Activation::Clamp { low, high }).build().is_err(), "{low} {high}");
    }
    for (low, high) in [(0.5, 0.5), (0.0, 0.5)] {
        assert!(ok().activation(Activation::Clamp { low, high }).build().is_ok(), "{low} {high}");
    }
    let scale = build(start().features(&[0.0], &[0.0]).dense("a", 2, &[0.5, -0.5], &[]));
    assert!(scale.contains("input scale is 0"), "{scale}");
    let offsets =
        build(start().features(&[1.0, 2.0, 3.0], &[1.0]).dense("a", 2, &[0.5, -0.5], &[]));
    assert!(offsets.contains("inputs: expected 2, got 3"), "{offsets}");
}

#[test]
fn unsupported_configurations_are_errors_before_a_run() {
    let network = Network::digits_noise_aware().unwrap();
    assert_eq!(
        message(network.to_streams(&config(8, "sobol").sharing(Sharing::OnePerStream))),
        "layer 0 (hidden): Sobol dimension is 8192, the maximum is 1111"
    );
    assert!(matches!(
        dense().to_streams(&StreamConfig::new(0)),
        Err(Error::Layer { layer: 0, .. })
    ));
    let bernoulli = network.to_streams(&StreamConfig::new(8)).unwrap();
    assert!(bernoulli.forward(&[0.0; 64], u32::MAX).is_ok());
    let late = message(bernoulli.forward(&[0.0; 128], u32::MAX));
    assert!(late.contains("4294967296") && late.contains("the maximum is 4294967295"), "{late}");
    assert!(matches!(dense().with_mode("nope", Mode::Binary), Err(Error::UnknownLayer { .. })));
    assert!(dense().with_polarity(Polarity::Unipolar).is_err());
}

#[test]
fn random_networks_have_their_shapes_and_different_weights() {
    for (shape, n_features, n_layers) in
        [(NetworkShape::Lenet5, 784, 5), (NetworkShape::Resnet20, 3072, 22)]
    {
        let network = Network::random(shape, 3).unwrap();
        assert_eq!(
            (network.n_features(), network.n_outputs(), network.layers().len()),
            (n_features, 10, n_layers)
        );
        assert_eq!(shape.to_string().parse::<NetworkShape>().unwrap(), shape);
        assert_ne!(
            network.layers()[0].product,
            Network::random(shape, 4).unwrap().layers()[0].product
        );
    }
    // Positions by inputs and outputs of the channels of each stage.
    let first = 1024 * 3 * 9 * 16;
    let stages = [(1024, 16, 16), (256, 16, 32), (64, 32, 64)];
    let in_stages = stages.map(|(positions, before, channels)| {
        let shortcut = if before == channels { 0 } else { before * channels };
        positions * (9 * before * channels + 5 * 9 * channels * channels + shortcut)
    });
    let network = Network::random(NetworkShape::Resnet20, 3).unwrap();
    let products = first + in_stages.iter().sum::<u64>() + 64 * 10;
    assert_eq!(network.inspect(1).unwrap().stream_products, products);
    assert!("vgg".parse::<NetworkShape>().unwrap_err().to_string().contains("lenet5, resnet20"));
}

/// Random weights have a variance of two over the fan-in, which compensates for the variance lost
/// in a rectifier, and no two layers are equal.
#[test]
fn random_weights_preserve_the_variance_of_values() {
    let network = Network::random(NetworkShape::Resnet20, 3).unwrap();
    let mut seen: Vec<&[f32]> = Vec::new();
    for layer in network.layers() {
        let weights = &layer.product.weights;
        let squares: f64 = weights.iter().map(|&w| f64::from(w).powi(2)).sum();
        let n = weights.len() as f64;
        let variance = squares / n * layer.product.fan_in() as f64 / 2.0;
        // The mean of n squares of a normal number has a standard deviation of the root of 2 / n.
        assert!((variance - 1.0).abs() < 6.0 * (2.0 / n).sqrt(), "{}: {variance}", layer.name);
        assert!(!seen.contains(&&weights[..8]), "{}", layer.name);
        // The same draws with another scale would show in the ratio of two of them.
        let ratio = |w: &[f32]| w[0] / w[1];
        assert!(
            seen.iter().all(|other| (ratio(other) - ratio(weights)).abs() > 1e-4),
            "{}",
            layer.name
        );
        seen.push(&weights[..8]);
    }
}

#[test]
fn nodes_of_random_networks_are_all_used() {
    let network = Network::random(NetworkShape::Lenet5, 3).unwrap();
    let graph = network.graph();
    for node in graph.nodes() {
        let built = node.outputs[0].unwrap();
        let is_used = graph.nodes().iter().any(|other| other.inputs.contains(&Some(built)));
        assert!(is_used || graph.outputs() == [built], "{}", node.name);
        if matches!(node.op, Op::Conv { .. }) {
            let next =
                graph.nodes().iter().find(|other| other.inputs.contains(&Some(built))).unwrap();
            assert!(matches!(next.op, Op::Unary(Unary::Relu)), "{}", node.name);
        }
    }
}

#[test]
fn binary_layers_equal_floating_point() {
    let network =
        cnn().with_mode("conv", Mode::Binary).unwrap().with_mode("fc", Mode::Binary).unwrap();
    let x = features(4 * 40, 3);
    let streams = network.to_streams(&StreamConfig::new(8)).unwrap();
    assert_eq!(streams.forward(&x, 0).unwrap(), network.forward(&x).unwrap());
    let stages = |network: &Network| {
        let nodes = network.inspect(16).unwrap().nodes;
        nodes.iter().map(|node| node.stream.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(stages(&cnn()), [true, false, false, true]);
    assert_eq!(
        stages(&cnn().with_mode("conv", Mode::Binary).unwrap()),
        [false, false, false, true]
    );
}
