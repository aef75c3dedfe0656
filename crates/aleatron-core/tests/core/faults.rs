//! Faults: known answers, single flips, rates, and invalid combinations.

use aleatron_core::arithmetic::{Accumulator, IntegerActivation};
use aleatron_core::fault::{
    Fault, FaultKind, FaultMask, FaultRate, FaultSite, Faults, FlipBlocks, Operand, StoredOperand,
    counter_width, flip_accumulator, plain,
};
use aleatron_core::generator::{GeneratorName, Sharing};
use aleatron_core::golden::{self, FAULTS_TEXT};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    Encoding, LayerIndex, LayerSpec, Length, Polarity, SampleSeed, Threshold, Width, reference,
};

/// Returns the lines of one kind: the fields of each question, and the answer.
fn lines(kind: &str) -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let lines = FAULTS_TEXT.lines().filter(move |line| line.split(' ').next() == Some(kind));
    lines
        .map(|line| line.split_once(" = ").unwrap())
        .map(|(question, answer)| (question.split(' ').collect(), answer))
}

fn faults(seed: u64, text: &str) -> Faults {
    Faults::new(seed, text.split(',').map(|fault| fault.parse().unwrap()).collect()).unwrap()
}

fn only_mask(faults: &Faults, layer: usize) -> FaultMask {
    let [fault] = faults.faults() else { panic!("one fault") };
    faults.at(fault.site(), LayerIndex::new(layer).unwrap()).next().unwrap()
}

#[test]
fn masks_have_the_known_words() {
    let mut seen = 0;
    for (fields, answer) in lines("mask") {
        let n = |k: usize| fields[k].parse::<u64>().unwrap();
        let own = only_mask(&faults(n(3), fields[1]), n(8) as usize);
        let operand = if n(4) == 0 { Operand::Inputs } else { Operand::Weights };
        let length = Length::new(n(2) as usize).unwrap();
        let mask = plain::mask(&own, length, operand, n(5) as u32, n(6) as u32, n(7) as u32);
        let words: Vec<String> = mask.words().iter().map(|word| format!("{word:016x}")).collect();
        assert_eq!(words.join(" "), answer, "{fields:?}");
        seen += 1;
    }
    assert_eq!(seen, 26);
}

#[test]
fn faulty_layers_have_the_known_counts() {
    let layers = golden::fault_layers().unwrap();
    assert_eq!(layers.len(), 136);
    for site in FaultSite::ALL.into_iter().filter(|site| *site != FaultSite::Accumulators) {
        assert!(layers.iter().any(|(faults, _)| faults.has(site)), "{site}");
    }
    for (faults, answer) in layers {
        let case = &answer.case;
        let counts =
            plain::counts(&case.spec, &faults, &case.weights, &case.inputs, case.seed).unwrap();
        assert_eq!(counts, answer.counts, "{faults} {:?}", case.spec);
    }
}

#[test]
fn faulty_accumulators_have_the_known_values() {
    let mut seen = 0;
    for (fields, answer) in lines("accumulate") {
        let n = |k: usize| fields[k].parse::<i64>().unwrap();
        let own = faults(n(2) as u64, fields[1]);
        let length = Length::new(n(4) as usize).unwrap();
        let encoding = Encoding::Bernoulli { seed: 0 };
        let spec =
            LayerSpec::dense(n(3) as usize, 6, length, Polarity::Unipolar, encoding).unwrap();
        let spec = spec.at(LayerIndex::new(n(9) as usize).unwrap());
        let accumulator =
            Accumulator::new(n(5) as u32, vec![n(6); 6], IntegerActivation::Relu).unwrap();
        let (sample, neuron, count) = (n(7) as u32, n(8) as usize, n(10) as u64);
        let value = plain::accumulate(&accumulator, &spec, &own, sample, neuron, count).unwrap();
        assert_eq!(value.to_string(), answer, "{fields:?}");
        seen += 1;
    }
    assert_eq!(seen, 18);
}

