// Flash attention for packed sequences: causal, grouped-query (GQA), forward and backward on tensor cores.
//
//   S = scale * Q K^T (visible keys only),   P = softmax(S),   O = P V,   lse = log sum exp(S)
//   dV = P^T dO,   dP = dO V^T,   dS = P * (dP - delta),   delta = rowsum(dO * O),   dQ = scale * dS K,   dK = scale * dS^T Q
//
// Layout: q, o, dq, do [tokens, q_heads, DIM] and k, v, dk, dv [tokens, kv_heads, DIM] bf16, each with its own token stride;
// lse, delta [q_heads, tokens] f32. `tiles` (int4: first row, end row, first range, end range) lists the blocks of rows,
// and `ranges` (int2: begin, end) what each may see. A key is visible to a query when it lies in a range of the query's
// tile and not behind the query: packed sequences are one range per tile, a forest of shared prefixes is one per ancestor.
//
// Fast because scores live in registers only (attention.cuh): the accumulator of one product is the operand of the next
// without a trip through shared memory. Keys and values arrive by cp.async one block ahead. These are the kernels of GPUs
// other than Hopper: each warp multiplies on its own (mma.m16n8k16).
// No atomics: dQ has its own kernel, and dK/dV sums the query heads of a group in order. Results repeat bit for bit.

// Tile sizes come from the launcher (attention.rs), which needs them too: warps of 16 rows, and keys or queries per step.
#ifndef FORWARD_WARPS
#error "the launcher defines the tile sizes"
#endif

__device__ __forceinline__ void copy_async(u32 to, const void* from, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Starts copying rows [first, first + ROWS) of a head; rows at or after `end` become zero. A thread keeps its chunk of the
// row and takes every STEP-th row: STEP is a multiple of 8, so that its place in the swizzle stays the same too.
template <int DIM, int ROWS, int THREADS>
__device__ __forceinline__ void copy_tile(u32 tile, const bf16* head, i64 stride, int first, int end) {
    constexpr int CHUNKS = DIM / 8, STEP = THREADS / CHUNKS;
    static_assert(STEP % 8 == 0, "the swizzle repeats every 8 rows");
    int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    const bf16* from = head + (i64)(first + row) * stride + chunk * 8;
    u32 to = chunk_address<ROWS>(tile, row, chunk);
#pragma unroll
    for (int i = 0; i < (ROWS + STEP - 1) / STEP; i++, from += STEP * stride) {
        if (ROWS % STEP != 0 && row + i * STEP >= ROWS) break;
        bool valid = first + row + i * STEP < end;
        copy_async(to + i * (STEP * 128), valid ? from : head, valid);
    }
}

// Products here are finished when they return.
template <int N, int TILES> __device__ __forceinline__ void products_wait(float (&)[TILES][4]) {}

__device__ __forceinline__ void load_matrix_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}
__device__ __forceinline__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// acc[16, COLS] = A[16, DIM] (rows of the tile `a` from row_a) times the transpose of the COLS rows of `b`.
template <int DIM, int ROWS_A, int COLS>
__device__ __forceinline__ void scores(float (&acc)[COLS / 8][4], u32 a, int row_a, u32 b) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < COLS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[j][i] = 0.f;
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
        u32 ra[4];
        load_matrix(ra, chunk_address<ROWS_A>(a, row_a + (lane & 15), d * 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < COLS / 16; j++) {
            u32 rb[4];
            int row = j * 16 + (lane & 7) + ((lane >> 4) << 3);
            load_matrix(rb, chunk_address<COLS>(b, row, d * 2 + ((lane >> 3) & 1)));
            mma(acc[2 * j], ra, rb[0], rb[1]);
            mma(acc[2 * j + 1], ra, rb[2], rb[3]);
        }
    }
}

