//! AVX-512 and AVX2.

use super::{Kernel, LANES, Simd, Tile};
use std::arch::x86_64 as arch;

/// # Safety
/// The CPU must have AVX-512 F and DQ, AVX2 and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
pub(super) unsafe fn run_avx512<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Avx512(()))
}

/// # Safety
/// The CPU must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_avx2<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Avx2(()))
}

/// Sum of eight lanes by halves: the tree of [`Simd::sum`] from its second level on.
///
/// # Safety
/// The CPU must have AVX.
#[inline(always)]
unsafe fn sum8(a: arch::__m256) -> f32 {
    unsafe {
        let four = arch::_mm_add_ps(arch::_mm256_castps256_ps128(a), arch::_mm256_extractf128_ps::<1>(a));
        let two = arch::_mm_add_ps(four, arch::_mm_movehl_ps(four, four));
        arch::_mm_cvtss_f32(arch::_mm_add_ss(two, arch::_mm_shuffle_ps::<1>(two, two)))
    }
}

/// Greatest of eight lanes.
///
/// # Safety
/// The CPU must have AVX.
#[inline(always)]
unsafe fn max8(a: arch::__m256) -> f32 {
    unsafe {
        let four = arch::_mm_max_ps(arch::_mm256_castps256_ps128(a), arch::_mm256_extractf128_ps::<1>(a));
        let two = arch::_mm_max_ps(four, arch::_mm_movehl_ps(four, four));
        arch::_mm_cvtss_f32(arch::_mm_max_ss(two, arch::_mm_shuffle_ps::<1>(two, two)))
    }
}

#[inline(always)]
pub(super) fn prefetch(p: *const f32) {
    // SAFETY: SSE is part of x86-64, and a prefetch reads nothing.
    unsafe { arch::_mm_prefetch::<{ arch::_MM_HINT_T1 }>(p.cast()) };
}

/// Proof of AVX-512: made by `run_avx512` only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

/// Proof of AVX2 and FMA: made by `run_avx2` only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

// SAFETY of every block below: `self` proves the instructions exist; pointers are the callers' promises.
impl Simd for Avx512 {
    type F = arch::__m512;
    const TILE: Tile = Tile { rows: 12, vectors: 2 };

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        unsafe { arch::_mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> Self::F {
        unsafe { arch::_mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: Self::F) {
        unsafe { arch::_mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { arch::_mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { arch::_mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { arch::_mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { arch::_mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        unsafe { arch::_mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { arch::_mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { arch::_mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        unsafe { arch::_mm512_roundscale_ps::<{ arch::_MM_FROUND_TO_NEAREST_INT | arch::_MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn scale(self, p: Self::F, n: Self::F) -> Self::F {
        unsafe { arch::_mm512_scalef_ps(p, n) }
    }
    #[inline(always)]
    fn zero_below(self, a: Self::F, b: Self::F, value: Self::F) -> Self::F {
        unsafe { arch::_mm512_maskz_mov_ps(arch::_mm512_cmp_ps_mask::<{ arch::_CMP_NLE_UQ }>(a, b), value) }
    }
    #[inline(always)]
    fn lanes(self, a: Self::F) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        unsafe { arch::_mm512_storeu_ps(out.as_mut_ptr(), a) };
        out
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        unsafe { sum8(arch::_mm256_add_ps(arch::_mm512_castps512_ps256(a), arch::_mm512_extractf32x8_ps::<1>(a))) }
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        unsafe { max8(arch::_mm256_max_ps(arch::_mm512_castps512_ps256(a), arch::_mm512_extractf32x8_ps::<1>(a))) }
    }
}

// SAFETY of every block below: `self` proves the instructions exist; pointers are the callers' promises.
impl Simd for Avx2 {
    type F = [arch::__m256; 2];
    const TILE: Tile = Tile { rows: 6, vectors: 1 };

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        unsafe { [arch::_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> Self::F {
        unsafe { [arch::_mm256_loadu_ps(p), arch::_mm256_loadu_ps(p.add(8))] }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: Self::F) {
        unsafe {
            arch::_mm256_storeu_ps(p, v[0]);
            arch::_mm256_storeu_ps(p.add(8), v[1]);
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [arch::_mm256_add_ps(a[0], b[0]), arch::_mm256_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [arch::_mm256_sub_ps(a[0], b[0]), arch::_mm256_sub_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [arch::_mm256_mul_ps(a[0], b[0]), arch::_mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [arch::_mm256_div_ps(a[0], b[0]), arch::_mm256_div_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        unsafe { [arch::_mm256_sqrt_ps(a[0]), arch::_mm256_sqrt_ps(a[1])] }
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { [arch::_mm256_max_ps(a[0], b[0]), arch::_mm256_max_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { [arch::_mm256_fmadd_ps(a[0], b[0], c[0]), arch::_mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        const NEAREST: i32 = arch::_MM_FROUND_TO_NEAREST_INT | arch::_MM_FROUND_NO_EXC;
        unsafe { [arch::_mm256_round_ps::<NEAREST>(a[0]), arch::_mm256_round_ps::<NEAREST>(a[1])] }
    }
    #[inline(always)]
    fn scale(self, p: Self::F, n: Self::F) -> Self::F {
        // Two halves so that 2^128 need not be represented.
        let one = |p, n| unsafe {
            let n = arch::_mm256_cvtps_epi32(n);
            let half = arch::_mm256_srai_epi32::<1>(n);
            let bias = arch::_mm256_set1_epi32(127);
            let low = arch::_mm256_slli_epi32::<23>(arch::_mm256_add_epi32(half, bias));
            let high = arch::_mm256_slli_epi32::<23>(arch::_mm256_add_epi32(arch::_mm256_sub_epi32(n, half), bias));
            let scaled = arch::_mm256_mul_ps(p, arch::_mm256_castsi256_ps(low));
            arch::_mm256_mul_ps(scaled, arch::_mm256_castsi256_ps(high))
        };
        [one(p[0], n[0]), one(p[1], n[1])]
    }
    #[inline(always)]
    fn zero_below(self, a: Self::F, b: Self::F, value: Self::F) -> Self::F {
        let one = |a, b, v| unsafe { arch::_mm256_and_ps(arch::_mm256_cmp_ps::<{ arch::_CMP_NLE_UQ }>(a, b), v) };
        [one(a[0], b[0], value[0]), one(a[1], b[1], value[1])]
    }
    #[inline(always)]
    fn lanes(self, a: Self::F) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        unsafe {
            arch::_mm256_storeu_ps(out.as_mut_ptr(), a[0]);
            arch::_mm256_storeu_ps(out.as_mut_ptr().add(8), a[1]);
        }
        out
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        unsafe { sum8(arch::_mm256_add_ps(a[0], a[1])) }
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        unsafe { max8(arch::_mm256_max_ps(a[0], a[1])) }
    }
}
