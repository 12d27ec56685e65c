//! VESPO: one smooth weight per sequence, highest near the policy that sampled it.

use super::{Knobs, Surrogate, Term, Token};

/// −sg[ φ(x) ] A l, φ(x) = exp(λ + kx − λeˣ), x the sequence's drift. φ(0) = 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vespo {
    /// (k, λ) of sequences with an advantage of at least zero.
    pub positive: (f64, f64),
    pub negative: (f64, f64),
}

/// The drift φ is evaluated at is held in ln(1e-8) ..= 20, as in the published loss.
const DRIFT: (f64, f64) = (-18.420_680_743_952_367, 20.0);

impl Vespo {
    pub(super) fn from_knobs(knobs: &mut Knobs) -> Self {
        Self {
            positive: (knobs.take("k_positive", 2.0), knobs.take("lambda_positive", 3.0)),
            negative: (knobs.take("k_negative", 3.0), knobs.take("lambda_negative", 2.0)),
        }
    }
}

impl Surrogate for Vespo {
    fn term(&self, token: &Token) -> Term {
        let (k, lambda) = if token.advantage >= 0.0 { self.positive } else { self.negative };
        let x = token.drift.clamp(DRIFT.0, DRIFT.1);
        Term::likelihood(token, (lambda + k * x - lambda * x.exp()).exp())
    }

    fn absorbs_correction(&self) -> bool {
        true
    }
}
