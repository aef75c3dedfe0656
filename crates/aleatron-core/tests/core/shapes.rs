//! The geometry of convolutions and pools, computed one position at a time, and the sizes of
//! layers.

use aleatron_core::arithmetic::{Border, Pool, PoolKind, PoolShape};
use aleatron_core::windows::{Axis, Windows};
use aleatron_core::{
    Connections, ConvShape, Convolution, Encoding, LayerSpec, Length, Polarity, Topology, reference,
};
use std::ops::Range;
use std::sync::Arc;

fn convolutions() -> Vec<Convolution> {
    let conv = Convolution::conv2d;
    vec![
        conv([2, 4, 5], 3, [3, 2]).with_padding([1, 1]),
        conv([6, 5, 4], 9, [2, 3])
            .with_groups(3)
            .with_stride([2, 1])
            .with_paddings([[0, 2], [3, 0]]),
        conv([4, 6, 7], 4, [2, 3]).with_groups(2).with_dilation([2, 3]).with_padding([2, 1]),
        conv([1, 1, 1], 2, [1, 1]).with_padding([2, 1]),
        Convolution::conv1d([3, 11], 5, 4).with_stride([1, 3]),
    ]
}

/// Returns the input channel, row and column under a tap of an output channel, if it is inside the
/// image.
fn under(
    conv: &Convolution,
    channel: usize,
    position: [usize; 2],
    tap: [usize; 3],
) -> Option<[usize; 3]> {
    let group = channel / (conv.out_channels / conv.groups);
    let position_of = |k: usize| {
        let padded = position[k] * conv.stride[k] + tap[1 + k] * conv.dilation[k];
        padded.checked_sub(conv.padding[k][0]).filter(|&inside| inside < conv.input[1 + k])
    };
    Some([group * (conv.input[0] / conv.groups) + tap[0], position_of(0)?, position_of(1)?])
}

/// Returns all output channels of a convolution, and some of them.
fn ranges(conv: &Convolution) -> Vec<Range<usize>> {
    let n = conv.out_channels;
    vec![0..n, 0..1, n - 1..n, n / 3..n, 1.min(n - 1)..n.div_ceil(2).max(2).min(n)]
}

#[test]
fn conv_taps_are_over_their_inputs() {
    for conv in convolutions() {
        let whole = ConvShape::new(conv).unwrap();
        for range in ranges(&conv) {
            let shape = whole.channels(range.clone()).unwrap();
            let ([_, rows, columns], taps) = (shape.output(), shape.kernel_weights());
            let [height, width] = conv.kernel;
            let mut products = 0;
            let mut seen: Vec<(usize, Range<usize>)> = Vec::new();
            for (local, channel) in range.clone().enumerate() {
                let first = shape.first_input_channel(local);
                assert_eq!(
                    first,
                    channel / (conv.out_channels / conv.groups) * shape.group_inputs()
                );
                match seen.last_mut() {
                    Some((group, channels)) if *group == first => channels.end = local + 1,
                    _ => seen.push((first, local..local + 1)),
                }
                for position in 0..rows * columns {
                    let mut inside = 0;
                    for tap in 0..taps {
                        let row_and_column = [position / columns, position % columns];
                        let of = [tap / (height * width), tap / width % height, tap % width];
                        let expected = under(&conv, channel, row_and_column, of);
                        inside += usize::from(expected.is_some());
                        let expected = expected.map(|[c, row, column]| {
                            (c * conv.input[1] + row) * conv.input[2] + column
                        });
                        assert_eq!(
                            shape.input_at(first, position, tap),
                            expected,
                            "{conv:?} {channel} {tap}"
                        );
                    }
                    assert_eq!(shape.fan_in(position), inside, "{conv:?} {position}");
                    assert_eq!(shape.fan_ins()[position], inside);
                    products += inside;
                }
            }
            assert_eq!(shape.n_products(), products, "{conv:?}");
            assert_eq!(shape.groups().collect::<Vec<_>>(), seen, "{conv:?} {range:?}");
            assert_eq!(shape.max_fan_in(), shape.fan_ins().into_iter().max().unwrap());
            assert_eq!(shape.n_outputs(), range.len() * rows * columns);
            assert_eq!(shape.n_weights(), range.len() * taps);
        }
    }
}

