//! Attention on GPUs: a workgroup takes 32 queries over blocks of 32 keys, with sums that are
//! rescaled as larger scores occur. Long rows of keys are cut into ranges whose sums are combined
//! at the end.

use std::borrow::Cow;
use std::fmt::Write;

use aleatron_device::{Access, BufferView, Capabilities};

use super::data::{GpuData, GpuView};
use super::device::GpuDevice;
use super::elementwise::THREADS;
use super::fault::Faults;
use super::kernel::Describe;
use super::operand::{allocate, operand, views};
use super::size::{offset, product, signed_size, size, step, steps, wrapped};
use super::wgsl::{Items, Operand, ParamsShape};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Layout, collapse_all};
use crate::math::Helper;
use crate::ops::attention::Sizes;

/// The number of queries and keys of a block, and the part of their length that is in workgroup
/// memory at a time.
const BLOCK: u32 = 32;
/// The part of the length of values that is in workgroup memory at a time.
const VALUES: u32 = 64;
/// Threads of a workgroup.
const GROUP: u32 = 128;
/// Keys of a range.
const RANGE: usize = 2048;
/// Words before those of the batch.
const WORDS: usize = 22;

/// Whether a workgroup processes all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ranges {
    /// It processes all keys and writes the result.
    One,
    /// It processes a range and writes sums.
    Many,
}

/// The kernel of blocks.
///
/// In bounds: as `gpu/mod.rs` says. Queries, keys and elements past the end are replaced by 0 and
/// not written. Indices into workgroup memory are computed from thread indices, below the sizes
/// that are declared for them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Blocks {
    operands: [Operand; 3],
    mask: Option<Operand>,
    out: Operand,
    /// For ranges: the largest scores and the sums.
    state: Option<Operand>,
    /// Parts of the length of values.
    parts: u32,
    ranges: Ranges,
    batch_rank: usize,
    params: ParamsShape,
}

impl Blocks {
    /// Writes the first offset of each operand in the batch.
    fn write_batch(&self, text: &mut String) {
        let rank = self.batch_rank;
        let word = |i: usize| self.params.word(WORDS + i);
        let _ = writeln!(
            text,
            "var left = batch; var base_q = 0u; var base_k = 0u; var base_v = 0u; var base_m = 0u;"
        );
        for axis in (0..rank).rev() {
            let _ = writeln!(
                text,
                "{{ let at = left % {size}; left = left / {size}; base_q += at * {}; base_k += at * {}; base_v += at * {}; base_m += at * {}; }}",
                word(rank + axis),
                word(2 * rank + axis),
                word(3 * rank + axis),
                word(4 * rank + axis),
                size = word(axis),
            );
        }
    }

