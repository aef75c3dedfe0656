// Conversion of values to thresholds, and of thresholds to streams.
#include "stream.cuh"

struct ThresholdParams {
    u64 values;
    // May be the memory of the values, if those take eight bytes each.
    u64 thresholds;
    u64 state;
    u64 n;
    // The index of the first value in the call.
    u64 first;
    u64 one;
    u32 kind;
    u32 padding;
};

// Checks and converts values: a thread each.
KERNEL(thresholds, ThresholdParams, 256) {
    const u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index >= p.n) {
        return;
    }
    const CheckedThreshold made = threshold_of(p.kind, p.values, index, p.one);
    if (!made.valid) {
        atomicMin(&((CallState*)p.state)->bad_value, p.first + index);
    }
    ((u64*)p.thresholds)[index] = made.threshold;
}

struct EncodeParams {
    RowPart part;
    // One per row and operand, of a `ValueKind`; for invalid values, the least index is stored in
    // the `CallState`.
    u64 values;
    u64 state;
    // The index of the first value in the call.
    u64 first_value;
    u64 one;
    u64 streams;
    u64 seed;
    // Unit and row of each stream if they are not a grid; otherwise 0.
    u64 list;
    u64 n_words;
    u32 tag;
    // The first row, counted from that of the seed.
    u32 first_row;
    u32 kind;
    u32 padding;
};

struct alignas(16) QueuedWord {
    u32 offset;
    OpenWord open;
};

// The first word of a thread, as in its counter; `word` is `SEVERAL` if its words belong to more
// than one stream.
struct alignas(16) Origin {
    u32 word;
    u32 unit;
    u32 row;
    u32 padding;
};

#define SEVERAL 0xFFFFFFFFu

// The streams of a row. With BOTH_SIGNS every operand has two: its own for its sign, and zeros for
// the other sign; first the one for positive operands.
enum Streams : u32 {
    MAGNITUDES = 0,
    BOTH_SIGNS = 1,
};

// The threshold of a stream, from that of its operand.
DEVICE u64 stream_threshold(u32 streams, u64 threshold, u32 unit) {
    if (streams == BOTH_SIGNS && (u32)(threshold >> 63) != (unit & 1)) {
        return 0;
    }
    return threshold;
}

// The threshold of a stream of a row, from the value of its operand.
template <u32 STREAMS>
DEVICE u64 threshold_at(const EncodeParams& p, u64 row, u32 unit) {
    const u64 index = row * (p.part.n_units >> STREAMS) + (unit >> STREAMS);
    const CheckedThreshold made = threshold_of(p.kind, p.values, index, p.one);
    if (!made.valid) {
        atomicMin(&((CallState*)p.state)->bad_value, p.first_value + index);
    }
    return stream_threshold(STREAMS, made.threshold, unit);
}

template <u32 STREAMS>
DEVICE Counter counter_of(const EncodeParams& p, const CallSeed& seed, u64 row, const Place& place) {
    Counter at;
    at.word = place.word;
    at.unit = seed.first_unit + (place.unit >> STREAMS);
    at.row = seed.first_row + p.first_row + (u32)row;
    if (p.list != 0) {
        const u32* address = (const u32*)p.list + 2 * (u64)place.unit;
        at.unit = seed.first_unit + address[0];
        at.row = seed.first_row + address[1];
    }
    at.tag = p.tag;
    at.key[0] = seed.key[0];
    at.key[1] = seed.key[1];
    return at;
}

// Processes the first two draws of WORDS consecutive words of one stream. They settle seven words
// of eight.
template <int WORDS>
DEVICE void take_two_draws(OpenWord (&open)[WORDS], const Counter& at, u32 threshold) {
    U32x4 draws[2 * WORDS];
    u32 steps[2 * WORDS];
#pragma unroll
    for (int i = 0; i < 2 * WORDS; ++i) {
        draws[i] = counter_words(at, 0);
        steps[i] = i / 2 * 8 + i % 2;
    }
    philox_of_stream(draws, steps, at.key[0], at.key[1]);
    const U32x4 first = threshold_masks(threshold), second = threshold_masks(threshold << 4);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
        take_masked(open[w], draws[2 * w], first);
        take_masked(open[w], draws[2 * w + 1], second);
    }
}

// Number of threads of a block of the encoder, and of blocks of a processor: as many as leave each
// thread the registers of two chains of draws.
#define ENCODE_THREADS 192
#define ENCODE_BLOCKS 7

