// The CUDA driver of an emulated GPU: the part of its C interface that Hone calls.
//
// Every stream is a queue. Early, work is done when it is queued; late (EMULATOR_ORDER=late), when the host waits for it, so that
// what nothing waits for is missing. A buffer ends where its pages do, within 255 bytes; freed memory is unmapped; fresh memory is NaN.
// Hollow (EMULATOR_HOLLOW=1), kernels and products do nothing and memory is only reserved: plans and peaks of real models.

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

enum { OK, INVALID = 1, NO_MEMORY = 2, NO_CONTEXT = 201, NOT_FOUND = 500, CAPTURING = 900 };
typedef std::function<void()> Work;

std::recursive_mutex lock;
#define LOCKED std::lock_guard<std::recursive_mutex> held(lock)
thread_local void* context;
#define IN_CONTEXT \
    LOCKED;        \
    if (!context) return NO_CONTEXT

long setting(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? atol(text) : otherwise;
}
bool late() {
    const char* order = getenv("EMULATOR_ORDER");
    return order && !strcmp(order, "late");
}
bool hollow() { return setting("EMULATOR_HOLLOW", 0); }

/// Bytes of shared memory that a block may have.
int most_shared() {
    switch (setting("EMULATOR_CAPABILITY", 90)) {
        case 80: case 87: return 163 << 10;
        case 90: case 100: case 103: return 227 << 10;
        default: return 99 << 10;
    }
}

struct Stream {
    std::deque<Work> queue;
    std::vector<Work>* recorded = nullptr;

    void drain(size_t left = 0) {
        while (queue.size() > left) {
            Work work = std::move(queue.front());
            queue.pop_front();
            work();
        }
    }
    void add(Work work) {
        if (recorded) return recorded->push_back(std::move(work));
        queue.push_back(std::move(work));
        if (!late()) drain();
        else if (queue.size() > 4096) drain(2048);
    }
};
std::vector<Stream*> streams;

// A place in a stream, reached when its work has been done.
struct Mark {
    Stream* stream;
    bool reached = false;
    std::chrono::steady_clock::time_point time;

    void reach() {
        while (!reached && !stream->queue.empty()) stream->drain(stream->queue.size() - 1);
    }
};
struct Event {
    std::shared_ptr<Mark> mark;
};

// Memory: mapped up to the end of a buffer, rounded to 256 bytes, and not beyond.
constexpr uint64_t PAGE = 4096, GRAIN = 512, CONTEXT = 500 << 20;
struct Block {
    char* map;
    uint64_t mapped, bytes;
};
std::map<uint64_t, Block> blocks;
std::map<uint64_t, uint64_t> pinned;
uint64_t used, peak, reserved;
uint64_t total() { return (uint64_t)(setting("EMULATOR_MEMORY_MB", 143771)) << 20; }

bool is_pinned(const void* p) {
    auto after = pinned.upper_bound((uint64_t)p);
    return after != pinned.begin() && (uint64_t)p < std::prev(after)->first + std::prev(after)->second;
}

void die(const char* what) {
    fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}
void expect_range(uint64_t at, uint64_t bytes, const char* what) {
    auto after = blocks.upper_bound(at);
    if (after == blocks.begin()) die(what);
    auto& [start, block] = *std::prev(after);
    if (at + bytes > start + block.bytes) die(what);
}
/// True if an operation on this many bytes is done in hollow mode too: flags and counts are, weights are not.
bool done_for(uint64_t bytes) { return !hollow() || bytes <= 1 << 20; }

struct Module {
    const Kernel* table;
    size_t count;
    void (*run)(const Kernel*, const unsigned*, unsigned, unsigned, void**);
    const char* (*place)();
};
struct Function {
    Module* module;
    const Kernel* kernel;
    unsigned shared = 48 << 10;
};
Module* now;

void on_fault(int signal, siginfo_t* info, void*) {
    char text[400];
    int n = snprintf(text, sizeof text, "emulated GPU: illegal address %p (signal %d) in %s\n", info->si_addr, signal,
                     now ? now->place() : "the host");
    if (write(2, text, n)) {}
    abort();
}

}  // namespace

