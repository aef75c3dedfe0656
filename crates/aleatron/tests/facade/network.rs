//! Networks: the embedded ones reach their accuracy as streams, files survive, and faults are named.

use aleatron::backend::CountMethod;
use aleatron::data::Dataset;
use aleatron::generator::{Sharing, Warning, Width};
use aleatron::network::file::{Tensor, read_tensors};
use aleatron::network::{
    Activation, Arithmetic, Detail, FeatureMap, FeatureRange, Layer, Network, StreamConfig, top_class,
};
use aleatron::{Cancel, EngineError, LayerIndex, Polarity, SampleSeed, StreamLayer};
use std::path::PathBuf;

fn config(length: usize, generator: &str) -> StreamConfig {
    StreamConfig::new(length).generator(generator.parse().unwrap())
}

/// The share of samples whose top class is their label.
fn accuracy(scores: &[f64], data: &Dataset) -> f64 {
    let classes = scores.chunks_exact(10).map(top_class);
    let right = classes.zip(data.labels()).filter(|(class, label)| class == *label).count();
    right as f64 / data.len() as f64
}

fn stream_accuracy(network: &Network, config: &StreamConfig) -> f64 {
    let data = Dataset::digits_test();
    accuracy(&network.to_streams(config).unwrap().forward(data.features(), 0).unwrap(), &data)
}

#[test]
fn the_digits_are_whole() {
    let (train, test) = (Dataset::digits_train(), Dataset::digits_test());
    assert_eq!((train.len(), test.len()), (1437, 360));
    for data in [&train, &test] {
        assert_eq!(data.features().len(), 64 * data.len());
        assert!(data.features().iter().all(|pixel| (0.0..=16.0).contains(pixel)));
        for class in 0..10 {
            let share =
                data.labels().iter().filter(|&&label| label == class).count() as f64 / data.len() as f64;
            assert!((share - 0.1).abs() < 0.005, "class {class} has a share of {share}");
        }
    }
}

#[test]
fn the_noise_aware_network_meets_its_bars() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let float = accuracy(&network.forward(data.features()).unwrap(), &data);
    assert!(float >= 0.97, "{float}");
    let short = stream_accuracy(&network, &config(16, "sobol"));
    assert!(short >= 0.9, "{short} at 16 bits");
    let longer = stream_accuracy(&network, &config(32, "sobol"));
    assert!(longer >= float - 0.01, "{longer} at 32 bits, {float} in floating point");
}

#[test]
fn awareness_of_noise_is_what_helps() {
    let (plain, aware) = (Network::digits_plain().unwrap(), Network::digits_noise_aware().unwrap());
    let config = StreamConfig::new(32).seed(5);
    let [plain, aware] = [&plain, &aware].map(|network| stream_accuracy(network, &config));
    assert!(aware > plain + 0.2, "{aware} against {plain}");
}

/// The network by hand: each layer alone, with the books kept here.
#[test]
fn a_bernoulli_network_is_its_layers() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let (length, seed, first) = (100, 9, 40);
    let samples = &data.features()[64 * 40..64 * 43];
    let mut values: Vec<f64> = samples.iter().map(|pixel| (pixel - 8.0) / 8.0).collect();
    let mut outputs_of = Vec::new();
    for (k, layer) in network.layers().iter().enumerate() {
        let weights: Vec<f64> = layer.weights().iter().map(|w| w / layer.weight_scale()).collect();
        let builder =
            StreamLayer::dense(layer.n_inputs(), layer.n_neurons()).bipolar().length(length).seed(seed);
        let stream = builder.at(LayerIndex::new(k).unwrap()).weights(&weights).build().unwrap();
        let seed = SampleSeed::new(seed).starting_at(first);
        let counts = stream.counts_batch(&values, seed).unwrap();
        let sums = stream.decode(&counts);
        let biases = layer.bias().iter().cycle();
        let outputs =
            sums.iter().zip(biases).map(|(v, b)| v * (layer.input_scale() * layer.weight_scale()) + b);
        values = outputs.map(|z| if k == 0 { z.clamp(-1.0, 1.0) } else { z }).collect();
        outputs_of.push((counts, values.clone()));
    }
    let streams = network.to_streams(&StreamConfig::new(length).seed(seed)).unwrap();
    assert_eq!(streams.forward(samples, first).unwrap(), values);
    // A batch is its samples.
    assert_eq!(streams.forward(&samples[128..], first + 2).unwrap(), values[20..]);
    // What every layer made of it, on request.
    let detail = Detail { layers: true, ..Detail::default() };
    let output = streams.run(samples, first, detail, Cancel::NEVER).unwrap();
    let layers: Vec<_> = output.layers.into_iter().map(|layer| (layer.counts, layer.outputs)).collect();
    assert_eq!(layers, outputs_of);
    assert!(output.statistics.is_empty());
}

