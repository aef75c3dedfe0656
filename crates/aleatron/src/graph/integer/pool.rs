//! Pools of a graph as those of integers.

use super::plan::refused;
use crate::Result;
use crate::graph::Op;
use aleatron_core::arithmetic::{Border, Pool, PoolKind, PoolShape};
use aleatron_graph::Node;
use aleatron_graph::op::{NoAxes, Pooling, Reduced, Reduction, Rounding, Window};
use aleatron_graph::product::ConvSizes;

/// The pool that a node is over values of a shape, and the shape of what it makes. `given` are axes that are an input.
pub(super) fn pool(node: &Node, shape: &[usize], given: Option<Vec<i64>>) -> Result<(PoolShape, Vec<usize>)> {
    let kind = |pooling: &Pooling| match pooling {
        Pooling::Max { .. } => PoolKind::Max,
        _ => PoolKind::Average,
    };
    match &node.op {
        Op::Pool { pooling, window, rounding } => {
            windows(node, kind(pooling), pooling, window, *rounding, shape)
        }
        Op::GlobalPool(pooling) => {
            let [batch, channels, axes @ ..] = shape else {
                return Err(refused(node, format!("shape {shape:?} has nothing to pool")));
            };
            let output = [&[*batch, *channels], vec![1; axes.len()].as_slice()].concat();
            Ok((whole(kind(pooling), *channels, axes)?, output))
        }
        Op::Reduce { reduction, axes, reduced, no_axes } => {
            let rank = shape.len();
            let axes = match (axes.clone().or(given), no_axes) {
                (Some(axes), _) if !axes.is_empty() => axes,
                (_, NoAxes::All) => return Err(refused(node, "it reduces samples")),
                (_, NoAxes::None) => return Err(refused(node, "it reduces nothing")),
            };
            let mut over: Vec<usize> = Vec::new();
            for axis in axes {
                let axis = if axis < 0 { axis + rank as i64 } else { axis };
                over.extend(usize::try_from(axis).ok().filter(|&axis| axis < rank));
            }
            over.sort_unstable();
            over.dedup();
            let kept = rank - over.len();
            if kept == 0 || over.iter().copied().ne(kept..rank) {
                return Err(refused(node, "it reduces other than the last axes"));
            }
            let kind = if *reduction == Reduction::Max { PoolKind::Max } else { PoolKind::Average };
            let ends = match reduced {
                Reduced::Kept => vec![1; over.len()],
                Reduced::Dropped => Vec::new(),
            };
            // The first axis may be all there is beside them.
            let channels = shape[..kept].iter().skip(1).product();
            Ok((whole(kind, channels, &shape[kept..])?, [&shape[..kept], ends.as_slice()].concat()))
        }
        _ => Err(refused(node, "it is no pool")),
    }
}

/// One window over all of each channel.
fn whole(kind: PoolKind, channels: usize, axes: &[usize]) -> Result<PoolShape> {
    let places = axes.iter().product();
    Ok(PoolShape::new(Pool::global(kind, [1, places]), [channels, 1, places])?)
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
        return Err(refused(node, format!("shape {shape:?} has nothing to pool")));
    };
    let found = ConvSizes::rounded(window, axes, &[], rounding)?;
    let counts_padding = matches!(pooling, Pooling::Average { count_padding: true });
    // A sequence is an image of one row.
    let mut sizes = [[1, 1, 1, 0, 0]; 2];
    let first = 2 - found.input.len().min(2);
    for axis in 0..found.input.len().min(2) {
        let (n, kernel, stride) = (found.input[axis], found.kernel[axis], found.strides[axis]);
        let [begin, end] = found.padding[axis];
        // As much as the windows need: sizes that are rounded up reach further.
        let needed = (found.output[axis].saturating_sub(1) * stride + kernel).saturating_sub(n + begin);
        if needed > end && counts_padding {
            return Err(refused(node, "its last window reaches past the padding that counts"));
        }
        sizes[first + axis] = [n, kernel, stride, begin, needed];
    }
    let [rows, columns] = sizes;
    let border = if counts_padding { Border::Zeros } else { Border::LeftOut };
    let pool = Pool::new(kind, [rows[1], columns[1]])
        .with_stride([rows[2], columns[2]])
        .with_paddings([[rows[3], rows[4]], [columns[3], columns[4]]], border);
    let made = PoolShape::new(pool, [*channels, rows[0], columns[0]])?;
    Ok((made, [&[*batch, *channels], found.output.as_slice()].concat()))
}
