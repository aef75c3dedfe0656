// Counts of a tile of output channels by positions per workgroup: a matrix product of bits whose columns are gathered, a tile at a
// time, from the streams of an image. Streams are of pairs of words, so that a pair has one tap. After counts.
//
// A thread loads the same pairs of the same channels and columns in every turn: where they are is found once, before the loop.
//
// Signed products are complemented where they are negative: ones of p ^ m are 64 of a pair less the ones of p. The host takes
// these 64 away again; here, pairs that are not negative get them as well, so that no count is below 0.

override SIGNED: bool = false;

const THREADS_X = 16u;
const THREADS_Y = 8u;
const THREADS = 128u;
// Channels and columns of a tile; one more in memory, so that threads which store neighbours along k hit different banks.
const TILE = 64u;
const PITCH = 65u;
// Pairs of words that are in shared memory at a time, and of them those of a thread.
const PAIRS = 8u;
const LOADS = 4u;
const STEP = 16u;

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

@group(0) @binding(0) var<storage, read> weights: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> inputs: array<vec2<u32>>;
// Of each tap: where the plane of its channel begins in the group, and its row and column from that of the position.
@group(0) @binding(2) var<storage, read> taps: array<vec4<i32>>;
// 1 for each negative weight, and for each negative input.
@group(0) @binding(3) var<storage, read> weight_signs: array<u32>;
@group(0) @binding(4) var<storage, read> input_signs: array<u32>;
@group(0) @binding(5) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> row_tile: array<vec2<u32>, 520>;
var<workgroup> column_tile: array<vec2<u32>, 520>;
// For each pair: of rows, all ones where the weight is negative; of columns, all ones where the input is negative, or inside the image.
var<workgroup> row_mask: array<u32, 520>;
var<workgroup> column_mask: array<u32, 520>;

// The sums of one channel and four columns: bits worth one, the count of those worth two, and of pairs that are negative.
struct Sum {
    ones: vec4<u32>,
    twos: vec4<u32>,
    negative: vec4<u32>,
}

// A pair of four columns, word by word.
struct Columns {
    x: vec4<u32>,
    y: vec4<u32>,
    mask: vec4<u32>,
}

fn add(sum: Sum, at: u32, columns: Columns) -> Sum {
    let w = row_tile[at];
    var p = vec4<u32>(w.x);
    var q = vec4<u32>(w.y);
    var negative = sum.negative;
    if (SIGNED) {
        let m = vec4<u32>(row_mask[at]) ^ columns.mask;
        p = (p & columns.x) ^ m;
        q = (q & columns.y) ^ m;
        negative -= m;
    } else if (XOR) {
        p = (p ^ columns.x) & columns.mask;
        q = (q ^ columns.y) & columns.mask;
    } else {
        p = p & columns.x;
        q = q & columns.y;
    }
    let half = sum.ones ^ p;
    return Sum(half ^ q, sum.twos + countOneBits((sum.ones & p) | (half & q)), negative);
}