/// The network by hand in integers: each layer alone, and the arithmetic of the specification in between.
#[test]
fn an_integer_network_is_its_layers() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let samples = &data.features()[..64 * 5];
    for generator in ["bernoulli", "sobol", "bernoulli+sobol:2", "sobol:1+bernoulli"] {
        let config = config(64, generator).seed(3).arithmetic(Arithmetic::Integer);
        let streams = network.to_streams(&config).unwrap();
        let layers: Vec<_> = streams.layers().collect();
        let integer: Vec<_> = streams.integer_layers().collect();
        let bits = integer[0].comparator.bits();
        assert_eq!(bits, if generator.starts_with("sobol") { 8 } else { 16 });
        let unused = layers[0].spec().encoding().input_width().bits() - bits;
        let one = f64::from(1u32 << bits);
        let threshold =
            |pixel: &f64| ((((pixel - 8.0) / 8.0 + 1.0) / 2.0 * one + 0.5).floor() as u64) << unused;
        let mut thresholds: Vec<u64> = samples.iter().map(threshold).collect();
        let mut held = Vec::new();
        for (k, (layer, integer)) in layers.iter().zip(&integer).enumerate() {
            let batch = aleatron::backend::Batch::thresholds(&thresholds, SampleSeed::new(3));
            let counts = layer.count(&batch, Cancel::NEVER).unwrap();
            let neurons = counts.iter().zip((0..layer.spec().n_neurons()).cycle());
            let accumulator = &integer.accumulator;
            held = neurons
                .map(|(&c, j)| aleatron::reference::accumulate(accumulator, layer.spec(), j, c))
                .collect();
            if let Some(requantizer) = &integer.requantizer {
                let unused =
                    layers[k + 1].spec().encoding().input_width().bits() - requantizer.comparator().bits();
                thresholds =
                    held.iter().map(|&v| aleatron::reference::requantize(requantizer, v) << unused).collect();
            }
        }
        let last = &network.layers()[1];
        let unit = last.input_scale() * last.weight_scale() / 64.0 / 256.0;
        assert!(integer.iter().all(|layer| layer.accumulator.fraction() == 8));
        let scores: Vec<f64> = held.iter().map(|&value| value as f64 * unit).collect();
        assert_eq!(streams.forward(samples, 0).unwrap(), scores, "{generator}");
        // What the hidden layer made of it, on request.
        let detail = Detail { layers: true, ..Detail::default() };
        let output = streams.run(samples, 0, detail, Cancel::NEVER).unwrap();
        assert_eq!((output.layers[0].outputs.len(), output.scores), (5 * 64, scores), "{generator}");
    }
}

/// Integers between layers cost at most 0.3 points at equal length.
#[test]
fn integers_cost_little() {
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
                assert!(lost / n <= 0.003 + 1e-9, "{} {generator} {length}: {}", network.name(), lost / n);
            }
        }
    }
}

#[test]
fn sharing_changes_bits_but_not_the_way_of_counting() {
    let weights: Vec<f64> = (0..15).map(|k| f64::from(k) / 7.0 - 1.0).collect();
    let inputs: Vec<f64> = (0..20).map(|k| 1.0 - f64::from(k) / 10.0).collect();
    let layer = |generator: &str| {
        StreamLayer::dense(5, 3).bipolar().length(70).generator(generator.parse().unwrap()).weights(&weights)
    };
    let mut seen = Vec::new();
    for sharing in Sharing::ALL {
        let counts = |method| {
            let layer = layer("sobol").sharing(sharing).method(method).build().unwrap();
            layer.counts_batch(&inputs, 0).unwrap()
        };
        let best = counts(CountMethod::Best);
        assert_eq!(best, counts(CountMethod::Bits));
        if sharing != Sharing::OnePerStream {
            assert_eq!(best, counts(CountMethod::Tables));
        }
        assert!(!seen.contains(&best));
        seen.push(best);
    }
    let wide = layer("halton").width(Width::new(20).unwrap());
    assert!(wide.clone().build().is_ok());
    assert!(wide.method(CountMethod::Tables).build().is_err());
}

