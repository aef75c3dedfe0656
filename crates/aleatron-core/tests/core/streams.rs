//! Packed streams and gates: the layout of words, zero bits beyond the length, and the laws of
//! gates.

use aleatron_core::gates::{self, Gate};
use aleatron_core::stream::{StreamWords, check_words};
use aleatron_core::{
    BitStream, Length, Overlap, Polarity, StreamAddress, StreamMatrix, Threshold, reference,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

fn stream(bits: &[u8]) -> BitStream {
    BitStream::from_bits(bits).unwrap()
}

/// Generates lengths, with a preference for word boundaries.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![prop::sample::select(vec![1, 2, 63, 64, 65, 127, 128, 129, 192]), 1..400usize]
}

fn streams<const N: usize>() -> impl Strategy<Value = [BitStream; N]> {
    lengths().prop_flat_map(|bits| {
        vec(vec(0u8..2, bits), N).prop_map(|rows| std::array::from_fn(|k| stream(&rows[k])))
    })
}

/// Returns whether the bits beyond the length are zero, by the check for words of a caller.
fn is_clean(stream: &BitStream) -> bool {
    check_words(stream.words(), 1, stream.length()).is_ok()
}

#[test]
fn bits_are_packed_little_endian() {
    for k in [0, 1, 63, 64, 65, 99] {
        let mut bits = vec![0; 100];
        bits[k] = 1;
        let packed = stream(&bits);
        let mut words = [0; 2];
        words[k / 64] = 1 << (k % 64);
        assert_eq!(packed.words(), words, "bit {k}");
        assert_eq!(packed.get(k), Some(true));
        assert_eq!(packed.ones(), 1);
        // Little-endian bytes are numpy.packbits(bits, bitorder="little").
        assert_eq!(packed.words()[k / 64].to_le_bytes()[k % 64 / 8], 1 << (k % 8));
    }
}

#[test]
fn lengths_have_expected_words() {
    for (bits, words, draws, tail) in [
        (1, 1, 1, 1),
        (32, 1, 1, u64::from(u32::MAX)),
        (33, 1, 2, (1 << 33) - 1),
        (63, 1, 2, u64::MAX >> 1),
        (64, 1, 2, u64::MAX),
        (65, 2, 3, 1),
        (128, 2, 4, u64::MAX),
        (1 << 34, 1 << 28, 1 << 29, u64::MAX),
    ] {
        let length = length(bits);
        assert_eq!((length.words(), length.draw_words(), length.tail_mask()), (words, draws, tail));
    }
}