    fn write_scores(&self, text: &mut String) {
        let word = |i: usize| self.params.word(i);
        let _ = writeln!(
            text,
            "var s0 = vec4<f32>(0.0); var s1 = vec4<f32>(0.0);
for (var e0 = 0u; e0 < length; e0 += {BLOCK}u) {{
for (var i = t; i < {area}u; i += {GROUP}u) {{
    let row = i / {BLOCK}u; let e = i % {BLOCK}u;
    var x = 0.0; var y = 0.0;
    if (e0 + e < length) {{
        if (query0 + row < queries) {{ x = q_at(base_q + {q} + (query0 + row) * {q_row} + (e0 + e) * {q_col}); }}
        if (key0 + row < key_end) {{ y = k_at(base_k + {k} + (key0 + row) * {k_row} + (e0 + e) * {k_col}); }}
    }}
    sq[e * {pitch}u + row] = x; sk[e * {pitch}u + row] = y;
}}
workgroupBarrier();
for (var e = 0u; e < {BLOCK}u; e++) {{
    let at = e * {pitch}u + 4u * key4;
    let y = vec4<f32>(sk[at], sk[at + 1u], sk[at + 2u], sk[at + 3u]);
    s0 = fma(vec4<f32>(sq[e * {pitch}u + 2u * query2]), y, s0);
    s1 = fma(vec4<f32>(sq[e * {pitch}u + 2u * query2 + 1u]), y, s1);
}}
workgroupBarrier();
}}
for (var r = 0u; r < 2u; r++) {{
    let query = query0 + 2u * query2 + r;
    let s = select(s0, s1, r == 1u) * bitcast<f32>({scale});
    for (var c = 0u; c < 4u; c++) {{
        let key = key0 + 4u * key4 + c;
        var x = s[c];",
            area = BLOCK * BLOCK,
            pitch = BLOCK + 1,
            q = word(5),
            q_row = word(6),
            q_col = word(7),
            k = word(8),
            k_row = word(9),
            k_col = word(10),
            scale = word(4),
        );
        if self.mask.is_some() {
            let _ = writeln!(
                text,
                "        if (query < queries && key < key_end) {{ x = x + mask_at(base_m + {} + query * {} + key * {}); }}",
                word(14),
                word(15),
                word(16)
            );
        }
        let _ = writeln!(
            text,
            "        // What is not seen has a number that no score has: compilers may assume that there is no infinity.
        if (key >= key_end || i32(key) > i32(query) + sees_past || bitcast<u32>(x) == 0xff800000u) {{ x = LOWEST; }}
        sp[(2u * query2 + r) * {pitch}u + 4u * key4 + c] = x;
    }}
}}
workgroupBarrier();",
            pitch = BLOCK + 1
        );
    }

