//! Reductions on GPUs, completed there. Elementwise expressions are fused.
//!
//! Elements are taken in the order (kept axes, reduced axes), a row for each result, by some
//! threads of a workgroup together; or, where neighbours in memory belong to different results, in
//! the order (reduced axes, kept axes), four results by each thread. Where that keeps
//! too few threads busy, or would make the chain of additions behind a result too long, rows are
//! cut into segments whose results are folded by a second kernel. The order is a function of the
//! shape and the strides alone.

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
use super::size::{product, size};
use super::wgsl::{Items, Operand, ParamsShape, i64_of, value_type};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, Program};
use crate::layout::Layout;
use crate::math::Helper;
use crate::op::Reducer;

/// The number of words of parameters before those of the leaves.
const OWN_PARAMS: usize = 5;

/// The source of the elements, and their division among threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// Rows, each by `lanes` threads; `whole` if they are whole vectors.
    Rows { program: Program, leaves: Leaves, lanes: u32, whole: bool },
    /// Four results by each thread.
    Columns { program: Program, leaves: Leaves },
    /// Results of segments, by `lanes` threads for each result.
    Parts { parts: Operand, lanes: u32 },
}

/// The kind of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Store {
    /// The final result.
    Result,
    /// The result of a segment.
    Part,
}

/// The kernels of a reduction.
///
/// In bounds: as `gpu/mod.rs` says. Items past the last read no elements; the last vector of a row
/// is that of its last element. Workgroup memory is indexed by the number of a thread, and by that
/// of one before the end of its row's threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reduce {
    work: Work,
    reducer: Reducer,
    /// The type of the elements.
    dtype: DType,
    store: Store,
    out: Operand,
    params: ParamsShape,
}

/// Returns the number of words of the result of a segment.
fn state_words(reducer: &Reducer, dtype: DType) -> usize {
    let value = if dtype == DType::I64 { 2 } else { 1 };
    match reducer {
        Reducer::ArgMax | Reducer::ArgMin => value + 1,
        _ => value,
    }
}

/// Returns the smallest and the largest value of a type, as expressions.
fn extremes(dtype: DType) -> [&'static str; 2] {
    match dtype {
        DType::I64 => ["(-9223372036854775807li - 1li)", "9223372036854775807li"],
        DType::I32 => ["i32(-2147483648)", "i32(2147483647)"],
        _ => ["-infinity().x", "infinity().x"],
    }
}

impl Reduce {
    fn is_arg(&self) -> bool {
        matches!(self.reducer, Reducer::ArgMax | Reducer::ArgMin)
    }

