// Counts of a tile of neurons by samples per workgroup: a matrix product of bits. After counts.
//
// Weights and inputs pass through shared memory DEPTH vectors at a time. A thread counts for four
// or eight neurons and four or eight samples. Counting bits issues at a quarter of the rate of
// logic on common hardware, so two products are added to a running sum by a carry-save adder, and
// only the carries, worth two, are counted.

override THREADS_X: u32 = 16u;
override THREADS_Y: u32 = 8u;
// Number of four-neuron and four-sample groups per thread: 1 or 2.
override ROW_FOURS: u32 = 2u;
override COLUMN_FOURS: u32 = 1u;
override DEPTH: u32 = 4u;

override THREADS = THREADS_X * THREADS_Y;
override ROWS = 4u * ROW_FOURS * THREADS_Y;
override COLUMNS = 4u * COLUMN_FOURS * THREADS_X;
// One more than a row of the tile, so that threads that store neighbours along k use different
// banks.
override ROW_PITCH = ROWS + 1u;
override COLUMN_PITCH = COLUMNS + 1u;
override ROW_SPACE = DEPTH * ROW_PITCH;
override COLUMN_SPACE = DEPTH * COLUMN_PITCH;

struct Params {
    n_rows: u32,
    n_samples: u32,
    // Number of vectors in a row, and in the part of it that a workgroup sums: whole DEPTHs.
    row_vectors: u32,
    split_vectors: u32,
    // Number of tiles of neurons and of samples, and of parts.
    row_tiles: u32,
    sample_tiles: u32,
    n_splits: u32,
    first: u32,
    stride: u32,
    high: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> inputs: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;

var<workgroup> row_tile: array<vec4<u32>, ROW_SPACE>;
var<workgroup> column_tile: array<vec4<u32>, COLUMN_SPACE>;

// The sum for one neuron and four samples: bits worth one, and the count of those worth two.
struct Sum {
    ones: vec4<u32>,
    twos: vec4<u32>,
}

// Four neurons by four samples.
struct Block {
    r0: Sum,
    r1: Sum,
    r2: Sum,
    r3: Sum,
}

// One vector of four samples, transposed: a word of each sample.
struct Columns {
    x: vec4<u32>,
    y: vec4<u32>,
    z: vec4<u32>,
    w: vec4<u32>,
}

fn product(w: u32, x: vec4<u32>) -> vec4<u32> {
    if (XOR) {
        return vec4<u32>(w) ^ x;
    }
    return vec4<u32>(w) & x;
}

fn add(sum: Sum, w: vec2<u32>, x: vec4<u32>, y: vec4<u32>) -> Sum {
    let p = product(w.x, x);
    let q = product(w.y, y);
    let half = sum.ones ^ p;
    return Sum(half ^ q, sum.twos + countOneBits((sum.ones & p) | (half & q)));
}

fn add_vector(sum: Sum, w: vec4<u32>, x: Columns) -> Sum {
    return add(add(sum, w.xy, x.x, x.y), w.zw, x.z, x.w);
}

fn add_block(block: Block, at: u32, x: Columns) -> Block {
    return Block(
        add_vector(block.r0, row_tile[at], x),
        add_vector(block.r1, row_tile[at + THREADS_Y], x),
        add_vector(block.r2, row_tile[at + 2u * THREADS_Y], x),
        add_vector(block.r3, row_tile[at + 3u * THREADS_Y], x),
    );
}

fn columns(at: u32) -> Columns {
    let a = column_tile[at];
    let b = column_tile[at + THREADS_X];
    let c = column_tile[at + 2u * THREADS_X];
    let d = column_tile[at + 3u * THREADS_X];
    return Columns(
        vec4<u32>(a.x, b.x, c.x, d.x),
        vec4<u32>(a.y, b.y, c.y, d.y),
        vec4<u32>(a.z, b.z, c.z, d.z),
        vec4<u32>(a.w, b.w, c.w, d.w),
    );
}

fn store_row(row: u32, column: u32, sum: Sum) {
    if (row >= params.n_rows) {
        return;
    }
    let total = 2u * sum.twos + countOneBits(sum.ones);
    let at = params.first + row;
    if (column < params.n_samples) {
        store(at + column * params.stride, total.x);
    }
    if (column + THREADS_X < params.n_samples) {
        store(at + (column + THREADS_X) * params.stride, total.y);
    }
    if (column + 2u * THREADS_X < params.n_samples) {
        store(at + (column + 2u * THREADS_X) * params.stride, total.z);
    }
    if (column + 3u * THREADS_X < params.n_samples) {
        store(at + (column + 3u * THREADS_X) * params.stride, total.w);
    }
}

fn store_block(row: u32, column: u32, block: Block) {
    store_row(row, column, block.r0);
    store_row(row + THREADS_Y, column, block.r1);
    store_row(row + 2u * THREADS_Y, column, block.r2);
    store_row(row + 3u * THREADS_Y, column, block.r3);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let tile = workgroup / params.row_tiles;
    let split = tile / params.sample_tiles;
    if (split >= params.n_splits) {
        return;
    }
    let first_row = (workgroup - tile * params.row_tiles) * ROWS;
    let first_column = (tile - split * params.sample_tiles) * COLUMNS;
    let begin = split * params.split_vectors;
    let end = min(begin + params.split_vectors, params.row_vectors);
    let ty = local / THREADS_X;
    let tx = local - ty * THREADS_X;

    var b00 = Block();
    var b01 = Block();
    var b10 = Block();
    var b11 = Block();
    for (var k = begin; k < end; k += DEPTH) {
        for (var i = local; i < DEPTH * ROWS; i += THREADS) {
            let r = i / DEPTH;
            let d = i - r * DEPTH;
            var v = vec4<u32>();
            if (k + d < end) {
                v = weights[min(first_row + r, params.n_rows - 1u) * params.row_vectors + k + d];
            }
            row_tile[d * ROW_PITCH + r] = v;
        }
        for (var i = local; i < DEPTH * COLUMNS; i += THREADS) {
            let c = i / DEPTH;
            let d = i - c * DEPTH;
            var v = vec4<u32>();
            if (k + d < end) {
                v = inputs[min(first_column + c, params.n_samples - 1u) * params.row_vectors + k + d];
            }
            column_tile[d * COLUMN_PITCH + c] = v;
        }
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d++) {
            let at = d * ROW_PITCH + ty;
            let x = columns(d * COLUMN_PITCH + tx);
            b00 = add_block(b00, at, x);
            if (ROW_FOURS > 1u) {
                b10 = add_block(b10, at + 4u * THREADS_Y, x);
            }
            if (COLUMN_FOURS > 1u) {
                let y = columns(d * COLUMN_PITCH + tx + 4u * THREADS_X);
                b01 = add_block(b01, at, y);
                if (ROW_FOURS > 1u) {
                    b11 = add_block(b11, at + 4u * THREADS_Y, y);
                }
            }
        }
        workgroupBarrier();
    }

    let row = first_row + ty;
    let column = first_column + tx;
    store_block(row, column, b00);
    if (ROW_FOURS > 1u) {
        store_block(row + 4u * THREADS_Y, column, b10);
    }
    if (COLUMN_FOURS > 1u) {
        store_block(row, column + 4u * THREADS_X, b01);
        if (ROW_FOURS > 1u) {
            store_block(row + 4u * THREADS_Y, column + 4u * THREADS_X, b11);
        }
    }
}
