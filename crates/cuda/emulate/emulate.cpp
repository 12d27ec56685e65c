// A CUDA block on the CPU, for run.py: threads are fibers, scheduled in random order; warp and warpgroup instructions meet.

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <vector>

using std::max;
using std::min;

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __global__
#define __shared__ static
#define __align__(x)
#define __launch_bounds__(...)
#define __grid_constant__

struct uint4 { unsigned x, y, z, w; };
struct uint2 { unsigned x, y; };
struct float4 { float x, y, z, w; };
struct float2 { float x, y; };
struct int4 { int x, y, z, w; };
struct int2 { int x, y; };
struct Index { unsigned x, y, z; };
inline float2 make_float2(float a, float b) { return {a, b}; }
inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
inline uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
inline float __uint_as_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
inline float __int_as_float(int x) { return __uint_as_float(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline unsigned __float_as_uint(float x) { unsigned b; memcpy(&b, &x, 4); return b; }

Index threadIdx, blockIdx, blockDim, gridDim;
alignas(1024) unsigned char memory[232448];
unsigned shared_bytes;
bool late;  // asynchronous work happens when it is waited for, not when it is issued
std::mt19937 dice(7);

[[noreturn]] void fail(const char* what) { printf("  FAILED: %s\n", what), fflush(stdout), exit(1); }

// Fibers.
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    unsigned id;
    std::vector<std::function<void()>> copies;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
int current;
std::function<void()> body;

void yield() {
    int me = current;
    swapcontext(&fibers[me].context, &scheduler);
    current = me, threadIdx.x = fibers[me].id;
}
void enter() {
    body();
    fibers[current].done = true;
    swapcontext(&fibers[current].context, &scheduler);
}

// A place where `size` threads meet; the last to come does the work.
struct Meeting {
    int here = 0;
    long round = 0;
    template <typename F> void meet(int size, F work) {
        long mine = round;
        if (++here == size) {
            here = 0, work(), round++;
            return;
        }
        while (round == mine) yield();
    }
};
Meeting block_meeting;
void __syncthreads() { block_meeting.meet(blockDim.x, [] {}); }

float value(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
unsigned short shared_bits(unsigned address) {
    if (address + 2 > shared_bytes) fail("shared memory read past its end");
    unsigned short x;
    memcpy(&x, memory + address, 2);
    return x;
}

// Warps.
struct Warp {
    Meeting meeting;
    unsigned address[32], result[32][4], a[32][4], b[32][2];
    float c[32][4];
    double x[32], y[32];
} warps[32];
Warp& warp() { return warps[threadIdx.x / 32]; }
int lane() { return threadIdx.x % 32; }

template <typename T> T __shfl_xor_sync(unsigned, T x, int mask) {
    Warp& w = warp();
    w.x[lane()] = x;
    w.meeting.meet(32, [&] { for (int l = 0; l < 32; l++) w.y[l] = w.x[l ^ mask]; });
    return w.y[lane()];
}
template <typename T> T __shfl_sync(unsigned, T x, int from) {
    Warp& w = warp();
    w.x[lane()] = x;
    w.meeting.meet(32, [&] { for (int l = 0; l < 32; l++) w.y[l] = w.x[l]; });
    return w.y[from];
}
template <typename T> T __shfl_up_sync(unsigned, T x, int by) {
    Warp& w = warp();
    w.x[lane()] = x;
    w.meeting.meet(32, [&] { for (int l = 0; l < 32; l++) w.y[l] = w.x[max(l - by, 0)]; });
    return w.y[lane()];
}
int all_true;
int __syncthreads_and(int x) {
    block_meeting.meet(blockDim.x, [] { all_true = 1; });
    if (!x) all_true = 0;
    block_meeting.meet(blockDim.x, [] {});
    int all = all_true;
    block_meeting.meet(blockDim.x, [] {});
    return all;
}
bool __any_sync(unsigned mask, bool x) {
    float any = x;
    for (int o = 16; o; o >>= 1) any = max(any, __shfl_xor_sync(mask, any, o));
    return any != 0;
}
unsigned __cvta_generic_to_shared(const void* p) { return (const unsigned char*)p - memory; }

void warp_load(unsigned (&r)[4], unsigned address, bool transposed) {
    Warp& w = warp();
    w.address[lane()] = address;
    w.meeting.meet(32, [&] {
        for (int m = 0; m < 4; m++)
            for (int l = 0; l < 32; l++) {
                int row = l / 4, col = 2 * (l % 4);
                auto at = [&](int r, int c) { return shared_bits(w.address[m * 8 + r] + c * 2); };
                unsigned x = transposed ? at(col, row) : at(row, col), y = transposed ? at(col + 1, row) : at(row, col + 1);
                w.result[l][m] = x | y << 16;
            }
    });
    memcpy(r, w.result[lane()], 16);
}

// Element of operand A held in registers: row and column of register i of lane l.
void unpack_a(const unsigned* a, int l, float* rows /* [16][16] */) {
    for (int i = 0; i < 4; i++) {
        float* at = rows + (l / 4 + (i & 1) * 8) * 16 + 2 * (l % 4) + (i >> 1) * 8;
        at[0] = value(a[i] & 0xffff), at[1] = value(a[i] >> 16);
    }
}

void warp_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Warp& w = warp();
    memcpy(w.a[lane()], a, 16), memcpy(w.c[lane()], c, 16);
    w.b[lane()][0] = b0, w.b[lane()][1] = b1;
    w.meeting.meet(32, [&] {
        float A[16 * 16], B[16][8];
        for (int l = 0; l < 32; l++) {
            unpack_a(w.a[l], l, A);
            for (int i = 0; i < 2; i++) {
                int k = 2 * (l % 4) + i * 8;
                B[k][l / 4] = value(w.b[l][i] & 0xffff), B[k + 1][l / 4] = value(w.b[l][i] >> 16);
            }
        }
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 4; i++)
                for (int k = 0; k < 16; k++)
                    w.c[l][i] += A[(l / 4 + (i >> 1) * 8) * 16 + k] * B[k][2 * (l % 4) + (i & 1)];
    });
    memcpy(c, w.c[lane()], 16);
}

// Warpgroups: products are queued, and done at once or when waited for.
typedef unsigned long long Descriptor;
struct Product {
    float* c[128];
    std::vector<float> before[128];  // accumulators at issue, where no earlier product has them in flight
    const unsigned* a[128];
    Descriptor da, db;
    int n, add;
    bool columns;  // B is read along its rows, as for two tiles
};
struct Group {
    Meeting meeting;
    Product next;
    std::deque<std::vector<Product>> committed;
    std::vector<Product> open;
} groups[8];

unsigned field(Descriptor d, int at) { return (unsigned)((d >> at) & 0x3fff) << 4; }
// Shared memory in the 128-byte swizzle: the 16-byte chunk is exchanged by the row's number within eight.
float swizzled(unsigned address) { return value(shared_bits(address ^ ((address >> 7 & 7) << 4))); }
float along(Descriptor d, int row, int k) {
    return swizzled(field(d, 0) + row / 8 * field(d, 32) + row % 8 * 128 + k * 2);
}
float across(Descriptor d, int k, int n) {
    return swizzled(field(d, 0) + n / 64 * field(d, 16) + k / 8 * field(d, 32) + k % 8 * 128 + n % 64 * 2);
}

void execute(Product& p) {
    std::vector<float> A(64 * 16), B(16 * p.n);
    for (int l = 0; l < 128; l++)
        if (p.a[l]) unpack_a(p.a[l], l % 32, &A[l / 32 * 256]);
    for (int r = 0; r < 64 && !p.a[0]; r++)
        for (int k = 0; k < 16; k++) A[r * 16 + k] = along(p.da, r, k);
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < p.n; n++) B[k * p.n + n] = p.a[0] && !p.columns ? across(p.db, k, n) : along(p.db, n, k);
    for (int l = 0; l < 128; l++)
        for (int j = 0; j < p.n / 2; j++) {
            int row = l / 32 * 16 + l % 32 / 4 + (j % 4 >> 1) * 8, col = j / 4 * 8 + 2 * (l % 4) + (j & 1);
            float sum = !p.add ? 0 : p.before[l].empty() ? p.c[l][j] : p.before[l][j];
            for (int k = 0; k < 16; k++) sum += A[row * 16 + k] * B[k * p.n + col];
            p.c[l][j] = sum;
        }
}

