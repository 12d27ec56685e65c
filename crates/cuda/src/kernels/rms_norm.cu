// RMSNorm with the residual addition fused in, forward and backward.
//
//   r = x + delta            (delta absent: r = x)
//   y = r * rstd * w,        rstd = 1 / sqrt(mean(r^2) + eps)
//   dr = rstd * (w*dy) - r * rstd^3 * mean(w*dy*r) + dr_above
//   dw = sum over rows of dy * r * rstd
//
// Layout: x, delta, r, y [rows, dim] row-major, dim a multiple of 8; rstd [rows] f32; w [dim].
// Fast because the row is read from memory once, with all its loads under way at a time, and stays in registers: those of a
// warp, or of a block where rows are too few to fill the GPU with warps (decoding), too wide, or f32. Both add in one
// order, so that a row has the same bits however many others are normed with it: the squares of eight columns, then every 32nd
// group of eight from the left, then the 32 sums across the lanes. The backward gives every thread eight columns, so that dw is
// summed in registers over the rows of a block, and fetches the next row before it sums over one. The partial sums of the
// blocks are added by `column_sum` in a fixed order: the result is the same in every run.

// Explicit fma: the compiler may not choose another rounding in one of the two kernels.
__device__ __forceinline__ float squares(const float (&a)[8]) {
    float sum = a[0] * a[0];
#pragma unroll
    for (int k = 1; k < 8; k++) sum = fmaf(a[k], a[k], sum);
    return sum;
}
__device__ __forceinline__ float inverse_root(float sum, int dim, float eps) { return rsqrtf(sum / dim + eps); }
template <typename T> __device__ __forceinline__ void add_rounded(float (&a)[8], const float (&b)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) a[k] = to_f32(from_f32<T>(a[k] + b[k]));
}
__device__ __forceinline__ void scaled(float (&a)[8], float scale, const float (&w)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) a[k] *= scale * w[k];
}

// A warp per row; VECTORS * 256 covers dim.
template <int VECTORS, typename T>
__device__ __forceinline__ void forward(const T* x, const T* delta, const T* w, T* r, T* y, float* rstd, int rows,
                                        int dim, float eps) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    i64 base = (i64)row * dim;
    Eight<T> a[VECTORS], b[VECTORS];
#pragma unroll
    for (int j = 0, col = lane * 8; j < VECTORS; j++, col += 256)
        if (col < dim) a[j].load(x + base + col);
    if (delta) {
#pragma unroll
        for (int j = 0, col = lane * 8; j < VECTORS; j++, col += 256)
            if (col < dim) b[j].load(delta + base + col);
#pragma unroll
        for (int j = 0, col = lane * 8; j < VECTORS; j++, col += 256) {
            if (col >= dim) continue;
            float v[8], d[8];
            a[j].get(v), b[j].get(d);
            add_rounded<T>(v, d);
            a[j].set(v);
            a[j].store(r + base + col);
        }
    }
    float sum = 0.f;
#pragma unroll
    for (int j = 0, col = lane * 8; j < VECTORS; j++, col += 256) {
        if (col >= dim) continue;
        float v[8];
        a[j].get(v);
        sum += squares(v);
    }
    float scale = inverse_root(warp_sum(sum), dim, eps);
    if (lane == 0 && rstd) rstd[row] = scale;
#pragma unroll
    for (int j = 0, col = lane * 8; j < VECTORS; j++, col += 256) {
        if (col >= dim) continue;
        float v[8], weight[8];
        a[j].get(v), load8(w + col, weight);
        scaled(v, scale, weight);
        store8(y + base + col, v);
    }
}

// A block per row; blockDim.x * 8 covers dim, and threads are whole warps. Every load is under way before the first sum.
template <typename T>
__device__ __forceinline__ void block(const T* x, const T* delta, const T* w, T* r, T* y, float* rstd, int dim, float eps) {
    __shared__ float parts[1024];
    int col = threadIdx.x * 8;
    bool mine = col < dim;
    i64 at = (i64)blockIdx.x * dim + col;
    float a[8] = {}, b[8], weight[8];
    if (mine) {
        load8(x + at, a);
        load8(w + col, weight);
        if (delta) {
            load8(delta + at, b);
            add_rounded<T>(a, b);
            store8(r + at, a);
        }
    }
    parts[threadIdx.x] = squares(a);
    __syncthreads();
    // Every warp adds all parts, so that no second barrier is needed. Zeros past the row change nothing.
    float sum = 0.f;
    for (int i = threadIdx.x & 31; i < blockDim.x; i += 32) sum += parts[i];
    float scale = inverse_root(warp_sum(sum), dim, eps);
    if (threadIdx.x == 0 && rstd) rstd[blockIdx.x] = scale;
    if (!mine) return;
    scaled(a, scale, weight);
    store8(y + at, a);
}

