// Packed streams on an NVIDIA GPU: encode, pack, count, multiply and accumulate. docs/streams.md defines every bit.
//
// The 32-bit words of the specification are the halves of 64-bit words, the low half first. Indices are 64-bit, and threads
// loop over them with the stride of the grid.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Draw {
    u32 word[4];
};

// Philox 4x32-10.
__device__ Draw philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 hi0 = __umulhi(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
        const u32 hi1 = __umulhi(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Draw draw = {{c0, c1, c2, c3}};
    return draw;
}

__device__ u64 thread_index() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ u64 thread_count() {
    return (u64)gridDim.x * blockDim.x;
}

// One thread per half word: 32 comparisons of uniform integers with one threshold, plane by plane from the top, until all are
// decided. `values` are checked by the caller. Halves from `used_halves` up to `row_halves`, which is even, become zero.
extern "C" __global__ void encode(const double* __restrict__ values, u32* __restrict__ halves, u64 n_streams, u64 n_units,
                                  u64 row_halves, u64 used_halves, u32 tail_mask, u64 seed, u32 first_row, u32 c3,
                                  int bipolar) {
    const u64 end = n_streams * row_halves;
    for (u64 index = thread_index(); index < end; index += thread_count()) {
        const u64 stream = index / row_halves;
        const u32 word = (u32)(index - stream * row_halves);
        u32 result = 0;
        if (word < used_halves) {
            const double value = values[stream];
            const double p = bipolar ? (value + 1.0) / 2.0 : value;
            const u64 threshold = (u64)floor(p * 4294967296.0 + 0.5);
            const u32 unit = (u32)(stream % n_units), row = first_row + (u32)(stream / n_units);
            u32 below = (u32)threshold;
            u32 undecided = 0xFFFFFFFFu;
            result = threshold >> 32 ? 0xFFFFFFFFu : 0u;
            // `below` holds the bits of the threshold that were not compared yet, at the top.
            for (u32 draw = 0; draw < 8 && undecided != 0 && below != 0; ++draw) {
                const Draw planes = philox(word * 8 + draw, unit, row, c3, (u32)seed, (u32)(seed >> 32));
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    const u32 plane = planes.word[m];
                    const u32 one = (below >> 31) ? 0xFFFFFFFFu : 0u;
                    result |= undecided & ~plane & one;
                    undecided &= plane ^ ~one;
                    below <<= 1;
                }
            }
            if (word + 1 == used_halves) {
                result &= tail_mask;
            }
        }
        halves[index] = result;
    }
}

// One warp per half word, one lane per bit. `*wrong` becomes the lowest index of a byte that is neither 0 nor 1.
extern "C" __global__ void pack(const unsigned char* __restrict__ bits, u32* __restrict__ halves, u64 n_streams, u64 length,
                                u64 row_halves, u64* __restrict__ wrong) {
    const u32 lane = threadIdx.x % 32;
    const u64 end = n_streams * row_halves;
    // `index` is the same for all lanes of a warp, so all of them reach the ballot.
    for (u64 index = thread_index() / 32; index < end; index += thread_count() / 32) {
        const u64 stream = index / row_halves;
        const u64 k = (index - stream * row_halves) * 32 + lane;
        unsigned char bit = 0;
        if (k < length) {
            bit = bits[stream * length + k];
            if (bit > 1) {
                atomicMin(wrong, stream * length + k);
            }
        }
        const u32 half = __ballot_sync(0xFFFFFFFFu, bit != 0);
        if (lane == 0) {
            halves[index] = half;
        }
    }
}

// Counts the ones of each word.
extern "C" __global__ void popcount(const u64* __restrict__ words, u64* __restrict__ counts, u64 n_words) {
    for (u64 index = thread_index(); index < n_words; index += thread_count()) {
        counts[index] = (u64)__popcll(words[index]);
    }
}

__device__ u32 ones_of_and(u64 a, u64 b) {
    return (u32)__popcll(a & b);
}

