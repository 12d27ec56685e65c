//! Clip-Cov: preserves entropy by removing the gradient of a few of the tokens that would reduce it most.

use hone_trace::keys;

use super::{Clip, Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Selector, Surrogate, Term, Token};

pub(super) const CLIP_COV: LossEntry = LossEntry {
    name: "clip_cov",
    maths: "As clip, and 0 for a random `share` (2e-4) of the tokens with (A−mean A)(l−mean l) between 1 and 5; token_mean.",
    advice: "When entropy collapses early.",
    paper: Some("Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning, arXiv:2505.22617"),
    make: MakeLoss {
        hyperparameters: keys! {
            /// Smallest covariance of a token that may be selected.
            covariance_floor: f64 where real(-1e6, 1e6),
            /// Largest covariance of a token that may be selected.
            covariance_ceiling: f64 where real(-1e6, 1e6),
        },
        build: |hyperparameters| {
            Ok(Objective::new(ClipCov::from_hyperparameters(hyperparameters), Reduction::TokenMean))
        },
    },
};

/// The clipped objective, without the gradient of a small random share of the high-covariance tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ClipCov {
    pub clip: Clip,
    pub share: f64,
    /// Covariances between these two are eligible.
    pub floor: f64,
    pub ceiling: f64,
}

impl ClipCov {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters) -> Self {
        Self {
            clip: Clip::from_hyperparameters(hyperparameters, 0.2, 0.2),
            share: hyperparameters.take("share", 2e-4),
            floor: hyperparameters.take("covariance_floor", 1.0),
            ceiling: hyperparameters.take("covariance_ceiling", 5.0),
        }
    }
}

impl Surrogate for ClipCov {
    fn term(&self, token: &Token) -> Term {
        if token.selected { Term::flat(0.0) } else { self.clip.term(token) }
    }

    fn selector(&self) -> Option<&dyn Selector> {
        Some(self)
    }
}

impl Selector for ClipCov {
    fn share(&self) -> f64 {
        self.share
    }

    fn score(&self, token: &Token) -> Option<f64> {
        let eligible = token.covariance > self.floor && token.covariance < self.ceiling;
        (eligible && !self.clip.term(token).clipped).then_some(token.draw)
    }
}
