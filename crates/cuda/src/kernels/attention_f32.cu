// Attention in f32, for tests: the same functions, arguments and visibility as attention.cu, without tensor cores.
//
// Formulas and layout: attention.cu, with float in the place of bf16. A warp takes one row (a query; in dK/dV a key) at a
// time, every lane DIM / 32 of its elements. Written to be obviously right, not fast.

struct Shape {
    int tokens, q_heads, kv_heads;
    float scale;
    int before = 0;
};

template <int DIM> struct Row {
    static constexpr int EACH = DIM / 32;
    float x[EACH] = {};

    __device__ __forceinline__ Row() {}
    __device__ __forceinline__ explicit Row(const float* p) {
        for (int i = 0; i < EACH; i++) x[i] = p[i * 32 + (threadIdx.x & 31)];
    }
    __device__ __forceinline__ float dot(const Row& other) const {
        float sum = 0.f;
        for (int i = 0; i < EACH; i++) sum += x[i] * other.x[i];
        return warp_sum(sum);
    }
    __device__ __forceinline__ void add(float factor, const Row& other) {
        for (int i = 0; i < EACH; i++) x[i] += factor * other.x[i];
    }
    __device__ __forceinline__ void store(float* p, float factor) const {
        for (int i = 0; i < EACH; i++) p[i * 32 + (threadIdx.x & 31)] = x[i] * factor;
    }
};

template <int DIM>
__device__ __forceinline__ void forward(const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v,
                                        i64 v_stride, float* o, i64 o_stride, float* lse, const int4* tiles,
                                        const int2* ranges, Shape shape) {
    int head = blockIdx.x, kv_head = head / (shape.q_heads / shape.kv_heads);
    int4 tile = tiles[blockIdx.y];
    q -= shape.before * q_stride, o -= shape.before * o_stride, lse -= shape.before;
    for (int row = tile.x + threadIdx.x / 32; row < tile.y; row += blockDim.x / 32) {
        Row<DIM> query(q + row * q_stride + head * DIM), acc;
        float top = -__int_as_float(0x7f800000), sum = 0.f;
        for (int r = tile.z; r < tile.w; r++)
            for (int key = ranges[r].x; key < ranges[r].y && key <= row; key++) {
                float s = query.dot(Row<DIM>(k + key * k_stride + kv_head * DIM)) * shape.scale;
                float m = fmaxf(top, s), factor = expf(top - m), p = expf(s - m);
                for (int i = 0; i < Row<DIM>::EACH; i++) acc.x[i] *= factor;
                acc.add(p, Row<DIM>(v + key * v_stride + kv_head * DIM));
                sum = sum * factor + p, top = m;
            }
        acc.store(o + row * o_stride + head * DIM, 1.f / sum);
        if (threadIdx.x % 32 == 0) lse[(i64)head * shape.tokens + row] = top + logf(sum);
    }
}

template <int DIM>
__device__ __forceinline__ void backward_q(const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v,
                                           i64 v_stride, const float* d_o, i64 o_stride, const float* lse,
                                           const float* delta, float* dq, i64 dq_stride, const int4* tiles,
                                           const int2* ranges, Shape shape) {
    int head = blockIdx.x, kv_head = head / (shape.q_heads / shape.kv_heads);
    int4 tile = tiles[blockIdx.y];
    for (int row = tile.x + threadIdx.x / 32; row < tile.y; row += blockDim.x / 32) {
        Row<DIM> query(q + row * q_stride + head * DIM), slope(d_o + row * o_stride + head * DIM), acc;
        i64 stat = (i64)head * shape.tokens + row;
        for (int r = tile.z; r < tile.w; r++)
            for (int key = ranges[r].x; key < ranges[r].y && key <= row; key++) {
                Row<DIM> keys(k + key * k_stride + kv_head * DIM);
                float p = expf(query.dot(keys) * shape.scale - lse[stat]);
                float dp = slope.dot(Row<DIM>(v + key * v_stride + kv_head * DIM));
                acc.add(p * (dp - delta[stat]), keys);
            }
        acc.store(dq + row * dq_stride + head * DIM, shape.scale);
    }
}

