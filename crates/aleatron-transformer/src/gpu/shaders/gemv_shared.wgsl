// As `gemv.wgsl`, for more rows of activations: a workgroup reads them once for all its rows of weights. Before this file: M, GROUPS,
// R, XV, the type Packed, `unpacked`, and the bindings.

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
const RX = R * XV;

var<workgroup> shared_x: array<vec4<f32>, M * XV * 32u>;

fn fused(a: vec4<f32>, b: vec4<f32>, c: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, c))));
}

@compute @workgroup_size(GROUPS * 32u)
fn main(
    @builtin(local_invocation_index) t: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
) {
    let lane = t % 32u;
    let base = ((id.x + id.y * size.x) * GROUPS + t / 32u) * R;
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
    var packed: array<Packed, R>;
    for (var r = 0u; r < R; r++) {
        packed[r] = weights[begin[r] + min(lane, count - 1u)];
    }
    for (var chunk = 0u; chunk < count; chunk += 32u) {
        workgroupBarrier();
        for (var e = t; e < M * XV * 32u; e += GROUPS * 32u) {
            let o = e % (XV * 32u);
            let m = e / (XV * 32u);
            var a = vec4<f32>();
            if (chunk * XV + o < count * XV) {
                a = x[m * params.x_stride + chunk * XV + o];
            }
            shared_x[(m * XV + o % XV) * 32u + o / XV] = a;
        }
        workgroupBarrier();
        var w: array<vec4<f32>, RX>;
        for (var r = 0u; r < R; r++) {
            for (var j = 0u; j < XV; j++) {
                w[r * XV + j] = unpacked(packed[r], j);
            }
            // Those of the next chunk are on their way meanwhile. Past the end the last ones are read again: activations are 0
            // there.
            packed[r] = weights[begin[r] + min(chunk + 32u + lane, count - 1u)];
        }
        for (var m = 0u; m < M; m++) {
            for (var j = 0u; j < XV; j++) {
                let a = shared_x[(m * XV + j) * 32u + lane];
                for (var r = 0u; r < R; r++) {
                    sums[r * M + m] = fused(w[r * XV + j], a, sums[r * M + m]);
                }
            }
        }
    }
    for (var r = 0u; r < R; r += 2u) {
        for (var m = 0u; m < M; m++) {
            let a = group_sum(sums[r * M + m], t);
            let b = group_sum(sums[(r + 1u) * M + m], t);
            if (lane == (r * M + m) % 32u) {
                emit_pair(m, base + r, a, b);
            }
        }
    }
}
