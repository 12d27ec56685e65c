// Decode attention over a paged KV cache: one query token per sequence, grouped heads, flash-decoding splits.
//
//   s_j = scale * q . k_j,   o = sum_j softmax(s)_j v_j   over the sequence's keys j < length
//
// Layout: q, o [sequences, q_heads, DIM] bf16; k_pages, v_pages [pages, PAGE, kv_heads, DIM] bf16; table [sequences,
// table_stride] page numbers in order; length [sequences]. partial [sequences, q_heads, splits, DIM + 2] f32: sum of
// e^(s - top) v, then top and sum of e^(s - top), in powers of two.
//
// Bound by memory: every key and value is read once, 16 bytes per lane, for all query heads of its group, and eight keys
// per warp are in flight. A split is SPAN keys whatever the batch: a sequence's result does not depend on its neighbours,
// and splits are merged in order; a grid of one split writes o itself. No result changes from run to run or from batch to batch.

#define INF __int_as_float(0x7f800000)
#define LOG2E 1.4426950408889634f
#define PAGE 16
#define SPAN 512
#define WARPS 4

template <int DIM, int GROUP>
__device__ __forceinline__ void decode(const bf16* q, const bf16* k_pages, const bf16* v_pages, const int* table,
                                       int table_stride, const int* length, float* partial, bf16* o, int kv_heads,
                                       float scale) {
    constexpr int LANES = DIM / 8, TOGETHER = 32 / LANES, UNROLL = 8 / TOGETHER;
    __shared__ float merged[WARPS][GROUP][DIM + 2];
    int split = blockIdx.x, kv_head = blockIdx.y % kv_heads, sequence = blockIdx.y / kv_heads;
    int end = min(length[sequence], (split + 1) * SPAN), begin = split * SPAN;
    if (begin >= end) {
        if (gridDim.x == 1)
            for (int i = threadIdx.x; i < GROUP * DIM; i += WARPS * 32)
                o[((i64)sequence * kv_heads + kv_head) * GROUP * DIM + i] = from_f32<bf16>(0.f);
        return;
    }
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, part = lane % LANES, which = lane / LANES;
    table += (i64)sequence * table_stride;

    float query[GROUP][8], acc[GROUP][8] = {}, top[GROUP], sum[GROUP] = {};
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        load8(q + ((i64)sequence * kv_heads * GROUP + kv_head * GROUP + g) * DIM + part * 8, query[g]);
        top[g] = -INF;
#pragma unroll
        for (int i = 0; i < 8; i++) query[g][i] *= scale * LOG2E;
    }
    // A warp's step is 8 keys: half a page, so that one page number serves them. A lane holds the page of one step, and the
    // keys and values of a step are fetched while the one before is computed.
    constexpr int APART = WARPS * 8;
    static_assert(SPAN / APART <= 32, "a lane for every step of a warp");
    int steps = (end - begin - warp * 8 + APART - 1) / APART, page = 0;
    if (lane < steps) page = table[(begin + warp * 8 + lane * APART) / PAGE];
    uint4 next_k[UNROLL], next_v[UNROLL];
    auto fetch = [&](int step) {
        int first = begin + warp * 8 + step * APART;
        i64 row = ((i64)__shfl_sync(0xffffffffu, page, step) * PAGE + first % PAGE) * kv_heads + kv_head;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            int key = u * TOGETHER + which;
            i64 at = (row + (first + key < end ? (i64)key * kv_heads : 0)) * DIM + part * 8;
            next_k[u] = *reinterpret_cast<const uint4*>(k_pages + at);
            next_v[u] = *reinterpret_cast<const uint4*>(v_pages + at);
        }
    };
    if (steps > 0) fetch(0);
    for (int step = 0; step < steps; step++) {
        int first = begin + warp * 8 + step * APART;
        float s[UNROLL][GROUP];
        uint4 now_k[UNROLL], now_v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) now_k[u] = next_k[u], now_v[u] = next_v[u];
        if (step + 1 < steps) fetch(step + 1);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            bool live = first + u * TOGETHER + which < end;
            float k[8];
            unpack8(now_k[u], k);
#pragma unroll
            for (int g = 0; g < GROUP; g++) {
                float dot = 0.f;
#pragma unroll
                for (int i = 0; i < 8; i++) dot += query[g][i] * k[i];
#pragma unroll
                for (int o = LANES / 2; o > 0; o >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, o);
                s[u][g] = live ? dot : -INF;
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float m = top[g];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) m = fmaxf(m, s[u][g]);
            float base = m == -INF ? 0.f : m, factor = exp2f(top[g] - base);
            top[g] = m, sum[g] *= factor;
#pragma unroll
            for (int i = 0; i < 8; i++) acc[g][i] *= factor;
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                float p = exp2f(s[u][g] - base), v[8];
                unpack8(now_v[u], v);
                sum[g] += p;
