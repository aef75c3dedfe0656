//! Integer inter-layer arithmetic in f64; the caller ensures that every intermediate integer is
//! exact. Vector registers of every processor multiply and compare f64, but not all of them support
//! integers of 64 bits.

use aleatron_core::arithmetic::PoolKind;
use aleatron_core::threshold::NEGATIVE;
use std::ops::Range;

/// From this number to twice it, the low bits of an f64 are the integer.
pub(crate) const SHIFT: f64 = (1u64 << 52) as f64;

/// The middle of that interval, for integers of either sign: between -2^51 and 2^51 from it, the
/// distance in bits is the integer.
pub(crate) const MIDDLE: f64 = 1.5 * SHIFT;

/// Converts a count to an accumulated value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumLanes {
    /// 2^52 times the increment of a count of 1, a power of two: from there on, the low bits of a
    /// number count in that unit.
    pub(crate) shift: f64,
    /// The lower bound.
    pub(crate) low: f64,
    /// The upper bound.
    pub(crate) high: f64,
}

impl SumLanes {
    /// Returns the accumulated value for a count below 2^52 of a neuron.
    #[inline(always)]
    fn accumulated(self, count: u64, offset: f64) -> f64 {
        let sum = f64::from_bits(count | self.shift.to_bits()) - self.shift + offset;
        limited(sum, self.low, self.high)
    }
}

/// Converts an accumulated value to a threshold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelLanes {
    /// The multiplier over the power of two of the shift.
    pub(crate) multiplier: f64,
    /// Half of the distance between two products, so that none is half way between two integers; 0
    /// if all are integers.
    pub(crate) tie: f64,
    /// The threshold of 0, offset by [`MIDDLE`].
    pub(crate) zero: f64,
    /// The threshold of the stream of ones.
    pub(crate) one: f64,
    /// Number of bits that the generator's comparator has beyond this one.
    pub(crate) unused: u32,
    /// Whether thresholds have signs.
    pub(crate) signs: Signs,
}

/// Whether the operands of a layer have signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    /// Thresholds have no signs.
    None,
    /// The highest bit of a threshold, [`NEGATIVE`], is a sign.
    HighestBit,
}

impl LevelLanes {
    /// Returns the threshold before saturation, offset by [`MIDDLE`]. Adding to such a large number
    /// rounds to the nearest integer.
    #[inline(always)]
    fn level(self, accumulated: f64) -> f64 {
        (accumulated * self.multiplier + self.tie) + self.zero
    }

    /// Returns a threshold without a sign, and whether it saturated.
    #[inline(always)]
    fn threshold(self, accumulated: f64) -> (u64, bool) {
        let exact = self.level(accumulated);
        let inside = limited(exact, MIDDLE, MIDDLE + self.one);
        (inside.to_bits().wrapping_sub(MIDDLE.to_bits()) << self.unused, exact != inside)
    }

    /// Returns a threshold with a sign, and whether it saturated.
    #[inline(always)]
    fn signed_threshold(self, accumulated: f64) -> (u64, bool) {
        let exact = self.level(accumulated) - MIDDLE;
        let inside = limited(exact.abs(), 0.0, self.one);
        // The sign of the number is that of the threshold; no difference is -0.
        let magnitude = (inside + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) << self.unused;
        (magnitude | exact.to_bits() & NEGATIVE, exact.abs() != inside)
    }
}

/// Converts counts to thresholds; the number of counts is a multiple of the number of offsets.
/// Returns the number of saturated thresholds.
#[inline(always)]
pub(crate) fn requantize(
    sum: SumLanes,
    level: LevelLanes,
    offsets: &[f64],
    counts: &mut [u64],
) -> u64 {
    match level.signs {
        Signs::None => {
            each(offsets, counts, |count, offset| level.threshold(sum.accumulated(count, offset)))
        }
        Signs::HighestBit => each(offsets, counts, |count, offset| {
            level.signed_threshold(sum.accumulated(count, offset))
        }),
    }
}

/// Converts accumulated values to thresholds. Returns the number of saturated thresholds.
#[inline(always)]
pub(crate) fn thresholds(level: LevelLanes, accumulated: &[f64], out: &mut [u64]) -> u64 {
    match level.signs {
        Signs::None => write_each(accumulated, out, |accumulated| level.threshold(accumulated)),
        Signs::HighestBit => {
            write_each(accumulated, out, |accumulated| level.signed_threshold(accumulated))
        }
    }
}

