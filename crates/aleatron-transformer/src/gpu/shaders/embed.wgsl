// Reads rows of the embedding, and of the learned positions, if tokens are in this part of the embedding. Before this file:
// LEARNED, HAS_SCALES, the type Packed of four weights, `unpacked`, and the bindings.

struct Params {
    first: u32,
    n_rows: u32,
    vectors: u32,
}
var<immediate> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = tokens[id.y];
    let token = row.x - params.first;
    if (id.x >= params.vectors || row.x < params.first || token >= params.n_rows) {
        return;
    }
    var y = unpacked(weights[token * params.vectors + id.x]);
    if (HAS_SCALES) {
        y *= scales[token];
    }
    if (LEARNED) {
        y += positions[row.z * params.vectors + id.x];
    }
    result[id.y * params.vectors + id.x] = y;
}
