// Integers to thresholds: limited to their saturation points, multiplied, shifted right, saturated.
// One element per thread. After int64.

// Whether thresholds have signs.
override SIGNED: bool = false;

struct Params {
    // Elements of all samples and of one, and elements after which the constants repeat.
    n: u32,
    len: u32,
    period: u32,
    // The index of the counter of saturated elements.
    counter: u32,
}
var<immediate> params: Params;

struct Requantizer {
    multiplier: vec2<u32>,
    // The magnitude that values are limited to.
    reach: vec2<u32>,
    // The thresholds of 0 and of the stream of ones.
    zero: vec2<u32>,
    one: vec2<u32>,
    shift: u32,
    // Number of bits of the generator beyond the comparator.
    unused: u32,
}

@group(0) @binding(0) var<storage, read> values: array<vec2<u32>>;
// The entry of an element.
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<Requantizer>;
@group(0) @binding(3) var<storage, read_write> made: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> saturated: array<atomic<u32>>;

var<workgroup> n_outside: atomic<u32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    if (local == 0u) {
        atomicStore(&n_outside, 0u);
    }
    workgroupBarrier();
    let index = (id.x + id.y * size.x) * 256u + local;
    if (index < params.n) {
        let entry = entries[keys[(index % params.len) % params.period]];
        let value = limited64(values[index], negated64(entry.reach), entry.reach);
        let level = add64(scaled64(value, entry.multiplier, entry.shift), entry.zero);
        var least = vec2<u32>();
        if (SIGNED) {
            least = negated64(entry.one);
        }
        let inside = limited64(level, least, entry.one);
        if (any(inside != level)) {
            atomicAdd(&n_outside, 1u);
        }
        if (is_negative64(inside)) {
            made[index] = shifted_left64(negated64(inside), entry.unused) | vec2<u32>(0u, 0x80000000u);
        } else {
            made[index] = shifted_left64(inside, entry.unused);
        }
    }
    workgroupBarrier();
    if (local == 0u) {
        let n = atomicLoad(&n_outside);
        if (n > 0u) {
            atomicAdd(&saturated[params.counter], n);
        }
    }
}