/// Converts integers to thresholds with a multiplier and a tie for each, repeated over them.
/// Returns the number of saturated thresholds.
#[inline(always)]
pub(crate) fn thresholds_each(
    level: LevelLanes,
    [multipliers, ties]: [&[f64]; 2],
    accumulated: &[f64],
    out: &mut [u64],
) -> u64 {
    match level.signs {
        Signs::None => {
            each_level(level, [multipliers, ties], accumulated, out, LevelLanes::threshold)
        }
        Signs::HighestBit => {
            each_level(level, [multipliers, ties], accumulated, out, LevelLanes::signed_threshold)
        }
    }
}

#[inline(always)]
fn each_level(
    level: LevelLanes,
    [multipliers, ties]: [&[f64]; 2],
    accumulated: &[f64],
    out: &mut [u64],
    threshold: impl Fn(LevelLanes, f64) -> (u64, bool),
) -> u64 {
    let mut saturated = 0;
    let len = multipliers.len().max(1);
    for (out, accumulated) in out.chunks_mut(len).zip(accumulated.chunks(len)) {
        let constants = multipliers.iter().zip(ties);
        for ((out, &accumulated), (&multiplier, &tie)) in
            out.iter_mut().zip(accumulated).zip(constants)
        {
            let (result, is_outside) =
                threshold(LevelLanes { multiplier, tie, ..level }, accumulated);
            *out = result;
            saturated += u64::from(is_outside);
        }
    }
    saturated
}

/// Converts counts to floats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeLanes {
    /// 2^52 times the increment of a sum by a count of 1.
    pub(crate) shift: f64,
    /// The stream length, by which sums are divided.
    pub(crate) divisor: f64,
    /// The method of division.
    pub(crate) division: Division,
    /// The least value after the activation.
    pub(crate) low: f64,
    /// The greatest value after the activation.
    pub(crate) high: f64,
}

/// The constants of the rows of weights of a layer.
#[derive(Debug, Clone)]
pub(crate) enum DecodeRows {
    /// One row for each neuron; the neurons may repeat.
    Neurons {
        /// The subtrahends of sums.
        offsets: Vec<f64>,
        /// The value of a sum of 1.
        scales: Vec<f64>,
        /// The biases.
        bias: Vec<f64>,
    },
    /// One row for each output channel.
    Channels {
        /// The subtrahend of the sum at each position.
        offsets: Vec<f64>,
        /// Scale and bias of each channel.
        rows: Vec<(f64, f64)>,
    },
}

/// Decodes counts of whole samples.
#[inline(always)]
pub(crate) fn decode(lanes: DecodeLanes, rows: &DecodeRows, counts: &[u64], out: &mut [f64]) {
    let (divisor, reciprocal) = (lanes.divisor, 1.0 / lanes.divisor);
    match lanes.division {
        Division::Exact => decode_with(lanes, rows, counts, out, |sum| sum / divisor),
        Division::Reciprocal => decode_with(lanes, rows, counts, out, |sum| sum * reciprocal),
    }
}

#[inline(always)]
fn decode_with(
    lanes: DecodeLanes,
    rows: &DecodeRows,
    counts: &[u64],
    out: &mut [f64],
    divide: impl Fn(f64) -> f64,
) {
    let value = |count: u64, offset: f64, scale: f64, bias: f64| {
        let sum = f64::from_bits(count | lanes.shift.to_bits()) - lanes.shift - offset;
        limited(divide(sum) * scale + bias, lanes.low, lanes.high)
    };
    match rows {
        DecodeRows::Neurons { offsets, scales, bias } => {
            let len = offsets.len().max(1);
            for (out, counts) in out.chunks_mut(len).zip(counts.chunks(len)) {
                let constants = offsets.iter().zip(scales).zip(bias);
                for ((out, &count), ((&offset, &scale), &bias)) in
                    out.iter_mut().zip(counts).zip(constants)
                {
                    *out = value(count, offset, scale, bias);
                }
            }
        }
        DecodeRows::Channels { offsets, rows } => {
            let len = offsets.len().max(1);
            let channels = out.chunks_mut(len).zip(counts.chunks(len)).zip(rows.iter().cycle());
            for ((out, counts), &(scale, bias)) in channels {
                for ((out, &count), &offset) in out.iter_mut().zip(counts).zip(offsets) {
                    *out = value(count, offset, scale, bias);
                }
            }
        }
    }
}

