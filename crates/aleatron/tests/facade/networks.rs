//! Networks of a few weights, whose numbers can be found by hand.

use super::network;
use aleatron::network::{
    Activation, Arithmetic, Detail, FeatureMap, FeatureRange, Layer, LayerInputs, LayerOverride, Network,
    StreamConfig, top_class,
};
use aleatron::{Cancel, Device, EngineError, Polarity, SampleSeed};

#[test]
fn networks_say_what_they_are() {
    let network = network();
    assert_eq!(
        (network.name(), network.n_features(), network.n_outputs(), network.n_classes()),
        ("n", 2, 3, 3)
    );
    assert_eq!(network.products(), 4 + 6);
    assert_eq!(network.input(), FeatureMap::IDENTITY);
    let one = Network::new("o", FeatureMap { offset: 3.0, scale: 2.0 }, vec![Layer::new("a", 1, vec![0.5])])
        .unwrap();
    assert_eq!((one.n_outputs(), one.n_classes(), one.products()), (1, 2, 1));
    assert_eq!(one.input().apply(7.0), 2.0);
    // (-1..1) times 2 plus 3.
    assert_eq!(one.feature_interval(), [1.0, 5.0]);
    let layer = Layer::new("a", 1, vec![0.5]).with_polarity(Polarity::Unipolar).with_input_scale(4.0);
    let scaled = Network::new("o", FeatureMap { offset: 3.0, scale: 2.0 }, vec![layer]).unwrap();
    assert_eq!(scaled.feature_interval(), [3.0, 11.0]);
}

#[test]
fn classes_are_the_greatest_score() {
    assert_eq!(top_class(&[1.0, 3.0, 2.0]), 1);
    assert_eq!(top_class(&[3.0, 3.0, 2.0]), 0, "the first of equals");
    assert_eq!([-1.0, 0.0, 0.5].map(|score| top_class(&[score])), [0, 0, 1]);
    assert_eq!(top_class(&[]), 0);
}

#[test]
fn floating_point_is_what_it_is_by_hand() {
    let layers = vec![
        Layer::new("a", 2, vec![1.0, 2.0, -1.0, 0.5])
            .with_bias(vec![0.5, -1.0])
            .with_activation(Activation::Relu),
        Layer::new("b", 2, vec![3.0, -1.0]).with_bias(vec![0.25]),
    ];
    let network = Network::new("n", FeatureMap { offset: 1.0, scale: 2.0 }, layers).unwrap();
    // Inputs 1 and -1: sums 1 - 2 + 0.5 and -1 - 0.5 - 1, both below 0. Inputs 2 and 1: 4.5 and 0; 13.5 + 0.25.
    assert_eq!(network.forward(&[3.0, -1.0, 5.0, 3.0]).unwrap(), [0.25, 13.75]);
    assert_eq!(network.predict(&[3.0, -1.0, 5.0, 3.0]).unwrap(), [1, 1]);
    assert!(matches!(network.forward(&[1.0; 3]), Err(EngineError::RaggedSamples { values: 3, features: 2 })));
    let nan = network.forward(&[1.0, 1.0, 1.0, f64::NAN]);
    assert!(matches!(nan, Err(EngineError::Feature { sample: 1, feature: 1, .. })), "{nan:?}");
    let calibrated = network.calibrated(&[3.0, -1.0, 5.0, 3.0]).unwrap();
    // The largest input of the first layer is 2, of the second 4.5.
    let scales: Vec<f64> = calibrated.layers().iter().map(Layer::input_scale).collect();
    assert_eq!(scales, [2.0, 4.5]);
    // A layer that gets nothing keeps its scale.
    let nothing = network.calibrated(&[1.0, 1.0]).unwrap();
    assert_eq!(nothing.layers()[0].input_scale(), 1.0);
    let stop = || true;
    assert!(network.calibrated_unless(&[1.0, 1.0], Cancel::when(&stop)).is_err());
}

/// Rounding of six digits is not a fault, anything more is.
#[test]
fn features_may_be_off_by_rounding() {
    let network = network();
    let streams = network.to_streams(&StreamConfig::new(8)).unwrap();
    // Two per thousand thousand of the interval's length of 2.
    assert!(streams.forward(&[1.0 + 1.9e-5, -1.0 - 1.9e-5], 0).is_ok());
    for bad in [1.0 + 2.1e-5, -1.0 - 2.1e-5, f64::NAN, f64::INFINITY] {
        let error = streams.forward(&[0.0, 0.0, 0.0, bad], 0).unwrap_err();
        assert!(
            matches!(error, EngineError::Feature { sample: 1, feature: 1, low: -1.0, high: 1.0, .. }),
            "{error}"
        );
    }
    let clip = network.to_streams(&StreamConfig::new(8).range(FeatureRange::Clip)).unwrap();
    let detail = Detail { statistics: true, ..Detail::default() };
    let output = clip.run(&[5.0, -1.5, 0.5, 1.0], 0, detail, Cancel::NEVER).unwrap();
    assert_eq!((output.clipped, output.statistics[0].saturated), (2, 2));
    assert_eq!(clip.forward(&[5.0, -1.5], 0).unwrap(), clip.forward(&[1.0, -1.0], 0).unwrap());
}