#[test]
fn layers_have_expected_sizes() {
    let length = Length::new(130).unwrap();
    let mask = [true, false, true, true, false, false];
    let sparse = Topology::Sparse(Arc::new(Connections::from_mask(&mask, 3).unwrap()));
    let conv = Topology::Conv(
        ConvShape::new(Convolution::conv2d([1, 2, 2], 2, [2, 2]).with_padding([1, 1])).unwrap(),
    );
    // Each of the four positions of an image lies under each of the four taps once, for two
    // channels.
    for (topology, products, inputs, weights, fan_in) in [
        (Topology::Dense { n_inputs: 5, n_neurons: 3 }, 15, 5, 15, 5),
        (sparse, 3, 3, 3, 2),
        (conv, 32, 4, 8, 4),
    ] {
        assert_eq!(topology.n_products(), products);
        for (polarity, counts) in
            [(Polarity::Unipolar, 1), (Polarity::Bipolar, 1), (Polarity::Signed, 2)]
        {
            let encoding = Encoding::Bernoulli { seed: 1 };
            let spec = LayerSpec::new(topology.clone(), length, polarity, encoding).unwrap();
            assert_eq!(spec.product_words(), 3 * products);
            assert_eq!((spec.sample_words(), spec.weight_words()), (3 * inputs, 3 * weights));
            assert_eq!(spec.max_count(), counts * fan_in * 130);
        }
    }
}

#[test]
fn padded_axes_are_limited_to_31_bits() {
    assert_eq!(Windows::new(Axis::new((1 << 31) - 1, 1)).unwrap().len(), (1 << 31) - 1);
    assert!(Windows::new(Axis::new(1 << 31, 1)).is_err());
    assert!(Windows::new(Axis { padding: [1, 0], ..Axis::new((1 << 31) - 1, 1) }).is_err());
}

#[test]
fn pools_have_one_output_per_window() {
    let pool = Pool::new(PoolKind::Max, [2, 3])
        .with_stride([1, 2])
        .with_paddings([[1, 0], [0, 2]], Border::Zeros);
    let shape = PoolShape::new(pool, [3, 4, 5]).unwrap();
    assert_eq!((shape.output(), shape.n_outputs(), shape.n_inputs()), ([3, 4, 3], 36, 60));
    assert_eq!(shape.floats(&[1.0; 120]).unwrap().len(), 72);
}

/// Both zeros are equal: the first of them is the maximum.
#[test]
fn max_pool_takes_the_first_of_equal_values() {
    let shape = PoolShape::new(Pool::global(PoolKind::Max, [1, 2]), [1, 1, 2]).unwrap();
    for zeros in [[0.0_f64, -0.0], [-0.0, 0.0]] {
        let first = zeros[0].to_bits();
        assert_eq!(shape.floats(&zeros).unwrap()[0].to_bits(), first);
        assert_eq!(reference::pool_floats(&shape, &zeros)[0].to_bits(), first);
    }
}

/// Sums above 2^53, which no f64 holds exactly, decode alike one by one and together.
#[test]
fn decode_all_of_large_sums_equals_decode() {
    let length = Length::new((1 << 34) - 1).unwrap();
    let fan_ins = [(1 << 21) + 1, (1 << 21) - 1];
    for polarity in Polarity::ALL {
        let counts: Vec<u64> = (0..200u64).map(|k| k * 0x1_2345_6789 + 1).collect();
        let each = counts
            .iter()
            .zip(fan_ins.iter().cycle())
            .map(|(&count, &n)| polarity.decode(count, n, length));
        assert_eq!(
            polarity.decode_rows(&counts, &fan_ins, length),
            each.collect::<Vec<f64>>(),
            "{polarity}"
        );
    }
}

#[test]
fn polarity_names_round_trip_through_text() {
    let names = Polarity::ALL.map(|polarity| polarity.to_string());
    assert_eq!(names, ["unipolar", "bipolar", "signed"]);
    assert_eq!(names.map(|name| name.parse::<Polarity>().unwrap()), Polarity::ALL);
}