// One block sums dw over rows blockIdx.x, blockIdx.x + gridDim.x, ...; blockDim.x * 8 covers dim.
template <typename T>
__device__ __forceinline__ void backward(const T* dy, const T* r, const float* rstd, const T* w, const T* above, T* dr,
                                         float* partial, int rows, int dim) {
    __shared__ float scratch[2][32];
    int col = threadIdx.x * 8, turn = 0;
    bool mine = col < dim;
    Eight<T> weights = {}, next_g = {}, next_v = {}, next_up = {};
    float next_scale = 0.f, share = 1.f / dim, dw[8] = {};
    auto fetch = [&](int row) {
        if (row >= rows) return;
        next_scale = rstd[row];
        if (!mine) return;
        i64 at = (i64)row * dim + col;
        next_g.load(dy + at), next_v.load(r + at);
        if (above) next_up.load(above + at);
    };
    if (mine) weights.load(w + col);
    fetch(blockIdx.x);
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        Eight<T> up = next_up;
        float g[8], v[8], factor[8], scale = next_scale, dot = 0.f;
        next_g.get(g), next_v.get(v), weights.get(factor);
        fetch(row + gridDim.x);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            dw[k] += g[k] * v[k] * scale;
            g[k] *= factor[k];
            dot += g[k] * v[k];
        }
        dot = block_sum(dot, scratch[turn]) * share * scale * scale * scale;
        float past[8];
        up.get(past);
#pragma unroll
        for (int k = 0; k < 8; k++) g[k] = g[k] * scale - v[k] * dot + past[k];
        if (mine) store8(dr + (i64)row * dim + col, g);
    }
    if (mine) store8(partial + (i64)blockIdx.x * dim + col, dw);
}

#define FORWARD_PARAMS(T)                                                                                                \
    (const T* x, const T* delta, const T* w, T* r, T* y, float* rstd, int rows, int dim, float eps)
// Rows of up to 1,024, 2,048, 2,560 and 4,096 columns.
#define FORWARD(VECTORS)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(128) rms_norm_forward_##VECTORS FORWARD_PARAMS(bf16) {                  \
        forward<VECTORS, bf16>(x, delta, w, r, y, rstd, rows, dim, eps);                                                 \
    }
FORWARD(4)
FORWARD(8)
FORWARD(10)
FORWARD(16)

#define BLOCK(T) block<T>(x, delta, w, r, y, rstd, dim, eps)
BOTH(__launch_bounds__(1024) rms_norm_block, FORWARD_PARAMS, BLOCK)

#define BACKWARD_PARAMS(T)                                                                                               \
    (const T* dy, const T* r, const float* rstd, const T* w, const T* above, T* dr, float* partial, int rows, int dim)
#define BACKWARD(T) backward<T>(dy, r, rstd, w, above, dr, partial, rows, dim)
BOTH(__launch_bounds__(1024) rms_norm_backward, BACKWARD_PARAMS, BACKWARD)

// out[c] += sum over rows of partial[row][c], in a fixed order: 32 columns by 32 groups of rows per block.
extern "C" __global__ void column_sum(const float* partial, float* out, int rows, int dim) {
    __shared__ float sums[32][33];
    int lane = threadIdx.x & 31, group = threadIdx.x >> 5, col = blockIdx.x * 32 + lane;
    float sum = 0.f;
    if (col < dim)
#pragma unroll 8
        for (int row = group; row < rows; row += 32) sum += partial[(i64)row * dim + col];
    sums[group][lane] = sum;
    __syncthreads();
    // Transposed: a warp now holds the 32 groups of one column.
    sum = warp_sum(sums[lane][group]);
    col = blockIdx.x * 32 + group;
    if (lane == 0 && col < dim) out[col] += sum;
}
