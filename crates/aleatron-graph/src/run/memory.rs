//! Limits of a run: the steps of its loops, and the memory of all of its values together.

use std::cell::Cell;

use aleatron_core::{Quantity, memory};
use aleatron_tensor::Tensor;

use super::inputs::{Inputs, floats};
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;

/// The number of bytes of values after which available memory is checked: single values may be too
/// small to check each.
const INTERVAL: u128 = 64 << 20;

/// The remaining limits of a run, including the graphs inside its nodes.
pub(super) struct Limits {
    steps: Cell<u32>,
    /// The bytes of values since the last check.
    bytes: Cell<u128>,
}

impl Limits {
    pub(super) fn new(steps: u32) -> Self {
        Self { steps: Cell::new(steps), bytes: Cell::new(0) }
    }

    /// Takes a step of a loop; returns false if there is none left.
    pub(super) fn take_step(&self) -> bool {
        let left = self.steps.get().checked_sub(1);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Counts the outputs of a node on the host.
    ///
    /// # Errors
    /// [`Error::Core`] if there is hardly any memory left.
    pub(super) fn count(&self, made: &[Tensor]) -> Result<()> {
        let on_host = made.iter().filter(|tensor| !tensor.device().is_gpu());
        let bytes = self.bytes.get() + on_host.map(bytes_of).sum::<u128>();
        if bytes < INTERVAL {
            self.bytes.set(bytes);
            return Ok(());
        }
        self.bytes.set(0);
        Ok(memory::check(INTERVAL, Quantity::Value)?)
    }
}

fn bytes_of(tensor: &Tensor) -> u128 {
    tensor.len() as u128 * tensor.dtype().size() as u128
}

/// Checks before a node runs on the host that there is memory for its output, as far as its size is
/// known.
pub(super) fn check_node(node: &Node, inputs: &[Option<Tensor>]) -> Result<()> {
    if is_view(node) || inputs.iter().flatten().any(|tensor| tensor.device().is_gpu()) {
        return Ok(());
    }
    let size = inputs.iter().flatten().map(|tensor| tensor.dtype().size()).min().unwrap_or(1);
    Ok(memory::check(at_least(&node.op, inputs) as u128 * size as u128, Quantity::Value)?)
}

/// Returns whether the output of a node may share the memory of an input, or be one element that is
/// repeated.
fn is_view(node: &Node) -> bool {
    match node.op {
        Op::Concat { .. } | Op::Variadic(_) => node.inputs.len() < 2,
        Op::Identity
        | Op::Cast(_)
        | Op::CastLike
        | Op::Clip { .. }
        | Op::Dropout { .. }
        | Op::Reshape { .. }
        | Op::Flatten { .. }
        | Op::Squeeze { .. }
        | Op::Unsqueeze { .. }
        | Op::Transpose { .. }
        | Op::Expand
        | Op::Slice { .. }
        | Op::Split { .. }
        | Op::ConstantOfShape { .. } => true,
        _ => false,
    }
}

/// Checks before a run that the values that are alive together fit, as far as their sizes follow
/// from those of the inputs: a small file that needs more memory than there is fails before any of
/// it is allocated.
///
/// # Errors
/// [`Error::Node`] with the first node that does not fit into memory.
pub(super) fn check_run(
    graph: &Graph,
    inputs: &[Tensor],
    last_uses: &[Vec<ValueId>],
) -> Result<()> {
    // Lower bounds of the numbers of elements; `None` if nothing is known.
    let mut least: Vec<Option<u128>> = vec![None; graph.n_values()];
    for (id, tensor) in graph.constants() {
        least[id.index()] = Some(tensor.len() as u128);
    }
    for (&id, tensor) in graph.inputs().iter().zip(inputs) {
        least[id.index()] = Some(tensor.len() as u128);
    }
    let mut taken = vec![0_u128; graph.n_values()];
    let mut alive = 0_u128;
    // Checking available memory for every node would take longer than small nodes do.
    let mut left: Option<u128> = None;
    let available = || match cfg!(fuzzing) {
        true => 0,
        false => memory::available().map_or(u128::MAX, u128::from),
    };
    for (index, node) in graph.nodes().iter().enumerate() {
        let made = least_output(graph, node, &least);
        if let (Some(made), Some(Some(id))) = (made, node.outputs.first()) {
            least[id.index()] = Some(made);
            // An element has a byte at least.
            taken[id.index()] = if is_view(node) { 0 } else { made };
            alive = alive.saturating_add(taken[id.index()]);
            if alive >= INTERVAL && alive > *left.get_or_insert_with(available) {
                memory::check(alive, Quantity::Value).map_err(|error| Error::Node {
                    index,
                    name: node.name.clone(),
                    operator: node.op.name().to_owned(),
                    source: Box::new(error.into()),
                })?;
            }
        }
        for id in &last_uses[index] {
            alive = alive.saturating_sub(taken[id.index()]);
        }
    }
    Ok(())
}

/// Returns a lower bound of the number of elements of the first output of a node.
fn least_output(graph: &Graph, node: &Node, least: &[Option<u128>]) -> Option<u128> {
    let known = |k: usize| node.inputs.get(k).copied().flatten().and_then(|id| least[id.index()]);
    let numbers = |k: usize| {
        let tensor = graph.constant(node.inputs.get(k).copied().flatten()?)?;
        Inputs(&[Some(tensor.clone())]).ints(0).ok()
    };
    let product = |sizes: &[i64]| {
        sizes.iter().map(|&n| u128::try_from(n).unwrap_or(0)).fold(1_u128, u128::saturating_mul)
    };
    match &node.op {
        Op::Unary(_) | Op::Cast(_) | Op::CastLike | Op::Identity | Op::Clip { .. } => known(0),
        Op::Dropout { .. } | Op::Softmax { .. } | Op::CumSum { .. } | Op::CumProd { .. } => {
            known(0)
        }
        Op::Reshape { .. } | Op::Flatten { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. } => {
            known(0)
        }
        Op::Transpose { .. } | Op::Trilu { .. } | Op::LayerNormalization { .. } => known(0),
        Op::BatchNormalization { .. } | Op::InstanceNormalization { .. } => known(0),
        Op::QuantizeLinear { .. } | Op::DequantizeLinear { .. } => known(0),
        Op::Concat { .. } => {
            Some((0..node.inputs.len()).filter_map(known).fold(0, u128::saturating_add))
        }
        // Operands are broadcast to the largest at least, unless one of them is empty.
        Op::Binary(_) | Op::Variadic(_) | Op::Where => {
            let all: Option<Vec<u128>> = (0..node.inputs.len()).map(known).collect();
            let all = all?;
            if all.contains(&0) { Some(0) } else { all.into_iter().max() }
        }
        Op::Expand => {
            let shape = product(&numbers(1)?);
            let own = known(0)?;
            Some(if shape == 0 || own == 0 { 0 } else { shape.max(own) })
        }
        Op::Tile => Some(known(0)?.saturating_mul(product(&numbers(1)?))),
        Op::ConstantOfShape { .. } => Some(product(&numbers(0)?)),
        _ => None,
    }
}

/// Returns a lower bound of the number of elements that a node produces, for operators that produce
/// many from few.
pub(crate) fn at_least(op: &Op, inputs: &[Option<Tensor>]) -> usize {
    let given = || inputs.iter().flatten();
    let product =
        |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(1_usize, usize::saturating_mul);
    let number = |at: usize| {
        let tensor = inputs.get(at)?.as_ref()?;
        match tensor.dtype().is_float() {
            true => floats(tensor).ok()?.first().copied().map(f64::from),
            false => Inputs(inputs).ints(at).ok()?.first().map(|&number| number as f64),
        }
    };
    let sizes = |at: usize| {
        let numbers = Inputs(inputs).ints(at).unwrap_or_default();
        numbers.into_iter().map(|n| usize::try_from(n).unwrap_or(0)).collect::<Vec<_>>()
    };
    match op {
        Op::Tile => {
            let [Some(x), Some(_)] = inputs else { return 0 };
            product(&mut sizes(1).into_iter().chain([x.len()]))
        }
        Op::Expand => product(&mut sizes(1).into_iter()),
        Op::ConstantOfShape { .. } => product(&mut sizes(0).into_iter()),
        Op::Concat { .. } => given().map(Tensor::len).fold(0, usize::saturating_add),
        Op::OneHot { .. } => {
            let depth = number(1).filter(|depth| *depth > 0.0).unwrap_or(0.0) as usize;
            inputs.first().and_then(Option::as_ref).map_or(0, |x| x.len().saturating_mul(depth))
        }
        Op::Binary(_) | Op::Variadic(_) | Op::Where => {
            let rank = given().map(Tensor::rank).max().unwrap_or(0);
            let size = |from_end: usize| {
                let sizes = given().filter_map(|x| x.shape().iter().rev().nth(from_end));
                sizes.copied().max().unwrap_or(1)
            };
            product(&mut (0..rank).map(size))
        }
        Op::MatMul => {
            let [Some(a), Some(b)] = inputs else { return 0 };
            let rows = a.shape().iter().rev().nth(1).copied().unwrap_or(1);
            let columns = if b.rank() < 2 { 1 } else { b.shape()[b.rank() - 1] };
            rows.saturating_mul(columns)
        }
        Op::Range => match (number(0), number(1), number(2)) {
            (Some(start), Some(limit), Some(delta)) => ((limit - start) / delta) as usize,
            _ => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Runner;
    use super::*;
    use crate::graph::Value;
    use crate::op::{Dims, NoAxes, Reduction, Unary, Variadic};
    use aleatron_tensor::{DType, Device};

    /// Many values of 2^26 elements, each of which is reduced to one number right away or at the
    /// end.
    fn graph(n: usize, reduced_at_once: bool) -> Graph {
        let sum = || Op::Reduce {
            reduction: Reduction::Sum,
            axes: None,
            reduced: Dims::Drop,
            no_axes: NoAxes::All,
        };
        let mut graph = Graph::new("many");
        let x = graph.add_input(Value { name: "x".to_owned(), ..Value::default() });
        let mut made = Vec::new();
        for k in 0..n {
            let large = graph.add_node(format!("large{k}"), Op::Unary(Unary::Neg), &[x]);
            made.push(match reduced_at_once {
                true => graph.add_node(format!("small{k}"), sum(), &[large]),
                false => large,
            });
        }
        let y = graph.add_node("sum", Op::Variadic(Variadic::Sum), &made);
        graph.add_output(y);
        graph
    }

    /// Checks a graph with a view of one element as a large input; nothing is computed.
    fn check(graph: Graph) -> Result<()> {
        let one = Tensor::zeros(&[], DType::F32, &Device::Cpu).unwrap();
        let x = one.broadcast_to(&[1 << 26]).unwrap();
        let runner = Runner::new(graph, &Device::Cpu).unwrap();
        check_run(&runner.graph, &[x], &runner.last_uses)
    }

    #[test]
    fn values_count_until_their_last_use() {
        // All together they would have 4 TiB at least.
        let n = 1 << 16;
        assert!(check(graph(n, true)).is_ok());
        let error = check(graph(n, false)).unwrap_err().to_string();
        assert!(error.contains("large") && error.contains("Neg"), "{error}");
    }
}