__device__ u32 ones_of_and(ulonglong2 a, ulonglong2 b) {
    return (u32)(__popcll(a.x & b.x) + __popcll(a.y & b.y));
}

// A block computes a tile of NEURONS by SAMPLES over part z of the words and adds its sums to the counts, which start at zero. A
// weight word is loaded once for all samples of the tile, an input word once for all neurons.
template <int NEURONS, int SAMPLES, typename Word>
__device__ void multiply_accumulate(const Word* __restrict__ weights, const Word* __restrict__ inputs,
                                    u64* __restrict__ counts, u64 n_neurons, u64 n_samples, u64 n_words) {
    const u64 neuron = (u64)blockIdx.x * NEURONS, sample = (u64)blockIdx.y * SAMPLES;
    // Rows past the end read the last row again; their sums are dropped.
    const Word* rows[NEURONS];
    const Word* columns[SAMPLES];
#pragma unroll
    for (int j = 0; j < NEURONS; ++j) {
        const u64 row = neuron + j < n_neurons ? neuron + j : n_neurons - 1;
        rows[j] = weights + row * n_words;
    }
#pragma unroll
    for (int s = 0; s < SAMPLES; ++s) {
        const u64 row = sample + s < n_samples ? sample + s : n_samples - 1;
        columns[s] = inputs + row * n_words;
    }
    // 32 bits suffice: a thread would have to read 512 MiB of weights for one neuron to overflow them.
    u32 ones[NEURONS][SAMPLES] = {};
    const u64 step = (u64)blockDim.x * gridDim.z;
    for (u64 k = (u64)blockIdx.z * blockDim.x + threadIdx.x; k < n_words; k += step) {
        Word w[NEURONS], x[SAMPLES];
#pragma unroll
        for (int j = 0; j < NEURONS; ++j) {
            w[j] = rows[j][k];
        }
#pragma unroll
        for (int s = 0; s < SAMPLES; ++s) {
            x[s] = columns[s][k];
        }
#pragma unroll
        for (int j = 0; j < NEURONS; ++j) {
#pragma unroll
            for (int s = 0; s < SAMPLES; ++s) {
                ones[j][s] += ones_of_and(w[j], x[s]);
            }
        }
    }
    // Reduce over the warp, then over the block, which has at most 32 warps.
    __shared__ u64 sums[NEURONS * SAMPLES][32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < NEURONS; ++j) {
#pragma unroll
        for (int s = 0; s < SAMPLES; ++s) {
            u64 sum = ones[j][s];
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2) {
                sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset);
            }
            if (lane == 0) {
                sums[j * SAMPLES + s][warp] = sum;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < NEURONS * SAMPLES) {
        const u64 j = neuron + threadIdx.x / SAMPLES, s = sample + threadIdx.x % SAMPLES;
        if (j < n_neurons && s < n_samples) {
            u64 sum = 0;
            for (u32 i = 0; i < blockDim.x / 32; ++i) {
                sum += sums[threadIdx.x][i];
            }
            atomicAdd(&counts[s * n_neurons + j], sum);
        }
    }
}

// For one sample and for batches; the `_pairs` variants load 16 bytes at a time and need rows aligned to 16 bytes.
#define MULTIPLY_ACCUMULATE(NAME, NEURONS, SAMPLES, WORD)                                                                  \
    extern "C" __global__ void NAME(const WORD* weights, const WORD* inputs, u64* counts, u64 n_neurons, u64 n_samples,    \
                                    u64 n_words) {                                                                         \
        multiply_accumulate<NEURONS, SAMPLES>(weights, inputs, counts, n_neurons, n_samples, n_words);                     \
    }

MULTIPLY_ACCUMULATE(mac_sample, 4, 1, u64)
MULTIPLY_ACCUMULATE(mac_sample_pairs, 4, 1, ulonglong2)
MULTIPLY_ACCUMULATE(mac_batch, 4, 4, u64)
MULTIPLY_ACCUMULATE(mac_batch_pairs, 4, 4, ulonglong2)