/// Applies `threshold` to each value. Returns the number of saturated thresholds.
#[inline(always)]
fn write_each(accumulated: &[f64], out: &mut [u64], threshold: impl Fn(f64) -> (u64, bool)) -> u64 {
    let mut saturated = 0;
    for (out, &accumulated) in out.iter_mut().zip(accumulated) {
        let (result, is_outside) = threshold(accumulated);
        *out = result;
        saturated += u64::from(is_outside);
    }
    saturated
}

/// Replaces counts by thresholds, each with the offset of its neuron. Returns the number of
/// saturated thresholds.
#[inline(always)]
fn each(offsets: &[f64], counts: &mut [u64], threshold: impl Fn(u64, f64) -> (u64, bool)) -> u64 {
    let mut saturated = 0;
    for row in counts.chunks_mut(offsets.len().max(1)) {
        for (count, &offset) in row.iter_mut().zip(offsets) {
            let (result, is_outside) = threshold(*count, offset);
            *count = result;
            saturated += u64::from(is_outside);
        }
    }
    saturated
}

/// Converts counts to accumulated values.
#[inline(always)]
pub(crate) fn accumulate(sum: SumLanes, offsets: &[f64], counts: &[u64], out: &mut [f64]) {
    let len = offsets.len().max(1);
    for (out, counts) in out.chunks_mut(len).zip(counts.chunks(len)) {
        for ((out, &count), &offset) in out.iter_mut().zip(counts).zip(offsets) {
            *out = sum.accumulated(count, offset);
        }
    }
}

/// The windows of a pool over the rows and columns of an image.
#[derive(Debug, Clone)]
pub(crate) struct PoolLanes {
    /// The reduction of a window.
    pub(crate) kind: PoolKind,
    /// The rows of the image in each row of windows.
    pub(crate) rows: Vec<Range<usize>>,
    /// The columns of the image in each column of windows.
    pub(crate) columns: Vec<Range<usize>>,
    /// The arrangement of the columns.
    pub(crate) column_windows: ColumnWindows,
    /// The number of rows of the image.
    pub(crate) height: usize,
    /// The number of columns of the image.
    pub(crate) width: usize,
    /// The number of values of every window, if values outside the image count.
    pub(crate) whole: Option<usize>,
}

/// The arrangement of windows along the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnWindows {
    /// Adjacent windows of two columns each, from the first column on.
    Pairs,
    /// Any arrangement.
    Any,
}

/// Pools one channel, each of whose windows overlaps the image; `row` has as many elements as the
/// image has columns. Integer addition is associative, so the rows of a window are reduced first,
/// in vector registers.
#[inline(always)]
pub(crate) fn pool(lanes: &PoolLanes, image: &[f64], row: &mut [f64], out: &mut [f64]) {
    match lanes.kind {
        PoolKind::Max => {
            let greater = |best: f64, value: f64| if value > best { value } else { best };
            windows(lanes, image, row, out, greater);
        }
        PoolKind::Average => {
            windows(lanes, image, row, out, |sum, value| sum + value);
            for (rows, out) in lanes.rows.iter().zip(out.chunks_mut(lanes.columns.len().max(1))) {
                for (columns, out) in lanes.columns.iter().zip(out) {
                    let n = lanes.whole.unwrap_or(rows.len() * columns.len()) as f64;
                    *out = floor((2.0 * *out + n) / (2.0 * n));
                }
            }
        }
    }
}

/// Folds the values of each window with `step`, in any order.
#[inline(always)]
fn windows(
    lanes: &PoolLanes,
    image: &[f64],
    row: &mut [f64],
    out: &mut [f64],
    step: impl Fn(f64, f64) -> f64,
) {
    let width = lanes.width;
    for (rows, out) in lanes.rows.iter().zip(out.chunks_mut(lanes.columns.len().max(1))) {
        let (first, rest) = image[rows.start * width..rows.end * width].split_at(width);
        if rest.len() == width && lanes.column_windows == ColumnWindows::Pairs {
            let pairs = first.as_chunks::<2>().0.iter().zip(rest.as_chunks::<2>().0);
            for (out, (upper, lower)) in out.iter_mut().zip(pairs) {
                *out = step(step(upper[0], upper[1]), step(lower[0], lower[1]));
            }
            continue;
        }
        row.copy_from_slice(first);
        for values in rest.chunks_exact(width) {
            row.iter_mut().zip(values).for_each(|(result, &value)| *result = step(*result, value));
        }
        for (out, columns) in out.iter_mut().zip(&lanes.columns) {
            let (first, rest) = (row[columns.start], &row[columns.start + 1..columns.end]);
            *out = rest.iter().fold(first, |result, &value| step(result, value));
        }
    }
}

