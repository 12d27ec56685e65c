//! REINFORCE++: a trace is compared with the whole batch.

use hone_trace::{Advantage, Credit, Group, NoSignal, Node, Trace};

use super::stats::{check_spread, mean};
use super::{CreditEntry, Estimator, Weights, no_signal};

pub(super) const REINFORCE_PP: CreditEntry = CreditEntry {
    name: "reinforce++",
    maths: "A = (R − mean) / deviation, over all sampled tokens of the batch.",
    advice: "No groups needed. If tasks differ in difficulty, use the baseline variant.",
    paper: Some("Hu 2025, REINFORCE++, arXiv:2501.03262"),
    make: Estimator::whole(|_, weights| Box::new(ReinforcePlusPlus { weights, baseline: false, epsilon: 1e-8 })),
};

pub(super) const REINFORCE_PP_BASELINE: CreditEntry = CreditEntry {
    name: "reinforce++_baseline",
    maths: "As reinforce++, after subtracting the mean of the group.",
    advice: "As grpo_batch, whitened over tokens.",
    paper: REINFORCE_PP.paper,
    make: Estimator::whole(|_, weights| Box::new(ReinforcePlusPlus { weights, baseline: true, epsilon: 1e-8 })),
};

/// (R − mean) / deviation over all sampled tokens of the batch, a trace's tokens all earning its reward.
#[derive(Debug, Clone, PartialEq)]
struct ReinforcePlusPlus {
    pub weights: Weights,
    /// Subtracts the group's mean first (REINFORCE++-baseline). Groups of one then have no signal.
    pub baseline: bool,
    pub epsilon: f64,
}

fn sampled_tokens(trace: &Trace) -> f64 {
    trace.sampled().map(|(_, node): (usize, &Node)| node.tokens().len()).sum::<usize>() as f64
}

impl ReinforcePlusPlus {
    /// Values to whiten for every trace of one group, or the reason why there are none.
    fn values(&self, group: &Group) -> Vec<Result<f64, NoSignal>> {
        let totals = self.weights.totals(group);
        let scored: Vec<f64> = totals.iter().copied().flatten().collect();
        let centre = if self.baseline { mean(&scored) } else { 0.0 };
        let alone = self.baseline && scored.len() < 2;
        let value = |total: Option<f64>| match total {
            None => Err(NoSignal::Unscored),
            Some(_) if alone => Err(NoSignal::Singleton),
            Some(total) => Ok(total - centre),
        };
        totals.into_iter().map(value).collect()
    }
}

impl Credit for ReinforcePlusPlus {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let values: Vec<Vec<_>> = groups.iter().map(|group| self.values(group)).collect();
        let traces = groups.iter().flat_map(Group::traces);
        let (present, counts): (Vec<f64>, Vec<f64>) = traces
            .zip(values.iter().flatten())
            .filter_map(|(trace, value)| Some((value.ok()?, sampled_tokens(trace))))
            .unzip();
        let spread = check_spread(&present);
        let tokens: f64 = counts.iter().sum();
        let centre = present.iter().zip(&counts).map(|(value, count)| value * count).sum::<f64>() / tokens.max(1.0);
        let squares: f64 = present.iter().zip(&counts).map(|(value, count)| (value - centre).powi(2) * count).sum();
        let deviation = (squares / (tokens - 1.0).max(1.0) + self.epsilon).sqrt();
        let advantage = |value: &Result<f64, NoSignal>| match (value, spread) {
            (Err(why), _) => Advantage::None { why: *why },
            (Ok(value), Err(why)) => no_signal(Some(*value), why),
            (Ok(value), Ok(())) => Advantage::Whole { value: (value - centre) / deviation },
        };
        values.iter().map(|group| group.iter().map(advantage).collect()).collect()
    }
}
