// Encoding of thresholds with shared sequences: bit k is 1 if the sequence's integer k is below the
// threshold. A thread computes one word.

struct Params {
    // Number of computed words, and of words between rows.
    n_words: u32,
    row_stride: u32,
    // The word of a stream at which each row begins, the number of words entirely inside the
    // length, and the mask of the one after those.
    row_begin: u32,
    full_words: u32,
    tail_mask: u32,
    // Row r has sequence r % n_sequences.
    n_sequences: u32,
    // The offset of the flags of the thresholds.
    n_thresholds: u32,
    // Number of rows of a sample, and of words between samples.
    n_units: u32,
    sample_stride: u32,
}
var<immediate> params: Params;

// The integers of the part of each sequence that a row covers: 32 for each of its words.
@group(0) @binding(0) var<storage, read> values: array<u32>;
// Thresholds modulo 2^32, then one bit for each that is set if it is 2^32 and not 0.
@group(0) @binding(1) var<storage, read> thresholds: array<u32>;
@group(0) @binding(2) var<storage, read_write> streams: array<u32>;

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
    let row = index / params.row_stride;
    let place = index - row * params.row_stride;
    let word = params.row_begin + place;
    var inside = select(0u, params.tail_mask, word == params.full_words);
    inside = select(inside, 0xffffffffu, word < params.full_words);

    let threshold = thresholds[row];
    let always = (thresholds[params.n_thresholds + (row >> 5u)] >> (row & 31u)) & 1u;
    let first = ((row % params.n_sequences) * params.row_stride + place) * 32u;
    var bits = 0u;
    for (var k = 0u; k < 32u; k++) {
        bits |= select(0u, 1u, always == 1u || values[first + k] < threshold) << k;
    }
    let sample = row / params.n_units;
    let unit = row - sample * params.n_units;
    streams[sample * params.sample_stride + unit * params.row_stride + place] = bits & inside;
}
