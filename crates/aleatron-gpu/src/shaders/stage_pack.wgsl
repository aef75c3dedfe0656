// Thresholds of 64 bits in the form of a layer's kernels. One element per thread.

// 0 thresholds modulo 2^32, then one bit for each that is set if it is 2^32 and not 0; 1 rows of a
// table.
override FORM: u32 = 0u;
// 0 all thresholds, 1 non-negative ones, 2 negative ones; others become 0.
override KEEP: u32 = 0u;
// Whether a word for each sign is also written.
override SIGNS: bool = false;

struct Params {
    n: u32,
    // The first row of a table with negative thresholds.
    first_negative: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> thresholds: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
@group(0) @binding(2) var<storage, read_write> signs: array<u32>;

fn kept(index: u32) -> vec2<u32> {
    let threshold = thresholds[index];
    if (KEEP != 0u && (threshold.y >> 31u) + 1u != KEEP) {
        return vec2<u32>();
    }
    return threshold;
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
    let threshold = kept(index);
    let sign = threshold.y >> 31u;
    if (SIGNS) {
        signs[index] = sign;
    }
    if (FORM == 1u) {
        packed[index] = threshold.x + sign * params.first_negative;
        return;
    }
    packed[index] = threshold.x;
    if (index % 32u == 0u) {
        var flags = 0u;
        for (var bit = 0u; bit < 32u; bit++) {
            if (index + bit < params.n) {
                flags |= (kept(index + bit).y & 1u) << bit;
            }
        }
        packed[params.n + index / 32u] = flags;
    }
}
