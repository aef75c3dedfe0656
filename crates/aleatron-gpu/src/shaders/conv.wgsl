// Counts of a tile of output channels by positions per workgroup: a matrix product of bits whose columns are gathered, a tile at a
// time, from the streams of an image. Streams are of pairs of words, so that a pair has one tap. After counts.
//
// A thread loads for the same channel and the same column in every turn: their addresses are
// computed once, before the loop. More than four by four counts a thread are three to four times
// slower on a current GPU.
//
// Signed products are complemented if they are negative: ones of p ^ m are 64 of a pair minus the
// ones of p. The host subtracts these 64 again. Without signs of inputs their number is that of the
// negative weights; with them, pairs that are not negative also get 64 here, so that no count is
// below 0.

// Whether weights have signs, and whether inputs do.
override SIGNED: bool = false;
override INPUT_SIGNS: bool = false;
// Whether four words always have one tap.
override FOURS: bool = false;
// Number of threads along channels and columns, 256 in all; each counts for four by four of them.
override SIDE_Y: u32 = 16u;
override SIDE_X: u32 = 16u;
// Number of four-word groups in shared memory at a time: two pairs each.
override DEPTH: u32 = 4u;
// Number of four-word groups of a channel and of a column that a thread loads at a time.
override ROW_LOADS: u32 = 1u;
override COLUMN_LOADS: u32 = 1u;

const THREADS = 256u;
// Number of channels and columns of a tile; one more in memory, so that threads that store
// neighbours along k use different banks.
override ROWS = 4u * SIDE_Y;
override COLUMNS = 4u * SIDE_X;
override ROW_PITCH = ROWS + 1u;
override COLUMN_PITCH = COLUMNS + 1u;
override ROW_SPACE = DEPTH * ROW_PITCH;
override COLUMN_SPACE = DEPTH * COLUMN_PITCH;
// Number of threads that load for a channel and for a column.
override ROW_THREADS = DEPTH / ROW_LOADS;
override COLUMN_THREADS = DEPTH / COLUMN_LOADS;

