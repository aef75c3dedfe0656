// Gates on each bit of packed streams; bits beyond a stream's length stay zero.

// 0 AND, 1 OR, 2 XOR, 3 XNOR, 4 NOT a, 5 MUX: a where select is 1 and b where it is 0.
override GATE: u32 = 0u;

struct Params {
    // Number of computed words, and of words between rows.
    n_words: u32,
    row_stride: u32,
    // The word of a stream at which each row begins, the number of words entirely inside the
    // length, and the mask of the one after those.
    row_begin: u32,
    full_words: u32,
    tail_mask: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read> chosen: array<u32>;
@group(0) @binding(3) var<storage, read_write> made: array<u32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (id.x + id.y * size.x) * 256u + local;
    if (index >= params.n_words) {
        return;
    }
    let word = params.row_begin + index % params.row_stride;
    var inside = select(0u, params.tail_mask, word == params.full_words);
    inside = select(inside, 0xffffffffu, word < params.full_words);
    var bits = 0u;
    switch GATE {
        case 0u: {
            bits = a[index] & b[index];
        }
        case 1u: {
            bits = a[index] | b[index];
        }
        case 2u: {
            bits = a[index] ^ b[index];
        }
        case 3u: {
            bits = ~(a[index] ^ b[index]);
        }
        case 4u: {
            bits = ~a[index];
        }
        default: {
            bits = (chosen[index] & a[index]) | (~chosen[index] & b[index]);
        }
    }
    made[index] = bits & inside;
}
