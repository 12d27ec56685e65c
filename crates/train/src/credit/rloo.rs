//! RLOO: the baseline of a trace is the mean of the others.

use hone_trace::{Advantage, Credit, Group};

use super::stats::mean;
use super::{CreditEntry, Estimator, Weights, per_group};

pub(super) const RLOO: CreditEntry = CreditEntry {
    name: "rloo",
    maths: "A = R − mean of the others in the group.",
    advice: "Unbiased for any group size.",
    paper: Some("Ahmadian et al. 2024, Back to Basics: Revisiting REINFORCE Style Optimization, arXiv:2402.14740"),
    make: Estimator::whole(|_, weights| Box::new(Rloo { weights })),
};

/// R − mean of the others, which is n/(n−1) (R − mean of the group).
#[derive(Debug, Clone, PartialEq)]
pub struct Rloo {
    pub weights: Weights,
}

impl Credit for Rloo {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        per_group(groups, &self.weights, |rewards| {
            let count = rewards.len() as f64;
            let centre = mean(rewards);
            Ok(rewards.iter().map(|reward| count / (count - 1.0) * (reward - centre)).collect())
        })
    }
}
