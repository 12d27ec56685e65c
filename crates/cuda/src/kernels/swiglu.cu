// SwiGLU, forward and backward.
//
//   out = silu(gate) * up,   silu(g) = g * sigmoid(g)
//   dgate = dout * up * sigmoid(g) * (1 + g * (1 - sigmoid(g))),   dup = dout * silu(g)
//
// Layout: gate_up [rows, 2*dim], gates in the first half of a row (the output of one fused projection); out [rows, dim];
// dim a multiple of 8. Bound by memory: eight elements per thread, every byte moved once.

template <typename T>
__device__ __forceinline__ void forward(const T* gate_up, T* out, u32 vectors, int dim) {
    // 32 bits: a wider division would take as long as the rest.
    u32 v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vectors) return;
    u32 per_row = dim / 8;
    i64 row = v / per_row;
    int col = (int)(v % per_row) * 8;
    float g[8], u[8];
    load8(gate_up + row * 2 * dim + col, g);
    load8(gate_up + row * 2 * dim + dim + col, u);
#pragma unroll
    for (int k = 0; k < 8; k++) g[k] = g[k] / (1.f + __expf(-g[k])) * u[k];
    store8(out + row * dim + col, g);
}

// Also writes the forward's output again where `out` is given: the weight gradient of the down projection needs it, and
// recomputing it here costs one write instead of keeping it for the whole step.
template <typename T>
__device__ __forceinline__ void backward(const T* dout, const T* gate_up, T* dgate_up, T* out, u32 vectors, int dim) {
    // 32 bits: a wider division would take as long as the rest.
    u32 v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vectors) return;
    u32 per_row = dim / 8;
    i64 row = v / per_row;
    int col = (int)(v % per_row) * 8;
    float g[8], u[8], d[8], again[8];
    load8(gate_up + row * 2 * dim + col, g);
    load8(gate_up + row * 2 * dim + dim + col, u);
    load8(dout + row * dim + col, d);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float s = 1.f / (1.f + __expf(-g[k])), silu = g[k] * s;
        again[k] = silu * u[k];
        g[k] = d[k] * u[k] * s * (1.f + g[k] * (1.f - s));
        u[k] = d[k] * silu;
    }
    store8(dgate_up + row * 2 * dim + col, g);
    store8(dgate_up + row * 2 * dim + dim + col, u);
    if (out) store8(out + row * dim + col, again);
}

#define FORWARD_PARAMS(T) (const T* gate_up, T* out, u32 vectors, int dim)
#define FORWARD(T) forward<T>(gate_up, out, vectors, dim)
BOTH(swiglu_forward, FORWARD_PARAMS, FORWARD)

#define BACKWARD_PARAMS(T) (const T* dout, const T* gate_up, T* dgate_up, T* out, u32 vectors, int dim)
#define BACKWARD(T) backward<T>(dout, gate_up, dgate_up, out, vectors, dim)
BOTH(swiglu_backward, BACKWARD_PARAMS, BACKWARD)
