// Shared code of tile kernels: neurons by samples by a part of the columns, whose sums are added to
// the existing ones or replace them.
#pragma once
#include "device.cuh"

// Number of bytes of a row that are staged at a time.
#define BLOCK_BYTES 128

struct TileParams {
    // Rows of `row_blocks` times 128 bytes.
    u64 weights;
    u64 inputs;
    // By sample and neuron, 32 bits each.
    u64 counts;
    u32 row_blocks;
    // The number of neurons here, the first of them among all, and the number of all.
    u32 n_rows;
    u32 first_neuron;
    u32 n_neurons;
    u32 n_samples;
    // Number of tiles of neurons and of samples.
    u32 row_tiles;
    u32 sample_tiles;
    // Number of tiles of neurons that are processed together, for the second-level cache.
    u32 band;
    // Number of parts of the columns: gridDim.y. With more than one, sums are added.
    u32 n_parts;
    u32 adds;
};

struct Tile {
    u32 row;
    u32 sample;
};

// Tiles in bands of neurons, all samples of a band before the next.
DEVICE Tile tile_of(u32 index, u32 row_tiles, u32 sample_tiles, u32 band) {
    const u32 whole = band * sample_tiles;
    const u32 first = index / whole * band;
    const u32 rows = row_tiles - first < band ? row_tiles - first : band;
    const u32 rest = index % whole;
    Tile tile;
    tile.row = first + rest % rows;
    tile.sample = rest / rows;
    return tile;
}

// The first block of 128 bytes of part `part`.
DEVICE u32 part_begin(const TileParams& p, u32 part) {
    return (u32)((u64)p.row_blocks * part / p.n_parts);
}

DEVICE void store_sum(const TileParams& p, u32 row, u32 sample, u32 sum) {
    if (row < p.n_rows && sample < p.n_samples) {
        u32* count = (u32*)p.counts + (u64)sample * p.n_neurons + p.first_neuron + row;
        if (p.adds) {
            atomicAdd(count, sum);
        } else {
            *count = sum;
        }
    }
}
