// Rows of activations: biases and their gradient, rows added up by where they came from.
//
//   x[r, c] += bias[c];   partial[b, c] = sum over the rows of block b of dy[r, c];   to[r] = sum over i in r of from[order[i]]
//
// Layout: x, dy [rows, width]; partial [gridDim.y, width] f32, added up by column_sum; starts [rows + 1] delimits each row's run
// in order. Every sum has a fixed order.

template <typename T> __device__ __forceinline__ void bias_add(T* x, const T* bias, i64 len, int width) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride)
        x[i] = from_f32<T>(to_f32(x[i]) + to_f32(bias[i % width]));
}

template <typename T> __device__ __forceinline__ void bias_sum(const T* dy, float* partial, int rows, int width) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, each = (rows + gridDim.y - 1) / gridDim.y;
    if (col >= width) return;
    float sum = 0.f;
    for (int row = blockIdx.y * each; row < min(rows, ((int)blockIdx.y + 1) * each); row++)
        sum += to_f32(dy[(i64)row * width + col]);
    partial[(i64)blockIdx.y * width + col] = sum;
}

template <typename T>
__device__ __forceinline__ void gather_sum(const T* from, const int* order, const int* starts, T* to, int dim) {
    int begin = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    for (int col = threadIdx.x; col < dim; col += blockDim.x) {
        float sum = 0.f;
        for (int i = begin; i < end; i++) sum += to_f32(from[(i64)order[i] * dim + col]);
        to[(i64)blockIdx.x * dim + col] = from_f32<T>(sum);
    }
}

#define ADD_PARAMS(T) (T* x, const T* bias, i64 len, int width)
#define ADD(T) bias_add<T>(x, bias, len, width)
BOTH(bias_add, ADD_PARAMS, ADD)

#define SUM_PARAMS(T) (const T* dy, float* partial, int rows, int width)
#define SUM(T) bias_sum<T>(dy, partial, rows, width)
BOTH(bias_sum, SUM_PARAMS, SUM)

#define GATHER_PARAMS(T) (const T* from, const int* order, const int* starts, T* to, int dim)
#define GATHER(T) gather_sum<T>(from, order, starts, to, dim)
BOTH(gather_sum, GATHER_PARAMS, GATHER)

// Identity of a flat array: four sums of hashes of element and index. Sums of integers, so that no order matters.
__device__ __forceinline__ u64 hashed(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
extern "C" __global__ void content(const u32* x, i64 len, u64* out) {
    u64 sum[4] = {};
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) {
        u64 z = hashed((u64)i * 0x9e3779b97f4a7c15ull + x[i]);
#pragma unroll
        for (int k = 0; k < 4; k++) sum[k] += z = hashed(z + 0xd1342543de82ef95ull);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        for (int o = 16; o > 0; o >>= 1) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], o);
        if ((threadIdx.x & 31) == 0) atomicAdd(out + k, sum[k]);
    }
}
