// Like `gemv.wgsl`, for more rows of activations. A group of LANES threads has R rows of weights and all M rows of activations; the
// lanes of SLICES such groups interleave the vectors of a row. Weights go from memory to registers, once; activations come from
// the cache that the groups of a workgroup share. Before this file: M, R, LANES, U (vectors of weights in flight), the
// type Packed of four weights, `unpacked`, `total_sums` and the bindings.

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

const RM = R * M;
const UR = U * R;
const ROW_GROUPS = 4u;
const SLICES = 2u;
const GROUPS = ROW_GROUPS * SLICES;
const ROWS = ROW_GROUPS * R;
// Vectors from one of a lane to its next.
const STEP = SLICES * LANES;

// The sums of every group, R by M.
var<workgroup> totals: array<f32, GROUPS * RM>;

fn fused(a: vec4<f32>, b: vec4<f32>, c: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, c))));
}

@compute @workgroup_size(GROUPS * LANES)
fn main(
    @builtin(local_invocation_index) t: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
) {
    let group = t / LANES;
    let workgroup = id.x + id.y * size.x;
    let base = workgroup * ROWS + group % ROW_GROUPS * R;
    let count = params.k_vectors;
    var sums: array<f32, RM>;
    var begin: array<u32, R>;
    for (var r = 0u; r < R; r++) {
        // Groups past the end repeat the last row, and store nothing.
        begin[r] = min(base + r, params.n_rows - 1u) * count;
        for (var m = 0u; m < M; m++) {
            sums[r * M + m] = 0.0;
        }
    }
    var i = group / ROW_GROUPS * LANES + t % LANES;
    for (; i + (U - 1u) * STEP < count; i += U * STEP) {
        var packed: array<Packed, UR>;
        for (var u = 0u; u < U; u++) {
            for (var r = 0u; r < R; r++) {
                packed[u * R + r] = weights[begin[r] + i + u * STEP];
            }
        }
        for (var u = 0u; u < U; u++) {
            var w: array<vec4<f32>, R>;
            for (var r = 0u; r < R; r++) {
                w[r] = unpacked(packed[u * R + r]);
            }
            for (var m = 0u; m < M; m++) {
                let a = x[m * params.x_stride + i + u * STEP];
                for (var r = 0u; r < R; r++) {
                    sums[r * M + m] = fused(w[r], a, sums[r * M + m]);
                }
            }
        }
    }
    for (; i < count; i += STEP) {
        var w: array<vec4<f32>, R>;
        for (var r = 0u; r < R; r++) {
            w[r] = unpacked(weights[begin[r] + i]);
        }
        for (var m = 0u; m < M; m++) {
            let a = x[m * params.x_stride + i];
            for (var r = 0u; r < R; r++) {
                sums[r * M + m] = fused(w[r], a, sums[r * M + m]);
            }
        }
    }
    total_sums(&sums, t);
    workgroupBarrier();
    for (var e = t; e < ROWS / 2u * M; e += GROUPS * LANES) {
        let n = e % (ROWS / 2u) * 2u;
        let m = e / (ROWS / 2u);
        let at = n / R * RM + n % R * M + m;
        var a = 0.0;
        var b = 0.0;
        for (var slice = 0u; slice < SLICES; slice++) {
            a += totals[slice * ROW_GROUPS * RM + at];
            b += totals[slice * ROW_GROUPS * RM + at + M];
        }
        emit_pair(m, workgroup * ROWS + n, a, b);
    }
}
