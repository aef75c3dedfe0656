//! Products: matrices, convolutions, sums of products.

use aleatron_tensor::{ConvOptions, ConvTransposeOptions, DType, Device, Scalar, Tensor};

use super::array::{Array, len};
use super::inputs::{Inputs, size};
use super::window::{Geometry, Sum, spatial, spread};
use crate::error::{Error, Result};
use crate::op::{Equation, EquationTerm, Padding, Rounding, Window};

/// Multiplies matrices, or batches of matrices. Integers are multiplied on the host.
pub(super) fn matmul(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype() != y.dtype() {
        return Err(Error::input(1, format!("{} does not match {}", y.dtype(), x.dtype())));
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
            return Err(Error::input(
                k,
                format!("a matrix is needed, not shape {:?}", tensor.shape()),
            ));
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
    let (_, channels, input) = spatial(x.shape())?;
    let groups = positive(groups, "group")?;
    let fault = || {
        Error::input(
            1,
            format!("weights {:?} do not go with {:?}, {groups} groups", w.shape(), x.shape()),
        )
    };
    let (out_channels, group_channels, kernel) = spatial(w.shape())?;
    if group_channels * groups != channels
        || out_channels % groups != 0
        || kernel.len() != input.len()
    {
        return Err(fault());
    }
    let geometry = Geometry::new(window, input, kernel, Rounding::Down)?;
    if geometry.kernel != kernel {
        return Err(fault());
    }
    let bias = inputs.maybe(2);
    if bias.is_some_and(|bias| bias.shape() != [out_channels]) {
        return Err(Error::input(2, format!("{out_channels} biases are needed")));
    }
    convolve(x, w, bias, &geometry, groups)
}

/// Computes a convolution over any number of axes, by convolutions over the last two axes at each
/// offset of the others.
fn convolve(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    geometry: &Geometry,
    groups: usize,
) -> Result<Tensor> {
    match geometry.input.len() {
        1 => return Ok(x.conv1d(w, bias, &options(geometry, groups))?),
        2 => return Ok(x.conv2d(w, bias, &options(geometry, groups))?),
        _ => {}
    }
    let (first, inner) = (geometry.first(), geometry.without_first());
    let mut sum = Sum::default();
    first.each_tap(x, Scalar::Int(0), |k, met| {
        sum.add(convolve(&with_batch(&met)?, &w.select(2, k)?, None, &inner, groups)?)
    })?;
    with_bias(&without_batch(&sum.total()?, x.shape()[0], geometry.output[0])?, bias)
}

/// Joins the first spatial axis with the batch.
fn with_batch(x: &Tensor) -> Result<Tensor> {
    let moved = x.transpose(1, 2)?;
    let (n, rest) = (len(&moved.shape()[..2])?, &moved.shape()[2..]);
    Ok(moved.reshape(&[&[n], rest].concat())?)
}

/// Reverses [`with_batch`].
fn without_batch(x: &Tensor, batch: usize, n: usize) -> Result<Tensor> {
    Ok(x.reshape(&[&[batch, n], &x.shape()[1..]].concat())?.transpose(1, 2)?)
}

fn with_bias(x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(x.clone()) };
    let mut shape = vec![1; x.rank() - 1];
    shape[0] = bias.len();
    Ok(x.add(&bias.reshape(&shape)?)?)
}

/// Returns the options of a convolution of tensors.
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
    let (_, channels, input) = spatial(x.shape())?;
    let (in_channels, per_group, kernel) = spatial(w.shape())?;
    let groups = positive(groups, "group")?;
    let rank = input.len();
    if in_channels != channels || channels % groups != 0 || kernel.len() != rank {
        return Err(Error::input(
            1,
            format!("weights {:?} do not go with {:?}", w.shape(), x.shape()),
        ));
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
        _ => Some(numbers(
            "output_shape",
            &output_shape[output_shape.len().saturating_sub(rank)..],
            0,
        )?),
    };
    let mut axes = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (stride, dilation) = (strides_of[axis], dilations[axis]);
        let too_large = || Error::attribute("strides", &strides_of, "the output is too large");
        let reach = (kernel[axis].max(1) - 1).checked_mul(dilation).ok_or_else(too_large)?;
        let spread = stride.checked_mul(input[axis].saturating_sub(1)).ok_or_else(too_large)?;
        let full = [spread, extra[axis], 1].iter().try_fold(reach, |sum, &n| sum.checked_add(n));
        let full = full.filter(|&full| full < 1 << 40).ok_or_else(too_large)?;
        let same = match window.padding {
            Padding::SameUpper | Padding::SameLower => input[axis].checked_mul(stride),
            _ => None,
        };
        let target = wanted.as_ref().map(|wanted| wanted[axis]).or(same);
        let (begin, output) = match (target, &window.padding) {
            (Some(target), padding) => {
                let total = full.saturating_sub(target);
                (if *padding == Padding::SameUpper { total / 2 } else { total - total / 2 }, target)
            }
            (None, Padding::Explicit(pads)) if !pads.is_empty() => {
                if pads.len() != 2 * rank {
                    return Err(Error::attribute("pads", pads, format!("{} are needed", 2 * rank)));
                }
                let (begin, end) = (size(pads[axis], "pads")?, size(pads[rank + axis], "pads")?);
                let kept = begin.checked_add(end).and_then(|total| full.checked_sub(total));
                (begin, kept.ok_or_else(|| Error::attribute("pads", pads, "no elements remain"))?)
            }
            _ => (0, full),
        };
        axes.push(TransposedAxis { stride, dilation, full, begin, output, extra: extra[axis] });
    }
    let bias = inputs.maybe(2);
    if bias.is_some_and(|bias| bias.shape() != [per_group * groups]) {
        return Err(Error::input(2, format!("{} biases are needed", per_group * groups)));
    }
    convolve_transposed(x, w, bias, &axes, groups)
}