/// A mask with one flip changes only the product bit at its position, by the weight of that bit.
#[test]
fn single_flip_changes_the_predicted_count() {
    let length = Length::new(64).unwrap();
    let spec = LayerSpec::dense(3, 2, length, Polarity::Unipolar, Encoding::Bernoulli { seed: 5 })
        .unwrap();
    let (weights, inputs, seed) = (vec![3 << 30; 6], vec![3 << 30; 3], SampleSeed::new(6));
    let without = plain::counts(&spec, &Faults::default(), &weights, &inputs, seed).unwrap();
    let [w, x] = [
        reference::weight_streams(&spec, &weights),
        reference::input_streams(&spec, &inputs, seed),
    ];
    let mut directions = [0; 2];
    for fault_seed in 0..400 {
        let faults = faults(fault_seed, "products:transient:1e-3");
        let own = only_mask(&faults, 0);
        let mut flips = Vec::new();
        for (neuron, input) in (0..2).flat_map(|j| (0..3).map(move |i| (j, i))) {
            let mask = plain::mask(&own, length, Operand::Inputs, 0, neuron, input);
            flips
                .extend((0..64).filter(|&k| mask.get(k) == Some(true)).map(|k| (neuron, input, k)));
        }
        let [(neuron, input, k)] = flips[..] else { continue };
        let [neuron, input] = [neuron as usize, input as usize];
        let product = w.stream(3 * neuron + input).unwrap().get(k).unwrap()
            && x.stream(input).unwrap().get(k).unwrap();
        let mut expected = without.clone();
        if product {
            expected[neuron] -= 1;
        } else {
            expected[neuron] += 1;
        }
        directions[usize::from(product)] += 1;
        assert_eq!(
            plain::counts(&spec, &faults, &weights, &inputs, seed).unwrap(),
            expected,
            "{fault_seed}"
        );
    }
    assert!(directions.iter().all(|&n| n > 10), "{directions:?}");
}

#[test]
fn rates_are_exact_at_powers_of_two_and_close_elsewhere() {
    let probability = |rate: f64| {
        let [coarse, fine] = FaultRate::new(rate).unwrap().thresholds().map(Threshold::get);
        coarse as f64 * fine as f64 / 2f64.powi(64)
    };
    assert_eq!(probability(0.0), 0.0);
    for e in 1..30 {
        assert_eq!(probability(2f64.powi(-e)), 2f64.powi(-e));
    }
    for rate in [1e-9, 1.5e-9, 1e-6, 1e-3, 0.1, 0.25f64.next_up(), 0.49999, 0.5f64.next_down()] {
        assert!((probability(rate) / rate - 1.0).abs() <= 2f64.powi(-32), "{rate}");
    }
}

/// A bit flips unless all hits of its block are elsewhere: 1 - E[(1 - 1/B)^N], in f64, whose sums
/// of 45 terms of at most 1 are exact to 45 x 2^-53, and the rate is at least 4 / B.
#[test]
fn blocks_have_the_rate() {
    for rate in [1e-9, 1.5e-9, 1e-6, 1e-3, 0.01, 2f64.powi(-20), 0.03, 1.0 / 32.0] {
        let blocks = FlipBlocks::new(FaultRate::new(rate).unwrap()).unwrap();
        let bits = 2f64.powi(blocks.log2_bits() as i32);
        assert!(4.0 < rate * bits && rate * bits <= 8.0, "{rate}");
        let ends = blocks.thresholds().iter().map(|&t| t as f64 / 2f64.powi(64)).chain([1.0]);
        let (mut flips, mut below) = (0.0, 0.0);
        for (n, end) in (0..).zip(ends) {
            // 1 - (1 - 1/B)^n without cancellation.
            flips += (end - below) * -(f64::from(n) * (-1.0 / bits).ln_1p()).exp_m1();
            below = end;
        }
        assert!((flips / rate - 1.0).abs() <= 45.0 * 2f64.powi(-50), "{rate}: {}", flips / rate);
    }
    for rate in [0.0, (1.0f64 / 32.0).next_up(), 0.5] {
        assert_eq!(FlipBlocks::new(FaultRate::new(rate).unwrap()), None);
    }
}

