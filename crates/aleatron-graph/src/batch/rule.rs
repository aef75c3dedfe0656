//! Rules that derive the layout of samples in a node's outputs from that in its inputs.
//!
//! A rule returns a layout for each output only if every element of it depends on the elements of
//! one sample alone, and the layout and the elements of a sample are the same for any number of
//! samples. Everything else is `None`.

use super::site::{Batched, Dependence, Site, axes_of, axis_of};
use super::{Layout, movement, product};
use crate::op::{Dims, NoAxes, Op, Recurrent, SoftmaxAxes};

/// The layouts of the outputs of a node; `None` for one whose elements depend on several samples.
pub(super) type Layouts = Option<Vec<Option<Layout>>>;

/// Returns the layouts of the outputs of a node that has samples among its inputs; `None` if it
/// mixes them.
pub(super) fn layouts(site: &Site<'_>) -> Layouts {
    match &site.node.op {
        Op::Unary(_) | Op::Binary(_) | Op::Variadic(_) | Op::Where | Op::Clip { .. } => {
            elementwise(site)
        }
        Op::SwiGlu { .. } => elementwise(site),
        Op::Cast(_) | Op::CastLike | Op::Identity | Op::Dropout { .. } => {
            site.all(site.samples(0)?.layout)
        }
        Op::Reshape { .. } | Op::Flatten { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. } => {
            movement::reshape(site)
        }
        Op::Transpose { .. } | Op::Expand | Op::Tile | Op::Concat { .. } | Op::Split { .. } => {
            movement::layouts(site)
        }
        Op::Slice { .. } | Op::Pad { .. } | Op::CenterCropPad { .. } | Op::Gather { .. } => {
            movement::layouts(site)
        }
        Op::GatherElements { .. } | Op::GatherNd { .. } | Op::ScatterElements { .. } => {
            movement::layouts(site)
        }
        Op::Resize(_) | Op::Upsample { .. } | Op::OneHot { .. } => movement::layouts(site),
        Op::MatMul => product::matmul(site),
        Op::Gemm { transpose_a, transpose_b, .. } => {
            product::gemm(site, [*transpose_a, *transpose_b])
        }
        Op::Einsum { equation } => product::einsum(site, equation),
        Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::GlobalPool(_)
        | Op::InstanceNormalization { .. } => along_first(site),
        Op::BatchNormalization { training: false, .. }
        | Op::GroupNormalization { .. }
        | Op::Lrn { .. } => along_first(site),
        Op::DepthToSpace { .. } | Op::SpaceToDepth { .. } | Op::Col2Im { .. } => along_first(site),
        // The positions that it can return count the elements of all samples.
        Op::Pool { .. } => Some(along_first(site)?.into_iter().take(1).collect()),
        Op::GridSample { .. } => together(site, 2, 0),
        Op::Softmax { axes: SoftmaxAxes::One(axis), .. } => over(site, &[*axis]),
        Op::Softmax { axes: SoftmaxAxes::From(axis), .. } => suffix(site, *axis),
        Op::LayerNormalization { axis, .. } | Op::RmsNormalization { axis, .. } => {
            suffix(site, *axis)
        }
        Op::LpNormalization { axis, .. } => over(site, &[*axis]),
        Op::TopK { axis, .. } => over(site, &[*axis]),
        Op::MeanVarianceNormalization { axes } => over(site, axes),
        Op::CumSum { .. } | Op::CumProd { .. } => over(site, &site.ints(1)?),
        Op::Reduce { axes, reduced, no_axes, .. } => {
            reduce(site, axes.as_deref(), *reduced, *no_axes)
        }
        Op::ArgReduce { axis, reduced, .. } => reduce(site, Some(&[*axis]), *reduced, NoAxes::All),
        Op::Trilu { .. } | Op::Det => matrices(site),
        Op::ReverseSequence { batch_axis, time_axis } => reverse(site, *batch_axis, *time_axis),
        Op::Recurrent(op) => recurrent(site, op),
        Op::Attention(_) => attention(site),
        Op::RotaryEmbedding { .. } => rotary(site),
        Op::QuantizeLinear { axis, block_size, .. } | Op::DequantizeLinear { axis, block_size } => {
            quantized(site, *axis, *block_size)
        }
        Op::ConvInteger { .. } | Op::QLinearConv { .. } => along_first(site),
        // Several zero points or scales of the first matrix belong to its rows.
        Op::MatMulInteger => quantized_product(site, &[2]),
        Op::QLinearMatMul { .. } => quantized_product(site, &[1, 2]),
        Op::Dft { axis, .. } => {
            let axis = match (axis, site.input(2)) {
                (Some(axis), _) => *axis,
                (None, Some(_)) => *site.ints(2)?.first()?,
                (None, None) => -2,
            };
            over(site, &[axis])
        }
        Op::Stft { .. } => along_first(site),
        _ => None,
    }
}

