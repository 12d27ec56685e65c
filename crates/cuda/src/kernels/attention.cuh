// Shared by the attention kernels: operands in registers, the walk over visible blocks, the softmax of one block, stores.
//
// A warp owns 16 rows of scores (queries; in dK/dV keys, with the scores transposed), in the layout tensor cores leave
// their results in: lane l holds rows l / 4 and l / 4 + 8, columns 2 (l mod 4) and the next of every eight.

#define INF __int_as_float(0x7f800000)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// A tile of ROWS rows of DIM bf16 in shared memory: panels of 64 columns, 128 bytes a row, in which 16-byte chunk c of row
// r lies at chunk c ^ (r mod 8). Panels begin at multiples of 1,024 bytes.
template <int ROWS> __device__ __forceinline__ u32 chunk_address(u32 tile, int row, int chunk) {
    return tile + (chunk >> 3) * (ROWS * 128) + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
}

__device__ __forceinline__ void load_matrix(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// Accumulators as the left operand of the next product, rounded to bf16: four registers per 16 columns.
template <int N> struct Operand {
    u32 r[N / 2][4];

    __device__ __forceinline__ Operand() {}
    __device__ __forceinline__ explicit Operand(const float (&x)[N][4]) { set(x); }
    // 16 rows of a tile of ROWS rows, from `row` on.
    template <int ROWS> __device__ __forceinline__ void load(u32 tile, int row) {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int k = 0; k < N / 2; k++) load_matrix(r[k], chunk_address<ROWS>(tile, row + (lane & 15), k * 2 + (lane >> 4)));
    }
    __device__ __forceinline__ void set(const float (&x)[N][4]) {
#pragma unroll
        for (int k = 0; k < N / 2; k++) {
            r[k][0] = pack_bf16(x[2 * k][0], x[2 * k][1]), r[k][1] = pack_bf16(x[2 * k][2], x[2 * k][3]);
            r[k][2] = pack_bf16(x[2 * k + 1][0], x[2 * k + 1][1]), r[k][3] = pack_bf16(x[2 * k + 1][2], x[2 * k + 1][3]);
        }
    }
};

// Writes a warp's 16 rows of DIM accumulators, times `factor` per row, to rows [row, row + 16) below `end`.
template <int DIM>
__device__ __forceinline__ void store_rows(bf16* head, i64 stride, int row, int end, const float (&acc)[DIM / 8][4],
                                           float factor0, float factor1) {
    int lane = threadIdx.x & 31, r0 = row + (lane >> 2), r1 = r0 + 8, col = (lane & 3) * 2;
#pragma unroll
    for (int j = 0; j < DIM / 8; j++) {
        if (r0 < end) store2(head + (i64)r0 * stride + j * 8 + col, acc[j][0] * factor0, acc[j][1] * factor0);
        if (r1 < end) store2(head + (i64)r1 * stride + j * 8 + col, acc[j][2] * factor1, acc[j][3] * factor1);
    }
}

// Walks the blocks of STEP rows in the ranges of a tile, clipped to [low, high).
template <int STEP> struct Walk {
    const int2* ranges;
    int range, end_range, at, end, low, high;

    __device__ __forceinline__ Walk(const int2* ranges, int4 tile, int low, int high)
        : ranges(ranges), range(tile.z - 1), end_range(tile.w), at(0), end(0), low(low), high(high) {
        next_range();
    }
    __device__ __forceinline__ void next_range() {
        do {
            if (++range >= end_range) return;
            int2 r = ranges[range];
            at = max(r.x, low), end = min(r.y, high);
        } while (at >= end);
    }
    // The walk one block on; at its end an empty block, of which nothing is copied but zeros.
    __device__ __forceinline__ Walk following() const {
        Walk walk = *this;
        if (!walk.done()) walk.advance();
        if (walk.done()) walk.at = walk.end = 0;
        return walk;
    }
    __device__ __forceinline__ bool done() const { return range >= end_range; }
    __device__ __forceinline__ void advance() {
        at += STEP;
        if (at >= end) next_range();
    }
};

struct Shape {
    int tokens, q_heads, kv_heads;  // tokens: of q, o and lse
    float scale;
    int before = 0;  // keys before the first query; the forward pass alone knows them
};

// One step of the online softmax: masks the scores of keys [at, at + KEYS), turns them into probabilities relative to the
// running maximum `top`, and brings the sum to that maximum. `factor` is what the output so far has to be multiplied by.
template <int KEYS>
__device__ __forceinline__ void softmax(float (&s)[KEYS / 8][4], float (&top)[2], float (&sum)[2], float (&factor)[2],
                                        float scale, int row, int at, int end) {
    int lane = threadIdx.x & 31, r0 = row + (lane >> 2), first = at + (lane & 3) * 2;
    if (at + KEYS > end || at + KEYS - 1 > row) {
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = first + j * 8 + (i & 1);
                if (key >= end || key > r0 + (i >> 1) * 8) s[j][i] = -INF;
            }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float m = top[half];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) m = fmaxf(m, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        float base = m == -INF ? 0.f : m * scale;
        factor[half] = exp2_fast(top[half] * scale - base);
        top[half] = m, sum[half] *= factor[half];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float p = exp2_fast(s[j][2 * half + i] * scale - base);
                s[j][2 * half + i] = p, sum[half] += p;
            }
    }
}

// delta[head][token] = sum over DIM of do * o. A group of DIM / 8 lanes takes one head of a few tokens, with all loads under way.
constexpr int DELTA_TOKENS = 4;
template <int DIM>
__device__ __forceinline__ void backward_delta(const bf16* o, const bf16* d_o, i64 o_stride, float* delta, Shape shape) {
    constexpr int LANES = DIM / 8;
    int item = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, part = threadIdx.x % LANES;
    int head = item % shape.q_heads, first = item / shape.q_heads * DELTA_TOKENS;
    Eight<bf16> a[DELTA_TOKENS], b[DELTA_TOKENS];
#pragma unroll
    for (int n = 0; n < DELTA_TOKENS; n++) {
        i64 at = (i64)min(first + n, shape.tokens - 1) * o_stride + head * DIM + part * 8;
        a[n].load(o + at), b[n].load(d_o + at);
    }
#pragma unroll
    for (int n = 0; n < DELTA_TOKENS; n++) {
        float x[8], y[8], sum = 0.f;
        a[n].get(x), b[n].get(y);
#pragma unroll
        for (int i = 0; i < 8; i++) sum += x[i] * y[i];
#pragma unroll
        for (int o = LANES / 2; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (part == 0 && first + n < shape.tokens) delta[(i64)head * shape.tokens + first + n] = sum;
    }
}