    /// Returns the type of values in results of segments.
    fn key(&self) -> &'static str {
        match (self.is_arg(), self.dtype) {
            (true, DType::I64) => "i64",
            (true, _) => "i32",
            (false, dtype) => value_type(dtype),
        }
    }

    /// Writes the state of a thread (`Lanes`, four values), the state of a row (`State`), and their
    /// functions.
    fn states(&self, text: &mut String) {
        let (t, key) = (value_type(self.dtype), self.key());
        if self.is_arg() {
            let turned = if self.reducer == Reducer::ArgMax { "" } else { "~" };
            let of = match self.dtype {
                DType::I32 | DType::I64 => format!("return {turned}x;"),
                // Floats map to integers with the same order; both zeros are equal, and NaN is
                // larger than everything.
                _ => format!(
                    "let b = bitcast<vec4<i32>>(select(x, vec4<f32>(0.0), x == vec4<f32>(0.0)));
    let k = b ^ ((b >> vec4<u32>(31u)) & vec4<i32>(2147483647));
    return select({turned}k, vec4<i32>(2147483647), is_nan(x));"
                ),
            };
            let lowest = if self.dtype == DType::I64 {
                extremes(DType::I64)[0]
            } else {
                extremes(DType::I32)[0]
            };
            let _ = writeln!(
                text,
                "struct Lanes {{ key: vec4<{key}>, at: vec4<u32> }}
struct State {{ key: {key}, at: u32 }}
fn key_of(x: vec4<{t}>) -> vec4<{key}> {{ {of} }}
fn nothing() -> Lanes {{ return Lanes(vec4<{key}>({lowest}), vec4<u32>(0xffffffffu)); }}
fn take_some(s: Lanes, x: vec4<{t}>, at: vec4<u32>, inside: vec4<bool>) -> Lanes {{
    let k = key_of(x);
    let better = ((k > s.key) | ((k == s.key) & (at < s.at))) & inside;
    return Lanes(select(s.key, k, better), select(s.at, at, better));
}}
fn take(s: Lanes, x: vec4<{t}>, at: vec4<u32>) -> Lanes {{ return take_some(s, x, at, vec4<bool>(true)); }}
fn join(a: State, b: State) -> State {{
    if (b.key > a.key || (b.key == a.key && b.at < a.at)) {{ return b; }}
    return a;
}}
fn joined(s: Lanes) -> State {{
    return join(join(State(s.key.x, s.at.x), State(s.key.y, s.at.y)), join(State(s.key.z, s.at.z), State(s.key.w, s.at.w)));
}}
fn finish(s: State) -> i32 {{ return i32(s.at); }}"
            );
            return;
        }
        let [lowest, highest] = extremes(self.dtype);
        let is_float = self.dtype.is_float();
        let (combine, identity): (String, String) = match &self.reducer {
            Reducer::Sum => ("x + y".into(), format!("{t}(0)")),
            Reducer::Prod => ("x * y".into(), format!("{t}(1)")),
            Reducer::Max => {
                ((if is_float { "max_nan(x, y)" } else { "max(x, y)" }).into(), lowest.into())
            }
            Reducer::Min => {
                ((if is_float { "min_nan(x, y)" } else { "min(x, y)" }).into(), highest.into())
            }
            Reducer::Custom { wgsl, identity } => {
                let _ = writeln!(
                    text,
                    "var<private> identity_bits: u32 = {identity}u;\nfn user(a: f32, b: f32) -> f32 {{ return {wgsl}; }}"
                );
                let each =
                    "vec4<f32>(user(x.x, y.x), user(x.y, y.y), user(x.z, y.z), user(x.w, y.w))";
                (each.into(), "bitcast<f32>(identity_bits)".into())
            }
            Reducer::ArgMax | Reducer::ArgMin => return,
        };
        let _ = writeln!(
            text,
            "struct Lanes {{ v: vec4<{t}> }}
struct State {{ v: {t} }}
fn combine(x: vec4<{t}>, y: vec4<{t}>) -> vec4<{t}> {{ return {combine}; }}
fn identity() -> vec4<{t}> {{ return vec4<{t}>({identity}); }}
fn nothing() -> Lanes {{ return Lanes(identity()); }}
fn take(s: Lanes, x: vec4<{t}>, at: vec4<u32>) -> Lanes {{ return Lanes(combine(s.v, x)); }}
fn take_some(s: Lanes, x: vec4<{t}>, at: vec4<u32>, inside: vec4<bool>) -> Lanes {{
    return Lanes(combine(s.v, select(identity(), x, inside)));
}}
fn join(a: State, b: State) -> State {{ return State(combine(vec4<{t}>(a.v), vec4<{t}>(b.v)).x); }}
fn joined(s: Lanes) -> State {{
    let p = combine(s.v, s.v.zwxy);
    return State(combine(p, p.yxwz).x);
}}
fn finish(s: State) -> {t} {{ return s.v; }}"
        );
    }

    /// Writes the loads and stores of results of segments, as words, and of final results.
    fn transfers(&self, text: &mut String) {
        let (words, key) = (state_words(&self.reducer, self.dtype), self.key());
        let field = if self.is_arg() { "key" } else { "v" };
        if matches!(self.work, Work::Parts { .. }) {
            let value = match key {
                "i64" => i64_of("u32(parts_at(p + 1u))", "u32(parts_at(p))"),
                "f32" => "bitcast<f32>(parts_at(p))".to_owned(),
                _ => "parts_at(p)".to_owned(),
            };
            let at = if self.is_arg() {
                format!(", u32(parts_at(p + {}u))", words - 1)
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "fn part(i: u32) -> State {{ let p = i * {words}u; return State({value}{at}); }}"
            );
        }
        let _ = match self.store {
            Store::Result => {
                writeln!(text, "fn put(i: u32, s: State) {{ out_put(i, finish(s)); }}")
            }
            Store::Part => {
                let value = match key {
                    "i64" => format!(
                        "out_put(p, i32(u32(s.{field} & 0xffffffffli))); out_put(p + 1u, i32(s.{field} >> 32u));"
                    ),
                    "f32" => format!("out_put(p, bitcast<i32>(s.{field}));"),
                    _ => format!("out_put(p, s.{field});"),
                };
                let at = if self.is_arg() {
                    format!(" out_put(p + {}u, i32(s.at));", words - 1)
                } else {
                    String::new()
                };
                writeln!(text, "fn put(i: u32, s: State) {{ let p = i * {words}u; {value}{at} }}")
            }
        };
    }

    /// Writes `value(t)`, four elements of the expression.
    fn value(&self, program: &Program, leaves: &Leaves, text: &mut String) {
        leaves.declare(self.params, OWN_PARAMS, &self.params.word(4), text);
        let _ = writeln!(text, "fn value(t: u32) -> vec4<{}> {{", value_type(self.dtype));
        let leaf = |k: usize| format!("leaf{k}(t)");
        program::write(program, leaf, |i| self.params.word(i), OWN_PARAMS + leaves.words(), text);
        let _ = writeln!(text, "    return v{};\n}}", program.steps.len() - 1);
    }

    /// Joins the states of `lanes` threads and stores the state of the first.
    fn tree(lanes: u32, valid: &str, offset: &str, text: &mut String) {
        if lanes > 1 {
            let _ = writeln!(text, "    shared_states[local] = state;\n    workgroupBarrier();");
            let mut half = lanes / 2;
            while half > 0 {
                let _ = writeln!(
                    text,
                    "    if (lane < {half}u) {{ state = join(state, shared_states[local + {half}u]); shared_states[local] = state; }}
    workgroupBarrier();"
                );
                half /= 2;
            }
        }
        let _ = writeln!(text, "    if (lane == 0u && {valid}) {{ put({offset}, state); }}\n}}");
    }
}

