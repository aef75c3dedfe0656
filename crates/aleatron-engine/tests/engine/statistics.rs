//! The statistics of streams and layers against those of independent coin tosses.
//!
//! Every check converts a measurement to a z-score: its distance from the expectation in standard
//! deviations, both derived from the binomial distribution where the check is made. For a perfect
//! source a score passes [`BOUND`] with probability 7e-6. About 200 scores are taken, so a perfect
//! source would fail this file with probability 0.0015; and since all seeds are fixed, the outcome
//! is fixed: a passing test passes until a bit changes.

use aleatron_core::{
    BitStream, Domain, LayerIndex, Length, Overlap, Polarity, StreamAddress, Threshold, gates,
    weights,
};
use aleatron_cpu::Cpu;
use aleatron_engine::StreamLayer;

/// The largest accepted deviation in standard deviations.
const BOUND: f64 = 4.5;

/// Number of bits of every single stream.
const BITS: usize = 100_000;

fn check(z: f64, what: impl std::fmt::Debug) {
    assert!(z.abs() < BOUND, "{z:.2} standard deviations off: {what:?}");
}

/// Returns the actual probability of a stream: that of its threshold.
fn probability(threshold: Threshold) -> f64 {
    threshold.get() as f64 / 4_294_967_296.0
}

fn encode(p: f64, bits: usize, address: StreamAddress) -> BitStream {
    let (threshold, length) = (Threshold::from_probability(p).unwrap(), Length::new(bits).unwrap());
    Cpu::current().unwrap().encode(&[threshold], length, address).unwrap().stream(0).unwrap()
}

/// The ones X of a stream of N bits are binomial: mean N q, variance N q (1 - q), and a fourth
/// central moment of variance^2 (3 + e) with the excess e = (1 - 6 q (1 - q)) / variance. Over M
/// streams, the sum of X has mean M N q and M times the variance; the sum of ((X - N q) /
/// deviation)^2 has mean M and variance M (2 + e).
#[test]
fn ones_have_binomial_mean_and_variance() {
    const STREAMS: usize = 256;
    let cpu = Cpu::current().unwrap();
    let length = Length::new(BITS).unwrap();
    let tiny = 1.0 / 65_536.0;
    for p in [
        0.5,
        0.25,
        1.0 / 3.0,
        0.1,
        0.731_058_578_630_004_9,
        0.999,
        0.001,
        tiny,
        0.7 * tiny,
        1.0 - tiny,
    ] {
        let threshold = Threshold::from_probability(p).unwrap();
        let (n, q) = (BITS as f64, probability(threshold));
        let variance = n * q * (1.0 - q);
        let excess = (1.0 - 6.0 * q * (1.0 - q)) / variance;
        for (seed, row) in [(0, 0), (44_257, 7)] {
            let address = StreamAddress::input(seed, 0, row);
            let streams = cpu.encode(&[threshold; STREAMS], length, address).unwrap();
            let off = |k| streams.stream(k).unwrap().ones() as f64 - n * q;
            let (mut sum, mut squares) = (0.0, 0.0);
            for off in (0..STREAMS).map(off) {
                sum += off;
                squares += off * off / variance;
            }
            let m = STREAMS as f64;
            check(sum / (m * variance).sqrt(), ("mean", p, seed));
            check((squares - m) / (m * (2.0 + excess)).sqrt(), ("variance", p, seed));
        }
    }
}

/// Returns the z-score of the covariance of two streams with known probabilities: the sum over bits
/// of (a - p)(b - q), which is ones(a AND b) - q ones(a) - p ones(b) + N p q, has for independent
/// streams mean 0 and variance N p (1-p) q (1-q).
fn covariance(a: &BitStream, b: &BitStream, p: f64, q: f64) -> f64 {
    let n = a.length().bits() as f64;
    let both = gates::and(a, b).unwrap().ones() as f64;
    let sum = both - q * a.ones() as f64 - p * b.ones() as f64 + n * p * q;
    sum / (n * p * (1.0 - p) * q * (1.0 - q)).sqrt()
}

/// Checks many covariances together: the sum of M squared z-scores has mean M and variance 2 M, so
/// that a correlation too weak to show in a single pair is found if all pairs have it.
fn check_together(scores: &[f64], what: &str) {
    let m = scores.len() as f64;
    let squares: f64 = scores.iter().map(|z| z * z).sum();
    check((squares - m) / (2.0 * m).sqrt(), what);
}

