// CUDA threads on one thread of the CPU: each is a fiber, and the blocks of a cluster run
// concurrently.
//
// A fiber runs until it must wait for others. The next fiber is selected at random, and so is the
// time of asynchronous copies and multiplications: as early or as late as allowed. A missing
// barrier thus causes a wrong result.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace on_cpu {

struct Dim3 {
    unsigned x, y, z;
};

constexpr unsigned WARP = 32;

inline unsigned long long& random_state() {
    static unsigned long long state = 0x9E3779B97F4A7C15ull;
    return state;
}

inline unsigned random_below(unsigned end) {
    unsigned long long& s = random_state();
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (unsigned)((s >> 32) * end >> 32);
}

// Memory that ends at a protected page; an access beyond it is killed.
struct GuardedMemory {
    unsigned char* begin = nullptr;
    std::size_t bytes = 0;
    void* mapping = nullptr;
    std::size_t mapped = 0;

    GuardedMemory() = default;
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    bool allocate(std::size_t n, std::size_t alignment) {
        const std::size_t page = (std::size_t)sysconf(_SC_PAGESIZE);
        const std::size_t room = (n + alignment - 1) / alignment * alignment;
        const std::size_t used = (room + page - 1) / page * page;
        mapped = used + page;
        mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED) {
            mapping = nullptr;
            return false;
        }
        mprotect((unsigned char*)mapping + used, page, PROT_NONE);
        begin = (unsigned char*)mapping + used - room;
        bytes = n;
        return true;
    }

    ~GuardedMemory() {
        if (mapping != nullptr) {
            munmap(mapping, mapped);
        }
    }
};

// A barrier in shared memory.
struct Barrier {
    unsigned arrivals = 0, missing = 0;
    long long bytes = 0;
    unsigned phase = 0;

    void settle() {
        if (missing == 0 && bytes == 0) {
            ++phase;
            missing = arrivals;
        }
    }
};

// The collective operations of the lanes of a warp.
struct Warp {
    unsigned arrived = 0, generation = 0;
    unsigned long long slot[WARP] = {};
    unsigned long long seen[WARP] = {};
    void* pointer[WARP] = {};
};

struct Block {
    Dim3 index{};
    unsigned rank = 0;
    GuardedMemory shared;
    std::vector<Warp> warps;
    std::map<unsigned, Barrier> barriers;
    unsigned arrived = 0, generation = 0;
};

struct Fiber {
    ucontext_t context;
    std::vector<unsigned char> stack;
    Dim3 thread{};
    Block* block = nullptr;
    bool done = true;
    std::function<bool()> ready;
    // Copies and multiplications in flight, by group; the last group is open.
    std::vector<std::vector<std::function<void()>>> copies, products;
};

struct Cluster {
    std::vector<std::unique_ptr<Block>> blocks;
    unsigned arrived = 0, generation = 0;
    // The pending work of the copy engine.
    std::vector<std::function<void()>> copies;
};

struct Machine {
    ucontext_t scheduler;
    std::vector<std::unique_ptr<Fiber>> fibers;
    Fiber* current = nullptr;
    Cluster* cluster = nullptr;
    Dim3 grid{}, block{};
    std::function<void()> body;
    std::string fault;
};

inline Machine& machine() {
    static Machine machine;
    return machine;
}

inline Fiber& current() {
    return *machine().current;
}

inline Block& block() {
    return *current().block;
}

[[noreturn]] inline void fail(const std::string& why) {
    std::fprintf(stderr, "CUDA on the CPU: %s\n", why.c_str());
    std::abort();
}

// Runs other fibers until `ready`.
template <typename F>
void wait_until(F ready) {
    if (ready()) {
        return;
    }
    Fiber& fiber = current();
    fiber.ready = ready;
    swapcontext(&fiber.context, &machine().scheduler);
}

// Waits for all `n` participants of an object that counts its arrivals.
inline void meet(unsigned& arrived, unsigned& generation, unsigned n) {
    const unsigned mine = generation;
    if (++arrived == n) {
        arrived = 0;
        ++generation;
        return;
    }
    wait_until([&generation, mine] { return generation != mine; });
}

inline Warp& warp() {
    return block().warps[current().thread.x / WARP];
}

inline unsigned lane() {
    return current().thread.x % WARP;
}