/// Finds where the samples of inputs lie in their broadcast shape of `rank` axes; constants may not
/// have sizes of their own there.
pub(super) fn meet(
    site: &Site<'_>,
    inputs: impl Iterator<Item = usize>,
    rank: usize,
) -> Option<Layout> {
    let (mut met, mut constants): (Option<Layout>, Vec<&[usize]>) = (None, Vec::new());
    for k in inputs {
        let Some(input) = site.input(k) else { continue };
        match &input.dependence {
            Dependence::Constant => constants.push(input.tensor.shape()),
            Dependence::Samples(layout) => {
                let aligned = layout.moved((layout.axis + rank).checked_sub(input.tensor.rank())?);
                match met {
                    None => met = Some(aligned),
                    Some(known) if known == aligned => {}
                    Some(_) => return None,
                }
            }
            Dependence::Number(_) | Dependence::Several => return None,
        }
    }
    let met = met?;
    let is_alike = |shape: &&[usize]| {
        let own = (met.axis + shape.len()).checked_sub(rank);
        own.and_then(|own| shape.get(own)).is_none_or(|&size| size == 1)
    };
    constants.iter().all(is_alike).then_some(met)
}

fn elementwise(site: &Site<'_>) -> Layouts {
    site.all(meet(site, 0..site.inputs.len(), site.rank())?)
}

/// The first input has its samples along the first axis, whose indices are independent; the others
/// are constants.
fn along_first(site: &Site<'_>) -> Layouts {
    let x = site.samples(0)?;
    if x.axis() == 0 && site.are_constant(1) { site.all(x.layout) } else { None }
}

/// The first `n` inputs have the same samples along an axis; further ones are constants.
fn together(site: &Site<'_>, n: usize, axis: usize) -> Layouts {
    let first = site.samples(0)?;
    let is_same = (1..n).all(|k| site.samples(k).is_some_and(|other| other.layout == first.layout));
    if first.axis() == axis && is_same && site.are_constant(n) {
        site.all(first.layout)
    } else {
        None
    }
}

/// Returns the first input, if none of the axes is that of its samples and the other inputs are
/// constants.
fn over(site: &Site<'_>, axes: &[i64]) -> Layouts {
    let x = site.samples(0)?;
    let axes = axes_of(axes, x.rank())?;
    if !axes.contains(&x.axis()) && site.are_constant(1) { site.all(x.layout) } else { None }
}

/// As [`over`], for an axis and all behind it.
fn suffix(site: &Site<'_>, axis: i64) -> Layouts {
    let x = site.samples(0)?;
    let first = axis_of(axis, x.rank())?;
    if x.axis() < first && site.are_constant(1) { site.all(x.layout) } else { None }
}

/// The last two axes are those of matrices.
fn matrices(site: &Site<'_>) -> Layouts {
    let x = site.samples(0)?;
    if x.axis() + 2 < x.rank() && site.are_constant(1) { site.all(x.layout) } else { None }
}

fn reduce(site: &Site<'_>, axes: Option<&[i64]>, reduced: Dims, no_axes: NoAxes) -> Layouts {
    let x = site.samples(0)?;
    let given = match (axes, site.input(1)) {
        (Some(axes), _) => axes.to_vec(),
        (None, Some(_)) => site.ints(1)?,
        (None, None) => Vec::new(),
    };
    if given.is_empty() {
        return if no_axes == NoAxes::None { site.all(x.layout) } else { None };
    }
    let axes = axes_of(&given, x.rank())?;
    if axes.contains(&x.axis()) {
        return None;
    }
    let before = (0..x.axis()).filter(|axis| axes.contains(axis)).count();
    match reduced {
        Dims::Keep => site.all(x.layout),
        Dims::Drop => site.all(x.layout.moved(x.axis() - before)),
    }
}

