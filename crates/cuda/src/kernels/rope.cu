// Rotary position embedding with the RMSNorm of queries and keys (qk-norm) fused in, forward and backward.
//
//   n = u * rstd(u) * w                      (per head; w absent: n = u)
//   out[i]      = n[i] * cos - n[i+h] * sin  for i < h = head_dim / 2
//   out[i + h]  = n[i+h] * cos + n[i] * sin
//
// Layout: qkv [tokens, q_heads + 2*kv_heads, head_dim], the output of the fused projection; q [tokens, q_heads, head_dim],
// k [tokens, kv_heads, head_dim]; cos_sin [positions, head_dim] f32, cosines in the first half of a row, sines in the
// second; position [tokens]. Values are not copied: attention reads them where they lie.
// Fast because a head lies in the registers of head_dim / 8 lanes (each four elements of both halves, 8 bytes an access),
// so that norm, rotation and their backward need one read and one write of memory. The backward recomputes rstd instead of
// storing it.

template <int DIM> struct Head {
    static constexpr int LANES = DIM / 8, PER_WARP = 32 / LANES;
    float lo[4], hi[4];

    __device__ __forceinline__ static int part() { return threadIdx.x % LANES; }
    // Sum over the lanes of the head.
    __device__ __forceinline__ static float sum(float x) {
#pragma unroll
        for (int o = LANES / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
        return x;
    }
    template <typename T> __device__ __forceinline__ void load(const T* p) {
        load4(p + part() * 4, lo);
        load4(p + DIM / 2 + part() * 4, hi);
    }
    template <typename T> __device__ __forceinline__ void store(T* p) const {
        store4(p + part() * 4, lo);
        store4(p + DIM / 2 + part() * 4, hi);
    }
    __device__ __forceinline__ float squares() const {
        float x = 0.f;
#pragma unroll
        for (int i = 0; i < 4; i++) x += lo[i] * lo[i] + hi[i] * hi[i];
        return x;
    }
};

template <int DIM, typename T>
__device__ __forceinline__ void forward(const T* qkv, const T* qw, const T* kw, const float* cos_sin,
                                        const int* position, T* q, T* k, int tokens, int q_heads, int kv_heads,
                                        float eps) {
    int heads = q_heads + kv_heads;
    i64 item = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / Head<DIM>::LANES;
    bool live = item < (i64)tokens * heads;
    if (!live) item = 0;
    int token = item / heads, head = item % heads;
    bool query = head < q_heads;
    Head<DIM> u, w, cs, out;
    u.load(qkv + ((i64)token * (heads + kv_heads) + head) * DIM);
    cs.load(cos_sin + (i64)position[token] * DIM);
    const T* weight = query ? qw : kw;
    if (weight) {
        float scale = rsqrtf(Head<DIM>::sum(u.squares()) / DIM + eps);
        w.load(weight);
#pragma unroll
        for (int i = 0; i < 4; i++) u.lo[i] *= scale * w.lo[i], u.hi[i] *= scale * w.hi[i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out.lo[i] = u.lo[i] * cs.lo[i] - u.hi[i] * cs.hi[i];
        out.hi[i] = u.hi[i] * cs.lo[i] + u.lo[i] * cs.hi[i];
    }
    T* to = query ? q + ((i64)token * q_heads + head) * DIM : k + ((i64)token * kv_heads + head - q_heads) * DIM;
    if (live) out.store(to);
}

// Writes the query and key part of dqkv. partial [gridDim.x, 2, head_dim]: dw of queries, then of keys.
template <int DIM, typename T>
__device__ __forceinline__ void backward(const T* dq, const T* dk, const T* qkv, const T* qw, const T* kw,
                                         const float* cos_sin, const int* position, T* dqkv, float* partial, int tokens,
                                         int q_heads, int kv_heads, float eps) {
    constexpr int GROUPS = 256 / Head<DIM>::LANES;
    __shared__ float sums[GROUPS][2][DIM];
    int heads = q_heads + kv_heads, group = threadIdx.x / Head<DIM>::LANES;
    i64 items = (i64)tokens * heads, stride = (i64)gridDim.x * GROUPS;
    Head<DIM> dw[2] = {};
    // Every lane takes as many turns as the first of its block: the sums over lanes need all of them.
    for (i64 first = (i64)blockIdx.x * GROUPS; first < items; first += stride) {
        bool live = first + group < items;
        i64 item = live ? first + group : 0;
        int token = item / heads, head = item % heads;
        bool query = head < q_heads;
        const T* from =
            query ? dq + ((i64)token * q_heads + head) * DIM : dk + ((i64)token * kv_heads + head - q_heads) * DIM;
        i64 at = ((i64)token * (heads + kv_heads) + head) * DIM;
        Head<DIM> g, d, u, w, cs;
        g.load(from);
        cs.load(cos_sin + (i64)position[token] * DIM);
        if (qw) u.load(qkv + at);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            d.lo[i] = g.lo[i] * cs.lo[i] + g.hi[i] * cs.hi[i];
            d.hi[i] = g.hi[i] * cs.lo[i] - g.lo[i] * cs.hi[i];
        }
        if (qw) {
            w.load(query ? qw : kw);
            float dot = 0.f;
#pragma unroll
            for (int i = 0; i < 4; i++) dot += u.lo[i] * w.lo[i] * d.lo[i] + u.hi[i] * w.hi[i] * d.hi[i];
            float scale = rsqrtf(Head<DIM>::sum(u.squares()) / DIM + eps);
            dot = Head<DIM>::sum(dot) / DIM * scale * scale * scale;
            float to_q = live && query ? scale : 0.f, to_k = live && !query ? scale : 0.f;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float a = d.lo[i] * u.lo[i], b = d.hi[i] * u.hi[i];
                dw[0].lo[i] += a * to_q, dw[0].hi[i] += b * to_q;
                dw[1].lo[i] += a * to_k, dw[1].hi[i] += b * to_k;
                d.lo[i] = d.lo[i] * w.lo[i] * scale - u.lo[i] * dot;
                d.hi[i] = d.hi[i] * w.hi[i] * scale - u.hi[i] * dot;
            }
        }
        if (live) d.store(dqkv + at);
    }
    if (!qw) return;
#pragma unroll
    for (int side = 0; side < 2; side++) dw[side].store(sums[group][side]);
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * DIM; i += blockDim.x) {
        float sum = 0.f;
        for (int g = 0; g < GROUPS; g++) sum += sums[g][i / DIM][i % DIM];
        partial[(i64)blockIdx.x * 2 * DIM + i] = sum;
    }
}

