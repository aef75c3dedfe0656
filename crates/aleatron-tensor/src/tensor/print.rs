//! Text of tensors, in the notation of NumPy.
//!
//! `{}` prints the elements, `{:?}` the elements with shape, type and device. A tensor of more than
//! 1,000 elements is summarized: each long axis shows its first and its last elements around `...`,
//! and only these are computed and read. `{:.3}` prints at most 3 digits after the point.

use std::fmt::{self, Write};

use half::f16;

use super::Tensor;
use crate::dtype::DType;
use crate::error::Result;

/// The number of elements up to which all of them are printed.
const SUMMARY_THRESHOLD: usize = 1000;

/// Columns of a line.
const LINE_WIDTH: usize = 75;

/// Digits after the point, unless the caller asks for another number.
const PRECISION: usize = 8;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = f.precision().unwrap_or(PRECISION);
        f.write_str(&text(self, precision, " ", 0))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = f.precision().unwrap_or(PRECISION);
        let values = text(self, precision, ", ", "Tensor(".len());
        let (shape, dtype, device) = (self.shape(), self.dtype(), self.device());
        write!(f, "Tensor({values}, shape={shape:?}, dtype={dtype}, device={device})")
    }
}

/// Returns the elements as text, or the reason why they cannot be read.
fn text(tensor: &Tensor, precision: usize, separator: &str, start: usize) -> String {
    let Some(edge) = edge(tensor.shape()) else { return "[...]".to_owned() };
    match corner(tensor, edge).and_then(|shown| cells(&shown, precision)) {
        Ok(cells) => {
            let lines = Lines { shape: tensor.shape(), edge, separator, start };
            let mut out = String::new();
            lines.write(&mut out, &mut cells.into_iter(), 0);
            out
        }
        Err(error) => format!("<{error}>"),
    }
}

/// Returns the number of elements shown at either end of a long axis; `None` if even one at each
/// end would be too many.
fn edge(shape: &[usize]) -> Option<usize> {
    let shown = |edge: usize| {
        shape
            .iter()
            .try_fold(1usize, |n, &size| n.checked_mul(size.min(2 * edge)))
            .unwrap_or(usize::MAX)
    };
    if shown(usize::MAX / 2) <= SUMMARY_THRESHOLD {
        return Some(usize::MAX / 2);
    }
    [3, 2, 1].into_iter().find(|&edge| shown(edge) <= 4 * SUMMARY_THRESHOLD)
}

/// Returns the elements that are shown.
fn corner(tensor: &Tensor, edge: usize) -> Result<Tensor> {
    let mut shown = tensor.clone();
    for axis in 0..tensor.rank() {
        let size = shown.shape()[axis];
        if size > edge.saturating_mul(2) {
            let along = axis as isize;
            let (first, last) = (shown.slice(along, ..edge)?, shown.slice(along, size - edge..)?);
            shown = Tensor::concat(&[&first, &last], along)?;
        }
    }
    Ok(shown)
}

/// Returns the text of every element, all of one width.
fn cells(tensor: &Tensor, precision: usize) -> Result<Vec<String>> {
    let cells: Vec<String> = match tensor.dtype() {
        DType::F64 => floats(&tensor.to_vec::<f64>()?, precision),
        DType::F32 => floats(&tensor.to_vec::<f32>()?, precision),
        DType::F16 => floats(&tensor.to_vec::<f16>()?, precision),
        DType::I32 => tensor.to_vec::<i32>()?.iter().map(ToString::to_string).collect(),
        DType::I64 => tensor.to_vec::<i64>()?.iter().map(ToString::to_string).collect(),
        DType::U8 => tensor.to_vec::<u8>()?.iter().map(ToString::to_string).collect(),
        DType::Bool => tensor.to_vec::<bool>()?.iter().map(ToString::to_string).collect(),
    };
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    Ok(cells.into_iter().map(|cell| format!("{cell:>width$}")).collect())
}

/// A float whose shortest decimal form is known.
trait Decimal: Copy {
    fn widened(self) -> f64;

    /// Returns the shortest digits that parse as this number, as `d.ddde±x`.
    fn shortest(self) -> String;
}

impl Decimal for f64 {
    fn widened(self) -> f64 {
        self
    }

