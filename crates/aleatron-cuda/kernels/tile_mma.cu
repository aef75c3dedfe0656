// Dense layers and batches on every GPU since sm_80: tiles staged in shared memory, multiplied by
// single warps.
#include "tile.cuh"

// A block counts ROWS neurons by SAMPLES samples, each of its warps WARP_ROWS by WARP_SAMPLES of
// them. Rows of 128 bytes are staged STAGES - 1 steps ahead; their sixteen-byte vectors are
// swizzled, so that eight rows at one column use different banks.
template <int ROWS, int SAMPLES, int WARP_ROWS, int WARP_SAMPLES, int STAGES>
DEVICE void tile_mma(const TileParams& p) {
    constexpr int THREADS = (ROWS / WARP_ROWS) * (SAMPLES / WARP_SAMPLES) * 32;
    constexpr u32 STAGE_BYTES = (ROWS + SAMPLES) * BLOCK_BYTES;
    static_assert((ROWS + SAMPLES) * 8 % THREADS == 0, "threads copy equally many vectors");
    static_assert(WARP_ROWS % 16 == 0 && WARP_SAMPLES % 16 == 0, "matrices are loaded in fours");
    const u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const u32 warp_row = warp % (ROWS / WARP_ROWS) * WARP_ROWS, warp_sample = warp / (ROWS / WARP_ROWS) * WARP_SAMPLES;
    const Tile tile = tile_of(blockIdx.x, p.row_tiles, p.sample_tiles, p.band);
    const u32 row = tile.row * ROWS, sample = tile.sample * SAMPLES;
    const u32 begin = part_begin(p, blockIdx.y), n_steps = part_begin(p, blockIdx.y + 1) - begin;
    const u64 row_bytes = (u64)p.row_blocks * BLOCK_BYTES;
    const u32 shared = shared_address(shared_memory());

    auto stage = [&](u32 step) {
        if (step < n_steps) {
            const u32 to = shared + step % STAGES * STAGE_BYTES;
            const u64 column = (u64)(begin + step) * BLOCK_BYTES;
#pragma unroll
            for (u32 i = thread; i < (ROWS + SAMPLES) * 8; i += THREADS) {
                const u32 r = i / 8, c = i % 8;
                const bool is_weight = r < ROWS;
                const u32 from = is_weight ? row + r : sample + r - ROWS;
                const bool exists = from < (is_weight ? p.n_rows : p.n_samples);
                const u8* base = (const u8*)(is_weight ? p.weights : p.inputs);
                copy_async(to + r * BLOCK_BYTES + (c ^ r % 8) * 16, base + (exists ? from : 0) * row_bytes + column + c * 16,
                           exists);
            }
        }
        copy_async_commit();
    };

    u32 sum[WARP_ROWS / 16][WARP_SAMPLES / 8][4];
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_SAMPLES / 8; ++j) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                sum[i][j][k] = 0;
            }
        }
    }
#pragma unroll
    for (u32 step = 0; step < STAGES - 1; ++step) {
        stage(step);
    }
    for (u32 step = 0; step < n_steps; ++step) {
        copy_async_wait<STAGES - 2>();
        // The copies of all threads are complete, and all threads are done with the stage that is
        // filled next.
        __syncthreads();
        stage(step + STAGES - 1);
        const u32 from = shared + step % STAGES * STAGE_BYTES;
#pragma unroll
        for (u32 k = 0; k < BLOCK_BYTES / 32; ++k) {
            u32 a[WARP_ROWS / 16][4], b[WARP_SAMPLES / 8][2];
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; ++i) {
                const u32 r = warp_row + i * 16 + lane % 16, c = k * 2 + lane / 16;
                load_matrices(a[i], from + r * BLOCK_BYTES + (c ^ r % 8) * 16);
            }
#pragma unroll
            for (int j = 0; j < WARP_SAMPLES / 16; ++j) {
                const u32 r = ROWS + warp_sample + j * 16 + lane % 8 + lane / 16 * 8, c = k * 2 + lane / 8 % 2;
                u32 four[4];
                load_matrices(four, from + r * BLOCK_BYTES + (c ^ r % 8) * 16);
                b[2 * j][0] = four[0];
                b[2 * j][1] = four[1];
                b[2 * j + 1][0] = four[2];
                b[2 * j + 1][1] = four[3];
            }
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WARP_SAMPLES / 8; ++j) {
                    multiply_bits(sum[i][j], a[i], b[j]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_SAMPLES / 8; ++j) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const u32 r = row + warp_row + i * 16 + lane / 4 + k / 2 * 8;
                store_sum(p, r, sample + warp_sample + j * 8 + lane % 4 * 2 + k % 2, sum[i][j][k]);
            }
        }
    }
}

#define TILE_MMA(ROWS, SAMPLES, WARP_ROWS, WARP_SAMPLES, STAGES)                            \
    KERNEL(tile_mma_##ROWS##x##SAMPLES##_##STAGES, TileParams,                              \
           (ROWS / WARP_ROWS) * (SAMPLES / WARP_SAMPLES) * 32) {                            \
        tile_mma<ROWS, SAMPLES, WARP_ROWS, WARP_SAMPLES, STAGES>(p);                        \
    }

// Three stages of 32 KiB fit the 99 KiB of a block of sm_86 and sm_89, and three of 48 KiB the 163
// KiB of sm_80.
TILE_MMA(128, 128, 64, 32, 3)
TILE_MMA(256, 128, 64, 64, 3)
TILE_MMA(128, 64, 32, 32, 4)
TILE_MMA(128, 32, 32, 32, 4)
#ifdef ALL_VARIANTS
TILE_MMA(128, 128, 64, 32, 4)
TILE_MMA(256, 128, 64, 64, 4)
TILE_MMA(256, 128, 64, 64, 2)
#endif
