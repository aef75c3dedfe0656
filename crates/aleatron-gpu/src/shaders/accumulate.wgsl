// Counts of ROWS neurons for one sample per workgroup: reads weights once, at the speed of memory.
// Before a reduce file, after counts.

override ROWS: u32 = 1u;
const THREADS = 256u;

struct Params {
    // Number of rows of weights here, of 16-byte vectors in a row, of samples, and of groups of
    // ROWS neurons.
    n_rows: u32,
    row_vectors: u32,
    n_samples: u32,
    n_groups: u32,
    // The index of the first neuron's counts, and the distance between the counts of samples.
    first: u32,
    stride: u32,
    high: u32,
    padding: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> inputs: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;

fn ones(w: vec4<u32>, x: vec4<u32>) -> u32 {
    var p = w & x;
    if (XOR) {
        p = w ^ x;
    }
    let n = countOneBits(p);
    return (n.x + n.y) + (n.z + n.w);
}

// The counts of one thread for up to four rows. Four loads of weights are in flight at a time, from
// four positions of one row, two of two rows or one of four.
fn partial_counts(group: u32, sample: u32, local: u32) -> vec4<u32> {
    let n = params.row_vectors;
    let x = sample * n;
    let last = params.n_rows - 1u;
    let row = group * ROWS;
    let w0 = row * n;
    var k = local;
    if (ROWS == 1u) {
        var sum = vec4<u32>();
        for (; k + 3u * THREADS < n; k += 4u * THREADS) {
            let k1 = k + THREADS;
            let k2 = k1 + THREADS;
            let k3 = k2 + THREADS;
            sum += vec4<u32>(
                ones(weights[w0 + k], inputs[x + k]),
                ones(weights[w0 + k1], inputs[x + k1]),
                ones(weights[w0 + k2], inputs[x + k2]),
                ones(weights[w0 + k3], inputs[x + k3]),
            );
        }
        for (; k < n; k += THREADS) {
            sum.x += ones(weights[w0 + k], inputs[x + k]);
        }
        return vec4<u32>((sum.x + sum.y) + (sum.z + sum.w), 0u, 0u, 0u);
    }
    let w1 = min(row + 1u, last) * n;
    if (ROWS == 2u) {
        var sum = vec2<u32>();
        for (; k + THREADS < n; k += 2u * THREADS) {
            let k1 = k + THREADS;
            let xa = inputs[x + k];
            let xb = inputs[x + k1];
            sum += vec2<u32>(
                ones(weights[w0 + k], xa) + ones(weights[w0 + k1], xb),
                ones(weights[w1 + k], xa) + ones(weights[w1 + k1], xb),
            );
        }
        if (k < n) {
            sum += vec2<u32>(ones(weights[w0 + k], inputs[x + k]), ones(weights[w1 + k], inputs[x + k]));
        }
        return vec4<u32>(sum, 0u, 0u);
    }
    let w2 = min(row + 2u, last) * n;
    let w3 = min(row + 3u, last) * n;
    var sum = vec4<u32>();
    for (; k < n; k += THREADS) {
        let xa = inputs[x + k];
        sum += vec4<u32>(
            ones(weights[w0 + k], xa),
            ones(weights[w1 + k], xa),
            ones(weights[w2 + k], xa),
            ones(weights[w3 + k], xa),
        );
    }
    return sum;
}

fn store_rows(group: u32, sample: u32, sum: vec4<u32>) {
    let row = group * ROWS;
    let at = sample * params.stride + params.first + row;
    store(at, sum.x);
    if (ROWS > 1u && row + 1u < params.n_rows) {
        store(at + 1u, sum.y);
    }
    if (ROWS > 2u && row + 2u < params.n_rows) {
        store(at + 2u, sum.z);
    }
    if (ROWS > 2u && row + 3u < params.n_rows) {
        store(at + 3u, sum.w);
    }
}