// acc[16, DIM] += X[16, ROWS] times the ROWS rows of `b`.
template <int DIM, int ROWS>
__device__ __forceinline__ void accumulate(float (&acc)[DIM / 8][4], const Operand<ROWS / 8>& x, u32 b) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
#pragma unroll
        for (int j = 0; j < DIM / 16; j++) {
            u32 rb[4];
            load_matrix_transposed(rb, chunk_address<ROWS>(b, k * 16 + (lane & 15), j * 2 + (lane >> 4)));
            mma(acc[2 * j], x.r[k], rb[0], rb[1]);
            mma(acc[2 * j + 1], x.r[k], rb[2], rb[3]);
        }
    }
}

template <int DIM, int WARPS, int KEYS>
__device__ __forceinline__ void forward(const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v,
                                        i64 v_stride, bf16* o, i64 o_stride, float* lse, const int4* tiles,
                                        const int2* ranges, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    constexpr int ROWS = WARPS * 16, TILE = KEYS * DIM * 2, THREADS = WARPS * 32;
    u32 sq = shared_address(memory), sk = sq + ROWS * DIM * 2, sv = sk + 2 * TILE;
    int head = blockIdx.x, kv_head = head / (shape.q_heads / shape.kv_heads);
    int4 tile = tiles[blockIdx.y];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = tile.x + warp * 16;
    k += kv_head * DIM, v += kv_head * DIM;
    // Rows of queries are numbered like keys.
    q -= shape.before * q_stride, o -= shape.before * o_stride, lse -= shape.before;

    // Block i's values are multiplied while block i + 1's scores go through the softmax. One barrier per step: behind it
    // the tiles copied in the last step are there, and those its products read may be overwritten.
    Walk<KEYS> now(ranges, tile, 0, tile.y), next = now.following();
    float acc[DIM / 8][4] = {}, top[2] = {-INF, -INF}, sum[2] = {0.f, 0.f}, factor[2], s[KEYS / 8][4];
    float scale = shape.scale * LOG2E;
    copy_tile<DIM, ROWS, THREADS>(sq, q + head * DIM, q_stride, tile.x, tile.y);
    copy_tile<DIM, KEYS, THREADS>(sk, k, k_stride, now.at, now.end);
    copy_wait();
    __syncthreads();
    copy_tile<DIM, KEYS, THREADS>(sv, v, v_stride, now.at, now.end);
    copy_tile<DIM, KEYS, THREADS>(sk + TILE, k, k_stride, next.at, next.end);
    scores<DIM, ROWS, KEYS>(s, sq, warp * 16, sk);
    products_wait<0>(s);
    softmax<KEYS>(s, top, sum, factor, scale, row, now.at, now.end);
    Operand<KEYS / 8> p(s);
    int stage = 0;
    for (; !next.done(); stage ^= 1) {
        copy_wait();
        __syncthreads();
        now = next, next = now.following();
        copy_tile<DIM, KEYS, THREADS>(sv + (stage ^ 1) * TILE, v, v_stride, now.at, now.end);
        copy_tile<DIM, KEYS, THREADS>(sk + stage * TILE, k, k_stride, next.at, next.end);
        scores<DIM, ROWS, KEYS>(s, sq, warp * 16, sk + (stage ^ 1) * TILE);
        accumulate<DIM, KEYS>(acc, p, sv + stage * TILE);
        products_wait<1>(s);
        softmax<KEYS>(s, top, sum, factor, scale, row, now.at, now.end);
        products_wait<0>(acc);
        p = Operand<KEYS / 8>(s);
        // The maximum settles after a few blocks; most steps have nothing to rescale.
        if (__any_sync(0xffffffffu, factor[0] != 1.f || factor[1] != 1.f)) {
#pragma unroll
            for (int j = 0; j < DIM / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) acc[j][i] *= factor[i >> 1];
        }
    }
    copy_wait();
    __syncthreads();
    accumulate<DIM, KEYS>(acc, p, sv + stage * TILE);
    products_wait<0>(acc);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
        int r = row + (lane >> 2) + half * 8;
        if ((lane & 3) == 0 && r < tile.y)
            lse[(i64)head * shape.tokens + r] = top[half] * shape.scale + logf(sum[half]);
    }
    store_rows<DIM>(o + head * DIM, o_stride, row, tile.y, acc, 1.f / sum[0], 1.f / sum[1]);
}

