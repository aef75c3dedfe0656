// Conversion of the kernels' counts to the counts of a layer, as a separate step.
#include "finish.cuh"

struct FinishParams {
    Finish finish;
    u64 counted;
};

// Reads the counts, a thread each, and leaves zeros for the next call.
template <typename Count>
DEVICE void finish(const FinishParams& p) {
    const u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index == 0) {
        finish_state(p.finish);
    }
    if (index < (u64)p.finish.n_neurons * p.finish.n_samples) {
        Count* counted = (Count*)p.counted + index;
        finish_one(p.finish, index, (u64)(i64)*counted);
        *counted = 0;
    }
}

KERNEL(finish_32, FinishParams, 256) {
    finish<u32>(p);
}

// Sums that may be less than 0.
KERNEL(finish_signed_32, FinishParams, 256) {
    finish<int>(p);
}

KERNEL(finish_64, FinishParams, 256) {
    finish<u64>(p);
}

struct RowOnesParams {
    u64 rows;
    // Added to the existing counts, `Ones` each.
    u64 ones;
    u64 row_vectors;
    u32 n_rows;
    // Number of blocks per row.
    u32 n_parts;
};

// Counts the ones of each row of whole 16-byte vectors.
template <typename Ones>
DEVICE void row_ones(const RowOnesParams& p) {
    const u32 row = blockIdx.x / p.n_parts, part = blockIdx.x - row * p.n_parts;
    const U32x4* vectors = (const U32x4*)p.rows + row * p.row_vectors;
    u32 sum = 0;
    for (u64 i = part * 256 + threadIdx.x; i < p.row_vectors; i += p.n_parts * 256) {
        const U32x4 v = vectors[i];
        sum += __popc(v.x) + __popc(v.y) + __popc(v.z) + __popc(v.w);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        atomicAdd((Ones*)p.ones + row, (Ones)sum);
    }
}

KERNEL(row_ones_32, RowOnesParams, 256) {
    row_ones<u32>(p);
}

KERNEL(row_ones_64, RowOnesParams, 256) {
    row_ones<u64>(p);
}
