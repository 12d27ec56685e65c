// Heads of any even width up to 128, laid into heads of 64 or 128 (`wide`) with zeros after them, which is what attention is
// written for: rotation and qk-norm forward and backward, and the way back for attention's output.
//
//   out = gain * rope(norm(u)) for queries, rope(norm(u)) for keys, u for values;   gain = sqrt(wide / dim), because attention
//   divides scores by sqrt(wide)
//
// Layout: qkv [rows, q_heads + 2*kv_heads, dim]; q, k, v [rows, heads, wide]; cos_sin [positions, dim] f32, cosines then sines.
// A warp takes a head. For small models and tests: rope.cu is the fast way for heads of 64 and 128.

struct Place {
    i64 at;  // element of q, k or v
    bool query, value;
};

__device__ __forceinline__ Place place(i64 item, int q_heads, int kv_heads, int wide) {
    int heads = q_heads + 2 * kv_heads, head = (int)(item % heads);
    i64 row = item / heads;
    Place p = {0, head < q_heads, head >= q_heads + kv_heads};
    int own = p.query ? head : p.value ? head - q_heads - kv_heads : head - q_heads;
    p.at = (row * (p.query ? q_heads : kv_heads) + own) * wide;
    return p;
}

template <typename T> __device__ __forceinline__ float rstd(const T* u, int dim, float eps) {
    float sum = 0.f;
    for (int i = threadIdx.x & 31; i < dim; i += 32) {
        float x = to_f32(u[i]);
        sum += x * x;
    }
    return rsqrtf(warp_sum(sum) / dim + eps);
}

template <typename T>
__device__ __forceinline__ void split(const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position,
                                      T* q, T* k, T* v, int rows, int q_heads, int kv_heads, int dim, int wide, float eps,
                                      float gain) {
    i64 item = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int heads = q_heads + 2 * kv_heads, lane = threadIdx.x & 31, half = dim / 2;
    if (item >= (i64)rows * heads) return;
    Place p = place(item, q_heads, kv_heads, wide);
    const T* u = qkv + item * dim;
    const T* w = p.value ? 0 : p.query ? qw : kw;
    T* to = (p.query ? q : p.value ? v : k) + p.at;
    const float* cs = cos_sin + (i64)position[item / heads] * dim;
    float scale = w ? rstd(u, dim, eps) : 1.f, factor = p.query ? gain : 1.f;
    for (int i = lane; i < half; i += 32) {
        float a = to_f32(u[i]), b = to_f32(u[i + half]);
        if (w) a *= scale * to_f32(w[i]), b *= scale * to_f32(w[i + half]);
        if (!p.value) {
            float c = cs[i], s = cs[half + i], x = a * c - b * s;
            b = b * c + a * s, a = x;
        }
        to[i] = from_f32<T>(a * factor), to[i + half] = from_f32<T>(b * factor);
    }
    for (int i = dim + lane; i < wide; i += 32) to[i] = from_f32<T>(0.f);
}

