// AdamW with 8-bit moments and no second copy of the weights: 10 bytes per parameter with its gradient, where f32 has 18.
//
//   m, v, p as in adamw.cu;   p = bf16 weight and the 16 bits it lacks of f32, together exactly p
//   m = +-top_m * 2^((c - 127) / 8), c = 1..127;   v = top_v * 2^((c - 255) / 8), c = 1..255;   c = 0: zero
//
// A code is one of the two levels beside the value, drawn so that its mean is the value: without that, changes smaller
// than half a level (4 %) would be lost in every step. The draw is a hash of index and step. A v that is not zero never
// becomes zero. Tops are the largest of each block of 256 parameters.
// Layout: flat arrays of one length, a multiple of 8: weight bf16, low i16 (bits of p less those of the weight), m and v
// u8, grad f32; tops [blocks of 256, 2] f32. A warp takes a block. Bound by memory: 16 bytes move per parameter.

#define LEVELS 8.f

// The units for transcendental functions instead of the library's exact ones: a level is 9 % wide, and the arithmetic of
// 4 billion parameters took three times as long as moving them.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
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

__device__ __forceinline__ float level(int code, int top) { return exp2_fast((code - top) * (1.f / LEVELS)); }

// Code of x in [0, 1] of the block's largest; `least` is the code that stands for anything above zero.
__device__ __forceinline__ int encode(float x, int top, int least, float draw) {
    int below = min(max((int)floorf(log2_fast(x) * LEVELS) + top, 0), top - 1);
    float b = level(below + 1, top), a = below == 0 ? 0.f : b * 0.91700404320467123f;  // 2^(-1/8)
    int code = max(draw * (b - a) < x - a ? below + 1 : below, least);
    return x > 0.f ? code : 0;
}

extern "C" __global__ void compact_step(bf16* weight, short* low, unsigned char* m, unsigned char* v, const float* grad,
                                        float2* tops, const float* clip, i64 len, int step, float lr, float b1, float b2,
                                        float eps, float decay, float c1, float c2) {
    float scale = clip ? clip[0] : 1.f;
    if (!(scale >= 0.f)) return;
    int lane = threadIdx.x & 31;
    float per_c1 = 1.f / c1, per_c2 = 1.f / c2;
    u32 seed = hash((u32)step * 0x9e3779b9u + 1u);
    i64 warps = (i64)gridDim.x * (blockDim.x >> 5), blocks = (len + 255) / 256;
    for (i64 block = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); block < blocks; block += warps) {
        i64 i = block * 256 + lane * 8;
        bool mine = i < len;
        float2 top = tops[block];
        float mm[8] = {}, vv[8] = {}, p[8] = {};
        if (mine) {
            uint4 w = *(uint4*)(weight + i), l = *(uint4*)(low + i);
            uint2 cm = *(uint2*)(m + i), cv = *(uint2*)(v + i);
            float g[8];
            load8(grad + i, g);
            const u32 ws[4] = {w.x, w.y, w.z, w.w}, ls[4] = {l.x, l.y, l.z, l.w}, ms[2] = {cm.x, cm.y}, vs[2] = {cv.x, cv.y};
#pragma unroll
            for (int k = 0; k < 8; k++) {
                u32 high = (k & 1) ? ws[k / 2] & 0xffff0000u : ws[k / 2] << 16;
                int rest = (k & 1) ? (int)ls[k / 2] >> 16 : (int)(ls[k / 2] << 16) >> 16;
                p[k] = __uint_as_float(high + rest);
                int a = ms[k / 4] >> (k % 4 * 8) & 255, b = vs[k / 4] >> (k % 4 * 8) & 255, size = a & 127;
                float old_m = size ? top.x * level(size, 127) : 0.f, old_v = b ? top.y * level(b, 255) : 0.f;
                float d = g[k] * scale;
                mm[k] = b1 * (a & 128 ? -old_m : old_m) + (1.f - b1) * d;
                vv[k] = b2 * old_v + (1.f - b2) * d * d;
                p[k] -= lr * (divide_fast(mm[k] * per_c1, root_fast(vv[k] * per_c2) + eps) + decay * p[k]);
            }
        }
        float top_m = 0.f, top_v = 0.f;
#pragma unroll
        for (int k = 0; k < 8; k++) top_m = fmaxf(top_m, fabsf(mm[k])), top_v = fmaxf(top_v, vv[k]);
        top_m = warp_max(top_m), top_v = warp_max(top_v);
        if (lane == 0) tops[block] = make_float2(top_m, top_v);
        if (!mine) continue;
        u32 ws[4] = {}, ls[4] = {}, ms[2] = {}, vs[2] = {};
        float per_m = top_m > 0.f ? 1.f / top_m : 0.f, per_v = top_v > 0.f ? 1.f / top_v : 0.f;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            u32 bits = __float_as_uint(p[k]), high = (bits + 0x8000u) & 0xffff0000u;
            ws[k / 2] |= (k & 1) ? high : high >> 16;
            ls[k / 2] |= ((bits - high) & 0xffffu) << (k % 2 * 16);
            u32 dice = hash((u32)(i + k) * 0x9e3779b9u + ((u32)((i + k) >> 32) ^ seed));
            float draw_m = (dice & 0xffff) * (1.f / 65536.f), draw_v = (dice >> 16) * (1.f / 65536.f);
            int a = encode(fabsf(mm[k]) * per_m, 127, 0, draw_m) | (mm[k] < 0.f ? 128 : 0);
            int b = encode(vv[k] * per_v, 255, 1, draw_v);
            ms[k / 4] |= a << (k % 4 * 8), vs[k / 4] |= b << (k % 4 * 8);
        }
        *(uint4*)(weight + i) = {ws[0], ws[1], ws[2], ws[3]};
        *(uint4*)(low + i) = {ls[0], ls[1], ls[2], ls[3]};
        *(uint2*)(m + i) = make_uint2(ms[0], ms[1]);
        *(uint2*)(v + i) = make_uint2(vs[0], vs[1]);
    }
}

// Weight and low bits of f32 parameters. Halves are rounded up, not to even: the rest then fits 16 bits.
extern "C" __global__ void compact_split(const float* p, bf16* weight, short* low, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) {
        u32 bits = __float_as_uint(p[i]), high = (bits + 0x8000u) >> 16;
        weight[i].bits = (u16)high, low[i] = (short)(bits - (high << 16));
    }
}

// f32 parameters of weight and low bits.
extern "C" __global__ void compact_join(const bf16* weight, const short* low, float* p, i64 len) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride)
        p[i] = __uint_as_float(((u32)weight[i].bits << 16) + (int)low[i]);
}