template <int DIM>
__device__ __forceinline__ void backward_kv(const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v,
                                            i64 v_stride, const float* d_o, i64 o_stride, const float* lse,
                                            const float* delta, float* dk, i64 dk_stride, float* dv, i64 dv_stride,
                                            const int4* tiles, const int2* ranges, Shape shape) {
    int kv_head = blockIdx.x, group = shape.q_heads / shape.kv_heads;
    int4 tile = tiles[blockIdx.y];
    for (int row = tile.x + threadIdx.x / 32; row < tile.y; row += blockDim.x / 32) {
        Row<DIM> key(k + row * k_stride + kv_head * DIM), value(v + row * v_stride + kv_head * DIM), acc_k, acc_v;
        for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
            for (int r = tile.z; r < tile.w; r++)
                for (int t = max(ranges[r].x, row); t < ranges[r].y; t++) {
                    Row<DIM> query(q + t * q_stride + head * DIM), slope(d_o + t * o_stride + head * DIM);
                    i64 stat = (i64)head * shape.tokens + t;
                    float p = expf(query.dot(key) * shape.scale - lse[stat]);
                    acc_v.add(p, slope);
                    acc_k.add(p * (slope.dot(value) - delta[stat]), query);
                }
        acc_k.store(dk + row * dk_stride + kv_head * DIM, shape.scale);
        acc_v.store(dv + row * dv_stride + kv_head * DIM, 1.f);
    }
}

template <int DIM>
__device__ __forceinline__ void backward_delta(const float* o, const float* d_o, i64 o_stride, float* delta, Shape shape) {
    i64 item = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (item >= (i64)shape.tokens * shape.q_heads) return;
    int token = item / shape.q_heads, head = item % shape.q_heads;
    i64 at = (i64)token * o_stride + head * DIM;
    float sum = Row<DIM>(o + at).dot(Row<DIM>(d_o + at));
    if (threadIdx.x % 32 == 0) delta[(i64)head * shape.tokens + token] = sum;
}

#define ATTENTION(DIM)                                                                                                   \
    extern "C" __global__ void attention_forward_##DIM(                                                                  \
        const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v, i64 v_stride, float* o,              \
        i64 o_stride, float* lse, const int4* tiles, const int2* ranges, int tokens, int q_heads, int kv_heads,          \
        float scale, int before) {                                                                                       \
        forward<DIM>(q, q_stride, k, k_stride, v, v_stride, o, o_stride, lse, tiles, ranges,                             \
                     {tokens, q_heads, kv_heads, scale, before});                                                        \
    }                                                                                                                    \
    extern "C" __global__ void attention_backward_kv_##DIM(                                                              \
        const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v, i64 v_stride, const float* d_o,      \
        i64 o_stride, const float* lse, const float* delta, float* dk, i64 dk_stride, float* dv, i64 dv_stride,          \
        const int4* tiles, const int2* ranges, int tokens, int q_heads, int kv_heads, float scale) {                     \
        backward_kv<DIM>(q, q_stride, k, k_stride, v, v_stride, d_o, o_stride, lse, delta, dk, dk_stride, dv,            \
                         dv_stride, tiles, ranges, {tokens, q_heads, kv_heads, scale});                                  \
    }                                                                                                                    \
    extern "C" __global__ void attention_backward_q_##DIM(                                                               \
        const float* q, i64 q_stride, const float* k, i64 k_stride, const float* v, i64 v_stride, const float* d_o,      \
        i64 o_stride, const float* lse, const float* delta, float* dq, i64 dq_stride, const int4* tiles,                 \
        const int2* ranges, int tokens, int q_heads, int kv_heads, float scale) {                                        \
        backward_q<DIM>(q, q_stride, k, k_stride, v, v_stride, d_o, o_stride, lse, delta, dq, dq_stride, tiles, ranges,  \
                        {tokens, q_heads, kv_heads, scale});                                                             \
    }                                                                                                                    \
    extern "C" __global__ void attention_backward_delta_##DIM(const float* o, const float* d_o, i64 o_stride,            \
                                                              float* delta, int tokens, int q_heads, int kv_heads) {     \
        backward_delta<DIM>(o, d_o, o_stride, delta, {tokens, q_heads, kv_heads, 0.f});                                  \
    }
ATTENTION(64)
ATTENTION(128)
