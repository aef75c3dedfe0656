// Counts of a tile of output channels by positions per workgroup: a matrix product of bits whose columns are gathered, a tile at a
// time, from the streams of an image. Streams are of pairs of words, so that a pair has one tap. After counts.
//
// Signed products are complemented where they are negative: ones of p ^ m are 64 of a pair less the ones of p. The host takes
// these 64 away again; here, pairs that are not negative get them as well, so that no count is below 0.

override SIGNED: bool = false;

const SIDE = 16u;
const THREADS = 256u;
// Channels and columns of a tile; one more in memory, so that threads which store neighbours along k hit different banks.
const TILE = 64u;
const PITCH = 65u;
// Words, and pairs of words, that are in shared memory at a time.
const DEPTH = 16u;
const PAIRS = 8u;

struct Params {
    // Channels of this group, the first of them among all, tiles of them, and columns: the positions of all samples.
    n_rows: u32,
    first_row: u32,
    row_tiles: u32,
    n_columns: u32,
    // Words of a kernel, of a stream and of a sample, and those of a kernel that this dispatch counts.
    row_words: u32,
    stream_words: u32,
    sample_words: u32,
    begin: u32,
    end: u32,
    // Positions of a channel, those of a row, and the rows and columns from one to the next.
    n_positions: u32,
    row_positions: u32,
    row_step: u32,
    column_step: u32,
    // Rows and columns of an image, inputs of a sample, and the first that this group sees.
    height: u32,
    width: u32,
    n_inputs: u32,
    first_input: u32,
    // Counts of a sample, and from a low word to its high one.
    stride: u32,
    high: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> weights: array<u32>;
@group(0) @binding(1) var<storage, read> inputs: array<u32>;
// Of each tap: where the plane of its channel begins in the group, and its row and column from that of the position.
@group(0) @binding(2) var<storage, read> taps: array<vec4<i32>>;
// 1 for each negative weight, and for each negative input.
@group(0) @binding(3) var<storage, read> weight_signs: array<u32>;
@group(0) @binding(4) var<storage, read> input_signs: array<u32>;
@group(0) @binding(5) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> row_tile: array<u32, 1040>;
var<workgroup> column_tile: array<u32, 1040>;
// For each pair: of rows, all ones where the weight is negative; of columns, all ones where the input is negative, or inside the image.
var<workgroup> row_mask: array<u32, 520>;
var<workgroup> column_mask: array<u32, 520>;

struct Sum {
    ones: vec4<u32>,
    twos: vec4<u32>,
    negative: vec4<u32>,
}

fn add(sum: Sum, w0: u32, w1: u32, row: u32, x0: vec4<u32>, x1: vec4<u32>, mask: vec4<u32>) -> Sum {
    var p = vec4<u32>(w0);
    var q = vec4<u32>(w1);
    var negative = sum.negative;
    if (SIGNED) {
        let m = vec4<u32>(row) ^ mask;
        p = (p & x0) ^ m;
        q = (q & x1) ^ m;
        negative += m & vec4<u32>(1u);
    } else if (XOR) {
        p = (p ^ x0) & mask;
        q = (q ^ x1) & mask;
    } else {
        p = p & x0;
        q = q & x1;
    }
    let half = sum.ones ^ p;
    return Sum(half ^ q, sum.twos + countOneBits((sum.ones & p) | (half & q)), negative);
}

fn store_count(row: u32, column: u32, total: u32) {
    if (column >= params.n_columns) {
        return;
    }
    let sample = column / params.n_positions;
    let position = column - sample * params.n_positions;
    store(sample * params.stride + (params.first_row + row) * params.n_positions + position, total);
}

fn store_row(row: u32, column: u32, sum: Sum) {
    if (row >= params.n_rows) {
        return;
    }
    var total = 2u * sum.twos + countOneBits(sum.ones);
    if (SIGNED) {
        total += 64u * (vec4<u32>((params.end - params.begin) / 2u) - sum.negative);
    }
    store_count(row, column, total.x);
    store_count(row, column + SIDE, total.y);
    store_count(row, column + 2u * SIDE, total.z);
    store_count(row, column + 3u * SIDE, total.w);
}

fn load_row(i: u32, k: u32, first_row: u32) {
    let r = i / DEPTH;
    let d = i - r * DEPTH;
    let word = k + d;
    var v = 0u;
    var mask = 0u;
    if (word < params.end) {
        let row = params.first_row + min(first_row + r, params.n_rows - 1u);
        v = weights[row * params.row_words + word];
        if (SIGNED) {
            let n_taps = params.row_words / params.stream_words;
            mask = 0u - weight_signs[row * n_taps + word / params.stream_words];
        }
    }
    row_tile[d * PITCH + r] = v;
    if (d % 2u == 0u) {
        row_mask[d / 2u * PITCH + r] = mask;
    }
}

fn load_column(i: u32, k: u32, first_column: u32) {
    let c = i / DEPTH;
    let d = i - c * DEPTH;
    let word = k + d;
    var v = 0u;
    var mask = 0u;
    if (word < params.end) {
        let column = min(first_column + c, params.n_columns - 1u);
        let sample = column / params.n_positions;
        let position = column - sample * params.n_positions;
        let row = position / params.row_positions;
        let tap = word / params.stream_words;
        let offset = taps[tap];
        let y = i32(row * params.row_step) + offset.y;
        let x = i32((position - row * params.row_positions) * params.column_step) + offset.z;
        if (y >= 0 && x >= 0 && y < i32(params.height) && x < i32(params.width)) {
            let input = params.first_input + u32(offset.x) + u32(y) * params.width + u32(x);
            v = inputs[sample * params.sample_words + input * params.stream_words + word - tap * params.stream_words];
            mask = 0xffffffffu;
            if (SIGNED) {
                mask = 0u - input_signs[sample * params.n_inputs + input];
            }
        }
    }
    column_tile[d * PITCH + c] = v;
    if (d % 2u == 0u) {
        column_mask[d / 2u * PITCH + c] = mask;
    }
}

fn columns_at(at: u32) -> vec4<u32> {
    return vec4<u32>(
        column_tile[at],
        column_tile[at + SIDE],
        column_tile[at + 2u * SIDE],
        column_tile[at + 3u * SIDE],
    );
}

fn masks_at(at: u32) -> vec4<u32> {
    return vec4<u32>(
        column_mask[at],
        column_mask[at + SIDE],
        column_mask[at + 2u * SIDE],
        column_mask[at + 3u * SIDE],
    );
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let tile = workgroup / params.row_tiles;
    let first_row = (workgroup - tile * params.row_tiles) * TILE;
    if (tile >= (params.n_columns + TILE - 1u) / TILE) {
        return;
    }
    let first_column = tile * TILE;
    let ty = local / SIDE;
    let tx = local - ty * SIDE;
    var s0 = Sum();
    var s1 = Sum();
    var s2 = Sum();
    var s3 = Sum();
    for (var k = params.begin; k < params.end; k += DEPTH) {
        for (var i = local; i < DEPTH * TILE; i += THREADS) {
            load_row(i, k, first_row);
            load_column(i, k, first_column);
        }
        workgroupBarrier();
        for (var p = 0u; p < PAIRS; p++) {
            let even = 2u * p * PITCH;
            let odd = even + PITCH;
            let x0 = columns_at(even + tx);
            let x1 = columns_at(odd + tx);
            let mask = masks_at(p * PITCH + tx);
            let r = p * PITCH + ty;
            s0 = add(s0, row_tile[even + ty], row_tile[odd + ty], row_mask[r], x0, x1, mask);
            s1 = add(s1, row_tile[even + ty + SIDE], row_tile[odd + ty + SIDE], row_mask[r + SIDE], x0, x1, mask);
            s2 = add(s2, row_tile[even + ty + 2u * SIDE], row_tile[odd + ty + 2u * SIDE], row_mask[r + 2u * SIDE], x0, x1, mask);
            s3 = add(s3, row_tile[even + ty + 3u * SIDE], row_tile[odd + ty + 3u * SIDE], row_mask[r + 3u * SIDE], x0, x1, mask);
        }
        workgroupBarrier();
    }
    let row = first_row + ty;
    let column = first_column + tx;
    store_row(row, column, s0);
    store_row(row + SIDE, column, s1);
    store_row(row + 2u * SIDE, column, s2);
    store_row(row + 3u * SIDE, column, s3);
}
