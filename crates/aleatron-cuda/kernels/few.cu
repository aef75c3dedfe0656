// Dense layers and up to eight samples, in one launch: the speed of reading the weights.
//
// A block has a slice of the columns and a group of neurons. It encodes the slice of every sample
// into shared memory, once, and then each warp multiplies sixteen neurons at a time by all samples.
// Weights are loaded from memory to registers some steps ahead, the first ones before the inputs
// are encoded. Sums of blocks are added in memory, and the last block to finish computes the
// results. For one sample no block waits for the last one: every sum includes the number of its
// slices, and the thread that adds the last slice computes the result.
#include "finish.cuh"

// Columns of a step: 64 bytes of sixteen rows, two vectors for each lane.
#define STEP_BYTES 64

struct FewParams {
    RowPart part;
    Finish finish;
    // Rows of `part.stride` words.
    u64 weights;
    // Of the form `kind`: values by sample and unit, or rows of `part.stride` words.
    u64 inputs;
    // By sample and neuron, 32 bits each, and 64 for one sample; all are 0 before and after.
    u64 counts;
    // The threshold of the stream of ones.
    u64 one;
    // The index of the first value in the call.
    u64 first_value;
    CallSeed seed;
    u32 tag;
    u32 kind;
    // The number of neurons here, the first of them among all, and the number of all.
    u32 n_rows;
    u32 first_neuron;
    u32 n_neurons;
    u32 n_samples;
    // Size of a slice in bytes, number of slices, and number of neurons of a group, a multiple of
    // 16.
    u32 slice_bytes;
    u32 n_slices;
    u32 group_rows;
    // Whether equal bits are counted, instead of those of AND.
    u32 xnor;
};

struct Vectors {
    U32x4 upper;
    U32x4 lower;
};

// Encodes the words of a slice of all samples to shared memory. Returns whether all values of this
// thread were valid; others are recorded.
DEVICE bool fill_slice(const FewParams& p, u32* slice, u32 pitch, u32 first, u32 words, bool counts_ones) {
    u32* row_ones = (u32*)p.finish.row_ones;
    bool valid = true;
    for (u32 sample = 0; sample < p.n_samples; ++sample) {
        u32 ones = 0;
        for (u32 k = threadIdx.x; k < words; k += blockDim.x) {
            u32 made;
            if (p.kind == PACKED_STREAMS) {
                made = ((const u32*)p.inputs)[(u64)sample * p.part.stride + first + k];
            } else {
                const Place place = place_of(p.part, first + k);
                const u64 index = (u64)sample * p.part.n_units + place.unit;
                const CheckedThreshold from = threshold_of(p.kind, p.inputs, index, p.one);
                if (!from.valid) {
                    valid = false;
                    atomicMin(&((CallState*)p.finish.state)->bad_value, p.first_value + index);
                }
                OpenWord open = open_word(from.threshold, place.inside);
                Counter at;
                at.word = place.word;
                at.unit = p.seed.first_unit + place.unit;
                at.row = p.seed.first_row + sample;
                at.tag = p.tag;
                at.key[0] = p.seed.key[0];
                at.key[1] = p.seed.key[1];
                made = close_word(open, at, 0);
            }
            slice[sample * pitch + k] = made;
            ones += __popc(made);
        }
        if (counts_ones) {
            ones = warp_sum(ones);
            if (threadIdx.x % 32 == 0) {
                atomicAdd(&row_ones[sample], ones);
            }
        }
    }
    return valid;
}

// Computes the results, by one block.
DEVICE void finish_all(const FewParams& p) {
    const u64 n = (u64)p.finish.n_neurons * p.finish.n_samples;
    u32* counts = (u32*)p.counts;
    for (u64 index = threadIdx.x; index < n; index += blockDim.x) {
        finish_one(p.finish, index, load_coherent(counts + index));
        counts[index] = 0;
    }
    // The ones of samples are read until here, and results are visible to the host before the
    // report.
    fence_system();
    __syncthreads();
    if (p.xnor && threadIdx.x < p.n_samples) {
        ((u32*)p.finish.row_ones)[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        ((CallState*)p.finish.state)->tickets = 0;
        finish_state(p.finish);
    }
}

// Adds the counts of all blocks: the last of them computes the results.
DEVICE void finish_if_last(const FewParams& p, u32* is_last) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 ticket = atomicAdd(&((CallState*)p.finish.state)->tickets, 1u);
        *is_last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (*is_last) {
        __threadfence();
        finish_all(p);
    }
}

