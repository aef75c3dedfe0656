// The bits of streams, as in docs/streams.md of the project.
#pragma once
#include "device.cuh"

// A part of every row of a matrix of streams, in 32-bit words. A row holds `n_units` streams one after the other; the part is padded
// with zeros to whole 128 bytes.
struct RowPart {
    // The number of stored words of a stream, of words entirely inside its length, and the mask of
    // the bits of the word after those.
    u32 stream_words;
    u32 full_words;
    u32 tail_mask;
    u32 n_units;
    // The first stream of the part, and its word in that stream.
    u32 first_unit;
    u32 first_word;
    // The number of words of the part, and of occupied words.
    u32 words;
    u32 stride;
};

// The seed of the streams of a call. In memory, so that a recorded launch serves every call.
struct CallSeed {
    u32 key[2];
    u32 first_row;
    u32 first_unit;
};

// State shared by all launches of a call.
struct CallState {
    // The index of the first value outside its interval; all ones if there is none.
    u64 bad_value;
    // The number of finished blocks.
    u32 tickets;
    u32 padding;
};

// The stream and its word at an offset of a part, and the bits of that word inside the length.
struct Place {
    u32 unit;
    u32 word;
    u32 inside;
};

// The bits inside the length of word `word` of a stream, at offset `k` of a part.
DEVICE u32 inside_of(const RowPart& part, u32 k, u32 word) {
    const u32 inside = word < part.full_words ? 0xFFFFFFFFu : word == part.full_words ? part.tail_mask : 0u;
    // Padding belongs to no stream.
    return k < part.words ? inside : 0;
}

DEVICE Place place_of(const RowPart& part, u32 k) {
    const u32 from_first = part.first_word + k;
    const u32 units = from_first / part.stream_words;
    Place place;
    place.unit = part.first_unit + units;
    place.word = from_first - units * part.stream_words;
    place.inside = inside_of(part, k, place.word);
    if (k >= part.words) {
        place.unit = 0;
    }
    return place;
}

// The form of the inputs of a call.
enum ValueKind : u32 {
    THRESHOLDS = 0,
    F64_UNIPOLAR = 1,
    F64_BIPOLAR = 2,
    F32_UNIPOLAR = 3,
    F32_BIPOLAR = 4,
    PACKED_STREAMS = 5,
    F64_SIGNED = 6,
    F32_SIGNED = 7,
    SIGNED_THRESHOLDS = 8,
};

// The bit of a threshold that marks a negative operand.
#define NEGATIVE (1ull << 63)

struct CheckedThreshold {
    u64 threshold;
    bool valid;
};

// The threshold of a value for integers below `one`, a power of two.
DEVICE CheckedThreshold threshold_of(u32 kind, u64 values, u64 index, u64 one) {
    CheckedThreshold made;
    if (kind == THRESHOLDS || kind == SIGNED_THRESHOLDS) {
        made.threshold = ((const u64*)values)[index];
        made.valid = (kind == THRESHOLDS ? made.threshold : made.threshold & ~NEGATIVE) <= one;
        return made;
    }
    const bool single = kind == F32_UNIPOLAR || kind == F32_BIPOLAR || kind == F32_SIGNED;
    const bool bipolar = kind == F64_BIPOLAR || kind == F32_BIPOLAR;
    const bool has_sign = kind == F64_SIGNED || kind == F32_SIGNED;
    const double value = single ? (double)((const float*)values)[index] : ((const double*)values)[index];
    const double low = bipolar || has_sign ? -1.0 : 0.0;
    made.valid = low <= value && value <= 1.0;
    // NaN becomes `low`.
    const double above = value > low ? value : low;
    const double inside = above < 1.0 ? above : 1.0;
    const bool negative = has_sign && inside < 0.0;
    const double p = bipolar ? (inside + 1.0) * 0.5 : negative ? -inside : inside;
    made.threshold = (u64)floor(p * (double)one + 0.5) | (negative ? NEGATIVE : 0);
    return made;
}

