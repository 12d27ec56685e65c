//! AdamW update, and the sum of squares for the gradient norm.

use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// AdamW factors of one step, the same for a run of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    /// 1 - learning rate * decay.
    pub keep: f32,
    /// Learning rate over the first moment's bias correction.
    pub step: f32,
    /// 1 over the root of the second moment's bias correction.
    pub root: f32,
    /// Gradient scale: clipping.
    pub scale: f32,
}

/// `m` and `v` move towards the gradient and its square; the parameters decay, then step by `m / (root(v) + eps)`.
pub fn update(isa: Isa, values: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32], factors: Factors) {
    assert!(values.len() == grad.len() && values.len() == m.len() && values.len() == v.len());
    isa.run(Update { values, grad, m, v, factors });
}

/// Sum of squares.
pub fn squares(isa: Isa, x: &[f32]) -> f64 {
    // Lanes in f32 over short runs, runs in f64: precise enough for the gradients of a billion parameters.
    x.chunks(4096).map(|run| f64::from(isa.run(Squares(run)))).sum()
}

struct Update<'a> {
    values: &'a mut [f32],
    grad: &'a [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
    factors: Factors,
}

impl Kernel for Update<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (values, values_tail) = self.values.as_chunks_mut::<LANES>();
        let (grad, grad_tail) = self.grad.as_chunks::<LANES>();
        let (m, m_tail) = self.m.as_chunks_mut::<LANES>();
        let (v, v_tail) = self.v.as_chunks_mut::<LANES>();
        for (((p, g), m), v) in values.iter_mut().zip(grad).zip(m).zip(v) {
            let (np, nm, nv) = step(s, s.load(p), s.load(g), s.load(m), s.load(v), self.factors);
            s.store(p, np);
            s.store(m, nm);
            s.store(v, nv);
        }
        if !grad_tail.is_empty() {
            let old = (s.load_part(values_tail), s.load_part(grad_tail), s.load_part(m_tail), s.load_part(v_tail));
            let (np, nm, nv) = step(s, old.0, old.1, old.2, old.3, self.factors);
            s.store_part(values_tail, np);
            s.store_part(m_tail, nm);
            s.store_part(v_tail, nv);
        }
    }
}

#[inline(always)]
fn step<S: Simd>(s: S, p: S::F, g: S::F, m: S::F, v: S::F, f: Factors) -> (S::F, S::F, S::F) {
    let g = s.mul(g, s.splat(f.scale));
    let m = s.fma(s.sub(g, m), s.splat(1.0 - f.beta1), m);
    let v = s.fma(s.mul(g, g), s.splat(1.0 - f.beta2), s.mul(v, s.splat(f.beta2)));
    let root = s.fma(s.sqrt(v), s.splat(f.root), s.splat(f.eps));
    let p = s.mul(p, s.splat(f.keep));
    (s.sub(p, s.mul(s.splat(f.step), s.div(m, root))), m, v)
}

struct Squares<'a>(&'a [f32]);

impl Kernel for Squares<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let (body, tail) = self.0.as_chunks::<LANES>();
        let mut sum = s.splat(0.0);
        for x in body {
            let x = s.load(x);
            sum = s.fma(x, x, sum);
        }
        let x = s.load_part(tail);
        s.sum(s.fma(x, x, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{assert_close, each_isa, noise};

    #[test]
    fn update_matches_the_reference() {
        each_isa(|isa| {
            let n = 37;
            let (p0, g) = (noise(1, n), noise(2, n));
            let (mut p, mut m, mut v) =
                (p0.clone(), noise(3, n), noise(4, n).iter().map(|x| x * x).collect::<Vec<_>>());
            let f = Factors { beta1: 0.9, beta2: 0.95, eps: 1e-8, keep: 0.99, step: 0.01, root: 1.7, scale: 0.5 };
            let expected = |i: usize, m: &[f32], v: &[f32]| {
                let g = f64::from(g[i]) * 0.5;
                let nm = f64::from(m[i]) * 0.9 + 0.1 * g;
                let nv = f64::from(v[i]) * 0.95 + 0.05 * g * g;
                f64::from(p0[i]) * 0.99 - 0.01 * nm / (nv.sqrt() * 1.7 + 1e-8)
            };
            let expected: Vec<f64> = (0..n).map(|i| expected(i, &m, &v)).collect();
            update(isa, &mut p, &g, &mut m, &mut v, f);
            assert_close(&p, &expected, 1e-6);
        });
    }

    #[test]
    fn squares_match_and_find_what_is_not_finite() {
        each_isa(|isa| {
            let mut x = noise(5, 10_001);
            let expected: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
            assert!((squares(isa, &x) - expected).abs() < 1e-6 * expected);
            x[10_000] = f32::NAN;
            assert!(!squares(isa, &x).is_finite());
            x[10_000] = f32::INFINITY;
            assert!(!squares(isa, &x).is_finite());
        });
    }
}
