// The instructions of Hopper (sm_90a) only: barriers in shared memory, the copy engine, clusters,
// and multiplication by a group of four warps.
#pragma once
#include "device.cuh"

#ifndef ALEATRON_ON_CPU

// Barriers in shared memory. A barrier's phase ends when the configured number of threads have
// arrived, and all bytes it expects have been copied.
DEVICE void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes new barriers visible to the copy engine and to the other blocks of the cluster; a cluster
// barrier must follow.
DEVICE void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and expects this number of bytes in this phase.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier with the same offset in the block `rank` of the cluster.
DEVICE void barrier_arrive(u32 barrier, u32 rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(barrier), "r"(rank)
        : "memory");
}

// Waits for the end of the phase of this parity.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "wait:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ready;\n"
        "bra wait;\n"
        "ready:\n"
        "}" ::"r"(barrier), "r"(parity)
        : "memory");
}

// The index of this block in its cluster.
DEVICE u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Waits for all threads of the cluster.
DEVICE void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}

// Copies the box of a matrix that begins at byte `x` of row `y` to shared memory, swizzled; its
// bytes count at the barrier. Elements outside of the matrix are zero.
DEVICE void copy_box(u32 to, const TensorMap* map, u32 x, u32 y, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y)
        : "memory");
}

// Copies like `copy_box`, to the same offset in all blocks of the cluster whose bit in `blocks` is
// set, and to the barrier of each.
DEVICE void copy_box_to(u32 to, const TensorMap* map, u32 x, u32 y, u32 barrier, unsigned short blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::
            "r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
        : "memory");
}

// Prefetches the descriptor of a matrix.
DEVICE void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Orders the sums before the multiplications that follow.
DEVICE void multiply_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void multiply_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most PENDING of the groups of multiplications committed last are in flight.
template <int PENDING>
DEVICE void multiply_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Operands of the instructions below: the sums, and their names in the text of an instruction.
#define SUMS_8(i) \
    "+r"(sum[i]), "+r"(sum[i + 1]), "+r"(sum[i + 2]), "+r"(sum[i + 3]), "+r"(sum[i + 4]), "+r"(sum[i + 5]), "+r"(sum[i + 6]), \
        "+r"(sum[i + 7])
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define SUMS_128(i) SUMS_64(i), SUMS_64(i + 64)
#define NAMES_16 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 \
    NAMES_16 ", " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
    NAMES_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128 \
    NAMES_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// Adds the ones of AND of 64 rows and N columns of 256 bits, given by descriptors of shared memory,
// asynchronously. Sum i of lane 4 g + t of warp w is that of row 16 w + g + 8 (i / 2 % 2) and
// column 8 (i / 4) + 2 t + i % 2.
template <int N>
struct WideMultiply;

#define WIDE_MULTIPLY(N, SUMS, a_name, b_name)                                                                             \
    template <>                                                                                                            \
    struct WideMultiply<N> {                                                                                               \
        DEVICE void add(u32 (&sum)[SUMS], u64 a, u64 b) {                                                                  \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k256.s32.b1.b1.and.popc {" NAMES_##SUMS "}, " a_name      \
                         ", " b_name ", 1;"                                                                                \
                         : SUMS_##SUMS(0)                                                                                  \
                         : "l"(a), "l"(b));                                                                                \
        }                                                                                                                  \
    };

WIDE_MULTIPLY(32, 16, "%16", "%17")
WIDE_MULTIPLY(64, 32, "%32", "%33")
WIDE_MULTIPLY(128, 64, "%64", "%65")
WIDE_MULTIPLY(256, 128, "%128", "%129")

#undef WIDE_MULTIPLY

#endif
