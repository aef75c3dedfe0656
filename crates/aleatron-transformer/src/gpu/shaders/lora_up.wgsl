// The second half of an adapter's correction, added to the results of the rows that use it.

struct Params {
    adapter: u32,
    n_rows: u32,
    out_stride: u32,
    rank: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> tokens: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read> ranks: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.n_rows || tokens[id.y].w != params.adapter) {
        return;
    }
    var sum = 0.0;
    for (var r = 0u; r < params.rank; r++) {
        sum = fma(b[id.x * params.rank + r], ranks[id.y * params.rank + r], sum);
    }
    result[id.y * params.out_stride + id.x] += sum;
}
