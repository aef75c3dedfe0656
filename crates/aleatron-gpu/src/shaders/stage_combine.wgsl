// Sums or differences of integers, each converted to one unit first. One element per thread. After
// int64.

override SUBTRACT: bool = false;

struct Params {
    // Elements of all samples and of one, and elements after which the factors repeat.
    n: u32,
    len: u32,
    period: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> left: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> right: array<vec2<u32>>;
// The two entries of an element.
@group(0) @binding(2) var<storage, read> keys: array<u32>;
// Multiplier and shift of the left operand, then of the right one.
@group(0) @binding(3) var<storage, read> entries: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> made: array<vec2<u32>>;

fn rescaled(value: vec2<u32>, factor: vec4<u32>) -> vec2<u32> {
    return scaled64(value, factor.xy, factor.z);
}

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
    let key = keys[(index % params.len) % params.period];
    let a = rescaled(left[index], entries[2u * key]);
    let b = rescaled(right[index], entries[2u * key + 1u]);
    if (SUBTRACT) {
        made[index] = subtract64(a, b);
    } else {
        made[index] = add64(a, b);
    }
}
