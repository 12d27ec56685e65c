// Rotary position embedding with the RMSNorm of queries and keys (qk-norm) fused in, forward and backward.
//
//   n = u * rstd(u) * w                      (per head; w absent: n = u)
//   out[i]      = n[i] * cos - n[i+h] * sin  for i < h = head_dim / 2
//   out[i + h]  = n[i+h] * cos + n[i] * sin
//
// Layout: qkv [tokens, q_heads + 2*kv_heads, head_dim], the output of the fused projection; q [tokens, q_heads, head_dim],
// k [tokens, kv_heads, head_dim]; cos_sin [positions, head_dim] f32, cosines in the first half of a row, sines in the
// second; position [tokens]. Values are not copied: attention reads them where they lie.
// Fast because a warp holds a head in registers (lane i the pairs i and i + h), so that norm, rotation and their
// backward need one read and one write of memory. The backward recomputes rstd instead of storing it.

template <int PAIRS> struct Head {
    float lo[PAIRS], hi[PAIRS];
};

// PAIRS = head_dim / 64 elements of each half per lane.
template <int PAIRS, typename T> __device__ __forceinline__ Head<PAIRS> load_head(const T* p, int lane) {
    Head<PAIRS> h;
    if constexpr (PAIRS == 2) {
        float2 a = load2(p + lane * 2), b = load2(p + 64 + lane * 2);
        h.lo[0] = a.x, h.lo[1] = a.y, h.hi[0] = b.x, h.hi[1] = b.y;
    } else {
        h.lo[0] = to_f32(p[lane]), h.hi[0] = to_f32(p[32 + lane]);
    }
    return h;
}
template <int PAIRS, typename T> __device__ __forceinline__ void store_head(T* p, int lane, const Head<PAIRS>& h) {
    if constexpr (PAIRS == 2) {
        store2(p + lane * 2, h.lo[0], h.lo[1]);
        store2(p + 64 + lane * 2, h.hi[0], h.hi[1]);
    } else {
        p[lane] = from_f32<T>(h.lo[0]), p[32 + lane] = from_f32<T>(h.hi[0]);
    }
}

template <int PAIRS, typename T>
__device__ __forceinline__ void forward(const T* qkv, const T* qw, const T* kw, const float* cos_sin,
                                        const int* position, T* q, T* k, int tokens, int q_heads, int kv_heads,
                                        float eps) {
    constexpr int DIM = PAIRS * 64;
    int lane = threadIdx.x & 31, heads = q_heads + kv_heads;
    i64 item = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (item >= (i64)tokens * heads) return;
    int token = item / heads, head = item % heads;
    bool query = head < q_heads;
    Head<PAIRS> u = load_head<PAIRS>(qkv + ((i64)token * (heads + kv_heads) + head) * DIM, lane);
    const T* weight = query ? qw : kw;
    if (weight) {
        float sum = 0.f;
#pragma unroll
        for (int i = 0; i < PAIRS; i++) sum += u.lo[i] * u.lo[i] + u.hi[i] * u.hi[i];
        float scale = rsqrtf(warp_sum(sum) / DIM + eps);
        Head<PAIRS> w = load_head<PAIRS>(weight, lane);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) u.lo[i] *= scale * w.lo[i], u.hi[i] *= scale * w.hi[i];
    }
    Head<PAIRS> cs = load_head<PAIRS>(cos_sin + (i64)position[token] * DIM, lane), out;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        out.lo[i] = u.lo[i] * cs.lo[i] - u.hi[i] * cs.hi[i];
        out.hi[i] = u.hi[i] * cs.lo[i] + u.lo[i] * cs.hi[i];
    }
    T* to = query ? q + ((i64)token * q_heads + head) * DIM : k + ((i64)token * kv_heads + head - q_heads) * DIM;
    store_head<PAIRS>(to, lane, out);
}

