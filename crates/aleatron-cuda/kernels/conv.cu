// Convolutions: the streams under the kernel at each position are gathered as rows, which the
// kernels of dense layers multiply. Signed dense layers, whose kernel has one position, are
// computed the same way.
#include "conv.cuh"
#include "finish.cuh"

struct GatherParams {
    // The part of the gathered rows.
    RowPart part;
    Convolution conv;
    // Streams of the inputs, rows of `row_words` words by sample.
    u64 streams;
    // Thresholds by sample and input, for their signs; only for rows of both signs.
    u64 thresholds;
    u64 rows;
    u64 row_words;
    // The first sample, and the position of its kernel, of row 0.
    u32 first_sample;
    u32 first_position;
    // Rows are those of `n_patches` positions; then, with both signs, the same once more with the
    // streams of both signs swapped.
    u32 n_patches;
    u32 n_inputs;
    u32 first_channel;
    // 1 if every tap has two streams: that of a positive input, and that of a negative one.
    u32 both_signs;
};

// A thread gathers one vector of a row. No stream ends within a vector; taps in the padding are
// zeros.
template <typename Vector>
DEVICE void gather(const GatherParams& p) {
    const u32 words = sizeof(Vector) / 4, row_vectors = p.part.stride / words;
    const u32 index = blockIdx.x * 256 + threadIdx.x;
    const u32 row = index / row_vectors;
    if (row >= p.n_patches << p.both_signs) {
        return;
    }
    const u32 k = (index - row * row_vectors) * words;
    Vector made = Vector();
    if (k < p.part.words) {
        const Place place = place_of(p.part, k);
        const u32 swapped = row >= p.n_patches;
        const u32 patch = p.first_position + row - (swapped ? p.n_patches : 0);
        const u32 samples = patch / p.conv.n_positions;
        const u64 sample = p.first_sample + samples;
        u32 input;
        if (input_under(p.conv, p.first_channel, patch - samples * p.conv.n_positions, place.unit >> p.both_signs, &input)) {
            bool taken = true;
            if (p.both_signs) {
                const u64 threshold = ((const u64*)p.thresholds)[sample * p.n_inputs + input];
                taken = (u32)(threshold >> 63) == ((place.unit & 1) ^ swapped);
            }
            if (taken) {
                const u32* streams = (const u32*)p.streams + sample * p.row_words;
                made = *(const Vector*)(streams + (u64)input * p.part.stream_words + place.word);
            }
        }
    }
    ((Vector*)p.rows)[index] = made;
}

// For streams of any length.
KERNEL(gather_2, GatherParams, 256) {
    gather<u64>(p);
}

// For streams of whole vectors of sixteen bytes.
KERNEL(gather_4, GatherParams, 256) {
    gather<U32x4>(p);
}

struct FinishPatchesParams {
    // With `base` per neuron, `row_ones` per row, and `totals` per position.
    Finish finish;
    // By row and output channel of the group, 32 bits each.
    u64 counted;
    // As in `GatherParams`.
    u32 first_sample;
    u32 first_position;
    u32 n_patches;
    u32 n_positions;
    u32 both_signs;
    // The number of output channels counted here, and the first of them among all.
    u32 n_channels;
    u32 first_channel;
    // Whether counts begin with the bits of all products.
    u32 adds_totals;
    // 1 if the weights of every channel are two rows, the positive ones and the negative ones:
    // those of all channels, one after the other.
    u32 split_weights;
    u32 padding;
};

// Number of patches and channels of a block of the finishing kernel.
const u32 FINISH_PATCHES = 32, FINISH_CHANNELS = 32;

// Reads the counts and leaves zeros for the next launch. Counts are stored by patch and then by
// channel, results by channel and then by position, so a block processes a square of both: it reads
// along the channels and writes along the patches. With both signs, the counts of rows with swapped
// signs are subtracted, and so are those of negative weights if they are split.
KERNEL(finish_patches, FinishPatchesParams, 256) {
    const Finish& f = p.finish;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        finish_state(f);
    }
    u32* square = (u32*)shared_memory();
    const u32 channel_blocks = (p.n_channels + FINISH_CHANNELS - 1) / FINISH_CHANNELS;
    const u32 first_row = blockIdx.x / channel_blocks * FINISH_PATCHES;
    const u32 first_channel = blockIdx.x % channel_blocks * FINISH_CHANNELS;
    const u32 row_counts = p.n_channels << p.split_weights;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 own_channel = first_channel + lane;
    // All loads precede the first store, which the compiler could not move them across: four times
    // as fast.
    const u32 ROWS = FINISH_PATCHES / 8;
    u32 counts[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; ++k) {
        const u32 row = first_row + warp + 8 * k;
        counts[k] = 0;
        if (row < p.n_patches && own_channel < p.n_channels) {
            const u32* counted = (const u32*)p.counted + (u64)row * row_counts + own_channel;
            // Differences are below 2^31 in magnitude, as are the counts.
            counts[k] = *counted;
            if (p.split_weights) {
                counts[k] -= counted[p.n_channels];
            }
            if (p.both_signs) {
                counts[k] -= counted[(u64)p.n_patches * row_counts];
            }
        }
    }
#pragma unroll
    for (u32 k = 0; k < ROWS; ++k) {
        const u32 r = warp + 8 * k, row = first_row + r;
        if (row < p.n_patches && own_channel < p.n_channels) {
            u32* counted = (u32*)p.counted + (u64)row * row_counts + own_channel;
            *counted = 0;
            if (p.split_weights) {
                counted[p.n_channels] = 0;
            }
            if (p.both_signs) {
                counted[(u64)p.n_patches * row_counts] = 0;
            }
            square[r * (FINISH_CHANNELS + 1) + lane] = counts[k];
        }
    }
    __syncthreads();
    const bool has_signs = p.both_signs || p.split_weights;
    u32 outside = 0;
    for (u32 c = warp; c < FINISH_CHANNELS; c += 8) {
        const u32 row = first_row + lane, channel = first_channel + c;
        if (row >= p.n_patches || channel >= p.n_channels) {
            continue;
        }
        const u32 patch = p.first_position + row, samples = patch / p.n_positions;
        const u32 position = patch - samples * p.n_positions;
        const u64 neuron = (u64)(p.first_channel + channel) * p.n_positions + position;
        const u32 counted = square[lane * (FINISH_CHANNELS + 1) + c];
        u64 count = has_signs ? (u64)(long long)(int)counted : (u64)counted;
        count *= f.factor;
        if (f.base != 0) {
            count += ((const u64*)f.base)[neuron];
        }
        if (f.row_ones != 0) {
            count -= ((const u32*)f.row_ones)[row];
        }
        const u64 total = ((const u64*)f.totals)[position];
        if (p.adds_totals) {
            count += total;
        }
        const u64 index = (u64)(p.first_sample + samples) * f.n_neurons + neuron;
        outside += put_result(f, index, (u32)neuron, count, total);
    }
    if (f.kind == STAGED) {
        count_in_block((u64*)((const FinishStage*)f.stage)->saturated, outside);
    }
}