// Tiles of keys; the ranges of a tile are the queries that may see it.
template <int DIM, int WARPS, int QUERIES>
__device__ __forceinline__ void backward_kv(const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v,
                                            i64 v_stride, const bf16* d_o, i64 o_stride, const float* lse,
                                            const float* delta, bf16* dk, i64 dk_stride, bf16* dv, i64 dv_stride,
                                            const int4* tiles, const int2* ranges, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    constexpr int ROWS = WARPS * 16, TILE = QUERIES * DIM * 2, THREADS = WARPS * 32;
    u32 sk = shared_address(memory), sv = sk + ROWS * DIM * 2, sq = sv + ROWS * DIM * 2, so = sq + 2 * TILE;
    float* stats = reinterpret_cast<float*>(memory + 2 * ROWS * DIM * 2 + 4 * TILE);  // [stage][lse, delta][QUERIES]
    int kv_head = blockIdx.x, group = shape.q_heads / shape.kv_heads;
    int4 tile = tiles[blockIdx.y];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = tile.x + warp * 16;

    auto copy_queries = [&](int stage, int head, int at, int end) {
        copy_tile<DIM, QUERIES, THREADS>(sq + stage * TILE, q + head * DIM, q_stride, at, end);
        copy_tile<DIM, QUERIES, THREADS>(so + stage * TILE, d_o + head * DIM, o_stride, at, end);
        if (threadIdx.x < QUERIES) {
            int t = at + threadIdx.x;
            i64 from = (i64)head * shape.tokens + t;
            // lse = inf makes the probability of a row past the end zero.
            stats[stage * 2 * QUERIES + threadIdx.x] = t < end ? lse[from] * LOG2E : INF;
            stats[(stage * 2 + 1) * QUERIES + threadIdx.x] = t < end ? delta[from] : 0.f;
        }
    };

    float acc_k[DIM / 8][4] = {}, acc_v[DIM / 8][4] = {};
    float scale = shape.scale * LOG2E;
    int head = kv_head * group, last = head + group, ahead_head = head, stage = 0;
    Walk<QUERIES> start(ranges, tile, tile.x, 0x7fffffff), now = start, ahead = start;
    copy_tile<DIM, ROWS, THREADS>(sk, k + kv_head * DIM, k_stride, tile.x, tile.y);
    copy_tile<DIM, ROWS, THREADS>(sv, v + kv_head * DIM, v_stride, tile.x, tile.y);
    copy_queries(0, head, ahead.at, ahead.end);
    while (head < last) {
        copy_wait();
        __syncthreads();
        ahead.advance();
        if (ahead.done()) ahead = start, ahead_head++;
        if (ahead_head < last) copy_queries(stage ^ 1, ahead_head, ahead.at, ahead.end);

        float p[QUERIES / 8][4], ds[QUERIES / 8][4];
        scores<DIM, ROWS, QUERIES>(p, sk, warp * 16, sq + stage * TILE);
        scores<DIM, ROWS, QUERIES>(ds, sv, warp * 16, so + stage * TILE);
        products_wait<1>(p);
        const float* row_lse = stats + stage * 2 * QUERIES;
        const float* row_delta = row_lse + QUERIES;
        bool masked = now.at < row + 15;
        int r0 = row + (lane >> 2);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            int col = j * 8 + (lane & 3) * 2;
            float2 l = *reinterpret_cast<const float2*>(row_lse + col);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                p[j][i] = exp2_fast(p[j][i] * scale - ((i & 1) ? l.y : l.x));
                if (masked && r0 + (i >> 1) * 8 > now.at + col + (i & 1)) p[j][i] = 0.f;
            }
        }
        Operand<QUERIES / 8> op(p);
        products_wait<0>(ds);
        accumulate<DIM, QUERIES>(acc_v, op, so + stage * TILE);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            int col = j * 8 + (lane & 3) * 2;
            float2 d = *reinterpret_cast<const float2*>(row_delta + col);
