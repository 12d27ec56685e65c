//! GDPO: every reward component is normalised by itself, so that none drowns the others.

use hone_trace::{Advantage, Credit, Group, NoSignal};

use super::{CreditEntry, Estimator, Weights};

pub(super) const GDPO: CreditEntry = CreditEntry {
    name: "gdpo",
    maths: "S = Σ weight × (r − mean of the group) / (deviation of the group + 1e-4) over components; A = S whitened over the batch.",
    advice: "For several rewards of different scale or sparsity.",
    paper: Some("Liu et al. 2026, GDPO, arXiv:2601.05242"),
    make: Estimator { by_component: true, ..Estimator::whole(|_, weights| Box::new(Gdpo { weights, epsilon: 1e-4 })) },
};
use super::stats::{check_spread, deviation, mean};

/// Sum over components of weight × (r − mean of the group) / (deviation of the group + ε), whitened over the batch.
#[derive(Debug, Clone, PartialEq)]
struct Gdpo {
    pub weights: Weights,
    pub epsilon: f64,
}

/// Normalised sum of one trace, and whether any component has variance.
#[derive(Clone, Copy)]
struct Sum {
    value: f64,
    why_not: Option<NoSignal>,
}

impl Gdpo {
    /// `None` for a trace on which no component was scored.
    fn sums(&self, group: &Group) -> Vec<Option<Sum>> {
        let mut sums: Vec<Option<Sum>> = vec![None; group.traces().len()];
        for (component, weight) in self.weights.components() {
            let rewards: Vec<_> = group.traces().iter().map(|trace| trace.reward(component)).collect();
            let scored: Vec<f64> = rewards.iter().copied().flatten().collect();
            let spread = check_spread(&scored);
            let centre = mean(&scored);
            let divisor = deviation(&scored).map(|deviation| deviation + self.epsilon);
            for (sum, reward) in sums.iter_mut().zip(rewards) {
                let Some(reward) = reward else { continue };
                let sum = sum.get_or_insert(Sum { value: 0.0, why_not: spread.err() });
                // Alone in its group on this component: nothing to compare with, so it adds nothing.
                sum.value += divisor.map_or(0.0, |divisor| weight * (reward - centre) / divisor);
                sum.why_not = match (sum.why_not, spread) {
                    (Some(_), Err(why)) => Some(why),
                    _ => None,
                };
            }
        }
        sums
    }
}

impl Credit for Gdpo {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let sums: Vec<Vec<_>> = groups.iter().map(|group| self.sums(group)).collect();
        let present: Vec<f64> = sums.iter().flatten().flatten().map(|sum| sum.value).collect();
        let centre = mean(&present);
        let divisor = deviation(&present).unwrap_or(0.0) + self.epsilon;
        let advantage = |sum: &Option<Sum>| match sum {
            None => Advantage::None { why: NoSignal::Unscored },
            Some(Sum { why_not: Some(why), .. }) => Advantage::None { why: *why },
            Some(Sum { value, .. }) => Advantage::Whole { value: (value - centre) / divisor },
        };
        sums.iter().map(|group| group.iter().map(advantage).collect()).collect()
    }
}
