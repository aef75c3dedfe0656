// Small layers of compiled networks and a few samples, in one launch: every block encodes all inputs of a sample into shared memory, and
// counts and finishes some of its neurons. Encoding is repeated in every block, which takes less time than the launches it replaces.
#include "conv.cuh"
#include "finish.cuh"

// The layout of weights in their rows, and the summed terms.
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
    // The integers of sequences, 32 for each stored word of a stream; 0 for Bernoulli streams.
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
    // Number of threads that share the taps of a neuron: a power of two up to 32, or all 256 of a
    // block.
    u32 lanes;
    u32 padding;
};

// The inputs under the kernel at the positions of a block: some rows of every channel of the image.
struct Rows {
    // The first word of the rows in a channel, their words, and the words of a channel.
    u32 begin;
    u32 words;
    u32 channel_words;
    // The words of all channels.
    u32 all;
};

// The rows under neurons `first` to `last`: all rows if the neurons belong to several output
// channels.
DEVICE Rows rows_under(const DirectParams& p, u32 first, u32 last) {
    const Convolution& c = p.conv;
    u32 begin = 0, end = c.size[0];
    if (first / c.n_positions == last / c.n_positions) {
        const u32 top = first % c.n_positions / c.columns * c.stride[0];
        const u32 bottom = last % c.n_positions / c.columns * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0] + 1;
        const u32 past = bottom > c.padding[0] ? bottom - c.padding[0] : 0;
        end = past < end ? past : end;
        begin = top > c.padding[0] ? top - c.padding[0] : 0;
        begin = begin < end ? begin : end;
    }
    const u32 row_words = c.size[1] * p.inputs.stream_words, channel_words = c.size[0] * row_words;
    const u32 words = (end - begin) * row_words;
    const Rows rows = {begin * row_words, words, channel_words, p.inputs.words / channel_words * words};
    return rows;
}

// The word of a sample's streams with index `index` in some rows.
DEVICE u32 word_of(const Rows& rows, u32 index) {
    const u32 channel = index / rows.words;
    return channel * rows.channel_words + rows.begin + (index - channel * rows.words);
}

// Two words of streams at a time, so that their draws do not wait for each other.
DEVICE void fill_bernoulli(const DirectParams& p, const Rows& rows, u32 sample, u32* streams) {
    const CallSeed seed = *(const CallSeed*)p.seed;
    const u64* thresholds = (const u64*)p.thresholds + (u64)sample * p.inputs.n_units;
    for (u32 first = threadIdx.x; first < rows.all; first += 512) {
        OpenWord open[2];
        Counter at[2];
        U32x4 draws[4];
        u32 places[2];
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            // Past the end, the previous word is computed again.
            const u32 index = first + 256 * i < rows.all ? first + 256 * i : first;
            places[i] = word_of(rows, index);
            const Place place = place_of(p.inputs, places[i]);
            open[i] = open_word(thresholds[place.unit], place.inside);
            at[i].word = place.word;
            at[i].unit = seed.first_unit + place.unit;
            at[i].row = seed.first_row + sample;
            at[i].tag = p.tag;
            at[i].key[0] = seed.key[0];
            at[i].key[1] = seed.key[1];
            draws[2 * i] = counter_words(at[i], 0);
            draws[2 * i + 1] = counter_words(at[i], 1);
        }
        philox(draws, seed.key[0], seed.key[1]);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            take(open[i], draws[2 * i]);
            take(open[i], draws[2 * i + 1]);
            streams[places[i]] = close_word(open[i], at[i], 2);
        }
    }
}

DEVICE void fill_sequences(const DirectParams& p, const Rows& rows, u32 sample, u32* streams) {
    const u64* thresholds = (const u64*)p.thresholds + (u64)sample * p.inputs.n_units;
    for (u32 index = threadIdx.x; index < rows.all; index += 256) {
        const u32 k = word_of(rows, index);
        const Place place = place_of(p.inputs, k);
        const u64 word = place.unit * p.unit_step * p.inputs.stream_words + place.word;
        const U32x4* integers = (const U32x4*)p.integers + 8 * word;
        streams[k] = sequence_bits(integers, thresholds[place.unit] & ~NEGATIVE) & place.inside;
    }
}

