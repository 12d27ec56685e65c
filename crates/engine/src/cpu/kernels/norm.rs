//! RMSNorm over rows: `y = x / sqrt(mean(x^2) + eps) * w`.

use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// Normalises rows of `w.len()` floats from `x` into `y`; `rstd` gets one factor per row, for the backward pass.
pub fn forward(isa: Isa, x: &[f32], w: &[f32], eps: f32, y: &mut [f32], rstd: &mut [f32]) {
    assert!(x.len() == y.len() && x.len() == rstd.len() * w.len());
    isa.run(Forward { x, w, eps, y, rstd });
}

/// Like [`forward`], with known factors: used for recomputation.
pub fn apply(isa: Isa, x: &[f32], w: &[f32], rstd: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len() && x.len() == rstd.len() * w.len());
    isa.run(Apply { x, w, rstd, y });
}

/// Adds the input gradient to `dx` and the weight gradient, summed over the rows, to `dw`.
pub fn backward(isa: Isa, x: &[f32], w: &[f32], rstd: &[f32], dy: &[f32], dx: &mut [f32], dw: &mut [f32]) {
    assert!(x.len() == dx.len() && x.len() == dy.len() && x.len() == rstd.len() * w.len() && dw.len() == w.len());
    isa.run(Backward { x, w, rstd, dy, dx, dw });
}

struct Forward<'a> {
    x: &'a [f32],
    w: &'a [f32],
    eps: f32,
    y: &'a mut [f32],
    rstd: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.w.len();
        let rows = self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width)).zip(self.rstd);
        for ((x, y), rstd) in rows {
            let mut squares = s.splat(0.0);
            let (body, tail) = x.as_chunks::<LANES>();
            for v in body {
                let v = s.load(v);
                squares = s.fma(v, v, squares);
            }
            if !tail.is_empty() {
                let v = s.load_part(tail);
                squares = s.fma(v, v, squares);
            }
            *rstd = 1.0 / (s.sum(squares) / width as f32 + self.eps).sqrt();
            scale_row(s, x, self.w, *rstd, y);
        }
    }
}

struct Apply<'a> {
    x: &'a [f32],
    w: &'a [f32],
    rstd: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Apply<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.w.len();
        for ((x, y), &rstd) in self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width)).zip(self.rstd) {
            scale_row(s, x, self.w, rstd, y);
        }
    }
}

#[inline(always)]
fn scale_row<S: Simd>(s: S, x: &[f32], w: &[f32], rstd: f32, y: &mut [f32]) {
    let r = s.splat(rstd);
    let ((x, x_tail), (w, w_tail)) = (x.as_chunks::<LANES>(), w.as_chunks::<LANES>());
    let (y, y_tail) = y.as_chunks_mut::<LANES>();
    for ((x, w), y) in x.iter().zip(w).zip(y) {
        s.store(y, s.mul(s.load(w), s.mul(s.load(x), r)));
    }
    if !x_tail.is_empty() {
        s.store_part(y_tail, s.mul(s.load_part(w_tail), s.mul(s.load_part(x_tail), r)));
    }
}

struct Backward<'a> {
    x: &'a [f32],
    w: &'a [f32],
    rstd: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
    dw: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Out = ();

    /// With n = x rstd and g = dy w: dx = rstd (g - n mean(g n)), dw = dy n.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.w.len();
        for (row, &rstd) in self.rstd.iter().enumerate() {
            let span = row * width..(row + 1) * width;
            let (x, dy, dx) = (&self.x[span.clone()], &self.dy[span.clone()], &mut self.dx[span]);
            let r = s.splat(rstd);
            let mut dot = s.splat(0.0);
            for i in (0..width).step_by(LANES) {
                let end = (i + LANES).min(width);
                let (xv, dv, wv) = (load(s, &x[i..end]), load(s, &dy[i..end]), load(s, &self.w[i..end]));
                let n = s.mul(xv, r);
                dot = s.fma(s.mul(dv, wv), n, dot);
                let dw = &mut self.dw[i..end];
                let sum = s.fma(dv, n, load(s, dw));
                store(s, dw, sum);
            }
            let mean = s.splat(s.sum(dot) / width as f32);
            for i in (0..width).step_by(LANES) {
                let end = (i + LANES).min(width);
                let (xv, dv, wv) = (load(s, &x[i..end]), load(s, &dy[i..end]), load(s, &self.w[i..end]));
                let g = s.sub(s.mul(dv, wv), s.mul(s.mul(xv, r), mean));
                let out = s.fma(g, r, load(s, &dx[i..end]));
                store(s, &mut dx[i..end], out);
            }
        }
    }
}

#[inline(always)]
fn load<S: Simd>(s: S, x: &[f32]) -> S::F {
    if x.len() == LANES { s.load(x) } else { s.load_part(x) }
}

#[inline(always)]
fn store<S: Simd>(s: S, x: &mut [f32], v: S::F) {
    if x.len() == LANES { s.store(x, v) } else { s.store_part(x, v) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{assert_close, each_isa, finite_difference, noise};

    fn reference(x: &[f32], w: &[f32], eps: f32) -> Vec<f64> {
        let row = |x: &[f32]| {
            let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / x.len() as f64;
            let r = 1.0 / (mean + f64::from(eps)).sqrt();
            x.iter().zip(w).map(|(&x, &w)| f64::from(x) * r * f64::from(w)).collect::<Vec<_>>()
        };
        x.chunks(w.len()).flat_map(row).collect()
    }

    #[test]
    fn forward_matches_the_reference() {
        each_isa(|isa| {
            for width in [16, 48, 64, 80, 5, 33] {
                let (x, w) = (noise(1, 3 * width), noise(2, width));
                let (mut y, mut rstd) = (vec![0.0; 3 * width], vec![0.0; 3]);
                forward(isa, &x, &w, 1e-6, &mut y, &mut rstd);
                assert_close(&y, &reference(&x, &w, 1e-6), 1e-6);
                let mut again = vec![0.0; 3 * width];
                apply(isa, &x, &w, &rstd, &mut again);
                assert_eq!(y, again);
            }
        });
    }

    #[test]
    fn backward_matches_finite_differences() {
        each_isa(|isa| {
            for width in [16, 40] {
                let (x, w, dy) = (noise(3, 2 * width), noise(4, width), noise(5, 2 * width));
                let (mut y, mut rstd) = (vec![0.0; 2 * width], vec![0.0; 2]);
                forward(isa, &x, &w, 1e-6, &mut y, &mut rstd);
                let (mut dx, mut dw) = (vec![0.0; 2 * width], vec![0.0; width]);
                backward(isa, &x, &w, &rstd, &dy, &mut dx, &mut dw);
                let loss = |x: &[f32], w: &[f32]| {
                    reference(x, w, 1e-6).iter().zip(&dy).map(|(y, &d)| y * f64::from(d)).sum::<f64>()
                };
                assert_close(&dx, &finite_difference(&x, |x| loss(x, &w)), 2e-3);
                assert_close(&dw, &finite_difference(&w, |w| loss(&x, w)), 2e-3);
            }
        });
    }
}
