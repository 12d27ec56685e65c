//! RLOO: the baseline of a trace is the mean of the others.

use hone_trace::{Advantage, Credit, Group};

use super::stats::mean;
use super::{Weights, per_group};

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
