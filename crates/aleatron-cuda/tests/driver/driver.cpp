// An emulated CUDA driver whose GPUs are the CPU: the part of the driver's interface that
// aleatron-cuda uses, with its own kernels.
//
// It is strict where a real one may be lenient: work runs only when it is waited for, memory ends
// with its allocation and is not zero initially, and launches must fit their kernels. `on_cpu_set`
// configures another GPU, or a failure.
#ifdef WITHOUT_KERNELS
#include "scheduler.h"
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
namespace on_cpu {
struct Kernel {
    unsigned threads, cluster;
    std::size_t param_bytes;
    std::function<void(const void*)> run;
};
inline std::map<std::string, Kernel>& kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}
}  // namespace on_cpu
#else
#define ALEATRON_ON_CPU
#include "sm_80.cu"
#include "sm_90a.cu"
#endif

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <deque>
#include <mutex>
#include <set>

namespace {

enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
};

struct Event {
    u64 recorded = 0, completed = 0;
    struct Stream* stream = nullptr;
};

struct Operation {
    std::function<void()> run;
    Event* waits_for = nullptr;
    u64 moment = 0;
    Event* records = nullptr;
};

struct Graph {
    std::vector<Operation> operations;
};

struct Stream {
    std::deque<Operation> operations;
    Graph* captures = nullptr;
    // The device whose context it was created in.
    int device = 0;
};

struct Allocation {
    std::unique_ptr<on_cpu::GuardedMemory> memory;
    int device;
    bool on_host;
};

struct Function {
    const on_cpu::Kernel* kernel;
    int max_shared = 48 << 10;
};

struct Module {
    std::map<std::string, std::unique_ptr<Function>> functions;
    std::string text;
};

struct Device {
    int references = 0;
    u64 used = 0;
    // The error of a failed kernel, until the context is created again.
    int broken = SUCCESS;
};

struct Driver {
    std::recursive_mutex mutex;
    std::map<std::string, long long> settings = {{"version", 12000}, {"capability", 90},     {"processors", 3},
                                                 {"devices", 1},     {"memory", 1ll << 32}};
    std::map<std::string, long long> calls;
    std::map<u64, Allocation> allocations;
    std::vector<Device> devices{8};
    std::set<Stream*> streams;
    std::vector<int> contexts;
    Stream default_stream;
};

Driver& driver() {
    // Never destroyed: handles may outlive everything else.
    static Driver* driver = new Driver;
    return *driver;
}

long long setting(const std::string& name) {
    const auto found = driver().settings.find(name);
    return found == driver().settings.end() ? 0 : found->second;
}

thread_local std::vector<int> current_contexts;

// The error of a failing call: `fail NAME` is the error, `skip NAME` the number of successful calls
// before it.
int planned_failure(const std::string& name) {
    auto& settings = driver().settings;
    const long long error = setting("fail " + name);
    if (error == 0) {
        return SUCCESS;
    }
    if (settings["skip " + name]-- > 0) {
        return SUCCESS;
    }
    settings["fail " + name] = 0;
    return (int)error;
}

// The prologue of every call: it is counted, fails if requested, and requires a valid context.
#define BEGIN(NAME)                                               \
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);   \
    ++driver().calls[NAME];                                       \
    if (const int planned = planned_failure(NAME)) {              \
        return planned;                                           \
    }

#define BEGIN_IN_CONTEXT(NAME)                                    \
    BEGIN(NAME)                                                   \
    if (current_contexts.empty()) {                               \
        return INVALID_CONTEXT;                                   \
    }                                                             \
    Device& device = driver().devices[current_contexts.back()];   \
    if (device.broken != SUCCESS) {                               \
        return device.broken;                                     \
    }

void drain(Stream& stream) {
    while (!stream.operations.empty()) {
        Operation operation = stream.operations.front();
        if (operation.waits_for != nullptr && operation.waits_for->completed < operation.moment) {
            if (operation.waits_for->stream == &stream) {
                on_cpu::fail("a stream waits for itself");
            }
            drain(*operation.waits_for->stream);
            continue;
        }
        stream.operations.pop_front();
        if (operation.run) {
            operation.run();
        }
        if (operation.records != nullptr && operation.records->completed < operation.moment) {
            operation.records->completed = operation.moment;
        }
    }
}

void drain_all() {
    for (Stream* stream : driver().streams) {
        drain(*stream);
    }
    drain(driver().default_stream);
}