// The rounds of Philox 4x32-10 from FIRST on, of N counters with one key, round by round, so that none waits for itself.
template <int FIRST, int N>
DEVICE void philox_rounds(U32x4 (&c)[N], u32 k0, u32 k1) {
#pragma unroll
    for (int round = FIRST; round < 10; ++round) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const u64 p = (u64)0xD2511F53u * c[i].x, q = (u64)0xCD9E8D57u * c[i].z;
            c[i].x = (u32)(q >> 32) ^ c[i].y ^ k0;
            c[i].y = (u32)q;
            c[i].z = (u32)(p >> 32) ^ c[i].w ^ k1;
            c[i].w = (u32)p;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

// Philox 4x32-10 of N counters with one key.
template <int N>
DEVICE void philox(U32x4 (&c)[N], u32 k0, u32 k1) {
    philox_rounds<0>(c, k0, k1);
}

// As `philox`, for counters that differ only in their first word: `c[0].x` and the `steps` after
// it. The first rounds of all share most of their products.
template <int N>
DEVICE void philox_of_stream(U32x4 (&c)[N], const u32 (&steps)[N], u32 k0, u32 k1) {
    const u64 first = (u64)0xD2511F53u * c[0].x, q = (u64)0xCD9E8D57u * c[0].z;
    const u32 x = (u32)(q >> 32) ^ c[0].y ^ k0, tag = c[0].w;
    const u64 second = (u64)0xD2511F53u * x;
    const u32 k0_second = k0 + 0x9E3779B9u, k1_second = k1 + 0xBB67AE85u;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        // Counters of a stream do not exceed 32 bits, so the differences of their products are
        // multiples of one product.
        const u64 p = first + (u64)0xD2511F53u * steps[i];
        const u32 z = (u32)(p >> 32) ^ tag ^ k1;
        const u64 r = (u64)0xCD9E8D57u * z;
        c[i].x = (u32)(r >> 32) ^ (u32)q ^ k0_second;
        c[i].y = (u32)r;
        c[i].z = (u32)(second >> 32) ^ (u32)p ^ k1_second;
        c[i].w = (u32)second;
    }
    philox_rounds<2>(c, k0 + 2 * 0x9E3779B9u, k1 + 2 * 0xBB67AE85u);
}

// Draws of one word of a stream.
struct Counter {
    u32 word;
    u32 unit;
    u32 row;
    u32 tag;
    u32 key[2];
};

// A word in progress: the bits that are 1, the undecided ones, and the remaining bits of the
// threshold, at the top.
struct OpenWord {
    u32 ones;
    u32 undecided;
    u32 rest;
};

// The word before its first draw. Thresholds of 0 and 2^32 decide all bits; signs decide none.
DEVICE OpenWord open_word(u64 threshold, u32 inside) {
    OpenWord open;
    open.ones = threshold >> 32 & 1 ? inside : 0;
    open.rest = (u32)threshold;
    open.undecided = inside;
    return open;
}

// Whether another draw can set a bit.
DEVICE bool is_open(const OpenWord& open) {
    return open.undecided != 0 && open.rest != 0;
}

// The value of the majority of each bit.
DEVICE u32 majority(u32 a, u32 b, u32 c) {
    return (a & b) | (c & (a | b));
}

// The counter of a draw.
DEVICE U32x4 counter_words(const Counter& at, u32 number) {
    const U32x4 words = {at.word * 8 + number, at.unit, at.row, at.tag};
    return words;
}

// Four bits of a threshold, each as a mask.
DEVICE U32x4 threshold_masks(u32 rest) {
    const U32x4 masks = {(u32)((int)rest >> 31), (u32)((int)(rest << 1) >> 31), (u32)((int)(rest << 2) >> 31),
                         (u32)((int)(rest << 3) >> 31)};
    return masks;
}

// Processes a draw: four planes of the 32 integers, compared with four bits of the threshold, given
// as masks.
DEVICE void take_masked(OpenWord& open, const U32x4& planes, const U32x4& masks) {
    const u32 t0 = masks.x, t1 = masks.y, t2 = masks.z, t3 = masks.w;
    // Integers below the threshold as far as the planes go, from the lowest plane up: a plane
    // decides if it differs.
    u32 below = ~planes.w & t3;
    below = majority(below, ~planes.z, t2);
    below = majority(below, ~planes.y, t1);
    below = majority(below, ~planes.x, t0);
    open.ones |= open.undecided & below;
    u32 equal = open.undecided & ~(planes.x ^ t0);
    equal &= ~(planes.y ^ t1);
    equal &= ~(planes.z ^ t2);
    equal &= ~(planes.w ^ t3);
    open.undecided = equal;
    open.rest <<= 4;
}

// Processes a draw.
DEVICE void take(OpenWord& open, const U32x4& planes) {
    take_masked(open, planes, threshold_masks(open.rest));
}

// The word, from draw `first` on.
DEVICE u32 close_word(OpenWord& open, const Counter& at, u32 first) {
    for (u32 number = first; number < 8 && is_open(open); ++number) {
        U32x4 planes[1] = {counter_words(at, number)};
        philox(planes, at.key[0], at.key[1]);
        take(open, planes[0]);
    }
    return open.ones;
}

// A word of a stream over a sequence: bit k is 1 if integer k of 32 is below the threshold.
DEVICE u32 sequence_bits(const U32x4* integers, u64 threshold) {
    u32 bits = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const U32x4 four = integers[i];
        bits |= (u32)(four.x < threshold) << 4 * i;
        bits |= (u32)(four.y < threshold) << (4 * i + 1);
        bits |= (u32)(four.z < threshold) << (4 * i + 2);
        bits |= (u32)(four.w < threshold) << (4 * i + 3);
    }
    return bits;
}
