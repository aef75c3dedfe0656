//! Elementwise expressions on GPUs: one kernel each, however many operations they have.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::program;
use super::size::{offset, size, step};
use super::wgsl::{Items, Operand, ParamsShape, value_type};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Expr, Node, Program};
use crate::layout::{Layout, collapse_all, elements};
use crate::math::Helper;

/// Threads of a workgroup; each computes four elements.
pub(super) const THREADS: u32 = 256;

/// The access pattern of the elements of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Walk {
    /// Contiguous, vector by vector.
    InOrder,
    /// One element for all.
    Uniform,
    /// By strides, each element separately.
    Strided,
    /// By strides, with the four elements of a vector contiguous and aligned to a vector of the
    /// leaf.
    StridedVectors,
}

/// The positions of the four elements of a thread in the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    /// In one row, since the rows are whole vectors.
    Whole,
    /// In any rows.
    Ragged,
}

/// The leaves of an expression, as arguments of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Leaves {
    pub(crate) operands: Vec<(Operand, Walk)>,
    /// The number of axes of strided leaves.
    pub(crate) rank: usize,
    pub(crate) rows: Rows,
}

impl Leaves {
    /// Returns the leaves of views of one shape, and their parameters: the sizes of all axes except
    /// the first, then for each leaf its offset and strides.
    pub(crate) fn of(device: &GpuDevice, views: &[GpuView], params: &mut Vec<u32>) -> Result<Self> {
        let is_uniform = |layout: &Layout| {
            layout
                .shape()
                .iter()
                .zip(layout.strides())
                .all(|(&size, &stride)| size == 1 || stride == 0)
        };
        let in_order =
            |layout: &Layout| layout.is_contiguous() && layout.offset().is_multiple_of(4);
        let strided: Vec<&Layout> = views
            .iter()
            .map(|view| &view.layout)
            .filter(|layout| !is_uniform(layout) && !in_order(layout))
            .collect();
        let (dims, strides) = collapse_all(&strided);
        let inner = dims.last().copied().unwrap_or(1);
        let rows = if inner.is_multiple_of(4) { Rows::Whole } else { Rows::Ragged };
        for &length in &dims[1..] {
            params.push(size("length of an axis", length)?);
        }
        let mut strides = strides.into_iter();
        let mut operands = Vec::with_capacity(views.len());
        for view in views {
            let layout = &view.layout;
            let (walk, items) = if is_uniform(layout) {
                params.push(offset(layout.offset())?);
                (Walk::Uniform, Items::Singles)
            } else if in_order(layout) {
                params.push(offset(layout.offset() / 4)?);
                (Walk::InOrder, Items::Vectors)
            } else {
                let own = strides.next().ok_or(Error::internal("gpu::elementwise::Leaves::of"))?;
                let (outer, last) = own.split_at(own.len().saturating_sub(1));
                let vectors = rows == Rows::Whole
                    && last == [1]
                    && layout.offset().is_multiple_of(4)
                    && outer.iter().all(|stride| stride % 4 == 0);
                params.push(offset(layout.offset() / if vectors { 4 } else { 1 })?);
                for (&length, stride) in dims.iter().zip(outer) {
                    params.push(step(length, if vectors { stride / 4 } else { *stride })?);
                }
                for &stride in last {
                    params.push(step(inner, stride)?);
                }
                if vectors {
                    (Walk::StridedVectors, Items::Vectors)
                } else {
                    (Walk::Strided, Items::Singles)
                }
            };
            operands.push((operand(device, &view.data, items, Access::Read), walk));
        }
        Ok(Self { operands, rank: dims.len(), rows })
    }

    /// Returns the number of words of their parameters.
    pub(crate) fn words(&self) -> usize {
        let own = |(_, walk): &(Operand, Walk)| match walk {
            Walk::InOrder | Walk::Uniform => 1,
            Walk::Strided | Walk::StridedVectors => 1 + self.rank,
        };
        self.rank - 1 + self.operands.iter().map(own).sum::<usize>()
    }

    pub(crate) fn named(&self) -> Vec<(String, Operand)> {
        self.operands
            .iter()
            .enumerate()
            .map(|(i, (operand, _))| (format!("in{i}"), *operand))
            .collect()
    }