// Streams are handles; 0, 1 and 2 are the default streams.
Stream& stream_of(void* handle) {
    return (u64)handle < 16 ? driver().default_stream : *(Stream*)handle;
}

void enqueue(void* handle, Operation operation) {
    Stream& stream = stream_of(handle);
    if (stream.captures != nullptr) {
        stream.captures->operations.push_back(std::move(operation));
    } else {
        stream.operations.push_back(std::move(operation));
    }
}

void enqueue(void* handle, std::function<void()> run) {
    Operation operation;
    operation.run = std::move(run);
    enqueue(handle, std::move(operation));
}

// The allocation that contains a range, if any.
const Allocation* allocation_of(u64 address, u64 bytes) {
    auto after = driver().allocations.upper_bound(address);
    if (after == driver().allocations.begin()) {
        return nullptr;
    }
    const Allocation& before = std::prev(after)->second;
    const u64 begin = (u64)before.memory->begin, size = before.memory->bytes;
    return address - begin <= size && bytes <= size - (address - begin) ? &before : nullptr;
}

// The initial contents of memory.
const u8 UNWRITTEN_BYTE = 0xA5;
const u64 UNWRITTEN = 0xA5A5A5A5A5A5A5A5ull;

// Counts the words of a copy to the host that were never written, as "unwritten words copied".
void count_unwritten(const void* from, std::size_t bytes) {
    long long& unwritten = driver().calls["unwritten words copied"];
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
        u64 word;
        std::memcpy(&word, (const u8*)from + at, 8);
        unwritten += word == UNWRITTEN;
    }
}

bool is_device(u64 address, u64 bytes) {
    return bytes == 0 || allocation_of(address, bytes) != nullptr;
}

int allocate(u64* address, u64 bytes, bool on_host) {
    const int at = current_contexts.back();
    Device& device = driver().devices[at];
    if (bytes == 0) {
        return INVALID_VALUE;
    }
    if (!on_host && bytes > (u64)setting("memory") - device.used) {
        return OUT_OF_MEMORY;
    }
    auto memory = std::make_unique<on_cpu::GuardedMemory>();
    if (!memory->allocate(bytes, 256)) {
        return OUT_OF_MEMORY;
    }
    // Unwritten memory is not zero; for large allocations, only the beginning.
    std::memset(memory->begin, UNWRITTEN_BYTE, bytes < (64u << 20) ? bytes : 64u << 20);
    *address = (u64)memory->begin;
    if (!on_host) {
        device.used += bytes;
        driver().calls["address of the last allocation"] = (long long)*address;
    }
    driver().allocations[*address] = {std::move(memory), at, on_host};
    return SUCCESS;
}

int release(u64 address, bool on_host) {
    drain_all();
    auto found = driver().allocations.find(address);
    if (found == driver().allocations.end() || found->second.on_host != on_host) {
        return INVALID_VALUE;
    }
    if (!on_host) {
        driver().devices[found->second.device].used -= found->second.memory->bytes;
    }
    driver().allocations.erase(found);
    return SUCCESS;
}

// A deferred launch, with a copy of its parameters.
struct Launch {
    const on_cpu::Kernel* kernel;
    on_cpu::Dim3 grid, block;
    u32 shared;
    std::shared_ptr<void> params;

    void operator()() const {
        if (kernel->run) {
            const Launch copy = *this;
            on_cpu::run_grid(grid, block, kernel->cluster, shared, [copy] { copy.kernel->run(copy.params.get()); });
        }
    }
};

// A launch in the form of graphs.
struct StepParams {
    const Function* function;
    u32 grid[3], block[3], shared;
    void **params, **extra;
    void *kernel, *context;
};

bool is_possible(const StepParams& step) {
    const u32 *grid = step.grid, *block = step.block;
    const on_cpu::Kernel& kernel = *step.function->kernel;
    const bool fits = grid[0] != 0 && grid[1] != 0 && grid[2] != 0 && grid[1] <= 65535 && grid[0] <= 0x7FFFFFFF;
    return fits && block[0] == kernel.threads && block[1] == 1 && block[2] == 1 && step.extra == nullptr &&
           (int)step.shared <= step.function->max_shared && grid[0] % kernel.cluster == 0;
}

