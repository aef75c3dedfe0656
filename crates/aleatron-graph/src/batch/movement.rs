//! Samples in values whose elements move.

use super::Layout;
use super::rule::Layouts;
use super::site::{Batched, Dependence, PROBES, Site, axes_of, axis_of};
use crate::op::{Aspect, Coordinates, Op, SliceGiven};
use crate::run::{broadcast_shapes, reshaped_shape};

/// Returns the layouts of the outputs of a node that moves elements.
pub(super) fn layouts(site: &Site<'_>) -> Layouts {
    match &site.node.op {
        Op::Transpose { order } => transpose(site, order.as_deref()),
        Op::Expand => expand(site),
        Op::Tile => tile(site),
        Op::Concat { axis } => concat(site, *axis),
        Op::Split { axis, sizes, parts } => split(site, *axis, sizes.as_deref(), *parts),
        Op::Slice { given } => slice(site, given.as_ref()),
        Op::Pad { given, .. } => pad(site, given.as_ref().map(|(pads, _)| pads.as_slice())),
        Op::CenterCropPad { axes } => crop(site, axes.as_deref()),
        Op::Gather { axis } => gather(site, *axis),
        Op::GatherElements { axis } => elements(site, *axis, 2),
        Op::ScatterElements { axis, .. } => elements(site, *axis, 3),
        Op::GatherNd { batch_dims } => gather_nd(site, *batch_dims),
        Op::OneHot { axis } => one_hot(site, *axis),
        Op::Upsample { .. } => resize(site, None, Aspect::Stretch, [1, 2]),
        // Regions are shares of an axis, which that of the samples is not to be cut by.
        Op::Resize(resized)
            if !matches!(resized.options.coordinates, Coordinates::CropAndResize(_)) =>
        {
            resize(site, resized.axes.as_deref(), resized.aspect, [2, 3])
        }
        _ => None,
    }
}

/// Shapes change, elements do not move.
pub(super) fn reshape(site: &Site<'_>) -> Layouts {
    let x = site.samples(0)?;
    let shape_for = |probe: usize| -> Option<Vec<usize>> {
        let from = x.layout.shape(&x.one, PROBES[probe]);
        match &site.node.op {
            Op::Reshape { shape, allow_zero } => {
                let wanted = match shape {
                    Some(shape) => shape.clone(),
                    None => site.numbers(1)?[probe].clone(),
                };
                reshaped_shape(&from, &wanted, *allow_zero).ok()
            }
            Op::Flatten { axis } => {
                let first = if *axis == from.len() as i64 {
                    from.len()
                } else {
                    axis_of(*axis, from.len())?
                };
                Some(vec![from[..first].iter().product(), from[first..].iter().product()])
            }
            Op::Squeeze { axes } => {
                let axes = given_axes(site, axes.as_deref(), from.len())?;
                let axes = axes
                    .unwrap_or_else(|| (0..from.len()).filter(|&axis| from[axis] == 1).collect());
                let is_left = |axis: &usize| !axes.contains(axis);
                Some((0..from.len()).filter(is_left).map(|axis| from[axis]).collect())
            }
            Op::Unsqueeze { axes } => {
                let n = match axes {
                    Some(axes) => axes.len(),
                    None => site.ints(1)?.len(),
                };
                let rank = from.len() + n;
                let axes = given_axes(site, axes.as_deref(), rank)??;
                let mut sizes = from.into_iter();
                (0..rank)
                    .map(|axis| if axes.contains(&axis) { Some(1) } else { sizes.next() })
                    .collect()
            }
            _ => None,
        }
    };
    let [one, two, three] = [shape_for(0)?, shape_for(1)?, shape_for(2)?];
    let layout = x.layout.reshaped(&x.one, [&two, &three])?;
    // One sample must have the shape that several have.
    if layout.shape(&one, 2) == two { site.all(layout) } else { None }
}

