// Embedding lookup and its gradient.
//
//   out[t] = table[id[t]],   dtable[v] += sum over t with id[t] = v of dout[t]
//
// Layout: table [vocab, dim], out [tokens, dim], dtable [vocab, dim] f32, dim a multiple of 8. The gradient walks the
// tokens sorted by id (order, starts: one run per distinct id), one block per run: no atomics, the same sum every time.

template <typename T> __device__ __forceinline__ void forward(const T* table, const int* id, T* out, int dim) {
    const uint4* from = (const uint4*)(table + (i64)id[blockIdx.x] * dim);
    uint4* to = (uint4*)(out + (i64)blockIdx.x * dim);
    for (int i = threadIdx.x; i < dim * (int)sizeof(T) / 16; i += blockDim.x) to[i] = from[i];
}

template <typename T>
__device__ __forceinline__ void backward(const T* dout, const int* id, const int* order, const int* starts,
                                         float* dtable, int dim) {
    int begin = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    float* to = dtable + (i64)id[order[begin]] * dim;
    for (int col = threadIdx.x * 8; col < dim; col += blockDim.x * 8) {
        float sum[8], x[8];
        load8(to + col, sum);
        for (int i = begin; i < end; i++) {
            load8(dout + (i64)order[i] * dim + col, x);
#pragma unroll
            for (int k = 0; k < 8; k++) sum[k] += x[k];
        }
        store8(to + col, sum);
    }
}

#define FORWARD_PARAMS(T) (const T* table, const int* id, T* out, int dim)
#define FORWARD(T) forward<T>(table, id, out, dim)
BOTH(embed_forward, FORWARD_PARAMS, FORWARD)

#define BACKWARD_PARAMS(T) (const T* dout, const int* id, const int* order, const int* starts, float* dtable, int dim)
#define BACKWARD(T) backward<T>(dout, id, order, starts, dtable, dim)
BOTH(embed_backward, BACKWARD_PARAMS, BACKWARD)
