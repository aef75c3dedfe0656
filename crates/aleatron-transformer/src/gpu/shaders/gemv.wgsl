// Products of a matrix with a few rows of activations: the weights are read once. Before this file: M (rows of activations),
// GROUPS (of 32 threads in a workgroup), R (rows of weights of a group), U (vectors of weights in flight), XV (vectors of activations for one of
// weights), NORMED (whether activations are normalised here, by their root mean square and `gain`), the type Packed, `unpacked`,
// and the bindings.

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
const RX = R * XV;

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
    var squares: array<f32, M>;
    for (var m = 0u; m < M; m++) {
        squares[m] = 0.0;
    }
    var begin: array<u32, R>;
    for (var r = 0u; r < R; r++) {
        // Groups past the end repeat the last row, and store nothing.
        begin[r] = min(base + r, params.n_rows - 1u) * count;
        for (var m = 0u; m < M; m++) {
            sums[r * M + m] = 0.0;
        }
    }
    var i = lane;
    for (; i + (U - 1u) * 32u < count; i += U * 32u) {
        var packed: array<Packed, UR>;
        for (var u = 0u; u < U; u++) {
            for (var r = 0u; r < R; r++) {
                packed[u * R + r] = weights[begin[r] + i + u * 32u];
            }
        }
        for (var u = 0u; u < U; u++) {
            var w: array<vec4<f32>, RX>;
            for (var r = 0u; r < R; r++) {
                for (var j = 0u; j < XV; j++) {
                    w[r * XV + j] = unpacked(packed[u * R + r], j);
                }
            }
            for (var m = 0u; m < M; m++) {
                for (var j = 0u; j < XV; j++) {
                    var a = x[m * params.x_stride + (i + u * 32u) * XV + j];
                    if (NORMED) {
                        squares[m] = fused(a, a, squares[m]);
                        a *= gain[(i + u * 32u) * XV + j];
                    }
                    for (var r = 0u; r < R; r++) {
                        sums[r * M + m] = fused(w[r * XV + j], a, sums[r * M + m]);
                    }
                }
            }
        }
    }
    for (; i < count; i += 32u) {
        var w: array<vec4<f32>, RX>;
        for (var r = 0u; r < R; r++) {
            let packed = weights[begin[r] + i];
            for (var j = 0u; j < XV; j++) {
                w[r * XV + j] = unpacked(packed, j);
            }
        }
        for (var m = 0u; m < M; m++) {
            for (var j = 0u; j < XV; j++) {
                var a = x[m * params.x_stride + i * XV + j];
                if (NORMED) {
                    squares[m] = fused(a, a, squares[m]);
                    a *= gain[i * XV + j];
                }
                for (var r = 0u; r < R; r++) {
                    sums[r * M + m] = fused(w[r * XV + j], a, sums[r * M + m]);
                }
            }
        }
    }
    var scale: array<f32, M>;
    for (var m = 0u; m < M; m++) {
        scale[m] = 1.0;
        if (NORMED) {
            scale[m] = inverseSqrt(group_sum(squares[m], t) / params.width + params.epsilon);
        }
    }
    for (var r = 0u; r < R; r += 2u) {
        for (var m = 0u; m < M; m++) {
            let a = group_sum(sums[r * M + m], t);
            let b = group_sum(sums[(r + 1u) * M + m], t);
            if (lane == (r * M + m) % 32u) {
                emit_pair(m, base + r, a * scale[m], b * scale[m]);
            }
        }
    }
}