/// Returns the axes of an attribute or of the second input, `Some(None)` if there are neither.
fn given_axes(
    site: &Site<'_>,
    attribute: Option<&[i64]>,
    rank: usize,
) -> Option<Option<Vec<usize>>> {
    match (attribute, site.input(1)) {
        (Some(axes), _) => Some(Some(axes_of(axes, rank)?)),
        (None, Some(_)) => Some(Some(axes_of(&site.ints(1)?, rank)?)),
        (None, None) => Some(None),
    }
}

fn transpose(site: &Site<'_>, order: Option<&[i64]>) -> Layouts {
    let x = site.samples(0)?;
    let order = match order {
        Some(order) => axes_of(order, x.rank())?,
        None => (0..x.rank()).rev().collect(),
    };
    site.all(x.layout.moved(order.iter().position(|axis| *axis == x.axis())?))
}

fn expand(site: &Site<'_>) -> Layouts {
    let x = site.samples(0)?;
    let wanted = site.numbers(1)?;
    let mut layout = None;
    for (probe, wanted) in wanted.iter().enumerate() {
        let own = x.layout.shape(&x.one, PROBES[probe]);
        let wanted: Vec<usize> =
            wanted.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<_>>()?;
        let made = broadcast_shapes(&own, &wanted).ok()?;
        let aligned = x.layout.moved(x.axis() + made.len() - own.len());
        // Equal for every number of samples, except for the axis of the samples, whose size is
        // unchanged.
        let mut one = made.clone();
        one[aligned.axis] = x.layout.outer * x.layout.inner;
        let is_same = made[aligned.axis] == own[x.axis()];
        let known = layout.get_or_insert_with(|| (aligned, one.clone()));
        if !is_same || *known != (aligned, one) {
            return None;
        }
    }
    site.all(layout?.0)
}

fn tile(site: &Site<'_>) -> Layouts {
    let x = site.samples(0)?;
    let repeats =
        usize::try_from(*site.ints(1)?.get(x.axis())?).ok().filter(|&repeats| repeats > 0)?;
    site.all(Layout { outer: x.layout.outer * repeats, ..x.layout })
}

fn concat(site: &Site<'_>, axis: i64) -> Layouts {
    let parts: Vec<Batched> =
        (0..site.inputs.len()).map(|k| site.samples(k)).collect::<Option<_>>()?;
    let first = parts.first()?;
    let axis = axis_of(axis, first.rank())?;
    let is_along = axis == first.axis();
    let is_same = |part: &Batched| {
        part.layout == first.layout
            || is_along && (part.axis(), part.layout.inner) == (first.axis(), first.layout.inner)
    };
    if !parts.iter().all(is_same) {
        return None;
    }
    match is_along {
        // All samples of one part after those of another.
        true => {
            let outer = parts.iter().map(|part| part.layout.outer).sum();
            site.all(Layout { outer, ..first.layout })
        }
        false => site.all(first.layout),
    }
}

/// Returns the layout of indices `start..end` of the axis of samples, given for [`PROBES`].
fn cut(layout: Layout, ranges: [[i64; 2]; PROBES.len()]) -> Option<Layout> {
    let mut found = None;
    for (n, [start, end]) in PROBES.into_iter().zip(ranges) {
        let (size, part) = ((layout.outer * n * layout.inner) as i64, (n * layout.inner) as i64);
        let bound = |number: i64| {
            (if number < 0 { number.saturating_add(size) } else { number }).clamp(0, size)
        };
        let (start, end) = (bound(start), bound(end));
        let is_whole = start < end && start % part == 0 && end % part == 0;
        let range = [start / part, end / part];
        if !is_whole || *found.get_or_insert(range) != range {
            return None;
        }
    }
    let [start, end] = found?;
    Some(Layout { outer: (end - start) as usize, ..layout })
}

