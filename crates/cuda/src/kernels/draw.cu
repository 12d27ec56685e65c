// One token per row of logits, by a number that the request's own stream drew.
//
//   p(v) = exp(x[v] / T) / sum,   token = first v whose cumulative p exceeds u,   logprob = log p(token)
//   T = 0: the likeliest, the lowest id of equals; its logprob is that at T = 1
//
// Layout: logits [rows, stride] f32; settings [rows, 2] f64: T, u. A row whose logits are not finite gets the token -1.
// One block of 1,024 threads per row; a thread adds up a run of ids, and the sums are scanned in f64.

#define INF __int_as_float(0x7f800000)

struct Best {
    float key;
    int id;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.key > a.key || (b.key == a.key && b.id < a.id) ? b : a;
}

extern "C" __global__ void __launch_bounds__(1024)
    draw(const float* logits, int vocab, int stride, const double* settings, int* token, float* logprob) {
    __shared__ float scratch[32];
    __shared__ Best bests[32];
    __shared__ double sums[1024];
    __shared__ int chosen;
    int row = blockIdx.x, t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const float* x = logits + (i64)row * stride;
    double temperature = settings[2 * row], unit = settings[2 * row + 1];
    bool greedy = temperature <= 0.;
    float inverse = greedy ? 1.f : (float)(1. / temperature);
    Best best = {-INF, 0x7fffffff};
    bool finite = true;
    for (int v = t; v < vocab; v += 1024) {
        best = better(best, {x[v], v});
        finite = finite && x[v] < INF;
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Best other = {__shfl_xor_sync(0xffffffffu, best.key, o), __shfl_xor_sync(0xffffffffu, best.id, o)};
        best = better(best, other);
    }
    if (lane == 0) bests[warp] = best;
    if (t == 0) chosen = -1;
    int whole = __syncthreads_and(finite);
    best = bests[lane];
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Best other = {__shfl_xor_sync(0xffffffffu, best.key, o), __shfl_xor_sync(0xffffffffu, best.id, o)};
        best = better(best, other);
    }
    float top = best.key * inverse;
    if (!whole || best.id >= vocab) {
        if (t == 0) token[row] = -1, logprob[row] = __int_as_float(0x7fc00000);
        return;
    }
    int each = (vocab + 1023) / 1024, first = min(t * each, vocab), last = min(first + each, vocab);
    float mine = 0.f;
    for (int v = first; v < last; v++) mine += __expf(x[v] * inverse - top);
    double sum = mine;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        double below = __shfl_up_sync(0xffffffffu, sum, o);
        if (lane >= o) sum += below;
    }
    sums[t] = sum;
    __syncthreads();
    double before = 0.;
    for (int w = 0; w < warp; w++) before += sums[w * 32 + 31];
    __syncthreads();
    sums[t] = sum + before;
    __syncthreads();
    double total = sums[1023], point = fmin(unit, 0.9999999999999999) * total;
    before = t ? sums[t - 1] : 0.;
    if (!greedy && before <= point && point < sums[t]) {
        int at = first;
        for (int v = first; v < last; v++) {
            float w = __expf(x[v] * inverse - top);
            if (w > 0.f) at = v;
            if (point < before + w) break;
            before += w;
        }
        chosen = at;
    }
    __syncthreads();
    if (t != 0) return;
    int id = greedy || chosen < 0 ? best.id : chosen;
    token[row] = id, logprob[row] = x[id] * inverse - (top + logf((float)total));
}
