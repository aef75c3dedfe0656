//! Fourier transforms and window functions, computed in 64 bits.

use std::f64::consts::PI;

use aleatron_tensor::{DType, Device, Tensor};

use super::array::{Array, allocate, len};
use super::elementwise;
use super::inputs::{Inputs, axis, size};
use crate::error::{Error, Result};
use crate::op::SignalWindow;

/// A complex number.
type Complex = [f64; 2];

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Returns e^(2 pi i k / n).
fn unit(k: usize, n: usize) -> Complex {
    let angle = 2.0 * PI * k as f64 / n as f64;
    [angle.cos(), angle.sin()]
}

/// A transform of a length: x_k becomes the sum over j of x_j e^(sign 2 pi i j k / n).
struct Transform {
    n: usize,
    sign: f64,
    /// For lengths that are not a power of two: a convolution with e^(i pi k^2 / n), of a length
    /// that is a power of two.
    chirp: Option<Chirp>,
}

struct Chirp {
    factors: Vec<Complex>,
    /// The transform of the conjugate factors.
    kernel: Vec<Complex>,
}

/// Transforms in place, by halves; the length is a power of two.
fn by_halves(x: &mut [Complex], sign: f64) {
    let n = x.len();
    let bits = n.trailing_zeros();
    for k in 0..n {
        let reversed = if bits == 0 { 0 } else { k.reverse_bits() >> (usize::BITS - bits) };
        if k < reversed {
            x.swap(k, reversed);
        }
    }
    let mut half = 1;
    while half < n {
        let factors: Vec<Complex> = (0..half)
            .map(|k| {
                let [re, im] = unit(k, 2 * half);
                [re, sign * im]
            })
            .collect();
        for block in x.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), factor) in low.iter_mut().zip(high).zip(&factors) {
                let turned = times(*b, *factor);
                (*a, *b) =
                    ([a[0] + turned[0], a[1] + turned[1]], [a[0] - turned[0], a[1] - turned[1]]);
            }
        }
        half *= 2;
    }
}

impl Transform {
    fn new(n: usize, sign: f64) -> Self {
        if n.is_power_of_two() || n == 0 {
            return Self { n, sign, chirp: None };
        }
        // j k = (j^2 + k^2 - (k - j)^2) / 2; the squares are taken modulo 2 n, where the factors
        // repeat.
        let factors: Vec<Complex> = (0..n)
            .map(|k| {
                let square = (k as u128 * k as u128 % (2 * n as u128)) as usize;
                let [re, im] = unit(square, 2 * n);
                [re, sign * im]
            })
            .collect();
        let size = (2 * n - 1).next_power_of_two();
        let mut kernel = vec![[0.0; 2]; size];
        for (k, &[re, im]) in factors.iter().enumerate() {
            kernel[k] = [re, -im];
            kernel[(size - k) % size] = [re, -im];
        }
        by_halves(&mut kernel, -1.0);
        Self { n, sign, chirp: Some(Chirp { factors, kernel }) }
    }

    /// Transforms numbers in place.
    fn run(&self, x: &mut [Complex]) {
        let Some(Chirp { factors, kernel }) = &self.chirp else {
            by_halves(x, self.sign);
            return;
        };
        let size = kernel.len();
        let mut padded = vec![[0.0; 2]; size];
        for k in 0..self.n {
            padded[k] = times(x[k], factors[k]);
        }
        by_halves(&mut padded, -1.0);
        padded.iter_mut().zip(kernel).for_each(|(a, b)| *a = times(*a, *b));
        by_halves(&mut padded, 1.0);
        for k in 0..self.n {
            let [re, im] = times(padded[k], factors[k]);
            x[k] = [re / size as f64, im / size as f64];
        }
    }
}

/// Returns the number of parts of each element: 1 if they are real, 2 if they are complex.
fn parts(x: &Array<f32>) -> Result<usize> {
    match x.shape.last() {
        Some(&parts @ (1 | 2)) if x.shape.len() >= 2 => Ok(parts),
        _ => Err(Error::input(0, format!("the last size of shape {:?} must be 1 or 2", x.shape))),
    }
}

/// Checks a length given by an input: there must be enough memory for it.
fn length(number: i64, name: &str) -> Result<usize> {
    match size(number, name)? {
        0 => Err(Error::attribute(name, 0, "a positive number is needed")),
        n => {
            // A transform takes up to four numbers of 16 bytes for each of its own.
            aleatron_core::memory::check(128 * n as u128, aleatron_core::Quantity::Value)?;
            Ok(n)
        }
    }
}