// AHEAD is the number of steps that weights are loaded ahead of their use.
template <int AHEAD>
DEVICE void few(const FewParams& p) {
    u32* is_last = (u32*)shared_memory();
    u32* slice = (u32*)(shared_memory() + 16);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const u32 g = lane / 4, t = lane % 4;
    const u32 group = blockIdx.x / p.n_slices, slice_index = blockIdx.x - group * p.n_slices;
    const u64 row_bytes = (u64)p.part.stride * 4;
    const u64 slice_begin = (u64)slice_index * p.slice_bytes;
    const u64 left = row_bytes - slice_begin;
    const u32 bytes = left < p.slice_bytes ? (u32)left : p.slice_bytes;
    // Sixteen words more keep the rows of two samples in different banks.
    const u32 pitch = p.slice_bytes / 4 + 16;

    const u32 first_row = group * p.group_rows;
    const u32 group_end = first_row + p.group_rows < p.n_rows ? first_row + p.group_rows : p.n_rows;
    const u32 n_tiles = (group_end - first_row + 15) / 16;
    const u32 steps = bytes / STEP_BYTES;
    // The tiles of a warp are `warp`, `warp + n_warps`, …
    const u32 total = warp < n_tiles ? (n_tiles - warp + n_warps - 1) / n_warps * steps : 0;

    // The position of the next load.
    const u8* weights = (const u8*)p.weights + slice_begin + 16 * t;
    u32 load_tile = warp, load_step = 0, loaded = 0;
    const u8 *upper, *lower;
    auto aim = [&]() {
        // Rows past the end read the last one; their sums are discarded.
        const u32 row = first_row + 16 * load_tile + g, last = p.n_rows - 1;
        upper = weights + (row < last ? row : last) * row_bytes;
        lower = weights + (row + 8 < last ? row + 8 : last) * row_bytes;
    };
    aim();
    auto load = [&](Vectors& to) {
        if (loaded < total) {
            to.upper = load_streaming(upper);
            to.lower = load_streaming(lower);
            upper += STEP_BYTES;
            lower += STEP_BYTES;
            ++loaded;
            if (++load_step == steps) {
                load_step = 0;
                load_tile += n_warps;
                aim();
            }
        }
    };
    Vectors ring[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
        load(ring[i]);
    }

    fill_slice(p, slice, pitch, (u32)(slice_begin / 4), bytes / 4, p.xnor && group == 0);
    __syncthreads();

    const U32x4* x = (const U32x4*)(slice + g * pitch + 4 * t);
    u32 sum[4] = {0, 0, 0, 0};
    u32 tile = warp, step = 0;
    for (u32 first = 0; first < total; first += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (first + i < total) {
                U32x4 column = {0, 0, 0, 0};
                if (g < p.n_samples) {
                    column = x[step * (STEP_BYTES / 16)];
                }
                const Vectors w = ring[i];
                load(ring[i]);
                // The order of columns is that of the loads, in rows and samples alike.
                const u32 a[4] = {w.upper.x, w.lower.x, w.upper.y, w.lower.y}, b[2] = {column.x, column.y};
                multiply_bits(sum, a, b);
                const u32 c[4] = {w.upper.z, w.lower.z, w.upper.w, w.lower.w}, d[2] = {column.z, column.w};
                multiply_bits(sum, c, d);
                if (++step == steps) {
                    const u32 row = first_row + 16 * tile + g;
#pragma unroll
                    for (u32 j = 0; j < 4; ++j) {
                        const u32 r = row + 8 * (j / 2), sample = 2 * t + j % 2;
                        if (r < group_end && sample < p.n_samples) {
                            atomicAdd((u32*)p.counts + (u64)sample * p.n_neurons + p.first_neuron + r, sum[j]);
                        }
                        sum[j] = 0;
                    }
                    step = 0;
                    tile += n_warps;
                }
            }
        }
    }
    finish_if_last(p, is_last);
}

#define FEW(AHEAD)                             \
    KERNEL(few_##AHEAD, FewParams, 256, 2) {   \
        few<AHEAD>(p);                         \
    }

FEW(2)
#ifdef ALL_VARIANTS
FEW(4)
#endif

// The sum of a neuron in the low half, and above it the number of its slices.
#define ONE_SLICE (1ull << 32)

// A sum with a slice whose values are not all valid.
#define BAD_SLICE (1ull << 63)

