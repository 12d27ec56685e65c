// AdamW, the global norm of the gradient, and master weights that share their upper half with the bf16 weights.
//
//   g' = g * scale * clip,   m = b1*m + (1-b1)*g',   v = b2*v + (1-b2)*g'^2
//   p = p * keep - rate * m / (sqrt(v) * root + eps);   keep = 1 - lr * decay, rate = lr / (1 - b1^t), root = 1 / sqrt(1 - b2^t)
//
// Parameters are f32, or a bf16 weight and the 16 bits it lacks of f32: the weight is p rounded to the nearest (halves up, so
// that the rest fits 16 bits), and both together are exactly p. Moments are f32, or 8 bits of a block's largest:
//
//   m = +-top_m * L(c) / L(120), c = 0..120;   v = top_v * L(c) / L(248), c = 0..248
//   L(c) = the float with the bits c << 20: three bits of mantissa; below 8 multiples of L(1)
//
// A code is one of the two levels beside the value, drawn so that its mean is the value: without that, changes smaller
// than half a level (6 %) would be lost in every step. The draw is a hash of index and step. In a block with a v above
// zero (a normal float) no v is less than the lowest level, and a block's largest is kept exactly.
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
    u32 bits[8], ws[4], ls[4];
    float odd = 0.f;
#pragma unroll
    for (int k = 0; k < 8; k++) bits[k] = __float_as_uint(p[k]), odd = fmaf(p[k], 0.f, odd);
    // One test for all eight: zero times a number that is not finite is a NaN.
    if (odd != odd) {
#pragma unroll
        for (int k = 0; k < 8; k++) bits[k] = canonical(p[k]);
    }
    // The lower half is what the upper, rounded, lacks, in two's complement: the lower bits as they are.
#pragma unroll
    for (int k = 0; k < 4; k++) {
        ws[k] = __byte_perm(bits[2 * k] + 0x8000u, bits[2 * k + 1] + 0x8000u, 0x7632);
        ls[k] = __byte_perm(bits[2 * k], bits[2 * k + 1], 0x5410);
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

// Arithmetic of the 8-bit steps. It has to stay below the time the bytes take, about 60 instructions per parameter: roots and
// quotients come from the units for them (a level is 9 % wide), and codes are made and read by adding to the bits of floats.
__device__ __forceinline__ float root_fast(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float inverse_fast(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Largest over the warp of values that are not negative: their bits are ordered as they are.
__device__ __forceinline__ float warp_top(float x) {
    return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(x)));
}

__device__ __forceinline__ u32 hash(u32 z) {
    z = (z ^ (z >> 16)) * 0x7feb352du;
    z = (z ^ (z >> 15)) * 0x846ca68bu;
    return z ^ (z >> 16);
}
// Draws of the eight parameters of a group: the hash of the group times odd factors, each as even as the hash itself.
__device__ __forceinline__ u32 dice_of(u32 group, int k) {
    constexpr u32 odd[8] = {0x9e3779b9u, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu,
                            0x165667b1u, 0xd6e8feb9u, 0xa0761d65u, 0xe7037ed1u};
    return group * odd[k];
}

// Bits 20 to 27 of a float are its code, after a shift of the exponent that takes 1 to the last code. The shift is exact,
// and gradual underflow makes the eight lowest codes multiples of one step, zero among them.
__device__ __forceinline__ float shift_m() { return __uint_as_float(15u << 23); }
__device__ __forceinline__ float back_m() { return __uint_as_float((254u - 15u) << 23); }
__device__ __forceinline__ float shift_v() { return __uint_as_float(31u << 23); }
__device__ __forceinline__ float back_v() { return __uint_as_float((254u - 31u) << 23); }

// Shares of the block's largest that code k of a word stands for; the upper bit of an m is its sign.
__device__ __forceinline__ float share_m(u32 codes, int k) {
    u32 top = k == 3 ? codes : codes << (24 - 8 * k);
    return __uint_as_float((u32)((int)top >> 4) & 0x87f00000u) * back_m();
}
__device__ __forceinline__ float share_v(u32 codes, int k) {
    u32 placed = k == 3 ? codes >> 4 : codes << (20 - 8 * k);
    return __uint_as_float(placed & 0x0ff00000u) * back_v();
}

// Factor that makes shares of values up to `top`, a little more than its inverse: the share of the largest itself is never
// below 1, and what it is above 1 (at most 6 units of the last place) the draw leaves room for. Zero for no largest.
__device__ __forceinline__ float per(float top) { return top > 0.f ? inverse_fast(top) * (1.f + 0x1p-21f) : 0.f; }

// Codes in the upper byte. Draws are 16 bits at bit 8: the carry out of 24 bits takes the code to the next level as often
// as the share is near it.
__device__ __forceinline__ u32 code_m(float m, float per_top, u32 dice) {
    u32 bits = __float_as_uint(m * per_top * shift_m());
    u32 sum = bits * 16u + __byte_perm(dice, 0, 0x4324);
    return (sum & 0x7fffffffu) | (bits & 0x80000000u);
}
__device__ __forceinline__ u32 code_v(float v, float per_top, float least, u32 dice) {
    u32 bits = __float_as_uint(fmaxf(v * per_top * shift_v(), least));
    return bits * 16u + (dice & 0x00ffff00u);
}
__device__ __forceinline__ u32 upper_bytes(u32 a, u32 b, u32 c, u32 d) {
    return __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, d, 0x0073), 0x5410);
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