#pragma unroll
                for (int i = 0; i < 8; i++) acc[g][i] += p * v[i];
            }
        }
    }
    // Lanes that hold the same columns of other keys, then the warps, in order.
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
#pragma unroll
        for (int o = LANES; o < 32; o <<= 1) {
            float other = __shfl_xor_sync(0xffffffffu, top[g], o), m = fmaxf(top[g], other);
            float base = m == -INF ? 0.f : m, mine = exp2f(top[g] - base), theirs = exp2f(other - base);
            sum[g] = sum[g] * mine + __shfl_xor_sync(0xffffffffu, sum[g], o) * theirs;
#pragma unroll
            for (int i = 0; i < 8; i++)
                acc[g][i] = acc[g][i] * mine + __shfl_xor_sync(0xffffffffu, acc[g][i], o) * theirs;
            top[g] = m;
        }
        if (which == 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) merged[warp][g][part * 8 + i] = acc[g][i];
            if (part == 0) merged[warp][g][DIM] = top[g], merged[warp][g][DIM + 1] = sum[g];
        }
    }
    __syncthreads();
    for (int item = threadIdx.x; item < GROUP * DIM; item += WARPS * 32) {
        int g = item / DIM, col = item % DIM;
        float m = -INF, value = 0.f, total = 0.f;
        for (int w = 0; w < WARPS; w++) m = fmaxf(m, merged[w][g][DIM]);
        for (int w = 0; w < WARPS; w++) {
            float factor = exp2f(merged[w][g][DIM] - m);
            value += merged[w][g][col] * factor, total += merged[w][g][DIM + 1] * factor;
        }
        i64 head = (i64)sequence * kv_heads * GROUP + kv_head * GROUP + g;
        if (gridDim.x == 1) {
            o[head * DIM + col] = from_f32<bf16>(value / total);
            continue;
        }
        float* to = partial + (head * gridDim.x + split) * (DIM + 2);
        to[col] = value;
        if (col == 0) to[DIM] = m, to[DIM + 1] = total;
    }
}

// o = merged splits of one sequence and head; one warp each. A sequence without keys gets zeros.
template <int DIM>
__device__ __forceinline__ void merge(const float* partial, const int* length, bf16* o, int splits, int q_heads,
                                      int sequences) {
    int item = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (item >= sequences * q_heads) return;
    int used = (length[item / q_heads] + SPAN - 1) / SPAN;
    const float* from = partial + (i64)item * splits * (DIM + 2);
    float top = -INF, sum = 0.f, acc[DIM / 32] = {};
    for (int s = 0; s < used; s++) top = fmaxf(top, from[(i64)s * (DIM + 2) + DIM]);
    for (int s = 0; s < used; s++) {
        const float* split = from + (i64)s * (DIM + 2);
        float factor = exp2f(split[DIM] - top);
        sum += split[DIM + 1] * factor;
#pragma unroll
        for (int i = 0; i < DIM / 32; i++) acc[i] += split[i * 32 + lane] * factor;
    }
#pragma unroll
    for (int i = 0; i < DIM / 32; i++) o[(i64)item * DIM + i * 32 + lane] = from_f32<bf16>(used ? acc[i] / sum : 0.f);
}

#define DECODE(DIM, GROUP)                                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) decode_##DIM##_##GROUP(                                     \
        const bf16* q, const bf16* k_pages, const bf16* v_pages, const int* table, int table_stride, const int* length,  \
        float* partial, bf16* o, int kv_heads, float scale) {                                                            \
        decode<DIM, GROUP>(q, k_pages, v_pages, table, table_stride, length, partial, o, kv_heads, scale);               \
    }
#define DECODE_ALL(DIM)                                                                                                  \
    DECODE(DIM, 1) DECODE(DIM, 2) DECODE(DIM, 3) DECODE(DIM, 4) DECODE(DIM, 5) DECODE(DIM, 6) DECODE(DIM, 7)             \
    DECODE(DIM, 8)                                                                                                       \
    extern "C" __global__ void decode_merge_##DIM(const float* partial, const int* length, bf16* o, int splits,          \
                                                  int q_heads, int sequences) {                                          \
        merge<DIM>(partial, length, o, splits, q_heads, sequences);                                                      \
    }
DECODE_ALL(64)
DECODE_ALL(128)

// Writes keys and values of new tokens to their slots (page * PAGE + place): one block per token. A slot below zero is not
// written.
extern "C" __global__ void cache_write(const bf16* k, i64 k_stride, const bf16* v, i64 v_stride, const int* slot,
                                       bf16* k_pages, bf16* v_pages, int width) {
    if (slot[blockIdx.x] < 0) return;
    i64 to = (i64)slot[blockIdx.x] * width;
    for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        *(uint4*)(k_pages + to + i) = *(const uint4*)(k + blockIdx.x * k_stride + i);
        *(uint4*)(v_pages + to + i) = *(const uint4*)(v + blockIdx.x * v_stride + i);
    }
}

// The reverse: keys and values of slots, one after the other. A slot below zero gives zeros.
extern "C" __global__ void cache_read(const bf16* k_pages, const bf16* v_pages, const int* slot, bf16* k, bf16* v, int width) {
    i64 from = (i64)slot[blockIdx.x] * width, to = (i64)blockIdx.x * width;
    for (int i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        *(uint4*)(k + to + i) = from < 0 ? uint4{} : *(const uint4*)(k_pages + from + i);
        *(uint4*)(v + to + i) = from < 0 ? uint4{} : *(const uint4*)(v_pages + from + i);
    }
}
