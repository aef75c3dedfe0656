// Dense layers and batches on Hopper (sm_90a): tiles that the copy engine stages, multiplied by groups of four warps.
#include "hopper.cuh"
#include "tile.cuh"

struct alignas(64) WgmmaParams {
    // Boxes of 128 bytes by the rows one block loads.
    TensorMap weights;
    TensorMap inputs;
    TileParams tile;
};

// The operand that blocks of a cluster share, so that each loads a part of it for all.
enum Shared {
    INPUTS,
    WEIGHTS,
};

// The descriptor of rows of 128 bytes in shared memory whose vectors are swizzled in groups of eight rows, as the copy engine
// writes them.
DEVICE u64 swizzled_rows(u32 address) {
    const u64 leading = 1, group_bytes = 8 * BLOCK_BYTES, swizzle_128 = 1;
    return (address & 0x3FFFF) >> 4 | leading << 16 | (group_bytes >> 4) << 32 | swizzle_128 << 62;
}

// A block counts ROWS neurons by SAMPLES samples: one warp only issues copies, the others are in
// groups of four that multiply 64 neurons each. A stage alternates between them: `full` when its
// bytes have arrived, `empty` when all groups of the cluster are done with it.
template <int ROWS, int SAMPLES, int STAGES, int CLUSTER, Shared SHARED>
DEVICE void tile_wgmma(const WgmmaParams& p) {
    constexpr u32 GROUPS = ROWS / 64;
    constexpr u32 WEIGHT_BYTES = ROWS * BLOCK_BYTES, INPUT_BYTES = SAMPLES * BLOCK_BYTES;
    constexpr u32 STAGE_BYTES = WEIGHT_BYTES + INPUT_BYTES;
    const TileParams& tile = p.tile;
    const u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    // Swizzling counts rows from addresses of whole 1024 bytes.
    const u32 shared = (shared_address(shared_memory()) + 1023) / 1024 * 1024;
    const u32 full = shared + STAGES * STAGE_BYTES, empty = full + STAGES * 8;
    const u32 rank = CLUSTER > 1 ? cluster_rank() : 0;

    // Blocks of a cluster have adjacent tiles, along the dimension that they do not share.
    Tile at;
    if (SHARED == INPUTS) {
        at = tile_of(blockIdx.x / CLUSTER, (tile.row_tiles + CLUSTER - 1) / CLUSTER, tile.sample_tiles, tile.band);
        at.row = at.row * CLUSTER + rank;
    } else {
        at = tile_of(blockIdx.x / CLUSTER, tile.row_tiles, (tile.sample_tiles + CLUSTER - 1) / CLUSTER, tile.band);
        at.sample = at.sample * CLUSTER + rank;
    }
    const u32 row = at.row * ROWS, sample = at.sample * SAMPLES;
    const u32 begin = part_begin(tile, blockIdx.y), n_steps = part_begin(tile, blockIdx.y + 1) - begin;

    if (thread == 0) {
        for (u32 i = 0; i < STAGES; ++i) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, GROUPS * CLUSTER);
        }
        barrier_init_fence();
    }
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }

    if (warp == 4 * GROUPS) {
        if (lane == 0) {
            prefetch_map(&p.weights);
            prefetch_map(&p.inputs);
            for (u32 step = 0; step < n_steps; ++step) {
                const u32 s = step % STAGES, use = step / STAGES;
                const u32 weights = shared + s * STAGE_BYTES, inputs = weights + WEIGHT_BYTES;
                const u32 arrived = full + 8 * s, column = (begin + step) * BLOCK_BYTES;
                if (use > 0) {
                    barrier_wait(empty + 8 * s, (use - 1) % 2);
                }
                barrier_expect(arrived, STAGE_BYTES);
                if (CLUSTER == 1) {
                    copy_box(weights, &p.weights, column, row, arrived);
                    copy_box(inputs, &p.inputs, column, sample, arrived);
                } else if (SHARED == INPUTS) {
                    constexpr u32 PART = SAMPLES / CLUSTER;
                    copy_box(weights, &p.weights, column, row, arrived);
                    copy_box_to(inputs + rank * PART * BLOCK_BYTES, &p.inputs, column, sample + rank * PART, arrived,
                                (1 << CLUSTER) - 1);
                } else {
                    constexpr u32 PART = ROWS / CLUSTER;
                    copy_box_to(weights + rank * PART * BLOCK_BYTES, &p.weights, column, row + rank * PART, arrived,
                                (1 << CLUSTER) - 1);
                    copy_box(inputs, &p.inputs, column, sample, arrived);
                }
            }
        }
    } else {
        const u32 group = warp / 4;
        u32 sum[SAMPLES / 2];
#pragma unroll
        for (int i = 0; i < SAMPLES / 2; ++i) {
            sum[i] = 0;
        }
        auto release = [&](u32 step) {
            if (thread % 128 < CLUSTER) {
                barrier_arrive(empty + 8 * (step % STAGES), thread % 128);
            }
        };
        for (u32 step = 0; step < n_steps; ++step) {
            const u32 s = step % STAGES;
            barrier_wait(full + 8 * s, step / STAGES % 2);
            const u32 weights = shared + s * STAGE_BYTES;
            const u64 a = swizzled_rows(weights + group * 64 * BLOCK_BYTES), b = swizzled_rows(weights + WEIGHT_BYTES);
            multiply_fence();
#pragma unroll
            for (u32 k = 0; k < BLOCK_BYTES / 32; ++k) {
                // Thirty-two bytes further on, in units of sixteen.
                WideMultiply<SAMPLES>::add(sum, a + 2 * k, b + 2 * k);
            }
            multiply_commit();
            // The previous step is done with its stage.
            multiply_wait<1>();
            if (step > 0) {
                release(step - 1);
            }
        }
        multiply_wait<0>();
        const u32 first_row = row + group * 64 + warp % 4 * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < SAMPLES / 2; ++i) {
            store_sum(tile, first_row + i / 2 % 2 * 8, sample + i / 4 * 8 + lane % 4 * 2 + i % 2, sum[i]);
        }
    }
    if (CLUSTER > 1) {
        // Other blocks may still copy to this block and arrive at its barriers.
        cluster_sync();
    }
}

#define TILE_WGMMA(ROWS, SAMPLES, STAGES, CLUSTER, SHARED)                                                     \
    CLUSTER_KERNEL(tile_wgmma_##ROWS##x##SAMPLES##_##STAGES##_##CLUSTER##_##SHARED, WgmmaParams, CLUSTER,      \
                   ROWS * 2 + 32, 1) {                                                                         \
        tile_wgmma<ROWS, SAMPLES, STAGES, CLUSTER, SHARED>(p);                                                 \
    }

TILE_WGMMA(128, 256, 4, 2, INPUTS)
TILE_WGMMA(128, 256, 4, 2, WEIGHTS)
#ifdef ALL_VARIANTS
TILE_WGMMA(128, 256, 4, 1, INPUTS)
TILE_WGMMA(256, 128, 4, 2, WEIGHTS)
TILE_WGMMA(128, 128, 6, 1, INPUTS)
TILE_WGMMA(128, 64, 8, 1, INPUTS)
#endif
