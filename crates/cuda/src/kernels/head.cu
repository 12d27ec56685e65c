// Log-softmax of one chunk of logits: log-probability of the target, entropy, and the gradient of both.
//
//   x = logits * inverse temperature;   lse = log sum exp(x),   logprob = x[target] - lse,   entropy = lse - sum p*x
//   dx[v] = dlogprob * (1[v = target] - p[v]) - dentropy * p[v] * (log p[v] + entropy);   dlogits = dx * inverse temperature
//
// Layout: logits [rows, stride] f32, rows of one chunk only; the gradient of a row, bf16 or f32, replaces it from its first byte
// on. stride is vocab rounded up to 8, and the columns past vocab are read as -inf and written as 0. A target below zero leaves
// its row out: logprob, entropy and lse are 0 and its gradient is written as 0.
// Fast because maximum, sum and entropy come from one pass (online softmax): a block of 1024 threads reads the row once,
// and once for the gradient, which takes lse and entropy from the forward pass where they are `known`.

#define INF __int_as_float(0x7f800000)

struct Online {
    float max, sum, dot;  // sum of e^(x - max), sum of x * e^(x - max)
};

__device__ __forceinline__ Online merge(Online a, Online b) {
    float m = fmaxf(a.max, b.max);
    if (m == -INF) return a;
    float fa = __expf(a.max - m), fb = __expf(b.max - m);
    return {m, a.sum * fa + b.sum * fb, a.dot * fa + b.dot * fb};
}

__device__ __forceinline__ Online warp_merge(Online x) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Online y = {__shfl_xor_sync(0xffffffffu, x.max, o), __shfl_xor_sync(0xffffffffu, x.sum, o),
                    __shfl_xor_sync(0xffffffffu, x.dot, o)};
        // The same order on both sides, so that every lane holds the same bits.
        x = (threadIdx.x & o) ? merge(y, x) : merge(x, y);
    }
    return x;
}

__device__ __forceinline__ void load_row(const float* x, int at, int vocab, float inverse, float (&v)[8]) {
    load8(x + at, v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] *= inverse;
    if (at + 8 > vocab) {
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (at + k >= vocab) v[k] = -INF;
    }
}

__device__ __forceinline__ Online reduce_row(const float* x, int vocab, float inverse, Online* scratch) {
    Online acc = {-INF, 0.f, 0.f};
    for (int i = threadIdx.x * 8; i < vocab; i += blockDim.x * 8) {
        float v[8];
        load_row(x, i, vocab, inverse, v);
        float m = acc.max;
#pragma unroll
        for (int k = 0; k < 8; k++) m = fmaxf(m, v[k]);
        float f = __expf(acc.max - m);
        acc.sum *= f, acc.dot *= f, acc.max = m;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float e = __expf(v[k] - m);
            acc.sum += e, acc.dot += e == 0.f ? 0.f : e * v[k];
        }
    }
    acc = warp_merge(acc);
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (lane == 0) scratch[warp] = acc;
    __syncthreads();
    int warps = blockDim.x >> 5;
    Online none = {-INF, 0.f, 0.f};
    return warp_merge(lane < warps ? scratch[lane] : none);
}

// dlogprob absent: forward only. dentropy absent: no entropy term. known: entropy and lse are read, and no score is written.
template <typename G>
__device__ __forceinline__ void head(float* logits, const int* target, const float* dlogprob, const float* dentropy,
                                     float* logprob, float* entropy, float* lses, int known, int vocab, int stride,
                                     float inverse) {
    __shared__ Online scratch[32];
    int row = blockIdx.x, t = target[row];
    float* x = logits + (i64)row * stride;
    G* dx = dlogprob ? (G*)x : 0;
    if (t < 0) {
        float zero[8] = {};
        if (dx)
            for (int i = threadIdx.x * 8; i < vocab; i += blockDim.x * 8) store8(dx + i, zero);
        if (threadIdx.x == 0 && !known) logprob[row] = entropy[row] = lses[row] = 0.f;
        return;
    }
    float lse, h;
    if (known) {
        lse = lses[row], h = entropy[row];
    } else {
        Online o = reduce_row(x, vocab, inverse, scratch);
        lse = o.max + logf(o.sum), h = lse - o.dot / o.sum;
        if (threadIdx.x == 0) logprob[row] = x[t] * inverse - lse, entropy[row] = h, lses[row] = lse;
    }
    if (!dx) return;
    float dl = dlogprob[row], de = dentropy ? dentropy[row] : 0.f;
    for (int from = 0; from < vocab; from += blockDim.x * 8) {
        int i = from + threadIdx.x * 8;
        float v[8] = {};
        if (i < vocab) load_row(x, i, vocab, inverse, v);
        // A gradient is no wider than its logit: what it overwrites was read in this turn or an earlier one.
        __syncthreads();
        if (i >= vocab) continue;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float lp = v[k] - lse, p = __expf(lp);
            v[k] = p == 0.f ? 0.f : -dl * p - de * p * (lp + h);
            if (i + k == t) v[k] += dl;
            v[k] *= inverse;
        }
        store8(dx + i, v);
    }
}

#define PARAMS(T)                                                                                                        \
    (float* logits, const int* target, const float* dlogprob, const float* dentropy, float* logprob, float* entropy,     \
     float* lses, int known, int vocab, int stride, float inverse)
#define HEAD(T) head<T>(logits, target, dlogprob, dentropy, logprob, entropy, lses, known, vocab, stride, inverse)
BOTH(head, PARAMS, HEAD)
