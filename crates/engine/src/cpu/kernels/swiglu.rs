//! SwiGLU, the gated activation of the MLP: `h = silu(gate) * up`.

use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// Rows of `gate_up` hold the gates, then the ups; rows of `h` are half as wide.
pub fn forward(isa: Isa, gate_up: &[f32], width: usize, h: &mut [f32]) {
    assert!(gate_up.len() == 2 * h.len() && h.len().is_multiple_of(width));
    isa.run(Forward { gate_up, width, h });
}

/// Backward pass: replaces `gate_up` by its gradient, given that of h; `h` gets the forward value again, which the
/// gradient of the down projection needs.
pub fn backward(isa: Isa, gate_up: &mut [f32], width: usize, dh: &[f32], h: &mut [f32]) {
    assert!(gate_up.len() == 2 * dh.len() && h.len() == dh.len() && dh.len().is_multiple_of(width));
    isa.run(Backward { gate_up, width, dh, h });
}

struct Forward<'a> {
    gate_up: &'a [f32],
    width: usize,
    h: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (row, h) in self.gate_up.chunks_exact(2 * self.width).zip(self.h.chunks_exact_mut(self.width)) {
            let (gate, up) = row.split_at(self.width);
            let ((g, g_tail), (u, u_tail)) = (gate.as_chunks::<LANES>(), up.as_chunks::<LANES>());
            let (h, h_tail) = h.as_chunks_mut::<LANES>();
            for ((g, u), h) in g.iter().zip(u).zip(h) {
                let g = s.load(g);
                s.store(h, s.mul(s.mul(g, sigmoid(s, g)), s.load(u)));
            }
            if !g_tail.is_empty() {
                let g = s.load_part(g_tail);
                s.store_part(h_tail, s.mul(s.mul(g, sigmoid(s, g)), s.load_part(u_tail)));
            }
        }
    }
}

struct Backward<'a> {
    gate_up: &'a mut [f32],
    width: usize,
    dh: &'a [f32],
    h: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.gate_up.chunks_exact_mut(2 * self.width);
        for ((row, dh), h) in rows.zip(self.dh.chunks_exact(self.width)).zip(self.h.chunks_exact_mut(self.width)) {
            let (gate, up) = row.split_at_mut(self.width);
            let ((g, g_tail), (u, u_tail)) = (gate.as_chunks_mut::<LANES>(), up.as_chunks_mut::<LANES>());
            let ((d, d_tail), (h, h_tail)) = (dh.as_chunks::<LANES>(), h.as_chunks_mut::<LANES>());
            for (((g, u), d), h) in g.iter_mut().zip(u).zip(d).zip(h) {
                let (dg, du, value) = gradient(s, s.load(g), s.load(u), s.load(d));
                s.store(g, dg);
                s.store(u, du);
                s.store(h, value);
            }
            if !g_tail.is_empty() {
                let (dg, du, value) = gradient(s, s.load_part(g_tail), s.load_part(u_tail), s.load_part(d_tail));
                s.store_part(g_tail, dg);
                s.store_part(u_tail, du);
                s.store_part(h_tail, value);
            }
        }
    }
}

#[inline(always)]
fn sigmoid<S: Simd>(s: S, g: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, s.exp(s.sub(s.splat(0.0), g))))
}

/// With a = sigmoid(g): d(silu) = a (1 + g (1 - a)).
#[inline(always)]
fn gradient<S: Simd>(s: S, g: S::F, u: S::F, dh: S::F) -> (S::F, S::F, S::F) {
    let one = s.splat(1.0);
    let a = sigmoid(s, g);
    let silu = s.mul(g, a);
    let dsilu = s.mul(a, s.fma(g, s.sub(one, a), one));
    (s.mul(s.mul(dh, u), dsilu), s.mul(dh, silu), s.mul(silu, u))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{assert_close, each_isa, finite_difference, noise};

    fn reference(gate_up: &[f32], width: usize) -> Vec<f64> {
        let row = |r: &[f32]| {
            let silu = |g: f64| g / (1.0 + (-g).exp());
            (0..width).map(|i| silu(f64::from(r[i])) * f64::from(r[width + i])).collect::<Vec<_>>()
        };
        gate_up.chunks(2 * width).flat_map(row).collect()
    }

    #[test]
    fn forward_matches_the_reference_even_far_out() {
        each_isa(|isa| {
            for width in [16, 20, 96] {
                let mut x = noise(1, 4 * width);
                x[0] = 100.0;
                x[1] = -100.0;
                x[2] = -88.0;
                let mut h = vec![0.0; 2 * width];
                forward(isa, &x, width, &mut h);
                assert_close(&h, &reference(&x, width), 1e-6);
            }
        });
    }

    #[test]
    fn backward_matches_finite_differences() {
        each_isa(|isa| {
            let width = 20;
            let (x, dh) = (noise(2, 4 * width), noise(3, 2 * width));
            let (mut grad, mut h) = (x.clone(), vec![0.0; 2 * width]);
            backward(isa, &mut grad, width, &dh, &mut h);
            assert_close(&h, &reference(&x, width), 1e-6);
            let loss = |x: &[f32]| reference(x, width).iter().zip(&dh).map(|(y, &d)| y * f64::from(d)).sum::<f64>();
            assert_close(&grad, &finite_difference(&x, loss), 2e-3);
        });
    }
}
