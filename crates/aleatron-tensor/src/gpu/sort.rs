//! Sorting on GPUs: rows of (key, index) pairs, padded to powers of two, by bitonic merges.
//!
//! Keys are integers in the order of the elements, and equal ones keep the order of their indices,
//! so every pair is different and the result does not depend on the order of exchanges. Blocks of
//! [`BLOCK`] pairs are sorted and merged in workgroup memory; steps over longer distances are
//! launches of their own.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, product, size};
use super::wgsl::{Items, Operand, ParamsShape, value_type};
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::Order;

/// Pairs of a workgroup.
const BLOCK: usize = 1024;

/// A kernel of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Creates pairs from elements.
    Keys(Order),
    /// Sorts blocks, or rows if they are shorter.
    Blocks,
    /// Exchanges pairs over a distance of at least a block.
    Exchange,
    /// Finishes a merge within blocks.
    Merge,
}

/// The kernel.
///
/// In bounds: as `gpu/mod.rs` says. The number of pairs is a multiple of that of a block, and of
/// twice the distance of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sort {
    step: Step,
    x: Option<Operand>,
    keys: Operand,
    indices: Operand,
    params: ParamsShape,
}

const ENTRY: &str = "@compute @workgroup_size(256) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let number = group.x + group.y * groups.x;
";

impl Describe for Sort {
    fn name(&self) -> Cow<'static, str> {
        match self.step {
            Step::Keys(_) => "sort keys",
            Step::Blocks => "sort blocks",
            Step::Exchange => "sort exchange",
            Step::Merge => "sort merge",
        }
        .into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let x = self.x.map(|x| ("x".to_owned(), x));
        x.into_iter()
            .chain([("keys".to_owned(), self.keys), ("indices".to_owned(), self.indices)])
            .collect()
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<crate::math::Helper> {
        vec![crate::math::Helper::Basic]
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i| self.params.word(i);
        let mut text = String::new();
        // Words: pairs, pairs of a row, elements of a row, offset, rows; or pairs, size of the
        // merge, distance.
        let shared = "var<workgroup> block_keys: array<i32, 1024>;
var<workgroup> block_indices: array<i32, 1024>;
fn exchange(a: u32, b: u32, up: bool) {
    let ka = block_keys[a]; let kb = block_keys[b]; let pa = block_indices[a]; let pb = block_indices[b];
    let above = ka > kb || (ka == kb && pa > pb);
    if (above == up) { block_keys[a] = kb; block_keys[b] = ka; block_indices[a] = pb; block_indices[b] = pa; }
}\n";
        let load = "    let base = number * 1024u;
    if (base >= PAIRS) { return; }
    for (var i = local; i < 1024u; i += 256u) { block_keys[i] = keys_at(base + i); block_indices[i] = indices_at(base + i); }
    workgroupBarrier();\n";
        let store = "    for (var i = local; i < 1024u; i += 256u) { keys_put(base + i, block_keys[i]); indices_put(base + i, block_indices[i]); }\n}\n";
        let merge = "        for (var j = DISTANCE; j > 0u; j = j / 2u) {
            for (var i = local; i < 512u; i += 256u) {
                let a = (i / j) * 2u * j + i % j;
                exchange(a, a + j, ((base + a) & SIZE & (ROW - 1u)) == 0u);
            }
            workgroupBarrier();
        }\n";
        match self.step {
            Step::Keys(order) => {
                let value = value_type(self.x.map_or(DType::F32, |x| x.dtype));
                let turn = if order == Order::Descending { "~" } else { "" };
                let key = if value == "f32" {
                    "let z = select(x, 0.0, x == 0.0); let b = bitcast<i32>(z); var k = b ^ ((b >> 31u) & 2147483647);
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { k = 2147483647; }"
                } else {
                    "let k = x;"
                };
                let _ = writeln!(
                    text,
                    "fn key_of(x: {value}) -> i32 {{ {key} return {turn}k; }}
{ENTRY}    let i = number * 256u + local;
    if (i >= {}) {{ return; }}
    let row = i / {row}; let j = i % {row};
    var key = 2147483647;
    if (row < {} && j < {n}) {{ key = key_of(x_at({} + row * {n} + j)); }}
    keys_put(i, key); indices_put(i, i32(j));
}}",
                    word(0),
                    word(4),
                    word(3),
                    row = word(1),
                    n = word(2),
                );
            }
            Step::Blocks => {
                let _ = write!(text, "{shared}{ENTRY}{}", load.replace("PAIRS", &word(0)));
                let _ = writeln!(
                    text,
                    "    for (var size = 2u; size <= min({}, 1024u); size = 2u * size) {{",
                    word(1)
                );
                text += &merge
                    .replace("DISTANCE", "size / 2u")
                    .replace("SIZE", "size")
                    .replace("ROW", &word(1));
                text += "    }\n";
                text += store;
            }
            Step::Merge => {
                let _ = write!(text, "{shared}{ENTRY}{}", load.replace("PAIRS", &word(0)));
                text += &merge
                    .replace("DISTANCE", "512u")
                    .replace("SIZE", &word(2))
                    .replace("ROW", &word(1));
                text += store;
            }
            Step::Exchange => {
                let _ = writeln!(
                    text,
                    "{ENTRY}    let i = number * 256u + local;
    if (i >= {} / 2u) {{ return; }}
    let j = {};
    let a = (i / j) * 2u * j + i % j;
    let b = a + j;
    let ka = keys_at(a); let kb = keys_at(b); let pa = indices_at(a); let pb = indices_at(b);
    let above = ka > kb || (ka == kb && pa > pb);
    if (above == ((a & {} & ({} - 1u)) == 0u)) {{ keys_put(a, kb); keys_put(b, ka); indices_put(a, pb); indices_put(b, pa); }}
}}",
                    word(0),
                    word(3),
                    word(2),
                    word(1),
                );
            }
        }
        text
    }
}

