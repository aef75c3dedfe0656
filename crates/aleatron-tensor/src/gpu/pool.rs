//! Pooling on GPUs: a thread computes four neighbouring elements of the result.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, product, size, steps};
use super::wgsl::{Items, Operand, ParamsShape};
use crate::error::{Error, Limit, Result};
use crate::math::Helper;
use crate::ops::pool::{Padding, Pool, Windows};

/// The number of elements of the largest window: a thread iterates over it, and some drivers end
/// loops after 2^16 iterations. Whole images are reduced differently.
const MAX_AREA: u128 = 1 << 15;

/// The kernel of a pooling.
///
/// In bounds: as `gpu/mod.rs` says. Only elements inside the image are read: positions before it
/// wrap around, past its end. Threads past the last element compute it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKernel {
    pool: Pool,
    image: Operand,
    out: Operand,
    params: ParamsShape,
}

impl Describe for PoolKernel {
    fn name(&self) -> Cow<'static, str> {
        match self.pool {
            Pool::Max => "max pool".into(),
            Pool::Average(_) => "average pool".into(),
        }
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        vec![("image".to_owned(), self.image), ("out".to_owned(), self.out)]
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        vec![Helper::Basic]
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i: usize| self.params.word(i);
        let mut text = String::new();
        let names = [
            "vectors",
            "last",
            "channels",
            "rows",
            "columns",
            "out_rows",
            "out_columns",
            "kernel_y",
            "kernel_x",
            "stride_y",
            "stride_x",
            "dilation_y",
            "dilation_x",
            "pad_y",
            "pad_x",
            "end_y",
            "end_x",
        ];
        let _ = writeln!(text, "fn window(index: u32) -> f32 {{");
        for (i, name) in names.into_iter().enumerate() {
            let _ = writeln!(text, "    let {name} = {};", word(i));
        }
        let (start, element, end) = match self.pool {
            Pool::Max => (
                "var most = -bitcast<f32>(infinity_bits);",
                "if (x > most || (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) {
                    if ((bitcast<u32>(most) & 0x7fffffffu) <= 0x7f800000u) { most = x; }
                }",
                "return most;",
            ),
            Pool::Average(Padding::Ignored) => (
                "var sum = 0.0; var count = 0u;",
                "sum = sum + x; count += 1u;",
                "return divide(vec4<f32>(sum), vec4<f32>(f32(count))).x;",
            ),
            Pool::Average(Padding::Counted) => (
                "var sum = 0.0;",
                "sum = sum + x;",
                "// The elements of the window that lie before the end of the padding.
    let down = min(kernel_y, (end_y - out_y * stride_y + dilation_y - 1u) / dilation_y);
    let across = min(kernel_x, (end_x - out_x * stride_x + dilation_x - 1u) / dilation_x);
    return divide(vec4<f32>(sum), vec4<f32>(f32(down) * f32(across))).x;",
            ),
        };
        let _ = writeln!(
            text,
            "    let out_x = index % out_columns; let line = index / out_columns;
    let out_y = line % out_rows; let plane = line / out_rows;
    let base = {offset} + (plane / channels) * {step_n} + (plane % channels) * {step_c};
    let y0 = out_y * stride_y - pad_y; let x0 = out_x * stride_x - pad_x;
    {start}
    for (var i = 0u; i < kernel_y; i++) {{
        let y = y0 + i * dilation_y;
        if (y >= rows) {{ continue; }}
        for (var j = 0u; j < kernel_x; j++) {{
            let column = x0 + j * dilation_x;
            if (column >= columns) {{ continue; }}
            let x = image_at(base + y * {step_y} + column * {step_x});
            {element}
        }}
    }}
    {end}
}}
@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {vectors}) {{ return; }}
    let last = {last};
    out_put_vec(t, vec4<f32>(window(min(4u * t, last)), window(min(4u * t + 1u, last)),
                             window(min(4u * t + 2u, last)), window(min(4u * t + 3u, last))));
}}",
            offset = word(17),
            step_n = word(18),
            step_c = word(19),
            step_y = word(20),
            step_x = word(21),
            vectors = word(0),
            last = word(1),
        );
        text
    }
}

/// Records a pooling.
pub(crate) fn launch(device: &GpuDevice, windows: &Windows, image: &GpuView) -> Result<GpuData> {
    let Windows {
        pool,
        shape: [images, channels, rows, columns],
        kernel,
        stride,
        dilation,
        padding,
        out,
    } = *windows;
    let area = kernel[0] as u128 * kernel[1] as u128;
    if area > MAX_AREA {
        return Err(Error::TooLarge { what: Limit::AxisLength, actual: area, limit: MAX_AREA });
    }
    let len = product("elements", &[images, channels, out[0], out[1]])?;
    let mut data = allocate(device, image.data.dtype, len, Faults::of([&image.data.faults]))?;
    if len == 0 {
        return Ok(data);
    }
    device.check_recording(image.data.recording)?;
    let vectors = len.div_ceil(4);
    let mut params = vec![size("vectors", vectors)?, size("elements", len - 1)?];
    for (what, length) in [("channels", channels), ("rows", rows), ("columns", columns)] {
        params.push(size(what, length)?);
    }
    // A stride or a dilation that is larger is never taken.
    let taken = |distance: usize| distance.min(1 << 31);
    let ends = [0, 1].map(|axis| windows.shape[axis + 2] + padding[axis][0] + padding[axis][1]);
    for (what, [down, across]) in [
        ("positions of a window", out),
        ("size of a window", kernel),
        ("stride", stride.map(taken)),
        ("dilation", dilation.map(taken)),
        ("padding", padding.map(|[before, _]| before)),
        ("padded size of an image", ends),
    ] {
        params.extend([size(what, down)?, size(what, across)?]);
    }
    params.push(offset(image.layout.offset())?);
    params.extend(steps(&image.layout)?);
    let description = PoolKernel {
        pool,
        image: operand(device, &image.data, Items::Singles, Access::Read),
        out: operand(device, &data, Items::Vectors, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, &image.data, &mut bound)?;
    views(device, &data, &mut bound)?;
    let recording =
        device.launch(description, &bound, &params, (vectors as u64).div_ceil(THREADS.into()))?;
    drop(bound);
    data.recording = recording;
    Ok(data)
}