// Parameters are copied at once, aligned for kernels.
Operation operation_of(const StepParams& step) {
    const on_cpu::Kernel& kernel = *step.function->kernel;
    std::shared_ptr<void> copy(std::aligned_alloc(64, (kernel.param_bytes + 63) / 64 * 64), std::free);
    std::memcpy(copy.get(), step.params[0], kernel.param_bytes);
    Operation operation;
    operation.run = Launch{&kernel, {step.grid[0], step.grid[1], step.grid[2]}, {step.block[0], 1, 1}, step.shared, copy};
    return operation;
}

// Whether a test makes the next kernel fail, which it then does.
bool breaks(Device& device) {
    const int error = (int)setting("kernel fails");
    driver().settings["kernel fails"] = 0;
    device.broken = error == SUCCESS ? device.broken : error;
    return error != SUCCESS;
}

}  // namespace

extern "C" {

// Settings and the number of calls, for tests.
void on_cpu_set(const char* name, long long value) {
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);
    if (std::string(name) == "random") {
        on_cpu::random_state() = 0x9E3779B97F4A7C15ull ^ (u64)value * 0xD2511F53ull;
    }
    driver().settings[name] = value;
}

long long on_cpu_calls(const char* name) {
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);
    return driver().calls[name];
}

int cuInit(u32) {
    if (const char* text = std::getenv("ALEATRON_CUDA_ON_CPU")) {
        // name=value, separated by commas
        std::string rest = text;
        while (!rest.empty()) {
            const std::size_t end = rest.find(','), equals = rest.find('=');
            if (equals != std::string::npos) {
                on_cpu_set(rest.substr(0, equals).c_str(), std::atoll(rest.substr(equals + 1).c_str()));
            }
            rest = end == std::string::npos ? "" : rest.substr(end + 1);
        }
    }
    BEGIN("cuInit")
    return setting("devices") == 0 ? NO_DEVICE : SUCCESS;
}

int cuDriverGetVersion(int* version) {
    BEGIN("cuDriverGetVersion")
    *version = (int)setting("version");
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    BEGIN("cuDeviceGetCount")
    *count = (int)setting("devices");
    return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
    BEGIN("cuDeviceGet")
    *device = ordinal;
    return ordinal < setting("devices") ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char* name, int length, int device) {
    BEGIN("cuDeviceGetName")
    std::snprintf(name, (std::size_t)length, "CPU as card %d", device);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    BEGIN("cuDeviceTotalMem_v2")
    *bytes = (std::size_t)setting("memory");
    return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
    BEGIN("cuDeviceGetAttribute")
    const long long capability = setting("capability");
    switch (attribute) {
        case 16:
            *value = (int)setting("processors");
            return SUCCESS;
        case 75:
            *value = (int)(capability / 10);
            return SUCCESS;
        case 76:
            *value = (int)(capability % 10);
            return SUCCESS;
        case 97:
            *value = (capability == 86 || capability == 89 ? 99 : capability == 80 ? 163 : 227) << 10;
            return SUCCESS;
        default:
            return INVALID_VALUE;
    }
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    BEGIN("cuDevicePrimaryCtxRetain")
    ++driver().devices[device].references;
    *context = (void*)(u64)(device + 1);
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN("cuDevicePrimaryCtxRelease_v2")
    if (--driver().devices[device].references == 0) {
        driver().devices[device].broken = SUCCESS;
    }
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void* context) {
    BEGIN("cuCtxPushCurrent_v2")
    current_contexts.push_back((int)(u64)context - 1);
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void** context) {
    BEGIN("cuCtxPopCurrent_v2")
    if (current_contexts.empty()) {
        return INVALID_CONTEXT;
    }
    *context = (void*)(u64)(current_contexts.back() + 1);
    current_contexts.pop_back();
    return SUCCESS;
}

int cuCtxSynchronize() {
    BEGIN_IN_CONTEXT("cuCtxSynchronize")
    drain_all();
    return SUCCESS;
}

int cuModuleLoadData(void** module, const void* image) {
    BEGIN_IN_CONTEXT("cuModuleLoadData")
    auto made = std::make_unique<Module>();
    made->text = (const char*)image;
    int major = 0, minor = 0;
    const std::size_t at = made->text.find(".version ");
    if (at == std::string::npos || std::sscanf(made->text.c_str() + at, ".version %d.%d", &major, &minor) != 2) {
        return INVALID_VALUE;
    }
    // A driver of CUDA 12.0 knows PTX 8.0, and so on.
    const long long version = setting("version"), knows = (version / 1000 - 4) * 10 + version % 1000 / 10;
    if (major * 10 + minor > knows) {
        return UNSUPPORTED_PTX_VERSION;
    }
    if (made->text.find(".target sm_90a") != std::string::npos && setting("capability") != 90) {
        return NO_BINARY_FOR_GPU;
    }
    *module = made.release();
    return SUCCESS;
}

