// Inter-layer arithmetic: the steps of compiled networks, a thread for each element. Elements are
// stored by sample; `len` of them are one sample's. Integers are below 2^62, which the host has
// proved for every step. Floats are IEEE f64, without contraction.
#include "stage.cuh"

// The elements of a launch.
struct Elements {
    u64 n;
    u32 len;
    u32 padding;
};

// The index of the thread's element; false past the last one.
DEVICE bool element_of(const Elements& e, u64* index, u32* element) {
    *index = (u64)blockIdx.x * 256 + threadIdx.x;
    *element = (u32)(*index % e.len);
    return *index < e.n;
}

// The counts of a layer by row and neuron.
struct LayerCounts {
    u64 counts;
    // n L of each neuron, repeating after `period` of them.
    u64 products;
    u32 period;
    u32 n_neurons;
    // Number of neurons that share a row of weights.
    u32 row_neurons;
    // 1 if a count is one of matches, which count twice.
    u32 doubles;
    // 1 if n L is subtracted.
    u32 subtracts;
    u32 padding;
};

// The sum of a count, and its row of weights.
DEVICE i64 sum_of(const LayerCounts& c, u64 index, u32 element, u32* row) {
    const u32 neuron = element % c.n_neurons;
    *row = neuron / c.row_neurons;
    i64 sum = (i64)(((const u64*)c.counts)[index] << c.doubles);
    if (c.subtracts) {
        sum -= ((const i64*)c.products)[neuron % c.period];
    }
    return sum;
}

struct DecodeParams {
    Elements elements;
    LayerCounts counts;
    // Scale and bias of each row.
    u64 rows;
    u64 out;
    double length;
    double low;
    double high;
};

KERNEL(stage_decode, DecodeParams, 256) {
    u64 index;
    u32 element, row;
    if (element_of(p.elements, &index, &element)) {
        const double sum = (double)sum_of(p.counts, index, element, &row);
        const double* constants = (const double*)p.rows + 2 * row;
        ((double*)p.out)[index] = limited(sum / p.length * constants[0] + constants[1], p.low, p.high);
    }
}

struct AccumulateParams {
    Elements elements;
    LayerCounts counts;
    // The bias of each row.
    u64 bias;
    u64 out;
    i64 low;
    i64 high;
    u32 fraction;
    u32 padding;
};

KERNEL(stage_accumulate, AccumulateParams, 256) {
    u64 index;
    u32 element, row;
    if (element_of(p.elements, &index, &element)) {
        // A negative number is multiplied instead of shifted.
        const i64 sum = sum_of(p.counts, index, element, &row) * ((i64)1 << p.fraction);
        ((i64*)p.out)[index] = limited(sum + ((const i64*)p.bias)[row], p.low, p.high);
    }
}

// The operation of a step with one input.
enum MapKind : u32 {
    ADD = 0,
    SUBTRACT = 1,
    SUBTRACT_FROM = 2,
    MULTIPLY = 3,
    DIVIDE = 4,
    CLIP_FLOATS = 5,
    OFFSET = 6,
    NEGATE_AND_OFFSET = 7,
    CLIP_INTEGERS = 8,
    RESTORE = 9,
};

struct MapParams {
    Elements elements;
    Keys keys;
    u64 in;
    u64 out;
    // Eight bytes for an entry, sixteen for bounds.
    u64 table;
    u32 kind;
    u32 padding;
};

KERNEL(stage_map, MapParams, 256) {
    u64 index;
    u32 element;
    if (!element_of(p.elements, &index, &element)) {
        return;
    }
    const u32 key = key_of(p.keys, element);
    const double* floats = (const double*)p.table;
    const i64* integers = (const i64*)p.table;
    const double x = ((const double*)p.in)[index];
    const i64 a = ((const i64*)p.in)[index];
    double* float_out = (double*)p.out + index;
    i64* integer_out = (i64*)p.out + index;
    switch (p.kind) {
        case ADD:
            *float_out = x + floats[key];
            break;
        case SUBTRACT:
            *float_out = x - floats[key];
            break;
        case SUBTRACT_FROM:
            *float_out = floats[key] - x;
            break;
        case MULTIPLY:
            *float_out = x * floats[key];
            break;
        case DIVIDE:
            *float_out = x / floats[key];
            break;
        case CLIP_FLOATS:
            *float_out = limited(x, floats[2 * key], floats[2 * key + 1]);
            break;
        case OFFSET:
            *integer_out = integers[key] + a;
            break;
        case NEGATE_AND_OFFSET:
            *integer_out = integers[key] - a;
            break;
        case CLIP_INTEGERS:
            *integer_out = limited(a, integers[2 * key], integers[2 * key + 1]);
            break;
        case RESTORE:
            *float_out = (double)a * floats[key];
            break;
    }
}