bool in_flight(Group& g, float* c, int l) {
    for (auto& products : g.committed)
        for (auto& p : products)
            if (p.c[l] == c) return true;
    for (auto& p : g.open)
        if (p.c[l] == c) return true;
    return false;
}

void group_start(float* c, int n, const unsigned* a, Descriptor da, Descriptor db, int add, bool columns = false) {
    Group& g = groups[threadIdx.x / 128];
    int l = threadIdx.x % 128;
    g.next.c[l] = c, g.next.a[l] = a, g.next.da = da, g.next.db = db, g.next.n = n, g.next.add = add, g.next.columns = columns;
    g.meeting.meet(128, [&] {
        Product p = g.next;
        for (int l = 0; l < 128; l++) {
            if (in_flight(g, p.c[l], l)) continue;
            p.before[l].assign(p.c[l], p.c[l] + p.n / 2);
            // Nothing may read or change accumulators in flight.
            if (late) std::fill(p.c[l], p.c[l] + p.n / 2, NAN);
        }
        if (late) g.open.push_back(p);
        else execute(p);
    });
}
void group_commit() {
    Group& g = groups[threadIdx.x / 128];
    g.meeting.meet(128, [&] { g.committed.push_back(std::move(g.open)), g.open.clear(); });
}
void group_wait(size_t unfinished) {
    Group& g = groups[threadIdx.x / 128];
    g.meeting.meet(128, [&] {
        for (; g.committed.size() > unfinished; g.committed.pop_front())
            for (auto& p : g.committed.front()) execute(p);
    });
}

