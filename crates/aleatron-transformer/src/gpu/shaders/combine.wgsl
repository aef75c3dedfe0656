// Combines the parts of attention over different positions. Before this file: HEADS, HEAD, HEAD4 and the bindings.

struct Params {
    out_stride: u32,
    splits: u32,
}
var<immediate> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    if (t >= HEAD4) {
        return;
    }
    let begin = (id.x * HEADS + id.y) * params.splits * (HEAD4 + 1u);
    var most = -3.0e38;
    for (var s = 0u; s < params.splits; s++) {
        most = max(most, parts[begin + s * (HEAD4 + 1u)].x);
    }
    var sum = vec4<f32>();
    var mass = 0.0;
    for (var s = 0u; s < params.splits; s++) {
        let at = begin + s * (HEAD4 + 1u);
        let weight = exp(parts[at].x - most);
        mass += weight * parts[at].y;
        sum += weight * parts[at + 1u + t];
    }
    let y = sum / mass;
    for (var i = 0u; i < min(4u, HEAD - t * 4u); i++) {
        result[id.x * params.out_stride + id.y * HEAD + t * 4u + i] = y[i];
    }
}
