//! The integer types of values that tensors hold in wider types.
//!
//! A file names the types of constants, inputs, and of what some nodes compute. The others follow
//! from node to node.

use std::collections::BTreeMap;

use super::proto::{AttributeProto, NodeProto};
use super::tensor::ElementType;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::narrow::Narrow;
use crate::op::{Binary, Op, Quantized, Reduction, Unary, Variadic};

/// Returns the type that the attributes of a node give to its output.
pub(super) fn of_attributes(node: &NodeProto) -> Option<ElementType> {
    let named = |name: &str| node.attribute.iter().find(|a| a.name.as_deref() == Some(name));
    let code = |a: &AttributeProto| i32::try_from(a.i?).ok();
    let code = match node.op_type.as_deref().unwrap_or_default() {
        "Cast" => named("to").and_then(code),
        "EyeLike" => named("dtype").and_then(code),
        "QuantizeLinear" => named("output_dtype").and_then(code),
        "Constant" | "ConstantOfShape" => named("value").and_then(|a| a.t.as_ref()?.data_type),
        _ => None,
    };
    ElementType::from_code(code?)
}

/// The source of the type of a node's output.
enum Source {
    /// From an input.
    Input { input: usize, reach: Reach },
    /// From the operator itself, for any inputs.
    Operator,
    /// The operator does not support such inputs.
    Refused,
}

/// The outputs that have the type of an input.
enum Reach {
    First,
    All,
}

/// Finds the types of all values of a graph whose nodes are in order. `outer` has those of the
/// graph around it.
pub(super) fn infer(graph: &mut Graph, outer: &BTreeMap<ValueId, Narrow>) -> Result<()> {
    for (from, to) in &graph.captures {
        if let Some(&narrow) = outer.get(from) {
            graph.narrow.insert(*to, narrow);
        }
    }
    let mut nodes = std::mem::take(&mut graph.nodes);
    let found = nodes.iter_mut().enumerate().try_for_each(|(index, node)| {
        infer_node(&mut graph.narrow, node).map_err(|source| Error::Node {
            index,
            name: node.name.clone(),
            operator: node.op.name().to_owned(),
            source: Box::new(source),
        })
    });
    graph.nodes = nodes;
    found
}

fn infer_node(known: &mut BTreeMap<ValueId, Narrow>, node: &mut Node) -> Result<()> {
    let of = |known: &BTreeMap<ValueId, Narrow>, id: Option<&Option<ValueId>>| {
        id.copied().flatten().and_then(|id| known.get(&id).copied())
    };
    let inputs: Vec<Option<Narrow>> = node.inputs.iter().map(|id| of(known, Some(id))).collect();
    let input = |k: usize| inputs.get(k).copied().flatten();
    let operator = node.op.name();
    let made: Vec<Option<Narrow>> = match &mut node.op {
        Op::If { then_branch, else_branch } => {
            infer(then_branch, known)?;
            infer(else_branch, known)?;
            outputs(then_branch).collect()
        }
        Op::Loop { body } => {
            for (&id, narrow) in body.inputs.iter().zip(&inputs) {
                if let Some(narrow) = narrow {
                    body.narrow.insert(id, *narrow);
                }
            }
            infer(body, known)?;
            outputs(body).skip(1).collect()
        }
        Op::QuantizeLinear { to, .. } | Op::QLinearMatMul { to } | Op::QLinearConv { to, .. } => {
            let own = of(known, node.outputs.first());
            let zero_point = if node.inputs.len() > 3 { input(7) } else { input(2) };
            if let Some(narrow) = own.or(zero_point) {
                *to = Quantized::of(narrow).ok_or_else(|| refused(operator, narrow))?;
            }
            vec![own.or(zero_point)]
        }
        op => match source(op, &inputs) {
            Source::Input { input: k, reach: Reach::First } => vec![input(k)],
            Source::Input { input: k, reach: Reach::All } => vec![input(k); node.outputs.len()],
            Source::Operator => Vec::new(),
            Source::Refused => {
                let Some(narrow) = inputs.iter().flatten().next() else { return Ok(()) };
                return Err(refused(operator, *narrow));
            }
        },
    };
    for (id, narrow) in node.outputs.iter().zip(made) {
        if let (Some(id), Some(narrow)) = (id, narrow) {
            known.insert(*id, narrow);
        }
    }
    Ok(())
}

