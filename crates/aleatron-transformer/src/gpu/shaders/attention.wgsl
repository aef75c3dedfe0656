// Attention of one row's queries that share a head of keys and values, over a part of the positions, block by block.
// Before this file: HEADS, KV_HEADS, HEAD, HEAD4, QUERIES (heads of queries of a workgroup), TILES (workgroups for all heads that
// share keys), LANES (threads that find the largest score of a head), SPLIT (whether several workgroups share the positions), BLOCK
// (the positions of a block, of which a workgroup's part is a multiple), the type Packed of four cached numbers, `unpacked`, and
// the bindings.

struct Params {
    capacity: u32,
    out_stride: u32,
    splits: u32,
    scale: f32,
    // The positions that a row attends to, its own included.
    window: u32,
}
var<immediate> params: Params;

const THREADS = 128u;
// Threads of one position, each with its queries.
const SPREAD = THREADS / BLOCK;
const OWN = (QUERIES + SPREAD - 1u) / SPREAD;
const GROUP = HEADS / KV_HEADS;
const OUTPUTS = (QUERIES * HEAD4 + THREADS - 1u) / THREADS;

var<workgroup> q: array<vec4<f32>, QUERIES * HEAD4>;
var<workgroup> weights: array<f32, QUERIES * BLOCK>;
var<workgroup> parts: array<f32, QUERIES * LANES>;
var<workgroup> largest: array<f32, QUERIES>;
var<workgroup> shrink: array<f32, QUERIES>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let row = tokens[id.x];
    let kv_head = id.y / TILES;
    let first_head = kv_head * GROUP + (id.y % TILES) * QUERIES;
    let len = row.z + 1u;
    let attended = min(len, params.window);
    let share = ((attended + params.splits - 1u) / params.splits + BLOCK - 1u) / BLOCK * BLOCK;
    let start = len - attended + id.z * share;
    let end = min(start + share, len);
    let cached = (row.y * params.capacity * KV_HEADS + kv_head) * HEAD4;

    for (var e = t; e < QUERIES * HEAD4; e += THREADS) {
        q[e] = queries[(id.x * HEADS + first_head) * HEAD4 + e] * params.scale;
    }
    if (t < QUERIES) {
        largest[t] = -3.0e38;
    }
    var sums: array<vec4<f32>, OUTPUTS>;
    var mass: array<f32, OUTPUTS>;
    for (var o = 0u; o < OUTPUTS; o++) {
        sums[o] = vec4<f32>();
        mass[o] = 0.0;
    }
    for (var block = start; block < end; block += BLOCK) {
        workgroupBarrier();
        var scores: array<f32, OWN>;
        for (var i = 0u; i < OWN; i++) {
            scores[i] = 0.0;
        }
        let place = t % BLOCK;
        let position = block + place;
        let first = t / BLOCK * OWN;
        if (position < end) {
            let key = cached + position * (KV_HEADS * HEAD4);
            for (var d = 0u; d < HEAD4; d++) {
                let k = unpacked(keys[key + d]);
                for (var i = 0u; i < OWN; i++) {
                    // Threads past the last query repeat it, and store nothing.
                    scores[i] += dot(k, q[min(first + i, QUERIES - 1u) * HEAD4 + d]);
                }
            }
        }
        for (var i = 0u; i < OWN; i++) {
            scores[i] = select(-3.0e38, scores[i], position < end);
            if (first + i < QUERIES) {
                weights[(first + i) * BLOCK + place] = scores[i];
            }
        }
        workgroupBarrier();
        if (t < QUERIES * LANES) {
            var most = -3.0e38;
            for (var i = t % LANES; i < BLOCK; i += LANES) {
                most = max(most, weights[(t / LANES) * BLOCK + i]);
            }
            parts[t] = most;
        }
        workgroupBarrier();
        if (t < QUERIES) {
            var most = largest[t];
            for (var i = 0u; i < LANES; i++) {
                most = max(most, parts[t * LANES + i]);
            }
            shrink[t] = exp(largest[t] - most);
            largest[t] = most;
        }
        workgroupBarrier();
        for (var i = 0u; i < OWN; i++) {
            if (first + i < QUERIES) {
                weights[(first + i) * BLOCK + place] = exp(scores[i] - largest[first + i]);
            }
        }
        workgroupBarrier();
        let count = min(BLOCK, end - block);
        for (var o = 0u; o < OUTPUTS; o++) {
            let e = t + o * THREADS;
            // Threads past the last output repeat the last head, and store nothing.
            let g = min(e / HEAD4, QUERIES - 1u);
            var sum = sums[o] * shrink[g];
            var total = mass[o] * shrink[g];
            var value = cached + block * (KV_HEADS * HEAD4) + e % HEAD4;
            var i = 0u;
            // Eight at a time, so that their loads are in flight together.
            for (; i + 8u <= count; i += 8u) {
                var loaded: array<Packed, 8>;
                for (var u = 0u; u < 8u; u++) {
                    loaded[u] = values[value + u * (KV_HEADS * HEAD4)];
                }
                for (var u = 0u; u < 8u; u++) {
                    let weight = weights[g * BLOCK + i + u];
                    total += weight;
                    sum = fma(vec4<f32>(weight), unpacked(loaded[u]), sum);
                }
                value += 8u * KV_HEADS * HEAD4;
            }
            for (; i < count; i++) {
                let weight = weights[g * BLOCK + i];
                total += weight;
                sum = fma(vec4<f32>(weight), unpacked(values[value]), sum);
                value += KV_HEADS * HEAD4;
            }
            sums[o] = sum;
            mass[o] = total;
        }
    }
    workgroupBarrier();
    for (var o = 0u; o < OUTPUTS; o++) {
        let e = t + o * THREADS;
        let g = e / HEAD4;
        if (g < QUERIES) {
            let head = first_head + g;
            if (SPLIT) {
                let at = ((id.x * HEADS + head) * params.splits + id.z) * (HEAD4 + 1u);
                partial[at + 1u + e % HEAD4] = sums[o];
                if (e % HEAD4 == 0u) {
                    partial[at] = vec4<f32>(largest[g], mass[o], 0.0, 0.0);
                }
            } else {
                let d = (e % HEAD4) * 4u;
                let y = sums[o] / mass[o];
                for (var i = 0u; i < min(4u, HEAD - d); i++) {
                    result[id.x * params.out_stride + head * HEAD + d + i] = y[i];
                }
            }
        }
    }
}
