// AdamW, the global norm of the gradient, and master weights that share their upper half with the bf16 weights.
//
//   g' = g * scale * clip,   m = b1*m + (1-b1)*g',   v = b2*v + (1-b2)*g'^2
//   p = p * keep - rate * m / (sqrt(v) * root + eps);   keep = 1 - lr * decay, rate = lr / (1 - b1^t), root = 1 / sqrt(1 - b2^t)
//
// Parameters are f32, or a bf16 weight and the 16 bits it lacks of f32: the weight is p rounded to the nearest (halves up, so
// that the rest fits 16 bits), and both together are exactly p. Moments are f32, or 8 bits of a block's largest:
//
//   m = +-top_m * L(c - 127), c = 1..127;   v = top_v * L(c - 255), c = 1..255;   c = 0: zero
//   L(k) = the float with three bits of mantissa k places below 1
//
// A code is one of the two levels beside the value, drawn so that its mean is the value: without that, changes smaller
// than half a level (6 %) would be lost in every step. The draw is a hash of index and step. A v that is not zero never
// becomes zero, and a block's largest is kept exactly.
// Layout: flat arrays of one length, 16-byte aligned: weight bf16 or f32, low i16; m, v f32 or u8; grad f32; tops [blocks of 256,
// 2] f32; decays u8, one per 16 parameters (absent: all decay). clip is read from device memory, so that norm, clipping and
// update follow one another without the host waiting. Bound by memory: 28 bytes move per parameter, 16 with 8-bit moments.

struct Factors {
    float b1, b2, eps, keep, rate, root, scale;
};
struct Whole {
    float* p;
};
struct Split {
    bf16* weight;
    short* low;
};

// Eight elements, or the first n of them: zeros for the rest.
__device__ __forceinline__ void take(const float* x, int n, float (&y)[8]) {
    if (n == 8) return load8(x, y);
#pragma unroll
    for (int k = 0; k < 8; k++) y[k] = k < n ? x[k] : 0.f;
}
__device__ __forceinline__ void give(float* x, int n, const float (&y)[8]) {
    if (n == 8) return store8(x, y);
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (k < n) x[k] = y[k];
}
__device__ __forceinline__ void take(Whole x, i64 i, int n, float (&p)[8]) { take(x.p + i, n, p); }
__device__ __forceinline__ void give(Whole x, i64 i, int n, const float (&p)[8]) { give(x.p + i, n, p); }

// A NaN is one whose upper half is a NaN too.
__device__ __forceinline__ u32 canonical(float p) { return p == p ? __float_as_uint(p) : 0x7fc00000u; }
__device__ __forceinline__ u32 upper(u32 bits) { return (bits + 0x8000u) & 0xffff0000u; }

