//! Online log-softmax of the LM head: statistics of logits that exist one chunk of the vocabulary at a time.
//!
//! A row is read in chunks of [`VOCAB`] columns from the first to the last. Sampler and learner both do this, so a
//! token's logprob is the same, bit for bit, in sampling and in training.

use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// Columns of a chunk of logits.
pub const VOCAB: usize = 1024;

/// Online softmax statistics of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    max: f32,
    /// Sum of e^(z - max).
    sum: f64,
    /// Sum of (z - max) e^(z - max).
    weighted: f64,
}

impl Default for Stats {
    fn default() -> Self {
        Self { max: f32::NEG_INFINITY, sum: 0.0, weighted: 0.0 }
    }
}

impl Stats {
    /// Logarithm of the softmax denominator.
    pub fn lse(&self) -> f32 {
        (f64::from(self.max) + self.sum.ln()) as f32
    }

    /// Logprob of a logit that has been divided by the temperature.
    pub fn logprob(&self, z: f32) -> f32 {
        ((f64::from(z) - f64::from(self.max)) - self.sum.ln()) as f32
    }

    pub fn entropy(&self) -> f32 {
        (self.sum.ln() - self.weighted / self.sum) as f32
    }

    pub fn max(&self) -> f32 {
        self.max
    }
}

/// Divides a chunk of logits by the temperature (multiplies by its inverse) and updates the statistics with it.
pub(crate) fn absorb(isa: Isa, logits: &mut [f32], inverse_temperature: f32, stats: &mut Stats) {
    let (max, sum, weighted) = isa.run(Absorb { logits, inverse_temperature, old: stats.max });
    let shift = f64::from(stats.max) - f64::from(max);
    if shift < 0.0 && stats.sum > 0.0 {
        let factor = shift.exp();
        stats.weighted = (stats.weighted + stats.sum * shift) * factor;
        stats.sum *= factor;
    }
    stats.max = max;
    stats.sum += f64::from(sum);
    stats.weighted += f64::from(weighted);
}

/// Statistics of a whole row; divides it by the temperature in place.
pub fn row(isa: Isa, logits: &mut [f32], inverse_temperature: f32) -> Stats {
    let mut stats = Stats::default();
    for chunk in logits.chunks_mut(VOCAB) {
        absorb(isa, chunk, inverse_temperature, &mut stats);
    }
    stats
}

struct Absorb<'a> {
    logits: &'a mut [f32],
    inverse_temperature: f32,
    old: f32,
}

impl Kernel for Absorb<'_> {
    type Out = (f32, f32, f32);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Out {
        let scale = s.splat(self.inverse_temperature);
        let (body, tail) = self.logits.as_chunks_mut::<LANES>();
        let mut top = s.splat(self.old);
        for z in &mut *body {
            let v = s.mul(s.load(z), scale);
            s.store(z, v);
            // NaN may get lost here; it reaches the sums below and poisons the row visibly.
            top = s.max(top, v);
        }
        let mut last = [f32::NEG_INFINITY; LANES];
        for (to, z) in last.iter_mut().zip(tail) {
            *z *= self.inverse_temperature;
            *to = *z;
        }
        top = s.max(top, s.load(&last));
        let max = s.max_lane(top);
        let (m, floor) = (s.splat(max), s.splat(-88.0));
        let (mut sum, mut weighted) = (s.splat(0.0), s.splat(0.0));
        for z in body.iter().chain(std::iter::once(&last)) {
            let d = s.sub(s.load(z), m);
            let e = s.exp_negative(d);
            sum = s.add(sum, e);
            // -inf * 0 would not be a number; below the floor e is 0 whatever the factor.
            weighted = s.fma(e, s.max(floor, d), weighted);
        }
        (max, s.sum(sum), s.sum(weighted))
    }
}

/// Loss gradients of one row, summed over its targets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RowGrad {
    /// Sum of d loss / d logprob over the row's targets.
    pub dlogp: f32,
    /// Sum of d loss / d entropy over the row's targets.
    pub dentropy: f32,
    pub lse: f32,
    pub entropy: f32,
}

