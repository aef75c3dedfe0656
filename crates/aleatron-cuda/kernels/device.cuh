// The types and instructions that the kernels use, each instruction under a descriptive name. Tests
// compile the kernels for the CPU, where `on_cpu.h` defines the same names.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// The descriptor of a matrix of bytes in global memory for the copy engine, encoded by the driver
// and opaque otherwise.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

struct alignas(16) U32x4 {
    u32 x, y, z, w;
};

#ifdef ALEATRON_ON_CPU
#include "on_cpu.h"
#else

#define DEVICE static __device__ __forceinline__

// A kernel of the parameters `p`: its name, their type, the number of threads of a block and, if it
// matters for its registers, the number of blocks of a processor.
#define KERNEL(NAME, PARAMS, ...) \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__) NAME(const __grid_constant__ PARAMS p)

// A kernel whose blocks form clusters.
#define CLUSTER_KERNEL(NAME, PARAMS, CLUSTER, ...) \
    extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(__VA_ARGS__) NAME(const __grid_constant__ PARAMS p)

extern __shared__ __align__(128) u8 dynamic_shared_memory[];

// The shared memory of the block.
DEVICE u8* shared_memory() {
    return dynamic_shared_memory;
}

// The address of shared memory in the form of instructions.
DEVICE u32 shared_address(const void* pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// Sixteen bytes that are read once, without allocating them in the first-level cache.
DEVICE U32x4 load_streaming(const void* pointer) {
    U32x4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(pointer));
    return v;
}

// A word written by other blocks, bypassing the first-level cache.
DEVICE u32 load_coherent(const u32* pointer) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(pointer) : "memory");
    return v;
}

// Makes the previous writes of this thread visible to the host before its next writes.
DEVICE void fence_system() {
    __threadfence_system();
}

// Writes a word that the host polls, after all previous writes.
DEVICE void store_for_host(u64* pointer, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(pointer), "l"(value) : "memory");
}

// Writes a word that the host polls, without ordering previous writes.
DEVICE void store_alone_for_host(u64* pointer, u64 value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(pointer), "l"(value) : "memory");
}

// The sum over the lanes of a warp, all of which must call this.
DEVICE u32 warp_sum(u32 value) {
    return __reduce_add_sync(0xFFFFFFFFu, value);
}

// The sum over groups of `lanes` neighbouring lanes, a power of two; all lanes of the warp must
// call this.
DEVICE u32 group_sum(u32 value, u32 lanes) {
    for (u32 offset = lanes / 2; offset != 0; offset /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    }
    return value;
}

// Adds one for every calling thread whose condition is true.
DEVICE void count_active(u64* to, bool counts) {
    const u32 here = __activemask(), votes = __ballot_sync(here, counts);
    if (votes != 0 && threadIdx.x % 32 == __ffs(here) - 1) {
        atomicAdd(to, (u64)__popc(votes));
    }
}

// The memory representation of a float.
DEVICE u64 float_bits(double value) {
    return (u64)__double_as_longlong(value);
}

// Asynchronous copies: sixteen bytes each, or zeros if there is no source.
DEVICE void copy_async(u32 to, const void* from, bool exists) {
    const u32 bytes = exists ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

DEVICE void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of the groups committed last are in flight.
template <int PENDING>
DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Loads four matrices of eight rows of sixteen bytes; lane 8 m + r has the address of row r of
// matrix m. Lane 4 r + c gets word c of row r of each.
DEVICE void load_matrices(u32 (&to)[4], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Adds the ones of AND of 16 rows and 8 columns of 256 bits. Lane 4 g + t holds words t and t + 4 of rows g (a[0], a[2]) and g + 8
// (a[1], a[3]), of column g (b[0], b[1]), and the sums of rows g and g + 8 with columns 2 t and 2 t + 1.
DEVICE void multiply_bits(u32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
