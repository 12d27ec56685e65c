// Search for elements that are not finite, and the means to make one for tests.
//
//   flag = min(flag, index) where an x[i] is infinite or not a number
//
// Layout: x flat, bf16 or f32; flag one integer. Bound by memory; runs only when a step has gone wrong.

template <typename T> __device__ __forceinline__ void watch(const T* x, i64 len, int index, int* flag) {
    bool bad = false;
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride)
        bad |= !(fabsf(to_f32(x[i])) < __int_as_float(0x7f800000));
    if (bad) atomicMin(flag, index);
}

template <typename T> __device__ __forceinline__ void poison(T* x, i64 at) {
    x[at] = from_f32<T>(__int_as_float(0x7fc00000));
}

#define WATCH_PARAMS(T) (const T* x, i64 len, int index, int* flag)
#define WATCH(T) watch<T>(x, len, index, flag)
BOTH(watch, WATCH_PARAMS, WATCH)

#define POISON_PARAMS(T) (T* x, i64 at)
#define POISON(T) poison<T>(x, at)
BOTH(poison, POISON_PARAMS, POISON)