fn columns_at(at: u32) -> Columns {
    let a = column_tile[at];
    let b = column_tile[at + THREADS_X];
    let c = column_tile[at + 2u * THREADS_X];
    let d = column_tile[at + 3u * THREADS_X];
    var mask = vec4<u32>();
    if (SIGNED || XOR) {
        mask = vec4<u32>(
            column_mask[at],
            column_mask[at + THREADS_X],
            column_mask[at + 2u * THREADS_X],
            column_mask[at + 3u * THREADS_X],
        );
    }
    return Columns(vec4<u32>(a.x, b.x, c.x, d.x), vec4<u32>(a.y, b.y, c.y, d.y), mask);
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
    store_count(row, column + THREADS_X, total.y);
    store_count(row, column + 2u * THREADS_X, total.z);
    store_count(row, column + 3u * THREADS_X, total.w);
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
    let stream_pairs = params.stream_words / 2u;
    let n_taps = params.row_words / params.stream_words;

    // Thread t loads pair t % PAIRS of the channels and columns t / PAIRS, t / PAIRS + STEP, and so on.
    let d = local % PAIRS;
    let line = local / PAIRS;
    var rows: array<u32, LOADS>;
    var samples: array<u32, LOADS>;
    var places: array<vec2<i32>, LOADS>;
    for (var j = 0u; j < LOADS; j++) {
        // Past the end, the last one is repeated and nothing is stored.
        rows[j] = params.first_row + min(first_row + line + j * STEP, params.n_rows - 1u);
        let column = min(first_column + line + j * STEP, params.n_columns - 1u);
        samples[j] = column / params.n_positions;
        let position = column - samples[j] * params.n_positions;
        let row = position / params.row_positions;
        places[j] = vec2<i32>(
            i32(row * params.row_step),
            i32((position - row * params.row_positions) * params.column_step),
        );
    }

    let ty = local / THREADS_X;
    let tx = local - ty * THREADS_X;
    var s0 = Sum();
    var s1 = Sum();
    var s2 = Sum();
    var s3 = Sum();
    var s4 = Sum();
    var s5 = Sum();
    var s6 = Sum();
    var s7 = Sum();
    for (var k = params.begin / 2u; k < params.end / 2u; k += PAIRS) {
        let pair = k + d;
        let is_inside = pair < params.end / 2u;
        let tap = min(pair / stream_pairs, n_taps - 1u);
        let offset = taps[tap];
        let of_stream = pair - tap * stream_pairs;
        for (var j = 0u; j < LOADS; j++) {
            let at = d * PITCH + line + j * STEP;
            var w = vec2<u32>();
            var negative = 0u;
            if (is_inside) {
                w = weights[rows[j] * (params.row_words / 2u) + pair];
                if (SIGNED) {
                    negative = 0u - weight_signs[rows[j] * n_taps + tap];
                }
            }
            row_tile[at] = w;
            if (SIGNED) {
                row_mask[at] = negative;
            }
            let y = places[j].x + offset.y;
            let x = places[j].y + offset.z;
            var v = vec2<u32>();
            var mask = 0u;
            if (is_inside && y >= 0 && x >= 0 && y < i32(params.height) && x < i32(params.width)) {
                let input = params.first_input + u32(offset.x) + u32(y) * params.width + u32(x);
                v = inputs[samples[j] * (params.sample_words / 2u) + input * stream_pairs + of_stream];
                mask = 0xffffffffu;
                if (SIGNED) {
                    mask = 0u - input_signs[samples[j] * params.n_inputs + input];
                }
            }
            column_tile[at] = v;
            if (SIGNED || XOR) {
                column_mask[at] = mask;
            }
        }
        workgroupBarrier();
        for (var p = 0u; p < PAIRS; p++) {
            let columns = columns_at(p * PITCH + tx);
            let at = p * PITCH + ty;
            s0 = add(s0, at, columns);
            s1 = add(s1, at + THREADS_Y, columns);
            s2 = add(s2, at + 2u * THREADS_Y, columns);
            s3 = add(s3, at + 3u * THREADS_Y, columns);
            s4 = add(s4, at + 4u * THREADS_Y, columns);
            s5 = add(s5, at + 5u * THREADS_Y, columns);
            s6 = add(s6, at + 6u * THREADS_Y, columns);
            s7 = add(s7, at + 7u * THREADS_Y, columns);
        }
        workgroupBarrier();
    }
    let row = first_row + ty;
    let column = first_column + tx;
    store_row(row, column, s0);
    store_row(row + THREADS_Y, column, s1);
    store_row(row + 2u * THREADS_Y, column, s2);
    store_row(row + 3u * THREADS_Y, column, s3);
    store_row(row + 4u * THREADS_Y, column, s4);
    store_row(row + 5u * THREADS_Y, column, s5);
    store_row(row + 6u * THREADS_Y, column, s6);
    store_row(row + 7u * THREADS_Y, column, s7);
}
