//! The source of products by cooperative matrices: unrolled fragment by fragment, since matrices
//! cannot be array elements.

use std::fmt::Write;

use crate::config::Precision;

/// Rows of activations of a tile.
const ROWS: u32 = 64;

/// Products summed between two barriers, and the length of a row in workgroup memory, padded
/// against bank conflicts.
const DEPTH: u32 = 32;
const PITCH: u32 = 40;

/// Writes a kernel for tiles of 64 rows of activations by `tile` rows of weights. Four subgroups of
/// 32 have a quarter each.
pub(super) fn source(precision: Precision, tile: u32) -> String {
    let (high, wide) = (ROWS / 32, tile / 32);
    let loads = DEPTH / 4;
    let (x_loads, w_loads) = (ROWS * loads / 128, tile * loads / 128);
    let mut s = String::new();
    s += match precision {
        Precision::Int8 => {
            "alias PackedHalves = u32; fn halves(v: PackedHalves) -> vec4<f16> { return vec4<f16>(unpack4xI8(v)); }\n"
        }
        _ => {
            "alias PackedHalves = vec4<f16>; fn halves(v: PackedHalves) -> vec4<f16> { return v; }\n"
        }
    };
    let _ = write!(
        s,
        "struct Params {{ n_rows: u32, first: u32, k_vectors: u32, x_stride: u32, out_stride: u32, m: u32, epsilon: f32, width: f32 }}
var<immediate> params: Params;
var<workgroup> sa: array<f16, {}>;
var<workgroup> sb: array<f16, {}>;
var<workgroup> stage: array<f32, {}>;
@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {{
let m0 = id.y * {ROWS}u; let n0 = id.x * {tile}u;
let quarter = t / 32u; let r0 = (quarter / 2u) * {}u; let c0 = (quarter % 2u) * {}u;
let row = t / {loads}u; let column = t % {loads}u;
",
        ROWS * PITCH,
        tile * PITCH,
        ROWS * tile,
        ROWS / 2,
        tile / 2,
    );
    let per = 128 / loads;
    for i in 0..x_loads {
        let _ = writeln!(
            s,
            "let ax{i} = min(m0 + row + {}u, params.m - 1u) * params.x_stride + column; var x{i} = x[ax{i}];",
            i * per
        );
    }
    for i in 0..w_loads {
        let _ = writeln!(
            s,
            "let aw{i} = min(n0 + row + {}u, params.n_rows - 1u) * params.k_vectors + column; var w{i} = weights[aw{i}];",
            i * per
        );
    }
    for i in 0..high {
        for j in 0..wide {
            let _ = writeln!(s, "var c{i}{j} = coop_mat16x16<f32, C>();");
        }
    }
    let _ = writeln!(
        s,
        "for (var k = 0u; k < params.k_vectors; k += {loads}u) {{\nworkgroupBarrier();"
    );
    for i in 0..x_loads {
        let _ = writeln!(
            s,
            "{{ let h = vec4<f16>(x{i}); let o = (row + {}u) * {PITCH}u + column * 4u; sa[o] = h.x; sa[o + 1u] = h.y; sa[o + 2u] = h.z; sa[o + 3u] = h.w; }}",
            i * per
        );
    }
    for i in 0..w_loads {
        let _ = writeln!(
            s,
            "{{ let h = halves(w{i}); let o = (row + {}u) * {PITCH}u + column * 4u; sb[o] = h.x; sb[o + 1u] = h.y; sb[o + 2u] = h.z; sb[o + 3u] = h.w; }}",
            i * per
        );
    }
    let _ = writeln!(s, "workgroupBarrier();\nif (k + {loads}u < params.k_vectors) {{");
    for i in 0..x_loads {
        let _ = writeln!(s, "x{i} = x[ax{i} + k + {loads}u];");
    }
    for i in 0..w_loads {
        let _ = writeln!(s, "w{i} = weights[aw{i} + k + {loads}u];");
    }
    s += "}\n";
    for depth in (0..DEPTH).step_by(16) {
        s += "{\n";
        for i in 0..high {
            let _ = writeln!(
                s,
                "let a{i} = coopLoadT<coop_mat16x16<f16, A>>(&sa[(r0 + {}u) * {PITCH}u + {depth}u], {PITCH}u);",
                16 * i
            );
        }
        for j in 0..wide {
            // Rows of weights are the columns of the second factor.
            let _ = writeln!(
                s,
                "let b{j} = coopLoad<coop_mat16x16<f16, B>>(&sb[(c0 + {}u) * {PITCH}u + {depth}u], {PITCH}u);",
                16 * j
            );
        }
        for i in 0..high {
            for j in 0..wide {
                let _ = writeln!(s, "c{i}{j} = coopMultiplyAdd(a{i}, b{j}, c{i}{j});");
            }
        }
        s += "}\n";
    }
    s += "}\n";
    for i in 0..high {
        for j in 0..wide {
            let _ = writeln!(
                s,
                "coopStoreT(c{i}{j}, &stage[(r0 + {}u) * {tile}u + c0 + {}u], {tile}u);",
                16 * i,
                16 * j
            );
        }
    }
    let half = tile / 2;
    let _ = write!(
        s,
        "workgroupBarrier();
for (var e = t; e < {}u; e += 128u) {{
let m = e / {half}u; let n = (e % {half}u) * 2u;
emit_pair(m0 + m, n0 + n, stage[m * {tile}u + n], stage[m * {tile}u + n + 1u]);
}}
}}
",
        ROWS * half,
    );
    s
}
