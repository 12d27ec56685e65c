//! One logical vector of 16 floats, three ways to compute with it.
//!
//! Every kernel is written once against [`Simd`] and compiled for AVX-512, AVX2 and plain Rust; the machine's best is
//! chosen at run time. All three see the same 16 lanes and the same order of operations, so AVX-512 and AVX2 agree bit
//! for bit; the portable path rounds differently only because it has no fused multiply-add.

#![expect(unsafe_code, reason = "vector intrinsics; each use is behind a token that proves the CPU has them")]

#[cfg(target_arch = "x86_64")]
mod x86;

/// Lanes of the logical vector.
pub(crate) const LANES: usize = 16;

/// An instruction set a kernel can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    Avx512,
    Avx2,
    Portable,
}

impl Isa {
    /// Best instruction set of this machine. `HONE_ISA=avx512|avx2|portable` can only lower it.
    pub fn detect() -> Self {
        let wanted = match std::env::var("HONE_ISA").as_deref() {
            Ok("portable") => Self::Portable,
            Ok("avx2") => Self::Avx2,
            _ => Self::Avx512,
        };
        wanted.or_less()
    }

    /// This instruction set if the machine has it, else the best one below it.
    #[must_use]
    pub(crate) fn or_less(self) -> Self {
        match self {
            Self::Avx512 if has_avx512() => Self::Avx512,
            Self::Avx512 | Self::Avx2 if has_avx2() => Self::Avx2,
            _ => Self::Portable,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// Runs a kernel compiled for this instruction set.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Out {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `or_less` is the only maker of `Avx512` in this crate's `Cpu`, and it asked the CPU; checked
            // again here because the enum is public and a cached bit test is cheap.
            Self::Avx512 if has_avx512() => unsafe { x86::run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the CPU was asked.
            Self::Avx2 if has_avx2() => unsafe { x86::run_avx2(kernel) },
            _ => kernel.run(Portable),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512dq") && has_avx2()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

/// Prefetches the cache line at `p` into L2. Any address will do.
#[inline(always)]
pub(crate) fn prefetch(p: *const f32) {
    #[cfg(target_arch = "x86_64")]
    x86::prefetch(p);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// A computation that is compiled once per instruction set. Implementations mark `run` `#[inline(always)]`: the body
/// must be inlined into the function that carries the target features.
pub trait Kernel {
    type Out;
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// The operations. A value of an implementor exists only where the CPU has its instructions, so the methods are safe.
pub trait Simd: Copy + Send + Sync {
    /// Sixteen floats.
    type F: Copy;
    /// Rows and vectors of the matrix tile that fit this instruction set's registers (see `matmul`).
    const TILE: Tile;

    fn splat(self, x: f32) -> Self::F;
    /// # Safety
    /// 16 floats must be readable at `p`.
    unsafe fn load_ptr(self, p: *const f32) -> Self::F;
    /// # Safety
    /// 16 floats must be writable at `p`.
    unsafe fn store_ptr(self, p: *mut f32, v: Self::F);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    fn sqrt(self, a: Self::F) -> Self::F;
    /// Maximum; `b` if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, fused where the hardware fuses.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn round(self, a: Self::F) -> Self::F;
    /// `p * 2^n` for integral `n` in -126..=128 and `p` in 0.5..2; the result may be infinite.
    fn scale(self, p: Self::F, n: Self::F) -> Self::F;
    /// `value`, but 0 in the lanes where `a <= b`.
    fn zero_below(self, a: Self::F, b: Self::F, value: Self::F) -> Self::F;
    fn lanes(self, a: Self::F) -> [f32; LANES];
    #[inline(always)]
    fn load(self, x: &[f32]) -> Self::F {
        let x = &x[..LANES];
        // SAFETY: the slice has 16 floats.
        unsafe { self.load_ptr(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: &mut [f32], v: Self::F) {
        let x = &mut x[..LANES];
        // SAFETY: the slice has 16 floats.
        unsafe { self.store_ptr(x.as_mut_ptr(), v) }
    }

    /// Loads up to 16 floats, zeros after them.
    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::F {
        let mut lanes = [0.0; LANES];
        lanes[..x.len()].copy_from_slice(x);
        self.load(&lanes)
    }

    /// Stores the first `x.len()` lanes.
    #[inline(always)]
    fn store_part(self, x: &mut [f32], v: Self::F) {
        let lanes = self.lanes(v);
        let n = x.len();
        x.copy_from_slice(&lanes[..n]);
    }

    /// Sum of the lanes, always by the same tree.
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let mut l = self.lanes(a);
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                l[i] += l[i + width];
            }
            width /= 2;
        }
        l[0]
    }

    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        let mut l = self.lanes(a);
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                l[i] = if l[i] > l[i + width] { l[i] } else { l[i + width] };
            }
            width /= 2;
        }
        l[0]
    }

    /// e^x to about one unit in the last place; 0 below -87.3, infinite above 88.7, NaN stays NaN.
    ///
    /// x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 split in two so that r is exact to rounding, and the degree-6 Taylor
    /// polynomial of e^r adjusted to that interval.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        // Clamped from above so that 2^n overflows to infinity.
        let zero = self.splat(0.0);
        self.exp_negative(self.sub(zero, self.max(self.splat(-89.0), self.sub(zero, x))))
    }

    /// Like [`Simd::exp`], for x up to 88, which covers the exponents of a softmax.
    #[inline(always)]
    fn exp_negative(self, x: Self::F) -> Self::F {
        // Clamped from below so that `n` stays a normal exponent.
        let low = self.splat(-87.3);
        let clamped = self.max(low, x);
        let n = self.round(self.mul(clamped, self.splat(std::f32::consts::LOG2_E)));
        let r = self.fma(n, self.splat(-0.693_359_4), clamped);
        let r = self.fma(n, self.splat(2.121_944_4e-4), r);
        let mut p = self.splat(1.987_569_1e-4);
        p = self.fma(p, r, self.splat(1.398_199_9e-3));
        p = self.fma(p, r, self.splat(8.333_452e-3));
        p = self.fma(p, r, self.splat(4.166_579_6e-2));
        p = self.fma(p, r, self.splat(0.166_666_66));
        p = self.fma(p, r, self.splat(0.5));
        let r2 = self.mul(r, r);
        p = self.fma(p, r2, self.add(r, self.splat(1.0)));
        self.zero_below(x, low, self.scale(p, n))
    }
}

/// Register tile of the matrix kernel: `rows` x (`vectors` * 16) accumulators.
#[derive(Debug, Clone, Copy)]
pub struct Tile {
    pub rows: usize,
    pub vectors: usize,
}

/// Plain Rust; the compiler vectorises what it can for the baseline CPU.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

macro_rules! lanewise {
    ($a:ident, $b:ident, $e:expr) => {{
        let mut out = [0.0f32; LANES];
        for i in 0..LANES {
            let ($a, $b) = ($a[i], $b[i]);
            out[i] = $e;
        }
        out
    }};
}

impl Simd for Portable {
    type F = [f32; LANES];
    const TILE: Tile = Tile { rows: 2, vectors: 1 };

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> Self::F {
        // SAFETY: the caller promises 16 floats.
        unsafe { p.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: Self::F) {
        // SAFETY: the caller promises 16 floats.
        unsafe { p.cast::<Self::F>().write_unaligned(v) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        lanewise!(a, b, a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        lanewise!(a, b, a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        lanewise!(a, b, a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        lanewise!(a, b, a / b)
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        lanewise!(a, b, if a > b { a } else { b })
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest integer; exact for |a| < 2^22, which `exp` ensures.
        let magic = self.splat(12_582_912.0);
        self.sub(self.add(a, magic), magic)
    }
    #[inline(always)]
    fn scale(self, p: Self::F, n: Self::F) -> Self::F {
        // Two halves so that 2^128 need not be represented.
        lanewise!(p, n, {
            let n = n as i32;
            let half = n / 2;
            p * f32::from_bits(((half + 127) as u32) << 23) * f32::from_bits(((n - half + 127) as u32) << 23)
        })
    }
    #[inline(always)]
    fn zero_below(self, a: Self::F, b: Self::F, value: Self::F) -> Self::F {
        let below = lanewise!(a, b, if a <= b { 1.0 } else { 0.0 });
        lanewise!(below, value, if below > 0.0 { 0.0 } else { value })
    }
    #[inline(always)]
    fn lanes(self, a: Self::F) -> [f32; LANES] {
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{each_isa, noise};

    struct Exp<'a>(&'a mut [f32]);

    impl Kernel for Exp<'_> {
        type Out = ();
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for x in self.0.as_chunks_mut::<LANES>().0 {
                let e = s.exp(s.load(x));
                s.store(x, e);
            }
        }
    }

    #[test]
    fn exp_is_exact_to_two_units_in_the_last_place() {
        each_isa(|isa| {
            let inputs: Vec<f32> = (0..16_000).map(|i| -87.0 + i as f32 * (175.0 / 16_000.0)).collect();
            let mut found = inputs.clone();
            isa.run(Exp(&mut found));
            for (&x, &e) in inputs.iter().zip(&found) {
                let exact = f64::from(x).exp();
                assert!((f64::from(e) - exact).abs() <= exact * 2.4e-7, "{}: e^{x} = {e}, exactly {exact}", isa.name());
            }
        });
    }

    struct Reduce<'a>(&'a [f32]);

    impl Kernel for Reduce<'_> {
        type Out = (f32, f32);
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> (f32, f32) {
            (s.sum(s.load(self.0)), s.max_lane(s.load(self.0)))
        }
    }

    #[test]
    fn every_instruction_set_adds_by_the_same_tree() {
        let x: Vec<f32> = noise(1, LANES).iter().enumerate().map(|(i, v)| v * 10f32.powi(i as i32 % 5)).collect();
        let expected = Isa::Portable.run(Reduce(&x));
        assert_eq!(expected.1, x.iter().copied().fold(f32::MIN, f32::max));
        each_isa(|isa| assert_eq!(isa.run(Reduce(&x)), expected, "{}", isa.name()));
    }

    #[test]
    fn exp_keeps_the_ends() {
        each_isa(|isa| {
            let mut x = [0.0; LANES];
            x[..5].copy_from_slice(&[f32::NEG_INFINITY, -100.0, 0.0, 100.0, f32::NAN]);
            isa.run(Exp(&mut x));
            assert_eq!(x[..4], [0.0, 0.0, 1.0, f32::INFINITY]);
            assert!(x[4].is_nan());
        });
    }
}
