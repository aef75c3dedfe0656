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

DEVICE Counter counter_of(const EncodeParams& p, const CallSeed& seed, u64 row, const Place& place) {
    Counter at;
    at.word = place.word;
    at.unit = seed.first_unit + place.unit;
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

// Bernoulli streams: a block makes 256 WORDS words. Two draws settle seven words of eight. The others are queued and settled afterwards,
// so that no warp waits for the one lane in thirty-two that needs a third draw.
template <int WORDS>
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
#pragma unroll 1
    for (u32 offset = threadIdx.x; offset < 256 * WORDS; offset += 256) {
        if (base + offset >= p.n_words) {
            break;
        }
        const u32 rows = (first_place + offset) / stride;
        const u64 row = first_row + rows;
        const Place place = place_of(p.part, first_place + offset - rows * stride);
        OpenWord open = open_word(((const u64*)p.thresholds)[row * p.part.n_units + place.unit], place.inside);
        if (is_open(open)) {
            const Counter at = counter_of(p, seed, row, place);
            draw(open, at, 0);
            draw(open, at, 1);
        }
        if (is_open(open)) {
            QueuedWord& entry = queue[atomicAdd(queued, 1u)];
            entry.offset = offset;
            entry.open = open;
        } else {
            ((u32*)p.streams)[base + offset] = open.ones;
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < *queued; i += 256) {
        QueuedWord entry = queue[i];
        const u32 rows = (first_place + entry.offset) / stride;
        const u64 row = first_row + rows;
        const Place place = place_of(p.part, first_place + entry.offset - rows * stride);
        ((u32*)p.streams)[base + entry.offset] = close_word(entry.open, counter_of(p, seed, row, place), 2);
    }
}

#define ENCODE(WORDS)                             \
    KERNEL(encode_##WORDS, EncodeParams, 256) {   \
        encode<WORDS>(p);                         \
    }

ENCODE(4)
#ifdef ALL_VARIANTS
ENCODE(1)
ENCODE(2)
ENCODE(8)

// Without a queue: a thread makes its word to the end.
KERNEL(encode_plain, EncodeParams, 256) {
    const CallSeed seed = *(const CallSeed*)p.seed;
    const u64 base = (u64)blockIdx.x * 256;
    const u64 first_row = base / p.part.stride;
    const u32 k = (u32)(base - first_row * p.part.stride) + threadIdx.x;
    if (base + threadIdx.x >= p.n_words) {
        return;
    }
    const u32 rows = k / p.part.stride;
    const u64 row = first_row + rows;
    const Place place = place_of(p.part, k - rows * p.part.stride);
    OpenWord open = open_word(((const u64*)p.thresholds)[row * p.part.n_units + place.unit], place.inside);
    ((u32*)p.streams)[base + threadIdx.x] = close_word(open, counter_of(p, seed, row, place), 0);
}
#endif

struct SequenceParams {
    RowPart part;
    u64 thresholds;
    // The integers of each sequence, 32 for each word stored of a stream.
    u64 integers;
    u64 streams;
    u64 n_words;
    // The stream of row r and unit u has sequence r * row_step + u * unit_step.
    u64 row_step;
    u64 unit_step;
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
        const u64 threshold = ((const u64*)p.thresholds)[row * p.part.n_units + place.unit];
        const u64 sequence = row * p.row_step + place.unit * p.unit_step;
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