/// Logit gradient: replaces a chunk of logits by their gradient, except for the targets' own terms, which the caller
/// adds: `-dlogp p - dentropy p (log p + entropy)`, over the temperature.
pub fn gradient(isa: Isa, logits: &mut [f32], inverse_temperature: f32, grad: RowGrad) {
    isa.run(Gradient { logits, inverse_temperature, grad });
}

struct Gradient<'a> {
    logits: &'a mut [f32],
    inverse_temperature: f32,
    grad: RowGrad,
}

impl Kernel for Gradient<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (body, tail) = self.logits.as_chunks_mut::<LANES>();
        for z in body {
            let g = logit_gradient(s, s.load(z), self.inverse_temperature, self.grad);
            s.store(z, g);
        }
        if !tail.is_empty() {
            let g = logit_gradient(s, s.load_part(tail), self.inverse_temperature, self.grad);
            s.store_part(tail, g);
        }
    }
}

// A function, not a closure: a closure would not be inlined, and its vectors would travel through memory.
#[inline(always)]
fn logit_gradient<S: Simd>(s: S, z: S::F, inverse_temperature: f32, grad: RowGrad) -> S::F {
    let logp = s.sub(s.mul(z, s.splat(inverse_temperature)), s.splat(grad.lse));
    let dentropy = s.splat(-grad.dentropy * inverse_temperature);
    let dlogp = s.splat(-grad.dlogp * inverse_temperature);
    s.mul(s.exp_negative(logp), s.fma(dentropy, s.add(logp, s.splat(grad.entropy)), dlogp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::testing::{assert_close, each_isa, finite_difference, noise};

    fn reference(logits: &[f32], temperature: f64) -> (Vec<f64>, f64) {
        let z: Vec<f64> = logits.iter().map(|&v| f64::from(v) / temperature).collect();
        let top = z.iter().copied().fold(f64::MIN, f64::max);
        let lse = top + z.iter().map(|v| (v - top).exp()).sum::<f64>().ln();
        let logp: Vec<f64> = z.iter().map(|v| v - lse).collect();
        let entropy = -logp.iter().map(|l| l.exp() * l).sum::<f64>();
        (logp, entropy)
    }

    #[test]
    fn statistics_match_the_reference() {
        each_isa(|isa| {
            for (len, spread) in [(7, 1.0), (384, 5.0), (1024, 20.0), (5000, 60.0)] {
                let logits: Vec<f32> = noise(len as u64, len).iter().map(|v| v * spread).collect();
                for temperature in [1.0, 0.7] {
                    let mut z = logits.clone();
                    let stats = row(isa, &mut z, 1.0 / temperature);
                    let (logp, entropy) = reference(&logits, f64::from(temperature));
                    let found: Vec<f32> = z.iter().map(|&z| stats.logprob(z)).collect();
                    assert_close(&found, &logp, 1e-6);
                    assert!((f64::from(stats.entropy()) - entropy).abs() < 2e-5, "{} and {entropy}", stats.entropy());
                }
            }
        });
    }

    #[test]
    fn a_logit_that_is_not_a_number_poisons_the_row() {
        each_isa(|isa| {
            let mut z = noise(1, 100);
            z[40] = f32::NAN;
            assert!(row(isa, &mut z, 1.0).logprob(z[0]).is_nan());
        });
    }

    #[test]
    fn gradient_matches_finite_differences() {
        each_isa(|isa| {
            let logits = noise(9, 37);
            let (target, dlogp, dentropy, temperature) = (5, 0.8f32, -0.3f32, 0.6f32);
            let mut z = logits.clone();
            let stats = row(isa, &mut z, 1.0 / temperature);
            let mut grad = logits.clone();
            let rows = RowGrad { dlogp, dentropy, lse: stats.lse(), entropy: stats.entropy() };
            gradient(isa, &mut grad, 1.0 / temperature, rows);
            grad[target] += dlogp / temperature;
            let loss = |x: &[f32]| {
                let (logp, entropy) = reference(x, f64::from(temperature));
                f64::from(dlogp) * logp[target] + f64::from(dentropy) * entropy
            };
            assert_close(&grad, &finite_difference(&logits, loss), 2e-3);
        });
    }
}