// One new token per sequence: rotated queries to q, rotated keys and plain values to their slots of the paged cache; a slot
// below zero is not written.
template <int DIM>
__device__ __forceinline__ void decode(const bf16* qkv, const bf16* qw, const bf16* kw, const float* cos_sin,
                                       const int* position, const int* slot, bf16* q, bf16* k_pages, bf16* v_pages,
                                       int tokens, int q_heads, int kv_heads, float eps) {
    int heads = q_heads + 2 * kv_heads;
    int item = (blockIdx.x * blockDim.x + threadIdx.x) / Head<DIM>::LANES;
    bool live = item < tokens * heads;
    if (!live) item = 0;
    int token = item / heads, head = item % heads;
    bool query = head < q_heads, value = head >= q_heads + kv_heads;
    Head<DIM> u, w, cs, out;
    u.load(qkv + (i64)item * DIM);
    cs.load(cos_sin + (i64)position[token] * DIM);
    const bf16* weight = query ? qw : kw;
    // Every lane takes part in the sum; values do not use it.
    float scale = rsqrtf(Head<DIM>::sum(u.squares()) / DIM + eps);
    if (weight && !value) {
        w.load(weight);
#pragma unroll
        for (int i = 0; i < 4; i++) u.lo[i] *= scale * w.lo[i], u.hi[i] *= scale * w.hi[i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out.lo[i] = value ? u.lo[i] : u.lo[i] * cs.lo[i] - u.hi[i] * cs.hi[i];
        out.hi[i] = value ? u.hi[i] : u.hi[i] * cs.lo[i] + u.lo[i] * cs.hi[i];
    }
    int place = slot[token], kv = value ? head - q_heads - kv_heads : head - q_heads;
    bf16* to = query ? q + ((i64)token * q_heads + head) * DIM
                     : (value ? v_pages : k_pages) + ((i64)place * kv_heads + kv) * DIM;
    if (live && (query || place >= 0)) out.store(to);
}

#define DECODE(DIM)                                                                                                      \
    extern "C" __global__ void rope_decode_##DIM(const bf16* qkv, const bf16* qw, const bf16* kw, const float* cos_sin,  \
                                                 const int* position, const int* slot, bf16* q, bf16* k_pages,           \
                                                 bf16* v_pages, int tokens, int q_heads, int kv_heads, float eps) {      \
        decode<DIM>(qkv, qw, kw, cos_sin, position, slot, q, k_pages, v_pages, tokens, q_heads, kv_heads, eps);          \
    }
DECODE(64)
DECODE(128)

#define FORWARD_PARAMS(T)                                                                                                \
    (const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position, T* q, T* k, int tokens,          \
     int q_heads, int kv_heads, float eps)
#define FORWARD_64(T) forward<64, T>(qkv, qw, kw, cos_sin, position, q, k, tokens, q_heads, kv_heads, eps)
#define FORWARD_128(T) forward<128, T>(qkv, qw, kw, cos_sin, position, q, k, tokens, q_heads, kv_heads, eps)
BOTH(rope_forward_64, FORWARD_PARAMS, FORWARD_64)
BOTH(rope_forward_128, FORWARD_PARAMS, FORWARD_128)

#define BACKWARD_PARAMS(T)                                                                                               \
    (const T* dq, const T* dk, const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position,        \
     T* dqkv, float* partial, int tokens, int q_heads, int kv_heads, float eps)
#define BACKWARD_64(T)                                                                                                   \
    backward<64, T>(dq, dk, qkv, qw, kw, cos_sin, position, dqkv, partial, tokens, q_heads, kv_heads, eps)
#define BACKWARD_128(T)                                                                                                  \
    backward<128, T>(dq, dk, qkv, qw, kw, cos_sin, position, dqkv, partial, tokens, q_heads, kv_heads, eps)
BOTH(rope_backward_64, BACKWARD_PARAMS, BACKWARD_64)
BOTH(rope_backward_128, BACKWARD_PARAMS, BACKWARD_128)
