//! A node of a run, with how its inputs depend on samples.

use aleatron_tensor::{DType, Tensor};

use super::Layout;
use crate::graph::Node;

/// The numbers of samples for which values that depend on that number are known.
pub(super) const PROBES: [usize; 3] = [1, 2, 3];

/// The dependence of a value on samples.
#[derive(Debug, Clone)]
pub(super) enum Dependence {
    /// It is the same for all samples, however many there are.
    Constant,
    /// It depends on the number of samples alone: its values for [`PROBES`], all of one shape.
    Number(Box<[Tensor; PROBES.len()]>),
    /// Each element depends on one sample, and the samples lie so.
    Samples(Layout),
    /// Elements depend on several samples, on their number, or on their position.
    Several,
}

/// An input of a node.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) dependence: Dependence,
    /// The value in the run.
    pub(super) tensor: Tensor,
}

/// A node with its inputs and the shapes of its outputs.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) node: &'a Node,
    pub(super) inputs: Vec<Option<Input>>,
    /// The shapes of the outputs in the run.
    pub(super) outputs: Vec<Vec<usize>>,
    /// The number of samples of the run.
    pub(super) n: usize,
}

/// Samples in an input of a node.
#[derive(Debug, Clone)]
pub(super) struct Batched {
    pub(super) layout: Layout,
    /// The shape for one sample.
    pub(super) one: Vec<usize>,
}

impl Batched {
    pub(super) fn rank(&self) -> usize {
        self.one.len()
    }

    pub(super) fn axis(&self) -> usize {
        self.layout.axis
    }
}

impl Site<'_> {
    pub(super) fn input(&self, k: usize) -> Option<&Input> {
        self.inputs.get(k)?.as_ref()
    }

    /// Returns the samples in an input.
    pub(super) fn samples(&self, k: usize) -> Option<Batched> {
        let input = self.input(k)?;
        let Dependence::Samples(layout) = input.dependence else { return None };
        let mut one = input.tensor.shape().to_vec();
        *one.get_mut(layout.axis)? /= self.n;
        Some(Batched { layout, one })
    }

    /// Returns whether an input is missing or the same for all samples.
    pub(super) fn is_constant(&self, k: usize) -> bool {
        self.input(k).is_none_or(|input| matches!(input.dependence, Dependence::Constant))
    }

    /// Returns whether all inputs from `first` on are missing or the same for all samples.
    pub(super) fn are_constant(&self, first: usize) -> bool {
        (first..self.inputs.len()).all(|k| self.is_constant(k))
    }

    /// Returns the shape of an input that is the same for all samples.
    pub(super) fn constant_shape(&self, k: usize) -> Option<&[usize]> {
        let input = self.input(k)?;
        matches!(input.dependence, Dependence::Constant).then(|| input.tensor.shape())
    }

    /// Returns the integers of an input that is the same for all samples.
    pub(super) fn ints(&self, k: usize) -> Option<Vec<i64>> {
        let input = self.input(k)?;
        matches!(input.dependence, Dependence::Constant).then(|| integers(&input.tensor))?
    }

    /// Returns the integers of an input that depends on the number of samples at most, for
    /// [`PROBES`].
    pub(super) fn numbers(&self, k: usize) -> Option<[Vec<i64>; PROBES.len()]> {
        let input = self.input(k)?;
        match &input.dependence {
            Dependence::Constant => {
                let values = integers(&input.tensor)?;
                Some([values.clone(), values.clone(), values])
            }
            Dependence::Number(values) => {
                let [one, two, three] = &**values;
                Some([integers(one)?, integers(two)?, integers(three)?])
            }
            Dependence::Samples(_) | Dependence::Several => None,
        }
    }

    /// Returns the layout for every output.
    pub(super) fn all(&self, layout: Layout) -> Option<Vec<Option<Layout>>> {
        Some(vec![Some(layout); self.outputs.len()])
    }

    /// Returns the rank of the first output.
    pub(super) fn rank(&self) -> usize {
        self.outputs.first().map_or(0, Vec::len)
    }
}

/// Returns the elements of a tensor of integers.
pub(super) fn integers(tensor: &Tensor) -> Option<Vec<i64>> {
    match tensor.dtype() {
        DType::I64 => tensor.to_vec::<i64>().ok(),
        DType::I32 => Some(tensor.to_vec::<i32>().ok()?.into_iter().map(i64::from).collect()),
        _ => None,
    }
}

/// Returns the axis that a number means; negative ones count from the end.
pub(super) fn axis_of(number: i64, rank: usize) -> Option<usize> {
    let from_start = if number < 0 { number.checked_add(rank as i64)? } else { number };
    usize::try_from(from_start).ok().filter(|&axis| axis < rank)
}

/// Returns the axes that numbers mean.
pub(super) fn axes_of(numbers: &[i64], rank: usize) -> Option<Vec<usize>> {
    numbers.iter().map(|&number| axis_of(number, rank)).collect()
}
