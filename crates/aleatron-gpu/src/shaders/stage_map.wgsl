// Integers and constants: sums, differences, or limits. One element per thread. After int64.

// 0 constant plus value, 1 constant minus value, 2 value between two constants.
override KIND: u32 = 0u;

struct Params {
    // Elements of all samples and of one, and elements after which the constants repeat.
    n: u32,
    len: u32,
    period: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> values: array<vec2<u32>>;
// The entry of an element.
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> made: array<vec2<u32>>;

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
    let value = values[index];
    let key = keys[(index % params.len) % params.period];
    if (KIND == 0u) {
        made[index] = add64(entries[key], value);
    } else if (KIND == 1u) {
        made[index] = subtract64(entries[key], value);
    } else {
        made[index] = limited64(value, entries[2u * key], entries[2u * key + 1u]);
    }
}