#pragma unroll
            for (int i = 0; i < 4; i++) ds[j][i] = p[j][i] * (ds[j][i] - ((i & 1) ? d.y : d.x));
        }
        Operand<QUERIES / 8> ods(ds);
        accumulate<DIM, QUERIES>(acc_k, ods, sq + stage * TILE);
        products_wait<0>(acc_v);
        products_wait<0>(acc_k);
        now.advance();
        if (now.done()) now = start, head++;
        stage ^= 1;
    }
    store_rows<DIM>(dk + kv_head * DIM, dk_stride, row, tile.y, acc_k, shape.scale, shape.scale);
    store_rows<DIM>(dv + kv_head * DIM, dv_stride, row, tile.y, acc_v, 1.f, 1.f);
}

template <int DIM, int WARPS, int KEYS>
__device__ __forceinline__ void backward_q(const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v,
                                           i64 v_stride, const bf16* d_o, i64 o_stride, const float* lse,
                                           const float* delta, bf16* dq, i64 dq_stride, const int4* tiles,
                                           const int2* ranges, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    constexpr int ROWS = WARPS * 16, TILE = KEYS * DIM * 2, THREADS = WARPS * 32;
    u32 sq = shared_address(memory), so = sq + ROWS * DIM * 2, sk = so + ROWS * DIM * 2, sv = sk + 3 * TILE;
    int head = blockIdx.x, kv_head = head / (shape.q_heads / shape.kv_heads);
    int4 tile = tiles[blockIdx.y];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = tile.x + warp * 16;
    k += kv_head * DIM, v += kv_head * DIM;

    float row_lse[2], row_delta[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int r = row + (lane >> 2) + half * 8;
        i64 from = (i64)head * shape.tokens + r;
        row_lse[half] = r < tile.y ? lse[from] * LOG2E : INF;
        row_delta[half] = r < tile.y ? delta[from] : 0.f;
    }
    // As in the forward: block i's dQ is multiplied beside block i + 1's exponentials. Keys need a third stage, because
    // dQ reads block i's while block i + 1's are multiplied and block i + 2's arrive.
    Walk<KEYS> now(ranges, tile, 0, tile.y), next = now.following();
    float acc[DIM / 8][4] = {}, p[KEYS / 8][4], ds[KEYS / 8][4];
    float scale = shape.scale * LOG2E;
    auto probabilities = [&] {
        bool masked = now.at + KEYS > now.end || now.at + KEYS - 1 > row;
        int r0 = row + (lane >> 2);
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int half = i >> 1, key = now.at + j * 8 + (lane & 3) * 2 + (i & 1);
                p[j][i] = exp2_fast(p[j][i] * scale - row_lse[half]);
                if (masked && (key >= now.end || key > r0 + half * 8)) p[j][i] = 0.f;
            }
    };
    auto slopes = [&] {
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) ds[j][i] = p[j][i] * (ds[j][i] - row_delta[i >> 1]);
    };
    copy_tile<DIM, ROWS, THREADS>(sq, q + head * DIM, q_stride, tile.x, tile.y);
    copy_tile<DIM, ROWS, THREADS>(so, d_o + head * DIM, o_stride, tile.x, tile.y);
    copy_tile<DIM, KEYS, THREADS>(sk, k, k_stride, now.at, now.end);
    copy_tile<DIM, KEYS, THREADS>(sv, v, v_stride, now.at, now.end);
    copy_wait();
    __syncthreads();
    copy_tile<DIM, KEYS, THREADS>(sk + TILE, k, k_stride, next.at, next.end);
    copy_tile<DIM, KEYS, THREADS>(sv + TILE, v, v_stride, next.at, next.end);
    scores<DIM, ROWS, KEYS>(p, sq, warp * 16, sk);
    scores<DIM, ROWS, KEYS>(ds, so, warp * 16, sv);
    products_wait<1>(p);
    probabilities();
    products_wait<0>(ds);
    slopes();
    Operand<KEYS / 8> op(ds);
    int key = 0;
    for (int stage = 0; !next.done(); stage ^= 1) {
        copy_wait();
        __syncthreads();
        now = next, next = now.following();
        int key_now = key == 2 ? 0 : key + 1, key_next = 3 - key - key_now;
        copy_tile<DIM, KEYS, THREADS>(sk + key_next * TILE, k, k_stride, next.at, next.end);
        copy_tile<DIM, KEYS, THREADS>(sv + stage * TILE, v, v_stride, next.at, next.end);
        scores<DIM, ROWS, KEYS>(p, sq, warp * 16, sk + key_now * TILE);
        scores<DIM, ROWS, KEYS>(ds, so, warp * 16, sv + (stage ^ 1) * TILE);
        accumulate<DIM, KEYS>(acc, op, sk + key * TILE);
        products_wait<2>(p);
        probabilities();
        products_wait<1>(ds);
        slopes();
        products_wait<0>(acc);
        op = Operand<KEYS / 8>(ds);
        key = key_now;
    }
    accumulate<DIM, KEYS>(acc, op, sk + key * TILE);
    products_wait<0>(acc);
    store_rows<DIM>(dq + head * DIM, dq_stride, row, tile.y, acc, shape.scale, shape.scale);
}