fn reverse(site: &Site<'_>, batch_axis: i64, time_axis: i64) -> Layouts {
    let x = site.samples(0)?;
    let [batch, time] = [axis_of(batch_axis, x.rank())?, axis_of(time_axis, x.rank())?];
    let is_apart = match site.samples(1) {
        // The lengths of the sequences of each sample.
        Some(lengths) => x.axis() == batch && lengths.layout == x.layout.moved(0),
        None => x.axis() != batch && site.is_constant(1),
    };
    if is_apart && x.axis() != time { site.all(x.layout) } else { None }
}

/// Returns the axes of samples in the states and in the outputs of a recurrent node.
pub(super) const fn recurrent_axes(op: &Recurrent) -> ([usize; 2], [usize; 3]) {
    // Steps, directions, samples and units; directions, samples and units. Or samples first.
    if op.batch_first { ([0, 0], [0, 0, 0]) } else { ([1, 1], [2, 1, 1]) }
}

fn recurrent(site: &Site<'_>, op: &Recurrent) -> Layouts {
    let x = site.samples(0)?;
    let ([sequence, state], outputs) = recurrent_axes(op);
    let has = |k: usize, axis: usize| match site.input(k) {
        None => true,
        Some(_) => site.samples(k).is_some_and(|own| own.layout == x.layout.moved(axis)),
    };
    let are_weights = [1, 2, 3, 7].into_iter().all(|k| site.is_constant(k));
    let is_apart =
        x.axis() == sequence && are_weights && has(4, 0) && has(5, state) && has(6, state);
    is_apart.then(|| outputs.into_iter().map(|axis| Some(x.layout.moved(axis))).collect())
}

/// Constant parameters of all elements, or of an axis other than that of the samples.
fn quantized(site: &Site<'_>, axis: i64, block_size: i64) -> Layouts {
    let x = site.samples(0)?;
    let is_apart = match site.constant_shape(1)?.iter().product::<usize>() {
        1 if block_size == 0 => true,
        _ => block_size == 0 && axis_of(axis, x.rank())? != x.axis(),
    };
    if is_apart && site.are_constant(1) { site.all(x.layout) } else { None }
}

/// Samples are rows of the first matrix, whose `parameters` are one number each.
fn quantized_product(site: &Site<'_>, parameters: &[usize]) -> Layouts {
    let x = site.samples(0)?;
    let is_one = |k: &usize| {
        site.constant_shape(*k).is_none_or(|shape| shape.iter().product::<usize>() == 1)
    };
    // The second matrix is broadcast to matrices of samples only if it is a matrix.
    let second = if parameters.len() == 1 { 1 } else { 3 };
    let is_matrix = site.constant_shape(second)?.len() == 2;
    let is_apart = x.axis() + 1 < x.rank() && is_matrix && parameters.iter().all(is_one);
    if is_apart && site.are_constant(1) { site.all(x.layout) } else { None }
}

fn attention(site: &Site<'_>) -> Layouts {
    let query = site.samples(0)?;
    let has = |k: usize| site.samples(k).is_some_and(|own| own.layout == query.layout);
    let is_apart = query.axis() == 0
        && has(1)
        && has(2)
        && [4, 5, 6].into_iter().all(|k| site.input(k).is_none() || has(k))
        // A mask is broadcast to samples by heads by queries by keys.
        && match site.input(3) {
            None => true,
            Some(mask) => {
                let leading = site.constant_shape(3).map(|shape| shape.len() < 4 || shape[0] == 1);
                leading.unwrap_or_else(|| has(3) && mask.tensor.rank() == 4)
            }
        };
    if is_apart { site.all(query.layout) } else { None }
}

fn rotary(site: &Site<'_>) -> Layouts {
    let x: Batched = site.samples(0)?;
    let has = |k: usize| site.samples(k).is_some_and(|own| own.layout == x.layout);
    let is_apart = x.axis() == 0
        && match site.input(3) {
            // Angles by position, and the positions of each sample.
            Some(_) => has(3) && site.is_constant(1) && site.is_constant(2),
            None => has(1) && has(2),
        };
    if is_apart { site.all(x.layout) } else { None }
}