// The term of a thread in the sum of a neuron, and the ones of its inputs. Streams are whole pairs
// of words: PAIRS of them, or any number for 0.
template <u32 PAIRS>
DEVICE void count_taps(const DirectParams& p, const u64* streams, const u64* thresholds, u32 neuron, u32 lane, u32* sum, u32* ones) {
    const Convolution& c = p.conv;
    const u32 pairs = PAIRS != 0 ? PAIRS : p.inputs.stream_words / 2, is_signed = p.product == DIRECT_SIGNED;
    const u32 channel = neuron / c.n_positions, position = neuron - channel * c.n_positions;
    const u64* weights = (const u64*)((const u32*)p.weights + (u64)channel * p.weight_stride);
    const u64 negative = is_signed ? pairs : (u64)p.n_channels * (p.weight_stride / 2);
#pragma unroll 4
    for (u32 tap = lane; tap < p.n_taps; tap += p.lanes) {
        u32 input;
        if (!input_under(c, 0, position, tap, &input)) {
            continue;
        }
        const u64* row = weights + tap * (pairs << is_signed);
        const u64* x = streams + input * pairs;
        u32 added = 0;
#pragma unroll
        for (u32 k = 0; k < pairs; ++k) {
            added += __popcll(row[k] & x[k]);
            if (p.product >= DIRECT_SIGNED) {
                added -= __popcll(row[negative + k] & x[k]);
            } else if (p.product == DIRECT_XNOR) {
                *ones += __popcll(x[k]);
            }
        }
        *sum += is_signed && (thresholds[input] & NEGATIVE) ? 0u - added : added;
    }
}

// The result of a neuron.
DEVICE bool finish_direct(const DirectParams& p, u32 sample, u32 neuron, u32 sum, u32 ones) {
    const Finish& f = p.finish;
    u64 count = p.product >= DIRECT_SIGNED ? (u64)(long long)(int)sum : (u64)sum;
    count *= f.factor;
    if (f.base != 0) {
        count += ((const u64*)f.base)[neuron];
    }
    count -= ones;
    const u64 total = ((const u64*)f.totals)[neuron % p.conv.n_positions];
    if (p.adds_totals) {
        count += total;
    }
    return put_result(f, (u64)sample * f.n_neurons + neuron, neuron, count, total);
}

KERNEL(direct, DirectParams, 256) {
    // The first word is that of `count_in_block`, the next two are the sums of a block that counts
    // for one neuron.
    u32* shared = (u32*)shared_memory();
    u32* streams = shared + 4;
    const u32 sample = blockIdx.y, n_neurons = p.finish.n_neurons, per_block = 256 / p.lanes;
    const u32 first = blockIdx.x * per_block, past = first + per_block < n_neurons ? first + per_block : n_neurons;
    const Rows rows = rows_under(p, first, past - 1);
    if (p.integers == 0) {
        fill_bernoulli(p, rows, sample, streams);
    } else {
        fill_sequences(p, rows, sample, streams);
    }
    if (threadIdx.x == 0) {
        shared[1] = 0;
        shared[2] = 0;
    }
    __syncthreads();
    const u64* thresholds = (const u64*)p.thresholds + (u64)sample * p.inputs.n_units;
    const u32 neuron = first + threadIdx.x / p.lanes, lane = threadIdx.x % p.lanes;
    u32 sum = 0, ones = 0;
    if (neuron < past) {
        const u64* pairs = (const u64*)streams;
        if (p.inputs.stream_words == 2) {
            count_taps<1>(p, pairs, thresholds, neuron, lane, &sum, &ones);
        } else {
            count_taps<0>(p, pairs, thresholds, neuron, lane, &sum, &ones);
        }
    }
    const u32 of_warp = p.lanes < 32 ? p.lanes : 32;
    sum = group_sum(sum, of_warp);
    ones = group_sum(ones, of_warp);
    if (p.lanes > 32) {
        if (threadIdx.x % 32 == 0) {
            atomicAdd(shared + 1, sum);
            atomicAdd(shared + 2, ones);
        }
        __syncthreads();
        sum = shared[1];
        ones = shared[2];
    }
    bool is_outside = false;
    if (neuron < past && lane == 0) {
        is_outside = finish_direct(p, sample, neuron, sum, ones);
    }
    if (p.finish.kind == STAGED) {
        count_in_block((u64*)((const FinishStage*)p.finish.stage)->saturated, is_outside);
    }
}