struct CombineParams {
    Elements elements;
    Keys keys;
    u64 left;
    u64 right;
    u64 out;
    // For each key: multiplier and shift of the left operand, then of the right one; 0 where all are 1 and 0.
    u64 table;
    u32 subtracts;
    u32 is_float;
};

DEVICE i64 rescaled(i64 value, const i64* factor) {
    const i64 half = ((i64)1 << factor[1]) >> 1;
    return (value * factor[0] + half) >> factor[1];
}

KERNEL(stage_combine, CombineParams, 256) {
    u64 index;
    u32 element;
    if (!element_of(p.elements, &index, &element)) {
        return;
    }
    if (p.is_float) {
        const double left = ((const double*)p.left)[index], right = ((const double*)p.right)[index];
        ((double*)p.out)[index] = p.subtracts ? left - right : left + right;
        return;
    }
    i64 left = ((const i64*)p.left)[index], right = ((const i64*)p.right)[index];
    if (p.table != 0) {
        const i64* factors = (const i64*)p.table + 4 * key_of(p.keys, element);
        left = rescaled(left, factors);
        right = rescaled(right, factors + 2);
    }
    ((i64*)p.out)[index] = p.subtracts ? left - right : left + right;
}

// The largest number of slots that elements are gathered from.
const u32 MAX_SOURCES = 8;

struct GatherElementsParams {
    Elements elements;
    // For each element the source and its element.
    u64 map;
    u64 out;
    u64 sources[MAX_SOURCES];
    u32 lens[MAX_SOURCES];
};

KERNEL(stage_gather, GatherElementsParams, 256) {
    u64 index;
    u32 element;
    if (element_of(p.elements, &index, &element)) {
        const u32* entry = (const u32*)p.map + 2 * element;
        const u64 sample = index / p.elements.len;
        ((u64*)p.out)[index] = ((const u64*)p.sources[entry[0]])[sample * p.lens[entry[0]] + entry[1]];
    }
}

// What is found about the values that become thresholds.
struct Found {
    // The index of the first value that is refused, or the greatest number.
    u64 refused;
};

// Turns floats into the thresholds of a layer.
struct FloatsToThresholds {
    // A `Found`.
    u64 found;
    // Where the number of values outside the interval is added; 0 where it is not counted.
    u64 saturated;
    // The least and the greatest value, after dividing, that is not refused.
    double least;
    double most;
    Quantizer quantizer;
};

DEVICE u64 threshold_of_float(const FloatsToThresholds& t, u64 index, double x, bool* is_outside) {
    const double value = x / t.quantizer.scale;
    if (!(t.least <= value && value <= t.most)) {
        atomicMin(&((Found*)t.found)->refused, index);
    }
    return quantized(t.quantizer, value, is_outside);
}

// Turns integers into the thresholds of a layer.
struct IntegersToThresholds {
    Keys keys;
    // Of `Requantizer`.
    u64 table;
    u64 saturated;
    u32 has_signs;
    u32 padding;
};

DEVICE u64 threshold_of_integer(const IntegersToThresholds& t, u32 element, i64 value, bool* is_outside) {
    const Requantizer& q = ((const Requantizer*)t.table)[key_of(t.keys, element)];
    return requantized(q, value, t.has_signs, is_outside);
}

struct PoolParams {
    // Of the output.
    Elements elements;
    u64 in;
    u64 out;
    // Rows and columns of the image, of the output, of a window, between windows, and before the image.
    u32 size[2];
    u32 windows[2];
    u32 window[2];
    u32 stride[2];
    u32 padding[2];
    u32 is_float;
    // 1 for the mean of a window.
    u32 averages;
    // 1 if a mean counts positions in the padding.
    u32 counts_padding;
    u32 rest;
};

struct ReportParams {
    u64 from;
    // Memory of the host.
    u64 to;
    u64 n;
};

