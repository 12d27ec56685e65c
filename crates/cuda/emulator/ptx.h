// Meaning of the functions that hold inline PTX, which translate.py takes out of a kernel's source; it defines PTX_name for each.
// Included where the kernel has declared its own types (u32, bf16).

inline u16 rounded_bits(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
template <typename T> inline T from_f32(float x);
template <> inline bf16 from_f32<bf16>(float x) { return {rounded_bits(x)}; }
inline u32 pack_bf16(float lo, float hi) { return rounded_bits(lo) | (u32)rounded_bits(hi) << 16; }

// Approximate functions flush what is below the smallest normal float to zero.
inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? 0.f : x; }
inline float exp2_fast(float x) { return flushed(exp2f(x)); }
inline float root_fast(float x) { return flushed(sqrtf(flushed(x))); }
inline float inverse_fast(float x) { return flushed(1.f / flushed(x)); }

inline void copy_async(u32 to, const void* from, bool valid) { copy_start(to, from, valid); }
inline void copy_wait() { copies_wait(); }
inline void load_matrix(u32 (&r)[4], u32 address) { load_tiles(r, address, false); }
inline void load_matrix_transposed(u32 (&r)[4], u32 address) { load_tiles(r, address, true); }
inline void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { multiply_tiles(c, a, b0, b1); }

#ifdef PTX_wgmma_fence
inline void wgmma_fence() {}
inline void wgmma_commit() { products_commit(); }
template <int N, int TILES> inline void products_wait(float (&)[TILES][4]) { products_finish(N); }
template <int TILES> inline void wgmma_tiles(float (&c)[TILES][4], u64 a, u64 b, int add) {
    product_start(&c[0][0], TILES * 8, 0, a, b, add);
}
template <int TILES> inline void wgmma_rows(float (&c)[TILES][4], const u32 (&a)[4], u64 b) {
    product_start(&c[0][0], TILES * 8, a, 0, b, 1);
}
template <int TILES> inline void wgmma_columns(float (&c)[TILES][4], const u32 (&a)[4], u64 b, int add) {
    product_start(&c[0][0], TILES * 8, a, 0, b, add, true);
}
#endif

#ifdef PTX_barrier_init
inline void barrier_init(u32 barrier, int arrivals) { counter_init(barrier, arrivals); }
inline void barriers_ready() {}
inline void barrier_arrive(u32 barrier) { counter_arrive(barrier, 0); }
inline void barrier_expect(u32 barrier, int bytes) { counter_arrive(barrier, bytes); }
inline void barrier_wait(u32 barrier, int parity) { counter_wait(barrier, parity); }
template <typename Map> void box_load(u32 to, const Map* map, int column, int head, int row, u32 barrier) {
    box_start(to, (const uint64_t*)map, column, head, row, barrier);
}
template <int N> inline void registers_down() {}
template <int N> inline void registers_up() {}
inline void unknown(u32&) {}
inline void turn_wait(int who) { named_barrier(who, 256, true); }
inline void turn_give(int who) { named_barrier(who, 256, false); }
#endif