fn split(site: &Site<'_>, axis: i64, sizes: Option<&[i64]>, parts: Option<i64>) -> Layouts {
    let x = site.samples(0)?;
    if axis_of(axis, x.rank())? != x.axis() {
        return if site.are_constant(1) { site.all(x.layout) } else { None };
    }
    let sizes: [Vec<i64>; PROBES.len()] = match (sizes, site.input(1)) {
        (Some(sizes), _) => [sizes.to_vec(), sizes.to_vec(), sizes.to_vec()],
        (None, Some(_)) => site.numbers(1)?,
        (None, None) => {
            let parts = parts.unwrap_or(1).max(1);
            PROBES.map(|n| {
                let size = (x.layout.outer * n * x.layout.inner) as i64;
                let each = (size + parts - 1) / parts;
                (0..parts).map(|k| each.min((size - k * each).max(0))).collect()
            })
        }
    };
    let mut starts = [0; PROBES.len()];
    let mut made = Vec::new();
    for k in 0..site.outputs.len() {
        let mut ranges = [[0; 2]; PROBES.len()];
        for ((range, start), sizes) in ranges.iter_mut().zip(&mut starts).zip(&sizes) {
            *range = [*start, *start + sizes.get(k)?];
            *start = range[1];
        }
        made.push(Some(cut(x.layout, ranges)?));
    }
    Some(made)
}

fn slice(site: &Site<'_>, given: Option<&SliceGiven>) -> Layouts {
    let x = site.samples(0)?;
    let thrice = |values: &[i64]| [values.to_vec(), values.to_vec(), values.to_vec()];
    let (starts, ends, axes, steps) = match given {
        Some(given) => (thrice(&given.starts), thrice(&given.ends), given.axes.clone(), None),
        None => {
            let constant = |k: usize| match site.input(k) {
                None => Some(None),
                Some(_) => Some(Some(site.ints(k)?)),
            };
            (site.numbers(1)?, site.numbers(2)?, constant(3)?, constant(4)?)
        }
    };
    let n = starts[0].len();
    let axes = axes_of(&axes.unwrap_or_else(|| (0..n as i64).collect()), x.rank())?;
    let mut layout = x.layout;
    for (k, axis) in axes.into_iter().enumerate() {
        let mut ranges = [[0; 2]; PROBES.len()];
        for (range, (starts, ends)) in ranges.iter_mut().zip(starts.iter().zip(&ends)) {
            *range = [*starts.get(k)?, *ends.get(k)?];
        }
        let step = steps.as_ref().map_or(Some(1), |steps| steps.get(k).copied())?;
        if axis != x.axis() {
            // The elements of a sample may not depend on how many samples there are.
            if ranges.iter().any(|range| *range != ranges[0]) {
                return None;
            }
        } else if step == 1 {
            layout = cut(layout, ranges)?;
        } else {
            return None;
        }
    }
    site.all(layout)
}

