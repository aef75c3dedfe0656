//! Networks: the embedded ones reach their accuracy as streams, files survive, and faults are named.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

use aleatron::core::generator::{Halton, Lfsr, Pairing, Sequence, Sharing, Sobol, Warning, Width};
use aleatron::data::Dataset;
use aleatron::layer::{Counting, DenseSpec, SequenceLayer};
use aleatron::network::file::{Tensor, read_tensors};
use aleatron::network::{Activation, FeatureMap, Generator, Layer, Network, NetworkError, top_class};
use aleatron::{DenseLayer, DenseShape, Device, Error, LayerIndex, Length, Polarity};

fn sobol(dimension: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap())
}

fn sobol_pair() -> Generator {
    Generator::Sequences(Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll })
}

/// The share of samples whose top class is their label.
fn accuracy(scores: &[f64], data: &Dataset) -> f64 {
    let classes = scores.chunks_exact(10).map(top_class);
    let right = classes.zip(data.labels()).filter(|(class, label)| class == *label).count();
    right as f64 / data.len() as f64
}

fn stream_accuracy(network: &Network, length: usize, generator: &Generator) -> f64 {
    let data = Dataset::digits_test();
    let streams = network.to_streams(Length::new(length).unwrap(), generator).unwrap();
    accuracy(&streams.forward(data.features(), 0).unwrap().scores, &data)
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
    let short = stream_accuracy(&network, 16, &sobol_pair());
    assert!(short >= 0.9, "{short} at 16 bits");
    let longer = stream_accuracy(&network, 32, &sobol_pair());
    assert!(longer >= float - 0.01, "{longer} at 32 bits, {float} in floating point");
}

#[test]
fn awareness_of_noise_is_what_helps() {
    let (plain, aware) = (Network::digits_plain().unwrap(), Network::digits_noise_aware().unwrap());
    let generator = Generator::Bernoulli { seed: 5 };
    let [plain, aware] = [&plain, &aware].map(|network| stream_accuracy(network, 32, &generator));
    assert!(aware > plain + 0.2, "{aware} against {plain}");
}

/// The network by hand: each layer alone, with the books kept here.
#[test]
fn a_bernoulli_network_is_its_layers() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let (length, seed, first) = (Length::new(100).unwrap(), 9, 40);
    let samples = &data.features()[64 * 40..64 * 43];
    let mut values: Vec<f64> = samples.iter().map(|pixel| (pixel - 8.0) / 8.0).collect();
    for (k, layer) in network.layers().iter().enumerate() {
        let shape = DenseShape::new(layer.n_inputs(), layer.n_neurons(), length, Polarity::Bipolar).unwrap();
        let spec = DenseSpec { shape, seed, layer: LayerIndex::new(k).unwrap() };
        let weights: Vec<f64> = layer.weights().iter().map(|w| w / layer.weight_scale()).collect();
        let seed = aleatron::SampleSeed::new(seed).starting_at(first);
        let sums = DenseLayer::from_weights(spec, &weights).unwrap().forward_batch(&values, seed).unwrap();
        let biases = layer.bias().iter().cycle();
        let outputs =
            sums.iter().zip(biases).map(|(v, b)| v * (layer.input_scale() * layer.weight_scale()) + b);
        values = outputs.map(|z| if k == 0 { z.clamp(-1.0, 1.0) } else { z }).collect();
    }
    let streams = network.to_streams(length, &Generator::Bernoulli { seed }).unwrap();
    assert_eq!(streams.forward(samples, first).unwrap().scores, values);
    // A batch is its samples.
    let last = streams.forward(&samples[128..], first + 2).unwrap().scores;
    assert_eq!(last, values[20..]);
}