struct Params {
    // Number of channels of this group, the first of them among all, their tiles, number of
    // columns, which are the positions of all samples, and their tiles.
    n_rows: u32,
    first_row: u32,
    row_tiles: u32,
    n_columns: u32,
    column_tiles: u32,
    // Number of words of a kernel, of a stream and of a sample.
    row_words: u32,
    stream_words: u32,
    sample_words: u32,
    // Number of words of a kernel that one workgroup counts, whole turns of the loop, and of such
    // parts of a kernel.
    split_words: u32,
    n_splits: u32,
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
    // Number of counts of a sample, and distance from a low word to its high one.
    stride: u32,
    high: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> weights: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> inputs: array<vec2<u32>>;
// For each tap: the offset of the plane of its channel in the group, and its row and column
// relative to the position.
@group(0) @binding(2) var<storage, read> taps: array<vec4<i32>>;
// 1 for each negative weight, and for each negative input.
@group(0) @binding(3) var<storage, read> weight_signs: array<u32>;
@group(0) @binding(4) var<storage, read> input_signs: array<u32>;
@group(0) @binding(5) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> row_tile: array<vec4<u32>, ROW_SPACE>;
var<workgroup> column_tile: array<vec4<u32>, COLUMN_SPACE>;
// For each pair: of rows, all ones if the weight is negative; of columns, all ones if the input is
// negative, or inside the image.
var<workgroup> row_mask: array<vec2<u32>, ROW_SPACE>;
var<workgroup> column_mask: array<vec2<u32>, COLUMN_SPACE>;

// The sums of one channel and four columns: bits worth one, the count of those worth two, and of
// negative pairs, or of groups of four if these have one tap.
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

// Adds a pair of words of a weight to those of four columns. `mask` is all ones if the product is
// negative, or inside the image.
fn add_pair(sum: Sum, w: vec2<u32>, x: vec4<u32>, y: vec4<u32>, mask: vec4<u32>) -> Sum {
    var p = vec4<u32>(w.x);
    var q = vec4<u32>(w.y);
    if (SIGNED) {
        p = (p & x) ^ mask;
        q = (q & y) ^ mask;
    } else if (XOR) {
        p = (p ^ x) & mask;
        q = (q ^ y) & mask;
    } else {
        p = p & x;
        q = q & y;
    }
    let half = sum.ones ^ p;
    return Sum(half ^ q, sum.twos + countOneBits((sum.ones & p) | (half & q)), sum.negative);
}

fn add(sum: Sum, at: u32, columns: Columns) -> Sum {
    let w = row_tile[at];
    var made = sum;
    var first = columns.first;
    var second = columns.second;
    if (SIGNED) {
        let signs = row_mask[at];
        first = vec4<u32>(signs.x);
        second = vec4<u32>(signs.y);
        if (INPUT_SIGNS) {
            first ^= columns.first;
            second ^= columns.second;
            made.negative -= first;
            if (!FOURS) {
                made.negative -= second;
            }
        }
    }
    if (FOURS) {
        second = first;
    }
    made = add_pair(made, w.xy, columns.x, columns.y, first);
    return add_pair(made, w.zw, columns.z, columns.w, second);
}

fn columns_at(at: u32) -> Columns {
    let a = column_tile[at];
    let b = column_tile[at + SIDE_X];
    let c = column_tile[at + 2u * SIDE_X];
    let d = column_tile[at + 3u * SIDE_X];
    var first = vec4<u32>();
    var second = vec4<u32>();
    if (INPUT_SIGNS || XOR) {
        let e = column_mask[at];
        let f = column_mask[at + SIDE_X];
        let g = column_mask[at + 2u * SIDE_X];
        let h = column_mask[at + 3u * SIDE_X];
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

// `n_pairs` are those counted by this workgroup.
fn store_row(row: u32, column: u32, sum: Sum, n_pairs: u32) {
    if (row >= params.n_rows) {
        return;
    }
    var total = 2u * sum.twos + countOneBits(sum.ones);
    if (SIGNED && INPUT_SIGNS) {
        var negative = sum.negative;
        if (FOURS) {
            negative *= 2u;
        }
        total += 64u * (vec4<u32>(n_pairs) - negative);
    }
    store_count(row, column, total.x);
    store_count(row, column + SIDE_X, total.y);
    store_count(row, column + 2u * SIDE_X, total.z);
    store_count(row, column + 3u * SIDE_X, total.w);
}

// A column: a position of a sample's image.
struct Line {
    sample: u32,
    place: vec2<i32>,
}

// Two pairs of words, and a mask for each.
struct Four {
    words: vec4<u32>,
    masks: vec2<u32>,
}

// The first pair of an input's stream, and its mask; no stream outside the image.
struct Source {
    first: u32,
    mask: u32,
    is_inside: bool,
}

fn source_of(line: Line, tap: u32, stream_pairs: u32) -> Source {
    let offset = taps[tap];
    let y = line.place.x + offset.y;
    let x = line.place.y + offset.z;
    var source = Source(0u, 0u, y >= 0 && x >= 0 && y < i32(params.height) && x < i32(params.width));
    if (source.is_inside) {
        let input = params.first_input + u32(offset.x) + u32(y) * params.width + u32(x);
        source.first = line.sample * (params.sample_words / 2u) + input * stream_pairs;
        source.mask = 0xffffffffu;
        if (INPUT_SIGNS) {
            source.mask = 0u - input_signs[line.sample * params.n_inputs + input];
        }
    }
    return source;
}

// Pairs `at` and `at + 1` under the kernel, if they are before pair `end`.
fn load_inputs(line: Line, at: u32, end: u32) -> Four {
    var four = Four();
    if (at >= end) {
        return four;
    }
    let stream_pairs = params.stream_words / 2u;
    let tap = at / stream_pairs;
    let source = source_of(line, tap, stream_pairs);
    if (source.is_inside) {
        let pair = source.first + at - tap * stream_pairs;
        let words = inputs[pair];
        four.words.x = words.x;
        four.words.y = words.y;
        four.masks.x = source.mask;
        if (FOURS) {
            let others = inputs[pair + 1u];
            four.words.z = others.x;
            four.words.w = others.y;
            four.masks.y = source.mask;
        }
    }
    if (!FOURS && at + 1u < end) {
        let next_tap = (at + 1u) / stream_pairs;
        let next = source_of(line, next_tap, stream_pairs);
        if (next.is_inside) {
            let words = inputs[next.first + at + 1u - next_tap * stream_pairs];
            four.words.z = words.x;
            four.words.w = words.y;
            four.masks.y = next.mask;
        }
    }
    return four;
}

// Pairs `at` and `at + 1` of the kernel of a channel, if they are before pair `end`.
fn load_weights(channel: u32, at: u32, end: u32) -> Four {
    var four = Four();
    if (at >= end) {
        return four;
    }
    let row = channel * (params.row_words / 2u);
    let words = weights[row + at];
    four.words.x = words.x;
    four.words.y = words.y;
    if (at + 1u < end) {
        let others = weights[row + at + 1u];
        four.words.z = others.x;
        four.words.w = others.y;
    }
    if (SIGNED) {
        let stream_pairs = params.stream_words / 2u;
        let signs = channel * (params.row_words / params.stream_words);
        four.masks.x = 0u - weight_signs[signs + at / stream_pairs];
        if (FOURS) {
            four.masks.y = four.masks.x;
        } else if (at + 1u < end) {
            four.masks.y = 0u - weight_signs[signs + (at + 1u) / stream_pairs];
        }
    }
    return four;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let tile = workgroup / params.row_tiles;
    let first_row = (workgroup - tile * params.row_tiles) * ROWS;
    let split = tile / params.column_tiles;
    if (split >= params.n_splits) {
        return;
    }
    let first_column = (tile - split * params.column_tiles) * COLUMNS;
    let begin = split * params.split_words / 2u;
    let end = min(begin + params.split_words / 2u, params.row_words / 2u);

    // Threads load four-word groups of one channel and of one column. Past the end, the last one is
    // repeated and nothing is stored.
    let loaded_row = local / ROW_THREADS;
    let row_d = (local - loaded_row * ROW_THREADS) * ROW_LOADS;
    let channel = params.first_row + min(first_row + loaded_row, params.n_rows - 1u);
    let loaded_column = local / COLUMN_THREADS;
    let column_d = (local - loaded_column * COLUMN_THREADS) * COLUMN_LOADS;
    let column_of_all = min(first_column + loaded_column, params.n_columns - 1u);
    let sample = column_of_all / params.n_positions;
    let position = column_of_all - sample * params.n_positions;
    let y = position / params.row_positions;
    let x = position - y * params.row_positions;
    let line = Line(sample, vec2<i32>(i32(y * params.row_step), i32(x * params.column_step)));

    let ty = local / SIDE_X;
    let tx = local - ty * SIDE_X;
    var s0 = Sum();
    var s1 = Sum();
    var s2 = Sum();
    var s3 = Sum();
    for (var k = begin; k < end; k += 2u * DEPTH) {
        if (loaded_row < ROWS) {
            for (var j = 0u; j < ROW_LOADS; j++) {
                let d = row_d + j;
                let four = load_weights(channel, k + 2u * d, end);
                row_tile[d * ROW_PITCH + loaded_row] = four.words;
                if (SIGNED) {
                    row_mask[d * ROW_PITCH + loaded_row] = four.masks;
                }
            }
        }
        if (loaded_column < COLUMNS) {
            for (var j = 0u; j < COLUMN_LOADS; j++) {
                let d = column_d + j;
                let four = load_inputs(line, k + 2u * d, end);
                column_tile[d * COLUMN_PITCH + loaded_column] = four.words;
                if (INPUT_SIGNS || XOR) {
                    column_mask[d * COLUMN_PITCH + loaded_column] = four.masks;
                }
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < DEPTH; i++) {
            let columns = columns_at(i * COLUMN_PITCH + tx);
            let at = i * ROW_PITCH + ty;
            s0 = add(s0, at, columns);
            s1 = add(s1, at + SIDE_Y, columns);
            s2 = add(s2, at + 2u * SIDE_Y, columns);
            s3 = add(s3, at + 3u * SIDE_Y, columns);
        }
        workgroupBarrier();
    }
    let row = first_row + ty;
    let column = first_column + tx;
    store_row(row, column, s0, end - begin);
    store_row(row + SIDE_Y, column, s1, end - begin);
    store_row(row + 2u * SIDE_Y, column, s2, end - begin);
    store_row(row + 3u * SIDE_Y, column, s3, end - begin);
}
