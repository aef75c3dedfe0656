//! Programs of elementwise expressions as statements of shaders: `v0`, `v1`, … are their values,
//! four elements each.

use std::fmt::Write;

use super::size::words_of;
use super::wgsl::{i64_of, value_type};
use crate::dtype::{Constant, DType, Kind};
use crate::error::{Error, Result};
use crate::expr::{Node, Program, StepIndex};
use crate::math::Helper;

/// Returns the number of words of a constant among the parameters.
fn constant_words(dtype: DType) -> usize {
    if dtype == DType::I64 { 2 } else { 1 }
}

/// Returns the WGSL template of a step; `None` if its types do not support the operation, or if the
/// step is not an operation.
fn template(program: &Program, node: Node, dtype: DType) -> Option<&'static str> {
    match node {
        Node::Unary(op, x) => {
            let entry = op.entry();
            match program.dtype_of(x).kind() {
                Kind::Float if dtype == DType::Bool => {
                    entry.predicate.map(|predicate| predicate.wgsl)
                }
                Kind::Float => entry.float.map(|float| float.wgsl),
                Kind::Integer => entry.integer.map(|integer| integer.wgsl),
                Kind::Bool => entry.boolean.map(|(_, wgsl)| wgsl),
            }
        }
        Node::Binary(op, x, _) => {
            let entry = op.entry();
            match (&entry.comparison, program.dtype_of(x).kind()) {
                (Some(comparison), Kind::Float) => Some(comparison.float_wgsl),
                (Some(comparison), Kind::Integer) => Some(comparison.wgsl),
                (Some(comparison), Kind::Bool) => comparison.bool_wgsl,
                (None, Kind::Float) => entry.float.map(|float| float.wgsl),
                (None, Kind::Integer) => entry.integer.map(|integer| integer.wgsl),
                (None, Kind::Bool) => entry.boolean.map(|(_, wgsl)| wgsl),
            }
        }
        Node::Leaf(_) | Node::Constant(_) | Node::Select(..) | Node::Cast(_) => None,
    }
}

/// Adds the constants of a program to the parameters. All operations must be supported for their
/// types.
pub(crate) fn constant_params(
    program: &Program,
    constants: &[Constant],
    params: &mut Vec<u32>,
) -> Result<()> {
    for &(node, dtype) in &program.steps {
        if matches!(node, Node::Unary(..) | Node::Binary(..))
            && template(program, node, dtype).is_none()
        {
            return Err(Error::internal("gpu::program, types of an operation"));
        }
    }
    for constant in constants {
        params.extend(&words_of(constant.bits())[..constant_words(constant.dtype())]);
    }
    Ok(())
}

/// Returns the helper files a program calls.
pub(crate) fn helpers(program: &Program) -> Vec<Helper> {
    let mut all = Vec::new();
    for &(node, dtype) in &program.steps {
        if dtype == DType::F16 {
            all.push(Helper::Half);
        }
        match node {
            Node::Unary(op, x) => {
                let entry = op.entry();
                match program.dtype_of(x).kind() {
                    Kind::Float => {
                        all.extend(entry.float.iter().flat_map(|float| float.helpers));
                        all.extend(entry.predicate.iter().flat_map(|predicate| predicate.helpers));
                    }
                    Kind::Integer => {
                        all.extend(entry.integer.iter().flat_map(|integer| integer.helpers))
                    }
                    Kind::Bool => {}
                }
            }
            Node::Binary(op, x, _) => {
                let entry = op.entry();
                match program.dtype_of(x).kind() {
                    Kind::Float => all.extend(entry.float.iter().flat_map(|float| float.helpers)),
                    Kind::Integer => {
                        all.extend(entry.integer.iter().flat_map(|integer| integer.helpers))
                    }
                    Kind::Bool => {}
                }
            }
            Node::Cast(x) if program.dtype_of(x).is_float() => match dtype {
                DType::I32 | DType::U8 => all.push(Helper::Cast),
                DType::I64 => all.push(Helper::Cast64),
                _ => {}
            },
            _ => {}
        }
    }
    // Casts use the tests for NaN.
    if all.iter().any(|helper| matches!(helper, Helper::Cast | Helper::Cast64)) {
        all.push(Helper::Basic);
    }
    all
}

/// Returns the integer types a program computes in.
pub(crate) fn integers(program: &Program) -> Vec<DType> {
    let mut types: Vec<DType> = program
        .steps
        .iter()
        .map(|(_, dtype)| *dtype)
        .filter(|dtype| dtype.kind() == Kind::Integer)
        .collect();
    types.sort_unstable();
    types.dedup();
    types
}

