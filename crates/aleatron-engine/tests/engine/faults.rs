//! Faults on the fast path: equal to the reference, as many as their rates predict, and none at a
//! rate of 0.

use crate::support::features;
use aleatron_core::arithmetic::{Activation, Arithmetic};
use aleatron_core::backend::{
    Backend, Batch, CountMethod, PrepareOptions, PreparedLayer, WeightStreams,
};
use aleatron_core::conformance::LayerCase;
use aleatron_core::conformance::strategies::{Sizes, layer};
use aleatron_core::fault::{
    Fault, FaultKind, FaultRate, FaultSite, Faults, check_generators, plain,
};
use aleatron_core::generator::IntegerBits;
use aleatron_core::{
    Cancel, Connections, Convolution, Encoding, LayerSpec, Length, Polarity, SampleSeed, Weights,
    golden, reference,
};
use aleatron_cpu::{Cpu, CpuBackend, Pool, Tier, get_num_threads, set_num_threads};
use aleatron_engine::backend::FaultBackend;
use aleatron_engine::network::{Network, NetworkBuilder, StreamConfig};
use aleatron_engine::stream::{Detail, Measured};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU as a backend that counts the layers whose weights it got as streams. Without a count it
/// takes no streams, like accelerators: permanent flips are differences of counts.
#[derive(Debug)]
struct Recorder(Option<AtomicUsize>);