/// Records the sorting of rows of `n` contiguous elements, of 32-bit floats or integers. Returns
/// the indices that sort the elements, in padded rows, and their length, a power of two.
pub(crate) fn launch(
    device: &GpuDevice,
    view: &GpuView,
    n: usize,
    order: Order,
) -> Result<(GpuData, usize)> {
    let rows = view.layout.len() / n;
    let row = n.next_power_of_two();
    let pairs = product("elements of padded rows", &[rows, row])?.next_multiple_of(BLOCK);
    device.check_recording(view.data.recording)?;
    let faults = Faults::of([&view.data.faults]);
    let mut keys = allocate(device, DType::I32, pairs, Faults::default())?;
    let mut indices = allocate(device, DType::I32, pairs, faults)?;
    let launch = |step: Step, params: &[u32], groups: usize, keys: &GpuData, indices: &GpuData| {
        let takes = matches!(step, Step::Keys(_));
        let mut bound: Vec<BufferView<'_>> = Vec::new();
        if takes {
            views(device, &view.data, &mut bound)?;
        }
        views(device, keys, &mut bound)?;
        views(device, indices, &mut bound)?;
        let description = Sort {
            step,
            x: takes.then(|| operand(device, &view.data, Items::Singles, Access::Read)),
            keys: operand(device, keys, Items::Singles, Access::ReadWrite),
            indices: operand(device, indices, Items::Singles, Access::ReadWrite),
            params: ParamsShape::of(device, params),
        };
        device.launch(description, &bound, params, groups as u64)
    };
    let shape = [size("elements of padded rows", pairs)?, size("elements of a padded row", row)?];
    let own = [
        shape[0],
        shape[1],
        size("elements of a row", n)?,
        offset(view.layout.offset())?,
        size("rows", rows)?,
    ];
    keys.recording = launch(Step::Keys(order), &own, pairs.div_ceil(256), &keys, &indices)?;
    indices.recording = launch(Step::Blocks, &shape, pairs / BLOCK, &keys, &indices)?;
    let mut merged = 2 * BLOCK;
    while merged <= row {
        let merge = [shape[0], shape[1], size("elements of a merge", merged)?];
        let mut distance = merged / 2;
        while distance >= BLOCK {
            let params = [merge[0], merge[1], merge[2], size("distance of an exchange", distance)?];
            launch(Step::Exchange, &params, (pairs / 2).div_ceil(256), &keys, &indices)?;
            distance /= 2;
        }
        indices.recording = launch(Step::Merge, &merge, pairs / BLOCK, &keys, &indices)?;
        merged *= 2;
    }
    Ok((indices, row))
}
