// Shared by every kernel: bf16 conversion, 8-element vector loads, warp and block reductions.
//
// Self-contained on purpose: NVRTC on a user's machine often comes without the toolkit's headers (cuda_bf16.h), so the
// few conversions needed are written as PTX. Storage is bf16 or f32; arithmetic is always f32.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct bf16 {
    u16 bits;
};

__device__ __forceinline__ float to_f32(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ float to_f32(float x) { return x; }

template <typename T> __device__ __forceinline__ T from_f32(float x);
template <> __device__ __forceinline__ float from_f32<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_f32<bf16>(float x) {
    bf16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
    return r;
}

// Two floats rounded to one register of bf16 pairs; `lo` is the element at the lower address.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
__device__ __forceinline__ float low_f32(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_f32(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Eight consecutive elements: one 16-byte access in bf16, two in f32. Pointers are 16-byte aligned.
__device__ __forceinline__ void unpack8(uint4 v, float (&x)[8]) {
    x[0] = low_f32(v.x), x[1] = high_f32(v.x), x[2] = low_f32(v.y), x[3] = high_f32(v.y);
    x[4] = low_f32(v.z), x[5] = high_f32(v.z), x[6] = low_f32(v.w), x[7] = high_f32(v.w);
}
__device__ __forceinline__ void load8(const bf16* p, float (&x)[8]) { unpack8(*reinterpret_cast<const uint4*>(p), x); }
__device__ __forceinline__ void load8(const float* p, float (&x)[8]) {
    float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
__device__ __forceinline__ void store8(bf16* p, const float (&x)[8]) {
    uint4 v = {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7])};
    *reinterpret_cast<uint4*>(p) = v;
}
__device__ __forceinline__ void store8(float* p, const float (&x)[8]) {
    reinterpret_cast<float4*>(p)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

// Eight elements as they lie in memory: bf16 waits in half the registers, so that many loads can be under way.
template <typename T> struct Eight;
template <> struct Eight<bf16> {
    uint4 v;
    __device__ __forceinline__ void load(const bf16* p) { v = *reinterpret_cast<const uint4*>(p); }
    __device__ __forceinline__ void store(bf16* p) const { *reinterpret_cast<uint4*>(p) = v; }
    __device__ __forceinline__ void get(float (&x)[8]) const { unpack8(v, x); }
    __device__ __forceinline__ void set(const float (&x)[8]) {
        v = {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7])};
    }
};
template <> struct Eight<float> {
    float v[8];
    __device__ __forceinline__ void load(const float* p) { load8(p, v); }
    __device__ __forceinline__ void store(float* p) const { store8(p, v); }
    __device__ __forceinline__ void get(float (&x)[8]) const {
#pragma unroll
        for (int k = 0; k < 8; k++) x[k] = v[k];
    }
    __device__ __forceinline__ void set(const float (&x)[8]) {
#pragma unroll
        for (int k = 0; k < 8; k++) v[k] = x[k];
    }
};

// Four consecutive elements: one 8-byte access in bf16, 16 bytes in f32.
__device__ __forceinline__ void load4(const bf16* p, float (&x)[4]) {
    uint2 v = *reinterpret_cast<const uint2*>(p);
    x[0] = low_f32(v.x), x[1] = high_f32(v.x), x[2] = low_f32(v.y), x[3] = high_f32(v.y);
}
__device__ __forceinline__ void load4(const float* p, float (&x)[4]) {
    float4 v = *reinterpret_cast<const float4*>(p);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
__device__ __forceinline__ void store4(bf16* p, const float (&x)[4]) {
    *reinterpret_cast<uint2*>(p) = make_uint2(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]));
}
__device__ __forceinline__ void store4(float* p, const float (&x)[4]) {
    *reinterpret_cast<float4*>(p) = make_float4(x[0], x[1], x[2], x[3]);
}

// Two consecutive elements: one 4-byte access in bf16, 8 bytes in f32.
__device__ __forceinline__ float2 load2(const bf16* p) {
    u32 v = *reinterpret_cast<const u32*>(p);
    return make_float2(low_f32(v), high_f32(v));
}
__device__ __forceinline__ float2 load2(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ __forceinline__ void store2(bf16* p, float a, float b) { *reinterpret_cast<u32*>(p) = pack_bf16(a, b); }
__device__ __forceinline__ void store2(float* p, float a, float b) {
    *reinterpret_cast<float2*>(p) = make_float2(a, b);
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

// Sum over the block in a fixed order, known to every thread. `scratch` holds 32 floats and must not be written again
// before the next barrier, so callers in a loop alternate between two of them.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = (blockDim.x + 31) >> 5;
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : 0.f);
}

// Kernels exist once per storage type: NAME_bf16 and NAME_f32.
#define BOTH(name, params, call)                                                                                         \
    extern "C" __global__ void name##_bf16 params(bf16) { call(bf16); }                                                  \
    extern "C" __global__ void name##_f32 params(float) { call(float); }
