// Products of a matrix with many rows of activations, in tiles of 64 by 64; each of 256 threads has 4 by 4 of them.
// Before this file: the type Packed of four weights, `unpacked`, and the bindings.

struct Params {
    n_rows: u32,
    first: u32,
    k_vectors: u32,
    x_stride: u32,
    out_stride: u32,
    m: u32,
    epsilon: f32,
    width: f32,
}
var<immediate> params: Params;

const DEPTH = 16u;
const TILE = 64u;
var<workgroup> activations: array<vec4<f32>, 256>; // [depth][row / 4]
var<workgroup> rows: array<vec4<f32>, 256>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let n0 = id.x * TILE;
    let m0 = id.y * TILE;
    let row = t / 4u;
    let column = t % 4u;
    // Rows past the end repeat the last one, and store nothing.
    let from_x = min(m0 + row, params.m - 1u) * params.x_stride + column;
    let from_w = min(n0 + row, params.n_rows - 1u) * params.k_vectors + column;
    let tm = t / 16u;
    let tn = t % 16u;
    var a0 = vec4<f32>();
    var a1 = vec4<f32>();
    var a2 = vec4<f32>();
    var a3 = vec4<f32>();
    for (var k = 0u; k < params.k_vectors; k += 4u) {
        let x4 = x[from_x + k];
        let w4 = unpacked(weights[from_w + k]);
        workgroupBarrier();
        for (var d = 0u; d < 4u; d++) {
            let at = (column * 4u + d) * 16u + row / 4u;
            activations[at][row % 4u] = x4[d];
            rows[at][row % 4u] = w4[d];
        }
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            let a = activations[d * 16u + tm];
            let b = rows[d * 16u + tn];
            a0 = fma(vec4<f32>(a.x), b, a0);
            a1 = fma(vec4<f32>(a.y), b, a1);
            a2 = fma(vec4<f32>(a.z), b, a2);
            a3 = fma(vec4<f32>(a.w), b, a3);
        }
    }
    let m = m0 + tm * 4u;
    let n = n0 + tn * 4u;
    emit_pair(m, n, a0.x, a0.y);
    emit_pair(m, n + 2u, a0.z, a0.w);
    emit_pair(m + 1u, n, a1.x, a1.y);
    emit_pair(m + 1u, n + 2u, a1.z, a1.w);
    emit_pair(m + 2u, n, a2.x, a2.y);
    emit_pair(m + 2u, n + 2u, a2.z, a2.w);
    emit_pair(m + 3u, n, a3.x, a3.y);
    emit_pair(m + 3u, n + 2u, a3.z, a3.w);
}
