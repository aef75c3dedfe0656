//! Products: matrices, convolutions, sums of products.

use aleatron_tensor::{ConvOptions, DType, Device, Tensor};

use super::array::{Array, each_place, len, place, room, strides};
use super::inputs::{Inputs, size};
use super::window::{Geometry, spatial};
use crate::error::{Error, Result};
use crate::op::{Equation, EquationTerm, Padding, Rounding, Window};

/// The product of matrices, or of batches of them. Integers are multiplied on the host.
pub(super) fn matmul(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype() != y.dtype() {
        return Err(Error::input(1, format!("{} beside {}", y.dtype(), x.dtype())));
    }
    if !x.dtype().is_float() {
        let (x, y) = (x.to_device(&Device::Cpu)?, y.to_device(&Device::Cpu)?);
        return Ok(x.matmul(&y)?);
    }
    Ok(x.matmul(y)?)
}

pub(super) fn gemm(
    inputs: &Inputs<'_>,
    alpha: f32,
    beta: f32,
    transpose_a: bool,
    transpose_b: bool,
) -> Result<Tensor> {
    let (mut a, mut b) = (inputs.get(0)?.clone(), inputs.get(1)?.clone());
    for (k, tensor) in [&a, &b].into_iter().enumerate() {
        if tensor.rank() != 2 {
            return Err(Error::input(k, format!("a matrix is needed, not shape {:?}", tensor.shape())));
        }
    }
    if transpose_a {
        a = a.t()?;
    }
    if transpose_b {
        b = b.t()?;
    }
    let mut product = matmul(&a, &b)?;
    let scaled = |tensor: Tensor, factor: f32| -> Result<Tensor> {
        match factor == 1.0 {
            true => Ok(tensor),
            false if tensor.dtype().is_float() => Ok(tensor.mul(factor)?),
            false => Err(Error::attribute("alpha or beta", factor, "1 is possible with integers")),
        }
    };
    product = scaled(product.to_device(&a.device())?, alpha)?;
    if let Some(c) = inputs.maybe(2) {
        let c = scaled(c.clone(), beta)?.broadcast_to(product.shape())?;
        product = product.add(&c)?;
    }
    Ok(product)
}