void emulated_copy(unsigned to, const void* from, bool valid) {
    if (to % 16 || to + 16 > shared_bytes) fail("cp.async past shared memory");
    auto copy = [=] { valid ? (void)memcpy(memory + to, from, 16) : (void)memset(memory + to, 0, 16); };
    if (late) fibers[current].copies.push_back(copy);
    else copy();
}
void emulated_copy_wait() {
    for (auto& copy : fibers[current].copies) copy();
    fibers[current].copies.clear();
}

// Barriers that count arrivals and bytes, and the copies of boxes that bring the bytes: done when issued, or when waited for.
struct Counting {
    int arrivals, missing;
    long bytes;
    int parity;
    std::vector<std::function<void()>> copies;
};
std::map<unsigned, Counting> barriers;
void emulated_settle(Counting& b) {
    if (b.missing == 0 && b.bytes == 0) b.missing = b.arrivals, b.parity ^= 1;
}
void emulated_arrive(unsigned barrier, int bytes) {
    Counting& b = barriers.at(barrier);
    if (b.missing == 0) fail("more arrivals than a barrier expects");
    b.bytes += bytes, b.missing--;
    emulated_settle(b);
}
void emulated_wait(unsigned barrier, int parity) {
    Counting& b = barriers.at(barrier);
    // A phase of this parity is over when the current one has the other.
    while (b.parity == parity) {
        auto copies = std::move(b.copies);
        b.copies.clear();
        for (auto& copy : copies) copy();
        if (b.parity == parity) yield();
    }
}
// words: address, columns, heads, tokens, bytes from head to head and from token to token, rows of a box.
void emulated_box(unsigned to, const unsigned long long* words, int col, int head, int row, unsigned barrier) {
    int rows = words[6];
    if (to % 1024 || to + rows * 128 > shared_bytes || col % 64 || head >= (int)words[2]) fail("a box out of place");
    auto copy = [=] {
        for (int r = 0; r < rows; r++)
            for (int chunk = 0; chunk < 8; chunk++) {
                unsigned char* at = memory + to + r * 128 + ((chunk ^ (r & 7)) << 4);
                const char* from = (const char*)words[0] + head * words[4] + (row + r) * words[5] + col * 2 + chunk * 16;
                if (row + r < (int)words[3]) memcpy(at, from, 16);
                else memset(at, 0, 16);
            }
        Counting& b = barriers.at(barrier);
        b.bytes -= rows * 128;
        emulated_settle(b);
    };
    if (late) barriers.at(barrier).copies.push_back(copy);
    else copy();
}
struct Turn {
    int here;
    long round;
} turns[16];
void emulated_turn(int who, bool wait) {
    Turn& t = turns[who];
    long mine = t.round;
    if (++t.here == 256) t.here = 0, t.round++;
    while (wait && t.round == mine) yield();
}
void __syncwarp() { warp().meeting.meet(32, [] {}); }

void launch(unsigned gx, unsigned gy, unsigned threads, unsigned shared, std::function<void()> kernel) {
    if (shared > sizeof memory) fail("more shared memory than a block may have");
    body = kernel, shared_bytes = shared, blockDim = {threads, 1, 1}, gridDim = {gx, gy, 1};
    std::vector<int> order(threads);
    for (unsigned i = 0; i < threads; i++) order[i] = i;
    for (unsigned b = 0; b < gx * gy; b++) {
        blockIdx = {b % gx, b / gx, 0};
        memset(memory, 0x7f, sizeof memory);
        barriers.clear(), memset(turns, 0, sizeof turns);
        fibers.clear(), fibers.resize(threads);
        for (unsigned i = 0; i < threads; i++) {
            Fiber& f = fibers[i];
            f.stack.resize(1 << 17), f.id = i, f.done = false;
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = f.stack.data(), f.context.uc_stack.ss_size = f.stack.size();
            f.context.uc_link = &scheduler;
            makecontext(&f.context, enter, 0);
        }
        for (bool any = true; any;) {
            any = false;
            // Whole warps in random order, so that warpgroups drift apart.
            std::shuffle(order.begin(), order.end(), dice);
            for (int i : order)
                if (!fibers[i].done) any = true, current = i, threadIdx.x = i, swapcontext(&scheduler, &fibers[i].context);
        }
    }
}

#include "kernel.inc"

// Checks.
typedef std::vector<double> Reals;
std::normal_distribution<double> bell;
template <typename T> std::vector<T> draw(size_t n, double scale) {
    std::vector<T> x(n);
    for (auto& v : x) v = from_f32<T>(scale * bell(dice));
    return x;
}
template <typename T> std::vector<T> poisoned(size_t n) {
    std::vector<T> x(n);
    memset((void*)x.data(), 0xff, n * sizeof(T));
    return x;
}
template <typename T> void check(const char* what, const std::vector<T>& out, const Reals& want, double bound) {
    double off = 0, size = 0;
    for (size_t i = 0; i < want.size(); i++) {
        double d = to_f32(out[i]) - want[i];
        off += d * d, size += want[i] * want[i];
    }
    double error = sqrt(off / size);
    printf("  %-28s %.1e\n", what, error);
    if (!(error <= bound)) fail(what);
}

#include "checks.inc"

int main(int, char** argv) {
    late = atoi(argv[1]);
    checks();
}