/// Writes the steps. `leaf` returns the expression of a leaf's four elements, `word` that of a word
/// of the parameters, where the constants begin at `first_constant`.
pub(crate) fn write(
    program: &Program,
    leaf: impl Fn(usize) -> String,
    word: impl Fn(usize) -> String,
    first_constant: usize,
    out: &mut String,
) {
    for (index, &(node, dtype)) in program.steps.iter().enumerate() {
        let value = match node {
            Node::Leaf(index) => leaf(index),
            Node::Constant(index) => {
                let before = program.steps.iter().filter_map(|(node, dtype)| match node {
                    Node::Constant(other) if *other < index => {
                        Some((*other, constant_words(*dtype)))
                    }
                    _ => None,
                });
                // A constant may be named by several steps; each counts once.
                let mut widths: Vec<(usize, usize)> = before.collect();
                widths.sort_unstable();
                widths.dedup_by_key(|(index, _)| *index);
                let at = first_constant + widths.iter().map(|(_, words)| words).sum::<usize>();
                constant(dtype, &word(at), &word(at + constant_words(dtype) - 1))
            }
            Node::Select(c, x, y) => format!("select(v{y}, v{x}, v{c})"),
            Node::Cast(x) => cast(program.dtype_of(x), dtype, &format!("v{x}")),
            Node::Unary(_, x) => fill(template(program, node, dtype), program.dtype_of(x), [x, x]),
            Node::Binary(_, x, y) => {
                fill(template(program, node, dtype), program.dtype_of(x), [x, y])
            }
        };
        let computes = !matches!(node, Node::Leaf(_) | Node::Constant(_) | Node::Select(..));
        let value = match dtype {
            DType::F16 if computes => format!("half_round({value})"),
            DType::U8 if computes => format!("({value}) & vec4<u32>(255u)"),
            _ => value,
        };
        let _ = writeln!(out, "    let v{index} = {value};");
    }
}

/// Returns the expression of an operation on values. A missing operation, which [`constant_params`]
/// has rejected, would be an invalid shader.
fn fill(template: Option<&str>, dtype: DType, [x, y]: [StepIndex; 2]) -> String {
    let value = value_type(dtype);
    template
        .unwrap_or("missing_operation()")
        .replace("{x}", &format!("v{x}"))
        .replace("{y}", &format!("v{y}"))
        .replace("{T}", &format!("vec4<{value}>"))
        .replace("{t}", value)
}

/// Returns a vector of four copies of a constant whose words are these expressions.
pub(crate) fn constant(dtype: DType, low: &str, high: &str) -> String {
    match dtype {
        DType::F32 | DType::F16 => format!("vec4<f32>(bitcast<f32>({low}))"),
        DType::I32 => format!("vec4<i32>(bitcast<i32>({low}))"),
        DType::I64 | DType::F64 => format!("vec4<i64>({})", i64_of(high, low)),
        DType::U8 => format!("vec4<u32>({low})"),
        DType::Bool => format!("vec4<bool>({low} != 0u)"),
    }
}

fn cast(from: DType, to: DType, x: &str) -> String {
    let target = format!("vec4<{}>", value_type(to));
    match (from.kind(), to) {
        (Kind::Float, DType::F32 | DType::F16 | DType::F64) => x.to_owned(),
        (Kind::Float, DType::I32) => format!("m_to_i32({x})"),
        (Kind::Float, DType::I64) => format!("m_to_i64({x})"),
        (Kind::Float, DType::U8) => format!("m_to_u8({x})"),
        (Kind::Float, DType::Bool) => format!("!({x} == vec4<f32>(0.0))"),
        (Kind::Bool, DType::Bool) => x.to_owned(),
        (Kind::Bool, _) => format!("select({target}(0), {target}(1), {x})"),
        (Kind::Integer, DType::Bool) => format!("({x} != vec4<{}>(0))", value_type(from)),
        (Kind::Integer, _) => format!("{target}({x})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::UnaryOp;

    #[test]
    fn unsupported_operation_of_a_type_is_an_internal_error() {
        let program = |dtype| Program {
            steps: vec![(Node::Leaf(0), dtype), (Node::Unary(UnaryOp::Exp, 0), dtype)],
        };
        assert_eq!(constant_params(&program(DType::F32), &[], &mut Vec::new()), Ok(()));
        let refused = constant_params(&program(DType::I32), &[], &mut Vec::new());
        assert!(matches!(refused, Err(Error::Internal { .. })), "{refused:?}");
    }
}
