// The names of `device.cuh` and `hopper.cuh` for kernels that run on the CPU, with the layouts that the instructions have.
#pragma once
#include "scheduler.h"
#include <cmath>

#define DEVICE static inline
#define __launch_bounds__(...)
#define __grid_constant__

using std::floor;

namespace on_cpu {
// A kernel for launches.
struct Kernel {
    unsigned threads, cluster;
    std::size_t param_bytes;
    std::function<void(const void*)> run;
};

inline std::map<std::string, Kernel>& kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}

template <typename Params>
struct Register {
    Register(const char* name, unsigned cluster, void (*kernel)(const Params&), std::initializer_list<unsigned> bounds) {
        kernels()[name] = {*bounds.begin(), cluster, sizeof(Params),
                           [kernel](const void* params) { kernel(*static_cast<const Params*>(params)); }};
    }
};
}  // namespace on_cpu

#define CLUSTER_KERNEL(NAME, PARAMS, CLUSTER, ...)                                                          \
    static void NAME(const PARAMS& p);                                                                      \
    static const on_cpu::Register<PARAMS> register_##NAME(#NAME, CLUSTER, NAME, {__VA_ARGS__});             \
    static void NAME(const PARAMS& p)
#define KERNEL(NAME, PARAMS, ...) CLUSTER_KERNEL(NAME, PARAMS, 1, __VA_ARGS__)

#define threadIdx (on_cpu::current().thread)
#define blockIdx (on_cpu::block().index)
#define blockDim (on_cpu::machine().block)
#define gridDim (on_cpu::machine().grid)

// Shared memory has the same addresses in every block, and they begin anywhere; the address of another block's has its rank at the top.
constexpr u32 SHARED_BEGIN = 272, RANK_SHIFT = 24;

DEVICE u8* shared_memory() {
    return on_cpu::block().shared.begin;
}

DEVICE u32 shared_address(const void* pointer) {
    return SHARED_BEGIN + (u32)((const u8*)pointer - shared_memory());
}

namespace on_cpu {
inline Block& block_of(u32 address) {
    return *machine().cluster->blocks.at(address >> RANK_SHIFT);
}

inline u8* shared_at(Block& block, u32 address, u32 bytes) {
    const u32 offset = (address & ((1u << RANK_SHIFT) - 1)) - SHARED_BEGIN;
    if (offset > block.shared.bytes || bytes > block.shared.bytes - offset) {
        fail("an address past the shared memory of a block");
    }
    return block.shared.begin + offset;
}

inline Barrier& barrier_at(Block& block, u32 address) {
    if (address % 8 != 0) {
        fail("a barrier that is not aligned");
    }
    shared_at(block, address, 8);
    return block.barriers[address & ((1u << RANK_SHIFT) - 1)];
}

// Runs a function now, or when its group is waited for.
inline void now_or_later(std::vector<std::function<void()>>& group, std::function<void()> work) {
    if (random_below(2) != 0) {
        work();
    } else {
        group.push_back(std::move(work));
    }
}

// Runs all groups except the last `pending` ones that were committed.
inline void finish_groups(std::vector<std::vector<std::function<void()>>>& groups, std::size_t pending) {
    // The last group is the open one.
    while (groups.size() > pending + 1) {
        for (auto& work : groups.front()) {
            work();
        }
        groups.erase(groups.begin());
    }
}
}  // namespace on_cpu

DEVICE U32x4 load_streaming(const void* pointer) {
    if ((std::size_t)pointer % 16 != 0) {
        on_cpu::fail("a vector that is not aligned");
    }
    return *(const U32x4*)pointer;
}

DEVICE u32 load_coherent(const u32* pointer) {
    return *(const volatile u32*)pointer;
}

DEVICE void fence_system() {}

DEVICE void store_for_host(u64* pointer, u64 value) {
    *pointer = value;
}

DEVICE void store_alone_for_host(u64* pointer, u64 value) {
    *pointer = value;
}

DEVICE u32 warp_sum(u32 value) {
    return on_cpu::exchange(value, nullptr, [](const on_cpu::Warp& warp) {
        u32 sum = 0;
        for (u32 lane = 0; lane < on_cpu::warp_size(); ++lane) {
            sum += (u32)warp.slot[lane];
        }
        return sum;
    });
}

DEVICE u32 group_sum(u32 value, u32 lanes) {
    const u32 first = on_cpu::lane() / lanes * lanes;
    return on_cpu::exchange(value, nullptr, [=](const on_cpu::Warp& warp) {
        u32 sum = 0;
        for (u32 lane = first; lane < first + lanes; ++lane) {
            sum += (u32)warp.slot[lane];
        }
        return sum;
    });
}