int cuModuleUnload(void* module) {
    BEGIN_IN_CONTEXT("cuModuleUnload")
    delete (Module*)module;
    return SUCCESS;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
    BEGIN_IN_CONTEXT("cuModuleGetFunction")
    Module& from = *(Module*)module;
    const auto found = on_cpu::kernels().find(name);
    if (from.text.find(std::string(".entry ") + name + "(") == std::string::npos || found == on_cpu::kernels().end()) {
        return NOT_FOUND;
    }
    auto& made = from.functions[name];
    if (!made) {
        made = std::make_unique<Function>();
        made->kernel = &found->second;
    }
    *function = made.get();
    return SUCCESS;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
    BEGIN_IN_CONTEXT("cuFuncSetAttribute")
    int most = 0;
    cuDeviceGetAttribute(&most, 97, 0);
    if (attribute != 8 || value > most) {
        return INVALID_VALUE;
    }
    ((Function*)function)->max_shared = value;
    return SUCCESS;
}

int cuLaunchKernel(void* function, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void* stream, void** params,
                   void** extra) {
    BEGIN_IN_CONTEXT("cuLaunchKernel")
    const StepParams step = {(const Function*)function, {gx, gy, gz}, {bx, by, bz}, shared, params, extra, nullptr, nullptr};
    if (!is_possible(step)) {
        return INVALID_VALUE;
    }
    if (!breaks(device)) {
        enqueue(stream, operation_of(step));
    }
    return SUCCESS;
}

int cuMemAlloc_v2(u64* address, std::size_t bytes) {
    BEGIN_IN_CONTEXT("cuMemAlloc_v2")
    return allocate(address, bytes, false);
}

int cuMemFree_v2(u64 address) {
    BEGIN_IN_CONTEXT("cuMemFree_v2")
    return release(address, false);
}

int cuMemGetInfo_v2(std::size_t* left, std::size_t* total) {
    BEGIN_IN_CONTEXT("cuMemGetInfo_v2")
    *total = (std::size_t)setting("memory");
    *left = *total - device.used;
    return SUCCESS;
}

int cuMemHostAlloc(void** pointer, std::size_t bytes, u32) {
    BEGIN_IN_CONTEXT("cuMemHostAlloc")
    return allocate((u64*)pointer, bytes, true);
}

int cuMemFreeHost(void* pointer) {
    BEGIN_IN_CONTEXT("cuMemFreeHost")
    return release((u64)pointer, true);
}

int cuMemcpyHtoDAsync_v2(u64 to, const void* from, std::size_t bytes, void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpyHtoDAsync_v2")
    if (!is_device(to, bytes) || allocation_of((u64)from, bytes) == nullptr) {
        return INVALID_VALUE;
    }
    enqueue(stream, [=] { std::memcpy((void*)to, from, bytes); });
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void* to, u64 from, std::size_t bytes, void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpyDtoHAsync_v2")
    if (!is_device(from, bytes) || allocation_of((u64)to, bytes) == nullptr) {
        return INVALID_VALUE;
    }
    enqueue(stream, [=] {
        count_unwritten((const void*)from, bytes);
        std::memcpy(to, (const void*)from, bytes);
    });
    return SUCCESS;
}

struct Copy2D {
    std::size_t from_x, from_y;
    int from_type;
    const void* from_host;
    u64 from_device;
    void* from_array;
    std::size_t from_pitch, to_x, to_y;
    int to_type;
    void* to_host;
    u64 to_device;
    void* to_array;
    std::size_t to_pitch, bytes, rows;
};

int cuMemcpy2DAsync_v2(const Copy2D* copy, void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpy2DAsync_v2")
    // 1 is the host, 2 a device.
    const u64 from = copy->from_type == 1 ? (u64)copy->from_host : copy->from_device;
    const u64 to = copy->to_type == 1 ? (u64)copy->to_host : copy->to_device;
    const u64 last = copy->rows - 1;
    if (copy->rows == 0 || copy->from_pitch < copy->bytes || copy->to_pitch < copy->bytes ||
        allocation_of(from, last * copy->from_pitch + copy->bytes) == nullptr ||
        allocation_of(to, last * copy->to_pitch + copy->bytes) == nullptr || copy->from_x + copy->from_y + copy->to_x + copy->to_y) {
        return INVALID_VALUE;
    }
    const Copy2D c = *copy;
    enqueue(stream, [=] {
        for (std::size_t row = 0; row < c.rows; ++row) {
            std::memcpy((u8*)to + row * c.to_pitch, (const u8*)from + row * c.from_pitch, c.bytes);
        }
    });
    return SUCCESS;
}