#[test]
fn sharing_changes_bits_but_not_the_way_of_counting() {
    let length = Length::new(70).unwrap();
    let shape = DenseShape::new(5, 3, length, Polarity::Bipolar).unwrap();
    let weights: Vec<f64> = (0..15).map(|k| f64::from(k) / 7.0 - 1.0).collect();
    let inputs: Vec<f64> = (0..20).map(|k| 1.0 - f64::from(k) / 10.0).collect();
    let mut seen = Vec::new();
    for sharing in [Sharing::OneForAll, Sharing::OnePerInput, Sharing::OnePerStream] {
        let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing };
        let layer = SequenceLayer::new(shape, pairing, &weights).unwrap();
        let bits = SequenceLayer::with_counting(shape, pairing, &weights, Counting::Bits).unwrap();
        let expected = if sharing == Sharing::OnePerStream { Counting::Bits } else { Counting::Tables };
        assert_eq!((layer.counting(), bits.counting()), (expected, Counting::Bits));
        let counts = layer.counts(&inputs).unwrap();
        assert_eq!(counts, bits.counts(&inputs).unwrap());
        assert!(!seen.contains(&counts));
        seen.push(counts);
    }
    let wide = |base| Sequence::Halton(Halton::new(base, Width::new(20).unwrap()).unwrap());
    let pairing = Pairing { inputs: wide(2), weights: wide(3), sharing: Sharing::OneForAll };
    assert_eq!(SequenceLayer::new(shape, pairing, &weights).unwrap().counting(), Counting::Bits);
    assert!(SequenceLayer::with_counting(shape, pairing, &weights, Counting::Tables).is_err());
}

#[test]
fn layers_can_have_generators_of_their_own() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let length = Length::new(16).unwrap();
    let scores = |generators: &[Generator]| {
        let streams = network.to_streams_by_layer(length, generators, Device::Cpu)?;
        Ok::<_, Error>(streams.forward(&data.features()[..640], 0)?.scores)
    };
    let (sobol, bernoulli) = (sobol_pair(), Generator::Bernoulli { seed: 3 });
    let mixed = scores(&[sobol, bernoulli]).unwrap();
    assert_ne!(mixed, scores(&[sobol, sobol]).unwrap());
    assert_ne!(mixed, scores(&[bernoulli, bernoulli]).unwrap());
    assert_eq!(scores(&[sobol]).unwrap_err().to_string(), "1 generators for 2 layers");
}

#[test]
fn bad_pairs_warn_through_the_network() {
    let lfsr = |seed| Sequence::Lfsr(Lfsr::new(Width::EIGHT, seed).unwrap());
    let network = Network::digits_noise_aware().unwrap();
    let length = Length::new(16).unwrap();
    let pairing = Pairing { inputs: lfsr(1), weights: lfsr(113), sharing: Sharing::OneForAll };
    let streams = network.to_streams(length, &Generator::Sequences(pairing)).unwrap();
    assert_eq!(streams.warnings(), [Warning::NeighbouringStates { steps: 10, width: 8 }]);
    assert!(network.to_streams(length, &sobol_pair()).unwrap().warnings().is_empty());
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
    let pairing = Pairing {
        inputs: Sequence::Sobol(Sobol::new(1, Width::new(12).unwrap()).unwrap()),
        weights: Sequence::Sobol(Sobol::new(2, Width::new(12).unwrap()).unwrap()),
        sharing: Sharing::OneForAll,
    };
    let streams = network.to_streams(Length::new(4096).unwrap(), &Generator::Sequences(pairing)).unwrap();
    let output = streams.forward(&[2.0, 3.0], 0).unwrap();
    for (stream, float) in output.scores.iter().zip(&scores) {
        assert!((stream - float).abs() < 0.015, "{stream} for {float}");
    }
    let errors: Vec<u64> = output.layers.iter().map(|layer| layer.counts).collect();
    assert_eq!(errors, [3, 2]);
    for layer in &output.layers {
        assert!(layer.mean_count <= layer.worst_count && layer.worst_value < 0.005, "{layer:?}");
        assert_eq!(layer.saturated, 0);
    }
}

#[test]
fn hidden_values_saturate_and_are_counted() {
    let first = Layer::new("a", 1, vec![1.0, -1.0]).with_bias(vec![4.0, 0.0]);
    let last = Layer::new("b", 2, vec![1.0, 1.0]).with_input_scale(2.0);
    let network = Network::new("n", FeatureMap::IDENTITY, vec![first, last]).unwrap();
    let streams = network.to_streams(Length::new(256).unwrap(), &sobol_pair()).unwrap();
    let output = streams.forward(&[1.0], 0).unwrap();
    assert_eq!(output.layers[1].saturated, 1);
    // 5 became 2, and -1 stayed.
    assert_eq!(output.scores, [1.0]);
    assert_eq!(network.forward(&[1.0]).unwrap(), [4.0]);
    let calibrated = network.calibrated(&[1.0, 0.5]).unwrap();
    assert_eq!(calibrated.layers()[1].input_scale(), 5.0);
}

