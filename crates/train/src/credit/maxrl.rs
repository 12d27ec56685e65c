//! MaxRL: hard tasks push harder, as in maximum likelihood of success.

use hone_trace::{Advantage, Credit, Group, NoSignal};

use super::stats::mean;
use super::{Weights, per_group};

/// (R − mean of the group) / (mean of the group + ε). For rewards of at least zero.
#[derive(Debug, Clone, PartialEq)]
pub struct MaxRl {
    pub weights: Weights,
    pub epsilon: f64,
}

impl Credit for MaxRl {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        per_group(groups, &self.weights, |rewards| {
            let centre = mean(rewards);
            // A mean at or below zero would turn the sign of every advantage.
            if centre <= 0.0 {
                return Err(NoSignal::NoSuccess);
            }
            Ok(rewards.iter().map(|reward| (reward - centre) / (centre + self.epsilon)).collect())
        })
    }
}
