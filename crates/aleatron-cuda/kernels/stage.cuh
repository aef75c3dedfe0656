// Inter-layer arithmetic of one element, shared by steps of compiled networks and the end of a
// layer. Integers are below 2^62, which the host has proved for every step. Floats are IEEE f64,
// without contraction.
#pragma once
#include "device.cuh"

typedef long long i64;

// The constant of an element: element e of a sample has entry keys[e % period] of a table.
struct Keys {
    // 0 if all elements have entry 0.
    u64 keys;
    u32 period;
    u32 padding;
};

DEVICE u32 key_of(const Keys& k, u32 element) {
    return k.keys == 0 ? 0 : ((const u32*)k.keys)[element % k.period];
}

DEVICE double limited(double x, double low, double high) {
    const double above = x > low ? x : low;
    return above < high ? above : high;
}

DEVICE i64 limited(i64 x, i64 low, i64 high) {
    const i64 above = x > low ? x : low;
    return above < high ? above : high;
}

// The conversion of floats to thresholds.
struct Quantizer {
    double scale;
    // The interval of the streams.
    double low;
    double high;
    double addend;
    double levels;
    u32 unused;
    u32 has_signs;
};

// The threshold of a value that was divided by the scale, and whether it is outside the interval.
DEVICE u64 quantized(const Quantizer& q, double value, bool* is_outside) {
    const double inside = limited(value, q.low, q.high);
    *is_outside = value != inside;
    const bool is_negative = q.has_signs && inside < 0.0;
    const u64 threshold = (u64)floor(((is_negative ? -inside : inside) + q.addend) * q.levels + 0.5) << q.unused;
    return threshold | (is_negative ? 1ull << 63 : 0);
}

// The conversion of integers to thresholds: values are limited to the reach, multiplied and
// shifted.
struct Requantizer {
    i64 multiplier;
    i64 reach;
    // The threshold of 0, and that of the stream of ones.
    i64 zero;
    i64 one;
    u32 shift;
    u32 unused;
};

DEVICE u64 requantized(const Requantizer& q, i64 value, u32 has_signs, bool* is_outside) {
    const i64 half = ((i64)1 << q.shift) >> 1;
    const i64 level = ((limited(value, -q.reach, q.reach) * q.multiplier + half) >> q.shift) + q.zero;
    const i64 inside = limited(level, has_signs ? -q.one : 0, q.one);
    *is_outside = level != inside;
    return (u64)(inside < 0 ? -inside : inside) << q.unused | (inside < 0 ? 1ull << 63 : 0);
}

// The conversion of the counts of a layer.
enum StageKind : u32 {
    TO_FLOATS = 0,
    FLOATS_TO_THRESHOLDS = 1,
    TO_INTEGERS = 2,
    INTEGERS_TO_THRESHOLDS = 3,
};

// The inter-layer arithmetic directly after a layer.
struct FinishStage {
    u32 kind;
    // Number of neurons that share a row of weights.
    u32 row_neurons;
    // 1 if a count is one of matches, which count twice.
    u32 doubles;
    // 1 if the bits of all products are subtracted.
    u32 subtracts;
    // Scale and bias of each row as floats, or its integer bias.
    u64 rows;
    double length;
    double low;
    double high;
    i64 least;
    i64 greatest;
    u32 fraction;
    u32 has_signs;
    Quantizer quantizer;
    Keys keys;
    // Of `Requantizer`.
    u64 requantizers;
    // The counter of values outside the interval.
    u64 saturated;
};

// The converted count of a neuron, as bits, and whether it is outside the interval of the streams.
DEVICE u64 staged(const FinishStage& s, u32 neuron, u64 count, u64 total, bool* is_outside) {
    const u32 row = neuron / s.row_neurons;
    i64 sum = (i64)(count << s.doubles);
    if (s.subtracts) {
        sum -= (i64)total;
    }
    if (s.kind <= FLOATS_TO_THRESHOLDS) {
        const double* constants = (const double*)s.rows + 2 * row;
        const double value = limited((double)sum / s.length * constants[0] + constants[1], s.low, s.high);
        if (s.kind == TO_FLOATS) {
            return float_bits(value);
        }
        return quantized(s.quantizer, value / s.quantizer.scale, is_outside);
    }
    const i64 held = limited(sum * ((i64)1 << s.fraction) + ((const i64*)s.rows)[row], s.least, s.greatest);
    if (s.kind == TO_INTEGERS) {
        return (u64)held;
    }
    const Requantizer& q = ((const Requantizer*)s.requantizers)[key_of(s.keys, neuron)];
    return requantized(q, held, s.has_signs, is_outside);
}

// Counts the threads whose condition is true, with one atomic addition per block: atomic additions
// of all warps to one address take longer than the rest of a kernel. All threads of the block must
// call this; it needs four bytes of shared memory that are otherwise unused.
DEVICE void count_in_block(u64* to, u32 count) {
    u32* sum = (u32*)shared_memory();
    __syncthreads();
    if (threadIdx.x == 0) {
        *sum = 0;
    }
    __syncthreads();
    const u32 of_warp = warp_sum(count);
    if (threadIdx.x % 32 == 0 && of_warp != 0) {
        atomicAdd(sum, of_warp);
    }
    __syncthreads();
    if (threadIdx.x == 0 && *sum != 0) {
        atomicAdd(to, (u64)*sum);
    }
}
