// Hopper's asynchronous copies of tiles (TMA) and the barriers that count their bytes.
//
// A tensor map describes [tokens, heads, DIM] bf16 in memory; a copy fetches a box of rows by 64 columns of one head into a
// panel of shared memory in the 128-byte swizzle, rows past the tensor as zeros. A barrier's phase ends when its arrivals
// and the bytes announced have all come; waiting for a phase is by its parity.

struct __align__(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ void barrier_init(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Barriers just initialised become visible to copies and to the other threads; a __syncthreads follows.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives and announces `bytes` that copies will bring.
__device__ __forceinline__ void barrier_expect(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, int parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\n"
                 "DONE:\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
__device__ __forceinline__ void box_load(u32 to, const TensorMap* map, int col, int head, int row, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(to), "l"(map), "r"(col), "r"(head), "r"(row), "r"(barrier)
                 : "memory");
}
// Registers of a warpgroup: those the copying one gives back go to the multiplying ones.
template <int N> __device__ __forceinline__ void registers_down() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void registers_up() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
// A value the compiler knows nothing of from here on: what is computed from it in a loop is not kept in registers.
__device__ __forceinline__ void unknown(u32& x) { asm volatile("" : "+r"(x)); }
// Turns of two warpgroups, by the barriers 1 and 2 of the block.
__device__ __forceinline__ void turn_wait(int who) { asm volatile("bar.sync %0, 256;" ::"r"(who) : "memory"); }
__device__ __forceinline__ void turn_give(int who) { asm volatile("bar.arrive %0, 256;" ::"r"(who) : "memory"); }

// Place in a ring of STAGES tiles, and the parity of the phase it is in.
template <int STAGES> struct Ring {
    int stage = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ int before() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};

// A ring of tiles of ROWS rows of DIM columns in shared memory, with a barrier per tile for "arrived" and one for "read".
template <int DIM, int ROWS, int STAGES> struct TileRing {
    static constexpr int BYTES = ROWS * DIM * 2, BARRIERS = 2 * STAGES * 8;
    u32 memory, barriers;

    __device__ __forceinline__ u32 tile(int stage) const { return memory + stage * BYTES; }
    __device__ __forceinline__ u32 arrived(int stage) const { return barriers + stage * 8; }
    __device__ __forceinline__ u32 freed(int stage) const { return barriers + (STAGES + stage) * 8; }
    // By one thread, before anything else. `readers` warps free a tile.
    __device__ __forceinline__ void init(int writers, int readers) const {
        for (int s = 0; s < STAGES; s++) barrier_init(arrived(s), writers), barrier_init(freed(s), readers);
    }
    // By one thread: fetches rows from `row` on, once the tile before in this place has been read.
    __device__ __forceinline__ void fetch(const Ring<STAGES>& at, const TensorMap* map, int head, int row) const {
        barrier_wait(freed(at.stage), at.parity ^ 1);
        barrier_expect(arrived(at.stage), BYTES);
        for (int panel = 0; panel < DIM / 64; panel++)
            box_load(tile(at.stage) + panel * (ROWS * 128), map, panel * 64, head, row, arrived(at.stage));
    }
    __device__ __forceinline__ u32 wait(const Ring<STAGES>& at) const {
        barrier_wait(arrived(at.stage), at.parity);
        return tile(at.stage);
    }
    // By whole warps, when nothing of theirs reads the tile any more.
    __device__ __forceinline__ void free(int stage) const {
        if ((threadIdx.x & 31) == 0) barrier_arrive(freed(stage));
    }
};