/// Returns the greatest integer not above a number between -2^51 and 2^51.
#[inline(always)]
pub(crate) fn floor(x: f64) -> f64 {
    let nearest = (x + MIDDLE) - MIDDLE;
    if nearest > x { nearest - 1.0 } else { nearest }
}

/// Converts floats to thresholds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizeLanes {
    /// The least and the greatest accepted value, after the division.
    pub(crate) allowed: [f64; 2],
    /// The value that becomes 1.
    pub(crate) divisor: f64,
    /// The method of division.
    pub(crate) division: Division,
    /// The least and the greatest value that streams can encode.
    pub(crate) interval: [f64; 2],
    /// The term added to a value before it is multiplied.
    pub(crate) addend: f64,
    /// The factor that converts the sum to a threshold.
    pub(crate) levels: f64,
    /// Number of bits that the generator's comparator has beyond this one.
    pub(crate) unused: u32,
    /// Whether thresholds have signs.
    pub(crate) signs: Signs,
}

/// The method of division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    /// Division.
    Exact,
    /// Multiplication by the reciprocal, which is exact.
    Reciprocal,
}

/// The outcome of a conversion to thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Saturation {
    /// The number of values outside the interval of streams.
    pub(crate) saturated: u64,
    /// The number of rejected values, including NaN.
    pub(crate) refused: u64,
}

/// Converts values to thresholds; if some are rejected, the output is unspecified.
#[inline(always)]
pub(crate) fn quantize(lanes: QuantizeLanes, values: &[f64], out: &mut [u64]) -> Saturation {
    let (divisor, reciprocal) = (lanes.divisor, 1.0 / lanes.divisor);
    match (lanes.division, lanes.signs) {
        (Division::Exact, Signs::None) => unsigned(lanes, values, out, |x| x / divisor),
        (Division::Exact, Signs::HighestBit) => signed(lanes, values, out, |x| x / divisor),
        (Division::Reciprocal, Signs::None) => unsigned(lanes, values, out, |x| x * reciprocal),
        (Division::Reciprocal, Signs::HighestBit) => signed(lanes, values, out, |x| x * reciprocal),
    }
}

#[inline(always)]
fn unsigned(
    lanes: QuantizeLanes,
    values: &[f64],
    out: &mut [u64],
    divide: impl Fn(f64) -> f64,
) -> Saturation {
    each_value(lanes, values, out, divide, |value| {
        rounded((value + lanes.addend) * lanes.levels) << lanes.unused
    })
}

#[inline(always)]
fn signed(
    lanes: QuantizeLanes,
    values: &[f64],
    out: &mut [u64],
    divide: impl Fn(f64) -> f64,
) -> Saturation {
    each_value(lanes, values, out, divide, |value| {
        let sign = if value < 0.0 { NEGATIVE } else { 0 };
        rounded(value.abs() * lanes.levels) << lanes.unused | sign
    })
}

#[inline(always)]
fn each_value(
    lanes: QuantizeLanes,
    values: &[f64],
    out: &mut [u64],
    divide: impl Fn(f64) -> f64,
    threshold: impl Fn(f64) -> u64,
) -> Saturation {
    let ([least, most], [low, high]) = (lanes.allowed, lanes.interval);
    let (mut refused, mut saturated) = (0, 0);
    for (out, &value) in out.iter_mut().zip(values) {
        let value = divide(value);
        let inside = limited(value, low, high);
        refused += u64::from(!((least <= value) & (value <= most)));
        saturated += u64::from(value != inside);
        *out = threshold(inside);
    }
    Saturation { saturated, refused }
}

/// Returns `floor(x + 0.5)` of a number in 0..=2^32.
#[inline(always)]
fn rounded(x: f64) -> u64 {
    let x = x + 0.5;
    let nearest = (x + SHIFT) - SHIFT;
    let floor = if nearest > x { nearest - 1.0 } else { nearest };
    (floor + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits())
}

/// Limits a number to an interval, NaN to its lower end; each comparison in this form is one
/// instruction.
#[inline(always)]
fn limited(x: f64, low: f64, high: f64) -> f64 {
    let above = if x > low { x } else { low };
    if above < high { above } else { high }
}