#[test]
fn layers_can_have_settings_of_their_own() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let scores = |config: &StreamConfig| network.to_streams(config)?.forward(&data.features()[..640], 0);
    let sobol = config(16, "sobol");
    let with = |settings: &str| scores(&sobol.clone().layer("output", settings.parse().unwrap()));
    let plain = scores(&sobol).unwrap();
    for settings in
        ["generator=bernoulli", "length=64", "width=5", "sharing=input", "length=7,generator=lfsr:5+ramp"]
    {
        assert_ne!(with(settings).unwrap(), plain, "{settings}");
    }
    assert_eq!(with("length=16,generator=sobol,width=8,sharing=all").unwrap(), plain);
    let streams = network.to_streams(&sobol.clone().layer("output", "length=64".parse().unwrap())).unwrap();
    assert_eq!(streams.lengths(), [16, 64]);
    let unknown = message(network.to_streams(&sobol.clone().layer("last", "length=3".parse().unwrap())));
    assert_eq!(unknown, "there is no layer \"last\"; the layers are hidden, output");
    let parse = |text: &str| message(text.parse::<aleatron::network::LayerOverride>());
    assert_eq!(parse("length"), "\"length\" is not a setting: use length=, generator=, width= or sharing=");
    assert_eq!(parse("depth=3"), "\"depth=3\" is not a setting: use length=, generator=, width= or sharing=");
    assert!(parse("length=x").contains("\"x\" is not a number of bits"));
    assert!(parse("generator=foo").contains("is not a generator"));
}

#[test]
fn bad_pairs_warn_through_the_network() {
    let network = Network::digits_noise_aware().unwrap();
    let warnings = |config: StreamConfig| network.to_streams(&config).unwrap().warnings();
    let near = config(255, "lfsr:1+lfsr:113").width(Width::EIGHT);
    assert_eq!(warnings(near.clone()), [Warning::NeighbouringStates { steps: 10, width: 8 }]);
    assert!(warnings(config(16, "sobol")).is_empty());
    // A width that the length does not cover.
    let cut = warnings(config(16, "lfsr").width(Width::EIGHT));
    assert!(matches!(cut[..], [Warning::CutOff { length: 16, .. }]), "{cut:?}");
    assert!(
        cut[0].to_string().starts_with("streams of 16 bits end before the period of 255 (LFSR 8 bits"),
        "{}",
        cut[0]
    );
    assert!(warnings(config(16, "lfsr")).is_empty());
    assert!(warnings(config(255, "lfsr").width(Width::EIGHT)).is_empty());
    // Random bits are correlated with nothing, but the other operand may be cut off.
    for generator in ["bernoulli+lfsr:1", "lfsr:1+bernoulli"] {
        assert!(warnings(config(255, generator).width(Width::EIGHT)).is_empty());
        let cut = warnings(config(16, generator).width(Width::EIGHT));
        assert!(matches!(cut[..], [Warning::CutOff { length: 16, .. }]), "{generator}: {cut:?}");
    }
}

/// The width that fits the length is what makes registers good at short lengths.
#[test]
fn fitted_widths_help() {
    let network = Network::digits_noise_aware().unwrap();
    let mean = |config: StreamConfig| {
        (0..6).map(|seed| stream_accuracy(&network, &config.clone().seed(seed))).sum::<f64>() / 6.0
    };
    let fitted = mean(config(16, "lfsr"));
    let cut_off = mean(config(16, "lfsr").width(Width::EIGHT));
    assert!(fitted > cut_off + 0.1, "{fitted} against {cut_off}");
}

fn small() -> Network {
    let hidden = Layer::new("a", 2, vec![0.5, 0.25, 1.0, 0.75, 0.0, 0.125])
        .with_bias(vec![0.1, -0.5, 0.0])
        .with_polarity(Polarity::Unipolar)
        .with_activation(Activation::Relu);
    let last = Layer::new("b", 3, vec![0.5, -0.25, 1.0, 0.75, 0.0, -3.0])
        .with_input_scale(2.0)
        .with_activation(Activation::Clamp { low: -0.5, high: 5.0 });
    Network::new("small", FeatureMap { offset: 1.0, scale: 2.0 }, vec![hidden, last]).unwrap()
}