/// Masks of low rates: n p flips of n bits, within 5 standard deviations sqrt(n p (1 - p)), and
/// n p^2 pairs of flips at a distance, within 5 of about sqrt(n p^2), where these pairs are more
/// than a hundred.
#[test]
fn bits_of_blocks_flip_independently() {
    let (bits, units) = (1000, 400);
    let length = Length::new(bits).unwrap();
    for rate in ["0.03125", "2e-2", "1e-2", "1e-3"] {
        let own = only_mask(&faults(3, &format!("inputs:transient:{rate}")), 0);
        let masks = (0..units).map(|unit| plain::mask(&own, length, Operand::Inputs, 5, 0, unit));
        let flips: Vec<bool> = masks.flat_map(|mask| mask.to_bits()).map(|bit| bit == 1).collect();
        let (p, n) = (rate.parse::<f64>().unwrap(), flips.len() as f64);
        let found = flips.iter().filter(|flip| **flip).count() as f64;
        assert!((found - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt(), "{rate}: {found}");
        for distance in [1, 2, 7, 64, 256, 1000] {
            let pairs = flips.iter().zip(&flips[distance..]).filter(|(a, b)| **a && **b).count();
            let expected = n * p * p;
            if expected > 100.0 {
                let distance_of = (pairs as f64 - expected).abs();
                assert!(distance_of < 5.0 * expected.sqrt(), "{rate} {distance}: {pairs}");
            }
        }
    }
}

#[test]
fn invalid_rates_and_faults_are_errors_with_a_remedy() {
    for rate in [f64::NAN, -0.1, 0.5f64.next_up(), 1e-9f64.next_down(), f64::INFINITY, -1e-300] {
        let error = FaultRate::new(rate).unwrap_err().to_string();
        assert!(error.contains("use 0 or a number from 1e-9 to 0.5"), "{error}");
        assert!(error.contains(&rate.to_string()), "{error}");
    }
    assert!(FaultRate::new(-0.0).unwrap().is_zero());
    for (text, part) in [
        ("memory:transient:0.1", "use permanent"),
        ("stuck-at-0:burst=3:0.1", "use permanent"),
        ("counters:burst=3:0.1", "use transient or permanent"),
        ("activations:burst=3:0.1", "use transient or permanent"),
        ("accumulators:burst=3:0.1", "use transient or permanent"),
        ("inputs:burst=0:0.1", "at least 1"),
        ("inputs:burst=1048577:0.1", "1048576"),
        ("inputs:burst:0.1", "burst=CYCLES"),
        ("inputs:sometimes:0.1", "transient, permanent or burst=CYCLES"),
        ("input:0.1", "inputs, weights, products"),
        ("inputs:lots", "\"lots\""),
        ("inputs", "SITE:RATE"),
    ] {
        let error = text.parse::<Fault>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let both = ["inputs:burst=3:0.1", "inputs:burst=4:0.1"].map(|text| text.parse().unwrap());
    let error = Faults::new(0, both.to_vec()).unwrap_err().to_string();
    assert!(error.contains("inputs:burst=4:0.1") && error.contains("give one rate"), "{error}");
}

#[test]
fn faults_survive_a_round_trip_as_text() {
    for site in FaultSite::ALL {
        for kind in [FaultKind::Transient, FaultKind::Permanent, FaultKind::Burst { cycles: 17 }] {
            for rate in [0.0, 1e-9, 1.0 / 3.0, 0.01, 1e-3, 0.5] {
                let Ok(fault) = Fault::new(site, kind, FaultRate::new(rate).unwrap()) else {
                    continue;
                };
                assert_eq!(fault.to_string().parse(), Ok(fault));
            }
        }
        assert!(Fault::new(site, site.default_kind(), FaultRate::ZERO).is_ok(), "{site}");
    }
}

#[test]
fn widths_and_flips_match_the_circuit() {
    let spec = |n, bits, polarity| {
        let length = Length::new(bits).unwrap();
        LayerSpec::dense(n, 1, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap()
    };
    // Counts of 0..=64, 0..=63 and 0..=128.
    assert_eq!(counter_width(&spec(1, 64, Polarity::Unipolar)), Ok(7));
    assert_eq!(counter_width(&spec(1, 63, Polarity::Bipolar)), Ok(6));
    assert_eq!(counter_width(&spec(1, 64, Polarity::Signed)), Ok(8));
    let stored = |generator: &str, polarity| {
        let generator: GeneratorName = generator.parse().unwrap();
        let length =
            generator.integer_bits().map_or(Length::new(64), |bits| bits.length()).unwrap();
        let encoding = generator.encoding(0, Width::EIGHT, Sharing::OneForAll).unwrap();
        StoredOperand::weights(&LayerSpec::dense(1, 1, length, polarity, encoding).unwrap())
    };
    let bits =
        [Polarity::Bipolar, Polarity::Signed].map(|polarity| stored("sobol", polarity).n_bits());
    assert_eq!(bits, [9, 10]);
    let flip = |threshold, mask| stored("sobol", Polarity::Signed).flip(threshold, mask);
    assert_eq!(flip(5, 0b110), 3);
    assert_eq!(flip(5, 1 << 8), 256);
    assert_eq!(flip(256, 1 << 8), 0);
    assert_eq!(flip(5, 1 << 9), 5 | NEGATIVE);
    assert_eq!(flip(5 | NEGATIVE, 1 << 9 | 1), 4);
    // An integer of 8 bits has a magnitude of 7, and the sign above it.
    let integer = stored("int8", Polarity::Signed);
    assert_eq!(integer.n_bits(), 8);
    assert_eq!(
        [integer.flip(5, 0b110), integer.flip(0, 1 << 6), integer.flip(127, 1 << 6)],
        [3, 64, 63]
    );
    assert_eq!(
        [integer.flip(5, 1 << 7), integer.flip(5 | NEGATIVE, 1 << 7 | 1)],
        [5 | NEGATIVE, 4]
    );
    assert_eq!(integer.flip(128, 1), 126);
    assert_eq!([flip_accumulator(3, 0b1000, 4), flip_accumulator(-1, 0b1000, 4)], [-5, 7]);
    assert_eq!(flip_accumulator(-1, 0b10, 63), -3);
}