// Writes the query and key part of dqkv. partial [gridDim.x, 2, head_dim]: dw of queries, then of keys.
template <int PAIRS, typename T>
__device__ __forceinline__ void backward(const T* dq, const T* dk, const T* qkv, const T* qw, const T* kw,
                                         const float* cos_sin, const int* position, T* dqkv, float* partial, int tokens,
                                         int q_heads, int kv_heads, float eps) {
    constexpr int DIM = PAIRS * 64;
    __shared__ float sums[8][2][DIM];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, heads = q_heads + kv_heads;
    Head<PAIRS> dw[2] = {};
    for (int token = blockIdx.x; token < tokens; token += gridDim.x) {
        Head<PAIRS> cs = load_head<PAIRS>(cos_sin + (i64)position[token] * DIM, lane);
        for (int head = warp; head < heads; head += 8) {
            bool query = head < q_heads;
            const T* from =
                query ? dq + ((i64)token * q_heads + head) * DIM : dk + ((i64)token * kv_heads + head - q_heads) * DIM;
            Head<PAIRS> g = load_head<PAIRS>(from, lane), d;
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                d.lo[i] = g.lo[i] * cs.lo[i] + g.hi[i] * cs.hi[i];
                d.hi[i] = g.hi[i] * cs.lo[i] - g.lo[i] * cs.hi[i];
            }
            i64 at = ((i64)token * (heads + kv_heads) + head) * DIM;
            const T* weight = query ? qw : kw;
            if (weight) {
                Head<PAIRS> u = load_head<PAIRS>(qkv + at, lane), w = load_head<PAIRS>(weight, lane);
                float sum = 0.f, dot = 0.f;
#pragma unroll
                for (int i = 0; i < PAIRS; i++) {
                    sum += u.lo[i] * u.lo[i] + u.hi[i] * u.hi[i];
                    dot += u.lo[i] * w.lo[i] * d.lo[i] + u.hi[i] * w.hi[i] * d.hi[i];
                }
                float scale = rsqrtf(warp_sum(sum) / DIM + eps);
                dot = warp_sum(dot) / DIM * scale * scale * scale;
#pragma unroll
                for (int i = 0; i < PAIRS; i++) {
                    float a = d.lo[i] * u.lo[i] * scale, b = d.hi[i] * u.hi[i] * scale;
                    if (query) dw[0].lo[i] += a, dw[0].hi[i] += b;
                    else dw[1].lo[i] += a, dw[1].hi[i] += b;
                    d.lo[i] = d.lo[i] * w.lo[i] * scale - u.lo[i] * dot;
                    d.hi[i] = d.hi[i] * w.hi[i] * scale - u.hi[i] * dot;
                }
            }
            store_head<PAIRS>(dqkv + at, lane, d);
        }
    }
    if (!qw) return;
#pragma unroll
    for (int side = 0; side < 2; side++) store_head<PAIRS>(sums[warp][side], lane, dw[side]);
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * DIM; i += blockDim.x) {
        float sum = 0.f;
        for (int w = 0; w < 8; w++) sum += sums[w][i / DIM][i % DIM];
        partial[(i64)blockIdx.x * 2 * DIM + i] = sum;
    }
}

#define FORWARD_PARAMS(T)                                                                                                \
    (const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position, T* q, T* k, int tokens,          \
     int q_heads, int kv_heads, float eps)
#define FORWARD_64(T) forward<1, T>(qkv, qw, kw, cos_sin, position, q, k, tokens, q_heads, kv_heads, eps)
#define FORWARD_128(T) forward<2, T>(qkv, qw, kw, cos_sin, position, q, k, tokens, q_heads, kv_heads, eps)
BOTH(rope_forward_64, FORWARD_PARAMS, FORWARD_64)
BOTH(rope_forward_128, FORWARD_PARAMS, FORWARD_128)

#define BACKWARD_PARAMS(T)                                                                                               \
    (const T* dq, const T* dk, const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position,        \
     T* dqkv, float* partial, int tokens, int q_heads, int kv_heads, float eps)
#define BACKWARD_64(T)                                                                                                   \
    backward<1, T>(dq, dk, qkv, qw, kw, cos_sin, position, dqkv, partial, tokens, q_heads, kv_heads, eps)
#define BACKWARD_128(T)                                                                                                  \
    backward<2, T>(dq, dk, qkv, qw, kw, cos_sin, position, dqkv, partial, tokens, q_heads, kv_heads, eps)
BOTH(rope_backward_64, BACKWARD_PARAMS, BACKWARD_64)
BOTH(rope_backward_128, BACKWARD_PARAMS, BACKWARD_128)
