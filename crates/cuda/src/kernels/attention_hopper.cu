// Flash attention on Hopper: formulas, layout and visibility as in attention.cu, other machinery.
//
// A block has three warpgroups. One thread of the first fetches tiles (TMA) as far ahead as there is room; the other two
// multiply (wgmma) 64 rows each and meet the first at barriers only, so that one's softmax runs beside the other's
// products. Within a warpgroup, too, the products of one block run beside the exponentials of the next. Blocks stay for
// the whole launch and take tiles blockIdx.x, blockIdx.x + gridDim.x, ... (the launcher lists the longest first): the next
// tile's rows arrive while the last one is written.
// The fetches bring whole boxes: rows past the end of a sequence hold what follows it in memory. Nothing of them is
// stored, and as keys or queries of others they are masked, which is why probabilities are set to zero and not multiplied.

#ifndef FORWARD_KEYS
#error "the launcher defines the tile sizes"
#endif

// Rows per block: 64 per multiplying warpgroup, whose eight warps free what they have read.
constexpr int ROWS = 128, READERS = 8;

// Walks `count` pairs of a tile and a head, every gridDim.x-th.
struct Items {
    const int4* tiles;
    int item, count, heads;

    __device__ __forceinline__ Items(const int4* tiles, int count, int heads)
        : tiles(tiles), item(blockIdx.x), count(count * heads), heads(heads) {}
    __device__ __forceinline__ bool done() const { return item >= count; }
    __device__ __forceinline__ void advance() { item += gridDim.x; }
    __device__ __forceinline__ int head() const { return item % heads; }
    __device__ __forceinline__ int4 tile() const { return tiles[item / heads]; }
};

