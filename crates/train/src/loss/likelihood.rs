//! Plain log-likelihood, weighted by the advantage: REINFORCE, and with an advantage of 1 the cross-entropy of SFT.

use super::{LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const REINFORCE: LossEntry = LossEntry {
    name: "reinforce",
    maths: "−A·l; token_mean.",
    advice: "On-policy only: one optimizer step per batch.",
    paper: Some("Williams 1992, Simple Statistical Gradient-Following Algorithms, doi:10.1007/BF00992696"),
    make: MakeLoss { hyperparameters: &[], build: |_| Ok(Objective::new(Likelihood, Reduction::TokenMean)) },
};

pub(super) const CROSS_ENTROPY: LossEntry = LossEntry {
    name: "cross_entropy",
    maths: "−w·l, the weight w in the advantage's place; token_mean.",
    advice: "Supervised warm start on traces that are worth imitating.",
    paper: Some(
        "Yuan et al. 2023, Scaling Relationship on Learning Mathematical Reasoning with Large Language Models \
        (rejection sampling fine-tuning), arXiv:2308.01825",
    ),
    make: MakeLoss { hyperparameters: &[], build: REINFORCE.make.build },
};

/// −A l.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Likelihood;

impl Surrogate for Likelihood {
    fn term(&self, token: &Token) -> Term {
        Term::likelihood(token, 1.0)
    }
}