pub(super) fn dft(
    inputs: &Inputs<'_>,
    given: Option<i64>,
    inverse: bool,
    onesided: bool,
) -> Result<Tensor> {
    let tensor = inputs.get(0)?;
    let x = Array::floats(tensor)?;
    let parts = parts(&x)?;
    let rank = x.shape.len();
    let number = match (given, inputs.maybe(2)) {
        (Some(number), _) => number,
        (None, Some(_)) => inputs.int(2)?,
        (None, None) => -2,
    };
    let axis = axis(number, rank)?;
    if axis == rank - 1 {
        return Err(Error::attribute(
            "axis",
            number,
            "the last axis is that of real and imaginary parts",
        ));
    }
    let [before, rows, after] = around(&x.shape[..rank - 1], axis)?;
    let is_real_output = inverse && onesided;
    if onesided && !inverse && parts == 2 {
        return Err(Error::attribute("onesided", 1, "the input must be real"));
    }
    let n = match inputs.maybe(1) {
        Some(_) => length(inputs.int(1)?, "dft_length")?,
        None if is_real_output => 2 * rows.saturating_sub(1),
        None => rows,
    };
    let bins = if onesided && !inverse { n / 2 + 1 } else { n };
    let mut shape = x.shape.clone();
    shape[axis] = bins;
    shape[rank - 1] = if is_real_output { 1 } else { 2 };
    let out_parts = shape[rank - 1];
    let mut out = Array::<f32>::full(&shape, 0.0)?;
    let transform = Transform::new(n, if inverse { 1.0 } else { -1.0 });
    let factor = if inverse { 1.0 / n.max(1) as f64 } else { 1.0 };
    let mut line = vec![[0.0; 2]; n];
    for i in 0..before {
        for j in 0..after {
            let element = |k: usize| {
                let first = ((i * rows + k) * after + j) * parts;
                [
                    f64::from(x.data[first]),
                    if parts == 2 { f64::from(x.data[first + 1]) } else { 0.0 },
                ]
            };
            line.fill([0.0; 2]);
            for (k, value) in line.iter_mut().enumerate().take(rows.min(n)) {
                *value = element(k);
            }
            if is_real_output {
                // The second half of the spectrum of a real signal mirrors the first.
                for k in n / 2 + 1..n {
                    let [re, im] = line[n - k];
                    line[k] = [re, -im];
                }
            }
            transform.run(&mut line);
            for (k, &[re, im]) in line.iter().enumerate().take(bins) {
                let first = ((i * bins + k) * after + j) * out_parts;
                out.data[first] = (re * factor) as f32;
                if out_parts == 2 {
                    out.data[first + 1] = (im * factor) as f32;
                }
            }
        }
    }
    out.tensor_as(tensor.dtype())
}

pub(super) fn stft(inputs: &Inputs<'_>, onesided: bool) -> Result<Tensor> {
    let tensor = inputs.get(0)?;
    let x = Array::floats(tensor)?;
    // Real signals may come without an axis of parts.
    let (batch, n, parts) = match *x.shape.as_slice() {
        [batch, n] => (batch, n, 1),
        [batch, n, parts @ (1 | 2)] => (batch, n, parts),
        _ => {
            return Err(Error::input(
                0,
                format!("shape {:?}; [N, length, 1 or 2] is needed", x.shape),
            ));
        }
    };
    if onesided && parts == 2 {
        return Err(Error::attribute("onesided", 1, "the signal must be real"));
    }
    let step = length(inputs.int(1)?, "frame_step")?;
    let window = inputs.maybe(2).map(Array::floats).transpose()?;
    let frame = match (inputs.maybe(3), &window) {
        (Some(_), _) => length(inputs.int(3)?, "frame_length")?,
        (None, Some(window)) => window.data.len(),
        (None, None) => return Err(Error::input(3, "it is missing, and so is the window")),
    };
    if let Some(window) = &window
        && window.data.len() != frame
    {
        return Err(Error::input(
            2,
            format!("a window of {} for frames of {frame}", window.data.len()),
        ));
    }
    let Some(spare) = n.checked_sub(frame) else {
        return Err(Error::input(3, format!("frames of {frame} in a signal of {n}")));
    };
    let (frames, bins) = (spare / step + 1, if onesided { frame / 2 + 1 } else { frame });
    let shape = [batch, frames, bins, 2];
    let mut data: Vec<f32> = allocate(&shape)?;
    let transform = Transform::new(frame, -1.0);
    let mut line = vec![[0.0; 2]; frame];
    for sample in 0..batch {
        for start in (0..frames).map(|k| k * step) {
            for (k, value) in line.iter_mut().enumerate() {
                let first = (sample * n + start + k) * parts;
                let weight = window.as_ref().map_or(1.0, |window| f64::from(window.data[k]));
                let imaginary = if parts == 2 { f64::from(x.data[first + 1]) } else { 0.0 };
                *value = [f64::from(x.data[first]) * weight, imaginary * weight];
            }
            transform.run(&mut line);
            data.extend(line[..bins].iter().flatten().map(|&value| value as f32));
        }
    }
    Array { shape: shape.to_vec(), data }.tensor_as(tensor.dtype())
}

pub(super) fn window(
    inputs: &Inputs<'_>,
    function: SignalWindow,
    periodic: bool,
    dtype: DType,
) -> Result<Tensor> {
    let n = size(inputs.int(0)?, "size")?;
    len(&[n])?;
    let mut data: Vec<f32> = allocate(&[n])?;
    let period = if periodic { n } else { n.saturating_sub(1) };
    data.extend((0..n).map(|k| {
        // A window of one element is its centre, at half the period of the cosine.
        let angle = if period == 0 { PI } else { 2.0 * PI * k as f64 / period as f64 };
        let value = match function {
            SignalWindow::Hann => 0.5 - 0.5 * angle.cos(),
            SignalWindow::Hamming => 25.0 / 46.0 - 21.0 / 46.0 * angle.cos(),
            SignalWindow::Blackman => 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos(),
        };
        value as f32
    }));
    elementwise::cast(&Tensor::from_vec(data, &[n], &Device::Cpu)?, dtype)
}

/// Returns the elements before an axis, its size, and the elements after it.
fn around(shape: &[usize], axis: usize) -> Result<[usize; 3]> {
    Ok([len(&shape[..axis])?, shape[axis], len(&shape[axis + 1..])?])
}
