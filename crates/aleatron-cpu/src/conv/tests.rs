#![allow(clippy::unwrap_used)]
use super::*;
use aleatron_core::Convolution;

fn shapes() -> Vec<ConvShape> {
    let conv = Convolution::conv2d;
    let convolutions = [
        conv([2, 4, 5], 3, [3, 2]).with_padding([1, 1]),
        conv([4, 5, 5], 2, [3, 3])
            .with_groups(2)
            .with_stride([2, 1])
            .with_paddings([[0, 2], [3, 0]]),
        conv([3, 6, 9], 2, [2, 3]).with_stride([1, 2]).with_padding([0, 2]),
        conv([1, 5, 11], 2, [3, 2]).with_stride([2, 3]).with_padding([1, 0]),
        conv([1, 6, 7], 1, [2, 3]).with_dilation([2, 3]).with_padding([2, 2]),
        conv([1, 1, 1], 2, [1, 1]).with_padding([2, 1]),
        conv([2, 1, 50], 1, [1, 3]),
        // Some items lie entirely in the padding.
        conv([3, 2, 2], 1, [1, 2]).with_paddings([[0, 0], [70, 90]]),
        conv([3, 2, 2], 1, [1, 1]).with_paddings([[9, 9], [0, 0]]),
    ];
    convolutions.map(|convolution| ConvShape::new(convolution).unwrap()).to_vec()
}

/// Returns the taps of a kernel in the order of panels.
fn taps(shape: &ConvShape) -> Vec<usize> {
    let mut taps: Vec<usize> = (0..shape.kernel_weights()).collect();
    reorder(shape, 1, &mut taps);
    taps
}

#[test]
fn reordered_kernel_is_by_column_row_and_channel() {
    let shape = ConvShape::new(Convolution::conv2d([2, 9, 9], 1, [2, 3])).unwrap();
    // Taps are by channel, row and column.
    assert_eq!(taps(&shape), [0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11]);
    let mut pairs: Vec<usize> = (0..24).collect();
    reorder(&shape, 2, &mut pairs);
    assert_eq!(pairs[..6], [0, 1, 12, 13, 6, 7]);
}

/// Rows of panels hold the inputs of the shape, tap by tap, for streams of 1 to 5 words and for
/// terms.
#[test]
fn panel_rows_hold_the_inputs_under_the_kernel() {
    for shape in shapes() {
        for words in 1..=5 {
            let image: Vec<u64> = (1..=(words * shape.n_inputs()) as u64).collect();
            for (first_channel, _) in shape.groups() {
                for item in items_of(&shape, 4) {
                    check_item(&shape, first_channel, words, &image, &item);
                }
            }
        }
    }
}

fn check_item(
    shape: &ConvShape,
    first_channel: usize,
    words: usize,
    image: &[u64],
    item: &Range<usize>,
) {
    let region = Region::under(shape, item);
    let (mut pixels, mut flags) = (vec![7; 3], Vec::new());
    region.fill_streams(shape, first_channel, image, words, &mut pixels).unwrap();
    region.fill(shape, first_channel, &mut flags, |input| input as u64 + 1).unwrap();
    let mut panel = Panel::new(shape);
    let (mut rows, mut numbers) = (vec![7; 1000], vec![7; 1000]);
    for start in item.clone().step_by(7) {
        let positions = start..item.end.min(start + 7);
        panel.arrange(positions.clone());
        let per_pixel = shape.group_inputs();
        panel.fill(&region, &pixels, per_pixel * words, &mut rows).unwrap();
        panel.fill(&region, &flags, per_pixel, &mut numbers).unwrap();
        for (position, column) in positions.zip(&panel.starts) {
            let at = column * shape.convolution().kernel[0] * per_pixel;
            let inputs =
                taps(shape).into_iter().map(|tap| shape.input_at(first_channel, position, tap));
            let expected: Vec<u64> =
                inputs.clone().map(|input| input.map_or(0, |i| i as u64 + 1)).collect();
            assert_eq!(numbers[at..][..expected.len()], expected, "{shape:?}, position {position}");
            let stream = |input: Option<usize>| (0..words).map(move |k| (input, k));
            let expected: Vec<u64> = inputs
                .flat_map(stream)
                .map(|(input, k)| input.map_or(0, |input| image[input * words + k]))
                .collect();
            assert_eq!(
                rows[at * words..][..expected.len()],
                expected,
                "{shape:?}, position {position}"
            );
        }
    }
}

fn items_of(shape: &ConvShape, n: usize) -> Vec<Range<usize>> {
    let cpu = Cpu::new(crate::Tier::current().unwrap(), crate::threads::current().unwrap());
    let length = Length::new(64).unwrap();
    let streams = WordBuffer::zeroed(shape.n_weights(), Quantity::Weights).unwrap();
    ConvWeights::new(&cpu, *shape, length, Polarity::Unipolar, streams, Vec::new())
        .unwrap()
        .items(n)
}

#[test]
fn items_cover_all_positions_in_order() {
    let wide = ConvShape::new(Convolution::conv2d([1, 2, 1000], 1, [1, 1])).unwrap();
    let high = ConvShape::new(Convolution::conv2d([1, 1000, 3], 1, [3, 3])).unwrap();
    let large = ConvShape::new(Convolution::conv2d([512, 40, 40], 1, [3, 3])).unwrap();
    for (shape, n, least) in
        [(wide, 1, 1), (wide, 9, 9), (high, 20, 20), (high, 1, 1), (large, 1, 8)]
    {
        let items = items_of(&shape, n);
        assert!(items.len() >= least, "{} items of {shape:?}", items.len());
        let mut next = 0;
        for item in items {
            assert_eq!(item.start, next);
            assert!(!item.is_empty());
            let width = shape.output()[2];
            let is_whole = item.start % width == 0 && item.end % width == 0;
            assert!(
                is_whole || item.start / width == (item.end - 1) / width,
                "{item:?} of {shape:?}"
            );
            next = item.end;
        }
        assert_eq!(next, shape.n_positions());
    }
}

#[test]
fn border_sums_equal_sums_of_taps_inside() {
    for shape in shapes() {
        let values: Vec<u64> = (0..shape.n_weights() as u64).map(|k| k * k + 1).collect();
        let borders = Borders::new(&shape, Some(&values)).unwrap();
        for (first_channel, channels) in shape.groups() {
            for (position, channel) in
                (0..shape.n_positions()).flat_map(|p| channels.clone().map(move |c| (p, c)))
            {
                let taps =
                    values[channel * shape.kernel_weights()..].iter().take(shape.kernel_weights());
                let inside = taps
                    .enumerate()
                    .filter(|(tap, _)| shape.input_at(first_channel, position, *tap).is_some());
                let expected: u64 = inside.map(|(_, value)| value).sum();
                assert_eq!(
                    borders.inside(position)[channel],
                    expected,
                    "{shape:?}, position {position}"
                );
            }
        }
    }
}
