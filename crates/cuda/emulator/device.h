// CUDA C++ as g++ can read it: keywords, vector types and functions that the kernels use. Included before a translated kernel.
#pragma once

#include <algorithm>
#include <utility>

#include "block.h"

using std::max;
using std::min;

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __align__(n) alignas(n)
#define __grid_constant__

// As strictly aligned as a GPU demands.
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(8) float2 { float x, y; };
inline float2 make_float2(float a, float b) { return {a, b}; }
inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
inline uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }

template <typename To, typename From> To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned order) {
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = order >> 4 * i, byte = both >> (from & 7) * 8 & 0xff;
        result |= (from & 8 ? byte >> 7 ? 0xffu : 0u : byte) << 8 * i;
    }
    return result;
}
inline unsigned __cvta_generic_to_shared(const void* p) { return (const unsigned char*)p - memory; }

// Threads of an emulated GPU run one at a time: an atomic operation is a plain one.
template <typename T> T atomicAdd(T* at, T x) { T old = *at; *at = old + x; return old; }
template <typename T> T atomicMin(T* at, T x) { T old = *at; *at = min(old, x); return old; }

template <typename T> T from_lane(T x, int from) {
    uint64_t word = 0;
    static_assert(sizeof x <= sizeof word);
    memcpy(&word, &x, sizeof x);
    word = exchange(word, from);
    memcpy(&x, &word, sizeof x);
    return x;
}
template <typename T> T __shfl_xor_sync(unsigned, T x, int mask) { return from_lane(x, lane() ^ mask); }
template <typename T> T __shfl_sync(unsigned, T x, int from) { return from_lane(x, from & 31); }
template <typename T> T __shfl_up_sync(unsigned, T x, int by) { return from_lane(x, lane() < by ? lane() : lane() - by); }
inline bool __any_sync(unsigned mask, bool x) { return __reduce_max_sync(mask, x); }

// The table that a translated kernel ends with.
template <typename F> struct Signature;
template <typename... A> struct Signature<void (*)(A...)> {
    static constexpr size_t sizes[sizeof...(A) + 1] = {sizeof(A)...};
    static constexpr size_t count = sizeof...(A);
    template <void (*kernel)(A...), size_t... I> static void spread(void** arguments, std::index_sequence<I...>) {
        kernel(*(A*)arguments[I]...);
    }
    template <void (*kernel)(A...)> static void call(void** arguments) {
        spread<kernel>(arguments, std::index_sequence_for<A...>());
    }
};
#define KERNEL(name, bound)                                                                                              \
    {#name, bound, Signature<decltype(&name)>::sizes, Signature<decltype(&name)>::count,                                 \
     &Signature<decltype(&name)>::template call<&name>}