#define ATTENTION(DIM)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(FORWARD_WARPS * 32, 1) attention_forward_##DIM(                         \
        const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v, i64 v_stride, bf16* o, i64 o_stride,    \
        float* lse, const int4* tiles, const int2* ranges, int tokens, int q_heads, int kv_heads, float scale,           \
        int before) {                                                                                                    \
        forward<DIM, FORWARD_WARPS, FORWARD_KEYS>(q, q_stride, k, k_stride, v, v_stride, o, o_stride, lse, tiles,        \
                                                  ranges, {tokens, q_heads, kv_heads, scale, before});                   \
    }                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(KV_WARPS * 32, 1) attention_backward_kv_##DIM(                          \
        const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v, i64 v_stride, const bf16* d_o,          \
        i64 o_stride, const float* lse, const float* delta, bf16* dk, i64 dk_stride, bf16* dv, i64 dv_stride,            \
        const int4* tiles, const int2* ranges, int tokens, int q_heads, int kv_heads, float scale) {                     \
        backward_kv<DIM, KV_WARPS, KV_QUERIES>(q, q_stride, k, k_stride, v, v_stride, d_o, o_stride, lse, delta, dk,     \
                                               dk_stride, dv, dv_stride, tiles, ranges,                                  \
                                               {tokens, q_heads, kv_heads, scale});                                      \
    }                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(Q_WARPS * 32, 1) attention_backward_q_##DIM(                            \
        const bf16* q, i64 q_stride, const bf16* k, i64 k_stride, const bf16* v, i64 v_stride, const bf16* d_o,          \
        i64 o_stride, const float* lse, const float* delta, bf16* dq, i64 dq_stride, const int4* tiles,                  \
        const int2* ranges, int tokens, int q_heads, int kv_heads, float scale) {                                        \
        backward_q<DIM, Q_WARPS, Q_KEYS>(q, q_stride, k, k_stride, v, v_stride, d_o, o_stride, lse, delta, dq,           \
                                         dq_stride, tiles, ranges, {tokens, q_heads, kv_heads, scale});                  \
    }                                                                                                                    \
    extern "C" __global__ void attention_backward_delta_##DIM(const bf16* o, const bf16* d_o, i64 o_stride,              \
                                                              float* delta, int tokens, int q_heads, int kv_heads) {     \
        backward_delta<DIM>(o, d_o, o_stride, delta, {tokens, q_heads, kv_heads, 0.f});                                  \
    }

ATTENTION(64)
ATTENTION(128)