/// Returns addresses that differ from `a` in one component, and some that a wrong mapping to
/// counters would confuse with it.
fn neighbours(a: StreamAddress) -> Vec<(&'static str, StreamAddress)> {
    let layer = |n| LayerIndex::new(n).unwrap();
    let mut all = vec![
        ("seed", StreamAddress { seed: a.seed.wrapping_add(1), ..a }),
        ("high word of the seed", StreamAddress { seed: a.seed.wrapping_add(1 << 32), ..a }),
        ("words of the seed swapped", StreamAddress { seed: a.seed.rotate_left(32) ^ 2, ..a }),
        ("unit", a.at_unit(a.unit + 1)),
        ("far unit", a.at_unit(a.unit + (1 << 16))),
        ("row", a.at_row(a.row + 1)),
        ("far row", a.at_row(a.row + (1 << 16))),
        ("unit and row swapped", a.at_unit(a.row).at_row(a.unit)),
        ("layer", a.in_layer(layer(1))),
        ("far layer", a.in_layer(layer(1 << 20))),
    ];
    all.extend(
        Domain::ALL
            .into_iter()
            .filter(|&domain| domain != a.domain)
            .map(|domain| ("domain", StreamAddress { domain, ..a })),
    );
    all
}

#[test]
fn streams_of_neighbouring_addresses_are_independent() {
    let mut scores = Vec::new();
    for seed in [0, 24_301, u64::MAX] {
        for (p, q) in [(0.5, 0.5), (0.1, 0.8)] {
            let address = StreamAddress::input(seed, 3, 5);
            let a = encode(p, BITS, address);
            for (what, neighbour) in neighbours(address) {
                let z = covariance(&a, &encode(q, BITS, neighbour), p, q);
                check(z, (what, seed, p, q));
                scores.push(z);
            }
        }
    }
    check_together(&scores, "all neighbours");
}

/// Near p = 1/2 the SCC of independent streams is 4 / N^2 times (ad - bc), whose deviation there is
/// N^(3/2) / 4: it has the deviation 1 / sqrt(N), up to the deviation of the numbers of ones, which
/// is less than one per cent.
#[test]
fn scc_of_neighbouring_addresses_vanishes() {
    let address = StreamAddress::weight(44_257, 8, 9);
    let a = encode(0.5, BITS, address);
    for (what, neighbour) in neighbours(address) {
        let scc = Overlap::of(&a, &encode(0.5, BITS, neighbour)).unwrap().scc();
        check(0.99 * scc * (BITS as f64).sqrt(), what);
    }
    assert_eq!(Overlap::of(&a, &a).unwrap().scc(), 1.0);
}

/// A stream against itself some bits later. The products (b_k - p)(b_(k+lag) - p) of independent
/// bits are uncorrelated, also where they share a bit, so the variance is that of two streams.
#[test]
fn bits_of_a_stream_are_independent() {
    let mut scores = Vec::new();
    for (p, seed) in [(0.5, 1), (0.5, 2), (0.2, 3), (0.97, 4)] {
        let bits = encode(p, BITS, StreamAddress::input(seed, 0, 0)).to_bits();
        for lag in [1, 2, 3, 4, 8, 16, 31, 32, 33, 63, 64, 65, 128, 256, 512, 1024, 4096] {
            let early = BitStream::from_bits(&bits[..BITS - lag]).unwrap();
            let late = BitStream::from_bits(&bits[lag..]).unwrap();
            let z = covariance(&early, &late, p, p);
            check(z, (p, seed, lag));
            scores.push(z);
        }
    }
    check_together(&scores, "all lags");
}

/// Streams that share an address but not a threshold share their uniform integers: the ones of the
/// smaller are a subset of the larger's, as in hardware that compares one number with two
/// thresholds.
#[test]
fn streams_of_one_address_share_their_random_numbers() {
    let address = StreamAddress::input(9, 1, 2);
    let (small, large) = (encode(0.3, BITS, address), encode(0.6, BITS, address));
    assert_eq!(gates::and(&small, &large).unwrap(), small);
    assert_eq!(Overlap::of(&small, &large).unwrap().scc(), 1.0);
}

