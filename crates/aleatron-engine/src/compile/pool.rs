//! Pools and reductions of a graph as windows over images.

use super::refused;
use crate::Result;
use aleatron_core::arithmetic::{Border, Pool, PoolKind, PoolShape};
use aleatron_graph::op::{Dims, NoAxes, Pooling, Reduction, Rounding, Window};
use aleatron_graph::product::ConvSizes;
use aleatron_graph::{Node, Op};

/// Returns the pool that a node computes over values of a shape, and the shape of its output.
/// `given` are the axes given by an input.
pub(super) fn pool(
    node: &Node,
    shape: &[usize],
    given: Option<Vec<i64>>,
) -> Result<(PoolShape, Vec<usize>)> {
    let kind = |pooling: &Pooling| match pooling {
        Pooling::Max { .. } => Ok(PoolKind::Max),
        Pooling::Average { .. } => Ok(PoolKind::Average),
        Pooling::Lp { .. } => Err(refused(node, "it pools a norm")),
    };
    match &node.op {
        Op::Pool { pooling, window, rounding } => {
            windows(node, kind(pooling)?, pooling, window, *rounding, shape)
        }
        Op::GlobalPool(pooling) => {
            let [batch, channels, axes @ ..] = shape else {
                return Err(refused(node, format!("shape {shape:?} has no axes to pool")));
            };
            let output = [&[*batch, *channels], vec![1; axes.len()].as_slice()].concat();
            Ok((whole(kind(pooling)?, *channels, axes)?, output))
        }
        Op::Reduce { reduction, axes, reduced, no_axes } => {
            let rank = shape.len();
            let axes = match (axes.clone().or(given), no_axes) {
                (Some(axes), _) if !axes.is_empty() => axes,
                (_, NoAxes::All) => return Err(refused(node, "it reduces over samples")),
                (_, NoAxes::None) => return Err(refused(node, "it has no axes to reduce")),
            };
            let mut over: Vec<usize> = Vec::new();
            for axis in axes {
                let from_start = if axis < 0 { axis + rank as i64 } else { axis };
                let axis_index =
                    usize::try_from(from_start).ok().filter(|&axis_index| axis_index < rank);
                over.push(axis_index.ok_or_else(|| {
                    refused(node, format!("axis {axis} is out of range for rank {rank}"))
                })?);
            }
            over.sort_unstable();
            over.dedup();
            let outer = rank - over.len();
            if outer == 0 || over.iter().copied().ne(outer..rank) {
                return Err(refused(node, "only the last axes can be reduced"));
            }
            let kind = match reduction {
                Reduction::Max => PoolKind::Max,
                Reduction::Mean => PoolKind::Average,
                _ => return Err(refused(node, "it is neither a mean nor a maximum")),
            };
            let ends = match reduced {
                Dims::Keep => vec![1; over.len()],
                Dims::Drop => Vec::new(),
            };
            // The first axis may be the only other one.
            let channels = shape[..outer].iter().skip(1).product();
            Ok((
                whole(kind, channels, &shape[outer..])?,
                [&shape[..outer], ends.as_slice()].concat(),
            ))
        }
        _ => Err(refused(node, "it is not a pool")),
    }
}

/// Returns one window over all of each channel.
fn whole(kind: PoolKind, channels: usize, axes: &[usize]) -> Result<PoolShape> {
    let positions = axes.iter().product();
    Ok(PoolShape::new(Pool::global(kind, [1, positions]), [channels, 1, positions])?)
}

