// Rotary position embedding with the RMSNorm of queries and keys (qk-norm) fused in, forward and backward.
//
//   n = u * rstd(u) * w                      (per head; w absent: n = u)
//   out[i]      = n[i] * cos - n[i+h] * sin  for i < h = head_dim / 2
//   out[i + h]  = n[i+h] * cos + n[i] * sin
//
// Layout: qkv [tokens, q_heads + 2*kv_heads, head_dim], the output of the fused projection; q [tokens, q_heads, head_dim],
// k [tokens, kv_heads, head_dim]; cos_sin [positions, head_dim] f32, cosines in the first half of a row, sines in the
// second; position [tokens]. Values are not copied: attention reads them where they lie.
// Fast because a head lies in the registers of head_dim / 16 lanes (each eight elements of both halves), so that norm,
// rotation and their backward need one read and one write of memory, and because these lanes take a run of heads of a token
// together: many loads are under way, and angles and weights are fetched once. The backward recomputes rstd instead of
// storing it.

template <int DIM> struct Head {
    static constexpr int LANES = DIM / 16;
    float lo[8], hi[8];

    __device__ __forceinline__ static int part() { return threadIdx.x % LANES; }
    // Sum over the lanes of the head.
    __device__ __forceinline__ static float sum(float x) {
#pragma unroll
        for (int o = LANES / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
        return x;
    }
    template <typename T> __device__ __forceinline__ void load(const T* p) {
        load8(p + part() * 8, lo);
        load8(p + DIM / 2 + part() * 8, hi);
    }
    template <typename T> __device__ __forceinline__ void store(T* p) const {
        store8(p + part() * 8, lo);
        store8(p + DIM / 2 + part() * 8, hi);
    }
    __device__ __forceinline__ float squares() const {
        float x = 0.f;
#pragma unroll
        for (int i = 0; i < 8; i++) x += lo[i] * lo[i] + hi[i] * hi[i];
        return x;
    }
};

// A head as it lies in memory.
template <int DIM, typename T> struct Fetched {
    Eight<T> lo, hi;
    __device__ __forceinline__ void load(const T* p) {
        lo.load(p + Head<DIM>::part() * 8);
        hi.load(p + DIM / 2 + Head<DIM>::part() * 8);
    }
    __device__ __forceinline__ Head<DIM> get() const {
        Head<DIM> head;
        lo.get(head.lo), hi.get(head.hi);
        return head;
    }
};

// Heads of a token that a group of lanes takes together: queries or keys.
constexpr int RUN = 4;
struct Run {
    int first, count;
    bool query;
    __device__ __forceinline__ static int of(int heads) { return (heads + RUN - 1) / RUN; }
    __device__ __forceinline__ Run(int number, int q_heads, int kv_heads) {
        int queries = of(q_heads);
        query = number < queries;
        first = (query ? number : number - queries) * RUN;
        count = min(RUN, (query ? q_heads : kv_heads) - first);
    }
};

template <int DIM, typename T>
__device__ __forceinline__ void forward(const T* qkv, const T* qw, const T* kw, const float* cos_sin,
                                        const int* position, T* q, T* k, int tokens, int q_heads, int kv_heads,
                                        float eps) {
    int runs = Run::of(q_heads) + Run::of(kv_heads), item = (blockIdx.x * blockDim.x + threadIdx.x) / Head<DIM>::LANES;
    bool live = item < tokens * runs;
    if (!live) item = 0;
    int token = item / runs;
    Run run(item % runs, q_heads, kv_heads);
    const T* from = qkv + ((i64)token * (q_heads + 2 * kv_heads) + (run.query ? 0 : q_heads) + run.first) * DIM;
    T* to = run.query ? q + ((i64)token * q_heads + run.first) * DIM : k + ((i64)token * kv_heads + run.first) * DIM;
    Fetched<DIM, T> heads[RUN];
    // Past the last head of the run, the last again.
#pragma unroll
    for (int n = 0; n < RUN; n++) heads[n].load(from + min(n, run.count - 1) * DIM);
    Head<DIM> cs, w;
    cs.load(cos_sin + (i64)position[token] * DIM);
    const T* weight = run.query ? qw : kw;
    if (weight) w.load(weight);
#pragma unroll
    for (int n = 0; n < RUN; n++) {
        Head<DIM> u = heads[n].get(), out;
        if (weight) {
            float scale = rsqrtf(Head<DIM>::sum(u.squares()) / DIM + eps);
#pragma unroll
            for (int i = 0; i < 8; i++) u.lo[i] *= scale * w.lo[i], u.hi[i] *= scale * w.hi[i];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            out.lo[i] = u.lo[i] * cs.lo[i] - u.hi[i] * cs.hi[i];
            out.hi[i] = u.hi[i] * cs.lo[i] + u.lo[i] * cs.hi[i];
        }
        if (live && n < run.count) out.store(to + n * DIM);
    }
}

// Writes the query and key part of dqkv. partial [gridDim.x, 2, head_dim]: dw of queries, then of keys. A group of lanes has
// the same heads of many tokens, so that weights and dw stay in its registers. Blocks of BACKWARD threads,
// of which RESIDENT run on a processor at a time.
constexpr int BACKWARD = 128, RESIDENT = 3;
template <int DIM, typename T>
__device__ __forceinline__ void backward(const T* dq, const T* dk, const T* qkv, const T* qw, const T* kw,
                                         const float* cos_sin, const int* position, T* dqkv, float* partial, int tokens,
                                         int q_heads, int kv_heads, float eps) {
    constexpr int GROUPS = BACKWARD / Head<DIM>::LANES;
    __shared__ float sums[GROUPS][2][DIM];
    int runs = Run::of(q_heads) + Run::of(kv_heads), group = threadIdx.x / Head<DIM>::LANES;
    int number = blockIdx.x * GROUPS + group, stride = gridDim.x * GROUPS / runs;
    Run run(number % runs, q_heads, kv_heads);
    int first = number / runs, width = run.query ? q_heads : kv_heads;
    const T *from = run.query ? dq : dk, *weight = run.query ? qw : kw;
    Head<DIM> w, dw = {};
    if (weight) w.load(weight);
    // Every lane takes as many turns as any other: the sums over lanes need all of them.
    for (int turn = 0; turn < tokens; turn += stride) {
        bool live = first < stride && turn + first < tokens;
        int token = live ? turn + first : 0;
        i64 in = ((i64)token * width + run.first) * DIM;
        i64 at = ((i64)token * (q_heads + 2 * kv_heads) + (run.query ? 0 : q_heads) + run.first) * DIM;
        Fetched<DIM, T> slopes[RUN], heads[RUN];
#pragma unroll
        for (int n = 0; n < RUN; n++) {
            int offset = min(n, run.count - 1) * DIM;
            slopes[n].load(from + in + offset);
            if (weight) heads[n].load(qkv + at + offset);
        }
        Head<DIM> cs;
        cs.load(cos_sin + (i64)position[token] * DIM);
#pragma unroll
        for (int n = 0; n < RUN; n++) {
            bool counts = live && n < run.count;
            Head<DIM> g = slopes[n].get(), d;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                d.lo[i] = g.lo[i] * cs.lo[i] + g.hi[i] * cs.hi[i];
                d.hi[i] = g.hi[i] * cs.lo[i] - g.lo[i] * cs.hi[i];
            }
            if (weight) {
                Head<DIM> u = heads[n].get();
                float scale = rsqrtf(Head<DIM>::sum(u.squares()) / DIM + eps), dot = 0.f, mine = counts ? scale : 0.f;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    dw.lo[i] += d.lo[i] * u.lo[i] * mine, dw.hi[i] += d.hi[i] * u.hi[i] * mine;
                    d.lo[i] *= w.lo[i], d.hi[i] *= w.hi[i];
                    dot += d.lo[i] * u.lo[i] + d.hi[i] * u.hi[i];
                }
                dot = Head<DIM>::sum(dot) / DIM * scale * scale * scale;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    d.lo[i] = d.lo[i] * scale - u.lo[i] * dot;
                    d.hi[i] = d.hi[i] * scale - u.hi[i] * dot;
                }
            }
            if (counts) d.store(dqkv + at + n * DIM);
        }
    }
    if (!qw) return;
    Head<DIM> none = {};
    dw.store(sums[group][run.query ? 0 : 1]);
    none.store(sums[group][run.query ? 1 : 0]);
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * DIM; i += BACKWARD) {
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
        for (int i = 0; i < 8; i++) u.lo[i] *= scale * w.lo[i], u.hi[i] *= scale * w.hi[i];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
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
#define BOUNDS __launch_bounds__(BACKWARD, RESIDENT)
BOTH(BOUNDS rope_backward_64, BACKWARD_PARAMS, BACKWARD_64)
BOTH(BOUNDS rope_backward_128, BACKWARD_PARAMS, BACKWARD_128)