template <int DIM, int KEYS>
__device__ __forceinline__ void forward(const TensorMap* q, const TensorMap* k, const TensorMap* v, bf16* o, i64 o_stride,
                                        float* lse, const int4* tiles, const int2* ranges, int count, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    using Own = TileRing<DIM, ROWS, 1>;
    using Keys = TileRing<DIM, KEYS, 2>;
    u32 base = shared_address(memory), barriers = base + Own::BYTES + 4 * Keys::BYTES;
    Own queries = {base, barriers};
    Keys keys = {base + Own::BYTES, barriers + Own::BARRIERS};
    Keys values = {keys.memory + 2 * Keys::BYTES, keys.barriers + Keys::BARRIERS};
    if (threadIdx.x == 0) {
        queries.init(1, READERS), keys.init(1, READERS), values.init(1, READERS);
        barriers_ready();
    }
    __syncthreads();
    int group = shape.q_heads / shape.kv_heads;
    Ring<1> at_q;
    Ring<2> at_k, at_v;
    Items items(tiles, count, shape.q_heads);
    if (threadIdx.x < 128) {
        registers_down<24>();
        if (threadIdx.x != 0) return;
        for (; !items.done(); items.advance()) {
            int4 tile = items.tile();
            int head = items.head(), kv_head = head / group;
            queries.fetch(at_q, q, head, tile.x - shape.before), at_q.advance();
            for (Walk<KEYS> walk(ranges, tile, 0, tile.y); !walk.done(); walk.advance()) {
                keys.fetch(at_k, k, kv_head, walk.at), at_k.advance();
                values.fetch(at_v, v, kv_head, walk.at), at_v.advance();
            }
        }
        return;
    }
    registers_up<240>();
    int warp = (threadIdx.x >> 5) - 4, lane = threadIdx.x & 31, mine = 1 + warp / 4, other = 3 - mine;
    if (mine == 1) turn_give(1);
    float scale = shape.scale * LOG2E;
    // Rows of queries are numbered like keys.
    o -= shape.before * o_stride, lse -= shape.before;
    for (; !items.done(); items.advance()) {
        int4 tile = items.tile();
        int head = items.head(), row = tile.x + warp * 16;
        float acc[DIM / 8][4] = {}, top[2] = {-INF, -INF}, sum[2] = {0.f, 0.f}, factor[2], s[KEYS / 8][4];
        Walk<KEYS> now(ranges, tile, 0, tile.y);
        Operand<DIM / 8> rows;
        rows.template load<ROWS>(queries.wait(at_q), warp * 16);
        __syncwarp();
        queries.free(at_q.stage), at_q.advance();
        scores<DIM, KEYS>(s, rows, keys.wait(at_k));
        products_wait<0>(s);
        keys.free(at_k.stage), at_k.advance();
        softmax<KEYS>(s, top, sum, factor, scale, row, now.at, now.end);
        Operand<KEYS / 8> p(s);
        for (now.advance(); !now.done(); now.advance()) {
            u32 sk = keys.wait(at_k), sv = values.wait(at_v);
            turn_wait(mine);
            scores<DIM, KEYS>(s, rows, sk);
            accumulate<DIM, KEYS>(acc, p, sv);
            turn_give(other);
            products_wait<1>(s);
            keys.free(at_k.stage), at_k.advance();
            softmax<KEYS>(s, top, sum, factor, scale, row, now.at, now.end);
            products_wait<0>(acc);
            values.free(at_v.stage), at_v.advance();
            p = Operand<KEYS / 8>(s);
            // The maximum settles after a few blocks; most steps have nothing to rescale.
            if (__any_sync(0xffffffffu, factor[0] != 1.f || factor[1] != 1.f)) {
#pragma unroll
                for (int j = 0; j < DIM / 8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc[j][i] *= factor[i >> 1];
            }
        }
        accumulate<DIM, KEYS>(acc, p, values.wait(at_v));
        products_wait<0>(acc);
        values.free(at_v.stage), at_v.advance();
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
}

// Tiles of keys; the ranges of a tile are the queries that may see it.
template <int DIM, int QUERIES>
__device__ __forceinline__ void backward_kv(const TensorMap* q, const TensorMap* k, const TensorMap* v,
                                            const TensorMap* d_o, const float* lse, const float* delta, bf16* dk,
                                            i64 dk_stride, bf16* dv, i64 dv_stride, const int4* tiles,
                                            const int2* ranges, int count, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    using Own = TileRing<DIM, ROWS, 1>;
    using Queries = TileRing<DIM, QUERIES, 3>;
    u32 base = shared_address(memory), barriers = base + 2 * Own::BYTES + 6 * Queries::BYTES;
    Own keys = {base, barriers}, values = {base + Own::BYTES, barriers + Own::BARRIERS};
    Queries queries = {base + 2 * Own::BYTES, barriers + 2 * Own::BARRIERS};
    Queries slopes = {queries.memory + 3 * Queries::BYTES, queries.barriers + Queries::BARRIERS};
    // [stage][lse, -delta][QUERIES], behind the barriers.
    constexpr int STATS = 2 * Own::BYTES + 6 * Queries::BYTES + 2 * Own::BARRIERS + 2 * Queries::BARRIERS;
    float* stats = reinterpret_cast<float*>(memory + STATS);
    // [stage]: where the block of queries begins, and whether it is the tile's last. Read from here, because the walk's
    // own state would be registers the accumulators need.
    int2* places = reinterpret_cast<int2*>(memory + STATS + 3 * 2 * QUERIES * 4);
    if (threadIdx.x == 0) {
        // Slopes come with lse and delta, which the fetching warp writes itself: a second arrival.
        keys.init(1, READERS), values.init(1, READERS), queries.init(1, READERS), slopes.init(2, READERS);
        barriers_ready();
    }
    __syncthreads();
    int group = shape.q_heads / shape.kv_heads;
    Ring<1> own;
    Ring<3> at;
    Items items(tiles, count, shape.kv_heads);
    if (threadIdx.x < 128) {
        registers_down<24>();
        // One warp fetches tiles, a second what goes with the queries: lse, delta and the place of the block.
        int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        if (warp > 1 || (warp == 0 && lane != 0)) return;
        for (; !items.done(); items.advance()) {
            int4 tile = items.tile();
            int kv_head = items.head(), last = (kv_head + 1) * group - 1;
            if (warp == 0) {
                keys.fetch(own, k, kv_head, tile.x);
                values.fetch(own, v, kv_head, tile.x);
                own.advance();
            }
            for (int head = kv_head * group; head <= last; head++) {
                Walk<QUERIES> walk(ranges, tile, tile.x, 0x7fffffff);
                while (!walk.done()) {
                    int begin = walk.at, end = walk.end;
                    walk.advance();
                    if (warp == 0) {
                        slopes.fetch(at, d_o, head, begin);
                        queries.fetch(at, q, head, begin);
                        at.advance();
                        continue;
                    }
                    float values_read[2][QUERIES / 32];
#pragma unroll
                    for (int i = 0; i < QUERIES / 32; i++) {
                        int t = begin + i * 32 + lane;
                        i64 from = (i64)head * shape.tokens + t;
                        // lse = inf makes the probability of a row past the end zero.
                        values_read[0][i] = t < end ? lse[from] * LOG2E : INF;
                        values_read[1][i] = t < end ? -delta[from] : 0.f;
                    }
                    barrier_wait(slopes.freed(at.stage), at.parity ^ 1);
#pragma unroll
                    for (int i = 0; i < QUERIES / 32; i++) {
                        stats[at.stage * 2 * QUERIES + i * 32 + lane] = values_read[0][i];
                        stats[(at.stage * 2 + 1) * QUERIES + i * 32 + lane] = values_read[1][i];
                    }
                    if (lane == 0) places[at.stage] = {begin, walk.done() && head == last};
                    __syncwarp();
                    if (lane == 0) barrier_arrive(slopes.arrived(at.stage));
                    at.advance();
                }
            }
        }
        return;
    }
    registers_up<240>();
    int warp = (threadIdx.x >> 5) - 4, lane = threadIdx.x & 31;
    float scale = shape.scale * LOG2E;
    const float* mine = stats + (lane & 3) * 2;
    for (; !items.done(); items.advance()) {
        int4 tile = items.tile();
        int row = tile.x + warp * 16, diagonal = row + (lane >> 2) - (lane & 3) * 2;
        float acc_k[DIM / 8][4] = {}, acc_v[DIM / 8][4] = {}, p[QUERIES / 8][4], ds[QUERIES / 8][4];
        auto probabilities = [&](int at, int stage) {
            const float* row_lse = mine + stage * 2 * QUERIES;
            // A key is hidden from the queries before it.
            int behind = diagonal - at;
#pragma unroll
            for (int j = 0; j < QUERIES / 8; j++) {
                float2 l = *reinterpret_cast<const float2*>(row_lse + j * 8);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    p[j][i] = exp2_fast(p[j][i] * scale - ((i & 1) ? l.y : l.x));
                    if (behind + (i >> 1) * 8 > j * 8 + (i & 1)) p[j][i] = 0.f;
                }
            }
        };
        // dP begins at -delta, so that the product leaves the difference.
        auto begin_differences = [&](int stage) {
            const float* row_delta = mine + (stage * 2 + 1) * QUERIES;
#pragma unroll
            for (int j = 0; j < QUERIES / 8; j++) {
                float2 d = *reinterpret_cast<const float2*>(row_delta + j * 8);
                ds[j][0] = ds[j][2] = d.x, ds[j][1] = ds[j][3] = d.y;
            }
        };
        // Nothing is delayed here: accumulators of both gradients leave no registers for it. The other warpgroup's products
        // run beside this one's exponentials.
        u32 sk = keys.wait(own) + (warp / 4) * 8192, sv = values.wait(own) + (warp / 4) * 8192;
        for (bool last = false; !last; at.advance()) {
            u32 sq = queries.wait(at), so = slopes.wait(at);
            int2 place = places[at.stage];
            last = place.y;
            unknown(sk), unknown(sv);
            begin_differences(at.stage);
            scores<DIM, ROWS, QUERIES>(p, sk, 0, sq);
            scores<DIM, ROWS, QUERIES, true>(ds, sv, 0, so);
            products_wait<1>(p);
            probabilities(place.x, at.stage);
            products_wait<0>(ds);
            Operand<QUERIES / 8> op(p);
            accumulate<DIM, QUERIES>(acc_v, op, so);
#pragma unroll
            for (int j = 0; j < QUERIES / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) ds[j][i] *= p[j][i];
            Operand<QUERIES / 8> ods(ds);
            accumulate<DIM, QUERIES>(acc_k, ods, sq);
            products_wait<0>(acc_v);
            products_wait<0>(acc_k);
            queries.free(at.stage), slopes.free(at.stage);
        }
        keys.free(own.stage), values.free(own.stage), own.advance();
        int kv_head = items.head();
        store_rows<DIM>(dk + kv_head * DIM, dk_stride, row, tile.y, acc_k, shape.scale, shape.scale);
        store_rows<DIM>(dv + kv_head * DIM, dv_stride, row, tile.y, acc_v, 1.f, 1.f);
    }
}

template <int DIM, int KEYS>
__device__ __forceinline__ void backward_q(const TensorMap* q, const TensorMap* k, const TensorMap* v,
                                           const TensorMap* d_o, const float* lse, const float* delta, bf16* dq,
                                           i64 dq_stride, const int4* tiles, const int2* ranges, int count, Shape shape) {
    extern __shared__ __align__(1024) unsigned char memory[];
    using Own = TileRing<DIM, ROWS, 1>;
    using Keys = TileRing<DIM, KEYS, 3>;
    using Values = TileRing<DIM, KEYS, 2>;
    u32 base = shared_address(memory), barriers = base + 2 * Own::BYTES + 5 * Keys::BYTES;
    Own queries = {base, barriers}, slopes = {base + Own::BYTES, barriers + Own::BARRIERS};
    Keys keys = {base + 2 * Own::BYTES, barriers + 2 * Own::BARRIERS};
    Values values = {keys.memory + 3 * Keys::BYTES, keys.barriers + Keys::BARRIERS};
    if (threadIdx.x == 0) {
        queries.init(1, READERS), slopes.init(1, READERS), keys.init(1, READERS), values.init(1, READERS);
        barriers_ready();
    }
    __syncthreads();
    int group = shape.q_heads / shape.kv_heads;
    Ring<1> own;
    Ring<3> at_k;
    Ring<2> at_v;
    Items items(tiles, count, shape.q_heads);
    if (threadIdx.x < 128) {
        registers_down<24>();
        if (threadIdx.x != 0) return;
        for (; !items.done(); items.advance()) {
            int4 tile = items.tile();
            int head = items.head(), kv_head = head / group;
            queries.fetch(own, q, head, tile.x);
            slopes.fetch(own, d_o, head, tile.x);
            own.advance();
            for (Walk<KEYS> walk(ranges, tile, 0, tile.y); !walk.done(); walk.advance()) {
                keys.fetch(at_k, k, kv_head, walk.at), at_k.advance();
                values.fetch(at_v, v, kv_head, walk.at), at_v.advance();
            }
        }
        return;
    }
    registers_up<240>();
    int warp = (threadIdx.x >> 5) - 4, lane = threadIdx.x & 31;
    float scale = shape.scale * LOG2E;
    for (; !items.done(); items.advance()) {
        int4 tile = items.tile();
        int head = items.head(), row = tile.x + warp * 16, r0 = row + (lane >> 2);
        float row_lse[2], row_delta[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int r = r0 + half * 8;
            i64 from = (i64)head * shape.tokens + r;
            row_lse[half] = r < tile.y ? lse[from] * LOG2E : INF;
            row_delta[half] = r < tile.y ? delta[from] : 0.f;
        }
        float acc[DIM / 8][4] = {}, p[KEYS / 8][4], ds[KEYS / 8][4];
        Walk<KEYS> now(ranges, tile, 0, tile.y);
        auto probabilities = [&] {
            bool masked = now.at + KEYS > now.end || now.at + KEYS - 1 > row;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int half = i >> 1, key = now.at + j * 8 + (lane & 3) * 2 + (i & 1);
                    p[j][i] = exp2_fast(p[j][i] * scale - row_lse[half]);
                    if (masked && (key >= now.end || key > r0 + half * 8)) p[j][i] = 0.f;
                }
        };
        auto differences = [&] {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) ds[j][i] = p[j][i] * (ds[j][i] - row_delta[i >> 1]);
        };
        // As in the forward: block i's dQ is multiplied beside block i + 1's exponentials.
        Operand<DIM / 8> rows, slope;
        rows.template load<ROWS>(queries.wait(own), warp * 16);
        slope.template load<ROWS>(slopes.wait(own), warp * 16);
        __syncwarp();
        queries.free(own.stage), slopes.free(own.stage), own.advance();
        u32 sk = keys.wait(at_k);
        Ring<3> next = at_k;
        scores<DIM, KEYS>(p, rows, sk);
        scores<DIM, KEYS>(ds, slope, values.wait(at_v));
        products_wait<1>(p);
        probabilities();
        products_wait<0>(ds);
        values.free(at_v.stage), at_v.advance();
        differences();
        Operand<KEYS / 8> op(ds);
        for (now.advance(); !now.done(); now.advance()) {
            next.advance();
            u32 sk_next = keys.wait(next), sv = values.wait(at_v);
            scores<DIM, KEYS>(p, rows, sk_next);
            scores<DIM, KEYS>(ds, slope, sv);
            accumulate<DIM, KEYS>(acc, op, sk);
            products_wait<2>(p);
            probabilities();
            products_wait<1>(ds);
            values.free(at_v.stage), at_v.advance();
            differences();
            products_wait<0>(acc);
            keys.free(at_k.stage), at_k.advance();
            op = Operand<KEYS / 8>(ds);
            sk = sk_next;
        }
        accumulate<DIM, KEYS>(acc, op, sk);
        products_wait<0>(acc);
        keys.free(at_k.stage), at_k.advance();
        store_rows<DIM>(dq + head * DIM, dq_stride, row, tile.y, acc, shape.scale, shape.scale);
    }
}

