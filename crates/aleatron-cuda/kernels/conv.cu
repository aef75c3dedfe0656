// Convolutions: the streams under the kernel at each position are gathered as rows, which the kernels of dense layers multiply. So are
// the streams of signed dense layers, whose kernel has one position.
#include "conv.cuh"
#include "finish.cuh"

struct GatherParams {
    // Of the rows made here.
    RowPart part;
    Convolution conv;
    // Streams of the inputs, rows of `row_words` words by sample.
    u64 streams;
    // Thresholds by sample and input, of which the signs are taken; for rows of both signs alone.
    u64 thresholds;
    u64 rows;
    u64 row_words;
    // The first sample and the position of its kernel that row 0 belongs to.
    u32 first_sample;
    u32 first_position;
    // Rows are those of so many positions; then, with both signs, the same once more with their streams in the places of the other sign.
    u32 n_patches;
    u32 n_inputs;
    u32 first_channel;
    // 1 where every tap has two streams: that of a positive input, and that of a negative one.
    u32 both_signs;
};

// A thread makes one vector of a row. No stream ends within a vector; taps in the padding are zeros.
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
    // As those of `GatherParams`.
    u32 first_sample;
    u32 first_position;
    u32 n_patches;
    u32 n_positions;
    u32 both_signs;
    // The output channels counted here, and the first of them among all.
    u32 n_channels;
    u32 first_channel;
    // Whether counts begin with the bits of all products.
    u32 adds_totals;
};

// Takes what was counted, a thread each, and leaves zeros for the next launch. With both signs, what the rows of swapped signs count is
// taken off.
KERNEL(finish_patches, FinishPatchesParams, 256) {
    const Finish& f = p.finish;
    const u32 index = blockIdx.x * 256 + threadIdx.x;
    if (index == 0) {
        finish_state(f);
    }
    // Neighbours have neighbouring results.
    const u32 channel = index / p.n_patches, row = index - channel * p.n_patches;
    if (channel >= p.n_channels) {
        return;
    }
    const u32 patch = p.first_position + row, samples = patch / p.n_positions;
    const u32 position = patch - samples * p.n_positions;
    const u64 neuron = (u64)(p.first_channel + channel) * p.n_positions + position;
    u32* counted = (u32*)p.counted + (u64)row * p.n_channels + channel;
    u64 count = *counted;
    *counted = 0;
    if (p.both_signs) {
        u32* swapped = counted + (u64)p.n_patches * p.n_channels;
        count -= *swapped;
        *swapped = 0;
    }
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
    put_result(f, (u64)(p.first_sample + samples) * f.n_neurons + neuron, count, total);
}