#[test]
fn networks_survive_saving() {
    let folder = std::env::temp_dir().join(format!("aleatron-network-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for network in [small(), Network::digits_plain().unwrap()] {
        network.save(folder.join("net.json")).unwrap();
        assert_eq!(Network::load(folder.join("net")).unwrap(), network);
        assert_eq!(Network::load(folder.join("net.safetensors")).unwrap(), network);
    }
    assert!(matches!(Network::load(folder.join("none")), Err(Error::Network(NetworkError::File { .. }))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_state_dict_is_a_network() {
    let (_, bytes) = Network::digits_plain().unwrap().to_parts().unwrap();
    let tensors = read_tensors(&bytes).unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with(".weight")).count(), 2);
    let map = FeatureMap { offset: 8.0, scale: 8.0 };
    let network = Network::from_state_dict("mine", map, &tensors, Activation::Relu).unwrap();
    let calibrated = network.calibrated(Dataset::digits_train().features()).unwrap();
    let data = Dataset::digits_test();
    let plain = Network::digits_plain().unwrap();
    assert_eq!(calibrated.forward(data.features()).unwrap(), plain.forward(data.features()).unwrap());
    let scales = |network: &Network| network.layers()[1].input_scale();
    assert!((scales(&calibrated) / scales(&plain) - 1.0).abs() < 1e-6);
    assert!(matches!(
        Network::from_state_dict("mine", map, &[], Activation::Relu),
        Err(Error::Network(NetworkError::Empty))
    ));
}

/// The text of the error.
fn message<T: std::fmt::Debug>(result: aleatron::Result<T>) -> String {
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
        "layer 1 (b) has 3 inputs, but the layer before it has 1 neurons"
    );
    assert_eq!(build(vec![ok(), Layer::new("a", 1, vec![0.0])]), "layers 0 and 1 are both called \"a\"");
    assert_eq!(build(vec![Layer::new("a", 0, vec![])]), "layer 0 (a): number of inputs must be at least 1");
    assert_eq!(build(vec![Layer::new("a", 2, vec![])]), "layer 0 (a): number of neurons must be at least 1");
    assert_eq!(build(vec![Layer::new("a", 2, vec![0.0; 3])]), "layer 0 (a): weights: expected 2, got 3");
    assert_eq!(build(vec![ok().with_bias(vec![f64::INFINITY])]), "layer 0 (a): bias at index 0 is inf");
    assert_eq!(build(vec![ok().with_input_scale(-1.0)]), "layer 0 (a): input scale is -1");
    assert_eq!(build(vec![ok().with_weight_scale(f64::NAN)]), "layer 0 (a): weight scale is NaN");
    let clamp = Activation::Clamp { low: 1.0, high: 0.0 };
    assert_eq!(build(vec![ok().with_activation(clamp)]), "layer 0 (a): bound of the activation is 1");
    let map = FeatureMap { offset: 0.0, scale: 0.0 };
    assert_eq!(message(Network::new("n", map, vec![ok()])), "layer 0 (a): feature scale is 0");

    let network = Network::digits_noise_aware().unwrap();
    assert_eq!(message(network.forward(&[0.0; 65])), "65 values are not whole samples of 64");
    let mut samples = vec![0.0; 128];
    samples[64 + 3] = f64::NAN;
    assert!(message(network.forward(&samples)).starts_with("sample 1, feature 3 is NaN"));
    samples[64 + 3] = 17.0;
    let streams = network.to_streams(Length::new(8).unwrap(), &sobol_pair()).unwrap();
    assert_eq!(message(streams.forward(&samples, 0)), "sample 1, feature 3 is 17, not in [0, 16]");
    assert!(network.forward(&samples).is_ok());
    let many = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OnePerStream };
    assert_eq!(
        message(network.to_streams(Length::new(8).unwrap(), &Generator::Sequences(many))),
        "layer 0 (hidden): Sobol dimension is 1154, the most is 1111"
    );
}

#[test]
fn faults_of_files_are_named() {
    let (description, tensors) = small().to_parts().unwrap();
    let load = |description: &str, tensors: &[u8]| message(Network::from_parts(description, tensors));
    assert!(load("{", &tensors).starts_with("network description: "));
    assert!(
        load(&description.replace("\"version\": 1", "\"version\": 2"), &tensors).contains("version 2 is not")
    );
    assert!(
        load(&description.replace("\"polarity\"", "\"pole\""), &tensors).contains("unknown field `pole`")
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
