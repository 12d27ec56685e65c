// Uniform random numbers in [-scale, scale) by hashing the index: weights for benchmarks and tests.
//
//   x[i] = center + scale * (2 * u(seed, i) - 1)
//
// Bound by memory; no state, so element i is the same for any grid.

extern "C" __global__ void random_fill(float* x, i64 len, u32 seed, float center, float scale) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) {
        u64 z = (u64)i + ((u64)seed << 40) + 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        float u = (float)((u32)((z ^ (z >> 31)) >> 40)) * (1.f / 16777216.f);
        x[i] = center + scale * (2.f * u - 1.f);
    }
}