// Bernoulli streams: a thread computes GROUPS groups of four consecutive words, so that addresses
// are computed once for all of them and their draws do not wait for each other. Words that two
// draws do not settle are queued and settled afterwards, so that no warp waits for the one lane in
// thirty-two that needs a third draw.
template <u32 GROUPS, u32 STREAMS>
DEVICE void encode(const EncodeParams& p) {
    u32* queued = (u32*)shared_memory();
    Origin* origins = (Origin*)(shared_memory() + 16);
    QueuedWord* queue = (QueuedWord*)(origins + ENCODE_THREADS);
    const CallSeed seed = *(const CallSeed*)p.seed;
    const u32 stride = p.part.stride;
    const u64 base = (u64)blockIdx.x * (4 * GROUPS * ENCODE_THREADS);
    const u64 first_row = base / stride;
    const u32 first_place = (u32)(base - first_row * stride);
    const u32 offset = threadIdx.x * (4 * GROUPS);
    const bool has_words = base + offset < p.n_words;
    // Words of one thread belong to one row: rows are padded to more, or there is only one.
    const u32 rows = (first_place + offset) / stride;
    const u64 row = first_row + rows;
    const u32 k = first_place + offset - rows * stride;
    Place place = place_of(p.part, k);
    u64 threshold = has_words ? threshold_at<STREAMS>(p, row, place.unit) : 0;
    Counter at = counter_of<STREAMS>(p, seed, row, place);
    const bool one_stream = place.word + 4 * GROUPS <= p.part.stream_words;
    const Origin origin = {one_stream ? place.word : SEVERAL, at.unit, at.row, 0};
    origins[threadIdx.x] = origin;
    if (threadIdx.x == 0) {
        *queued = 0;
    }
    __syncthreads();
    if (has_words) {
        u32* to = (u32*)p.streams + base + offset;
        if (one_stream && base + offset + 4 * GROUPS <= p.n_words && (p.streams & 15) == 0) {
#pragma unroll 1
            for (u32 g = 0; g < GROUPS; ++g) {
                OpenWord open[4];
#pragma unroll
                for (u32 w = 0; w < 4; ++w) {
                    open[w] = open_word(threshold, inside_of(p.part, k + 4 * g + w, at.word + w));
                }
                // Draws change nothing if the threshold is 0 or 2^32.
                if ((u32)threshold != 0) {
                    take_two_draws(open, at, (u32)threshold);
                }
                u32 n_open = 0;
#pragma unroll
                for (u32 w = 0; w < 4; ++w) {
                    n_open += is_open(open[w]);
                }
                if (n_open != 0) {
                    QueuedWord* next = queue + atomicAdd(queued, n_open);
#pragma unroll
                    for (u32 w = 0; w < 4; ++w) {
                        if (is_open(open[w])) {
                            const QueuedWord entry = {offset + 4 * g + w, open[w]};
                            *next++ = entry;
                        }
                    }
                }
                const U32x4 made = {open[0].ones, open[1].ones, open[2].ones, open[3].ones};
                ((U32x4*)to)[g] = made;
                at.word += 4;
            }
        } else {
#pragma unroll 1
            for (u32 w = 0; w < 4 * GROUPS && base + offset + w < p.n_words; ++w) {
                OpenWord open[1] = {open_word(threshold, inside_of(p.part, k + w, at.word))};
                if (is_open(open[0])) {
                    take_two_draws(open, at, (u32)threshold);
                }
                if (is_open(open[0])) {
                    const QueuedWord entry = {offset + w, open[0]};
                    queue[atomicAdd(queued, 1u)] = entry;
                }
                to[w] = open[0].ones;
                ++at.word;
                if (at.word == p.part.stream_words && k + w + 1 < p.part.words) {
                    place.word = 0;
                    ++place.unit;
                    threshold = threshold_at<STREAMS>(p, row, place.unit);
                    at = counter_of<STREAMS>(p, seed, row, place);
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < *queued; i += ENCODE_THREADS) {
        QueuedWord entry = queue[i];
        const Origin from = origins[entry.offset / (4 * GROUPS)];
        if (from.word == SEVERAL) {
            const u32 rows = (first_place + entry.offset) / stride;
            const Place place = place_of(p.part, first_place + entry.offset - rows * stride);
            at = counter_of<STREAMS>(p, seed, first_row + rows, place);
        } else {
            at.word = from.word + entry.offset % (4 * GROUPS);
            at.unit = from.unit;
            at.row = from.row;
        }
        ((u32*)p.streams)[base + entry.offset] = close_word(entry.open, at, 2);
    }
}

#define ENCODE(WORDS) \
    KERNEL(encode_##WORDS, EncodeParams, ENCODE_THREADS, ENCODE_BLOCKS) { \
        encode<WORDS / 4, MAGNITUDES>(p); \
    }

ENCODE(8)
KERNEL(encode_both_signs, EncodeParams, ENCODE_THREADS, ENCODE_BLOCKS) {
    encode<2, BOTH_SIGNS>(p);
}
#ifdef ALL_VARIANTS
ENCODE(4)
ENCODE(16)
#endif

struct SequenceParams {
    RowPart part;
    u64 thresholds;
    // The integers of each sequence, 32 for each stored word of a stream.
    u64 integers;
    u64 streams;
    u64 n_words;
    // The stream of row r and operand u has sequence r * row_step + u * unit_step.
    u64 row_step;
    u64 unit_step;
    // The kind of streams: `Streams`.
    u32 streams_are;
    u32 padding;
};

// Streams over shared sequences: bit k is 1 if the sequence's integer k is below the threshold. A
// thread computes one word.
KERNEL(encode_sequence, SequenceParams, 256) {
    const u64 base = (u64)blockIdx.x * 256;
    if (base + threadIdx.x >= p.n_words) {
        return;
    }
    const u64 first_row = base / p.part.stride;
    const u32 k = (u32)(base - first_row * p.part.stride) + threadIdx.x;
    const u32 rows = k / p.part.stride;
    const u64 row = first_row + rows;
    const Place place = place_of(p.part, k - rows * p.part.stride);
    u32 bits = 0;
    if (place.inside != 0) {
        const u64* thresholds = (const u64*)p.thresholds + row * (p.part.n_units >> p.streams_are);
        const u64 operand = thresholds[place.unit >> p.streams_are];
        const u64 threshold = stream_threshold(p.streams_are, operand, place.unit) & ~NEGATIVE;
        const u64 sequence = row * p.row_step + (place.unit >> p.streams_are) * p.unit_step;
        bits = sequence_bits((const U32x4*)p.integers + (sequence * p.part.stream_words + place.word) * 8, threshold);
    }
    ((u32*)p.streams)[base + threadIdx.x] = bits & place.inside;
}
