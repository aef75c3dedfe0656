// Counts the ones of each row of words, of the AND of two rows or of their XOR: a segment of a row
// per workgroup.

// 0 the ones of a, 1 of a AND b, 2 of a XOR b.
override PAIR: u32 = 0u;
const THREADS = 128u;
// Number of words of a segment.
const SEGMENT = 8192u;

struct Params {
    n_rows: u32,
    row_words: u32,
    // Number of segments of a row.
    n_segments: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
// Initially zero.
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> partial: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let row = workgroup / params.n_segments;
    if (row >= params.n_rows) {
        return;
    }
    let begin = (workgroup - row * params.n_segments) * SEGMENT;
    let end = min(begin + SEGMENT, params.row_words);
    var sum = 0u;
    for (var k = begin + local; k < end; k += THREADS) {
        let at = row * params.row_words + k;
        var bits = a[at];
        if (PAIR == 1u) {
            bits &= b[at];
        } else if (PAIR == 2u) {
            bits ^= b[at];
        }
        sum += countOneBits(bits);
    }
    partial[local] = sum;
    for (var half = THREADS / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (local < half) {
            partial[local] += partial[local + half];
        }
    }
    if (local == 0u) {
        atomicAdd(&counts[row], partial[0]);
    }
}
