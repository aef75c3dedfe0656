// The first half of an adapter's correction: a product of each row of activations that uses it with each row of `a`.

struct Params {
    adapter: u32,
    width: u32,
    x_stride: u32,
    rank: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> tokens: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

var<workgroup> parts: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    if (tokens[id.y].w != params.adapter) {
        return;
    }
    var sum = 0.0;
    for (var k = t; k < params.width; k += 64u) {
        sum = fma(a[id.x * params.width + k], x[id.y * params.x_stride + k], sum);
    }
    parts[t] = sum;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (t < step) {
            parts[t] += parts[t + step];
        }
        workgroupBarrier();
    }
    if (t == 0u) {
        result[id.y * params.rank + id.x] = parts[0];
    }
}
