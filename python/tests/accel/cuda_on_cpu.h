// The part of CUDA C that the raw kernels use, on the CPU: one thread per CUDA thread of a block, blocks one after the other.
#pragma once
#include <cmath>
#include <cstddef>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

#define __global__
#define __device__ static
// Only one block runs at a time, so shared memory may be static.
#define __shared__ static

struct Dim3 {
    unsigned x, y, z;
};
struct ulonglong2 {
    unsigned long long x, y;
};

static thread_local Dim3 threadIdx, blockIdx;
static Dim3 blockDim, gridDim;

namespace on_cpu {
constexpr unsigned WARP = 32;
struct Warp {
    pthread_barrier_t barrier;
    unsigned long long slot[WARP];
};
static std::vector<Warp> warps;
static pthread_barrier_t block_barrier;

// Every lane stores a value, and `read` sees the values of all lanes.
template <typename F>
auto exchange(unsigned long long value, F read) {
    Warp& warp = warps[threadIdx.x / WARP];
    warp.slot[threadIdx.x % WARP] = value;
    pthread_barrier_wait(&warp.barrier);
    const auto result = read(warp.slot);
    pthread_barrier_wait(&warp.barrier);
    return result;
}

template <typename... A, std::size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
}

// Returns the index of an argument whose size is not what the kernel expects, or -1.
template <typename... A>
int launch(void (*kernel)(A...), const unsigned* dims, void** arguments, const unsigned* sizes, unsigned n) {
    const std::size_t expected[] = {sizeof(A)...};
    if (n != sizeof...(A)) {
        return (int)n;
    }
    for (unsigned i = 0; i < n; ++i) {
        if (sizes[i] != expected[i]) {
            return (int)i;
        }
    }
    gridDim = {dims[0], dims[1], dims[2]};
    blockDim = {dims[3], 1, 1};
    warps = std::vector<Warp>(blockDim.x / WARP);
    for (Warp& warp : warps) {
        pthread_barrier_init(&warp.barrier, nullptr, WARP);
    }
    pthread_barrier_init(&block_barrier, nullptr, blockDim.x);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < blockDim.x; ++t) {
        threads.emplace_back([=] {
            threadIdx = {t, 0, 0};
            for (unsigned z = 0; z < gridDim.z; ++z) {
                for (unsigned y = 0; y < gridDim.y; ++y) {
                    for (unsigned x = 0; x < gridDim.x; ++x) {
                        blockIdx = {x, y, z};
                        call(kernel, arguments, std::index_sequence_for<A...>());
                        pthread_barrier_wait(&block_barrier);
                    }
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return -1;
}
}  // namespace on_cpu

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)(((unsigned long long)a * b) >> 32);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline void __syncthreads() {
    pthread_barrier_wait(&on_cpu::block_barrier);
}
static inline unsigned __ballot_sync(unsigned, bool predicate) {
    return on_cpu::exchange(predicate, [](const unsigned long long* slot) {
        unsigned mask = 0;
        for (unsigned lane = 0; lane < on_cpu::WARP; ++lane) {
            mask |= (unsigned)slot[lane] << lane;
        }
        return mask;
    });
}
static inline unsigned long long __shfl_down_sync(unsigned, unsigned long long value, unsigned offset) {
    const unsigned from = threadIdx.x % on_cpu::WARP + offset;
    return on_cpu::exchange(value, [=](const unsigned long long* slot) { return from < on_cpu::WARP ? slot[from] : value; });
}
static inline void atomicAdd(unsigned long long* address, unsigned long long value) {
    __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
static inline void atomicMin(unsigned long long* address, unsigned long long value) {
    unsigned long long seen = __atomic_load_n(address, __ATOMIC_SEQ_CST);
    while (value < seen && !__atomic_compare_exchange_n(address, &seen, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

#define ON_CPU_KERNEL(NAME)                                                                                      \
    extern "C" int launch_##NAME(const unsigned* dims, void** arguments, const unsigned* sizes, unsigned n) {     \
        return on_cpu::launch(NAME, dims, arguments, sizes, n);                                                  \
    }