// Writes results to the host, each word whole: the host may look for any of them.
KERNEL(stage_report, ReportParams, 256) {
    const u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index < p.n) {
        store_alone_for_host((u64*)p.to + index, ((const u64*)p.from)[index]);
    }
}

// A pooled element: of floats the first, of integers the second.
struct Pooled {
    double value;
    i64 integer;
};

DEVICE Pooled pooled(const PoolParams& p, u64 index) {
    const u32 column = (u32)(index % p.windows[1]);
    const u64 rest = index / p.windows[1];
    const u32 row = (u32)(rest % p.windows[0]);
    // Images are consecutive over channels and samples.
    const u64 image = rest / p.windows[0] * p.size[0] * p.size[1];
    Pooled sum = {0.0, 0}, best = {0.0, 0};
    u32 n = 0;
    for (u32 r = 0; r < p.window[0]; ++r) {
        const u32 y = row * p.stride[0] + r - p.padding[0];
        if (y >= p.size[0]) {
            continue;
        }
        for (u32 c = 0; c < p.window[1]; ++c) {
            const u32 x = column * p.stride[1] + c - p.padding[1];
            if (x >= p.size[1]) {
                continue;
            }
            const u64 at = image + (u64)y * p.size[1] + x;
            if (p.is_float) {
                const double value = ((const double*)p.in)[at];
                sum.value += value;
                best.value = n == 0 || value > best.value ? value : best.value;
            } else {
                const i64 value = ((const i64*)p.in)[at];
                sum.integer += value;
                best.integer = n == 0 || value > best.integer ? value : best.integer;
            }
            ++n;
        }
    }
    if (!p.averages) {
        return best;
    }
    const u32 count = p.counts_padding ? p.window[0] * p.window[1] : n;
    if (p.is_float) {
        sum.value /= (double)count;
    } else {
        // The nearest integer, and of two the greater: a quotient that is rounded down.
        const i64 above = 2 * sum.integer + count, below = 2 * (i64)count;
        sum.integer = above / below - (above % below < 0 ? 1 : 0);
    }
    return sum;
}

KERNEL(stage_pool, PoolParams, 256) {
    u64 index;
    u32 element;
    if (element_of(p.elements, &index, &element)) {
        const Pooled result = pooled(p, index);
        ((u64*)p.out)[index] = p.is_float ? float_bits(result.value) : (u64)result.integer;
    }
}

// A pool and the step behind it that turns its results into thresholds.
struct PoolThresholdsParams {
    PoolParams pool;
    // The one of the type that is pooled; the other is not read.
    FloatsToThresholds floats;
    IntegersToThresholds integers;
};

KERNEL(stage_pool_thresholds, PoolThresholdsParams, 256) {
    u64 index;
    u32 element;
    bool is_outside = false;
    if (element_of(p.pool.elements, &index, &element)) {
        const Pooled result = pooled(p.pool, index);
        ((u64*)p.pool.out)[index] = p.pool.is_float ? threshold_of_float(p.floats, index, result.value, &is_outside)
                                                    : threshold_of_integer(p.integers, element, result.integer, &is_outside);
    }
    const u64 saturated = p.pool.is_float ? p.floats.saturated : p.integers.saturated;
    if (saturated != 0) {
        count_in_block((u64*)saturated, is_outside);
    }
}

struct QuantizeParams {
    Elements elements;
    u64 in;
    u64 out;
    FloatsToThresholds thresholds;
};

KERNEL(stage_quantize, QuantizeParams, 256) {
    u64 index;
    u32 element;
    bool is_outside = false;
    if (element_of(p.elements, &index, &element)) {
        ((u64*)p.out)[index] = threshold_of_float(p.thresholds, index, ((const double*)p.in)[index], &is_outside);
    }
    if (p.thresholds.saturated != 0) {
        count_in_block((u64*)p.thresholds.saturated, is_outside);
    }
}

struct RequantizeParams {
    Elements elements;
    u64 in;
    u64 out;
    IntegersToThresholds thresholds;
};

KERNEL(stage_requantize, RequantizeParams, 256) {
    u64 index;
    u32 element;
    bool is_outside = false;
    if (element_of(p.elements, &index, &element)) {
        ((u64*)p.out)[index] = threshold_of_integer(p.thresholds, element, ((const i64*)p.in)[index], &is_outside);
    }
    if (p.thresholds.saturated != 0) {
        count_in_block((u64*)p.thresholds.saturated, is_outside);
    }
}