/// The aggregated errors of many layers.
struct Errors {
    /// The root mean square error over that of independent streams.
    ratio: f64,
    /// Its standard error.
    deviation: f64,
    /// The z-score of the mean error.
    bias: f64,
}

/// Measures the errors of dense layers of 16 inputs, 32 neurons and 32 samples with uniformly
/// random weights and inputs.
///
/// The ones (or matches) of a product with probability q are binomial, so a neuron's value, which
/// adds n of them, has the variance sum q (1 - q) / L, or four times that for a bipolar layer,
/// whose values are twice as far apart; those of a signed layer have the q of their magnitudes.
/// Squared errors over these variances have mean 1. Neurons that share input streams and samples
/// that share weight streams have correlated errors, so each layer, with a seed of its own for
/// weights and inputs alike, yields one independent number: the mean over its neurons and samples.
/// The spread of these numbers gives the standard errors.
fn errors(polarity: Polarity, bits: usize, layers: u64) -> Errors {
    const INPUTS: usize = 16;
    const NEURONS: usize = 32;
    const SAMPLES: usize = 32;
    let (mut ratios, mut biases) = (Vec::new(), Vec::new());
    for seed in 0..layers {
        let layer = StreamLayer::dense(INPUTS, NEURONS).length(bits).polarity(polarity).seed(seed);
        let layer = layer.build().unwrap();
        let mut inputs = vec![0.0; INPUTS * SAMPLES];
        for (row, sample) in (0..).zip(inputs.chunks_mut(INPUTS)) {
            weights::fill_row(!seed, LayerIndex::ALONE, row, polarity, sample);
        }
        let values = layer.forward_batch(&inputs, seed).unwrap();
        let (mut squares, mut sum, mut variance) = (0.0, 0.0, 0.0);
        for (s, x) in inputs.chunks(INPUTS).enumerate() {
            for (j, w) in layer.weights().chunks(INPUTS).enumerate() {
                let products = w.iter().zip(x).map(|(w, x)| w * x);
                let error = values[s * NEURONS + j] - products.clone().sum::<f64>();
                squares += error * error;
                sum += error;
                let spread: f64 = products
                    .map(|v| match polarity {
                        Polarity::Unipolar => v * (1.0 - v),
                        Polarity::Signed => v.abs() * (1.0 - v.abs()),
                        Polarity::Bipolar => 1.0 - v * v, // 4 q (1 - q) with q = (1 + v) / 2
                    })
                    .sum();
                variance += spread / bits as f64;
            }
        }
        ratios.push(squares / variance);
        biases.push(sum);
    }
    let (mean, deviation) = mean_and_error(&ratios);
    let (bias, bias_deviation) = mean_and_error(&biases);
    // The relative error of a root is half that of the number.
    Errors { ratio: mean.sqrt(), deviation: deviation / 2.0, bias: bias / bias_deviation }
}

/// Returns the mean of independent numbers and its standard error.
fn mean_and_error(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// The error may be 2 % from the ideal, and enough layers are counted that this is [`BOUND`]
/// standard errors: a perfect source passes, and an imperfect one does not pass by chance.
#[test]
fn layer_errors_are_those_of_independent_streams() {
    for (polarity, layers) in
        [(Polarity::Unipolar, 300), (Polarity::Bipolar, 100), (Polarity::Signed, 300)]
    {
        let Errors { ratio, deviation, bias } = errors(polarity, 1024, layers);
        assert!(
            BOUND * deviation < 0.02,
            "{polarity:?}: a standard error of {deviation} is too large"
        );
        assert!((ratio - 1.0).abs() < 0.02, "{polarity:?}: {ratio} of the ideal error");
        check(bias, (polarity, "bias"));
    }
}

/// At 64 times the length the error is an eighth: only the length limits it. Thresholds of 8 bits,
/// for example, would round each factor by about 0.001, while a product has noise of 0.0015, and
/// increase this error by 18 %.
#[test]
fn layer_errors_fall_up_to_65536_bits() {
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let Errors { ratio, deviation, bias } = errors(polarity, 65_536, 60);
        assert!(
            BOUND * deviation < 0.05,
            "{polarity:?}: a standard error of {deviation} is too large"
        );
        check((ratio - 1.0) / deviation, (polarity, "error", ratio));
        check(bias, (polarity, "bias"));
    }
}
