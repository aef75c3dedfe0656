// Gates over packed streams, and counts of their ones.
#include "device.cuh"

enum GateKind : u32 {
    AND = 0,
    OR = 1,
    XOR = 2,
    XNOR = 3,
    NOT = 4,
    MUX = 5,
};

struct GateParams {
    u64 a;
    u64 b;
    u64 select;
    u64 out;
    u64 n_words;
    // 64-bit words of a stream, and the bits of the last one inside the length.
    u64 stream_words;
    u64 tail_mask;
    u32 kind;
    u32 padding;
};

// A gate over all words, a thread each. Bits beyond the length stay zero.
KERNEL(gate, GateParams, 256) {
    const u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index >= p.n_words) {
        return;
    }
    const u64 a = ((const u64*)p.a)[index];
    const u64 b = p.kind == NOT ? 0 : ((const u64*)p.b)[index];
    u64 made = 0;
    switch (p.kind) {
        case AND:
            made = a & b;
            break;
        case OR:
            made = a | b;
            break;
        case XOR:
            made = a ^ b;
            break;
        case XNOR:
            made = ~(a ^ b);
            break;
        case NOT:
            made = ~a;
            break;
        default: {
            const u64 select = ((const u64*)p.select)[index];
            made = (select & a) | (~select & b);
        }
    }
    if (index % p.stream_words == p.stream_words - 1) {
        made &= p.tail_mask;
    }
    ((u64*)p.out)[index] = made;
}

enum PairKind : u32 {
    FIRST = 0,
    BOTH = 1,
    DIFFERING = 2,
};

struct OnesParams {
    u64 a;
    u64 b;
    // Per stream; added to the existing counts.
    u64 ones;
    u64 stream_words;
    u32 n_streams;
    // Number of blocks per stream.
    u32 n_parts;
    u32 kind;
    u32 padding;
};

// Counts the ones of each stream, the ones that two streams share, or the bits in which they
// differ.
KERNEL(ones, OnesParams, 256) {
    const u32 stream = blockIdx.x / p.n_parts, part = blockIdx.x - stream * p.n_parts;
    u64 sum = 0;
    for (u64 k = part * 256 + threadIdx.x; k < p.stream_words; k += p.n_parts * 256) {
        const u64 index = stream * p.stream_words + k;
        u64 word = ((const u64*)p.a)[index];
        if (p.kind == BOTH) {
            word &= ((const u64*)p.b)[index];
        } else if (p.kind == DIFFERING) {
            word ^= ((const u64*)p.b)[index];
        }
        sum += __popcll(word);
    }
    // A part has fewer than 2^32 ones: streams have at most 2^34 bits, shared by 256 threads.
    const u32 all = warp_sum((u32)sum);
    if (threadIdx.x % 32 == 0) {
        atomicAdd((u64*)p.ones + stream, (u64)all);
    }
}
