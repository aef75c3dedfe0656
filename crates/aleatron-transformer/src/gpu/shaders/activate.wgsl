// The function of the feed-forward part, if adapters prevent its fusion with the product before it. Before this file: GATED
// and the bindings.

struct Params {
    inner: u32,
    up_stride: u32,
    out_stride: u32,
}
var<immediate> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.inner) {
        return;
    }
    var y = 0.0;
    if (GATED) {
        let gate = up[id.y * params.up_stride + 2u * id.x];
        y = gate / (1.0 + exp(-gate)) * up[id.y * params.up_stride + 2u * id.x + 1u];
    } else {
        let x = up[id.y * params.up_stride + id.x];
        y = 0.5 * x * (1.0 + tanh(clamp(0.7978846 * (x + 0.044715 * x * x * x), -10.0, 10.0)));
    }
    result[id.y * params.out_stride + id.x] = y;
}