    /// Writes the weights of a block: four threads for each query.
    fn write_weights(text: &mut String) {
        let _ = writeln!(
            text,
            "{{
let row = t / 4u; let at = row * {pitch}u + (t % 4u) * 8u;
let x = vec4<f32>(sp[at], sp[at + 1u], sp[at + 2u], sp[at + 3u]);
let y = vec4<f32>(sp[at + 4u], sp[at + 5u], sp[at + 6u], sp[at + 7u]);
let larger = max(x, y);
partial[t] = max(max(larger.x, larger.y), max(larger.z, larger.w));
workgroupBarrier();
let before = most[row];
let now = max(max(before, max(partial[4u * row], partial[4u * row + 1u])), max(partial[4u * row + 2u], partial[4u * row + 3u]));
let lowest = vec4<f32>(LOWEST);
let p = select(m_exp(x - vec4<f32>(now)), vec4<f32>(0.0), x <= lowest);
let r = select(m_exp(y - vec4<f32>(now)), vec4<f32>(0.0), y <= lowest);
sp[at] = p.x; sp[at + 1u] = p.y; sp[at + 2u] = p.z; sp[at + 3u] = p.w;
sp[at + 4u] = r.x; sp[at + 5u] = r.y; sp[at + 6u] = r.z; sp[at + 7u] = r.w;
let part = (p + r);
workgroupBarrier();
partial[t] = (part.x + part.y) + (part.z + part.w);
if (t % 4u == 0u) {{
    factor[row] = select(m_exp(vec4<f32>(before - now)).x, 0.0, before <= LOWEST);
    most[row] = now;
}}
workgroupBarrier();
if (t % 4u == 0u) {{
    sum[row] = sum[row] * factor[row] + ((partial[t] + partial[t + 1u]) + (partial[t + 2u] + partial[t + 3u]));
}}
}}",
            pitch = BLOCK + 1
        );
    }

    fn write_values(&self, text: &mut String) {
        let word = |i: usize| self.params.word(i);
        for part in 0..self.parts {
            let _ = writeln!(
                text,
                "for (var i = t; i < {items}u; i += {GROUP}u) {{
    let key = key0 + i / {VALUES}u; let column = {first}u + i % {VALUES}u;
    var x = 0.0;
    if (key < key_end && column < value_length) {{ x = v_at(base_v + {v} + key * {v_row} + column * {v_col}); }}
    sv[i] = x;
}}
workgroupBarrier();",
                items = BLOCK * VALUES,
                first = part * VALUES,
                v = word(11),
                v_row = word(12),
                v_col = word(13),
            );
            for row in 0..4 {
                let _ =
                    writeln!(text, "c{part}_{row} = c{part}_{row} * factor[4u * row4 + {row}u];");
            }
            let _ = writeln!(
                text,
                "for (var j = 0u; j < {BLOCK}u; j++) {{
    let at = j * {VALUES}u + 4u * column4;
    let y = vec4<f32>(sv[at], sv[at + 1u], sv[at + 2u], sv[at + 3u]);"
            );
            for row in 0..4 {
                let _ = writeln!(
                    text,
                    "    c{part}_{row} = fma(vec4<f32>(sp[(4u * row4 + {row}u) * {pitch}u + j]), y, c{part}_{row});",
                    pitch = BLOCK + 1
                );
            }
            let _ = writeln!(text, "}}\nworkgroupBarrier();");
        }
    }

    fn write_results(&self, text: &mut String) {
        let word = |i: usize| self.params.word(i);
        for row in 0..4 {
            let _ = writeln!(
                text,
                "{{ let query = query0 + 4u * row4 + {row}u; let own = sum[4u * row4 + {row}u];
if (query < queries) {{ let line = range * {step} + (batch * queries + query) * value_length;",
                step = word(17)
            );
            if self.ranges == Ranges::Many {
                let _ = writeln!(
                    text,
                    "if (column4 == 0u) {{ let at = 2u * (range * {rows} + batch * queries + query);
state_put(at, most[4u * row4 + {row}u]); state_put(at + 1u, own); }}",
                    rows = word(18)
                );
            }
            for part in 0..self.parts {
                for (i, c) in ["x", "y", "z", "w"].into_iter().enumerate() {
                    let column = format!("{}u + 4u * column4 + {i}u", part * VALUES);
                    let value = match self.ranges {
                        Ranges::One => format!(
                            "select(divide(vec4<f32>(c{part}_{row}.{c}), vec4<f32>(own)).x, 0.0, own == 0.0)"
                        ),
                        Ranges::Many => format!("c{part}_{row}.{c}"),
                    };
                    let _ = writeln!(
                        text,
                        "if ({column} < value_length) {{ out_put(line + {column}, {value}); }}"
                    );
                }
            }
            let _ = writeln!(text, "}} }}");
        }
    }
}

