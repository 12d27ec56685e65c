// Sampling of one token per sequence from its logits, and the state of the sequence moved one token on.
//
//   allowed(v):  x[v] >= top + T ln(min_p),  among the top_k largest,  among the largest that together hold top_p at T
//   token = argmax over allowed v of x[v] / T + gumbel(seed, index, v)      (T = 0: argmax of x, the lowest id of equals)
//   logprob = x[token] - log sum exp(x)                                     (temperature 1, nothing excluded)
//
// Gates look at the whole distribution, each on its own. The noise is a hash of the request's seed, the index of the new
// token and v: a sequence draws the same tokens in any batch. Layout: logits [rows, stride] f32; settings float4 (T, min_p,
// top_p, 0); limits int4 (top_k, most new tokens, stop id, 0); seeds uint2; stride a multiple
// of 8; state arrays one entry per row; tokens and
// logprobs [rows, capacity]. One block per row: the row is read twice, the second time from L2, and 32 times more where
// top_k or top_p is used (bisection of the threshold over the bits of a float).

#define INF __int_as_float(0x7f800000)
#define PAGE 16

__device__ __forceinline__ u32 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (u32)((z ^ (z >> 31)) >> 32);
}

// Gumbel noise: -log of an exponential variable, exact for small ones, which decide.
__device__ __forceinline__ float gumbel(u64 key, int v) {
    float u = ((float)mix(key + (u64)v * 0x9e3779b97f4a7c15ull) + 0.5f) * (1.f / 4294967296.f);
    float e = u < 0.01f ? u * (1.f + u * (0.5f + u * (1.f / 3.f))) : -__logf(1.f - u);
    return -__logf(fmaxf(e, 1e-12f));
}

// Order of floats as order of unsigned integers.
__device__ __forceinline__ u32 ordered(float x) {
    u32 b = __float_as_uint(x);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

__device__ __forceinline__ void load_row(const float* x, int at, int vocab, float (&v)[8]) {
    load8(x + at, v);
    if (at + 8 > vocab) {
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (at + k >= vocab) v[k] = -INF;
    }
}

struct Best {
    float key;
    int id;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.key > a.key || (b.key == a.key && b.id < a.id) ? b : a;
}

__device__ __forceinline__ float block_max(float x, float* scratch) {
    x = warp_max(x);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = x;
    __syncthreads();
    x = warp_max(scratch[threadIdx.x & 31]);
    __syncthreads();
    return x;
}
__device__ __forceinline__ float total(float x, float* scratch) {
    x = block_sum(x, scratch);
    __syncthreads();
    return x;
}

// Largest threshold whose tokens at or above it number top_k, or hold top_p of the mass at temperature 1 / inverse.
__device__ __forceinline__ u32 threshold(const float* x, int vocab, int top_k, float top_p, float top, float inverse,
                                         float* scratch) {
    float mass = 0.f;
    for (int v = threadIdx.x; v < vocab; v += blockDim.x) mass += __expf((x[v] - top) * inverse);
    float need = top_p * total(mass, scratch);
    u32 by_count = 0, by_mass = 0;
    for (int bit = 31; bit >= 0; bit--) {
        u32 try_count = by_count | 1u << bit, try_mass = by_mass | 1u << bit;
        float count = 0.f, held = 0.f;
        for (int v = threadIdx.x; v < vocab; v += blockDim.x) {
            u32 key = ordered(x[v]);
            if (key >= try_count) count += 1.f;
            if (key >= try_mass) held += __expf((x[v] - top) * inverse);
        }
        if (top_k > 0 && total(count, scratch) >= (float)top_k) by_count = try_count;
        if (top_p < 1.f && total(held, scratch) >= need) by_mass = try_mass;
    }
    return max(by_count, by_mass);
}

extern "C" __global__ void __launch_bounds__(1024)
    sample(const float* logits, int vocab, int stride, const float4* settings, const int4* limits, const uint2* seeds,
           const int* table, int table_stride, int* id, int* position, int* length, int* slot, int* count, int* done,
           int* tokens, float* logprobs, int capacity) {
    __shared__ float scratch[32];
    __shared__ Best bests[32];
    int row = blockIdx.x, lane = threadIdx.x & 31;
    if (done[row]) return;
    const float* x = logits + (i64)row * stride;
    float top = -INF, sum = 0.f;
    for (int v = threadIdx.x * 8; v < vocab; v += blockDim.x * 8) {
        float here[8], m = top;
        load_row(x, v, vocab, here);
#pragma unroll
        for (int i = 0; i < 8; i++) m = fmaxf(m, here[i]);
        sum *= __expf(top - m), top = m;
#pragma unroll
        for (int i = 0; i < 8; i++) sum += __expf(here[i] - m);
    }
    float all = block_max(top, scratch);
    sum = total(sum * __expf(top - all), scratch), top = all;

    float4 set = settings[row];
    int4 limit = limits[row];
    bool greedy = set.x <= 0.f;
    float inverse = greedy ? 1.f : 1.f / set.x;
    u32 least = set.y > 0.f && !greedy ? ordered(top + set.x * logf(set.y)) : 0;
    if (!greedy && (limit.x > 0 || set.z < 1.f))
        least = max(least, threshold(x, vocab, limit.x, set.z, top, inverse, scratch));
    int index = count[row];
    uint2 seed = seeds[row];
    u64 key = ((u64)seed.y << 32 | seed.x) + (u64)(index + 1) * 0xd1342543de82ef95ull;
    key = (u64)mix(key) << 32 | mix(key ^ 0x2545f4914f6cdd1dull);
    Best best = {-INF, 0x7fffffff};
    for (int v = threadIdx.x * 8; v < vocab; v += blockDim.x * 8) {
        float here[8];
        load_row(x, v, vocab, here);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (v + i >= vocab || ordered(here[i]) < least) continue;
            Best one = {greedy ? here[i] : (here[i] - top) * inverse + gumbel(key, v + i), v + i};
            best = better(best, one);
        }
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Best other = {__shfl_xor_sync(0xffffffffu, best.key, o), __shfl_xor_sync(0xffffffffu, best.id, o)};
        best = better(best, other);
    }
    if (lane == 0) bests[threadIdx.x >> 5] = best;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < 32; w++) best = better(best, bests[w]);

    // A row without a finite logit chooses nothing: the id past the vocabulary says so, and the host reports it.
    bool broken = best.id >= vocab;
    tokens[(i64)row * capacity + index] = broken ? -1 : best.id;
    logprobs[(i64)row * capacity + index] = broken ? __int_as_float(0x7fc00000) : x[best.id] - (top + logf(sum));
    count[row] = index + 1;
    if (broken || best.id == limit.z || index + 1 >= limit.y) {
        done[row] = 1, slot[row] = -1;
        return;
    }
    int at = position[row] + 1;
    id[row] = best.id, position[row] = at, length[row] = at + 1;
    slot[row] = table[(i64)row * table_stride + at / PAGE] * PAGE + at % PAGE;
}
