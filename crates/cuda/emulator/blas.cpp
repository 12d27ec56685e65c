// cuBLASLt of an emulated GPU: the part of its C interface that Hone calls. Sums are f32; algorithms differ in their order.

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

enum { OK, INVALID = 7, UNSUPPORTED = 15, BF16 = 14, F32 = 0 };

struct Description {
    int transpose_a = 0, transpose_b = 0;
};
struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
};
struct Algorithm {
    uint64_t parts, unused[7];
};
struct Proposal {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/// A product with everything it needs, as the queue copies it. Matrices are columns first.
struct Product {
    Layout a, b, c;
    Description operation;
    const void *a_at, *b_at;
    void* c_at;
    float alpha, beta;
    uint64_t parts;
};

float widened(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    return memcpy(&x, &wide, 4), x;
}
uint16_t rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return x != x ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
/// Columns of op(X), one after another; transposed, its rows.
std::vector<float> gathered(const Layout& layout, const void* at, bool across) {
    std::vector<float> all(layout.rows * layout.columns);
    for (uint64_t c = 0; c < layout.columns; c++)
        for (uint64_t r = 0; r < layout.rows; r++) {
            uint64_t from = c * layout.stride + r, to = across ? r * layout.columns + c : c * layout.rows + r;
            all[to] = layout.type == BF16 ? widened(((const uint16_t*)at)[from]) : ((const float*)at)[from];
        }
    return all;
}

void multiply(void* with) {
    const Product& p = *(const Product*)with;
    uint64_t m = p.c.rows, n = p.c.columns, k = p.operation.transpose_a ? p.a.rows : p.a.columns;
    // a[k][m] and b[n][k].
    std::vector<float> a = gathered(p.a, p.a_at, p.operation.transpose_a), b = gathered(p.b, p.b_at, p.operation.transpose_b);
    std::vector<float> sum(m), part(m);
    for (uint64_t j = 0; j < n; j++) {
        std::fill(sum.begin(), sum.end(), 0.f);
        for (uint64_t from = 0; from < k; from += (k + p.parts - 1) / p.parts) {
            std::fill(part.begin(), part.end(), 0.f);
            for (uint64_t i = from; i < std::min(k, from + (k + p.parts - 1) / p.parts); i++) {
                const float *row = &a[i * m], factor = b[j * k + i];
                for (uint64_t r = 0; r < m; r++) part[r] += row[r] * factor;
            }
            for (uint64_t r = 0; r < m; r++) sum[r] += part[r];
        }
        for (uint64_t r = 0; r < m; r++) {
            uint64_t at = j * p.c.stride + r;
            uint16_t* narrow = (uint16_t*)p.c_at + at;
            float* wide = (float*)p.c_at + at;
            float before = p.beta == 0 ? 0 : p.c.type == BF16 ? widened(*narrow) : *wide, x = p.alpha * sum[r] + p.beta * before;
            if (p.c.type == BF16) *narrow = rounded(x);
            else *wide = x;
        }
    }
}

}  // namespace

API cublasLtCreate(void** handle) { return *handle = new char, OK; }
API cublasLtDestroy(void* handle) { return delete (char*)handle, OK; }
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130000; }
API cublasLtMatmulDescCreate(Description** to, int, int) { return *to = new Description, OK; }
API cublasLtMatmulDescDestroy(Description* description) { return delete description, OK; }
API cublasLtMatmulDescSetAttribute(Description* description, int attribute, const int* value, size_t) {
    if (attribute != 3 && attribute != 4) return INVALID;
    return (attribute == 3 ? description->transpose_a : description->transpose_b) = *value, OK;
}
API cublasLtMatrixLayoutCreate(Layout** to, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    return *to = new Layout{type, rows, columns, stride}, OK;
}
API cublasLtMatrixLayoutDestroy(Layout* layout) { return delete layout, OK; }
API cublasLtMatmulPreferenceCreate(void** to) { return *to = new char, OK; }
API cublasLtMatmulPreferenceDestroy(void* preference) { return delete (char*)preference, OK; }
API cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return OK; }

/// Three algorithms, whose sums differ in order; which comes first depends on the number of rows, as it does on a GPU.
API cublasLtMatmulAlgoGetHeuristic(void*, Description*, Layout*, Layout*, Layout* c, Layout*, void*, int asked, Proposal* found,
                                   int* count) {
    *count = std::min(asked, 3);
    for (int i = 0; i < *count; i++) {
        uint64_t parts = 1 + (i + (c->columns >= 32)) % 3;
        found[i] = {{parts, {}}, 0, OK, 1.f, {}};
    }
    return *count ? OK : UNSUPPORTED;
}
API cublasLtMatmul(void*, Description* operation, const float* alpha, const void* a, Layout* a_layout, const void* b,
                   Layout* b_layout, const float* beta, const void* c, Layout* c_layout, void* d, Layout*, const Algorithm* chosen,
                   void*, size_t, void* stream) {
    uint64_t m = operation->transpose_a ? a_layout->columns : a_layout->rows;
    uint64_t k = operation->transpose_a ? a_layout->rows : a_layout->columns;
    uint64_t inner = operation->transpose_b ? b_layout->columns : b_layout->rows;
    uint64_t n = operation->transpose_b ? b_layout->rows : b_layout->columns;
    if (m != c_layout->rows || n != c_layout->columns || k != inner || c != d || !chosen || !chosen->parts) return INVALID;
    static auto queue = (void (*)(void*, void (*)(void*), void*, size_t))dlsym(
        dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD), "emulated_queue");
    Product product = {*a_layout, *b_layout, *c_layout, *operation, a, b, d, *alpha, *beta, chosen->parts};
    return queue(stream, multiply, &product, sizeof product), OK;
}