fn pad(site: &Site<'_>, given: Option<&[i64]>) -> Layouts {
    let x = site.samples(0)?;
    let pads = match given {
        Some(pads) => pads.to_vec(),
        None => site.ints(1)?,
    };
    let axes = match site.input(3) {
        Some(_) => axes_of(&site.ints(3)?, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let is_left = match axes.iter().position(|axis| *axis == x.axis()) {
        Some(k) => pads.get(k) == Some(&0) && pads.get(axes.len() + k) == Some(&0),
        None => true,
    };
    if is_left && site.are_constant(1) { site.all(x.layout) } else { None }
}

fn crop(site: &Site<'_>, axes: Option<&[i64]>) -> Layouts {
    let x = site.samples(0)?;
    let is_left = !axes_of(axes?, x.rank())?.contains(&x.axis());
    if is_left && site.are_constant(1) { site.all(x.layout) } else { None }
}

fn gather(site: &Site<'_>, axis: i64) -> Layouts {
    let (data, indices) = (site.input(0)?, site.input(1)?);
    let axis = axis_of(axis, data.tensor.rank())?;
    match (&data.dependence, &indices.dependence) {
        (Dependence::Samples(layout), Dependence::Constant) if layout.axis < axis => {
            site.all(*layout)
        }
        (Dependence::Samples(layout), Dependence::Constant) if layout.axis > axis => {
            site.all(layout.moved(layout.axis + indices.tensor.rank() - 1))
        }
        (Dependence::Constant, Dependence::Samples(layout)) => {
            site.all(layout.moved(layout.axis + axis))
        }
        _ => None,
    }
}

/// Elements by indices of their own along an axis; `n` inputs have the same samples.
fn elements(site: &Site<'_>, axis: i64, n: usize) -> Layouts {
    let x = site.samples(0)?;
    let is_same = (1..n).all(|k| site.samples(k).is_some_and(|other| other.layout == x.layout));
    if axis_of(axis, x.rank())? != x.axis() && is_same { site.all(x.layout) } else { None }
}

fn gather_nd(site: &Site<'_>, batch_dims: i64) -> Layouts {
    let (data, indices) = (site.input(0)?, site.input(1)?);
    let batch_dims = usize::try_from(batch_dims).ok()?;
    let depth = *indices.tensor.shape().last()?;
    let rank = indices.tensor.rank();
    match (&data.dependence, &indices.dependence) {
        (Dependence::Samples(a), Dependence::Samples(b)) if a == b && a.axis < batch_dims => {
            site.all(*a)
        }
        (Dependence::Samples(layout), Dependence::Constant)
            if layout.axis >= batch_dims + depth =>
        {
            site.all(layout.moved(rank - 1 + layout.axis - batch_dims - depth))
        }
        (Dependence::Constant, Dependence::Samples(layout))
            if layout.axis >= batch_dims && layout.axis + 1 < rank =>
        {
            site.all(*layout)
        }
        _ => None,
    }
}

fn one_hot(site: &Site<'_>, axis: i64) -> Layouts {
    let x = site.samples(0)?;
    let axis = axis_of(axis, x.rank() + 1)?;
    if !site.are_constant(1) {
        return None;
    }
    site.all(x.layout.moved(if x.axis() < axis { x.axis() } else { x.axis() + 1 }))
}

/// Axes are resized one by one; that of the samples must stay as it is.
fn resize(
    site: &Site<'_>,
    axes: Option<&[i64]>,
    aspect: Aspect,
    [scales, sizes]: [usize; 2],
) -> Layouts {
    let x = site.samples(0)?;
    let axes = match axes {
        Some(axes) => axes_of(axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let own = axes.iter().position(|axis| *axis == x.axis());
    let is_given = |k: usize| site.input(k).is_some_and(|input| !input.tensor.is_empty());
    let rest_is_constant = (1..site.inputs.len()).all(|k| k == sizes || site.is_constant(k));
    let is_left = match (is_given(scales), is_given(sizes)) {
        (true, false) => {
            let scales = site.input(scales)?.tensor.cast(aleatron_tensor::DType::F32).ok()?;
            own.is_none_or(|k| {
                scales.to_vec::<f32>().is_ok_and(|scales| scales.get(k) == Some(&1.0))
            })
        }
        (false, true) if aspect == Aspect::Stretch => {
            let sizes = site.numbers(sizes)?;
            let same = |probe: usize| {
                let n = PROBES[probe] * x.layout.outer * x.layout.inner;
                (0..axes.len()).all(|k| match own {
                    Some(own) if own == k => usize::try_from(sizes[probe][k]) == Ok(n),
                    _ => sizes[probe].get(k) == sizes[0].get(k),
                })
            };
            sizes.iter().all(|sizes| sizes.len() == axes.len()) && (0..PROBES.len()).all(same)
        }
        _ => false,
    };
    if is_left && rest_is_constant { site.all(x.layout) } else { None }
}
