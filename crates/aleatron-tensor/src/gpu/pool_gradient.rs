//! Gradients of pooling on GPUs: a thread computes four neighbouring elements of the image's
//! gradient, from the windows that they are in.

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
use crate::error::Result;
use crate::math::Helper;
use crate::ops::pool::{Padding, Pool, Windows};

/// The kernel of the gradient of a pooling.
///
/// In bounds: as `gpu/mod.rs` says. Only windows of the result and elements of the image are read:
/// positions before either wrap around, past its end. Threads past the last element compute it
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolGradient {
    pool: Pool,
    gradient: Operand,
    /// The image, for max pooling.
    image: Option<Operand>,
    out: Operand,
    params: ParamsShape,
}

/// The names of the parameters; the offset and the four steps of the gradient and of the image
/// follow them.
const NAMES: [&str; 17] = [
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

impl PoolGradient {
    /// Returns the expression of the part of a window's gradient `g` for the element at `y`, `x`.
    fn part(&self, image_at: &str) -> String {
        match self.pool {
            Pool::Max => format!(
                "var is_found = false; var most = 0.0; var best_y = 0u; var best_x = 0u;
            for (var wi = 0u; wi < kernel_y; wi++) {{
                let wy = y0 + wi * dilation_y;
                if (wy >= rows) {{ continue; }}
                for (var wj = 0u; wj < kernel_x; wj++) {{
                    let wx = x0 + wj * dilation_x;
                    if (wx >= columns) {{ continue; }}
                    let value = image_at({image_at});
                    let is_nan = (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u;
                    let most_is_nan = (bitcast<u32>(most) & 0x7fffffffu) > 0x7f800000u;
                    if (!is_found || (is_nan && !most_is_nan) || value > most) {{
                        is_found = true; most = value; best_y = wy; best_x = wx;
                    }}
                }}
            }}
            if (best_y == y && best_x == x) {{ sum = sum + g; }}"
            ),
            Pool::Average(Padding::Ignored) => "var count = 0u;
            for (var wi = 0u; wi < kernel_y; wi++) { if (y0 + wi * dilation_y < rows) { count += 1u; } }
            var across = 0u;
            for (var wj = 0u; wj < kernel_x; wj++) { if (x0 + wj * dilation_x < columns) { across += 1u; } }
            sum = sum + divide(vec4<f32>(g), vec4<f32>(f32(count) * f32(across))).x;"
                .to_owned(),
            Pool::Average(Padding::Counted) => {
                "let down = min(kernel_y, (end_y - out_y * stride_y + dilation_y - 1u) / dilation_y);
            let across = min(kernel_x, (end_x - out_x * stride_x + dilation_x - 1u) / dilation_x);
            sum = sum + divide(vec4<f32>(g), vec4<f32>(f32(down) * f32(across))).x;"
                    .to_owned()
            }
        }
    }
}

impl Describe for PoolGradient {
    fn name(&self) -> Cow<'static, str> {
        match self.pool {
            Pool::Max => "max pool gradient".into(),
            Pool::Average(_) => "average pool gradient".into(),
        }
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let mut operands = vec![("gradient".to_owned(), self.gradient)];
        operands.extend(self.image.map(|image| ("image".to_owned(), image)));
        operands.push(("out".to_owned(), self.out));
        operands
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
        let _ = writeln!(text, "fn element(index: u32) -> f32 {{");
        for (i, name) in NAMES.into_iter().enumerate() {
            let _ = writeln!(text, "    let {name} = {};", word(i));
        }
        let plane = |first: usize| {
            let (offset, step_n, step_c) = (word(first), word(first + 1), word(first + 2));
            format!("{offset} + (plane / channels) * {step_n} + (plane % channels) * {step_c}")
        };
        let first = NAMES.len();
        let image_first = first + 5;
        let image_at = if self.image.is_some() {
            format!("image_base + wy * {} + wx * {}", word(image_first + 3), word(image_first + 4))
        } else {
            String::new()
        };
        let image_base = if self.image.is_some() {
            format!("let image_base = {};", plane(image_first))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "    let x = index % columns; let line = index / columns;
    let y = line % rows; let plane = line / rows;
    let base = {base};
    {image_base}
    var sum = 0.0;
    for (var i = 0u; i < kernel_y; i++) {{
        let from_y = y + pad_y - i * dilation_y;
        let out_y = from_y / stride_y;
        if (from_y % stride_y != 0u || out_y >= out_rows) {{ continue; }}
        let y0 = out_y * stride_y - pad_y;
        for (var j = 0u; j < kernel_x; j++) {{
            let from_x = x + pad_x - j * dilation_x;
            let out_x = from_x / stride_x;
            if (from_x % stride_x != 0u || out_x >= out_columns) {{ continue; }}
            let x0 = out_x * stride_x - pad_x;
            let g = gradient_at(base + out_y * {step_y} + out_x * {step_x});
            {part}
        }}
    }}
    return sum;
}}
@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let t = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (t >= {vectors}) {{ return; }}
    let last = {last};
    out_put_vec(t, vec4<f32>(element(min(4u * t, last)), element(min(4u * t + 1u, last)),
                             element(min(4u * t + 2u, last)), element(min(4u * t + 3u, last))));
}}",
            base = plane(first),
            step_y = word(first + 3),
            step_x = word(first + 4),
            part = self.part(&image_at),
            vectors = word(0),
            last = word(1),
        );
        text
    }
}

/// Records the gradient of a pooling. Max pooling needs the image.
pub(crate) fn launch(
    device: &GpuDevice,
    windows: &Windows,
    gradient: &GpuView,
    image: Option<&GpuView>,
) -> Result<GpuData> {
    let Windows {
        pool,
        shape: [images, channels, rows, columns],
        kernel,
        stride,
        dilation,
        padding,
        out,
    } = *windows;
    let len = product("elements", &[images, channels, rows, columns])?;
    let sources = [Some(gradient), image].into_iter().flatten();
    let faults = Faults::of(sources.clone().map(|view| &view.data.faults));
    let mut data = allocate(device, gradient.data.dtype, len, faults)?;
    if len == 0 {
        return Ok(data);
    }
    for view in sources.clone() {
        device.check_recording(view.data.recording)?;
    }
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
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for view in sources {
        params.push(offset(view.layout.offset())?);
        params.extend(steps(&view.layout)?);
        views(device, &view.data, &mut bound)?;
    }
    views(device, &data, &mut bound)?;
    let description = PoolGradient {
        pool,
        gradient: operand(device, &gradient.data, Items::Singles, Access::Read),
        image: image.map(|image| operand(device, &image.data, Items::Singles, Access::Read)),
        out: operand(device, &data, Items::Vectors, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let recording =
        device.launch(description, &bound, &params, (vectors as u64).div_ceil(THREADS.into()))?;
    drop(bound);
    data.recording = recording;
    Ok(data)
}
