// Values to thresholds, and thresholds to streams.
#include "stream.cuh"

struct ThresholdParams {
    u64 values;
    // May be where the values are, if those take eight bytes each.
    u64 thresholds;
    u64 state;
    u64 n;
    // The index of the first one in the call.
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
    u64 thresholds;
    u64 streams;
    u64 seed;
    // Unit and row of each stream where they are not a grid; else 0.
    u64 list;
    u64 n_words;
    u32 tag;
    // The first row made here, counted from that of the seed.
    u32 first_row;
};

struct QueuedWord {
    u32 offset;
    OpenWord open;
};

// What the streams of a row are. With BOTH_SIGNS every operand has two: its own where its sign is that of the stream, and zeros for the
// other sign; first the one for positive operands.
enum Streams : u32 {
    MAGNITUDES = 0,
    BOTH_SIGNS = 1,
};

// The threshold of a stream, of those of the operands of its row.
DEVICE u64 stream_threshold(u32 streams, const u64* thresholds, u32 unit) {
    const u64 threshold = thresholds[unit >> streams];
    if (streams == BOTH_SIGNS && (u32)(threshold >> 63) != (unit & 1)) {
        return 0;
    }
    return threshold;
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

// Bernoulli streams: a thread makes WORDS words that follow each other, so that places are found once for all of them and their draws
// do not wait for each other. Two draws settle seven words of eight. The others are queued and settled afterwards, so that no warp waits
// for the one lane in thirty-two that needs a third draw.
template <int WORDS, u32 STREAMS>
DEVICE void encode(const EncodeParams& p) {
    u32* queued = (u32*)shared_memory();
    QueuedWord* queue = (QueuedWord*)(shared_memory() + 16);
    const CallSeed seed = *(const CallSeed*)p.seed;
    const u32 stride = p.part.stride;
    const u64 base = (u64)blockIdx.x * (256 * WORDS);
    const u64 first_row = base / stride;
    const u32 first_place = (u32)(base - first_row * stride);
    if (threadIdx.x == 0) {
        *queued = 0;
    }
    __syncthreads();
    const u32 offset = threadIdx.x * WORDS;
    if (base + offset < p.n_words) {
        // Words of one thread are of one row: rows are padded to more, or there is but one.
        const u32 rows = (first_place + offset) / stride;
        const u64 row = first_row + rows;
        const u32 k = first_place + offset - rows * stride;
        Place place = place_of(p.part, k);
        const u64* thresholds = (const u64*)p.thresholds + row * (p.part.n_units >> STREAMS);
        u64 threshold = stream_threshold(STREAMS, thresholds, place.unit);
        Counter at = counter_of<STREAMS>(p, seed, row, place);
        OpenWord open[WORDS];
        U32x4 draws[2 * WORDS];
        bool any = false;
        // Whether no stream ends between the words.
        const bool one_stream = place.word + WORDS <= p.part.stream_words;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            if (w > 0) {
                if (++place.word == p.part.stream_words) {
                    place.word = 0;
                    if (k + w < p.part.words) {
                        ++place.unit;
                        threshold = stream_threshold(STREAMS, thresholds, place.unit);
                        at = counter_of<STREAMS>(p, seed, row, place);
                    }
                }
                place.inside = inside_of(p.part, k + w, place.word);
            }
            at.word = place.word;
            open[w] = open_word(threshold, place.inside);
            any |= is_open(open[w]);
            draws[2 * w] = counter_words(at, 0);
            draws[2 * w + 1] = counter_words(at, 1);
        }
        // Draws change nothing where the threshold is 0 or 2^32, and no bits past the length.
        if (any && one_stream) {
            u32 steps[2 * WORDS];
#pragma unroll
            for (int i = 0; i < 2 * WORDS; ++i) {
                steps[i] = i / 2 * 8 + i % 2;
            }
            philox_of_stream(draws, steps, seed.key[0], seed.key[1]);
            // All words have one threshold.
            const U32x4 first = threshold_masks((u32)threshold), second = threshold_masks((u32)threshold << 4);
#pragma unroll
            for (int w = 0; w < WORDS; ++w) {
                take_masked(open[w], draws[2 * w], first);
                take_masked(open[w], draws[2 * w + 1], second);
            }
        } else if (any) {
            philox(draws, seed.key[0], seed.key[1]);
#pragma unroll
            for (int w = 0; w < WORDS; ++w) {
                take(open[w], draws[2 * w]);
                take(open[w], draws[2 * w + 1]);
            }
        }
        u32* to = (u32*)p.streams + base + offset;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            if (is_open(open[w]) && base + offset + w < p.n_words) {
                QueuedWord& entry = queue[atomicAdd(queued, 1u)];
                entry.offset = offset + w;
                entry.open = open[w];
            }
        }
        if (WORDS == 4 && ((u64)to & 15) == 0 && base + offset + 4 <= p.n_words) {
            const U32x4 made = {open[0].ones, open[1 % WORDS].ones, open[2 % WORDS].ones, open[3 % WORDS].ones};
            *(U32x4*)to = made;
        } else {
#pragma unroll
            for (int w = 0; w < WORDS; ++w) {
                if (base + offset + w < p.n_words) {
                    to[w] = open[w].ones;
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < *queued; i += 256) {
        QueuedWord entry = queue[i];
        const u32 rows = (first_place + entry.offset) / stride;
        const u64 row = first_row + rows;
        const Place place = place_of(p.part, first_place + entry.offset - rows * stride);
        ((u32*)p.streams)[base + entry.offset] = close_word(entry.open, counter_of<STREAMS>(p, seed, row, place), 2);
    }
}

#define ENCODE(WORDS)                             \
    KERNEL(encode_##WORDS, EncodeParams, 256) {   \
        encode<WORDS, MAGNITUDES>(p);             \
    }

ENCODE(4)
KERNEL(encode_both_signs, EncodeParams, 256) {
    encode<4, BOTH_SIGNS>(p);
}
#ifdef ALL_VARIANTS
ENCODE(1)
ENCODE(2)
#endif

struct SequenceParams {
    RowPart part;
    u64 thresholds;
    // The integers of each sequence, 32 for each word stored of a stream.
    u64 integers;
    u64 streams;
    u64 n_words;
    // The stream of row r and operand u has sequence r * row_step + u * unit_step.
    u64 row_step;
    u64 unit_step;
    // What the streams are: `Streams`.
    u32 streams_are;
    u32 padding;
};

// Streams over shared sequences: bit k is 1 when the sequence's integer k is below the threshold. A thread makes one word.
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
        const u64 threshold = stream_threshold(p.streams_are, thresholds, place.unit) & ~NEGATIVE;
        const u64 sequence = row * p.row_step + (place.unit >> p.streams_are) * p.unit_step;
        const U32x4* integers = (const U32x4*)p.integers + (sequence * p.part.stream_words + place.word) * 8;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const U32x4 four = integers[i];
            bits |= (u32)(four.x < threshold) << 4 * i;
            bits |= (u32)(four.y < threshold) << (4 * i + 1);
            bits |= (u32)(four.z < threshold) << (4 * i + 2);
            bits |= (u32)(four.w < threshold) << (4 * i + 3);
        }
    }
    ((u32*)p.streams)[base + threadIdx.x] = bits & place.inside;
}
