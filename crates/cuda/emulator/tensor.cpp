// Tensor cores and asynchronous copies of a block. Work in flight is done when issued or, late, when waited for, and poisons its
// results until then: a missing wait, a missing barrier or a tile overwritten too soon gives a wrong result.

#include "fiber.h"

#include <algorithm>
#include <deque>
#include <map>

std::function<bool()> overdue;

namespace {

float value(unsigned short bits) {
    unsigned wide = (unsigned)bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
}
unsigned short shared_bits(unsigned address) {
    if (address + 2 > shared_bytes) fail("shared memory read past its end");
    unsigned short x;
    memcpy(&x, memory + address, 2);
    return x;
}

struct Warp {
    Meeting meeting;
    unsigned address[32], result[32][4], a[32][4], b[32][2];
    float c[32][4];
} warps[32];
Warp& warp() { return warps[threadIdx.x / 32]; }

// The 16 x 16 operand A in registers: row and column of register i of lane l.
void unpack_a(const unsigned* a, int l, float* rows) {
    for (int i = 0; i < 4; i++) {
        float* at = rows + (l / 4 + (i & 1) * 8) * 16 + 2 * (l % 4) + (i >> 1) * 8;
        at[0] = value(a[i] & 0xffff), at[1] = value(a[i] >> 16);
    }
}

std::vector<std::function<void()>> copies[1024];

// A product of four warps: C[64, n] of 16 columns of A and B.
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
Group& group() { return groups[threadIdx.x / 128]; }

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
    static float A[64 * 16], B[16 * 256];
    for (int l = 0; l < 128; l++)
        if (p.a[l]) unpack_a(p.a[l], l % 32, A + l / 32 * 256);
    for (int r = 0; r < 64 && !p.a[0]; r++)
        for (int k = 0; k < 16; k++) A[r * 16 + k] = along(p.da, r, k);
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < p.n; n++) B[k * p.n + n] = p.a[0] && !p.columns ? across(p.db, k, n) : along(p.db, n, k);
    for (int l = 0; l < 128; l++)
        for (int j = 0; j < p.n / 2; j++) {
            int row = l / 32 * 16 + l % 32 / 4 + (j % 4 >> 1) * 8, column = j / 4 * 8 + 2 * (l % 4) + (j & 1);
            float sum = !p.add ? 0 : p.before[l].empty() ? p.c[l][j] : p.before[l][j];
            for (int k = 0; k < 16; k++) sum += A[row * 16 + k] * B[k * p.n + column];
            p.c[l][j] = sum;
        }
}

bool in_flight(Group& g, float* c, int l) {
    auto writes = [&](const Product& p) { return p.c[l] == c; };
    for (auto& products : g.committed)
        if (std::any_of(products.begin(), products.end(), writes)) return true;
    return std::any_of(g.open.begin(), g.open.end(), writes);
}

struct Counter {
    int arrivals, missing;
    long bytes, parity;
    std::vector<std::function<void()>> boxes;
};
std::map<unsigned, Counter> counters;
Counter& counter(unsigned barrier) {
    auto found = counters.find(barrier);
    if (found == counters.end()) fail("a barrier that nobody initialised");
    return found->second;
}
void settle(Counter& b) {
    if (b.missing == 0 && b.bytes == 0) b.missing = b.arrivals, b.parity ^= 1;
}

struct Turn {
    int here;
    long round;
} turns[16];

bool deliver() {
    for (auto& [at, b] : counters) {
        if (b.boxes.empty()) continue;
        auto boxes = std::move(b.boxes);
        b.boxes.clear();
        for (auto& box : boxes) box();
        return true;
    }
    return false;
}

}  // namespace

void reset_tensor() {
    for (Warp& w : warps) w.meeting = {};
    for (Group& g : groups) g.meeting = {}, g.committed.clear(), g.open.clear();
    for (auto& c : copies) c.clear();
    counters.clear(), memset(turns, 0, sizeof turns);
    overdue = deliver;
}

