// Sparse layers, with work proportional to the connections.
//
// Elements are the 64-bit words of the connections' weight streams, numbered consecutively. A
// segment is a run of elements of one neuron; a neuron with many connections has several.
#include "device.cuh"

// Samples that share each load of the weights.
#define SPARSE_SAMPLES 4

struct Segment {
    u64 begin;
    u64 end;
    u32 neuron;
    u32 padding;
};

struct SparseParams {
    u64 weights;
    // Rows of `row_words` words.
    u64 inputs;
    // The input of each connection.
    u64 units;
    u64 segments;
    // By sample and neuron, 64 bits each.
    u64 counts;
    u64 row_words;
    // Whether each connection's weight is negative, 32 bits each, and thresholds by sample and
    // input with the signs of the inputs; only for signed products.
    u64 weight_signs;
    u64 thresholds;
    // 64-bit words of a stream.
    u32 stream_words;
    u32 n_segments;
    u32 n_samples;
    u32 n_neurons;
    u32 n_inputs;
    // The kind of product: a `SparseProduct`.
    u32 product;
};

enum SparseProduct : u32 {
    // Ones in common.
    COMMON = 0,
    // Differing bits.
    DIFFERENT = 1,
    // Ones in common, minus those of products of different signs.
    SIGNED = 2,
};

// A block counts one segment for some samples.
KERNEL(sparse, SparseParams, 128) {
    const u32 four = blockIdx.x / p.n_segments;
    const Segment segment = ((const Segment*)p.segments)[blockIdx.x - four * p.n_segments];
    const u32 first = four * SPARSE_SAMPLES;
    u32 sum[SPARSE_SAMPLES];
#pragma unroll
    for (u32 s = 0; s < SPARSE_SAMPLES; ++s) {
        sum[s] = 0;
    }
    for (u64 e = segment.begin + threadIdx.x; e < segment.end; e += 128) {
        const u64 connection = e / p.stream_words;
        const u64 word = e - connection * p.stream_words;
        const u64 w = ((const u64*)p.weights)[e];
        const u32 unit = ((const u32*)p.units)[connection];
        const u64 at = (u64)unit * p.stream_words + word;
        const u32 negative = p.product == SIGNED ? ((const u32*)p.weight_signs)[connection] : 0;
#pragma unroll
        for (u32 s = 0; s < SPARSE_SAMPLES; ++s) {
            if (first + s < p.n_samples) {
                const u64 x = ((const u64*)p.inputs)[(first + s) * p.row_words + at];
                const u32 count = __popcll(p.product == DIFFERENT ? w ^ x : w & x);
                u32 sign = negative;
                if (p.product == SIGNED) {
                    sign ^= (u32)(((const u64*)p.thresholds)[(u64)(first + s) * p.n_inputs + unit] >> 63);
                }
                sum[s] += sign ? 0u - count : count;
            }
        }
    }
#pragma unroll
    for (u32 s = 0; s < SPARSE_SAMPLES; ++s) {
        const u32 all = warp_sum(sum[s]);
        if (threadIdx.x % 32 == 0 && first + s < p.n_samples) {
            // A segment has far fewer than 2^31 bits.
            atomicAdd((u64*)p.counts + (u64)(first + s) * p.n_neurons + segment.neuron, (u64)(long long)(int)all);
        }
    }
}
