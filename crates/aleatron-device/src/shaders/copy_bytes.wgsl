// Copies bytes between any offsets, or clears them. A thread computes one word of the target; bytes
// of the word outside the range do not change.

override CLEAR: bool = false;

struct Params {
    // The first byte of the range in each binding, and the number of bytes.
    source_begin: u32,
    target_begin: u32,
    n_bytes: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> target_: array<u32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let word = params.target_begin / 4u + (id.x + id.y * size.x) * 64u + local;
    let begin = word * 4u;
    let end = params.target_begin + params.n_bytes;
    if (begin >= end) {
        return;
    }
    let first = max(begin, params.target_begin) - begin;
    let last = min(end - begin, 4u);
    let below_last = select(0xffffffffu, (1u << (8u * (last & 3u))) - 1u, last < 4u);
    let mask = below_last & (0xffffffffu << (8u * first));
    var value = 0u;
    if (!CLEAR) {
        for (var i = first; i < last; i++) {
            let at = params.source_begin + (begin + i - params.target_begin);
            value |= ((source[at / 4u] >> (8u * (at & 3u))) & 0xffu) << (8u * i);
        }
    }
    target_[word] = (target_[word] & ~mask) | value;
}
