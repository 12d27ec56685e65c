//! GRPO: a trace is compared with its siblings.

use hone_trace::{Advantage, Credit, Group};

use super::stats::{deviation, mean};
use super::{CreditEntry, Estimator, Weights, per_group};

pub(super) const GRPO: CreditEntry = CreditEntry {
    name: "grpo",
    maths: "A = (R − mean of the group) / (sample deviation of the group + 1e-4).",
    advice: "The default. Division by the deviation makes easy and hard tasks push equally hard.",
    paper: Some("Shao et al. 2024, DeepSeekMath, arXiv:2402.03300"),
    make: Estimator::whole(|_, weights| Box::new(Grpo::new(weights, Scale::Group))),
};

pub(super) const GRPO_BATCH: CreditEntry = CreditEntry {
    name: "grpo_batch",
    maths: "A = (R − mean of the group) / (sample deviation of the batch + 1e-4).",
    advice: "As grpo, steadier for small groups.",
    paper: Some("Liu et al. 2025, Tricks or Traps? A Deep Dive into RL for LLM Reasoning, arXiv:2508.08221"),
    make: Estimator::whole(|_, weights| Box::new(Grpo::new(weights, Scale::Batch))),
};

pub(super) const DR_GRPO: CreditEntry = CreditEntry {
    name: "dr_grpo",
    maths: "A = R − mean of the group.",
    advice: "No difficulty bias: the gradient is that of the mean reward. With `loss = \"dr_grpo\"` also no length bias.",
    paper: Some("Liu et al. 2025, Understanding R1-Zero-Like Training, arXiv:2503.20783"),
    make: Estimator::whole(|_, weights| Box::new(Grpo::new(weights, Scale::None))),
};

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