fn refused(operator: &str, narrow: Narrow) -> Error {
    Error::model(
        operator,
        format!("{narrow} is not supported here; cast it to int32 or int64 before"),
    )
}

fn outputs(graph: &Graph) -> impl Iterator<Item = Option<Narrow>> {
    graph.outputs.iter().map(|id| graph.narrow.get(id).copied())
}

fn source(op: &Op, inputs: &[Option<Narrow>]) -> Source {
    let first = Source::Input { input: 0, reach: Reach::First };
    let is_wide = inputs.first() == Some(&Some(Narrow::UInt64));
    match op {
        // Products of numbers below 2^63 do not show whether they are too large.
        Op::Unary(Unary::Neg | Unary::BitwiseNot)
        | Op::Binary(Binary::Mul | Binary::Pow | Binary::BitShiftLeft)
        | Op::Reduce {
            reduction: Reduction::Prod | Reduction::SumSquare | Reduction::L2, ..
        }
        | Op::CumProd { .. }
        | Op::MatMul
        | Op::Gemm { .. }
            if is_wide =>
        {
            Source::Refused
        }
        Op::Unary(Unary::IsInf { .. } | Unary::IsNan | Unary::Not) => Source::Operator,
        Op::Binary(
            Binary::Equal
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor,
        ) => Source::Operator,
        Op::Variadic(Variadic::Mean) => Source::Refused,
        Op::Unary(_) | Op::Binary(_) | Op::Variadic(_) | Op::Clip { .. } | Op::Identity => first,
        Op::Dropout { .. }
        | Op::Reduce { .. }
        | Op::CumSum { .. }
        | Op::CumProd { .. }
        | Op::TopK { .. } => first,
        Op::MatMul
        | Op::Gemm { .. }
        | Op::Pool { .. }
        | Op::GlobalPool(_)
        | Op::MaxUnpool { .. } => first,
        Op::Reshape { .. } | Op::Flatten { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. } => {
            first
        }
        Op::Transpose { .. } | Op::Expand | Op::Tile | Op::Concat { .. } | Op::Slice { .. } => {
            first
        }
        Op::Pad { .. } | Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => {
            first
        }
        Op::ScatterElements { .. }
        | Op::ScatterNd { .. }
        | Op::Compress { .. }
        | Op::Trilu { .. } => first,
        Op::EyeLike { dtype: None, .. } | Op::DepthToSpace { .. } | Op::SpaceToDepth { .. } => {
            first
        }
        Op::ReverseSequence { .. } | Op::CenterCropPad { .. } | Op::Unique { .. } | Op::Range => {
            first
        }
        Op::Split { .. } => Source::Input { input: 0, reach: Reach::All },
        Op::Where | Op::CastLike => Source::Input { input: 1, reach: Reach::First },
        Op::OneHot { .. } => Source::Input { input: 2, reach: Reach::First },
        // The types of these are those of their attributes, which are known, or one of the tensors'
        // own.
        Op::Cast(_) | Op::Constant(_) | Op::ConstantOfShape { .. } | Op::EyeLike { .. } => {
            Source::Operator
        }
        Op::ArgReduce { .. } | Op::NonZero | Op::Shape { .. } | Op::Size => Source::Operator,
        Op::DequantizeLinear { .. } | Op::DynamicQuantizeLinear => Source::Operator,
        Op::MatMulInteger | Op::ConvInteger { .. } => Source::Operator,
        _ => Source::Refused,
    }
}
