//! Gathering of elements by indices, on GPUs.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::assemble::{coordinates, entry};
use super::data::GpuData;
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::{Fault, Faults};
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, product, signed_size, size, step, steps};
use super::wgsl::{Items, Operand, ParamsShape, i64_of, value_type};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::elements;
use crate::ops::gather::GpuJob;

/// The kernel.
///
/// In bounds: as `gpu/mod.rs` says. An index is compared with the size of its axis; 0 replaces an
/// index out of range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Gather {
    x: Operand,
    indices: Operand,
    faults: Operand,
    rank: usize,
    out: Operand,
    params: ParamsShape,
}

/// Words of parameters before the sizes of axes.
const OWN_PARAMS: usize = 7;

impl Describe for Gather {
    fn name(&self) -> Cow<'static, str> {
        "gather".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let named =
            [("x", self.x), ("indices", self.indices), ("faults", self.faults), ("out", self.out)];
        named.map(|(name, operand)| (name.to_owned(), operand)).to_vec()
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn body(&self, _: Capabilities) -> String {
        let (rank, value) = (self.rank, value_type(self.out.dtype));
        let word = |i: usize| self.params.word(i);
        let mut text = format!("fn element(o: u32) -> {value} {{\n");
        coordinates(rank, word, OWN_PARAMS, &mut text);
        let first = OWN_PARAMS + rank - 1;
        let sum = |first: usize| {
            (0..rank).map(|axis| format!(" + c{axis} * {}", word(first + axis))).collect::<String>()
        };
        let index = value_type(self.indices.dtype);
        let _ = writeln!(
            text,
            "    var index = indices_at({}{});
    let len = {len};
    if (index < {index}(0)) {{ index += len; }}
    if (index < {index}(0) || index >= len) {{ faults_raise({}, 0xffffffffu - (0u{})); index = {index}(0); }}
    return x_at({}{} + u32(index) * {});
}}",
            word(3),
            sum(first + rank),
            word(6),
            sum(first + 2 * rank),
            word(2),
            sum(first),
            word(4),
            len = if index == "i64" { i64_of("0u", &word(5)) } else { format!("i32({})", word(5)) },
        );
        entry(&word(0), &word(1), value, &mut text);
        text
    }
}

/// Records the gathering. The result has at least one axis.
pub(crate) fn launch(device: &GpuDevice, job: &GpuJob<'_>) -> Result<GpuData> {
    let shape = job.base.shape();
    let (len, rank) = (elements(shape)?, shape.len());
    let sources = Faults::of([&job.x.data.faults, &job.indices.data.faults]);
    if len == 0 {
        return allocate(device, job.x.data.dtype, len, sources);
    }
    for data in [&job.x.data, &job.indices.data] {
        device.check_recording(data.recording)?;
    }
    let fault = Fault::new(device, job.op, job.indices, job.axis_len)?;
    let mut out = allocate(device, job.x.data.dtype, len, sources.with(&fault))?;
    let vectors = len.div_ceil(4);
    let what = "length of the axis that is indexed";
    let axis_len = match job.indices.data.dtype {
        DType::I64 => size(what, job.axis_len)?,
        _ => signed_size(what, job.axis_len)?,
    };
    // Positions of indices are recorded in 32 bits.
    product("indices", job.indices.layout.shape())?;
    let mut params = vec![
        size("vectors", vectors)?,
        size("elements", len - 1)?,
        offset(job.base.offset())?,
        offset(job.over.offset())?,
        step(job.axis_len, job.axis_stride)?,
        axis_len,
        size("slot of a fault", fault.slot)?,
    ];
    for &length in &shape[1..] {
        params.push(size("length of an axis", length)?);
    }
    params.extend(steps(&job.base)?);
    params.extend(steps(&job.over)?);
    for (&length, &number) in shape.iter().zip(&job.numbers) {
        params.push(if length > 1 { size("indices", number)? } else { 0 });
    }
    let slots = device.faults().buffer(device.context())?;
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, &job.x.data, &mut bound)?;
    views(device, &job.indices.data, &mut bound)?;
    bound.push(slots.view());
    views(device, &out, &mut bound)?;
    let description = Gather {
        x: operand(device, &job.x.data, Items::Singles, Access::Read),
        indices: operand(device, &job.indices.data, Items::Singles, Access::Read),
        faults: Operand {
            dtype: DType::I32,
            items: Items::Atomics,
            access: Access::ReadWrite,
            windows: 1,
            window_log2: 0,
        },
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