impl Backend for Recorder {
    fn name(&self) -> String {
        CpuBackend::CURRENT.name()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Box<dyn PreparedLayer>> {
        CpuBackend::CURRENT.prepare(spec, weights, options)
    }

    fn prepare_streams(
        &self,
        spec: &LayerSpec,
        weights: WeightStreams<'_>,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Option<Box<dyn PreparedLayer>>> {
        let Some(layers) = &self.0 else { return Ok(None) };
        layers.fetch_add(1, Ordering::Relaxed);
        CpuBackend::CURRENT.prepare_streams(spec, weights, options)
    }
}

/// Counts a case on a backend with faults, in batches of `chunk` samples.
fn counts(
    backend: impl Backend + 'static,
    faults: &Faults,
    case: &LayerCase,
    chunk: usize,
) -> Vec<u64> {
    let options = PrepareOptions { method: case.method, ..PrepareOptions::default() };
    let backend = FaultBackend::wrap(Arc::new(backend), faults);
    let layer = backend.prepare(&case.spec, &case.weight_values().unwrap(), &options).unwrap();
    let batch = Batch::thresholds(&case.inputs, case.seed);
    let n = case.n_samples();
    let parts = (0..n).step_by(chunk).map(|start| {
        let part = batch.samples(&case.spec, start, n.min(start + chunk)).unwrap();
        layer.counts(&part, Cancel::NEVER).unwrap()
    });
    parts.flatten().collect()
}

fn check(faults: &Faults, case: &LayerCase) {
    let expected =
        plain::counts(&case.spec, faults, &case.weights, &case.inputs, case.seed).unwrap();
    for chunk in [case.n_samples(), 1] {
        let found = counts(CpuBackend::CURRENT, faults, case, chunk);
        assert_eq!(found, expected, "{faults} in chunks of {chunk}: {case:?}");
        let found = counts(Recorder(None), faults, case, chunk);
        assert_eq!(found, expected, "{faults} by differences in chunks of {chunk}: {case:?}");
    }
}

/// Generates one or several faults of sites that layers have.
fn any_faults() -> impl Strategy<Value = Faults> {
    let kind = prop_oneof![
        2 => Just(FaultKind::Transient),
        2 => Just(FaultKind::Permanent),
        1 => (1u32..100).prop_map(|cycles| FaultKind::Burst { cycles }),
    ];
    let rate = prop_oneof![Just(0.5), Just(1.0 / 32.0), 0.001..0.5f64, 0.001..0.03f64, Just(1e-9)];
    let sites: Vec<FaultSite> =
        FaultSite::ALL.into_iter().filter(|site| *site != FaultSite::Accumulators).collect();
    let fault = (prop::sample::select(sites), kind, rate).prop_map(|(site, kind, rate)| {
        let rate = FaultRate::new(rate).unwrap();
        let kind = if Fault::new(site, kind, rate).is_ok() { kind } else { site.default_kind() };
        Fault::new(site, kind, rate).unwrap()
    });
    (any::<u64>(), prop::collection::vec(fault, 1..4))
        .prop_filter_map("two faults of one site and kind", |(seed, faults)| {
            Faults::new(seed, faults).ok()
        })
}

/// Returns whether the generators of a layer have states if they have faults.
fn has_sites(spec: &LayerSpec, faults: &Faults) -> bool {
    !faults.has(FaultSite::Generators) || check_generators(spec).is_ok()
}

const SIZES: Sizes = Sizes { inputs: 9, neurons: 7, channels: 3, groups: 3, samples: 4 };

fn small_layer() -> impl Strategy<Value = LayerCase> {
    layer(SIZES).prop_filter("a layer that takes too long bit by bit", |case| {
        case.spec.topology().n_products() * case.spec.length().bits() * case.n_samples() < 40_000
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn faulty_layers_match_reference(faults in any_faults(), case in small_layer()) {
        prop_assume!(has_sites(&case.spec, &faults));
        check(&faults, &case);
    }

    #[test]
    fn shard_of_a_faulty_layer_matches_whole(
        faults in any_faults(),
        case in small_layer(),
        cut in any::<prop::sample::Index>(),
    ) {
        let spec = &case.spec;
        prop_assume!(has_sites(spec, &faults));
        let (rows, per_row, m) = (spec.n_rows(), spec.neurons_per_row(), spec.n_neurons());
        let neurons = cut.index(rows) * per_row..m;
        // Counters are as wide as the greatest count of their own layer, which may be greater in
        // the whole.
        let part = spec.neurons(neurons.clone()).unwrap();
        prop_assume!(part.max_count() == spec.max_count());
        let weights = case.weight_values().unwrap().neurons(spec, neurons.clone());
        let weights = part.weight_thresholds(&weights).unwrap();
        let whole = counts(CpuBackend::CURRENT, &faults, &case, 8);
        let expected: Vec<u64> = whole.chunks(m).flat_map(|counts| &counts[neurons.clone()]).copied().collect();
        let case = LayerCase { spec: part, weights, ..case };
        prop_assert_eq!(counts(CpuBackend::CURRENT, &faults, &case, 8), expected);
    }
}

/// Every site and kind of the known answers, on every tier, and on one, two and three threads.
#[test]
fn faulty_layers_have_the_known_counts_on_every_tier() {
    let before = get_num_threads().unwrap();
    let pool = Arc::new(Pool::eager(2).unwrap());
    for threads in [1, 2, 3] {
        set_num_threads(threads).unwrap();
        for (faults, answer) in golden::fault_layers().unwrap() {
            for tier in Tier::available() {
                let backend = CpuBackend::new(Cpu::new(tier, Arc::clone(&pool)));
                let found = counts(backend, &faults, &answer.case, 1);
                assert_eq!(found, answer.counts, "{tier}, {threads} threads: {faults}");
            }
        }
    }
    set_num_threads(before).unwrap();
}

/// Returns the flips of counts that are 0 without faults: weights are streams of zeros, so that
/// each flipped product or input bit adds one.
fn flips(fault: &str, inputs: f64, weights: f64, seed: u64) -> (u64, u64) {
    let length = Length::new(1000).unwrap();
    let spec = LayerSpec::dense(50, 4, length, Polarity::Unipolar, Encoding::Bernoulli { seed: 1 })
        .unwrap();
    let weights = Weights::new(&spec, vec![weights; 200]).unwrap();
    let faults = Faults::new(seed, vec![fault.parse().unwrap()]).unwrap();
    let backend = FaultBackend::wrap(Arc::new(CpuBackend::CURRENT), &faults);
    let layer = backend.prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
    let values = vec![inputs; 50 * 20];
    let counts = layer.counts(&Batch::values(&values, SampleSeed::new(3)), Cancel::NEVER).unwrap();
    (counts.iter().sum(), 20 * 4 * 50 * 1000)
}

/// The flips of n bits at rate p are binomial: their mean is n p and their variance n p (1 - p), so
/// that |z| exceeds 4.5 once in 147,000 seeds; the seeds are fixed. Each flip of an input meets
/// four neurons, so that the bits drawn are a quarter and each counts four.
#[test]
fn number_of_flips_is_within_its_binomial_interval() {
    for (fault, inputs, weights, per_flip) in [
        ("products:transient", 0.0, 0.0, 1.0),
        ("weights:transient", 1.0, 0.0, 1.0),
        ("inputs:transient", 0.0, 1.0, 4.0),
    ] {
        for (rate, seed) in
            [("1e-6", 1), ("1e-4", 2), ("1e-3", 3), ("0.03", 4), ("0.3", 5), ("0.5", 6)]
        {
            let p: f64 = rate.parse().unwrap();
            let (found, bits) = flips(&format!("{fault}:{rate}"), inputs, weights, seed);
            let (found, n) = (found as f64 / per_flip, bits as f64 / per_flip);
            let z = (found - n * p) / (n * p * (1.0 - p)).sqrt();
            assert!(z.abs() < 4.5, "{fault}:{rate}: {found} flips of {n} bits, z = {z}");
            assert!(found > 0.0 || rate == "1e-6", "{fault}:{rate}");
        }
    }
}

/// Permanent flips of few words take a separate path.
#[test]
fn few_permanent_flips_match_reference() {
    let (mut seen, length) = (0, Length::new(300).unwrap());
    for polarity in Polarity::ALL {
        let spec =
            LayerSpec::dense(6, 3, length, polarity, Encoding::Bernoulli { seed: 4 }).unwrap();
        let [weights, inputs] = [18, 12].map(|n| thresholds(n, polarity));
        let method = CountMethod::Best;
        let case = LayerCase { spec, weights, inputs, seed: SampleSeed::new(5), method };
        for seed in 0..6 {
            let faults =
                Faults::new(seed, vec!["weights:permanent:1e-3".parse().unwrap()]).unwrap();
            check(&faults, &case);
            let without = counts(CpuBackend::CURRENT, &Faults::default(), &case, 2);
            seen += usize::from(without != counts(CpuBackend::CURRENT, &faults, &case, 2));
        }
    }
    assert!(seen > 9, "{seen} of 18 differ");
}

/// Returns thresholds of all sizes, every third one negative if the layer is signed.
fn thresholds(n: usize, polarity: Polarity) -> Vec<u64> {
    let sign =
        |k: u64| if polarity == Polarity::Signed && k.is_multiple_of(3) { 1 << 63 } else { 0 };
    (0..n as u64).map(|k| (k * 700_000_001) % (1 << 32) | sign(k)).collect()
}

/// Masks are drawn for several rows at a time, of weights and of products, and these layers have
/// more of them.
#[test]
fn layers_of_several_chunks_of_rows_match_reference() {
    let (length, encoding) = (Length::new(8150).unwrap(), Encoding::Bernoulli { seed: 4 });
    let image = Convolution::conv2d([2, 5, 5], 3, [2, 2]);
    let connections = Connections::from_rows((0..14).map(|j| [j % 3, 5 + j]), 20).unwrap();
    let dense = LayerSpec::dense(20, 14, length, Polarity::Signed, encoding);
    let sparse = LayerSpec::sparse(connections, length, Polarity::Bipolar, encoding);
    let conv = LayerSpec::conv(image, length, Polarity::Signed, encoding);
    for (spec, samples) in [(dense, 1), (sparse, 2), (conv, 1)] {
        let spec = spec.unwrap();
        let weights = thresholds(spec.n_weights(), spec.polarity());
        let inputs = thresholds(spec.n_inputs() * samples, spec.polarity());
        let (seed, method) = (SampleSeed::new(5).starting_at(2), CountMethod::Best);
        let case = LayerCase { spec, weights, inputs, seed, method };
        for faults in [
            &["weights:1e-3"][..],
            &["weights:1e-3", "products:1e-3", "weights:permanent:1e-3"],
            &["products:0.1"],
        ] {
            let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
            check(&Faults::new(9, faults).unwrap(), &case);
        }
    }
}

#[test]
fn weights_are_given_as_streams_only_if_a_bit_of_them_flips() {
    let length = Length::new(64).unwrap();
    let spec = LayerSpec::dense(4, 2, length, Polarity::Unipolar, Encoding::Bernoulli { seed: 1 })
        .unwrap();
    let weights = Weights::new(&spec, vec![0.5; 8]).unwrap();
    for (fault, expected) in
        [("weights:permanent:1e-9", 0), ("weights:permanent:0.1", 1), ("weights:0.1", 0)]
    {
        let backend = Arc::new(Recorder(Some(AtomicUsize::new(0))));
        let faults = Faults::new(1, vec![fault.parse().unwrap()]).unwrap();
        let faulty = FaultBackend::wrap(Arc::clone(&backend) as Arc<dyn Backend>, &faults);
        faulty.prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
        let layers = backend.0.as_ref().map(|layers| layers.load(Ordering::Relaxed));
        assert_eq!(layers, Some(expected), "{fault}");
        let cancelled = || true;
        let options =
            PrepareOptions { cancel: Cancel::when(&cancelled), ..PrepareOptions::default() };
        let error = faulty.prepare(&spec, &weights, &options).unwrap_err();
        assert_eq!(error, aleatron_core::Error::Cancelled, "{fault}");
    }
}

/// Streams of so many bits that the samples of a batch are encoded in two chunks.
#[test]
fn chunked_batch_has_the_faults_of_the_whole() {
    let length = Length::new(1 << 19).unwrap();
    let encoding = Encoding::Bernoulli { seed: 4 };
    let spec = LayerSpec::dense(16, 1, length, Polarity::Unipolar, encoding).unwrap();
    let (weights, inputs) = (vec![1 << 31; 16], vec![1 << 30; 16 * 10]);
    let (seed, method) = (SampleSeed::new(5).starting_at(7), CountMethod::Best);
    let case = LayerCase { spec, weights, inputs, seed, method };
    let faults = ["inputs:1e-3", "counters:0.1"].map(|fault| fault.parse().unwrap());
    let faults = Faults::new(3, faults.to_vec()).unwrap();
    let whole = counts(CpuBackend::CURRENT, &faults, &case, 10);
    assert_eq!(whole, counts(CpuBackend::CURRENT, &faults, &case, 3));
}

#[test]
fn rate_of_zero_returns_the_backend_itself() {
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::CURRENT);
    let faults =
        Faults::new(1, vec!["inputs:0".parse().unwrap(), "counters:0".parse().unwrap()]).unwrap();
    assert!(Arc::ptr_eq(&FaultBackend::wrap(Arc::clone(&backend), &faults), &backend));
}

#[test]
fn tables_of_faulty_streams_are_errors() {
    let (_, answer) = golden::fault_layers().unwrap().swap_remove(15);
    let faults = Faults::new(1, vec!["inputs:0.1".parse().unwrap()]).unwrap();
    let backend = FaultBackend::wrap(Arc::new(CpuBackend::CURRENT), &faults);
    let options = PrepareOptions { method: CountMethod::Tables, ..PrepareOptions::default() };
    let case = &answer.case;
    let error = backend.prepare(&case.spec, &case.weight_values().unwrap(), &options).unwrap_err();
    assert!(error.to_string().contains("count tables of streams with faults"), "{error}");
}

fn digits(n: usize) -> Vec<f64> {
    aleatron_data::Dataset::digits_test().features()[..64 * n].to_vec()
}

fn streams(arithmetic: Arithmetic, faults: &[&str]) -> StreamConfig {
    let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let config = StreamConfig::new(32).generator("sobol".parse().unwrap()).seed(5);
    config.arithmetic(arithmetic).faults(faults)
}

/// Runs a network step by step on reference counts and accumulators with faults.
fn plain_scores(
    network: &Network,
    config: &StreamConfig,
    features: &[f64],
    first: u32,
) -> Vec<f64> {
    let faults = Faults::new(config.seed, config.faults.clone()).unwrap();
    let layers = network.program_layers(config).unwrap();
    let streams =
        network.to_streams(&StreamConfig { faults: Vec::new(), ..config.clone() }).unwrap();
    let integers = streams.integer_layers().unwrap();
    let mut scores = Vec::new();
    for (k, sample) in features.chunks(network.n_features()).enumerate() {
        let seed = SampleSeed::new(config.seed).starting_at(first).advanced(k).unwrap();
        // In integers throughout: the first comparators have the width of the sequences.
        let mut values: Vec<i64> = Vec::new();
        for ((_, layer), integer) in layers.iter().zip(&integers) {
            let spec = &layer.spec;
            let inputs = match values.is_empty() {
                true => {
                    let gain = spec.integer_bits().map_or(1.0, IntegerBits::gain);
                    let scale = network.layers()[integer.layer].input_scale * gain;
                    spec.input_thresholds(&sample.iter().map(|x| x / scale).collect::<Vec<_>>())
                        .unwrap()
                }
                false => {
                    let [requantizer] = integer.requantizers[..] else { panic!("one requantizer") };
                    values.iter().map(|&value| reference::requantize(&requantizer, value)).collect()
                }
            };
            let weights = spec.weight_thresholds(&layer.weights).unwrap();
            let counts = plain::counts(spec, &faults, &weights, &inputs, seed).unwrap();
            let sums = counts.iter().enumerate().map(|(neuron, &count)| {
                plain::accumulate(
                    &integer.accumulator,
                    spec,
                    &faults,
                    seed.first_sample,
                    neuron,
                    count,
                )
                .unwrap()
            });
            values = sums.collect();
        }
        let units = &integers.last().unwrap().units;
        scores.extend(values.iter().zip(units).map(|(&value, unit)| value as f64 * unit));
    }
    scores
}

#[test]
fn faulty_networks_match_reference() {
    for polarity in [Polarity::Bipolar, Polarity::Signed] {
        let weights: Vec<f64> = features(45, 8);
        let network = NetworkBuilder::new("n", &[6])
            .dense("a", 6, &weights[..30], &[0.25, 0.0, -0.5, 0.125, 0.0])
            .polarity(polarity)
            .weight_scale(1.0)
            .activation(Activation::Relu)
            .dense("b", 5, &weights[30..], &[0.5, 0.0, 0.0])
            .polarity(polarity)
            .weight_scale(1.0)
            .input_scale(3.0)
            .build()
            .unwrap();
        let features = features(6 * 3, 9);
        let scores = |config: &StreamConfig, samples: &[f64], first: u32| {
            network.to_streams(config).unwrap().forward(samples, first).unwrap()
        };
        let without = scores(&streams(Arithmetic::Integer, &[]), &features, 3);
        for faults in [
            &[][..],
            &["inputs:0.05"],
            &["weights:permanent:0.05", "counters:0.05"],
            &["memory:0.05"],
            &["stuck-at-0:0.1", "stuck-at-1:0.1"],
            &["generators:0.3"],
            &["activations:0.05"],
            &["activations:permanent:0.05", "activations:transient:0.01", "stuck-at-0:0.1"],
            &["accumulators:0.05"],
            &["accumulators:permanent:0.05", "products:burst=3:0.02"],
        ] {
            let config = streams(Arithmetic::Integer, faults);
            let expected = plain_scores(&network, &config, &features, 3);
            assert_eq!(scores(&config, &features, 3), expected, "{polarity} {faults:?}");
            assert_eq!(expected == without, faults.is_empty(), "{polarity} {faults:?}");
            // The faults of samples do not depend on the batch.
            assert_eq!(scores(&config, &features[6..], 4), expected[3..], "{polarity} {faults:?}");
        }
        let integers = |faults: &[&str]| {
            let config = streams(Arithmetic::Integer, faults).generator("int6".parse().unwrap());
            let found = scores(&config, &features, 3);
            assert_eq!(
                found,
                plain_scores(&network, &config, &features, 3),
                "{polarity} {faults:?}"
            );
            assert_eq!(scores(&config, &features[6..], 4), found[3..], "{polarity} {faults:?}");
            found
        };
        let without = integers(&[]);
        for faults in [
            &["memory:0.05"][..],
            &["activations:0.05"],
            &["activations:permanent:0.05", "counters:0.05"],
            &["accumulators:0.05"],
        ] {
            assert_ne!(integers(faults), without, "{polarity} {faults:?}");
        }
    }
}

#[test]
fn faults_of_some_layers_do_not_affect_others() {
    let (network, features) = (Network::digits_noise_aware().unwrap(), digits(4));
    let outputs = |config: &StreamConfig| {
        let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
        network.to_streams(config).unwrap().run(&features, 0, detail, Cancel::NEVER).unwrap().layers
    };
    for arithmetic in [Arithmetic::Float, Arithmetic::Integer] {
        let without = outputs(&streams(arithmetic, &[]));
        for faults in ["inputs:0.05", "memory:0.05", "counters:0.05", "accumulators:0.05"] {
            if faults.starts_with("accumulators") && arithmetic == Arithmetic::Float {
                continue;
            }
            let names: Vec<String> =
                network.layers().iter().map(|layer| layer.name.clone()).collect();
            let last = outputs(&streams(arithmetic, &[faults]).fault_layer(&names[1]));
            assert_eq!(last[0], without[0], "{faults}");
            assert_ne!(last[1], without[1], "{faults}");
            let first = outputs(&streams(arithmetic, &[faults]).fault_layer(&names[0]));
            assert_ne!(first[0], without[0], "{faults}");
        }
    }
}

#[test]
fn unsupported_faults_of_a_network_are_errors() {
    let network = Network::digits_noise_aware().unwrap();
    let error = |config: &StreamConfig| network.check_config(config).unwrap_err().to_string();
    let text = error(&streams(Arithmetic::Float, &["accumulators:0.1"]));
    assert_eq!(
        text,
        "faults of accumulators: there are none in floating point; use integer arithmetic"
    );
    let text = error(&streams(Arithmetic::Float, &["inputs:0.1", "inputs:0.2"]));
    assert!(text.contains("give one rate"), "{text}");
    for site in ["inputs", "weights", "products", "stuck-at-0", "generators"] {
        let fault = format!("{site}:0.1");
        let config = streams(Arithmetic::Float, &[&fault]).generator("int8".parse().unwrap());
        let expected = format!(
            "faults of {site}: a layer of int8 has no streams; use memory, activations, counters or accumulators"
        );
        assert!(error(&config).contains(&expected), "{}", error(&config));
    }
    let halton = |faults| streams(Arithmetic::Float, faults).generator("halton".parse().unwrap());
    for (config, part) in [
        (halton(&["generators:0.1"]), "halton sequences have no state"),
        (
            halton(&["generators:0.1"]).generator("bernoulli".parse().unwrap()),
            "bernoulli streams have no state",
        ),
    ] {
        let text = error(&config);
        assert!(text.contains(part) && text.contains("use lfsr, sobol or ramp"), "{text}");
    }
    let text = error(&streams(Arithmetic::Float, &["inputs:0.1"]).fault_layer("none"));
    assert!(text.contains("none"), "{text}");
}