// Adds the sum of a slice for a neuron, and computes the result if it was the last. The host waits
// for the report of every neuron.
DEVICE void add_slice(const FewParams& p, u32 neuron, u32 sum, bool valid) {
    u64* total = (u64*)p.counts + neuron;
    if (!valid) {
        // Before the slice, so that the thread that adds the last one sees it, and the recorded
        // value too.
        __threadfence();
        atomicOr(total, BAD_SLICE);
    }
    const u64 before = atomicAdd(total, ONE_SLICE | sum);
    if ((u32)(before >> 32 & 0x7FFFFFFF) != p.n_slices - 1) {
        return;
    }
    *total = 0;
    u64* report = (u64*)p.finish.report + neuron;
    if (before & BAD_SLICE) {
        __threadfence();
        // No value is larger than all ones: this only reads.
        store_for_host(report, BAD_SLICE | atomicMin(&((CallState*)p.finish.state)->bad_value, ~0ull));
        return;
    }
    const u64 counted = (u32)before + sum, count = p.xnor ? p.finish.total - counted : counted;
    if (p.finish.out == p.finish.report) {
        store_alone_for_host(report, count);
    } else {
        count_outside(p.finish, put_result(p.finish, neuron, neuron, count, p.finish.total));
        store_for_host(report, 0);
    }
}

// One sample. A warp takes the slice of one row after the other, so that memory is read in long
// runs, and holds that of the sample in registers: VECTORS vectors of sixteen bytes for each lane.
// Rows are loaded AHEAD of their use.
template <int VECTORS, int AHEAD>
DEVICE void one(const FewParams& p) {
    u32* all_valid = (u32*)shared_memory();
    u32* slice = (u32*)(shared_memory() + 16);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const u32 group = blockIdx.x / p.n_slices, slice_index = blockIdx.x - group * p.n_slices;
    const u64 row_bytes = (u64)p.part.stride * 4;
    const u64 slice_begin = (u64)slice_index * p.slice_bytes;
    const u64 left = row_bytes - slice_begin;
    const u32 bytes = left < p.slice_bytes ? (u32)left : p.slice_bytes;
    const u32 first_row = group * p.group_rows;
    const u32 group_end = first_row + p.group_rows < p.n_rows ? first_row + p.group_rows : p.n_rows;
    // The rows of a warp are consecutive.
    const u32 per_warp = (group_end - first_row + n_warps - 1) / n_warps;
    const u32 begin = first_row + warp * per_warp < group_end ? first_row + warp * per_warp : group_end;
    const u32 end = begin + per_warp < group_end ? begin + per_warp : group_end;

    const u8* next = (const u8*)p.weights + begin * row_bytes + slice_begin + 16 * lane;
    u32 loaded = begin;
    U32x4 ring[AHEAD][VECTORS];
    auto load = [&](U32x4 (&to)[VECTORS]) {
        if (loaded < end) {
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                if (16 * lane + 512 * v < bytes) {
                    to[v] = load_streaming(next + 512 * v);
                }
            }
            next += row_bytes;
            ++loaded;
        }
    };
    const U32x4 zeros = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            ring[i][v] = zeros;
        }
        load(ring[i]);
    }

    if (threadIdx.x == 0) {
        *all_valid = 1;
    }
    __syncthreads();
    if (!fill_slice(p, slice, p.slice_bytes / 4 + 16, (u32)(slice_begin / 4), bytes / 4, false)) {
        *all_valid = 0;
    }
    __syncthreads();
    const bool valid = *all_valid != 0;
    // AND of two bits, or whether they differ: one instruction for either. The padding has zeros in
    // both operands.
    const u32 differ = p.xnor ? ~0u : 0;
    auto product = [&](u32 w, u32 x) { return __popc(((w & x) & ~differ) | ((w ^ x) & differ)); };
    U32x4 x[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        x[v] = 16 * lane + 512 * v < bytes ? ((const U32x4*)slice)[lane + 32 * v] : zeros;
    }

    // Lane i holds the sum of the row that is i after the last added one.
    u32 kept = 0;
    for (u32 row = begin; row < end; row += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (row + i < end) {
                u32 sum = 0;
#pragma unroll
                for (int v = 0; v < VECTORS; ++v) {
                    const U32x4 w = ring[i][v];
                    sum += product(w.x, x[v].x) + product(w.y, x[v].y) + product(w.z, x[v].z) + product(w.w, x[v].w);
                }
                load(ring[i]);
                sum = warp_sum(sum);
                const u32 place = (row + i - begin) % 32;
                kept = lane == place ? sum : kept;
                if ((place == 31 || row + i + 1 == end) && lane <= place) {
                    add_slice(p, p.first_neuron + row + i - place + lane, kept, valid);
                }
            }
        }
    }
}

#define ONE(VECTORS, AHEAD)                                 \
    KERNEL(one_##VECTORS##_##AHEAD, FewParams, 256, 2) {    \
        one<VECTORS, AHEAD>(p);                             \
    }

ONE(2, 2)
ONE(4, 2)
#ifdef ALL_VARIANTS
ONE(1, 4)
ONE(1, 8)
ONE(2, 4)
ONE(2, 8)
ONE(4, 3)
ONE(4, 4)
#endif