/// For the emulated cuBLASLt: queues work on a stream.
extern "C" __attribute__((visibility("default"))) void emulated_queue(Stream* stream, void (*run)(void*), void* with, size_t bytes) {
    LOCKED;
    std::vector<char> copy((char*)with, (char*)with + bytes);
    stream->add([run, copy]() mutable {
        if (!hollow()) run(copy.data());
    });
}

API cuGetErrorName(int error, const char** to) { return *to = error == NO_MEMORY ? "out of memory" : "emulated error", OK; }
API cuGetErrorString(int error, const char** to) { return cuGetErrorName(error, to); }
API cuDriverGetVersion(int* version) { return *version = 13000, OK; }
API cuInit(unsigned) {
    static bool once = [] {
        static char stack[64 << 10];
        stack_t alternative = {stack, 0, sizeof stack};
        sigaltstack(&alternative, nullptr);
        struct sigaction action = {};
        action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int signal : {SIGSEGV, SIGBUS, SIGILL}) sigaction(signal, &action, nullptr);
        return true;
    }();
    return once ? OK : INVALID;
}
API cuDeviceGetCount(int* count) { return *count = 1, OK; }
API cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal ? INVALID : OK; }
API cuDeviceGetName(char* name, int len, int) { return strncpy(name, "an emulated GPU", len), OK; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16: return *value = setting("EMULATOR_PROCESSORS", 5), OK;
        case 36: return *value = 1'000'000, OK;
        case 37: return *value = 4096, OK;
        case 75: return *value = setting("EMULATOR_CAPABILITY", 90) / 10, OK;
        case 76: return *value = setting("EMULATOR_CAPABILITY", 90) % 10, OK;
        case 97: return *value = most_shared(), OK;
        case 115: return *value = 1, OK;
        default: return INVALID;
    }
}
API cuDevicePrimaryCtxRetain(void** to, int) { return *to = &lock, OK; }
API cuDevicePrimaryCtxRelease_v2(int) { return OK; }
API cuCtxGetCurrent(void** to) { return *to = context, OK; }
API cuCtxSetCurrent(void* to) { return context = to, OK; }
API cuCtxSynchronize() {
    IN_CONTEXT;
    for (Stream* stream : streams) stream->drain();
    return OK;
}

API cuStreamCreate(Stream** to, unsigned) {
    IN_CONTEXT;
    return streams.push_back(*to = new Stream), OK;
}
API cuStreamDestroy_v2(Stream* stream) {
    LOCKED;
    stream->drain();
    std::erase(streams, stream);
    return delete stream, OK;
}
API cuStreamSynchronize(Stream* stream) {
    IN_CONTEXT;
    if (stream->recorded) return CAPTURING;
    return stream->drain(), OK;
}
API cuEventCreate(Event** to, unsigned) {
    IN_CONTEXT;
    return *to = new Event, OK;
}
API cuEventDestroy_v2(Event* event) {
    LOCKED;
    return delete event, OK;
}
API cuEventRecord(Event* event, Stream* stream) {
    IN_CONTEXT;
    auto mark = event->mark = std::make_shared<Mark>(Mark{stream, false, {}});
    stream->add([mark] { mark->reached = true, mark->time = std::chrono::steady_clock::now(); });
    return OK;
}
API cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    IN_CONTEXT;
    if (auto mark = event->mark) stream->add([mark] { mark->reach(); });
    return OK;
}
API cuEventSynchronize(Event* event) {
    IN_CONTEXT;
    if (event->mark) event->mark->reach();
    return OK;
}
API cuEventElapsedTime_v2(float* ms, Event* from, Event* to) {
    IN_CONTEXT;
    if (!from->mark || !to->mark || !from->mark->reached || !to->mark->reached) return INVALID;
    return *ms = std::chrono::duration<float, std::milli>(to->mark->time - from->mark->time).count(), OK;
}
API cuEventElapsedTime(float* ms, Event* from, Event* to) { return cuEventElapsedTime_v2(ms, from, to); }