    fn shortest(self) -> String {
        format!("{self:e}")
    }
}

impl Decimal for f32 {
    fn widened(self) -> f64 {
        self.into()
    }

    fn shortest(self) -> String {
        format!("{self:e}")
    }
}

impl Decimal for f16 {
    fn widened(self) -> f64 {
        self.into()
    }

    fn shortest(self) -> String {
        let value = f64::from(self);
        let mut digits = (0..5).map(|digits| format!("{value:.digits$e}"));
        digits
            .find(|text| text.parse::<f64>().is_ok_and(|parsed| f16::from_f64(parsed) == self))
            .unwrap_or_else(|| format!("{value:e}"))
    }
}

fn floats<T: Decimal>(values: &[T], precision: usize) -> Vec<String> {
    let magnitudes =
        || values.iter().map(|x| x.widened().abs()).filter(|x| x.is_finite() && *x != 0.0);
    let (largest, smallest) =
        (magnitudes().fold(0.0, f64::max), magnitudes().fold(f64::INFINITY, f64::min));
    // NumPy's rule for exponents.
    let is_scientific = largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000.0;
    let texts: Vec<String> = values
        .iter()
        .map(|&x| match x.widened() {
            value if !value.is_finite() => {
                if value.is_nan() {
                    "nan".to_owned()
                } else {
                    value.to_string()
                }
            }
            _ if is_scientific => scientific(x, precision),
            _ => positional(x, precision),
        })
        .collect();
    // Decimal points are aligned.
    let fraction = |text: &String| match text.split_once('.') {
        Some((_, fraction)) => fraction.find('e').unwrap_or(fraction.len()),
        None => 0,
    };
    let digits = texts.iter().map(fraction).max().unwrap_or(0);
    let padded = |text: String| {
        let missing = digits - fraction(&text);
        match (text.find('.'), text.find('e')) {
            (None, _) => text,
            (Some(_), Some(exponent)) => {
                format!("{}{}{}", &text[..exponent], "0".repeat(missing), &text[exponent..])
            }
            (Some(_), None) => format!("{text}{}", " ".repeat(missing)),
        }
    };
    texts.into_iter().map(padded).collect()
}

