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

// Complements the streams of negative operands and counts the ones of all. A stream without ones counts nothing with either sign and stays
// as it is.
KERNEL(complement, ComplementParams, 256) {
    const u64 index = ((u64)blockIdx.x * 256 + threadIdx.x) / p.lanes;
    const u32 lane = threadIdx.x % p.lanes;
    const u64 n = (u64)p.n_rows * p.part.n_units, row = index / p.part.n_units;
    const u32 unit = (u32)(index - row * p.part.n_units);
    u32* words = (u32*)p.streams + row * p.part.stride + (u64)unit * p.part.stream_words;
    u32 ones = 0;
    if (index < n) {
        for (u32 k = lane; k < p.part.stream_words; k += p.lanes) {
            ones += __popc(words[k]);
        }
    }
    ones = group_sum(ones, p.lanes);
    if (index >= n) {
        return;
    }
    const bool complements = ones != 0 && (((const u64*)p.thresholds)[index] & NEGATIVE);
    if (complements) {
        for (u32 k = lane; k < p.part.stream_words; k += p.lanes) {
            words[k] = ~words[k] & inside_of(p.part, 0, k);
        }
    }
    if (lane == 0) {
        ((int*)p.ones)[index] = complements ? -(int)ones : (int)ones;
    }
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
            int w[4], w_negative[4], x_negative[4], x_ones[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                w[i] = weights[k * pitch + 4 * tx + i];
                w_negative[i] = w[i] >> 31;
                const int x = inputs[k * pitch + 4 * ty + i];
                x_negative[i] = x >> 31;
                x_ones[i] = x + (x_negative[i] & (int)p.length);
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