#[test]
fn float_and_streams_agree_on_a_network_of_both_polarities() {
    let network = small();
    // x = (0.5, 1): hidden = relu(0.6, 0.75, 0.125), scores = clamp(0.2375, 0.075)
    let scores = network.forward(&[2.0, 3.0]).unwrap();
    assert_eq!(scores.iter().map(|s| (s * 1e9).round() / 1e9).collect::<Vec<_>>(), [0.2375, 0.075]);
    let streams = network.to_streams(&config(4096, "sobol").width(Width::new(12).unwrap())).unwrap();
    let detail = Detail { statistics: true, ..Detail::default() };
    let output = streams.run(&[2.0, 3.0], 0, detail, Cancel::NEVER).unwrap();
    for (stream, float) in output.scores.iter().zip(&scores) {
        assert!((stream - float).abs() < 0.015, "{stream} for {float}");
    }
    let errors: Vec<u64> = output.statistics.iter().map(|layer| layer.counts).collect();
    assert_eq!(errors, [3, 2]);
    for layer in &output.statistics {
        assert!(layer.mean_count <= layer.worst_count && layer.worst_value < 0.005, "{layer:?}");
        assert_eq!(layer.saturated, 0);
    }
}

#[test]
fn hidden_values_saturate_and_are_counted() {
    let first = Layer::new("a", 1, vec![1.0, -1.0]).with_bias(vec![4.0, 0.0]);
    let last = Layer::new("b", 2, vec![1.0, 1.0]).with_input_scale(2.0);
    let network = Network::new("n", FeatureMap::IDENTITY, vec![first, last]).unwrap();
    let streams = network.to_streams(&config(256, "sobol")).unwrap();
    let detail = Detail { statistics: true, ..Detail::default() };
    let output = streams.run(&[1.0], 0, detail, Cancel::NEVER).unwrap();
    assert_eq!(output.statistics[1].saturated, 1);
    let integer = network.to_streams(&config(256, "sobol").arithmetic(Arithmetic::Integer)).unwrap();
    let output_in_integers = integer.run(&[1.0], 0, detail, Cancel::NEVER).unwrap();
    assert_eq!((output_in_integers.statistics[1].saturated, output_in_integers.scores), (1, vec![1.0]));
    // 5 became 2, and -1 stayed.
    assert_eq!(output.scores, [1.0]);
    assert_eq!(network.forward(&[1.0]).unwrap(), [4.0]);
    let calibrated = network.calibrated(&[1.0, 0.5]).unwrap();
    assert_eq!(calibrated.layers()[1].input_scale(), 5.0);
}

#[test]
fn features_out_of_range_are_errors_or_clipped() {
    let network = Network::new("n", FeatureMap::IDENTITY, vec![Layer::new("a", 2, vec![1.0, 0.5])]).unwrap();
    for arithmetic in Arithmetic::ALL {
        let check = network.to_streams(&config(64, "sobol").arithmetic(arithmetic)).unwrap();
        let text = message(check.forward(&[0.5, 3.0], 0));
        assert!(
            text.contains("feature 1 is 3, not in [-1, 1]")
                && text.contains("calibrate")
                && text.contains("clip"),
            "{text}"
        );
        let clip = network
            .to_streams(&config(64, "sobol").arithmetic(arithmetic).range(FeatureRange::Clip))
            .unwrap();
        let output = clip.run(&[0.5, 3.0, -7.0, 0.0], 0, Detail::default(), Cancel::NEVER).unwrap();
        assert_eq!(output.clipped, 2);
        assert_eq!(output.scores, check.forward(&[0.5, 1.0, -1.0, 0.0], 0).unwrap());
        assert!(
            clip.forward(&[f64::NAN, 0.0], 0).is_err() && clip.forward(&[f64::INFINITY, 0.0], 0).is_err()
        );
        // Numbers that were written with six digits come back a little off.
        assert!(check.forward(&[1.000_001, -1.000_009], 0).is_ok());
        assert!(check.forward(&[1.000_1, 0.0], 0).is_err());
        let ragged = message(check.forward(&[0.5; 3], 0));
        assert!(ragged.contains("3 values"), "{ragged}");
    }
    // Calibration covers the first layer, too.
    let calibrated = network.calibrated(&[0.5, 3.0]).unwrap();
    assert_eq!((calibrated.layers()[0].input_scale(), calibrated.feature_interval()), (3.0, [-3.0, 3.0]));
}

