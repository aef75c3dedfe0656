//! Assembly of tensors from boxes of others, on GPUs.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::program;
use super::size::{offset, size, steps, words_of};
use super::wgsl::{Items, Operand, ParamsShape, value_type};
use crate::dtype::Constant;
use crate::error::Result;
use crate::layout::elements;

/// The kernel: each element comes from the first box that it is in, or is the constant.
///
/// In bounds: as `gpu/mod.rs` says. Coordinates in a box are compared with its sizes, which are
/// those of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Assemble {
    boxes: Vec<Operand>,
    rank: usize,
    out: Operand,
    params: ParamsShape,
}

/// Writes coordinates `c0`, `c1`, … of element `o` of a shape whose sizes except the first are
/// parameters from `first` on.
pub(super) fn coordinates(
    rank: usize,
    word: impl Fn(usize) -> String,
    first: usize,
    text: &mut String,
) {
    let _ = writeln!(text, "    var left = o;");
    for axis in (1..rank).rev() {
        let size = word(first + axis - 1);
        let _ = writeln!(text, "    let c{axis} = left % {size}; left = left / {size};");
    }
    let _ = writeln!(text, "    let c0 = left;");
}

/// Writes the entry point of a kernel whose elements `element(o)` gives, four by each thread.
pub(super) fn entry(vectors: &str, last: &str, value: &str, text: &mut String) {
    let _ = writeln!(
        text,
        "@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {vectors}) {{ return; }}
    let last = {last};
    let o = 4u * t;
    out_put_vec(t, vec4<{value}>(element(o), element(min(o + 1u, last)), element(min(o + 2u, last)), element(min(o + 3u, last))));
}}"
    );
}

impl Describe for Assemble {
    fn name(&self) -> Cow<'static, str> {
        "assemble".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let named = self.boxes.iter().enumerate().map(|(k, operand)| (format!("in{k}"), *operand));
        named.chain([("out".to_owned(), self.out)]).collect()
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let (rank, value) = (self.rank, value_type(self.out.dtype));
        let word = |i: usize| self.params.word(i);
        let mut text = format!("fn element(o: u32) -> {value} {{\n");
        coordinates(rank, word, 4, &mut text);
        let mut at = 3 + rank;
        for k in 0..self.boxes.len() {
            let mut inside = Vec::new();
            let mut offset = word(at);
            for axis in 0..rank {
                let (stride, start, size) = (
                    word(at + 1 + axis),
                    word(at + 1 + rank + axis),
                    word(at + 1 + 2 * rank + axis),
                );
                inside.push(format!("(c{axis} - {start}) < {size}"));
                let _ = write!(offset, " + (c{axis} - {start}) * {stride}");
            }
            let inside = if inside.is_empty() { "true".to_owned() } else { inside.join(" && ") };
            let _ = writeln!(text, "    if ({inside}) {{ return in{k}_at({offset}); }}");
            at += 1 + 3 * rank;
        }
        let _ = writeln!(
            text,
            "    return {}.x;\n}}",
            program::constant(self.out.dtype, &word(2), &word(3))
        );
        entry(&word(0), &word(1), value, &mut text);
        text
    }
}

/// Records the assembly of a tensor of a shape from views, each at a position, and a constant
/// everywhere else. The shape has at least one axis.
pub(crate) fn launch(
    device: &GpuDevice,
    boxes: &[(GpuView, Vec<usize>)],
    shape: &[usize],
    fill: Constant,
) -> Result<GpuData> {
    let (len, rank) = (elements(shape)?, shape.len());
    let faults = Faults::of(boxes.iter().map(|(view, _)| &view.data.faults));
    let mut out = allocate(device, fill.dtype(), len, faults)?;
    if len == 0 {
        return Ok(out);
    }
    let vectors = len.div_ceil(4);
    let [low, high] = words_of(fill.bits());
    let mut params = vec![size("vectors", vectors)?, size("elements", len - 1)?, low, high];
    for &length in &shape[1..] {
        params.push(size("length of an axis", length)?);
    }
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    let mut operands = Vec::with_capacity(boxes.len());
    for (view, starts) in boxes {
        device.check_recording(view.data.recording)?;
        params.push(offset(view.layout.offset())?);
        params.extend(steps(&view.layout)?);
        for &start in starts {
            params.push(size("first coordinate of a part", start)?);
        }
        for &length in view.layout.shape() {
            params.push(size("length of an axis", length)?);
        }
        operands.push(operand(device, &view.data, Items::Singles, Access::Read));
        views(device, &view.data, &mut bound)?;
    }
    views(device, &out, &mut bound)?;
    let description = Assemble {
        boxes: operands,
        rank,
        out: operand(device, &out, Items::Vectors, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let groups = (vectors as u64).div_ceil(THREADS.into());
    let recording = device.launch(description, &bound, &params, groups)?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}
