// Small layers of compiled networks and a few samples, in one launch: every block encodes all inputs of a sample into shared memory, and
// counts and finishes some of its neurons. Encoding is repeated in every block, which takes less time than the launches it replaces.
#include "conv.cuh"
#include "finish.cuh"

// How weights lie in their rows, and what is added up.
enum DirectProduct : u32 {
    // One stream for each tap: ones of AND.
    DIRECT_AND = 0,
    // The same, and the ones of the inputs.
    DIRECT_XNOR = 1,
    // Two streams for each tap: that of a positive weight, and that of a negative one. Inputs have signs.
    DIRECT_SIGNED = 2,
    // The positive weights of all channels, then the negative ones. Inputs have no signs.
    DIRECT_SPLIT = 3,
};

struct DirectParams {
    // The streams of the inputs of a sample.
    RowPart inputs;
    Convolution conv;
    // With `base` per neuron and `totals` per position; `row_ones` is not used.
    Finish finish;
    // By sample and input.
    u64 thresholds;
    // The integers of sequences, 32 for each word stored of a stream; 0 for Bernoulli streams.
    u64 integers;
    // The sequence of input u is u * unit_step.
    u64 unit_step;
    // A `CallSeed`.
    u64 seed;
    // Rows of `weight_stride` words.
    u64 weights;
    u32 weight_stride;
    u32 tag;
    u32 n_taps;
    u32 n_channels;
    // A `DirectProduct`.
    u32 product;
    // Whether counts begin with the bits of all products.
    u32 adds_totals;
    // Threads that share the taps of a neuron: 1, or 32.
    u32 lanes;
    u32 padding;
};

// A word of the stream of an input.
DEVICE u32 direct_word(const DirectParams& p, const CallSeed& seed, u32 sample, u32 k) {
    const Place place = place_of(p.inputs, k);
    const u64 threshold = ((const u64*)p.thresholds)[(u64)sample * p.inputs.n_units + place.unit];
    if (p.integers == 0) {
        OpenWord open = open_word(threshold, place.inside);
        const Counter at = {place.word, seed.first_unit + place.unit, seed.first_row + sample, p.tag,
                            {seed.key[0], seed.key[1]}};
        return close_word(open, at, 0);
    }
    const u64 sequence = place.unit * p.unit_step;
    const u32* integers = (const u32*)p.integers + (sequence * p.inputs.stream_words + place.word) * 32;
    return sequence_bits((const U32x4*)integers, threshold & ~NEGATIVE) & place.inside;
}

// What a tap adds to the sum of a neuron.
DEVICE u32 direct_tap(const DirectParams& p, const u32* streams, const u64* thresholds, u32 channel, u32 tap, u32 input, u32* ones) {
    const u32 words = p.inputs.stream_words, is_signed = p.product == DIRECT_SIGNED;
    const u32* row = (const u32*)p.weights + (u64)channel * p.weight_stride + tap * (words << is_signed);
    const u64 negative = is_signed ? words : (u64)p.n_channels * p.weight_stride;
    const u32* x = streams + input * words;
    u32 sum = 0;
    for (u32 w = 0; w < words; ++w) {
        sum += __popc(row[w] & x[w]);
        if (p.product >= DIRECT_SIGNED) {
            sum -= __popc(row[negative + w] & x[w]);
        } else if (p.product == DIRECT_XNOR) {
            *ones += __popc(x[w]);
        }
    }
    return is_signed && (thresholds[input] & NEGATIVE) ? 0u - sum : sum;
}

KERNEL(direct, DirectParams, 256) {
    // The first bytes are those of `count_in_block`.
    u32* streams = (u32*)(shared_memory() + 16);
    const Finish& f = p.finish;
    const CallSeed seed = *(const CallSeed*)p.seed;
    const u32 sample = blockIdx.y;
    for (u32 k = threadIdx.x; k < p.inputs.words; k += 256) {
        streams[k] = direct_word(p, seed, sample, k);
    }
    __syncthreads();
    const u64* thresholds = (const u64*)p.thresholds + (u64)sample * p.inputs.n_units;
    const u32 neuron = (blockIdx.x * 256 + threadIdx.x) / p.lanes, lane = threadIdx.x % p.lanes;
    const bool exists = neuron < f.n_neurons;
    const u32 channel = exists ? neuron / p.conv.n_positions : 0;
    const u32 position = exists ? neuron - channel * p.conv.n_positions : 0;
    u32 sum = 0, ones = 0;
    if (exists) {
        for (u32 tap = lane; tap < p.n_taps; tap += p.lanes) {
            u32 input;
            if (input_under(p.conv, 0, position, tap, &input)) {
                sum += direct_tap(p, streams, thresholds, channel, tap, input, &ones);
            }
        }
    }
    if (p.lanes != 1) {
        sum = warp_sum(sum);
        ones = warp_sum(ones);
    }
    bool is_outside = false;
    if (exists && lane == 0) {
        u64 count = p.product >= DIRECT_SIGNED ? (u64)(long long)(int)sum : (u64)sum;
        count *= f.factor;
        if (f.base != 0) {
            count += ((const u64*)f.base)[neuron];
        }
        count -= ones;
        const u64 total = ((const u64*)f.totals)[position];
        if (p.adds_totals) {
            count += total;
        }
        is_outside = put_result(f, (u64)sample * f.n_neurons + neuron, neuron, count, total);
    }
    if (f.kind == STAGED) {
        count_in_block((u64*)((const FinishStage*)f.stage)->saturated, is_outside);
    }
}
