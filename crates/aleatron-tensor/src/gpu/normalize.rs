//! Softmax and normalisation of rows on GPUs: each row is read once if its elements fit the
//! registers of its threads.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::{Leaves, THREADS};
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::program;
use super::reduce::lanes_for;
use super::size::{product, size};
use super::wgsl::{Items, Operand, ParamsShape};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, Program};
use crate::math::Helper;
use crate::ops::normalize::Normal;

/// The number of vectors that a thread keeps in registers.
const KEPT: usize = 8;

/// The number of words of parameters before those of the leaves.
const OWN_PARAMS: usize = 4;

/// The kernel. Rows are whole vectors.
///
/// In bounds: as `gpu/mod.rs` says. Rows past the last read no elements. Workgroup memory is
/// indexed by the number of a thread, and by that of one before the end of its row's threads.
/// Weights are rows themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Normalize {
    normal: Normal,
    program: Program,
    leaves: Leaves,
    weights: Vec<Operand>,
    lanes: u32,
    /// The number of vectors of each thread, if it keeps them in registers.
    kept: Option<u32>,
    out: Operand,
    params: ParamsShape,
}

impl Normalize {
    /// Folds `total` over the threads of a row with an operation; all of them have the result.
    fn tree(&self, op: &str, text: &mut String) {
        let lanes = self.lanes;
        if lanes == 1 {
            return;
        }
        let _ = writeln!(text, "    totals[local] = total;\n    workgroupBarrier();");
        let mut half = lanes / 2;
        while half > 0 {
            let _ = writeln!(
                text,
                "    if (lane < {half}u) {{ total = {}; totals[local] = total; }}\n    workgroupBarrier();",
                op.replace("{x}", "total").replace("{y}", &format!("totals[local + {half}u]"))
            );
            half /= 2;
        }
        let _ = writeln!(text, "    total = totals[local - lane];\n    workgroupBarrier();");
    }

    /// Runs a statement for each vector `x` of the thread, whose number is `t`.
    fn each(&self, statement: &str, text: &mut String) {
        let lanes = self.lanes;
        let _ = match self.kept {
            Some(kept) => (0..kept).try_for_each(|k| {
                writeln!(
                    text,
                    "    {{ let t = first + {}u; let x = x{k}; if (t < stop) {{ {statement} }} }}",
                    k * lanes
                )
            }),
            None => writeln!(
                text,
                "    for (var t = first; t < stop; t += {lanes}u) {{ let x = value(t); {statement} }}"
            ),
        };
    }

    /// The sum of the lanes of a vector.
    const SUM: &'static str = "    total = (sum.x + sum.z) + (sum.y + sum.w);";
    const ADD: &'static str = "{x} + {y}";
}

