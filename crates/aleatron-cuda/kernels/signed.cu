// Dense layers of signed operands as one product of AND. The stream of a negative operand is complemented; let w' and x' be the streams
// then. The sum of the products with their signs is the ones that w' and x' share, less for every pair of operands the ones of w (less
// than 0 where w is negative) where x is negative, and less the ones of x' where w is negative.
#include "stream.cuh"

struct ComplementParams {
    // Whole rows.
    RowPart part;
    // Thresholds, one for each row and unit.
    u64 thresholds;
    // Rows of `part.stride` words.
    u64 streams;
    // The ones of each stream before it was complemented, less than 0 where it was, 32 bits each.
    u64 ones;
    u32 n_rows;
    // Threads that share a stream: a power of two up to 32.
    u32 lanes;
};

DEVICE u32 ones_of(u32 word) {
    return __popc(word);
}

DEVICE u32 ones_of(const U32x4& words) {
    return __popc(words.x) + __popc(words.y) + __popc(words.z) + __popc(words.w);
}

// The complement of word `k` of a stream.
DEVICE u32 complement_of(const RowPart& part, u32 k, u32 word) {
    return ~word & inside_of(part, 0, k);
}

// The complement of words 4 k to 4 k + 3 of a stream.
DEVICE U32x4 complement_of(const RowPart& part, u32 k, const U32x4& words) {
    const U32x4 made = {complement_of(part, 4 * k, words.x), complement_of(part, 4 * k + 1, words.y),
                        complement_of(part, 4 * k + 2, words.z), complement_of(part, 4 * k + 3, words.w)};
    return made;
}

// Complements the streams of negative operands and counts the ones of all. A stream without ones counts nothing with either sign and stays
// as it is. A stream has `n_words` of the type; the first of each lane stays in a register.
template <typename Words>
DEVICE void complement(const ComplementParams& p, u32 n_words) {
    const u64 index = ((u64)blockIdx.x * 256 + threadIdx.x) / p.lanes;
    const u32 lane = threadIdx.x % p.lanes;
    const u64 n = (u64)p.n_rows * p.part.n_units, row = index / p.part.n_units;
    const u32 unit = (u32)(index - row * p.part.n_units);
    Words* words = (Words*)((u32*)p.streams + row * p.part.stride + (u64)unit * p.part.stream_words);
    const bool has_first = index < n && lane < n_words;
    Words first = {};
    u32 ones = 0;
    bool is_negative = false;
    if (has_first) {
        is_negative = ((const u64*)p.thresholds)[index] & NEGATIVE;
        first = words[lane];
        ones = ones_of(first);
        for (u32 k = lane + p.lanes; k < n_words; k += p.lanes) {
            ones += ones_of(words[k]);
        }
    }
    ones = group_sum(ones, p.lanes);
    if (!has_first) {
        return;
    }
    const bool complements = is_negative && ones != 0;
    if (complements) {
        words[lane] = complement_of(p.part, lane, first);
        for (u32 k = lane + p.lanes; k < n_words; k += p.lanes) {
            words[k] = complement_of(p.part, k, words[k]);
        }
    }
    if (lane == 0) {
        ((int*)p.ones)[index] = complements ? -(int)ones : (int)ones;
    }
}

KERNEL(complement_1, ComplementParams, 256) {
    complement<u32>(p, p.part.stream_words);
}

// Streams of whole vectors of sixteen bytes.
KERNEL(complement_4, ComplementParams, 256) {
    complement<U32x4>(p, p.part.stream_words / 4);
}

struct SignTermsParams {
    // Of each weight and of each input, as `complement` writes them.
    u64 weight_ones;
    u64 input_ones;
    // By sample and neuron, 32 bits each, modulo 2^32; terms are taken off.
    u64 counts;
    u32 n_inputs;
    u32 n_neurons;
    u32 n_samples;
    // The bits of a stream.
    u32 length;
    // Tiles of neurons, and the inputs of a slice.
    u32 neuron_tiles;
    u32 slice;
};

// The neurons and samples of a tile, and the inputs that are staged at a time.
#define TERM_TILE 64
#define TERM_STEP 32

// A block takes the terms of a slice of the inputs off the counts of a tile; a thread has four neurons and four samples.
KERNEL(sign_terms, SignTermsParams, 256) {
    // One row for each input, padded so that columns are written to different banks.
    const u32 pitch = TERM_TILE + 4;
    int* weights = (int*)shared_memory();
    int* inputs = weights + TERM_STEP * pitch;
    const u32 sample_tile = blockIdx.x / p.neuron_tiles, neuron_tile = blockIdx.x - sample_tile * p.neuron_tiles;
    const u32 first_neuron = neuron_tile * TERM_TILE, first_sample = sample_tile * TERM_TILE;
    const u32 begin = blockIdx.y * p.slice, rest = p.n_inputs - begin;
    const u32 end = begin + (p.slice < rest ? p.slice : rest);
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int sums[4][4] = {};
    for (u32 first = begin; first < end; first += TERM_STEP) {
        for (u32 k = threadIdx.x; k < TERM_TILE * TERM_STEP; k += 256) {
            const u32 row = k / TERM_STEP, column = k % TERM_STEP, input = first + column;
            const bool is_weight = input < end && first_neuron + row < p.n_neurons;
            const bool is_input = input < end && first_sample + row < p.n_samples;
            weights[column * pitch + row] = is_weight ? ((const int*)p.weight_ones)[(u64)(first_neuron + row) * p.n_inputs + input] : 0;
            inputs[column * pitch + row] = is_input ? ((const int*)p.input_ones)[(u64)(first_sample + row) * p.n_inputs + input] : 0;
        }
        __syncthreads();
#pragma unroll 4
        for (u32 k = 0; k < TERM_STEP; ++k) {
            const U32x4 four_w = *(const U32x4*)(weights + k * pitch + 4 * tx);
            const U32x4 four_x = *(const U32x4*)(inputs + k * pitch + 4 * ty);
            const int w[4] = {(int)four_w.x, (int)four_w.y, (int)four_w.z, (int)four_w.w};
            const int x[4] = {(int)four_x.x, (int)four_x.y, (int)four_x.z, (int)four_x.w};
            int w_negative[4], x_negative[4], x_ones[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                w_negative[i] = w[i] >> 31;
                x_negative[i] = x[i] >> 31;
                x_ones[i] = x[i] + (x_negative[i] & (int)p.length);
            }
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    sums[s][j] += (w[j] & x_negative[s]) + (x_ones[s] & w_negative[j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 s = 0; s < 4; ++s) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const u32 sample = first_sample + 4 * ty + s, neuron = first_neuron + 4 * tx + j;
            if (sample < p.n_samples && neuron < p.n_neurons) {
                atomicAdd((u32*)p.counts + (u64)sample * p.n_neurons + neuron, 0u - (u32)sums[s][j]);
            }
        }
    }
}