pub(super) fn conv(inputs: &Inputs<'_>, window: &Window, groups: i64) -> Result<Tensor> {
    let (x, w) = (inputs.get(0)?, inputs.get(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let groups = positive(groups, "group")?;
    let fault = || {
        Error::input(1, format!("weights {:?} do not go with {:?}, {groups} groups", w.shape(), x.shape()))
    };
    let (out_channels, group_channels, kernel) = spatial(w.shape())?;
    if group_channels * groups != channels || out_channels % groups != 0 || kernel.len() != input.len() {
        return Err(fault());
    }
    let geometry = Geometry::new(window, input, kernel, Rounding::Floor)?;
    if geometry.kernel != kernel {
        return Err(fault());
    }
    let bias = inputs.maybe(2).map(Array::floats).transpose()?;
    if bias.as_ref().is_some_and(|bias| bias.shape != [out_channels]) {
        return Err(Error::input(2, format!("{out_channels} biases are needed")));
    }
    let bias_tensor = inputs.maybe(2);
    match input.len() {
        1 => return Ok(x.conv1d(w, bias_tensor, &options(&geometry, groups))?),
        2 => return Ok(x.conv2d(w, bias_tensor, &options(&geometry, groups))?),
        _ => {}
    }
    let (data, weights) = (Array::floats(x)?, Array::floats(w)?);
    let (plane, taps, positions) = (len(input)?, len(kernel)?, len(&geometry.output)?);
    let shape = [&[batch, out_channels], geometry.output.as_slice()].concat();
    let mut out = Array::<f32>::full(&shape, 0.0)?;
    let per_group = out_channels / groups;
    let mut met: Vec<(usize, usize)> = Vec::with_capacity(taps);
    let mut position = 0;
    each_place(&geometry.output, |at| {
        met.clear();
        geometry.each_tap(at, |tap, element| met.push((tap, element)));
        for sample in 0..batch {
            for channel in 0..out_channels {
                let first = sample * channels + channel / per_group * group_channels;
                let mut sum = bias.as_ref().map_or(0.0, |bias| f64::from(bias.data[channel]));
                for i in 0..group_channels {
                    let w = &weights.data[(channel * group_channels + i) * taps..][..taps];
                    let x = &data.data[(first + i) * plane..][..plane];
                    for &(tap, element) in &met {
                        sum += f64::from(w[tap]) * f64::from(x[element]);
                    }
                }
                out.data[(sample * out_channels + channel) * positions + position] = sum as f32;
            }
        }
        position += 1;
    });
    out.tensor_as(x.dtype())
}

/// The options of a convolution of tensors.
fn options<const D: usize>(geometry: &Geometry, groups: usize) -> ConvOptions<D> {
    ConvOptions {
        stride: std::array::from_fn(|axis| geometry.strides[axis]),
        padding: std::array::from_fn(|axis| [geometry.begins[axis], geometry.ends[axis]]),
        dilation: std::array::from_fn(|axis| geometry.dilations[axis]),
        groups,
    }
}

fn positive(number: i64, name: &str) -> Result<usize> {
    match size(number, name)? {
        0 => Err(Error::attribute(name, number, "a positive number is needed")),
        number => Ok(number),
    }
}

pub(super) fn conv_transpose(
    inputs: &Inputs<'_>,
    window: &Window,
    groups: i64,
    output_padding: &[i64],
    output_shape: &[i64],
) -> Result<Tensor> {
    let (x, w) = (inputs.get(0)?, inputs.get(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let (in_channels, per_group, kernel) = spatial(w.shape())?;
    let groups = positive(groups, "group")?;
    let rank = input.len();
    if in_channels != channels || channels % groups != 0 || kernel.len() != rank {
        return Err(Error::input(1, format!("weights {:?} do not go with {:?}", w.shape(), x.shape())));
    }
    let numbers = |name: &str, given: &[i64], default: usize| -> Result<Vec<usize>> {
        match given.len() {
            0 => Ok(vec![default; rank]),
            n if n == rank => given.iter().map(|&number| size(number, name)).collect(),
            _ => Err(Error::attribute(name, given, format!("{rank} numbers are needed"))),
        }
    };
    let strides_of = numbers("strides", &window.strides, 1)?;
    let dilations = numbers("dilations", &window.dilations, 1)?;
    let extra = numbers("output_padding", output_padding, 0)?;
    let wanted = match output_shape.len() {
        0 => None,
        _ => Some(numbers("output_shape", &output_shape[output_shape.len().saturating_sub(rank)..], 0)?),
    };
    let mut begins = vec![0_usize; rank];
    let mut output = Vec::with_capacity(rank);
    for axis in 0..rank {
        let reach = (kernel[axis].max(1) - 1) * dilations[axis] + 1;
        let full = strides_of[axis] * input[axis].saturating_sub(1) + extra[axis] + reach;
        let same = match window.padding {
            Padding::SameUpper | Padding::SameLower => Some(input[axis] * strides_of[axis]),
            _ => None,
        };
        let target = wanted.as_ref().map(|wanted| wanted[axis]).or(same);
        match (target, &window.padding) {
            (Some(target), padding) => {
                let total = full.saturating_sub(target);
                begins[axis] = match padding {
                    Padding::SameUpper => total / 2,
                    _ => total - total / 2,
                };
                output.push(target);
            }
            (None, Padding::Explicit(pads)) if !pads.is_empty() => {
                if pads.len() != 2 * rank {
                    return Err(Error::attribute("pads", pads, format!("{} are needed", 2 * rank)));
                }
                begins[axis] = size(pads[axis], "pads")?;
                let total = begins[axis] + size(pads[rank + axis], "pads")?;
                output.push(
                    full.checked_sub(total)
                        .ok_or_else(|| Error::attribute("pads", pads, "nothing is left"))?,
                );
            }
            _ => output.push(full),
        }
    }
    let out_channels = per_group * groups;
    let bias = inputs.maybe(2).map(Array::floats).transpose()?;
    if bias.as_ref().is_some_and(|bias| bias.shape != [out_channels]) {
        return Err(Error::input(2, format!("{out_channels} biases are needed")));
    }
    let (data, weights) = (Array::floats(x)?, Array::floats(w)?);
    let (plane, taps, positions) = (len(input)?, len(kernel)?, len(&output)?);
    let shape = [&[batch, out_channels], output.as_slice()].concat();
    let mut sums = Array::<f32>::full(&shape, 0.0)?.data.iter().map(|_| 0.0_f64).collect::<Vec<_>>();
    let mut element = 0;
    let in_group = channels / groups;
    each_place(input, |at| {
        let mut tap = 0;
        each_place(kernel, |k| {
            let mut target = Some(0_usize);
            for axis in 0..rank {
                let to = (at[axis] * strides_of[axis] + k[axis] * dilations[axis])
                    .checked_sub(begins[axis])
                    .filter(|&to| to < output[axis]);
                target = target.zip(to).map(|(target, to)| target * output[axis] + to);
            }
            if let Some(target) = target {
                for sample in 0..batch {
                    for channel in 0..channels {
                        let value = f64::from(data.data[(sample * channels + channel) * plane + element]);
                        let first = channel / in_group * per_group;
                        for j in 0..per_group {
                            let weight = f64::from(weights.data[(channel * per_group + j) * taps + tap]);
                            sums[(sample * out_channels + first + j) * positions + target] += value * weight;
                        }
                    }
                }
            }
            tap += 1;
        });
        element += 1;
    });
    let data = sums.iter().enumerate().map(|(k, sum)| {
        let channel = k / positions.max(1) % out_channels;
        (sum + bias.as_ref().map_or(0.0, |bias| f64::from(bias.data[channel]))) as f32
    });
    Array { shape, data: data.collect() }.tensor_as(x.dtype())
}

/// Sums over products, any axes.
pub(super) fn einsum(inputs: &Inputs<'_>, equation: &Equation) -> Result<Tensor> {
    let tensors: Vec<&Tensor> = inputs.all().collect();
    if tensors.len() != equation.inputs.len() {
        let (n, k) = (tensors.len(), equation.inputs.len());
        return Err(Error::input(0, format!("{n} inputs for an equation of {k}")));
    }
    // Broadcast axes get numbers past the letters, the last one 1000.
    const LAST: usize = 1000;
    let labels = |term: &EquationTerm, rank: Option<usize>, most: usize| -> Result<Vec<usize>> {
        let named = term.before.len() + term.after.len();
        let extra = match (term.ellipsis, rank) {
            (true, Some(rank)) => rank.checked_sub(named),
            (true, None) => Some(most),
            (false, Some(rank)) => (rank == named).then_some(0),
            (false, None) => Some(0),
        };
        let Some(extra) = extra else {
            return Err(Error::attribute("equation", named, "its axes are not those of the input"));
        };
        let letters = |part: &[u8]| part.iter().map(|&c| usize::from(c)).collect::<Vec<_>>();
        let between = (0..extra).map(|k| LAST + 1 + k - extra);
        Ok(letters(&term.before).into_iter().chain(between).chain(letters(&term.after)).collect())
    };
    let mut terms = Vec::new();
    let mut most = 0;
    for (term, tensor) in equation.inputs.iter().zip(&tensors) {
        terms.push(labels(term, Some(tensor.rank()), 0)?);
        if term.ellipsis {
            most = most.max(tensor.rank() - term.before.len() - term.after.len());
        }
    }
    let output = labels(&equation.output, None, most)?;
    let mut sizes = std::collections::BTreeMap::new();
    for (term, tensor) in terms.iter().zip(&tensors) {
        for (&label, &n) in term.iter().zip(tensor.shape()) {
            let known = sizes.entry(label).or_insert(n);
            match (*known, n) {
                (a, b) if a == b => {}
                (1, b) => *known = b,
                (_, 1) => {}
                (a, b) => return Err(Error::attribute("equation", (a, b), "an axis has two sizes")),
            }
        }
    }
    let summed: Vec<usize> = sizes.keys().copied().filter(|label| !output.contains(label)).collect();
    let all: Vec<usize> = output.iter().chain(&summed).copied().collect();
    let shape_of = |labels: &[usize]| -> Result<Vec<usize>> {
        let missing = || Error::attribute("equation", "an axis of the output", "which no input has");
        labels.iter().map(|label| sizes.get(label).copied().ok_or_else(missing)).collect()
    };
    let (out_shape, whole) = (shape_of(&output)?, shape_of(&all)?);
    let inner = len(&whole[output.len()..])?;
    let dtype = tensors.first().map_or(DType::F32, |tensor| tensor.dtype());
    let mut arrays = Vec::new();
    for (tensor, term) in tensors.iter().zip(&terms) {
        let array = Array::floats(tensor)?;
        let own = strides(&array.shape);
        // How far the place moves with each axis; an axis of one element does not.
        let steps: Vec<usize> = all
            .iter()
            .map(|label| {
                let axes =
                    term.iter().enumerate().filter(|(axis, own)| *own == label && array.shape[*axis] > 1);
                axes.map(|(axis, _)| own[axis]).sum()
            })
            .collect();
        arrays.push((array, steps));
    }
    let mut data: Vec<f32> = room(&out_shape)?;
    let (mut sum, mut n) = (0.0_f64, 0);
    if inner == 0 {
        return Array::full(&out_shape, 0.0_f32)?.tensor_as(dtype);
    }
    each_place(&whole, |at| {
        sum += arrays.iter().map(|(array, steps)| f64::from(array.data[place(at, steps)])).product::<f64>();
        n += 1;
        if n == inner {
            data.push(sum as f32);
            (sum, n) = (0.0, 0);
        }
    });
    Array { shape: out_shape, data }.tensor_as(dtype)
}

/// The determinants of square matrices, by elimination with pivots.
pub(super) fn determinant(x: &Tensor) -> Result<Tensor> {
    let fault = || Error::input(0, format!("square matrices are needed, not {:?}", x.shape()));
    let [batch @ .., n, m] = x.shape() else { return Err(fault()) };
    if n != m {
        return Err(fault());
    }
    let (n, array) = (*n, Array::floats(x)?);
    let determinants = array.data.chunks((n * n).max(1)).map(|matrix| {
        let mut rows: Vec<Vec<f64>> =
            matrix.chunks(n).map(|row| row.iter().map(|&v| f64::from(v)).collect()).collect();
        let mut determinant = 1.0;
        for k in 0..n {
            let pivot = (k..n).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs())).unwrap_or(k);
            if rows[pivot][k] == 0.0 {
                return 0.0;
            }
            if pivot != k {
                rows.swap(pivot, k);
                determinant = -determinant;
            }
            determinant *= rows[k][k];
            let top = rows[k].clone();
            for row in &mut rows[k + 1..] {
                let factor = row[k] / top[k];
                row.iter_mut().zip(&top).for_each(|(a, b)| *a -= factor * b);
            }
        }
        determinant as f32
    });
    let data = if n == 0 { vec![1.0; len(batch)?] } else { determinants.collect() };
    Array { shape: batch.to_vec(), data }.tensor_as(x.dtype())
}
