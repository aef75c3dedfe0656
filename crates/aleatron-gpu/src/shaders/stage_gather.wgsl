// Selected elements of one slot. One element per thread.

struct Params {
    // Elements selected for all samples and for one, and elements of a sample of the source and of the result.
    n: u32,
    n_pairs: u32,
    source_len: u32,
    made_len: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> source: array<vec2<u32>>;
// Element of the result and of the source.
@group(0) @binding(1) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> made: array<vec2<u32>>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (id.x + id.y * size.x) * 256u + local;
    if (index >= params.n) {
        return;
    }
    let sample = index / params.n_pairs;
    let pair = pairs[index - sample * params.n_pairs];
    made[sample * params.made_len + pair.x] = source[sample * params.source_len + pair.y];
}
