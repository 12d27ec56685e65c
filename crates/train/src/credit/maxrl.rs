//! MaxRL: hard tasks push harder, as in maximum likelihood of success.

use hone_trace::{Advantage, Credit, Group, NoSignal};

use super::stats::mean;
use super::{CreditEntry, Estimator, Weights, per_group};

pub(super) const MAXRL: CreditEntry = CreditEntry {
    name: "maxrl",
    maths: "A = (R − mean of the group) / (mean of the group + 1e-6).",
    advice: "For rewards of at least 0, best 0 or 1: rarely solved tasks push hardest.",
    paper: Some("Tajwar et al. 2026, Maximum Likelihood Reinforcement Learning, arXiv:2602.02710"),
    make: Estimator::whole(|_, weights| Box::new(MaxRl { weights, epsilon: 1e-6 })),
};

/// (R − mean of the group) / (mean of the group + ε). For rewards of at least zero.
#[derive(Debug, Clone, PartialEq)]
struct MaxRl {
    pub weights: Weights,
    pub epsilon: f64,
}

impl Credit for MaxRl {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        per_group(groups, &self.weights, |rewards| {
            let centre = mean(rewards);
            // A mean at or below zero would flip the sign of every advantage.
            if centre <= 0.0 {
                return Err(NoSignal::NoSuccess);
            }
            Ok(rewards.iter().map(|reward| (reward - centre) / (centre + self.epsilon)).collect())
        })
    }
}