/// An axis of a transposed convolution.
#[derive(Debug, Clone, Copy)]
struct TransposedAxis {
    stride: usize,
    dilation: usize,
    /// The size of the output before it is cropped.
    full: usize,
    /// The number of elements removed at the beginning.
    begin: usize,
    output: usize,
    extra: usize,
}

impl TransposedAxis {
    /// Returns the numbers of elements removed and added at the end of the output.
    fn end(&self) -> [usize; 2] {
        let kept = self.full - self.begin.min(self.full);
        [kept.saturating_sub(self.output), self.output.saturating_sub(kept)]
    }
}

/// Computes a transposed convolution over any number of axes, by those over the last two axes at
/// each offset of the others.
fn convolve_transposed(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    axes: &[TransposedAxis],
    groups: usize,
) -> Result<Tensor> {
    fn options<const D: usize>(axes: &[TransposedAxis], groups: usize) -> ConvTransposeOptions<D> {
        ConvTransposeOptions {
            stride: std::array::from_fn(|axis| axes[axis].stride),
            padding: std::array::from_fn(|axis| [axes[axis].begin, axes[axis].end()[0]]),
            dilation: std::array::from_fn(|axis| axes[axis].dilation),
            output_padding: std::array::from_fn(|axis| axes[axis].extra + axes[axis].end()[1]),
            groups,
        }
    }
    let (first, inner) = match axes {
        [_] => return Ok(x.conv_transpose1d(w, bias, &options(axes, groups))?),
        [_, _] => return Ok(x.conv_transpose2d(w, bias, &options(axes, groups))?),
        [first, inner @ ..] => (first, inner),
        [] => return Err(Error::input(0, "spatial axes are needed")),
    };
    let [_, added] = first.end();
    let (batch, n) = (x.shape()[0], x.shape()[2]);
    let flat = with_batch(x)?;
    let mut sum = Sum::default();
    for k in 0..w.shape()[2] {
        let product = convolve_transposed(&flat, &w.select(2, k)?, None, inner, groups)?;
        let product = without_batch(&product, batch, n)?;
        sum.add(spread(&product, 2, first.stride, k * first.dilation, first.full + added)?)?;
    }
    let sum = sum.total()?;
    with_bias(&sum.slice(2, first.begin..first.begin + first.output)?, bias)
}

/// A factor of a sum of products: a tensor, and the label of each of its axes.
struct Factor {
    tensor: Tensor,
    labels: Vec<usize>,
}

impl Factor {
    /// Creates a factor of a tensor of floats; axes with equal labels are joined.
    fn new(tensor: &Tensor, labels: &[usize]) -> Result<Self> {
        if !tensor.dtype().is_float() {
            return Err(Error::input(0, format!("floats are needed, not {}", tensor.dtype())));
        }
        let (mut tensor, mut labels) = (tensor.cast(DType::F32)?, labels.to_vec());
        while let Some(second) =
            (0..labels.len()).find(|&axis| labels[..axis].contains(&labels[axis]))
        {
            let first = labels.iter().position(|label| *label == labels[second]).unwrap_or(0);
            let (axis, n) = (second as isize, tensor.shape()[second]);
            match (tensor.shape()[first], n) {
                (_, 1) => tensor = tensor.squeeze(axis)?,
                (1, _) => tensor = tensor.transpose(first as isize, axis)?.squeeze(axis)?,
                _ => {
                    let along = |axis: usize| -> Result<Tensor> {
                        let mut shape = vec![1; labels.len()];
                        shape[axis] = n;
                        Ok(Tensor::arange(0_i64, n as i64, 1_i64, DType::I32, &tensor.device())?
                            .reshape(&shape)?)
                    };
                    let diagonal = along(first)?.eq(&along(second)?)?;
                    tensor = diagonal.where_(&tensor, 0.0)?.sum(axis)?;
                }
            }
            labels.remove(second);
        }
        Ok(Self { tensor, labels })
    }