// The threads of this thread's warp; the last one of a block may be smaller.
inline unsigned warp_size() {
    const unsigned first = current().thread.x / WARP * WARP;
    return machine().block.x - first < WARP ? machine().block.x - first : WARP;
}

// Every lane passes a value; `read` sees those of all.
template <typename F>
auto exchange(unsigned long long value, void* pointer, F read) {
    Warp& w = warp();
    w.slot[lane()] = value;
    w.pointer[lane()] = pointer;
    meet(w.arrived, w.generation, warp_size());
    const auto result = read(w);
    meet(w.arrived, w.generation, warp_size());
    return result;
}

inline void start_fiber() {
    machine().body();
    current().done = true;
    swapcontext(&current().context, &machine().scheduler);
}

// Runs the threads of a cluster to their end.
inline void run_cluster(Cluster& cluster, unsigned threads) {
    Machine& m = machine();
    m.cluster = &cluster;
    const std::size_t n = cluster.blocks.size() * threads;
    while (m.fibers.size() < n) {
        m.fibers.push_back(std::make_unique<Fiber>());
        m.fibers.back()->stack.resize(64 << 10);
    }
    std::vector<Fiber*> running;
    for (std::size_t i = 0; i < n; ++i) {
        Fiber& fiber = *m.fibers[i];
        fiber.thread = {(unsigned)(i % threads), 0, 0};
        fiber.block = cluster.blocks[i / threads].get();
        fiber.done = false;
        fiber.ready = nullptr;
        fiber.copies.assign(1, {});
        fiber.products.assign(1, {});
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, start_fiber, 0);
        running.push_back(&fiber);
    }
    while (!running.empty()) {
        bool moved = false;
        // Starting at a random one, in either direction.
        const std::size_t first = random_below((unsigned)running.size()), size = running.size();
        const bool forward = random_below(2) != 0;
        for (std::size_t k = 0; k < size; ++k) {
            Fiber& fiber = *running[forward ? (first + k) % size : (first + size - k) % size];
            if (fiber.done || (fiber.ready && !fiber.ready())) {
                continue;
            }
            fiber.ready = nullptr;
            m.current = &fiber;
            swapcontext(&m.scheduler, &fiber.context);
            moved = true;
        }
        // The copy engine runs now and then, and as far as it can when no fiber can run.
        while (!cluster.copies.empty() && (!moved || random_below(2) != 0)) {
            const std::size_t i = random_below((unsigned)cluster.copies.size());
            const std::function<void()> copy = cluster.copies[i];
            cluster.copies.erase(cluster.copies.begin() + (long)i);
            copy();
            moved = true;
        }
        if (!moved) {
            fail("all threads wait for each other");
        }
        std::size_t kept = 0;
        for (Fiber* fiber : running) {
            if (!fiber->done) {
                running[kept++] = fiber;
            }
        }
        running.resize(kept);
    }
    if (!cluster.copies.empty()) {
        fail("a block ended before copies to it");
    }
}

// Runs a grid, cluster by cluster, in a random order.
inline void run_grid(Dim3 grid, Dim3 block, unsigned cluster_size, std::size_t shared_bytes, std::function<void()> body) {
    Machine& m = machine();
    m.grid = grid;
    m.block = block;
    m.body = std::move(body);
    const unsigned n_clusters = grid.x / cluster_size * grid.y * grid.z;
    const unsigned offset = random_below(n_clusters);
    for (unsigned i = 0; i < n_clusters; ++i) {
        const unsigned at = (i + offset) % n_clusters, per_row = grid.x / cluster_size;
        Cluster cluster;
        for (unsigned rank = 0; rank < cluster_size; ++rank) {
            cluster.blocks.push_back(std::make_unique<Block>());
            Block& b = *cluster.blocks.back();
            b.index = {at % per_row * cluster_size + rank, at / per_row % grid.y, at / per_row / grid.y};
            b.rank = rank;
            b.warps.resize((block.x + WARP - 1) / WARP);
            if (!b.shared.allocate(shared_bytes, 128)) {
                fail("no memory for a block");
            }
            if (shared_bytes > 0) {
                std::memset(b.shared.begin, 0xA5, shared_bytes);
            }
        }
        run_cluster(cluster, block.x);
    }
}

}  // namespace on_cpu