const ENTRY: &str = "@compute @workgroup_size(256) fn main(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {\n";

impl Describe for Reduce {
    fn name(&self) -> Cow<'static, str> {
        let name = match &self.reducer {
            Reducer::Sum => "sum",
            Reducer::Prod => "prod",
            Reducer::Max => "max",
            Reducer::Min => "min",
            Reducer::ArgMax => "argmax",
            Reducer::ArgMin => "argmin",
            Reducer::Custom { .. } => "reduce",
        };
        let how = match &self.work {
            Work::Rows { .. } => "rows",
            Work::Columns { .. } => "columns",
            Work::Parts { .. } => "parts",
        };
        format!("{name} {how}").into()
    }

    fn operands(&self) -> Vec<(String, Operand)> {
        let inputs = match &self.work {
            Work::Rows { leaves, .. } | Work::Columns { leaves, .. } => leaves.named(),
            Work::Parts { parts, .. } => vec![("parts".to_owned(), *parts)],
        };
        [inputs, vec![("out".to_owned(), self.out)]].concat()
    }

    fn params(&self) -> ParamsShape {
        self.params
    }

    fn helpers(&self) -> Vec<Helper> {
        let mut all = vec![Helper::Basic];
        if let Work::Rows { program, .. } | Work::Columns { program, .. } = &self.work {
            all.extend(program::helpers(program));
        }
        all
    }

    fn integers(&self) -> Vec<DType> {
        match &self.work {
            Work::Rows { program, .. } | Work::Columns { program, .. } => {
                program::integers(program)
            }
            Work::Parts { .. } => Vec::new(),
        }
    }

    fn body(&self, _: Capabilities) -> String {
        let mut text = String::new();
        self.states(&mut text);
        self.transfers(&mut text);
        let word = |i| self.params.word(i);
        match &self.work {
            Work::Rows { program, leaves, lanes, whole } => {
                self.value(program, leaves, &mut text);
                let rows = THREADS / lanes;
                let take = |t: &str, x: &str| {
                    if *whole {
                        format!("s = take(s, {x}, vec4<u32>(4u * ({t}) - origin) + STEPS);")
                    } else {
                        format!(
                            "{{ let e = vec4<u32>(4u * ({t})) + STEPS; s = take_some(s, {x}, e - vec4<u32>(origin), (e >= vec4<u32>(begin)) & (e < vec4<u32>(end))); }}"
                        )
                    }
                };
                let _ = writeln!(
                    text,
                    "const STEPS = vec4<u32>(0u, 1u, 2u, 3u);
{}{ENTRY}    let item = (group.x + group.y * groups.x) * {rows}u + local / {lanes}u;
    let lane = local % {lanes}u;
    let valid = item < {};
    let row = item / {};
    let first = (item % {}) * {};
    let origin = row * {};
    var begin = origin + first;
    var end = begin + min({}, {} - first);
    if (!valid) {{ begin = 0u; end = 0u; }}
    let stop = (end + 3u) / 4u;
    var s = nothing();
    var t = begin / 4u + lane;
    for (; t + {three}u < stop; t += {four}u) {{
        let x0 = value(t); let x1 = value(t + {lanes}u); let x2 = value(t + {two}u); let x3 = value(t + {three}u);
        {} {} {} {}
    }}
    for (; t < stop; t += {lanes}u) {{ let x = value(t); {} }}
    var state = joined(s);",
                    if *lanes > 1 { "var<workgroup> shared_states: array<State, 256>;\n" } else { "" },
                    word(0),
                    word(2),
                    word(2),
                    word(3),
                    word(1),
                    word(3),
                    word(1),
                    take("t", "x0"),
                    take(&format!("t + {lanes}u"), "x1"),
                    take(&format!("t + {}u", 2 * lanes), "x2"),
                    take(&format!("t + {}u", 3 * lanes), "x3"),
                    take("t", "x"),
                    two = 2 * lanes,
                    three = 3 * lanes,
                    four = 4 * lanes,
                );
                Self::tree(*lanes, "valid", "item", &mut text);
            }
            Work::Columns { program, leaves } => {
                self.value(program, leaves, &mut text);
                let _ = writeln!(
                    text,
                    "{ENTRY}    let item = (group.x + group.y * groups.x) * 256u + local;
    if (item >= {}) {{ return; }}
    let quads = {};
    let q = item % quads;
    let segment = item / quads;
    var r = segment * {};
    let stop = r + min({}, {} - r);
    var s = nothing();
    for (; r + 3u < stop; r += 4u) {{
        let t = r * quads + q;
        let x0 = value(t); let x1 = value(t + quads); let x2 = value(t + 2u * quads); let x3 = value(t + 3u * quads);
        s = take(s, x0, vec4<u32>(r)); s = take(s, x1, vec4<u32>(r + 1u));
        s = take(s, x2, vec4<u32>(r + 2u)); s = take(s, x3, vec4<u32>(r + 3u));
    }}
    for (; r < stop; r += 1u) {{ s = take(s, value(r * quads + q), vec4<u32>(r)); }}
    let offset = 4u * (segment * quads + q);",
                    word(0),
                    word(2),
                    word(3),
                    word(3),
                    word(1),
                );
                for (i, c) in ["x", "y", "z", "w"].iter().enumerate() {
                    let state = if self.is_arg() {
                        format!("s.key.{c}, s.at.{c}")
                    } else {
                        format!("s.v.{c}")
                    };
                    let _ = writeln!(text, "    put(offset + {i}u, State({state}));");
                }
                text += "}\n";
            }
            Work::Parts { lanes, .. } => {
                let rows = THREADS / lanes;
                let _ = writeln!(
                    text,
                    "{}{ENTRY}    let row = (group.x + group.y * groups.x) * {rows}u + local / {lanes}u;
    let lane = local % {lanes}u;
    let valid = row < {};
    let count = select(0u, {}, valid);
    var state = joined(nothing());
    for (var i = lane; i < count; i += {lanes}u) {{ state = join(state, part(row * {} + i * {})); }}",
                    if *lanes > 1 { "var<workgroup> shared_states: array<State, 256>;\n" } else { "" },
                    word(0),
                    word(1),
                    word(2),
                    word(3),
                );
                Self::tree(*lanes, "valid", "row", &mut text);
            }
        }
        text
    }

    fn is_proven(&self) -> bool {
        // A user-defined expression may do anything.
        !matches!(self.reducer, Reducer::Custom { .. })
    }
}