// dqkv from the gradients of wide queries, keys and values; partial [2, gridDim.x, dim]: dw of queries, then of keys. Blocks of
// 8 warps.
template <typename T>
__device__ __forceinline__ void merge(const T* dq, const T* dk, const T* dv, const T* qkv, const T* qw, const T* kw,
                                      const float* cos_sin, const int* position, T* dqkv, float* partial, int rows,
                                      int q_heads, int kv_heads, int dim, int wide, float eps, float gain) {
    __shared__ float sums[8][2][128];
    int heads = q_heads + 2 * kv_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, half = dim / 2;
    float dw[2][2][2] = {};
    for (i64 item = (i64)blockIdx.x * 8 + warp; item < (i64)rows * heads; item += (i64)gridDim.x * 8) {
        Place p = place(item, q_heads, kv_heads, wide);
        const T* from = (p.query ? dq : p.value ? dv : dk) + p.at;
        const T* u = qkv + item * dim;
        const T* w = p.value ? 0 : p.query ? qw : kw;
        T* to = dqkv + item * dim;
        const float* cs = cos_sin + (i64)position[item / heads] * dim;
        float scale = w ? rstd(u, dim, eps) : 1.f, factor = p.query ? gain : 1.f, dot = 0.f;
        float d[2][2] = {}, x[2][2] = {}, ww[2][2] = {};
#pragma unroll
        for (int s = 0; s < 2; s++) {
            int i = lane + 32 * s;
            if (i >= half) continue;
            float a = to_f32(from[i]) * factor, b = to_f32(from[i + half]) * factor;
            d[s][0] = a, d[s][1] = b;
            if (!p.value) {
                float c = cs[i], sn = cs[half + i];
                d[s][0] = a * c + b * sn, d[s][1] = b * c - a * sn;
            }
            if (!w) continue;
            x[s][0] = to_f32(u[i]), x[s][1] = to_f32(u[i + half]);
            ww[s][0] = to_f32(w[i]), ww[s][1] = to_f32(w[i + half]);
            dot += x[s][0] * ww[s][0] * d[s][0] + x[s][1] * ww[s][1] * d[s][1];
        }
        if (w) dot = warp_sum(dot) / dim * scale * scale * scale;
#pragma unroll
        for (int s = 0; s < 2; s++) {
            int i = lane + 32 * s;
            if (i >= half) continue;
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float out = d[s][j];
                if (w) {
                    float part = d[s][j] * x[s][j] * scale;
                    dw[0][s][j] += p.query ? part : 0.f, dw[1][s][j] += p.query ? 0.f : part;
                    out = d[s][j] * ww[s][j] * scale - x[s][j] * dot;
                }
                to[i + j * half] = from_f32<T>(out);
            }
        }
    }
    if (!qw) return;
#pragma unroll
    for (int s = 0; s < 2; s++) {
        int i = lane + 32 * s;
        if (i >= half) continue;
        for (int j = 0; j < 2; j++)
            sums[warp][0][i + j * half] = dw[0][s][j], sums[warp][1][i + j * half] = dw[1][s][j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * dim; i += blockDim.x) {
        int which = i / dim, col = i % dim;
        float total = 0.f;
        for (int w = 0; w < 8; w++) total += sums[w][which][col];
        partial[((i64)which * gridDim.x + blockIdx.x) * dim + col] = total;
    }
}

// [heads, wide] to [heads, dim] and back, zeros after the dim.
template <typename T> __device__ __forceinline__ void pack(const T* from, T* to, i64 heads, int dim, int wide) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < heads * dim; i += stride)
        to[i] = from[i / dim * wide + i % dim];
}
template <typename T> __device__ __forceinline__ void spread(const T* from, T* to, i64 heads, int dim, int wide) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < heads * wide; i += stride)
        to[i] = i % wide < dim ? from[i / wide * dim + i % wide] : from_f32<T>(0.f);
}

#define SPLIT_PARAMS(T)                                                                                                  \
    (const T* qkv, const T* qw, const T* kw, const float* cos_sin, const int* position, T* q, T* k, T* v, int rows,      \
     int q_heads, int kv_heads, int dim, int wide, float eps, float gain)
#define SPLIT(T) split<T>(qkv, qw, kw, cos_sin, position, q, k, v, rows, q_heads, kv_heads, dim, wide, eps, gain)
BOTH(heads_split, SPLIT_PARAMS, SPLIT)

#define MERGE_PARAMS(T)                                                                                                  \
    (const T* dq, const T* dk, const T* dv, const T* qkv, const T* qw, const T* kw, const float* cos_sin,                \
     const int* position, T* dqkv, float* partial, int rows, int q_heads, int kv_heads, int dim, int wide, float eps,    \
     float gain)
#define MERGE(T)                                                                                                         \
    merge<T>(dq, dk, dv, qkv, qw, kw, cos_sin, position, dqkv, partial, rows, q_heads, kv_heads, dim, wide, eps, gain)
BOTH(heads_merge, MERGE_PARAMS, MERGE)

#define COPY_PARAMS(T) (const T* from, T* to, i64 heads, int dim, int wide)
#define PACK(T) pack<T>(from, to, heads, dim, wide)
#define SPREAD(T) spread<T>(from, to, heads, dim, wide)
BOTH(heads_pack, COPY_PARAMS, PACK)
BOTH(heads_spread, COPY_PARAMS, SPREAD)
