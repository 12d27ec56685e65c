//! Helpers of the kernel tests: noise, comparison, finite differences, every instruction set.

use crate::cpu::kernels::simd::Isa;

/// Deterministic values in -1..1.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    for _ in 0..8 {
        next();
    }
    (0..len).map(|_| next()).collect()
}

/// Asserts that the values agree within `tolerance` of the largest of them.
pub(crate) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-30f64, |m, v| m.max(v.abs()));
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(f) - e).abs() <= tolerance * scale, "at {i}: found {f}, expected {e} (scale {scale})");
    }
}

/// Central differences of a double-precision function of single-precision inputs.
pub(crate) fn finite_difference(x: &[f32], f: impl Fn(&[f32]) -> f64) -> Vec<f64> {
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let (middle, step) = (x[i], 1e-3);
            x[i] = middle + step;
            let (up, high) = (f(&x), x[i]);
            x[i] = middle - step;
            let (down, low) = (f(&x), x[i]);
            x[i] = middle;
            (up - down) / (f64::from(high) - f64::from(low))
        })
        .collect()
}

/// Runs a test body on every instruction set this machine has.
pub(crate) fn each_isa(body: impl Fn(Isa)) {
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
        if isa.or_less() == isa {
            body(isa);
        } else {
            eprintln!("skipped: this machine has no {}", isa.name());
        }
    }
}
