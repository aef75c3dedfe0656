//! Samples in products of matrices.

use super::rule::{Layouts, meet};
use super::site::{Batched, Dependence, Site};
use crate::op::{Equation, EquationTerm};

/// Matrices in the last two axes, batches of them in the others, which are broadcast; a vector is
/// one row or one column.
pub(super) fn matmul(site: &Site<'_>) -> Layouts {
    let ranks = [site.input(0)?.tensor.rank(), site.input(1)?.tensor.rank()];
    let out = site.rank();
    // Whether the output has axes of rows and of columns; vectors do not.
    let (has_rows, has_columns) = (ranks[0] > 1, ranks[1] > 1);
    let batches = out.checked_sub(usize::from(has_rows) + usize::from(has_columns))?;
    let of_batches = |k: usize, x: &Batched| {
        let own = ranks[k].saturating_sub(2);
        (x.axis() < own).then(|| x.axis() + batches - own)
    };
    let is_broadcast = |k: usize, axis: usize| {
        let own = ranks[k].saturating_sub(2);
        let shape = site.constant_shape(k)?;
        let size = (axis + own).checked_sub(batches).map_or(1, |axis| shape[axis]);
        Some(size == 1)
    };
    match [site.samples(0), site.samples(1)] {
        [Some(left), Some(right)] => {
            let axis = of_batches(0, &left).filter(|&axis| of_batches(1, &right) == Some(axis))?;
            let is_same = left.layout.moved(axis) == right.layout.moved(axis);
            if is_same { site.all(left.layout.moved(axis)) } else { None }
        }
        [Some(left), None] => {
            site.constant_shape(1)?;
            if let Some(axis) = of_batches(0, &left) {
                return if is_broadcast(1, axis)? {
                    site.all(left.layout.moved(axis))
                } else {
                    None
                };
            }
            // Rows of the left matrix are independent, its columns are summed over.
            let is_row = has_rows && left.axis() + 2 == ranks[0];
            if is_row { site.all(left.layout.moved(batches)) } else { None }
        }
        [None, Some(right)] => {
            site.constant_shape(0)?;
            if let Some(axis) = of_batches(1, &right) {
                return if is_broadcast(0, axis)? {
                    site.all(right.layout.moved(axis))
                } else {
                    None
                };
            }
            let is_column = has_columns && right.axis() + 1 == ranks[1];
            if is_column { site.all(right.layout.moved(out - 1)) } else { None }
        }
        [None, None] => None,
    }
}

pub(super) fn gemm(site: &Site<'_>, transposed: [bool; 2]) -> Layouts {
    let [rows, columns] = [usize::from(transposed[0]), usize::from(!transposed[1])];
    let made = match [site.samples(0), site.samples(1)] {
        [Some(left), None] if left.axis() == rows && site.is_constant(1) => {
            Some(left.layout.moved(0))
        }
        [None, Some(right)] if right.axis() == columns && site.is_constant(0) => {
            Some(right.layout.moved(1))
        }
        // Only the added matrix may depend on samples.
        [None, None] if site.is_constant(0) && site.is_constant(1) => None,
        _ => return None,
    };
    // The matrix that is added is broadcast to the product.
    match (&made, site.input(2).map(|input| &input.dependence)) {
        (Some(layout), None) => site.all(*layout),
        (Some(layout), Some(Dependence::Constant)) => {
            let shape = site.constant_shape(2)?;
            let own = (layout.axis + shape.len()).checked_sub(2);
            let is_alike = own.and_then(|own| shape.get(own)).is_none_or(|&size| size == 1);
            if is_alike { site.all(*layout) } else { None }
        }
        (Some(layout), Some(Dependence::Samples(_))) if meet(site, 2..3, 2)? == *layout => {
            site.all(*layout)
        }
        _ => None,
    }
}

pub(super) fn einsum(site: &Site<'_>, equation: &Equation) -> Layouts {
    // Axes of the ellipsis are broadcast: the last one has the number 1000.
    let labels = |term: &EquationTerm, rank: usize| -> Option<Vec<usize>> {
        let extra = rank.checked_sub(term.before.len() + term.after.len())?;
        let letters =
            |part: &[u8]| part.iter().map(|&letter| usize::from(letter)).collect::<Vec<_>>();
        let between = (0..extra).map(|k| 1001 + k - extra).collect();
        Some([letters(&term.before), between, letters(&term.after)].concat())
    };
    let mut found: Option<(usize, Batched)> = None;
    for (k, term) in equation.inputs.iter().enumerate() {
        let Some(own) = site.samples(k) else { continue };
        let label = *labels(term, own.rank())?.get(own.axis())?;
        match &found {
            None => found = Some((label, own)),
            Some((known, other))
                if *known == label && other.layout.moved(0) == own.layout.moved(0) => {}
            Some(_) => return None,
        }
    }
    let (label, first) = found?;
    for (k, term) in equation.inputs.iter().enumerate() {
        let rank = site.input(k)?.tensor.rank();
        let times = labels(term, rank)?.iter().filter(|own| **own == label).count();
        let is_apart =
            if site.samples(k).is_some() { times == 1 } else { site.is_constant(k) && times == 0 };
        if !is_apart {
            return None;
        }
    }
    let axis = labels(&equation.output, site.rank())?.iter().position(|own| *own == label)?;
    site.all(first.layout.moved(axis))
}