impl Describe for Normalize {
    fn name(&self) -> Cow<'static, str> {
        match self.normal {
            Normal::Softmax => "softmax",
            Normal::LogSoftmax => "log_softmax",
            Normal::Layer => "layer_norm",
            Normal::Rms => "rms_norm",
        }
        .into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let mut all = self.leaves.named();
        all.extend(
            ["scale", "shift"]
                .iter()
                .zip(&self.weights)
                .map(|(name, operand)| ((*name).to_owned(), *operand)),
        );
        all.push(("out".to_owned(), self.out));
        all
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        let mut all = program::helpers(&self.program);
        all.extend([Helper::Basic, Helper::Exp, Helper::Log]);
        all
    }

    fn integers(&self) -> Vec<DType> {
        program::integers(&self.program)
    }

    fn body(&self, _: Capabilities) -> String {
        let mut text = String::new();
        let word = |i| self.params.word(i);
        let (lanes, rows) = (self.lanes, THREADS / self.lanes);
        // Word 2, which ragged rows would need, is the last element.
        self.leaves.declare(self.params, OWN_PARAMS, &word(2), &mut text);
        let _ = writeln!(text, "fn value(t: u32) -> vec4<f32> {{");
        let leaf = |k: usize| format!("leaf{k}(t)");
        program::write(&self.program, leaf, word, OWN_PARAMS + self.leaves.words(), &mut text);
        let _ = writeln!(text, "    return v{};\n}}", self.program.steps.len() - 1);
        if lanes > 1 {
            text += "var<workgroup> totals: array<f32, 256>;\n";
        }
        let _ = writeln!(
            text,
            "@compute @workgroup_size(256) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let row = (group.x + group.y * groups.x) * {rows}u + local / {lanes}u;
    let lane = local % {lanes}u;
    let vectors = {};
    let begin = row * vectors;
    let stop = select(0u, begin + vectors, row < {});
    let first = begin + lane;
    var total: f32;",
            word(1),
            word(0),
        );
        for k in 0..self.kept.unwrap_or(0) {
            let t = format!("first + {}u", k * lanes);
            let _ = writeln!(
                text,
                "    var x{k} = vec4<f32>(0.0); if ({t} < stop) {{ x{k} = value({t}); }}"
            );
        }
        match self.normal {
            Normal::Softmax | Normal::LogSoftmax => {
                text += "    var most = -infinity();\n";
                self.each("most = max_nan(most, x);", &mut text);
                text +=
                    "    most = max_nan(most, most.zwxy); total = max_nan(most, most.yxwz).x;\n";
                self.tree("max_nan(vec4<f32>({x}), vec4<f32>({y})).x", &mut text);
                text += "    let shift = select(vec4<f32>(total), vec4<f32>(0.0), is_inf(vec4<f32>(total)));\n    var sum = vec4<f32>(0.0);\n";
                self.each("sum += m_exp(x - shift);", &mut text);
                text += Self::SUM;
                text += "\n";
                self.tree(Self::ADD, &mut text);
                if self.normal == Normal::Softmax {
                    text += "    let all = vec4<f32>(total);\n";
                    self.each("out_put_vec(t, divide(m_exp(x - shift), all));", &mut text);
                } else {
                    text += "    let log_all = m_log(vec4<f32>(total));\n";
                    self.each("out_put_vec(t, (x - shift) - log_all);", &mut text);
                }
            }
            Normal::Layer | Normal::Rms => {
                text += "    let n = vec4<f32>(f32(4u * vectors));\n    var mean = vec4<f32>(0.0);\n    var sum = vec4<f32>(0.0);\n";
                if self.normal == Normal::Layer {
                    self.each("sum += x;", &mut text);
                    text += Self::SUM;
                    text += "\n";
                    self.tree(Self::ADD, &mut text);
                    text += "    mean = divide(vec4<f32>(total), n);\n    sum = vec4<f32>(0.0);\n";
                }
                self.each("let d = x - mean; sum += d * d;", &mut text);
                text += Self::SUM;
                text += "\n";
                self.tree(Self::ADD, &mut text);
                let _ = writeln!(
                    text,
                    "    let factor = reciprocal_root(divide(vec4<f32>(total), n) + vec4<f32>(bitcast<f32>({})));",
                    word(3)
                );
                let mut y = "(x - mean) * factor".to_owned();
                if !self.weights.is_empty() {
                    y += " * scale_vec(t - begin)";
                }
                if self.weights.len() > 1 {
                    y += " + shift_vec(t - begin)";
                }
                self.each(&format!("out_put_vec(t, {y});"), &mut text);
            }
        }
        text += "}\n";
        text
    }
}

/// Records the normalisation of rows of `n` elements, a multiple of 4, over an expression of a
/// shape whose last axes they are. Weights are contiguous rows of 32-bit floats: a scale, or a
/// scale and a shift.
pub(crate) fn launch(
    device: &GpuDevice,
    expr: &Expr<GpuView>,
    [rows, n]: [usize; 2],
    normal: Normal,
    weights: &[GpuView],
    epsilon: f32,
    dtype: DType,
) -> Result<GpuData> {
    for data in expr.leaves.iter().chain(weights).map(|view| &view.data) {
        device.check_recording(data.recording)?;
    }
    let faults = Faults::of(expr.leaves.iter().chain(weights).map(|view| &view.data.faults));
    let len = product("elements", &[rows, n])?;
    let mut out = allocate(device, dtype, len, faults)?;
    let vectors = n / 4;
    let lanes = lanes_for(vectors / 2)?;
    let each = vectors.div_ceil(lanes as usize);
    let mut params = vec![
        size("rows", rows)?,
        size("vectors of a row", vectors)?,
        size("elements", len - 1)?,
        epsilon.to_bits(),
    ];
    let leaves = Leaves::of(device, &expr.leaves, &mut params)?;
    program::constant_params(&expr.program, &expr.constants, &mut params)?;
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for view in expr.leaves.iter().chain(weights) {
        views(device, &view.data, &mut bound)?;
    }
    views(device, &out, &mut bound)?;
    let description = Normalize {
        normal,
        program: expr.program.clone(),
        leaves,
        weights: weights
            .iter()
            .map(|view| operand(device, &view.data, Items::Vectors, Access::Read))
            .collect(),
        lanes,
        kept: if each <= KEPT { Some(size("vectors of a thread", each)?) } else { None },
        out: operand(device, &out, Items::Vectors, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let groups = (rows as u64).div_ceil((THREADS / lanes).into());
    let recording = device.launch(description, &bound, &params, groups)?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}
