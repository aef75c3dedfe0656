//! Resizing on GPUs, one axis at a time: a thread computes four neighbouring elements of the
//! result.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, size, steps};
use super::wgsl::{Items, Operand, ParamsShape};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::elements;
use crate::ops::resize::Taps;

/// The kernel of a resizing.
///
/// In bounds: as `gpu/mod.rs` says. The table has `taps` positions and as many weights for each
/// element of the axis; positions are inside the input, except the one that represents the outside,
/// which is not read. Threads past the last element compute it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Resample {
    input: Operand,
    table: Operand,
    out: Operand,
    rank: usize,
    axis: usize,
    taps: usize,
    params: ParamsShape,
}

impl Describe for Resample {
    fn name(&self) -> Cow<'static, str> {
        "resize".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        vec![
            ("input".to_owned(), self.input),
            ("table".to_owned(), self.table),
            ("out".to_owned(), self.out),
        ]
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i: usize| self.params.word(i);
        let Self { rank, axis, .. } = *self;
        let mut text = String::from(
            "fn element(index: u32) -> f32 {\n    var left = index;\n    var at = 0u;\n",
        );
        let _ = writeln!(text, "    var offset = {};", word(2));
        for i in (0..rank).rev() {
            let (size, step) = (word(5 + i), word(5 + rank + i));
            if i == axis {
                let _ = writeln!(text, "    at = left % {size}; left = left / {size};");
            } else {
                let _ =
                    writeln!(text, "    offset += (left % {size}) * {step}; left = left / {size};");
            }
        }
        let (taps, step, weights, outside) = (self.taps, word(5 + rank + axis), word(3), word(4));
        let _ = writeln!(
            text,
            "    let first = bitcast<u32>(table_at(at * {taps}u));
    if (first == 0xffffffffu) {{ return bitcast<f32>({outside}); }}"
        );
        if taps == 1 {
            let _ = writeln!(text, "    return input_at(offset + first * {step});\n}}");
        } else {
            let _ = writeln!(
                text,
                "    var sum = 0.0;
    for (var tap = at * {taps}u; tap < at * {taps}u + {taps}u; tap++) {{
      let weight = bitcast<f32>(table_at({weights} + tap));
      if (weight != 0.0) {{ sum = sum + input_at(offset + bitcast<u32>(table_at(tap)) * {step}) * weight; }}
    }}"
            );
            let _ = writeln!(text, "    return sum;\n}}");
        }
        let _ = writeln!(
            text,
            "@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {vectors}) {{ return; }}
    let last = {last};
    out_put_vec(t, vec4<f32>(element(min(4u * t, last)), element(min(4u * t + 1u, last)),
                             element(min(4u * t + 2u, last)), element(min(4u * t + 3u, last))));
}}",
            vectors = word(0),
            last = word(1),
        );
        text
    }
}

/// Records a resizing of one axis.
pub(crate) fn launch(
    device: &GpuDevice,
    view: &GpuView,
    axis: usize,
    taps: &Taps,
    table: &GpuView,
    shape: &[usize],
    dtype: DType,
) -> Result<GpuData> {
    let len = elements(shape)?;
    let mut data = allocate(device, dtype, len, Faults::of([&view.data.faults]))?;
    if len == 0 {
        return Ok(data);
    }
    device.check_recording(view.data.recording)?;
    let vectors = len.div_ceil(4);
    let mut params =
        vec![size("vectors", vectors)?, size("elements", len - 1)?, offset(view.layout.offset())?];
    params.extend([size("neighbours", taps.positions.len())?, taps.outside.to_bits()]);
    for &length in shape {
        params.push(size("length of an axis", length)?);
    }
    params.extend(steps(&view.layout)?);
    let description = Resample {
        input: operand(device, &view.data, Items::Singles, Access::Read),
        table: operand(device, &table.data, Items::Singles, Access::Read),
        out: operand(device, &data, Items::Vectors, Access::ReadWrite),
        rank: shape.len(),
        axis,
        taps: taps.count,
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for data in [&view.data, &table.data] {
        views(device, data, &mut bound)?;
    }
    views(device, &data, &mut bound)?;
    let recording =
        device.launch(description, &bound, &params, (vectors as u64).div_ceil(THREADS.into()))?;
    drop(bound);
    data.recording = recording;
    Ok(data)
}
