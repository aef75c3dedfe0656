// The row of a sample and input: the counts of its stream with the weight streams at every threshold. One workgroup per row.
//
// Positions where the input stream is 1 are counted by the weight sequence's integer, and sums over the integers below a
// threshold are the counts of AND.

const THREADS = 64u;

override XNOR: bool = false;
// Whether this dispatch counts the last positions, and computes the sums.
override FINISH: bool = true;

struct Params {
    n_inputs: u32,
    n_rows: u32,
    length: u32,
    row_len: u32,
    // The positions counted by this dispatch.
    begin: u32,
    end: u32,
}
var<immediate> params: Params;

// The sequences' integers, by input and position.
@group(0) @binding(0) var<storage, read> input_values: array<u32>;
@group(0) @binding(1) var<storage, read> weight_values: array<u32>;
// The ones of the weight stream at each threshold, by input and threshold.
@group(0) @binding(2) var<storage, read> weight_ones: array<u32>;
// Thresholds of the inputs, by sample and input.
@group(0) @binding(3) var<storage, read> inputs: array<u32>;
// Initially zero.
@group(0) @binding(4) var<storage, read_write> rows: array<atomic<u32>>;

var<workgroup> sums: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = id.x + id.y * size.x;
    if (row >= params.n_rows) {
        return;
    }
    let first = row * params.row_len;
    let input = row % params.n_inputs;
    let threshold = inputs[row];
    for (var k = params.begin + local; k < params.end; k += THREADS) {
        let place = input * params.length + k;
        if (input_values[place] < threshold) {
            atomicAdd(&rows[first + weight_values[place] + 1u], 1u);
        }
    }
    if (!FINISH) {
        return;
    }
    storageBarrier();

    // Each thread sums a range of the row, then processes it again from the sum of the previous
    // threads.
    let stretch = (params.row_len + THREADS - 1u) / THREADS;
    let begin = min(local * stretch, params.row_len);
    let end = min(begin + stretch, params.row_len);
    var sum = 0u;
    for (var t = begin; t < end; t += 1u) {
        sum += atomicLoad(&rows[first + t]);
    }
    sums[local] = sum;
    workgroupBarrier();
    var both = 0u;
    var ones = 0u;
    for (var k = 0u; k < THREADS; k += 1u) {
        ones += sums[k];
        if (k < local) {
            both += sums[k];
        }
    }
    for (var t = begin; t < end; t += 1u) {
        both += atomicLoad(&rows[first + t]);
        var count = both;
        if (XNOR) {
            // Matches are both ones or both zeros.
            count = both + (params.length - (ones - both) - weight_ones[input * params.row_len + t]);
        }
        atomicStore(&rows[first + t], count);
    }
}
