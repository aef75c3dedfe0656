// Packed streams on an NVIDIA GPU: encode, pack, count, multiply and accumulate. docs/streams.md defines every bit.
//
// Streams are 64-bit words in memory, written as pairs of 32-bit halves where the specification speaks of 32-bit words: the
// low half comes first. Indices over streams and words are 64-bit; a grid covers them with a stride.

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

// A thread makes a half word: 32 comparisons of uniform integers with one threshold, from the highest plane of bits down, until
// all are decided. `values` are checked; `row_halves` is even and at least `used_halves`, and the halves beyond are zero.
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
            // The ones of the threshold that no plane has been compared with stay at the top of `below`.
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

// A warp makes a half word of 32 bytes. `*wrong` becomes the least index of a byte that is neither 0 nor 1.
extern "C" __global__ void pack(const unsigned char* __restrict__ bits, u32* __restrict__ halves, u64 n_streams, u64 length,
                                u64 row_halves, u64* __restrict__ wrong) {
    const u32 lane = threadIdx.x % 32;
    const u64 end = n_streams * row_halves;
    // The lanes of a warp have one index, so all of them take part in the ballot.
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

// The ones of each word.
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

// A block counts a tile of NEURONS by SAMPLES over part z of the words, and adds what it found to the counts. A word of weights
// is read once for all samples of the tile, a word of inputs once for all neurons. The counts are zero before.
template <int NEURONS, int SAMPLES, typename Word>
__device__ void multiply_accumulate(const Word* __restrict__ weights, const Word* __restrict__ inputs,
                                    u64* __restrict__ counts, u64 n_neurons, u64 n_samples, u64 n_words) {
    const u64 neuron = (u64)blockIdx.x * NEURONS, sample = (u64)blockIdx.y * SAMPLES;
    // Tiles past the end read their last row again and drop the result.
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
    // A thread's count is below 2^32: that would be 2^33 bytes of weights for each thread.
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
    // Sums of warps, then of the block. A block has at most 32 warps.
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

// One sample, or some: words, and pairs of words where rows are aligned to 16 bytes.
#define MULTIPLY_ACCUMULATE(NAME, NEURONS, SAMPLES, WORD)                                                                  \
    extern "C" __global__ void NAME(const WORD* weights, const WORD* inputs, u64* counts, u64 n_neurons, u64 n_samples,    \
                                    u64 n_words) {                                                                         \
        multiply_accumulate<NEURONS, SAMPLES>(weights, inputs, counts, n_neurons, n_samples, n_words);                     \
    }

MULTIPLY_ACCUMULATE(mac_sample, 4, 1, u64)
MULTIPLY_ACCUMULATE(mac_sample_pairs, 4, 1, ulonglong2)
MULTIPLY_ACCUMULATE(mac_batch, 4, 4, u64)
MULTIPLY_ACCUMULATE(mac_batch_pairs, 4, 4, ulonglong2)