int cuMemsetD32Async(u64 to, u32 value, std::size_t n, void* stream) {
    BEGIN_IN_CONTEXT("cuMemsetD32Async")
    if (!is_device(to, 4 * n) || to % 4 != 0) {
        return INVALID_VALUE;
    }
    enqueue(stream, [=] {
        for (std::size_t i = 0; i < n; ++i) {
            ((u32*)to)[i] = value;
        }
    });
    return SUCCESS;
}

int cuStreamCreate(void** stream, u32) {
    BEGIN_IN_CONTEXT("cuStreamCreate")
    auto* made = new Stream;
    made->device = current_contexts.back();
    driver().calls["handle of the last stream"] = (long long)(u64)made;
    driver().streams.insert(made);
    *stream = made;
    return SUCCESS;
}

int cuStreamGetCtx(void* stream, void** context) {
    BEGIN_IN_CONTEXT("cuStreamGetCtx")
    if (driver().streams.count((Stream*)stream) == 0) {
        return INVALID_HANDLE;
    }
    *context = (void*)(u64)(((Stream*)stream)->device + 1);
    return SUCCESS;
}

int cuStreamDestroy_v2(void* stream) {
    BEGIN("cuStreamDestroy_v2")
    // Its events may be waited for: it is emptied and retained.
    drain(stream_of(stream));
    return SUCCESS;
}

int cuStreamSynchronize(void* stream) {
    BEGIN_IN_CONTEXT("cuStreamSynchronize")
    if (stream_of(stream).captures != nullptr) {
        return CAPTURE_UNSUPPORTED;
    }
    drain(stream_of(stream));
    return SUCCESS;
}

int cuStreamWaitEvent(void* stream, void* event, u32) {
    BEGIN_IN_CONTEXT("cuStreamWaitEvent")
    Operation operation;
    operation.waits_for = (Event*)event;
    operation.moment = operation.waits_for->recorded;
    enqueue(stream, operation);
    return SUCCESS;
}

int cuEventCreate(void** event, u32) {
    BEGIN_IN_CONTEXT("cuEventCreate")
    *event = new Event;
    return SUCCESS;
}

int cuEventDestroy_v2(void* event) {
    BEGIN("cuEventDestroy_v2")
    drain_all();
    delete (Event*)event;
    return SUCCESS;
}

int cuEventRecord(void* event, void* stream) {
    BEGIN_IN_CONTEXT("cuEventRecord")
    Event& e = *(Event*)event;
    e.stream = &stream_of(stream);
    Operation operation;
    operation.records = &e;
    operation.moment = ++e.recorded;
    enqueue(stream, operation);
    return SUCCESS;
}

int cuEventSynchronize(void* event) {
    BEGIN_IN_CONTEXT("cuEventSynchronize")
    Event& e = *(Event*)event;
    if (e.completed < e.recorded) {
        drain(*e.stream);
    }
    return SUCCESS;
}

