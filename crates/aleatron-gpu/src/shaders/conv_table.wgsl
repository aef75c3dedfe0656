// Counts of a convolution as sums of table entries: one output per thread. Taps outside the image
// are skipped.

struct Params {
    // Number of channels of this group, the first of them among all, and number of positions of all
    // samples.
    n_rows: u32,
    first_row: u32,
    n_columns: u32,
    n_taps: u32,
    // Number of positions of a channel, of a row, and the distance of rows and columns.
    n_positions: u32,
    row_positions: u32,
    row_step: u32,
    column_step: u32,
    // Number of rows and columns of an image, of inputs of a sample, and the first input of this
    // group.
    height: u32,
    width: u32,
    n_inputs: u32,
    first_input: u32,
    // Number of entries of a row of the table, and of counts of a sample.
    row_len: u32,
    stride: u32,
}
var<immediate> params: Params;

// By weight, then by input.
@group(0) @binding(0) var<storage, read> entries: array<u32>;
// The row of the table of each weight, by channel and tap, and the column of each input, by sample
// and input.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> inputs: array<u32>;
// As in conv.wgsl.
@group(0) @binding(3) var<storage, read> taps: array<vec4<i32>>;
@group(0) @binding(4) var<storage, read_write> counts: array<u32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (id.x + id.y * size.x) * 256u + local;
    let row = index / params.n_columns;
    if (row >= params.n_rows) {
        return;
    }
    let column = index - row * params.n_columns;
    let sample = column / params.n_positions;
    let position = column - sample * params.n_positions;
    let place = position / params.row_positions;
    let top = i32(place * params.row_step);
    let left = i32((position - place * params.row_positions) * params.column_step);
    let channel = params.first_row + row;
    var sum = 0u;
    for (var tap = 0u; tap < params.n_taps; tap++) {
        let offset = taps[tap];
        let y = top + offset.y;
        let x = left + offset.z;
        if (y >= 0 && x >= 0 && y < i32(params.height) && x < i32(params.width)) {
            let input = params.first_input + u32(offset.x) + u32(y) * params.width + u32(x);
            let weight = weights[channel * params.n_taps + tap];
            sum += entries[weight * params.row_len + inputs[sample * params.n_inputs + input]];
        }
    }
    counts[sample * params.stride + channel * params.n_positions + position] = sum;
}