    /// Writes functions `leafK(t)` that return the elements 4 t to 4 t + 3 of each leaf. Their
    /// parameters begin at `first`; `last` is the expression of the number of the last element.
    pub(crate) fn declare(&self, params: ParamsShape, first: usize, last: &str, out: &mut String) {
        let rank = self.rank;
        let mut at = first + rank - 1;
        for (k, (operand, walk)) in self.operands.iter().enumerate() {
            let value = value_type(operand.dtype);
            let offset = params.word(at);
            at += 1;
            match walk {
                Walk::InOrder => {
                    let _ = writeln!(
                        out,
                        "fn leaf{k}(t: u32) -> vec4<{value}> {{ return in{k}_vec(t + {offset}); }}"
                    );
                    continue;
                }
                Walk::Uniform => {
                    let _ = writeln!(
                        out,
                        "fn leaf{k}(t: u32) -> vec4<{value}> {{ return vec4<{value}>(in{k}_at({offset})); }}"
                    );
                    continue;
                }
                Walk::Strided | Walk::StridedVectors => {}
            }
            // The offset of an element, or of the vector it begins.
            let _ = writeln!(
                out,
                "fn offset{k}(o: u32) -> u32 {{\n    var left = o;\n    var offset = {offset};"
            );
            for axis in (1..rank).rev() {
                let (size, stride) = (params.word(first + axis - 1), params.word(at + axis));
                let coordinate = if axis == rank - 1 && *walk == Walk::StridedVectors {
                    format!("(left % {size}) / 4u")
                } else {
                    format!("(left % {size})")
                };
                let _ =
                    writeln!(out, "    offset += {coordinate} * {stride}; left = left / {size};");
            }
            let last_stride = params.word(at);
            if rank == 1 && *walk == Walk::StridedVectors {
                let _ = writeln!(out, "    offset += (left / 4u) * {last_stride};");
            } else {
                let _ = writeln!(out, "    offset += left * {last_stride};");
            }
            let _ = writeln!(out, "    return offset;\n}}");
            let inner = params.word(at + rank - 1);
            at += rank;
            let body = match (walk, self.rows) {
                (Walk::StridedVectors, _) => format!("return in{k}_vec(offset{k}(4u * t));"),
                (_, Rows::Whole) => format!(
                    "let p = offset{k}(4u * t); let s = {inner};
    return vec4<{value}>(in{k}_at(p), in{k}_at(p + s), in{k}_at(p + 2u * s), in{k}_at(p + 3u * s));"
                ),
                (_, Rows::Ragged) => format!(
                    "let o = 4u * t; let last = {last};
    return vec4<{value}>(in{k}_at(offset{k}(min(o, last))), in{k}_at(offset{k}(min(o + 1u, last))),
                         in{k}_at(offset{k}(min(o + 2u, last))), in{k}_at(offset{k}(min(o + 3u, last))));"
                ),
            };
            let _ = writeln!(out, "fn leaf{k}(t: u32) -> vec4<{value}> {{\n    {body}\n}}");
        }
    }
}

/// The kernel of an expression.
///
/// In bounds: as `gpu/mod.rs` says. Only threads below the number of vectors continue, and a vector
/// has at least one element; in ragged rows, elements past the last are replaced by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Elementwise {
    program: Program,
    leaves: Leaves,
    out: Operand,
    params: ParamsShape,
}

impl Describe for Elementwise {
    fn name(&self) -> Cow<'static, str> {
        let names = self.program.steps.iter().filter_map(|(node, dtype)| match node {
            Node::Leaf(_) | Node::Constant(_) => None,
            Node::Unary(op, _) => Some(op.name()),
            Node::Binary(op, ..) => Some(op.name()),
            Node::Select(..) => Some("where"),
            Node::Cast(_) => Some(dtype.name()),
        });
        let names: Vec<&str> = names.collect();
        match names[..] {
            [] => "copy".into(),
            _ => names.join(" ").into(),
        }
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        [self.leaves.named(), vec![("out".to_owned(), self.out)]].concat()
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        program::helpers(&self.program)
    }

    fn integers(&self) -> Vec<DType> {
        program::integers(&self.program)
    }

    fn body(&self, _: Capabilities) -> String {
        let mut text = String::new();
        self.leaves.declare(self.params, 2, &self.params.word(1), &mut text);
        let _ = writeln!(
            text,
            "@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {}) {{ return; }}",
            self.params.word(0)
        );
        let leaf = |k: usize| format!("leaf{k}(t)");
        program::write(
            &self.program,
            leaf,
            |i| self.params.word(i),
            2 + self.leaves.words(),
            &mut text,
        );
        let _ = writeln!(text, "    out_put_vec(t, v{});\n}}", self.program.steps.len() - 1);
        text
    }
}

/// Records the computation of an expression over a shape.
pub(crate) fn launch(device: &GpuDevice, expr: &Expr<GpuView>, shape: &[usize]) -> Result<GpuData> {
    let (len, dtype) = (elements(shape)?, expr.dtype());
    let faults = Faults::of(expr.leaves.iter().map(|leaf| &leaf.data.faults));
    let mut data = allocate(device, dtype, len, faults)?;
    if len == 0 {
        return Ok(data);
    }
    for leaf in &expr.leaves {
        device.check_recording(leaf.data.recording)?;
    }
    let vectors = len.div_ceil(4);
    let mut params = vec![size("vectors", vectors)?, size("elements", len - 1)?];
    let leaves = Leaves::of(device, &expr.leaves, &mut params)?;
    program::constant_params(&expr.program, &expr.constants, &mut params)?;
    let out = operand(device, &data, Items::Vectors, Access::ReadWrite);
    let params_shape = ParamsShape::of(device, &params);
    let program = expr.program.clone();
    let description = Elementwise { program, leaves, out, params: params_shape };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for leaf in &expr.leaves {
        views(device, &leaf.data, &mut bound)?;
    }
    views(device, &data, &mut bound)?;
    let groups = (vectors as u64).div_ceil(THREADS.into());
    let recording = device.launch(description, &bound, &params, groups)?;
    drop(bound);
    data.recording = recording;
    Ok(data)
}