    /// Sums the axes whose labels are not needed.
    fn summed(self, is_needed: impl Fn(usize) -> bool) -> Result<Self> {
        let over = |label: usize| !is_needed(label);
        let axes: Vec<isize> = (0..self.labels.len())
            .filter(|&axis| over(self.labels[axis]))
            .map(|axis| axis as isize)
            .collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let labels = self.labels.into_iter().filter(|&label| is_needed(label)).collect();
        Ok(Self { tensor: self.tensor.sum(&axes)?, labels })
    }

    /// Returns the tensor with axes of these labels, in this order; missing axes have size 1.
    fn arranged(&self, labels: &[usize]) -> Result<Tensor> {
        let own: Vec<isize> = labels
            .iter()
            .filter_map(|label| self.labels.iter().position(|own| own == label))
            .map(|axis| axis as isize)
            .collect();
        let mut tensor = self.tensor.permute(&own)?;
        for (axis, label) in labels.iter().enumerate() {
            if !self.labels.contains(label) {
                tensor = tensor.unsqueeze(axis as isize)?;
            }
        }
        Ok(tensor)
    }

    /// Multiplies two factors as matrices: axes that both have and no later factor needs are
    /// summed.
    fn times(self, other: Self, is_needed: impl Fn(usize) -> bool) -> Result<Self> {
        let a = {
            let has = other.labels.clone();
            self.summed(|label| is_needed(label) || has.contains(&label))?
        };
        let b = {
            let has = a.labels.clone();
            other.summed(|label| is_needed(label) || has.contains(&label))?
        };
        let in_both = |label: &usize| a.labels.contains(label) && b.labels.contains(label);
        let of = |labels: &[usize], keep: &dyn Fn(&usize) -> bool| -> Vec<usize> {
            labels.iter().copied().filter(|label| keep(label)).collect()
        };
        let shared = of(&a.labels, &|label| in_both(label) && is_needed(*label));
        let inner = of(&a.labels, &|label| in_both(label) && !is_needed(*label));
        let left = of(&a.labels, &|label| !in_both(label));
        let right = of(&b.labels, &|label| !in_both(label));
        let (x, y) = (
            a.arranged(&[&shared[..], &left, &inner].concat())?,
            b.arranged(&[&shared[..], &inner, &right].concat())?,
        );
        // An axis of one element is broadcast.
        let sizes = |x: &Tensor, first: usize, n: usize| x.shape()[first..first + n].to_vec();
        let (s, l, i, r) = (shared.len(), left.len(), inner.len(), right.len());
        let common = |one: Vec<usize>, two: Vec<usize>| -> Vec<usize> {
            one.into_iter().zip(two).map(|(a, b)| if a == 1 { b } else { a }).collect()
        };
        let batch = common(sizes(&x, 0, s), sizes(&y, 0, s));
        let depth = common(sizes(&x, s + l, i), sizes(&y, s, i));
        let (rows, columns) = (sizes(&x, s, l), sizes(&y, s + i, r));
        let (m, k, n) = (len(&rows)?, len(&depth)?, len(&columns)?);
        let x = x
            .broadcast_to(&[&batch[..], &rows, &depth].concat())?
            .reshape(&[&batch[..], &[m, k]].concat())?;
        let y = y
            .broadcast_to(&[&batch[..], &depth, &columns].concat())?
            .reshape(&[&batch[..], &[k, n]].concat())?;
        let tensor = x.matmul(&y)?.reshape(&[batch, rows, columns].concat())?;
        Ok(Self { tensor, labels: [shared, left, right].concat() })
    }
}

/// Computes an einsum.
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
                (a, b) => {
                    return Err(Error::attribute("equation", (a, b), "an axis has two sizes"));
                }
            }
        }
    }
    if output.iter().any(|label| !sizes.contains_key(label)) {
        return Err(Error::attribute("equation", "an axis of the output", "which no input has"));
    }
    if (0..output.len()).any(|axis| output[..axis].contains(&output[axis])) {
        return Err(Error::attribute("equation", "an axis of the output", "which is named twice"));
    }
    let Some(first) = tensors.first() else { return Err(Error::input(0, "it is missing")) };
    let mut product = Factor::new(first, &terms[0])?;
    for k in 1..tensors.len() {
        let is_needed = |label: usize| {
            output.contains(&label) || terms[k + 1..].iter().any(|term| term.contains(&label))
        };
        product = product.times(Factor::new(tensors[k], &terms[k])?, is_needed)?;
    }
    let sum = product.summed(|label| output.contains(&label))?;
    Ok(sum.arranged(&output)?.cast(first.dtype())?)
}

/// Returns the determinants of square matrices, by elimination with pivots.
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
            let pivot =
                (k..n).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs())).unwrap_or(k);
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
