//! Running sums and products on GPUs: a workgroup for each short row.

use std::borrow::Cow;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, size};
use super::wgsl::{Items, Operand, ParamsShape, value_type};
use crate::error::Result;
use crate::op::Reducer;
use crate::ops::scan::ROW;

/// A workgroup scans a row with four elements for each thread.
const _: () = assert!(ROW == 4 * THREADS as usize);

/// The kernel.
///
/// In bounds: as `gpu/mod.rs` says; elements past the end of a row are neither read nor written.
/// Workgroup memory is indexed by the number of a thread, or by a smaller one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scan {
    reducer: Reducer,
    x: Operand,
    out: Operand,
    params: ParamsShape,
}

impl Describe for Scan {
    fn name(&self) -> Cow<'static, str> {
        "scan".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        vec![("x".to_owned(), self.x), ("out".to_owned(), self.out)]
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let t = value_type(self.out.dtype);
        let (op, identity) = if self.reducer == Reducer::Prod { ("*", 1) } else { ("+", 0) };
        let (rows, n, offset) = (self.params.word(0), self.params.word(1), self.params.word(2));
        format!(
            "var<workgroup> totals: array<{t}, 256>;
fn element(row: u32, j: u32) -> {t} {{
    if (j >= {n}) {{ return {t}({identity}); }}
    return x_at({offset} + row * {n} + j);
}}
@compute @workgroup_size(256) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let number = group.x + group.y * groups.x;
    let valid = number < {rows};
    let row = min(number, {rows} - 1u);
    let j = 4u * local;
    let a = element(row, j);
    let b = a {op} element(row, j + 1u);
    let c = b {op} element(row, j + 2u);
    let d = c {op} element(row, j + 3u);
    var total = d;
    totals[local] = total;
    workgroupBarrier();
    for (var step = 1u; step < 256u; step = 2u * step) {{
        var before = {t}({identity});
        if (local >= step) {{ before = totals[local - step]; }}
        workgroupBarrier();
        total = before {op} total;
        totals[local] = total;
        workgroupBarrier();
    }}
    var before = {t}({identity});
    if (local > 0u) {{ before = totals[local - 1u]; }}
    let offset = row * {n} + j;
    if (valid && j < {n}) {{ out_put(offset, before {op} a); }}
    if (valid && j + 1u < {n}) {{ out_put(offset + 1u, before {op} b); }}
    if (valid && j + 2u < {n}) {{ out_put(offset + 2u, before {op} c); }}
    if (valid && j + 3u < {n}) {{ out_put(offset + 3u, before {op} d); }}
}}"
        )
    }
}

/// Records the scan of contiguous rows of `n` elements, at most [`ROW`]. Elements have 32 or 64
/// bits.
pub(crate) fn launch(
    device: &GpuDevice,
    view: &GpuView,
    n: usize,
    reducer: &Reducer,
) -> Result<GpuData> {
    let len = view.layout.len();
    let mut out = allocate(device, view.data.dtype, len, Faults::of([&view.data.faults]))?;
    if len == 0 {
        return Ok(out);
    }
    device.check_recording(view.data.recording)?;
    let rows = len / n;
    let params =
        [size("rows", rows)?, size("elements of a row", n)?, offset(view.layout.offset())?];
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, &view.data, &mut bound)?;
    views(device, &out, &mut bound)?;
    let description = Scan {
        reducer: reducer.clone(),
        x: operand(device, &view.data, Items::Singles, Access::Read),
        out: operand(device, &out, Items::Singles, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let recording = device.launch(description, &bound, &params, rows as u64)?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}
