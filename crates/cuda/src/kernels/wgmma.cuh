// Hopper's products of four warps (wgmma): operands straight from shared memory in the 128-byte swizzle.
//
// A tile of ROWS rows of DIM bf16 lies in panels of 64 columns, 128 bytes a row, in which 16-byte chunk c of row r lies at
// chunk c ^ (r mod 8). Panels begin at multiples of 1,024 bytes. Products are asynchronous: accumulators in flight are
// touched by nothing until `products_wait`.

// Description of a panel to wgmma: address, distance of panels (operands stored across), of groups of 8 rows, swizzle.
__device__ __forceinline__ u64 describe(u32 address, u32 panel_bytes) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(panel_bytes >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most N of the products started are unfinished; `acc`, which one of the finished wrote, may be read then.
template <int N, int TILES> __device__ __forceinline__ void products_wait(float (&acc)[TILES][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#pragma unroll
    for (int j = 0; j < TILES; j++)
        asm volatile("" : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])::"memory");
}
#define F4(c, j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define F32(c) F4(c, 0), F4(c, 1), F4(c, 2), F4(c, 3), F4(c, 4), F4(c, 5), F4(c, 6), F4(c, 7)
#define F64(c) F32(c), F4(c, 8), F4(c, 9), F4(c, 10), F4(c, 11), F4(c, 12), F4(c, 13), F4(c, 14), F4(c, 15)
#define R32                                                                                                              \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
    "%31"
#define R64                                                                                                              \
    R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,"   \
        "%59,%60,%61,%62,%63"

// c[64, N] (+)= A·B^T of two tiles, 16 columns of each.
__device__ __forceinline__ void wgmma_tiles(float (&c)[8][4], u64 a, u64 b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "}, %32, %33, p, 1, 1, 0, 0;}"
                 : F32(c)
                 : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void wgmma_tiles(float (&c)[16][4], u64 a, u64 b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0;"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "}, %64, %65, p, 1, 1, 0, 0;}"
                 : F64(c)
                 : "l"(a), "l"(b), "r"(add));
}
// c[64, N] += A·B of registers and 16 rows of a tile.
__device__ __forceinline__ void wgmma_rows(float (&c)[8][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : F32(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma_rows(float (&c)[16][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : F64(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// c[64, N] (+)= A·B^T of registers and 16 columns of a tile.
__device__ __forceinline__ void wgmma_columns(float (&c)[8][4], const u32 (&a)[4], u64 b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0;"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"
                 : F32(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
__device__ __forceinline__ void wgmma_columns(float (&c)[16][4], const u32 (&a)[4], u64 b, int add) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0;"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R64 "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;}"
                 : F64(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

// Starts acc[16, COLS] = A[16, DIM] (rows of the tile `a` from row_a) times the transpose of the COLS rows of `b`; with ADD,
// what the accumulators hold is added.
template <int DIM, int ROWS_A, int COLS, bool ADD = false>
__device__ __forceinline__ void scores(float (&acc)[COLS / 8][4], u32 a, int row_a, u32 b) {
    a += (row_a & ~63) * 128;
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
        u32 at = (d & 3) * 32;
        wgmma_tiles(acc, describe(a + (d >> 2) * (ROWS_A * 128) + at, 0), describe(b + (d >> 2) * (COLS * 128) + at, 0),
                    ADD || d > 0);
    }
    wgmma_commit();
}

// The same with A in registers, which shared memory then need not deliver again for every block of `b`.
template <int DIM, int COLS>
__device__ __forceinline__ void scores(float (&acc)[COLS / 8][4], const Operand<DIM / 8>& a, u32 b) {
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < DIM / 16; d++)
        wgmma_columns(acc, a.r[d], describe(b + (d >> 2) * (COLS * 128) + (d & 3) * 32, 0), d > 0);
    wgmma_commit();
}

// Starts acc[16, DIM] += X[16, ROWS] times the ROWS rows of `b`.
template <int DIM, int ROWS>
__device__ __forceinline__ void accumulate(float (&acc)[DIM / 8][4], const Operand<ROWS / 8>& x, u32 b) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) wgmma_rows(acc, x.r[k], describe(b + k * 2048, ROWS * 128));
    wgmma_commit();
}