int cuEventElapsedTime(float* milliseconds, void*, void*) {
    BEGIN_IN_CONTEXT("cuEventElapsedTime")
    *milliseconds = 1.0f;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(void* stream, int) {
    BEGIN_IN_CONTEXT("cuStreamBeginCapture_v2")
    stream_of(stream).captures = new Graph;
    return SUCCESS;
}

int cuStreamEndCapture(void* stream, void** graph) {
    BEGIN_IN_CONTEXT("cuStreamEndCapture")
    *graph = stream_of(stream).captures;
    stream_of(stream).captures = nullptr;
    return SUCCESS;
}

int cuGraphCreate(void** graph, u32) {
    BEGIN_IN_CONTEXT("cuGraphCreate")
    *graph = new Graph;
    return SUCCESS;
}

int cuGraphAddKernelNode_v2(std::size_t* node, void* graph, const void*, std::size_t n_before, const StepParams* step) {
    BEGIN_IN_CONTEXT("cuGraphAddKernelNode_v2")
    if (!is_possible(*step) || n_before != 0) {
        return INVALID_VALUE;
    }
    // A node is identified by its index, counted from one.
    ((Graph*)graph)->operations.push_back(operation_of(*step));
    *node = ((Graph*)graph)->operations.size();
    return SUCCESS;
}

int cuGraphExecKernelNodeSetParams_v2(void* executable, std::size_t node, const StepParams* step) {
    BEGIN_IN_CONTEXT("cuGraphExecKernelNodeSetParams_v2")
    std::vector<Operation>& operations = ((Graph*)executable)->operations;
    if (!is_possible(*step) || node == 0 || node > operations.size()) {
        return INVALID_VALUE;
    }
    operations[node - 1] = operation_of(*step);
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, u64) {
    BEGIN_IN_CONTEXT("cuGraphInstantiateWithFlags")
    *executable = new Graph(*(Graph*)graph);
    return SUCCESS;
}

int cuGraphLaunch(void* executable, void* stream) {
    BEGIN_IN_CONTEXT("cuGraphLaunch")
    if (breaks(device)) {
        return SUCCESS;
    }
    for (const Operation& operation : ((Graph*)executable)->operations) {
        enqueue(stream, operation);
    }
    return SUCCESS;
}

int cuGraphExecDestroy(void* executable) {
    BEGIN("cuGraphExecDestroy")
    delete (Graph*)executable;
    return SUCCESS;
}

int cuGraphDestroy(void* graph) {
    BEGIN("cuGraphDestroy")
    delete (Graph*)graph;
    return SUCCESS;
}

int cuPointerGetAttributes(u32 n, int* attributes, void** values, u64 address) {
    BEGIN_IN_CONTEXT("cuPointerGetAttributes")
    // For memory that the driver does not know, all is zero.
    const Allocation* found = allocation_of(address, 1);
    for (u32 i = 0; i < n; ++i) {
        switch (attributes[i]) {
            case 2:
                *(u32*)values[i] = found == nullptr ? 0 : found->on_host ? 1 : 2;
                break;
            case 9:
                *(int*)values[i] = found == nullptr ? -2 : found->device;
                break;
            case 11:
                *(u64*)values[i] = found == nullptr ? 0 : (u64)found->memory->begin;
                break;
            case 12:
                *(std::size_t*)values[i] = found == nullptr ? 0 : found->memory->bytes;
                break;
            default:
                return INVALID_VALUE;
        }
    }
    return SUCCESS;
}

#ifndef OLD_DRIVER
int cuTensorMapEncodeTiled(void* map, int type, u32 rank, void* address, const u64* sizes, const u64* strides, const u32* box,
                           const u32* steps, int interleave, int swizzle, int, int) {
    BEGIN_IN_CONTEXT("cuTensorMapEncodeTiled")
    const bool fits = type == 0 && rank == 2 && interleave == 0 && swizzle == 3 && steps[0] == 1 && steps[1] == 1 &&
                      box[0] == 128 && box[1] >= 1 && box[1] <= 256 && strides[0] % 16 == 0 && strides[0] < 1ull << 40 &&
                      sizes[0] >= 1 && sizes[0] <= 1ull << 32 && sizes[1] >= 1 && sizes[1] <= 1ull << 32 &&
                      (u64)address % 16 == 0 && (u64)map % 64 == 0;
    if (!fits) {
        return INVALID_VALUE;
    }
#ifndef WITHOUT_KERNELS
    const on_cpu::Matrix matrix = {(const u8*)address, sizes[0], sizes[1], strides[0], box[0], box[1]};
    std::memset(map, 0, sizeof(TensorMap));
    std::memcpy(map, &matrix, sizeof matrix);
#endif
    return SUCCESS;
}
#endif

int cuGetErrorName(int error, const char** name) {
    BEGIN("cuGetErrorName")
    switch (error) {
        case OUT_OF_MEMORY:
            *name = "CUDA_ERROR_OUT_OF_MEMORY";
            return SUCCESS;
        case LAUNCH_FAILED:
            *name = "CUDA_ERROR_LAUNCH_FAILED";
            return SUCCESS;
        case UNSUPPORTED_PTX_VERSION:
            *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
            return SUCCESS;
        case NO_DEVICE:
            *name = "CUDA_ERROR_NO_DEVICE";
            return SUCCESS;
        default:
            return INVALID_VALUE;
    }
}

}  // extern "C"
