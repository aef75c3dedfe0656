//! The shared generators, correlation and count tables against known answers and the reference.

use aleatron_core::generator::{
    CountTable, Digit, GeneratorName, Halton, IntegerBits, Lfsr, OperandSequences, Pairing,
    PrefixCounts, Ramp, Sequence, Sharing, Sobol, Warning, Width, WidthChoice,
};
use aleatron_core::{
    BitStream, Encoding, Error, InputSource, LayerSpec, Length, Overlap, Polarity, Quantity,
    SampleSeed, StreamMatrix, WeightSource, gates, reference,
};
use proptest::prelude::*;

const TEXT: &str = include_str!("../../golden/generators.kat");

/// Returns the fields of every line that starts with `kind`, before and after the equals sign.
fn answers(kind: &str) -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let lines = TEXT.lines().filter(|line| line.split(' ').next() == Some(kind));
    let split = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
    let answers: Vec<_> = lines
        .map(|line| line.split_once(" = ").unwrap())
        .map(|(question, answer)| (split(question)[1..].to_vec(), split(answer)))
        .collect();
    assert!(!answers.is_empty(), "no {kind} in the file");
    answers
}

fn numbers(fields: &[&str]) -> Vec<u64> {
    fields.iter().map(|field| field.parse().unwrap()).collect()
}

fn width(bits: u64) -> Width {
    Width::new(bits as u32).unwrap()
}

fn check(sequence: Sequence, first: u64, expected: &[u64]) {
    let values: Vec<u64> =
        sequence.values().skip(first as usize).take(expected.len()).map(u64::from).collect();
    assert_eq!(values, expected, "{sequence} from {first}");
}

#[test]
fn sobol_matches_known_answers() {
    for (question, answer) in answers("sobol") {
        let [dimension, bits, first] = numbers(&question)[..] else { panic!("{question:?}") };
        let sobol = Sobol::new(dimension as u32, width(bits)).unwrap();
        check(Sequence::Sobol(sobol), first, &numbers(&answer));
    }
}

#[test]
fn sobol_sum_of_all_dimensions_is_known() {
    let (question, answer) = answers("sobol-sum").remove(0);
    let [bits, points] = numbers(&question)[..] else { panic!("{question:?}") };
    let weighted = |dimension: u32| {
        let values = Sobol::new(dimension, width(bits)).unwrap().values().take(points as usize);
        values.map(u64::from).sum::<u64>().wrapping_mul(dimension.into())
    };
    let sum = (1..=Sobol::DIMENSIONS).map(weighted).fold(0, u64::wrapping_add);
    assert_eq!(vec![sum], numbers(&answer));
}

#[test]
fn sobol_dimensions_are_permutations() {
    for dimension in 1..=Sobol::DIMENSIONS {
        let mut seen = [false; 256];
        for u in Sobol::new(dimension, Width::EIGHT).unwrap().values().take(256) {
            assert!(
                !std::mem::replace(&mut seen[u as usize], true),
                "dimension {dimension} repeats {u}"
            );
        }
    }
}

#[test]
fn halton_matches_known_answers() {
    for (question, answer) in answers("halton") {
        let [base, bits, first] = numbers(&question)[..] else { panic!("{question:?}") };
        let halton = Halton::new(base as u32, width(bits)).unwrap();
        let values: Vec<u64> = (first..).take(answer.len()).map(|k| halton.at(k).into()).collect();
        assert_eq!(values, numbers(&answer), "{question:?}");
        if first < 1 << 20 {
            check(Sequence::Halton(halton), first, &numbers(&answer));
        }
    }
    assert_eq!(Halton::van_der_corput(Width::EIGHT), Halton::new(2, Width::EIGHT).unwrap());
}

#[test]
fn lfsr_matches_known_answers() {
    for (question, answer) in answers("lfsr") {
        let [bits, seed] = numbers(&[question[0], question[2]])[..] else { panic!("{question:?}") };
        let taps: Vec<u32> = question[1].split(',').map(|tap| tap.parse().unwrap()).collect();
        let lfsr = Lfsr::with_taps(width(bits), &taps, seed as u32).unwrap();
        assert_eq!(lfsr.taps().collect::<Vec<_>>(), taps);
        assert_eq!(lfsr, Lfsr::new(width(bits), seed as u32).unwrap(), "the table has other taps");
        check(Sequence::Lfsr(lfsr), 0, &numbers(&answer));
    }
}

#[test]
fn ramp_counts_and_wraps() {
    check(Sequence::Ramp(Ramp::new(width(2))), 0, &[0, 1, 2, 3, 0, 1]);
    check(Sequence::Ramp(Ramp::new(width(32))), 0, &[0, 1, 2]);
}

