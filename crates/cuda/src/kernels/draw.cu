// One token per row of logits, by a number that the request's own stream drew.
//
//   z = x / T of the allowed tokens, weight = e^(z - top); ranked by z, equals by id, the lowest first
//   kept: the first k; of them the fewest whose weight reaches p of theirs; of them those of at least min_p
//   token: the first whose cumulative weight exceeds u of all: in the order of ranks where k, p or min_p cuts, else of ids
//   logprob = that of softmax(x / T) over the whole vocabulary;   sampling logprob = that among what was kept
//   T = 0: the likeliest that is allowed; its logprob is that at T = 1, its sampling logprob 0
//
// Layout: logits [rows, stride] f32; settings [rows, 6] f64: T, u, p, min_p, k (0: all), row of the masks (-1: all allowed); masks
// [.., words] u32, a bit per token. Token -1: logits that are not finite, -2: nothing is allowed.
// One block of 1,024 threads per row. What is kept is never sorted: a place in the order of ranks is found by halving twice
// the range of z in each of 16 passes over the row, with sums in f64 in a fixed order.

#define INF __int_as_float(0x7f800000)

struct Best {
    float key;
    int id;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.key > a.key || (b.key == a.key && b.id < a.id) ? b : a;
}
__device__ __forceinline__ Best warp_best(Best best) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Best other = {__shfl_xor_sync(0xffffffffu, best.key, o), __shfl_xor_sync(0xffffffffu, best.id, o)};
        best = better(best, other);
    }
    return best;
}

// A row and its mask.
struct Row {
    const float* x;
    const u32* mask;
    int vocab;
    float inverse, top;
};
__device__ __forceinline__ bool allowed(const Row& r, int v) { return !r.mask || (r.mask[v >> 5] >> (v & 31) & 1); }

// Integers in the order of floats, and back.
__device__ __forceinline__ u32 key_of(float z) {
    u32 bits = __float_as_uint(z);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float z_of(u32 key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }
__device__ __forceinline__ double weight(const Row& r, float z) { return (double)expf(z - r.top); }

// Sums over the block of 1,024, known to every thread. `scratch` holds 96.
__device__ __forceinline__ void block_sums(double (&x)[3], double* scratch) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int j = 0; j < 3; j++) {
        for (int o = 16; o > 0; o >>= 1) x[j] += __shfl_xor_sync(0xffffffffu, x[j], o);
        if (lane == 0) scratch[warp * 3 + j] = x[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 3; j++) {
        x[j] = scratch[lane * 3 + j];
        for (int o = 16; o > 0; o >>= 1) x[j] += __shfl_xor_sync(0xffffffffu, x[j], o);
    }
    __syncthreads();
}

// Place in the order of ranks: tokens above `key`, and `ties` of those that have it.
struct Cut {
    u32 key;
    double above, ties;  // weight above the key; number of tokens at it
    double count;        // number of tokens above it
};

// Fills in what lies above and at the key.
__device__ __noinline__ Cut around(const Row& r, u32 key, double* scratch) {
    double sums[3] = {};
    for (int v = threadIdx.x; v < r.vocab; v += 1024) {
        if (!allowed(r, v)) continue;
        float z = r.x[v] * r.inverse;
        u32 mine = key_of(z);
        if (mine > key) sums[0] += weight(r, z), sums[2] += 1.;
        if (mine == key) sums[1] += 1.;
    }
    block_sums(sums, scratch);
    return {key, sums[0], sums[1], sums[2]};
}

// The highest key at which the tokens from there up reach the target: in number, or in weight; `past`: exceed it.
__device__ __noinline__ Cut reach(const Row& r, double target, bool number, bool past, double* scratch) {
    u32 found = 0;
    for (int shift = 30; shift >= 0; shift -= 2) {
        double sums[3] = {};
        for (int v = threadIdx.x; v < r.vocab; v += 1024) {
            if (!allowed(r, v)) continue;
            float z = r.x[v] * r.inverse;
            u32 mine = key_of(z);
            if (mine < (found | 1u << shift)) continue;
            double w = number ? 1. : weight(r, z);
            sums[0] += w;
            if (mine >= (found | 2u << shift)) sums[1] += w;
            if (mine >= (found | 3u << shift)) sums[2] += w;
        }
        block_sums(sums, scratch);
        u32 digit = 0;
#pragma unroll
        for (u32 j = 0; j < 3; j++)
            if (past ? sums[j] > target : sums[j] >= target) digit = j + 1;
        found |= digit << shift;
    }
    return around(r, found, scratch);
}

__device__ __forceinline__ double kept_weight(const Row& r, const Cut& cut) {
    return cut.above + cut.ties * weight(r, z_of(cut.key));
}

// The last place that k, p and min_p leave; key 0 where they leave all.
__device__ __forceinline__ Cut cut_off(const Row& r, int k, double p, double min_p, double total, double* scratch) {
    Cut cut = {0, total, 0., 0.};
    if (k > 0) {
        Cut first = reach(r, k, true, false, scratch);
        // Fewer than k: all of them.
        if (first.key) {
            first.ties = fmin(first.ties, k - first.count);
            cut = first, total = kept_weight(r, cut);
        }
    }
    if (p < 1.) {
        Cut nucleus = reach(r, p * total, false, false, scratch);
        if (nucleus.key > cut.key || (nucleus.key == cut.key && cut.key)) {
            double w = weight(r, z_of(nucleus.key)), wanted = fmax(1., ceil((p * total - nucleus.above) / w));
            nucleus.ties = fmin(wanted, nucleus.key == cut.key ? cut.ties : nucleus.ties);
            cut = nucleus;
        }
    }
    if (min_p > 0. && (!cut.key || weight(r, z_of(cut.key)) < min_p)) {
        // The lowest key that weighs enough; the top does.
        __shared__ u32 lowest[32];
        u32 mine = key_of(r.top);
        for (int v = threadIdx.x; v < r.vocab; v += 1024) {
            float z = r.x[v] * r.inverse;
            if (allowed(r, v) && weight(r, z) >= min_p) mine = min(mine, key_of(z));
        }
        for (int o = 16; o > 0; o >>= 1) mine = min(mine, (u32)__shfl_xor_sync(0xffffffffu, mine, o));
        if ((threadIdx.x & 31) == 0) lowest[threadIdx.x >> 5] = mine;
        __syncthreads();
        mine = lowest[threadIdx.x & 31];
        for (int o = 16; o > 0; o >>= 1) mine = min(mine, (u32)__shfl_xor_sync(0xffffffffu, mine, o));
        __syncthreads();
        cut = around(r, mine, scratch);
    }
    return cut;
}

