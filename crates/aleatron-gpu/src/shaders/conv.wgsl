// Counts of a tile of output channels by positions per workgroup: a matrix product of bits whose columns are gathered, a tile at a
// time, from the streams of an image. Streams are of pairs of words, so that a pair has one tap. After counts.
//
// A thread loads for the same channel and the same column in every turn: where they are is found once, before the loop. More than four
// by four counts a thread are three to four times slower on a current card.
//
// Signed products are complemented where they are negative: ones of p ^ m are 64 of a pair less the ones of p. The host takes
// these 64 away again; here, pairs that are not negative get them as well, so that no count is below 0.

override SIGNED: bool = false;

const THREADS = 256u;
// Threads along channels and columns; each counts for four by four of them.
const SIDE = 16u;
// Channels and columns of a tile; one more in memory, so that threads which store neighbours along k hit different banks.
const TILE = 64u;
const PITCH = 65u;
// Fours of words that are in shared memory at a time: two pairs each.
const DEPTH = 4u;

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

var<workgroup> row_tile: array<vec4<u32>, 260>;
var<workgroup> column_tile: array<vec4<u32>, 260>;
// For each pair: of rows, all ones where the weight is negative; of columns, all ones where the input is negative, or inside the image.
var<workgroup> row_mask: array<vec2<u32>, 260>;
var<workgroup> column_mask: array<vec2<u32>, 260>;

// The sums of one channel and four columns: bits worth one, the count of those worth two, and of pairs that are negative.
struct Sum {
    ones: vec4<u32>,
    twos: vec4<u32>,
    negative: vec4<u32>,
}

// Four words of four columns, word by word, and the masks of both pairs.
struct Columns {
    x: vec4<u32>,
    y: vec4<u32>,
    z: vec4<u32>,
    w: vec4<u32>,
    first: vec4<u32>,
    second: vec4<u32>,
}

// Adds a pair of words of a weight, whose own mask is `sign`, to those of four columns.
fn add_pair(sum: Sum, w: vec2<u32>, x: vec4<u32>, y: vec4<u32>, sign: u32, mask: vec4<u32>) -> Sum {
    var p = vec4<u32>(w.x);
    var q = vec4<u32>(w.y);
    var negative = sum.negative;
    if (SIGNED) {
        let m = vec4<u32>(sign) ^ mask;
        p = (p & x) ^ m;
        q = (q & y) ^ m;
        negative -= m;
    } else if (XOR) {
        p = (p ^ x) & mask;
        q = (q ^ y) & mask;
    } else {
        p = p & x;
        q = q & y;
    }
    let half = sum.ones ^ p;
    return Sum(half ^ q, sum.twos + countOneBits((sum.ones & p) | (half & q)), negative);
}

fn add(sum: Sum, at: u32, columns: Columns) -> Sum {
    let w = row_tile[at];
    var signs = vec2<u32>();
    if (SIGNED) {
        signs = row_mask[at];
    }
    let half = add_pair(sum, w.xy, columns.x, columns.y, signs.x, columns.first);
    return add_pair(half, w.zw, columns.z, columns.w, signs.y, columns.second);
}

fn columns_at(at: u32) -> Columns {
    let a = column_tile[at];
    let b = column_tile[at + SIDE];
    let c = column_tile[at + 2u * SIDE];
    let d = column_tile[at + 3u * SIDE];
    var first = vec4<u32>();
    var second = vec4<u32>();
    if (SIGNED || XOR) {
        let e = column_mask[at];
        let f = column_mask[at + SIDE];
        let g = column_mask[at + 2u * SIDE];
        let h = column_mask[at + 3u * SIDE];
        first = vec4<u32>(e.x, f.x, g.x, h.x);
        second = vec4<u32>(e.y, f.y, g.y, h.y);
    }
    return Columns(
        vec4<u32>(a.x, b.x, c.x, d.x),
        vec4<u32>(a.y, b.y, c.y, d.y),
        vec4<u32>(a.z, b.z, c.z, d.z),
        vec4<u32>(a.w, b.w, c.w, d.w),
        first,
        second,
    );
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

// What a thread loads for: a channel, and a column, which is a place of a sample's image.
struct Line {
    channel: u32,
    sample: u32,
    place: vec2<i32>,
}

// A pair of words of a weight and of the input under it, and their masks.
struct Pair {
    weight: vec2<u32>,
    input: vec2<u32>,
    sign: u32,
    mask: u32,
}

// Pair `at` of a kernel; nothing past the end, and no input where the kernel reaches over the image.
fn load_pair(line: Line, at: u32) -> Pair {
    var pair = Pair();
    if (at >= params.end / 2u) {
        return pair;
    }
    let stream_pairs = params.stream_words / 2u;
    let tap = at / stream_pairs;
    pair.weight = weights[line.channel * (params.row_words / 2u) + at];
    if (SIGNED) {
        pair.sign = 0u - weight_signs[line.channel * (params.row_words / params.stream_words) + tap];
    }
    let offset = taps[tap];
    let y = line.place.x + offset.y;
    let x = line.place.y + offset.z;
    if (y >= 0 && x >= 0 && y < i32(params.height) && x < i32(params.width)) {
        let input = params.first_input + u32(offset.x) + u32(y) * params.width + u32(x);
        let stream = line.sample * (params.sample_words / 2u) + input * stream_pairs;
        pair.input = inputs[stream + at - tap * stream_pairs];
        pair.mask = 0xffffffffu;
        if (SIGNED) {
            pair.mask = 0u - input_signs[line.sample * params.n_inputs + input];
        }
    }
    return pair;
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

    // Thread t loads four words t % DEPTH of channel and of column t / DEPTH. Past the end, the last one is repeated and nothing is stored.
    let d = local % DEPTH;
    let slot = d * PITCH + local / DEPTH;
    let channel = params.first_row + min(first_row + local / DEPTH, params.n_rows - 1u);
    let loaded = min(first_column + local / DEPTH, params.n_columns - 1u);
    let sample = loaded / params.n_positions;
    let position = loaded - sample * params.n_positions;
    let y = position / params.row_positions;
    let x = position - y * params.row_positions;
    let line = Line(channel, sample, vec2<i32>(i32(y * params.row_step), i32(x * params.column_step)));

    let ty = local / SIDE;
    let tx = local - ty * SIDE;
    var s0 = Sum();
    var s1 = Sum();
    var s2 = Sum();
    var s3 = Sum();
    for (var k = params.begin / 2u; k < params.end / 2u; k += 2u * DEPTH) {
        let a = load_pair(line, k + 2u * d);
        let b = load_pair(line, k + 2u * d + 1u);
        row_tile[slot] = vec4<u32>(a.weight, b.weight);
        column_tile[slot] = vec4<u32>(a.input, b.input);
        if (SIGNED) {
            row_mask[slot] = vec2<u32>(a.sign, b.sign);
        }
        if (SIGNED || XOR) {
            column_mask[slot] = vec2<u32>(a.mask, b.mask);
        }
        workgroupBarrier();
        for (var i = 0u; i < DEPTH; i++) {
            let columns = columns_at(i * PITCH + tx);
            let at = i * PITCH + ty;
            s0 = add(s0, at, columns);
            s1 = add(s1, at + SIDE, columns);
            s2 = add(s2, at + 2u * SIDE, columns);
            s3 = add(s3, at + 3u * SIDE, columns);
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