proptest! {
    #[test]
    fn packing_and_unpacking_are_inverse(bits in lengths().prop_flat_map(|n| vec(any::<u8>(), n))) {
        let packed = stream(&bits);
        let ones: Vec<u8> = bits.iter().map(|&bit| u8::from(bit != 0)).collect();
        prop_assert!(is_clean(&packed));
        prop_assert_eq!(&packed.to_bits(), &ones);
        prop_assert_eq!(packed.ones(), ones.iter().map(|&bit| u64::from(bit)).sum::<u64>());
        for (k, &bit) in ones.iter().enumerate() {
            prop_assert_eq!(packed.get(k), Some(bit == 1));
        }
        prop_assert_eq!(packed.get(bits.len()), None);
        let again = BitStream::from_words(packed.words().to_vec(), packed.length()).unwrap();
        prop_assert_eq!(again.into_words(), packed.into_words());
    }

    #[test]
    fn matrices_return_their_streams([a, b, c] in streams::<3>()) {
        let words = [&a, &b, &c].map(BitStream::words).concat();
        let matrix = StreamMatrix::from_words(words.clone(), 3, a.length()).unwrap();
        prop_assert_eq!((matrix.rows(), matrix.length()), (3, a.length()));
        prop_assert_eq!([0, 1, 2].map(|row| matrix.stream(row).unwrap()), [a, b, c]);
        prop_assert_eq!(matrix.words(), &words);
        let mut written = matrix.clone();
        written.words_mut().fill(0);
        prop_assert_eq!(written.words(), vec![0; words.len()]);
        prop_assert_eq!(matrix.into_words(), words);
    }

    #[test]
    fn gates_apply_to_each_bit([a, b, select] in streams::<3>()) {
        for gate in Gate::ALL {
            let c = gates::gate(gate, &a, &b).unwrap();
            prop_assert!(is_clean(&c), "{:?}", gate);
            prop_assert_eq!(&c, &reference::gate(gate, &a, &b), "{:?}", gate);
            prop_assert_eq!(&c, &gates::gate(gate, &b, &a).unwrap(), "{:?} commutes", gate);
        }
        let not = gates::not(&a);
        prop_assert!(is_clean(&not));
        prop_assert_eq!(&not, &reference::not(&a));
        let mux = gates::mux(&select, &a, &b).unwrap();
        prop_assert!(is_clean(&mux));
        prop_assert_eq!(mux, reference::mux(&select, &a, &b));
        prop_assert_eq!(a.ones(), reference::popcount(&a));
        prop_assert_eq!(gates::hamming_distance(&a, &b).unwrap(), reference::hamming_distance(&a, &b));
    }

    #[test]
    fn gates_satisfy_boolean_laws([a, b, s] in streams::<3>()) {
        let (and, or) = (gates::and(&a, &b).unwrap(), gates::or(&a, &b).unwrap());
        let (xor, xnor) = (gates::xor(&a, &b).unwrap(), gates::xnor(&a, &b).unwrap());
        prop_assert_eq!(gates::not(&gates::not(&a)), a.clone());
        prop_assert_eq!(gates::not(&xor), xnor.clone());
        prop_assert_eq!(gates::not(&and), gates::or(&gates::not(&a), &gates::not(&b)).unwrap());
        prop_assert_eq!(and.ones() + or.ones(), a.ones() + b.ones());
        let bits = a.length().bits() as u64;
        prop_assert_eq!(xnor.ones() + a.ones() + b.ones(), bits + 2 * and.ones());
        prop_assert_eq!(gates::not(&a).ones(), bits - a.ones());
        // A multiplexer of equal streams returns them, and a complemented select swaps its inputs.
        prop_assert_eq!(gates::mux(&s, &a, &a).unwrap(), a.clone());
        prop_assert_eq!(gates::mux(&s, &a, &b).unwrap(), gates::mux(&gates::not(&s), &b, &a).unwrap());
        let zeros = BitStream::zeros(a.length());
        prop_assert_eq!(gates::mux(&zeros, &a, &b).unwrap(), b.clone());
        prop_assert_eq!(gates::mux(&gates::not(&zeros), &a, &b).unwrap(), a);
    }

    #[test]
    fn hamming_distance_is_a_metric([a, b, c] in streams::<3>()) {
        let distance = |x, y| gates::hamming_distance(x, y).unwrap();
        prop_assert_eq!(distance(&a, &a), 0);
        prop_assert_eq!(distance(&a, &b) == 0, a == b);
        prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
        prop_assert_eq!(distance(&a, &gates::not(&a)), a.length().bits() as u64);
    }

    #[test]
    fn overlap_counts_add_up([a, b] in streams::<2>()) {
        let overlap = Overlap::of(&a, &b).unwrap();
        let [both, first, second, neither] = overlap.counts();
        prop_assert_eq!(both + first, a.ones());
        prop_assert_eq!(both + second, b.ones());
        prop_assert_eq!(both + first + second + neither, a.length().bits() as u64);
        prop_assert_eq!(first + second, gates::hamming_distance(&a, &b).unwrap());
        prop_assert!((-1.0..=1.0).contains(&overlap.scc()), "{}", overlap.scc());
        prop_assert!((-0.25..=0.25).contains(&overlap.zce()), "{}", overlap.zce());
        prop_assert_eq!(overlap.scc(), Overlap::of(&b, &a).unwrap().scc());
    }

    /// Decoding rounds once: the result is the quotient of two integers that f64 holds exactly
    /// here.
    #[test]
    fn decoding_rounds_once(n in 1usize..1000, bits in lengths(), share in 0.0..=1.0) {
        let most = (n * bits) as u64;
        let count = (share * most as f64) as u64;
        let (length, l) = (length(bits), bits as f64);
        prop_assert_eq!(Polarity::Unipolar.decode(count, n, length), count as f64 / l);
        prop_assert_eq!(Polarity::Bipolar.decode(count, n, length), (2.0 * count as f64 - most as f64) / l);
        prop_assert_eq!(Polarity::Bipolar.decode(most, n, length), n as f64);
        prop_assert_eq!(Polarity::Bipolar.decode(0, n, length), -(n as f64));
    }
}

/// The largest layer of the specification: sums above 2^53 and 2^63 are subtracted as integers
/// before rounding.
#[test]
fn decoding_of_largest_sums_is_exact_before_rounding() {
    let (n, length) = (1 << 32, length(1 << 34));
    assert_eq!(Polarity::Bipolar.decode(0, n, length), -(2.0_f64.powi(32)));
    let half = 1 << 63;
    assert_eq!(Polarity::Bipolar.decode(half, 1 << 30, length), 0.0);
    assert_eq!(Polarity::Bipolar.decode(half + 1, 1 << 30, length), 2.0_f64.powi(1 - 34));
}

#[test]
fn stream_words_follow_from_the_length() {
    let of = |bits| StreamWords::of(Length::new(bits).unwrap());
    assert_eq!(of(1), StreamWords { stored: 2, full: 0, tail_mask: 1 });
    assert_eq!(of(64), StreamWords { stored: 2, full: 2, tail_mask: 0 });
    assert_eq!(of(65), StreamWords { stored: 4, full: 2, tail_mask: 1 });
    assert_eq!(of(127), StreamWords { stored: 4, full: 3, tail_mask: 0x7fff_ffff });
}

/// A bit is 1 if its integer is below the threshold, so not if they are equal.
#[test]
fn integer_equal_to_threshold_gives_zero() {
    let (address, length) = (StreamAddress::input(3, 1, 4), length(70));
    for k in [0, 31, 32, 69] {
        let uniform = u64::from(reference::uniform(address, k));
        let bit = |threshold| {
            reference::encode(Threshold::saturating(threshold), length, address).to_bits()[k]
        };
        assert_eq!([bit(uniform), bit(uniform + 1)], [0, 1], "{k}");
    }
}
