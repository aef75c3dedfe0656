// The kernels' counts, as counts or as integers: shifted left, plus a constant of the neuron,
// limited. One element per thread. After int64.

// 0 one word for each count, 1 low words and high words `high` after them, 2 low and high word of each count in turn.
override FORM: u32 = 0u;
// 0 the first, 1 minus the first, 2 the first minus the second.
override SIGN: u32 = 0u;

struct Params {
    least: vec2<u32>,
    most: vec2<u32>,
    // Elements of all samples, and neurons, whose constants repeat.
    n: u32,
    n_neurons: u32,
    shift: u32,
    high: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> first: array<u32>;
@group(0) @binding(1) var<storage, read> second: array<u32>;
@group(0) @binding(2) var<storage, read> constants: array<vec2<u32>>;
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
    var low = index;
    var high = params.high + index;
    if (FORM == 2u) {
        low = 2u * index;
        high = low + 1u;
    }
    var count = vec2<u32>(first[low], 0u);
    if (FORM != 0u) {
        count.y = first[high];
    }
    if (SIGN == 1u) {
        count = negated64(count);
    } else if (SIGN == 2u) {
        var less = vec2<u32>(second[low], 0u);
        if (FORM != 0u) {
            less.y = second[high];
        }
        count = subtract64(count, less);
    }
    let sum = add64(shifted_left64(count, params.shift), constants[index % params.n_neurons]);
    made[index] = limited64(sum, params.least, params.most);
}