fn windows(
    node: &Node,
    kind: PoolKind,
    pooling: &Pooling,
    window: &Window,
    rounding: Rounding,
    shape: &[usize],
) -> Result<(PoolShape, Vec<usize>)> {
    let [batch, channels, axes @ ..] = shape else {
        return Err(refused(node, format!("shape {shape:?} has no axes to pool")));
    };
    let found = ConvSizes::rounded(window, axes, &[], rounding)?;
    let counts_padding = matches!(pooling, Pooling::Average { count_padding: true });
    // A sequence is an image of one row.
    let mut sizes = [[1, 1, 1, 0, 0]; 2];
    let first = 2 - found.input.len().min(2);
    for axis in 0..found.input.len().min(2) {
        let (n, kernel, stride) = (found.input[axis], found.kernel[axis], found.strides[axis]);
        let [begin, end] = found.padding[axis];
        // The padding that the windows need: sizes that are rounded up reach further.
        let needed =
            (found.output[axis].saturating_sub(1) * stride + kernel).saturating_sub(n + begin);
        if needed > end && counts_padding {
            return Err(refused(
                node,
                "its last window extends beyond the padding, which the average counts",
            ));
        }
        sizes[first + axis] = [n, kernel, stride, begin, needed];
    }
    let [rows, columns] = sizes;
    let border = if counts_padding { Border::Zeros } else { Border::Excluded };
    let pool = Pool::new(kind, [rows[1], columns[1]])
        .with_stride([rows[2], columns[2]])
        .with_paddings([[rows[3], rows[4]], [columns[3], columns[4]]], border);
    let pool_shape = PoolShape::new(pool, [*channels, rows[0], columns[0]])?;
    Ok((pool_shape, [&[*batch, *channels], found.output.as_slice()].concat()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_graph::op::Padding;

    fn of(op: Op, shape: &[usize]) -> Result<([usize; 3], Vec<usize>)> {
        let node = Node { name: "pool".to_owned(), op, inputs: Vec::new(), outputs: Vec::new() };
        pool(&node, shape, None).map(|(pool, shape)| (pool.output(), shape))
    }

    fn mean(axes: &[i64], no_axes: NoAxes) -> Op {
        let axes = Some(axes.to_vec());
        Op::Reduce { reduction: Reduction::Mean, axes, reduced: Dims::Drop, no_axes }
    }

    /// Pools a sequence by windows of two at every second position.
    fn pairs(count_padding: bool, end: i64, rounding: Rounding) -> Op {
        let window = Window {
            kernel: vec![2],
            strides: vec![2],
            dilations: Vec::new(),
            padding: Padding::Explicit(vec![0, end]),
        };
        Op::Pool { pooling: Pooling::Average { count_padding }, window, rounding }
    }

    #[test]
    fn only_the_last_axes_are_reduced() {
        let shape = [7, 2, 5];
        for axes in [&[2][..], &[-1]] {
            assert_eq!(
                of(mean(axes, NoAxes::All), &shape).unwrap(),
                ([2, 1, 1], vec![7, 2]),
                "{axes:?}"
            );
        }
        assert_eq!(of(mean(&[1, -1], NoAxes::All), &shape).unwrap(), ([1, 1, 1], vec![7]));
        // Other axes, including samples, and no axes.
        for (axes, no_axes, reason) in [
            (&[0][..], NoAxes::All, "only the last axes can be reduced"),
            (&[1], NoAxes::All, "only the last axes can be reduced"),
            (&[0, 2], NoAxes::All, "only the last axes can be reduced"),
            (&[0, 1, 2], NoAxes::All, "only the last axes can be reduced"),
            (&[], NoAxes::All, "it reduces over samples"),
            (&[], NoAxes::None, "it has no axes to reduce"),
            (&[2, 3], NoAxes::All, "axis 3 is out of range for rank 3"),
            (&[2, -4], NoAxes::All, "axis -4 is out of range for rank 3"),
        ] {
            let error = of(mean(axes, no_axes), &shape).unwrap_err().to_string();
            assert!(error.contains(reason), "{axes:?}: {error}");
        }
    }

    #[test]
    fn windows_that_count_padding_stay_within_it() {
        let shape = [7, 3, 5];
        // Two windows in five positions, or three with one more position.
        assert_eq!(of(pairs(true, 0, Rounding::Down), &shape).unwrap(), ([3, 1, 2], vec![7, 3, 2]));
        assert_eq!(of(pairs(true, 1, Rounding::Down), &shape).unwrap(), ([3, 1, 3], vec![7, 3, 3]));
        assert_eq!(of(pairs(false, 0, Rounding::Up), &shape).unwrap(), ([3, 1, 3], vec![7, 3, 3]));
        // The third window would count a position outside the padding.
        assert!(of(pairs(true, 0, Rounding::Up), &shape).is_err());
    }
}
