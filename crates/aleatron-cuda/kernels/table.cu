// Layers with shared sequences, counted from tables instead of bits.
#include "device.cuh"

struct TableRowsParams {
    // The sequences' integers, by input and position.
    u64 input_integers;
    u64 weight_integers;
    // The ones of the weight stream at each threshold, by input and threshold.
    u64 weight_ones;
    // Thresholds of the inputs, by sample and input, 64 bits each.
    u64 inputs;
    // Zero at first.
    u64 rows;
    u64 n_rows;
    u64 length;
    u32 n_inputs;
    u32 row_len;
    u32 counts_matches;
    u32 padding;
};

// The row of a sample and input: the counts of its stream with the weight streams at every threshold. A block makes one.
//
// Positions where the input stream is 1 are counted by the weight sequence's integer; sums over the integers below a threshold are
// the counts of AND.
KERNEL(table_rows, TableRowsParams, 128) {
    u32* sums = (u32*)shared_memory();
    const u64 row = blockIdx.x;
    const u64 input = row % p.n_inputs;
    const u64 threshold = ((const u64*)p.inputs)[row];
    u32* entries = (u32*)p.rows + row * p.row_len;
    const u32* x = (const u32*)p.input_integers + input * p.length;
    const u32* w = (const u32*)p.weight_integers + input * p.length;
    for (u64 k = threadIdx.x; k < p.length; k += 128) {
        if (x[k] < threshold) {
            atomicAdd(&entries[w[k] + 1], 1u);
        }
    }
    __threadfence();
    __syncthreads();
    // Each thread sums a stretch of the row, then goes through it again from where the threads before it end.
    const u32 stretch = (p.row_len + 127) / 128;
    const u32 begin = threadIdx.x * stretch < p.row_len ? threadIdx.x * stretch : p.row_len;
    const u32 end = begin + stretch < p.row_len ? begin + stretch : p.row_len;
    u32 sum = 0;
    for (u32 t = begin; t < end; ++t) {
        sum += load_coherent(&entries[t]);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    u32 both = 0, ones = 0;
    for (u32 i = 0; i < 128; ++i) {
        ones += sums[i];
        both += i < threadIdx.x ? sums[i] : 0;
    }
    for (u32 t = begin; t < end; ++t) {
        both += load_coherent(&entries[t]);
        u32 count = both;
        if (p.counts_matches) {
            // Matches are both ones or both zeros.
            count = both + ((u32)p.length - (ones - both) - ((const u32*)p.weight_ones)[input * p.row_len + t]);
        }
        entries[t] = count;
    }
}

struct TableCountsParams {
    u64 rows;
    // Thresholds of the inputs, by sample and input, 64 bits each.
    u64 inputs;
    // Thresholds of the weights, by input and neuron: neighbours read neighbours.
    u64 weights;
    // By sample and neuron, 64 bits each.
    u64 counts;
    u32 n_inputs;
    u32 n_neurons;
    u32 row_len;
    // Blocks that the neurons of one sample take.
    u32 n_groups;
    // Whether every sample and input has a row of its own; else rows are by the threshold of the input.
    u32 own_rows;
    u32 padding;
};

// Neurons of a block, and threads to a neuron.
#define TABLE_NEURONS 32
#define TABLE_PARTS 8

// Counts as sums of table entries: 32 neurons of one sample per block, eight threads to a neuron.
KERNEL(table_counts, TableCountsParams, TABLE_NEURONS * TABLE_PARTS) {
    u64* partial = (u64*)shared_memory();
    const u64 sample = blockIdx.x / p.n_groups;
    const u32 group = (u32)(blockIdx.x - sample * p.n_groups);
    const u32 neuron = group * TABLE_NEURONS + threadIdx.x % TABLE_NEURONS;
    u64 sum = 0;
    if (neuron < p.n_neurons) {
        for (u32 i = threadIdx.x / TABLE_NEURONS; i < p.n_inputs; i += TABLE_PARTS) {
            const u64 place = sample * p.n_inputs + i;
            const u64 row = p.own_rows ? place : ((const u64*)p.inputs)[place];
            const u32 weight = ((const u32*)p.weights)[(u64)i * p.n_neurons + neuron];
            sum += ((const u32*)p.rows)[row * p.row_len + weight];
        }
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < TABLE_NEURONS && neuron < p.n_neurons) {
        for (u32 part = 1; part < TABLE_PARTS; ++part) {
            sum += partial[part * TABLE_NEURONS + threadIdx.x];
        }
        ((u64*)p.counts)[sample * p.n_neurons + neuron] = sum;
    }
}
