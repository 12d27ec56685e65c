//! CISPO: clip the importance weight, never the gradient.

use super::{Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const CISPO: LossEntry = LossEntry {
    name: "cispo",
    maths: "−sg[min(ρ, cap)]·A·l, cap 5; token_mean.",
    advice: "Every token keeps a gradient; robust to stale samples.",
    paper: Some("MiniMax 2025, MiniMax-M1, arXiv:2506.13585"),
    make: MakeLoss {
        hyperparameters: &[],
        build: |hyperparameters| Ok(Objective::new(Cispo::from_hyperparameters(hyperparameters), Reduction::TokenMean)),
    },
};

/// −sg[ min(ρ, cap) ] A l. Every token keeps a gradient; the cap only bounds its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cispo {
    pub cap: f64,
}

impl Cispo {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters) -> Self {
        Self { cap: hyperparameters.take("cap", 5.0) }
    }
}

impl Surrogate for Cispo {
    fn term(&self, token: &Token) -> Term {
        Term::likelihood(token, token.ratio.min(self.cap))
    }

    fn stops_gradient(&self) -> bool {
        true
    }
}
