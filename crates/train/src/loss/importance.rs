//! The importance-weighted policy gradient, unclipped, or zero outside a range.

use super::{Anchor, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const IMPORTANCE_SAMPLING: LossEntry = LossEntry {
    name: "importance_sampling",
    maths: "−ρA with ρ = e^(l−q); token_mean.",
    advice: "Plain importance sampling against the sampler, unclipped. For one optimizer step per batch.",
    paper: Some(
        "Sutton and Barto 2018, Reinforcement Learning: An Introduction, section 5.5, the textbook's importance sampling",
    ),
    make: MakeLoss {
        hyperparameters: &[],
        build: |_| Ok(Objective::new(Importance::default(), Reduction::TokenMean).against(Anchor::Sampler)),
    },
};

pub(super) const ROLLOUT_IS: LossEntry = LossEntry {
    name: "rollout_is",
    maths: "−ρA with ρ = e^(l−q), and 0 outside [1−clip_low, 1+clip_high], 0.2 and 0.2; token_mean.",
    advice: "Excludes every token on which sampler and learner disagree, good or bad.",
    paper: IMPORTANCE_SAMPLING.paper,
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| {
            let range = Some((hyperparameters.take("clip_low", 0.2), hyperparameters.take("clip_high", 0.2)));
            Ok(Objective::new(Importance { range }, Reduction::TokenMean).against(Anchor::Sampler))
        },
    },
};

/// −ρA; with a range, zero outside it, whatever the sign of the advantage.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Importance {
    /// (low, high): tokens count while 1−low ≤ ρ ≤ 1+high.
    pub range: Option<(f64, f64)>,
}

impl Surrogate for Importance {
    fn term(&self, token: &Token) -> Term {
        match self.range {
            Some((low, high)) if !(1.0 - low..=1.0 + high).contains(&token.ratio) => Term::flat(0.0),
            _ => Term::weighted(token),
        }
    }
}