/// Returns the axis along which neighbours in memory follow each other.
fn innermost(layout: &Layout) -> Option<usize> {
    let axes = layout.shape().iter().zip(layout.strides()).enumerate();
    axes.filter(|(_, (size, stride))| **size > 1 && **stride != 0)
        .min_by_key(|(_, (_, stride))| stride.unsigned_abs())
        .map(|(axis, _)| axis)
}

/// The longest row that is not divided.
const SHORT_ROW: usize = 1 << 13;

/// The shortest and the longest segment of a row.
const ROW_SEGMENT: [usize; 2] = [1 << 12, 1 << 16];

/// The longest segment of a column.
const COLUMN_SEGMENT: usize = 256;

/// The longest column: the results of its segments, at most 2^16, are folded by 256 threads, so
/// that an element goes through at most 256 additions in its segment, 256 in a thread and 8 between
/// threads.
const LONGEST_COLUMN: usize = COLUMN_SEGMENT << 16;

/// The number of segments that keep a large device busy.
const BUSY: usize = 1 << 12;

/// Records the reduction of the axes of an expression over a shape. Neither the reduced axes nor
/// the result may be empty.
pub(crate) fn launch(
    device: &GpuDevice,
    expr: &Expr<GpuView>,
    shape: &[usize],
    reduced: &[usize],
    reducer: &Reducer,
) -> Result<GpuData> {
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !reduced.contains(axis)).collect();
    // Kernels number all elements, including repeated ones of broadcast axes.
    product("elements of a reduction", shape)?;
    let count = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let (results, n) = (count(&kept), count(reduced));
    for leaf in &expr.leaves {
        device.check_recording(leaf.data.recording)?;
    }
    let is_column = |leaf: &GpuView| innermost(&leaf.layout).map(|axis| kept.contains(&axis));
    let by_columns = results.is_multiple_of(4)
        && (2..=LONGEST_COLUMN).contains(&n)
        && expr.leaves.iter().find_map(is_column).unwrap_or(false);
    let order: Vec<isize> = if by_columns { [reduced, &kept[..]] } else { [&kept[..], reduced] }
        .concat()
        .into_iter()
        .map(|axis| axis as isize)
        .collect();
    let mut expr = expr.clone();
    for leaf in &mut expr.leaves {
        leaf.layout = leaf.layout.permute("reduce", &order)?;
    }
    let faults = Faults::of(expr.leaves.iter().map(|leaf| &leaf.data.faults));
    // The elements of a segment, and how many segments there are.
    let (length, segments) = if by_columns {
        let length = (n * (results / 4)).div_ceil(BUSY * 32).clamp(16, COLUMN_SEGMENT);
        if n <= 64 { (n, 1) } else { (length, n.div_ceil(length)) }
    } else if n <= SHORT_ROW || (results >= BUSY / 2 && n <= ROW_SEGMENT[1]) {
        (n, 1)
    } else {
        let wanted =
            (n * results).div_ceil(BUSY).clamp(ROW_SEGMENT[0], ROW_SEGMENT[1]).next_multiple_of(4);
        (wanted, n.div_ceil(wanted))
    };
    let dtype = Reducer::computed_in(expr.dtype());
    let (store, out_dtype, out_len) = if segments == 1 {
        (Store::Result, reducer.result(dtype), results)
    } else {
        let len =
            product("parts of a reduction", &[results, segments, state_words(reducer, dtype)])?;
        (Store::Part, DType::I32, len)
    };
    let mut out = allocate(device, out_dtype, out_len, faults)?;
    let items = if by_columns { results / 4 * segments } else { results * segments };
    let mut params = vec![
        size("segments of a reduction", items)?,
        size("elements of a result", n)?,
        size("segments of a result", if by_columns { results / 4 } else { segments })?,
        size("elements of a segment", length)?,
        size("elements of a reduction", results * n - 1)?,
    ];
    let leaves = Leaves::of(device, &expr.leaves, &mut params)?;
    program::constant_params(&expr.program, &expr.constants, &mut params)?;
    let program = expr.program.clone();
    let lanes = lanes_for(length / 8)?;
    let (work, groups) = if by_columns {
        (Work::Columns { program, leaves }, (items as u64).div_ceil(THREADS.into()))
    } else {
        let whole = n.is_multiple_of(4);
        (
            Work::Rows { program, leaves, lanes, whole },
            (items as u64).div_ceil((THREADS / lanes).into()),
        )
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    for leaf in &expr.leaves {
        views(device, &leaf.data, &mut bound)?;
    }
    views(device, &out, &mut bound)?;
    let description = Reduce {
        work,
        reducer: reducer.clone(),
        dtype,
        store,
        out: operand(device, &out, Items::Singles, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let recording = device.launch(description, &bound, &params, groups)?;
    drop(bound);
    out.recording = recording;
    if store == Store::Result {
        return Ok(out);
    }
    let strides = if by_columns { [1, results] } else { [segments, 1] };
    fold_parts(device, &out, results, segments, strides, reducer, dtype)
}

/// Returns the number of threads that share this many items: a power of two, at most a workgroup.
pub(super) fn lanes_for(items: usize) -> Result<u32> {
    size("threads", items.next_power_of_two().clamp(1, THREADS as usize))
}

/// Records the folding of results of segments.
fn fold_parts(
    device: &GpuDevice,
    parts: &GpuData,
    results: usize,
    segments: usize,
    strides: [usize; 2],
    reducer: &Reducer,
    dtype: DType,
) -> Result<GpuData> {
    let mut out = allocate(device, reducer.result(dtype), results, parts.faults.clone())?;
    let lanes = lanes_for(segments / 2)?;
    let params = [
        size("results", results)?,
        size("segments of a result", segments)?,
        size("distance of results", strides[0])?,
        size("distance of segments", strides[1])?,
    ];
    let description = Reduce {
        work: Work::Parts { parts: operand(device, parts, Items::Singles, Access::Read), lanes },
        reducer: reducer.clone(),
        dtype,
        store: Store::Result,
        out: operand(device, &out, Items::Singles, Access::ReadWrite),
        params: ParamsShape::of(device, &params),
    };
    let mut bound: Vec<BufferView<'_>> = Vec::new();
    views(device, parts, &mut bound)?;
    views(device, &out, &mut bound)?;
    let groups = (results as u64).div_ceil((THREADS / lanes).into());
    let recording = device.launch(description, &bound, &params, groups)?;
    drop(bound);
    out.recording = recording;
    Ok(out)
}
