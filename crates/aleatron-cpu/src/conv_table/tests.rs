//! Sums of maps against look-ups of each product, which the conformance suite compares with the
//! bits.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Pool, Tier};
use aleatron_core::Convolution;
use aleatron_core::generator::{Sequence, Sharing, Sobol};
use aleatron_core::threshold::NEGATIVE;
use std::sync::Arc;

/// Returns convolutions with all parameters that move a tap, one that is divided into several
/// tiles, and one with many maps.
fn convolutions() -> Vec<Convolution> {
    let conv = Convolution::conv2d;
    vec![
        conv([3, 9, 11], 5, [3, 3]).with_padding([1, 1]),
        conv([4, 10, 9], 6, [3, 2])
            .with_groups(2)
            .with_stride([2, 3])
            .with_paddings([[0, 2], [3, 0]]),
        conv([2, 12, 13], 3, [2, 3]).with_dilation([2, 3]).with_padding([2, 2]).with_stride([1, 2]),
        conv([3, 5, 5], 4, [5, 5]).with_stride([4, 4]),
        conv([2, 3, 3], 2, [1, 1]).with_stride([2, 2]),
        conv([1, 70, 80], 2, [3, 3]),
        conv([6, 6, 6], 40, [3, 3]),
    ]
}

fn thresholds(n: usize, step: u64, width: Width, polarity: Polarity) -> Vec<u64> {
    let threshold = |k: u64| {
        let magnitude = k * step % (width.one() + 1);
        let is_negative = polarity == Polarity::Signed && k * step % 7 < 3 && magnitude > 0;
        if is_negative { magnitude | NEGATIVE } else { magnitude }
    };
    (0..n as u64).map(threshold).collect()
}

#[test]
fn sums_of_maps_equal_look_ups() {
    let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let mut n_used = 0;
    for (k, convolution) in convolutions().into_iter().enumerate() {
        let shape = ConvShape::new(convolution).unwrap();
        // The longest streams whose counts fit maps of one byte and of two, and sums of one product
        // and of several.
        for (bits, width) in [(255, 8), (1024, 8), (32_767, 8), (300, 5), (40, 11)] {
            let (length, width) = (Length::new(bits).unwrap(), Width::new(width).unwrap());
            let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, width).unwrap());
            let pairing =
                Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
            let polarity = Polarity::ALL[(k + bits) % 3];
            let weights = thresholds(shape.n_weights(), 7919, width, polarity);
            let inputs = thresholds(3 * shape.n_inputs(), 104_729, width, polarity);
            let mut conv = TabledConv::new(shape, length, polarity, &pairing, weights).unwrap();
            n_used += usize::from(conv.maps.is_some());
            conv.maps = None;
            let portable = Cpu::new(Tier::from_name("portable").unwrap(), pools[0].clone());
            let expected = portable.conv_table_counts(&conv, &inputs).unwrap();
            conv.maps =
                SharedMaps::new(&shape, &conv.planes, length, &conv.tables, &conv.weights).unwrap();
            assert!(conv.maps.is_some());
            for (tier, pool) in Tier::available().into_iter().zip(pools.iter().cycle()) {
                let cpu = Cpu::new(tier, pool.clone());
                let counts = cpu.conv_table_counts(&conv, &inputs).unwrap();
                assert!(counts == expected, "{tier}: {convolution:?}, {bits} bits, {polarity}");
                let one = cpu.conv_table_counts(&conv, &inputs[..shape.n_inputs()]).unwrap();
                assert!(
                    one == expected[..shape.n_outputs()],
                    "{tier}: {convolution:?}, one sample"
                );
            }
        }
    }
    assert!(n_used > 0, "no convolution uses maps");
}

/// Reaches both ends of the sums that 16 bits with a sign hold.
#[test]
fn largest_counts_do_not_overflow() {
    let shape = ConvShape::new(Convolution::conv2d([5, 4, 4], 3, [2, 2])).unwrap();
    let sequence = Sequence::Sobol(Sobol::new(1, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sequence, weights: sequence, sharing: Sharing::OneForAll };
    let cpu = |tier| Cpu::new(tier, Arc::new(Pool::eager(1).unwrap()));
    for bits in [1024, 1638, 32_767] {
        let length = Length::new(bits).unwrap();
        let taps = shape.kernel_weights() as u64;
        // Channels of ones, of minus ones and of zeros.
        let weights = [256, 256 | NEGATIVE, 0].map(|weight| vec![weight; taps as usize]).concat();
        let conv = TabledConv::new(shape, length, Polarity::Signed, &pairing, weights).unwrap();
        for tier in Tier::available() {
            for (input, products) in [(256, 1), (256 | NEGATIVE, -1)] {
                let counts =
                    cpu(tier).conv_table_counts(&conv, &vec![input; shape.n_inputs()]).unwrap();
                let expected = [products, -products, 0].map(|product: i64| {
                    let count = (product + 1) as u64 * taps * bits as u64;
                    vec![count; shape.n_positions()]
                });
                assert_eq!(counts, expected.concat(), "{tier}, {bits} bits");
            }
        }
    }
}

/// Streams whose counts do not fit 16 bits are looked up one by one.
#[test]
fn long_streams_have_no_maps() {
    let shape = ConvShape::new(Convolution::conv2d([1, 9, 9], 64, [3, 3])).unwrap();
    let sequence = Sequence::Sobol(Sobol::new(1, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sequence, weights: sequence, sharing: Sharing::OneForAll };
    for (bits, has_maps) in [(32_767, true), (32_768, false)] {
        let (length, weights) = (Length::new(bits).unwrap(), vec![100; shape.n_weights()]);
        let conv = TabledConv::new(shape, length, Polarity::Unipolar, &pairing, weights).unwrap();
        assert_eq!(conv.maps.is_some(), has_maps);
    }
}
