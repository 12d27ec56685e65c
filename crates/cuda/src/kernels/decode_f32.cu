// Decode attention in f32, for tests: formulas and layout as decode.cu, a warp per query and head, written to be obviously right.

#define PAGE 16

template <int DIM>
__device__ __forceinline__ void decode(const float* q, const float* k_pages, const float* v_pages, const int* table,
                                       int table_stride, const int* length, float* o, int rows, int q_heads, int kv_heads,
                                       float scale) {
    constexpr int EACH = DIM / 32;
    int item = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (item >= rows * q_heads) return;
    int row = item / q_heads, kv_head = item % q_heads / (q_heads / kv_heads);
    float query[EACH], acc[EACH] = {}, top = -__int_as_float(0x7f800000), sum = 0.f;
    for (int i = 0; i < EACH; i++) query[i] = q[(i64)item * DIM + i * 32 + lane] * scale;
    for (int key = 0; key < length[row]; key++) {
        i64 at = (((i64)table[(i64)row * table_stride + key / PAGE] * PAGE + key % PAGE) * kv_heads + kv_head) * DIM + lane;
        float s = 0.f;
        for (int i = 0; i < EACH; i++) s += query[i] * k_pages[at + i * 32];
        s = warp_sum(s);
        float m = fmaxf(top, s), factor = expf(top - m), p = expf(s - m);
        for (int i = 0; i < EACH; i++) acc[i] = acc[i] * factor + p * v_pages[at + i * 32];
        sum = sum * factor + p, top = m;
    }
    for (int i = 0; i < EACH; i++) o[(i64)item * DIM + i * 32 + lane] = sum > 0.f ? acc[i] / sum : 0.f;
}

#define DECODE(DIM)                                                                                                      \
    extern "C" __global__ void decode_f32_##DIM(const float* q, const float* k_pages, const float* v_pages,              \
                                                const int* table, int table_stride, const int* length, float* o,         \
                                                int rows, int q_heads, int kv_heads, float scale) {                      \
        decode<DIM>(q, k_pages, v_pages, table, table_stride, length, o, rows, q_heads, kv_heads, scale);                \
    }
DECODE(64)
DECODE(128)