struct Packed {
    unsigned char *m, *v;
    float2* tops;
    const float* grad;
    const unsigned char* decays;
};

// Eight parameters of a block, the first n of them real: all eight are where `whole`, so that the compiler drops the rest.
template <bool whole, typename P>
__device__ __forceinline__ void packed_block(P params, Packed x, i64 block, i64 len, u32 seed, float scale, Factors f) {
    i64 i = block * 256 + (threadIdx.x & 31) * 8;
    int n = whole ? 8 : i < len ? count8(i, len) : 0;
    float2 top = x.tops[block];
    float mm[8] = {}, vv[8] = {}, p[8] = {};
    if (n) {
        u32 ms[2], vs[2];
        float g[8];
        take(params, i, n, p), take(x.grad + i, n, g), take_codes(x.m + i, n, ms), take_codes(x.v + i, n, vs);
        float keep = !x.decays || x.decays[i / 16] ? f.keep : 1.f;
        float kept_m = f.b1 * top.x, kept_v = f.b2 * top.y;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float d = g[k] * scale;
            mm[k] = kept_m * share_m(ms[k / 4], k % 4) + (1.f - f.b1) * d;
            vv[k] = kept_v * share_v(vs[k / 4], k % 4) + (1.f - f.b2) * d * d;
            p[k] = p[k] * keep - f.rate * mm[k] * inverse_fast(root_fast(vv[k]) * f.root + f.eps);
        }
    }
    float top_m = 0.f, top_v = 0.f;
#pragma unroll
    for (int k = 0; k < 8; k++) top_m = fmaxf(top_m, fabsf(mm[k])), top_v = fmaxf(top_v, vv[k]);
    // Blocks without a normal float in them are zeros.
    top_m = warp_top(top_m), top_v = warp_top(top_v);
    top_m = top_m < 0x1p-126f ? 0.f : top_m, top_v = top_v < 0x1p-126f ? 0.f : top_v;
    if ((threadIdx.x & 31) == 0) x.tops[block] = make_float2(top_m, top_v);
    if (!n) return;
    float per_m = per(top_m), per_v = per(top_v), least = __uint_as_float(top_v > 0.f ? 1u << 20 : 0u);
    u32 group = hash((u32)(i >> 3) ^ seed), ms[8], vs[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        u32 dice = dice_of(group, k);
        ms[k] = code_m(mm[k], per_m, dice), vs[k] = code_v(vv[k], per_v, least, dice);
    }
    give(params, i, n, p);
    give_codes(x.m + i, n, {upper_bytes(ms[0], ms[1], ms[2], ms[3]), upper_bytes(ms[4], ms[5], ms[6], ms[7])});
    give_codes(x.v + i, n, {upper_bytes(vs[0], vs[1], vs[2], vs[3]), upper_bytes(vs[4], vs[5], vs[6], vs[7])});
}

// A warp takes a block of 256.
template <typename P>
__device__ __forceinline__ void packed(P params, Packed x, const float* clip, i64 len, int step, Factors f) {
    float scale = clip ? clip[0] * f.scale : f.scale;
    if (!(scale >= 0.f)) return;
    u32 seed = hash((u32)step * 0x9e3779b9u + 1u);
    i64 warps = (i64)gridDim.x * (blockDim.x >> 5), whole = len / 256;
    i64 block = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    for (; block < whole; block += warps) packed_block<true>(params, x, block, len, seed, scale, f);
    if (block == whole && whole * 256 < len) packed_block<false>(params, x, block, len, seed, scale, f);
}

extern "C" __global__ void packed_f32(float* p, short*, unsigned char* m, unsigned char* v, float2* tops, const float* grad,
                                      const unsigned char* decays, const float* clip, i64 len, int step, FACTORS) {
    packed<Whole>({p}, {m, v, tops, grad, decays}, clip, len, step, MADE);
}
extern "C" __global__ void packed_bf16(bf16* weight, short* low, unsigned char* m, unsigned char* v, float2* tops,
                                       const float* grad, const unsigned char* decays, const float* clip, i64 len, int step,
                                       FACTORS) {
    packed<Split>({weight, low}, {m, v, tops, grad, decays}, clip, len, step, MADE);
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