/// Returns the number of steps until the seed recurs.
fn period(lfsr: Lfsr) -> u64 {
    lfsr.values().skip(1).take_while(|&state| state != lfsr.seed()).count() as u64 + 1
}

#[test]
fn lfsr_cycles_are_maximal() {
    for bits in 3..=20 {
        assert_eq!(period(Lfsr::new(width(bits), 1).unwrap()), (1 << bits) - 1, "{bits} bits");
    }
    // For wider registers, the order of the step divides 2^W - 1 but no quotient of that by a
    // prime.
    for bits in 3..=32 {
        let (lfsr, cycle) = (Lfsr::new(width(bits), 1).unwrap(), (1_u64 << bits) - 1);
        assert_eq!(lfsr.advanced(cycle), lfsr, "{bits} bits");
        let mut rest = cycle;
        for p in (2..).take_while(|p| p * p <= cycle) {
            if rest % p == 0 {
                assert_ne!(lfsr.advanced(cycle / p), lfsr, "{bits} bits, factor {p}");
                while rest % p == 0 {
                    rest /= p;
                }
            }
        }
        assert!(
            rest == 1 || rest == cycle || lfsr.advanced(cycle / rest) != lfsr,
            "{bits} bits, factor {rest}"
        );
    }
}

#[test]
fn nth_yields_independent_sequences() {
    let sobol = Sequence::Sobol(Sobol::new(1, Width::EIGHT).unwrap());
    assert_eq!(sobol.nth(0).unwrap(), sobol);
    assert_eq!(sobol.nth(555).unwrap(), Sequence::Sobol(Sobol::new(1111, Width::EIGHT).unwrap()));
    let error = sobol.nth(556).unwrap_err();
    assert_eq!(
        error,
        Error::TooLarge { what: Quantity::SobolDimension, actual: 1113, limit: 1111 }
    );
    assert!(sobol.nth(usize::MAX).is_err());

    let halton = Sequence::Halton(Halton::new(2, Width::EIGHT).unwrap());
    let bases: Vec<u32> = (0..5)
        .map(|q| match halton.nth(q).unwrap() {
            Sequence::Halton(halton) => halton.base(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(bases, [2, 5, 11, 17, 23]);
    assert!(halton.nth(usize::MAX).is_err());

    assert!(Sequence::Ramp(Ramp::new(Width::EIGHT)).nth(1).is_err());

    let lfsr = Lfsr::new(Width::EIGHT, 1).unwrap();
    let seeds: std::collections::BTreeSet<u32> = (0..255)
        .map(|q| match Sequence::Lfsr(lfsr).nth(q).unwrap() {
            Sequence::Lfsr(lfsr) => lfsr.seed(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(seeds.len(), 255, "the golden section visits every state of eight bits");
}

#[test]
fn siblings_equal_nth_sequences() {
    let lfsr = |bits, taps: &[u32], seed| {
        Sequence::Lfsr(Lfsr::with_taps(width(bits), taps, seed).unwrap())
    };
    let firsts = [
        lfsr(8, &[8, 6, 5, 4], 77),
        // Not the longest cycle: (q mod C) sections differ from q sections.
        lfsr(6, &[6, 2], 9),
        lfsr(32, &[32, 22, 2, 1], u32::MAX),
        Sequence::Sobol(Sobol::new(3, Width::EIGHT).unwrap()),
        Sequence::Halton(Halton::new(9, Width::EIGHT).unwrap()),
        Sequence::Ramp(Ramp::new(Width::EIGHT)),
    ];
    for first in firsts {
        let siblings = first.siblings();
        for q in (0..700).chain([3269, 3270, 1 << 40, usize::MAX]) {
            assert_eq!(siblings.nth(q), first.nth(q), "{first}, {q}");
        }
    }
}

#[test]
fn values_filled_in_chunks_equal_single_values() {
    for first in [
        Sequence::Lfsr(Lfsr::new(Width::EIGHT, 5).unwrap()),
        Sequence::Sobol(Sobol::new(7, Width::EIGHT).unwrap()),
        Sequence::Halton(Halton::new(3, Width::EIGHT).unwrap()),
        Sequence::Ramp(Ramp::new(width(3))),
    ] {
        let (mut values, mut filled) = (first.values(), vec![0; 100]);
        for chunk in filled.chunks_mut(33) {
            values.fill(chunk);
        }
        assert!(first.values().take(100).eq(filled), "{first}");
    }
}

#[test]
fn invalid_sequence_parameters_are_errors() {
    assert_eq!(Width::new(0), Err(Error::Zero(Quantity::Width)));
    assert!(matches!(Width::new(33), Err(Error::TooLarge { actual: 33, limit: 32, .. })));
    assert!(matches!(Sobol::new(0, Width::EIGHT), Err(Error::Zero(Quantity::SobolDimension))));
    assert!(matches!(Sobol::new(1112, Width::EIGHT), Err(Error::TooLarge { actual: 1112, .. })));
    assert!(matches!(
        Halton::new(1, Width::EIGHT),
        Err(Error::TooSmall { actual: 1, limit: 2, .. })
    ));
    assert!(matches!(Halton::new(1 << 17, Width::EIGHT), Err(Error::TooLarge { .. })));
    assert!(matches!(Lfsr::new(width(2), 1), Err(Error::TooSmall { what: Quantity::Width, .. })));
    assert_eq!(Lfsr::new(Width::EIGHT, 0), Err(Error::Zero(Quantity::LfsrSeed)));
    assert!(matches!(
        Lfsr::new(Width::EIGHT, 256),
        Err(Error::TooLarge { actual: 256, limit: 255, .. })
    ));
    assert_eq!(Lfsr::with_taps(Width::EIGHT, &[8, 0], 1), Err(Error::Zero(Quantity::LfsrTap)));
    assert!(matches!(
        Lfsr::with_taps(Width::EIGHT, &[9, 8], 1),
        Err(Error::TooLarge { actual: 9, .. })
    ));
    assert_eq!(Lfsr::with_taps(Width::EIGHT, &[8, 5, 5], 1), Err(Error::RepeatedTap { tap: 5 }));
    assert_eq!(Lfsr::with_taps(Width::EIGHT, &[7, 5], 1), Err(Error::MissingTap { width: 8 }));
    let out_of_range =
        Width::EIGHT.thresholds(&[0.0, f64::NAN], Polarity::Unipolar, Quantity::Value);
    assert!(matches!(out_of_range, Err(Error::OutOfRange { index: 1, .. })));
    let negative = Width::EIGHT.thresholds(&[-0.25], Polarity::Unipolar, Quantity::Weight);
    assert!(matches!(negative, Err(Error::OutOfRange { what: Quantity::Weight, index: 0, .. })));
}

#[test]
fn thresholds_round_to_nearest() {
    let unipolar = Width::EIGHT.thresholds(
        &[0.0, 0.49, 0.5, 0.501_95, 0.501_96, 1.0],
        Polarity::Unipolar,
        Quantity::Value,
    );
    assert_eq!(unipolar.unwrap(), [0, 125, 128, 128, 129, 256]);
    let wide = width(32).thresholds(&[-1.0, -0.5, 1.0], Polarity::Bipolar, Quantity::Value);
    assert_eq!(wide.unwrap(), [0, 1 << 30, 1 << 32]);
}

#[test]
fn correlation_matches_known_answers() {
    let fraction = |text: &str| match text.split_once('/') {
        Some((a, b)) => a.parse::<f64>().unwrap() / b.parse::<f64>().unwrap(),
        None => text.parse().unwrap(),
    };
    for (question, answer) in answers("correlation") {
        let streams: Vec<BitStream> = question
            .iter()
            .map(|bits| {
                BitStream::from_bits(&bits.bytes().map(|bit| bit - b'0').collect::<Vec<_>>())
                    .unwrap()
            })
            .collect();
        let overlap = Overlap::of(&streams[0], &streams[1]).unwrap();
        assert_eq!(
            [overlap.scc(), overlap.zce()],
            [fraction(answer[0]), fraction(answer[1])],
            "{question:?}"
        );
    }
}

#[test]
fn impossible_overlaps_are_errors() {
    let length = Length::new(10).unwrap();
    assert!(matches!(
        Overlap::new(length, [11, 0], 0),
        Err(Error::TooLarge { actual: 11, limit: 10, .. })
    ));
    assert!(matches!(
        Overlap::new(length, [3, 2], 3),
        Err(Error::TooLarge { actual: 3, limit: 2, .. })
    ));
    assert!(matches!(
        Overlap::new(length, [8, 7], 4),
        Err(Error::TooSmall { actual: 4, limit: 5, .. })
    ));
    assert_eq!(Overlap::new(length, [8, 7], 5).unwrap().counts(), [5, 3, 2, 0]);
}

/// SCC = 0 is unreachable for most pairs of values, ZCE = 0 for none: 91 % at N = 64.
#[test]
fn scc_cannot_be_zero_for_most_pairs() {
    let length = Length::new(64).unwrap();
    let (mut pairs, mut out_of_reach) = (0, 0);
    for x in 0..=64_u64 {
        for y in 0..=64_u64 {
            let overlaps =
                (0..=x.min(y)).filter_map(|both| Overlap::new(length, [x, y], both).ok());
            let (mut scc_zero, mut zce_zero) = (false, false);
            for overlap in overlaps {
                scc_zero |= overlap.scc() == 0.0;
                zce_zero |= overlap.zce() == 0.0;
            }
            pairs += 1;
            out_of_reach += u32::from(!scc_zero);
            assert!(zce_zero, "{x} {y}");
        }
    }
    assert_eq!((out_of_reach, pairs), (3840, 4225));
}

fn sequences() -> impl Strategy<Value = Sequence> {
    (3_u64..=10).prop_flat_map(|bits| {
        let width = width(bits);
        prop_oneof![
            (1..=Sobol::DIMENSIONS)
                .prop_map(move |d| Sequence::Sobol(Sobol::new(d, width).unwrap())),
            (1..width.one() as u32).prop_map(move |s| Sequence::Lfsr(Lfsr::new(width, s).unwrap())),
            (2_u32..40).prop_map(move |b| Sequence::Halton(Halton::new(b, width).unwrap())),
            Just(Sequence::Ramp(Ramp::new(width))),
        ]
    })
}

fn polarities() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

fn product(polarity: Polarity, a: &BitStream, b: &BitStream) -> u64 {
    match polarity {
        Polarity::Unipolar | Polarity::Signed => gates::and(a, b).unwrap().ones(),
        Polarity::Bipolar => gates::xnor(a, b).unwrap().ones(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tables_equal_bit_by_bit_counts(
        x in sequences(), w in sequences(), bits in 1_usize..700, polarity in polarities(),
        thresholds in prop::collection::vec((any::<u64>(), any::<u64>()), 20),
    ) {
        let length = Length::new(bits).unwrap();
        let table = CountTable::new(&x, &w, length, polarity).unwrap();
        let prefixes = PrefixCounts::new(&x, &w, length, polarity).unwrap();
        let mut row = Vec::new();
        for (tx, tw) in thresholds {
            let (tx, tw) = (tx % (x.width().one() + 1), tw % (w.width().one() + 1));
            let count = product(polarity, &x.encode(tx, length), &w.encode(tw, length));
            prop_assert_eq!(table.get(tx, tw), count);
            row.clear();
            prefixes.append_row(tx, &mut row);
            prop_assert_eq!(&row, table.row(tx));
            prop_assert_eq!(u64::from(row[tw as usize]), count);
        }
        prop_assert_eq!(table.get(u64::MAX, 1), table.get(x.width().one(), 1));
        prop_assert_eq!(table.get(1, u64::MAX), table.get(1, w.width().one()));
    }

    #[test]
    fn pairings_encode_their_named_sequences(
        sharing in prop_oneof![Just(Sharing::OneForAll), Just(Sharing::OnePerInput), Just(Sharing::OnePerStream)],
        n in 1_usize..5, m in 1_usize..5, bits in 1_usize..200, seed in any::<u64>(),
    ) {
        let length = Length::new(bits).unwrap();
        let pairing = Pairing {
            inputs: Sequence::Sobol(Sobol::new(1, Width::EIGHT).unwrap()),
            weights: Sequence::Lfsr(Lfsr::new(Width::EIGHT, 77).unwrap()),
            sharing,
        };
        let threshold = |k: usize| seed.rotate_left(7 * k as u32) % 257;
        let weights: Vec<u64> = (0..n * m).map(threshold).collect();
        let inputs: Vec<u64> = (0..2 * n).map(|k| threshold(k + 100)).collect();
        let spec = LayerSpec::dense(n, m, length, Polarity::Unipolar, Encoding::Sequences(pairing)).unwrap();
        let weight_streams = reference::weight_streams(&spec, &weights);
        let input_streams = reference::input_streams(&spec, &inputs, SampleSeed::new(0));
        for (row, &threshold) in weights.iter().enumerate() {
            let sequence = pairing.weight(row / n, row % n, n).unwrap();
            prop_assert_eq!(weight_streams.stream(row).unwrap(), sequence.encode(threshold, length));
        }
        for (row, &threshold) in inputs.iter().enumerate() {
            let sequence = pairing.input(row % n).unwrap();
            prop_assert_eq!(input_streams.stream(row).unwrap(), sequence.encode(threshold, length));
        }
    }
}

/// Returns MAE and RMSE over all pairs of 8-bit values, from the first L bits.
fn errors(x: Sequence, y: Sequence, bits: usize) -> (f64, f64) {
    let table = CountTable::new(&x, &y, Length::new(bits).unwrap(), Polarity::Unipolar).unwrap();
    let (mut sum, mut squares) = (0.0, 0.0);
    for x in 0..256 {
        for y in 0..256 {
            let error = table.get(x, y) as f64 / bits as f64 - (x * y) as f64 / 65536.0;
            sum += error.abs();
            squares += error * error;
        }
    }
    (sum / 65536.0, (squares / 65536.0).sqrt())
}

#[test]
fn multiplier_errors_match_known_values() {
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let lfsr = |seed| Sequence::Lfsr(Lfsr::with_taps(Width::EIGHT, &[8, 6, 5, 4], seed).unwrap());
    let lengths = [16, 32, 64, 128, 256];
    let rounded = |error: f64| (error * 1e5).round() as u32;
    let sobol_errors = lengths.map(|bits| rounded(errors(sobol(1), sobol(2), bits).0));
    assert_eq!(sobol_errors, [3735, 1843, 921, 451, 190]);
    assert_eq!(rounded(errors(sobol(1), sobol(2), 256).1), 237);
    let lfsr_errors = lengths.map(|bits| rounded(errors(lfsr(1), lfsr(113), bits).0));
    assert_eq!(lfsr_errors, [15810, 15658, 8034, 1848, 304]);
}

#[test]
fn tables_reject_invalid_sizes() {
    let ramp = |bits| Sequence::Ramp(Ramp::new(width(bits)));
    let length = Length::new(8).unwrap();
    let wide = CountTable::new(&ramp(13), &ramp(8), length, Polarity::Unipolar);
    assert!(matches!(wide, Err(Error::TooLarge { what: Quantity::Width, actual: 13, limit: 12 })));
    let wider = PrefixCounts::new(&ramp(8), &ramp(16), length, Polarity::Unipolar);
    assert!(matches!(wider, Err(Error::TooLarge { what: Quantity::Width, actual: 16, limit: 15 })));
    let long = Length::new(1 << 29).unwrap();
    assert!(matches!(
        PrefixCounts::new(&ramp(8), &ramp(8), long, Polarity::Unipolar),
        Err(Error::TooLarge { what: Quantity::Length, .. })
    ));
    let from_values = |inputs: &[u32], weights: &[u32]| {
        PrefixCounts::from_values(inputs, weights, [width(3), width(2)], Polarity::Unipolar)
            .unwrap_err()
    };
    assert_eq!(from_values(&[], &[]), Error::Zero(Quantity::Length));
    assert!(matches!(from_values(&[1, 2], &[1]), Error::Mismatch { expected: 2, actual: 1, .. }));
    let (what, value) = (Quantity::Value, 8.0);
    let outside = Error::OutOfRange { what, index: 1, value, low: 0.0, high: 7.0 };
    assert_eq!(from_values(&[1, 8], &[1, 1]), outside);
    assert!(matches!(from_values(&[1, 7], &[4, 1]), Error::OutOfRange { index: 0, .. }));
}

/// A threshold above that of the stream of ones also gives the stream of ones.
#[test]
fn table_rows_end_with_the_stream_of_ones() {
    for polarity in Polarity::ALL {
        let prefixes =
            PrefixCounts::from_values(&[5, 0, 7, 2], &[1, 3, 0, 2], [width(3), width(2)], polarity)
                .unwrap();
        let row = |threshold: u64| {
            let mut row = Vec::new();
            prefixes.append_row(threshold, &mut row);
            row
        };
        // The ones at each weight threshold 0 to 4 of the stream of ones: matches and products are
        // equal.
        assert_eq!(row(8), [0, 1, 2, 3, 4], "{polarity}");
        assert_eq!([row(9), row(10), row(u64::MAX)], [row(8), row(8), row(8)], "{polarity}");
    }
}

/// States are too close within a quarter of a register's cycle, or within twice its width if that
/// is less.
#[test]
fn neighbourhood_is_a_quarter_of_the_cycle_or_twice_the_width() {
    for bits in 3..=12 {
        let lfsr = Lfsr::new(width(bits), 1).unwrap();
        let last = ((1 << bits) - 1_usize).div_euclid(4).min(2 * bits as usize);
        let warning = |steps: usize| {
            Warning::of(&Sequence::Lfsr(lfsr), &Sequence::Lfsr(lfsr.advanced(steps as u64)))
        };
        let near = Warning::NeighbouringStates { steps: last, width: bits as u32 };
        assert_eq!([warning(last), warning(last + 1)], [Some(near), None], "{bits} bits");
    }
}

/// Run s starts the register of inputs s golden sections into its cycle, and that of weights 2 s +
/// 1 sections, or at the first later section that is not too close.
#[test]
fn lfsr_seeds_select_phases_of_one_register() {
    let mut later = 0;
    for (bits, seed) in
        (3..=9).flat_map(|bits| [0, 1, 5, 6, 7, (1 << 31) + 5, u64::MAX].map(|seed| (bits, seed)))
    {
        let register = Sequence::Lfsr(Lfsr::new(width(bits), 0x9e37_79b9 >> (32 - bits)).unwrap());
        let run = (seed & 0x7fff_ffff) as usize;
        let inputs = register.nth(run).unwrap();
        let is_apart =
            |k: &usize| Warning::of(&inputs, &register.nth(2 * run + k).unwrap()).is_none();
        let k = (1..20).find(is_apart).unwrap();
        later += usize::from(k > 1);
        let (weights, sharing) = (register.nth(2 * run + k).unwrap(), Sharing::OneForAll);
        let expected = Encoding::Sequences(Pairing { inputs, weights, sharing });
        assert_eq!(
            GeneratorName::Lfsr.encoding(seed, width(bits), sharing),
            Ok(expected),
            "{bits} bits, {seed}"
        );
    }
    assert!(later > 2, "{later}");
}

#[test]
fn correlated_pairs_are_reported() {
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let lfsr = |seed| Sequence::Lfsr(Lfsr::new(Width::EIGHT, seed).unwrap());
    let warnings =
        |inputs, weights, sharing| Pairing { inputs, weights, sharing }.warnings(5, 3).unwrap();
    assert_eq!(warnings(sobol(1), sobol(2), Sharing::OneForAll), []);
    assert_eq!(
        warnings(sobol(3), sobol(3), Sharing::OneForAll),
        [Warning::SameSequence { sequence: sobol(3) }]
    );
    // State 113 comes ten steps after state 1.
    for (x, w) in [(1, 113), (113, 1)] {
        assert_eq!(
            warnings(lfsr(x), lfsr(w), Sharing::OnePerInput),
            [Warning::NeighbouringStates { steps: 10, width: 8 }]
        );
    }
    let Sequence::Lfsr(one) = lfsr(1) else { panic!() };
    assert_eq!(warnings(lfsr(1), Sequence::Lfsr(one.advanced(100)), Sharing::OneForAll), []);
    // Weight (0, 0) has dimension 3, which is also that of input 1; but it meets input 0 only.
    assert_eq!(warnings(sobol(1), sobol(3), Sharing::OnePerStream), []);
    // Weight (1, 0) is number 5, ten dimensions after the first, where it meets input 0.
    assert_eq!(
        warnings(sobol(11), sobol(1), Sharing::OnePerStream),
        [Warning::SameSequence { sequence: sobol(11) }]
    );
    let exhausted = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OnePerStream };
    assert!(exhausted.warnings(100, 100).is_err());
}

#[test]
fn layer_counts_equal_table_entries() {
    let (n, m, length) = (6, 4, Length::new(77).unwrap());
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let spec =
        LayerSpec::dense(n, m, length, Polarity::Bipolar, Encoding::Sequences(pairing)).unwrap();
    let weights: Vec<u64> = (0..(n * m) as u64).map(|k| k * 53 % 257).collect();
    let inputs: Vec<u64> = (0..n as u64).map(|k| k * 101 % 257).collect();
    let streams: [StreamMatrix; 2] = [
        reference::weight_streams(&spec, &weights),
        reference::input_streams(&spec, &inputs, SampleSeed::new(0)),
    ];
    let counts = reference::counts(&spec, &streams[0], &streams[1]);
    let table = CountTable::new(&sobol(1), &sobol(2), length, Polarity::Bipolar).unwrap();
    let from_table: Vec<u64> =
        (0..m).map(|j| (0..n).map(|i| table.get(inputs[i], weights[j * n + i])).sum()).collect();
    assert_eq!(counts, from_table);
}

#[test]
fn generator_names_round_trip_through_text() {
    for text in [
        "bernoulli",
        "sobol",
        "lfsr",
        "halton",
        "vdc",
        "ramp",
        "sobol:3+lfsr:77",
        "vdc+vdc",
        "ramp+halton:5",
    ]
    .into_iter()
    .chain(["int2", "int8", "int10", "digit:0+digit:1"])
    .chain(["bernoulli+sobol:2", "bernoulli+ramp", "sobol:1+bernoulli", "vdc+bernoulli"])
    {
        let name: GeneratorName = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!(name.to_string().parse::<GeneratorName>().unwrap(), name);
    }
    let same = |a: &str, b: &str| a.parse::<GeneratorName>().unwrap() == b.parse().unwrap();
    assert!(same("sobol", "sobol:1+sobol:2") && same("halton", "halton:2+halton:3"));
    assert!(same("vdc", "halton:2+ramp") && same("ramp", "ramp+vdc") && same(" SOBOL ", "sobol"));
    assert!(same("sobol+lfsr", "sobol:1+lfsr:1"));
    assert!(
        same("bernoulli+bernoulli", "bernoulli")
            && same(" Bernoulli + SOBOL ", "bernoulli+sobol:1")
    );
    assert!(!same("bernoulli+sobol", "sobol+bernoulli"));
    for (text, part) in [
        ("foo", "use one of bernoulli, sobol, lfsr, halton, vdc, ramp"),
        (
            "foo+sobol",
            "operands are bernoulli, lfsr:SEED, sobol:DIMENSION, halton:BASE, ramp, digit:DIGIT, vdc",
        ),
        ("sobol:x+sobol", "\"x\" is not a dimension"),
        ("sobol:-1+sobol", "\"-1\" is not a dimension"),
        ("sobol:4294967296+sobol", "is not a dimension in 0..2^32"),
        ("ramp:3+sobol", "ramp takes no parameter"),
        ("vdc:3+sobol", "vdc takes no parameter"),
        ("", "use one of"),
        ("+", "operands are bernoulli"),
        ("bernoulli+", "operands are bernoulli"),
        ("bernoulli+foo", "operands are bernoulli"),
        ("bernoulli:5+sobol", "bernoulli takes no parameter"),
        ("sobol+bernoulli:", "bernoulli takes no parameter"),
        ("bernoullis+sobol", "operands are bernoulli"),
        ("int1", "use int2 to int10"),
        ("int11", "use int2 to int10"),
        ("int", "int8 for binary arithmetic"),
        ("int8+sobol", "operands are bernoulli"),
    ] {
        let error = text.parse::<GeneratorName>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    for sharing in Sharing::ALL {
        assert_eq!(sharing.to_string().parse::<Sharing>().unwrap(), sharing);
    }
    let error = "each".parse::<Sharing>().unwrap_err().to_string();
    assert_eq!(error, "\"each\" is not a sharing: use all, input or stream");
}

/// Compares the table, the bits and the integers; the threshold of the stream of ones acts as the
/// greatest integer.
#[test]
fn counts_of_digit_streams_are_products_of_integers() {
    for bits in IntegerBits::MIN..=6 {
        let integers = IntegerBits::new(bits).unwrap();
        let (length, greatest) = (integers.length().unwrap(), integers.greatest());
        assert_eq!((greatest, length.bits() as u64), ((1 << (bits - 1)) - 1, greatest * greatest));
        let name = GeneratorName::Integer(integers);
        let Encoding::Sequences(pairing) =
            name.encoding(5, Width::EIGHT, Sharing::OnePerStream).unwrap()
        else {
            panic!("integers have sequences")
        };
        assert_eq!(pairing.sharing, Sharing::OneForAll);
        let table =
            CountTable::new(&pairing.inputs, &pairing.weights, length, Polarity::Signed).unwrap();
        for a in 0..=integers.width().one() {
            for b in 0..=integers.width().one() {
                let product = a.min(greatest) * b.min(greatest);
                assert_eq!(table.get(a, b), product, "{a} {b}, {bits} bits");
                let streams = [pairing.inputs.encode(a, length), pairing.weights.encode(b, length)];
                assert_eq!(gates::and(&streams[0], &streams[1]).unwrap().ones(), product);
            }
        }
        let spec = |length| {
            LayerSpec::dense(2, 2, length, Polarity::Signed, Encoding::Sequences(pairing)).unwrap()
        };
        assert_eq!(spec(length).integer_bits(), Some(integers));
        assert_eq!(spec(Length::new(length.bits() + 1).unwrap()).integer_bits(), None);
        assert_eq!(pairing.cut_off(length), None);
    }
    assert_eq!(IntegerBits::new(8).unwrap().gain(), 128.0 / 127.0);
    let digit = |digit, bits| Digit::new(digit, width(bits));
    assert!(digit(2, 8).is_err() && digit(1, 17).is_err() && digit(1, 16).is_ok());
    let cut = OperandSequences {
        first: Sequence::Digit(digit(1, 3).unwrap()),
        sharing: Sharing::OneForAll,
    };
    assert!(cut.cut_off(Length::new(48).unwrap()).is_some());
}

#[test]
fn auto_width_covers_the_length_if_a_whole_period_is_needed() {
    let length = |bits| Length::new(bits).unwrap();
    let width =
        |text: &str, bits| WidthChoice::Auto.resolve(&text.parse().unwrap(), length(bits)).bits();
    for (bits, expected) in
        [(1, 3), (7, 3), (14, 3), (15, 4), (16, 4), (255, 8), (256, 8), (1024, 10), (1 << 20, 12)]
    {
        assert_eq!(width("lfsr", bits), expected, "{bits}");
        assert_eq!(width("sobol:1+ramp", bits), expected, "{bits}");
        assert_eq!(width("sobol", bits), 8);
        assert_eq!(width("bernoulli", bits), 8);
        // Only the sequence of the mixed pair matters.
        assert_eq!([width("bernoulli+sobol", bits), width("halton+bernoulli", bits)], [8, 8]);
        assert_eq!(
            [width("bernoulli+lfsr", bits), width("ramp+bernoulli", bits)],
            [expected; 2],
            "{bits}"
        );
    }
    // A register must hold its seed.
    assert_eq!(
        [width("lfsr:77+ramp", 16), width("sobol:1+lfsr:300", 64), width("bernoulli+lfsr:300", 64)],
        [7, 9, 9]
    );
    assert_eq!("auto".parse::<WidthChoice>().unwrap(), WidthChoice::Auto);
    assert_eq!("11".parse::<WidthChoice>().unwrap(), WidthChoice::Fixed(Width::new(11).unwrap()));
    assert_eq!("11".parse::<WidthChoice>().unwrap().to_string(), "11");
    assert_eq!(WidthChoice::from(Width::EIGHT), WidthChoice::Fixed(Width::EIGHT));
    assert!("33".parse::<WidthChoice>().is_err() && "0".parse::<WidthChoice>().is_err());
    assert!(
        "wide"
            .parse::<WidthChoice>()
            .unwrap_err()
            .to_string()
            .contains("use auto or a number of bits")
    );
}

/// In a convolution any input may meet any weight, so all pairs are compared.
#[test]
fn convolutions_report_every_correlated_pair() {
    let pairing = |text: &str, bits, sharing| match text
        .parse::<GeneratorName>()
        .unwrap()
        .encoding(5, width(bits), sharing)
        .unwrap()
    {
        Encoding::Sequences(pairing) => pairing,
        other => panic!("{other:?}"),
    };
    let mut seen = [0, 0];
    for (text, bits) in [
        ("lfsr:1+lfsr:9", 8),
        ("lfsr:1+lfsr:9", 16),
        ("lfsr", 20),
        ("sobol:1+sobol:2", 8),
        ("sobol:1+sobol:9", 8),
    ] {
        for sharing in Sharing::ALL {
            let pairing = pairing(text, bits, sharing);
            let (n, channels, taps) = (23, 3, 7);
            let weights = if sharing == Sharing::OnePerStream { channels } else { 1 };
            let mut any = false;
            for input in 0..n {
                for (channel, tap) in
                    (0..weights).flat_map(|channel| (0..taps).map(move |tap| (channel, tap)))
                {
                    let (x, w) = (
                        pairing.input(input).unwrap(),
                        pairing.weight(channel, tap, taps).unwrap(),
                    );
                    any |= Warning::of(&x, &w).is_some();
                }
            }
            let warnings = pairing.conv_warnings(n, channels, taps).unwrap();
            assert_eq!(warnings.len(), usize::from(any), "{text}, {bits} bits, {sharing}");
            seen[usize::from(any)] += 1;
        }
    }
    assert!(seen.iter().all(|&n| n >= 4), "{seen:?}");
    // More pixels than the register has states.
    assert_eq!(
        pairing("lfsr:1+lfsr:9", 5, Sharing::OnePerInput)
            .conv_warnings(100_000, 64, 288)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn encodings_follow_from_name_and_seed() {
    let encoding = |text: &str, seed| {
        text.parse::<GeneratorName>()
            .unwrap()
            .encoding(seed, Width::EIGHT, Sharing::OneForAll)
            .unwrap()
    };
    assert_eq!(encoding("bernoulli", 5), Encoding::Bernoulli { seed: 5 });
    // An operand of a mixed pair has the encoding of a pair of its own kind.
    let Encoding::Sequences(pairing) = encoding("sobol:3+halton:5", 5) else {
        panic!("no sequences")
    };
    let weights = pairing.of_weights();
    assert_eq!(encoding("bernoulli+halton:5", 5), Encoding::BernoulliInputs { weights });
    let inputs = pairing.of_inputs();
    assert_eq!(encoding("sobol:3+bernoulli", 5), Encoding::BernoulliWeights { seed: 5, inputs });
    assert_eq!(
        encoding("sobol:3+bernoulli", 5).input_source(),
        encoding("sobol:3+vdc", 5).input_source()
    );
    assert_eq!(
        encoding("sobol:3+bernoulli", 5).weight_source(),
        WeightSource::Bernoulli { seed: 5 }
    );
    assert_eq!(encoding("bernoulli+vdc", 5).input_source(), InputSource::Bernoulli);
    assert_eq!(encoding("sobol", 1), encoding("sobol", 2));
    assert_ne!(encoding("lfsr", 1), encoding("lfsr", 2));
    // For every seed and width, the two phases are apart.
    for bits in 3..=16 {
        for seed in (0..300).chain([44_257, u64::MAX]) {
            let lfsr = GeneratorName::Lfsr.encoding(seed, width(bits), Sharing::OneForAll).unwrap();
            let Encoding::Sequences(pairing) = lfsr else { panic!("no sequences") };
            assert_eq!(pairing.warnings(10, 10).unwrap(), [], "{bits} bits, seed {seed}");
        }
    }
    for text in ["sobol:9999+sobol", "bernoulli+sobol:9999", "sobol:9999+bernoulli"] {
        let name = text.parse::<GeneratorName>().unwrap();
        assert!(name.encoding(0, Width::EIGHT, Sharing::OneForAll).is_err(), "{text}");
    }
}