API cuMemGetInfo_v2(size_t* free, size_t* all) {
    IN_CONTEXT;
    return *all = total(), *free = total() - std::min(total(), CONTEXT + reserved), OK;
}
API cuDeviceGetDefaultMemPool(void** pool, int) { return *pool = &blocks, OK; }
API cuMemPoolGetAttribute(void*, int attribute, uint64_t* value) {
    LOCKED;
    switch (attribute) {
        case 5: return *value = reserved, OK;
        case 7: return *value = used, OK;
        case 8: return *value = peak, OK;
        default: return INVALID;
    }
}
API cuMemPoolSetAttribute(void*, int attribute, uint64_t*) {
    LOCKED;
    if (attribute == 8) peak = used;
    return attribute == 4 || attribute == 8 ? OK : INVALID;
}
API cuMemAllocAsync(uint64_t* to, size_t bytes, Stream* stream) {
    IN_CONTEXT;
    if (stream->recorded) return CAPTURING;
    uint64_t taken = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    if (used + taken + CONTEXT > total()) return NO_MEMORY;
    uint64_t whole = (bytes + 255) / 256 * 256, pages = (whole + PAGE - 1) / PAGE * PAGE, mapped = pages + 2 * PAGE;
    char* map = (char*)mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map + PAGE, pages, PROT_READ | PROT_WRITE)) return NO_MEMORY;
    char* start = map + PAGE + pages - whole;
    if (!hollow()) memset(map + PAGE, 0xff, pages);
    blocks[*to = (uint64_t)start] = {map, mapped, bytes};
    used += taken, peak = std::max(peak, used), reserved = std::max(reserved, used);
    return OK;
}
API cuMemFreeAsync(uint64_t at, Stream* stream) {
    IN_CONTEXT;
    if (stream->recorded) return CAPTURING;
    auto found = blocks.find(at);
    if (found == blocks.end()) return INVALID;
    used -= (found->second.bytes + GRAIN - 1) / GRAIN * GRAIN;
    stream->add([at] {
        auto found = blocks.find(at);
        if (found == blocks.end()) die("memory freed twice");
        munmap(found->second.map, found->second.mapped);
        blocks.erase(found);
    });
    return OK;
}
API cuMemHostAlloc(void** to, size_t bytes, unsigned) {
    IN_CONTEXT;
    *to = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    return *to ? (pinned[(uint64_t)*to] = bytes, OK) : NO_MEMORY;
}
API cuMemFreeHost(void* at) {
    LOCKED;
    // As the driver does, after what is queued.
    for (Stream* stream : streams) stream->drain();
    return pinned.erase((uint64_t)at) ? free(at), OK : INVALID;
}

API cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, Stream* stream) {
    IN_CONTEXT;
    stream->add([=] {
        expect_range(at, bytes, "memset past a buffer");
        if (done_for(bytes)) memset((void*)at, byte, bytes);
    });
    return OK;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
    IN_CONTEXT;
    if (stream->recorded) return CAPTURING;
    auto copy = [=](const void* from) {
        expect_range(to, bytes, "copy past a buffer");
        if (done_for(bytes)) memcpy((void*)to, from, bytes);
    };
    // Page-locked memory is read when the stream gets there, other memory before the call returns.
    if (is_pinned(from)) return stream->add([=] { copy(from); }), OK;
    if (!late() || !done_for(bytes)) return stream->drain(), copy(from), OK;
    std::vector<char> staged((const char*)from, (const char*)from + bytes);
    return stream->add([=] { copy(staged.data()); }), OK;
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
    IN_CONTEXT;
    if (stream->recorded) return CAPTURING;
    auto copy = [=] {
        expect_range(from, bytes, "copy past a buffer");
        if (done_for(bytes)) memcpy(to, (void*)from, bytes);
    };
    if (is_pinned(to)) return stream->add(copy), OK;
    return stream->drain(), copy(), OK;
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
    IN_CONTEXT;
    stream->add([=] {
        expect_range(from, bytes, "copy past a buffer"), expect_range(to, bytes, "copy past a buffer");
        if (done_for(bytes)) memcpy((void*)to, (void*)from, bytes);
    });
    return OK;
}

