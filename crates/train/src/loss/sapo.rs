//! SAPO: a soft gate where PPO has a hard clip.

use hone_trace::keys;

use super::{Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const SAPO: LossEntry = LossEntry {
    name: "sapo",
    maths: "−(4/τ)σ(τ(ρ−1))A, τ 1 for A > 0 and 1.05 otherwise; sequence_mean.",
    advice: "A soft clip; nothing to tune but two temperatures.",
    paper: Some("Gao et al. 2025, Soft Adaptive Policy Optimization, arXiv:2511.20347"),
    make: MakeLoss {
        hyperparameters: keys! {
            /// Temperature of the soft gate for good tokens.
            tau_positive: f64 where over(0.0, 1e6),
            /// Temperature of the soft gate for bad tokens.
            tau_negative: f64 where over(0.0, 1e6),
        },
        build: |hyperparameters| {
            Ok(Objective::new(Sapo::from_hyperparameters(hyperparameters), Reduction::SequenceMean))
        },
    },
};

/// −(4/τ) σ(τ(ρ−1)) A, with one τ for good tokens and another for bad ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sapo {
    pub tau_positive: f64,
    pub tau_negative: f64,
}

impl Sapo {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters) -> Self {
        Self {
            tau_positive: hyperparameters.take("tau_positive", 1.0),
            tau_negative: hyperparameters.take("tau_negative", 1.05),
        }
    }
}

impl Surrogate for Sapo {
    fn term(&self, token: &Token) -> Term {
        let tau = if token.advantage > 0.0 { self.tau_positive } else { self.tau_negative };
        let gate = 1.0 / (1.0 + (-tau * (token.ratio - 1.0)).exp());
        Term {
            value: -4.0 / tau * gate * token.advantage,
            slope: -4.0 * gate * (1.0 - gate) * token.ratio * token.advantage,
            ..Term::default()
        }
    }
}