/// Formats a number like `12.5`, with at most this many digits after the point.
fn positional<T: Decimal>(x: T, precision: usize) -> String {
    // The shortest digits are also a number that prints without an exponent.
    let exact = x.shortest().parse::<f64>().unwrap_or_else(|_| x.widened());
    let mut text = exact.to_string();
    if text.split_once('.').is_some_and(|(_, fraction)| fraction.len() > precision) {
        text = format!("{exact:.precision$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    if !text.contains('.') {
        text.push('.');
    }
    text
}

/// Formats a number like `1.25e+01`, with at most this many digits after the point.
fn scientific<T: Decimal>(x: T, precision: usize) -> String {
    let mut text = x.shortest();
    let digits = |text: &str| text.find('e').unwrap_or(text.len());
    if text.split_once('.').is_some_and(|(_, rest)| digits(rest) > precision) {
        text = format!("{:.precision$e}", x.widened());
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => format!("{whole}.{}", fraction.trim_end_matches('0')),
        None => format!("{mantissa}."),
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// The arrangement of elements in lines and brackets.
struct Lines<'a> {
    shape: &'a [usize],
    edge: usize,
    separator: &'a str,
    /// The columns before the first bracket.
    start: usize,
}

impl Lines<'_> {
    /// Writes the elements of one index of the first `depth` axes.
    fn write(&self, out: &mut String, cells: &mut impl Iterator<Item = String>, depth: usize) {
        let Some(&size) = self.shape.get(depth) else {
            out.extend(cells.next());
            return;
        };
        out.push('[');
        let is_cut = size > self.edge.saturating_mul(2);
        let (first, last) = if is_cut { (self.edge, self.edge) } else { (size, 0) };
        for i in 0..first + last {
            if is_cut && i == first {
                self.separate(out, depth, "...".len());
                out.push_str("...");
            }
            let is_row = depth + 1 == self.shape.len();
            let cell = if is_row { cells.next().unwrap_or_default() } else { String::new() };
            if i > 0 {
                self.separate(out, depth, cell.len());
            }
            if is_row {
                out.push_str(&cell);
            } else {
                self.write(out, cells, depth + 1);
            }
        }
        out.push(']');
    }

    /// Writes the separator of two items of an axis: a blank, or line breaks above the last axis
    /// and in long rows.
    fn separate(&self, out: &mut String, depth: usize, next: usize) {
        let breaks = self.shape.len() - depth - 1;
        out.push_str(self.separator);
        let column = match out.rfind('\n') {
            Some(at) => out.len() - at - 1,
            None => self.start + out.len(),
        };
        if breaks > 0 || column + next > LINE_WIDTH {
            out.truncate(out.trim_end().len());
            let indent = self.start + depth + 1;
            let _ = write!(out, "{}{:indent$}", "\n".repeat(breaks.max(1)), "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn of(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
    }

    /// The expected texts are those of `print` of NumPy 2 for the same float32 arrays.
    #[test]
    fn floats_are_printed_as_by_numpy() {
        for (values, expected) in [
            (&[1.0, 2.5, -3.25][..], "[ 1.    2.5  -3.25]"),
            (&[0.1, 0.2], "[0.1 0.2]"),
            (&[1.0 / 3.0, 1.0], "[0.33333334 1.        ]"),
            (&[1e10, 1.5], "[1.0e+10 1.5e+00]"),
            (&[1e-5], "[1.e-05]"),
            (&[f32::NAN, 1.0, f32::INFINITY, f32::NEG_INFINITY], "[ nan   1.  inf -inf]"),
            (&[0.0, -0.0], "[ 0. -0.]"),
            (&[], "[]"),
            (&[123_456.79], "[123456.79]"),
            (&[1234.5678, 0.001], "[1.2345677e+03 1.0000000e-03]"),
        ] {
            assert_eq!(of(values, &[values.len()]).to_string(), expected);
        }
        let halves = of(&[0.1, 1.0, 65504.0], &[3]).cast(DType::F16).unwrap();
        assert_eq!(halves.to_string(), "[1.00e-01 1.00e+00 6.55e+04]");
        assert_eq!(halves.slice(0, ..2).unwrap().to_string(), "[0.1 1. ]");
        assert_eq!(format!("{:.2}", of(&[1.0 / 3.0, 2.0], &[2])), "[0.33 2.  ]");
    }

    #[test]
    fn axes_are_nested_and_long_ones_summarized() {
        let x = of(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        assert_eq!(x.to_string(), "[[1. 2.]\n [3. 4.]]");
        let debug = "Tensor([[1., 2.],\n        [3., 4.]], shape=[2, 2], dtype=f32, device=cpu)";
        assert_eq!(format!("{x:?}"), debug);
        assert_eq!(of(&[5.0], &[]).to_string(), "5.");
        let cube =
            Tensor::arange(0, 8, 1, DType::I32, &Device::Cpu).unwrap().reshape(&[2, 2, 2]).unwrap();
        assert_eq!(cube.to_string(), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
        let long = Tensor::arange(0, 2000, 1, DType::I32, &Device::Cpu).unwrap();
        assert_eq!(long.to_string(), "[   0    1    2 ... 1997 1998 1999]");
        let square = long.slice(0, ..1600).unwrap().reshape(&[40, 40]).unwrap();
        assert_eq!(square.to_string().lines().count(), 7);
        assert_eq!(square.to_string().lines().nth(3), Some(" ..."));
        let row = Tensor::arange(0, 30, 1, DType::I32, &Device::Cpu).unwrap().to_string();
        assert!(row.lines().count() == 2 && row.lines().all(|line| line.len() <= 75), "{row}");
    }

    #[test]
    fn views_larger_than_memory_are_printed() {
        let wide = of(&[1.0], &[1]).broadcast_to(&[1 << 20, 1 << 20]).unwrap();
        assert_eq!(wide.to_string().lines().next(), Some("[[1. 1. 1. ... 1. 1. 1.]"));
        let deep = of(&[1.0], &[1]).reshape(&[1; 20]).unwrap().broadcast_to(&[7; 20]).unwrap();
        assert_eq!(deep.to_string(), "[...]");
    }
}