// Runs of ids, one per thread: sums of what `mine` is, up to and with this thread's.
__device__ __forceinline__ double running(double mine, double* sums) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        double below = __shfl_up_sync(0xffffffffu, mine, o);
        if (lane >= o) mine += below;
    }
    sums[threadIdx.x] = mine;
    __syncthreads();
    double before = 0.;
    for (int w = 0; w < warp; w++) before += sums[w * 32 + 31];
    __syncthreads();
    sums[threadIdx.x] = mine + before;
    __syncthreads();
    return mine + before;
}

extern "C" __global__ void __launch_bounds__(1024)
    draw(const float* logits, int vocab, int stride, const double* settings, const u32* masks, int words, int* token,
         float* logprob, float* sampling) {
    __shared__ Best bests[32];
    __shared__ float tops[32];
    __shared__ double sums[1024], scratch[96];
    __shared__ int chosen;
    int row = blockIdx.x, t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const double* set = settings + 6 * row;
    double temperature = set[0], unit = fmin(set[1], 0.9999999999999999), p = set[2], min_p = set[3];
    int k = (int)set[4], masked = (int)set[5];
    bool greedy = temperature <= 0., cuts = k > 0 || p < 1. || min_p > 0.;
    float inverse = greedy ? 1.f : (float)(1. / temperature);
    Row r = {logits + (i64)row * stride, masked < 0 ? 0 : masks + (i64)masked * words, vocab, inverse, 0.f};
    Best best = {-INF, 0x7fffffff};
    float most = -INF;
    bool finite = true;
    for (int v = t; v < vocab; v += 1024) {
        float x = r.x[v];
        if (allowed(r, v)) best = better(best, {x, v});
        most = fmaxf(most, x), finite = finite && x < INF;
    }
    best = warp_best(best), most = warp_max(most);
    if (lane == 0) bests[warp] = best, tops[warp] = most;
    if (t == 0) chosen = -1;
    int whole = __syncthreads_and(finite);
    best = warp_best(bests[lane]), most = warp_max(tops[lane]) * inverse;
    if (!whole || most == -INF || best.key == -INF || best.id >= vocab) {
        float nan = __int_as_float(0x7fc00000);
        if (t == 0) token[row] = whole && most > -INF ? -2 : -1, logprob[row] = nan, sampling[row] = nan;
        return;
    }
    r.top = best.key * inverse;
    int each = (vocab + 1023) / 1024, first = min(t * each, vocab), last = min(first + each, vocab);
    float all = 0.f, mine = 0.f;
    for (int v = first; v < last; v++) {
        float z = r.x[v] * inverse;
        all += __expf(z - most);
        if (r.mask && allowed(r, v)) mine += __expf(z - r.top);
    }
    if (!r.mask) mine = all;
    double whole_sum[3] = {(double)all, 0., 0.};
    block_sums(whole_sum, scratch);
    running((double)mine, sums);
    double total = sums[1023], kept = total;
    if (!greedy && !cuts) {
        double point = unit * total, before = t ? sums[t - 1] : 0.;
        if (before <= point && point < sums[t]) {
            int at = first;
            for (int v = first; v < last; v++) {
                float w = allowed(r, v) ? __expf(r.x[v] * inverse - r.top) : 0.f;
                if (w > 0.f) at = v;
                if (point < before + w) break;
                before += w;
            }
            chosen = at;
        }
    } else if (!greedy) {
        Cut everything = around(r, 0, scratch), cut = cut_off(r, k, p, min_p, everything.above, scratch);
        kept = cut.key ? kept_weight(r, cut) : everything.above;
        double point = unit * kept;
        Cut at = reach(r, point, false, true, scratch);
        if (at.key <= cut.key && cut.key) at = cut;
        // Equals in the order of ids: each thread counts those of its run.
        double wanted = fmin(floor(fmax(0., point - at.above) / weight(r, z_of(at.key))), at.ties - 1.);
        int ties = 0;
        auto tied = [&](int v) { return allowed(r, v) && key_of(r.x[v] * inverse) == at.key; };
        for (int v = first; v < last; v++) ties += tied(v);
        __syncthreads();
        double until = running((double)ties, sums), passed = until - ties;
        if (passed <= wanted && wanted < until)
            for (int v = first; v < last; v++)
                if (tied(v) && passed++ == wanted) chosen = v;
    }
    __syncthreads();
    if (t != 0) return;
    int id = greedy || chosen < 0 ? best.id : chosen;
    float z = r.x[id] * inverse, plain = z - (most + logf((float)whole_sum[0]));
    token[row] = id, logprob[row] = plain;
    sampling[row] = greedy ? 0.f : cuts || r.mask ? fminf(0.f, (float)((double)z - r.top - log(kept))) : plain;
}
