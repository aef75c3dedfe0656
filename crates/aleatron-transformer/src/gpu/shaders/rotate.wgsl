// Rotates queries to their positions, and stores rotated keys and values in the cache. Before this file: HEADS, KV_HEADS, HEAD (the width of
// a head), HEAD4 (its vectors, padding included), ROTARY, the type Packed of four cached numbers, `pack`, and the bindings.

struct Params {
    n_rows: u32,
    qkv_stride: u32,
    // Positions of one sequence in the cache.
    capacity: u32,
}
var<immediate> params: Params;

const HALF = HEAD / 2u;

fn rotated(base: u32, d: u32, angles: u32, rotary: bool) -> f32 {
    if (d >= HEAD) {
        return 0.0;
    }
    let a = qkv[base + d];
    if (!rotary) {
        return a;
    }
    if (d < HALF) {
        let turn = table[angles + d];
        return a * turn.x - qkv[base + d + HALF] * turn.y;
    }
    let turn = table[angles + d - HALF];
    return a * turn.x + qkv[base + d - HALF] * turn.y;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x / HEAD4;
    let block = id.x % HEAD4;
    if (head >= HEADS + 2u * KV_HEADS) {
        return;
    }
    let row = tokens[id.y];
    let base = id.y * params.qkv_stride + head * HEAD;
    let angles = row.z * HALF;
    let rotary = ROTARY && head < HEADS + KV_HEADS;
    let d = block * 4u;
    let y = vec4<f32>(
        rotated(base, d, angles, rotary),
        rotated(base, d + 1u, angles, rotary),
        rotated(base, d + 2u, angles, rotary),
        rotated(base, d + 3u, angles, rotary),
    );
    if (head < HEADS) {
        queries[(id.y * HEADS + head) * HEAD4 + block] = y;
        return;
    }
    let at = ((row.y * params.capacity + row.z) * KV_HEADS + (head - HEADS) % KV_HEADS) * HEAD4 + block;
    if (head < HEADS + KV_HEADS) {
        keys[at] = pack(y);
    } else {
        values[at] = pack(y);
    }
}