#[test]
fn one_score_is_two_classes() {
    let network = Network::new("n", FeatureMap::IDENTITY, vec![Layer::new("a", 1, vec![1.0])]).unwrap();
    assert_eq!((network.n_outputs(), network.n_classes()), (1, 2));
    assert_eq!(network.predict(&[0.5, -0.5, 0.0]).unwrap(), [1, 0, 0]);
    assert_eq!([top_class(&[0.1]), top_class(&[-0.1]), top_class(&[3.0, 4.0, 4.0])], [1, 0, 1]);
}

fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("aleatron-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn networks_survive_saving() {
    let folder = temporary("network");
    for network in [small(), Network::digits_plain().unwrap()] {
        network.save(folder.join("net.json")).unwrap();
        assert_eq!(Network::load(folder.join("net")).unwrap(), network);
        assert_eq!(Network::load(folder.join("net.safetensors")).unwrap(), network);
    }
    assert!(matches!(Network::load(folder.join("none")), Err(EngineError::File { .. })));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Only the two endings are endings; anything else is part of a name.
#[test]
fn names_may_have_dots() {
    let folder = temporary("names");
    let [first, second] = [small(), Network::digits_plain().unwrap()];
    first.save(folder.join("model.v1")).unwrap();
    second.save(folder.join("model.v2")).unwrap();
    first.save(folder.join("lr0.01.json")).unwrap();
    // A folder is no name: there would be files of an ending alone.
    let error = message(first.save(folder.join("")));
    assert!(error.contains("not the name of a file"), "{error}");
    assert_eq!(Network::load(folder.join("model.v1")).unwrap(), first);
    assert_eq!(Network::load(folder.join("model.v2.json")).unwrap(), second);
    assert_eq!(Network::load(folder.join("lr0.01")).unwrap(), first);
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = ["lr0.01", "model.v1", "model.v2"]
        .map(|name| [format!("{name}.json"), format!("{name}.safetensors")]);
    assert_eq!(names, expected.concat());
    // The other format's file is not taken for ours.
    let error = message(Network::load(folder.join("model.onnx")));
    assert!(error.contains("model.onnx.json") && error.contains("No such file"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The first version of the format, as the embedded networks have it.
#[test]
fn the_first_format_is_read() {
    let description = r#"{"format": "aleatron-network", "version": 1, "name": "small", "input": {"offset": 1.0, "scale": 2.0}, "layers": [
        {"name": "a", "polarity": "unipolar", "input_scale": 1.0, "weight_scale": 1.0, "activation": "relu"},
        {"name": "b", "polarity": "bipolar", "input_scale": 2.0, "weight_scale": 3.0,
         "activation": {"clamp": {"low": -0.5, "high": 5.0}}}]}"#;
    let (_, tensors) = small().to_parts().unwrap();
    assert_eq!(Network::from_parts(description, &tensors).unwrap(), small());
    let bare = description.replace(r#""input": {"offset": 1.0, "scale": 2.0}, "#, "");
    assert_eq!(Network::from_parts(&bare, &tensors).unwrap().input(), FeatureMap::IDENTITY);
}

#[test]
fn a_state_dict_is_a_network() {
    let (_, bytes) = Network::digits_plain().unwrap().to_parts().unwrap();
    let tensors = read_tensors(&bytes).unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with(".weight")).count(), 2);
    let map = FeatureMap { offset: 8.0, scale: 8.0 };
    let network = Network::from_state_dict("mine", map, &tensors, Activation::Relu).unwrap();
    assert!(network.layers().iter().all(|layer| layer.polarity() == Polarity::Signed));
    let calibrated = network.calibrated(Dataset::digits_train().features()).unwrap();
    let data = Dataset::digits_test();
    let plain = Network::digits_plain().unwrap();
    assert_eq!(calibrated.forward(data.features()).unwrap(), plain.forward(data.features()).unwrap());
    let scales = |network: &Network| network.layers()[1].input_scale();
    assert!((scales(&calibrated) / scales(&plain) - 1.0).abs() < 1e-6);
    assert!(matches!(
        Network::from_state_dict("mine", map, &[], Activation::Relu),
        Err(EngineError::NoLayers)
    ));
    let mut more = tensors.clone();
    more.push(Tensor { name: "norm.running_mean".into(), shape: vec![1], values: vec![0.0] });
    more.push(Tensor { name: "stray.bias".into(), shape: vec![1], values: vec![0.0] });
    let error = message(Network::from_state_dict("mine", map, &more, Activation::Relu));
    assert!(error.starts_with("no layer uses \"norm.running_mean\", \"stray.bias\""), "{error}");
}

/// The text of the error.
fn message<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn faults_name_the_layer_and_the_index() {
    let build = |layers| message(Network::new("n", FeatureMap::IDENTITY, layers));
    assert_eq!(build(vec![]), "a network needs at least one layer");
    let ok = || Layer::new("a", 2, vec![0.5, -0.5]);
    let next = |weights| Layer::new("b", 1, weights);
    assert_eq!(
        build(vec![ok(), next(vec![1.0, f64::NAN]).with_weight_scale(1.0)]),
        "layer 1 (b): weight at index 1 is NaN, not in [-1, 1]"
    );
    assert_eq!(
        build(vec![ok().with_polarity(Polarity::Unipolar)]),
        "layer 0 (a): weight at index 1 is -0.5, not in [0, 0.5]"
    );
    assert_eq!(
        build(vec![ok().with_weight_scale(0.25)]),
        "layer 0 (a): weight at index 0 is 0.5, not in [-0.25, 0.25]"
    );
    assert_eq!(
        build(vec![ok(), Layer::new("b", 3, vec![0.0; 3])]),
        "layer 1 (b) has 3 inputs, but the layer before it has 1 outputs"
    );
    assert_eq!(build(vec![ok(), Layer::new("a", 1, vec![0.0])]), "layers 0 and 1 are both called \"a\"");
    assert_eq!(build(vec![Layer::new("a", 0, vec![])]), "layer 0 (a): number of inputs must be at least 1");
    assert_eq!(build(vec![Layer::new("a", 2, vec![])]), "layer 0 (a): number of neurons must be at least 1");
    assert_eq!(build(vec![Layer::new("a", 2, vec![0.0; 3])]), "layer 0 (a): weights: expected 2, got 3");
    assert_eq!(
        build(vec![ok().with_bias(vec![f64::INFINITY])]),
        "layer 0 (a): bias at index 0 is inf, not finite"
    );
    assert_eq!(
        build(vec![ok().with_input_scale(-1.0)]),
        "layer 0 (a): input scale is -1, not positive and finite"
    );
    assert_eq!(
        build(vec![ok().with_weight_scale(f64::NAN)]),
        "layer 0 (a): weight scale is NaN, not positive and finite"
    );
    for (low, high, value) in [(1.0, 0.0, "1"), (0.0, f64::INFINITY, "inf"), (f64::NAN, 0.0, "NaN")] {
        let clamped = build(vec![ok().with_activation(Activation::Clamp { low, high })]);
        assert!(
            clamped.starts_with(&format!("layer 0 (a): a bound of the activation is {value}: ")),
            "{clamped}"
        );
    }
    let huge = build(vec![ok().with_input_scale(1e200).with_weight_scale(1e200)]);
    assert_eq!(
        huge,
        "layer 0 (a): the product of scales is inf: the scales of inputs and weights are too large together"
    );
    let map = FeatureMap { offset: 0.0, scale: 0.0 };
    assert_eq!(
        message(Network::new("n", map, vec![ok()])),
        "layer 0 (a): feature scale is 0, not positive and finite"
    );

    let network = Network::digits_noise_aware().unwrap();
    assert_eq!(message(network.forward(&[0.0; 65])), "65 values are not whole samples of 64");
    let mut samples = vec![0.0; 128];
    samples[64 + 3] = f64::NAN;
    assert!(message(network.forward(&samples)).starts_with("sample 1, feature 3 is NaN"));
    samples[64 + 3] = 17.0;
    let streams = network.to_streams(&config(8, "sobol")).unwrap();
    assert!(message(streams.forward(&samples, 0)).starts_with("sample 1, feature 3 is 17, not in [0, 16]"));
    assert!(network.forward(&samples).is_ok());
    assert_eq!(
        message(network.to_streams(&config(8, "sobol").sharing(Sharing::OnePerStream))),
        "layer 0 (hidden): Sobol dimension is 8192, the most is 1111"
    );
    let bernoulli = network.to_streams(&StreamConfig::new(8)).unwrap();
    assert!(bernoulli.forward(&[0.0; 64], u32::MAX).is_ok());
    assert_eq!(
        message(bernoulli.forward(&[0.0; 128], u32::MAX)),
        "layer 0 (hidden): row is 4294967296, the most is 4294967295"
    );
}

#[test]
fn faults_of_files_are_named() {
    let (description, tensors) = small().to_parts().unwrap();
    let load = |description: &str, tensors: &[u8]| message(Network::from_parts(description, tensors));
    assert!(load("{", &tensors).starts_with("network description: "));
    assert!(
        load(&description.replace("\"version\": 2", "\"version\": 3"), &tensors).contains("version 3 is not")
    );
    let changed = |from: &str, to: &str| {
        assert!(description.contains(from), "{description}");
        load(&description.replacen(from, to, 1), &tensors)
    };
    assert!(changed("\"dense\"", "\"conv3d\"").contains("unknown variant `conv3d`, expected one of `dense`"));
    assert!(changed("\"unipolar\"", "\"tripolar\"").contains("node \"a\" has no polarity: \"tripolar\""));
    let inputs = "\"inputs\": [\n        \"a\"\n      ]";
    assert!(
        changed(inputs, "\"inputs\": [\"input\"]")
            .contains("node \"b\" takes \"input\", not the node before it")
    );
    let outputs = "\"outputs\": [\n    \"b\"\n  ]";
    assert!(changed(outputs, "\"outputs\": [\"a\"]").contains("the outputs are \"a\", not the last node"));
    assert!(
        load(&description.replace("\"polarity\"", "\"pole\""), &tensors).contains("unknown field `pole`")
    );
    assert!(
        changed("\"shape\": [\n        2", "\"shape\": [\n        3")
            .contains("node \"a\" takes 2 inputs, but gets shape [3]")
    );
    assert_eq!(
        load(&description.replace("\"b\"", "\"c\""), &tensors),
        "layer 1: there is no tensor \"c.weight\""
    );
    assert!(load(&description, &tensors[..40]).starts_with("tensors: "));
    let wrong = Tensor { name: "a.weight".into(), shape: vec![6], values: vec![0.0; 6] };
    assert_eq!(
        message(Network::from_state_dict("n", FeatureMap::IDENTITY, &[wrong], Activation::Relu)),
        "layer 0: tensor \"a.weight\" has shape [6], expected (neurons, inputs)"
    );
    let weight = Tensor { name: "a.weight".into(), shape: vec![2, 3], values: vec![0.0; 6] };
    let bias = Tensor { name: "a.bias".into(), shape: vec![3], values: vec![0.0; 3] };
    assert_eq!(
        message(Network::from_state_dict("n", FeatureMap::IDENTITY, &[weight, bias], Activation::Relu)),
        "layer 0: tensor \"a.bias\" has shape [3], expected [2]"
    );
}

/// A scale of nothing is named itself, and so is a product of two that are too small together; bounds may be one number.
#[test]
fn scales_of_nothing_and_bounds_of_one_number() {
    let made = |input: f64, weight: f64, activation: Activation| {
        let layer = Layer::new("a", 2, vec![0.0; 2])
            .with_input_scale(input)
            .with_weight_scale(weight)
            .with_activation(activation);
        let map = FeatureMap::IDENTITY;
        Network::new("n", map, vec![layer]).map(drop).map_err(|error| error.to_string())
    };
    let identity = Activation::Identity;
    assert!(made(1.0, 1.0, identity).is_ok());
    assert!(made(0.0, 1.0, identity).unwrap_err().contains("input scale"));
    assert!(made(1e-200, 1e-200, identity).unwrap_err().contains("the product of scales"));
    let clamp = |low, high| made(1.0, 1.0, Activation::Clamp { low, high });
    assert!(clamp(0.5, 0.5).is_ok() && clamp(0.0, 0.5).is_ok());
    assert!(clamp(0.5, 0.25).is_err());
}

/// Features are refused whether one of them is outside or several are.
#[test]
fn several_features_that_are_no_numbers_are_refused() {
    let network = crate::network();
    for x in [[f64::NAN, 0.5], [0.5, f64::NAN], [f64::NAN, f64::NAN]] {
        let feature = usize::from(x[0] == 0.5);
        let error = network.forward(&x).unwrap_err();
        assert!(
            matches!(error, EngineError::Feature { sample: 0, feature: found, .. } if found == feature),
            "{error}"
        );
    }
}