/// Ramps against a constant: counts are exact, and so their errors.
#[test]
fn statistics_are_those_of_exact_products() {
    let layer = Layer::new("a", 1, vec![1.0, 0.5]).with_polarity(Polarity::Unipolar);
    let network = Network::new("n", FeatureMap::IDENTITY, vec![layer]).unwrap();
    let config = StreamConfig::new(16)
        .generator("ramp+vdc".parse().unwrap())
        .width(aleatron::generator::Width::new(4).unwrap());
    let streams = network.to_streams(&config).unwrap();
    let detail = Detail { statistics: true, layers: true, last_inputs: true };
    // 5/16 of ones; times one, and times a half: 2 or 3 of the 2.5 that would be exact.
    let output = streams.run(&[5.0 / 16.0], 0, detail, Cancel::NEVER).unwrap();
    assert_eq!(output.layers[0].counts[0], 5);
    let second = output.layers[0].counts[1] as f64;
    assert_eq!((second - 2.5).abs(), 0.5);
    let stats = output.statistics[0];
    assert_eq!((stats.counts, stats.mean_count, stats.worst_count), (2, 0.25, 0.5));
    assert_eq!((stats.mean_value, stats.worst_value, stats.saturated), (0.25 / 16.0, 0.5 / 16.0, 0));
    assert_eq!(output.last_inputs, Some(LayerInputs::Values(vec![5.0 / 16.0])));
    assert_eq!(output.scores, [5.0 / 16.0, second / 16.0]);
    assert_eq!(output.layers[0].outputs, output.scores);
    // A bipolar count moves a value by two over the length.
    let layer = Layer::new("a", 1, vec![1.0]);
    let network = Network::new("n", FeatureMap::IDENTITY, vec![layer]).unwrap();
    let output =
        network.to_streams(&StreamConfig::new(10)).unwrap().run(&[0.1], 0, detail, Cancel::NEVER).unwrap();
    let stats = output.statistics[0];
    assert!(
        (stats.mean_count - 5.0 * stats.mean_value).abs() < 1e-12 && stats.mean_value == stats.worst_value
    );
}

#[test]
fn integers_carry_thresholds() {
    let config = StreamConfig::new(64).arithmetic(Arithmetic::Integer).seed(3);
    let streams = network().to_streams(&config).unwrap();
    let detail = Detail { statistics: true, layers: true, last_inputs: true };
    let output = streams.run(&[0.5, -0.5], 7, detail, Cancel::NEVER).unwrap();
    let Some(LayerInputs::Thresholds(thresholds)) = &output.last_inputs else { panic!("no thresholds") };
    assert_eq!(thresholds.len(), 2);
    // Comparators of sixteen bits, in the high half of 32.
    assert!(thresholds.iter().all(|threshold| threshold.trailing_zeros() >= 16));
    assert_eq!(streams.seed_at(7), SampleSeed::new(3).starting_at(7));
    let inputs = output.last_inputs.clone().unwrap();
    let last = streams.last_layer_at(64).unwrap();
    assert_eq!(
        last.count(&inputs.batch(streams.seed_at(7)), Cancel::NEVER).unwrap(),
        output.layers[1].counts
    );
    // An accumulator's unit is the scale over the length.
    let unit = network().layers()[1].stage().scale / 64.0;
    let spec = streams.layers().last().unwrap().spec().clone();
    let sums: Vec<f64> = spec.decode_all(&output.layers[1].counts).iter().map(|v| v * unit * 64.0).collect();
    assert_eq!(output.scores, sums);
    assert!(output.statistics[1].worst_value < 2.0 && output.statistics[1].counts == 3);
    let integer: Vec<_> = streams.integer_layers().collect();
    assert!(integer[0].requantizer.is_some() && integer[1].requantizer.is_none());
    assert_eq!([integer[0].comparator.bits(), integer[1].comparator.bits()], [16, 16]);
}

#[test]
fn settings_of_layers_are_read_and_written() {
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
        .range(FeatureRange::Clip)
        .arithmetic(Arithmetic::Integer);
    assert_eq!((config.seed, config.device, config.range), (5, Device::Auto, FeatureRange::Clip));
    assert_eq!(
        (config.arithmetic, config.settings.sharing.to_string()),
        (Arithmetic::Integer, "stream".to_owned())
    );
}

/// Streams of a shorter last layer begin those of the full one.
#[test]
fn last_layers_of_a_part_are_prefixes() {
    for generator in ["bernoulli", "sobol", "lfsr"] {
        let streams =
            network().to_streams(&StreamConfig::new(64).generator(generator.parse().unwrap())).unwrap();
        let part = streams.last_layer_at(20).unwrap();
        assert_eq!(part.spec().length().bits(), 20);
        assert_eq!(
            (part.spec().index(), part.weights().len()),
            (streams.layers().last().unwrap().spec().index(), 6)
        );
        let [full, part] =
            [streams.layers().last().unwrap(), &part].map(|layer| layer.weight_streams().unwrap());
        for row in 0..6 {
            let [full, part] = [&full, &part].map(|streams| streams.stream(row).unwrap().to_bits());
            assert_eq!(full[..20], part, "{generator}");
        }
    }
}
