// Threads of a block as fibers: scheduling, meetings, and the entry point of a kernel library.

#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

Index threadIdx, blockIdx, blockDim, gridDim;
alignas(1024) unsigned char memory[232448];
bool late;
unsigned shared_bytes;

namespace {

const Kernel* running;
std::mt19937 dice(7);

struct Fiber {
    void* stack_pointer;
    const long* word;  // waits while *word == value
    long value;
    bool done;
};
constexpr size_t STACK = 128 << 10, PAGE = 64 << 10;
Fiber fibers[1024];
char* stacks;
void* scheduler;
unsigned current, alive;

struct Warp {
    Meeting meeting;
    uint64_t sent[32], received[32];
    int from[32];
    unsigned top, largest;
} warps[32];
Meeting everyone;
int all_true = 1, were_all_true;

}  // namespace

// Saves the registers a call must keep on this stack, and continues on another.
extern "C" void switch_stack(void** save, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.local switch_stack
.type switch_stack, @function
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
constexpr int SAVED = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.local switch_stack
.type switch_stack, %function
switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#else
#error "a context switch for this processor"
#endif

extern "C" __attribute__((visibility("default"))) const char* emulated_place() {
    static char text[200];
    snprintf(text, sizeof text, "kernel %s, block (%u, %u) of (%u, %u), thread %u of %u", running ? running->name : "none",
             blockIdx.x, blockIdx.y, gridDim.x, gridDim.y, threadIdx.x, blockDim.x);
    return text;
}

void fail(const char* what) {
    fprintf(stderr, "emulated GPU: %s: %s\n", emulated_place(), what);
    abort();
}

static bool can_run(const Fiber& f) { return !f.done && !(f.word && *f.word == f.value); }
static void become(void** save, unsigned thread) {
    current = thread, threadIdx.x = thread, fibers[thread].word = nullptr;
    switch_stack(save, fibers[thread].stack_pointer);
}

void wait_while(const long* word, long value) {
    if (*word != value) return;
    unsigned me = current, next = me + 1;
    fibers[me].word = word, fibers[me].value = value;
    // The next lane of the warp without the scheduler between: most meetings are those of warps.
    if (!late && next % 32 && next < blockDim.x && can_run(fibers[next])) become(&fibers[me].stack_pointer, next);
    else switch_stack(&fibers[me].stack_pointer, scheduler);
}

// Threads that have returned are not waited for.
void __syncthreads() { everyone.meet(alive, [] {}); }
int __syncthreads_and(int x) {
    all_true &= x != 0;
    everyone.meet(alive, [] { were_all_true = all_true, all_true = 1; });
    return were_all_true;
}

static Warp& warp() { return warps[threadIdx.x / 32]; }
int lane() { return threadIdx.x % 32; }
void __syncwarp() { warp().meeting.meet(32, [] {}); }
uint64_t exchange(uint64_t mine, int from) {
    Warp& w = warp();
    w.sent[lane()] = mine, w.from[lane()] = from;
    w.meeting.meet(32, [&w] {
        for (int l = 0; l < 32; l++) w.received[l] = w.sent[w.from[l]];
    });
    return w.received[lane()];
}
unsigned __reduce_max_sync(unsigned, unsigned x) {
    Warp& w = warp();
    w.top = std::max(w.top, x);
    w.meeting.meet(32, [&w] { w.largest = w.top, w.top = 0; });
    return w.largest;
}

static void** arguments_now;

static void enter() {
    running->call(arguments_now);
    alive--;
    // Those that wait for the whole block no longer wait for this one.
    if (everyone.here && everyone.here == alive) everyone.here = 0, everyone.round++, were_all_true = all_true, all_true = 1;
    fibers[current].done = true;
    switch_stack(&fibers[current].stack_pointer, scheduler);
    __builtin_unreachable();
}

static void make(unsigned thread) {
    uintptr_t top = (uintptr_t)stacks + (thread + 1) * (STACK + PAGE);
    void** at = (void**)(top - 64);
#if defined(__x86_64__)
    // A function begins with its return address 8 bytes past a multiple of 16.
    *++at = nullptr, *--at = (void*)enter;
    at -= SAVED;
#else
    at -= 20;
    at[11] = (void*)enter;
#endif
    fibers[thread] = {at, nullptr, 0, false};
}

// Early: threads in order. Late: warps in random order, of each some of the lanes that could run.
static void run_block() {
    unsigned threads = blockDim.x, count = (threads + 31) / 32, order[32];
    for (unsigned w = 0; w < count; w++) order[w] = w;
    while (alive) {
        bool any = false;
        if (late) std::shuffle(order, order + count, dice);
        for (unsigned w = 0; w < count; w++) {
            unsigned chosen = late ? dice() : ~0u;
            for (unsigned l = 0; l < 32; l++) {
                unsigned thread = order[w] * 32 + l;
                if (thread >= threads || !can_run(fibers[thread])) continue;
                any = true;
                if (chosen >> l & 1) become(&scheduler, thread);
            }
        }
        if (!any && !(overdue && overdue())) fail("all threads wait: a barrier that not all of them reach");
    }
}

/// Runs a grid. Blocks run one after the other, in random order where asynchronous work is late.
extern "C" __attribute__((visibility("default"))) void emulated_run(const Kernel* kernel, const unsigned* grid, unsigned threads,
                                                                    unsigned shared, void** arguments) {
    const char* order = getenv("EMULATOR_ORDER");
    late = order && !strcmp(order, "late");
    if (!stacks) {
        stacks = (char*)mmap(nullptr, 1024 * (STACK + PAGE) + PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (unsigned i = 0; i <= 1024; i++) mprotect(stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
    }
    running = kernel, arguments_now = arguments, shared_bytes = shared;
    blockDim = {threads, 1, 1}, gridDim = {grid[0], grid[1], grid[2]};
    unsigned blocks = grid[0] * grid[1], first = late ? dice() % blocks : 0;
    // A stride that shares no factor with the number of blocks visits each once.
    unsigned stride = late ? dice() % blocks + 1 : 1;
    while (std::gcd(stride, blocks) != 1) stride++;
    for (unsigned n = 0; n < blocks; n++) {
        unsigned block = (first + (uint64_t)n * stride) % blocks;
        blockIdx = {block % grid[0], block / grid[0], 0};
        memset(memory, 0x7f, shared);
        for (Warp& w : warps) w = {};
        everyone = {}, all_true = 1, alive = threads;
        reset_tensor();
        for (unsigned i = 0; i < threads; i++) make(i);
        run_block();
    }
    running = nullptr;
}
