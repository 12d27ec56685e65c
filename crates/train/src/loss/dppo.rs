//! DPPO: a trust region in probabilities instead of ratios, so that rare tokens are not clipped for moving by a hair.

use super::{Knobs, Surrogate, Term, Token};

/// −ρA, silent where the token has left the trust region and the update would push it further out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dppo {
    pub divergence: Divergence,
    /// Largest divergence for tokens with a negative advantage, and with a positive one.
    pub low: f64,
    pub high: f64,
}

/// Divergence: the change of the sampled token's probability, from μ to π.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// |π − μ|.
    TotalVariation,
    /// KL between two coins with heads μ and π.
    Kl,
}

impl Dppo {
    pub(super) fn from_knobs(knobs: &mut Knobs, divergence: Divergence, delta: f64) -> Self {
        Self { divergence, low: knobs.take("delta_low", delta), high: knobs.take("delta_high", delta) }
    }
}

impl Divergence {
    fn between(self, mu: f64, pi: f64) -> f64 {
        // x ln(x/y), continuous at x = 0.
        let part = |x: f64, y: f64| if x > 0.0 { x * (x / y).ln() } else { 0.0 };
        match self {
            Self::TotalVariation => (pi - mu).abs(),
            Self::Kl => part(mu, pi) + part(1.0 - mu, 1.0 - pi),
        }
    }
}

impl Surrogate for Dppo {
    fn term(&self, token: &Token) -> Term {
        let moved = self.divergence.between(token.anchor.exp(), token.logp.exp());
        let outward = (token.logp > token.anchor) == (token.advantage > 0.0);
        let bound = if token.advantage > 0.0 { self.high } else { self.low };
        if outward && moved > bound { Term::flat(0.0) } else { Term::weighted(token) }
    }
}
