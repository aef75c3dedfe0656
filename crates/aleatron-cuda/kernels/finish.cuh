// Conversion of the kernels' counts to the counts of a layer.
#pragma once
#include "stage.cuh"
#include "stream.cuh"

// The form of the results.
enum ResultKind : u32 {
    COUNTS = 0,
    UNIPOLAR_VALUES = 1,
    BIPOLAR_VALUES = 2,
    SIGNED_VALUES = 3,
    // The output of the stage after the layer.
    STAGED = 4,
};

// The count of neuron j and sample s is base[j] - row_ones[s] + factor * counted, modulo 2^64.
struct Finish {
    // Per neuron; 0 if all are 0.
    u64 base;
    // Per sample, 32 bits each; 0 if all are 0.
    u64 row_ones;
    // The bits of all products of each neuron; 0 if all have `total`.
    u64 totals;
    u64 total;
    u64 factor;
    // The stream length in bits.
    u64 length;
    // The results by sample and neuron.
    u64 out;
    // The destination of the index of the first bad value; 0 if a later launch reports it.
    u64 report;
    u64 state;
    // A `FinishStage`, for results of the kind `STAGED`.
    u64 stage;
    u32 n_neurons;
    u32 n_samples;
    // Whether the count is added to the existing result.
    u32 accumulate;
    // The form of the results: a `ResultKind`.
    u32 kind;
};

// Adds a count of a neuron to the result at `index`, if requested, and writes its converted form;
// its products have `total` bits. Returns whether it is outside the interval of the streams of the
// next layer.
DEVICE bool put_result(const Finish& f, u64 index, u32 neuron, u64 count, u64 total) {
    u64* out = (u64*)f.out + index;
    if (f.accumulate) {
        count += *out;
    }
    if (f.kind == COUNTS) {
        *out = count;
        return false;
    }
    if (f.kind == STAGED) {
        bool is_outside = false;
        *out = staged(*(const FinishStage*)f.stage, neuron, count, total, &is_outside);
        return is_outside;
    }
    // The integer numerator is rounded once, and so is the quotient.
    double sum = (double)count;
    if (f.kind == BIPOLAR_VALUES) {
        sum = (double)(long long)(2 * count - total);
    } else if (f.kind == SIGNED_VALUES) {
        sum = (double)(long long)(count - total);
    }
    *(double*)out = sum / (double)f.length;
    return false;
}

// Counts a result outside the interval of the streams of the next layer.
DEVICE void count_outside(const Finish& f, bool is_outside) {
    if (f.kind == STAGED) {
        count_active((u64*)((const FinishStage*)f.stage)->saturated, is_outside);
    }
}

// Computes the result at `index` from its counts.
DEVICE void finish_one(const Finish& f, u64 index, u64 counted) {
    const u64 sample = index / f.n_neurons;
    const u32 neuron = (u32)(index - sample * f.n_neurons);
    u64 count = f.factor * counted;
    if (f.base != 0) {
        count += ((const u64*)f.base)[neuron];
    }
    if (f.row_ones != 0) {
        count -= load_coherent((const u32*)f.row_ones + sample);
    }
    u64 total = f.total;
    if (f.kind != COUNTS && f.totals != 0) {
        total = ((const u64*)f.totals)[neuron];
    }
    count_outside(f, put_result(f, index, neuron, count, total));
}

// Reports the findings about the values of the call, and resets them.
DEVICE void finish_state(const Finish& f) {
    if (f.report != 0) {
        store_for_host((u64*)f.report, atomicExch(&((CallState*)f.state)->bad_value, ~0ull));
    }
}