// A module's image is the path of a library (nvrtc.cpp).
API cuModuleLoadData(Module** to, const char* image) {
    IN_CONTEXT;
    void* library = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "emulated GPU: %s\n", dlerror()), INVALID;
    auto symbol = [&](const char* name) { return dlsym(library, name); };
    for (const char* name : {"emulated_kernels", "emulated_count", "emulated_run", "emulated_place"})
        if (!symbol(name)) return fprintf(stderr, "emulated GPU: %s has no %s\n", image, name), INVALID;
    *to = new Module{(const Kernel*)symbol("emulated_kernels"), *(size_t*)symbol("emulated_count"),
                     (decltype(Module::run))symbol("emulated_run"), (decltype(Module::place))symbol("emulated_place")};
    return OK;
}
API cuModuleGetFunction(Function** to, Module* module, const char* name) {
    IN_CONTEXT;
    for (size_t i = 0; i < module->count; i++)
        if (!strcmp(module->table[i].name, name)) return *to = new Function{module, module->table + i}, OK;
    return NOT_FOUND;
}
API cuFuncSetAttribute(Function* function, int attribute, int value) {
    if (attribute != 8 || value > most_shared()) return INVALID;
    return function->shared = value, OK;
}
API cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, Stream* stream, void** arguments, void**) {
    IN_CONTEXT;
    const Kernel* kernel = function->kernel;
    bool fits = gx && gx < 1u << 31 && gy && gy < 1 << 16 && gz == 1 && threads && threads <= kernel->bound && ty == 1 && tz == 1;
    if (!fits || shared > function->shared) return INVALID;
    // Each parameter in words of its own, as strictly aligned as any may be.
    struct alignas(64) Word { char bytes[64]; };
    std::vector<std::vector<Word>> copies;
    for (size_t i = 0; i < kernel->parameters; i++) {
        copies.emplace_back((kernel->sizes[i] + sizeof(Word) - 1) / sizeof(Word));
        memcpy(copies[i].data(), arguments[i], kernel->sizes[i]);
    }
    stream->add([=]() mutable {
        if (hollow()) return;
        std::vector<void*> addresses;
        for (auto& copy : copies) addresses.push_back(copy.data());
        unsigned grid[3] = {gx, gy, gz};
        now = function->module;
        now->run(kernel, grid, threads, shared, addresses.data());
        now = nullptr;
    });
    return OK;
}

API cuStreamBeginCapture_v2(Stream* stream, int) {
    IN_CONTEXT;
    if (stream->recorded) return INVALID;
    return stream->recorded = new std::vector<Work>, OK;
}
API cuStreamEndCapture(Stream* stream, std::vector<Work>** to) {
    IN_CONTEXT;
    if (!stream->recorded) return INVALID;
    return *to = stream->recorded, stream->recorded = nullptr, OK;
}
API cuGraphInstantiateWithFlags(std::vector<Work>** to, std::vector<Work>* graph, unsigned long long) {
    LOCKED;
    return *to = new std::vector<Work>(*graph), OK;
}
API cuGraphDestroy(std::vector<Work>* graph) {
    LOCKED;
    return delete graph, OK;
}
API cuGraphExecDestroy(std::vector<Work>* graph) { return cuGraphDestroy(graph); }
API cuGraphLaunch(std::vector<Work>* graph, Stream* stream) {
    IN_CONTEXT;
    for (Work& work : *graph) stream->add(work);
    return OK;
}

// In the words of box_start (block.h), with what the device demands of a swizzled map.
API cuTensorMapEncodeTiled(uint64_t* map, int type, unsigned rank, void* address, const uint64_t* sizes, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int, int swizzle, int, int) {
    bool known = type == 9 && rank == 3 && swizzle == 3 && box[0] == 64 && box[1] == 1 && box[2] <= 256;
    bool aligned = (uintptr_t)address % 16 == 0 && strides[0] % 16 == 0 && strides[1] % 16 == 0;
    if (!known || !aligned || steps[0] != 1 || steps[1] != 1 || steps[2] != 1) return INVALID;
    uint64_t words[] = {(uint64_t)address, sizes[0], sizes[1], sizes[2], strides[0], strides[1], box[2]};
    memset(map, 0, 128), memcpy(map, words, sizeof words);
    return OK;
}