impl Describe for Blocks {
    fn name(&self) -> Cow<'static, str> {
        "attention".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let mut all: Vec<(String, Operand)> = ["q", "k", "v"]
            .into_iter()
            .zip(self.operands)
            .map(|(name, operand)| (name.to_owned(), operand))
            .collect();
        all.extend(self.mask.map(|mask| ("mask".to_owned(), mask)));
        all.push(("out".to_owned(), self.out));
        all.extend(self.state.map(|state| ("state".to_owned(), state)));
        all
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        vec![Helper::Exp]
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i: usize| self.params.word(i);
        let mut text = format!(
            "const LOWEST: f32 = -3.0e38;
var<workgroup> sq: array<f32, {tile}>;
var<workgroup> sk: array<f32, {tile}>;
var<workgroup> sp: array<f32, {tile}>;
var<workgroup> sv: array<f32, {values}>;
var<workgroup> partial: array<f32, {GROUP}>;
var<workgroup> most: array<f32, {BLOCK}>;
var<workgroup> sum: array<f32, {BLOCK}>;
var<workgroup> factor: array<f32, {BLOCK}>;
@compute @workgroup_size({GROUP}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) t: u32,
) {{
let id = group.x + group.y * groups.x;
if (id >= {total}) {{ return; }}
let queries = {queries}; let keys = {keys}; let length = {length}; let value_length = {value_length};
let sees_past = bitcast<i32>({sees_past});
let blocks = (queries + {last}u) / {BLOCK}u;
let query0 = (id % blocks) * {BLOCK}u; let rest = id / blocks;
let range = rest % {ranges}; let batch = rest / {ranges};
let query2 = t / 8u; let key4 = t % 8u; let row4 = t / 16u; let column4 = t % 16u;
if (t < {BLOCK}u) {{ most[t] = LOWEST; sum[t] = 0.0; factor[t] = 0.0; }}
workgroupBarrier();",
            tile = BLOCK * (BLOCK + 1),
            values = BLOCK * VALUES,
            last = BLOCK - 1,
            queries = word(0),
            keys = word(1),
            length = word(2),
            value_length = word(3),
            total = word(19),
            ranges = word(20),
            sees_past = word(21),
        );
        text.push('\n');
        self.write_batch(&mut text);
        for part in 0..self.parts {
            for row in 0..4 {
                let _ = writeln!(text, "var c{part}_{row} = vec4<f32>(0.0);");
            }
        }
        let _ = writeln!(
            text,
            "let key_end = min(keys, (range + 1u) * {RANGE}u);
// Keys that are hidden from the last query are skipped.
let seen_end = min(i32(key_end), max(i32(query0 + {last}u) + sees_past + 1, 0));
for (var key0 = range * {RANGE}u; i32(key0) < seen_end; key0 += {BLOCK}u) {{",
            last = BLOCK - 1
        );
        self.write_scores(&mut text);
        Self::write_weights(&mut text);
        self.write_values(&mut text);
        let _ = writeln!(text, "}}\nworkgroupBarrier();");
        self.write_results(&mut text);
        text.push_str("}\n");
        text
    }
}

/// The kernel that combines ranges.
///
/// In bounds: as `gpu/mod.rs` says; sums and state have as many rows for each range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Join {
    sums: Operand,
    state: Operand,
    out: Operand,
    params: ParamsShape,
}

impl Describe for Join {
    fn name(&self) -> Cow<'static, str> {
        "attention ranges".into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        vec![
            ("sums".to_owned(), self.sums),
            ("state".to_owned(), self.state),
            ("out".to_owned(), self.out),
        ]
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        vec![Helper::Exp]
    }

    fn body(&self, _: Capabilities) -> String {
        let word = |i: usize| self.params.word(i);
        format!(
            "const LOWEST: f32 = -3.0e38;
@compute @workgroup_size({THREADS}) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let i = (group.x + group.y * groups.x) * {THREADS}u + local;
    if (i >= {len}) {{ return; }}
    let row = i / {value_length}; let rows = {rows}; let ranges = {ranges};
    var most = LOWEST;
    for (var r = 0u; r < ranges; r++) {{ most = max(most, state_at(2u * (r * rows + row))); }}
    var sum = 0.0; var value = 0.0;
    for (var r = 0u; r < ranges; r++) {{
        let own = state_at(2u * (r * rows + row));
        let factor = select(m_exp(vec4<f32>(own - most)).x, 0.0, own <= LOWEST);
        sum = sum + factor * state_at(2u * (r * rows + row) + 1u);
        value = value + factor * sums_at(r * {len} + i);
    }}
    out_put(i, select(divide(vec4<f32>(value), vec4<f32>(sum)).x, 0.0, sum == 0.0));
}}
",
            len = word(0),
            value_length = word(1),
            rows = word(2),
            ranges = word(3),
        )
    }
}

