//! RoPE (rotary position embedding) of head vectors: dimensions i and i + D/2 rotate together.

use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// Rotates each `head_dim` vector of `row` by the angle of its position: `cos` and `sin` have `head_dim / 2` entries.
pub fn forward(isa: Isa, row: &mut [f32], cos: &[f32], sin: &[f32]) {
    rotate(isa, row, cos, sin, 1.0);
}

/// Backward pass: the inverse rotation of the gradient.
pub fn backward(isa: Isa, row: &mut [f32], cos: &[f32], sin: &[f32]) {
    rotate(isa, row, cos, sin, -1.0);
}

fn rotate(isa: Isa, row: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    assert!(cos.len() == sin.len() && row.len().is_multiple_of(2 * cos.len()));
    isa.run(Rotate { row, cos, sin, sign });
}

struct Rotate<'a> {
    row: &'a mut [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    sign: f32,
}

impl Kernel for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let half = self.cos.len();
        let sign = s.splat(self.sign);
        for head in self.row.chunks_exact_mut(2 * half) {
            let (low, high) = head.split_at_mut(half);
            let ((c, c_tail), (t, t_tail)) = (self.cos.as_chunks::<LANES>(), self.sin.as_chunks::<LANES>());
            let ((a, a_tail), (b, b_tail)) = (low.as_chunks_mut::<LANES>(), high.as_chunks_mut::<LANES>());
            for (((a, b), c), t) in a.iter_mut().zip(b).zip(c).zip(t) {
                let (x, y) = rotate_pair(s, s.load(a), s.load(b), s.load(c), s.mul(s.load(t), sign));
                s.store(a, x);
                s.store(b, y);
            }
            if !a_tail.is_empty() {
                let sin = s.mul(s.load_part(t_tail), sign);
                let (x, y) = rotate_pair(s, s.load_part(a_tail), s.load_part(b_tail), s.load_part(c_tail), sin);
                s.store_part(a_tail, x);
                s.store_part(b_tail, y);
            }
        }
    }
}

#[inline(always)]
fn rotate_pair<S: Simd>(s: S, a: S::F, b: S::F, cos: S::F, sin: S::F) -> (S::F, S::F) {
    (s.sub(s.mul(a, cos), s.mul(b, sin)), s.add(s.mul(b, cos), s.mul(a, sin)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{assert_close, each_isa, noise};

    #[test]
    fn rotates_pairs_and_rotates_back() {
        each_isa(|isa| {
            for half in [8, 16, 32, 40, 3] {
                let x = noise(1, 4 * half);
                let (cos, sin): (Vec<f32>, Vec<f32>) = (0..half).map(|i| ((i as f32).cos(), (i as f32).sin())).unzip();
                let mut y = x.clone();
                forward(isa, &mut y, &cos, &sin);
                let expected: Vec<f64> = (0..4 * half)
                    .map(|i| {
                        let (head, d) = (i / (2 * half), i % (2 * half));
                        let at = |d: usize| f64::from(x[head * 2 * half + d]);
                        let (c, t) = (f64::from(cos[d % half]), f64::from(sin[d % half]));
                        if d < half { at(d) * c - at(d + half) * t } else { at(d) * c + at(d - half) * t }
                    })
                    .collect();
                assert_close(&y, &expected, 1e-6);
                // The Jacobian is a rotation: its transpose is its inverse.
                backward(isa, &mut y, &cos, &sin);
                assert_close(&y, &x.iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), 1e-6);
            }
        });
    }
}