#define MAP const __grid_constant__ TensorMap
#define ATTENTION(DIM)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(384, 1) attention_forward_##DIM(                                        \
        MAP q, MAP k, MAP v, bf16* o, i64 o_stride, float* lse, const int4* tiles, const int2* ranges, int count,        \
        int tokens, int q_heads, int kv_heads, float scale, int before) {                                                \
        forward<DIM, FORWARD_KEYS>(&q, &k, &v, o, o_stride, lse, tiles, ranges, count,                                   \
                                   {tokens, q_heads, kv_heads, scale, before});                                          \
    }                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(384, 1) attention_backward_kv_##DIM(                                    \
        MAP q, MAP k, MAP v, MAP d_o, const float* lse, const float* delta, bf16* dk, i64 dk_stride, bf16* dv,           \
        i64 dv_stride, const int4* tiles, const int2* ranges, int count, int tokens, int q_heads, int kv_heads,          \
        float scale) {                                                                                                   \
        backward_kv<DIM, KV_QUERIES>(&q, &k, &v, &d_o, lse, delta, dk, dk_stride, dv, dv_stride, tiles, ranges, count,   \
                                     {tokens, q_heads, kv_heads, scale});                                                \
    }                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(384, 1) attention_backward_q_##DIM(                                     \
        MAP q, MAP k, MAP v, MAP d_o, const float* lse, const float* delta, bf16* dq, i64 dq_stride, const int4* tiles,  \
        const int2* ranges, int count, int tokens, int q_heads, int kv_heads, float scale) {                             \
        backward_q<DIM, Q_KEYS>(&q, &k, &v, &d_o, lse, delta, dq, dq_stride, tiles, ranges, count,                       \
                                {tokens, q_heads, kv_heads, scale});                                                     \
    }                                                                                                                    \
    extern "C" __global__ void attention_backward_delta_##DIM(const bf16* o, const bf16* d_o, i64 o_stride,              \
                                                              float* delta, int tokens, int q_heads, int kv_heads) {     \
        backward_delta<DIM>(o, d_o, o_stride, delta, {tokens, q_heads, kv_heads, 0.f});                                  \
    }

ATTENTION(64)
ATTENTION(128)