/// Records an attention that is not empty. The result has 32-bit floats.
pub(crate) fn launch(
    device: &GpuDevice,
    sizes: &Sizes,
    views_of: [&GpuView; 3],
    mask: Option<&GpuView>,
) -> Result<GpuData> {
    let Sizes { queries, keys, lengths: [length, value_length], sees_past, scale } = *sizes;
    let all: Vec<&GpuView> = views_of.into_iter().chain(mask).collect();
    for view in &all {
        device.check_recording(view.data.recording)?;
    }
    let faults = Faults::of(all.iter().map(|view| &view.data.faults));
    let outer: Vec<Layout> =
        all.iter().map(|view| view.layout.keep_axes(0..view.layout.rank() - 2)).collect();
    let (dims, mut outer_steps) = collapse_all(&outer.iter().collect::<Vec<_>>());
    outer_steps.resize(4, vec![0; dims.len()]);
    let batch = product("attentions of a batch", &dims)?;
    let rows = product("queries of a batch", &[batch, queries])?;
    let (len, ranges) = (product("elements", &[rows, value_length])?, keys.div_ceil(RANGE));
    let groups = product("blocks of queries", &[queries.div_ceil(BLOCK as usize), batch, ranges])?;
    let mut params = vec![
        signed_size("queries", queries)?,
        signed_size("keys", keys)?,
        size("length of a query", length)?,
        size("length of a value", value_length)?,
        scale.to_bits(),
    ];
    // Past these limits, a query sees all keys, or none.
    let limit = i64::from(i32::MAX) - i64::from(params[0]) - i64::from(BLOCK);
    for view in views_of.into_iter().map(Some).chain([mask]) {
        match view {
            Some(view) => {
                let rank = view.layout.rank();
                params.push(offset(view.layout.offset())?);
                params.extend(&steps(&view.layout)?[rank - 2..]);
            }
            None => params.extend([0; 3]),
        }
    }
    let (len_word, rows_word) = (size("elements", len)?, size("queries of a batch", rows)?);
    let ranges_word = size("ranges of keys", ranges)?;
    params.extend([len_word, rows_word, size("blocks of queries", groups)?, ranges_word]);
    let seen = isize::try_from(sees_past.clamp(-limit, limit));
    params.push(wrapped(
        "keys that are seen",
        seen.map_err(|_| Error::internal("gpu::attention::launch"))?,
    )?);
    debug_assert_eq!(params.len(), WORDS);
    for &length in &dims {
        params.push(size("length of an axis", length)?);
    }
    for outer_steps in &outer_steps {
        for (&length, &own) in dims.iter().zip(outer_steps) {
            params.push(step(length, own)?);
        }
    }
    let all_sums = product("sums of ranges", &[len, ranges])?;
    let mut sums = allocate(device, DType::F32, all_sums, faults.clone())?;
    let mut state = None;
    if ranges > 1 {
        let len = product("states of ranges", &[2, rows, ranges])?;
        state = Some(allocate(device, DType::F32, len, faults.clone())?);
    }
    let read = |data: &GpuData| operand(device, data, Items::Singles, Access::Read);
    let write = |data: &GpuData| operand(device, data, Items::Singles, Access::ReadWrite);
    let description = Blocks {
        operands: views_of.map(|view| read(&view.data)),
        mask: mask.map(|view| read(&view.data)),
        out: write(&sums),
        state: state.as_ref().map(write),
        parts: size("parts of a value", value_length.div_ceil(VALUES as usize))?,
        ranges: if ranges > 1 { Ranges::Many } else { Ranges::One },
        batch_rank: dims.len(),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for view in &all {
        views(device, &view.data, &mut bound)?;
    }
    views(device, &sums, &mut bound)?;
    if let Some(state) = &state {
        views(device, state, &mut bound)?;
    }
    let recording = device.launch(description, &bound, &params, groups as u64)?;
    drop(bound);
    let Some(mut state) = state else {
        sums.recording = recording;
        return Ok(sums);
    };
    (sums.recording, state.recording) = (recording, recording);
    let mut out = allocate(device, DType::F32, len, faults)?;
    let params = [len_word, size("length of a value", value_length)?, rows_word, ranges_word];
    let description = Join {
        sums: read(&sums),
        state: read(&state),
        out: write(&out),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for data in [&sums, &state, &out] {
        views(device, data, &mut bound)?;
    }
    let recording =
        device.launch(description, &bound, &params, (len as u64).div_ceil(THREADS.into()))?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}
