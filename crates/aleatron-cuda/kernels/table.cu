// Layers with shared sequences, counted from tables instead of bits.
#include "conv.cuh"
#include "stream.cuh"

// The bit of a weight's threshold, 32 bits here, that marks a negative weight.
#define NEGATIVE_WEIGHT (1u << 31)

// The entry of a product, modulo 2^64: subtracted if one of its operands is negative.
DEVICE u64 signed_entry(const u32* row, u64 input, u32 weight) {
    const u64 entry = row[weight & ~NEGATIVE_WEIGHT];
    return (u32)(input >> 63) != weight >> 31 ? 0 - entry : entry;
}

struct TableRowsParams {
    // The sequences' integers, by input and position.
    u64 input_integers;
    u64 weight_integers;
    // The ones of the weight stream at each threshold, by input and threshold.
    u64 weight_ones;
    // Thresholds of the inputs, by sample and input, 64 bits each.
    u64 inputs;
    // Initially zero.
    u64 rows;
    u64 n_rows;
    u64 length;
    u32 n_inputs;
    u32 row_len;
    u32 counts_matches;
    u32 padding;
};

// The row of a sample and input: the counts of its stream with the weight streams at every
// threshold. A block computes one row.
//
// Positions where the input stream is 1 are counted by the weight sequence's integer; sums over the integers below a threshold are
// the counts of AND.
KERNEL(table_rows, TableRowsParams, 128) {
    u32* sums = (u32*)shared_memory();
    const u64 row = blockIdx.x;
    const u64 input = row % p.n_inputs;
    const u64 threshold = ((const u64*)p.inputs)[row] & ~NEGATIVE;
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
    // Each thread sums a range of the row, then processes it again from the sum of the previous
    // threads.
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
    // Number of blocks of the neurons of one sample.
    u32 n_groups;
    // Whether every sample and input has a separate row; otherwise rows are by the threshold of the
    // input.
    u32 own_rows;
    u32 padding;
};

// Number of neurons of a block, and of threads per neuron.
#define TABLE_NEURONS 32
#define TABLE_PARTS 8

// Counts as sums of table entries: 32 neurons of one sample per block, eight threads per neuron.
KERNEL(table_counts, TableCountsParams, TABLE_NEURONS * TABLE_PARTS) {
    u64* partial = (u64*)shared_memory();
    const u64 sample = blockIdx.x / p.n_groups;
    const u32 group = (u32)(blockIdx.x - sample * p.n_groups);
    const u32 neuron = group * TABLE_NEURONS + threadIdx.x % TABLE_NEURONS;
    u64 sum = 0;
    if (neuron < p.n_neurons) {
        for (u32 i = threadIdx.x / TABLE_NEURONS; i < p.n_inputs; i += TABLE_PARTS) {
            const u64 place = sample * p.n_inputs + i;
            const u64 input = ((const u64*)p.inputs)[place];
            const u64 row = p.own_rows ? place : input & ~NEGATIVE;
            const u32 weight = ((const u32*)p.weights)[(u64)i * p.n_neurons + neuron];
            sum += signed_entry((const u32*)p.rows + row * p.row_len, input, weight);
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

struct ConvTableParams {
    Convolution conv;
    // The table of all products, by the threshold of the input and of the weight.
    u64 rows;
    // Thresholds of the inputs, by sample and input, 64 bits each.
    u64 inputs;
    // Thresholds of the weights, by output channel and tap.
    u64 weights;
    // By sample and neuron, 64 bits each.
    u64 counts;
    u64 n_counts;
    u32 n_inputs;
    u32 n_neurons;
    u32 n_taps;
    u32 row_len;
    // The first output channel here, the number of those of a group, and of its input channels.
    u32 first_channel;
    u32 group_outputs;
    u32 group_inputs;
    u32 padding;
};

// Counts of a convolution as sums of table entries, a thread each. Taps in the padding are skipped.
KERNEL(conv_table, ConvTableParams, 256) {
    const u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index >= p.n_counts) {
        return;
    }
    const u64 sample = index / p.n_neurons;
    const u32 neuron = (u32)(index - sample * p.n_neurons);
    const u32 channel = neuron / p.conv.n_positions, position = neuron - channel * p.conv.n_positions;
    const u32 first_input = (p.first_channel + channel) / p.group_outputs * p.group_inputs;
    const u32* weights = (const u32*)p.weights + (u64)channel * p.n_taps;
    const u64* inputs = (const u64*)p.inputs + sample * p.n_inputs;
    u64 sum = 0;
    for (u32 tap = 0; tap < p.n_taps; ++tap) {
        u32 at;
        if (input_under(p.conv, first_input, position, tap, &at)) {
            const u64 input = inputs[at];
            sum += signed_entry((const u32*)p.rows + (input & ~NEGATIVE) * p.row_len, input, weights[tap]);
        }
    }
    ((u64*)p.counts)[index] = sum;
}
