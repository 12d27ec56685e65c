//! GRPO: a trace is compared with its siblings.

use hone_trace::{Advantage, Credit, Group};

use super::stats::{deviation, mean};
use super::{Weights, per_group};

/// (R − mean of the group) / (a deviation + ε).
#[derive(Debug, Clone, PartialEq)]
pub struct Grpo {
    pub weights: Weights,
    pub scale: Scale,
    pub epsilon: f64,
}

/// Divisor of the centred rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The group's own deviation: easy and hard tasks push equally hard.
    Group,
    /// The deviation of all rewards of the batch.
    Batch,
    /// Nothing (Dr.GRPO).
    None,
}

impl Grpo {
    pub fn new(weights: Weights, scale: Scale) -> Self {
        Self { weights, scale, epsilon: 1e-4 }
    }
}

impl Credit for Grpo {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let all: Vec<f64> = groups.iter().flat_map(|group| self.weights.totals(group)).flatten().collect();
        let batch = deviation(&all).unwrap_or(0.0);
        per_group(groups, &self.weights, |rewards| {
            let centre = mean(rewards);
            let divisor = match self.scale {
                Scale::Group => deviation(rewards).unwrap_or(0.0) + self.epsilon,
                Scale::Batch => batch + self.epsilon,
                Scale::None => 1.0,
            };
            Ok(rewards.iter().map(|reward| (reward - centre) / divisor).collect())
        })
    }
}
