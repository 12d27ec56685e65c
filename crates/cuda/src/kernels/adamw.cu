// AdamW on f32 master weights with a bf16 copy for the matmuls, and the global norm of the gradient.
//
//   g' = g * clip,   m = b1*m + (1-b1)*g',   v = b2*v + (1-b2)*g'^2
//   p = p - lr * (m / c1 / (sqrt(v / c2) + eps) + decay * p),   c = 1 - b^step
//
// Layout: flat arrays of one length: master, m, v, grad f32; copy bf16, or f32 in tests. clip is read from device memory, so that
// norm, clipping and update follow one another without the host waiting.
// Bound by memory (26 bytes read and written per parameter in bf16): four parameters per thread and access of 16 bytes.

template <typename T>
__device__ __forceinline__ void adamw(float* master, float* m, float* v, const float* grad, T* copy, const float* clip,
                                      i64 len, float lr, float b1, float b2, float eps, float decay, float c1,
                                      float c2) {
    float scale = clip ? clip[0] : 1.f;
    if (!(scale >= 0.f)) return;
    i64 stride = (i64)gridDim.x * blockDim.x * 4;
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < len; i += stride) {
        if (i + 4 <= len) {
            float4 p = *(float4*)(master + i), a = *(float4*)(m + i), b = *(float4*)(v + i), g = *(float4*)(grad + i);
#define UPDATE(P, A, B, G)                                                                                               \
    {                                                                                                                    \
        float d = (G) * scale;                                                                                           \
        A = b1 * (A) + (1.f - b1) * d;                                                                                   \
        B = b2 * (B) + (1.f - b2) * d * d;                                                                               \
        P -= lr * ((A) / c1 / (sqrtf((B) / c2) + eps) + decay * (P));                                                    \
    }
            UPDATE(p.x, a.x, b.x, g.x)
            UPDATE(p.y, a.y, b.y, g.y)
            UPDATE(p.z, a.z, b.z, g.z)
            UPDATE(p.w, a.w, b.w, g.w)
            *(float4*)(master + i) = p, *(float4*)(m + i) = a, *(float4*)(v + i) = b;
            float rounded[4] = {p.x, p.y, p.z, p.w};
            store4(copy + i, rounded);
        } else {
            for (i64 k = i; k < len; k++) {
                UPDATE(master[k], m[k], v[k], grad[k])
                copy[k] = from_f32<T>(master[k]);
            }
        }
    }
}

#define PARAMS(T)                                                                                                        \
    (float* master, float* m, float* v, const float* grad, T* copy, const float* clip, i64 len, float lr, float b1,      \
     float b2, float eps, float decay, float c1, float c2)
#define ADAMW(T) adamw<T>(master, m, v, grad, copy, clip, len, lr, b1, b2, eps, decay, c1, c2)
BOTH(adamw, PARAMS, ADAMW)

// The same with the factors of a step worked out by the host: keep = 1 - lr * decay, rate = lr / c1, root = 1 / sqrt(c2).
template <typename T>
__device__ __forceinline__ void adamw_run(float* master, float* m, float* v, const float* grad, T* copy, i64 len, float b1,
                                          float b2, float eps, float keep, float rate, float root, float scale) {
    i64 stride = (i64)gridDim.x * blockDim.x * 4;
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < len; i += stride) {
        if (i + 4 <= len) {
            float4 p4 = *(float4*)(master + i), a4 = *(float4*)(m + i), b4 = *(float4*)(v + i), g4 = *(float4*)(grad + i);
            float p[4] = {p4.x, p4.y, p4.z, p4.w}, a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
            float g[4] = {g4.x, g4.y, g4.z, g4.w};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float d = g[k] * scale;
                a[k] = b1 * a[k] + (1.f - b1) * d;
                b[k] = b2 * b[k] + (1.f - b2) * d * d;
                p[k] = p[k] * keep - rate * a[k] / (sqrtf(b[k]) * root + eps);
            }
            store4(master + i, p), store4(m + i, a), store4(v + i, b), store4(copy + i, p);
        } else {
            for (i64 k = i; k < len; k++) {
                float d = grad[k] * scale;
                m[k] = b1 * m[k] + (1.f - b1) * d;
                v[k] = b2 * v[k] + (1.f - b2) * d * d;
                master[k] = master[k] * keep - rate * m[k] / (sqrtf(v[k]) * root + eps);
                copy[k] = from_f32<T>(master[k]);
            }
        }
    }
}

#define RUN_PARAMS(T)                                                                                                    \
    (float* master, float* m, float* v, const float* grad, T* copy, i64 len, float b1, float b2, float eps, float keep,  \
     float rate, float root, float scale)
#define RUN(T) adamw_run<T>(master, m, v, grad, copy, len, b1, b2, eps, keep, rate, root, scale)
BOTH(adamw_run, RUN_PARAMS, RUN)

// Sum of squares per block in f64, in a fixed order; `sum_finish` adds the blocks.
extern "C" __global__ void square_sum(const float* x, double* partial, i64 len) {
    __shared__ double sums[32];
    double sum = 0.;
    i64 stride = (i64)gridDim.x * blockDim.x * 4;
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < len; i += stride) {
        if (i + 4 <= len) {
            float4 a = *(const float4*)(x + i);
            sum += (double)(a.x * a.x + a.y * a.y) + (double)(a.z * a.z + a.w * a.w);
        } else {
            for (i64 k = i; k < len; k++) sum += (double)(x[k] * x[k]);
        }
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) sum += sums[w];
        partial[blockIdx.x] = sum;
    }
}

// norm[0] = global norm, norm[1] = factor that clips it to max_norm (1 where max_norm is not positive). The factor of a norm
// that is not finite is NaN: AdamW then changes nothing, and whoever reads the norm sees why.
extern "C" __global__ void norm_finish(const double* partial, float* norm, int blocks, float max_norm) {
    __shared__ double sums[32];
    double sum = 0.;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x) sum += partial[i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) sum += sums[w];
        float total = (float)sqrt(sum);
        norm[0] = total;
        float factor = max_norm > 0.f && total > max_norm ? max_norm / total : 1.f;
        norm[1] = total < __int_as_float(0x7f800000) ? factor : __int_as_float(0x7fc00000);
    }
}

// copy = round(master), for the first step.
template <typename T> __device__ __forceinline__ void round_copy(const float* master, T* copy, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) copy[i] = from_f32<T>(master[i]);
}

#define ROUND_PARAMS(T) (const float* master, T* copy, i64 len)
#define ROUND(T) round_copy<T>(master, copy, len)
BOTH(round_copy, ROUND_PARAMS, ROUND)