__device__ __forceinline__ void take(Split x, i64 i, int n, float (&p)[8]) {
    if (n == 8) {
        uint4 w = *(uint4*)(x.weight + i), l = *(uint4*)(x.low + i);
        const u32 ws[4] = {w.x, w.y, w.z, w.w}, ls[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
        for (int k = 0; k < 8; k++) {
            u32 high = (k & 1) ? ws[k / 2] & 0xffff0000u : ws[k / 2] << 16;
            int rest = (k & 1) ? (int)ls[k / 2] >> 16 : (int)(ls[k / 2] << 16) >> 16;
            p[k] = __uint_as_float(high + rest);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        p[k] = k < n ? __uint_as_float(((u32)x.weight[i + k].bits << 16) + (int)x.low[i + k]) : 0.f;
}
__device__ __forceinline__ void give(Split x, i64 i, int n, const float (&p)[8]) {
    u32 ws[4] = {}, ls[4] = {};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        u32 bits = canonical(p[k]), high = upper(bits);
        ws[k / 2] |= (k & 1) ? high : high >> 16;
        ls[k / 2] |= ((bits - high) & 0xffffu) << (k % 2 * 16);
    }
    if (n == 8) {
        *(uint4*)(x.weight + i) = {ws[0], ws[1], ws[2], ws[3]};
        *(uint4*)(x.low + i) = {ls[0], ls[1], ls[2], ls[3]};
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (k < n) x.weight[i + k].bits = (u16)(ws[k / 2] >> (k % 2 * 16)), x.low[i + k] = (short)(ls[k / 2] >> (k % 2 * 16));
}

__device__ __forceinline__ int count8(i64 i, i64 len) { return (int)min((i64)8, len - i); }

template <typename P>
__device__ __forceinline__ void adamw(P params, float* m, float* v, const float* grad, const unsigned char* decays,
                                      const float* clip, i64 len, Factors f) {
    float scale = clip ? clip[0] * f.scale : f.scale;
    if (!(scale >= 0.f)) return;
    i64 stride = (i64)gridDim.x * blockDim.x * 8;
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 8; i < len; i += stride) {
        int n = count8(i, len);
        float p[8], a[8], b[8], g[8];
        take(params, i, n, p), take(m + i, n, a), take(v + i, n, b), take(grad + i, n, g);
        float keep = !decays || decays[i / 16] ? f.keep : 1.f;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float d = g[k] * scale;
            a[k] = f.b1 * a[k] + (1.f - f.b1) * d;
            b[k] = f.b2 * b[k] + (1.f - f.b2) * d * d;
            p[k] = p[k] * keep - f.rate * a[k] / (sqrtf(b[k]) * f.root + f.eps);
        }
        give(params, i, n, p), give(m + i, n, a), give(v + i, n, b);
    }
}

#define FACTORS float b1, float b2, float eps, float keep, float rate, float root, float scale
#define MADE {b1, b2, eps, keep, rate, root, scale}
extern "C" __global__ void adamw_f32(float* p, short*, float* m, float* v, const float* grad, const unsigned char* decays,
                                     const float* clip, i64 len, FACTORS) {
    adamw<Whole>({p}, m, v, grad, decays, clip, len, MADE);
}
extern "C" __global__ void adamw_bf16(bf16* weight, short* low, float* m, float* v, const float* grad,
                                      const unsigned char* decays, const float* clip, i64 len, FACTORS) {
    adamw<Split>({weight, low}, m, v, grad, decays, clip, len, MADE);
}

// The units for roots and divisions instead of the library's exact functions: a level is 9 % wide, and arithmetic would
// take longer than moving the bytes.
__device__ __forceinline__ float root_fast(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float divide_fast(float x, float by) {
    float y;
    asm("div.approx.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(by));
    return y;
}

__device__ __forceinline__ u32 hash(u32 z) {
    z = (z ^ (z >> 16)) * 0x7feb352du;
    z = (z ^ (z >> 15)) * 0x846ca68bu;
    return z ^ (z >> 16);
}

// 1.f is level 1016: eight levels to a power of two.
__device__ __forceinline__ float level(int code, int most) { return __uint_as_float((u32)(1016 - most + code) << 20); }

// Code of x, at most `top`, as a share of it; `least` stands for anything above zero, `draw` has 16 random bits.
__device__ __forceinline__ u32 encode(float x, float top, float per_top, int most, int least, u32 draw) {
    float share = x * per_top;
    u32 bits = __float_as_uint(share);
    int below = (int)(bits >> 20) - (1016 - most), code = (int)((bits + (draw << 4)) >> 20) - (1016 - most);
    if (below < 1) code = (float)draw * (1.f / 65536.f) * level(1, most) < share ? 1 : least;
    code = x >= top ? most : min(code, most);
    return x > 0.f ? code : 0;
}

__device__ __forceinline__ void take_codes(const unsigned char* x, int n, u32 (&codes)[2]) {
    if (n == 8) {
        uint2 all = *(uint2*)x;
        codes[0] = all.x, codes[1] = all.y;
        return;
    }
    codes[0] = codes[1] = 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (k < n) codes[k / 4] |= (u32)x[k] << (k % 4 * 8);
}
__device__ __forceinline__ void give_codes(unsigned char* x, int n, const u32 (&codes)[2]) {
    if (n == 8) {
        *(uint2*)x = make_uint2(codes[0], codes[1]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        if (k < n) x[k] = (unsigned char)(codes[k / 4] >> (k % 4 * 8));
}

// A warp takes a block of 256.
template <typename P>
__device__ __forceinline__ void packed(P params, unsigned char* m, unsigned char* v, float2* tops, const float* grad,
                                       const unsigned char* decays, const float* clip, i64 len, int step, Factors f) {
    float scale = clip ? clip[0] * f.scale : f.scale;
    if (!(scale >= 0.f)) return;
    int lane = threadIdx.x & 31;
    u32 seed = hash((u32)step * 0x9e3779b9u + 1u);
    i64 warps = (i64)gridDim.x * (blockDim.x >> 5), blocks = (len + 255) / 256;
    for (i64 block = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); block < blocks; block += warps) {
        i64 i = block * 256 + lane * 8;
        int n = i < len ? count8(i, len) : 0;
        float2 top = tops[block];
        float mm[8] = {}, vv[8] = {}, p[8] = {};
        if (n) {
            u32 ms[2], vs[2];
            float g[8];
            take(params, i, n, p), take_codes(m + i, n, ms), take_codes(v + i, n, vs), take(grad + i, n, g);
            float keep = !decays || decays[i / 16] ? f.keep : 1.f;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                u32 a = ms[k / 4] >> (k % 4 * 8) & 255, b = vs[k / 4] >> (k % 4 * 8) & 255;
                float old_m = a & 127 ? top.x * level(a & 127, 127) : 0.f, old_v = b ? top.y * level(b, 255) : 0.f;
                float d = g[k] * scale;
                mm[k] = f.b1 * (a & 128 ? -old_m : old_m) + (1.f - f.b1) * d;
                vv[k] = f.b2 * old_v + (1.f - f.b2) * d * d;
                p[k] = p[k] * keep - f.rate * divide_fast(mm[k], root_fast(vv[k]) * f.root + f.eps);
            }
        }
        float top_m = 0.f, top_v = 0.f;
#pragma unroll
        for (int k = 0; k < 8; k++) top_m = fmaxf(top_m, fabsf(mm[k])), top_v = fmaxf(top_v, vv[k]);
        top_m = warp_max(top_m), top_v = warp_max(top_v);
        if (lane == 0) tops[block] = make_float2(top_m, top_v);
        if (!n) continue;
        u32 ms[2] = {}, vs[2] = {};
        float per_m = top_m > 0.f ? 1.f / top_m : 0.f, per_v = top_v > 0.f ? 1.f / top_v : 0.f;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            u32 dice = hash((u32)(i + k) * 0x9e3779b9u + ((u32)((i + k) >> 32) ^ seed));
            u32 a = encode(fabsf(mm[k]), top_m, per_m, 127, 0, dice & 0xffff) | (mm[k] < 0.f ? 128 : 0);
            u32 b = encode(vv[k], top_v, per_v, 255, 1, dice >> 16);
            ms[k / 4] |= a << (k % 4 * 8), vs[k / 4] |= b << (k % 4 * 8);
        }
        give(params, i, n, p), give_codes(m + i, n, ms), give_codes(v + i, n, vs);
    }
}

extern "C" __global__ void packed_f32(float* p, short*, unsigned char* m, unsigned char* v, float2* tops, const float* grad,
                                      const unsigned char* decays, const float* clip, i64 len, int step, FACTORS) {
    packed<Whole>({p}, m, v, tops, grad, decays, clip, len, step, MADE);
}
extern "C" __global__ void packed_bf16(bf16* weight, short* low, unsigned char* m, unsigned char* v, float2* tops,
                                       const float* grad, const unsigned char* decays, const float* clip, i64 len, int step,
                                       FACTORS) {
    packed<Split>({weight, low}, m, v, tops, grad, decays, clip, len, step, MADE);
}

// f32 parameters into the form the steps have them in, and back.
extern "C" __global__ void split_bf16(const float* p, bf16* weight, short* low, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) {
        u32 bits = canonical(p[i]), high = upper(bits);
        weight[i].bits = (u16)(high >> 16), low[i] = (short)(bits - high);
    }
}
extern "C" __global__ void split_f32(const float* p, float* weight, short*, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) weight[i] = p[i];
}

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

// copy = round(p), for weights that are not trained.
template <typename T> __device__ __forceinline__ void round_copy(const float* p, T* copy, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) copy[i] = from_f32<T>(p[i]);
}

#define ROUND_PARAMS(T) (const float* p, T* copy, i64 len)
#define ROUND(T) round_copy<T>(p, copy, len)
BOTH(round_copy, ROUND_PARAMS, ROUND)
