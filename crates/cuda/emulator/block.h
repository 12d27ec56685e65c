// One block of a CUDA kernel on the CPU: what a translated kernel calls. Threads are fibers of one system thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

typedef unsigned long long Descriptor;
struct Index { unsigned x, y, z; };

extern Index threadIdx, blockIdx, blockDim, gridDim;
/// Dynamic shared memory; an address of it is an offset from here.
extern unsigned char memory[];

[[noreturn]] void fail(const char* what);

// Meetings of a block and of a warp.
void __syncthreads();
int __syncthreads_and(int x);
void __syncwarp();
/// Brings 8 bytes from the lane that `from` names for this lane.
uint64_t exchange(uint64_t mine, int from);
unsigned __reduce_max_sync(unsigned mask, unsigned x);
int lane();

// Warp-wide matrix instructions.
void load_tiles(unsigned (&r)[4], unsigned address, bool transposed);
void multiply_tiles(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

// Asynchronous copies of 16 bytes, complete at the latest when waited for.
void copy_start(unsigned to, const void* from, bool valid);
void copies_wait();

// Warpgroup products, complete at the latest when waited for.
void product_start(float* c, int n, const unsigned* a, Descriptor da, Descriptor db, int add, bool columns = false);
void products_commit();
void products_finish(size_t unfinished);

// Barriers in shared memory that count arrivals and bytes, and the copies of boxes that bring the bytes.
void counter_init(unsigned barrier, int arrivals);
void counter_arrive(unsigned barrier, int bytes);
void counter_wait(unsigned barrier, int parity);
void box_start(unsigned to, const uint64_t* map, int column, int head, int row, unsigned barrier);
/// The block's named barriers.
void named_barrier(int which, int threads, bool wait);

/// A kernel as the driver finds it: its launch bound, the sizes of its parameters, and a call with their addresses.
struct Kernel {
    const char* name;
    unsigned bound;
    const size_t* sizes;
    size_t parameters;
    void (*call)(void** arguments);
};