DEVICE void __syncthreads() {
    on_cpu::Block& block = on_cpu::block();
    on_cpu::meet(block.arrived, block.generation, on_cpu::machine().block.x);
}

DEVICE void __threadfence() {}

DEVICE int __popc(u32 word) {
    return __builtin_popcount(word);
}

DEVICE int __popcll(u64 word) {
    return __builtin_popcountll(word);
}

// Fibers switch only at known points, so that plain accesses are atomic.
template <typename T>
static T atomicAdd(T* address, T value) {
    const T old = *address;
    *address = old + value;
    return old;
}

DEVICE u64 atomicMin(u64* address, u64 value) {
    const u64 old = *address;
    *address = value < old ? value : old;
    return old;
}

DEVICE u64 atomicOr(u64* address, u64 value) {
    const u64 old = *address;
    *address = old | value;
    return old;
}

DEVICE u64 atomicExch(u64* address, u64 value) {
    const u64 old = *address;
    *address = value;
    return old;
}

DEVICE void count_active(u64* to, bool counts) {
    if (counts) {
        ++*to;
    }
}

DEVICE u64 float_bits(double value) {
    u64 bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE void copy_async(u32 to, const void* from, bool exists) {
    if (to % 16 != 0 || (std::size_t)from % 16 != 0) {
        on_cpu::fail("a copy that is not aligned");
    }
    u8* target = on_cpu::shared_at(on_cpu::block(), to, 16);
    on_cpu::now_or_later(on_cpu::current().copies.back(), [=] {
        if (exists) {
            std::memcpy(target, from, 16);
        } else {
            std::memset(target, 0, 16);
        }
    });
}

DEVICE void copy_async_commit() {
    on_cpu::current().copies.emplace_back();
}

template <int PENDING>
static void copy_async_wait() {
    on_cpu::finish_groups(on_cpu::current().copies, PENDING);
}

DEVICE void load_matrices(u32 (&to)[4], u32 row) {
    if (row % 16 != 0) {
        on_cpu::fail("a row of a matrix that is not aligned");
    }
    u8* pointer = on_cpu::shared_at(on_cpu::block(), row, 16);
    const u32 lane = on_cpu::lane();
    on_cpu::exchange(0, pointer, [&](const on_cpu::Warp& warp) {
        for (u32 matrix = 0; matrix < 4; ++matrix) {
            std::memcpy(&to[matrix], (const u8*)warp.pointer[8 * matrix + lane / 4] + 4 * (lane % 4), 4);
        }
        return 0;
    });
}

namespace on_cpu {
struct Operands {
    const u32* a;
    const u32* b;
};
}  // namespace on_cpu

DEVICE void multiply_bits(u32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const u32 g = on_cpu::lane() / 4, t = on_cpu::lane() % 4;
    on_cpu::Operands mine = {a, b};
    on_cpu::exchange(0, &mine, [&](const on_cpu::Warp& warp) {
        for (u32 i = 0; i < 4; ++i) {
            const u32 half = i / 2, column = 2 * t + i % 2;
            for (u32 word = 0; word < 8; ++word) {
                // Word t of a row or column is with lane t of its group, in the first register or, from 4 on, in the second.
                const auto* row = (const on_cpu::Operands*)warp.pointer[4 * g + word % 4];
                const auto* col = (const on_cpu::Operands*)warp.pointer[4 * column + word % 4];
                sum[i] += (u32)__popc(row->a[half + 2 * (word / 4)] & col->b[word / 4]);
            }
        }
        return 0;
    });
}

// Hopper.

DEVICE void barrier_init(u32 barrier, u32 arrivals) {
    on_cpu::Barrier& at = on_cpu::barrier_at(on_cpu::block(), barrier);
    at.arrivals = at.missing = arrivals;
}

DEVICE void barrier_init_fence() {}

DEVICE void barrier_expect(u32 barrier, u32 bytes) {
    on_cpu::Barrier& at = on_cpu::barrier_at(on_cpu::block(), barrier);
    at.bytes += bytes;
    --at.missing;
    at.settle();
}

DEVICE void barrier_arrive(u32 barrier, u32 rank) {
    on_cpu::Barrier& at = on_cpu::barrier_at(on_cpu::block_of(rank << RANK_SHIFT), barrier);
    if (at.missing == 0) {
        on_cpu::fail("more arrivals at a barrier than it was made for");
    }
    --at.missing;
    at.settle();
}

DEVICE void barrier_wait(u32 barrier, u32 parity) {
    on_cpu::Barrier* at = &on_cpu::barrier_at(on_cpu::block(), barrier);
    on_cpu::wait_until([at, parity] { return at->phase % 2 != parity; });
}

DEVICE u32 cluster_rank() {
    return on_cpu::block().rank;
}

DEVICE void cluster_sync() {
    on_cpu::Cluster& cluster = *on_cpu::machine().cluster;
    on_cpu::meet(cluster.arrived, cluster.generation, (u32)cluster.blocks.size() * on_cpu::machine().block.x);
}

namespace on_cpu {
// The contents of a tensor map: rows of bytes, and the box that is copied, swizzled in groups of
// eight rows of 128 bytes.
struct Matrix {
    const u8* begin;
    u64 row_bytes, rows, pitch;
    u32 box_bytes, box_rows;
};

static_assert(sizeof(Matrix) <= sizeof(TensorMap), "a map holds a matrix");

inline u32 swizzled(u32 address) {
    return address ^ (address >> 7 & 7) << 4;
}
}  // namespace on_cpu

DEVICE void copy_box_to(u32 to, const TensorMap* map, u32 x, u32 y, u32 barrier, unsigned short blocks) {
    on_cpu::Matrix matrix;
    std::memcpy(&matrix, map, sizeof matrix);
    if (to % 1024 != 0) {
        on_cpu::fail("a box that is not aligned for its swizzling");
    }
    on_cpu::Cluster& cluster = *on_cpu::machine().cluster;
    for (u32 rank = 0; rank < cluster.blocks.size(); ++rank) {
        if ((blocks >> rank & 1) == 0) {
            continue;
        }
        on_cpu::Block* block = cluster.blocks[rank].get();
        on_cpu::shared_at(*block, to, matrix.box_bytes * matrix.box_rows);
        cluster.copies.push_back([=] {
            for (u32 r = 0; r < matrix.box_rows; ++r) {
                for (u32 b = 0; b < matrix.box_bytes; b += 16) {
                    u8* target = on_cpu::shared_at(*block, on_cpu::swizzled(to + r * matrix.box_bytes + b), 16);
                    const u64 row = (u64)y + r, column = (u64)x + b;
                    std::memset(target, 0, 16);
                    if (row < matrix.rows && column < matrix.row_bytes) {
                        const u64 left = matrix.row_bytes - column;
                        std::memcpy(target, matrix.begin + row * matrix.pitch + column, left < 16 ? left : 16);
                    }
                }
            }
            on_cpu::Barrier& at = on_cpu::barrier_at(*block, barrier);
            at.bytes -= (long long)matrix.box_bytes * matrix.box_rows;
            at.settle();
        });
    }
}

DEVICE void copy_box(u32 to, const TensorMap* map, u32 x, u32 y, u32 barrier) {
    copy_box_to(to, map, x, y, barrier, (unsigned short)(1u << on_cpu::block().rank));
}

DEVICE void prefetch_map(const TensorMap*) {}

DEVICE void multiply_fence() {}

DEVICE void multiply_commit() {
    on_cpu::current().products.emplace_back();
}

template <int PENDING>
static void multiply_wait() {
    on_cpu::finish_groups(on_cpu::current().products, PENDING);
}

namespace on_cpu {
// Thirty-two bytes of a row of a matrix in shared memory that a descriptor describes.
inline void read_row(Block& block, u64 descriptor, u32 row, u64 (&to)[4]) {
    const u32 start = (u32)(descriptor & 0x3FFF) << 4, group = (u32)(descriptor >> 32 & 0x3FFF) << 4;
    if (descriptor >> 62 != 1 || group != 1024) {
        fail("a descriptor that is not of swizzled rows of 128 bytes");
    }
    for (u32 b = 0; b < 32; b += 16) {
        const u32 address = start + row / 8 * group + row % 8 * 128 + b;
        std::memcpy(&to[b / 8], shared_at(block, swizzled(address), 16), 16);
    }
}
}  // namespace on_cpu

template <int N>
struct WideMultiply {
    static void add(u32 (&sum)[N / 2], u64 a, u64 b) {
        on_cpu::Block* block = &on_cpu::block();
        const u32 thread = threadIdx.x % 128, warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
        u32* sums = sum;
        on_cpu::now_or_later(on_cpu::current().products.back(), [=] {
            u64 rows[2][4];
            for (u32 half = 0; half < 2; ++half) {
                on_cpu::read_row(*block, a, 16 * warp + g + 8 * half, rows[half]);
            }
            for (u32 i = 0; i < N / 2; ++i) {
                u64 column[4];
                on_cpu::read_row(*block, b, 8 * (i / 4) + 2 * t + i % 2, column);
                for (u32 k = 0; k < 4; ++k) {
                    sums[i] += (u32)__popcll(rows[i / 2 % 2][k] & column[k]);
                }
            }
        });
    }
};
