//! DPPO: a trust region in probabilities instead of ratios, so that rare tokens are not clipped for tiny moves.

use hone_trace::keys;

use super::{Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const DPPO: LossEntry = LossEntry {
    name: "dppo",
    maths: "−ρA, and 0 where |π−μ| is over delta_high (A > 0, π > μ) or delta_low (A < 0, π < μ), 0.2 and 0.2; token_mean.",
    advice: "A trust region in probability: rare tokens may move freely, likely ones may not.",
    paper: Some("Qi et al. 2026, Rethinking the Trust Region in LLM Reinforcement Learning, arXiv:2602.04879"),
    make: MakeLoss {
        hyperparameters: keys! {
            /// Trust region of bad tokens, as a divergence.
            delta_low: f64 where real(0.0, 1e6),
            /// Trust region of good tokens, as a divergence.
            delta_high: f64 where real(0.0, 1e6),
        },
        build: |hyperparameters| {
            Ok(Objective::new(
                Dppo::from_hyperparameters(hyperparameters, Divergence::TotalVariation, 0.2),
                Reduction::TokenMean,
            ))
        },
    },
};

pub(super) const DPPO_KL: LossEntry = LossEntry {
    name: "dppo_kl",
    maths: "As dppo with μ ln(μ/π) + (1−μ) ln((1−μ)/(1−π)) for |π−μ|, deltas 0.05; token_mean.",
    advice: "As dppo; stricter for tokens near probability 0 or 1.",
    paper: DPPO.paper,
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            Ok(Objective::new(Dppo::from_hyperparameters(hyperparameters, Divergence::Kl, 0.05), Reduction::TokenMean))
        },
    },
};

/// −ρA, without a gradient if the token has left the trust region and the update would push it further out.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Dppo {
    pub divergence: Divergence,
    /// Largest divergence for tokens with a negative advantage, and with a positive one.
    pub low: f64,
    pub high: f64,
}

/// Divergence: the change of the sampled token's probability, from μ to π.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Divergence {
    /// |π − μ|.
    TotalVariation,
    /// KL between Bernoulli distributions with probabilities μ and π.
    Kl,
}

impl Dppo {
    pub(super) fn from_hyperparameters(
        hyperparameters: &mut Hyperparameters,
        divergence: Divergence,
        delta: f64,
    ) -> Self {
        Self {
            divergence,
            low: hyperparameters.take("delta_low", delta),
            high: hyperparameters.take("delta_high", delta),
        }
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