void load_tiles(unsigned (&r)[4], unsigned address, bool transposed) {
    Warp& w = warp();
    if (address % 16) fail("ldmatrix of an address that is not a multiple of 16");
    w.address[lane()] = address;
    w.meeting.meet(32, [&] {
        for (int m = 0; m < 4; m++)
            for (int l = 0; l < 32; l++) {
                int row = l / 4, column = 2 * (l % 4);
                auto at = [&](int r, int c) { return shared_bits(w.address[m * 8 + r] + c * 2); };
                unsigned x = transposed ? at(column, row) : at(row, column);
                unsigned y = transposed ? at(column + 1, row) : at(row, column + 1);
                w.result[l][m] = x | y << 16;
            }
    });
    memcpy(r, w.result[lane()], 16);
}

void multiply_tiles(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
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

void copy_start(unsigned to, const void* from, bool valid) {
    if (to % 16 || (uintptr_t)from % 16 || to + 16 > shared_bytes) fail("cp.async out of place");
    auto copy = [=] { valid ? (void)memcpy(memory + to, from, 16) : (void)memset(memory + to, 0, 16); };
    if (late) copies[threadIdx.x].push_back(copy);
    else copy();
}
void copies_wait() {
    for (auto& copy : copies[threadIdx.x]) copy();
    copies[threadIdx.x].clear();
}

void product_start(float* c, int n, const unsigned* a, Descriptor da, Descriptor db, int add, bool columns) {
    Group& g = group();
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
        if (late) g.open.push_back(std::move(p));
        else execute(p);
    });
}
void products_commit() {
    Group& g = group();
    g.meeting.meet(128, [&] { g.committed.push_back(std::move(g.open)), g.open.clear(); });
}
void products_finish(size_t unfinished) {
    Group& g = group();
    g.meeting.meet(128, [&] {
        for (; g.committed.size() > unfinished; g.committed.pop_front())
            for (auto& p : g.committed.front()) execute(p);
    });
}

void counter_init(unsigned barrier, int arrivals) { counters[barrier] = {arrivals, arrivals, 0, 0, {}}; }
void counter_arrive(unsigned barrier, int bytes) {
    Counter& b = counter(barrier);
    if (b.missing == 0) fail("more arrivals than a barrier expects");
    b.bytes += bytes, b.missing--;
    settle(b);
}
void counter_wait(unsigned barrier, int parity) {
    Counter& b = counter(barrier);
    // A phase of this parity is over when the current one has the other.
    while (b.parity == parity) wait_while(&b.parity, parity);
}

// The map: address, columns, heads, tokens, bytes from head to head and from token to token, rows of a box.
void box_start(unsigned to, const uint64_t* map, int column, int head, int row, unsigned barrier) {
    int rows = map[6];
    if (to % 1024 || to + rows * 128 > shared_bytes || column % 64 || head >= (int)map[2]) fail("a box out of place");
    auto box = [=] {
        for (int r = 0; r < rows; r++)
            for (int chunk = 0; chunk < 8; chunk++) {
                unsigned char* at = memory + to + r * 128 + ((chunk ^ (r & 7)) << 4);
                const char* from = (const char*)map[0] + head * map[4] + (row + r) * map[5] + column * 2 + chunk * 16;
                if (row + r < (int)map[3]) memcpy(at, from, 16);
                else memset(at, 0, 16);
            }
        Counter& b = counter(barrier);
        b.bytes -= rows * 128;
        settle(b);
    };
    if (late) counter(barrier).boxes.push_back(box);
    else box();
}

void named_barrier(int which, int threads, bool wait) {
    Turn& t = turns[which];
    long mine = t.round;
    if (++t.here == threads) t.here = 0, t.round++;
    while (wait && t.round == mine) wait_while(&t.round, mine);
}
