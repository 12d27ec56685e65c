//! KL-Cov: preserves entropy by penalising the tokens that would reduce it most.

use hone_trace::keys;

use super::{Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Selector, Surrogate, Term, Token};

pub(super) const KL_COV: LossEntry = LossEntry {
    name: "kl_cov",
    maths: "−ρA, + penalty·|l−o| for the `share` (0.2) of tokens with the highest (A−mean A)(l−mean l); token_mean.",
    advice: "As clip_cov, gentler. Needs several steps per batch to act.",
    paper: Some("Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning, arXiv:2505.22617"),
    make: MakeLoss {
        hyperparameters: keys! {
            /// Weight of the penalty on selected tokens.
            penalty: f64 where real(0.0, 1e6),
        },
        build: |hyperparameters| Ok(Objective::new(KlCov::from_hyperparameters(hyperparameters), Reduction::TokenMean)),
    },
};

/// −ρA, plus a penalty on |log ρ| for the share of tokens with the highest covariance.
#[derive(Debug, Clone, Copy, PartialEq)]
struct KlCov {
    pub share: f64,
    pub penalty: f64,
}

impl KlCov {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters) -> Self {
        Self { share: hyperparameters.take("share", 0.2), penalty: hyperparameters.take("penalty", 1.0) }
    }
}

impl Surrogate for KlCov {
    fn term(&self, token: &Token) -> Term {
        let term = Term::weighted(token);
        if !token.selected || token.log_ratio == 0.0 {
            return term;
        }
        Term {
            value: term.value + self.penalty * token.log_ratio.abs(),
            slope: term.slope + self.penalty * token.log_ratio.signum(),
            ..term
        }
    }

    fn selector(&self) -> Option<&dyn Selector> {
        Some(self)
    }
}

impl Selector for KlCov {
    fn share(&self) -> f64 {
        self.share
    }

    fn score(&self, token: &Token) -> Option<f64> {
        Some(token.covariance)
    }
}
